"""A selection: arms chosen under the budget, with draws and reasons. Its seed replays it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, Literal, Self, TypeVar, get_args

import msgspec
from msgspec.structs import force_setattr

from core.errors import InvalidInput
from core.records.arm import Arm, arm_type, check_key, tool_key
from core.records.candidate import tool_name
from core.records.experiment import Assigned
from core.records.limits import (
    LAST_MS,
    MAX_COUNT,
    MAX_LABEL_CHARS,
    MAX_TOKENS,
    Count,
    Label,
    Millis,
    Share,
    Tokens,
    flag,
    number,
    one_of,
    several,
    shown,
    text,
    whole,
)

Reason = Literal[
    "seed",
    "under_explored",
    "draw",
    "baseline",
    "passive",
    "assigned",
    "budget",
    "k",
    "excluded",
    "held_out",
]
"""Reasons for inclusion (first six) or exclusion.

``assigned``, ``held_out``: an experiment has the session on the side with the arm, or without it. ``budget``: it did
not fit. ``k``: enough arms were in. ``excluded``: the setting ``excluded_arms`` names it.
"""

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
LEFT_OUT: Final[frozenset[Reason]] = frozenset({"budget", "k", "excluded", "held_out"})
FIXED_OUT: Final[frozenset[Reason]] = frozenset({"excluded", "held_out"})
"""Reasons that no draw, budget or rank changes."""
_T = TypeVar("_T")
SelectedClass = Literal["baseline", "selected", "passive", "fallback"]
_CLASSES: Final = get_args(SelectedClass)
MAX_SEED_BITS: Final = 128
_MAX_SEED_DIGITS: Final = len(str(1 << MAX_SEED_BITS))


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One arm of a selection; checked with the run it is recorded with, for a selection may have thousands.

    ``draw`` is the number drawn from its posterior (None where none was drawn), ``rank`` its place in the
    order the budget was filled, from 1; ``budget_left`` what was left when its turn came (None = unlimited).
    ``chance`` is that of its own draw to put it in, the coin and all other draws being as they are: 1 where any draw
    does, 0 where none does. Absent (`msgspec.UNSET`) = unknown, as in selections of older versions. An experiment's
    arm has the chance of the side *with*, or 0 where it doesn't fit. The mean over many selections is the chance
    before any draw.
    """

    arm: str
    included: bool
    reason: Reason
    rank: Count
    token_cost: Tokens
    draw: Share | None = None
    budget_left: int | None = None
    chance: Share | msgspec.UnsetType = msgspec.UNSET


