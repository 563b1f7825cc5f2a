"""Candidates: the arms that the latest runs offered, for chances of inclusion in runs as they come.

An agent rarely offers every known arm: some are gone, some are new, some belong to one kind of request. Packing all
of them makes arms compete with absent ones, and every chance comes out too small. So an arm's chance is the mean over
the candidate sets of the latest runs that offered it. Each set is packed as offered, under the limits of its
requests, with the present beliefs, costs and settings:

- **Runs that armscope chose** (baseline or selected), because the next choice resembles them. Without any, the latest
  of any class (imports have their inventory, passive runs everything available). Without runs, all arms.
- **A mean over the sets, not their union**: in the union arms compete that never met. **Only runs that offered the
  arm**: the agent decides the offer, we decide the inclusion. A new arm is not unlikely because older runs lacked it.
- **Without sessions of experiments**: an assigned session has an arm in or out by its side, not by its draw.
- **The latest 25**: enough that one odd request does not decide, few enough to follow a changing agent.
- **Of each program**: where one learner holds the runs of several programs, a busy one would fill the window alone.
  Runs are of one program if their offers are linked by shared arms; no label in a run says so reliably, since one
  agent answers in many channels and one format holds many agents. A program counts if the latest 1,000 runs hold one
  of its runs. The arm that its program no longer offers is not in its window.
- **Limits of its requests**: a selection stores its limits. A limit that differs from the setting of its time came
  with the request, and the next request brings it again. Any other limit is that of the present settings.

In the demo's 26 days of choosing (``demo.play``, seed 7), each segment of two hours was predicted from the state
before it, for every arm of every run that it then offered. The mean squared error is .049, against .073 with all arms
as candidates and .057 with the union of 25 runs; 10 or 50 runs also give .049. All arms as candidates predict a share
of .61 in the prompt, the mean over the sets .66; the true share was .65.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from core.columns import UNKNOWN, ArmColumns, CandidateSets, Ints, OwnLimits
from core.records.learner import LearnerSettings
from core.records.run import RunClass
from core.records.run_query import RunFilter
from core.store.engine.dialect import TEXTS_JOINED
from core.store.reads.arms import places_by_number
from core.store.reads.run_pages import newest_unassigned
from core.store.transaction import Snapshot
from core.store.version import Choice

LATEST_RUNS: Final = 25
LOOKED_BACK: Final = 1_000
"""Runs among which other programs are looked for, if the latest do not offer every arm that was in a prompt."""
_MOST_PROGRAMS: Final = 8
"""Newest programs that count, since arms that runs never offer together would make a program of each run."""

_CHOSEN: Final[tuple[RunClass, ...]] = ("baseline", "selected")
_SETS: Final = (  # as text: one value a run to fetch instead of one a candidate, and equal sets are equal texts
    f"SELECT run_no, {TEXTS_JOINED}(CAST(arm_no AS text), ',') FROM (SELECT run_no, arm_no FROM outcome"
    " WHERE learner_id = ? AND run_no IN ({}) ORDER BY run_no, arm_no) AS parts GROUP BY run_no"
)
_CHOICES: Final = (
    "SELECT run_no, choice FROM run WHERE learner_id = ? AND choice IS NOT NULL AND run_no IN ({})"
)
_LIMITS: Final = (
    "SELECT name, value, revision, undone FROM setting WHERE learner_id = ? AND name IN (?, ?, ?)"
    " ORDER BY setting_no"
)
_CHOICE: Final = msgspec.json.Decoder(Choice)


def candidates(snapshot: Snapshot, columns: ArmColumns) -> CandidateSets:
    """The candidate sets of the latest runs of each program that armscope chose; of any class where it chose none.

    ``columns`` are of the same moment. Every arm is a candidate where there is no run.
    """
    chosen = newest_unassigned(snapshot, RunFilter(classes=_CHOSEN), limit=LATEST_RUNS)
    run_filter = RunFilter(classes=_CHOSEN) if chosen else RunFilter()
    latest = chosen or newest_unassigned(snapshot, run_filter, limit=LATEST_RUNS)
    if not latest:
        return CandidateSets.everything(len(columns))
    at = places_by_number(snapshot, columns)
    offers = _offers(snapshot, latest)
    if len(latest) == LATEST_RUNS and _is_elsewhere(columns, at, offers):
        latest = newest_unassigned(snapshot, run_filter, limit=LOOKED_BACK)
        offers = _offers(snapshot, latest)
    places: list[Ints] = []
    n_runs: list[int] = []
    program: list[int] = []
    shares: list[float] = []
    limits: list[OwnLimits] = []
    programs = _programs(offers)
    counting = [members[:LATEST_RUNS] for members in programs]
    own = _own_limits(snapshot, [latest[index] for members in counting for index in members])
    n_all = sum(map(len, programs))
    for number, (members, counted) in enumerate(zip(programs, counting, strict=True)):
        kinds = Counter((offers[index], own.get(latest[index], OwnLimits())) for index in counted)
        for (text, limit), n in sorted(kinds.items(), key=repr):
            places.append(_places(text, at))
            n_runs.append(n)
            program.append(number)
            shares.append(n / len(counted) * len(members) / n_all)
            limits.append(limit)
    return CandidateSets(
        places=tuple(places),
        n_runs=tuple(n_runs),
        of="chosen" if chosen else "latest",
        program=tuple(program),
        shares=tuple(shares),
        limits=tuple(limits),
    )


def _own_limits(snapshot: Snapshot, run_nos: Sequence[int]) -> dict[int, OwnLimits]:
    """Return the limits that requests gave, by run: those that the setting of their time does not explain."""
    chosen, changes = snapshot.together(
        lambda: snapshot.rows_in(_CHOICES, run_nos), lambda: snapshot.rows(_LIMITS, OwnLimits._fields)
    )
    log = [(name, msgspec.json.decode(value), revision, undone) for name, value, revision, undone in changes]
    choices = {run_no: _CHOICE.decode(choice) for run_no, choice in chosen}
    return {
        run_no: OwnLimits(*[_own(choice, name, log) for name in OwnLimits._fields])
        for run_no, choice in choices.items()
    }


def _own(choice: Choice, name: str, log: Sequence[tuple[str, int, int, int]]) -> int | None:
    """Return a limit of a selection, or None if the setting of its time was the same.

    An undone change counts too: it was in force until its undo.
    """
    value, default = getattr(choice, name), getattr(LearnerSettings(), name)
    earlier = [
        (number, undone) for of, number, revision, undone in log if of == name and revision <= choice.revision
    ]
    logged = [default, *(number for number, _ in earlier)]
    active = [default, *(number for number, undone in earlier if not undone)]
    return None if value is msgspec.UNSET or value in {logged[-1], active[-1]} else value


def _offers(snapshot: Snapshot, latest: Sequence[int]) -> list[str]:
    """Return the arms that each of these runs offered, as text, in the same order; "" = none."""
    rows = snapshot.rows_in(_SETS, latest)
    offers: dict[int, str] = {run_no: text for run_no, text in rows}  # noqa: C416
    return [offers.get(run_no, "") for run_no in latest]


def _is_elsewhere(columns: ArmColumns, at: Ints, offers: Iterable[str]) -> bool:
    """Return whether an arm was in a prompt that none of these offers names."""
    is_missing = columns.inclusions > 0
    for text in set(offers):
        is_missing[_places(text, at)] = False
    return bool(is_missing.any())


def _programs(offers: Sequence[str]) -> list[list[int]]:
    """Return the indexes of the offers of each program, newest first: those linked by shared arms.

    A run without an offer is of the newest program.

    >>> _programs(["1,2", "", "7", "2,3", "8,7", "3"])
    [[0, 1, 3, 5], [2, 4]]
    """
    groups: list[set[str]] = []
    for text in dict.fromkeys(offers):
        arms = set(filter(None, text.split(",")))
        linked = [one for one in groups if not arms.isdisjoint(one)]
        groups = [*(one for one in groups if arms.isdisjoint(one)), arms.union(*linked)] if arms else groups
    named = {arm: number for number, one in enumerate(groups) for arm in one}
    newest = named[next(filter(None, offers), "").split(",")[0]] if groups else 0
    programs: dict[int, list[int]] = {}
    for index, text in enumerate(offers):
        programs.setdefault(named[text.split(",")[0]] if text else newest, []).append(index)
    return list(programs.values())[:_MOST_PROGRAMS]


def _places(text: str, at: Ints) -> Ints:
    """Places of the arms whose numbers a text lists; those that are not among the columns are left out."""
    places = at[np.array([int(number) for number in text.split(",") if number], dtype=np.int64)]
    return np.sort(places[places != UNKNOWN])
