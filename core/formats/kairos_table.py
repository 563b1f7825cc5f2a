"""Training rows as a table for spreadsheets: every evaluation of a pair, in which no spreadsheet finds a formula."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from core.formats.kairos import TrainingRow, canonical_uri
from core.records.cells import csv_line
from core.records.evaluation import Thresholds
from core.records.times import iso

_THRESHOLDS: Final = Thresholds()
_HEADS: Final = (
    "execution_id",
    "adapter_uri",
    "layer_uri",
    "layer_index",
    "timestamp",
    "instruction",
    "response",
    "outcome",
    "score",
    "signed_score",
    "evaluation_label",
    "grader_kind",
    "rater",
    "llm_model_id",
    "rubric_version",
    "feedback",
    "exportable_for_sft",
    "exportable_for_preference",
    "sft_blockers",
    "preference_blockers",
    "rated_at",
)


def reward_csv(rows: Iterable[TrainingRow], thresholds: Thresholds = _THRESHOLDS) -> Iterator[bytes]:
    """Heads, then a line for every row with a reward, without ends of lines.

    A text that a spreadsheet would take for a formula gets an apostrophe before it; numbers stay numbers, texts that
    hold one (``-0.5``) too.

    >>> from core.formats.kairos import Reward
    >>> row = TrainingRow(
    ...     execution="e1", adapter_uri="a", layer_uri="l", layer_index=1, at_ms=0, instruction="{}", response="{}",
    ...     reward=Reward(outcome="failure", score=0.5, rater="=cmd()"))
    >>> list(reward_csv([row]))[1].decode().split(",")[8:13]
    ['0.5', '-0.5', 'rejected', 'human', "'=cmd()"]
    """
    yield csv_line(_HEADS).removesuffix("\n").encode()
    for row in rows:
        if row.reward is None:
            continue
        reward, graded = row.reward, row.reward.graded(thresholds)
        cells = (
            row.execution,
            row.adapter_uri,
            canonical_uri(row.layer_uri),
            row.layer_index,
            iso(row.at_ms),
            row.instruction,
            row.response,
            reward.outcome,
            reward.score,
            graded.signed_score,
            graded.label,
            graded.grader_kind,
            reward.rater,
            reward.llm_model_id,
            reward.rubric_version,
            reward.feedback,
            graded.exportable_for_sft,
            graded.exportable_for_preference,
            " ".join(graded.sft_blockers),
            " ".join(graded.preference_blockers),
            iso(reward.rated_at_ms),
        )
        yield csv_line(cells).removesuffix("\n").encode()
