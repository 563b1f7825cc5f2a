"""Texts in lines of an export, and the same line without them.

Texts are excerpts, notes, reasons, feedback, instructions, responses, and requests and answers of episode steps.
Names, times and numbers stay. So a file without texts is read like any other.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from core.records.episode import Episode
from core.records.evaluation_lines import ChoiceLine, EvaluationLine, ExecutionLine, without_texts
from core.records.evidence import Reference
from core.records.ledger_lines import (
    LearnerLine,
    LedgerLine,
    NoteLine,
    RepairLine,
    ResetLine,
    RewardLine,
    RunLine,
)
from core.records.queue_lines import SkippedLine

LEFT_OUT: Final = "left out"
"""In the place of words without which a line would say nothing."""


def line_without_texts(line: LedgerLine) -> LedgerLine:
    """Return the line for a caller who may not read texts.

    A key goes with the texts of its request. Without them no caller could send the same request again.
    """
    stripped = line
    match line:
        case LearnerLine():
            stripped = replace(line, texts=False)
        case RunLine():
            stripped = _run_without(line)
        case RewardLine() if line.context.reason is not None:
            stripped = replace(line, context=replace(line.context, reason=None))
        case ResetLine() | RepairLine():
            stripped = replace(line, reason=None)
        case NoteLine():
            stripped = replace(line, text=None, key=None)
        case EvaluationLine() if line.feedback is not None:
            stripped = replace(line, feedback=None, key=None)
        case ChoiceLine():
            stripped = replace(line, feedback=None)
        case SkippedLine():
            stripped = replace(line, reason=LEFT_OUT)
        case ExecutionLine():
            stripped = without_texts(line)
        case Episode():
            stripped = line.without_texts()
    return stripped


def _run_without(line: RunLine) -> RunLine:
    run = line.run
    if run.texts or run.prompt is not None or run.reply is not None:
        run = replace(run, texts=(), prompt=None, reply=None)
    references = tuple(Reference(arm=one.arm, where=one.where) for one in line.references)
    return replace(line, run=run, references=references)
