"""Recall, false alarms and speed of the search for secrets: ``python -m tests.bench.secrets``.

The recall without the rows of an issuer is that of the general rules alone: for each of ten seeds, half of the
issuers lose their rows, and their keys are looked for.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from core import secrecy
from core.issuers import ISSUERS, Issuer
from core.secrecy import secrets_in_all
from tests.secret_kinds import CHOSEN, HARMLESS, ISSUED, NAMED, PLACED, in_sentence, made

VALUES: Final = 20
HALVES: Final = 10
_PROSE: Final = "The parser drops the last record, so the count is one short. See src/parser/test_last.py. "


def texts_of(forms: Iterable[str], chance: random.Random) -> list[str]:
    """Return texts of each form in a sentence, with values drawn."""
    return [in_sentence(made(form, chance), chance) for form in forms for _ in range(VALUES)]


def recall(texts: list[str]) -> float:
    """Return the share of texts that are reported."""
    return sum(map(bool, secrets_in_all(texts))) / len(texts)


@contextmanager
def without(rows: set[Issuer]) -> Iterator[None]:
    """Take rows out of the table."""
    kept = {start: [*held] for start, held in secrecy._ROWS.items()}, [*secrecy._INSIDE]
    for held in secrecy._ROWS.values():
        held[:] = [row for row in held if row not in rows]
    secrecy._INSIDE[:] = [(fixed, row) for fixed, row in secrecy._INSIDE if row not in rows]
    try:
        yield
    finally:
        for start, held in kept[0].items():
            secrecy._ROWS[start][:] = held
        secrecy._INSIDE[:] = kept[1]


def unknown_issuers(seed: int) -> float:
    """Return the recall of half of the issuers by the general rules alone."""
    chance = random.Random(seed)
    names = sorted(ISSUED)
    chance.shuffle(names)
    forms = [form for name in names[: len(names) // 2] for form in ISSUED[name]]
    samples = [f" {made(form, chance)} " for form in forms for _ in range(3)]
    rows = {row for row in ISSUERS if any(row.form.search(sample) for sample in samples)}
    with without(rows):
        return recall(texts_of(forms, chance))


def nanoseconds() -> float:
    """Return the time of a letter in texts as agents write them."""
    chance = random.Random(3)
    texts = [" ".join([_PROSE * 8, kind(chance), _PROSE * 8]) for kind in HARMLESS for _ in range(10)]
    began = time.process_time()
    secrets_in_all(texts)
    return (time.process_time() - began) * 1e9 / sum(map(len, texts))


def main() -> None:
    """Print the figures."""
    chance = random.Random(1)
    issued = [form for forms in (*ISSUED.values(), *CHOSEN.values()) for form in forms]
    for name, forms in (("issued", issued), ("named", NAMED), ("placed", PLACED)):
        _say(f"recall, {name}: {recall(texts_of(forms, chance)):.4f} of {len(forms)} forms x {VALUES} values")
    halves = [unknown_issuers(seed) for seed in range(HALVES)]
    _say(f"recall, issuers without rows: {sum(halves) / HALVES:.3f} ({min(halves):.3f} to {max(halves):.3f})")
    harmless = [in_sentence(kind(chance), chance) for kind in HARMLESS for _ in range(VALUES)]
    _say(f"false alarms: {recall(harmless):.4f} of {len(HARMLESS)} kinds x {VALUES} values")
    _say(f"time of a letter: {min(nanoseconds() for _ in range(5)):.0f} ns")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
