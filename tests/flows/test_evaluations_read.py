"""Evaluations read back: lists, counts and agreement are what a plain recomputation says, whatever is filtered."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pytest

from core.errors import InvalidInput
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.evaluate import evaluate, evaluate_all
from core.flows.learn import record_all
from core.flows.queues import add_queue
from core.flows.review import next_item, release
from core.flows.settings import change
from core.maths.evaluate import PREFERENCE_BLOCKERS, SFT_BLOCKERS, grade, grade_all
from core.records.actor import Role
from core.records.evaluation import BLOCKERS, GRADER_KINDS, LABELS, EvaluationOrder, Grade, Thresholds
from core.records.evaluation_page import EvaluationFilter
from core.records.review import QueueAsks
from tests.statistics.agreement.worlds import alpha
from tests.worlds import a_run, acting, context_at

STRICT = Thresholds(sft=0.7, preference=0.65, gold=0.6)
"""Gold from below silver on: whatever is set, the rules are read in their order."""

ARM: Final = "tool:other:a"
LAYERS: Final = tuple(f"{digit * 8}-1111-4222-8333-000000000001" for digit in "ab")
EXECUTION: Final = "00000dd0-1111-4222-8333-000001ab4530"
_GRADERS: Final = (("mara", None), ("kim", None), ("kim", "judge-1"), (" ", None), (None, None))
_RUBRICS: Final = ("v1", "v2", None, " \u3000", "")
_SCORES: Final = (None, 0.0, 0.3, 0.65, 0.6499999, 0.7, 0.84999999, 0.85, 1.0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return judged_world(tmp_path_factory.mktemp("judged"), n=220)


def listed(world: World, wanted: EvaluationFilter) -> list[str]:
    return [one.id for one in queries.evaluations(world.context, wanted, limit=1_000)]


def by_thresholds(thresholds: Thresholds) -> list[tuple[dict[str, str], Fits]]:
    """Labels and blockers, and whether one of a record's grade is it."""

    def is_labelled(label: str) -> Fits:
        return lambda one: one.graded(thresholds).label == label

    def is_blocked(blocker: str) -> Fits:
        return lambda one: (
            blocker in {*one.graded(thresholds).sft_blockers, *one.graded(thresholds).preference_blockers}
        )

    return [
        *(({"label": str(label)}, is_labelled(label)) for label in LABELS),
        *(({"blocker": str(blocker)}, is_blocked(blocker)) for blocker in BLOCKERS),
    ]


def graded_by(name: str) -> Fits:
    return lambda one: one.grader == name


def of_kind(kind: str) -> Fits:
    return lambda one: one.graded(STRICT).grader_kind == kind


def by_rubric(name: str) -> Fits:
    return lambda one: (one.order.rubric or "") == name


def of_outcome(name: str) -> Fits:
    return lambda one: one.order.outcome == name


def those_that(fits: Fits, also: Fits, *, counting: bool) -> Fits:
    return lambda one: fits(one) and also(one) and (one.state == "counts" or not counting)


SAID: list[tuple[dict[str, str], Fits]] = [
    ({}, lambda _: True),
    *(({"rater": name}, graded_by(name)) for name in ("mara", "kim", "judge-1", "")),
    *(({"kind": str(kind)}, of_kind(kind)) for kind in GRADER_KINDS),
    *(({"rubric": name}, by_rubric(name)) for name in ("v1", "", "v9")),
    *(({"outcome": name}, of_outcome(name)) for name in ("success", "failure")),
    ({"layer": LAYERS[0].upper()}, lambda one: one.order.layer == LAYERS[0]),
    ({"layer": f"kairos://layer/{LAYERS[1]}"}, lambda one: one.order.layer == LAYERS[1]),
    ({"layer": "kairos://adapter/x"}, lambda _: False),
    ({"run": "r3"}, lambda one: one.order.run == "r3"),
    ({"run": "nobody"}, lambda _: False),
    ({"arm": ARM}, lambda one: one.order.arm == ARM),
]


