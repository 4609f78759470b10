"""The agent's one file drains and approves on a Debian 12 with python3 alone."""

from pathlib import Path

import pytest

import fairwarning
from tests.cli.server import until, up
from tests.release.newcomer import Newcomer
from tools.roots import HOME, bare_root

SETTINGS = """\
[agent]
endpoint = "{endpoint}"
state = "state"

[[rule]]
types = ["Reboot"]
prepare = [{{ exec = ["/usr/bin/touch", "{home}/drained"] }}]
recover = [{{ exec = ["/usr/bin/rm", "{home}/drained"] }}]
"""


@pytest.mark.slow
@pytest.mark.needs("root", "mmdebstrap", "unshare")
@pytest.mark.timeout(600)  # a busy machine may take minutes to make a root
def test_the_agent_drains_approves_and_returns_the_machine_to_service(dist: Path, tmp_path: Path) -> None:
    with bare_root("python3") as root, up(tmp_path, "--vm", "db", "--no-arm") as server:
        owner = Newcomer(root)
        settings = SETTINGS.format(endpoint=server.ready["metadata"]["db"], home=HOME)
        (root.home / "agent.toml").write_text(settings)
        owner.receive(dist / "fairwarning-agent.pyz")
        drained = root.home / "drained"

        version = owner.types("./fairwarning-agent.pyz --version")
        rehearsed = owner.types("./fairwarning-agent.pyz check -c agent.toml")
        with owner.leaves_running("./fairwarning-agent.pyz run -c agent.toml", "agent.log") as log:
            until(lambda: "machine_named" in log.read_text(), "the agent knows its machine", 2400)
            (event,) = server.cause("restart", "db")
            until(drained.exists, "the machine is drained", 2400)
            until(lambda: not drained.exists(), "the machine is back in service", 2400)
        (approval,) = (row for row in server.history() if row["kind"] == "approved")

    assert version == f"fairwarning-agent {fairwarning.__version__}\n"
    assert "Reboot" in rehearsed
    assert (approval["event"], approval["by"]) == (event["id"], "db")
