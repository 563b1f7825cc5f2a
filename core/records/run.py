"""Run: one request to the agent, with the arms put in and what came out.

A `Run` is what a format or a caller hands in. Its texts and call metadata are read by the detectors and
not stored; everything else is.
"""

from __future__ import annotations

import math
from typing import Final, Literal, get_args

import msgspec

from core.errors import InvalidInput
from core.records.arm import MAX_TOKENS, Arm, check_key
from core.records.selection import Selection

Unit = Literal["prompt", "turn", "episode"]
RunClass = Literal["baseline", "selected", "passive", "fallback", "imported"]
Status = Literal["completed", "aborted", "error"]
InventoryKind = Literal["declared", "supplied", "inferred"]
Phase = Literal["active", "passive"]
RUN_CLASSES: Final[tuple[RunClass, ...]] = get_args(RunClass)

METADATA_CHARS: Final = 200


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call: its exact name and at most 200 characters of its arguments."""

    name: str
    metadata: str = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of a run, as its source counts them; a part the source does not name is 0.

    >>> Usage(input=10, output=5, cache_read=100).tokens
    115
    >>> Usage(input=10, output=5, total=20).tokens
    20
    >>> Usage().tokens is None  # all zero means unknown, never 0
    True
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cache_read", "cache_write", "total"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MAX_TOKENS:
                raise InvalidInput(
                    f"usage.{name} must be a whole number from 0 to {MAX_TOKENS}, got {value}.",
                    next_step="Leave it out when it is unknown.",
                )

    @property
    def tokens(self) -> int | None:
        """The source's total, else the sum of the parts; None = unknown."""
        parts = self.input + self.output + self.cache_read + self.cache_write
        return self.total or parts or None


class Inventory(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The arms that were in the prompt, and how that is known.

    Runs of one source share one Inventory object, so its ids are checked and looked up once.
    """

    kind: InventoryKind
    arms: tuple[Arm, ...]

    def __post_init__(self) -> None:
        keys = [arm.key for arm in self.arms]
        if len(set(keys)) != len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidInput(
                f"An arm may stand once in an inventory, got {twice!r} twice.",
                next_step="List every arm once.",
            )


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request to the agent.

    ``uid`` is unique per learner and never a path; ``source`` names what the run was read from (a session, a
    benchmark record), ``rank`` how long that source was: of two versions of a run the higher rank stands.
    Times are milliseconds since 1970 UTC. ``reward`` is the environment's own, on its own scale.
    ``referenced`` None = run the detectors; else the ids its source found referenced.
    ``empty`` marks a prompt that nothing answered.

    >>> run = Run(uid="r1", inventory=Inventory(kind="declared", arms=(Arm(key="tool:fs:Read"),)))
    >>> run.unit, run.status, run.tokens is None
    ('prompt', 'completed', True)
    """

    uid: str
    inventory: Inventory
    format: str = "armscope"
    unit: Unit = "prompt"
    source: str | None = None
    rank: int = 0
    session: str | None = None
    ended_at_ms: int | None = None
    naive_time: bool = False
    provider: str | None = None
    model: str | None = None
    channel: str | None = None
    run_class: RunClass = "imported"
    status: Status = "completed"
    usage: Usage | None = None
    duration_ms: int | None = None
    prompt_chars: int | None = None
    reward: float | None = None
    calls: tuple[Call, ...] = ()
    texts: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    referenced: tuple[str, ...] | None = None
    not_offered: tuple[str, ...] = ()
    empty: bool = False
    selection: Selection | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.uid) <= 512:
            raise InvalidInput(
                f"A run's uid must have 1 to 512 characters, got {len(self.uid)}.",
                next_step="Use the id your agent gives the request.",
            )
        if self.reward is not None and not math.isfinite(self.reward):
            raise InvalidInput(
                f"A run's reward must be a finite number, got {self.reward} (run {self.uid!r}).",
                next_step="Leave it out when there was none; 0 is a value.",
            )
        if self.duration_ms is not None and not 0 <= self.duration_ms <= 10**12:
            raise InvalidInput(
                f"duration_ms must be 0 to 10^12, got {self.duration_ms} (run {self.uid!r}).",
                next_step="Leave it out when it is unknown.",
            )
        if self.excluded:
            self._check_excluded()

    def _check_excluded(self) -> None:
        included = {arm.key for arm in self.inventory.arms}
        for key in self.excluded:
            check_key(key)
            if key in included:
                raise InvalidInput(
                    f"An arm must be in a run's prompt or left out, got both for {key!a} (run {self.uid!a}).",
                    next_step="Name it once.",
                )

    @property
    def tokens(self) -> int | None:
        """Total tokens of the run; None = unknown."""
        return None if self.usage is None else self.usage.tokens
