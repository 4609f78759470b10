"""The fleet page and the page of one scope: machines on a map of update and fault domains."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby

from markupsafe import Markup

from fairwarning.console import notification
from fairwarning.console.context import ConsoleContext
from fairwarning.console.page import Fields, Fragment, PageView, Visit
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.endpoint_faults import EndpointFault
from fairwarning.core.fleet import MachineState, machine_states
from fairwarning.core.model import Machine, Scope, ScopeId

#: How many machines are shown one by one; more of them are counted, and are seen scope by scope.
MANY = 1000

#: How many machines of a scope have room for their names on the map.
ROOMY = 60

#: How many update domains leave room for another scope beside this one.
NARROW = 3

#: How many machines of a scope are on one page.
PAGE = 500


@dataclass(frozen=True, slots=True)
class Tile:
    """A machine on the map."""

    machine: Machine
    condition: MachineState
    ailment: EndpointFault | None

    def mentions(self, text: str) -> bool:
        """Whether somebody who looks for ``text`` may mean this machine."""
        one = self.machine
        spot = "spot" if one.spot else ""
        told = (one.ref.full, one.host, spot, self.condition, *(f"{key}={value}" for key, value in one.tags))
        return any(text in word.lower() for word in told)


@dataclass(frozen=True, slots=True)
class Group:
    """A scope with those of its machines that are to be shown."""

    scope: Scope
    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A scope as it is drawn: its HTML, the fragments in it, and what no fragment of them tells."""

    html: Markup
    fragments: Sequence[Fragment]
    key: str


async def show(room: ConsoleContext, visit: Visit) -> PageView:
    """Return the fleet page."""
    text = visit.query.get("q").lower()
    groups = await _matching(room, text)
    sheet = TemplateMacros("_fleet.html", visit)
    draw = _counted if sum(len(group.tiles) for group in groups) > MANY else _mapped
    drawn = [draw(room, sheet, group, "fleet") for group in groups]
    body = Markup("").join(one.html for one in drawn)
    everything = bool(room.engine.scopes())
    key = "\n".join((str(everything), *(one.key for one in drawn)))
    outer = sheet.fragment("fleet", "fleet", key=key, body=body, text=text, everything=everything)
    inner = (fragment for one in drawn for fragment in one.fragments)
    return PageView(title="Fleet", template="fleet.html", fragments=(_totals(sheet, groups), outer, *inner))


async def show_scope(room: ConsoleContext, visit: Visit) -> PageView:
    """Return the page of one scope."""
    scope = room.engine.scope(ScopeId(visit.name))
    tiles = list(_tiles(room, scope))
    start, pages = _start(visit.query, len(tiles)), range(0, len(tiles), PAGE)
    sheet = TemplateMacros("_fleet.html", visit)
    drawn = _mapped(room, sheet, Group(scope, tiles[start : start + PAGE]), "page")
    outer = sheet.fragment(
        "page", "page", key=f"{pages} {drawn.key}", body=drawn.html, start=start, pages=pages, size=PAGE,
        length=len(tiles),
    )  # fmt: skip
    enabling = notification.enabling(scope.facts) if notification.lacks(scope) else ""
    facts = sheet.fragment("facts", "scope-facts", scope=scope, enabling=enabling)
    pending = sheet.fragment("pending", "scope-events", scope=scope)
    fragments = (facts, outer, *drawn.fragments, pending)
    return PageView(title=scope.id, template="scope.html", values={"scope": scope}, fragments=fragments)


def _tiles(room: ConsoleContext, scope: Scope) -> Iterator[Tile]:
    now, faults = asyncio.get_running_loop().time(), room.engine.faults
    found = machine_states(scope)
    for name, machine in scope.machines.items():
        yield Tile(machine, found[name], faults.kind_of(machine.ref, now))


async def _matching(room: ConsoleContext, text: str) -> list[Group]:
    found = []
    for scope in list(room.engine.scopes().values()):
        tiles = [tile for tile in _tiles(room, scope) if not text or tile.mentions(text)]
        if tiles or text in scope.id.lower():
            found.append(Group(scope, tiles))
        await asyncio.sleep(0)  # guests have their turn between two scopes
    return found


