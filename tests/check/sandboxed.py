"""Skips tests on machines that allow no sandbox."""

from tests.needs import lack


def skip_without_sandbox(output: str) -> None:
    """Skip the test if ``check`` reports that this machine allows no sandbox."""
    if "this machine does not allow" in output:
        lack(output)
