"""Pages as values: who comes, what they are shown, and which parts of that may change under their eyes.

A page is a function from a visit to a view. Its live stream calls the same function again and sends the
fragments that differ, so what is live is never another thing than what is loaded.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import parse_qsl

from starlette.responses import Response

from fairwarning.console.context import ConsoleContext
from fairwarning.core.errors import FairWarningError, InvalidError

#: How whoever presses a button here is called in the history.
CONSOLE = "operator:console"

#: More members than any form of ours has.
MOST_FIELDS = 2000


@dataclass(frozen=True, slots=True)
class Fields:
    """What a query or a form says, in order; a name may be said more than once."""

    pairs: tuple[tuple[str, str], ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """Return what is said first under a name, without the space around it."""
        return next((value.strip() for key, value in self.pairs if key == name), default)

    def all(self, name: str) -> tuple[str, ...]:
        """Return everything that is said under a name."""
        return tuple(value.strip() for key, value in self.pairs if key == name)

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self.pairs)

    def __bool__(self) -> bool:
        return bool(self.pairs)


def fields(text: str) -> Fields:
    """Return the members of a query or of a form's body."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
    except ValueError:
        raise InvalidError("form", f"has more than {MOST_FIELDS} fields") from None
    return Fields(tuple(pairs))


@dataclass(frozen=True, slots=True)
class FormProblem:
    """Why a form was not accepted, and the field at fault if it is one."""

    text: str
    field: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One look at a page: its address, and the form that is to be shown again with what was typed."""

    path: str
    #: The one name in the path.
    name: str = ""
    query: Fields = Fields()
    form: Fields = Fields()
    problems: tuple[FormProblem, ...] = ()
    #: What every form has to bring along.
    csrf: str = ""

    def problem(self, name: str) -> str:
        """Return what is wrong with a field; empty if nothing is."""
        return next((one.text for one in self.problems if one.field == name), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A part of a page that changes by itself: the element with this id.

    ``key`` is what decides whether it has changed, its HTML unless given. What lies ``within`` another
    fragment comes with that one's HTML; the outer one's key says only which inner ones there are.
    """

    id: str
    html: str
    key: str | None = None
    within: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """What a page shows: a template, what it needs to know, and the fragments that are in it."""

    title: str
    template: str
    values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    fragments: tuple[Fragment, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """What was asked for is done: where to go now, and what to say there."""

    to: str
    said: str = ""


class NoPageError(FairWarningError):
    """Nothing is to be seen at this address."""

    status_hint = 404

    def __init__(self, path: str) -> None:
        super().__init__(f"there is nothing at {path}")
        self.path = path


class FormError(FairWarningError):
    """A form has mistakes in it; each is told next to its field."""

    status_hint = 422

    def __init__(self, problems: Iterable[FormProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(one.text for one in self.problems))


Show = Callable[[ConsoleContext, Visit], Awaitable[PageView | Response]]
Act = Callable[[ConsoleContext, Visit], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class Page:
    """An address and what is shown there."""

    path: str
    show: Show

    def at(self, name: str) -> str:
        """Return the address of the page about ``name``."""
        return self.path.replace("{name:path}", name)


@dataclass(frozen=True, slots=True)
class Action:
    """An address that forms are sent to; what is refused is told on the page that has the form."""

    path: str
    act: Act
    page: Page
