"""Nodes that have seen two primaries say, soon after one is left, what that one has, and nothing else."""

import asyncio
import sys
from pathlib import Path
from random import Random
from signal import SIGKILL

import pytest

from fairwarning.core.errors import UnknownEventError
from fairwarning.store.postgres import connection as connections
from tests.cluster.database_link import LinkState
from tests.cluster.disagreement import Disagreement
from tests.cluster.two_primaries import Way, hang_up, healed, nodes, pair
from tests.needs import lack
from tests.postgres import find_programs


@pytest.fixture
def programs() -> Path:
    folder = find_programs()
    if folder is None:
        lack("needs the programs of PostgreSQL")
    return folder


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.needs("ps")
@pytest.mark.rule("L-01", "V-05")
def test_a_node_whose_snapshots_come_from_another_server_than_its_lines_is_right_again(
    programs: Path,
) -> None:
    async def story() -> None:
        async with pair(programs) as servers, nodes(servers, Way.VIRTUAL_ADDRESS, 2) as (late, early):
            cancelled = await late.restart(0, "X")
            await asyncio.to_thread(servers.promote)
            for link in (*late.links, *early.links):
                link.lead_to(str(servers.new.directory))
            await hang_up(servers.old, early.connections())
            lost = await late.restart(3, "Y")
            await early.cancel(cancelled)
            kept = {await early.restart(number, f"Z{number}") for number in (4, 5, 6)}

            writer, control, _ = late.connections()
            await hang_up(servers.old, [writer, control])
            await late.restart(7, "W")
            servers.old.signal(SIGKILL)

            await healed([late, early], servers.new)
            assert kept < late.events() == early.events()
            for event in (cancelled, lost):
                with pytest.raises(UnknownEventError):
                    await late.approve(event)
            await healed([late, early], servers.new)

    asyncio.run(story())


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.needs("ps")
@pytest.mark.rule("L-01", "V-05")
def test_a_node_does_not_go_back_to_the_old_primary_while_the_new_one_answers(programs: Path) -> None:
    async def story() -> None:
        async with pair(programs) as servers, nodes(servers, Way.BOTH_IN_THE_DSN, 1) as (node,):
            old, _ = node.links
            await asyncio.to_thread(servers.promote)
            old.change(LinkState.CUT)
            kept = await node.restart(0, "kept")
            old.change(LinkState.UP)

            await hang_up(servers.new, node.connections()[:1])
            later = await node.restart(1, "later")

            assert node.events() == {kept, later}
            servers.old.signal(SIGKILL)
            await healed([node], servers.new)

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.needs("ps")
@pytest.mark.rule("L-01", "V-05")
def test_a_node_that_was_cut_off_does_not_go_back_to_the_old_primary_if_the_new_one_answers(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SILENT_AFTER", 0.0)

    async def story() -> None:
        async with pair(programs) as servers, nodes(servers, Way.BOTH_IN_THE_DSN, 1) as (node,):
            old, new = node.links
            await asyncio.to_thread(servers.promote)
            old.change(LinkState.CUT)
            kept = await node.restart(0, "kept")
            old.change(LinkState.UP)

            new.cut()
            later = await node.restart(1, "later")

            assert node.events() == {kept, later}
            await healed([node], servers.new)

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.needs("ps")
def test_a_node_that_starts_while_two_primaries_answer_stands_on_the_newer_one(programs: Path) -> None:
    async def story() -> None:
        async with pair(programs) as servers, nodes(servers, Way.BOTH_IN_THE_DSN, 1) as (before,):
            await asyncio.to_thread(servers.promote)
            old, _ = before.links
            old.change(LinkState.CUT)
            kept = await before.restart(0, "kept")

            async with nodes(servers, Way.BOTH_IN_THE_DSN, 1, empty=False) as (node,):
                assert node.events() == {kept}

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.needs("ps")
def test_a_node_goes_back_to_the_old_primary_if_the_new_one_is_gone(programs: Path) -> None:
    async def story() -> None:
        async with pair(programs) as servers, nodes(servers, Way.VIRTUAL_ADDRESS, 1) as (node,):
            kept = await node.restart(0, "kept")
            await asyncio.to_thread(servers.promote)
            node.links[0].lead_to(str(servers.new.directory))
            node.links[0].cut()
            lost = await node.restart(1, "lost")
            node.links[0].lead_to(str(servers.old.directory))
            servers.new.signal(SIGKILL)

            await healed([node], servers.old)
            assert lost not in node.events()
            assert kept in node.events()

    asyncio.run(story())


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.needs("ps")
@pytest.mark.parametrize("way", list(Way), ids=lambda way: way.name.lower())
@pytest.mark.parametrize("seed", range(30))
def test_every_node_is_right_soon_after_one_primary_is_left(programs: Path, way: Way, seed: int) -> None:
    async def story() -> None:
        chance = Random(f"{way} {seed}")
        async with pair(programs) as servers, nodes(servers, way, 3) as found:
            disagreement = Disagreement(servers, way, found, chance)
            await disagreement.play()
            await disagreement.end()

            await healed(found, servers.new)
            for number, node in enumerate(found):
                await node.change_something(number)
            await healed(found, servers.new)
            sys.stdout.write(f"{found[0].engine.position} lines are left\n")

    asyncio.run(story())
