"""Compacting: what is left of deleted runs, what is known of them, and what proves it.

`tests.flows.test_compact_machine` has the beliefs, and what is refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Conflict, NotApplicable
from core.flows import queries
from core.flows.bundle import export_bundle
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record_all, reward
from core.flows.select import select
from core.flows.settings import change
from core.formats.armscope import write
from core.records.arm import MICRO, Arm
from core.records.evaluation_lines import ChoiceLine, ExecutionLine
from core.records.layer import adapter_uri, layer_uid
from core.records.ledger_lines import LedgerLine
from core.records.limits import LAST_MS
from core.records.queue_lines import ItemLine, QueueLine
from core.records.run import Run
from core.store.compacted import DecidedRun, ObservedRow, Sums, sources_of, uid_key
from core.store.compacting import digest_of
from core.store.rollup import USAGE_SUMS, Rollup
from core.store.tables import metadata
from core.store.texts import execution_uid
from core.store.transaction import Epochs
from tests.engine import content, copy_world, named
from tests.store.compacting import compact_until
from tests.worlds import HOUR_MS, IN_PARTS, START_MS, a_run, chosen_among, context_at, lines_file, run_line

ARMS = [f"arm-{number}" for number in range(30)]
CACHES = ("posterior", "arm_hour", "arm_day", "usage_hour", "usage_day")

WORD = "PLANTED"
JUDGED = ["run", "execution", "first", "second", "item", "of another"]
"""Runs that feedback, or an item of a queue, is about."""

_COUNTS = st.integers(0, 1 << 40)
_WORDS = st.text(max_size=3)
_KINDS = st.tuples(_WORDS, _WORDS, _WORDS, _WORDS, _WORDS, st.integers(-1, 2_000_000))


def rows_of(context: Context, *tables: str) -> dict[str, list[tuple[object, ...]]]:
    with context.store.reading(context.learner) as snapshot:
        return {
            table: sorted(snapshot.connection.rows(f"SELECT * FROM {table}"), key=str) for table in tables
        }


def recorded(
    context: Context, n_runs: int, *, by_hour: int = 4, uid: str = "run-{}", has_sessions: bool = False
) -> None:
    """Runs with thirty arms, some of which were called; with ``has_sessions`` each has a session of its own."""
    dice = Random(1)
    record_all(
        context,
        [
            msgspec.structs.replace(
                a_run(
                    uid.format(number),
                    ARMS,
                    dice.sample(ARMS, 3),
                    at_ms=START_MS + number * HOUR_MS // by_hour,
                    tokens=dice.randrange(100, 90_000),
                    model="small",
                    run_class="selected" if has_sessions else "imported",
                ),
                session=f"session-{number}" if has_sessions else None,
            )
            for number in range(n_runs)
        ],
    )


# What is left


def test_no_cache_changes_and_verify_proves_them(context: Context) -> None:
    recorded(context, 300)
    before = rows_of(context, *CACHES)
    assert compact_until(context, START_MS + 50 * HOUR_MS) == 200
    assert rows_of(context, *CACHES) == before
    assert queries.verify(context).clean
    assert (queries.status(context).runs, len(rows_of(context, "run")["run"])) == (300, 100)


def test_only_runs_that_nothing_else_is_about_are_deleted(context: Context) -> None:
    recorded(context, 10)
    given_reward = reward(context, "tool:other:arm-1", 0.5, run="run-3")
    undo(context, given_reward.id)
    assert compact_until(context, LAST_MS) == 9
    redo(context, given_reward.id)
    assert queries.verify(context).clean
    assert [one.run for one in queries.rewards(context)] == ["run-3"]


# Texts


def spoken(uid: str, **fields: object) -> Run:
    made = a_run(uid, at_ms=START_MS)
    return msgspec.structs.replace(
        made, texts=(f"{WORD} answer of {uid}",), prompt=f"{WORD} request of {uid}", **fields
    )


def judged_context(folder: Path) -> Context:
    """Runs with texts, of which some are judged in each way there is; half came from a file."""
    context = context_at(folder / "a.db")
    change(context, "keep_texts", value=True)
    layer = layer_uid(adapter_uri(context.learner))
    own = {uid: execution_uid(uid) for uid in JUDGED}
    file = folder / "said.jsonl"
    file.write_bytes(b"".join(write([spoken(f"told {number}") for number in range(3)])))
    import_files(context, [file])
    record_all(context, [spoken(f"recorded {number}") for number in range(3)])
    record_all(context, [spoken(uid) for uid in JUDGED])
    evaluate(context, "run", "success", feedback=WORD)
    evaluate(context, own["execution"], "failure")
    about = folder / "judged.jsonl"
    lines: list[LedgerLine] = [
        ChoiceLine(
            id="c", layer=layer, first=own["first"], second=own["second"], chosen="first", rater="kim"
        ),
        QueueLine(
            id="q", name="Week 12", items=(ItemLine(no=1, layer=layer, execution=own["item"]),), by="kim"
        ),
        ExecutionLine(
            uid="11111111-2222-4333-8444-555555555555", adapter="kairos://adapter/a", run="of another"
        ),
    ]
    about.write_bytes(b"".join(write(lines)))
    assert import_files(context, [about]).rejected == ()
    return context


def test_texts_go_with_their_runs_and_feedback_keeps_them(tmp_path: Path) -> None:
    context = judged_context(tmp_path)
    export_file(context, tmp_path / "before.jsonl")
    assert queries.verify(context).clean
    assert compact_until(context, LAST_MS) == 6
    assert queries.verify(context).clean
    assert sorted(run.uid for run in queries.runs(context)) == sorted(JUDGED)
    left = rows_of(context, "execution", "training_pair", "run_text")
    assert len(left["execution"]) == len(JUDGED) + 1
    assert len(left["training_pair"]) == len(JUDGED)
    for uid in JUDGED:
        assert WORD in str(queries.transcript(context, uid).messages)
    indexed = rows_of(context, "text_index")["text_index"]
    assert len([row for row in indexed if row[1] != "built"]) == len(JUDGED)
    context.store.database.scour()
    assert f"{WORD} request of recorded".encode() not in content(context.store)
    assert f"{WORD} request of told".encode() not in content(context.store)
    again = import_files(context, [tmp_path / "said.jsonl", tmp_path / "before.jsonl"])
    assert again.rejected == ()
    assert len(rows_of(context, "execution")["execution"]) == len(JUDGED) + 1
    assert queries.verify(context).clean


def test_an_import_that_brought_only_texts_lost_the_run_too(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    file.write_bytes(b"".join(write([spoken("r")])))
    imports = [import_files(context, [file])]
    change(context, "keep_texts", value=True)
    imports.append(import_files(context, [file]))
    assert rows_of(context, "execution")["execution"]
    assert compact_until(context, LAST_MS) == 1
    assert not rows_of(context, "execution")["execution"]
    for one in imports:
        with pytest.raises(NotApplicable, match="compact deleted 1 of them"):
            undo(context, one.id)
    assert queries.verify(context).clean


# Bytes


def bytes_of_rows(context: Context, tables: set[str]) -> int:
    """Bytes of pages with these tables and their indexes."""
    with context.store.reading(context.learner) as snapshot:
        sizes = snapshot.connection.rows(
            "SELECT m.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_master m ON m.name = d.name GROUP BY 1"
        )
    return sum(size for table, size in sizes if table in tables)


@pytest.mark.of_file
@pytest.mark.parametrize(("by_hour", "has_sessions"), [(1, False), (20, False), (20, True)])
@pytest.mark.parametrize("uid", ["run-{}", "pi/turn/an-identity-of-a-session/{}"])
def test_at_most_15_percent_of_the_bytes_are_left(
    context: Context, by_hour: int, has_sessions: bool, uid: str
) -> None:
    """Of a compacted run; the caches of all runs stay as they are."""
    recorded(context, 3_000, by_hour=by_hour, uid=uid, has_sessions=has_sessions)
    left = {"compaction", "compacted", "compacted_import"}
    of_runs = {name for name, table in metadata.tables.items() if "run_no" in table.columns} | {"provenance"}
    before = bytes_of_rows(context, of_runs)
    assert compact_until(context, LAST_MS) == 3_000
    assert context.store.database.scour()
    assert bytes_of_rows(context, left) <= 0.15 * before
    assert not any(rows_of(context, *sorted(of_runs)).values())


def test_chances_go_with_exports_and_stay_of_deleted_runs(context: Context, tmp_path: Path) -> None:
    offered = [Arm(key=f"tool:other:{name}", token_cost=100) for name in ARMS]
    new = select(context, offered, budget_tokens=2_000)
    decisions = [msgspec.structs.replace(one, chance=msgspec.UNSET) for one in new.decisions]
    old = msgspec.structs.replace(new, decisions=tuple(decisions))
    runs = [
        chosen_among(uid, one, offered, ended_at_ms=START_MS) for uid, one in (("new", new), ("old", old))
    ]
    record_all(context, runs)
    export_bundle(context, tmp_path / "a.zip")
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "a.zip"])
    chances = {one.arm: one.chance for one in new.decisions}
    for one in (context, other):
        assert {arm.arm: arm.chance for arm in queries.run(one, "new").arms} == chances
        assert {arm.chance for arm in queries.run(one, "old").arms} == {None}
        assert queries.verify(one).clean
    assert compact_until(other, LAST_MS) == len(runs)
    ((*_, sums),) = rows_of(other, "compaction")["compaction"]
    keys = {number: key for _, number, key, *_ in rows_of(other, "arm")["arm"]}
    assert isinstance(sums, bytes)
    rows = {keys[one.arm_no]: divmod(one.decided, 2) for one in Sums.unpacked(sums).decided_arms()}
    assert {arm: chance / MICRO for arm, (chance, _) in rows.items()} == chances
    assert {arm for arm, (_, is_in) in rows.items() if is_in} == {*new.included}
    assert queries.verify(other).clean


# What is known


def test_an_import_knows_compacted_runs(tmp_path: Path) -> None:
    for number, pace in enumerate((None, IN_PARTS)):
        context = context_at(tmp_path / f"{number}.db")
        context = context if pace is None else replace(context, pace=pace)
        file = lines_file(tmp_path / "runs.jsonl", *(run_line(f"r{at}") for at in range(5)))
        import_files(context, [file])
        assert compact_until(context, LAST_MS) == 5
        before = rows_of(context, *CACHES)
        again = import_files(context, [file])
        assert (again.id, again.duplicates, again.notes) == (None, 5, ())
        longer = lines_file(tmp_path / "longer.jsonl", run_line("r1", "abc", rank=3), run_line("r7"))
        more = import_files(context, [longer])
        assert (more.duplicates, more.updated, len(more.notes)) == (1, 0, 1)
        undo(context, more.id)
        after = rows_of(context, *CACHES)
        assert [after[table] for table in ("arm_hour", "usage_hour")] == [
            before[table] for table in ("arm_hour", "usage_hour")
        ]
        assert queries.verify(context).clean


def test_a_source_in_another_unit_is_refused_as_before(tmp_path: Path) -> None:
    for unit, other in (("turn", "episode"), ("episode", "turn")):
        context = context_at(tmp_path / f"{unit}.db")
        ends = {"turn": "/0", "episode": ""}
        first, second = (
            run_line(f"f/{one}/s{ends[one]}", unit=one, format="f", source="s") for one in (unit, other)
        )
        import_files(context, [lines_file(tmp_path / "1.jsonl", first)])
        assert compact_until(context, LAST_MS) == 1
        refused = import_files(context, [lines_file(tmp_path / "2.jsonl", second, run_line("new"))])
        assert (refused.rejected_count, refused.runs) == (1, 1)


def test_a_longer_copy_of_a_compacted_run_is_refused(context: Context) -> None:
    runs = [a_run("r", at_ms=START_MS), a_run("s", at_ms=START_MS)]
    record_all(context, runs)
    compact_until(context, LAST_MS)
    assert [one.told for one in record_all(context, runs)] == ["duplicate", "duplicate"]
    with pytest.raises(Conflict, match="compaction 1 has deleted it"):
        record_all(context, [a_run("r", calls=("a", "b"), rank=1)])


def test_an_import_that_lost_runs_stays(context: Context, tmp_path: Path) -> None:
    first = import_files(context, [lines_file(tmp_path / "1.jsonl", run_line("r1"), run_line("r2"))])
    second = import_files(context, [lines_file(tmp_path / "2.jsonl", run_line("r2"), run_line("r3"))])
    undo(context, second.id)
    compact_until(context, LAST_MS)
    with pytest.raises(NotApplicable, match="compact deleted 2 of them"):
        undo(context, first.id)
    with pytest.raises(NotApplicable, match="compact deleted 1 of them"):
        redo(context, second.id)
    assert queries.verify(context).clean
    assert [row[1] for row in rows_of(context, "compacted_import")["compacted_import"]] == [1, 2]


# What proves it


def test_a_backup_proves_which_runs_were_compacted(context: Context) -> None:
    recorded(context, 20)
    with context.store.reading(context.learner) as snapshot:
        facts = snapshot.connection.rows(
            "SELECT run_no, uid, import_no, revision, rank, trace, digest FROM run"
        )
    compact_until(context, LAST_MS)
    ((digest,),) = context.store.database.write(lambda one: one.rows("SELECT digest FROM compaction"))
    assert digest_of(sorted(facts)) == bytes(digest)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE compaction SET n_runs = n_runs + 1",
        "UPDATE compaction SET until_ms = until_ms + 1",
        "UPDATE compaction SET first_ms = first_ms + 1",
        "UPDATE compaction SET digest = sums",
        "DELETE FROM compaction",
        "UPDATE compacted SET trace = trace + 1",
        "UPDATE compacted SET compaction_no = 7",
        "DELETE FROM compacted WHERE uid_high = (SELECT max(uid_high) FROM compacted)",
        "DELETE FROM compacted_import",
        "UPDATE compacted_import SET n_runs = 1",
    ],
)
def test_every_change_of_what_is_left_is_found(context: Context, tmp_path: Path, sql: str) -> None:
    import_files(context, [lines_file(tmp_path / "1.jsonl", run_line("r1"), run_line("r2"))])
    compact_until(context, LAST_MS)
    context.store.close()
    copy_world(named(context.store), tmp_path / "b.db")
    changed = context_at(tmp_path / "b.db")
    assert changed.store.database.write(lambda one: one.n_changed(sql, [()]))
    assert not queries.verify(changed).clean


# Sums and digests


class OneEpoch(Epochs):
    """An epoch for every segment: its own number."""

    def __init__(self) -> None:
        """Nothing is read."""

    def load(self, arm_nos: object) -> None:
        """Nothing is read."""

    def of(self, arm_no: int, revision: int) -> int:
        return revision - 1


@given(st.data())
def test_packed_sums_are_the_rollup(data: st.DataObject) -> None:
    rollup = Rollup()
    keys = st.tuples(st.integers(-1, 500_000), st.integers(1, 9), st.integers(0, 99))
    for key, (n_in, pulls, most) in data.draw(
        st.dictionaries(keys, st.tuples(_COUNTS, _COUNTS, _COUNTS))
    ).items():
        used = min(most, pulls)
        rollup.add(key, n_in, pulls, 0, used * 1_000_000, (pulls - used) * 1_000_000, n_in, used)
        rollup.saw(key[1], key[2], n_in)
    rows = st.lists(_COUNTS, min_size=len(USAGE_SUMS), max_size=len(USAGE_SUMS))
    places = st.tuples(st.integers(-1, 500_000), _KINDS, st.integers(-1, 300))
    for (hour, kind, bucket), sums in data.draw(st.dictionaries(places, rows)).items():
        rollup.usage[(hour, *kind, bucket)] = sums
    used_kinds = sorted({key[1:7] for key in rollup.usage})
    decided = [
        DecidedRun(1 << 62, 5 - at, 1 << 62, kind, 10, -1, at, 1) for at, kind in enumerate(used_kinds)
    ]
    number = st.integers(0, 99)
    keys_of_rows = st.tuples(st.integers(0, (1 << 63) - 1), st.integers(-1, 500_000), number, number)
    counts = st.dictionaries(keys_of_rows, st.tuples(_COUNTS, _COUNTS, _COUNTS))
    by_session = [ObservedRow(*key, *amounts) for key, amounts in sorted(data.draw(counts).items())]
    packed = Sums.unpacked(Sums.of(rollup, by_session, decided, 7).packed())
    assert packed.observed_rows().T.tolist() == [list(row) for row in by_session]
    again = packed.rollup(OneEpoch())
    assert (again.arms, again.usage, again.last) == (rollup.arms, rollup.usage, rollup.last)
    assert list(packed.decided_runs(1 << 62, range(9_999))) == [
        one for one in sorted(decided) if one.hour >= 0
    ]
    assert not list(packed.decided_runs((1 << 62) - 1, range(9_999)))


def test_sums_of_people_are_refused() -> None:
    rollup = Rollup()
    rollup.add((0, 1, 0), 1, 1, 0, 500_000, 500_000, 0, 0)
    with pytest.raises(ValueError, match="whole pulls"):
        Sums.of(rollup, [], [], 1)


@given(st.text(max_size=30))
def test_a_run_and_its_source_have_other_digests(uid: str) -> None:
    assert uid_key(uid) != uid_key(uid, is_source=True)
    assert all(-(1 << 63) <= part < 1 << 63 for part in uid_key(uid))
    assert all(uid.startswith(f"{one}/") for one in sources_of(uid))
