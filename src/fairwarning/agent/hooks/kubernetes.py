"""The kubernetes hook: cordons and drains the node of this machine, and uncordons what it cordoned itself.

An annotation of the node lists the events that the node is held for. It is written before the cordon, so that
an agent that dies in between still knows its own cordon, and two events hold the node until both are over. A
cordon without the annotation was not made by the agent and stays.

The hook calls kubectl. In a pod it calls the API itself, so that the agent's image needs no kubectl.
"""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, Self
from urllib.parse import quote

from fairwarning.agent.hooks import kubernetes_api, program
from fairwarning.agent.hooks.hook import HookContext, HookOutcome, Now, dry_run_outcome, time_left
from fairwarning.agent.hooks.kubernetes_api import ApiServer, DrainOptions, KubernetesError, member
from fairwarning.agent.hooks.options import Options
from fairwarning.core.document.render import Json

Verb = Literal["cordon", "drain", "uncordon"]
_VERBS: Mapping[str, Verb] = {"cordon": "cordon", "drain": "drain", "uncordon": "uncordon"}

HELD_FOR: Final = "fairwarning/held-for"
OURS: Final = "cordoned by us"
FOUND: Final = "found cordoned"
#: The variable that names the node; a pod gets it from the downward API.
NODE_NAME: Final = "NODE_NAME"

