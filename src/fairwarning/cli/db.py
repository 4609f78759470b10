"""The commands for a whole database: migrate, check, backup, restore."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairwarning.cli.options import OutputFile, json_option
from fairwarning.cli.output import FailureError, failures_explained, print_json, print_note, print_table
from fairwarning.config import DSN_FILE_VARIABLE, PROGRAM, default_dsn_file
from fairwarning.config.secret_file import read_secret
from fairwarning.core.document.render import Json
from fairwarning.formats.counts import format_count
from fairwarning.formats.timestamps import for_people

if TYPE_CHECKING:
    from fairwarning.database.check import CheckReport
    from fairwarning.database.operations import FleetDatabase
    from fairwarning.database.tables import Progress

_PATH = click.Path(path_type=Path)

#: How many findings are printed; --json prints all that were kept.
MOST_PRINTED = 50

#: What helps, by the name of the error.
HINTS = {
    "OlderDatabaseError": (f"to migrate it: {PROGRAM} db migrate",),
    "NewerDatabaseError": ("a database cannot go back to an earlier schema",),
    "DatabaseNotSoundError": (f"to see everything that is wrong: {PROGRAM} db check",),
    "BackupExistsError": ("choose another name, or give --overwrite",),
    "DatabaseNotEmptyError": ("choose a new directory, or create a new database",),
    "ClockBehindError": ("set the clock, or give --jump",),
    "IncarnationsUsedUpError": (
        "give --jump: more than any document has changed since the backup was taken",
    ),
    "DataDirectoryInUseError": ("stop the server first",),
    "NodesRunningError": ("stop these nodes first",),
    "DatabaseAwayError": ("look at the address in the file, and whether PostgreSQL runs",),
}


def with_database(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name a database, and give the command the database; None if there are none."""

    @click.option("--data", type=_PATH, help="The data directory of a server.")
    @click.option("--config", "config_", type=_PATH, help="The file of `serve`, which names its database.")
    @click.option(
        "--dsn-file",
        type=_PATH,
        help="A file with the address of a PostgreSQL database, which only its owner can read."
        f"  [env var: {DSN_FILE_VARIABLE}]",
    )
    @wraps(command)
    def with_options(
        *arguments: object, data: Path | None, config_: Path | None, dsn_file: Path | None, **options: object
    ) -> None:
        if [data, config_, dsn_file].count(None) < 2:
            raise click.UsageError("Give one of --data, --config and --dsn-file.")
        command(*arguments, database=_database(data, config_, dsn_file), **options)

    return with_options


def _database(data: Path | None, config_: Path | None, dsn_file: Path | None) -> "FleetDatabase | None":
    if config_ is not None:
        from fairwarning.cli.serve import load_config

        settings = load_config(config_).settings
        if settings.serve is not None and settings.serve.dsn is not None:
            return postgres_database(settings.serve.dsn)
        data = settings.data
    if data is not None:
        from fairwarning.database.data_directory import DataDirectory

        return DataDirectory(data)
    dsn_file = dsn_file or default_dsn_file()
    if dsn_file is None:
        return None
    with failures_explained(HINTS):
        dsn = read_secret(dsn_file)
    return postgres_database(dsn)


def postgres_database(dsn: str) -> "FleetDatabase":
    """Return a database of PostgreSQL without connecting to it; an address that is of no use is a failure."""
    try:
        from fairwarning.database.postgres import PostgresDatabase
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != "psycopg":
            raise
        raise FailureError("PostgreSQL needs psycopg: install fairwarning[postgres]") from problem
    with failures_explained(HINTS):
        return PostgresDatabase(dsn)


def _required(database: "FleetDatabase | None") -> "FleetDatabase":
    if database is None:
        raise click.UsageError("Missing option '--data', '--config' or '--dsn-file'.")
    return database


@click.group()
def db() -> None:
    """Check, back up, restore and migrate a database.

    The database is a data directory (SQLite) or a PostgreSQL database.

    \b
    Example:
      fairwarning db check --data ./state
      fairwarning db backup fleet.backup --data ./state
      fairwarning db restore fleet.backup --dsn-file ./dsn
    """


@db.command()
@with_database
@click.option("--finish", is_flag=True, help="Lock out nodes of earlier releases (PostgreSQL).")
@json_option
def migrate(database: "FleetDatabase | None", finish: bool, json_: bool) -> None:
    """Bring a database to the schema of this version.

    There is no way back to an earlier schema. A server with a data directory migrates it when it starts.

    On PostgreSQL, migrate first: nodes of the release before go on with the new schema. Then replace the
    nodes one after the other. Once none of the release before is left, --finish locks that release out, and
    what is new is used from then on.

    \b
    Example:
      fairwarning db migrate --data ./state
      fairwarning db migrate --dsn-file ./dsn
      fairwarning db migrate --dsn-file ./dsn --finish
    """
    with failures_explained(HINTS):
        if finish:
            readable_from = _required(database).finish()
            facts: dict[str, Json] = {"readable_from": readable_from}
            text = f"from now on a node has to know schema {readable_from}"
        else:
            before, after = _required(database).migrate()
            facts = {"from": before, "to": after}
            text = f"migrated from schema {before} to schema {after}"
            if before == after:
                text = f"schema {after} is up to date"
    if json_:
        print_json(facts)
    else:
        click.echo(text)


