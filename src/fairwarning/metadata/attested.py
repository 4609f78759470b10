"""``/metadata/attested/document``: facts about a machine with a signature, for others to verify (I-16).

The authority of the server signs, not Microsoft: a program that verifies the signature must be told to trust
that authority.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from fairwarning.core.document.render import Json, compact_json
from fairwarning.metadata.instance_fields import InstanceFacts

FIRST_VERSION = "2018-10-01"
LONGEST_NONCE = 32
LIFE = timedelta(hours=6)

#: The api-versions that added members to the document.
_SINCE: Mapping[str, str] = {
    "subscriptionId": "2019-04-30",
    "sku": "2019-11-01",
    "licenseType": "2020-09-01",
}


class Attestation(NamedTuple):
    """What signs documents, and the time of those who verify them."""

    #: Returns None if the server has no authority of its own.
    sign: Callable[[bytes], Awaitable[bytes | None]]
    now: Callable[[], datetime]


def attested_data(facts: InstanceFacts, version: str, nonce: str, now: datetime) -> bytes:
    """Return the data of a document that is signed."""
    expires_at = now + LIFE
    members: dict[str, Json] = {
        "licenseType": facts.created.license_type,
        "nonce": nonce or expires_at.strftime("%Y%m%d-%H%M%S"),
        "plan": {**facts.created.plan._asdict()},
        "sku": facts.sku,
        "subscriptionId": facts.subscription_id,
        "timeStamp": {"createdOn": _instant(now), "expiresOn": _instant(expires_at)},
        "vmId": facts.vm_id,
    }
    return compact_json(
        {name: value for name, value in members.items() if _SINCE.get(name, FIRST_VERSION) <= version}
    )


def _instant(instant: datetime) -> str:
    return instant.strftime("%m/%d/%y %H:%M:%S -0000")
