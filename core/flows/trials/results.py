"""Files of results → the cells of a trial.

A file with both sides is read by itself. Else each side is a file or folder of any format of transcripts. Runs of the
two sides are paired by task, and within a task by their order in time. The grade is that of the episode, else the
outcome that the run states. The parts of a reward are no checks: the harness alone knows how it adds them up.

Harbor's ``result.json`` has the grade, the usage and the error of a run, also without a trajectory. The transcripts
below its folder show whether the arm was there. A task's checksum is its digest. Harbor loads an arm alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, get_args

import msgspec
from msgspec import structs

from core.detect.mentions import spellings
from core.errors import InvalidInput, UnreadableSource
from core.formats import (
    Entry,
    Limits,
    Opened,
    Rejected,
    atif,
    files_in,
    is_folder,
    open_sources,
    refuse_address,
)
from core.formats.heads import head_of
from core.formats.reading import Reading
from core.formats.strict import decoded, digest_of, named, utc_ms_of
from core.formats.trial_files import (
    OWN_LINES,
    PLUGIN_EVAL,
    SKILL_CREATOR,
    Collected,
    TrialHeader,
    is_limit,
    pico_of,
    results_in,
    source_of,
)
from core.records.achieved import OutcomeLine
from core.records.arm import Arm, skill_name
from core.records.counts import number_of
from core.records.episode import Episode
from core.records.limits import MAX_TOKENS, Label, Tokens, shown
from core.records.run import Run, Status
from core.records.trial import NOT_GRADED, TRIAL_SIDES, Cell, End, Presence, TrialResults, TrialSide

_HARBOR: Final = "harbor"
_OF_JOB: Final = b'"n_total_trials"'
_PRESENCES: Final[tuple[Presence, ...]] = get_args(Presence)
_MOST_ERROR: Final = 80
_BOTH_SIDES: Final = (
    f"Both sides are in files of {OWN_LINES}, {PLUGIN_EVAL} and {SKILL_CREATOR}. "
    "For runs of any other harness name the sides: armscope trial read --with FOLDER --without FOLDER."
)


def read_results(path: Path, *, limits: Limits | None = None) -> TrialResults:
    """Return the cells of a file of results with both sides, whose format is recognised; a folder may hold one.

    Reading a file again once it has grown gives the same earlier cells. Lines and records that can't be read are left
    out and noted. Raises `UnreadableSource` where nothing can be read.
    """
    limits = limits or Limits()
    refuse_address(str(path))
    is_one = not is_folder(path)
    sources: dict[Path, str] = {}
    for one in [path] if is_one else files_in([path]):
        with suppress(*(() if is_one else (UnreadableSource,))):
            if source := source_of(head_of(one, str(one), limits)):
                sources[one] = source
    if len(sources) != 1:
        raise UnreadableSource(
            f"Results of a trial must be one file with both sides, got {len(sources):,} ({path}).",
            next_step="Name the file itself." if sources else _BOTH_SIDES,
        )
    file, source = sources.popitem()
    return results_in(_reading(file, limits, is_lines=source == OWN_LINES), source)


def _reading(path: Path, limits: Limits, *, is_lines: bool = False) -> Reading:
    return Reading(
        path=path,
        file=str(path),
        shape="lines" if is_lines else "object",
        unit="episode",
        supplied=None,
        limits=limits,
        takes_nan=True,
    )


# --- two sides --------------------------------------------------------------------------------------------


class _SideRun(NamedTuple):
    """A run as a cell, before its repeat is known; ``prompt`` and ``digest`` are of the task's prompt and folder."""

    cell: Cell
    prompt: str = ""
    digest: str = ""
    environment: str = ""
    status: Status = "completed"
    achieved: float | None = None


