"""The documented Python loop survives every document we can send."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.samples.documented_loop import Document, get_scheduled_events, handle_scheduled_events

DOCUMENTS = Path(__file__).parents[1] / "core" / "documents"
SEQUENCES = sorted(DOCUMENTS.glob("*.jsonl"))
RFC_1123 = r"\w{3},_\d\d_\w{3}_\d{4}_\d\d:\d\d:\d\d_GMT"
ISO_8601 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
SCHEDULED = rf"Scheduled \w+ not before (?:{RFC_1123}|{ISO_8601}) for VirtualMachine \S{{36}}"
STARTED = r"Started \w+ not before  for VirtualMachine \S{36}"


def documents(sequence: Path) -> list[Document]:
    """Return what successive polls get; a data URL needs no server."""
    lines = sequence.read_text().splitlines()
    return [get_scheduled_events(f"data:application/json,{quote(line)}") for line in lines]


def printed(sequence: Path, this_host: str) -> list[str]:
    """Return what the loop says on ``this_host`` while the documents follow one another."""
    return [line for each in documents(sequence) for line in handle_scheduled_events(each, this_host)]


def test_every_version_and_scenario_is_here() -> None:
    assert len(SEQUENCES) == 42


@pytest.mark.rule("L-03", "V-07")
@pytest.mark.parametrize("sequence", [pytest.param(path, id=path.stem) for path in SEQUENCES])
def test_the_loop_reads_every_document_and_tells_each_machine_its_own_events(
    sequence: Path,
) -> None:
    events = [event for document in documents(sequence) for event in document["Events"]]
    named = [name for event in events for name in event["Resources"]]

    lines = [line for host in sorted(set(named)) for line in printed(sequence, host)]

    assert len(lines) == len(named)
    assert [line for line in lines if not re.fullmatch(f"{SCHEDULED}|{STARTED}", line)] == []
    assert printed(sequence, "elsewhere") == []


REBOOT = "for VirtualMachine 9A44D1B7-52C6-4B0E-8C1D-77E0A9F3B602"
ROLE_REBOOT = "for VirtualMachine 2B3C4D5E-6677-4889-9AAB-CCDDEEFF0008"


@pytest.mark.rule("V-06", "V-07")
@pytest.mark.parametrize(
    ("sequence", "this_host", "first"),
    [
        pytest.param(
            "2020-07-01.A-availability-set",
            "app-b",
            f"Scheduled Reboot not before Mon,_16_Nov_2026_10:18:30_GMT {REBOOT}",
            id="the date has spaces, which the loop replaces",
        ),
        pytest.param(
            "2017-03-01.A-availability-set",
            "_app-b",
            f"Scheduled Reboot not before 2026-11-16T10:18:30Z {REBOOT}",
            id="the preview puts an underscore before a machine's name",
        ),
        pytest.param(
            "2017-03-01.A-availability-set",
            "app-b",
            None,
            id="so a machine of the preview that looks for its plain name finds nothing",
        ),
        pytest.param(
            "2017-03-01.F-cloud-service",
            "FrontEnd_IN_0",
            f"Scheduled Reboot not before 2026-11-16T10:15:00Z {ROLE_REBOOT}",
            id="a role instance has no underscore, even in the preview",
        ),
    ],
)
def test_what_the_loop_says_first(sequence: str, this_host: str, first: str | None) -> None:
    lines = printed(DOCUMENTS / f"{sequence}.jsonl", this_host)

    assert next(iter(lines), None) == first
