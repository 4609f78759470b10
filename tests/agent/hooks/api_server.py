"""A stand-in for the API server of a cluster: one node, its pods, and the requests that a drain makes.

It answers what kubectl and the agent ask: discovery, a node, pods of a node, a DaemonSet, evictions. It wants
a token and speaks TLS. It notes each request as a verb and a resource, in the words of a ClusterRole, and can
refuse what a role does not allow.
"""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from fairwarning.core.document.render import Json

NODE = "aks-pool1-12345678-vmss000000"
TOKEN = "the-token-of-the-agent"

Member = dict[str, Json]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request: the verb and the resource of RBAC, the path, the content type and the body."""

    verb: str
    resource: str
    path: str
    content_type: str
    body: Json


@dataclass(slots=True)
class ApiStandIn:
    """The cluster behind the API."""

    folder: Path
    port: int = 0
    node: Member = field(default_factory=lambda: node(NODE))
    pods: list[Member] = field(default_factory=list)
    #: How many more evictions of a pod a disruption budget forbids.
    protected: dict[str, int] = field(default_factory=dict)
    #: Pods that do not go when they are evicted.
    stuck: set[str] = field(default_factory=set)
    #: Pods whose eviction always fails, and the status of the answer.
    refused: dict[str, int] = field(default_factory=dict)
    #: Bodies that are sent instead of the answers to a verb and a resource.
    bodies: dict[tuple[str, str], bytes] = field(default_factory=dict)
    #: The verbs and resources whose answers end in the middle.
    cut: set[tuple[str, str]] = field(default_factory=set)
    #: The verbs and resources that the token may use; None allows everything.
    allowed: set[tuple[str, str]] | None = None
    asked: list[ApiRequest] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a pod in this cluster."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
            "NODE_NAME": NODE,
        }

    @property
    def names(self) -> list[str]:
        """The names of the pods that are left."""
        return [name_of(pod) for pod in self.pods]

    @property
    def cordoned(self) -> bool:
        spec = self.node["spec"]
        return isinstance(spec, dict) and spec.get("unschedulable") is True

    @property
    def annotations(self) -> Json:
        metadata = self.node["metadata"]
        assert isinstance(metadata, dict)
        return metadata["annotations"]

    def answer(self, request: ApiRequest) -> tuple[int, Json]:
        """Return the status and the body of the answer."""
        parts = [part for part in urlsplit(request.path).path.split("/") if part]
        match request.verb, parts:
            case "get", ["api" | "apis" | "version", *_] if urlsplit(request.path).path in DISCOVERY:
                return 200, DISCOVERY[urlsplit(request.path).path]
            case "get", ["api", "v1", "nodes", name] if name == NODE:
                return 200, self.node
            case "patch", ["api", "v1", "nodes", name] if name == NODE:
                merge(self.node, request.body)
                return 200, self.node
            case "list", ["api", "v1", "pods"]:
                return 200, self.page(dict(parse_qsl(urlsplit(request.path).query)))
            case "get", ["apis", "apps", "v1", "namespaces", space, "daemonsets", name]:
                metadata: Json = {"name": name, "namespace": space, "uid": name}
                return 200, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {}}
            case "get", ["api", "v1", "namespaces", _, "pods", name] if name in self.names:
                return 200, next(pod for pod in self.pods if name_of(pod) == name)
            case "create", ["api", "v1", "namespaces", _, "pods", name, "eviction"] if name in self.names:
                return self.evict(name)
        return failure(404, "NotFound", f"{request.path} not found")

    def page(self, query: dict[str, str]) -> Json:
        """Return a part of the list of pods, and where the next part begins."""
        assert query["fieldSelector"] == f"spec.nodeName={NODE}"
        begin = int(query.get("continue", "0"))
        end = begin + int(query.get("limit", "500"))
        metadata: Member = {"continue": str(end)} if end < len(self.pods) else {}
        return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": [*self.pods[begin:end]]}

    def evict(self, name: str) -> tuple[int, Json]:
        """Remove a pod, unless it is refused, protected or stuck."""
        if name in self.refused:
            return failure(self.refused[name], "Refused", f"{name} is not evicted")
        if self.protected.get(name, 0) > 0:
            self.protected[name] -= 1
            return failure(429, "TooManyRequests", "it would violate the pod's disruption budget")
        if name not in self.stuck:
            self.pods[:] = [pod for pod in self.pods if name_of(pod) != name]
        return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}


def node(name: str) -> Member:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "annotations": {}},
        "spec": {},
        "status": {},
    }


def pod(name: str, controller: str | None = "ReplicaSet", **more: Json) -> Member:
    """Return a pod of the namespace ``shop``; ``more`` goes into its metadata."""
    owner: Json = {
        "apiVersion": "apps/v1",
        "kind": controller,
        "name": f"{name}-owner",
        "uid": f"{name}-owner",
        "controller": True,
    }
    metadata: Member = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "ownerReferences": [owner] if controller else [],
        **more,
    }
    spec: Json = {"nodeName": NODE, "containers": [{"name": "c", "image": "c"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Running"},
    }


def name_of(described: Member) -> str:
    metadata = described["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


def merge(target: Member, change: Json) -> None:
    """Apply a merge patch."""
    assert isinstance(change, dict)
    for name, value in change.items():
        inner = target.setdefault(name, {})
        if isinstance(value, dict) and isinstance(inner, dict):
            merge(inner, value)
        elif value is None:
            target.pop(name, None)
        else:
            target[name] = value


def failure(code: int, reason: str, message: str) -> tuple[int, Json]:
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }


def _resources(version: str, *resources: Json) -> Json:
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [*resources]}


def _resource(name: str, kind: str, *verbs: str, namespaced: bool = True, **more: Json) -> Json:
    return {
        "name": name,
        "singularName": kind.lower(),
        "namespaced": namespaced,
        "kind": kind,
        "verbs": [*verbs],
        **more,
    }


def _group(name: str) -> Json:
    version: Json = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


DISCOVERY: dict[str, Json] = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group("policy"), _group("apps")]},
    "/api/v1": _resources(
        "v1",
        _resource("nodes", "Node", "get", "list", "patch", namespaced=False),
        _resource("pods", "Pod", "get", "list", "delete"),
        _resource("pods/eviction", "Eviction", "create", group="policy", version="v1"),
    ),
    "/apis/policy/v1": _resources(
        "policy/v1", _resource("poddisruptionbudgets", "PodDisruptionBudget", "get")
    ),
    "/apis/apps/v1": _resources("apps/v1", _resource("daemonsets", "DaemonSet", "get")),
}


def rbac(method: str, path: str) -> tuple[str, str]:
    """Return the verb and the resource by which a role allows a request."""
    parts = [part for part in urlsplit(path).path.split("/") if part]
    if urlsplit(path).path in DISCOVERY:
        return "get", "discovery"
    kept = parts[2:] if parts[0] == "api" else parts[3:]
    kept = kept[2:] if kept[0] == "namespaces" else kept
    verbs = {"GET": "get" if len(kept) > 1 else "list", "PATCH": "patch", "POST": "create"}
    return verbs[method], "/".join((kept[0], *kept[2:]))


def tls(folder: Path) -> ssl.SSLContext:
    """Return the TLS settings of the server; ``ca.crt`` is an authority as clusters make it.

    Neither certificate has a key identifier, which Python 3.13 wants by default.
    """
    own_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("kubernetes", own_key.public_key())
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    host = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    server = _certificate("apiserver", server_key.public_key()).add_extension(host, critical=False)
    key = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "ca.crt").write_bytes(authority.sign(own_key, hashes.SHA256()).public_bytes(Encoding.PEM))
    (folder / "server.pem").write_bytes(
        server.sign(own_key, hashes.SHA256()).public_bytes(Encoding.PEM) + key
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


def _certificate(name: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )


@contextmanager
def api_server(folder: Path) -> Iterator[ApiStandIn]:
    """Run a stand-in; ``folder`` gets the token and the authority, as in a pod."""
    cluster = ApiStandIn(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            verb, resource = rbac(self.command, self.path)
            content_type = self.headers.get("Content-Type") or ""
            request = ApiRequest(verb, resource, self.path, content_type, json.loads(body) if body else None)
            cluster.asked.append(request)
            status, answer = self.decide(request)
            asked = (verb, resource)
            self.reply(status, cluster.bodies.get(asked, json.dumps(answer).encode()), asked in cluster.cut)

        do_PATCH = do_POST = do_GET

        def decide(self, request: ApiRequest) -> tuple[int, Json]:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return failure(401, "Unauthorized", "Unauthorized")
            if cluster.allowed is not None and (request.verb, request.resource) not in cluster.allowed:
                return failure(403, "Forbidden", f"cannot {request.verb} resource {request.resource}")
            return cluster.answer(request)

        def reply(self, status: int, body: bytes, cut: bool) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection |= cut

        def log_message(self, format: str, *args: object) -> None:
            pass

    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(f"{TOKEN}\n")
    context = tls(folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        cluster.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield cluster
        finally:
            server.shutdown()
            thread.join()