class LaterDraw(msgspec.Struct, frozen=True, kw_only=True):
    """The draw of candidates that were offered after their hold began; they are its next ``n_arms`` by rank."""

    seed: Label
    revision: Count
    n_arms: Count


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The arms of the next prompt with their reasons; enough to replay it.

    ``seed`` is the generator's, a whole number below 2^128, as text because it may exceed 64 bits. ``over_budget``:
    the seed arms alone exceed the budget. ``truncated``: a baseline run left arms out for lack of budget. Arms that a
    setting excludes don't count there, and come last by rank. ``k`` (0 =
    unlimited) and ``min_pulls`` are the values in force for this selection, even where they excluded nothing. So
    other values can be tried on it later. Absent (`msgspec.UNSET`) = unknown, as in selections of older versions. A
    run without a selection has neither, because our settings did not make its prompt. ``held_since_ms`` is when its
    hold began: the session's requests share coin, draws and order from then on. Absent = drawn for this request.
    ``later`` are the draws of candidates that came after that. ``numpy`` is the version of NumPy that drew, and
    ``beliefs`` a digest of the posteriors it drew from: with both, `verify` replays the draws. ``experiment`` is the
    side of its session in an experiment. Then no coin was tossed.
    """

    run_class: SelectedClass
    decisions: tuple[Decision, ...]
    seed: str
    baseline_prob: Share
    settings_hash: Label
    revision: Count
    budget_tokens: Tokens = 0
    k: Count | msgspec.UnsetType = msgspec.UNSET
    min_pulls: Count | msgspec.UnsetType = msgspec.UNSET
    over_budget: bool = False
    truncated: bool = False
    guidance: str | None = None
    held_since_ms: Millis | msgspec.UnsetType = msgspec.UNSET
    later: tuple[LaterDraw, ...] | msgspec.UnsetType = msgspec.UNSET
    numpy: Label | msgspec.UnsetType = msgspec.UNSET
    beliefs: Label | msgspec.UnsetType = msgspec.UNSET
    experiment: Assigned | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        sound = {
            "run_class": one_of("A selection's run_class", self.run_class, _CLASSES),
            "decisions": several("A selection's decisions", self.decisions, Decision),
            "seed": _seed(self.seed),
            "baseline_prob": number("A selection's baseline_prob", self.baseline_prob, lowest=0, highest=1),
            "settings_hash": text("A selection's settings_hash", self.settings_hash, MAX_LABEL_CHARS),
            "revision": whole("A selection's revision", self.revision, MAX_COUNT),
            "budget_tokens": whole("A selection's budget_tokens", self.budget_tokens, MAX_TOKENS),
            "over_budget": flag("A selection's over_budget", self.over_budget),
            "truncated": flag("A selection's truncated", self.truncated),
        }
        for name in ("k", "min_pulls", "held_since_ms"):
            value = getattr(self, name)
            if value is not msgspec.UNSET:
                limit = LAST_MS if name == "held_since_ms" else MAX_COUNT
                sound[name] = whole(f"A selection's {name}", value, limit)
        for name in ("numpy", "beliefs"):
            if (named := getattr(self, name)) is not msgspec.UNSET:
                sound[name] = text(f"A selection's {name}", named, MAX_LABEL_CHARS)
        if self.later is not msgspec.UNSET:
            sound["later"] = several("A selection's later draws", self.later, LaterDraw)
        if self.guidance is not None:
            sound["guidance"] = text("A selection's guidance", self.guidance)
        for name, value in sound.items():
            force_setattr(self, name, value)

    def check_decisions(self, known: Collection[str]) -> None:
        """Raise `InvalidInput` unless each decision is valid, each arm occurs once, and each included arm is
        ``known``.

        ``known`` are the arms of the run, in its prompt or out of it: a prompt may differ from its selection.
        """
        keys: set[str] = set()
        for decision in self.decisions:
            if not _is_plain(decision):
                _make_plain(decision)
            if flag("A decision's included", decision.included) and decision.arm not in known:
                raise InvalidInput(
                    "An arm that a selection has in must be among its run's arms, in the prompt or excluded, got "
                    f"{shown(decision.arm)}, which is neither.",
                    next_step="Name it there, or take the decision out.",
                )
            if decision.arm in keys:
                raise InvalidInput(
                    f"A selection must decide an arm once, got {shown(decision.arm)} twice.",
                    next_step="Keep one of the two decisions.",
                )
            keys.add(decision.arm)

    def keep(
        self,
        offered: Iterable[_T],
        *,
        key: Callable[[_T], str] | None = None,
        called: Collection[str] = (),
    ) -> list[_T]:
        """Return the offered items that are in the prompt, unchanged and in their order.

        Those of a hold are in its order, not that of the offer, so that the prompt stays the same. A tool that was
        left out comes back when its name is among the ``called`` ones.

        Known again are arms, ids, and tools by their name, however they are defined (`tool_candidate`); of anything
        else ``key`` says the arm's id. Raises `InvalidInput` for what this selection did not decide on.

        >>> one = Decision(arm="tool:web:search", included=True, reason="draw", rank=1, token_cost=0, draw=0.5)
        >>> chosen = Selection(
        ...     run_class="selected", decisions=(one,), seed="1", baseline_prob=0.1, settings_hash="", revision=0)
        >>> chosen.keep([{"type": "function", "function": {"name": "search"}}])
        [{'type': 'function', 'function': {'name': 'search'}}]
        """
        is_in = {one.arm: one.included for one in self.decisions} | dict.fromkeys(self.recalled(called), True)
        named = {name: one.arm for name, one in self.tools.items()}
        pairs = [(_key_of(one, named) if key is None else key(one), one) for one in offered]
        included = [(arm, one) for arm, one in pairs if _decided(is_in, arm)]
        if self.held_since_ms is not msgspec.UNSET:
            rank = {arm: at for at, arm in enumerate(is_in)}
            included.sort(key=lambda pair: rank[pair[0]])
        return [one for _, one in included]

    @property
    def tools(self) -> dict[str, Decision]:
        """Decisions about tools, by the name that a model calls; of two with one name the usual arm's."""
        keys = {one.arm: one for one in self.decisions if arm_type(one.arm) == "tool"}
        named = {arm.split(":", 2)[2]: one for arm, one in keys.items()}
        return named | {name: keys[usual] for name in named if (usual := tool_key(name)) in keys}

    def recalled(self, called: Collection[str]) -> tuple[str, ...]:
        """Return the arms of tools that were left out, not by a person, and are among the ``called`` names."""
        tools = self.tools if called else {}
        left = [tools[name] for name in dict.fromkeys(called) if name in tools]
        return tuple([one.arm for one in left if not one.included and one.reason != "excluded"])

    def to_json(self) -> str:
        """The selection as a JSON document, for a queue or another process; `from_json` reads it."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, document: str | bytes) -> Self:
        """The selection that `to_json` wrote; raises `InvalidInput` for anything else.

        >>> chosen = Selection(
        ...     run_class="selected", decisions=(), seed="1", baseline_prob=0.1, settings_hash="", revision=0)
        >>> Selection.from_json(chosen.to_json()) == chosen
        True
        """
        try:
            selection = msgspec.json.decode(document, type=cls)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
            raise InvalidInput(
                f"A selection must be as to_json wrote it, got something else: {problem}.",
                next_step="Pass on the text that selection.to_json() gave.",
            ) from None
        selection.check_decisions(selection.included)
        return selection

    @property
    def included(self) -> tuple[str, ...]:
        return tuple(decision.arm for decision in self.decisions if decision.included)

    @property
    def excluded(self) -> tuple[str, ...]:
        return tuple(decision.arm for decision in self.decisions if not decision.included)

    @property
    def nameable(self) -> tuple[str, ...]:
        """Ids of left-out arms that a text may name: an experiment names none on the side without it."""
        own = self.experiment
        hidden = {own.arm} if own is not msgspec.UNSET and own.in_force and own.side == "without" else set()
        return tuple(one.arm for one in self.decisions if not one.included and one.arm not in hidden)

    @property
    def tokens(self) -> int:
        return sum(decision.token_cost for decision in self.decisions if decision.included)


def _key_of(offered: object, named: dict[str, str]) -> str:
    """The arm of something that was offered; a tool may have been offered under a category of the caller's own."""
    if isinstance(offered, Arm):
        return offered.key
    if isinstance(offered, str):
        return offered
    name = tool_name(offered)
    return named.get(name, f"tool:…:{name}")


