"""``./dev bench [poll|store|start|scale|agent] [--quick]``: measure, print a page, keep it with its data."""

import argparse
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # the suites are a package, this file is run by its path

from bench import agent, poll, report, scale, start, store

RESULTS = Path(__file__).parent / "results"

#: Each suite, told whether it has to be quick.
SUITES: Mapping[str, Callable[[bool], report.Section]] = {
    "poll": lambda quick: poll.suite(poll.QUICK if quick else poll.USUAL),
    "store": lambda quick: store.suite(store.QUICK if quick else store.USUAL, RESULTS),
    "start": lambda quick: start.suite(3 if quick else 9),
    "scale": lambda quick: scale.suite(scale.QUICK if quick else scale.USUAL),
    "agent": lambda quick: agent.suite(1 if quick else 3, 10.0 if quick else 30.0),
}


def main(words: list[str]) -> None:
    """Run the suites asked for, or all of them."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"{', '.join(SUITES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: under a minute")
    asked = parser.parse_args(words)
    if unknown := set(asked.suites) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    if sys.platform != "linux":
        parser.error("measuring needs Linux: epoll, /proc and addresses of 127/8")
    at, context = datetime.now(UTC), report.machine()
    sections = []
    for name in asked.suites or SUITES:
        print(f"bench: {name} …", file=sys.stderr)
        sections.append(SUITES[name](asked.quick))
    page = report.save(RESULTS, sections, context, at)
    print(page.read_text())
    print(f"bench: kept as {page} and .json", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
