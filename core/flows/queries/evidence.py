"""Evidence of a change: what was observed of some arms before and after a time, where, and what else changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from core.errors import InvalidInput
from core.flows.context import Context, unknown_arm
from core.flows.queries.arm import arm_versions
from core.flows.queries.ledger import changes
from core.maths.posterior.beta import interval
from core.records.alike import alike
from core.records.audit import AuditEntry
from core.records.times import DAY_MS
from core.store import reads
from core.store.reads.arm_story import Group, example_runs, first_of_models, groups_of

MAX_EVIDENCE_ARMS: Final = 6
FEWEST_OBSERVED: Final = 5
"""With fewer observations on a side, the page makes no claim."""
_EXAMPLES: Final = 3
_NEAR_DAYS: Final = 2
_HALF: Final = 0.5

_ACTIONS: Final = frozenset(("import", "reset", "repair", "setting", "undo"))
_PARTS: Final[dict[str, Callable[[Group], str]]] = {
    "model": lambda one: one.model,
    "channel": lambda one: one.channel,
    "format": lambda one: one.format,
    "source": lambda one: f"import-{one.import_no}" if one.import_no else "recorded",
}


class Share(NamedTuple):
    """``n_used`` of ``n`` observations, with the equal-tailed 95% interval of their share (Jeffreys prior)."""

    n: int
    n_used: int

    @property
    def value(self) -> float:
        return self.n_used / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        lower, upper = interval(self.n_used + _HALF, self.n - self.n_used + _HALF)
        return float(lower), float(upper)


class DayShare(NamedTuple):
    """Observations of one day; the day of the change has one row before it and one after."""

    day: int
    is_after: bool
    share: Share


class NewVersion(NamedTuple):
    """A later version of an arm's definition: the end of the first run with it, and the number of such runs."""

    arm: str
    version: str
    first_ms: int
    n_runs: int


class Hit(NamedTuple):
    """Observations since the change in one model, channel, format or import; ``before`` are those until then."""

    name: str
    before: Share
    after: Share


@dataclass(frozen=True, kw_only=True)
class EvidenceArm:
    """Automatic observations of one arm, before and after, and by day."""

    arm: str
    before: Share
    after: Share
    days: tuple[DayShare, ...]


@dataclass(frozen=True, kw_only=True)
class EvidenceExample:
    """One run before or after the change; ``used`` = it referenced the arm."""

    run_no: int
    at_ms: int
    model: str | None
    channel: str | None
    session: str | None
    arm: str
    used: bool


@dataclass(frozen=True, kw_only=True)
class ChangeEvidence:
    """Evidence of a change at ``since_ms`` (UTC). ``end_ms`` is the end of the newest day with an observation."""

    since_ms: int
    arms: tuple[EvidenceArm, ...]
    hits: dict[str, tuple[Hit, ...]]
    changes: tuple[AuditEntry, ...]
    new_models: tuple[tuple[str, int], ...]
    new_versions: tuple[NewVersion, ...]
    examples: tuple[EvidenceExample, ...]

    @property
    def before(self) -> Share:
        """All observations of the arms before the change."""
        return _added(one.before for one in self.arms)

    @property
    def after(self) -> Share:
        """All observations of the arms since the change."""
        return _added(one.after for one in self.arms)

    @property
    def is_enough(self) -> bool:
        """True if both sides have enough observations for a claim."""
        return min(self.before.n, self.after.n) >= FEWEST_OBSERVED


def evidence(context: Context, arms: Sequence[str], since_ms: int) -> ChangeEvidence:
    """Return the evidence of a change of some arms at a time, in their present epochs.

    Raises `UnknownArm` for an arm that is not listed.
    """
    if not 1 <= len(arms) <= MAX_EVIDENCE_ARMS:
        raise InvalidInput(
            f"Evidence must be of 1 to {MAX_EVIDENCE_ARMS} arms, got {len(arms)}.", next_step="Name fewer."
        )
    with context.reading() as snapshot:
        numbers = reads.listed_arms(snapshot, arms)
        for key in arms:
            if key not in numbers:
                raise unknown_arm(snapshot, key)
        groups = groups_of(snapshot, list(numbers.values()), since_ms)
        examples = example_runs(snapshot, list(numbers.values()), since_ms, _EXAMPLES)
        models = first_of_models(snapshot)
    keys = {number: key for key, number in numbers.items()}
    near_ms = _NEAR_DAYS * DAY_MS
    return ChangeEvidence(
        since_ms=since_ms,
        arms=tuple(_arm(key, [one for one in groups if one.arm_no == numbers[key]]) for key in arms),
        hits={name: _hits(groups, part) for name, part in _PARTS.items()},
        changes=tuple(
            one
            for one in changes(context, limit=1_000)
            if one.action in _ACTIONS and abs(one.at_ms - since_ms) <= near_ms
        ),
        new_models=tuple((name, at_ms) for name, at_ms in models[1:] if abs(at_ms - since_ms) <= near_ms),
        new_versions=tuple(
            NewVersion(key, one.version, one.first_ms, one.runs)
            for key in arms
            for one in arm_versions(context, key).versions[1:]
            if one.first_ms is not None and abs(one.first_ms - since_ms) <= near_ms
        ),
        examples=tuple(
            alike(EvidenceExample, run, arm=keys[run.arm_no], used=run.is_used) for run in examples
        ),
    )


def _added(shares: Iterable[Share]) -> Share:
    listed = list(shares)
    return Share(sum(one.n for one in listed), sum(one.n_used for one in listed))


def _observed(groups: Iterable[Group]) -> Share:
    return _added(Share(one.n_observed, one.n_used) for one in groups)


def _arm(key: str, groups: Sequence[Group]) -> EvidenceArm:
    days: dict[tuple[int, int], list[Group]] = defaultdict(list)
    for one in groups:
        days[one.day, one.is_after].append(one)
    shares = [(day, bool(is_after), _observed(listed)) for (day, is_after), listed in sorted(days.items())]
    return EvidenceArm(
        arm=key,
        before=_observed(one for one in groups if not one.is_after),
        after=_observed(one for one in groups if one.is_after),
        days=tuple(DayShare(*one) for one in shares if one[2].n),
    )


def _hits(groups: Sequence[Group], part: Callable[[Group], str]) -> tuple[Hit, ...]:
    """Return the observations by one property of their runs, most since the change first."""
    by_name: dict[str, list[Group]] = defaultdict(list)
    for one in groups:
        by_name[part(one)].append(one)
    hits = [
        Hit(
            name,
            _observed(one for one in listed if not one.is_after),
            _observed(one for one in listed if one.is_after),
        )
        for name, listed in by_name.items()
    ]
    return tuple(sorted((one for one in hits if one.after.n), key=lambda one: (-one.after.n, one.name)))