def _decided(is_in: dict[str, bool], key: str) -> bool:
    if key not in is_in:
        raise InvalidInput(
            f"What is kept must be of what the selection decided on, got {shown(key)}.",
            next_step="Offer it to select, or say with key=… which arm it is.",
        )
    return is_in[key]


def _seed(seed: object) -> str:
    """The seed, if a generator can start from it."""
    checked = text("A selection's seed", seed)
    is_number = checked.isascii() and checked.isdigit() and len(checked) <= _MAX_SEED_DIGITS
    if not is_number or int(checked) >= 1 << MAX_SEED_BITS:
        raise InvalidInput(
            f"A selection's seed must be a whole number from 0 to 2^{MAX_SEED_BITS} - 1, as text, got {shown(seed)}.",
            next_step="Keep the one that the selection was made with.",
        )
    return checked


def _is_plain(decision: Decision) -> bool:
    """Return whether all decisions are valid as they are; nearly always true, and there may be thousands."""
    draw, left, chance = decision.draw, decision.budget_left, decision.chance
    return (
        check_key(decision.arm) is decision.arm
        and decision.reason in REASONS
        and type(decision.rank) is int
        and 0 <= decision.rank <= MAX_COUNT
        and type(decision.token_cost) is int
        and 0 <= decision.token_cost <= MAX_TOKENS
        and (draw is None or (type(draw) is float and 0 <= draw <= 1))
        and (chance is msgspec.UNSET or (type(chance) is float and 0 <= chance <= 1))
        and (left is None or (type(left) is int and -MAX_COUNT <= left <= MAX_COUNT))
    )


def _make_plain(decision: Decision) -> None:
    """Put plain values in place, or raise for what no decision can be."""
    arm = check_key(decision.arm)
    where = f" (arm {shown(arm)})"
    sound = {
        "arm": arm,
        "reason": one_of("A decision's reason", decision.reason, REASONS, where=where),
        "rank": whole("A decision's rank", decision.rank, MAX_COUNT, where=where),
        "token_cost": whole("A decision's token_cost", decision.token_cost, MAX_TOKENS, where=where),
    }
    for name, share in (("draw", decision.draw), ("chance", decision.chance)):
        if share is not None and share is not msgspec.UNSET:
            sound[name] = number(f"A decision's {name}", share, lowest=0, highest=1, where=where)
    if decision.budget_left is not None:  # below 0 where the seeds alone exceed the budget
        sound["budget_left"] = whole(
            "A decision's budget_left", decision.budget_left, MAX_COUNT, lowest=-MAX_COUNT, where=where
        )
    for name, value in sound.items():
        force_setattr(decision, name, value)
