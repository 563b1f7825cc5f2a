"""Every kind of damage to a database has one name, whichever command meets it; and nothing is answered over it."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from core.demo import LEARNER, build
from core.flows.context import Context
from core.flows.learn import reward
from core.records.actor import Actor
from core.store.store import Store
from tests.doors.conftest import Shell, document
from tests.engine import file_database

PAGE = 4096
N_ACTS = 30
N_DAMAGES = 2
"""Of each kind; every command meets each of them."""
World = dict[str, bytes]
Damage = Callable[[World, Random], None]

READING = [
    ("status",),
    ("posteriors",),
    ("arms",),
    ("runs", "--limit", "1000"),
    ("run", "5"),
    ("learners",),
    ("settings",),
    ("select",),
    ("export", "out.jsonl"),
    ("export", "out.csv", "--format", "csv"),
    ("backup", "out.db"),
    ("upgrade",),
]
WRITING = [
    ("reward", "tool:fs:Read", "0.5"),
    ("note", "tool:fs:Read", "slow"),
    ("settings", "set", "k", "3"),
    ("reset", "--yes"),
    ("undo", "reward-1"),
    ("import", "runs.jsonl"),
]


def flipped(world: World, dice: Random) -> None:
    """Two thousand bits anywhere, or a few where every row is."""
    content = bytearray(world["db"])
    for _ in range(2_000):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    world["db"] = bytes(content)


def zeroed(world: World, dice: Random) -> None:
    pages = _pages(world["db"])
    pages[dice.randrange(len(pages))] = bytes(PAGE)
    world["db"] = b"".join(pages)


def swapped(world: World, dice: Random) -> None:
    pages = _pages(world["db"])
    one, other = dice.sample(range(1, len(pages)), 2)
    pages[one], pages[other] = pages[other], pages[one]
    world["db"] = b"".join(pages)


def cut(world: World, dice: Random) -> None:
    world["db"] = world["db"][: dice.randrange(1, len(world["db"]))]


def header(world: World, dice: Random) -> None:
    """Where it says whose file it is, how large its pages are, where free ones begin, how text is written."""
    place = dice.choice([*range(16), 16, 18, 19, 21, 35, 39, 47, 59])
    content = bytearray(world["db"])
    content[place] ^= 0x5A
    world["db"] = bytes(content)


def log(world: World, dice: Random) -> None:
    """A few bits of acts that others follow: the last one of a log may be one that was never finished."""
    content = bytearray(world["log"])
    for _ in range(3):
        content[dice.randrange(len(content) // 2)] ^= 1 << dice.randrange(8)
    world["db"], world["log"] = world["db of log"], bytes(content)


KINDS: list[Damage] = [flipped, zeroed, swapped, cut, header, log]
OFTEN = (flipped, header, log)
TRIED = [kind if kind in OFTEN else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]


def _pages(content: bytes) -> list[bytes]:
    return [content[start : start + PAGE] for start in range(0, len(content), PAGE)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A small world that has seen everything, closed; and the same with some acts still in its log."""
    path = tmp_path_factory.mktemp("sound") / "a.db"
    build(path, n_runs=120)
    world = {"db": path.read_bytes()}
    context = Context(store=Store(path), learner=LEARNER, actor=Actor(name="op"))
    for _ in range(N_ACTS):
        reward(context, "tool:fs:Read", 0.5)
    copies = path.with_name("copy.db"), path.with_name("copy.db-wal")
    shutil.copy(path, copies[0])
    shutil.copy(f"{path}-wal", copies[1])
    context.store.close()
    return {**world, "db of log": copies[0].read_bytes(), "log": copies[1].read_bytes()}


def placed(sound: World, kind: Damage, seed: int, path: Path) -> None:
    for beside in ("", "-wal", "-shm", ".lock", ".lock.turn"):
        Path(f"{path}{beside}").unlink(missing_ok=True)
    world = dict(sound)
    kind(world, Random(f"{kind.__name__} {seed}"))
    path.write_bytes(world["db"])
    if kind is log:
        Path(f"{path}-wal").write_bytes(world["log"])


