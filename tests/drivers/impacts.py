"""Impacts for the tests of drivers."""

from fairwarning.core.causes import CAUSES
from fairwarning.core.fleet import Impact
from fairwarning.core.model import EventId, EvictionPolicy, HostId, MachineRef, ScopeId, VmName
from tests.fleet_harness import NOON

WEB_0 = VmName("web_0")
HOST = HostId("h-1")


def impact(
    cause: str,
    *,
    event: str = "E",
    attempt: int = 0,
    host: HostId = HOST,
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE,
    speed: float = 1.0,
) -> Impact:
    """Return an impact on web_0 that begins at noon."""
    return Impact(
        event=EventId(event),
        machine=MachineRef(ScopeId("web"), WEB_0),
        kind=CAUSES[cause].kind,
        cause=cause,
        duration=CAUSES[cause].duration,
        since=NOON,
        attempt=attempt,
        vm_id="0000",
        host=host,
        eviction=eviction,
        speed=speed,
    )
