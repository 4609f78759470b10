"""The hosts page: what machines run on, the tenants of each host, and its maintenance."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from fairwarning.console.context import ConsoleContext
from fairwarning.console.host_records import find_maintenances, held_hosts, pending_ids
from fairwarning.console.page import PageRequest, PageView, first_on_page
from fairwarning.console.templating import TemplateMacros
from fairwarning.control.hosts import Host
from fairwarning.core.model import HostId, Scope

#: How many hosts one page shows.
PAGE_SIZE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """A host in the list."""

    #: Without tenants: the list does not look up their machines.
    host: Host
    machines: int
    scopes: Sequence[Scope]

    @property
    def silent(self) -> list[Scope]:
        """The scopes with machines on the host that no guest polls."""
        return [scope for scope in self.scopes if not scope.enabled]


async def show(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the page with the list of hosts."""
    text = request.query.get("q")
    scopes = await _scopes_by_host(context)
    pending, held = pending_ids(context), held_hosts(context)
    known = {*scopes, *pending, *held}
    names = sorted(name for name in known if text.lower() in name.lower())
    start, pages = first_on_page(request.query, len(names), PAGE_SIZE), range(0, len(names), PAGE_SIZE)
    shown = names[start : start + PAGE_SIZE]
    machines = await _count_machines(scopes, shown)
    rows = [
        HostRow(
            host=Host(name, (), find_maintenances(context, pending.get(name, ())), held.get(name)),
            machines=machines[name],
            scopes=scopes.get(name, ()),
        )
        for name in shown
    ]
    hosts = TemplateMacros("_hosts.html", request).fragment(
        "hosts", "hosts", rows=rows, known=len(known), length=len(names), text=text,
        start=start, pages=pages, size=PAGE_SIZE, query=urlencode({"q": text}) if text else "",
        zone=context.control.zone,
    )  # fmt: skip
    return PageView(title="Hosts", template="hosts.html", fragments=(hosts,))


async def _scopes_by_host(context: ConsoleContext) -> Mapping[HostId, list[Scope]]:
    """Return the scopes with machines on each host."""
    scopes: dict[HostId, list[Scope]] = {}
    for scope in list(context.engine.scopes().values()):
        for host in scope.machines.hosts():
            scopes.setdefault(host, []).append(scope)
        await asyncio.sleep(0)  # serve guests between two scopes
    return scopes


async def _count_machines(
    scopes: Mapping[HostId, Sequence[Scope]], hosts: Collection[HostId]
) -> Mapping[HostId, int]:
    """Return how many machines are on some hosts; looks only at scopes that have machines there."""
    counts: Counter[HostId] = Counter()
    for scope in {scope.id: scope for host in hosts for scope in scopes.get(host, ())}.values():
        table = scope.machines
        counts.update(table.shared_fields(name).host for name in table)
        await asyncio.sleep(0)  # serve guests between two scopes
    return counts
