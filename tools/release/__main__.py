"""The command ``./dev release``."""

import argparse
import sys
from datetime import UTC, date, datetime
from pathlib import Path

from tools.release import ROOT, ReleaseError
from tools.release.assembly import assemble, build_alone
from tools.release.builders import BUILDERS
from tools.release.version import Sources

NAMES = ", ".join(BUILDERS)


def main() -> None:
    """Build the artefacts that the command line names, or the whole release."""
    parser = argparse.ArgumentParser(prog="./dev release", description="Build the artefacts of a release.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"build these alone: {NAMES}")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", metavar="DIR", help="[default: dist]")
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="leave this out; the manifest says so"
    )
    edits = parser.add_mutually_exclusive_group()
    edits.add_argument("--close", metavar="VERSION", help="edit the sources: make VERSION a release")
    edits.add_argument("--open", metavar="VERSION", help="edit the sources: begin the work on VERSION")
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.names, *arguments.without} - set(BUILDERS)):
        parser.error(f"unknown artefact {', '.join(unknown)} (known: {NAMES})")
    if arguments.names and arguments.without:
        parser.error("--without leaves an artefact out of the whole release; it takes no NAME beside it")
    if (arguments.close or arguments.open) and (arguments.names or arguments.without):
        parser.error("--close and --open only edit the sources; name no artefact beside them")
    try:
        if arguments.close or arguments.open:
            edit(arguments.close, arguments.open)
        elif arguments.names:
            build_alone(arguments.dist, arguments.names)
        else:
            assemble(arguments.dist, arguments.without)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


def edit(close: str | None, begin: str | None) -> None:
    """Change the version and the changelog, for a person to review and commit."""
    sources = Sources()
    if close:
        sources.close(close, today())
        print("release: add the data of this release: .venv/bin/python -m tests.fixtures.write_release")
        print(f"release: review the changes, commit them, tag the commit v{close}, run ./dev release")
    if begin:
        sources.open_next(begin)
        print("release: review the changes and commit them")


def today() -> date:
    """Return the date of a release that is closed now."""
    return datetime.now(UTC).date()


if __name__ == "__main__":
    main()
