"""``./dev bench [SUITE…] [--quick] [--write-docs] [--against DIR]``: measure, print a page, save it."""

import argparse
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # this file is run by its path; the suites are a package

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


def _cluster(quick: bool) -> report.Section:
    from bench import cluster

    return cluster.suite(cluster.QUICK if quick else cluster.USUAL, RESULTS)


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


def _maintenance(quick: bool) -> report.Section:
    from bench import maintenance

    return maintenance.suite(maintenance.QUICK if quick else maintenance.USUAL)


#: Each suite is imported when it runs: another checkout may lack what the others import.
SUITES: Mapping[str, Callable[[bool], report.Section]] = {
    "poll": _poll,
    "fairness": _fairness,
    "watch": _watch,
    "scale": _scale,
    "store": _store,
    "cluster": _cluster,
    "start": _start,
    "soak": _soak,
    "agent": _agent,
    "exec": _exec,
    "maintenance": _maintenance,
}


def main(words: list[str]) -> None:
    """Run the named suites, or all of them."""
    parser = _parser()
    options = parser.parse_args(words)
    if options.write_docs and options.suites:
        parser.error("--write-docs runs all suites: name none")
    if options.turn is not None and (options.against is None or options.turn <= 0):
        parser.error("--turn takes a number of seconds above 0, and needs --against")
    if options.against is not None:
        suites = options.suites or list(SUITES)
        print(against.compare(suites, options.against.absolute(), options.rounds, options.turn))
        return
    at, context = datetime.now(UTC), report.machine()
    sections = []
    for name in options.suites or SUITES:
        print(f"bench: {name} …", file=sys.stderr)
        sections.append(SUITES[name](options.quick))
    saved = report.save(RESULTS, sections, context, at)
    print(saved.read_text())
    print(f"bench: saved as {saved} and .json", file=sys.stderr)
    if options.write_docs:
        written = page.write(DOCS, sections, context, at, " ".join(words))
        print(f"bench: wrote {written} and its plots", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", type=_suite, help=f"{', '.join(SUITES)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a few minutes")
    parser.add_argument("--write-docs", action="store_true", help="write docs/performance.md and its plots")
    parser.add_argument(
        "--against",
        type=_checkout,
        metavar="DIR",
        help="measure another checkout too, in alternating rounds, and compare; implies quick suites",
    )
    parser.add_argument("--rounds", type=int, default=9, help="rounds of --against; 9 by default")
    parser.add_argument(
        "--turn",
        type=float,
        metavar="SECONDS",
        help="with --against: measure both at once, in turns this long (0.25, say); compares CPU and memory",
    )
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
