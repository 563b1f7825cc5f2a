"""Ledger lines of our own format (settings, arms, rewards, resets, notes), written to the store."""

from __future__ import annotations

from typing import Final

import msgspec

from core.errors import ArmscopeError, UnreadableSource
from core.flows.context import Context
from core.flows.importing.counts import ImportCounts
from core.records.arm import Arm
from core.records.episode import Episode
from core.records.episode_credit import CreditLine
from core.records.evaluation_lines import ExecutionLine, LayerLine
from core.records.import_answer import SHOWN
from core.records.learner import LearnerSettings
from core.records.ledger_lines import ArmLine, ContentLine, FactLine, LearnerLine, ResetLine, RewardLine
from core.store.arms import attribute_arms, recompute_arms
from core.store.episodes import tell_episodes
from core.store.facts import EXCHANGED
from core.store.imports import begin_import
from core.store.lines import take_line
from core.store.settings import import_setting
from core.store.subjects import describe_execution, describe_layer
from core.store.transaction import BY_IMPORT, Transaction

_EPISODES: Final = 500
_STEPS: Final = 20_000
"""Maximum number of steps in one batch of episodes: larger batches only need memory."""


def settings_after(context: Context, line: LearnerLine) -> LearnerSettings:
    """Return the settings that a learner line would bring into force now."""

    def work(txn: Transaction) -> LearnerSettings:
        LedgerWriter(txn, begin_import(txn), ImportCounts()).write(line)
        return txn.settings

    return context.rehearse("ingest", work, create=True)


def _kind_of(line: FactLine) -> str:
    """Return the name of a line's kind in the answer."""
    if isinstance(line, RewardLine) and line.observation == "carried":
        return "carried belief"
    return EXCHANGED[type(line)].name


class LedgerWriter:
    """Writer of the lines of one import. A line with an error is rejected with its reason."""

    def __init__(self, txn: Transaction, import_no: int, counts: ImportCounts) -> None:
        self._txn = txn
        self._import_no = import_no
        self._counts = counts
        self._is_after_reset = False
        self._has_settings = False
        self._described: dict[str, Arm] = {}
        self._episodes: list[Episode] = []
        self._n_steps = 0

    def write(self, line: ContentLine) -> None:
        """Write a line. The runs it refers to are in the store already."""
        if isinstance(line, Episode):
            self._queue_episode(line)
            return
        if isinstance(line, CreditLine):
            self._write_episodes()
        self._is_after_reset |= isinstance(line, ResetLine)
        try:
            if isinstance(line, LearnerLine):
                self._note_head(line)
                self._write_settings(line)
            elif isinstance(line, ArmLine):
                self._write_arm(line)
            elif isinstance(line, LayerLine):
                describe_layer(self._txn, line, self._import_no)
                self._counts.n_named += 1
            elif isinstance(line, ExecutionLine):
                keeps = self._txn.settings.keep_texts
                describe_execution(self._txn, line, self._import_no, keep_texts=keeps)
                self._counts.n_named += 1
            else:
                self._counts.line(
                    _kind_of(line),
                    is_new=not self._is_own(line.id) and take_line(self._txn, line, self._import_no),
                )
        except ArmscopeError as problem:
            self._counts.reject(None, problem.problem)

    def finish(self) -> None:
        """Write the last episodes, and restore the labels and costs that arm lines stated.

        Runs after those lines describe the arms as their own prompts had them.
        """
        self._write_episodes()
        self._txn.ensure_arms(list(self._described.values()), import_no=self._import_no)

    def _queue_episode(self, line: Episode) -> None:
        """Queue an episode. Episodes are written in batches, because only credits depend on them."""
        self._episodes.append(line)
        self._n_steps += len(line.steps)
        if self._n_steps >= _STEPS or len(self._episodes) >= _EPISODES:
            self._write_episodes()

    def _write_episodes(self) -> None:
        for status in tell_episodes(self._txn, self._episodes, import_no=self._import_no):
            self._counts.episode(status)
        self._episodes, self._n_steps = [], 0

    def _is_own(self, uid: str) -> bool:
        """Return whether an exported id names a fact of this learner."""
        return uid.startswith(f"{self._txn.origin}/")

    def _note_head(self, line: LearnerLine) -> None:
        """Name the head of another learner's chain in the import's answer, which the import's own link covers."""
        if (
            line.head is not msgspec.UNSET
            and line.origin != self._txn.origin
            and len(self._counts.heads) < SHOWN
        ):
            self._counts.heads.append(line.head)

    def _write_settings(self, line: LearnerLine) -> None:
        """Copy the settings of the exported learner to a learner that the import creates."""
        if line.settings is None or self._has_settings:
            return
        if self._is_after_reset:
            raise UnreadableSource(
                "A learner line must come before every reset, got one after it; its settings were left out.",
                next_step="Put it first.",
            )
        self._has_settings = True
        for name in line.settings.__struct_fields__:
            import_setting(self._txn, name, getattr(line.settings, name))

    def _write_arm(self, line: ArmLine) -> None:
        arm = Arm(key=line.key, label=line.label, token_cost=line.token_cost)
        numbers = list(self._txn.ensure_arms([arm], declared=BY_IMPORT, import_no=self._import_no).values())
        earlier = self._described.get(arm.key, arm)
        self._described[arm.key] = Arm(
            key=arm.key,
            label=earlier.label if arm.label is None else arm.label,
            token_cost=earlier.token_cost if arm.token_cost is None else arm.token_cost,
        )
        attribute_arms(self._txn, numbers, self._import_no, line.prior)
        recompute_arms(self._txn, numbers)
        self._counts.n_named += 1
