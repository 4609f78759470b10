"""The arithmetic of the bench, and that all suites run."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from bench import (
    agent,
    cluster,
    fairness,
    growth,
    maintenance,
    pending,
    poll,
    report,
    scale,
    soak,
    start,
    store,
    watch,
)
from bench.guests import scheduled, tag
from bench.load import UnansweredError, answer_length
from bench.measure import (
    accounted_seconds,
    descriptors,
    exponent,
    family,
    memory,
    percentile,
    ratios,
    scheduler_seconds,
    spread,
)
from bench.references import nginx_configuration, nginx_path
from bench.report import Claim, Figure, Section

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


def figure(*values: float) -> Figure:
    return Figure(name="cost", unit="µs", values=values)


def burn(seconds: float) -> None:
    while time.thread_time() < seconds:
        pass


def test_rounds_are_summarised_by_median_lowest_and_highest() -> None:
    found = spread([3.0, 1.0, 2.5])

    assert (found.median, found.low, found.high) == (2.5, 1.0, 3.0)


@pytest.mark.parametrize(
    ("values", "noisy"),
    [
        pytest.param([10.0, 10.0, 10.0], False, id="rounds that agree are quiet"),
        pytest.param([10.0, 13.0, 10.0], False, id="rounds that differ by 30 percent are quiet"),
        pytest.param([10.0, 13.1, 10.0], True, id="rounds that differ by more are noisy"),
    ],
)
def test_a_reference_that_varies_by_more_than_30_percent_is_noisy(values: list[float], noisy: bool) -> None:
    assert spread(values).noisy is noisy


def test_only_what_was_measured_in_the_same_round_is_compared() -> None:
    assert ratios([10.0, 20.0], [5.0, 40.0]) == (2.0, 0.5)


def test_a_round_without_its_reference_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="longer"):
        ratios([10.0], [5.0, 40.0])


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.0, 1.0, id="none of them is the smallest"),
        pytest.param(0.50, 50.0, id="the middle of a hundred is the fiftieth"),
        pytest.param(0.99, 99.0, id="one of a hundred is above the ninety-ninth"),
        pytest.param(1.0, 100.0, id="all of them is the largest"),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    values = [float(number) for number in range(100, 0, -1)]

    assert percentile(values, share) == expected


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        pytest.param({1e3: 7.0, 1e4: 7.0, 1e6: 7.0}, 0.0, id="what costs the same does not grow"),
        pytest.param({1e3: 2.0, 1e4: 20.0, 1e6: 2000.0}, 1.0, id="ten times the cost for ten times the size"),
        pytest.param({1e2: 1.0, 1e4: 10.0}, 0.5, id="ten times the cost for a hundred times the size"),
    ],
)
def test_growth_is_the_slope_of_both_logarithms(costs: dict[float, float], expected: float) -> None:
    assert exponent(costs) == pytest.approx(expected)


def test_growth_is_judged_round_by_round() -> None:
    assert growth.exponents({10: [1.0, 1.0], 100: [1.0, 10.0]}) == pytest.approx((0.0, 1.0))


def test_a_claim_is_as_noisy_as_its_reference_and_no_noisier() -> None:
    quiet, wild = figure(10.0, 10.0), figure(10.0, 20.0)

    steady = report.claim("keep-alive", "nginx", above=quiet, below=wild, reference=quiet)
    doubtful = report.claim("keep-alive", "nginx", above=wild, below=quiet, reference=wild)

    assert (steady.values, steady.noisy) == ((1.0, 0.5), False)
    assert (doubtful.values, doubtful.noisy) == ((1.0, 2.0), True)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        pytest.param([0.0123], "0.012 [0.012..0.012]", id="tiny figures have three places"),
        pytest.param([0.5], "0.50 [0.50..0.50]", id="small figures have two"),
        pytest.param([12.34, 8.0, 56.78], "12.3 [8.00..56.8]", id="each figure has places of its own"),
        pytest.param([34567.8], "34,568 [34,568..34,568]", id="large figures have none"),
        pytest.param([-0.02], "-0.020 [-0.020..-0.020]", id="what is below nothing has as many"),
    ],
)
def test_figures_are_shown_with_as_many_digits_as_one_can_believe(values: list[float], text: str) -> None:
    assert report.show(spread(values)) == text


def test_the_page_and_the_data_agree(tmp_path: Path, noon: datetime) -> None:
    claim = Claim(name="keep-alive", against="nginx", values=(0.9, 1.1, 1.0), noisy=True)
    section = Section(title="poll", reading="More is better.", claims=(claim,), figures=(figure(8.0, 9.0),))

    page = report.save(tmp_path, [section], {"cores": 2}, noon)

    assert "| keep-alive | nginx | **1.00 [0.90..1.10]** |  | noisy |" in page.read_text()
    data = json.loads(page.with_suffix(".json").read_text())
    (suite,) = data["suites"]
    assert data["machine"] == {"cores": 2}
    assert suite["claims"][0]["rounds"] == [0.9, 1.1, 1.0]
    assert suite["claims"][0]["median"] == 1.0
    assert suite["figures"][0]["max"] == 9.0


def test_the_store_is_claimed_by_rates_and_by_waits_in_syncs() -> None:
    alone, split, together = (store.Trial(1.0, 0.5, [0.002] * count) for count in (100, 50, 400))

    section = store.section([store.Round(0.001, alone, split, together)])

    assert {(claim.name, claim.against): claim.values for claim in section.claims} == {
        ("rate, 32 callers", "one by one"): (8.0,),
        ("rate, 32 callers", "1 caller"): (4.0,),
        ("CPU, 32 callers", "one by one"): (8.0,),
        ("1 caller, waiting p50", "fdatasync"): (2.0,),
        ("1 caller, waiting p99", "fdatasync"): (2.0,),
        ("32 callers, waiting p50", "fdatasync"): (2.0,),
        ("32 callers, waiting p99", "fdatasync"): (2.0,),
    }


def test_a_cluster_is_claimed_against_sqlite_and_a_notification_there_and_back() -> None:
    slow, fast = store.Trial(2.0, 0.5, [0.002] * 100), store.Trial(1.0, 0.5, [0.002] * 100)

    seen = watch.Seen(since_call=0.005, since_answer=0.002)

    workers = cluster.WorkerRounds(one=[10.0], two=[11.0], share=0.45)

    section = cluster.section(
        [cluster.Round(fast, slow, 5000.0, [0.001], [seen])], workers, cluster.MACHINES, 10**8
    )

    assert {(claim.goal, claim.against): claim.values for claim in section.claims} == {
        ("G24a", "SQLite"): (0.5,),
        ("G24b", "LISTEN/NOTIFY"): (2.0,),
        ("G24c", "one node"): (1.1,),
    }
    assert {figure.goal: figure.values for figure in section.figures if figure.goal} == {
        "G24d": (5000.0,),
        "G24e": (100.0,),
        "G24f": (45.0,),
    }


def test_a_start_is_compared_with_the_references_that_are_there() -> None:
    ours, theirs = start.Started(0.2, 0.1), start.Started(0.1, 0.1)

    section = start.section({"http.server": [theirs], start.METADATA: [ours], start.OPERATOR: [ours]})

    assert {claim.against for claim in section.claims} == {"http.server"}
    assert {claim.name: claim.values for claim in section.claims} == {
        f"{start.METADATA}: CPU": (1.0,),
        f"{start.METADATA}: time": (0.5,),
        f"{start.OPERATOR}: CPU": (1.0,),
        f"{start.OPERATOR}: time": (0.5,),
    }


@pytest.mark.parametrize(
    ("data", "length"),
    [
        pytest.param(HEAD[:-1], 0, id="half a head does not say"),
        pytest.param(HEAD, len(HEAD) + 4, id="a head announces its body"),
        pytest.param(HEAD + b"body", len(HEAD) + 4, id="a complete answer has its own length"),
    ],
)
def test_an_answer_is_as_long_as_its_head_says(data: bytes, length: int) -> None:
    assert answer_length(data) == length


def test_an_answer_without_a_length_is_no_answer() -> None:
    with pytest.raises(UnansweredError, match="Content-Length"):
        answer_length(b"HTTP/1.1 200 OK\r\n\r\ncontent-length: 4\r\n")


def test_a_guest_waits_for_another_document_than_the_one_it_has() -> None:
    assert tag(b'HTTP/1.1 200 OK\r\nETag: "7"\r\ncontent-length: 2\r\n\r\n{}') == '"7"'


def test_only_what_has_not_started_is_approved() -> None:
    events = b'{"EventId":"A","EventStatus":"Scheduled"},{"EventId":"B","EventStatus":"Started"}'

    assert scheduled(events) == ["A"]


def test_memory_is_looked_at_once_the_server_is_warm() -> None:
    assert soak.growth([10, 20, 30, 40, 100, 101, 102, 103]) == pytest.approx(4.0)


def test_memory_that_was_given_back_is_no_growth() -> None:
    assert soak.growth([100, 100, 90, 80]) == 0.0


def test_nginx_is_given_the_document_in_quotes_and_only_folders_it_knows() -> None:
    text = nginx_configuration("it's \\ {}", 8100, Path("/here"), "--without-http_scgi_module")

    assert r"return 200 'it\'s \\ {}';" in text
    assert "listen 127.0.0.1:8100 " in text
    assert "uwsgi_temp_path /here/uwsgi;" in text
    assert "scgi_temp_path /here/scgi;" not in text


def test_nginx_is_not_given_what_it_would_take_for_a_variable() -> None:
    with pytest.raises(ValueError, match="variable"):
        nginx_configuration("$host", 8100, Path("/here"), "")


def test_a_process_is_measured_with_its_children() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        found = set(family(os.getpid()))

    assert {os.getpid(), child.pid} <= found


def test_an_open_file_is_a_descriptor_more(tmp_path: Path) -> None:
    before = descriptors(os.getpid())

    with (tmp_path / "file").open("w"):
        during = descriptors(os.getpid())

    assert during == before + 1


def test_memory_that_was_written_to_is_the_process_own() -> None:
    before = memory(os.getpid())

    held = b"\1" * 50_000_000

    assert memory(os.getpid()) - before > 0.9 * len(held)


def test_threads_that_ended_stay_in_the_account_of_their_process() -> None:
    before = accounted_seconds(os.getpid())
    thread = threading.Thread(target=burn, args=(0.3,))

    thread.start()
    thread.join()

    assert accounted_seconds(os.getpid()) - before > 0.2


def test_work_is_seen_in_the_account_of_the_threads() -> None:
    # A process of its own: threads and children that other tests leave behind may end meanwhile.
    work = "import time\nwhile time.thread_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        seen = scheduler_seconds(worker.pid)
        worker.communicate(b"\n")

    assert seen > 0.2


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder with a short path that every user can enter, as a server of PostgreSQL needs it."""
    with tempfile.TemporaryDirectory(prefix="fwbench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_suite_measures_something(tmp_path: Path, open_folder: Path, noon: datetime) -> None:
    fleets = scale.Effort(
        small=1000,
        large=2000,
        rounds=1,
        times=3,
        growth=growth.Effort(sizes=(1000, 2000), rounds=2, seconds=0.05),
        pending=pending.Effort(pending=(100, 200), in_scope=(2, 5), rounds=2, times=3),
    )
    sections = [
        poll.suite(poll.Effort(rounds=1, samples=2, warm_up=0.01, seconds=0.05, fixed_rate=0.1)),
        watch.suite(watch.Effort(rounds=1, wakes=2, watchers=500, seen=5)),
        scale.suite(fleets, tmp_path),
        store.suite(store.Effort(rounds=1, alone=10, one_by_one=40, together=80, syncs=10), tmp_path),
        cluster.suite(cluster.Effort(rounds=1, approvals=80, seen=5, machines=1000), open_folder),
        start.suite(1),
        soak.suite(3, tmp_path),
        agent.suite(1, 1.0),
        fairness.suite(1, 0.3),
        maintenance.suite(maintenance.Effort(sizes=(100, 200), at_once=(1, 2), rounds=1, hosts=2)),
    ]

    page = report.save(tmp_path, sections, report.machine(), noon)

    assert "| keep-alive | uvicorn raw ASGI |" in page.read_text()
    large = {"G10", "G17", "G18", "G24e"}
    against_nginx = set() if nginx_path() else {"G1", "G2", "G3", "G4a", "G4b", "G6a", "G6b"}
    unmeasured = {result.id for result in report.judge(sections) if result.spread is None}
    assert unmeasured == large | against_nginx
    assert min(value for section in sections for claim in section.claims for value in claim.values) > 0.0