#: The options of every drain; the setting ``options`` adds to them.
DRAIN_OPTIONS: Final = ("--ignore-daemonsets", "--delete-emptydir-data")
#: The JSON of a node lists its images, so it can be long, and all of it is needed.
NODE_OUTPUT_LIMIT: Final = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The state of a node: whether it is cordoned, and the events that it is held for."""

    cordoned: bool
    held_for: tuple[str, ...]


class _Cluster(Protocol):
    """What the hook does to one node, each within the remaining time; errors are ``KubernetesError``."""

    node: str
    event: str

    def read(self) -> Node:
        """Return the state of the node."""

    def hold(self, events: Sequence[str]) -> None:
        """Annotate the node with the events that hold it; without events, remove the annotation."""

    def cordon(self) -> None:
        """Keep new pods away."""

    def uncordon(self) -> None:
        """Allow new pods."""

    def drain(self) -> None:
        """Move the pods away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """A verb for one node."""

    verb: Verb
    node: str
    options: tuple[str, ...]
    environment: Mapping[str, str]

    @classmethod
    def parse(cls, given: object, environment: Mapping[str, str]) -> Self:
        """Return the hook for ``{drain = "NODE"}``; ``true`` means NODE_NAME, or the name of this host."""
        options = Options("kubernetes", given, (*_VERBS, "options"))
        verb = _VERBS[options.one_of(*_VERBS)]
        node = options.text_or_true(verb) or environment.get(NODE_NAME) or platform.node().lower()
        words = options.words("options")
        if kubernetes_api.in_pod(environment):
            DrainOptions.parse(words)
        return cls(verb=verb, node=node, options=words, environment=environment)

    @property
    def name(self) -> str:
        """The node."""
        return f"kubernetes {self.node}"

    def describe(self) -> str:
        """Return the verb and the node."""
        return f"{self.verb} node {self.node}" + (
            " if the agent cordoned it" if self.verb == "uncordon" else ""
        )

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return None if kubernetes_api.in_pod(self.environment) else "kubectl"

    def run(self, context: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Cordon, drain or uncordon the node, through kubectl or, in a pod, through the API."""
        if context.dry_run:
            return dry_run_outcome(self)
        connect = _Api if kubernetes_api.in_pod(self.environment) else _Kubectl
        cluster: _Cluster = connect(self, context, now)
        try:
            if self.verb == "uncordon":
                return _uncordon(cluster, remembered)
            return _cordon(cluster, self.verb == "drain")
        except KubernetesError as problem:
            return HookOutcome(False, str(problem), remembered)


class _Kubectl:
    """The kubectl commands for one node."""

    def __init__(self, hook: Kubernetes, context: HookContext, now: Now) -> None:
        self.node = hook.node
        self.event = str(context.event.key)
        self._hook = hook
        self._context = context
        self._now = now

    def read(self) -> Node:
        """Return the state of the node."""
        return read_node(self.run("get", "node", self.node, "--output=json", output_limit=NODE_OUTPUT_LIMIT))

    def hold(self, events: Sequence[str]) -> None:
        """Annotate the node with the events that hold it; without events, remove the annotation."""
        value = f"{HELD_FOR}={','.join(events)}" if events else f"{HELD_FOR}-"
        self.run("annotate", "node", self.node, "--overwrite", value)

    def cordon(self) -> None:
        """Keep new pods away."""
        self.run("cordon", self.node)

    def uncordon(self) -> None:
        """Allow new pods."""
        self.run("uncordon", self.node)

    def drain(self) -> None:
        """Move the pods away."""
        seconds = max(1, int(time_left(self._context, self._now).total_seconds()))
        self.run("drain", self.node, *DRAIN_OPTIONS, f"--timeout={seconds}s", *self._hook.options)

    def run(self, *arguments: str, output_limit: int = program.OUTPUT_LIMIT) -> str:
        """Run kubectl and return its output."""
        timeout = time_left(self._context, self._now)
        command = ["kubectl", *arguments]
        result = program.run(command, timeout, self._hook.environment, output_limit=output_limit)
        if not result.ok:
            message = f"kubectl {arguments[0]} of node {self.node} failed: {result.message}"
            raise KubernetesError(message[: program.OUTPUT_LIMIT])
        return result.output


class _Api:
    """The requests for one node."""

    def __init__(self, hook: Kubernetes, context: HookContext, now: Now) -> None:
        self.node = hook.node
        self.event = str(context.event.key)
        self._api = ApiServer(hook.environment, context, now)
        self._options = DrainOptions.parse(hook.options)
        self._path = f"/api/v1/nodes/{quote(hook.node)}"

    def read(self) -> Node:
        """Return the state of the node."""
        return node_state(self._api.call(f"describe node {self.node}", "GET", self._path))

    def hold(self, events: Sequence[str]) -> None:
        """Annotate the node with the events that hold it; without events, remove the annotation."""
        self._patch("annotate", {"metadata": {"annotations": {HELD_FOR: ",".join(events) or None}}})

    def cordon(self) -> None:
        """Keep new pods away."""
        self._patch("cordon", {"spec": {"unschedulable": True}})

    def uncordon(self) -> None:
        """Allow new pods."""
        self._patch("uncordon", {"spec": {"unschedulable": None}})

    def drain(self) -> None:
        """Move the pods away."""
        kubernetes_api.drain(self._api, self.node, self._options)

    def _patch(self, verb: str, change: Json) -> None:
        self._api.call(f"{verb} node {self.node}", "PATCH", self._path, change)


def _cordon(cluster: _Cluster, drain: bool) -> HookOutcome:
    before = cluster.read()
    ours = bool(before.held_for) or not before.cordoned
    if ours:
        cluster.hold(sorted({*before.held_for, cluster.event}))
        cluster.cordon()
    token = OURS if ours else FOUND
    try:
        if drain:
            cluster.drain()
    except KubernetesError as problem:
        return HookOutcome(False, str(problem), token)
    done = "drained" if drain else "cordoned"
    return HookOutcome(
        True, f"node {cluster.node} is {done}" + ("" if ours else "; it was cordoned before"), token
    )


def _uncordon(cluster: _Cluster, remembered: str | None) -> HookOutcome:
    if remembered == FOUND:
        return HookOutcome(True, f"node {cluster.node} stays cordoned, as it was before")
    held_for = cluster.read().held_for
    if cluster.event not in held_for:
        return HookOutcome(True, f"node {cluster.node} is not held for this event; left as it is")
    others = [event for event in held_for if event != cluster.event]
    if not others:
        cluster.uncordon()
    cluster.hold(others)
    if others:
        return HookOutcome(True, f"node {cluster.node} stays cordoned for {', '.join(others)}")
    return HookOutcome(True, f"node {cluster.node} is uncordoned")


def read_node(text: str) -> Node:
    """Return the state of a node from the output of ``kubectl get node --output=json``.

    Raises:
        KubernetesError: the output holds no JSON object.
    """
    try:
        # kubectl may print warnings before and after the object.
        node: Json = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    except ValueError:
        raise KubernetesError("kubectl did not describe the node as JSON") from None
    return node_state(node)


def node_state(node: Json) -> Node:
    """Return the state of a node from its description by the API."""
    value = member(member(member(node, "metadata"), "annotations"), HELD_FOR)
    return Node(
        cordoned=member(member(node, "spec"), "unschedulable") is True,
        held_for=tuple(value.split(",")) if isinstance(value, str) and value else (),
    )
