"""A person who types commands in a bare root."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.roots import HOME, NEWCOMER, Root


@dataclass(frozen=True, slots=True)
class Newcomer:
    """The ordinary user of a root, and a folder of theirs."""

    root: Root
    folder: str = HOME

    def receive(self, *files: Path) -> None:
        """Put copies of files or folders into the home."""
        for file in files:
            subprocess.run(["cp", "--recursive", file, self.root.home], check=True)
        self.own()

    def own(self) -> None:
        """Let everything in the home belong to the user."""
        subprocess.run(["chown", "--recursive", f"{NEWCOMER}:{NEWCOMER}", self.root.home], check=True)

    def types(self, line: str) -> str:
        """Run a line of shell, which must succeed, and return its output."""
        command = self.root.command("sh", "-c", line, folder=self.folder)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def leaves_running(self, line: str, log: str) -> Iterator[Path]:
        """Run a line of shell in another terminal during the block; return the file with its output."""
        path = self.root.home / log
        with path.open("w") as output:
            process = subprocess.Popen(
                self.root.command("sh", "-c", f"exec {line}", folder=self.folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield path
        finally:
            process.terminate()
            process.wait(60)
