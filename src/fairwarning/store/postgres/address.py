"""The address of a database, which may contain a password."""

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fairwarning.store.errors import DatabaseUnsuitableError

#: The seconds within which a host has to accept a connection, unless the address says otherwise.
CONNECT_WITHIN = 2

#: The settings that have a part for each host, or one part for all.
LISTS = frozenset({"host", "hostaddr", "port"})

#: What may be shown of an address.
SHOWN = ("host", "port", "dbname")


class Address:
    """How to reach a database: PostgreSQL's connection string or URI, with any number of hosts."""

    def __init__(self, text: str) -> None:
        """Take the text; raise ``DatabaseUnsuitableError`` without quoting it if it cannot be read."""
        try:
            self._settings = conninfo_to_dict(text)
        except ProgrammingError:
            raise DatabaseUnsuitableError("the address of the database cannot be read") from None

    def __str__(self) -> str:
        shown = (f"{name}={self._settings[name]}" for name in SHOWN if self._settings.get(name))
        return " ".join(shown) or "of PostgreSQL"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    @property
    def hosts(self) -> int:
        """The number of hosts that are tried, one after the other."""
        return max(len(self._list(name)) for name in LISTS)

    def _list(self, name: str) -> list[str]:
        return str(self._settings.get(name) or "").split(",")

    def conninfo(self, session: str, first_host: int = 0) -> str:
        """Return the connection string for a session that has to be ``read-write``, or may be ``any``.

        The hosts are tried in their order, beginning with host number ``first_host``.
        """
        defaults = {"connect_timeout": str(CONNECT_WITHIN), "application_name": "fairwarning"}
        settings = {name: str(value) for name, value in self._settings.items() if value is not None}
        for name in LISTS & settings.keys():
            parts = self._list(name)
            settings[name] = ",".join(parts[first_host % len(parts) :] + parts[: first_host % len(parts)])
        return make_conninfo("", **defaults | settings, client_encoding="utf8", target_session_attrs=session)
