"""Documents with both sides of a trial: results of Claude Code's plugin eval, and of the skill-creator of Anthropic.

*Plugin eval* (``aggregate-result.json``, schema 1) lists the runs of each case in ``arms.with`` and ``arms.without``.
The plugin is alone there. A grader for one side alone has no part in the score and is no check. It says whether the
skill was called.
A run without any grader failed before the agent, and one with skipped graders has no comparable score: both are
missing. The judge's money is no cost of the arm. Tokens are not in the file.

*Skill-creator* (``benchmark.json``) lists runs with ``configuration`` ``with_skill`` or ``without_skill``. Its
``tokens`` are characters where a run had no count, so they are not read. Its time is that of the file, not of a run.
Its expectations have no names, so they are no checks.

Prompts, rubrics, answers and paths are not kept: a prompt becomes a digest.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from core.errors import UnreadableSource
from core.formats.entries import Rejected
from core.formats.reading import Head, Reading
from core.formats.strict import UNDECODABLE, Flaw, decoded, digest_of, named, utc_ms_of
from core.formats.trial_lines import VERSION, Collected, TrialHeader
from core.records.limits import MAX_LABEL_CHARS, Label, shown
from core.records.trial import TRIAL_SIDES, Cell, End, Presence, TrialResults, TrialSide

PLUGIN_EVAL: Final = "claude-plugin-eval"
SKILL_CREATOR: Final = "skill-creator"
_SCHEMA: Final = 1
_PICO: Final = 10**12
_MOST_DOLLARS: Final = 10**6
_CONFIGURATIONS: Final[dict[str, TrialSide]] = {"with_skill": "with", "without_skill": "without"}
_NOT_LOADED: Final = frozenset(("manifest_invalid", "disabled_by_default", "will_not_load"))
_SKILL_TOOL: Final = "Skill"
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


def pico_of(dollars: float | None) -> int | None:
    """Return millionths of a millionth of a dollar; None for no amount.

    >>> pico_of(0.14), pico_of(-1), pico_of(None)
    (140000000000, None, None)
    """
    is_amount = dollars is not None and math.isfinite(dollars) and 0 <= dollars <= _MOST_DOLLARS
    return round(dollars * _PICO) if is_amount and dollars is not None else None


def source_of(head: Head) -> str | None:
    """Return the name of the document's format, None for another file."""
    if "cases" in head.keys and {"suite", "schemaVersion"} & head.keys:
        return PLUGIN_EVAL
    is_benchmark = "runs" in head.keys and b'"eval_id"' in head.start and b'"configuration"' in head.start
    return SKILL_CREATOR if is_benchmark else None


def results_in(reading: Reading, source: str) -> TrialResults:
    """Return the results of a document; raise `UnreadableSource` for one that is damaged."""
    document = reading.checked(*next(reading.pieces()))
    if isinstance(document, Rejected):
        raise UnreadableSource(
            f"A document of results must be whole. {document.reason} ({reading.file}).",
            next_step="Wait until the program has written it, or copy it again.",
        )
    read = _plugin_eval if source == PLUGIN_EVAL else _benchmark
    return read(reading, document)


def _collected(
    reading: Reading, records: list[msgspec.Raw], cells_of: Callable[[bytes, Collected], Iterable[Cell]]
) -> Collected:
    """Return the cells of all records that can be read; the others are left out."""
    collected = Collected(reading.file)
    for number, raw in enumerate(records, start=1):
        try:
            cells = list(cells_of(bytes(raw), collected))
        except UNDECODABLE as error:
            collected.rejected.append(reading.rejected(number, error, bytes(raw)))
        else:
            for cell in cells:
                collected.add(cell)
    return collected


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
    def fault(self) -> str:
        """The reason why the run is missing, '' for none."""
        if self.skipped_paid_graders:
            return "graders skipped"
        if self.error and not self.graders:
            return "setup failed"
        matched = _FAULT.search(self.error or "")
        return matched[0].lower() if matched else ""

    @property
    def end(self) -> tuple[End, str]:
        """The end of the run, and the name of its error."""
        if self.fault:
            return "fault", self.fault
        if not self.error:
            return "ended", ""
        return ("limit", "limit of the case") if is_limit(self.error) else ("ended", "error")

    @property
    def grade(self) -> float | None:
        return self.score if self.score is not None or self.passed is None else float(self.passed)

    @property
    def money_pico(self) -> int | None:
        return None if self.cost_usd is None else pico_of(self.cost_usd - (self.judge_cost_usd or 0))


class _Case(msgspec.Struct, rename="camel"):
    name: str
    prompt_markdown: msgspec.Raw = msgspec.Raw(b"null")
    graders: msgspec.Raw = msgspec.Raw(b"[]")
    model: Label | None = None
    arms: dict[str, list[_PluginRun]] = {}

    @property
    def digest(self) -> str:
        return digest_of(bytes(self.prompt_markdown) + bytes(self.graders))

    @property
    def indicators(self) -> dict[str, bool]:
        """The graders that look for a call of a skill by name: whether a pass is a call."""
        uses = {one.name: decoded(_TOOL_USE, one.config) for one in decoded(_DEFINITIONS, self.graders) or ()}
        return {
            name: use.most != 0 for name, use in uses.items() if use is not None and use.tool == _SKILL_TOOL
        }


class _Plugin(msgspec.Struct):
    name: Label = ""
    problem: str | None = None


