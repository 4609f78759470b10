"""A first attempt at a handler; `fairwarning check` shows why it is not safe. Takes no arguments."""

import json
import os
import subprocess
import sys
import time
import urllib.request

EVENTS = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
DRAIN = os.environ.get("FAIRWARNING_DRAIN", "true")  # your work


def ask(body: bytes | None = None) -> str:
    request = urllib.request.Request(EVENTS, body, {"Metadata": "true"})
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode())


try:
    while True:
        for event in json.loads(ask())["Events"]:
            ask(json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode())
            subprocess.run([DRAIN, event["EventId"]])
        time.sleep(1)
except KeyboardInterrupt:
    sys.exit(130)
