"""The containers of the chart run in the image, with the rights that the chart gives them and no others.

podman stands in for the kubelet: each field of the rendered pod becomes an option. The agent drains through
the stand-in of the API server, and is killed and started again as by a reboot.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from fairwarning.core.document.render import Json
from tests.agent.hooks.api_server import NODE, api_server, pod
from tests.cli.server import free_port, until, up
from tests.needs import need
from tests.release.artefacts import build
from tests.release.test_chart import manifests, pod_of, render, settings_of, words
from tests.release.yaml_documents import Member, items, member
from tools.podman import Podman, podman

pytestmark = [pytest.mark.full, pytest.mark.needs("root", "podman", "mmdebstrap", "nsenter", "unshare")]

IMAGE = "localhost/fairwarning"
VALUES = """
image: {{repository: {image}, tag: latest}}
http: {{port: {port}}}
settings: {{agent: {{endpoint: '{endpoint}'}}}}
"""


@pytest.fixture(scope="module")
def own(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Provide podman with the image."""
    need("root", "podman", "mmdebstrap")
    if not (archives := [*dist.glob("fairwarning-*-image.tar")]):
        build(dist, "image")
        archives = [*dist.glob("fairwarning-*-image.tar")]
    with podman(tmp_path_factory.mktemp("podman") / "own", own_network=False) as own:
        own("load", "--quiet", "--input", archives[0])
        yield own


def options(spec: Json, container: Member, volumes: Mapping[str, Path]) -> list[str]:
    """Return the options of ``podman run`` for a container of a pod."""
    rights: Member = {**_object(member(spec, "securityContext")), **_object(container["securityContext"])}
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert member(spec, "hostNetwork") is True
    return [
        "--network=host",
        "--read-only",
        "--read-only-tmpfs=false",
        "--security-opt=no-new-privileges",
        f"--user={rights['runAsUser']}:{rights['runAsGroup']}",
        *(f"--cap-drop={name}" for name in words(member(rights, "capabilities", "drop"))),
        *(f"--cap-add={name}" for name in words(_object(rights["capabilities"]).get("add", []))),
        *(
            f"--volume={volumes[str(mount['name'])]}:{mount['mountPath']}"
            + ":ro" * bool(mount.get("readOnly"))
            for mount in items(container, "volumeMounts")
        ),
    ]


def _object(value: Json) -> Member:
    assert isinstance(value, dict)
    return value


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return int(answer.status) == 200
    except URLError:
        return False


def test_the_agent_of_the_chart_drains_its_node_and_returns_it_after_a_reboot(
    own: Podman, tmp_path: Path
) -> None:
    names = ("settings", "state", "tmp", "service-account")
    volumes = {name: tmp_path / name for name in names}
    for folder in volumes.values():
        folder.mkdir()
    volumes["tmp"].chmod(0o1777)

    with (
        api_server(tmp_path / "cluster") as cluster,
        up(tmp_path, "--vm", "aks", "--speed", "20", "--no-arm", "--start-enabled") as server,
    ):
        cluster.pods += [pod("web"), pod("proxy", "DaemonSet")]
        endpoint = server.ready["metadata"]["aks"]
        objects = manifests(render(tmp_path, VALUES.format(image=IMAGE, port=free_port(), endpoint=endpoint)))
        spec = pod_of(objects)
        (owner,), (agent,) = items(spec, "initContainers"), items(spec, "containers")
        (volumes["settings"] / "agent.toml").write_text(settings_of(objects))
        for name in ("token", "ca.crt"):
            (volumes["service-account"] / name).write_bytes((tmp_path / "cluster" / name).read_bytes())
        variables = {**cluster.environment, "NODE_NAME": NODE}
        given = [f"--env={name}={value}" for name, value in variables.items()]

        def boot() -> None:
            """Start the containers of the pod, one after the other."""
            program, *arguments = words(owner["command"])
            image = str(owner["image"])
            own("run", "--rm", *options(spec, owner, volumes), f"--entrypoint={program}", image, *arguments)
            run = ("run", "--detach", "--replace", "--name=agent", *options(spec, agent, volumes), *given)
            own(*run, str(agent["image"]), *words(agent["args"]))

        probe = member(agent, "livenessProbe", "httpGet")
        (port,) = items(agent, "ports")
        url = f"http://{member(probe, 'host')}:{port['containerPort']}{member(probe, 'path')}"
        boot()
        until(lambda: answers(url), "the probe succeeds")
        (event,) = server.cause("restart", "aks")
        until(lambda: cluster.names == ["proxy"], "the node is drained")
        own("kill", "agent")
        boot()
        until(lambda: event["id"] not in server.tell("events", "--json"), "the reboot is over")
        until(lambda: cluster.annotations == {}, "the node is returned")
        own("rm", "--force", "--time=2", "agent")

        approvals = [row for row in server.history() if row["kind"] == "approved"]
    assert [row["event"] for row in approvals] == [event["id"]]
    assert not cluster.cordoned
    assert volumes["state"].stat().st_uid == 65532