@pytest.mark.parametrize("thresholds", [Thresholds(), STRICT], ids=["usual", "strict"])
def test_every_filter_keeps_what_the_record_and_the_thresholds_say(
    tmp_path: Path, thresholds: Thresholds
) -> None:
    world = judged_world(tmp_path, n=160, seed=5)
    change(
        world.context,
        "thresholds",
        {name: getattr(thresholds, name) for name in ("sft", "preference", "gold")},
    )
    every = [*SAID, *by_thresholds(thresholds)]
    for (first, fits), (second, also), counting in product(every, every[:6], (True, False)):
        if first.keys() & second.keys():
            continue
        wanted = msgspec.convert({**first, **second, "counting": counting}, EvaluationFilter)
        expected = world.those(those_that(fits, also, counting=counting))
        assert listed(world, wanted) == expected, wanted


def test_a_row_says_what_was_told_and_what_became_of_it(world: World) -> None:
    rows = queries.evaluations(world.context, EvaluationFilter(counting=False), limit=1_000)
    assert {one.state for one in rows} == {"counts", "superseded", "undone"}
    for one, told in zip(rows, reversed(world.told), strict=True):
        order, graded = told.order, told.graded(Thresholds())
        assert (one.number, one.state, one.outcome, one.score) == (
            told.number,
            told.state,
            order.outcome,
            order.score,
        )
        assert (one.rater, one.model, one.rubric, one.feedback) == (
            order.rater,
            order.model,
            order.rubric,
            order.feedback,
        )
        assert (one.label, one.signed_score) == (graded.label, graded.signed_score)
        assert (one.sft_blockers, one.preference_blockers) == (
            graded.sft_blockers,
            graded.preference_blockers,
        )
        assert (one.subject.run, one.subject.layer, one.subject.arm) == (
            order.run or "",
            order.layer or "",
            order.arm or "",
        )


def test_pages_walk_through_all_of_them_once(world: World) -> None:
    wanted, before, seen = EvaluationFilter(kind="human"), None, []
    while True:
        page = queries.page_of_evaluations(world.context, wanted, before=before, limit=7)
        seen += [one.id for one in page.rows]
        if page.onward is None:
            break
        assert len(page.rows) == 7
        before = page.onward
    assert seen == listed(world, wanted)


def test_times_keep_what_lies_within(world: World) -> None:
    rows = queries.evaluations(world.context, limit=1_000)
    since, until = rows[-10].at_ms, rows[5].at_ms
    kept = queries.evaluations(world.context, EvaluationFilter(since_ms=since, until_ms=until), limit=1_000)
    assert [one.id for one in kept] == [one.id for one in rows if since <= one.at_ms < until]


@pytest.mark.parametrize("role", ["viewer", "read"])
def test_who_may_read_no_texts_gets_no_feedback(world: World, role: Role) -> None:
    context = acting(world.context, role)
    assert {one.feedback for one in queries.evaluations(context, EvaluationFilter(counting=False))} == {None}
    assert any(one.feedback for one in queries.evaluations(world.context))


def test_a_filter_says_what_it_takes() -> None:
    with pytest.raises(InvalidInput, match="label must be one of rejected, bronze, silver, gold, got 'good'"):
        EvaluationFilter(label="good")  # type: ignore[arg-type]


def test_many_grades_are_each_ones_grade() -> None:
    scores = (None, 0.0, 0.3, 0.65, 0.6499999999, 0.7, 0.85, 1.0)
    rows = list(product(("success", "failure"), scores, ("mara", " ", ""), ("v1", " \ufeff", "")))
    for thresholds in (Thresholds(), STRICT, Thresholds(sft=0, preference=0, gold=1)):
        found = grade_all(
            np.array([outcome == "success" for outcome, *_ in rows]),
            np.array([score for _, score, *_ in rows], dtype=np.float64),
            is_named=np.array([rater == "mara" for _, _, rater, _ in rows]),
            has_rubric=np.array([rubric == "v1" for *_, rubric in rows]),
            thresholds=thresholds,
        )
        for place, (outcome, score, rater, rubric) in enumerate(rows):
            one = grade(outcome, score, rater=rater, model=None, rubric=rubric, thresholds=thresholds)  # type: ignore[arg-type]
            assert LABELS[found.label[place]] == one.label
            for names, table, blockers in (
                (SFT_BLOCKERS, found.sft_blocked, one.sft_blockers),
                (PREFERENCE_BLOCKERS, found.preference_blocked, one.preference_blockers),
            ):
                assert tuple(name for name, held in zip(names, table[place], strict=True) if held) == blockers


