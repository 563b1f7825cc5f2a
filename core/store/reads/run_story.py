"""Run story: everything recorded of one run, whether it stands or not."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from core.records.run import InventoryKind, Phase, RunClass, Status, Unit
from core.records.verdict import Outcome
from core.store.transaction import Snapshot
from core.store.version import COLUMNS, Choice, Version, read_version


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one run; None = unknown. ``import_no`` 0 = recorded directly."""

    run_no: int
    uid: str
    import_no: int
    revision: int
    standing: bool
    format: str
    unit: Unit
    session: str | None
    at_ms: int | None
    naive_time: bool
    provider: str | None
    model: str | None
    channel: str | None
    run_class: RunClass
    phase: Phase
    status: Status
    outcome: Outcome
    tokens: int | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    duration_ms: int | None
    prompt_chars: int | None
    n_calls: int
    n_real_calls: int
    reward: float | None
    inventory: InventoryKind
    not_offered: tuple[str, ...]


class Telling(NamedTuple):
    """One source's telling of a run. ``import_no`` 0: it was recorded directly; ``stands``: its version is the
    one shown; ``undone``: its import was taken back.
    """

    import_no: int
    at_ms: int | None
    stands: bool
    undone: bool


class RecordedRun(NamedTuple):
    """One run: facts, the parts of its arms, how its selection came about, and the ids of its arms."""

    facts: RunFacts
    version: Version
    choice: Choice | None
    keys: dict[int, str]


def run_number(snapshot: Snapshot, name: str) -> int | None:
    """The number of a run by its uid, or by its number where no uid says so; also of one that doesn't stand."""
    sql = "SELECT run_no FROM run WHERE learner_id = ? AND {} = ?"
    row = snapshot.link.row(sql.replace("{}", "uid"), [snapshot.learner_id, name])
    digits = name.removeprefix("#").replace(",", "")
    if row is None and digits.isascii() and digits.isdigit() and len(digits) < 18:
        row = snapshot.link.row(sql.replace("{}", "run_no"), [snapshot.learner_id, int(digits)])
    return None if row is None else int(row[0])


def recorded_run(snapshot: Snapshot, run_no: int) -> RecordedRun:
    """Everything recorded of a run that exists."""
    version = read_version(snapshot, run_no)
    columns: dict[str, Any] = dict(zip(COLUMNS, version.columns, strict=True))
    choice = columns.pop("choice")
    numbers = sorted({*version.arm_nos, *(row[0] for row in version.decisions)})
    keys: dict[int, str] = dict(
        snapshot.link.rows_in(
            "SELECT arm_no, key FROM arm WHERE learner_id = ? AND arm_no IN ({})",
            [snapshot.learner_id],
            numbers,
        )
    )
    return RecordedRun(
        facts=_facts(snapshot, run_no, columns),
        version=version,
        choice=None if choice is None else msgspec.json.decode(str(choice), type=Choice),
        keys=keys,
    )


_HEAD: Final = "SELECT uid, import_no, revision, standing FROM run WHERE learner_id = ? AND run_no = ?"


def _facts(snapshot: Snapshot, run_no: int, columns: dict[str, Any]) -> RunFacts:
    uid, import_no, revision, standing = snapshot.link.rows(_HEAD, [snapshot.learner_id, run_no])[0]
    missing = columns.pop("not_offered")
    return msgspec.convert(
        {
            **columns,
            "run_no": run_no,
            "uid": uid,
            "import_no": import_no,
            "revision": revision,
            "standing": bool(standing),
            "run_class": columns.pop("class"),
            "naive_time": bool(columns.pop("naive_time")),
            "not_offered": msgspec.json.decode(str(missing)) if missing else (),
        },
        RunFacts,
    )


def tellings(snapshot: Snapshot, run_no: int) -> tuple[Telling, ...]:
    """Who told a run, in the order they did; the first teller alone where nobody told it again."""
    place = [snapshot.learner_id, run_no]
    rows = snapshot.link.rows(
        "SELECT s.import_no, i.at_ms, s.digest = r.digest, coalesce(i.undone, 0) FROM sighting s"
        " JOIN run r ON r.learner_id = s.learner_id AND r.run_no = s.no"
        " LEFT JOIN import i ON i.learner_id = s.learner_id AND i.import_no = s.import_no"
        " WHERE s.learner_id = ? AND s.kind = 'run' AND s.no = ? ORDER BY s.revision, s.import_no",
        place,
    ) or snapshot.link.rows(
        "SELECT r.import_no, i.at_ms, 1, coalesce(i.undone, 0) FROM run r"
        " LEFT JOIN import i ON i.learner_id = r.learner_id AND i.import_no = r.import_no"
        " WHERE r.learner_id = ? AND r.run_no = ?",
        place,
    )
    return tuple(
        Telling(import_no, at_ms, bool(stands) and not undone, bool(undone))
        for import_no, at_ms, stands, undone in rows
    )
