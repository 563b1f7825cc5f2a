"""Sentences: what may be claimed and what may not, and rows of the attention list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pytest

from core.columns import ArmDays
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.flows.queries import ArmPath, Inclusion, UnreadArm, UnreadReport
from core.maths.statistics.change import Cause, CauseKind, Shift
from core.maths.statistics.confidence import UNREACHABLE
from core.maths.statistics.inclusion import Chance
from core.maths.statistics.overview import Attention, SilentFeed, attention_of_causes
from core.maths.statistics.path import path
from core.maths.statistics.savings import Savings, savings
from core.records.arm_summary import ArmVersions
from core.records.times import DAY_MS
from dashboard import wording
from dashboard.sentences import achieved, gain
from dashboard.sentences import arm as arm_sentences
from dashboard.sentences import confidence as confidence_sentences
from dashboard.sentences import inclusion as inclusion_sentences
from dashboard.sentences import overview as overview_sentences
from dashboard.sentences import savings as sentences
from dashboard.sentences.data import data
from tests.dashboard.test_judgement import JUDGED
from tests.dashboard.test_judgement import said as _said
from tests.worlds import a_run
from tests.worlds.usage import Counted, billed, group, sessions_of, tossed, usage_of

NOT_OFFERED = Chance(
    chance=None, standard_error=None, break_even_mean=None, no_break_even="not_offered", n_offering=0
)
AT_MS: Final = 20_500 * DAY_MS
"""16 February 2026."""
SLACK: Final = SilentFeed(kind="channel", name="slack", days=12, expected=192.4, since_ms=AT_MS)
MARA: Final = SilentFeed(kind="importer", name="mara", days=12, expected=1.2, since_ms=AT_MS)


def test_runs_without_an_import_were_recorded_directly() -> None:
    assert _said(data(3, 1, ())) != _said(data(0, 0, ()))


@pytest.mark.parametrize(
    ("exact", "words"),
    [(None, ", from 1,356 pulls since"), (1356.25, ", from 1,356 pulls (exactly 1,356.25) since")],
)
def test_an_arms_pulls_stand_beside_their_exact_sum_where_that_is_not_whole(
    exact: float | None, words: str
) -> None:
    no_days = np.array([], dtype=np.int64)
    empty = path(
        ArmDays(**dict.fromkeys(ArmDays.__dataclass_fields__, no_days)),
        boundaries=(),
        first_day=1,
        last_day=0,
    )
    one = msgspec.structs.replace(JUDGED, pulls_exact=exact)
    seen = ArmPath(
        path=empty, marks=(), since_ms=None, epoch_no=1, versions=ArmVersions(arm="a", versions=(), without=0)
    )
    assert words in arm_sentences.arm_facts(one, "very_high", seen, year_of_ms=None)


def _saved(baseline: Sequence[int], selected: Sequence[int]) -> Savings:
    runs = [Counted(run_class="baseline", tokens=tokens, prob=0.1) for tokens in baseline]
    runs += [Counted(run_class="selected", tokens=tokens, prob=0.1) for tokens in selected]
    return savings(usage_of(runs), baseline_rate=0.1, n_arms=5)


@pytest.mark.parametrize(
    ("baseline", "selected", "start"),
    [
        ([], [], "No run was chosen by armscope yet, so no saving can be named."),
        ([], [9_000] * 5, "No baseline runs yet, so no saving can be named."),
        ([9_000] * 5, [], "No selected runs yet, so no saving can be named."),
        ([9_000], [9_000] * 5, "Only 1 run with known tokens in one group, so no saving can be named."),
        (
            [9_000, 9_100],
            [6_000, 6_100],
            "Too early to name a saving: 8 more baseline runs and 8 more selected runs are needed.",
        ),
    ],
)
def test_nothing_is_claimed_without_the_runs_for_it(
    baseline: list[int], selected: list[int], start: str
) -> None:
    assert _said(gain.headline(_saved(baseline, selected))).startswith(start)


def test_proven_savings_name_their_interval() -> None:
    saved = _saved([18_000 + 90 * at for at in range(40)], [11_000 + 10 * at for at in range(360)])
    said = _said(gain.headline(saved))
    assert said.startswith("Choosing arms saves ")
    limits = wording.percent_interval(*(saved.overall.shown.limits or ()))
    assert said.endswith(f" of tokens ({limits}), proven; nothing is known of what the runs achieved.")


def test_savings_that_hold_zero_are_not_proven() -> None:
    saved = _saved([9_000 + 400 * at for at in range(40)], [9_100 + 400 * at for at in range(40)])
    assert "not proven" in _said(gain.headline(saved))


def test_the_baseline_share_names_its_own_probability() -> None:
    saved = _saved([9_000] * 20, [8_000 + at for at in range(200)])
    words = sentences.share_words(saved, configured=0.1, n_arms=5)
    assert f"({saved.share.observed.prob:.0%} interval" in words


def test_too_few_runs_for_a_proof_claim_nothing_of_the_future() -> None:
    saved = _saved([9_000 + 9 * at for at in range(20)], [3_000 + 9 * at for at in range(20)])
    said = _said(gain.headline(saved))
    assert said.startswith("So far choosing arms saved 66.")
    assert "; not proven, since a proof takes 30 runs in each group; nothing" in said


def test_money_comes_first_where_bills_are_known() -> None:
    def at(price: float | None, selected: int) -> Savings:
        runs = [Counted(run_class="baseline", tokens=18_000 + 90 * at) for at in range(40)]
        runs = tossed([*runs, *(Counted(tokens=selected + 60 * at) for at in range(60))])
        runs = runs if price is None else billed(runs, price)
        priced = () if price is None else ("m",)
        return savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=5, priced=priced)

    assert "money" not in _said(gain.headline(at(None, 11_000)))
    assert "No price is set" in sentences.money_line(at(None, 11_000))
    said = _said(gain.headline(at(5.0, 11_000)))
    assert " of the cost (" in said
    assert "tokens" not in said, "both verdicts are alike"
    assert "more money" in _said(gain.headline(at(5.0, 31_000)))
    assert "not proven" in _said(gain.headline(at(5.0, 18_000)))


def test_models_without_a_price_are_named_as_text() -> None:
    runs = [
        Counted(run_class=group, tokens=tokens + at, model=model)
        for group, tokens in (("baseline", 9_000), ("selected", 6_000))
        for at in range(40)
        for model in ("m", "<b>*x*</b>", "")
    ]
    runs = [run if run.model != "m" else billed([run], 1.0)[0] for run in runs]
    saved = savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=5, priced=("m",))
    line = sentences.money_line(saved)
    assert "<b>" not in line
    assert "runs without a model" in line
    assert saved.money is not None
    assert saved.money.n_unbilled == 160


def test_every_run_is_either_compared_or_left_out_with_its_reason() -> None:
    runs = [Counted(run_class="baseline", tokens=9_000 + at) for at in range(12)]
    runs += [Counted(tokens=6_000 + at) for at in range(12)]
    runs += [Counted(run_class="imported"), Counted(run_class="passive"), Counted(tokens=None)]
    runs += [Counted(status="error"), Counted(tokens=5, model="lonely")]
    table = sentences.left_out_table(savings(usage_of(runs), baseline_rate=0.1, n_arms=5))
    numbers = [int(str(number)) for number in table["number"]]
    assert numbers == [1, 0, 1, 1, 1, 25]
    assert sum(numbers) == len(runs)


def test_means_that_do_not_give_the_savings_say_why() -> None:
    """Half is saved with either model, yet the selection met the costly one more often."""
    usage = usage_of(
        [
            *group("baseline", [1_000, 1_010] * 45, model="small"),
            *group("baseline", [10_000, 10_100] * 5, model="large"),
            *group("selected", [500, 505] * 50, model="small"),
            *group("selected", [5_000, 5_050] * 450, model="large"),
        ]
    )
    found = savings(usage, baseline_rate=0.1, n_arms=10)
    assert found.overall.saved_percent.value == pytest.approx(50, abs=1)
    assert sentences.source_formula(found.overall).startswith(
        "**Unadjusted** 139.5% more: 1,910 tokens per baseline run, 4,573 per selected run, as the runs came"
    )
    assert "139" not in sentences.savings_numbers(found) + _said(gain.headline(found))


def test_the_comparison_tells_differences_with_their_intervals() -> None:
    runs = [Counted(run_class="baseline", tokens=9_000 + at, duration_ms=8_000 + 9 * at) for at in range(40)]
    runs += [Counted(tokens=6_000 + at, duration_ms=60 + 2 * at) for at in range(40)]
    runs += [Counted(status="error", tokens=6_020)] * 10
    found = savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=5)
    table = sentences.comparison_table(found)
    assert table["what"][:2] == ["success", "tokens per run"]
    assert table["difference"][1:] == ["−33.3%", "−8.1", "+20.0 points", "+20.0 points"]
    assert [str(limits)[:6] for limits in table["95% interval"][1:]] == ["−33.4%", "−8.2 t", *["7.6 to"] * 2]
    assert sentences.counting_table(found)["difference"] == [*["−33.3%"] * 3, "–", "–"]
    nothing = sentences.comparison_table(savings(usage_of([]), baseline_rate=0.1, n_arms=5))
    assert set(map(str, nothing["difference"])) == {"–"}


def test_the_coin_is_held_against_the_stored_probabilities() -> None:
    fair = _saved([9_000 + at for at in range(20)], [8_000 + at for at in range(180)])
    assert "add up to 20.0. A share so far off has a chance of 100.0% (exact binomial test)." in (
        sentences.share_test(fair)
    )
    loaded = _saved([9_000 + at for at in range(60)], [8_000 + at for at in range(140)])
    assert "under 0.1% (exact binomial test)." in sentences.share_test(loaded)
    for saved, words in ((fair, "within normal chance"), (loaded, "**more than chance explains**")):
        assert words in sentences.share_words(saved, configured=0.1, n_arms=5)
    assert "cannot be checked" in sentences.share_test(savings(usage_of([]), baseline_rate=0.1, n_arms=5))


def test_needs_say_how_many_runs_and_at_what_rate() -> None:
    wide = _saved([9_000 + 900 * at for at in range(20)], [8_000 + 800 * at for at in range(180)])
    words = sentences.need_words(wide)
    assert wide.need.n_more is not None
    assert f"about {wide.need.n_more * 10:,} runs in all at a rate of 10%" in words
    assert sentences.need_words(_saved([9_000] * 3, [8_000] * 3)).startswith("**Baseline runs until")
    judged = replace(wide, outcome=msgspec.structs.replace(wide.outcome, word="open", more_judged=2_314))
    assert achieved.next_step(judged).startswith("**For success**: about 2,300")
    tight = _saved([9_000 + at for at in range(40)], [8_000 + at for at in range(40)])
    assert sentences.need_words(tight).startswith("**The interval of tokens saved is within ± 5 points.**")


def test_what_nobody_reads_is_counted_and_named() -> None:
    lost = UnreadArm(arm="tool:fs:<b>x</b>", reason="no_run", n=2)
    seen = UnreadReport(n_pulls=900, n_present=1, n_earlier=30, n_replaced=4, arms=(lost,), query="SELECT 1")
    assert "**2 observations**" in confidence_sentences.unread(seen)
    assert confidence_sentences.unread_table(seen)["why"] == [
        "its run is no longer active, or had the arm out"
    ]


def test_pulls_to_a_width_say_when_there_are_too_many() -> None:
    needed = np.array([0, 12, UNREACHABLE, 4_000], dtype=np.int64)
    assert [confidence_sentences.to_narrow(needed, place) for place in (1, 2, 3)] == [
        "12 more",
        "more than 1,000,000,000",
        "4,000 more",
    ]


@pytest.mark.parametrize(
    ("seen", "note"),
    [
        (Inclusion(arms={}, n_runs=0, of="none"), "There is no run yet, so every arm counts as a candidate."),
        (Inclusion(arms={}, n_runs=1, of="latest"), "The latest run did not offer it."),
        (
            Inclusion(arms={}, n_runs=25, of="chosen"),
            "None of the latest 25 runs that armscope chose for offered it.",
        ),
    ],
)
def test_it_is_said_which_runs_did_not_offer_an_arm(seen: Inclusion, note: str) -> None:
    assert inclusion_sentences.worth_note(NOT_OFFERED, seen) == note
    judged = msgspec.structs.replace(JUDGED, break_even=None, no_break_even="not_offered")
    if seen.n_runs:
        assert inclusion_sentences.worth(judged, 100, inclusion=seen).startswith("**Not in the latest ")


def test_an_arm_without_a_chance_has_the_number_of_runs_behind_it() -> None:
    judged = msgspec.structs.replace(JUDGED, break_even=None, no_break_even="not_offered")
    seen = Inclusion(arms={}, n_runs=7, of="latest")
    assert "the latest 7 runs**" in inclusion_sentences.worth(judged, 100, inclusion=seen)


def test_the_note_under_the_table_counts_arms_without_a_chance() -> None:
    half = replace(NOT_OFFERED, chance=0.5, standard_error=0.01, no_break_even="always_in", n_offering=7)
    seen = Inclusion(arms={"tool:a:a": half, "tool:a:b": NOT_OFFERED}, n_runs=7, of="latest")
    told = "Chance of inclusion: how likely the arm is picked, simulated on the latest 7 runs."
    assert inclusion_sentences.chances_note(seen, ["tool:a:a"]) == told
    assert (
        inclusion_sentences.chances_note(seen, ["tool:a:a", "tool:a:b"])
        == f"{told} No bar: not offered in these runs (1 arm)."
    )


def shift(name: str, *, fell: bool = True) -> Shift:
    before, after = (0.6, 0.3) if fell else (0.3, 0.6)
    return Shift(
        arm=f"tool:other:{name}",
        since_ms=AT_MS,
        mean_before=before,
        mean_after=after,
        n_before=100,
        n_after=50,
        prob=1e-6,
    )


FELL: Final = tuple(shift(name) for name in "abc")


def cause(kind: CauseKind, shifts: tuple[Shift, ...] = FELL, name: str = "") -> Attention:
    made = Cause(
        kind=kind,
        shifts=shifts,
        since_ms=AT_MS,
        of="" if not name else "model" if kind == "new_model" else "channel",
        name=name,
        before=0.1,
        after=0.6,
    )
    (row,) = attention_of_causes([made])
    return row


def stopped(*feeds: SilentFeed) -> Attention:
    return Attention(kind="feed_silent", severity="warning", count=12, since_ms=AT_MS, feeds=feeds)


ROWS: Final = {
    "one day, all fell": (
        cause("fell_together"),
        "3 arms fell on one day, 16 Feb",
        "the work, the agent or a detector changed; mean 0.30 since, 0.60 before: a, b and c",
    ),
    "one day, some rose": (
        cause("fell_together", (*FELL, shift("d", fell=False))),
        "4 arms changed on one day, 16 Feb",
        "the work, the agent or a detector changed; 3 fell and 1 rose: a, b, c and 1 more",
    ),
    "a new model": (
        cause("new_model", name="m2"),
        "Model m2 is new since 16 Feb",
        "60% of the runs; of 3 arms, 3 fell: a, b and c",
    ),
    "another mix": (
        cause("mix_changed", name="chat"),
        "The mix changed: channel chat 10% → 60% of the runs",
        "since 16 Feb; 3 arms moved with it, but not within a channel or model: a, b and c",
    ),
    "a mix with runs of no channel": (
        cause("mix_changed", FELL[:1], name=""),
        "The mix changed: channel unknown 10% → 60% of the runs",
        "since 16 Feb; 1 arm moved with it, but not within a channel or model: a",
    ),
    "a channel that stopped": (
        stopped(SLACK),
        "No run of channel slack for 12 days",
        "192 runs were expected since 16 Feb; others still arrive",
    ),
    "an importer that stopped": (
        stopped(MARA),
        "No import of importer mara for 12 days",
        "1 import was expected since 16 Feb; others still arrive",
    ),
    "an importer with two imports due": (
        stopped(SilentFeed(kind="importer", name="jo", days=12, expected=2.4, since_ms=AT_MS)),
        "No import of importer jo for 12 days",
        "2 imports were expected since 16 Feb; others still arrive",
    ),
    "no run at all": (
        Attention(kind="silent", severity="warning", count=252, since_ms=AT_MS),
        "No run for 252 days",
        "the newest ended 16 Feb 2026 00:00; do data still arrive?",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_what_happened_and_how_it_is_known(name: str, context: Context) -> None:
    row, claim, evidence = ROWS[name]
    record_all(context, [a_run("r0")])
    words = overview_sentences.attention(row, queries.savings(context), min_pulls=5, year_of_ms=AT_MS)
    assert (words.claim, words.evidence) == (claim, evidence)
