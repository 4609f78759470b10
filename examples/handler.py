"""Notices what is coming to its machine, drains and approves. Usage: handler.py [BASE_URL]."""

import json
import sys
import time
import urllib.request

BASE = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://169.254.169.254"
EVENTS = BASE + "/metadata/scheduledevents?api-version=2020-07-01"
NAME = BASE + "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy cannot speak for us
name, etag, known = "", "", dict[str, str]()  # known: the events that name us, as last seen


def ask(url: str, body: bytes | None = None, etag: str = "") -> tuple[str, str]:
    headers = {"Metadata": "true", **({"If-None-Match": etag} if etag else {})}
    with direct.open(urllib.request.Request(url, body, headers), timeout=150) as answer:
        return answer.read().decode(), answer.headers.get("ETag", "")


while True:
    try:
        name = name or ask(NAME)[0]
        text, etag = ask(EVENTS, etag=etag)
        ours = {event["EventId"]: event for event in json.loads(text)["Events"] if name in event["Resources"]}
        for gone in known.keys() - ours.keys():
            print(f"{name}: {known.pop(gone)} {gone} is gone", flush=True)
        for key, event in ours.items():
            seen = f"{event['EventStatus']} {event['EventType']}"
            if known.get(key) != seen:
                print(f"{name}: {seen} {key}", flush=True)
                if event["EventStatus"] == "Scheduled":
                    print(f"{name}: draining", flush=True)  # your work goes here
                    ask(EVENTS, json.dumps({"StartRequests": [{"EventId": key}]}).encode())
                known[key] = seen
    except (OSError, ValueError, KeyError) as problem:
        if getattr(problem, "code", 0) != 304:  # Not Modified is no problem
            print(f"{name}: {problem}; trying again", file=sys.stderr)
            etag = ""
    time.sleep(1)
