"""Descriptions: sources of an arm's token cost and label, as rows of ``provenance``.

Each import is stored with its last description of an arm; direct recording is import 0. In force is the latest of the
active ones, for cost and label separately. So undoing an import restores the others' values. A file has an arm's cost
in every run, so only new values are written.

A run that is known describes its arms since its known source. It changes no value in force, and adds those that are
missing. So a file that is imported again changes nothing, and keeps its values when the earlier import is undone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

from core.records.arm import Arm
from core.store.engine import Connection

_NO_IMPORT: Final = -1
_Source = tuple[int, int, str]
"""The source of a cost or label: its revision, its import as a negative number, and the value."""
_Sources = dict[tuple[int, str], _Source]
"""Sources by arm and kind."""

_INSERT: Final = (
    "INSERT INTO provenance (learner_id, kind, no, import_no, revision, said) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (learner_id, kind, no, import_no) DO UPDATE SET said = excluded.said, revision ="
)
_UPSERT: Final = (
    f"{_INSERT} CASE WHEN excluded.revision > provenance.revision THEN excluded.revision"
    " ELSE provenance.revision END"
)
_REPEAT: Final = f"{_INSERT} excluded.revision WHERE excluded.revision >= provenance.revision"
_UPDATE: Final = "UPDATE arm SET token_cost = ?, label = ? WHERE learner_id = ? AND arm_no = ?"


class Description(NamedTuple):
    """The description in force of an arm, and its imports; None and -1 without one."""

    token_cost: int | None = None
    label: str | None = None
    cost_by: int = _NO_IMPORT
    label_by: int = _NO_IMPORT

    def after(self, arm: Arm, import_no: int) -> Description:
        """Return the description after an import's.

        >>> Description(token_cost=9, cost_by=0).after(Arm(key="tool:fs:Read", label="Read"), 2)
        Description(token_cost=9, label='Read', cost_by=0, label_by=2)
        """
        cost = (self.token_cost, self.cost_by) if arm.token_cost is None else (arm.token_cost, import_no)
        label = (self.label, self.label_by) if arm.label is None else (arm.label, import_no)
        return Description(cost[0], label[0], cost[1], label[1])

    def says(self, arm: Arm, import_no: int) -> bool:
        """Return whether an import's description changes nothing, as is usual for runs of one file."""
        cost, label = arm.token_cost, arm.label
        return (cost is None or (cost == self.token_cost and import_no == self.cost_by)) and (
            label is None or (label == self.label and import_no == self.label_by)
        )


_NOTHING: Final = Description()


