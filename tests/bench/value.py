"""Value: planted worlds in which a saving, or what it buys, is easily misjudged; how often a claim is ever false."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from core.columns import HELD_COIN, UNKNOWN, Bools, Floats, Ints, SessionRuns
from core.doors.python import Learner, open_learner
from core.flows import queries
from core.maths.statistics.savings.outcomes import outcomes
from core.maths.statistics.savings.policies import policies
from core.maths.statistics.savings.runs import ComparedRuns, as_usage
from core.maths.statistics.savings.sums import MIN_FOR_PROOF
from core.maths.statistics.savings.units import per_session
from core.maths.statistics.savings.whole import headline
from core.records.times import HOUR_MS
from tests.bench.claims import LOOKS
from tests.bench.harness import Row, Scale, hits_of
from tests.worlds import START_MS, put_empty_database
from tests.worlds.caches import share_a_cache
from tests.worlds.planted import record_planted

_FALSE_GOAL: Final = 7.0
"""28 of 400 worlds."""
_MISSED_GOAL: Final = 20.0
_COVERED_GOAL: Final = 5.0
_RECORDED: Final = 20
_row: Final = partial(hits_of, "planted worlds")


@dataclass
class Planted:
    """Runs of a world, by default a session each, with their true saving per session, and outcome in points, now."""

    is_baseline: Bools
    tokens: Floats
    prob: Floats | float
    _: KW_ONLY
    saving: float
    outcome: float | None = None
    margin: float = 5.0
    achieved: Floats | None = None
    session: Ints | None = None
    is_held: bool = False
    k: Ints | None = None
    status: Bools | None = None
    model: Ints | None = None
    taken: Bools | None = None
    settings: Ints | None = None
    sample: Bools | None = None

    @cached_property
    def runs(self) -> SessionRuns:
        """Runs that came, half an hour apart."""
        n = len(self.tokens)
        at, unknown = np.arange(n), np.full(n, UNKNOWN)
        session = at if self.session is None else self.session
        prob = np.rint(1e6 * np.broadcast_to(self.prob, n)).astype(np.int64)
        tokens = np.where(np.isnan(self.tokens), UNKNOWN, np.rint(np.nan_to_num(self.tokens)))
        model = np.zeros(n, dtype=np.int64) if self.model is None else self.model
        failed = np.zeros(n, dtype=np.bool_) if self.status is None else self.status
        runs = SessionRuns(
            session=session,
            draw=session if self.is_held else at,
            hour=at // 2,
            run_class=tuple(np.where(self.is_baseline, "baseline", "selected").tolist()),
            model=tuple(f"m{one}" for one in model.tolist()),
            channel=("",) * n,
            status=tuple(np.where(failed, "error", "completed").tolist()),
            prob_micro=prob + (HELD_COIN if self.is_held else 0),
            tokens=tokens.astype(np.int64),
            duration_ms=unknown,
            bill_pico=unknown,
            bill_marks=unknown,
            achieved=np.full(n, np.nan) if self.achieved is None else self.achieved,
            achieved_source="" if self.achieved is None else "program",
            settings=np.zeros(n, dtype=np.int64) if self.settings is None else self.settings,
            revision=at,
            budget_tokens=np.zeros(n, dtype=np.int64),
            k=np.full(n, 3) if self.k is None else self.k,
        )
        if self.sample is not None:
            runs = replace(runs, sampled=1 + self.sample.astype(np.int64), n_samples=1)
        return runs if self.taken is None else runs.where(self.taken)


@dataclass(frozen=True, kw_only=True)
class PlantedKind:
    """A kind of world: how it is planted from the dice. One that is like another has a quarter of the worlds."""

    name: str
    plant: Callable[[np.random.Generator], Planted]
    first_look: float = 0.0
    is_like_another: bool = False


def _spread(dice: np.random.Generator, n: int, log_sd: float) -> Floats:
    return dice.lognormal(-(log_sd**2) / 2, log_sd, n)


def _hits(dice: np.random.Generator, chance: Floats | float, n: int) -> Floats:
    return (dice.random(n) < chance).astype(np.float64)


def _clean(dice: np.random.Generator) -> Planted:
    base = dice.random(1_200) < 0.1
    tokens = 20_000 * np.where(base, 1, 0.75) * _spread(dice, 1_200, 0.6)
    return Planted(base, tokens, 0.1, achieved=_hits(dice, 0.8, 1_200), saving=25.0, outcome=0.0)


def _failing_runs(dice: np.random.Generator) -> Planted:
    n = 1_400
    base, failed = dice.random(n) < 0.25, dice.random(n) < 0.08
    usual = np.where(base, 24_000, 19_200)
    tokens = np.where(failed, np.where(base, 3_000, 260_000), usual) * _spread(dice, n, 0.25)
    return Planted(base, tokens, 0.25, status=failed, saving=-72.0)


def _survivors(dice: np.random.Generator) -> Planted:
    n = 1_400
    base, hard = dice.random(n) < 0.3, dice.random(n) < 0.22
    tokens = np.where(hard, 90_000, 11_000) * _spread(dice, n, 0.25)
    failed = np.where(base, dice.random(n) < 0.11, hard & (dice.random(n) < 0.5))
    return Planted(base, tokens, 0.3, status=failed, saving=0.0)


def _unknown_usage(dice: np.random.Generator) -> Planted:
    n = 2_000
    base, hard = dice.random(n) < 0.3, dice.random(n) < 0.22
    tokens = np.where(hard, 90_000, 11_000) * _spread(dice, n, 0.25)
    tokens[~base & hard & (dice.random(n) < 0.4)] = np.nan
    tokens[base & (dice.random(n) < 0.088)] = np.nan
    return Planted(base, tokens, 0.3, saving=0.0)


def _worse(dice: np.random.Generator) -> Planted:
    n = 1_200
    base = dice.random(n) < 0.35
    tokens = np.where(base, 18_000, 13_000) * _spread(dice, n, 0.3)
    achieved = _hits(dice, np.where(base, 0.86, 0.46), n)
    return Planted(base, tokens, 0.35, achieved=achieved, saving=27.8, outcome=-40.0)


def _second(dice: np.random.Generator, held: bool) -> Planted:
    """Return a world in which 60 % of selected runs need a second one."""
    n = 1_200
    chosen = dice.random(n) >= 0.2
    again = chosen & (dice.random(n) < 0.6)
    session = np.sort(np.concatenate([np.arange(n), np.flatnonzero(again)]))
    base = ~chosen[session]
    if not held:
        second = np.diff(session, prepend=-1) == 0
        base[second] = dice.random(int(second.sum())) < 0.2
    tokens = 20_000 * np.where(base, 1, 0.7) * _spread(dice, len(session), 0.3)
    return Planted(base, tokens, 0.2, session=session, is_held=held, saving=-12.0)


def _policies(dice: np.random.Generator, by_settings: bool) -> Planted:
    """Return a world in which the present policy costs more, after one that saved."""
    n, later = 1_520, np.arange(1_520) >= 1_100
    base = dice.random(n) < 0.25
    ratio = np.where(later, 1.12, 0.62)
    tokens = 22_000 * np.where(base, 1, ratio) * _spread(dice, n, 0.35)
    limit = np.where(later, 5, 3)
    settings = later.astype(np.int64) if by_settings else None
    return Planted(base, tokens, 0.25, k=limit, settings=settings, saving=-12.0)


def _lost(dice: np.random.Generator, prob: float) -> Planted:
    """Return a world in which dear selected runs never came."""
    n = 1_200
    base, hard = dice.random(n) < prob, dice.random(n) < 0.22
    tokens = np.where(hard, 90_000, 11_000) * _spread(dice, n, 0.25)
    taken = base | ~hard | (dice.random(n) >= 0.6)
    return Planted(base, tokens, prob, taken=taken, saving=0.0)


def _judged(dice: np.random.Generator, share: float) -> Planted:
    """Return a world with outcomes of 40 %: failures of selected runs are judged less, ``share`` is a sample."""
    n = 1_600
    base = dice.random(n) < 0.3
    achieved = _hits(dice, np.where(base, 0.8, 0.65), n)
    sample = dice.random(n) < share
    known = sample | (dice.random(n) < np.where(~base & (achieved == 0), 0.2, 0.45))
    tokens = 20_000 * np.where(base, 1, 0.75) * _spread(dice, n, 0.4)
    achieved, judged = np.where(known, achieved, np.nan), sample if share else None
    return Planted(base, tokens, 0.3, achieved=achieved, sample=judged, saving=25.0, outcome=-15.0)


def _rare(dice: np.random.Generator, prob: float, shares: tuple[float, float]) -> Planted:
    n = 2_400
    base = dice.random(n) < prob
    achieved = _hits(dice, np.where(base, *shares), n)
    tokens = 20_000 * np.where(base, 1, 0.75) * _spread(dice, n, 0.4)
    return Planted(
        base,
        tokens,
        prob,
        achieved=achieved,
        saving=25.0,
        outcome=100 * (shares[1] - shares[0]),
        margin=min(5.0, 50 * min(shares[0], 1 - shares[0])),
    )


def _change_of_work(dice: np.random.Generator) -> Planted:
    """Return a world whose tasks get harder on the day on which the rate of the coin changes."""
    n, later = 1_600, np.arange(1_600) >= 800
    prob = np.where(later, 0.4, 0.1)
    base = dice.random(n) < prob
    achieved = _hits(dice, np.where(later, 0.5, 0.95), n)
    tokens = 15_000 * np.where(later, 2.5, 1) * _spread(dice, n, 0.4)
    return Planted(base, tokens, prob, achieved=achieved, saving=0.0, outcome=0.0)


def _release(dice: np.random.Generator) -> Planted:
    """Return a world in which another model comes step by step, dearer and better."""
    n = 1_600
    model = (dice.random(n) < np.linspace(0, 1, n)).astype(np.int64)
    base = dice.random(n) < 0.15
    achieved = _hits(dice, np.where(model, 0.9, 0.6), n)
    tokens = 12_000 * np.where(model, 3, 1) * _spread(dice, n, 0.4)
    return Planted(base, tokens, 0.15, achieved=achieved, model=model, saving=0.0, outcome=0.0)


KINDS: Final = (
    PlantedKind(name="failing runs", plant=_failing_runs),
    PlantedKind(name="survivors", plant=_survivors),
    PlantedKind(name="unknown usage", plant=_unknown_usage, is_like_another=True),
    PlantedKind(name="worse answers", plant=_worse),
    PlantedKind(name="second runs, held", plant=partial(_second, held=True)),
    PlantedKind(name="second runs, each drawn", plant=partial(_second, held=False), is_like_another=True),
    PlantedKind(name="policies by settings", plant=partial(_policies, by_settings=True), first_look=0.75),
    PlantedKind(name="request limits", plant=partial(_policies, by_settings=False), first_look=0.75),
    PlantedKind(name="lost runs, rate 30 %", plant=partial(_lost, prob=0.3), is_like_another=True),
    PlantedKind(name="lost runs, rate 10 %", plant=partial(_lost, prob=0.1)),
    PlantedKind(name="outcomes of 40 %", plant=partial(_judged, share=0.0)),
    PlantedKind(
        name="outcomes of 40 %, and a sample", plant=partial(_judged, share=0.3), is_like_another=True
    ),
    PlantedKind(name="rare failures, rate 10 %", plant=partial(_rare, prob=0.1, shares=(0.98, 0.96))),
    PlantedKind(
        name="rare failures, rate 50 %",
        plant=partial(_rare, prob=0.5, shares=(0.98, 0.97)),
        is_like_another=True,
    ),
    PlantedKind(
        name="rare successes, rate 5 %",
        plant=partial(_rare, prob=0.05, shares=(0.04, 0.02)),
        is_like_another=True,
    ),
    PlantedKind(name="a change of work", plant=_change_of_work),
    PlantedKind(name="a release", plant=_release),
)


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Words of one world, at any look; ``inside``: the interval of outcomes held the truth at every look."""

    words: set[str]
    inside: bool
    proven_at_last: bool


