"""Of what a program prints, the end is kept."""

import asyncio

from fairwarning.check.output_tail import KEPT, OutputTail


def followed(*said: bytes) -> str:
    """Return what is kept of all that was said."""

    async def follow() -> str:
        stream, tail = asyncio.StreamReader(), OutputTail()
        for part in said:
            stream.feed_data(part)
        stream.feed_eof()
        await tail.follow(stream)
        return await tail.last()

    return asyncio.run(follow())


def test_the_last_words_are_kept() -> None:
    kept = followed(b"first\n" * KEPT, b"last words\n")

    assert kept.endswith("first\nlast words")
    assert len(kept) < KEPT


def test_a_letter_is_not_torn_apart() -> None:
    assert followed(b"caf\xc3", b"\xa9") == "café"


def test_who_prints_nothing_has_no_last_words() -> None:
    assert followed() == ""
