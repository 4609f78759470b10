"""The files of operators: only regular files of a limited size are read, and every problem has its place."""

import os
import re
import stat
from pathlib import Path

import pytest

from fairwarning.config.operator_file import FileKind, UnusableFileError, read_operator_file
from fairwarning.config.read_file import ConfigError
from fairwarning.config.serve_settings import load
from tests.config.files import SQLITE, secret, write

#: What a path of the settings can lead to, and why it is not read.
NOT_REGULAR = {
    "/dev/zero": "it is not a regular file",
    "/dev/null": "it is not a regular file",
    "fifo": "it is not a regular file",
    "link to a fifo": "it is not a regular file",
    "folder": "Is a directory",
    "missing": "No such file or directory",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with what is no regular file."""
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "link to a fifo").symlink_to("fifo")
    (tmp_path / "folder").mkdir()
    return tmp_path


def problem(folder: Path, text: str) -> str:
    """Return the one problem of a file, without the path of its folder."""
    with pytest.raises(ConfigError) as refused:
        load(write(folder, text), {})
    (text,) = refused.value.problems
    return text.replace(f"{folder}/", "")


@pytest.mark.parametrize("name", NOT_REGULAR)
@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param('[operator]\ntoken_file = "{}"', "[operator] token_file", id="a token"),
        pytest.param('[management]\ntoken_file = "{}"', "[management] token_file", id="a client secret"),
        pytest.param('[tls]\ncertificate = "{}"\nkey = "key"', "[tls] certificate", id="a certificate"),
        pytest.param('[tls]\ncertificate = "key"\nkey = "{}"', "[tls] key", id="a key"),
        pytest.param('[inventory]\nfile = "{}"', "[inventory] file", id="an inventory"),
    ],
)
def test_only_regular_files_are_read(folder: Path, text: str, place: str, name: str) -> None:
    secret(folder, "key")

    refusal = problem(folder, f"{text.format(name)}\n{SQLITE}")

    assert refusal == f"fleet.toml: {place}: {name} cannot be read: {NOT_REGULAR[name]}"


@pytest.mark.parametrize("name", NOT_REGULAR)
def test_only_a_regular_file_is_the_file_of_serve(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(folder / name, {})

    assert refused.value.problems == (f"{folder / name}: cannot be read: {NOT_REGULAR[name]}",)


def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    text = f'[operator]\ntoken_file = "a\\u0000b"\n{SQLITE}'

    refusal = problem(tmp_path, text)

    assert refusal.endswith("[operator] token_file: a\0b cannot be read: no file can have this name")


def test_an_address_of_a_database_is_read_from_a_regular_file(folder: Path) -> None:
    text = '[store]\nkind = "postgres"\ndsn_file = "fifo"'

    assert problem(folder, text).endswith("[store] dsn_file: fifo cannot be read: it is not a regular file")


@pytest.mark.parametrize("kind", FileKind)
def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, kind: FileKind) -> None:
    path = tmp_path / "large"
    path.touch(mode=0o600)
    os.truncate(path, kind.most)
    assert len(read_operator_file(path, kind).content) == kind.most
    os.truncate(path, kind.most + 1)

    with pytest.raises(UnusableFileError, match=rf"^{path} is too large: {kind} may have "):
        read_operator_file(path, kind)


def test_the_limits_are_stated() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text()

    assert {kind: kind.largest for kind in FileKind} == {
        FileKind.SETTINGS: "1 MB",
        FileKind.SECRET: "4 KB",
        FileKind.CERTIFICATE: "1 MB",
        FileKind.INVENTORY: "64 MB",
    }
    assert [kind for kind in FileKind if kind.largest not in page] == []


def test_a_file_that_says_it_is_empty_is_read_up_to_the_limit() -> None:
    # Files of the kernel are regular, and have no size.
    status = Path("/proc/self/status").stat()
    assert (stat.S_ISREG(status.st_mode), status.st_size) == (True, 0)

    assert b"Name:" in read_operator_file(Path("/proc/self/status"), FileKind.SECRET).content


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        pytest.param(
            f"a = 1\nb = {'[' * 5000}{']' * 5000}\n",
            "nests too deeply (at line 2)",
            id="arrays inside arrays",
        ),
        pytest.param(
            f"a = 1\n\nb = {'{a=' * 5000}1{'}' * 5000}\n",
            "nests too deeply (at line 3)",
            id="tables inside tables",
        ),
        pytest.param(
            f"a = 1\n{'.'.join('a' * 50_000)} = 1\n",
            "has a key of more than 16 parts (at line 2)",
            id="a key of many parts",
        ),
        pytest.param(
            f"""a = '''\n'''\n{".".join(['"a.b"'] * 50_000)} = 1\n""",
            "has a key of more than 16 parts (at line 3)",
            id="a key of many quoted parts",
        ),
        pytest.param(
            f"[{' . '.join('a' * 50_000)}]\n",
            "has a key of more than 16 parts (at line 1)",
            id="a table of many parts",
        ),
        pytest.param(
            f"a = {{ {'.'.join('a' * 50_000)} = 1 }}\n",
            "has a key of more than 16 parts (at line 1)",
            id="a key of many parts in a table",
        ),
        pytest.param(f"b = {'9' * 5000}\n", "has a number that is too long (at line 1)", id="a long number"),
        pytest.param("a = 1\nb = \n", "is not TOML: Invalid value (at line 2, column 5)", id="no value"),
        pytest.param("a = 1\nb = \udcff", "is not text in UTF-8 (at line 2)", id="no text"),
    ],
)
def test_what_is_not_toml_is_refused_with_its_place(tmp_path: Path, text: str, refusal: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(ConfigError) as refused:
        load(path, {})

    assert refused.value.problems == (f"{path}: {refusal}",)


def test_dots_in_texts_and_comments_are_no_parts_of_keys(tmp_path: Path) -> None:
    dots = ".".join("0123456789abcdef" * 2)
    text = f"""
    # {dots}
    [[machine]] # {dots} = 1
    name = "a"
    tags = {{ "{dots}" = "{dots}.ip6.arpa", b = 'it\\"s {dots}', c = \"\"\"
    {dots} = "{dots}" \\\"\"\" {dots}\"\"\" }}
    """

    serve = load(write(tmp_path, text + SQLITE.replace("\n", "\n    ")), {}).settings.serve

    assert serve is not None
    assert [len(tags) for scope in serve.inventory for tags in [scope.machines[0].tags]] == [3]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('"', id="quotes"),
        pytest.param('"\\"', id="escaped quotes"),
        pytest.param('"""', id="quotes of long texts"),
        pytest.param("'", id="single quotes"),
        pytest.param("a", id="one word"),
        pytest.param("a ", id="many words"),
        pytest.param("1.", id="dots"),
        pytest.param("[", id="brackets"),
        pytest.param("[a]\n", id="the same table"),
        pytest.param("a.a.a.a.a.a.a.a=1\n", id="the same key"),
        pytest.param("#\n", id="comments"),
        pytest.param("\\", id="backslashes"),
    ],
)
@pytest.mark.timeout(10)
def test_a_file_that_is_full_of_the_same_is_refused_in_time(tmp_path: Path, line: str) -> None:
    most = FileKind.SETTINGS.most
    path = write(tmp_path, (line * most)[:most])

    with pytest.raises(ConfigError) as refused:
        load(path, {})

    assert len(refused.value.problems) == 1
    assert re.search(r"\(at (line \d+|end of document)|\[store\]: is missing", str(refused.value)) is not None
