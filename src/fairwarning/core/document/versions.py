"""The api-versions of the metadata service, and the shape of the document in each.

Scheduled Events has its own list of versions; all other categories share another list.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from fairwarning.core.model import EventType

_BASE = ("EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore")
_OLDEST = frozenset({EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY})
_PREEMPT = _OLDEST | {EventType.PREEMPT}
_ALL = _PREEMPT | {EventType.TERMINATE}


class DocumentShape(NamedTuple):
    """The fields, event types and formats of the document in one api-version."""

    fields: tuple[str, ...] = _BASE
    kinds: frozenset[EventType] = _ALL
    underscore: bool = False
    iso_dates: bool = False
    header_on_post: bool = True


#: V-01 to V-09, one row per version, oldest first.
EVENT_VERSIONS: Mapping[str, DocumentShape] = {
    "2017-03-01": DocumentShape(kinds=_OLDEST, underscore=True, iso_dates=True, header_on_post=False),
    "2017-08-01": DocumentShape(kinds=_OLDEST),
    "2017-11-01": DocumentShape(kinds=_PREEMPT),
    "2019-01-01": DocumentShape(),
    "2019-04-01": DocumentShape((*_BASE, "Description")),
    "2019-08-01": DocumentShape((*_BASE, "Description", "EventSource")),
    "2020-07-01": DocumentShape((*_BASE, "Description", "EventSource", "DurationInSeconds")),
}

#: The default api-version of clients.
NEWEST = max(EVENT_VERSIONS)

#: A preview version that Azure offers in some regions; served only if the profile enables it.
PREVIEW_VERSION = "2024-07-09"
PREVIEW_SHAPE = EVENT_VERSIONS[NEWEST]._replace(kinds=_ALL | {EventType.REBALANCE})

#: I-03: the versions of every other category, oldest first.
IMDS_VERSIONS: tuple[str, ...] = (
    "2017-03-01", "2017-04-02", "2017-08-01", "2017-10-01", "2017-12-01", "2018-02-01", "2018-04-02",
    "2018-10-01", "2019-02-01", "2019-03-11", "2019-04-30", "2019-06-01", "2019-06-04", "2019-08-01",
    "2019-08-15", "2019-11-01", "2020-06-01", "2020-07-15", "2020-09-01", "2020-10-01", "2020-12-01",
    "2021-01-01", "2021-02-01", "2021-03-01", "2021-05-01", "2021-08-01", "2021-10-01", "2021-11-01",
    "2021-11-15", "2021-12-13", "2023-07-01", "2023-11-15", "2024-03-15", "2024-07-17", "2025-04-07",
)  # fmt: skip

_WELL_FORMED = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def well_formed(version: str) -> bool:
    """Whether ``version`` has the format of an api-version, supported or not."""
    return _WELL_FORMED.fullmatch(version) is not None
