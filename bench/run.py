"""``./dev bench [SUITE…] [--quick] [--write-docs] [--against DIR]``: measure, print a page, keep it."""

import argparse
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # the suites are a package, this file is run by its path

from bench import against, page, report

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"


def _poll(quick: bool) -> report.Section:
    from bench import poll

    return poll.suite(poll.QUICK if quick else poll.USUAL)


def _fairness(quick: bool) -> report.Section:
    from bench import fairness

    return fairness.suite(1 if quick else 9)


def _watch(quick: bool) -> report.Section:
    from bench import watch

    return watch.suite(watch.efforts(quick))


def _scale(quick: bool) -> report.Section:
    from bench import scale

    return scale.suite(scale.QUICK if quick else scale.USUAL, RESULTS)


def _store(quick: bool) -> report.Section:
    from bench import store

    return store.suite(store.QUICK if quick else store.USUAL, RESULTS)


def _start(quick: bool) -> report.Section:
    from bench import start

    return start.suite(3 if quick else 9)


def _soak(quick: bool) -> report.Section:
    from bench import soak

    return soak.suite(20 if quick else 600, RESULTS)


def _agent(quick: bool) -> report.Section:
    from bench import agent

    return agent.suite(1 if quick else 3, 10.0 if quick else 30.0)


def _exec(quick: bool) -> report.Section:
    from bench import exec_

    return exec_.suite(5 if quick else 15, 100 if quick else 300)


#: Each suite is imported when it runs: another checkout may lack what the others import.
SUITES: Mapping[str, Callable[[bool], report.Section]] = {
    "poll": _poll,
    "fairness": _fairness,
    "watch": _watch,
    "scale": _scale,
    "store": _store,
    "start": _start,
    "soak": _soak,
    "agent": _agent,
    "exec": _exec,
}


def main(words: list[str]) -> None:
    """Run the suites asked for, or all of them."""
    parser = _parser()
    asked = parser.parse_args(words)
    if asked.write_docs and asked.suites:
        parser.error("the page tells of one run of every suite: name none with --write-docs")
    if asked.against is not None:
        print(against.compare(asked.suites or list(SUITES), asked.against.absolute(), asked.rounds))
        return
    at, context = datetime.now(UTC), report.machine()
    sections = []
    for name in asked.suites or SUITES:
        print(f"bench: {name} …", file=sys.stderr)
        sections.append(SUITES[name](asked.quick))
    kept = report.save(RESULTS, sections, context, at)
    print(kept.read_text())
    print(f"bench: kept as {kept} and .json", file=sys.stderr)
    if asked.write_docs:
        written = page.write(DOCS, sections, context, at, " ".join(words))
        print(f"bench: wrote {written} and its plots", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", type=_suite, help=f"{', '.join(SUITES)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: some minutes in all")
    parser.add_argument("--write-docs", action="store_true", help="write docs/performance.md and its plots")
    parser.add_argument(
        "--against",
        type=_checkout,
        metavar="DIR",
        help="measure another checkout too, in turns, and print both side by side; suites are quick then",
    )
    parser.add_argument("--rounds", type=int, default=9, help="of --against; 9 by default")
    if sys.platform != "linux":
        parser.error("measuring needs Linux: epoll, /proc and addresses of 127/8")
    return parser


def _checkout(name: str) -> Path:
    if not Path(name, "src", "fairwarning").is_dir():
        raise argparse.ArgumentTypeError(f"no checkout: {name} has no src/fairwarning")
    return Path(name)


def _suite(name: str) -> str:
    if name not in SUITES:
        raise argparse.ArgumentTypeError(f"no such suite: {name}")
    return name


if __name__ == "__main__":
    main(sys.argv[1:])
