"""The Kubernetes API, for an agent in a pod: it uses the service account of the pod and needs no kubectl.

A drain does what ``kubectl drain --ignore-daemonsets --delete-emptydir-data`` does. The API evicts every pod
that a controller replaces, and so respects disruption budgets. Pods of a DaemonSet and static pods stay. A
pod without a controller stops the drain before the first eviction, unless the option ``--force`` is given.
"""

import http.client
import json
import re
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote, urlencode

from fairwarning.agent.client import TimedConnection
from fairwarning.agent.hooks.hook import HookContext, Now, time_left
from fairwarning.agent.hooks.options import SettingsError
from fairwarning.core.document.render import Json

#: Where a pod finds the token, the authority and the namespace of its service account.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST: Final = "KUBERNETES_SERVICE_HOST"
PORT: Final = "KUBERNETES_SERVICE_PORT"
#: Names the file of kubectl; a user who sets KUBECONFIG wants kubectl.
KUBECONFIG: Final = "KUBECONFIG"

MERGE_PATCH: Final = "application/merge-patch+json"
MIRROR: Final = "kubernetes.io/config.mirror"
FINISHED: Final = frozenset({"Succeeded", "Failed"})
#: How long one request may take.
REQUEST_LIMIT: Final = timedelta(seconds=30)
#: The pause before pods are listed, and refused evictions tried, again.
POLL_INTERVAL: Final = timedelta(seconds=2)
PAGE_SIZE: Final = 250
LARGEST_ANSWER: Final = 64_000_000
#: How much of an answer goes into an error message.
MAX_MESSAGE: Final = 500
#: How many pods an error message names.
MAX_NAMES: Final = 5


class KubernetesError(Exception):
    """The cluster refused or did not answer; the text is the message of the outcome."""


class ApiStatusError(KubernetesError):
    """The API answered with an error status."""

    def __init__(self, action: str, status: int, message: str) -> None:
        super().__init__(f"the Kubernetes API refused to {action}: {status} {message}".rstrip())
        self.status = status


