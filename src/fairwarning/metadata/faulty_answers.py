"""Answers that an endpoint fault distorts: the status is 200, but the answer is not what it should be."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.document.render import Json, compact_json
from fairwarning.http1.messages import JSON, Request, Response
from fairwarning.metadata.checks import GuestHeader


def _plain_text(response: Response) -> Response:
    return replace(response, content_type="text/plain; charset=utf-8")


def _without_events(response: Response) -> Response:
    document: Json = json.loads(response.body) if response.content_type == JSON else None
    if not isinstance(document, dict):
        return response
    rest = {name: value for name, value in document.items() if name != "Events"}
    return replace(response, body=compact_json(rest))


def _partial(response: Response) -> Response:
    sent = len(response.body) // 2
    return replace(response, body=response.body[:sent], missing=len(response.body) - sent)


#: The faults that distort the answer to a GET.
DISTORTIONS: Mapping[EndpointFault, Callable[[Response], Response]] = {
    EndpointFault.PLAIN_TEXT: _plain_text,
    EndpointFault.NO_EVENTS: _without_events,
    EndpointFault.PARTIAL: _partial,
}

#: The faults under which an answer has no events, or not all of them.
WITHOUT_EVENTS = frozenset({EndpointFault.NO_EVENTS, EndpointFault.PARTIAL})


def unconditional(request: Request) -> Request:
    """Return a request without If-None-Match: a 304 would hide what is wrong with the answer."""
    return request._replace(
        headers={
            name: values for name, values in request.headers.items() if name != GuestHeader.IF_NONE_MATCH
        }
    )


def distort(fault: EndpointFault, response: Response) -> Response:
    """Return what a fault makes of a response; only a 200 with a body has something to distort."""
    if response.status != 200 or not response.body:
        return response
    headers = tuple((name, value) for name, value in response.headers if name != "ETag")
    return DISTORTIONS[fault](replace(response, headers=headers))
