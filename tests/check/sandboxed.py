"""Where a machine allows no sandbox, nothing can be played, and that alone is a reason to skip a test."""

from tests.needs import lack


def skip_without_sandbox(said: str) -> None:
    """Skip the test if ``check`` has said that this machine lets it start no handler."""
    if "this machine does not allow" in said:
        lack(said)
