"""Savings that cannot be claimed: what is needed, what is there, and the one thing to do."""

from __future__ import annotations

from core.statistics.savings import Savings, recommended_rate
from core.statistics.savings.plan import runs_until
from core.statistics.savings.sums import MIN_FOR_FIGURE
from dashboard import pages, sentences, wording
from dashboard.reading import reading
from dashboard.widgets.empty import command, empty
from dashboard.wording import Words

_FINE = "✓ fine"
_ENOUGH = "✓ enough"


def what_is_missing(saved: Savings) -> None:
    """Draw the whole page while there is no figure."""
    here = reading()
    settings = here.frame.settings
    rate = saved.recommended_rate or recommended_rate(here.frame.n_arms) or 0.1
    overall = saved.overall
    empty(
        sentences.savings(saved),
        "The picture appears here as soon as both groups have at least 2 runs with known token usage.",
        rows={
            "needed": ["phase", "baseline rate", "selected runs", "baseline runs"],
            "now": [
                settings.phase,
                wording.percent(settings.baseline_rate, 0),
                wording.count(overall.selected.n_known),
                wording.count(overall.baseline.n_known),
            ],
            "which is": [
                _FINE if settings.phase == "active" else _warning("nothing is selected while passive"),
                _FINE if settings.baseline_rate > 0 else _warning("no run can become a baseline run"),
                _group(overall.selected.n_known),
                _group(overall.baseline.n_known),
            ],
        },
        to_do=_to_do(saved, rate),
        shell=_command(rate),
        elsewhere=(pages.SETTINGS, Words("Or change it here"))
        if here.may("settings") and _is_set_off()
        else None,
    )


def _is_set_off() -> bool:
    """Return whether a setting prevents it."""
    settings = reading().frame.settings
    return settings.phase == "passive" or settings.baseline_rate == 0


def _group(n_known: int) -> str:
    return _ENOUGH if n_known >= MIN_FOR_FIGURE else _warning("at least 2 are needed")


def _warning(words: str) -> str:
    return f":yellow[:material/warning:] {words}"


def _to_do(saved: Savings, rate: float) -> Words:
    frame = reading().frame
    share = wording.percent(rate, 0)
    if frame.settings.phase == "passive":
        return Words("**Switch the learner to active**; from then on armscope chooses the arms of each run.")
    if frame.settings.baseline_rate == 0:
        return (
            f"**Set the baseline rate to {share}**, the recommendation for "
            f"{wording.things(frame.n_arms, 'arm')}. {_how_long(saved, rate)}"
        )
    if saved.left_out.imported:
        return (
            f"**Let armscope choose the arms of new runs.** The {wording.count(saved.left_out.imported)} "
            "imported runs were not drawn by armscope; they cannot be compared. "
            f"{_how_long(saved, frame.settings.baseline_rate)}"
        )
    return (
        "**Let your agent ask armscope** what goes into its prompt; every run it records counts here. "
        f"{_how_long(saved, frame.settings.baseline_rate)}"
    )


def _how_long(saved: Savings, rate: float) -> Words:
    """After how many runs there is a first figure, and a good one."""
    first = f"After about {wording.count(max(2 / rate, 2))} runs there is a first figure"
    if saved.variation is None:
        return f"{first}."
    target = saved.need.target_points
    n_runs = runs_until(target, variation=saved.variation, baseline_rate=rate)
    if n_runs is None:
        return f"{first}."
    about = wording.count(float(f"{n_runs:.2g}"))
    return f"{first}; if runs vary as those so far, after about {about} it is good to ± {target:g} points."


def _command(rate: float) -> str:
    settings = reading().frame.settings
    if settings.phase == "passive":
        return command("settings set phase active")
    if settings.baseline_rate == 0:
        return command(f"settings set baseline_rate {rate:.2f}")
    return command("select --json")
