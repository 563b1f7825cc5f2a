"""What is stated of arms: the title of one, the title of many, cells; every name, and never more than was judged."""

from __future__ import annotations

from typing import Final, get_args

import msgspec
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.flows.settings import change
from core.records.arm import Interval
from core.records.judgement import Judgement, JudgementName, RecentMean, SourceSum
from core.records.run_query import View
from core.records.times import DAY_MS
from dashboard.report import gather, rendered, report
from dashboard.sentences import Phrase, Sentence
from dashboard.sentences import judgement as sentences
from tests.dashboard.conftest import Open, texts
from tests.flows.test_judgement import planted

JUDGED: Final = Judgement(
    arm="tool:web:search",
    name="worth",
    mean=0.58,
    interval=Interval(lower=0.553, upper=0.611),
    pulls=1_356,
    inclusions=1_632,
    prior_weight=4,
    chance=0.43,
    chance_error=0.009,
    break_even=0.46,
    n_observed=1_356,
    n_referenced=786,
)
FELL: Final = RecentMean(since_ms=20_000 * DAY_MS, mean=0.497, n=915, mean_before=0.76, n_before=441)


def said(parts: Sentence) -> str:
    return "".join(part.text if isinstance(part, Phrase) else part for part in parts)


def told(name: JudgementName, **changes: object) -> str:
    """The title of an arm of this judgement."""
    found = msgspec.structs.replace(JUDGED, name=name, **changes)
    return said(sentences.arm(found, token_cost=310, year_of_ms=FELL.since_ms))


def test_worth_is_said_with_its_interval_its_break_even_and_of_what() -> None:
    assert told("worth") == (
        "Used in 786 of 1,356 runs with a tool call; in 1,632 prompts. Believed used: 0.58. "
        "It earns its place. Its break-even is use in 46 of 100 runs, at its 310 tokens; "
        "its interval is 0.55–0.62."
    )
    assert "It does not earn its place. Its break-even is use in 70 of 100 runs" in told(
        "not_worth", break_even=0.7
    )
    assert "Its place is undecided. Its break-even is use in 57 of 100 runs" in told("open", break_even=0.57)
    assert "it is left out at its 310 tokens, however often it is used" in told(
        "not_worth", break_even=None, no_break_even="never_in"
    )


@pytest.mark.parametrize("name", [name for name in get_args(JudgementName) if name != "worth"])
def test_nothing_but_worth_earns_a_place(name: JudgementName) -> None:
    """Not even an arm whose mean, over all its time, lies far above its break-even."""
    changed = name in {"poisoned", "rival", "drifting", "rising"}
    others = ("tool:web:fetch", "tool:web:new") if name in {"poisoned", "rival"} else ()
    title = told(name, recent=FELL if changed else None, others=others, missing_pulls=12, last_at_ms=0)
    assert "It earns its place" not in title
    cell = sentences.judgement(
        msgspec.structs.replace(JUDGED, name=name, recent=FELL if changed else None, others=others)
    )
    assert not cell.startswith("earns its place")


def test_an_arm_that_changed_says_first_how_it_is_now() -> None:
    assert told("drifting", recent=FELL) == (
        "Used in 50 of 100 runs since 4 Oct (before: 76 of 100); in 1,632 prompts. Believed used: 0.58. "
        "It is drifting."
    )
    gone = msgspec.structs.replace(FELL, mean=0.0)
    assert told("drifting", recent=gone).startswith(
        "Not used once in 915 runs since 4 Oct (before: 76 of 100)"
    )
    assert told("drifting", recent=gone).endswith("It fell to nothing.")
    assert told("poisoned", recent=gone, others=("tool:web:fetch",)).endswith(
        "Looks like a detector fault, as with fetch."
    )
    assert told("rival", recent=FELL, others=("tool:web:new",)).endswith(
        "Where new is in the prompt, it gives way."
    )


