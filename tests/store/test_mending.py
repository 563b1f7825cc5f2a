"""A chain that has more than the rows is mended where stored states or the same file explain it, and only there.

``counted_twice.db.gz`` was written by version 0.2.0 of schema 0037, from the files of `sources_in`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import StoreDamaged
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.corrections import note
from core.flows.erase import erase
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.restore import restore
from core.records.verification import Verification, unprovable_words
from core.settings import Settings
from core.store.chain import ChainedConnection
from core.store.covered import Row
from core.store.episodes import _EpisodeVersion
from core.upkeep import known_damage
from tests.store.test_chain import execute, head, links_of
from tests.worlds import a_run, context_at

pytestmark = pytest.mark.of_file
KEPT: Final = Path(__file__).parent / "counted_twice.db.gz"
HEAD_OF_KEPT: Final = "5:8a2695cab36e92d4356a8f82572638121c1139d272d387b5fdfae5644cea7766"
A: Final = "tool:other:a"

Episodes = Sequence[tuple[str, list[float]]]

_STATES: Final = st.lists(
    st.tuples(st.sampled_from(["e1", "e2", "e3", "e4"]), st.integers(1, 4)), min_size=1, max_size=8
)

CHANGED: Final = {
    "a reward": "UPDATE observation SET success_micro = 700000, failure_micro = 300000 WHERE reason = 'half'",
    "a reason": "UPDATE observation SET reason = 'other' WHERE reason = 'half'",
    "a note": "UPDATE note SET text = 'fast'",
    "a time": "UPDATE note SET at_ms = at_ms + 1",
    "the time of an import": "UPDATE import SET at_ms = at_ms + 1 WHERE import_no = 1",
    "a reward of a step": "UPDATE step SET reward = 0.75 WHERE episode_no = 1 AND step_no = 0",
    "a step": "DELETE FROM step WHERE episode_no = 1 AND step_no = 1",
    "a model": "UPDATE episode SET model = 'm' WHERE episode_no = 1",
    "a source": "UPDATE provenance SET import_no = 7 WHERE kind = 'episode' AND no = 1",
    "a digest": "UPDATE provenance SET digest = digest + 1 WHERE kind = 'episode' AND no = 1",
    "a state in place of a longer one": "UPDATE provenance SET rank = 1 WHERE kind = 'episode' AND no = 1",
    "an entry of the log": "DELETE FROM audit WHERE audit_no = 2",
    "a run": "UPDATE run SET digest = digest + 1",
    "the learner": "UPDATE learner SET origin = 'other' WHERE learner_id = 1",
}

_COLUMNS: Final = (
    *(("note", name) for name in ("uid", "text", "actor", "at_ms", "revision")),
    *(("observation", name) for name in ("reason", "actor", "at_ms", "arm_no")),
    *(("step", name) for name in ("step_no", "reward", "kind", "at_ms", "finished")),
    *(("provenance", name) for name in ("revision", "rank", "digest", "import_no")),
    *(("episode", name) for name in ("uid", "at_ms", "task", "format")),
    *(("audit", name) for name in ("detail", "at_ms")),
)


def write_lines(path: Path, episodes: Episodes, **more: object) -> Path:
    lines = [
        {
            "kind": "episode",
            "uid": uid,
            "environment": "sums",
            **more,
            "steps": [{"number": number, "reward": reward} for number, reward in enumerate(rewards)],
        }
        for uid, rewards in episodes
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def sources_in(folder: Path) -> list[Path]:
    """Write the files: rewards that a later line corrects, and a job whose three trials have one id."""
    corrected = [(f"c{number}", [reward]) for reward in (0.0, 1.0) for number in range(40)]
    write_lines(folder / "corrected.jsonl", corrected)
    trials = (("exec write", 1), ("browser browser exec", 0), ("exec", 0))
    for number, (calls, reward_of_trial) in enumerate(trials):
        trial = folder / f"job/task{number}__x{number}"
        (trial / "agent").mkdir(parents=True)
        steps: list[dict[str, object]] = [{"source": "user", "message": "go"}]
        steps += [{"source": "agent", "tool_calls": [{"function_name": call}]} for call in calls.split()]
        trajectory = {"schema_version": "ATIF-v1.2", "session_id": "harbor", "steps": steps}
        (trial / "agent/trajectory.json").write_text(json.dumps(trajectory))
        result = {"trial_name": trial.name, "task_name": f"task{number}"}
        paid = {**result, "verifier_result": {"rewards": {"reward": reward_of_trial}}}
        (trial / "result.json").write_text(json.dumps(paid))
    return [folder / "corrected.jsonl", folder / "job"]


def kept_in(folder: Path) -> Path:
    path = folder / "kept.db"
    path.touch(0o600)
    path.write_bytes(gzip.decompress(KEPT.read_bytes()))
    return path


@contextmanager
def counting_twice() -> Iterator[None]:
    """Count as earlier versions did: an upsert takes a row of the same act for a new one, states have no place."""

    def inserted(self: ChainedConnection, table: str, rows: Sequence[Row], write: Callable[[], None]) -> None:
        self._chain.add(table, rows)
        write()

    with (
        patch.object(ChainedConnection, "_follow_insert", inserted),
        patch.object(_EpisodeVersion, "place", 0),
    ):
        yield


def broken_by(path: Path, *calls: Episodes) -> tuple[Context, list[Path]]:
    """Return a store in which each call was an import of an earlier version, and the files."""
    context = context_at(path)
    files = [
        write_lines(path.with_name(f"{path.stem}-{number}.jsonl"), episodes)
        for number, episodes in enumerate(calls)
    ]
    with counting_twice():
        for file in files:
            import_files(context, [file])
    record(context, a_run("r"))
    reward(context, A, 0.5, reason="half")
    note(context, A, "slow")
    return context, files


def verified(path: Path, noted: str | None = None) -> Verification:
    context = context_at(path)
    found = queries.verify(context, head=noted)
    context.store.close()
    return found


# What is explained


@given(st.lists(_STATES, min_size=1, max_size=3))
def test_stored_states_explain_what_grew(
    tmp_path_factory: pytest.TempPathFactory, calls: list[list[tuple[str, int]]]
) -> None:
    """In any order and number of states, imports and episodes; heads that were noted before are still there."""
    path = tmp_path_factory.mktemp("grown") / "a.db"
    context, _ = broken_by(path, *([(uid, [0.5] * n) for uid, n in states] for states in calls))
    noted, links = head(context), links_of(context)
    was_broken = not queries.verify(context).clean
    context.store.close()
    answer = maintenance.upgrade(path)
    assert [one.explained for one in answer.mended] == ["rows"] * was_broken
    assert (answer.broken, verified(path, noted).clean) == ((), True)
    again = context_at(path)
    assert links_of(again)[: len(links)] == links
    assert reward(again, A, 1.0).id
    assert queries.verify(again).clean
    again.store.close()


def test_the_same_file_explains_what_was_corrected(tmp_path: Path) -> None:
    path, sources = kept_in(tmp_path), sources_in(tmp_path)
    assert maintenance.upgrade(path).broken == ("default",)
    other = write_lines(tmp_path / "other.jsonl", [("c1", [0.25]), ("c1", [0.75])])
    for files in ([other], sources[:1], sources[1:]):
        assert maintenance.upgrade(path, explain=files).broken == ("default",)
    ((mended),) = maintenance.upgrade(path, explain=sources).mended
    assert (mended.learner, mended.until, mended.explained) == ("default", 5, "source")
    found = verified(path, HEAD_OF_KEPT)
    assert (found.clean, found.unprovable) == (True, {})
    assert maintenance.upgrade(path).mended == ()


def test_a_backup_that_the_rows_explain_is_restored_and_the_answer_names_it(tmp_path: Path) -> None:
    context, _ = broken_by(tmp_path / "a.db", [("e", [0.5]), ("e", [0.5, 1.0])])
    answer = maintenance.backup(context, tmp_path / "backup.db")
    assert "link, the last" in (answer.damage or "")
    context.store.close()
    assert [one.explained for one in restore(tmp_path / "a.db", tmp_path / "backup.db").mended] == ["rows"]
    assert verified(tmp_path / "a.db").clean


# What is not


@pytest.mark.parametrize("what", CHANGED)
def test_one_changed_fact_more_is_never_explained(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.db"
    context, files = broken_by(path, [("e", [0.5]), ("f", [1.0]), ("e", [0.5, 1.0])])
    backup = tmp_path / "backup.db"
    execute(context, CHANGED[what])
    assert maintenance.upgrade(path).broken == ("default",)
    assert maintenance.upgrade(path, explain=files).broken == ("default",)
    maintenance.backup(context_at(path), backup)
    with pytest.raises(StoreDamaged, match="differences") as refused:
        restore(tmp_path / "other.db", backup)
    assert "--explain SOURCE" in refused.value.next_step


@given(st.lists(st.integers(1, 3), min_size=2, max_size=4), st.sampled_from(_COLUMNS), st.data())
def test_no_drawn_change_is_explained(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], column: tuple[str, str], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("changed") / "a.db"
    context, files = broken_by(path, [("e", [0.5] * size) for size in sizes])
    table, name = column
    with context.store.database.reading() as connection:
        ((before,),) = connection.rows(f'SELECT max({name}) FROM "{table}" WHERE learner_id = 1')
    value: Any = data.draw(st.integers(2, 9) if isinstance(before, int | float) else st.sampled_from("xyz"))
    if before is not None and not isinstance(before, str):
        value = before + value
    execute(context, f"UPDATE OR IGNORE \"{table}\" SET {name} = '{value}' WHERE learner_id = 1")
    answer = maintenance.upgrade(path, explain=files)
    assert (answer.mended, answer.broken) == ((), ("default",))


def test_what_nothing_explains_stays_broken_until_a_person_accepts_it_for_good(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context, _ = broken_by(path, [("e", [0.5]), ("e", [0.5, 1.0])])
    noted = head(context)
    execute(context, CHANGED["the learner"])
    assert maintenance.upgrade(path).broken == ("default",)
    settings = Settings(database=path, actor=context.actor)
    assert maintenance.examine(settings).damage == known_damage(path)
    assert known_damage(path) == queries.status(context_at(path)).damage is not None
    (mended,) = maintenance.upgrade(path, accept_unprovable=True).mended
    assert (mended.explained, unprovable_words(4) in mended.words) == (None, True)
    again = context_at(path)
    for _ in range(2):
        found = queries.verify(again, head=noted)
        assert (found.clean, found.unprovable) == (True, {"default": 4})
        assert (queries.status(again).unprovable, queries.status(again).damage) == (4, None)
        assert maintenance.examine(settings).unprovable == {"default": 4}
        note(again, A, "later")
        erase(again, rater=again.actor.name)
    assert maintenance.backup(again, tmp_path / "backup.db").damage is None
    again.store.close()
    restore(path, tmp_path / "backup.db")
    assert verified(path).unprovable == {"default": 4}
    execute(context_at(path), "DELETE FROM mended")
    assert not verified(path).clean


def test_an_erased_key_leaves_nothing_to_explain(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context, files = broken_by(path, [("e", [0.5]), ("e", [0.5, 1.0])])
    erase(context, run="r")
    context.store.close()
    assert maintenance.upgrade(path, explain=files).broken == ("default",)
    assert maintenance.upgrade(path, accept_unprovable=True).broken == ()
    assert verified(path).unprovable == {"default": 5}


def test_links_that_do_not_follow_from_each_other_are_not_mended(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context, _ = broken_by(path, [("e", [0.5]), ("e", [0.5, 1.0])])
    execute(context, "UPDATE learner SET chain_head = x'00' WHERE learner_id = 1")
    with pytest.raises(StoreDamaged, match="must follow"):
        maintenance.upgrade(path, accept_unprovable=True)


# Known damage


def test_known_damage_is_named_until_a_check_finds_none(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context, _ = broken_by(path, [("e", [0.5]), ("e", [0.5, 1.0])])
    assert known_damage(path) is None
    maintenance.backup(context, tmp_path / "backup.db")
    assert known_damage(path) is not None
    context.store.close()
    maintenance.upgrade(path)
    assert known_damage(path) is None
