"""``python -m tests.maintenance 1000``: random histories of maintenance; exits 1 on the first broken rule."""

import argparse
import logging
import sys

from tests.histories.explore import Violation
from tests.maintenance.explore import explore


def main() -> int:
    """Play the histories of every seed, and print what happened in them."""
    parser = argparse.ArgumentParser(prog="python -m tests.maintenance", description=__doc__)
    parser.add_argument("seeds", type=int, help="how many seeds to try")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    asked = parser.parse_args()
    # Impacts without a report are expected.
    logging.disable(logging.WARNING)
    try:
        met = explore(range(asked.first, asked.first + asked.seeds))
    except Violation as violation:
        print(f"violation with seed {violation.history.seed}: {violation.report()}")
        return 1
    for what, count in sorted(met.items()):
        print(f"  {count:9,} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