class TimeUpError(KubernetesError):
    """No time was left for a request, so the request was not sent."""

    def __init__(self, action: str) -> None:
        super().__init__(f"the time was up before the Kubernetes API was asked to {action}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """The options of ``kubectl drain`` that the API understands."""

    force: bool = False
    grace_period: int | None = None

    @classmethod
    def parse(cls, words: Sequence[str]) -> Self:
        """Return the options in a list of words.

        Raises:
            SettingsError: an option is unknown.
        """
        force, grace_period = False, None
        for word in words:
            if word == "--force":
                force = True
            elif seconds := re.fullmatch(r"--grace-period=([0-9]{1,6})", word):
                grace_period = int(seconds[1])
            else:
                expected = "--force and --grace-period=SECONDS"
                raise SettingsError("kubernetes.options", f"{word!r}: in a pod, only {expected} are known")
        return cls(force=force, grace_period=grace_period)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What a drain must know of a pod."""

    namespace: str
    name: str
    uid: str
    controller: str | None
    static: bool
    finished: bool
    terminating: bool

    @property
    def stays(self) -> bool:
        """Whether a drain leaves the pod: the kubelet or a DaemonSet would start it again on this node."""
        return self.static or self.controller == "DaemonSet"

    @property
    def unmanaged(self) -> bool:
        """Whether no controller would replace the pod."""
        return self.controller is None and not self.static and not self.finished

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ApiServer:
    """The API server of the cluster that the agent's pod runs in."""

    def __init__(self, environment: Mapping[str, str], context: HookContext, now: Now) -> None:
        self._host, self._port = environment[HOST], int(environment.get(PORT) or "443")
        self._end = now() + time_left(context, now)
        self._now = now

    @property
    def time_left(self) -> timedelta:
        """The time until the hook must have ended."""
        return max(self._end - self._now(), timedelta(0))

    def call(self, action: str, method: str, path: str, body: Json = None) -> dict[str, Json]:
        """Send a request and return the answer; ``action`` names the request in errors.

        Raises:
            TimeUpError: no time is left.
            ApiStatusError: the API refused.
            KubernetesError: the API did not answer, or not with a JSON object.
        """
        limit = min(self.time_left, REQUEST_LIMIT)
        if not limit:
            raise TimeUpError(action)
        try:
            status, text = self._exchange(method, path, body, limit)
        except (OSError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
            raise KubernetesError(f"the Kubernetes API did not {action}: {problem}") from None
        try:
            answer: Json = json.loads(text)
        except ValueError:
            answer = text[:MAX_MESSAGE].decode(errors="replace")
        if not 200 <= status <= 299:
            message = member(answer, "message") or answer
            raise ApiStatusError(action, status, str(message)[:MAX_MESSAGE])
        # Taken for an empty object, half an answer or a proxy's page would be a node without pods and holds.
        if not isinstance(answer, dict):
            raise KubernetesError(f"the Kubernetes API did not {action}: the answer is not a JSON object")
        return answer

    def _exchange(self, method: str, path: str, body: Json, limit: timedelta) -> tuple[int, bytes]:
        # The token is replaced every hour or so, and the authority may be.
        token = (SERVICE_ACCOUNT / "token").read_text().strip()
        trust = ssl.create_default_context(cafile=SERVICE_ACCOUNT / "ca.crt")
        # The authorities of many clusters lack the key identifiers that Python 3.13 asks for.
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else "application/json"
        with TimedConnection(self._host, self._port, limit, tls=trust) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read(LARGEST_ANSWER)


def in_pod(environment: Mapping[str, str]) -> bool:
    """Whether the agent runs in a pod and no file for kubectl is named."""
    return bool(environment.get(HOST)) and not environment.get(KUBECONFIG)


def drain(api: ApiServer, node: str, options: DrainOptions) -> None:
    """Evict the pods of a node and wait until they are gone.

    Raises:
        KubernetesError: a pod may not be evicted, or some are left when the time is up.
    """
    leaving = {pod.uid: pod for pod in _pods(api, node) if not pod.stays}
    if not options.force and (unmanaged := [pod for pod in leaving.values() if pod.unmanaged]):
        raise KubernetesError(f"no controller replaces {_names(unmanaged)}; the option --force evicts them")
    # Whether the API evicts a pod; false if a disruption budget forbade it when the API was last asked.
    evicted = {uid: True for uid, pod in leaving.items() if pod.terminating}
    pause = threading.Event()
    while leaving:
        evicted |= _evict_each(api, [pod for uid, pod in leaving.items() if not evicted.get(uid)], options)
        with suppress(TimeUpError):
            present = {pod.uid for pod in _pods(api, node)}
            leaving = {uid: pod for uid, pod in leaving.items() if uid in present}
        if leaving and not api.time_left:
            protected = [pod for uid, pod in leaving.items() if evicted.get(uid) is False]
            reason = f"; a disruption budget protects {_names(protected)}" if protected else ""
            raise KubernetesError(f"the time is up, and {_names([*leaving.values()])} are left{reason}")
        if leaving:
            pause.wait(min(POLL_INTERVAL, api.time_left).total_seconds())


def _evict_each(api: ApiServer, pods: Sequence[Pod], options: DrainOptions) -> dict[str, bool]:
    """Evict pods until the time is up, and return by uid what ``_evict`` returned.

    Raises:
        KubernetesError: evictions failed; the other pods were asked to go nevertheless.
    """
    evicted: dict[str, bool] = {}
    failures: list[KubernetesError] = []
    for pod in pods:
        try:
            evicted[pod.uid] = _evict(api, pod, options)
        except TimeUpError:
            break
        except KubernetesError as failure:
            failures.append(failure)
    if failures:
        raise KubernetesError(f"{failures[0]}; failed evictions: {len(failures)} of {len(pods)}")
    return evicted


def _evict(api: ApiServer, pod: Pod, options: DrainOptions) -> bool:
    """Evict a pod; false if a disruption budget forbids the eviction at the moment."""
    body: dict[str, Json] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
    }
    if options.grace_period is not None:
        body["deleteOptions"] = {"gracePeriodSeconds": options.grace_period}
    path = f"/api/v1/namespaces/{quote(pod.namespace)}/pods/{quote(pod.name)}/eviction"
    try:
        api.call(f"evict {pod}", "POST", path, body)
    except ApiStatusError as refusal:
        if refusal.status not in (404, 429):
            raise
        return refusal.status == 404
    return True


def _pods(api: ApiServer, node: str) -> Iterator[Pod]:
    """Yield the pods of a node, page by page."""
    query = {"fieldSelector": f"spec.nodeName={node}", "limit": str(PAGE_SIZE)}
    while True:
        page = api.call(f"list the pods of {node}", "GET", f"/api/v1/pods?{urlencode(query)}")
        items = page.get("items")
        if "items" not in page or not isinstance(items, list | None):
            raise KubernetesError(f"the Kubernetes API did not list the pods of {node}: items is not a list")
        yield from map(_pod, items or ())
        more = member(page.get("metadata"), "continue")
        if not isinstance(more, str) or not more:
            return
        query["continue"] = more


def _pod(described: Json) -> Pod:
    metadata = member(described, "metadata")
    owners = member(metadata, "ownerReferences")
    controllers = (
        [owner for owner in owners if member(owner, "controller") is True] if isinstance(owners, list) else []
    )
    return Pod(
        namespace=str(member(metadata, "namespace")),
        name=str(member(metadata, "name")),
        uid=str(member(metadata, "uid")),
        controller=str(member(controllers[0], "kind")) if controllers else None,
        static=member(member(metadata, "annotations"), MIRROR) is not None,
        finished=member(member(described, "status"), "phase") in FINISHED,
        terminating=member(metadata, "deletionTimestamp") is not None,
    )


def _names(pods: Sequence[Pod]) -> str:
    more = len(pods) - MAX_NAMES
    return ", ".join(map(str, pods[:MAX_NAMES])) + (f" and {more} more" if more > 0 else "")


def member(value: Json, name: str) -> Json:
    """Return a member of a JSON object; None if there is none."""
    return value.get(name) if isinstance(value, dict) else None
