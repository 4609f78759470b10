"""Files of ``fairwarning serve`` for tests."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from fairwarning.config.read_file import ConfigError
from fairwarning.config.serve_settings import LoadedFile, load

#: The least that a file can say.
SQLITE = '[store]\nkind = "sqlite"\npath = "data"\n'


def write(folder: Path, text: str, name: str = "fleet.toml") -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text)
    return path


def secret(folder: Path, name: str = "token", text: str = "0123456789abcdef\n", mode: int = 0o600) -> Path:
    """Write a secret and return its path."""
    path = write(folder, text, name)
    os.chmod(path, mode)
    return path


def loaded(folder: Path, text: str, variables: Mapping[str, str] | None = None) -> LoadedFile:
    """Load a file with this text after the least that it must say."""
    return load(write(folder, f"{text}\n{SQLITE}"), variables or {})


def problems(folder: Path, text: str, variables: dict[str, str] | None = None) -> list[str]:
    """Return what is wrong with a file, without the path of its folder."""
    with pytest.raises(ConfigError) as refused:
        load(write(folder, text), variables or {})
    return [problem.replace(f"{folder}/", "") for problem in refused.value.problems]
