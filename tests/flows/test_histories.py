"""Random histories of everything that can be done, held against the plain model of the rules."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest

from core.flows import queries
from core.flows.export import export_file
from core.flows.importing import import_files
from core.records.arm import Posterior
from tests.worlds import context_at
from tests.worlds.history import History


def shuffled(lines: list[bytes], random: Random) -> list[bytes]:
    """Exported lines in another order that means the same: anything between two resets may change places,
    but a run comes before what is stated about it, and corrections of one run and arm keep their order.
    """
    head = [line for line in lines if _field(line, "kind") in {"learner", "arm"}]
    stretches: list[list[bytes]] = [[]]
    for line in lines[len(head) :]:
        if _field(line, "kind") == "reset":
            stretches += [[line], []]
        else:
            stretches[-1].append(line)
    return head + [line for stretch in stretches for line in _shuffled_stretch(stretch, random)]


def _shuffled_stretch(lines: list[bytes], random: Random) -> list[bytes]:
    runs = [line for line in lines if _field(line, "kind") == "run"]
    rewards = [line for line in lines if _field(line, "kind") == "reward"]
    corrections = [line for line in rewards if _field(line, "observation") == "correction"]
    others = [line for line in lines if line not in runs and line not in corrections]
    random.shuffle(runs)
    random.shuffle(others)
    return runs + others + corrections


def _field(line: bytes, name: str) -> object:
    return msgspec.json.decode(line).get(name)


def _same_belief(posterior: Posterior) -> Posterior:
    return msgspec.structs.replace(posterior, epoch=0)  # epochs are named by each learner's own revisions


def _check_history(folder: Path, seed: int) -> None:
    history = History(folder, seed)
    for _ in range(5):
        history.play(7)
        history.check()
    exported = folder / "export.jsonl"
    export_file(history.context, exported)
    lines = exported.read_bytes().splitlines(keepends=True)
    for name, told in {"same": lines, "shuffled": shuffled(lines, Random(seed))}.items():
        file = folder / f"{name}.jsonl"
        file.write_bytes(b"".join(told))
        other = context_at(folder / f"{name}.db")
        import_files(other, [file])
        mine = [_same_belief(one) for one in queries.posteriors(history.context)]
        assert [_same_belief(one) for one in queries.posteriors(other)] == mine
        assert queries.verify(other).clean


@pytest.mark.parametrize("seed", range(30))
def test_random_histories_fold_to_what_the_rules_say(tmp_path: Path, seed: int) -> None:
    _check_history(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 2_000))
def test_a_thousand_random_histories(tmp_path: Path, seed: int) -> None:
    _check_history(tmp_path, seed)