def read_sides(
    with_path: Path, without_path: Path, *, arm: str = "", limits: Limits | None = None
) -> TrialResults:
    """Return the cells of two files or folders: runs with an arm, and runs without it.

    ``arm`` is looked for in each run. A task of the same name with another digest is another task. If the sides share
    no digest, the arm lies in the tasks' folders, and names alone pair them. Raises `UnreadableSource` where a side
    has no graded run, or both have no task in common.
    """
    one, other = (path.resolve() for path in (with_path, without_path))
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise InvalidInput(
            f"The two sides must lie apart, got {with_path} and {without_path}.",
            next_step="Name the folder of the runs with the arm, then that of the runs without it.",
        )
    collected, formats = Collected(file=f"{with_path}, {without_path}"), dict[str, None]()
    results: dict[TrialSide, list[_SideRun]] = {}
    for side, path in zip(TRIAL_SIDES, (with_path, without_path), strict=True):
        reader = _Side(path, side, Arm(key=arm) if arm else None, limits or Limits(), collected)
        results[side] = sorted(reader.results(), key=lambda each: each.cell.at_ms or 0)
        formats |= reader.formats
    is_mixed = any(len({one.environment for one in runs}) > 1 for runs in results.values())
    digests = [{(one.cell.task, one.digest) for one in runs} for runs in results.values()]
    has_digests = not digests[0].isdisjoint(digests[1])
    if not has_digests:
        collected.notes.append("Each task has another digest on each side. Its name alone pairs its runs.")
    tasks = {side: {*_pair(collected, runs, is_mixed, has_digests)} for side, runs in results.items()}
    if tasks["with"].isdisjoint(tasks["without"]):
        raise UnreadableSource(
            f"The sides must have a task in common, got {_some(tasks['with'])} and {_some(tasks['without'])}.",
            next_step="Check that both folders are of the same tasks.",
        )
    header = TrialHeader(armscope_trial=1, arm=arm, alone=[*formats] == [_HARBOR])
    return collected.results(", ".join(formats), header)


def _pair(collected: Collected, runs: list[_SideRun], is_mixed: bool, has_digests: bool) -> Iterator[str]:
    """Add each run as the next repeat of its task, and yield the task; in mixed folders its environment names it."""
    n_runs = Counter[tuple[str, str]]()
    for one in runs:
        cell = one.cell
        name = f"{one.environment}/{cell.task}" if is_mixed and one.environment else cell.task
        task = collected.task(name, one.digest if has_digests else "")
        n_runs[task, cell.model] += 1
        collected.add(structs.replace(cell, task=task, repeat=n_runs[task, cell.model]))
        yield task


def _some(names: set[str]) -> str:
    return f"{shown(min(names))} of {number_of(len(names), 'task')}"


class _HarborUsage(msgspec.Struct):
    n_input_tokens: Tokens | None = None
    n_output_tokens: Tokens | None = None
    cost_usd: float | None = None


class _HarborModel(msgspec.Struct):
    name: Label = ""


class _HarborAgent(msgspec.Struct):
    version: Label = ""
    model_info: _HarborModel | None = None


class _HarborRun(atif.TrialResult, kw_only=True):
    task_checksum: Label | None = None
    agent_info: _HarborAgent | None = None
    finished_at: str | None = None

    def result(self, transcripts: Cell) -> _SideRun:
        """Return the run with what its transcripts show."""
        errors = [one.exception_type for one in self.exceptions]
        agent = self.agent_info or _HarborAgent()
        parts = [decoded(_USAGE, one.agent_result) for one in (self, *(self.step_results or ()))]
        usages = [one for one in parts if one is not None]
        tokens = sum((one.n_input_tokens or 0) + (one.n_output_tokens or 0) for one in usages)
        dollars = [one.cost_usd for one in usages if one.cost_usd is not None]
        is_fault = self.broken is not None and not is_limit(self.broken)
        end: End = "fault" if is_fault else "limit" if any(map(is_limit, errors)) else "ended"
        cell = structs.replace(
            transcripts,
            task=named(self.task_name) or named(self.trial_name) or "-",
            error=(self.broken or next(iter(errors), ""))[:_MOST_ERROR],
            tokens=_held(tokens) or transcripts.tokens,
            money_pico=pico_of(sum(dollars)) if dollars else None,
            model=transcripts.model if agent.model_info is None else agent.model_info.name,
            version="" if agent.version == "unknown" else agent.version,
            at_ms=utc_ms_of(self.finished_at)[0],
        )
        return _SideRun(_graded(cell, self.reward, end), digest=self.task_checksum or "")