def test_the_watch_counts_what_the_record_says(world: World) -> None:
    counting = [one for one in world.told if one.state == "counts"]
    graded = {one.number: one.graded(Thresholds()) for one in counting}
    seen = queries.bias_watch(world.context)
    assert seen.n == len(counting)
    kinds = Counter(one.grader_kind for one in graded.values())
    assert dict(zip(GRADER_KINDS, seen.kinds.counts, strict=True)) == {
        kind: kinds[kind] for kind in GRADER_KINDS
    }
    assert {(one.grader.kind, one.grader.name): one.spread.n for one in seen.by_grader} == Counter(
        (graded[one.number].grader_kind, one.grader) for one in counting
    )
    for of_rubric in seen.by_rubric:
        mine = [one for one in counting if (one.order.rubric or "") == of_rubric.rubric]
        labels = Counter(graded[one.number].label for one in mine)
        assert of_rubric.spread.labels == tuple(labels[label] for label in LABELS)
    blocked = Counter(name for one in graded.values() for name in one.sft_blockers)
    assert {one.name: one.n for one in seen.readiness.sft_blockers} == {
        name: blocked[name] for name in SFT_BLOCKERS
    }
    assert seen.readiness.n_sft == sum(one.exportable_for_sft for one in graded.values())
    assert seen.readiness.n_preference == sum(one.exportable_for_preference for one in graded.values())
    assert [one.spread.n for one in seen.by_grader] == sorted(
        (one.spread.n for one in seen.by_grader), reverse=True
    )


def test_agreement_takes_each_graders_latest_word_on_what_two_can_judge(world: World) -> None:
    latest: dict[tuple[object, ...], Told] = {}
    for one in world.told:
        order = one.order
        if one.state == "counts" and (order.run or order.execution) and one.grader:
            kind = one.graded(Thresholds()).grader_kind
            latest[order.layer, order.execution, order.run, order.arm, kind, one.grader] = one
    subjects = {key[:4]: place for place, key in enumerate(dict.fromkeys(key[:4] for key in latest))}
    item = np.array([subjects[key[:4]] for key in latest])
    outcome = np.array([int(one.order.outcome == "success") for one in latest.values()])
    seen = queries.agreement(world.context)
    assert seen.n_panel == len(latest)
    assert seen.outcome.alpha == pytest.approx(alpha(item, outcome, "nominal").value, abs=1e-12)
    signed = np.array(
        [
            np.nan
            if one.order.score is None
            else one.order.score * (1 if one.order.outcome == "success" else -1)
            for one in latest.values()
        ]
    )
    assert seen.score.alpha == pytest.approx(alpha(item, signed, "interval").value, abs=1e-12)
    assert seen == queries.agreement(world.context), "the same evaluations have the same intervals"
    one_grader = queries.agreement(world.context, EvaluationFilter(rater="mara"))
    assert (one_grader.outcome.alpha, one_grader.outcome.missing) == (None, "no_pairs")


def test_nothing_judged_is_said_as_nothing(context: Context) -> None:
    assert queries.evaluations(context) == ()
    watch, seen = queries.bias_watch(context), queries.agreement(context)
    assert (watch.n, watch.kinds.shares, watch.by_grader, watch.parting) == (0, None, (), ())
    assert (seen.n_items, seen.outcome.missing, seen.pairs, seen.models) == (0, "no_pairs", (), ())
    assert queries.layers(context) == queries.LayersView(judged=(), n_judged=0, bare=(), n_bare=0)


def test_a_preview_says_what_would_come_and_records_nothing(context: Context) -> None:
    record_all(context, [a_run("r1"), a_run("r2")])
    evaluate(context, "r1", "success", arm=ARM, score=0.5, rater="kim")
    before = queries.revision(context)
    shown = queries.preview_evaluation(context, "r1", "failure", arm=ARM, rubric="v1")
    assert queries.revision(context) == before
    given = evaluate(context, "r1", "failure", arm=ARM, rubric="v1")
    assert shown.answer.id == given.id
    assert (shown.answer.label, shown.answer.sft_blockers) == (given.label, given.sft_blockers)
    (effect,) = shown.effects
    now = next(one for one in queries.posteriors(context) if one.arm == ARM)
    assert (effect.arm, effect.after.alpha, effect.after.beta) == (ARM, now.alpha, now.beta)
    assert effect.before.mean != effect.after.mean
    whole = queries.preview_evaluation(context, "r2", "success")
    assert (whole.n_moved, whole.effects) == (0, ()), "a run as a whole moves no arm by default"