class Descriptions:
    """The last description of each arm by active and inactive imports; loaded for the requested arms.

    ``known`` is what was loaded before. An undo changes none of it.
    """

    def __init__(self, connection: Connection, learner_id: int, known: dict[int, Description]) -> None:
        self._connection = connection
        self._learner_id = learner_id
        self.known = known
        self._before: dict[int, tuple[int | None, str | None]] = {}

    def tell(self, described: Sequence[tuple[int, Arm]], import_no: int, revision: int) -> set[int]:
        """Record an active import's descriptions of arms, in force from now on; return the arms with another one."""
        missing = [arm_no for arm_no, _ in described if arm_no not in self.known]
        if missing:
            loaded = last_descriptions(self._connection, self._learner_id, missing)
            self.known.update((arm_no, loaded.get(arm_no, _NOTHING)) for arm_no in missing)
        news = []
        for arm_no, arm in described:
            known = self.known[arm_no]
            if not known.says(arm, import_no):
                self.known[arm_no] = known.after(arm, import_no)
                news.append((arm_no, arm))
        if news:
            self._before |= self._present({arm_no for arm_no, _ in news} - self._before.keys())
            self._connection.many(_UPSERT, self._rows(news, import_no, revision, {}))
            self._connection.many(
                "UPDATE arm SET token_cost = coalesce(?, token_cost), label = coalesce(?, label)"
                " WHERE learner_id = ? AND arm_no = ?",
                [(arm.token_cost, arm.label, self._learner_id, arm_no) for arm_no, arm in news],
            )
        return {arm_no for arm_no, _ in news}

    def repeat(self, described: Sequence[tuple[int, Arm]], import_no: int, revision: int) -> set[int]:
        """Record descriptions of arms since an earlier revision; return the arms that got a missing value.

        Each is below the description in force, whatever came since that revision.
        """
        before = self._present({arm_no for arm_no, _ in described})
        self._before = before | self._before
        undone = {
            one
            for (one,) in self._connection.rows(
                "SELECT import_no FROM import WHERE learner_id = ? AND undone = 1", [self._learner_id]
            )
        }
        in_force = _last_sources(self._connection, self._learner_id, before, undone)
        self._connection.many(_REPEAT, self._rows(described, import_no, revision, in_force))
        latest = last_descriptions(self._connection, self._learner_id, before, undone)
        changed = {arm_no: latest[arm_no][:2] for arm_no in latest if latest[arm_no][:2] != before[arm_no]}
        self._connection.many(_UPDATE, [(*one, self._learner_id, arm_no) for arm_no, one in changed.items()])
        return {*changed}

    def changed(self) -> bool:
        """True if an arm has another cost or label than before: a file may have several values."""
        return bool(self._before) and self._present(self._before) != self._before

    def _present(self, arm_nos: Iterable[int]) -> dict[int, tuple[int | None, str | None]]:
        """Cost and label of arms, as they count at the moment."""
        rows = self._connection.rows_in(
            "SELECT arm_no, token_cost, label FROM arm WHERE learner_id = ? AND arm_no IN ({})",
            [self._learner_id],
            list(arm_nos),
        )
        return {arm_no: (token_cost, label) for arm_no, token_cost, label in rows}

    def _rows(
        self, described: Sequence[tuple[int, Arm]], import_no: int, revision: int, above: _Sources
    ) -> list[tuple[object, ...]]:
        """Return rows of descriptions since a revision, each of them below that of ``above``."""
        rows: list[tuple[object, ...]] = []
        for arm_no, arm in described:
            for kind, value in (("cost", arm.token_cost), ("label", arm.label)):
                if value is not None:
                    since = min(revision, _below(above.get((arm_no, kind)), import_no, revision))
                    rows.append((self._learner_id, kind, arm_no, import_no, since, str(value)))
        return rows


def _below(source: _Source | None, import_no: int, revision: int) -> int:
    """Return the last revision at which a source stays above this import's: of one revision the first import's is."""
    if source is None:
        return revision
    since, earliest, _ = source
    return since - (import_no <= -earliest)


def last_descriptions(
    connection: Connection, learner_id: int, arm_nos: Iterable[int], undone: Container[int] = ()
) -> dict[int, Description]:
    """Return the last description of arms by imports that are not ``undone``; arms without any are left out.

    Of two of one revision the later import repeats the earlier one, which counts.
    """
    latest: dict[int, Description] = {}
    for (arm_no, kind), (_, earliest, value) in _last_sources(
        connection, learner_id, arm_nos, undone
    ).items():
        known = latest.get(arm_no, _NOTHING)
        latest[arm_no] = (
            known._replace(token_cost=int(value), cost_by=-earliest)
            if kind == "cost"
            else known._replace(label=value, label_by=-earliest)
        )
    return latest


def _last_sources(
    connection: Connection, learner_id: int, arm_nos: Iterable[int], undone: Container[int]
) -> _Sources:
    """Return the last source of each cost and label by imports that are not ``undone``."""
    sources: _Sources = {}
    for arm_no, import_no, kind, revision, value in connection.rows_in(
        "SELECT no, import_no, kind, revision, said FROM provenance"
        " WHERE learner_id = ? AND kind IN ('cost', 'label') AND no IN ({})",
        [learner_id],
        list(arm_nos),
    ):
        if import_no not in undone:
            source = (revision, -import_no, value)
            sources[arm_no, kind] = max(sources.get((arm_no, kind), source), source)
    return sources
