"""Answer: what an import came to; the parts of one that goes on add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from core.records.counts import number_of
from core.records.evidence import SKIP_REASONS, SkipReason
from core.records.limits import shown

_T = TypeVar("_T")
_NAMED: Final = 3
"""Records that the words name; the answer lists more."""
SHOWN: Final = 100
"""Rejected lines, and likewise differences, that an answer lists; it counts them all."""


class RejectedLine(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    line: int | None
    reason: str


class NotOffered(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was called in so many runs without being in their prompts."""

    tool: str
    runs: int


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """Number of files of one ending that were not read for one reason, the first of them, and the next step."""

    reason: str
    ending: str
    files: int
    first: str
    next_step: str


class BeliefDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A belief that a file states, and what its own traces come to from this learner's prior."""

    arm: str
    stated_alpha: float
    stated_beta: float
    stated_pulls: int
    alpha: float
    beta: float
    pulls: int


class ImportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of an import.

    ``id`` names the act; None: nothing was new, so there is no act to undo. ``runs`` = read and not empty =
    ``observed`` + ``skipped`` (``skipped_by`` reason). Of them ``duplicates`` were known, ``updated`` known in an
    earlier state, and ``left_out_runs`` known with other content, which stays in force. ``outside``: replies of no
    turn. ``not_offered``: calls of tools outside the prompt, once per run and tool; by tool in ``not_offered_calls``,
    most frequent first. ``episodes``: attempts at an environment's tasks. Of them ``episode_duplicates``,
    ``episodes_updated`` and ``left_out_episodes`` as with runs. ``left_out_names``: uids of what was left out.
    ``ledger``: accepted acts of people (rewards, evaluations, resets, notes, ...), by kind in ``ledger_by``; of them
    ``ledger_duplicates`` were known. ``only_named``: automatic observations that were taken back, by arm: the arm was
    in the run by name. ``ignored``: files that were not read, in ``unread`` by reason and ending. ``differences``:
    beliefs in a file that do not follow from its own runs. ``notes``: unexpected treatments of the files. ``heads``:
    those of the chains of acts that exports of other learners name.
    """

    id: str | None
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
    only_named: dict[str, int] = {}
    ledger: int = 0
    ledger_duplicates: int = 0
    ledger_by: dict[str, int] = {}
    episodes: int = 0
    episode_duplicates: int = 0
    episodes_updated: int = 0
    left_out_runs: int = 0
    left_out_episodes: int = 0
    left_out_names: tuple[str, ...] = ()
    not_offered_calls: tuple[NotOffered, ...] = ()
    ignored: tuple[RejectedLine, ...] = ()
    unread: tuple[Unread, ...] = ()
    differences: tuple[BeliefDifference, ...] = ()
    differences_count: int = 0
    notes: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    hint: str | None = None

    @property
    def other_facts(self) -> str:
        """Read facts other than runs, in words; an import before kinds were counted has fewer."""
        kinds = [number_of(n, kind) for kind, n in sorted(self.ledger_by.items())]
        if self.episodes:
            kinds.insert(0, number_of(self.episodes, "episode"))
        return ", ".join(kinds) or number_of(self.ledger, "fact")

    @property
    def taken_back(self) -> str | None:
        """Observations of arms that were only named, in words; None for none."""
        if not self.only_named:
            return None
        n, n_arms = sum(self.only_named.values()), len(self.only_named)
        were, are = "was" if n_arms == 1 else "were", "is" if n == 1 else "are"
        arms = f"{number_of(n_arms, 'arm')} that {were} only named"
        return f"{number_of(n, 'observation')} of {arms} {are} taken back."

    @property
    def new_runs(self) -> int:
        """Number of runs that were not here."""
        return self.runs - self.duplicates - self.updated - self.left_out_runs

    @property
    def new_episodes(self) -> int:
        """Number of episodes that were not here."""
        return self.episodes - self.episode_duplicates - self.episodes_updated - self.left_out_episodes

    @property
    def left_out(self) -> int:
        """Number of records that were left out: others with their ids stay in force."""
        return self.left_out_runs + self.left_out_episodes

    @property
    def left_out_words(self) -> str | None:
        """Records that were left out, in words; None for none."""
        if not self.left_out:
            return None
        names = ", ".join(map(shown, self.left_out_names[:_NAMED]))
        more = f" and {self.left_out - _NAMED:,} more" if self.left_out > _NAMED else ""
        return (
            f"{number_of(self.left_out, 'record')} left out ({names}{more}): the known content is another, and "
            "nothing shows which is later. To take those of a file: armscope import FILE --replace"
        )

    @property
    def n_other_facts(self) -> int:
        """Number of read facts other than runs."""
        return self.ledger + self.episodes

    @property
    def n_other_known(self) -> int:
        """Number of those that were known."""
        return self.ledger_duplicates + self.episode_duplicates

    def after(self, earlier: ImportAnswer) -> ImportAnswer:
        """Return the sum of an earlier answer and this one, a later part of the same import.

        Counts add up: a file or run that is read again counts again (its runs among ``duplicates`` or ``updated``).
        Listed lines, files and beliefs count once. Beyond the first hundred, which are all that is stored, they count
        again.
        """
        rejected = _new(earlier.rejected, self.rejected)
        differences = _new(earlier.differences, self.differences)
        counts = [name for name in self.__struct_fields__ if isinstance(getattr(self, name), int)]
        totals = {name: getattr(earlier, name) + getattr(self, name) for name in counts}
        totals["rejected_count"] += len(rejected) - len(self.rejected)
        totals["differences_count"] += len(differences) - len(self.differences)
        skipped_by = Counter(earlier.skipped_by) + Counter(self.skipped_by)
        ledger_by = Counter(earlier.ledger_by) + Counter(self.ledger_by)
        called = Counter({one.tool: one.runs for one in earlier.not_offered_calls})
        called.update({one.tool: one.runs for one in self.not_offered_calls})
        ignored = (*earlier.ignored, *_new(earlier.ignored, self.ignored))
        return msgspec.structs.replace(
            self,
            **totals,
            format=_names(earlier.format, self.format),
            unit=_names(earlier.unit, self.unit),
            skipped_by={reason: skipped_by[reason] for reason in SKIP_REASONS if skipped_by[reason]},
            ledger_by=dict(ledger_by),
            only_named=dict(Counter(earlier.only_named) + Counter(self.only_named)),
            rejected=(*earlier.rejected, *rejected)[:SHOWN],
            not_offered_calls=most_called(called),
            ignored=ignored,
            unread=unread_of(ignored, {one.reason: one.next_step for one in (*earlier.unread, *self.unread)}),
            differences=(*earlier.differences, *differences)[:SHOWN],
            notes=(*earlier.notes, *_new(earlier.notes, self.notes)),
            left_out_names=tuple(dict.fromkeys((*earlier.left_out_names, *self.left_out_names)))[:SHOWN],
            heads=tuple(dict.fromkeys((*earlier.heads, *self.heads))),
            hint=earlier.hint if self.hint is None else self.hint,
        )


def most_called(calls: Counter[str]) -> tuple[NotOffered, ...]:
    """The first hundred tools, most frequent first, then by name."""
    ordered = sorted(calls.items(), key=lambda one: (-one[1], one[0]))[:SHOWN]
    return tuple(NotOffered(tool=tool, runs=n_runs) for tool, n_runs in ordered)


def unread_of(ignored: Sequence[RejectedLine], next_steps: Mapping[str, str]) -> tuple[Unread, ...]:
    """Files by reason and ending, the most of a kind first; ``next_steps`` by reason.

    >>> files = [RejectedLine(file=name, line=None, reason="No.") for name in ("a.md", "b.JSONL.gz", "c.md", "d")]
    >>> [(one.ending, one.files, one.first) for one in unread_of(files, {})]
    [('.md', 2, 'a.md'), ('.jsonl.gz', 1, 'b.JSONL.gz'), ('', 1, 'd')]
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for one in ignored:
        groups.setdefault((one.reason, _ending(one.file)), []).append(one.file)
    rows = [
        Unread(
            reason=reason,
            ending=ending,
            files=len(files),
            first=files[0],
            next_step=next_steps.get(reason, ""),
        )
        for (reason, ending), files in groups.items()
    ]
    return tuple(sorted(rows, key=lambda one: -one.files))


def _ending(file: str) -> str:
    name = file.lower().rpartition("/")[2].lstrip(".")
    suffixes = [] if name.endswith(".") else [f".{part}" for part in name.split(".")[1:]]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def _new(earlier: Sequence[_T], later: Sequence[_T]) -> list[_T]:
    """Return the items of ``later`` that are no repeats. Equal items in one list are two items.

    >>> _new("aab", "abbc")
    ['b', 'c']
    """
    known = Counter(earlier)
    new = []
    for one in later:
        if known[one]:
            known[one] -= 1
        else:
            new.append(one)
    return new


def _names(earlier: str, later: str) -> str:
    """
    >>> _names("armscope", "claude-code, armscope"), _names("", "turn")
    ('armscope, claude-code', 'turn')
    """
    return ", ".join(sorted({*earlier.split(", "), *later.split(", ")} - {""}))
