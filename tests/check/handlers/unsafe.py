"""Unsafe handlers: each differs from the safe example by one mistake. Usage: python -m … MISTAKE."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from urllib.request import Request

from examples.safe_handler import DRAIN, EVENTS, RECOVER, Event, Handler, http


def approve(handler: Handler, key: str) -> None:
    handler.ask(EVENTS, json.dumps({"StartRequests": [{"EventId": key}]}).encode())


class ApprovesAtOnce(Handler):
    def act(self, what: str, program: str, key: str) -> None:
        if program == DRAIN:
            approve(self, key)
        super().act(what, program, key)


class ApprovesAgain(Handler):
    def handle(self, events: list[Event]) -> None:
        super().handle(events)
        self.done = dict.fromkeys(self.done, "drained")


class ApprovesForItsPeers(Handler):
    def handle(self, events: list[Event]) -> None:
        ours = [event for event in events if self.name in event["Resources"]]
        super().handle([{**event, "Resources": [self.name]} for event in ours])


class ApprovesForEverybody(Handler):
    def handle(self, events: list[Event]) -> None:
        super().handle([{**event, "Resources": [self.name]} for event in events])


class ApprovesWhatItDoesNotKnow(Handler):
    def handle(self, events: list[Event]) -> None:
        super().handle([{**event, "EventType": "Reboot"} for event in events])


class IgnoresExitCodes(Handler):
    def act(self, what: str, program: str, key: str) -> None:
        subprocess.run([program, key], check=False)


class CountsTheUsualNotice(Handler):
    usual = 12.0  # seconds; less than the notice of the fleet, and more than is left of a late one

    def act(self, what: str, program: str, key: str) -> None:
        super().act(what, program, key)
        time.sleep(self.usual if program == DRAIN else 0.0)


class DrainsWhenStarted(Handler):
    def handle(self, events: list[Event]) -> None:
        super().handle([event for event in events if event["EventStatus"] == "Started"])


class FallsOver(Handler):
    def back_off(self, problem: Exception) -> None:
        raise problem


class GivesUpOnTheFirstCall(FallsOver):
    timeout = 3.0


class NeedsADate(FallsOver):
    def handle(self, events: list[Event]) -> None:
        super().handle(sorted(events, key=lambda event: parsedate_to_datetime(str(event["NotBefore"]))))


class NeedsEveryField(FallsOver):
    def handle(self, events: list[Event]) -> None:
        super().handle([event for event in events if event["EventSource"] and event["DurationInSeconds"]])


class Hammers(Handler):
    def back_off(self, problem: Exception) -> None:
        self.wait = 0.05


class AsksSeldom(Handler):
    def handle(self, events: list[Event]) -> None:
        super().handle(events)
        time.sleep(20)


class WaitsForAHigherIncarnation(Handler):
    newest, text = 0, ""

    def ask(self, path: str, body: bytes | None = None) -> str:
        answer = super().ask(path, body)
        if path != EVENTS or body:
            return answer
        incarnation: int = json.loads(answer)["DocumentIncarnation"]
        if incarnation > self.newest:
            self.newest, self.text = incarnation, answer
        return self.text


class TakesFailuresForNothingScheduled(Handler):
    def back_off(self, problem: Exception) -> None:
        super().back_off(problem)
        self.handle([])


class TakesNoBodyForNothingScheduled(Handler):
    def ask(self, path: str, body: bytes | None = None) -> str:
        return super().ask(path, body) or '{"Events": []}'


class TakesNoEventsForNothingScheduled(Handler):
    def ask(self, path: str, body: bytes | None = None) -> str:
        answer = super().ask(path, body)
        return json.dumps({"Events": [], **json.loads(answer)}) if path == EVENTS and not body else answer


class BelievesTheMediaType(Handler):
    def ask(self, path: str, body: bytes | None = None) -> str:
        request = Request(self.base + path, body, {"Metadata": "true"})
        with http.open(request, timeout=self.timeout) as answer:
            if path == EVENTS and not body and answer.headers.get_content_type() != "application/json":
                raise ValueError("no JSON")
            return str(answer.read().decode())


class TakesBegunForDone(Handler):
    def act(self, what: str, program: str, key: str) -> None:
        if program == DRAIN:
            self.remember({**self.done, key: "approved"})
        super().act(what, program, key)


class NeverReturns(Handler):
    def act(self, what: str, program: str, key: str) -> None:
        if program != RECOVER:
            super().act(what, program, key)


class ReturnsOnlyAfterStarted(Handler):
    started = False

    def handle(self, events: list[Event]) -> None:
        self.started |= any(event["EventStatus"] == "Started" for event in events)
        if events or self.started:
            super().handle(events)


class ReturnsWhenItComesUp(Handler):
    def run(self) -> None:
        for key in self.done:
            self.act("back to work", RECOVER, key)
        super().run()


class ReturnsAfterTheDuration(Handler):
    def handle(self, events: list[Event]) -> None:
        super().handle(events)
        for event in events:
            if event["EventStatus"] == "Started" and str(event["DurationInSeconds"]) == "-1":
                self.act("back to work", RECOVER, str(event["EventId"]))


class ReturnsWithTheFirst(Handler):
    def handle(self, events: list[Event]) -> None:
        for key in self.done.keys() - {event["EventId"] for event in events}:
            self.act("back to work", RECOVER, key)
            self.remember({other: step for other, step in self.done.items() if other != key})
        super().handle(events)


MISTAKES: Mapping[str, type[Handler]] = {
    "approves before it drains": ApprovesAtOnce,
    "approves for as long as the event is Scheduled": ApprovesAgain,
    "approves for its peers once it is ready itself": ApprovesForItsPeers,
    "approves everybody's events": ApprovesForEverybody,
    "approves what it does not know": ApprovesWhatItDoesNotKnow,
    "never looks at the drain's exit code": IgnoresExitCodes,
    "counts the usual notice from when it reads of the event": CountsTheUsualNotice,
    "drains only when the event has started": DrainsWhenStarted,
    "falls over when a request fails": FallsOver,
    "gives up on a slow first call": GivesUpOnTheFirstCall,
    "trusts NotBefore to be there": NeedsADate,
    "trusts every field to be there": NeedsEveryField,
    "asks more often when requests fail": Hammers,
    "asks every twenty seconds": AsksSeldom,
    "keeps only a rising incarnation": WaitsForAHigherIncarnation,
    "takes a failed request for an empty document": TakesFailuresForNothingScheduled,
    "takes an empty answer for an empty document": TakesNoBodyForNothingScheduled,
    "takes a document without Events for an empty one": TakesNoEventsForNothingScheduled,
    "believes the media type": BelievesTheMediaType,
    "takes what it began for done": TakesBegunForDone,
    "never goes back to work": NeverReturns,
    "goes back to work only after Started": ReturnsOnlyAfterStarted,
    "goes back to work when it comes up": ReturnsWhenItComesUp,
    "goes back to work after the announced duration": ReturnsAfterTheDuration,
    "goes back to work with the first of its events": ReturnsWithTheFirst,
}

if __name__ == "__main__":
    MISTAKES[sys.argv[1]]().run()
