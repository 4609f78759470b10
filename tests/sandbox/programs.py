"""Programs that have 169.254.169.254 hard-coded, and ``fairwarning exec`` to run them as an ordinary user."""

import contextlib
import os
import site
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import fairwarning
from tests.cli.server import Done
from tests.needs import PACKAGES, need

NOBODY = 65534
VM, HOST_NAME = "web_1", "web000001"
PATH = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
URL = f"http://169.254.169.254{PATH}"
FORBIDDING = Path(__file__).with_name("forbidding.py")

CURL = ("curl", "--silent", "--show-error", "--max-time", "20", "--noproxy", "*", "-H", "Metadata:true", URL)

URLLIB = f"""
import urllib.request
asked = urllib.request.Request({URL!r}, headers={{"Metadata": "true"}})
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
print(opener.open(asked, timeout=20).read().decode())
"""

REQUEST = f"GET {PATH} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\nConnection: close\r\n\r\n"

ASYNCIO = f"""
import asyncio
async def main():
    reader, writer = await asyncio.open_connection("169.254.169.254", 80)
    writer.write({REQUEST.encode()!r})
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    print(answer.decode().rpartition("\\r\\n")[2])
asyncio.run(main())
"""

#: The endpoint answers five requests a second, so only two of the connections are used.
THREADS = f"""
import socket
from concurrent.futures import ThreadPoolExecutor
def connect(_):
    return socket.create_connection(("169.254.169.254", 80), timeout=20)
def ask(asking):
    asking.sendall({REQUEST.encode()!r})
    return asking.makefile().read().rpartition("\\n")[2]
with ThreadPoolExecutor(16) as pool:
    connected = list(pool.map(connect, range(32)))
print(*{{ask(connected[0]), ask(connected[-1])}})
"""

NODE = f"""
fetch({URL!r}, {{headers: {{Metadata: "true"}}}}).then(answer => answer.text()).then(console.log);
"""

JAVA = f"""
import java.net.URI;
import java.net.http.*;
class Ask {{
    public static void main(String[] words) throws Exception {{
        var asked = HttpRequest.newBuilder(URI.create("{URL}")).header("Metadata", "true").build();
        var client = HttpClient.newBuilder().build();
        System.out.println(client.send(asked, HttpResponse.BodyHandlers.ofString()).body());
        var old = URI.create("{URL}").toURL().openConnection();
        old.setRequestProperty("Metadata", "true");
        System.out.println(new String(old.getInputStream().readAllBytes()));
    }}
}}
"""

C = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static const char request[] = "GET PATH HTTP/1.1\r\nHost: x\r\nMetadata: true\r\nConnection: close\r\n\r\n";
int main(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)}, before;
    char answer[4096], *body = answer;
    inet_pton(AF_INET, "169.254.169.254", &to.sin_addr);
    before = to;
    int got, length = 0, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) { perror("connect"); return 1; }
    if (memcmp(&before, &to, sizeof to) != 0) fputs("the address was written over\n", stderr);
    write(fd, request, sizeof request - 1);
    while ((got = read(fd, answer + length, sizeof answer - 1 - length)) > 0) length += got;
    answer[length] = 0;
    if ((body = strstr(answer, "\r\n\r\n"))) puts(body + 4);
    return 0;
}
""".replace("PATH", PATH)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramUser:
    """The user that runs the programs, and an interpreter that this user can read."""

    user: int | None
    interpreter: str
    path: str = ""


@cache
def program_user() -> ProgramUser:
    """Return an ordinary user, also for tests run by root; root if no other user can read the package."""
    if os.geteuid() != 0:
        return ProgramUser(user=None, interpreter=sys.executable)
    packages = os.pathsep.join([str(Path(fairwarning.__file__).parents[1]), *site.getsitepackages()])
    for candidate in (
        ProgramUser(user=NOBODY, interpreter=sys.executable),
        ProgramUser(user=NOBODY, interpreter="/usr/bin/python3", path=packages),
    ):
        with contextlib.suppress(OSError):
            needs = [candidate.interpreter, "-c", "import httpx2, msgspec, fairwarning.cli"]
            tried = subprocess.run(
                needs, user=NOBODY, group=NOBODY, extra_groups=[], env=_with(candidate.path)
            )
            if tried.returncode == 0:
                return candidate
    return ProgramUser(user=None, interpreter=sys.executable)


def _with(path: str) -> Mapping[str, str]:
    return {**os.environ, **({"PYTHONPATH": path} if path else {})}


def python(code: str, *words: str) -> tuple[str, ...]:
    """Return the words that run a script, apart from the environment."""
    return (program_user().interpreter, "-I", "-c", code, *words)


def present(program: tuple[str, ...] | str) -> tuple[str, ...]:
    """Return the program if this machine has what it calls; a text is a script in Python."""
    if isinstance(program, str):
        return python(program)
    need(*(word for word in program if word in PACKAGES))
    return program


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """``fairwarning exec`` against one server, where a machine may forbid some of it."""

    operator: str
    forbidden: tuple[str, ...] = ()

    def words(self, *program: str, isolate: bool = False, vm: str = VM) -> list[str]:
        """Return the whole command line."""
        interpreter = program_user().interpreter
        start = [interpreter, str(FORBIDDING), *self.forbidden, "--"] if self.forbidden else []
        mode = ["--isolate"] if isolate else []
        ours = [interpreter, "-W", "error", "-m", "fairwarning", "exec", "--vm", vm, *mode]
        return [*start, *ours, "--", *program]

    def start(self, *program: str, isolate: bool = False, vm: str = VM) -> "subprocess.Popen[str]":
        """Start a program and return at once."""
        return self.popen(self.words(*program, isolate=isolate, vm=vm), stdin=subprocess.DEVNULL)

    def popen(self, words: list[str], stdin: int) -> "subprocess.Popen[str]":
        """Start a command line as an ordinary user, with the server in its environment."""
        user = program_user().user
        return subprocess.Popen(
            words,
            env={**_with(program_user().path), "FAIRWARNING_URL": self.operator},
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *program: str, isolate: bool = False, vm: str = VM) -> Done:
        """Run a program to its end."""
        with self.start(*program, isolate=isolate, vm=vm) as process:
            try:
                out, err = process.communicate(timeout=60)
            finally:
                process.kill()
        return Done(code=process.returncode, stdout=out, stderr=err)
