"""The end of a program's output is kept."""

import asyncio

from fairwarning.check.background import OUTPUT_LIMIT, OutputTail


def followed(*parts: bytes) -> str:
    """Return what is kept of an output."""

    async def follow() -> str:
        stream, tail = asyncio.StreamReader(), OutputTail()
        for part in parts:
            stream.feed_data(part)
        stream.feed_eof()
        await tail.follow(stream)
        return await tail.final_text()

    return asyncio.run(follow())


def test_the_end_is_kept() -> None:
    kept = followed(b"first\n" * OUTPUT_LIMIT, b"last words\n")

    assert kept.endswith("first\nlast words")
    assert len(kept) < OUTPUT_LIMIT


def test_a_letter_is_not_torn_apart() -> None:
    assert followed(b"caf\xc3", b"\xa9") == "café"


def test_no_output_is_an_empty_text() -> None:
    assert followed() == ""
