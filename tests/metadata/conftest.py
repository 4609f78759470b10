"""Fixtures for the tests of the metadata API."""

from tests.http1.server_client import transports

__all__ = ["transports"]
