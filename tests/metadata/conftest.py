"""Fixtures that tests of the metadata API share with those of its server."""

from tests.http1.conftest import lines as lines