def _mapped(room: ConsoleContext, sheet: TemplateMacros, group: Group, within: str) -> Drawing:
    """Return a scope as a map."""
    scope, places = group.scope, _places(group.tiles)
    roomy = len(group.tiles) <= ROOMY
    columns = sorted({update for update, _ in places})
    cells = {place: [_cell(tile) for tile in tiles] for place, tiles in places.items()}
    head = _head(room, sheet, group, within)
    drawn = sheet.fragment(
        "map" if roomy else "crowd", f"map:{scope.id}", key=f"{roomy} {_layout(places)}", within=within,
        scope=scope, places={place: [Markup(one.html) for one in found] for place, found in cells.items()},
        columns=columns, rows=sorted({fault for _, fault in places}),
    )  # fmt: skip
    inner = chain.from_iterable(cells.values())
    return _section(sheet, scope, head, drawn, *inner, broad=not roomy or len(columns) > NARROW)


def _counted(room: ConsoleContext, sheet: TemplateMacros, group: Group, within: str) -> Drawing:
    """Return a scope as numbers."""
    scope = group.scope
    domains = Counter((tile.machine.update_domain, tile.condition) for tile in group.tiles)
    head = _head(room, sheet, group, within)
    counts = sheet.fragment("counts", f"counts:{scope.id}", within=within, domains=_by_domain(domains))
    return _section(sheet, scope, head, counts, broad=True)


# Most machines look as they did when somebody looked last.
@lru_cache(maxsize=16 * MANY)
def _cell(tile: Tile) -> Fragment:
    full = tile.machine.ref.full
    html = TemplateMacros("_cell.html").paint("cell", id=f"cell:{full}", tile=tile)
    return Fragment(id=f"cell:{full}", html=html, within=f"map:{tile.machine.scope}")


def _section(
    sheet: TemplateMacros, scope: Scope, head: Fragment, content: Fragment, *inner: Fragment, broad: bool
) -> Drawing:
    html = sheet.paint(
        "section", scope=scope, head=Markup(head.html), content=Markup(content.html), broad=broad
    )
    return Drawing(html, (head, content, *inner), f"{content.id} {broad}")


def _head(room: ConsoleContext, sheet: TemplateMacros, group: Group, within: str) -> Fragment:
    scope = group.scope
    tally = _sorted(Counter(tile.condition for tile in group.tiles))
    return sheet.fragment(
        "head", f"head:{scope.id}", within=within, scope=scope, tally=tally, seen=room.seen_at(scope),
        own=within == "page",
    )  # fmt: skip


def _places(tiles: Sequence[Tile]) -> Mapping[tuple[int, int], list[Tile]]:
    """Return the machines by update domain and fault domain."""
    found: dict[tuple[int, int], list[Tile]] = {}
    for tile in tiles:
        found.setdefault((tile.machine.update_domain, tile.machine.fault_domain), []).append(tile)
    return dict(sorted(found.items()))


def _by_domain(counted: Mapping[tuple[int, MachineState], int]) -> Mapping[int, Mapping[MachineState, int]]:
    found = groupby(sorted(counted.items()), key=lambda item: item[0][0])
    return {domain: _sorted({key[1]: number for key, number in items}) for domain, items in found}


def _sorted(tally: Mapping[MachineState, int]) -> Mapping[MachineState, int]:
    return {one: tally[one] for one in MachineState if tally.get(one)}


def _totals(sheet: TemplateMacros, groups: Sequence[Group]) -> Fragment:
    tally = _sorted(Counter(tile.condition for group in groups for tile in group.tiles))
    watched = sum(group.scope.enabled for group in groups)
    return sheet.fragment("totals", "totals", tally=tally, scopes=len(groups), watched=watched)


def _layout(places: Mapping[tuple[int, int], Sequence[Tile]]) -> str:
    return repr([(place, [tile.machine.name for tile in tiles]) for place, tiles in places.items()])


def _start(query: Fields, length: int) -> int:
    asked = query.get("from", "0")
    start = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else 0
    return start - start % PAGE if start < length else 0