def claimed(world: Planted, n_looks: int, first_look: float) -> Claimed:
    """Return the claims that pages make of a world over some looks; of tokens those that are false, and the last."""
    words = set[str]()
    inside, last = True, "not_proven"
    n_sessions = int(world.runs.session.max()) + 1
    for share in np.linspace(first_look, 1, n_looks + 1)[1:].tolist():
        runs = _first(world.runs, int(np.searchsorted(world.runs.session, share * n_sessions)))
        of_policy = policies(runs)
        now = runs.where(of_policy.of_run == of_policy.present) if len(of_policy) > 1 else runs
        usage, error = as_usage(now), of_policy.error(of_policy.present)
        compared = ComparedRuns(usage, now)
        lower, upper = 0.0, 0.0
        if min(np.bincount(now.is_selected, minlength=2).tolist()) >= MIN_FOR_PROOF:
            lower, upper = compared.always(compared.everything, error)[1].limits or (0.0, 0.0)
        # no other look can claim anything false of the tokens, because all else only withholds a claim
        if share == 1 or (lower > 0 and world.saving <= 0) or (upper < 0 and world.saving >= 0):
            each = per_session(now, error, is_money=False)
            if share == 1 or upper < 0 or each is None or (each.saved_percent.value or 0.0) > 0:
                last = headline(usage, now, compared, each, prob=0.95, error=error)[2].verdict
                words.add(last)
        if now.achieved_source:
            outcome = outcomes(now, 5.0, is_planned=False)
            words.add(outcome.word)
            lower, upper = outcome.difference.limits or (-100.0, 100.0)
            inside &= world.outcome is None or outcome.of_judged or lower <= world.outcome <= upper
    return Claimed(words=words, inside=inside, proven_at_last=last == "proven")


