"""Files with both sides of a trial → cells: own lines, Claude Code's plugin eval, and Anthropic's skill-creator.

*Own lines* begin with ``{"armscope_trial": 1, "plan": 3, "arm": "skill:own:pdf", "harness": "claude"}``. Every other
line is a cell with the members of `Cell`. Lines are appended while the trial runs, so a file may end in half a line,
which is noted and left out. The header may be repeated. The first line of a cell counts.

*Plugin eval* (``aggregate-result.json``, schema 1) lists the runs of each case in ``arms.with`` and ``arms.without``.
The plugin is alone there. A grader for one side alone has no part in the score and is no check. It says whether the
skill was called. A run without any grader failed before the agent, and one with skipped graders has no comparable
score: both are missing. The judge's money is no cost of the arm. Tokens are not in the file.

*Skill-creator* (``benchmark.json``) lists runs with ``configuration`` ``with_skill`` or ``without_skill``. Its
``tokens`` are characters where a run had no count, so they are not read. Its time is that of the file, not of a run.
Its expectations have no names, so they are no checks.

Prompts, rubrics, answers and paths are not kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, Literal

import msgspec

from core.errors import UnreadableSource
from core.formats.entries import Rejected
from core.formats.reading import Head, Piece, Reading
from core.formats.strict import Flaw, decoded, digest_of, named, utc_ms_of, with_nulls
from core.records.alike import alike
from core.records.counts import number_of
from core.records.currency import PICO
from core.records.limits import MAX_LABEL_CHARS, Count, Label, shown
from core.records.trial import (
    MOST_CELLS,
    MOST_MONEY_PICO,
    NOT_GRADED,
    TRIAL_SIDES,
    Cell,
    CellKey,
    End,
    Presence,
    TrialResults,
    TrialSide,
)

OWN_LINES: Final = "armscope-trial"
PLUGIN_EVAL: Final = "claude-plugin-eval"
SKILL_CREATOR: Final = "skill-creator"
_MARK: Final = "armscope_trial"
_LINE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CELL: Final = msgspec.json.Decoder(Cell)
_SHOWN_DIGITS: Final = 8
_SCHEMA: Final = 1
_CONFIGURATIONS: Final[dict[str, TrialSide]] = {"with_skill": "with", "without_skill": "without"}
_NOT_LOADED: Final = frozenset(("manifest_invalid", "disabled_by_default", "will_not_load"))
_FAULT: Final = re.compile(
    r"interrupted|scaffold|rate.?limit|overloaded|api error|credential|sandbox|env key|connection|cost ceiling",
    re.IGNORECASE,
)
_LIMIT: Final = re.compile(
    r"agent.?timeout|timed out|max.?(turn|step|token|iteration)|output.?(length|overflow)|"
    r"(turn|step|token|time|context|message|working).?(limit|cap|window|length|exceeded)",
    re.IGNORECASE,
)
"""Limits that belong to the task. A limit of money does not."""


def is_limit(error: str) -> bool:
    """Return whether an error is a limit that belongs to the task.

    >>> [is_limit(error) for error in ("AgentTimeoutError", "VerifierTimeoutError", "timed out after 9s")]
    [True, False, True]
    """
    return _LIMIT.search(error) is not None


def pico_of(dollars: float) -> int | None:
    """Return millionths of a millionth of a dollar; None for no amount.

    >>> pico_of(0.14), pico_of(-1)
    (140000000000, None)
    """
    return (
        round(dollars * PICO) if math.isfinite(dollars) and 0 <= dollars <= MOST_MONEY_PICO / PICO else None
    )


class TrialHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The first line of own lines, or the same of another source. ``armscope_trial`` is the version of its form.

    ``plan`` is the number of the plan, None = without one. ``arm`` is the arm of the trial, '' where cells name their
    own. ``rescored`` names sides whose grades were made again.
    """

    armscope_trial: Literal[1]
    plan: Count | None = None
    arm: Label = ""
    harness: Label = ""
    alone: bool = False
    rescored: tuple[TrialSide, ...] = ()


