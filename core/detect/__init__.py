"""Run → evidence of which arms in the prompt the agent used.

One small detector per arm type. Each looks at the run's calls and texts only, never at the clock or at present
beliefs. A call of exactly its name shows a tool. In ``standard``, a name that no arm has may also be a client's
spelling of a tool with its server (`core.detect.mentions`). In ``openclaw`` it may not. Both modes recognise sections
alike. The table `MENTIONS` holds the detectors of skills, files and memories. ``standard`` does not guess: a memory
without content counts as not referenced. If the source says which skills were loaded, ``standard`` takes that alone.
``openclaw`` finds the same as OpenClaw.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from core.detect.mentions import Mentions, OpenclawMentions, StandardMentions, names_a_server, spellings
from core.records.arm import Arm
from core.records.evidence import Evidence, Reference
from core.records.learner import Mode
from core.records.run import Inventory, Run

MENTIONS: Final[dict[Mode, Callable[[], Mentions]]] = {
    "standard": StandardMentions,
    "openclaw": OpenclawMentions,
}


def detect(run: Run, mode: Mode = "standard", meta_tools: Collection[str] = ("message",)) -> Evidence:
    """Return which arms of ``run.inventory`` were referenced, in the order of its offered arms.

    An arm by name is found by a call of its name, or where the run says that it was loaded. A mention of its name is
    no use of it.

    Parameters
    ----------
    run
        If its source says what was referenced (``run.referenced`` is not None), that is taken as it is.
    mode
        How skills, files and memories are recognised.
    meta_tools
        Names of tools whose calls are not real work. They stay ordinary arms.

    Examples
    --------
    >>> from core.records.run import Call
    >>> arms = (Arm(key="tool:fs:Read"), Arm(key="skill:go:main"))
    >>> inventory = Inventory(kind="declared", arms=arms)
    >>> calls = (Call(name="Read"), Call(name="Grep"))
    >>> run = Run(uid="r1", inventory=inventory, calls=calls, texts=("Two categories.",))
    >>> evidence = detect(run)
    >>> evidence.referenced, evidence.n_real_calls, evidence.not_offered
    ((True, False), 2, ('Grep',))
    >>> detect(run, "openclaw").referenced
    (True, True)
    """
    if run.referenced is not None:
        return _from_source(run, run.referenced, mode, meta_tools)
    return _from_calls(run, _plan_of(run.inventory, mode), meta_tools)


def _from_calls(run: Run, plan: _Plan, meta_tools: Collection[str]) -> Evidence:
    names = [call.name for call in run.calls]
    called = set(names)
    flags = bytearray(plan.always)
    for name in called:
        for index in plan.tools.get(name) or plan.spelled(name):
            flags[index] = 1
    references = plan.references(run) if plan.reads_text else ()
    for index, _ in references:
        flags[index] = 1
    if run.loaded or run.typed:
        references = (*references, *_loaded(run, flags, plan))
    return Evidence(
        referenced=tuple(map(bool, flags)),
        references=tuple([reference for _, reference in references]) if references else (),
        n_calls=len(names),
        n_real_calls=len(names)
        if called.isdisjoint(meta_tools)
        else sum(name not in meta_tools for name in names),
        not_offered=_not_offered(run, called, plan),
    )


def _loaded(run: Run, flags: bytearray, plan: _Plan) -> Iterator[tuple[int, Reference]]:
    """Flag the loaded and typed arms; yield their references. ``openclaw`` knows loads of arms by name only."""
    first = 0 if plan.is_standard else len(run.inventory.arms)
    for index, arm in enumerate(run.inventory.offered[first:], first):
        is_loaded = arm.key in run.loaded
        if is_loaded or arm.key in run.typed:
            flags[index] = 1
            yield index, Reference(arm=arm.key, where="call" if is_loaded else "typed")


def _from_source(run: Run, referenced: Sequence[str], mode: Mode, meta_tools: Collection[str]) -> Evidence:
    """Return the source's own flags; without calls, its referenced tools are the known calls."""
    arms = run.inventory.offered
    chosen = set(referenced)
    flags = tuple([arm.key in chosen for arm in arms])
    if run.calls:
        n_real = sum(call.name not in meta_tools for call in run.calls)
        missing = _not_offered(run, {call.name for call in run.calls}, _plan_of(run.inventory, mode))
        return Evidence(referenced=flags, n_calls=len(run.calls), n_real_calls=n_real, not_offered=missing)
    tools = [key.split(":", 2)[2] for key in chosen if key.startswith("tool:")]
    n_real = sum(name not in meta_tools for name in tools)
    return Evidence(referenced=flags, n_calls=len(tools), n_real_calls=n_real, not_offered=run.not_offered)


def _not_offered(run: Run, called: set[str], plan: _Plan) -> tuple[str, ...]:
    """Return the called tools outside the inventory, each once, in the order of their first call."""
    if not run.not_offered and called.issubset(plan.tools):
        return ()
    outside = [call.name for call in run.calls if call.name not in plan.tools and not plan.spelled(call.name)]
    return tuple(dict.fromkeys((*run.not_offered, *outside)))


# --- what an inventory asks for, worked out once -----------------------------------------------------------


@dataclass
class _Plan:
    """All that the detectors look for in the runs of one inventory."""

    always: bytearray
    arms: tuple[Arm, ...]
    mentions: Mentions
    is_standard: bool
    tools: dict[str, list[int]] = field(default_factory=dict)
    reads_text: bool = False
    _spelled: dict[str, list[int]] | None = None

    def spelled(self, name: str) -> Sequence[int]:
        """Return the tools that a name means by another spelling."""
        if not self.is_standard or not names_a_server(name):
            return ()
        if self._spelled is None:  # most inventories are never asked
            self._spelled = {}
            for index in chain.from_iterable(self.tools.values()):
                for spelling in set(spellings(self.arms[index])):
                    self._spelled.setdefault(spelling, []).append(index)
        return self._spelled.get(name, ())

    def references(self, run: Run) -> Sequence[tuple[int, Reference]]:
        """Return the first mention of each mentioned arm, in the inventory's order."""
        hits: dict[int, Reference] = {}
        without_skills = run.loads_known and self.is_standard
        for index, where, excerpt in self.mentions.search(run):
            if index not in hits and not (without_skills and self.arms[index].type == "skill"):
                hits[index] = Reference(arm=self.arms[index].key, where=where, excerpt=excerpt)
        return sorted(hits.items())


# By identity, because comparing or hashing an inventory costs more than reading a run; an entry goes with it.
_PLANS: Final[dict[tuple[int, Mode], tuple[weakref.ref[Inventory], _Plan]]] = {}


def _plan_of(inventory: Inventory, mode: Mode) -> _Plan:
    name = id(inventory), mode
    known = _PLANS.get(name)
    if known is not None and known[0]() is inventory:
        return known[1]
    plan = _plan(inventory, mode)
    _PLANS[name] = (weakref.ref(inventory, lambda _: _PLANS.pop(name, None)), plan)
    return plan


def _plan(inventory: Inventory, mode: Mode) -> _Plan:
    arms = inventory.offered
    plan = _Plan(bytearray(len(arms)), arms, MENTIONS[mode](), is_standard=mode == "standard")
    for index, arm in enumerate(arms):
        kind = arm.type
        if kind == "tool":
            plan.tools.setdefault(arm.name, []).append(index)
        elif index >= len(inventory.arms):
            continue  # by name
        elif kind == "section":
            plan.always[index] = 1
        else:
            plan.mentions.want(index, arm)
            plan.reads_text = True
    return plan
