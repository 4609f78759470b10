"""The Helm chart: linted, packed and rendered by the real helm, and valid to the schemas of Kubernetes.

No cluster is here: nothing is installed, and no kubelet starts the pods. What the agent does in a pod is
tested in ``tests/agent/hooks``; here its settings and its role come from the rendered chart.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairwarning import __version__
from fairwarning.agent.hooks import HOOKS, parse
from fairwarning.agent.settings import AgentSettings, load, parse_settings
from fairwarning.core.document.render import Json
from tests.agent.hooks.api_server import NODE, ApiStandIn, api_server, pod
from tests.agent.hooks.contexts import noon, prepare, recover
from tests.cli.server import until, up
from tests.pages import Page
from tests.release.yaml_documents import REQUIREMENTS, Member, items, member, read_yaml
from tools.environments import environment
from tools.release import ROOT, Release
from tools.release.chart import FOLDER, build, semantic
from tools.release.kubernetes_programs import program

pytestmark = pytest.mark.slow

GUIDE = Page("docs/guides/kubernetes.md")
IMAGE = "image: {repository: registry.example.com/fairwarning}\n"

#: What a cluster of Kubernetes 1.30 or later tells helm.
WITH_POLICIES = ("--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")
POLICY = dict.fromkeys(("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"))
#: Where the API server writes the node of the pod that a token is bound to.
NODE_CLAIM = "authentication.kubernetes.io/node-name"
KINDS = {"ConfigMap", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"}

#: Values that a user might write, by the sentence that they prove.
VALUES = {
    "the default": IMAGE,
    "a dry run that Prometheus can read": IMAGE + "dryRun: true\nhttp: {host: 0.0.0.0, port: 9200}\n",
    "a role and an account of the user": IMAGE
    + "rbac: {create: false}\nserviceAccount: {create: false, name: drainer}\npriorityClassName: ''\n",
    "rules with every kind of value": IMAGE
    + """
settings:
  agent: {freeze_threshold: 12, poll: 2s, margin: 30, peers: {aks_1: 'http://10.0.0.5:9169'}}
  rule:
    - name: slow freeze
      types: [Freeze]
      min_duration: 30
      tries: 3
      prepare: [{log: "a = 1.0"}, {kubernetes: {cordon: true}}]
      recover: [{kubernetes: {uncordon: true}}]
    - prepare:
        - http: {url: 'https://changes.example.com/hook', secret_file: /etc/webhook/secret}
        - kubernetes: {drain: true, options: [--force, --grace-period=20]}
      approve: never
