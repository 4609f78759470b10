"""The command that makes a machine's endpoint misbehave."""

import json
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import quote

import click

from fairwarning.cli.client import connect
from fairwarning.cli.completion import complete_machines
from fairwarning.cli.lookup import suggest_machines
from fairwarning.cli.options import DURATION, json_option
from fairwarning.cli.output import print_json, print_note
from fairwarning.core.document.endpoint_faults import FAULT_DESCRIPTIONS
from fairwarning.core.document.render import Json
from fairwarning.formats import durations

NO_FAULT = "none"

#: The faults by name; of an enumeration, click would offer the names of its members.
FAULTS: Mapping[str, str] = {
    **{str(name): text for name, text in FAULT_DESCRIPTIONS.items()},
    NO_FAULT: "clear the fault",
}


@click.command(epilog="\b\n" + "\n".join(f"{name:10} {text}" for name, text in FAULTS.items()))
@click.argument("vm", shell_complete=complete_machines)
@click.argument("fault", type=click.Choice(list(FAULTS)), metavar="FAULT")
@click.option("--for", "lasts", type=DURATION, help="How long, in real time.  [default: until FAULT none]")
@click.option("--delay", type=DURATION, default="2s", show_default=True, help="Delay of slow and late.")
@json_option
def fault(vm: str, fault: str, lasts: timedelta | None, delay: timedelta, json_: bool) -> None:
    """Make the metadata endpoint of a machine misbehave.

    The faults are those that handlers meet on Azure.

    \b
    Example:
      fairwarning fault web_0 429 --for 30s
      fairwarning fault web_0 none
    """
    client, path = connect(), f"/machines/{quote(vm, safe='/')}/fault"
    with suggest_machines(client, [vm]):
        if fault == NO_FAULT:
            body = client.call("DELETE", path)
        else:
            body = client.call("PUT", path, _request(fault, lasts, delay))
    if json_:
        print_json(json.loads(body))
    elif fault == NO_FAULT:
        print_note(f"the endpoint of {vm} has no fault")
    else:
        print_note(f"the endpoint of {vm} has a fault: {FAULTS[fault]}")


def _request(fault: str, lasts: timedelta | None, delay: timedelta) -> dict[str, Json]:
    request: dict[str, Json] = {"fault": fault, "delay": durations.for_people(delay)}
    if lasts is not None:
        request["lasts"] = durations.for_people(lasts)
    return request
