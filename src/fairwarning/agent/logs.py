"""Log lines as JSON objects on stderr: a fixed event name, then fields."""

import json
import logging
from datetime import UTC, datetime
from typing import Final

#: What every record carries by itself; the rest are fields somebody added.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Renders one record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def to_stderr() -> None:
    """Send what the agent logs to stderr, as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("fairwarning")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