@dataclass(kw_only=True)
class TaskNames:
    """Names of tasks by content, with notes about those of one name."""

    digests: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def task(self, name: str, digest: str) -> str:
        """Return the name of a task. A known name with another digest is another task, with the digest in it."""
        known = self.digests[name] = self.digests.get(name) or digest
        if digest in {known, ""}:
            return name
        other = f"{name} ({digest[:_SHOWN_DIGITS]})"
        if other not in self.digests:
            self.digests[other] = digest
            self.notes.append(f"{shown(name)} has another digest, too. This one is the task {shown(other)}.")
        return other


@dataclass(kw_only=True)
class Collected(TaskNames):
    """Cells of one source, each once, in their order, with the notes about what was left out."""

    file: str
    cells: dict[CellKey, Cell] = field(default_factory=dict)
    n_other: int = 0
    rejected: list[Rejected] = field(default_factory=list)

    def take(
        self, reading: Reading, cells_of: Callable[[bytes], list[Cell]], pieces: Iterable[Piece] | None = None
    ) -> None:
        """Add the cells of all records that can be read; the others are left out."""
        for _, _, cells in reading.records(cells_of, pieces=pieces):
            if isinstance(cells, Rejected):
                self.rejected.append(cells)
            else:
                for cell in cells:
                    self.add(cell)

    def add(self, cell: Cell) -> None:
        """Add a cell; of two with one name the first stays."""
        self.n_other += self.cells.setdefault(cell.key, cell) != cell

    def results(self, source: str, header: TrialHeader, about: str = "") -> TrialResults:
        """Return the results; raise `UnreadableSource` where there are none."""
        n = len(self.cells)
        if not 0 < n <= MOST_CELLS:
            raise UnreadableSource(
                f"Results must hold 1 to {MOST_CELLS:,} runs, got {n:,} ({self.file}).{self.why}",
                next_step="Name a file of fewer runs." if n else "Run the trial first, or name another file.",
            )
        cells, notes = tuple(self.cells.values()), (*self.notes, *self._left_out())
        return alike(TrialResults, header, source=source, about=about, cells=cells, notes=notes)

    @property
    def why(self) -> str:
        """The reason against the first record that was left out, as a further sentence."""
        return f" The first record left out: {self.rejected[0].reason}" if self.rejected else ""

    def _left_out(self) -> Iterator[str]:
        if self.rejected:
            first = self.rejected[0]
            where = f"number {first.line or 1} of {PurePath(first.file).name}"
            yield f"{number_of(len(self.rejected), 'record')} left out. The first is {where}: {first.reason}"
        if self.n_other:
            cells = number_of(self.n_other, "cell")
            yield f"{cells} came again with other content. The first of each counts."


def source_of(head: Head) -> str | None:
    """Return the name of the file's format, None for another file; raise `UnreadableSource` for that of a pilot."""
    if _MARK in head.keys and "pilot" in head.keys:
        raise UnreadableSource(
            "Results must be of a whole trial, got those of a pilot.",
            next_step="Run the whole trial, and read its results.",
        )
    if _MARK in head.keys or {"task", "repeat", "side"} <= head.keys:
        return OWN_LINES
    if "cases" in head.keys and {"suite", "schemaVersion"} & head.keys:
        return PLUGIN_EVAL
    is_benchmark = "runs" in head.keys and b'"eval_id"' in head.start and b'"configuration"' in head.start
    return SKILL_CREATOR if is_benchmark else None


def results_in(reading: Reading, source: str) -> TrialResults:
    """Return the results of a file of a format; raise `UnreadableSource` for a document that is damaged."""
    read = {OWN_LINES: _own_lines, PLUGIN_EVAL: _plugin_eval, SKILL_CREATOR: _benchmark}
    return read[source](reading, Collected(file=reading.file))


_HEADER: Final = msgspec.json.Decoder(TrialHeader)


