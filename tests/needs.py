"""What tests need beyond Python. A test that lacks something is skipped with a reason; in CI it fails."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

#: Set where everything must be tried, as in ``.ci/run``.
SKIP_NOTHING = "FAIRWARNING_TESTS_SKIP_NOTHING"

#: Programs and files, and the Debian packages that bring them.
PACKAGES: Mapping[str, str] = {
    "curl": "curl",
    "dnsmasq": "dnsmasq-base",
    "gcc": "gcc",
    "haproxy": "haproxy",
    "ip": "iproute2",
    "javac": "default-jdk-headless",
    "nginx": "nginx-light",
    "node": "nodejs",
    "strace": "strace",
    "unshare": "util-linux",
    "/usr/lib/ocf/resource.d/heartbeat/azure-events-az": "resource-agents",
    "/usr/lib/python3/dist-packages/cloudinit": "cloud-init",
    "/usr/include/stdio.h": "libc6-dev",
}

#: The folders of ``sbin`` are not on an ordinary user's path.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def found(tool: str) -> str | None:
    """Return where a program or file is, if this machine has it."""
    if tool.startswith("/"):
        return tool if Path(tool).exists() else None
    return shutil.which(tool, path=_PATH)


def need(*tools: str) -> None:
    """Skip the test unless this machine has every one of these; ``root`` is the right to be one."""
    lacking = [
        f"{tool} (Debian package {PACKAGES.get(tool, tool)})"
        for tool in tools
        if tool != "root" and not found(tool)
    ]
    if "root" in tools and os.geteuid() != 0:
        lacking.append("root")
    if lacking:
        lack(f"needs {', '.join(lacking)}")


def lack(reason: str) -> NoReturn:
    """Skip the test for a reason that lies in the machine; fail it where nothing may be skipped."""
    if os.environ.get(SKIP_NOTHING):
        pytest.fail(f"{reason}; {SKIP_NOTHING} is set", pytrace=False)
    pytest.skip(reason)
