"""Projects that use the plugin: writing their files and running pytest on them."""

import os
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "test-your-handler.md"
_FILE = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Plugins of this repository's tests that take seconds to load and that the project does not use.
_OTHER_PLUGINS = ("schemathesis", "hypothesispytest", "randomly", "anyio")


def guide_files() -> dict[str, str]:
    """Return the files that the guide shows, by name."""
    return dict(_FILE.findall(GUIDE.read_text()))


def write(folder: Path, files: dict[str, str]) -> None:
    (folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n')
    for name, text in files.items():
        (folder / name).write_text(text)


def run(
    folder: Path, *words: str, python: str = sys.executable, module: str = "pytest"
) -> subprocess.CompletedProcess[str]:
    """Run a module in a project, without the options and variables of this test run."""
    ours = ("PYTEST", "COV_", "FAIRWARNING", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    kept["PYTEST_ADDOPTS"] = " ".join(f"-p no:{name}" for name in _OTHER_PLUGINS)
    return subprocess.run(
        [python, "-m", module, *words], cwd=folder, env=kept, text=True, capture_output=True, timeout=90
    )
