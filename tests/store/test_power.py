"""Power losses: what was answered is there, nothing is by halves, and the simulation could tell if it were not."""

from __future__ import annotations

from itertools import chain
from random import Random

import msgspec
import pytest

from tests.store.child import say
from tests.store.power import Drive, Figures, changed, figures, sectors
from tests.store.recording import Name, Sync, SyncFolder, Truncate, Write

pytestmark = [pytest.mark.usefixtures("noted_sqlite"), pytest.mark.of_file]


_MOST_TRIES = 6


def test_what_was_answered_outlives_a_power_loss_at_any_moment() -> None:
    found = figures(1, n_acts=30, n_losses=30)
    assert found.unexplained == []
    assert found.losses == 60
    assert found.again == 30, "every second one strikes while the first is recovered from"
    assert (found.lost, found.halves, found.unusable, found.unclean) == (0, 0, 0, 0)


def test_a_database_that_was_being_made_is_made_again() -> None:
    """A journal may be left beside it, which a reader can't roll back."""
    found = figures(2, n_acts=0, n_losses=20)
    assert found.unexplained == []
    assert found.losses == 40


@pytest.mark.parametrize(
    ("synchronous", "n_losses", "seed"),
    [
        ("NORMAL", 10, 5),
        ("OFF", 10, 2),
        pytest.param("NORMAL", 40, 2, marks=pytest.mark.long),
        pytest.param("OFF", 15, 2, marks=pytest.mark.long),
    ],
)
def test_the_simulation_finds_what_less_syncing_loses(synchronous: str, n_losses: int, seed: int) -> None:
    # The machine's pace decides which moments a loss strikes; on most machines the first seed finds one that loses.
    each = [figures(seed, n_acts=30, n_losses=n_losses, synchronous=synchronous)]
    while synchronous == "NORMAL" and each[-1].lost == 0 and len(each) < _MOST_TRIES:
        each.append(figures(seed + len(each), n_acts=30, n_losses=n_losses, synchronous=synchronous))
    found = each[-1]
    if synchronous == "NORMAL":
        assert found.lost > 0
        words = ("in its log can't be read", "damaged place", "Difference(table='file'")
        said = [one for one in found.unexplained if any(part in one for part in words)]
        assert (found.halves, found.unusable + found.unclean) == (0, len(said)), "lost, but whole or said"
    else:
        assert found.unusable > 0, "nothing orders the log before the pages it protects"


@pytest.mark.long
def test_three_thousand_power_losses(capsys: pytest.CaptureFixture[str]) -> None:
    total = Figures()
    for seed in range(100, 115):
        total += figures(seed, n_acts=60, n_losses=100)
    with capsys.disabled():
        say(f"\npower losses: {msgspec.json.encode(total).decode()}")
    assert total.unexplained == []
    assert total.losses == 3_000
    assert (total.lost, total.halves, total.unusable, total.unclean) == (0, 0, 0, 0)


# The simulated disk itself


def test_a_write_falls_into_the_sectors_it_touches() -> None:
    parts = list(sectors(Write(1, 500, bytes(range(256)) * 4)))
    assert [(part.offset, len(part.data)) for part in parts if isinstance(part, Write)] == [
        (500, 12),
        (512, 512),
        (1024, 500),
    ]
    assert b"".join(part.data for part in parts if isinstance(part, Write)) == bytes(range(256)) * 4


def test_a_file_after_changes_has_zeros_where_nothing_was_written() -> None:
    assert changed(b"abc", [Write(1, 5, b"x"), Truncate(1, 7), Write(1, 0, b"A")]) == b"Abc\0\0x\0"
    assert changed(b"abc", [Truncate(1, 1)]) == b"a"


def test_only_what_was_synced_is_sure() -> None:
    drive = Drive.of({"a": (1, b"old")})
    seen: set[tuple[tuple[str, bytes], ...]] = set()
    for step in (Name("b", 2), Write(2, 0, b"new"), Sync(2), Write(1, 0, b"NEW")):
        drive.take(step)
    for seed in range(200):
        seen.add(tuple(sorted(drive.after_a_power_loss(Random(seed)).items())))
    contents = {content for found in seen for name, content in found if name == "a"}
    assert {b"old", b"NEW", b"Nld", b"olW"} <= contents, "kept, lost, or torn at either end"
    assert {name for name, _ in chain.from_iterable(seen)} == {"a", "b"}
    assert any(len(found) == 1 for found in seen), "its name was not synced"
    drive.take(SyncFolder())
    drive.take(Sync(1))
    assert drive.after_a_power_loss(Random(0)) == {"a": b"NEW", "b": b"new"}
