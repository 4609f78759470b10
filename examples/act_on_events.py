"""Act on events that have started, and report the results. Usage: act_on_events.py COMMAND [ARGUMENT]...

For every machine of a started event the command runs with {machine} and {type} filled in, for example
``ssh {machine} sudo reboot``. Exit code 0 completes the machine, any other code is a failed attempt. The
script looks at the state and keeps none: it can be stopped and started at any time, and on several hosts the
command may run more than once for a machine. FAIRWARNING_URL and FAIRWARNING_TOKEN say where the server is.
"""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from urllib.error import HTTPError
from urllib.request import Request, urlopen

URL = os.environ.get("FAIRWARNING_URL", "http://127.0.0.1:8080") + "/fleet/v1"
HEADERS = {"Content-Type": "application/json"}
if token := os.environ.get("FAIRWARNING_TOKEN"):
    HEADERS["Authorization"] = f"Bearer {token}"
Event = dict[str, str | list[str]]


def call(path: str, body: object = None) -> dict[str, list[Event]]:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(URL + path, data, HEADERS), timeout=30) as answer:
        result: dict[str, list[Event]] = json.load(answer)
        return result


def is_due(event: Event) -> bool:
    """Whether an event has started; after a failure, whether it is time for the next attempt."""
    retry_at = event["retry_at"]
    resting = isinstance(retry_at, str) and datetime.fromisoformat(retry_at) > datetime.now(UTC)
    return event["status"] == "Started" and not resting


def attempt(command: list[str]) -> str:
    """Run a command; return why it failed, or nothing if it succeeded."""
    try:
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    except OSError as problem:
        return str(problem)
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return lines[-1] if done.returncode else ""


def act(event: Event, command: list[str]) -> None:
    for machine in event["undone"]:
        kind = str(event["type"])
        words = [word.replace("{machine}", machine).replace("{type}", kind) for word in command]
        if reason := attempt(words):
            call(f"/events/{event['id']}/fail", {"machine": machine, "reason": reason})
        else:
            call(f"/events/{event['id']}/complete", {"machines": [machine]})
        print(f"{kind} of {machine}: {reason or 'done'}", flush=True)


def main(command: list[str]) -> None:
    while True:
        try:
            for event in filter(is_due, call("/events")["events"]):
                act(event, command)
        except HTTPError as problem:  # the event may have been reported elsewhere
            print(problem, problem.read().decode(), file=sys.stderr, flush=True)
        except OSError as problem:
            print(problem, file=sys.stderr, flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit(__doc__))
