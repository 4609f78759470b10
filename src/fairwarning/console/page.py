"""Pages as values: the request, the view, and the fragments of it that are live.

A page is a function from a request to a view: a template, its values, and fragments, which are the
elements that can change while the page is open. The page's live stream calls the same function again and
sends the fragments that differ. So a live update can never show something that loading the page would
not.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import parse_qsl

from starlette.responses import Response

from fairwarning.console.context import ConsoleContext
from fairwarning.console.sessions import CONSOLE as CONSOLE
from fairwarning.core.errors import FairWarningError, InvalidError

#: More fields than any form of the console has.
MOST_FIELDS = 2000


@dataclass(frozen=True, slots=True)
class Fields:
    """The members of a query or a form, in order; a name may appear more than once."""

    pairs: tuple[tuple[str, str], ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a name, without surrounding whitespace."""
        return next((value.strip() for key, value in self.pairs if key == name), default)

    def all(self, name: str) -> tuple[str, ...]:
        """Return all values of a name."""
        return tuple(value.strip() for key, value in self.pairs if key == name)

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self.pairs)

    def __bool__(self) -> bool:
        return bool(self.pairs)


def parse_fields(text: str) -> Fields:
    """Return the members of a query string or a form body."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
    except ValueError:
        raise InvalidError("form", f"has more than {MOST_FIELDS} fields") from None
    return Fields(tuple(pairs))


def first_on_page(query: Fields, length: int, size: int) -> int:
    """Return the position at which the chosen page of a list begins; 0 if the query names none."""
    text = query.get("from", "0")
    start = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    return start - start % size if start < length else 0


@dataclass(frozen=True, slots=True)
class FormProblem:
    """Why a form was not accepted, and the field with the error, if it is in one field."""

    text: str
    field: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for a page; after a rejected form, with the form's input and its problems."""

    path: str
    #: The name in the path: of a scope, a machine, an event or a form.
    name: str = ""
    query: Fields = Fields()
    form: Fields = Fields()
    problems: tuple[FormProblem, ...] = ()
    #: The token that every form has to contain.
    csrf: str = ""
    #: Whether the server is the emulator: machines can be created, and time can be moved.
    emulator: bool = True

    def problem(self, name: str) -> str:
        """Return the problem of a field; empty if there is none."""
        return next((problem.text for problem in self.problems if problem.field == name), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A part of a page that is updated live: the element with this id.

    A fragment has changed if its ``key`` has; without a key, its HTML is compared. A fragment ``within``
    another one is part of the outer fragment's HTML; the key of the outer fragment covers only which
    inner fragments exist.
    """

    id: str
    html: str
    key: str | None = None
    within: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """What a page shows: a template, the template's values, and the live fragments."""

    title: str
    template: str
    values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    fragments: tuple[Fragment, ...] = ()


@dataclass(frozen=True, slots=True)
class FormResult:
    """The result of an accepted form: the page to show next, and a message to show on it once."""

    to: str
    flash: str = ""


class NoPageError(FairWarningError):
    """There is no page at this path."""

    status_hint = 404

    def __init__(self, path: str) -> None:
        super().__init__(f"There is no page at {path}")
        self.path = path


class FormError(FairWarningError):
    """A form has errors; the page shows each next to its field."""

    status_hint = 422

    def __init__(self, problems: Iterable[FormProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.text for problem in self.problems))


Show = Callable[[ConsoleContext, PageRequest], Awaitable[PageView | Response]]
Act = Callable[[ConsoleContext, PageRequest], Awaitable[FormResult]]


@dataclass(frozen=True, slots=True)
class Page:
    """A path and the function that shows it."""

    path: str
    show: Show
    #: Only the emulator has it.
    emulator: bool = False

    def at(self, name: str) -> str:
        """Return the path of the page about ``name``."""
        return self.path.replace("{name:path}", name)


@dataclass(frozen=True, slots=True)
class FormAction:
    """A path that accepts a form; the page with the form shows the errors."""

    path: str
    act: Act
    page: Page
    #: Only the emulator has it.
    emulator: bool = False
