"""What evaluating a template may cost: steps, characters and CPU time.

A few hundred bytes of nested loops can ask for hours of CPU time and for all memory. A budget belongs to a
deployment and is shared by the deployments nested in it. Costs are charged before they arise: a string that
would be too long is never built.

A step takes about a microsecond: one node of an expression, one value of a document, one iteration of a loop,
or a kilobyte that a function reads. The CPU clock is read every few hundred steps. It catches work that takes
longer than its steps suggest.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.core.document.render import Json

DEEPEST = 64  # levels of nesting, in an expression as well as in a document
LARGEST = 1024 * 1024  # characters of a resource, as in Azure; also of a value
LONGEST = 131_072  # characters that a function may return
STEPS = 1_000_000
#: Azure allows templates of 4 MB; here their resources are written out up to three times.
SIZE = 32 * 1024 * 1024
SECONDS = 1.0

_VALUE_SIZE = 16  # characters that a value costs in addition to its own
_CHARACTERS_PER_STEP = 1024  # characters that a function reads in one step
_STEPS_PER_CLOCK_READ = 256  # steps between two readings of the CPU clock


class OverBudgetError(InvalidTemplateError):
    """The template exceeds its budget."""

    def within(self, expression: str) -> "OverBudgetError":
        """Return the same error with the expression that exceeded the budget, unless its place is known."""
        if self.place:
            return self
        return OverBudgetError(f"{self.problem}; it ran out in the expression [{expression[:200]}]")


class Budget:
    """The costs so far and their limits; ``cpu`` returns the CPU seconds of the calling thread."""

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
        self._started = 0.0
        self._next_clock_read = _STEPS_PER_CLOCK_READ
        #: Sizes of arrays and objects by identity; the values are kept, so that no identity is reused.
        self._measured: dict[int, tuple[Json, int, int]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Charge the CPU time that this thread spends in the block."""
        self._started = self._cpu()
        try:
            self.check_time()
            yield
        finally:
            self.seconds += self._cpu() - self._started

    def check_time(self) -> None:
        """Check the CPU time.

        Raises:
            OverBudgetError: no time is left.
        """
        self._next_clock_read = self.steps + _STEPS_PER_CLOCK_READ
        if self.seconds + self._cpu() - self._started > self._most_seconds:
            raise OverBudgetError(f"the template takes more than {self._most_seconds:g} s of CPU time")

    def charge_steps(self, count: int = 1) -> None:
        """Charge steps that are about to be taken.

        Raises:
            OverBudgetError: too few steps or no time is left.
        """
        self.steps += count
        if self.steps > self._most_steps:
            raise OverBudgetError(f"the template takes more than {self._most_steps} steps to evaluate")
        if self.steps >= self._next_clock_read:
            self.check_time()

    def charge_read(self, size: int) -> None:
        """Charge the steps of reading characters."""
        self.charge_steps(size // _CHARACTERS_PER_STEP)

    def charge_size(self, size: int) -> None:
        """Charge characters that are about to be written.

        Raises:
            OverBudgetError: too few characters are left.
        """
        self.size += size
        if self.size > self._most_size:
            raise OverBudgetError(f"the template evaluates to more than {self._most_size} characters")

    def charge_items(self, count: int) -> None:
        """Charge an array that is about to be built from existing values."""
        self.charge_size(_VALUE_SIZE * count)

    def charge_value(self, value: Json) -> None:
        """Charge a value that a function returned; an array or object is charged only once."""
        if isinstance(value, list | dict):
            self.weigh(value)
        else:
            self.charge_size(self.weigh(value))

    def weigh(self, value: Json) -> int:
        """Return the approximate number of characters of a value.

        Raises:
            InvalidTemplateError: the value is too long, or nests too deeply.
        """
        return self._measure(value, 0)[0]

    def _measure(self, value: Json, depth: int) -> tuple[int, int]:
        if not isinstance(value, list | dict):
            return (_VALUE_SIZE + len(value) if isinstance(value, str) else _VALUE_SIZE), 0
        measured = self._measured.get(id(value))
        if measured is None:
            measured = self._measured[id(value)] = value, *self._sum(value, depth)
        _, weight, height = measured
        if depth + height > DEEPEST:
            raise InvalidTemplateError(f"it evaluates to more than {DEEPEST} levels of nesting")
        return weight, height

    def _sum(self, value: list[Json] | dict[str, Json], depth: int) -> tuple[int, int]:
        if depth > DEEPEST:
            raise InvalidTemplateError(f"it evaluates to more than {DEEPEST} levels of nesting")
        self.charge_items(1 + len(value))
        self.charge_steps(len(value))
        weight, height = _VALUE_SIZE, 0
        if isinstance(value, dict):
            weight += sum(map(len, value))
        for inner in value.values() if isinstance(value, dict) else value:
            inner_weight, inner_height = self._measure(inner, depth + 1)
            weight, height = weight + inner_weight, max(height, inner_height + 1)
            if weight > LARGEST:
                raise InvalidTemplateError(f"it evaluates to more than {LARGEST} characters")
        return weight, height
