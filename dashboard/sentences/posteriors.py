"""Posteriors: which arms earn their place."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard import wording
from dashboard.figures.arms import ArmRow
from dashboard.sentences.phrase import EARNS, Phrase, Sentence


def posteriors(arms: Sequence[ArmRow]) -> Sentence:
    """Which of the chosen arms earn their place, which hardly help, and how many are open."""
    useful = [row for row in arms if row.lower > EARNS]
    useless = [row for row in arms if row.upper < EARNS]
    n_open = len(arms) - len(useful) - len(useless)
    parts: list[str | Phrase] = []
    if useful:
        parts += [*_names(sorted(useful, key=lambda row: -row.mean)[:2]), _earn(useful)]
    if useless:
        worst = min(useless, key=lambda row: row.mean)
        hardly = "almost never helps" if worst.mean < 0.2 else "rarely helps"
        parts += ["; " if parts else "", Phrase(_name(worst)), f" {hardly}"]
    counted = f"{wording.number_word(n_open)} of {wording.number_word(len(arms))}"
    if not parts:
        return ("Nothing is settled yet: ", Phrase(counted), f" {'is' if n_open == 1 else 'are'} still open.")
    return (*parts, f"; {counted} {'is' if n_open == 1 else 'are'} still open." if n_open else ".")


def _names(arms: Sequence[ArmRow]) -> list[str | Phrase]:
    parts: list[str | Phrase] = []
    for at, row in enumerate(arms):
        parts += [" and " if at else "", Phrase(_name(row))]
    return parts


def _name(row: ArmRow) -> str:
    return wording.literal(wording.last_name(row.key))


def _earn(useful: Sequence[ArmRow]) -> str:
    return " earns its place" if len(useful) == 1 else " earn their place"
