"""What evaluating a template may cost: steps, characters and CPU time, all counted here.

A few hundred bytes of nested loops can ask for hours and for a whole memory. A budget belongs to a deployment
and to whatever that deploys; it is told before a cost arises, not after. A step is about a microsecond: one
node of an expression, one value of a document or one round of a loop, and a kilobyte that a function reads.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.core.document.render import Json

DEEPEST = 64  # levels of nesting, in an expression as well as in a document
LARGEST = 1024 * 1024  # characters of one resource, as in Azure, and of one value
LONGEST = 131_072  # characters one function may write
STEPS = 1_000_000
#: Azure lets a template grow to 4 MB; here its resources are written out up to three times.
SIZE = 32 * 1024 * 1024
SECONDS = 1.0

_NODE = 16  # what a value costs before its characters are counted
_READ = 1024  # characters that are read in one step
_GLANCE = 256  # steps between two looks at the clock


class OverBudgetError(InvalidTemplateError):
    """Evaluating the template costs more than it may."""

    def within(self, expression: str) -> "OverBudgetError":
        """Return the same problem with the expression that was being evaluated, unless its place is known."""
        if self.place:
            return self
        return OverBudgetError(f"{self.problem}; it ran out in the expression [{expression[:200]}]")


class Budget:
    """What is left of what a template may cost; ``cpu`` returns the CPU seconds of the calling thread."""

    def __init__(
        self,
        cpu: Callable[[], float],
        *,
        steps: int = STEPS,
        size: int = SIZE,
        seconds: float = SECONDS,
    ) -> None:
        self._cpu = cpu
        self._most_steps, self._most_size, self._most_seconds = steps, size, seconds
        self.steps, self.size, self.seconds = 0, 0, 0.0
        self._since = 0.0
        self._glance = _GLANCE
        #: Arrays and objects that were weighed, by identity; kept, so that no other can take their identity.
        self._weighed: dict[int, tuple[Json, int, int]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the CPU time of this thread for as long as the block lasts."""
        self._since = self._cpu()
        try:
            self.look()
            yield
        finally:
            self.seconds += self._cpu() - self._since

    def look(self) -> None:
        """Refuse to go on if the time is up."""
        self._glance = self.steps + _GLANCE
        if self.seconds + self._cpu() - self._since > self._most_seconds:
            raise OverBudgetError(f"the template takes more than {self._most_seconds:g} s of CPU time")

    def step(self, count: int = 1) -> None:
        """Take steps that are about to be gone.

        Raises:
            OverBudgetError: too few are left, or the time is up.
        """
        self.steps += count
        if self.steps > self._most_steps:
            raise OverBudgetError(f"the template takes more than {self._most_steps} steps to evaluate")
        if self.steps >= self._glance:
            self.look()

    def read(self, size: int) -> None:
        """Take the steps of reading so many characters."""
        self.step(size // _READ)

    def make(self, size: int) -> None:
        """Take characters that are about to be made.

        Raises:
            OverBudgetError: too few are left.
        """
        self.size += size
        if self.size > self._most_size:
            raise OverBudgetError(f"the template evaluates to more than {self._most_size} characters")

    def make_items(self, count: int) -> None:
        """Take an array that is about to be made of values that there are."""
        self.make(_NODE * count)

    def take(self, value: Json) -> None:
        """Take a value that a function returned; an array or object is taken only once, what is in it too."""
        if isinstance(value, list | dict):
            self.weight(value)
        else:
            self.make(self.weight(value))

    def weight(self, value: Json) -> int:
        """Return how many characters a value is written with, about.

        Raises:
            InvalidTemplate: more than one value may have, or it nests too deeply.
        """
        return self._weigh(value, 0)[0]

    def _weigh(self, value: Json, depth: int) -> tuple[int, int]:
        if not isinstance(value, list | dict):
            return (_NODE + len(value) if isinstance(value, str) else _NODE), 0
        known = self._weighed.get(id(value))
        if known is None:
            known = self._weighed[id(value)] = value, *self._sum(value, depth)
        _, weight, height = known
        if depth + height > DEEPEST:
            raise InvalidTemplateError(f"it evaluates to more than {DEEPEST} levels of nesting")
        return weight, height

    def _sum(self, value: list[Json] | dict[str, Json], depth: int) -> tuple[int, int]:
        if depth > DEEPEST:
            raise InvalidTemplateError(f"it evaluates to more than {DEEPEST} levels of nesting")
        self.make_items(1 + len(value))
        self.step(len(value))
        weight, height = _NODE, 0
        if isinstance(value, dict):
            weight += sum(map(len, value))
        for inner in value.values() if isinstance(value, dict) else value:
            part, below = self._weigh(inner, depth + 1)
            weight, height = weight + part, max(height, below + 1)
            if weight > LARGEST:
                raise InvalidTemplateError(f"it evaluates to more than {LARGEST} characters")
        return weight, height
