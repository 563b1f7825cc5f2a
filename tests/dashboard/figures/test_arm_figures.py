"""Figures of one arm through their data: where the path breaks, which letters stand, what the densities hold."""

from __future__ import annotations

import numpy as np
import pytest

from core.columns import ArmDays
from core.flows.queries import ArmPath, HistoryMark
from core.maths.posterior import beta
from core.maths.statistics.path import Boundary, path
from core.records.arm import MICRO
from core.records.arm_summary import ArmVersions
from core.records.judgement import RecentMean
from core.records.times import DAY_MS
from dashboard.figures.arms import ArmRow
from dashboard.figures.path import MAX_LETTERS, arm_path, lettered
from dashboard.figures.theme import LIGHT, THEMES, Tokens
from dashboard.figures.then_now import then_now
from dashboard.sentences import arm as sentences

KEY = "tool:fs:Read"
HOSTILE = "<script>alert(1)</script> %{x} :smile: [a](javascript:b)"

NO_VERSIONS = ArmVersions(arm=KEY, versions=(), without=0)


def seen(*marks: HistoryMark, n_days: int = 20, reset_day: int | None = None) -> ArmPath:
    """A pull a day, good on every other, started again on one of them."""
    boundaries = [Boundary(since_ms=0, epoch=0, alpha_micro=3 * MICRO, beta_micro=MICRO)]
    day = np.arange(1_000, 1_000 + n_days)
    epoch = np.zeros(n_days, dtype=np.int64)
    if reset_day is not None:
        boundaries.append(Boundary(since_ms=reset_day * DAY_MS, epoch=5, alpha_micro=MICRO, beta_micro=MICRO))
        epoch[day >= reset_day] = 5
    good = (day % 2) * MICRO
    ones = np.ones(n_days, dtype=np.int64)
    found = path(
        ArmDays(
            epoch=epoch,
            day=day,
            inclusions=2 * ones,
            pulls=ones,
            part_micro=0 * ones,
            success_micro=good,
            failure_micro=MICRO - good,
        ),
        boundaries=boundaries,
        first_day=1_000,
        last_day=999 + n_days,
    )
    since = None if reset_day is None else reset_day * DAY_MS
    epoch_no = 1 if since is None else 2
    return ArmPath(path=found, marks=marks, since_ms=since, epoch_no=epoch_no, versions=NO_VERSIONS)


def reset_on(day: int, *, undone: bool = False, reason: str | None = None) -> HistoryMark:
    return HistoryMark(at_ms=day * DAY_MS, kind="reset", name="uniform", undone=undone, reason=reason)


def model_on(day: int, name: str = "mini") -> HistoryMark:
    return HistoryMark(at_ms=day * DAY_MS, kind="model", name=name)


def row(alpha: float = 30.0, beta_: float = 20.0, prior_alpha: float = 1.0) -> ArmRow:
    lower, upper = beta.interval(alpha, beta_)
    return ArmRow(
        key=KEY,
        type="tool",
        mean=alpha / (alpha + beta_),
        lower=float(lower),
        upper=float(upper),
        pulls=int(alpha + beta_ - 2),
        band="high",
        alpha=alpha,
        beta=beta_,
        prior_alpha=prior_alpha,
    )


@pytest.mark.parametrize("look", THEMES.values(), ids=str)
@pytest.mark.parametrize("compact", [False, True])
def test_the_line_holds_the_path_and_breaks_at_the_reset(look: Tokens, compact: bool) -> None:
    story = seen(reset_on(1_012), reset_day=1_012)
    drawn = arm_path(story, KEY, "tool", look, compact=compact)
    (line,) = [trace for trace in drawn.figure.data if trace.mode == "lines" and trace.hoverinfo == "text"]
    means = np.asarray(line.y)
    assert np.flatnonzero(np.isnan(means)).tolist() == [12]
    assert means[~np.isnan(means)] == pytest.approx(story.path.mean, abs=1e-6)
    assert len(line.hovertext) == len(means)
    ribbon = drawn.figure.data[0]
    assert ribbon.fill == "toself"
    assert np.nanmax(ribbon.y) == pytest.approx(story.path.upper.max(), abs=1e-6)
    assert drawn.table["mean"][0] == f"{story.path.mean[-1]:.3f}"
    assert drawn.table["epoch"][0] == 2
    assert "started again 1 time" in drawn.alt
    again = arm_path(story, KEY, "tool", look, compact=compact)
    assert again.figure.to_json() == drawn.figure.to_json()


def test_a_path_of_one_day_shows_its_interval() -> None:
    drawn = arm_path(seen(n_days=1), KEY, "tool", LIGHT)
    bars = [trace for trace in drawn.figure.data if trace.mode == "lines" and trace.line.width == 8]
    assert len(bars) == 1
    assert len(drawn.table["day, UTC"]) == 1


