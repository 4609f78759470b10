"""Cordons and drains the node of this machine, and uncordons only what it cordoned itself.

Whose cordon it is, the node itself says: an annotation lists the events it is held for. It is written before
the cordon, so an agent that dies in between still knows, and two events at a time hold the node until both
are over. A cordon without the annotation is somebody else's and stays.
"""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

from fairwarning.agent.hooks import program
from fairwarning.agent.hooks.hook import HookContext, HookOutcome, Now, rehearsal, time_left
from fairwarning.agent.hooks.options import Options
from fairwarning.core.document.render import Json

Verb = Literal["cordon", "drain", "uncordon"]
_VERBS: Mapping[str, Verb] = {"cordon": "cordon", "drain": "drain", "uncordon": "uncordon"}

HELD_FOR: Final = "fairwarning/held-for"
OURS: Final = "cordoned by us"
FOUND: Final = "found cordoned"

#: What a node that is about to go away needs; ``options`` adds to it.
DRAIN: Final = ("--ignore-daemonsets", "--delete-emptydir-data")
#: A node's description holds its images; the whole of it must be read.
WHOLE: Final = 4_000_000


class KubectlError(Exception):
    """A kubectl command failed; the text is the message of the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What matters of a node: may pods be placed on it, and the events it is held for."""

    cordoned: bool
    held_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """One wish about one node."""

    verb: Verb
    node: str
    options: tuple[str, ...]
    environment: Mapping[str, str]

    @classmethod
    def parse(cls, given: object, environment: Mapping[str, str]) -> Self:
        """Return the hook for ``{drain = "NODE"}``; ``true`` means the node named like this host."""
        options = Options("kubernetes", given, (*_VERBS, "options"))
        verb = _VERBS[options.one_of(*_VERBS)]
        node = options.text_or_true(verb) or platform.node().lower()
        return cls(verb=verb, node=node, options=options.words("options"), environment=environment)

    @property
    def name(self) -> str:
        """The node."""
        return f"kubernetes {self.node}"

    def describe(self) -> str:
        """Return the wish."""
        return f"{self.verb} node {self.node}" + (" if we cordoned it" if self.verb == "uncordon" else "")

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return "kubectl"

    def run(self, occasion: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Fulfil the wish through kubectl."""
        if occasion.dry_run:
            return rehearsal(self)
        cluster = _Kubectl(self, occasion, now)
        try:
            if self.verb == "uncordon":
                return _uncordon(cluster, remembered)
            return _cordon(cluster, self.verb == "drain")
        except KubectlError as refusal:
            return HookOutcome(False, str(refusal), remembered)


class _Kubectl:
    """The commands, each within what is left of the time."""

    def __init__(self, hook: Kubernetes, occasion: HookContext, now: Now) -> None:
        self.node = hook.node
        self.event = str(occasion.event.key)
        self._hook = hook
        self._occasion = occasion
        self._now = now

    def look(self) -> Node:
        """Return the node as it is."""
        return read_node(self.tell("get", "node", self.node, "--output=json", shown=WHOLE))

    def hold(self, events: Sequence[str]) -> None:
        """Write down for whom the node is held; for nobody, the annotation goes."""
        value = f"{HELD_FOR}={','.join(events)}" if events else f"{HELD_FOR}-"
        self.tell("annotate", "node", self.node, "--overwrite", value)

    def drain(self) -> None:
        """Move the pods away."""
        seconds = max(1, int(time_left(self._occasion, self._now).total_seconds()))
        self.tell("drain", self.node, *DRAIN, f"--timeout={seconds}s", *self._hook.options)

    def tell(self, *words: str, shown: int = program.SHOWN) -> str:
        """Return what kubectl prints."""
        within = time_left(self._occasion, self._now)
        result = program.run(["kubectl", *words], within, self._hook.environment, shown=shown)
        if not result.ok:
            raise KubectlError(
                f"kubectl {words[0]} of node {self.node} failed: {result.message}"[: program.SHOWN]
            )
        return result.said


def _cordon(cluster: _Kubectl, drain: bool) -> HookOutcome:
    before = cluster.look()
    ours = bool(before.held_for) or not before.cordoned
    if ours:
        cluster.hold(sorted({*before.held_for, cluster.event}))
        cluster.tell("cordon", cluster.node)
    token = OURS if ours else FOUND
    try:
        if drain:
            cluster.drain()
    except KubectlError as refusal:
        return HookOutcome(False, str(refusal), token)
    done = "drained" if drain else "cordoned"
    return HookOutcome(
        True, f"node {cluster.node} is {done}" + ("" if ours else "; it was cordoned before"), token
    )


def _uncordon(cluster: _Kubectl, remembered: str | None) -> HookOutcome:
    if remembered == FOUND:
        return HookOutcome(True, f"node {cluster.node} stays cordoned, as it was before")
    held_for = cluster.look().held_for
    if cluster.event not in held_for:
        return HookOutcome(True, f"node {cluster.node} is not held for this event; left as it is")
    others = [event for event in held_for if event != cluster.event]
    if not others:
        cluster.tell("uncordon", cluster.node)
    cluster.hold(others)
    if others:
        return HookOutcome(True, f"node {cluster.node} stays cordoned for {', '.join(others)}")
    return HookOutcome(True, f"node {cluster.node} is uncordoned")


def read_node(text: str) -> Node:
    """Return what matters of ``kubectl get node --output=json``.

    Raises:
        Refused: the text is no JSON object.
    """
    try:
        # kubectl may warn before and after it prints the object.
        message: Json = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    except ValueError:
        raise KubectlError("kubectl described the node in no JSON") from None
    held_for = _member(_member(message, "metadata"), "annotations")
    value = held_for.get(HELD_FOR) if isinstance(held_for, dict) else None
    spec = _member(message, "spec")
    return Node(
        cordoned=isinstance(spec, dict) and spec.get("unschedulable") is True,
        held_for=tuple(value.split(",")) if isinstance(value, str) and value else (),
    )


def _member(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None
