"""The scripts that complete ``fairwarning`` in bash, zsh and fish, by the names that shells look for."""

from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from fairwarning.cli import cli
from tools.release import Release
from tools.release.archives import write_archive

SCRIPTS: Mapping[str, str] = {
    "bash": "bash/fairwarning",
    "fish": "fish/fairwarning.fish",
    "zsh": "zsh/_fairwarning",
}


def build(release: Release) -> list[Path]:
    """Let the command ``completion`` print each script."""
    scripts = {path: _script(shell) for shell, path in SCRIPTS.items()}
    return [write_archive(release, f"fairwarning-{release.version}-completions.tar.gz", scripts)]


def _script(shell: str) -> str:
    result = CliRunner().invoke(cli, ["completion", shell], catch_exceptions=False)
    return result.stdout