def _first(runs: SessionRuns, n: int) -> SessionRuns:
    """Return the first runs; they are in the order of their sessions."""
    columns: dict[str, Any] = {one.name: getattr(runs, one.name) for one in fields(runs)}
    whole: dict[str, Any] = {name: one for name, one in columns.items() if isinstance(one, str | int)}
    return SessionRuns(**whole, **{name: one[:n] for name, one in columns.items() if name not in whole})


def misjudged(scale: Scale, folder: Path) -> list[Row]:
    """Share of planted worlds with a false claim, of missed savings, and of intervals of outcomes that miss."""
    n_worlds = scale.n_planted
    n_recorded = min(n_worlds, _RECORDED)
    claims = [_proven_by_cache(folder / f"{seed}.db", seed) for seed in range(n_recorded)]
    note = "through the doors, looked at every 40 of 800 runs"
    cached = _row("false claims: shared caches", sum(claims), n_recorded, goal=_FALSE_GOAL, note=note)
    return [cached, *_recorded(n_recorded, folder), *_rows(n_worlds, min(LOOKS, 4 * scale.n_number_pairs))]


def _learner(file: Path, seed: int) -> AbstractContextManager[Learner]:
    put_empty_database(file)
    dice, now_ms = np.random.default_rng(seed), count(START_MS, HOUR_MS)
    return open_learner(file, clock=lambda: next(now_ms), entropy=lambda: int(dice.integers(1 << 40)))


