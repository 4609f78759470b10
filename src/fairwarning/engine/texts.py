"""The texts that other packages store with the fleet, found by key or by the beginning of their keys."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping


class StoredTexts(Mapping[str, str]):
    """Texts by key; finding those below a prefix costs as much as there are of them."""

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._texts = dict(texts or {})
        self._keys = sorted(self._texts)

    def __getitem__(self, key: str) -> str:
        return self._texts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def find(self, key: str) -> str | None:
        """Return a text; None if there is none."""
        return self._texts.get(key)

    def under(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with a prefix, in order; the texts must not change meanwhile."""
        for index in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                return
            yield key

    def update(self, texts: Mapping[str, str | None]) -> None:
        """Put texts; None removes a text."""
        for key, text in texts.items():
            if text is not None:
                if key not in self._texts:
                    insort(self._keys, key)
                self._texts[key] = text
            elif key in self._texts:
                del self._texts[key]
                del self._keys[bisect_left(self._keys, key)]
