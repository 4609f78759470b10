"""``./dev release``: the same commit gives the same artefacts, wherever the checkout is."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fairwarning
from tests.pages import Page
from tools.environments import CACHE, environment
from tools.release.__main__ import main
from tools.release.assembly import build_alone
from tools.release.builders import BUILDERS, PROGRAMS
from tools.release.chart import semantic
from tools.release.installations import pythons
from tools.release.programs import PACKAGES, missing
from tools.release.version import UNRELEASED, Sources, is_release

ROOT = Path(__file__).parents[2]

#: These need neither root nor programs of Debian.
PLAIN = ("sdist", "wheel", "agent", "manuals", "completions", "sbom")

#: Another user's shell: no rights for others on new and on checked out files, another time zone and language.
ELSEWHERE = "umask 077 && chmod -R go= . && export TZ=Asia/Tokyo LC_ALL=POSIX"

#: Builds an sdist of the working directory, and prints the folders that it reads on the way.
FOLDERS_READ = """
import sys
from hatchling.build import build_sdist
sys.addaudithook(lambda event, arguments: event == "os.scandir" and print(arguments[0]))
build_sdist(sys.argv[1])
"""


def checkout(folder: Path, *, of: Path = ROOT, branch: str = "HEAD") -> Path:
    """Return a clone of a commit that shares the environments of this checkout."""
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", of, folder], check=True)
    subprocess.run(["git", "checkout", "--quiet", branch], cwd=folder, check=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    (folder / ".cache").mkdir()
    (folder / ".cache" / CACHE.name).symlink_to(CACHE)
    return folder


def with_changes(checkout: Path) -> Path:
    """Return a checkout that has something to release, even if its commit is a release."""
    sources = Sources(checkout)
    if is_release(sources.version()):
        sources.open_next("8.9.0")
        text = sources.changelog.read_text()
        sources.changelog.write_text(text.replace(UNRELEASED, f"{UNRELEASED}\n\n- A change.", 1))
        run(checkout, "git commit --all --message 'Change something'")
    return checkout


def release(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a checkout, with the sources of that checkout."""
    command = [sys.executable, "-m", "tools.release", *words]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)


