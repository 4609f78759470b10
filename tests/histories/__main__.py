"""``python -m tests.histories --steps 1000000``: random histories, with progress; exits 1 on a violation."""

import argparse
import logging
import os
import sys
import time

from tests.histories.explore import Tally, Violation, explore


def main() -> int:
    """Explore as the options say, and print a summary."""
    asked = _arguments()
    # The histories fill the disk on purpose; its errors are expected.
    logging.disable(logging.CRITICAL)
    began = said = time.monotonic()

    def progress(tally: Tally) -> None:
        nonlocal said
        if time.monotonic() - said >= asked.every:
            said = time.monotonic()
            print(_line(tally, said - began), flush=True)

    print(f"seed {asked.seed}, process {os.getpid()}", flush=True)
    try:
        tally = explore(asked.seed, asked.steps, progress, asked.first)
    except Violation as violation:
        print(f"violation with seed {asked.seed}: {violation.report()}", flush=True)
        print(f"again: python -m tests.histories --seed {asked.seed} --first {violation.history.seed}")
        return 1
    print(_line(tally, time.monotonic() - began))
    for what, count in sorted(tally.met.items()):
        print(f"  {count:9,} {what}")
    print("0 violations")
    return 0


def _line(tally: Tally, seconds: float) -> str:
    rate = tally.steps / seconds
    return f"{tally.steps:,} steps in {tally.histories:,} histories, {rate:,.0f} steps/s"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000, help="how many steps to take (20000)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what decides all that happens")
    parser.add_argument("--first", type=int, default=0, help="the history to begin with (0)")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between lines of progress (10)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
