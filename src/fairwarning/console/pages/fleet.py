"""The fleet page and the page of a scope: machines on a map of update and fault domains."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby

from markupsafe import Markup

from fairwarning.console.context import ConsoleContext
from fairwarning.console.formatting import enable_notification_command, lacks_notification
from fairwarning.console.page import Fragment, PageRequest, PageView, first_on_page
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.fleet import MachineState, machine_states
from fairwarning.core.model import Machine, Scope, ScopeId

#: The most machines that the fleet page draws one by one; a larger fleet is counted scope by scope.
MANY = 1000

#: The most machines of a scope whose names fit on the map; a larger scope is drawn as symbols.
MOST_NAMED = 60

#: The most update domains of a map that leaves space for another scope beside it.
NARROW = 3

#: How many machines of a scope one page shows.
PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class Tile:
    """A machine on the map."""

    machine: Machine
    state: MachineState
    fault: EndpointFault | None

    def matches(self, text: str) -> bool:
        """Whether a search for ``text`` finds this machine."""
        machine = self.machine
        spot = "spot" if machine.spot else ""
        tags = (f"{key}={value}" for key, value in machine.tags)
        return any(text in word.lower() for word in (machine.ref.full, machine.host, spot, self.state, *tags))


@dataclass(frozen=True, slots=True)
class Group:
    """A scope, and those of its machines that the page shows."""

    scope: Scope
    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class Drawing:
    """The HTML of a scope, its fragments, and a key for what the fragments do not cover."""

    html: Markup
    fragments: Sequence[Fragment]
    key: str


async def show(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the fleet page."""
    text = request.query.get("q").lower()
    groups = await _search(context, text)
    macros = TemplateMacros("_fleet.html", request)
    draw = _draw_counts if sum(len(group.tiles) for group in groups) > MANY else _draw_map
    drawings = [draw(context, macros, group, "fleet") for group in groups]
    body = Markup("").join(drawing.html for drawing in drawings)
    has_scopes = bool(context.engine.scopes())
    key = "\n".join((str(has_scopes), *(drawing.key for drawing in drawings)))
    outer = macros.fragment("fleet", "fleet", key=key, body=body, text=text, has_scopes=has_scopes)
    inner = (fragment for drawing in drawings for fragment in drawing.fragments)
    fragments = (_totals(macros, groups), outer, *inner)
    return PageView(title="Fleet", template="fleet.html", fragments=fragments)