@pytest.mark.parametrize("kind", TRIED, ids=lambda kind: kind.__name__)
def test_every_kind_of_damage_is_named_by_whoever_meets_it(
    sound: World, kind: Damage, shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, became, slowest_ms = tmp_path / "a.db", Counter[str](), 0.0
    line = {"kind": "run", "uid": "later", "arms": ["tool:fs:Read"], "calls": ["Read"]}
    (tmp_path / "runs.jsonl").write_text(json.dumps(line))
    for seed in range(N_DAMAGES):
        for command in (("verify",), *WRITING):
            placed(sound, kind, seed, path)
            began = time.perf_counter()
            found = shell("--learner", LEARNER, *command, "--json")
            slowest_ms = max(slowest_ms, (time.perf_counter() - began) * 1e3)
            answer = document(found, 1)
            assert (answer["ok"], answer["code"]) == (False, "store_damaged"), (seed, command, answer)
            assert "armscope restore" in answer["next"], (seed, command, answer)
        for command in READING:
            for left in tmp_path.glob("out*"):
                left.unlink()
            placed(sound, kind, seed, path)
            code, out, problem = shell("--learner", LEARNER, *command, "--json")
            answer = json.loads(out)
            assert problem == ""
            assert code == 0 or answer["code"] in {"store_damaged", "unknown_run"}, (seed, command, answer)
            became["read" if code == 0 else answer["code"]] += 1
    with capsys.disabled():
        sys.stdout.write(
            f"\n{kind.__name__}: {N_DAMAGES} named by verify and refused by every act; reading {dict(became)}; "
            f"slowest act {slowest_ms:.0f} ms\n"
        )


def test_a_sound_database_is_looked_over_once_and_no_more(sound: World, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(sound["db"])
    context = Context(store=Store(path), learner=LEARNER, actor=Actor(name="op"))
    database = file_database(context.store)
    reward(context, "tool:fs:Read", 0.5)
    first = database.looked_over_ms
    assert first > 0
    reward(context, "tool:fs:Read", 0.5)
    assert database.looked_over_ms == first
    context.store.close()
    later = Context(store=Store(path), learner=LEARNER, actor=Actor(name="op"))
    reward(later, "tool:fs:Read", 0.5)
    assert file_database(later.store).looked_over_ms == first, "it lay there as it was left"
    later.store.close()
    with path.open("r+b") as file:  # someone else has had it in his hands
        file.seek(92)
        file.write(file.read(1))
    again = Context(store=Store(path), learner=LEARNER, actor=Actor(name="op"))
    reward(again, "tool:fs:Read", 0.5)
    assert file_database(again.store).looked_over_ms > first
    tomorrow = Context(
        store=again.store, learner=LEARNER, actor=again.actor, clock=lambda: first + 26 * 3_600_000
    )
    reward(tomorrow, "tool:fs:Read", 0.5)
    assert file_database(again.store).looked_over_ms == first + 26 * 3_600_000


@pytest.mark.parametrize("kind", TRIED, ids=lambda kind: kind.__name__)
def test_a_backup_takes_the_place_of_a_damaged_database_which_is_kept(
    sound: World, kind: Damage, shell: Shell, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    (tmp_path / "copy.db").write_bytes(sound["db"])
    placed(sound, kind, 0, path)
    damaged = path.read_bytes()
    found = document(shell("restore", "copy.db", "--yes", "--json"))
    assert (found["runs"], found["database"]) == (120, str(path))
    kept = Path(found["kept"])
    assert kept.read_bytes()[PAGE:] == damaged[PAGE:] or kind is log
    assert document(shell("--learner", LEARNER, "verify", "--json"))["ok"] is True
    assert document(shell("--learner", LEARNER, "reward", "tool:fs:Read", "1", "--json"))["pulls"] > 0
