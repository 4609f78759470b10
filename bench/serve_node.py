"""Whole nodes: ``fairwarning serve`` on PostgreSQL; machines are known by their source addresses."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import scheduler_seconds
from bench.servers import LOOPBACK, Server, appears, free_port, module, process, sources

PER_SET = 1_000

#: How long the start of a large node may take, in seconds.
START = 300.0

_FILE = """
driver = "simulated"

[store]
kind = "postgres"
dsn = "{dsn}"
migrate = true

[operator]
listen = "127.0.0.1:{operator}"

[management]
listen = "127.0.0.1:{management}"

[metadata]
listen = ["127.0.0.1:{metadata}"]
requests_per_second = 1000000
burst = 1000000

[workers]
status = "127.0.0.1:{status}"

[tls]
directory = "{folder}/tls"

[inventory]
file = "{folder}/machines.csv"
"""
_SET = """
[[set]]
name = "set{number}"
kind = "scale-set"
"""


@contextmanager
def serve_node(folder: Path, dsn: str, machines: int, *options: str) -> Iterator[Server]:
    """Run a node with its files in a folder during the block; it is ready when the block begins."""
    folder.mkdir(exist_ok=True)
    port, ready = free_port(), folder / "ready.json"
    _write_files(folder, dsn, machines, port)
    ready.unlink(missing_ok=True)
    file = folder / "serve.toml"
    with process(module("fairwarning", "serve", "--config", file, "--ready-file", ready, *options)) as node:
        appears(node, ready, within=START)
        yield Server(name=file.name, pid=node.pid, address=(LOOPBACK, port), meter=scheduler_seconds)


def _write_files(folder: Path, dsn: str, machines: int, port: int) -> None:
    sets = range(machines // PER_SET)
    names = (f"set{number}_{instance},set{number}" for number in sets for instance in range(PER_SET))
    rows = (f"{name},{source}" for name, source in zip(names, sources(range(machines)), strict=True))
    (folder / "machines.csv").write_text("\n".join(["name,set,address", *rows]))
    text = _FILE.format(
        dsn=dsn, metadata=port, operator=port + 1, management=port + 2, status=port + 3, folder=folder
    )
    (folder / "serve.toml").write_text(text + "".join(_SET.format(number=number) for number in sets))