async def show_scope(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the page of a scope."""
    scope = context.engine.scope(ScopeId(request.name))
    tiles = list(_tiles(context, scope))
    start, pages = first_on_page(request.query, len(tiles), PAGE_SIZE), range(0, len(tiles), PAGE_SIZE)
    macros = TemplateMacros("_fleet.html", request)
    drawing = _draw_map(context, macros, Group(scope, tiles[start : start + PAGE_SIZE]), "page")
    outer = macros.fragment(
        "page", "page", key=f"{pages} {drawing.key}", body=drawing.html, start=start, pages=pages,
        size=PAGE_SIZE, length=len(tiles),
    )  # fmt: skip
    command = (
        enable_notification_command(scope.facts.set_name, scope.facts.group)
        if lacks_notification(scope)
        else ""
    )
    facts = macros.fragment("facts", "scope-facts", scope=scope, enable_command=command)
    pending = macros.fragment("pending", "scope-events", scope=scope)
    fragments = (facts, outer, *drawing.fragments, pending)
    return PageView(title=scope.id, template="scope.html", values={"scope": scope}, fragments=fragments)


def _tiles(context: ConsoleContext, scope: Scope) -> Iterator[Tile]:
    now, faults = asyncio.get_running_loop().time(), context.engine.faults
    states = machine_states(scope)
    for name, machine in scope.machines.items():
        yield Tile(machine, states[name], faults.kind_of(machine.ref, now))


async def _search(context: ConsoleContext, text: str) -> list[Group]:
    groups = []
    for scope in list(context.engine.scopes().values()):
        tiles = [tile for tile in _tiles(context, scope) if not text or tile.matches(text)]
        if tiles or text in scope.id.lower():
            groups.append(Group(scope, tiles))
        await asyncio.sleep(0)  # serve guests between two scopes
    return groups


def _draw_map(context: ConsoleContext, macros: TemplateMacros, group: Group, within: str) -> Drawing:
    """Return a scope as a map."""
    scope, places = group.scope, _places(group.tiles)
    named = len(group.tiles) <= MOST_NAMED
    columns = sorted({update for update, _ in places})
    cells = {place: [_cell(tile) for tile in tiles] for place, tiles in places.items()}
    head = _head(context, macros, group, within)
    drawn = macros.fragment(
        "map" if named else "compact_map", f"map:{scope.id}", key=f"{named} {_layout(places)}", within=within,
        scope=scope, places={place: [Markup(cell.html) for cell in row] for place, row in cells.items()},
        columns=columns, rows=sorted({fault for _, fault in places}),
    )  # fmt: skip
    inner = chain.from_iterable(cells.values())
    return _section(macros, scope, head, drawn, *inner, broad=not named or len(columns) > NARROW)


def _draw_counts(context: ConsoleContext, macros: TemplateMacros, group: Group, within: str) -> Drawing:
    """Return a scope as counts per update domain."""
    scope = group.scope
    domains = Counter((tile.machine.update_domain, tile.state) for tile in group.tiles)
    head = _head(context, macros, group, within)
    counts = macros.fragment("counts", f"counts:{scope.id}", within=within, domains=_by_domain(domains))
    return _section(macros, scope, head, counts, broad=True)


# Cached because most machines have not changed since the page was rendered last.
@lru_cache(maxsize=16 * MANY)
def _cell(tile: Tile) -> Fragment:
    full = tile.machine.ref.full
    html = TemplateMacros("_cell.html").render("cell", id=f"cell:{full}", tile=tile)
    return Fragment(id=f"cell:{full}", html=html, within=f"map:{tile.machine.scope}")


def _section(
    macros: TemplateMacros, scope: Scope, head: Fragment, content: Fragment, *inner: Fragment, broad: bool
) -> Drawing:
    html = macros.render(
        "section", scope=scope, head=Markup(head.html), content=Markup(content.html), broad=broad
    )
    return Drawing(html, (head, content, *inner), f"{content.id} {broad}")


def _head(context: ConsoleContext, macros: TemplateMacros, group: Group, within: str) -> Fragment:
    scope = group.scope
    tally = _sorted(Counter(tile.state for tile in group.tiles))
    return macros.fragment(
        "head", f"head:{scope.id}", within=within, scope=scope, tally=tally,
        polled_at=context.seen_at(scope), own_page=within == "page",
    )  # fmt: skip


def _places(tiles: Sequence[Tile]) -> Mapping[tuple[int, int], list[Tile]]:
    """Return the machines by update domain and fault domain."""
    places: dict[tuple[int, int], list[Tile]] = {}
    for tile in tiles:
        places.setdefault((tile.machine.update_domain, tile.machine.fault_domain), []).append(tile)
    return dict(sorted(places.items()))


def _by_domain(counts: Mapping[tuple[int, MachineState], int]) -> Mapping[int, Mapping[MachineState, int]]:
    by_domain = groupby(sorted(counts.items()), key=lambda item: item[0][0])
    return {domain: _sorted({key[1]: number for key, number in items}) for domain, items in by_domain}


def _sorted(tally: Mapping[MachineState, int]) -> Mapping[MachineState, int]:
    return {state: tally[state] for state in MachineState if tally.get(state)}


def _totals(macros: TemplateMacros, groups: Sequence[Group]) -> Fragment:
    tally = _sorted(Counter(tile.state for group in groups for tile in group.tiles))
    enabled = sum(group.scope.enabled for group in groups)
    return macros.fragment("totals", "totals", tally=tally, scopes=len(groups), enabled=enabled)


def _layout(places: Mapping[tuple[int, int], Sequence[Tile]]) -> str:
    return repr([(place, [tile.machine.name for tile in tiles]) for place, tiles in places.items()])
