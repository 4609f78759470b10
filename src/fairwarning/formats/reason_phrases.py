"""The reason phrases of HTTP statuses, the same on every Python."""

from collections.abc import Mapping
from http import HTTPStatus

#: Python 3.13 has renamed these.
_RENAMED: Mapping[int, str] = {
    413: "Request Entity Too Large",
    414: "Request-URI Too Long",
    416: "Requested Range Not Satisfiable",
    422: "Unprocessable Entity",
}
REASON_PHRASES: Mapping[int, str] = {**{status.value: status.phrase for status in HTTPStatus}, **_RENAMED}
