"""A handler: drains before an event, approves once, recovers. Usage: safe_handler.py [BASE_URL]."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from http.client import HTTPException
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
TYPES = {"Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"}  # other types need no approval
DRAIN, RECOVER = (os.environ.get(f"FAIRWARNING_{hook}", "true") for hook in ("DRAIN", "RECOVER"))  # your work
MEMORY = Path(os.environ.get("FAIRWARNING_WORK") or tempfile.mkdtemp(), "memory")  # must survive a reboot
Event = dict[str, str | list[str]]
http = build_opener(ProxyHandler({}))  # no proxy: it would return the events of its own machine


class Handler:
    name, wait, timeout = "", 1.0, 150.0  # seconds; the first answer may take two minutes

    def __init__(self, base: str = "http://169.254.169.254") -> None:
        self.base = base.rstrip("/")
        self.done: dict[str, str] = json.loads(MEMORY.read_text()) if MEMORY.exists() else {}

    def ask(self, path: str, body: bytes | None = None) -> str:
        with http.open(Request(self.base + path, body, {"Metadata": "true"}), timeout=self.timeout) as answer:
            return str(answer.read().decode())

    def run(self) -> None:
        while True:
            try:
                self.name = self.name or self.ask(NAME)
                self.handle(json.loads(self.ask(EVENTS))["Events"])
                self.wait, self.timeout = 1.0, 10.0
            except (OSError, HTTPException, ValueError, LookupError, subprocess.SubprocessError) as problem:
                self.back_off(problem)
            time.sleep(self.wait)

    def back_off(self, problem: Exception) -> None:  # a failed poll says nothing about events
        print(f"{self.name}: {problem}; trying again", file=sys.stderr)
        self.wait = min(self.wait * 2, 8.0)

    def handle(self, events: list[Event]) -> None:
        ours = {str(event["EventId"]): event for event in events if self.name in event["Resources"]}
        for key, event in ours.items():
            waits = event["EventStatus"] == "Scheduled" and event["EventType"] in TYPES
            if key not in self.done:
                self.act("draining", DRAIN, key)
                self.remember({**self.done, key: "drained"})
            elif event["Resources"] == [self.name] and waits and self.done[key] == "drained":  # only our own
                self.ask(EVENTS, json.dumps({"StartRequests": [{"EventId": key}]}).encode())
                self.remember({**self.done, key: "approved"})
        if self.name and self.done and not ours:  # not before, whatever duration was announced
            for key in self.done:
                self.act("back to work", RECOVER, key)
            self.remember({})

    def act(self, what: str, program: str, key: str) -> None:
        print(f"{self.name}: {what} ({key})", flush=True)
        subprocess.run([program, key], check=True)

    def remember(self, done: dict[str, str]) -> None:
        self.done = done
        MEMORY.write_text(json.dumps(done))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    Handler(*sys.argv[1:]).run()
