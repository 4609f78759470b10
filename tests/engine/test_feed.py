"""Every subscription gets every committed line, in order, once."""

import asyncio

import pytest

from fairwarning.core.changes import Published, ScopeRemoved
from fairwarning.core.model import ScopeId
from fairwarning.engine.feed import Feed, LaggingError
from fairwarning.engine.ports import Entry
from tests.fleet_harness import NOON, run

WEB, APP = ScopeId("web"), ScopeId("app")


def published(seq: int, scope: ScopeId = WEB) -> Entry:
    return Entry(seq=seq, at=NOON, version=seq, change=Published(scope=scope, incarnation=seq))


def test_every_listener_hears_every_line_in_order() -> None:
    async def story() -> list[list[int]]:
        feed = Feed()
        with feed.subscribe() as one, feed.subscribe() as other:
            feed.publish([published(1), published(2)])
            feed.publish([published(3)])
            return [[(await listener.next()).seq for _ in range(3)] for listener in (one, other)]

    assert run(story()) == [[1, 2, 3], [1, 2, 3]]


def test_a_listener_hears_only_what_comes_while_it_listens() -> None:
    async def story() -> int:
        feed = Feed()
        feed.publish([published(1)])
        with feed.subscribe() as listener:
            feed.publish([published(2)])
            return (await listener.next()).seq

    assert run(story()) == 2


def test_a_slow_subscription_gets_an_error_and_delays_no_other() -> None:
    async def story() -> tuple[list[int], list[int]]:
        feed = Feed()
        with feed.subscribe(size=2) as slow, feed.subscribe() as quick:
            feed.publish([published(seq) for seq in range(1, 5)])
            heard = [(await quick.next()).seq for _ in range(4)]
            with pytest.raises(LaggingError):
                await slow.next()
            return heard, [(await slow.next()).seq]

    heard, newer = run(story())

    assert heard == [1, 2, 3, 4]
    assert newer == [4]


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(published(2), id="its document changes"),
        pytest.param(Entry(seq=2, at=NOON, version=2, change=ScopeRemoved(scope=WEB)), id="it is removed"),
    ],
)
def test_a_waiter_is_woken_when(entry: Entry) -> None:
    async def story() -> list[bool]:
        feed = Feed()
        waiting = [asyncio.create_task(feed.document_change(WEB)) for _ in range(3)]
        await asyncio.sleep(0)
        feed.publish([published(1, APP)])
        await asyncio.sleep(0)
        early = any(task.done() for task in waiting)
        feed.publish([entry])
        await asyncio.gather(*waiting)
        return [early, *(task.done() for task in waiting)]

    assert run(story()) == [False, True, True, True]


def test_the_longest_wait_is_woken_first() -> None:
    class Named:
        def __init__(self, number: int) -> None:
            self.number = number

        def wake(self) -> None:
            woken.append(self.number)

    async def story() -> None:
        feed = Feed()
        for number in range(100):
            feed.add_waiter(WEB, Named(number))
        feed.wake(WEB)
        while len(woken) < 100:
            await asyncio.sleep(0)

    woken: list[int] = []

    run(story())

    assert woken == list(range(100))


def test_a_cancelled_wait_does_not_affect_the_others() -> None:
    async def story() -> None:
        feed = Feed()
        impatient = asyncio.create_task(feed.document_change(WEB))
        patient = asyncio.create_task(feed.document_change(WEB))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        feed.publish([published(1)])
        await patient

    run(story())