volumes: [{name: webhook, secret: {secretName: webhook}}]
volumeMounts: [{name: webhook, mountPath: /etc/webhook, readOnly: true}]
env: [{name: TZ, value: UTC}]
podAnnotations: {prometheus.io/scrape: "true"}
podLabels: {team: platform}
""",
    "several endpoints": IMAGE
    + "settings: {agent: {endpoint: ['http://169.254.169.254', 'http://10.0.1.2:8080']}}\n",
    "the file of the guide": GUIDE.files()["values.yaml"],
}


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("helm"), *words], capture_output=True, text=True)


def render(folder: Path, values: str, *words: str | Path) -> str:
    """Return what helm would install with these values."""
    file = folder / "values.yaml"
    file.write_text(values)
    done = helm("template", "nodes", FOLDER, "--namespace", "kube-system", "--values", file, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def manifests(rendered: str) -> dict[str, Member]:
    """Return the rendered objects by kind."""
    return {str(document["kind"]): document for document in read_yaml(rendered)}


def settings_of(objects: Mapping[str, Member]) -> str:
    return str(member(objects["ConfigMap"], "data", "agent.toml"))


def pod_of(objects: Mapping[str, Member]) -> Json:
    return member(objects["DaemonSet"], "spec", "template", "spec")


def validate(file: Path) -> subprocess.CompletedProcess[str]:
    command = [str(environment(REQUIREMENTS) / "kubernetes-validate"), "-k", "1.36", "--strict", str(file)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(params=[pytest.param(values, id=name) for name, values in VALUES.items()])
def rendered(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return render(tmp_path, str(request.param))


def test_helm_finds_nothing_to_complain_about() -> None:
    done = helm("lint", "--strict", FOLDER, "--set", "image.repository=registry.example.com/fairwarning")

    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout + done.stderr


def test_kubernetes_accepts_every_field(rendered: str, tmp_path: Path) -> None:
    file = tmp_path / "rendered.yaml"
    file.write_text(rendered)

    done = validate(file)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_misspelt_field_would_be_found(tmp_path: Path) -> None:
    file = tmp_path / "rendered.yaml"
    file.write_text(render(tmp_path, VALUES["the default"]).replace("hostNetwork:", "hostNetwrok:"))

    done = validate(file)

    assert done.returncode != 0
    assert "hostNetwrok" in done.stdout + done.stderr


def test_the_agent_understands_the_rendered_settings(rendered: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(settings_of(manifests(rendered)))

    settings = load(file, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NODE_NAME": NODE})

    assert "http://169.254.169.254" in settings.endpoints
    assert settings.state == AgentSettings().state
    assert settings.listen is not None
    steps = [step for rule in settings.policy.rules for step in settings.steps_of(rule.name).prepare]
    assert f"kubernetes {NODE}" in {step.name for step in steps}
    assert {step.program() for step in steps} == {None}


def test_numbers_and_texts_reach_the_settings_unchanged(tmp_path: Path) -> None:
    objects = manifests(render(tmp_path, VALUES["rules with every kind of value"]))

    written = tomllib.loads(settings_of(objects))

    (given,) = read_yaml(VALUES["rules with every kind of value"])
    added = {"endpoint", "state", "listen"}
    assert written["rule"] == member(given, "settings", "rule")
    assert {name: value for name, value in written["agent"].items() if name not in added} == member(
        given, "settings", "agent"
    )


def test_the_default_rule_drains_approves_and_returns(tmp_path: Path) -> None:
    objects = manifests(render(tmp_path, VALUES["the default"]))

    settings = parse_settings(tomllib.loads(settings_of(objects)), {"NODE_NAME": NODE})

    (rule,) = settings.policy.rules
    steps = settings.steps_of(rule.name)
    assert rule.types == {"reboot", "redeploy", "preempt", "terminate"}
    assert [step.describe() for step in (*steps.prepare, *steps.recover)] == [
        f"drain node {NODE}",
        f"uncordon node {NODE} if the agent cordoned it",
    ]


def test_the_role_allows_what_the_hook_asks_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = items(manifests(render(tmp_path, VALUES["the default"]))["ClusterRole"], "rules")
    allowed = {(verb, words(rule["resources"])[0]) for rule in rules for verb in words(rule["verbs"])}
    monkeypatch.setattr("fairwarning.agent.hooks.kubernetes_api.SERVICE_ACCOUNT", tmp_path)

    with api_server(tmp_path) as cluster:
        cluster.allowed = allowed
        cluster.pods += [pod("web"), pod("proxy", "DaemonSet")]
        drained = parse({"kubernetes": {"drain": True}}, cluster.environment).run(prepare(), None, noon)
        returned = parse({"kubernetes": {"uncordon": True}}, cluster.environment).run(
            recover(), drained.token, noon
        )

    assert drained.ok, drained.message
    assert returned.ok, returned.message
    assert {(asked.verb, asked.resource) for asked in cluster.asked} == allowed
    assert [(rule["apiGroups"], len(words(rule["resources"]))) for rule in rules] == [([""], 1)] * 3


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param("[{kubernetes: {drain: true}}]", {"nodes", "pods", "pods/eviction"}, id="a drain"),
        pytest.param("[{kubernetes: {cordon: true}}]", {"nodes"}, id="a cordon"),
        pytest.param(
            "[{kubernetes: {drain: true}}, {kubernetes: {uncordon: true}}]",
            {"nodes", "pods", "pods/eviction"},
            id="a drain and an uncordon",
        ),
        pytest.param("[{log: drain}]", None, id="no kubernetes hook"),
        pytest.param("[]", None, id="no hook"),
    ],
)
def test_the_role_has_no_more_than_the_hooks_need(
    tmp_path: Path, steps: str, expected: set[str] | None
) -> None:
    values = IMAGE + f"settings: {{rule: [{{types: [Freeze]}}, {{name: drain, prepare: {steps}}}]}}\n"

    objects = manifests(render(tmp_path, values, *WITH_POLICIES))

    assert {"ClusterRole", "ClusterRoleBinding", *POLICY} & set(objects) == (
        {"ClusterRole", "ClusterRoleBinding", *POLICY} if expected else set()
    )
    if expected:
        rules = items(objects["ClusterRole"], "rules")
        assert {name for rule in rules for name in words(rule["resources"])} == expected


def test_a_policy_limits_each_write_of_the_role_to_agents_with_a_node(tmp_path: Path) -> None:
    objects = manifests(render(tmp_path, VALUES["the default"], *WITH_POLICIES))
    policy, binding = (objects[kind] for kind in POLICY)
    operations = {"patch": "UPDATE", "create": "CREATE"}

    written = [
        (operations[verb], words(rule["resources"]))
        for rule in items(objects["ClusterRole"], "rules")
        for verb in words(rule["verbs"])
        if verb not in ("get", "list")
    ]
    limited = [
        (words(rule["operations"])[0], words(rule["resources"]))
        for rule in items(policy, "spec", "matchConstraints", "resourceRules")
    ]
    (account,) = items(objects["ClusterRoleBinding"], "subjects")
    (condition,) = items(policy, "spec", "matchConditions")
    with_node, own_node = (str(rule["expression"]) for rule in items(policy, "spec", "validations"))

    assert limited == written
    assert member(pod_of(objects), "serviceAccountName") == account["name"]
    assert condition["expression"] == (
        f"request.userInfo.username == 'system:serviceaccount:{account['namespace']}:{account['name']}'"
    )
    assert with_node == f"has(request.userInfo.extra) && '{NODE_CLAIM}' in request.userInfo.extra"
    assert own_node == (
        "request.resource.resource != 'nodes' || "
        f"object.metadata.name == request.userInfo.extra['{NODE_CLAIM}'][0]"
    )
    assert member(policy, "spec", "failurePolicy") == "Fail"
    assert binding["spec"] == {
        "policyName": member(policy, "metadata", "name"),
        "validationActions": ["Deny"],
    }


@pytest.mark.parametrize(
    "values",
    ["rbac: {ownNodeOnly: false}", "rbac: {create: false}"],
    ids=["not wanted", "a role of the user"],
)
def test_the_policy_can_be_left_out(tmp_path: Path, values: str) -> None:
    assert not POLICY.keys() & manifests(render(tmp_path, IMAGE + values, *WITH_POLICIES)).keys()


def test_a_cluster_without_policies_gets_none(tmp_path: Path) -> None:
    assert set(manifests(render(tmp_path, IMAGE))) == KINDS


def test_kubernetes_accepts_every_field_of_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "rendered.yaml"
    file.write_text(render(tmp_path, IMAGE, *WITH_POLICIES))

    done = validate(file)

    assert "ValidatingAdmissionPolicyBinding" in file.read_text()
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_agent_asks_as_the_node_and_keeps_its_journal_there(tmp_path: Path) -> None:
    spec = pod_of(manifests(render(tmp_path, VALUES["the default"])))

    assert member(spec, "hostNetwork") is True
    assert member(spec, "tolerations") == [{"operator": "Exists"}]
    assert member(spec, "nodeSelector") == {"kubernetes.io/os": "linux"}
    assert member(spec, "priorityClassName") == "system-node-critical"
    state: Member = {"path": str(AgentSettings().state), "type": "DirectoryOrCreate"}
    assert {"name": "state", "hostPath": state} in items(spec, "volumes")


def test_the_agent_is_not_root_and_writes_only_its_journal(rendered: str) -> None:
    spec = pod_of(manifests(rendered))
    (agent,), (owner,) = items(spec, "containers"), items(spec, "initContainers")
    tight: Member = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}

    assert member(spec, "securityContext") == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert agent["securityContext"] == {**tight, "capabilities": {"drop": ["ALL"]}}
    assert owner["securityContext"] == {
        **tight,
        "runAsNonRoot": False,
        "runAsUser": 0,
        "runAsGroup": 0,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
    }
    assert [mount["name"] for mount in items(owner, "volumeMounts")] == ["state"]
    assert member(spec, "automountServiceAccountToken") is False


def test_new_settings_start_new_pods(tmp_path: Path) -> None:
    def checksum(values: str) -> Json:
        metadata = member(manifests(render(tmp_path, values))["DaemonSet"], "spec", "template", "metadata")
        return member(metadata, "annotations", "checksum/settings")

    assert checksum(IMAGE) == checksum(IMAGE + "podLabels: {a: b}\n")
    assert checksum(IMAGE) != checksum(IMAGE + "settings: {agent: {poll: 3s}}\n")


@contextmanager
def agent_in_pod(cluster: ApiStandIn, settings: Path, endpoint: str, state: Path) -> Iterator[None]:
    """Run the agent with the variables and the files of a pod; only the place of its token is another."""
    script = (
        "import pathlib, sys; from fairwarning.agent import main;"
        "from fairwarning.agent.hooks import kubernetes_api;"
        f"kubernetes_api.SERVICE_ACCOUNT = pathlib.Path({str(cluster.folder)!r});"
        "sys.exit(main.main(sys.argv[1:]))"
    )
    words = ["run", f"--config={settings}", f"--endpoint={endpoint}", f"--state={state}"]
    with (state.parent / "agent.log").open("ab") as log:
        agent = subprocess.Popen([sys.executable, "-c", script, *words], env=cluster.environment, stderr=log)
    try:
        yield
    finally:
        agent.terminate()
        agent.wait(20)


def test_the_chart_drains_a_node_before_a_reboot_and_returns_it_afterwards(tmp_path: Path) -> None:
    objects = manifests(render(tmp_path, VALUES["the default"]))
    settings, state, account = tmp_path / "agent.toml", tmp_path / "state", tmp_path / "account"
    settings.write_text(settings_of(objects).replace("127.0.0.1:9169", "127.0.0.1:0"))
    account.mkdir()

    with api_server(account) as cluster, up(tmp_path, "--vm", "aks", "--speed", "20", "--no-arm") as server:
        cluster.pods += [pod("web"), pod("proxy", "DaemonSet")]
        endpoint = server.ready["metadata"]["aks"]
        with agent_in_pod(cluster, settings, endpoint, state):
            until(lambda: "machine_named" in (tmp_path / "agent.log").read_text(), "the agent polls")
            (event,) = server.cause("restart", "aks")
            until(lambda: cluster.names == ["proxy"], "the node is drained")
            until(lambda: event["id"] not in server.tell("events", "--json"), "the reboot is over")
            until(lambda: cluster.annotations == {}, "the node is returned")

        kinds = [row["kind"] for row in server.history() if row["event"] == event["id"]]
    assert kinds.count("approved") == 1
    assert not cluster.cordoned


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        pytest.param("", "image.repository: name the image", id="no image"),
        pytest.param(IMAGE + "dryrun: true", "'dryrun' not allowed", id="a misspelt value"),
        pytest.param(
            IMAGE + "settings: {agent: {machine: a}}", "'machine' not allowed", id="one name for all"
        ),
        pytest.param(
            IMAGE + "settings: {rule: [{type: [Reboot]}]}", "'type' not allowed", id="a misspelt key"
        ),
        pytest.param(
            IMAGE + "settings: {rule: [{prepare: [{kubernets: {drain: true}}]}]}",
            "'kubernets' not allowed",
            id="a misspelt hook",
        ),
        pytest.param(IMAGE + "http: {host: example.com}", "/http/host", id="a host that is no address"),
        pytest.param(IMAGE + "http: {port: 99999}", "/http/port", id="a port that does not exist"),
    ],
)
def test_wrong_values_are_refused_by_name(values: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(values)

    done = helm("template", "nodes", FOLDER, "--values", file)

    assert done.returncode != 0
    assert complaint in done.stderr


def test_the_schema_knows_every_setting_of_the_agent() -> None:
    definitions = json.loads((FOLDER / "values.schema.json").read_text())["definitions"]
    source = (ROOT / "src" / "fairwarning" / "agent" / "settings.py").read_text()
    keys = {name: keys_of(source, f"_{name.upper()}_KEYS") for name in ("agent", "rule")}

    assert set(definitions["agent"]["properties"]) == keys["agent"] - {"state", "listen", "machine"}
    assert set(definitions["rule"]["properties"]) == keys["rule"]
    assert set(definitions["step"]["properties"]) == set(HOOKS)


def test_every_value_is_described_by_the_schema() -> None:
    (values,) = read_yaml((FOLDER / "values.yaml").read_text())
    schema = json.loads((FOLDER / "values.schema.json").read_text())

    assert set(values) == set(schema["properties"]) - {"global"}


def test_the_archive_has_the_version_of_the_package_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    releases = [Release(dist=tmp_path / name, version="1.2.3.dev0", epoch=1_700_000_000) for name in "ab"]
    for release in releases:
        release.dist.mkdir()

    ((first,), (second,)) = map(build, releases)

    assert first.name == "fairwarning-agent-1.2.3-dev.0.tgz"
    assert first.read_bytes() == second.read_bytes()
    (shown,) = read_yaml(helm("show", "chart", first).stdout)
    assert (shown["version"], shown["appVersion"]) == ("1.2.3-dev.0", "1.2.3.dev0")
    done = helm("template", "nodes", first, "--set", "image.repository=example.com/fairwarning")
    assert done.returncode == 0, done.stderr
    assert 'image: "example.com/fairwarning:1.2.3.dev0"' in done.stdout


def test_the_archive_has_the_files_that_helm_would_pack(tmp_path: Path) -> None:
    done = helm("package", FOLDER, "--destination", tmp_path, "--version", "1.2.3", "--app-version", "1.2.3")
    assert done.returncode == 0, done.stderr
    dist = tmp_path / "dist"
    dist.mkdir()

    (ours,) = build(Release(dist=dist, version="1.2.3", epoch=0))

    assert names_in(ours) == names_in(tmp_path / ours.name) | {"fairwarning-agent/LICENSE"}


@pytest.mark.parametrize(
    ("version", "expected"), [("0.2.0", "0.2.0"), ("0.2.0.dev0", "0.2.0-dev.0"), ("1.0.0rc2", "1.0.0-rc.2")]
)
def test_versions_are_written_as_helm_wants_them(version: str, expected: str) -> None:
    assert semantic(version) == expected


@pytest.mark.runs("docs/guides/kubernetes.md")
def test_the_commands_of_the_guide_run(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(GUIDE.files()["values.yaml"])
    path = os.pathsep.join((str(program("helm").parent), os.environ["PATH"]))

    (tmp_path / "dist").mkdir()
    build(Release(dist=tmp_path / "dist", version=__version__, epoch=0))

    outputs = []
    for command in GUIDE.commands():
        with command.running() as text:
            done = subprocess.run(
                text,
                shell=True,
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            outputs.append(done.stdout)

    values, rendered, linted = outputs
    assert values == (FOLDER / "values.yaml").read_text() + "\n"
    assert set(manifests(rendered)) == KINDS
    assert "1 chart(s) linted, 0 chart(s) failed" in linted


def test_the_guide_lists_the_permissions_of_the_role(tmp_path: Path) -> None:
    rules = items(manifests(render(tmp_path, VALUES["the default"]))["ClusterRole"], "rules")

    rows = [
        line for line in GUIDE.text.partition("## What the agent may do")[2].splitlines() if "` on " in line
    ]

    assert [re.findall(r"`(\w+)`|on ([\w/]+) \|", row) for row in rows] == [
        [*((verb, "") for verb in words(rule["verbs"])), ("", words(rule["resources"])[0])] for rule in rules
    ]


def names_in(archive: Path) -> set[str]:
    with tarfile.open(archive) as files:
        return set(files.getnames())


def words(value: Json) -> list[str]:
    assert isinstance(value, list)
    return [str(word) for word in value]


def keys_of(source: str, name: str) -> set[str]:
    """Return the words of a tuple in a source file."""
    listed = source.partition(f"{name} = (")[2].partition(")")[0]
    return {word.strip().strip('"') for word in listed.split(",") if word.strip()}