def test_the_ledger_names_the_evaluation_and_its_undo_works(context: Context) -> None:
    record_all(context, [a_run("r1")])
    given = evaluate(context, "r1", "success", arm=ARM, score=0.7)
    (row,) = queries.rewards(context)
    assert (row.id, row.kind, row.reward, row.counts, row.undone) == (
        given.id,
        "evaluation",
        0.7,
        True,
        False,
    )
    undo(context, row.id)
    for shown in (queries.rewards(context)[0], queries.arm_ledger(context, ARM).rows[0].entry):
        assert shown is not None
        assert (shown.id, shown.counts, shown.undone, shown.mean_moved) == (given.id, False, True, 0.0)
    redo(context, given.id)
    assert queries.rewards(context)[0].counts
    later = evaluate(context, "r1", "failure", arm=ARM)
    rows = [one.entry.id for one in queries.arm_ledger(context, ARM).rows if one.entry is not None]
    assert rows == [later.id], "what a later one took the place of moves nothing, and nobody took it back"
    assert {one.state for one in queries.evaluations(context, EvaluationFilter(arm=ARM, counting=False))} == {
        "counts",
        "superseded",
    }


def test_evaluations_of_a_whole_run_belong_to_the_arms_that_they_credit(context: Context) -> None:
    record_all(context, [a_run("r1")])
    evaluate(context, "r1", "success", rater="before")
    change(context, "evaluation_credit", "referenced")
    given = evaluate(context, "r1", "success", rater="after")
    (row,) = queries.evaluations(context, EvaluationFilter(arm=ARM))
    assert (row.id, row.arms) == (given.id, 1)
    assert queries.evaluations(context, EvaluationFilter(arm="tool:other:b")) == ()
    assert len(queries.evaluations(context, EvaluationFilter(run="r1"))) == 2


def test_layers_are_listed_with_their_heads_and_bare_ones_apart(tmp_path: Path) -> None:
    world = judged_world(tmp_path, n=60)
    seen = queries.layers(world.context)
    assert {one.uid for one in seen.judged} == set(LAYERS)
    assert [one.quality for one in seen.judged] == sorted((one.quality for one in seen.judged), reverse=True)
    for one in seen.judged:
        mine = [told for told in world.told if told.state == "counts" and told.order.layer == one.uid]
        assert one.n_judged == len(mine)
        assert one.successes == sum(told.order.outcome == "success" for told in mine)
        assert (one.rated_ms is not None, one.bare, one.head) == (True, True, None)
    assert {one.uid for one in seen.bare} == set(LAYERS)
    assert EXECUTION not in {one.uid for one in seen.bare}


def panel(path: Path, *, careless: bool = True) -> World:
    """Sixty runs judged by three people and a model, right nine times in ten, or by one who waves all through."""
    rng = np.random.default_rng(11)
    context = context_at(path)
    record_all(context, [a_run(f"r{number}") for number in range(60)])
    orders = []
    for number in range(60):
        good = rng.random() < 0.55
        for rater in ("mara", "kim", "bob", "lee"):
            said = good if rng.random() < 0.9 else not good
            said = True if careless and rater == "lee" else said
            orders.append(
                EvaluationOrder(run=f"r{number}", outcome="success" if said else "failure", rater=rater)
            )
    evaluate_all(context, orders)
    return World(context=context)


def test_the_overview_names_a_planted_careless_rater_and_nobody_among_equals(tmp_path: Path) -> None:
    found = [
        one
        for one in queries.overview(panel(tmp_path / "panel.db").context).attention
        if one.kind == "raters_part"
    ]
    (item,) = found
    assert (item.severity, item.count) == ("warning", 1)
    assert item.parting is not None
    assert (item.parting.grader.name, item.parting.parting.way) == ("lee", "more_success")
    assert item.parting.parting.share == 1.0
    equal = queries.overview(panel(tmp_path / "equal.db", careless=False).context)
    assert "raters_part" not in {one.kind for one in equal.attention}


