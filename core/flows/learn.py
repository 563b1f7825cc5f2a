"""Learn: runs → evidence → verdicts → observations → the store. One run at a time, or whole files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar, assert_never

import msgspec

from core.detect import detect
from core.errors import ArmscopeError, UnreadableSource
from core.flows.desk import Desk
from core.flows.note import asked, note_reply
from core.flows.reward import asked_by, not_in_prompt, taken, told_reply
from core.formats import Entry, Limits, Note, Outside, Rejected, Source, Stated, open_sources
from core.formats.armscope import NAME as OWN_FORMAT
from core.guard import guard
from core.observe import observe, outcome_arms, reward_of_flag
from core.records.arm import MICRO, Arm, arm_type
from core.records.evidence import Evidence
from core.records.judged import INCLUDED, Judged
from core.records.learner import LearnerSettings
from core.records.ledger_lines import (
    ArmLine,
    LearnerLine,
    NoteLine,
    ResetLine,
    RewardLine,
    RunLine,
    carried_prefix,
)
from core.records.observation import Amount
from core.records.run import Phase, Run, Unit
from core.records.verdict import SKIP_REASONS, Outcome, SkipReason, Verdict
from core.store.choices import tell_setting
from core.store.claims import settle_arms, tell_arms
from core.store.imports import begin_import, finish_import, present, reopen_import, standing_rewards
from core.store.ledger import Entry as LedgerEntry
from core.store.ledger import add_observations, claim_observation, mark_told_undone, tell_observation
from core.store.notes import add_note, claim_note, mark_note, tell_note
from core.store.reads import find_run, outcome_of
from core.store.replies import ReplyKind, keep_reply, number_told, reply_of
from core.store.resets import add_reset, mark_reset, tell_reset
from core.store.runs import Told, add_runs
from core.store.transaction import TOLD, Detail, Transaction

BATCH: Final = 1_000
_T = TypeVar("_T")
_IS_INCLUDED: Final = bytes(flag & INCLUDED for flag in range(256))
SHOWN: Final = 100
"""Rejected lines, and likewise differences, that an answer lists; it counts them all."""
_SAME: Final = 1e-6
"""Pseudo-counts by which two beliefs may differ and still be the same: exports round."""
_OTHER_UNIT: Final[dict[Unit, tuple[Unit, ...]]] = {
    "prompt": ("episode",),
    "turn": ("episode",),
    "episode": ("turn", "prompt"),
}

Progress = Callable[[Source, int], None]
"""Called with the file being read and its bytes read so far."""


class RecordAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``outcome`` is the guard's verdict, ``told`` whether the run was new, known, or known and shorter."""

    uid: str
    outcome: Outcome
    told: Told
    observed: int


