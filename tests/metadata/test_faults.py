"""Endpoints that misbehave on demand, as the field has seen them."""

import asyncio
from collections.abc import Iterator
from math import inf

import pytest

from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.engine.faults import Ailment, Fault
from fairwarning.metadata.server import MetadataServer
from tests.guest import E1, Cloud, cloud, start

WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))


@pytest.fixture
def web() -> Iterator[Cloud]:
    with cloud() as fleet:
        yield fleet


@pytest.mark.parametrize(
    ("ailment", "status"),
    [(Ailment.TOO_MANY, 429), (Ailment.GONE, 410), (Ailment.BROKEN, 500), (Ailment.EMPTY, 200)],
)
def test_a_machine_that_is_to_be_refused_is_refused_and_no_other(
    web: Cloud, ailment: Ailment, status: int
) -> None:
    web.engine.faults.put(WEB_0, Fault(ailment, inf))

    ill, well = web.get("web_0"), web.get("web_1")

    assert ill.status == status
    assert well.body.startswith(b'{"DocumentIncarnation"')
    assert ailment is not Ailment.EMPTY or ill.body == b""


def test_an_endpoint_that_answers_polls_with_nothing_still_takes_approvals(web: Cloud) -> None:
    web.cause("restart", "web_0")
    web.engine.faults.put(WEB_0, Fault(Ailment.EMPTY, inf))

    assert web.post(start(E1)).status == 200
    assert web.events("web_1")[0]["EventStatus"] == "Started"


def test_a_fault_that_has_run_its_time_is_over(web: Cloud) -> None:
    web.engine.faults.put(WEB_0, Fault(Ailment.BROKEN, until=0.0))

    assert web.get().status == 200


def test_a_fault_can_be_healed(web: Cloud) -> None:
    web.engine.faults.put(WEB_0, Fault(Ailment.BROKEN, inf))

    web.engine.faults.heal(WEB_0)

    assert web.get().status == 200


def test_a_slow_endpoint_answers_in_the_end(web: Cloud) -> None:
    web.engine.faults.put(WEB_0, Fault(Ailment.SLOW, inf, delay=0.05))
    before = web.run(_time())

    reply = web.get()

    assert reply.status == 200
    assert web.run(_time()) - before >= 0.05


@pytest.mark.parametrize("ailment", [Ailment.RESET, Ailment.TIMEOUT])
def test_a_connection_is_cut_without_a_word(web: Cloud, ailment: Ailment) -> None:
    async def story() -> bytes:
        server = MetadataServer[MachineRef](web.app.answer, web.clock.now)
        listener = await server.listen_tcp("127.0.0.1", 0, lambda peer: WEB_0)
        until = asyncio.get_running_loop().time() + 0.05
        web.engine.faults.put(WEB_0, Fault(ailment, until if ailment is Ailment.TIMEOUT else inf))
        reader, writer = await asyncio.open_connection(*listener.address)
        writer.write(b"GET /metadata/versions HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n")
        try:
            return await reader.read()
        finally:
            writer.close()
            await server.close()

    with pytest.raises(ConnectionResetError):
        web.run(story())


async def _time() -> float:
    return asyncio.get_running_loop().time()