def _own_lines(reading: Reading, collected: Collected) -> TrialResults:
    headers: dict[TrialHeader, None] = {}

    def cells_of(raw: bytes) -> list[Cell]:
        if _MARK not in _LINE.decode(raw):
            return [_CELL.decode(raw)]
        headers[_HEADER.decode(raw)] = None
        return []

    collected.take(reading, cells_of)
    if len(headers) != 1:
        got = f"got {len(headers):,}" if headers or collected.rejected else "and it is missing"
        raise UnreadableSource(
            f"A file of a trial must have one header line, {got} ({reading.file}).{collected.why}",
            next_step=f'Begin each trial\'s file with a line such as {{"{_MARK}": 1, "arm": "skill:own:pdf"}}, '
            "and read it with the version that wrote it.",
        )
    return collected.results(OWN_LINES, next(iter(headers)))


# --- plugin eval ------------------------------------------------------------------------------------------


class _Grader(msgspec.Struct):
    """A grader as its author wrote it."""

    name: Label
    config: msgspec.Raw = msgspec.Raw(b"{}")


class _ToolUse(msgspec.Struct):
    tool: str = ""
    most: int | None = msgspec.field(default=None, name="max")


class _Graded(msgspec.Struct):
    name: Label
    passed: bool
    scored: bool = True


class _PluginRun(msgspec.Struct, rename="camel"):
    """A run of a case on one side."""

    score: float | None = None
    passed: bool | None = None
    cost_usd: float | None = None
    judge_cost_usd: float | None = None
    started_at: str | None = None
    error: str | None = None
    skipped_paid_graders: bool = False
    graders: list[_Graded] | None = None

    @property
    def end(self) -> tuple[End, str]:
        """The end of the run, and the name of its error."""
        if self.skipped_paid_graders:
            return "fault", "graders skipped"
        if not self.error:
            return "ended", ""
        if not self.graders:
            return "fault", "setup failed"
        if matched := _FAULT.search(self.error):
            return "fault", matched[0].lower()
        return ("limit", "limit of the case") if is_limit(self.error) else ("ended", "error")

    @property
    def grade(self) -> float | None:
        return self.score if self.score is not None or self.passed is None else float(self.passed)


class _Case(msgspec.Struct, rename="camel"):
    name: str
    prompt_markdown: msgspec.Raw = msgspec.Raw(b"null")
    graders: msgspec.Raw = msgspec.Raw(b"[]")
    model: Label | None = None
    arms: dict[str, list[_PluginRun]] = {}

    @property
    def indicators(self) -> dict[str, bool]:
        """The graders that look for a call of a skill by name: whether a pass is a call."""
        uses = {one.name: decoded(_TOOL_USE, one.config) for one in decoded(_DEFINITIONS, self.graders) or ()}
        return {name: use.most != 0 for name, use in uses.items() if use is not None and use.tool == "Skill"}


class _Plugin(msgspec.Struct):
    name: Label = ""
    problem: str | None = None


class _Suite(msgspec.Struct, rename="camel"):
    plugins: list[_Plugin] = []
    model_override: Label = ""

    @property
    def presence(self) -> Presence:
        """The plugin in a run with it, where no grader says more."""
        problems = {one.problem for one in self.plugins}
        if problems & _NOT_LOADED:
            return "absent"
        return "listed" if problems and "identity_unverified" not in problems else "unknown"


class _PluginEval(msgspec.Struct, rename="camel"):
    schema_version: int = _SCHEMA
    claude_version: Label = ""
    partial: bool = False
    suite: _Suite = msgspec.field(default_factory=_Suite)


_DEFINITIONS: Final = msgspec.json.Decoder(list[_Grader])
_TOOL_USE: Final = msgspec.json.Decoder(_ToolUse)
_CASE: Final = msgspec.json.Decoder(_Case)
_EVALUATION: Final = msgspec.json.Decoder(_PluginEval)