def test_what_was_not_measured_is_not_said() -> None:
    assert told("section") == (
        "Always counted as used when it is in; its use is not measured; in 1,632 prompts."
    )
    assert told("too_early", pulls=8, missing_pulls=12, inclusions=9, n_observed=8, n_referenced=0) == (
        "Not used once in 8 runs with a tool call; in 9 prompts. Believed used: 0.58. "
        "Too early to judge it: 8 pulls so far, 12 more needed. Its prior weighs 4 pulls."
    )
    assert told("too_early", pulls=0, missing_pulls=20, inclusions=0).startswith(
        "No observation yet: 58 of 100 runs is its prior, not a finding; "
    )
    assert told("never_referenced", mean=0.001, n_referenced=0).startswith(
        "Not used once in 1,356 runs with a tool call"
    )


def test_what_people_and_graders_gave_is_apart_from_what_was_seen() -> None:
    gave = (
        SourceSum(source="person", n=40, alpha_micro=40_000_000, beta_micro=0),
        SourceSum(source="grader", n=2, alpha_micro=500_000, beta_micro=1_500_000),
        SourceSum(source="carried", n=1, alpha_micro=0, beta_micro=3_000_000),
    )
    whole = (
        "Not used once in 40 runs with a tool call; in 1,632 prompts. 40 accepts by hand, "
        "mean 1.0; 2 evaluations, mean 0.25; 1 carried belief, mean 0.0. Believed used or rewarded: 0.51. It "
    )
    by_hand = "Observed in no run; in 0 prompts. 40 accepts by hand"
    assert told("worth", n_observed=40, n_referenced=0, sources=gave, mean=0.51).startswith(whole)
    assert told("open", n_observed=0, inclusions=0, sources=gave[:1]).startswith(by_hand)


def many(**counts: int) -> list[Judgement]:
    return [
        msgspec.structs.replace(JUDGED, name=name, arm=f"tool:x:{name}{at}", recent=None)
        for name, number in counts.items()
        for at in range(number)
    ]


def test_a_few_arms_are_named_by_what_needs_a_look_and_many_are_counted() -> None:
    assert said(sentences.posteriors(many(worth=2, drifting=1, open=5))) == (
        "drifting0 is drifting; worth0 and worth1 earn their place; 5 of 8 are undecided."
    )
    assert said(sentences.posteriors(many(worth=1))) == "worth0 earns its place."
    assert said(sentences.posteriors(many(poisoned=3))) == (
        "poisoned0, poisoned1 and poisoned2 look poisoned."
    )
    assert said(sentences.posteriors(many(worth=2, not_worth=12, drifting=1, too_early=9_000, seed=6))) == (
        "Of 9,021 arms 2 earn their place, 12 do not, 1 arm changed or went unused."
    )
    assert said(sentences.posteriors(many(not_worth=14, open=1))) == (
        "Of 15 arms 14 do not earn their place, 1 is undecided."
    )


def test_every_place_says_what_was_judged(open_page: Open, context: Context) -> None:
    """The list that needs a look, the page it opens as evidence, the arm's own page, and the report."""
    record_all(context, planted())
    change(context, "budget_tokens", 400)
    judged = queries.judgements(context)
    poisoned = [arm for arm, one in judged.items() if one.name == "poisoned"]
    assert "2 files look poisoned" in "".join(texts(open_page("overview")))
    page = open_page("posteriors", arms=poisoned)
    title = page.title[0].value
    assert title.replace("\\", "").startswith(":color[two.md and one.md]")
    assert title.endswith(" look poisoned.")
    shown = page.dataframe[0].value
    cells = dict(zip(map(str, shown["id"]), shown["judgement"], strict=True))
    year_of_ms = queries.frame(context).last_at_ms
    assert cells == {arm: sentences.fitting(one, 46, year_of_ms=year_of_ms) for arm, one in judged.items()}
    whole = {arm: sentences.judgement(one, year_of_ms=year_of_ms) for arm, one in judged.items()}
    assert all(len(cell) <= 46 and whole[arm].startswith(cell) for arm, cell in cells.items())
    everyone = open_page("posteriors")
    assert "changed or went unused" in everyone.title[0].value or len(judged) <= 12
    assert "Pulls: those runs" in "".join(texts(everyone))
    for arm, word in ((poisoned[0], "Looks like a detector fault"), ("tool:other:drifts", "is drifting")):
        assert word in open_page("arm", arm=arm).title[0].value
    document = rendered(report(gather(context, View()))).decode()
    assert document.count("looks poisoned: 0 of") == 2