def test_what_is_open_to_me_in_a_blind_queue_hides_what_others_judge_of_it(context: Context) -> None:
    record_all(context, [a_run("r1"), a_run("r2")])
    change(context, "evaluation_credit", "equal")
    for rater in ("kim", "bob"):
        for run in ("r1", "r2"):
            evaluate(context, run, "success", rater=rater, score=0.9)
    jo = acting(context)
    queue = add_queue(context, "Blind", QueueAsks(source="runs", runs=("r1",)), n_reviewers=3, blind=True)

    def seen() -> tuple[object, ...]:
        ledger = queries.arm_ledger(jo, ARM).rows
        return (
            {one.subject.run for one in queries.evaluations(jo, EvaluationFilter(counting=False))},
            queries.bias_watch(jo).n,
            queries.agreement(jo).n_items,
            {one.run for one in queries.rewards(jo)},
            {one.run for one in ledger if one.entry is not None},
            sum(len(arm.by_hand) for arm in queries.run(jo, "r1").arms),
        )

    before = seen()
    assert before == ({"r1", "r2"}, 4, 2, {"r1", "r2"}, {"r1", "r2"}, 6)
    assert next_item(jo, queue.id).item is not None
    assert seen() == ({"r2"}, 2, 1, {"r2"}, {"r2"}, 0)
    assert queries.bias_watch(context).n == 4, "nothing is hidden from others"
    release(jo, queue.id, 1)
    assert seen() == before


@dataclass(kw_only=True)
class Told:
    """One evaluation as it was asked for, and whether it counts, was superseded or is undone."""

    number: int
    order: EvaluationOrder
    state: str = "counts"

    @property
    def grader(self) -> str:
        return (self.order.model or self.order.rater) or ""

    def graded(self, thresholds: Thresholds) -> Grade:
        one = self.order
        return grade(
            one.outcome,
            one.score,
            rater=one.rater,
            model=one.model,
            rubric=one.rubric,
            thresholds=thresholds,
        )


Fits = Callable[[Told], bool]


@dataclass(kw_only=True)
class World:
    """A context and all that was told in it."""

    context: Context
    told: list[Told] = field(default_factory=list)

    def tell(self, orders: Sequence[EvaluationOrder]) -> None:
        """Have evaluations recorded, and note which of them count."""
        for order, answer in zip(orders, evaluate_all(self.context, orders), strict=True):
            new = Told(number=int(answer.id.rpartition("-")[2]), order=order)
            for one in self.told:
                if one.state == "counts" and _key(one.order) is not None and _key(one.order) == _key(order):
                    one.state = "superseded"
            self.told.append(new)

    def take_back(self, one: Told) -> None:
        """Undo it; an earlier one of its key counts again."""
        undo(self.context, f"evaluation-{one.number}")
        stood = one.state == "counts"
        one.state = "undone"
        if stood and _key(one.order) is not None:
            earlier = [
                other
                for other in self.told
                if other.state == "superseded" and _key(other.order) == _key(one.order)
            ]
            if earlier:
                earlier[-1].state = "counts"

    def those(self, fits: Callable[[Told], bool]) -> list[str]:
        """Ids of those that fit, the latest first."""
        return [f"evaluation-{one.number}" for one in reversed(self.told) if fits(one)]


def _key(order: EvaluationOrder) -> tuple[object, ...] | None:
    """By what a later one takes the place of an earlier one; None of a layer as such."""
    if order.execution is None and order.run is None:
        return None
    names = (order.rater or "", order.model or "", order.rubric or "")
    return (order.layer, order.execution, order.run, order.arm, *names)


def judged_world(folder: Path, *, n: int = 120, seed: int = 1) -> World:
    """Some twenty runs, two layers and an execution, judged ``n`` times; every ninth of them is taken back."""
    rng = random.Random(seed)
    context = context_at(folder / "judged.db")
    record_all(context, [a_run(f"r{number}") for number in range(20)])
    world = World(context=context)
    subjects: list[dict[str, str]] = [
        *({"run": f"r{number}"} for number in range(6)),
        *({"run": f"r{number}", "arm": ARM} for number in range(6)),
        *({"layer": uid} for uid in LAYERS),
        *({"layer": uid, "execution": EXECUTION} for uid in LAYERS),
    ]
    orders = []
    for _ in range(n):
        rater, model = rng.choice(_GRADERS)
        orders.append(
            EvaluationOrder(
                **rng.choice(subjects),
                outcome=rng.choice(("success", "success", "failure")),
                score=rng.choice(_SCORES),
                rater=rater,
                model=model,
                rubric=rng.choice(_RUBRICS),
                feedback=f"so said {rater}",
                create=True,
            )
        )
    for order in orders:
        world.tell([order])
    for one in world.told[::9]:
        world.take_back(one)
    return world