def _plugin_eval(reading: Reading, collected: Collected) -> TrialResults:
    document = reading.document("cases")
    fields = document.fields()
    evaluation = reading.decoded_whole(_EVALUATION, with_nulls(document.raw))
    if evaluation.schema_version != _SCHEMA:
        raise UnreadableSource(
            f"schemaVersion must be {_SCHEMA}, got {shown(evaluation.schema_version)} ({reading.file}).",
            next_step="Update armscope, or write the results with an earlier version of the program.",
        )

    def cells_of(raw: bytes) -> list[Cell]:
        case = _CASE.decode(raw)
        digest = digest_of(bytes(case.prompt_markdown) + bytes(case.graders))
        return [*_cells_of(case, collected.task(named(case.name) or "case", digest), evaluation)]

    collected.take(reading, cells_of, document.elements(fields))
    if evaluation.partial:
        collected.notes.append("The suite did not finish, so runs are missing.")
    about = ", ".join(dict.fromkeys(one.name for one in evaluation.suite.plugins))[:MAX_LABEL_CHARS]
    header = TrialHeader(armscope_trial=1, harness=PLUGIN_EVAL, alone=True)
    return collected.results(PLUGIN_EVAL, header, about)


def _cells_of(case: _Case, task: str, evaluation: _PluginEval) -> Iterator[Cell]:
    indicators = case.indicators
    for side in TRIAL_SIDES:
        listed: Presence = evaluation.suite.presence if side == "with" else "absent"
        for repeat, run in enumerate(case.arms.get(side, ()), start=1):
            end, error = run.end
            cost, graders = run.cost_usd, run.graders or ()
            is_called = any(one.passed == indicators.get(one.name) for one in graders)
            yield Cell(
                task=task,
                repeat=repeat,
                side=side,
                grade=None if end == "fault" else run.grade,
                checks={one.name: float(one.passed) for one in graders if one.scored},
                end=end,
                error=error,
                money_pico=None if cost is None else pico_of(cost - (run.judge_cost_usd or 0)),
                presence="called" if is_called else listed,
                model=case.model or evaluation.suite.model_override,
                version=evaluation.claude_version,
                at_ms=utc_ms_of(run.started_at)[0],
            )


# --- skill-creator ----------------------------------------------------------------------------------------


class _Rate(msgspec.Struct):
    pass_rate: float
    total: int = 0


class _BenchmarkRun(msgspec.Struct):
    eval_id: msgspec.Raw
    configuration: str
    run_number: int
    result: _Rate
    eval_name: str = ""
    expectations: list[msgspec.Raw] = []

    @property
    def grade(self) -> float | None:
        """The rate; a run without any expectation has none, and its program writes 0."""
        return self.result.pass_rate if self.result.total or self.expectations else None


class _OfSkill(msgspec.Struct):
    skill_name: str = ""
    executor_model: str = ""


class _Benchmark(msgspec.Struct):
    metadata: _OfSkill = msgspec.field(default_factory=_OfSkill)


_RUN: Final = msgspec.json.Decoder(_BenchmarkRun)
_BENCHMARK: Final = msgspec.json.Decoder(_Benchmark)


def _benchmark(reading: Reading, collected: Collected) -> TrialResults:
    document = reading.document("runs")
    fields = document.fields()
    about = reading.decoded_whole(_BENCHMARK, with_nulls(document.raw)).metadata

    def cells_of(raw: bytes) -> list[Cell]:
        run = _RUN.decode(raw)
        side = _CONFIGURATIONS.get(run.configuration)
        if side is None:
            raise Flaw(f"is of {shown(run.configuration)}, and {' and '.join(_CONFIGURATIONS)} are read")
        grade = run.grade
        cell = Cell(
            task=named(run.eval_name) or f"eval-{named(run.eval_id)}",
            repeat=run.run_number,
            side=side,
            grade=grade,
            end="fault" if grade is None else "ended",
            error=NOT_GRADED if grade is None else "",
            model=_filled(about.executor_model),
        )
        return [cell]

    collected.take(reading, cells_of, document.elements(fields))
    header = TrialHeader(armscope_trial=1, harness=SKILL_CREATOR)
    return collected.results(SKILL_CREATOR, header, _filled(about.skill_name))


def _filled(value: str) -> str:
    """Return a name that a person filled in, '' for the placeholder of the program."""
    return "" if value.startswith("<") else named(value) or ""