def run(checkout: Path, text: str) -> None:
    """Type a command in a checkout."""
    author = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    environment = {**os.environ, **dict.fromkeys(author, "someone@example.org"), "GIT_PAGER": "cat"}
    done = subprocess.run(
        text,
        shell=True,
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def digests(dist: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in dist.iterdir()}


@pytest.mark.slow
@pytest.mark.timeout(600)  # a busy machine takes minutes
@pytest.mark.needs("git")
def test_two_checkouts_of_one_commit_give_the_same_bytes(tmp_path: Path) -> None:
    checkouts = [checkout(tmp_path / name) for name in ("here", "a folder with another name")]
    words = " ".join(PLAIN)

    run(checkouts[0], f"PYTHONPATH=src {sys.executable} -m tools.release {words}")
    run(checkouts[1], f"{ELSEWHERE} && PYTHONPATH=src {sys.executable} -m tools.release {words}")

    here, there = (digests(folder / "dist") for folder in checkouts)
    assert len(here) == len(PLAIN)
    assert here == there


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.needs("git")
def test_a_build_does_not_read_what_git_ignores(tmp_path: Path) -> None:
    clone = checkout(tmp_path / "here")
    python = environment(ROOT / "tools" / "release" / "distributions.txt") / "python"

    command = [str(python), "-c", FOLDERS_READ, str(tmp_path)]
    done = subprocess.run(command, cwd=clone, check=True, capture_output=True, text=True)

    folders = {Path(line).relative_to(clone).parts[:1] for line in done.stdout.splitlines()}
    assert ("src",) in folders
    assert (".cache",) not in folders


@pytest.mark.full
@pytest.mark.needs("git", "root", "podman", "mmdebstrap", "strip")
@pytest.mark.runs("docs/releasing.md")
def test_the_page_leads_to_a_release_and_another_checkout_gives_the_same_bytes(tmp_path: Path) -> None:
    first = with_changes(checkout(tmp_path / "here"))
    for command in Page("docs/releasing.md").commands():
        with command.running() as text:
            # The version of the page may be released already.
            run(first, text.replace("0.2.0", "9.0.0").replace("0.3.0", "9.1.0"))
    second = checkout(tmp_path / "a folder with another name", of=first, branch="v9.0.0")

    run(second, f"{ELSEWHERE} && ./dev release")

    here, there = (digests(folder / "dist") for folder in (first, second))
    assert here == there
    manifest = json.loads((second / "dist" / "manifest.json").read_text())
    listed = {entry["artefact"]: entry["sha256"] for entry in manifest["artefacts"]}
    assert listed == {name: here[name] for name in here if name not in ("manifest.json", "SHA256SUMS")}
    assert {entry["kind"] for entry in manifest["artefacts"]} == set(BUILDERS)
    assert (manifest["version"], manifest["without"]) == ("9.0.0", [])
    assert 'version__ = "9.1.0.dev0"' in (first / "src" / "fairwarning" / "__init__.py").read_text()


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_release_of_something_else_than_a_commit_is_refused(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "clone")
    (folder / "notes.txt").touch()

    done = release(folder)

    assert done.returncode == 1
    assert done.stderr == "release: commit or remove these changes first:\n?? notes.txt\n"
    assert not (folder / "dist").exists()


@pytest.mark.slow
@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "strange",
    [
        pytest.param("thesis.txt", id="a file with another name is not part of a release"),
        pytest.param("fairwarning-0.1.0/thesis.txt", id="a folder is not part of a release"),
    ],
)
def test_a_folder_with_other_files_is_not_emptied(strange: str, tmp_path: Path) -> None:
    folder = checkout(tmp_path / "clone")
    dist = tmp_path / "dist"
    file = dist / strange
    file.parent.mkdir(parents=True)
    file.touch()

    done = release(folder, "--dist", str(dist))

    assert done.returncode == 1
    assert "is not part of a release; remove it, or choose another --dist" in done.stderr
    assert file.exists()


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_closed_release_is_built_and_an_artefact_left_out_is_named(tmp_path: Path) -> None:
    folder = with_changes(checkout(tmp_path / "clone"))
    without = [word for name in BUILDERS if name not in ("agent", "manuals") for word in ("--without", name)]

    closed = release(folder, "--close", "9.0.0")
    run(folder, "git commit --all --message 'Release 9.0.0'")
    done = release(folder, *without)

    assert closed.stdout == (
        "release: add the data of this release: .venv/bin/python -m tests.fixtures.write_release\n"
        "release: review the changes, commit them, tag the commit v9.0.0, run ./dev release\n"
    )
    assert done.returncode == 0, done.stderr
    assert "rehearsal" not in done.stdout
    manifest = json.loads((folder / "dist" / "manifest.json").read_text())
    assert manifest["version"] == "9.0.0"
    assert manifest["without"] == sorted(set(BUILDERS) - {"agent", "manuals"})
    assert [entry["artefact"] for entry in manifest["artefacts"]] == [
        "fairwarning-agent.pyz",
        "fairwarning-9.0.0-manuals.tar.gz",
    ]


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_tag_that_names_another_version_is_refused(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "clone")
    subprocess.run(["git", "tag", "v9.0.0"], cwd=folder, check=True)

    done = release(folder)

    assert done.returncode == 1
    expected = f"release: the commit has the tag v9.0.0, but its version is {fairwarning.__version__}\n"
    assert done.stderr == expected


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_tag_of_the_work_between_two_releases_is_refused(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "clone")
    Sources(folder).module.write_text('__version__ = "9.0.0.dev0"\n')
    run(folder, "git commit --all --message 'Begin 9.0.0' && git tag v9.0.0.dev0")

    done = release(folder)

    assert done.returncode == 1
    assert done.stderr == (
        "release: the commit has the tag v9.0.0.dev0, but 9.0.0.dev0 is not a release; remove the tag\n"
    )


