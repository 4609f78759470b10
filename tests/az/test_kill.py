"""az finishes its wait although the server is killed and restarted meanwhile."""

from pathlib import Path

import pytest

from tests.arm.live import live
from tests.az.tool import Trap, login
from tests.cli.server import free_port

pytestmark = [pytest.mark.az, pytest.mark.timeout(600)]


@pytest.mark.rule("L-15")
def test_az_finishes_although_the_server_was_killed_meanwhile(
    tmp_path: Path, programs: Path, proxy: Trap
) -> None:
    words = ("--vm", "db", "--data", str(tmp_path / "data"), "--arm", f"127.0.0.1:{free_port()}")
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with live(first, *words) as cloud:
        az = login(cloud, tmp_path, programs, proxy)
        cloud.guest("db").sees()
        with az.meanwhile("az vm restart --resource-group fairwarning --name db") as command:
            before = cloud.warned(cloud.guest("db"), "Reboot")
            cloud.server.process.kill()
            cloud.server.process.wait()
            with live(second, *words) as again:
                guest = again.guest("db")
                (after,) = guest.sees()
                waiting = command.poll() is None
                guest.approve(after)
                again.advance()
                command.wait(60)

    assert after == before
    assert waiting