@db.command()
@with_database
@click.option("--backup", type=_PATH, help="Check this backup instead of a database.")
@json_option
def check(database: "FleetDatabase | None", backup: Path | None, json_: bool) -> None:
    """Check every row of a database against the journal.

    Checks checksums, the numbers and batches of the journal, and whether replaying the journal gives the
    stored scopes, machines, events, sets and texts. The journal may be pruned: of what is older than its
    first line, only what has changed since can be compared, and the output says how much that is. Nothing
    is changed, and a server may run. The exit code is 1 if anything is wrong.

    \b
    Example:
      fairwarning db check --data ./state
      fairwarning db check --backup fleet.backup
    """
    from fairwarning.database.operations import check_backup, check_database

    if backup is not None and database is not None:
        raise click.UsageError("A database and a backup cannot be checked at once.")
    with failures_explained(HINTS), _progress() as progress:
        if backup is None:
            report = check_database(_required(database), progress)
        else:
            report = check_backup(backup, progress)
    if json_:
        print_json(_as_json(report))
    else:
        _print_report(report)
    if report.findings.total:
        raise click.exceptions.Exit(1)


@db.command()
@click.argument("file", type=OutputFile())
@with_database
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@json_option
def backup(file: Path, database: "FleetDatabase | None", overwrite: bool, json_: bool) -> None:
    """Write a backup of a database to one file.

    The file has everything as it was at one moment; a server may run. It contains secrets, such as the key
    that signs tokens, so only its owner can read it. Certificates are files of their own and not part of it.
    A damaged database is not backed up.

    \b
    Example:
      fairwarning db backup fleet.backup --data ./state
    """
    from fairwarning.database.operations import back_up

    with failures_explained(HINTS), _progress() as progress:
        trailer = back_up(_required(database), file, overwrite=overwrite, progress=progress)
    machines, lines, size = trailer.rows["machine"], trailer.rows["journal"], file.stat().st_size
    if json_:
        print_json({"file": str(file), "machines": machines, "lines": lines, "bytes": size})
    else:
        contents = f"{format_count(machines, 'machine')} and {format_count(lines, 'journal line')}"
        click.echo(f"{file} has {contents}; {size / 1e6:.1f} MB")


@db.command()
@click.argument("file", type=_PATH)
@with_database
@click.option(
    "--jump",
    type=click.IntRange(min=1),
    help="How far to move all incarnations forward; by default enough for the age of the backup.",
)
@click.option("--no-hold", is_flag=True, help="Let events that are due start as soon as a server runs.")
@json_option
def restore(
    file: Path, database: "FleetDatabase | None", jump: int | None, no_hold: bool, json_: bool
) -> None:
    """Restore a backup into an empty database.

    The whole file is verified before anything is written. Every incarnation moves forward, so that no guest
    sees a document number again that it has seen after the backup was taken: by 1,000,000, and 100 for each
    second since then. All leases are over. Servers must not run on the old database any more.

    Events are as they were: those that were over after the backup are pending again. So the fleet is on hold:
    cancel what is over, and let the rest go on with fairwarning unhold.

    \b
    Example:
      fairwarning db restore fleet.backup --data ./new-state
    """
    from fairwarning.database.operations import restore

    with failures_explained(HINTS), _progress() as progress:
        restored = restore(_required(database), file, jump=jump, hold=not no_hold, progress=progress)
    taken_at, jumped = restored.restore.taken_at, restored.restore.jump
    if json_:
        counts: dict[str, Json] = {"machines": restored.machines, "events": restored.events}
        print_json({**counts, "taken_at": taken_at.isoformat(), "jump": jumped})
        return
    machines, events = format_count(restored.machines, "machine"), format_count(restored.events, "event")
    click.echo(f"restored {machines} with {events} pending, as they were at {for_people(taken_at)}")
    click.echo(f"incarnations moved on by {jumped}")
    if restored.events:
        print_note(f"hint: {_DUE_AT_ONCE if no_hold else _ON_HOLD}")


_ON_HOLD = f"the fleet is on hold; cancel events that are over, then end the hold with {PROGRAM} unhold"
_DUE_AT_ONCE = "events that are due start with the server; cancel those that are over"


def _print_report(report: "CheckReport") -> None:
    findings = report.findings
    if findings.total:
        print_table(("KIND", "WHERE", "PROBLEM"), findings.kept[:MOST_PRINTED])
    if findings.total > MOST_PRINTED:
        print_note(f"and {findings.total - MOST_PRINTED} more")
    lines = report.rows.get("journal", 0)
    rows = sum(report.rows.values()) - lines
    problems = format_count(findings.total, "finding") if findings.total else "no findings"
    click.echo(f"{format_count(rows, 'row')} and {format_count(lines, 'journal line')} checked: {problems}")
    click.echo(_proved(report))


def _proved(report: "CheckReport") -> str:
    """Return how much of the fleet the journal proves."""
    scopes = format_count(report.proved, "scope")
    if not report.partly_proved + report.unproved:
        return f"the journal proves everything about {scopes}"
    return (
        f"the journal is complete after line {report.complete_after}: it proves everything about {scopes},"
        f" what changed since about {report.partly_proved}, and only pending events about {report.unproved}"
    )


def _as_json(report: "CheckReport") -> Json:
    return {
        "sound": not report.findings.total,
        "findings": [dict(finding._asdict()) for finding in report.findings.kept],
        "counts": {kind.value: count for kind, count in report.findings.counts.items()},
        "rows": dict(report.rows),
        "journal_complete_after": report.complete_after,
        "scopes": {
            "proved": report.proved,
            "partly_proved": report.partly_proved,
            "unproved": report.unproved,
        },
    }


@contextmanager
def _progress() -> "Iterator[Progress]":
    """Yield a function that shows the progress on stderr if that is a terminal."""
    shown = sys.stderr.isatty()

    def show(table: str, rows: int) -> None:
        if shown:
            click.echo(f"\r\x1b[K{table}: {format_count(rows, 'row')}", nl=False, err=True)

    try:
        yield show
    finally:
        if shown:
            click.echo("\r\x1b[K", nl=False, err=True)
