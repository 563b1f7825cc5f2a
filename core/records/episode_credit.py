"""Episode credit: the arms that share the reward of an episode, and the answer to the caller."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec.structs import force_setattr

from core.errors import InvalidInput
from core.records.arm import MICRO, check_key
from core.records.limits import MAX_LABEL_CHARS, Label, number, one_of, shown, storable, text
from core.records.line_checks import FactOfLine, check_id, check_storable
from core.records.observation import CountedIn

CreditRule = Literal["off", "equal", "step", "referenced"]
"""Rule for sharing: no arm; all arms in the prompts of the episode's runs; the tools that rewarded steps called, in
proportion; the referenced arms.
"""
CREDIT_RULES: Final[tuple[CreditRule, ...]] = get_args(CreditRule)


class CreditShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The share of one arm in one run, in millionths of an observation."""

    run: Label
    arm: str
    weight_micro: Annotated[int, msgspec.Meta(ge=1, le=MICRO)]

    def __post_init__(self) -> None:
        storable("A share's run", self.run)
        check_key(self.arm)


class CreditLine(FactOfLine, frozen=True, tag="credit"):
    """A credit of an episode to arms of its runs; the latest active one of an episode is in force.

    ``reward`` is the episode's value on the scale of its environment at that time, 0 to 1. Only the rule ``off``,
    which gives no share, may have none. The weights add up to at most one observation.
    """

    id: str
    episode: str
    rule: CreditRule
    reward: float | None = None
    shares: tuple[CreditShare, ...] = ()

    def __post_init__(self) -> None:
        check_id(self.id)
        text("An episode's uid", self.episode, MAX_LABEL_CHARS, lowest=1)
        one_of("A credit's rule", self.rule, CREDIT_RULES)
        check_storable(by=self.by)
        where = f" (credit {shown(self.id)})"
        if self.reward is not None:
            force_setattr(
                self,
                "reward",
                number("A credit's reward", self.reward, lowest=0, highest=1, where=where) + 0.0,
            )
        elif self.rule != "off" or self.shares:
            raise InvalidInput(
                f"A credit must have a reward from 0 to 1, got none{where}.",
                next_step="Say what the episode was worth; only off goes without, and without shares.",
            )
        if self.rule == "off" and self.shares:
            raise InvalidInput(
                f"A credit that is off must have no shares, got {len(self.shares):,}{where}.",
                next_step="Leave them out, or name the rule they were dealt by.",
            )
        self._check_shares(where)

    def _check_shares(self, where: str) -> None:
        if len({(share.run, share.arm) for share in self.shares}) != len(self.shares):
            raise InvalidInput(
                f"An arm may share once in each run, got one twice{where}.",
                next_step="Add its weights up.",
            )
        whole = sum(share.weight_micro for share in self.shares)
        if whole > MICRO:
            raise InvalidInput(
                f"Shares must add up to at most {MICRO:,} millionths, got {whole:,}{where}.",
                next_step="Deal one observation.",
            )


class CreditAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a credit; ``id`` is what `undo` takes. It is None with a reason ``why`` where there was nothing to
    credit.

    ``reward`` is the episode's value on the scale. ``shares`` holds the share of each arm in each run. ``repeated`` =
    the same credit was in force already. ``replaces`` is the earlier credit that this one supersedes.
    ``counted_in`` has the epochs of the shares.
    """

    id: str | None
    episode: str
    rule: CreditRule
    reward: float | None
    shares: tuple[CreditShare, ...]
    repeated: bool = False
    replaces: str | None = None
    why: str | None = None
    counted_in: tuple[CountedIn, ...] = ()
