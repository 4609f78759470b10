"""Programs and files that tests need beyond Python. Without them a test is skipped; in CI it fails."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

#: Set where no test may be skipped, as in ``.ci/run``.
SKIP_NOTHING = "FAIRWARNING_TESTS_SKIP_NOTHING"

#: Programs and files, and the Debian packages that contain them.
PACKAGES: Mapping[str, str] = {
    "curl": "curl",
    "dnsmasq": "dnsmasq-base",
    "gcc": "gcc",
    "dpkg-deb": "dpkg",
    "git": "git",
    "groff": "groff-base",
    "haproxy": "haproxy",
    "ip": "iproute2",
    "iptables": "iptables",
    "javac": "default-jdk-headless",
    "jq": "jq",
    "mcs": "mono-mcs",
    "lintian": "lintian",
    "mmdebstrap": "mmdebstrap",
    "mono": "mono-runtime",
    "nginx": "nginx-light",
    "node": "nodejs",
    "nsenter": "util-linux",
    "podman": "podman",
    "ps": "procps",
    "strace": "strace",
    "strip": "binutils",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
    "/usr/lib/mono/4.5/System.Net.Http.dll": "libmono-system-net-http4.0-cil",
    "/usr/lib/mono/4.5/System.Runtime.Serialization.dll": "libmono-system-runtime-serialization4.0-cil",
    "/usr/lib/podman/netavark": "netavark",
    "/usr/lib/ocf/resource.d/heartbeat/azure-events-az": "resource-agents",
    "/usr/lib/python3/dist-packages/cloudinit": "cloud-init",
    "/usr/include/stdio.h": "libc6-dev",
}

#: An ordinary user's path lacks the ``sbin`` folders.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def found(tool: str) -> str | None:
    """Return the path of a program or file, or None."""
    if tool.startswith("/"):
        return tool if Path(tool).exists() else None
    return shutil.which(tool, path=_PATH)


def need(*tools: str) -> None:
    """Skip the test unless this machine has all of these tools; ``root`` stands for root privileges."""
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
    """Skip the test, or fail it where no test may be skipped."""
    if os.environ.get(SKIP_NOTHING):
        pytest.fail(f"{reason}; {SKIP_NOTHING} is set", pytrace=False)
    pytest.skip(reason)