def test_long_paths_are_thinned_with_their_breaks_and_their_end() -> None:
    story = seen(n_days=3_000, reset_day=2_345)
    drawn = arm_path(story, KEY, "tool", LIGHT)
    (line,) = [trace for trace in drawn.figure.data if trace.mode == "lines" and trace.hoverinfo == "text"]
    days = np.asarray(line.x)
    assert len(days) < 410
    assert {2_344, 2_345, 3_999} <= set(days[~np.isnan(days)].astype(int).tolist())


def test_marks_of_a_day_share_a_letter_and_resets_have_one_first() -> None:
    marks = [model_on(1_000 + 2 * at, f"m{at}") for at in range(10)]
    marks += [reset_on(1_000), reset_on(1_019, undone=True)]
    letters, n_more = lettered(seen(*sorted(marks, key=lambda mark: mark.at_ms)))
    assert [one.letter for one in letters] == list("ABCDEFGH")[:MAX_LETTERS]
    assert [mark.kind for mark in letters[0].marks] == ["model", "reset"]
    assert letters[-1].marks[-1].undone
    assert n_more + sum(len(one.marks) for one in letters) == len(marks)
    assert [one.day for one in letters] == sorted(one.day for one in letters)


def test_a_standing_reset_is_a_solid_line_and_an_undone_one_is_not() -> None:
    drawn = arm_path(seen(reset_on(1_005), reset_on(1_015, undone=True)), KEY, "tool", LIGHT)
    assert [shape.line.dash for shape in drawn.figure.layout.shapes] == ["solid", "3px,3px"]


@pytest.mark.parametrize("day", [1_004.25, 1_018.5])
def test_the_hour_of_a_change_is_marked_with_its_shares(day: float) -> None:
    change = RecentMean(since_ms=int(day * DAY_MS), mean=0.5, n=100, mean_before=0.75, n_before=200)
    drawn = arm_path(seen(), KEY, "tool", LIGHT, change=change)
    (line,) = drawn.figure.layout.shapes
    assert (line.x0, line.x1, line.line.color) == (day, day, LIGHT.red)
    (words,) = [one for one in drawn.figure.layout.annotations if one.font.color == LIGHT.red]
    assert "75 → 50" in words.text
    assert words.text in drawn.alt
    assert words.xanchor == ("left" if day < 1_010 else "right")
    elsewhere = arm_path(seen(n_days=2), KEY, "tool", LIGHT, change=change)
    assert not elsewhere.figure.layout.shapes


def test_the_line_under_the_path_says_what_happened_with_foreign_words_as_text() -> None:
    setting = HistoryMark(at_ms=1_004 * DAY_MS, kind="setting", name="baseline_rate", before=0.1, after=0.05)
    story = seen(setting, reset_on(1_010, reason=HOSTILE), model_on(1_015, HOSTILE))
    letters, n_more = lettered(story)
    said = sentences.marks_line(letters, n_more, year_of_ms=1_019 * DAY_MS)
    assert "**A** 1 Oct baseline rate 10% → 5%" in said.replace("\\", "")
    for foreign in ("<script", "](javascript", ":smile:"):
        assert foreign not in said
    assert sentences.marks_line((), 0, year_of_ms=0).startswith("No reset")


def test_densities_hold_the_belief_the_earlier_one_and_the_prior() -> None:
    drawn = then_now(row(), (9.0, 3.0, "7 days ago"), LIGHT)
    table = drawn.table
    assert list(table["when"]) == ["now", "7 days ago", "prior"]
    assert list(table["mean"]) == ["0.600", "0.750", "0.500"]
    shade = drawn.figure.data[0]
    assert (shade.x[0], shade.x[-1]) == pytest.approx((row().lower, row().upper), abs=1e-6)
    names = [note.text for note in drawn.figure.layout.annotations]
    assert names[:3] == ["<b>now 0.60</b>", "7 days ago 0.75", "prior Beta(1, 1)"]
    assert "7 days ago its mean was 0.75" in drawn.alt
    assert then_now(row(), (9.0, 3.0, "7 days ago"), LIGHT).figure.to_json() == drawn.figure.to_json()


@pytest.mark.parametrize(
    "pair", [(1.0, 1.0), (0.5, 0.5), (1.0, 400.0), (4_000.0, 1.0), (3.0, 1.0), (0.01, 2.0)]
)
def test_densities_of_every_shape_are_drawn_within_the_frame(pair: tuple[float, float]) -> None:
    drawn = then_now(row(*pair, prior_alpha=3.0), (3.0, 1.0, "then"), LIGHT)
    low, high = drawn.figure.layout.yaxis.range
    for trace in drawn.figure.data:
        assert np.isfinite(np.asarray(trace.y)).all()
        assert np.asarray(trace.y).min() >= low
    for note in drawn.figure.layout.annotations:
        assert low <= note.y <= high * 1.2