class RejectedLine(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    line: int | None
    reason: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A belief that a file states, and what its own traces come to from this learner's prior."""

    arm: str
    stated_alpha: float
    stated_beta: float
    stated_pulls: int
    alpha: float
    beta: float
    pulls: int


class ImportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an import came to.

    ``runs`` = read and not empty = ``observed`` + ``skipped`` (``skipped_by`` reason); of them ``duplicates``
    were known and ``updated`` known and shorter. ``outside``: replies that belong to no turn; ``not_offered``:
    calls of tools that were not in the prompt, once a run and tool; ``ledger``: rewards, carried beliefs, resets
    and notes about arms read, of them ``ledger_duplicates`` were known; ``differences``: beliefs a file states
    that its own runs don't lead to; ``notes``: what was done with it that one might not expect.
    """

    id: str
    format: str
    unit: str
    files: int
    runs: int
    observed: int
    skipped: int
    empty: int
    outside: int
    duplicates: int
    updated: int
    not_offered: int
    rejected: tuple[RejectedLine, ...]
    rejected_count: int
    skipped_by: dict[SkipReason, int] = {}
    ledger: int = 0
    ledger_duplicates: int = 0
    ignored: tuple[RejectedLine, ...] = ()
    differences: tuple[Difference, ...] = ()
    differences_count: int = 0
    notes: tuple[str, ...] = ()
    hint: str | None = None

    def after(self, earlier: ImportAnswer) -> ImportAnswer:
        """Both as one answer: what an import that went on has told so far, of which this is the latest part.

        Counts add up, so a file or run that was read again counts again (the runs among ``duplicates`` or
        ``updated``). Lines, files and beliefs that were listed before are the same ones and count once; beyond
        the first hundred, which are all that is kept of them, they can't be told apart and count again.
        """
        rejected = _new(earlier.rejected, self.rejected)
        differences = _new(earlier.differences, self.differences)
        totals = {name: getattr(earlier, name) + getattr(self, name) for name in _COUNTS}
        skipped_by = Counter(earlier.skipped_by) + Counter(self.skipped_by)
        return msgspec.structs.replace(
            self,
            **totals,
            format=_names(earlier.format, self.format),
            unit=_names(earlier.unit, self.unit),
            skipped_by={reason: skipped_by[reason] for reason in SKIP_REASONS if skipped_by[reason]},
            rejected=(*earlier.rejected, *rejected)[:SHOWN],
            rejected_count=earlier.rejected_count + self.rejected_count - len(self.rejected) + len(rejected),
            ignored=(*earlier.ignored, *_new(earlier.ignored, self.ignored)),
            differences=(*earlier.differences, *differences)[:SHOWN],
            differences_count=earlier.differences_count
            + self.differences_count
            - len(self.differences)
            + len(differences),
            notes=(*earlier.notes, *_new(earlier.notes, self.notes)),
            hint=earlier.hint if self.hint is None else self.hint,
        )


_COUNTS: Final = (
    "files",
    "runs",
    "observed",
    "skipped",
    "empty",
    "outside",
    "duplicates",
    "updated",
    "not_offered",
    "ledger",
    "ledger_duplicates",
)


def _new(earlier: Sequence[_T], later: Sequence[_T]) -> list[_T]:
    """Those of ``later`` that are no repeats. Equal ones in one list are two, one in each is met again.

    >>> _new("aab", "abbc")
    ['b', 'c']
    """
    known = Counter(earlier)
    found = []
    for one in later:
        if known[one]:
            known[one] -= 1
        else:
            found.append(one)
    return found


def _names(earlier: str, later: str) -> str:
    """
    >>> _names("armscope", "claude-code, armscope"), _names("", "turn")
    ('armscope, claude-code', 'turn')
    """
    return ", ".join(sorted({*earlier.split(", "), *later.split(", ")} - {""}))


def judge(run: Run, settings: LearnerSettings, phase: Phase | None = None) -> Judged:
    """Run → what was seen of its arms and what follows, by the learner's settings."""
    evidence = detect(run, settings.mode, settings.meta_tools)
    verdict = guard(run, evidence, settings.phase if phase is None else phase)
    return Judged(run=run, evidence=evidence, verdict=verdict, flags=observe(run, evidence, verdict))


def record(desk: Desk, run: Run) -> RecordAnswer:
    """Record one run; it is on disk when this returns. The same run again changes nothing.

    Raises `Conflict` for a uid that stands for other content.
    """
    return record_all(desk, [run])[0]


def record_all(desk: Desk, runs: Sequence[Run]) -> list[RecordAnswer]:
    """Record many runs in one transaction: all of them or none."""
    with desk.writing("ingest", create=True) as txn:
        batch = [judge(run, txn.settings) for run in runs]
        told = add_runs(txn, batch)
    return [
        RecordAnswer(
            uid=judged.run.uid,
            outcome=judged.verdict.outcome,
            told=how,
            observed=sum(judged.flags.translate(_IS_INCLUDED)) if judged.verdict.observed else 0,
        )
        for judged, how in zip(batch, told, strict=True)
    ]


def import_files(
    desk: Desk,
    paths: Iterable[Path],
    *,
    format: str | None = None,
    unit: Unit | None = None,
    tools_file: Path | None = None,
    phase: Phase | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
    continuing: str | None = None,
    names: Mapping[Path, str] | None = None,
) -> ImportAnswer:
    """Read files and folders into the learner, in one transaction and as one act that `undo` takes back.

    ``continuing`` names an import that this one goes on with, under its id; one that was undone is not taken
    up again. The answer is of what was read now, while the import is remembered by all it told so far.
    ``names`` says what files are called where that isn't their path.

    Importing again changes nothing; a longer copy of a source updates its runs. Lines that can't be read are
    listed and never fatal. Raises `UnreadableSource` where nothing could be read at all.
    """
    opened = open_sources(paths, format=format, unit=unit, tools_file=tools_file, limits=limits, names=names)
    if not opened.sources:
        raise _nothing_to_read(opened.skipped[0].reason if opened.skipped else None)
    with desk.writing("ingest", create=True) as txn:
        known = None if continuing is None else reopen_import(txn, continuing)
        number = begin_import(txn) if known is None else known.number
        reader = _Import(txn=txn, number=number, phase=phase)
        for source in opened.sources:
            reader.read(source, progress)
        ignored = tuple(RejectedLine(file=one.file, line=None, reason=one.reason) for one in opened.skipped)
        answer = reader.answer(opened.sources, ignored)
        if not (answer.runs or answer.ledger or answer.empty or reader.n_arms):
            raise _nothing_in(answer)
        if known is None:
            so_far = answer
            told: Detail = {"runs": answer.runs, "format": answer.format, "files": answer.files}
            txn.audit("import", answer.id, told)
        else:
            so_far = answer.after(msgspec.json.decode(known.summary, type=ImportAnswer))
        finish_import(txn, number, msgspec.json.encode(so_far).decode())
    return answer


@dataclass
class _Import:
    """One import under way: collects runs into batches, and counts."""

    txn: Transaction
    number: int
    phase: Phase | None
    batch: list[Judged] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rejected: list[RejectedLine] = field(default_factory=list)
    units: set[str] = field(default_factory=set)
    refused_sources: set[str] = field(default_factory=set)
    accepted_sources: set[str] = field(default_factory=set)
    file: str = ""
    n_arms: int = 0
    no_user_text: bool = False
    settings_told: bool = False
    notes: list[str] = field(default_factory=list)
    stated: dict[str, Stated] = field(default_factory=dict)
    folded: Counter[tuple[str, bool]] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    since: int = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.txn.revision

    def read(self, source: Source, progress: Progress | None) -> None:
        self.file = source.file
        entries = source.entries(None if progress is None else lambda n_bytes: progress(source, n_bytes))
        try:
            for entry in entries:
                self._refuse_own_view(source, entry)
                self._take(entry)
        except UnreadableSource as problem:
            self._reject(None, problem.problem)
        self._flush()
        self._compare()

    def _refuse_own_view(self, source: Source, entry: Entry) -> None:
        """What this learner wrote for other programs names its runs anew, so they would count twice."""
        if not isinstance(entry, LearnerLine) or source.format == OWN_FORMAT:
            return
        if self.txn.origin and entry.origin == self.txn.origin:
            raise UnreadableSource(
                f"An export for other programs can't go back into the learner it is from ({source.file}).",
                next_step="Use armscope export --format jsonl, which is loss-free and counts nothing twice.",
            )

    def answer(self, sources: Sequence[Source], ignored: tuple[RejectedLine, ...]) -> ImportAnswer:
        counts = self.counts
        return ImportAnswer(
            id=f"import-{self.number}",
            format=", ".join(sorted({source.format for source in sources})),
            unit=", ".join(sorted(self.units)),
            files=len(sources),
            runs=counts["observed"] + counts["skipped"],
            observed=counts["observed"],
            skipped=counts["skipped"],
            skipped_by={reason: counts[reason] for reason in SKIP_REASONS if counts[reason]},
            empty=counts["empty"],
            outside=counts["outside"],
            duplicates=counts["duplicate"],
            updated=counts["updated"],
            not_offered=counts["not_offered"],
            rejected=tuple(self.rejected),
            rejected_count=counts["rejected"],
            ledger=counts["ledger"],
            ledger_duplicates=counts["ledger_duplicate"],
            ignored=ignored,
            differences=tuple(self.differences),
            differences_count=counts["differences"],
            notes=tuple(self.notes),
            hint="Some records have no user text and so no turns: read them with --unit episode."
            if self.no_user_text
            else None,
        )

    def _take(self, entry: Entry) -> None:
        if isinstance(entry, Run):
            self._add(judge(entry, self.txn.settings, self.phase))
        elif isinstance(entry, RunLine):
            self._add(judged_line(entry))
        elif isinstance(entry, Rejected):
            self._reject(entry.line, entry.reason)
        elif isinstance(entry, Outside):
            self.counts["outside"] += entry.n_replies
            self.no_user_text |= entry.no_user_text
        elif isinstance(entry, Stated):
            self.stated[entry.arm] = entry
        elif isinstance(entry, Note):
            self.notes.append(entry.text)
        else:
            self._flush()
            self._take_ledger(entry)

    def _take_ledger(self, line: LearnerLine | ArmLine | RewardLine | ResetLine | NoteLine) -> None:
        try:
            if isinstance(line, LearnerLine):
                self._take_settings(line)
            elif isinstance(line, ArmLine):
                self._take_arm(line)
            elif isinstance(line, RewardLine):
                self._take_reward(line)
            elif isinstance(line, ResetLine):
                self._take_reset(line)
            elif isinstance(line, NoteLine):
                self._take_note(line)
            else:
                assert_never(line)
        except ArmscopeError as problem:
            self._reject(None, problem.problem)

    def _add(self, judged: Judged) -> None:
        self.units.add(judged.run.unit)
        if self.stated:
            self._fold(judged)
        self.batch.append(judged)
        if len(self.batch) >= BATCH:
            self._flush()

    def _fold(self, judged: Judged) -> None:
        """Count what a file's runs say of the arms that it states beliefs of."""
        for arm, flag in zip(outcome_arms(judged.run), judged.flags, strict=True):
            reward = reward_of_flag(flag)
            if reward is not None and arm in self.stated:
                self.folded[arm, reward > 0] += 1

    def _compare(self) -> None:
        """Set the beliefs a file states beside what its runs lead to."""
        for stated in self.stated.values():
            found = self._difference(stated)
            if found is not None:
                self.counts["differences"] += 1
                if len(self.differences) < SHOWN:
                    self.differences.append(found)
        self.stated.clear()
        self.folded.clear()

    def _difference(self, stated: Stated) -> Difference | None:
        prior = self.txn.settings.priors.of(arm_type(stated.arm))
        used, unused = self.folded[stated.arm, True], self.folded[stated.arm, False]
        alpha = prior.alpha_micro / MICRO + used
        beta = prior.beta_micro / MICRO + unused
        is_same = abs(alpha - stated.alpha) <= _SAME and abs(beta - stated.beta) <= _SAME
        if is_same and stated.pulls == used + unused:
            return None
        return Difference(
            arm=stated.arm,
            stated_alpha=stated.alpha,
            stated_beta=stated.beta,
            stated_pulls=stated.pulls,
            alpha=alpha,
            beta=beta,
            pulls=used + unused,
        )

    def _flush(self) -> None:
        batch = self._refuse_other_units(self.batch)
        self.batch = []
        for judged, told in zip(batch, add_runs(self.txn, batch, import_no=self.number), strict=True):
            outcome = judged.verdict.outcome
            self.counts["skipped"] += outcome in SKIP_REASONS
            self.counts[outcome] += 1
            if outcome != "empty":
                self.counts[told] += 1
                self.counts["not_offered"] += len(judged.run.not_offered or judged.evidence.not_offered)

    def _refuse_other_units(self, batch: list[Judged]) -> list[Judged]:
        """Leave out sources that are here in another unit: their calls would count twice."""
        sources = {judged.run.source: judged.run for judged in batch if judged.run.source is not None}
        for name, run in sources.items():
            known = self.refused_sources | self.accepted_sources
            if name not in known and run.uid.startswith(f"{run.format}/{run.unit}/{name}"):
                self._decide_source(name, run)
        return [judged for judged in batch if judged.run.source not in self.refused_sources]

    def _decide_source(self, name: str, run: Run) -> None:
        others = {f"{run.format}/{unit}/{name}": unit for unit in _OTHER_UNIT[run.unit]}
        for prefix in present(self.txn, list(others)):
            self.refused_sources.add(name)
            self._reject(
                None,
                f"Record {name[:20]} is here already by {others[prefix]}; by {run.unit} its calls would count twice."
                f" Undo that import first, or use --unit {others[prefix]}.",
            )
            return
        self.accepted_sources.add(name)

    def _take_settings(self, line: LearnerLine) -> None:
        """A learner that an import makes takes over the settings of the one it was exported from."""
        if line.settings is None or self.settings_told:
            return
        if self.txn.revision != self.since:
            raise UnreadableSource(
                "A learner line must come before every reset, got one after it; its settings were left out.",
                next_step="Put it first.",
            )
        self.settings_told = True
        for name in line.settings.__struct_fields__:
            tell_setting(self.txn, name, getattr(line.settings, name))

    def _take_arm(self, line: ArmLine) -> None:
        arm = Arm(key=line.key, label=line.label, token_cost=line.token_cost)
        numbers = list(self.txn.ensure_arms([arm], declared=TOLD).values())
        tell_arms(self.txn, numbers, self.number, line.prior)
        settle_arms(self.txn, numbers)
        self.n_arms += 1

    def _take_reward(self, line: RewardLine) -> None:
        self.counts["ledger"] += 1
        if _is_own(self.txn, line.id):
            self.counts["ledger_duplicate"] += 1
            return
        number = self._known_reward(line)
        if number is not None:
            self.counts["ledger_duplicate"] += 1
        else:
            self._refuse_later_state(line)
            number = add_observations(self.txn, [self._entry(line)], import_no=self.number)[0]
            if line.undone:
                mark_told_undone(self.txn, "reward", number)
        if line.key is not None:
            keep_reply(self.txn, line.key, told_reply(self.txn, line, number))

    def _known_reward(self, line: RewardLine) -> int | None:
        """The reward that is here already: told under this id, or asked for by the same request."""
        number = tell_observation(self.txn, line.id, self.number)
        if number is None and line.key is not None:
            number = self._of_request("reward", line.key, asked_by(line))
            if number is not None:
                claim_observation(self.txn, number, self.number)
        return number

    def _of_request(self, kind: ReplyKind, key: str, payload: int) -> int | None:
        """What the same request made here; raises `Conflict` where the key stands for another."""
        number = number_told(self.txn, kind, key, payload)
        kept = None if number is not None else reply_of(self.txn, key)
        if kept is not None:
            raise taken(key, kept)
        return number

    def _refuse_later_state(self, line: RewardLine) -> None:
        """A belief carried before with other content would count twice: it holds what this one does, or more."""
        prefix = carried_prefix(line.arm)
        if line.id.startswith(prefix) and standing_rewards(self.txn, prefix):
            raise UnreadableSource(
                f"Arm {line.arm[:60]!a} has a carried belief already, of another state; both would count twice.",
                next_step="Undo the import that carried it, then import this one.",
            )

    def _entry(self, line: RewardLine) -> LedgerEntry:
        arm_no = self._arm_no(line.arm)
        success, failure = _amounts(line)
        return LedgerEntry(
            kind=line.observation,
            arm_no=arm_no,
            run_no=self._run_no(line, arm_no),
            success_micro=success,
            failure_micro=failure,
            pulls=1 if line.pulls is None else line.pulls,
            reason=line.context.reason or "",
            actor=line.context.by or self.txn.actor.name,
            at_ms=self.txn.now_ms if line.at_ms is None else line.at_ms,
            uid=line.id,
        )

    def _run_no(self, line: RewardLine, arm_no: int) -> int:
        if line.context.run is None:
            return 0
        run = find_run(self.txn, line.context.run)
        if run is None:
            raise UnreadableSource(
                f"Reward {line.id[:60]!a} names run {line.context.run[:60]!a}, which is not here.",
                next_step="Import the runs first, or in the same file.",
            )
        flags = outcome_of(self.txn, run.run_no, arm_no)
        if flags is None or not flags & INCLUDED:
            raise not_in_prompt(line.arm, run.run_no)
        return run.run_no

    def _take_reset(self, line: ResetLine) -> None:
        self.counts["ledger"] += 1
        if _is_own(self.txn, line.id):
            self.counts["ledger_duplicate"] += 1
            return
        # A known one too: what this import tells before and after it keeps its side, should only this one stand.
        self.txn.advance()
        if tell_reset(self.txn, line.id, self.number) is not None:
            self.counts["ledger_duplicate"] += 1
            self.txn.advance()
            return
        numbers = self.txn.ensure_arms([Arm(key=key) for key in line.arms])
        number = add_reset(
            self.txn,
            sorted(set(numbers.values())),
            target=line.target,
            scope=line.scope or f"{len(line.arms)} arms",
            reason=line.reason or "",
            n_arms=len(line.arms),
            at_ms=self.txn.now_ms if line.at_ms is None else line.at_ms,
            actor=line.by or self.txn.actor.name,
            uid=line.id,
            import_no=self.number,
        )
        self.txn.advance()
        if line.undone:
            mark_told_undone(self.txn, "reset", number)
            mark_reset(self.txn, number, undone=True)

    def _take_note(self, line: NoteLine) -> None:
        self.counts["ledger"] += 1
        if _is_own(self.txn, line.id):
            self.counts["ledger_duplicate"] += 1
            return
        number = self._known_note(line)
        if number is not None:
            self.counts["ledger_duplicate"] += 1
        else:
            number = self._add_note(line)
        if line.key is not None:
            keep_reply(self.txn, line.key, note_reply(number, line.arm, line.text.strip()))

    def _known_note(self, line: NoteLine) -> int | None:
        number = tell_note(self.txn, line.id, self.number)
        if number is None and line.key is not None:
            number = self._of_request("note", line.key, asked(line.arm, line.text.strip()))
            if number is not None:
                claim_note(self.txn, number, self.number)
        return number

    def _add_note(self, line: NoteLine) -> int:
        number = add_note(
            self.txn,
            self._arm_no(line.arm),
            line.text.strip(),
            actor=line.by or self.txn.actor.name,
            at_ms=self.txn.now_ms if line.at_ms is None else line.at_ms,
            uid=line.id,
            import_no=self.number,
        )
        if line.undone:
            mark_told_undone(self.txn, "note", number)
            mark_note(self.txn, number, undone=True)
        return number

    def _arm_no(self, key: str) -> int:
        known = self.txn.arm_no(key)
        return self.txn.ensure_arms([Arm(key=key)])[key] if known is None else known

    def _reject(self, line: int | None, reason: str) -> None:
        self.counts["rejected"] += 1
        if len(self.rejected) < SHOWN:
            self.rejected.append(RejectedLine(file=self.file, line=line, reason=reason))


def judged_line(line: RunLine) -> Judged:
    """A run that was judged when it was recorded keeps its verdict."""
    run = line.run
    used = set(run.referenced or ())
    evidence = Evidence(
        referenced=tuple(arm.key in used for arm in run.inventory.arms),
        references=line.references,
        n_calls=line.n_calls,
        n_real_calls=line.n_real_calls,
        not_offered=run.not_offered,
    )
    verdict = Verdict(outcome=line.outcome)
    return Judged(run=run, evidence=evidence, verdict=verdict, flags=observe(run, evidence, verdict))


def _amounts(line: RewardLine) -> tuple[int, int]:
    if line.success_micro is not None and line.failure_micro is not None:
        return line.success_micro, line.failure_micro
    amount = Amount.of(0.0 if line.reward is None else line.reward, line.weight_micro)
    return amount.success_micro, amount.failure_micro


def _is_own(txn: Transaction, uid: str) -> bool:
    """Whether an exported id names a fact of this very learner."""
    return uid.startswith(f"{txn.origin}/")


def _nothing_to_read(reason: str | None) -> UnreadableSource:
    return UnreadableSource(
        f"There is nothing to import there{'' if reason is None else f': {reason}'}",
        next_step="Name files or folders that hold agent transcripts; the README lists the formats.",
    )


def _nothing_in(answer: ImportAnswer) -> UnreadableSource:
    first = answer.rejected[0].reason if answer.rejected else "no run was found in it."
    return UnreadableSource(
        f"Nothing could be read, and what was there was rejected ({answer.rejected_count}). The first: {first}",
        next_step=answer.hint or "Check the file; nothing was recorded.",
    )