@pytest.mark.needs("git")
def test_an_artefact_alone_replaces_its_other_versions_and_ends_a_complete_release(tmp_path: Path) -> None:
    replaced = ["fairwarning-0.1.0-completions.tar.gz", "fairwarning-agent-0.1.0-dev.0.tgz"]
    kept = [
        "fairwarning-0.1.0.tar.gz",
        "fairwarning-0.1.0-manuals.tar.gz",
        "fairwarning-agent_0.1.0-1_all.deb",
    ]
    for name in (*replaced, *kept, "manifest.json", "SHA256SUMS"):
        (tmp_path / name).touch()

    build_alone(tmp_path, ["chart", "completions"])

    left = {path.name for path in tmp_path.iterdir()}
    version = fairwarning.__version__
    built = {f"fairwarning-{version}-completions.tar.gz", f"fairwarning-agent-{semantic(version)}.tgz"}
    assert left == {*kept, *built}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(
            "--close 9.0.0 --open 9.1.0",
            "argument --open: not allowed with argument --close",
            id="a release is closed, and the next one begins later",
        ),
        pytest.param("agent --without image", "--without leaves", id="an artefact alone leaves nothing out"),
        pytest.param("agent --close 9.0.0", "only edit the sources", id="closing builds nothing"),
        pytest.param("agent --open 9.0.0", "only edit the sources", id="opening builds nothing"),
        pytest.param(
            "--without image --close 9.0.0", "only edit the sources", id="closing leaves nothing out"
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    words: str, complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["release", *words.split()])

    with pytest.raises(SystemExit) as refusal:
        main()

    assert refusal.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_python_that_does_not_start_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python3.99").symlink_to("removed")
    (tmp_path / "python3.98").touch(mode=0o644)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    found = pythons()

    assert tmp_path not in {path.parent for path in found.values()}


@pytest.mark.parametrize(
    ("words", "packages"),
    [
        pytest.param("chart", {"git"}, id="every build"),
        pytest.param("agent server-deb", {"binutils", "git", "python3"}, id="some artefacts"),
        pytest.param("sdist image", {"conmon", "crun", "git", "mmdebstrap", "podman"}, id="the image"),
        pytest.param("", {"binutils", "crun", "git", "mmdebstrap", "podman"}, id="the whole release"),
        pytest.param("--without image", {"binutils", "git"}, id="a release without the image"),
    ],
)
def test_all_missing_programs_are_named_with_their_packages_before_anything_is_built(
    words: str, packages: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["release", *words.split(), "--dist", str(tmp_path / "dist")])

    with pytest.raises(SystemExit) as refusal:
        main()

    text = str(refusal.value.code)
    (install,) = re.findall(r"^install them with: apt-get install (.*)$", text, re.MULTILINE)
    assert text.startswith("release: nothing was built; this machine lacks\n")
    assert packages <= set(install.split())
    assert [package for package in packages if f" (Debian package {package})\n" not in text] == []
    assert not (tmp_path / "dist").exists()


def test_a_program_may_have_alternatives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    before = missing(["crun or runc"])
    (tmp_path / "runc").touch(mode=0o755)

    assert (before, missing(["crun or runc"])) == (["crun or runc"], [])


def test_builders_run_no_program_that_was_not_looked_for() -> None:
    looked_for = {"git", *(name for names in PROGRAMS.values() for name in names)}
    sources = (path.read_text() for path in (ROOT / "tools" / "release").glob("*.py"))
    used = {name for source in sources for name in re.findall(r'\bprogram\("([^"]+)"\)', source)}

    assert used <= looked_for == set(PACKAGES)