def _proven_by_cache(file: Path, seed: int) -> bool:
    """Return whether money was ever proven in a world in which the full prompt always costs less."""
    with _learner(file, seed) as learner:
        looks = share_a_cache(learner, gap_s=80, seed=seed)
        monies = [queries.savings(learner.context).money for _ in looks]
    return any(money is not None and money.verdict == "proven" for money in monies)


def _recorded(n_worlds: int, folder: Path) -> Iterator[Row]:
    """Return the share of worlds of each kind with a false claim, as an agent records them and a page shows them."""
    for place, kind in enumerate(KINDS):
        if not kind.is_like_another:
            false = 0
            for seed in range(n_worlds):
                world = kind.plant(np.random.default_rng([57, place, seed]))
                with _learner(folder / f"{place} {seed}.db", seed) as learner:
                    looks = record_planted(learner, world.runs, by_settings="settings" in kind.name)
                    answers = [queries.savings(learner.context) for _ in looks]
                first = int(kind.first_look * len(answers))
                words = {word for one in answers[first:] for word in (one.overall.verdict, one.outcome.word)}
                false += bool(_false_words(world) & words)
            yield _row(
                f"false claims at the door: {kind.name}",
                false,
                n_worlds,
                goal=_FALSE_GOAL,
                note="looked at twice",
            )


def _false_words(world: Planted) -> set[str]:
    """Return the words that are not true of a world."""
    outcome = world.outcome or 0.0
    return {
        *(["proven"] if world.saving <= 0 else []),
        *(["costs_more"] if world.saving >= 0 else []),
        *(["as_much"] if outcome <= -world.margin else []),
        *(["less"] if outcome >= 0 else []),
    }


def _rows(n_worlds: int, n_looks: int) -> Iterator[Row]:
    for place, kind in enumerate(KINDS):
        n = -(-n_worlds // 4) if kind.is_like_another else n_worlds
        worlds = [kind.plant(np.random.default_rng([57, place, seed])) for seed in range(n)]
        results = [claimed(world, n_looks, kind.first_look) for world in worlds]
        both = list(zip(worlds, results, strict=True))
        false = Counter(word for world, one in both for word in one.words & _false_words(world))
        worst = max(false.values(), default=0)
        yield _row(f"false claims: {kind.name}", worst, n, goal=_FALSE_GOAL, note=_note(false, results))
        missed = sum(not one.inside for one in results)
        yield _row(f"outcomes missed: {kind.name}", missed, n, goal=_COVERED_GOAL, note="at any look")
    lasting = [
        claimed(_clean(np.random.default_rng([58, seed])), 1, 0.0).proven_at_last for seed in range(n_worlds)
    ]
    note = "25 %, log-sd .6, 1,200 sessions, rate 10 %"
    yield _row("savings not proven: clean", lasting.count(False), n_worlds, goal=_MISSED_GOAL, note=note)


def _note(false: Mapping[str, int], results: list[Claimed]) -> str:
    counts = ", ".join(f"{name} {n}" for name, n in false.items())
    return f"false: {counts or 'none'}; proven {sum('proven' in one.words for one in results)}"
