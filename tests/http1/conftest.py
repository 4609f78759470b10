"""Fixtures for the tests of the HTTP server."""

from tests.http1.server_client import transports

__all__ = ["transports"]
