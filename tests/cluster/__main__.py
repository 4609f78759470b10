"""``python -m tests.cluster 600``: three nodes that fail for ten minutes; exits 1 if a promise is broken."""

import argparse
import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from fairwarning.engine.clock import new_request_id
from tests.cluster.run import run


def main() -> int:
    """Run a cluster and print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("seconds", type=float, help="how long nodes fail")
    parser.add_argument(
        "seed", nargs="?", default=new_request_id(), help="of an earlier run; random by default"
    )
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        report = asyncio.run(run(Path(folder), asked.seconds, asked.seed))
    print(report)
    return bool(report.violations)


if __name__ == "__main__":
    sys.exit(main())
