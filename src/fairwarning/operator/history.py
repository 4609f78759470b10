"""The history, page by page and live."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from fairwarning.core import history as told
from fairwarning.core.model import EventId
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import Lagging, Listener
from fairwarning.engine.ports import Entry
from fairwarning.operator import shapes
from fairwarning.operator.desk import Desk
from fairwarning.operator.problems import Refusal

#: How many journal lines are read at a time.
PAGE = 500

#: How long a feed stays silent before it gives a sign of life.
HEARTBEAT = timedelta(seconds=15)
