"""Answers: the records that acts return."""

from __future__ import annotations

from typing import Literal

import msgspec

from core.records.episode import Scale
from core.records.parameters import ExportFormat
from core.records.reset import Target
from core.records.verdict import Outcome

Recorded = Literal["new", "duplicate", "updated"]


class RecordAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``outcome`` is the guard's verdict, ``told`` whether the run was new, known, or known and shorter.

    ``not_offered`` names the tools that were called though no arm of the prompt stands for them, most frequent
    first: a name that is spelled wrong rewards nothing, and the arm that was meant counts as not used.
    """

    uid: str
    outcome: Outcome
    told: Recorded
    observed: int
    not_offered: tuple[str, ...] = ()


class ScaleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The scale of an environment that is in force now, and how many of its episodes are a success by it; ``before``
    is what was in force. ``id`` None: it was in force already, and nothing was declared.
    """

    id: str | None
    environment: str
    scale: Scale
    before: Scale
    episodes: int
    successes: int
    successes_before: int


class StepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an episode came to with a step: ``total`` None = nothing was paid, ``refused``: the step adds nothing."""

    episode: str
    number: int
    refused: bool
    steps: int
    total: float | None
    finished: bool


class EpisodeMarked(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that is told to be incomplete from now on."""

    episode: str
    status: Literal["incomplete"] = "incomplete"


Erasable = Literal["run", "session", "execution", "episode", "rater"]


class EraseAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased, or would be.

    ``places`` counts texts by where they stood (``table.column``; ``session`` runs whose session is a number now),
    ``not_reached`` names what lies elsewhere: copies made before, and files of this database that were put aside.
    """

    of: Erasable
    texts: int
    places: dict[str, int]
    not_reached: tuple[str, ...]
    is_preview: bool = False


class ExportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was written. ``texts`` False: without what people wrote and without excerpts, as who asked may not read
    them; ``hidden``: without so many evaluations by others, of what is open to whoever asked in a blind queue. So it
    is not loss-free.
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


class BackupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    size_bytes: int
    revision: int


class ResetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was reset: how many arms, which, and to what."""

    id: str
    learner: str
    reset_count: int
    arm_ids: tuple[str, ...]
    to: Target


class SettingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``id`` is what `undo` takes; None where the value was in force already."""

    id: str | None
    name: str
    value: object
    before: object


class UndoAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``id`` is the undo's own (undo it to redo), ``undone`` the act it took back, of this ``kind``.

    ``left_out`` counts the rewards and notes of an import that stands again without them: their keys were used anew
    meanwhile, and what was asked for under one key counts once. ``count`` is how many acts it was, where a batch was
    undone: ``undone`` is then an id like ``rewards-12``, ``id`` one like ``undos-3``.
    """

    id: str
    undone: str
    kind: str
    left_out: int = 0
    count: int = 1
