"""Sentences: what may be claimed, and what may not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.statistics.savings import Savings, savings
from dashboard import sentences
from dashboard.figures.arms import ArmRow
from dashboard.sentences import Phrase, Sentence
from tests.usage import Counted, usage_of


def _said(parts: Sentence) -> str:
    return "".join(part.text if isinstance(part, Phrase) else part for part in parts)


def _saved(baseline: Sequence[int], selected: Sequence[int]) -> Savings:
    runs = [Counted(run_class="baseline", tokens=tokens, prob=0.1) for tokens in baseline]
    runs += [Counted(run_class="selected", tokens=tokens, prob=0.1) for tokens in selected]
    return savings(usage_of(runs), baseline_rate=0.1, n_arms=5)


@pytest.mark.parametrize(
    ("baseline", "selected", "start"),
    [
        ([], [], "No run was chosen by armscope yet, so no savings can be claimed."),
        ([], [9_000] * 5, "No baseline runs yet, so no savings can be claimed."),
        ([9_000] * 5, [], "No selected runs yet, so no savings can be claimed."),
        ([9_000], [9_000] * 5, "Only 1 run with known tokens in one group, so no savings can be claimed."),
        ([9_000, 9_100], [6_000, 6_100], "Selecting saves 33.1% of the tokens per run; there are too few"),
    ],
)
def test_nothing_is_claimed_without_the_runs_for_it(
    baseline: list[int], selected: list[int], start: str
) -> None:
    assert _said(sentences.savings(_saved(baseline, selected))).startswith(start)


def test_proven_savings_name_their_interval() -> None:
    saved = _saved([18_000 + 90 * at for at in range(40)], [11_000 + 60 * at for at in range(60)])
    said = _said(sentences.savings(saved))
    assert said.startswith("Selecting saves ")
    assert "; the 95% interval is " in said
    assert "not proven" not in said


def test_savings_that_hold_zero_are_not_proven() -> None:
    saved = _saved([9_000 + 400 * at for at in range(40)], [9_100 + 400 * at for at in range(40)])
    assert "not proven" in _said(sentences.savings(saved))


def test_the_baseline_share_names_its_own_probability() -> None:
    saved = _saved([9_000] * 20, [8_000 + at for at in range(200)])
    words = sentences.share_words(saved, configured=0.1, n_arms=5)
    assert f"({saved.share.observed.prob:.0%} interval" in words


def _row(key: str, lower: float, mean: float, upper: float) -> ArmRow:
    return ArmRow(key=key, type="tool", mean=mean, lower=lower, upper=upper, pulls=9, band="medium")


def test_arms_are_called_useful_only_by_their_whole_interval() -> None:
    good, bad = _row("tool:exec:Bash", 0.8, 0.9, 0.95), _row("tool:fs:Glob", 0.01, 0.05, 0.1)
    open_ = _row("tool:web:search", 0.3, 0.6, 0.9)
    assert _said(sentences.posteriors([good, bad, open_])) == (
        "Bash earns its place; Glob almost never helps; one of three is still open."
    )
    assert _said(sentences.posteriors([open_])) == "Nothing is settled yet: one of one is still open."
    assert _said(sentences.posteriors([good])) == "Bash earns its place."