_RESULT: Final = msgspec.json.Decoder(_HarborRun)
_USAGE: Final = msgspec.json.Decoder(_HarborUsage)


class _Side:
    """The runs of one side: Harbor's results, and the sources of all formats."""

    def __init__(
        self, path: Path, side: TrialSide, arm: Arm | None, limits: Limits, collected: Collected
    ) -> None:
        self._path, self._side, self._arm, self._limits, self._collected = path, side, arm, limits, collected
        self._harbor = dict(self._harbor_runs())
        self.formats = dict.fromkeys([_HARBOR] if self._harbor else [])
        self._shown: dict[Path | str, list[_SideRun]] = {}
        self._episodes: dict[str, Episode] = {}
        self._outcomes: dict[str, float] = {}
        self._n_left_out = 0

    def results(self) -> list[_SideRun]:
        """Return all runs with a task."""
        with self._opened() as opened:
            for source in opened.sources:
                folder = next((one for one in source.path.resolve().parents if one in self._harbor), None)
                self.formats |= {} if folder else {source.format: None}
                for entry in source.entries():
                    self._take(entry, folder)
        harbor = [run.result(self._merged(self._shown.pop(path, []))) for path, run in self._harbor.items()]
        results = [*harbor, *self._of_episodes(), *self._of_runs()]
        if self._n_left_out:
            left_out = number_of(self._n_left_out, "run")
            self._collected.notes.append(f"{left_out} {self._side} the arm have no task or end: left out.")
        if all(one.cell.grade is None and one.cell.end != "limit" for one in results):
            runs = number_of(len(results), "run")
            raise UnreadableSource(
                f"A side must hold graded runs, got {runs} without a grade ({self._path}).",
                next_step="Name the folder with the results of the harness, not with its logs alone.",
            )
        return results

    def _harbor_runs(self) -> Iterator[tuple[Path, _HarborRun]]:
        for file in files_in([self._path]):
            if file.name != atif.RESULT:
                continue
            reading = _reading(file, self._limits)
            for _, raw, run in reading.records(_RESULT.decode):
                if isinstance(run, _HarborRun):
                    yield file.parent.resolve(), run
                elif _OF_JOB not in raw and (b'"trial_name"' in raw or not raw.rstrip().endswith(b"}")):
                    self._collected.rejected.append(run)

    def _opened(self) -> Opened:
        try:
            return open_sources([self._path], unit="episode", limits=self._limits)
        except InvalidInput:  # a format has no such unit
            return open_sources([self._path], limits=self._limits)
        except UnreadableSource:
            if not self._harbor:
                raise
            return Opened(sources=())

    def _take(self, entry: Entry, folder: Path | None) -> None:
        if isinstance(entry, Run) and not entry.empty:
            self._shown.setdefault(folder or entry.uid, []).append(_shown_by(entry, self._side, self._arm))
        elif isinstance(entry, Episode) and folder is None:
            known = self._episodes.get(entry.uid)
            if known is None or known.rank < entry.rank:
                self._episodes[entry.uid] = entry.without_texts()
        elif isinstance(entry, OutcomeLine):
            self._outcomes[entry.run] = entry.value
        elif isinstance(entry, Rejected):
            self._collected.rejected.append(entry)

    def _of_episodes(self) -> Iterator[_SideRun]:
        for episode in self._episodes.values():
            runs = [one for uid in episode.runs for one in self._shown.pop(uid, [])]
            if episode.status == "unfinished" or episode.task is None:
                self._n_left_out += 1
            else:
                yield self._of_episode(episode, runs)

    def _of_episode(self, episode: Episode, runs: list[_SideRun]) -> _SideRun:
        error = episode.steps[-1].name if episode.broken and episode.steps else ""
        statuses = {one.status for one in runs}
        is_fault = episode.incomplete or (episode.broken and not is_limit(error)) or "aborted" in statuses
        is_limited = episode.broken or "error" in statuses
        merged = self._merged(runs)
        cell = structs.replace(
            merged,
            task=named(episode.task) or "",
            error=error[:_MOST_ERROR],
            model=episode.model or merged.model,
            at_ms=merged.at_ms if episode.at_ms is None else episode.at_ms,
        )
        end: End = "fault" if is_fault else "limit" if is_limited else "ended"
        environment = episode.environment.removeprefix(f"{episode.format}/")
        return _SideRun(_graded(cell, episode.total, end), environment=environment)

    def _of_runs(self) -> Iterator[_SideRun]:
        """Yield the runs outside episodes. Their task is the digest of their prompt."""
        for uid, runs in self._shown.items():
            one = runs[-1]
            if not one.prompt:
                self._n_left_out += 1
                continue
            cell = structs.replace(one.cell, task=f"prompt-{one.prompt[:12]}")
            end: End = "fault" if one.status == "aborted" else "ended"
            yield _SideRun(_graded(cell, self._outcomes.get(str(uid), one.achieved), end))

    def _merged(self, runs: list[_SideRun]) -> Cell:
        """Return what the runs of one episode show together."""
        cells = [one.cell for one in runs]
        tokens, used = [one.tokens for one in cells], [one.used for one in cells]
        n_used = sum(one or 0 for one in used)
        return Cell(
            task="-",
            repeat=1,
            side=self._side,
            tokens=_held(sum(one or 0 for one in tokens)) if tokens and None not in tokens else None,
            presence=min((one.presence for one in cells), key=_PRESENCES.index, default="unknown"),
            used=n_used if n_used or (used and None not in used) else None,
            model=next((one.model for one in cells if one.model), ""),
            at_ms=max((one.at_ms for one in cells if one.at_ms is not None), default=None),
            session=next((one.session for one in cells), ""),
        )


