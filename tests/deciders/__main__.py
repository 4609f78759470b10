"""``python -m tests.deciders 100``: random histories of several deciders; exits 1 on the first violation."""

import argparse
import sys
import traceback
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.deciders.history import SETTINGS, play
from tests.deciders.stores import IN_PROCESS


def main() -> int:
    """Play the histories of every seed, and print what happened in them."""
    parser = argparse.ArgumentParser(prog="python -m tests.deciders", description=__doc__)
    parser.add_argument("seeds", type=int, help="how many seeds to try")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--store", choices=IN_PROCESS, default="memory", help="the store (memory)")
    asked = parser.parse_args()
    total: Counter[str] = Counter()
    for seed in range(asked.first, asked.first + asked.seeds):
        for name, settings in SETTINGS.items():
            try:
                with TemporaryDirectory() as directory:
                    total += play(seed, settings, asked.store, Path(directory))
            except Exception:
                traceback.print_exc()
                print(f"violation in the history of seed {seed} with {name}")
                return 1
    print(f"{asked.seeds * len(SETTINGS)} histories, 0 violations")
    for what, count in sorted(total.items()):
        print(f"  {count:9,} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
