"""Traced steps of any tracer → the run: its offered tools, calls, texts and usage.

- *Offered tools* can be in one of many fields (`core.formats.spans`); all of them are taken together.
- *Calls* are the spans of tools, and the calls in the model's replies. A call in both, or in nested spans, counts
  once.
- *Usage* is that of the innermost steps that have one: outer steps repeat it.
- *Bill*: a step's input contains its cached tokens or not, as its total shows. A total with another split is a lower
  bound.
- *Tools* are the model's choices. A framework's tool for the final answer (``final_result``) counts where it is
  listed among the others, and not where it is listed apart.

- *Sub-agents* are agents inside the call of a tool. Their steps hold no calls of the agent, and are in the bill only.

A trace with unknown tools or calls is refused with the reason: a guess would count for or against arms. So is one
that names a tool only in the name of a span (``tool.search.wikipedia.start``), which does not show the tool's own
name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from functools import cached_property
from itertools import count
from typing import Final, NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import replace

from core.formats.by_name import ByName
from core.formats.prompts import summed
from core.formats.spans import (
    Span,
    SpanCall,
    offered,
    result_of,
    results_before,
    skills_listed,
    skills_loaded,
    texts,
    tool_called,
    user_text,
)
from core.formats.strict import Flaw, plain
from core.formats.sub_agents import parted
from core.formats.tools import inferred, inventory_of
from core.formats.unknown import Unknown
from core.records.arm import Arm
from core.records.bill import Spent, disjoint, heaviest, merged
from core.records.run import Call, History, Inventory, Run, Usage, beyond
from core.records.transcript import Message, Talk

_MAX_LEVELS: Final = 64


class Tokens(NamedTuple):
    """Usage of one step; ``total`` is its sum where it has none, ``thoughts`` are output that ``output`` may lack."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    total: int
    thoughts: int = 0
    unread: tuple[str, ...] = ()

    def spent(self, model: str | None, unknown: Unknown) -> Spent:
        """Return the disjoint counts."""
        n_unread = unknown.spend(self.unread)
        for output in (self.output, self.output + self.thoughts):
            row = disjoint(self.input, output, self.cache_read, self.cache_write, self.total)
            if row is not None:
                return replace(row, model=model, unread=n_unread).as_request
        return Spent(model=model, total=self.total, unread=n_unread)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One traced step; None = the outermost as ``parent``, else unknown. Times are UTC milliseconds."""

    id: str
    parent: str | None
    span: Span
    started_ms: int | None = None
    ended_ms: int | None = None
    naive_time: bool = False
    failed: bool = False
    model: str | None = None
    usage: Tokens | None = None


def apart(steps: Iterable[Step]) -> list[Step]:
    """Return steps of which each has an id of its own: a later one of an id gets a number."""
    numbers: defaultdict[str, count[int]] = defaultdict(count)
    return [
        with_fields(step, id=f"{step.id}~{number}") if (number := next(numbers[step.id])) else step
        for step in steps
    ]


def _digest(step: Step) -> int:
    tool = tool_called(step.span)
    name = step.span.name if tool is None else tool.name
    return crc32(f"{step.id}\n{step.started_ms}\n{name}".encode(errors="replace"))


class _Pairing:
    """Pairs of calls that replies ask for and spans make: by id, given here where missing, or by name and order."""

    def __init__(self) -> None:
        self._requests: dict[str, list[str]] = {}
        self._early: Counter[str] = Counter()
        self._numbers = count()

    def request(self, call: SpanCall) -> str | None:
        """Return the id of a call that a reply asks for; None where an earlier span made it."""
        if self._early[call.name]:
            self._early[call.name] -= 1
            return None
        identity = self._identity(call)
        self._requests.setdefault(call.name, []).append(identity)
        return identity

    def execute(self, call: SpanCall) -> tuple[str, bool]:
        """Return the id of a call that a span makes, and whether no earlier reply asked for it."""
        waiting = self._requests.get(call.name, [])
        if not waiting:
            self._early[call.name] += 1
            return self._identity(call), True
        place = waiting.index(call.id) if call.id in waiting else 0
        return waiting.pop(place), False

    def _identity(self, call: SpanCall) -> str:
        return f"\0{next(self._numbers)}" if call.id is None else call.id


class _Skills(NamedTuple):
    """Skills of a trace: on offer by name, loaded by the agent, typed by a person, and loads that mean none."""

    named: tuple[Arm, ...]
    loaded: tuple[str, ...]
    typed: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Traced:
    """A trace: its steps in the order of their starts."""

    id: str
    session: str | None
    steps: Sequence[Step]

    @cached_property
    def parents(self) -> dict[str, str | None]:
        return {step.id: step.parent for step in self.steps}

    @cached_property
    def parts(self) -> tuple[list[Step], list[Step]]:
        """The agent's own steps, and those of agents that a tool's call started."""
        agents = {one.id for one in self.steps if one.span.is_agent}
        tools = {one.id for one in self.steps if tool_called(one.span) is not None} if agents else set()

        def is_sub_agent(step: Step) -> bool:
            above = [step.id, *self._around(step.id)]
            first = next((place for place, one in enumerate(above) if one in agents), len(above))
            return not tools.isdisjoint(above[first:])

        return parted(self.steps, is_sub_agent) if tools else ([*self.steps], [])

    @property
    def own(self) -> list[Step]:
        return self.parts[0]

    def run(
        self, format: str, unknown: Unknown, supplied: Inventory | None = None, *, keeps_texts: bool = False
    ) -> Run:
        """Return the run, with ``keeps_texts`` its transcript too; raises `core.formats.strict.UNDECODABLE`."""
        identity = plain(self.id)
        if identity is None:
            raise Flaw("has no id of its trace")
        calls = self.calls()
        ended_at_ms, is_naive = self._end()
        usage, spent = self.usage(), self.spent(unknown)
        model = heaviest(spent) or self.model()
        skills = self._skills()
        inventory = self.offered() or supplied or inferred({call.name for call in calls})
        return Run(
            uid=f"{format}/prompt/{identity}",
            inventory=replace(inventory, named=skills.named) if skills.named else inventory,
            format=format,
            unit="prompt",
            source=identity,
            rank=len(self.steps),
            session=plain(self.session) or identity,
            ended_at_ms=ended_at_ms,
            naive_time=is_naive,
            model=model,
            status="error" if self._failed() else "completed",
            usage=usage,
            bill=beyond(usage, spent, model),
            duration_ms=self.duration_ms(ended_at_ms),
            calls=tuple(calls),
            loaded=skills.loaded,
            typed=skills.typed,
            loads_known=bool(skills.named or skills.lost),
            not_offered=skills.lost,
            texts=tuple(text for one in self._replies() for text in texts(one.span)),
            empty=not calls and not self._replies(),
            prompt=self._prompt(),
            reply=next((text for one in reversed(self._replies()) for text in texts(one.span)), None),
            messages=self.messages() if keeps_texts else (),
            history=History.of_steps(map(_digest, self.steps)),
        )

    def _skills(self) -> _Skills:
        """Return the skills on offer and those that were loaded. Without a list, the loaded ones were on offer."""
        listed = ByName()
        loads = [load for one in self.steps for load in skills_loaded(one.span, failed=one.failed)]
        names = dict.fromkeys(name for one in self.steps for name in skills_listed(one.span))
        listed.add_skills([*names] or [name for name, _ in loads], "")
        known = {name: listed.loaded_key(name) for name, _ in loads}
        keys = {name: key for name, key in known.items() if key is not None and key in listed.keys}
        return _Skills(
            named=tuple(listed.inventory(inferred(()), listed.begin()).named),
            loaded=tuple(dict.fromkeys(keys[name] for name, typed in loads if name in keys and not typed)),
            typed=tuple(dict.fromkeys(keys[name] for name, typed in loads if name in keys and typed)),
            lost=tuple(f"skill {name}" for name in known if name not in keys),
        )

    def messages(self) -> tuple[Message, ...]:
        """Return the request, replies with calls, and calls of tools, in order; a call asked for and made is one."""
        talk, pairing = Talk(), _Pairing()
        talk.add("user", self._prompt() or "")
        executed, requested = self._executed(), self._requested()
        around = self._outer({one.id for one in self._replies()})
        for one in self.own:
            if one.span.is_reply and one.id not in around:
                for identity, result in results_before(one.span):
                    talk.result(result, identity)
                for text in texts(one.span):
                    talk.add("agent", text)
            for call in requested.get(one.id, ()):
                new = pairing.request(call)
                if new is not None:
                    talk.call(call.name, call.text, new)
            if one.id in executed:
                call = executed[one.id]
                own, is_new = pairing.execute(call)
                if is_new:
                    talk.call(call.name, call.text, own)
                output = result_of(one.span)
                if output is not None:
                    talk.result(output, own)
        return talk.messages

    def _end(self) -> tuple[int | None, bool]:
        ends = [(one.ended_ms, one.naive_time) for one in self.steps if one.ended_ms is not None]
        return max(ends, default=(None, False))

    def _prompt(self) -> str | None:
        """Return the user's last text before the first reply; earlier texts are history."""
        texts = (user_text(one.span) for one in self._replies())
        return next((text for text in texts if text is not None), None)

    def offered(self) -> Inventory | None:
        """Return each tool that a part of the trace lists, with its schema if one of them has it."""
        tools: dict[str, object] = {}
        for one in self.own:
            for name, tool in offered(one.span):
                if isinstance(tools.get(name, ""), str):
                    tools[name] = tool
        return inventory_of(msgspec.json.encode(list(tools.values())), "declared") if tools else None

    def calls(self) -> list[Call]:
        executed = [call.call for call in self._executed().values()]
        requested = [call.call for calls in self._requested().values() for call in calls]
        n_executed = Counter(call.name for call in executed)
        n_requested: Counter[str] = Counter()
        calls = list(executed)
        for call in requested:
            n_requested[call.name] += 1
            if n_requested[call.name] > n_executed[call.name]:
                calls.append(call)
        if not calls and any(one.span.asks_for_tools for one in self.steps):
            raise Flaw("says that the model asked for tools, but not for which")
        if not calls and any(one.span.mentions_tool for one in self.steps):
            raise Flaw("names tools that the agent went for, but no call of them")
        return calls

    def _executed(self) -> dict[str, SpanCall]:
        """Return the calls of tools' spans, by step; one inside another of the same tool or call is not another."""
        tools = ((one.id, tool_called(one.span)) for one in self.own)
        spans = {identity: call for identity, call in tools if call is not None}
        names = {identity: call.name for identity, call in spans.items()}
        ids: set[tuple[str, str]] = set()
        executed: dict[str, SpanCall] = {}
        for identity, call in spans.items():
            is_inner = any(names.get(around) == call.name for around in self._around(identity))
            if is_inner or (call.id, call.name) in ids:
                continue
            if call.id is not None:
                ids.add((call.id, call.name))
            executed[identity] = call
        return executed

    def _requested(self) -> dict[str, list[SpanCall]]:
        """Return the model's calls by step; of nested replies those of the innermost that has any."""
        asking = {one.id: one.span.calls_requested for one in self._replies() if one.span.calls_requested}
        outer = self._outer(asking)
        not_tools = {name for one in self.steps for name in one.span.output_tools}
        ids: set[tuple[str, str]] = set()
        requested: dict[str, list[SpanCall]] = {}
        for identity, calls in asking.items():
            for call in calls:
                is_known = identity in outer if call.id is None else (call.id, call.name) in ids
                if call.id is not None:
                    ids.add((call.id, call.name))
                if not is_known and call.name not in not_tools:
                    requested.setdefault(identity, []).append(call)
        return requested

    def _replies(self) -> list[Step]:
        return [one for one in self.own if one.span.is_reply]

    def _failed(self) -> bool:
        """Return whether the outermost step failed; the agent may have recovered from inner failures."""
        return any(one.failed and one.parent not in self.parents for one in self.steps)

    def _around(self, identity: str) -> Iterator[str]:
        """The steps around one, from the nearest; a circle, which only a broken trace has, ends too."""
        parent = self.parents.get(identity)
        for _ in range(_MAX_LEVELS):
            if parent is None or parent not in self.parents:
                return
            yield parent
            parent = self.parents[parent]

    def _outer(self, identities: Iterable[str]) -> set[str]:
        """All steps around any of these; each is visited once, however deep they lie."""
        outer: set[str] = set()
        for identity in identities:
            parent = self.parents.get(identity)
            while parent is not None and parent in self.parents and parent not in outer:
                outer.add(parent)
                parent = self.parents[parent]
        return outer

    def model(self) -> str | None:
        models = [one.model for one in self._replies() if one.model is not None]
        return models[-1] if models else None

    def _innermost(self, steps: Iterable[Step]) -> list[tuple[str | None, Tokens]]:
        """Return model and usage of these steps, of the innermost ones that have one."""
        outer = self._outer(one.id for one in self.steps if one.usage is not None)
        return [(one.model, one.usage) for one in steps if one.usage is not None and one.id not in outer]

    def spent(self, unknown: Unknown) -> tuple[Spent, ...]:
        """Return the disjoint counts by model."""
        own, others = (
            [tokens.spent(model, unknown) for model, tokens in self._innermost(one)] for one in self.parts
        )
        return merged([*own, *(replace(row, owner="sub-agent") for row in others)])

    def usage(self) -> Usage | None:
        return summed(tokens[:5] for _, tokens in self._innermost(self.own))

    def duration_ms(self, ended_at_ms: int | None) -> int | None:
        known = [one.started_ms for one in self.steps if one.started_ms is not None]
        if ended_at_ms is None or not known or ended_at_ms < min(known):
            return None
        return ended_at_ms - min(known)
