"""The end of what a program prints: enough to say what became of it, however much it says."""

import asyncio

#: How many bytes are kept.
KEPT = 4000


class OutputTail:
    """What was printed last."""

    def __init__(self) -> None:
        self._kept = b""
        self._over = asyncio.Event()

    @property
    def text(self) -> str:
        """The last of it, so far."""
        return self._kept.decode(errors="replace").strip()

    async def follow(self, stream: asyncio.StreamReader | None) -> None:
        """Read a stream to its end."""
        while stream is not None and (said := await stream.read(KEPT)):
            self._kept = (self._kept + said)[-KEPT:]
        self._over.set()

    async def last(self) -> str:
        """Return the last of it, once a stream is at its end."""
        await self._over.wait()
        return self.text
