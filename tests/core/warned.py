"""Sets whose machines get a terminate notice, and the state of their events."""

from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import EventStatus
from tests.fleet_harness import span

WEB = Blueprint(name="web", count=4, terminate_notice=span("5m"))
ZONAL = replace(WEB, zones=("1", "2"))
BOTH = [pytest.param(WEB, id="in one scope"), pytest.param(ZONAL, id="across the zones of the set")]
SCHEDULED, STARTED, GONE = EventStatus.SCHEDULED, EventStatus.STARTED, EventStatus.GONE
