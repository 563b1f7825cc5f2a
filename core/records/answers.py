"""Answers: the records that acts return."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from core.records.corrections import Target
from core.records.episode import Scale
from core.records.evidence import Outcome
from core.records.parameters import ExportFormat
from core.records.verification import unprovable_words

Recorded = Literal["new", "duplicate", "updated"]
Imported = Recorded | Literal["other"]
"""What an import made of a record; another state of a known one, which nothing orders, stays out."""

Erasable = Literal["run", "session", "execution", "episode", "act", "rater"]


class RecordAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a recorded run.

    ``outcome`` is the guard's verdict. ``told`` is new, duplicate, or updated (known, but shorter). ``not_offered``
    names called tools without an arm in the prompt, most frequent first: a misspelt name rewards no arm, and the
    meant arm counts as not used. ``late_ms`` is the time between the end of a run and its record, where the client
    sent it later; such a run counts like a late import.
    """

    uid: str
    outcome: Outcome
    told: Recorded
    observed: int
    not_offered: tuple[str, ...] = ()
    late_ms: int | None = None


class ScaleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The active scale of an environment and its successes; ``before`` is the previous scale.

    ``id`` None: the scale was active already, and nothing was declared.
    """

    id: str | None
    environment: str
    scale: Scale
    before: Scale
    episodes: int
    successes: int
    successes_before: int


class StepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """State of an episode after a step; ``total`` None = nothing was paid, ``refused``: the step adds nothing."""

    episode: str
    number: int
    refused: bool
    steps: int
    total: float | None
    finished: bool


class EpisodeMarked(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that is incomplete from now on."""

    episode: str
    status: Literal["incomplete"] = "incomplete"


class EraseAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Erased texts, or those that would be erased.

    ``places`` counts texts by ``table.column`` (``session``: runs whose session is a number now; ``spool.run``: runs
    that wait to be recorded). ``not_reached``
    names other copies: earlier backups, and replaced files of this database.
    """

    of: Erasable
    texts: int
    places: dict[str, int]
    not_reached: tuple[str, ...]
    is_preview: bool = False

    def with_spool(self, n_runs: int | None, folder: str) -> EraseAnswer:
        """Return the answer with the runs of a spool whose texts are erased; None: it could not be searched."""
        if n_runs is None:
            return replace(self, not_reached=(*self.not_reached, folder))
        if not n_runs:
            return self
        return replace(self, texts=self.texts + n_runs, places={**self.places, "spool.run": n_runs})


class CompactAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Old runs whose rows were deleted, or would be deleted.

    ``until``: they ended before that time. ``left`` counts runs of that time that stay whole, because feedback or
    another fact is about them. ``imports`` lost runs and can't be undone. ``lost`` says what can't be answered
    afterwards.
    """

    until: str
    runs: int
    left: int
    imports: int
    lost: tuple[str, ...]
    is_preview: bool = False


class ExportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a written export, which is not loss-free without ``texts`` or with ``hidden`` evaluations.

    ``texts`` False: the actor may not read texts and excerpts. ``hidden`` counts left-out evaluations by others, of
    items that are open to the actor in a blind queue. ``head`` is that of the learner's chain. ``compacted`` counts
    runs of which only sums are left, so that they are in no file.
    """

    file: str
    lines: int
    arms: int
    runs: int
    rewards: int
    resets: int
    revision: int
    notes: int = 0
    episodes: int = 0
    texts: bool = True
    hidden: int = 0
    format: ExportFormat = "jsonl"
    observations: int = 0
    observations_file: str | None = None
    head: str | None = None
    compacted: int = 0


class BackupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A written backup; ``heads`` are those of the chains, by learner. A server leaves out more than 8,000 bytes.

    ``damage`` names differences that were copied, which `restore` refuses; None: the database is sound.
    """

    file: str
    size_bytes: int
    revision: int
    heads: dict[str, str] = {}
    damage: str | None = None


class ResetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Number and ids of the reset arms, and the start that they were reset to."""

    id: str
    learner: str
    reset_count: int
    arm_ids: tuple[str, ...]
    to: Target


class RepairAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A repair: the number of observations that it took back, ``referenced`` of them used, and their arms.

    ``corrected`` observations in the span stay as people corrected them. ``until_ms`` None = the span has no end.
    """

    id: str
    learner: str
    since_ms: int
    until_ms: int | None
    observation_count: int
    referenced: int
    corrected: int
    arm_ids: tuple[str, ...]


class SettingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A changed setting; ``id`` is the act for `undo`, None where the value was active already."""

    id: str | None
    name: str
    value: object
    before: object


class UndoAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An undo: its own ``id`` (undo it to redo), and the ``undone`` act of a ``kind``.

    ``left_out`` counts rewards and notes of a redone import whose keys were used for other content meanwhile.
    ``count`` is the number of undone acts. For a batch ``undone`` is an id like ``rewards-12`` and ``id`` one like
    ``undos-3``.
    """

    id: str
    undone: str
    kind: str
    left_out: int = 0
    count: int = 1


class MendedChain(msgspec.Struct, frozen=True, kw_only=True):
    """A learner whose chain had more than the rows, and the last act (``until``) up to which an act holds that.

    ``explained`` is what explained the difference to the bit: the stored rows, or a file that was given again. None =
    nothing, and a person accepted it.
    """

    learner: str
    until: int
    explained: Literal["rows", "source"] | None

    @property
    def words(self) -> str:
        """The sentence about it."""
        name = f"learner {self.learner}" if self.learner else "the installation"
        if self.explained is None:
            return f"The chain of {name} is {unprovable_words(self.until)}, as you accepted."
        by = "its rows explain" if self.explained == "rows" else "the file explains"
        return (
            f"Mended the chain of {name}: up to act {self.until:,} an import counted replaced states of episodes;"
            f" {by} the difference to the bit."
        )


class RestoreAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a restore. ``kept`` is the file with the replaced database; None = there was none.

    ``runs`` are those with rows, and ``compacted`` those of which only sums are left. ``mended`` names what was
    mended in the copy: see `MendedChain`.
    """

    file: str
    database: str
    kept: str | None
    runs: int
    runs_lost: int | None
    acts_lost: int | None
    compacted: int = 0
    mended: tuple[MendedChain, ...] = ()
