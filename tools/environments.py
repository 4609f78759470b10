"""Programs by others from PyPI: each list of pinned versions has an environment of its own per Python."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = (Path(__file__).parents[1] / ".cache" / "environments").resolve()


def environment(requirements: Path) -> Path:
    """Return the folder of the programs that a file of pinned versions lists.

    Modules in a folder beside the file, of the same name, are installed with them.
    """
    identity = (requirements.read_text(), sys.version, sys.base_prefix)
    digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:12]
    home = CACHE / f"{requirements.parent.name}-{requirements.stem}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            _install(home, requirements)
            (home / "complete").touch()
    return home / "bin"


def _install(home: Path, requirements: Path) -> None:
    python = str(home / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    # uv installs many times faster than pip.
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-input", "uv"], check=True)
    install = ["pip", "install", "--quiet", "--no-deps", "--requirement", str(requirements)]
    if subprocess.run([python, "-m", "uv", *install, "--python", python]).returncode:
        # pip may be configured with a mirror that uv does not know.
        subprocess.run([python, "-m", *install, "--no-input"], check=True)
    if (more := requirements.with_suffix("")).is_dir():
        (packages,) = home.glob("lib/python3*/site-packages")
        shutil.copytree(more, packages, dirs_exist_ok=True)