def _held(tokens: int | None) -> int | None:
    """Return tokens; None for more than a cell holds."""
    return None if tokens is None or tokens > MAX_TOKENS else tokens


def _shown_by(run: Run, side: TrialSide, arm: Arm | None) -> _SideRun:
    presence, used = _presence(run, arm)
    cell = Cell(
        task="-",
        repeat=1,
        side=side,
        tokens=_held(run.tokens),
        presence=presence,
        used=used,
        model=run.model or "",
        at_ms=run.ended_at_ms,
        session=run.session or "",
    )
    prompt = digest_of(run.prompt.encode(errors="replace")) if run.prompt else ""
    return _SideRun(cell, prompt, status=run.status, achieved=run.achieved)


def _graded(cell: Cell, grade: float | None, end: End) -> Cell:
    """Return a cell with its grade; one that can't count makes the cell missing."""
    if grade is not None and not 0 <= grade <= 1:
        return structs.replace(cell, end="fault", error="grade not from 0 to 1")
    if grade is None and end == "ended":
        return structs.replace(cell, end="fault", error=NOT_GRADED)
    error = cell.error or ("" if end == "ended" else end)
    return structs.replace(cell, grade=None if end == "fault" else grade, end=end, error=error)


def _presence(run: Run, arm: Arm | None) -> tuple[Presence, int | None]:
    """Return the arm in a run, and how often it was used. A name in a text is no use."""
    if arm is None:
        return "unknown", None
    names = {arm.name, *spellings(arm)} if arm.type == "tool" else set()
    n_used = sum(call.name in names or _loads(call.name, call.metadata, arm) for call in run.calls)
    n_used = n_used or int(arm.key in {*run.loaded, *run.typed})
    if n_used:
        return "called", n_used
    alike = [one for one in run.inventory.offered if one.type == arm.type]
    if run.inventory.kind == "inferred" or not (alike or arm.type == "tool"):
        return "unknown", None
    if any(one.key == arm.key or one.name in names for one in alike):
        return "listed", 0 if names or run.loads_known else None
    return "absent", 0


def _loads(call: str, arguments: str, arm: Arm) -> bool:
    """Return whether a call loads a skill, by the name in its arguments."""
    is_load = call == "Skill" and arm.type == "skill"
    return is_load and re.search(rf'[":]{re.escape(skill_name(arm.key))}"', arguments) is not None