class _Suite(msgspec.Struct, rename="camel"):
    plugins: list[_Plugin] = []
    model_override: Label = ""


class _PluginEval(msgspec.Struct, rename="camel"):
    cases: list[msgspec.Raw]
    schema_version: int = _SCHEMA
    claude_version: Label = ""
    partial: bool = False
    suite: _Suite = msgspec.field(default_factory=_Suite)

    @property
    def presence(self) -> Presence:
        """The plugin in a run with it, where no grader says more."""
        problems = {one.problem for one in self.suite.plugins}
        if problems & _NOT_LOADED:
            return "absent"
        return "listed" if self.suite.plugins and "identity_unverified" not in problems else "unknown"


_DEFINITIONS: Final = msgspec.json.Decoder(list[_Grader])
_TOOL_USE: Final = msgspec.json.Decoder(_ToolUse)
_CASE: Final = msgspec.json.Decoder(_Case)
_EVALUATION: Final = msgspec.json.Decoder(_PluginEval)


def _plugin_eval(reading: Reading, document: bytes) -> TrialResults:
    evaluation = reading.decoded_whole(_EVALUATION, document)
    if evaluation.schema_version != _SCHEMA:
        raise UnreadableSource(
            f"schemaVersion must be {_SCHEMA}, got {shown(evaluation.schema_version)} ({reading.file}).",
            next_step="Update armscope, or write the results with an earlier version of the program.",
        )
    collected = _collected(reading, evaluation.cases, partial(_cells_of, evaluation))
    if evaluation.partial:
        collected.notes.append("The suite did not finish, so runs are missing.")
    about = ", ".join(dict.fromkeys(one.name for one in evaluation.suite.plugins))[:MAX_LABEL_CHARS]
    header = TrialHeader(armscope_trial=VERSION, harness=PLUGIN_EVAL, alone=True)
    return collected.results(PLUGIN_EVAL, header, about)


def _cells_of(evaluation: _PluginEval, raw: bytes, collected: Collected) -> Iterator[Cell]:
    case = _CASE.decode(raw)
    indicators = case.indicators
    task = collected.task(named(case.name) or "case", case.digest, digest_of(bytes(case.prompt_markdown)))
    for side in TRIAL_SIDES:
        listed: Presence = evaluation.presence if side == "with" else "absent"
        for repeat, run in enumerate(case.arms.get(side, ()), start=1):
            end, error = run.end
            is_called = any(one.passed == indicators.get(one.name) for one in run.graders or ())
            yield Cell(
                task=task,
                repeat=repeat,
                side=side,
                grade=None if end == "fault" else run.grade,
                checks={one.name: float(one.passed) for one in run.graders or () if one.scored},
                end=end,
                error=error,
                money_pico=run.money_pico,
                presence="called" if is_called else listed,
                model=case.model or evaluation.suite.model_override,
                version=evaluation.claude_version,
                at_ms=utc_ms_of(run.started_at)[0],
            )


# --- skill-creator ----------------------------------------------------------------------------------------


class _Rate(msgspec.Struct):
    pass_rate: float | None = None
    total: int | None = None


class _BenchmarkRun(msgspec.Struct):
    configuration: str
    eval_id: int | str | None = None
    eval_name: str | None = None
    run_number: int | None = None
    result: _Rate = msgspec.field(default_factory=_Rate)
    expectations: list[msgspec.Raw] | None = None

    @property
    def grade(self) -> float | None:
        """The rate; a run without any expectation has none, and its program writes 0."""
        return self.result.pass_rate if self.result.total or self.expectations else None


class _OfSkill(msgspec.Struct):
    skill_name: str = ""
    executor_model: str = ""


class _Benchmark(msgspec.Struct):
    runs: list[msgspec.Raw]
    metadata: _OfSkill = msgspec.field(default_factory=_OfSkill)


_RUN: Final = msgspec.json.Decoder(_BenchmarkRun)
_BENCHMARK: Final = msgspec.json.Decoder(_Benchmark)


def _benchmark(reading: Reading, document: bytes) -> TrialResults:
    benchmark = reading.decoded_whole(_BENCHMARK, document)
    model, skill = (
        _filled(one) for one in (benchmark.metadata.executor_model, benchmark.metadata.skill_name)
    )
    names: dict[int | str | None, str] = {}
    n_runs = Counter[tuple[str, str]]()

    def cells(raw: bytes, _: Collected) -> Iterator[Cell]:
        run = _RUN.decode(raw)
        side = _CONFIGURATIONS.get(run.configuration)
        if side is None:
            raise Flaw(f"is of {shown(run.configuration)}, and {' and '.join(_CONFIGURATIONS)} are read")
        key = run.eval_name if run.eval_id is None else run.eval_id
        task = names.setdefault(key, named(run.eval_name) or f"eval-{named(key) or 1}")
        n_runs[task, side] += 1
        yield Cell(
            task=task,
            repeat=run.run_number or n_runs[task, side],
            side=side,
            grade=run.grade,
            end="fault" if run.grade is None else "ended",
            error="not graded" if run.grade is None else "",
            model=model,
        )

    header = TrialHeader(armscope_trial=VERSION, harness=SKILL_CREATOR)
    return _collected(reading, benchmark.runs, cells).results(SKILL_CREATOR, header, skill)


def _filled(value: str) -> str:
    """Return a name that a person filled in, '' for the placeholder of the program."""
    return "" if value.startswith("<") else named(value) or ""
