"""The command that lets a machine's endpoint misbehave."""

import json
from collections.abc import Mapping
from datetime import timedelta

import click

from fairwarning.cli.client import connect
from fairwarning.cli.fleet import json_option
from fairwarning.cli.options import DURATION
from fairwarning.cli.output import as_json, note
from fairwarning.core.endpoint_faults import FAULT_DESCRIPTIONS
from fairwarning.formats import durations

HEALED = "none"

#: What can be asked of an endpoint, by words: of an enumeration click would offer the names.
FAULTS: Mapping[str, str] = {
    **{str(name): text for name, text in FAULT_DESCRIPTIONS.items()},
    HEALED: "it works again",
}


@click.command(epilog="\b\n" + "\n".join(f"{name:8} {text}" for name, text in FAULTS.items()))
@click.argument("vm")
@click.argument("fault", type=click.Choice(list(FAULTS)), metavar="FAULT")
@click.option("--for", "lasts", type=DURATION, help="How long, in wall time; until FAULT none if left out.")
@click.option("--delay", type=DURATION, default="2s", show_default=True, help="How slow, or how late.")
@json_option
def fault(vm: str, fault: str, lasts: timedelta | None, delay: timedelta, json_: bool) -> None:
    """Let the metadata endpoint of a machine misbehave, as the field has seen it.

    \b
    Example:
      fairwarning fault web_0 429 --for 30s
      fairwarning fault web_0 none
    """
    path = f"/machines/{vm}/fault"
    if fault == HEALED:
        body = connect().call("DELETE", path)
    else:
        wanted = {"fault": fault, "delay": durations.for_people(delay)}
        if lasts is not None:
            wanted["lasts"] = durations.for_people(lasts)
        body = connect().call("PUT", path, wanted)
    if json_:
        as_json(json.loads(body))
    elif fault == HEALED:
        note(f"the endpoint of {vm} works again")
    else:
        note(f"the endpoint of {vm} is ill: {FAULTS[fault]}")
