"""The promises of a cluster, checked after a run: answers against the journal, the journal against the rows.

Times are the database's: the instant at which each line was stored, not the instant that a node wrote into
it. Clients run on the same computer, so their clock is the database's, too.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from fairwarning.core.changes import EventChanged, EventMilestone, TextChanged
from fairwarning.core.model import EventId
from fairwarning.engine.ports import Aggregate, AggregateKind, Entry, FleetSnapshot
from fairwarning.engine.replica import Replica
from tests.cluster.answers import Answers, Outcome

#: How far ahead of the database a node's clock may be, and how long after its decision a batch may be stored:
#: its node may be frozen meanwhile, and its connection may hang before that.
AHEAD, BEHIND = timedelta(seconds=1), timedelta(seconds=15)

#: Milestones that an event reaches at most once.
_ONCE = (
    EventMilestone.SCHEDULED,
    EventMilestone.APPROVED,
    EventMilestone.STARTED,
    EventMilestone.FINISHED,
    EventMilestone.CANCELLED,
)

#: Milestones after which an approval changes nothing.
_PAST_APPROVAL = EventMilestone.STARTED, EventMilestone.FINISHED, EventMilestone.CANCELLED


class Audit:
    """Compares the journal with the answers."""

    def __init__(self, answers: Answers, journal: Sequence[Entry], stored_at: Mapping[int, datetime]) -> None:
        self._answers = answers
        self._journal = journal
        self._stored_at = stored_at
        self._events: dict[EventId, dict[EventMilestone, list[Entry]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for entry in journal:
            if isinstance(entry.change, EventChanged):
                self._events[entry.change.event.id][entry.change.what].append(entry)

    def violations(self) -> list[str]:
        """Return every broken promise."""
        return [
            *self._answers.violations,
            *self._numbers(),
            *self._requests(),
            *self._milestones(),
            *self._approvals(),
            *self._cancellations(),
            *self._causes(),
            *self._rollouts(),
            *self._tags(),
            *self._early_starts(),
            *self._short_notices(),
        ]

    def _numbers(self) -> Iterator[str]:
        numbers = [entry.seq for entry in self._journal]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"the numbers of the journal are not dense: {len(numbers)} lines up to {max(numbers)}"
        for ends, batch in groupby(self._journal, lambda entry: entry.ends):
            lines = list(batch)
            if lines[-1].seq != ends or len({entry.stamp for entry in lines}) > 1:
                yield f"lines {lines[0].seq} to {lines[-1].seq} are no batch that ends at {ends}"

    def _requests(self) -> Iterator[str]:
        batches: dict[str, set[int]] = defaultdict(set)
        for entry in self._journal:
            batches[entry.request].add(entry.ends)
        for request, ends in batches.items():
            if len(ends) > 1:
                yield f"request {request} is stored in several batches, which end at {sorted(ends)}"
        for stamp, count in Counter(stamp for stamp, _ in groupby(e.stamp for e in self._journal)).items():
            if count > 1:
                yield f"the batch {stamp} is stored {count} times"

    def _milestones(self) -> Iterator[str]:
        for event, story in self._events.items():
            for what in _ONCE:
                if len(story[what]) > 1:
                    yield f"{event} is {what} {len(story[what])} times: lines {_seqs(story[what])}"

    def _approvals(self) -> Iterator[str]:
        for write in self._answers.done("approve"):
            story = self._events[EventId(write.subject)]
            past = [entry for what in _PAST_APPROVAL for entry in story[what]]
            if story[EventMilestone.APPROVED] or any(self._stored_at[one.seq] <= write.at for one in past):
                continue
            yield f"the approval of {write.subject} was answered at {write.at} and is not in the journal"

    def _cancellations(self) -> Iterator[str]:
        for write in self._answers.done("cancel"):
            if not self._events[EventId(write.subject)][EventMilestone.CANCELLED]:
                yield f"the end of {write.subject} was answered at {write.at} and is not in the journal"

    def _causes(self) -> Iterator[str]:
        """Every event was announced to its operator, or belongs to a request without an answer."""
        acknowledged = {write.subject for write in self._answers.done("event")}
        for event in sorted(acknowledged - self._events.keys()):
            yield f"{event} was announced and is not in the journal"
        unexpected: Counter[str] = Counter()
        for event, first in self._first_lines():
            change = first.change
            assert isinstance(change, EventChanged)
            machine = f"{change.scope}/{change.event.resources[0]}"
            if change.event.walk is not None:
                continue
            if change.by.startswith("management"):
                unexpected[f"restart {machine}"] += 1
            elif event not in acknowledged:
                unexpected[f"{change.event.cause} {machine}"] += 1
        for subject, count in unexpected.items():
            cause, _, machine = subject.partition(" ")
            causes, restarts = self._answers.tries("cause", subject), self._answers.tries("restart", machine)
            least = restarts[Outcome.DONE] if cause == "restart" else 0
            most = least + causes[Outcome.UNKNOWN] + (restarts[Outcome.UNKNOWN] if cause == "restart" else 0)
            if not least <= count <= most:
                yield f"{count} events by '{subject}', where the answers say {least} to {most}"

    def _rollouts(self) -> Iterator[str]:
        """A rollout reaches every machine once, and starts only if a request may have started it."""
        reached: Counter[tuple[str, str]] = Counter()
        for _, first in self._first_lines():
            change = first.change
            if isinstance(change, EventChanged) and change.event.walk is not None:
                reached.update((change.event.walk, machine) for machine in change.event.resources)
        for (rollout, machine), count in reached.items():
            if count > 1:
                yield f"rollout {rollout} has reached {machine} {count} times"
        rollouts, tries = {rollout for rollout, _ in reached}, self._answers.tries("rollout", "app")
        least, most = tries[Outcome.DONE], tries[Outcome.DONE] + tries[Outcome.UNKNOWN]
        if not least <= len(rollouts) <= most:
            yield f"{len(rollouts)} rollouts, where the answers say {least} to {most}"

    def _first_lines(self) -> Iterator[tuple[EventId, Entry]]:
        for event, story in self._events.items():
            yield event, min((entry for lines in story.values() for entry in lines), key=lambda one: one.seq)

    def _tags(self) -> Iterator[str]:
        texts = [entry.change.text or "" for entry in self._journal if isinstance(entry.change, TextChanged)]
        for value in {write.subject for write in self._answers.writes if write.kind == "tag"}:
            count, tries = sum(f'"{value}"' in text for text in texts), self._answers.tries("tag", value)
            least = min(1, tries[Outcome.DONE])
            most = least + tries[Outcome.UNKNOWN]
            if not least <= count <= most:
                yield f"{count} writes of the tag {value}, where the answers say {least} to {most}"

    def _early_starts(self) -> Iterator[str]:
        for event, story in self._events.items():
            for entry in story[EventMilestone.STARTED]:
                assert isinstance(entry.change, EventChanged)
                early = entry.change.event.not_before - self._stored_at[entry.seq]
                approved = any(one.seq < entry.seq for one in story[EventMilestone.APPROVED])
                if early > AHEAD and not approved:
                    yield f"{event} started {early} early, in line {entry.seq}"

    def _short_notices(self) -> Iterator[str]:
        for event, notice in self._answers.notices.items():
            for entry in self._events[EventId(event)][EventMilestone.SCHEDULED]:
                assert isinstance(entry.change, EventChanged)
                given = entry.change.event.not_before - self._stored_at[entry.seq]
                if given < notice - BEHIND:
                    yield f"{event} was announced {given} ahead instead of {notice}, in line {entry.seq}"


def compare_with_rows(journal: Sequence[Entry], snapshot: FleetSnapshot) -> list[str]:
    """Return how the rows differ from what the whole journal says."""
    replica = Replica()
    for _, batch in groupby(journal, lambda entry: entry.ends):
        replica.apply(list(batch))
    read = Replica()
    read.load(snapshot)
    return [f"rows and journal differ: {what}" for what in _differences(replica, read, snapshot)]


def _differences(replica: Replica, read: Replica, snapshot: FleetSnapshot) -> Iterator[str]:
    if replica.position != snapshot.position:
        yield f"the last line is {replica.position}, the rows are at {snapshot.position}"
    if dict(replica.texts) != dict(read.texts):
        yield f"texts {replica.texts.keys() ^ read.texts.keys() or 'of the same keys'}"
    for scope_id in replica.scopes.keys() | read.scopes.keys():
        if replica.find_scope(scope_id) != read.find_scope(scope_id):
            yield f"scope {scope_id}: {replica.find_scope(scope_id)} and {read.find_scope(scope_id)}"
        if replica.polled_at(scope_id) != read.polled_at(scope_id):
            yield f"the last poll of {scope_id}: {replica.polled_at(scope_id)} and {read.polled_at(scope_id)}"
    for aggregate in (
        *(Aggregate(AggregateKind.SCOPE, scope_id) for scope_id in read.scopes),
        *(Aggregate(AggregateKind.SET, set_id) for set_id in snapshot.sets),
        *(Aggregate(AggregateKind.TEXT, key) for key in read.texts),
    ):
        if replica.stamp(aggregate) != read.stamp(aggregate):
            yield f"the stamp of {aggregate}: {replica.stamp(aggregate)} and {read.stamp(aggregate)}"


def _seqs(entries: Sequence[Entry]) -> list[int]:
    return [entry.seq for entry in entries]
