"""The address of a database, which may contain a password."""

from collections.abc import Mapping

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo, timeout_from_conninfo
from psycopg.pq import Conninfo

from fairwarning.store.errors import DatabaseUnsuitableError

#: What an address need not say: the seconds within which a host has to accept a connection, and who connects.
DEFAULTS = {"connect_timeout": "2", "application_name": "fairwarning"}

#: The settings that nodes depend on: the values that an address may give, and what is said of other values.
_NEEDED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "target_session_attrs": (
        ("read-write", "primary"),
        "must be read-write, or left out: nodes need a server that accepts writes",
    ),
    "client_encoding": (("utf8", "utf-8", "unicode"), "must be utf8, or left out"),
    "replication": (("off", "false", "no", "0"), "must be off, or left out"),
}

#: The settings that have a part for each host, or one part for all.
LISTS = ("host", "hostaddr", "port")

#: What may be shown of an address.
SHOWN = ("host", "port", "dbname")


class Address:
    """How to reach a database: PostgreSQL's connection string or URI, with any number of hosts."""

    def __init__(self, text: str) -> None:
        """Take the text; raise ``DatabaseUnsuitableError`` without quoting it if nodes cannot use it."""
        self._settings = _read_settings(text)
        for name, (values, problem) in _NEEDED.items():
            if self._settings.get(name, values[0]).lower() not in values:
                raise _unusable(f"{name} {problem}")
        try:
            timeout_from_conninfo({**self._settings})
        except ProgrammingError:
            raise _unusable("connect_timeout must be a number of seconds") from None

    def __str__(self) -> str:
        shown = (f"{name}={self._settings[name]}" for name in SHOWN if self._settings.get(name))
        return " ".join(shown) or "of PostgreSQL"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    @property
    def session_for_reading(self) -> str:
        """The session that suffices for reading: any, unless the address says otherwise."""
        return self._settings.get("target_session_attrs", "any").lower()

    @property
    def hosts(self) -> int:
        """The number of hosts that are tried, one after the other."""
        return max(len(parts) for parts in self._lists().values())

    def conninfo(self, session: str, first_host: int = 0) -> str:
        """Return the connection string for a session that has to be ``read-write``, or may be ``any``.

        The hosts are tried in their order, beginning with host number ``first_host``.
        """
        turned = {
            name: ",".join(parts[first_host % len(parts) :] + parts[: first_host % len(parts)])
            for name, parts in self._lists().items()
            if len(parts) > 1
        }
        needed = {"client_encoding": "utf8", "target_session_attrs": session}
        return make_conninfo("", **DEFAULTS | self._settings | turned | needed)

    def _lists(self) -> Mapping[str, list[str]]:
        # The hosts of a service take precedence over the environment, and only libpq knows them.
        settings = self._settings if "service" in self._settings else _default_lists() | self._settings
        return {name: settings.get(name, "").split(",") for name in LISTS}


def _default_lists() -> dict[str, str]:
    """Return the hosts that libpq takes if an address names none (``PGHOST``)."""
    defaults = {default.keyword.decode(): default.val for default in Conninfo.get_defaults()}
    return {name: value.decode() for name in LISTS if (value := defaults.get(name)) is not None}


def _read_settings(text: str) -> dict[str, str]:
    try:
        if "\0" in text:  # libpq would ignore what follows
            raise ProgrammingError
        return {name: str(value) for name, value in conninfo_to_dict(text).items() if value is not None}
    except (ProgrammingError, UnicodeError):
        raise DatabaseUnsuitableError("the address of the database cannot be read") from None


def _unusable(problem: str) -> DatabaseUnsuitableError:
    return DatabaseUnsuitableError(f"the address of the database cannot be used: {problem}")
