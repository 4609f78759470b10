"""The manual pages and the completion scripts."""

import re
import subprocess
from datetime import UTC, datetime

import pytest

from tools.release import Release, completions, manuals
from tools.release.archives import read_archive

NOON = int(datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp())


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release(dist=tmp_path_factory.mktemp("dist"), version="0.2.0", epoch=NOON)


@pytest.fixture(scope="module")
def pages(release: Release) -> dict[str, str]:
    manuals.build(release)
    return read_archive(release.manuals)


def plain(page: str) -> str:
    """Return a page without the marks of roff."""
    return page.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")


def test_every_command_has_a_page(pages: dict[str, str]) -> None:
    index = plain(pages["man1/fairwarning.1"])
    listed = re.findall(r"^\.BR (fairwarning-[\w-]+) \(1\)", index, re.MULTILINE)

    assert len(listed) >= 24
    assert [command for command in listed if f"man1/{command}.1" not in pages] == []
    assert "man1/fairwarning-db-check.1" in pages
    assert "man8/fairwarning-agent.8" in pages


def test_a_page_has_the_sections_that_readers_look_for(pages: dict[str, str]) -> None:
    page = plain(pages["man1/fairwarning-check.1"])

    assert page.startswith('.TH FAIRWARNING-CHECK 1 "2026-11-17" "fairwarning 0.2.0" "fairwarning"\n')
    sections = re.findall(r"^\.SH (.*)$", page, re.MULTILINE)
    assert sections == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]
    assert ".B fairwarning check\n[OPTIONS] [SCENARIO]... -- CMD...\n" in page
    assert ".B --junit FILE\nWrite JUnit XML to this file.\n" in page
    assert ".B -h, --help\n" in page
    assert ".SH EXIT STATUS\n.nf\n0  safe, as far as the scenarios show\n1  unsafe\n" in page


def test_the_page_of_the_agent_names_every_command_and_option(pages: dict[str, str], agent_help: str) -> None:
    page = plain(pages["man8/fairwarning-agent.8"])
    options = set(re.findall(r"(?<!\w)--?[a-z][a-z-]*", agent_help))

    assert {"--config", "--dry-run", "--endpoint", "--state", "--version"} <= options
    assert sorted(option for option in options if option not in page) == []
    assert page.startswith('.TH FAIRWARNING-AGENT 8 "2026-11-17" "fairwarning 0.2.0" "fairwarning"\n')


@pytest.fixture
def agent_help(capsys: pytest.CaptureFixture[str]) -> str:
    """Everything that the agent says about its command line."""
    from fairwarning.agent.main import main

    for words in ([], ["run"], ["check"], ["status"], ["explain"]):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.needs("groff")
def test_groff_formats_every_page_without_a_warning(pages: dict[str, str]) -> None:
    complaints = {}
    for name, text in pages.items():
        command = ["groff", "-man", "-Tutf8", "-k", "-ww", "-P-cbu"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        assert "NAME" in done.stdout
        if done.stderr:
            complaints[name] = done.stderr

    assert complaints == {}


def test_the_scripts_complete_in_three_shells(release: Release) -> None:
    completions.build(release)

    scripts = read_archive(release.completions)

    assert sorted(scripts) == ["bash/fairwarning", "fish/fairwarning.fish", "zsh/_fairwarning"]
    assert "_FAIRWARNING_COMPLETE=bash_complete" in scripts["bash/fairwarning"]
    assert "_FAIRWARNING_COMPLETE=fish_complete" in scripts["fish/fairwarning.fish"]
    assert scripts["zsh/_fairwarning"].startswith("#compdef fairwarning\n")
