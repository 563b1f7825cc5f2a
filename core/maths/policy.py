"""Policy: posteriors, costs, budget, seed → what goes into the next prompt, and why.

First the coin (baseline or selected), then the arms. Everything random comes from one generator whose seed is
stored, so the same columns, settings and seed give the same selection, bit for bit (with the same NumPy: its
streams are fixed within a version). The packing itself, on arrays, is `pack`; records for the door are made
from its result by `select`, because at 10,000 arms they cost more than the decision.

- The coin is the first number drawn, whatever the baseline rate. The passive phase draws nothing: everything goes in.
- Baseline: seeds, then all others in random order, skipping what does not fit. ``k`` does not hold it back.
- Selected: one draw per arm from its posterior; the order is `core.maths.packing.order_selected`.
- An unknown cost counts as 0 tokens.
- In a session that an experiment assigned there is no baseline. On the side *with* its arm is packed right after the
  seeds, as far as the limits allow. On the side *without* it is out like an excluded arm.
- Excluded arms come last in either order and stay out. They are drawn for like all others, so that an exclusion
  leaves the draws of the others as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from core.columns import ArmColumns, Bools, Floats, Ints
from core.maths.packing import (
    belief_digest,
    chance_above,
    counted_cost,
    fill,
    generator,
    order_baseline,
    order_selected,
    ranks_to_beat,
    seed_places,
)
from core.records.arm import MICRO
from core.records.experiment import Assigned
from core.records.learner import LearnerSettings
from core.records.selection import Decision, LaterDraw, Reason, Selection

LEADING: Final = 1_024
"""Arms put in order at first; more only if more could go in. The outcome does not depend on it."""

_NONE: Final = np.array([], dtype=np.int64)
_UNLIMITED: Final = 1 << 62
_DIGITS: Final = 4
"""Decimals of a chance: further ones would be smaller than its error."""

PackedClass = Literal["baseline", "selected", "passive"]


@dataclass(frozen=True, kw_only=True)
class PackedArms:
    """A selection as arrays.

    ``leading`` holds indexes in the columns by rank, from the front as far as anything could go in, and
    ``packed`` which of them did. ``token_cost`` (unknown = 0), ``pulls`` and ``draws`` (None where nothing was
    drawn) are aligned with the columns. ``seeds`` come first, then the arm ``first`` of an experiment, then
    ``n_under`` under-explored arms. The ``excluded`` arms come last: those of a setting, and the one that an
    experiment has ``held_out``.
    """

    run_class: PackedClass
    leading: Ints
    packed: Bools
    token_cost: Ints
    pulls: Ints
    draws: Floats | None
    seeds: Ints
    excluded: Ints
    first: Ints
    held_out: Ints
    n_under: int
    budget_tokens: int
    k: int
    min_pulls: int

    @property
    def n_seeds(self) -> int:
        return len(self.seeds)

    @property
    def n_candidates(self) -> int:
        """Number of arms that may go in; the others are excluded and rank behind them."""
        return len(self.token_cost) - len(self.excluded)

    @property
    def included_places(self) -> Ints:
        """Indexes of the arms that are in, by rank."""
        return self.leading[self.packed]

    @cached_property
    def order(self) -> Ints:
        """Indexes of all arms, by rank."""
        if self.draws is None or len(self.leading) == len(self.token_cost):
            return self.leading
        return order_selected(
            self.seeds, self.pulls, self.draws, self.min_pulls, excluded=self.excluded, first=self.first
        )[0]

    @cached_property
    def cost(self) -> Ints:
        """Costs by rank."""
        return self.token_cost[self.order]

    @cached_property
    def included(self) -> Bools:
        """Inclusion by rank."""
        included = np.zeros(len(self.token_cost), dtype=np.bool_)
        included[: len(self.packed)] = self.packed
        return included

    @property
    def over_budget(self) -> bool:
        """True if the seeds alone exceed the budget."""
        return 0 < self.budget_tokens < int(self.token_cost[self.seeds].sum())

    @property
    def truncated(self) -> bool:
        """True if a baseline run left arms out that no setting excluded."""
        return self.run_class == "baseline" and not bool(self.packed[: self.n_candidates].all())

    @property
    def budget_left(self) -> Ints | None:
        """Tokens left when each arm's turn came, by rank; None without a budget."""
        if self.budget_tokens == 0 or self.run_class == "passive":
            return None
        spent = self.cost * self.included
        return self.budget_tokens - (np.cumsum(spent) - spent)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Reason why each arm is in or out, by rank."""
        most = self.k if self.k > 0 else len(self.order)
        is_full = np.cumsum(self.included) >= most
        rows = zip(self.included.tolist(), is_full.tolist(), strict=True)
        reasons: list[Reason] = [
            self._reason_in(rank) if is_in else "k" if full else "budget"
            for rank, (is_in, full) in enumerate(islice(rows, self.n_candidates))
        ]
        reasons.extend("held_out" if one in self.held_out else "excluded" for one in self.excluded.tolist())
        return tuple(reasons)

    def _reason_in(self, rank: int) -> Reason:
        if self.run_class == "passive":
            return "passive"
        if rank < self.n_seeds:
            return "seed"
        if self.run_class == "baseline":
            return "baseline"
        n_fixed = self.n_seeds + len(self.first)
        if rank < n_fixed:
            return "assigned"
        return "under_explored" if rank < n_fixed + self.n_under else "draw"


def pack(
    columns: ArmColumns, settings: LearnerSettings, *, seed: int, assigned: Assigned | None = None
) -> PackedArms:
    """Decide about every arm of ``columns`` (sorted by id, as the store hands them out).

    The same ``seed``, from 0 to 2^128 - 1, decides the same; another raises `InvalidInput`. In an ``assigned``
    session the coin is drawn and not heeded, so that all other draws are as elsewhere.

    W. R. Thompson, *Biometrika* 25, 1933, 285 (doi:10.1093/biomet/25.3-4.285).
    """
    rng = generator(seed)  # `coin_and_draws` draws in the same order
    if settings.phase == "passive":
        return _everything(columns)
    is_baseline = rng.random() < settings.baseline_rate and assigned is None
    fixed = _fixed(columns.keys, settings, assigned)
    if is_baseline:
        order = order_baseline(fixed.seeds, rng.permutation(len(columns)), excluded=fixed.excluded)
        return _packed(columns, settings, "baseline", order, fixed)
    draws = rng.beta(columns.alpha, columns.beta)
    leading = LEADING if settings.budget_tokens or settings.k else 0
    result = _pack_selected(columns, settings, draws, fixed, leading)
    if leading and not _is_final(result):
        return _pack_selected(columns, settings, draws, fixed, 0)
    return result


class _Fixed(NamedTuple):
    """Indexes of the arms that no draw decides on; an arm that is both a seed and excluded is excluded.

    ``first`` and ``held_out`` are of an experiment; the second is among the excluded ones.
    """

    seeds: Ints
    excluded: Ints
    first: Ints
    held_out: Ints


def _fixed(keys: Sequence[str], settings: LearnerSettings, assigned: Assigned | None) -> _Fixed:
    out, seeds = settings.left_out, settings.always_in
    arms = set() if assigned is None or not assigned.in_force else {assigned.arm} - out
    is_with = assigned is not None and assigned.side == "with"
    first, held_out = (arms - seeds, set[str]()) if is_with else (set[str](), arms)
    return _Fixed(*(seed_places(keys, one) for one in (seeds - held_out, out | held_out, first, held_out)))


def _pack_selected(
    columns: ArmColumns, settings: LearnerSettings, draws: Floats, fixed: _Fixed, leading: int
) -> PackedArms:
    order, n_under = order_selected(
        fixed.seeds,
        columns.pulls,
        draws,
        settings.min_pulls,
        leading=leading,
        excluded=fixed.excluded,
        first=fixed.first,
    )
    return _packed(columns, settings, "selected", order, fixed, draws=draws, n_under=n_under)


def _packed(
    columns: ArmColumns,
    settings: LearnerSettings,
    run_class: Literal["baseline", "selected"],
    order: Ints,
    fixed: _Fixed,
    *,
    draws: Floats | None = None,
    n_under: int = 0,
) -> PackedArms:
    """Fill the budget in this order; ``k`` holds selected runs back only."""
    cost = counted_cost(columns.token_cost)
    k = settings.k if run_class == "selected" else 0
    packed = np.zeros(len(order), dtype=np.bool_)
    candidates = order[: len(columns) - len(fixed.excluded)]
    packed[: len(candidates)] = fill(cost[candidates], len(fixed.seeds), settings.budget_tokens, k)
    return PackedArms(
        run_class=run_class,
        leading=order,
        packed=packed,
        token_cost=cost,
        pulls=columns.pulls,
        draws=draws,
        seeds=fixed.seeds,
        excluded=fixed.excluded,
        first=fixed.first,
        held_out=fixed.held_out,
        n_under=n_under,
        budget_tokens=settings.budget_tokens,
        k=k,
        min_pulls=settings.min_pulls,
    )


def _is_final(packed: PackedArms) -> bool:
    """Return whether nothing behind the leading arms can go in: the limit is reached, or too few tokens are left."""
    if len(packed.leading) >= packed.n_candidates:
        return True
    if packed.k and int(packed.packed.sum()) >= packed.k:
        return True
    if not packed.budget_tokens:
        return False
    left = packed.budget_tokens - int(packed.token_cost[packed.included_places].sum())
    behind = np.ones(len(packed.token_cost), dtype=np.bool_)
    behind[packed.leading] = False
    behind[packed.excluded] = False
    return left < int(packed.token_cost.min(where=behind, initial=np.iinfo(np.int64).max))


def select(
    columns: ArmColumns,
    settings: LearnerSettings,
    *,
    seed: int,
    revision: int = 0,
    assigned: Assigned | None = None,
) -> Selection:
    """Choose the arms of the next run; ``revision`` is the learner's that ``columns`` were read under.

    The guidance text is added by the flow that hands the selection out.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm on offer, sorted by id.
    settings : LearnerSettings
        Settings in force.
    seed : int
        Of the random generator, from 0 to 2^128 - 1; the same one chooses the same.
    revision : int, optional
        The learner's when ``columns`` were read, 0 or more.
    assigned : Assigned or None, optional
        Side of the session in an experiment; None = no experiment assigned it.

    Returns
    -------
    Selection
        One decision per arm in the order of their ranks, without guidance.

    Raises
    ------
    InvalidInput
        If ``seed`` is outside its range.

    References
    ----------
    W. R. Thompson, *Biometrika* 25, 1933, 285 (doi:10.1093/biomet/25.3-4.285).
    """
    packed = pack(columns, settings, seed=seed, assigned=assigned)
    return Selection(
        run_class=packed.run_class,
        decisions=_decisions(packed, columns, settings, assigned),
        seed=str(seed),
        baseline_prob=0.0 if packed.run_class == "passive" or assigned else settings.baseline_rate,
        settings_hash=settings_hash(settings),
        revision=revision,
        budget_tokens=packed.budget_tokens,
        k=settings.k,
        min_pulls=settings.min_pulls,
        over_budget=packed.over_budget,
        truncated=packed.truncated,
        numpy=msgspec.UNSET if packed.run_class == "passive" else np.__version__,
        beliefs=msgspec.UNSET if packed.run_class == "passive" else _beliefs(columns),
        experiment=assigned or msgspec.UNSET,
    )


def _beliefs(columns: ArmColumns) -> str:
    alpha = columns.base_alpha_micro + columns.success_micro
    return belief_digest(columns.keys, alpha, columns.base_beta_micro + columns.failure_micro)


def extended(
    held: Selection, columns: ArmColumns, settings: LearnerSettings, *, seed: int, revision: int
) -> Selection:
    """Return a held selection with candidates that came later, appended by a draw of their own.

    They share the coin of the hold, and go in behind its arms as far as the limits leave room.

    Parameters
    ----------
    held : Selection
        Selection of a hold, with every arm decided so far.
    columns : ArmColumns of n_arms
        Counts of the new candidates, sorted by id.
    settings : LearnerSettings
        Settings in force: budget, k, min_pulls, seeds and excluded arms.
    seed : int
        Of this draw, from 0 to 2^128 - 1.
    revision : int
        The learner's when ``columns`` were read.

    Returns
    -------
    Selection
        The same decisions, then one for each candidate by rank.
    """
    is_baseline = held.run_class == "baseline"
    unlimited = msgspec.structs.replace(
        settings, phase="active", baseline_rate=float(is_baseline), budget_tokens=0, k=0
    )
    assigned = None if held.experiment is msgspec.UNSET else held.experiment
    packed = pack(columns, unlimited, seed=seed, assigned=assigned)
    fresh = _decisions(packed, columns, settings, assigned, held=held.decisions)
    last = max((one.rank for one in held.decisions), default=0)
    later = () if held.later is msgspec.UNSET else held.later
    return _limited(
        msgspec.structs.replace(
            held,
            decisions=(
                *held.decisions,
                *(msgspec.structs.replace(one, rank=last + one.rank) for one in fresh),
            ),
            later=(*later, LaterDraw(seed=str(seed), revision=revision, n_arms=len(fresh))),
        ),
        settings,
        n_fixed=len(held.decisions),
    )


def _limited(selection: Selection, settings: LearnerSettings, *, n_fixed: int) -> Selection:
    """Return the selection with what does not fit left out; the first decisions stay as they are."""
    most = settings.k if selection.run_class == "selected" else 0
    spent = n_in = 0
    decisions: list[Decision] = []
    for at, one in enumerate(selection.decisions):
        decided = one
        if at >= n_fixed and one.included and one.reason != "seed":
            is_full = 0 < most <= n_in
            is_dear = 0 < settings.budget_tokens < spent + one.token_cost
            if is_full or is_dear:
                decided = msgspec.structs.replace(one, included=False, reason="k" if is_full else "budget")
        left = settings.budget_tokens - spent if settings.budget_tokens and at >= n_fixed else one.budget_left
        decisions.append(msgspec.structs.replace(decided, budget_left=left))
        spent += decided.token_cost * decided.included
        n_in += decided.included
    return msgspec.structs.replace(selection, decisions=tuple(decisions))


def on_offer(held: Selection, token_costs: Mapping[str, int], settings: LearnerSettings) -> Selection:
    """Return what a held selection says of the arms on offer now.

    Nothing is drawn, and no arm comes back in. Chances are those of the draw; an arm that leaves for later limits has
    none. Arms that a setting excludes by now leave, seeds too, and rank last.
    Where the limits are smaller now, or arms dearer, the last in order leave until the others fit; seeds stay.

    Parameters
    ----------
    held : Selection
        Selection of a hold, in which every arm on offer is decided.
    token_costs : mapping of str to int
        Cost of each arm on offer, `UNKNOWN` (-1) where it is not known.
    settings : LearnerSettings
        Settings in force.

    Returns
    -------
    Selection
        One decision per arm on offer, ranked from 1 in the order of the hold.
    """
    left_out = settings.left_out
    known = [one for one in held.decisions if one.arm in token_costs]
    stay, leave = (
        [one for one in known if (one.arm in left_out) == is_excluded] for is_excluded in (False, True)
    )
    leave = [
        one
        if one.reason == "held_out"
        else msgspec.structs.replace(one, included=False, reason="excluded", chance=0.0)
        for one in leave
    ]
    rows = [
        msgspec.structs.replace(one, rank=rank, token_cost=max(token_costs[one.arm], 0))
        for rank, one in enumerate([*stay, *leave], start=1)
    ]
    spent, n_in = sum(one.token_cost for one in rows if one.included), sum(one.included for one in rows)
    most = settings.k if held.run_class == "selected" else 0
    for at in range(len(rows) - 1, -1, -1):
        one = rows[at]
        is_dear = 0 < settings.budget_tokens < spent
        if not is_dear and not 0 < most < n_in:
            break
        if one.included and one.reason != "seed":
            reason: Reason = "budget" if is_dear else "k"
            rows[at] = msgspec.structs.replace(one, included=False, reason=reason, chance=msgspec.UNSET)
            spent, n_in = spent - one.token_cost, n_in - 1
    return msgspec.structs.replace(
        held,
        decisions=tuple(_with_left(rows, settings.budget_tokens)),
        budget_tokens=settings.budget_tokens,
        k=settings.k,
        min_pulls=settings.min_pulls,
        over_budget=0 < settings.budget_tokens < spent,
        truncated=held.run_class == "baseline"
        and not all(one.included or one.reason == "excluded" for one in rows),
    )


def _with_left(rows: Sequence[Decision], budget_tokens: int) -> Iterator[Decision]:
    """Yield the decisions with the tokens left when each one's turn came."""
    spent = 0
    for one in rows:
        yield msgspec.structs.replace(one, budget_left=budget_tokens - spent if budget_tokens else None)
        spent += one.token_cost * one.included


def settings_hash(settings: LearnerSettings) -> str:
    """Return sixteen hexadecimal digits that change with any setting that selection uses.

    Heeded: phase, baseline rate, budget, k, min_pulls, the seeds and the excluded arms (not their order). Without
    excluded arms it is the hash of versions that did not know them. Priors act through the columns.

    Parameters
    ----------
    settings : LearnerSettings
        Settings of a learner.

    Returns
    -------
    str
        The first 16 hexadecimal digits of a hash.

    Examples
    --------
    >>> settings_hash(LearnerSettings()) == settings_hash(LearnerSettings(meta_tools=()))
    True
    >>> settings_hash(LearnerSettings()) == settings_hash(LearnerSettings(k=3))
    False
    """
    heeded: tuple[object, ...] = (
        settings.phase,
        float(settings.baseline_rate),
        settings.budget_tokens,
        settings.k,
        settings.min_pulls,
        sorted(set(settings.seed_arms)),
    )
    if settings.excluded_arms:
        heeded = (*heeded, sorted(set(settings.excluded_arms)))
    return hashlib.blake2b(msgspec.json.encode(heeded), digest_size=8).hexdigest()


def _everything(columns: ArmColumns) -> PackedArms:
    n_arms = len(columns)
    return PackedArms(
        run_class="passive",
        leading=np.arange(n_arms),
        packed=np.ones(n_arms, dtype=np.bool_),
        token_cost=counted_cost(columns.token_cost),
        pulls=columns.pulls,
        draws=None,
        seeds=_NONE,
        excluded=_NONE,
        first=_NONE,
        held_out=_NONE,
        n_under=0,
        budget_tokens=0,
        k=0,
        min_pulls=0,
    )


def _chances(
    packed: PackedArms,
    columns: ArmColumns,
    settings: LearnerSettings,
    assigned: Assigned | None,
    held: Sequence[Decision],
) -> list[float]:
    """Return the chance of each arm, by rank, that a new draw of its own puts it in, all other draws as they are.

    Arms that are ``held`` go first. An experiment's arm has the chance of the side *with*, or 0 if it doesn't fit.
    """
    cost, start, end = packed.cost.tolist(), packed.n_seeds, packed.n_candidates
    chances = np.ones(len(cost))
    chances[end:] = 0
    if packed.run_class == "passive":
        return chances.tolist()
    before = [one.token_cost for one in held if one.included] + cost[:start]
    most = settings.k if packed.run_class == "selected" else 0
    room = most - len(before) if most else _UNLIMITED
    left = settings.budget_tokens - sum(before) if settings.budget_tokens else _UNLIMITED
    if assigned is not None and assigned.in_force and assigned.arm in {*columns.keys} - settings.left_out:
        rank = packed.order.tolist().index(columns.keys.index(assigned.arm))
        fits = assigned.arm in settings.always_in or (room > 0 and cost[rank] <= left)
        chances[rank] = fits * assigned.chance_micro / MICRO
        if len(packed.first):
            left, room, start = left - fits * cost[rank], room - fits, start + 1
    if start < end and (sum(cost[start:end]) > left or end - start > room):
        ranks = np.array(ranks_to_beat(cost[start:end], left, room))
        chances[start:end] = _by_draw(packed, columns, packed.order[start:end], ranks)
    return chances.tolist()


def _by_draw(packed: PackedArms, columns: ArmColumns, arms: Ints, ranks: Ints) -> Floats:
    """Return the chances that arms draw ahead of those at the ranks that they must beat."""
    if packed.draws is None:  # each position in the random order is equally likely
        return (ranks + (ranks < np.arange(len(arms)))) / len(arms)
    beaten = arms.take(ranks, mode="clip")
    chances = chance_above(columns.alpha[arms], columns.beta[arms], packed.draws[beaten])
    under = np.minimum(packed.pulls, packed.min_pulls)
    chances[(ranks < 0) | (under[beaten] < under[arms])] = 0
    chances[(ranks == len(arms)) | (under[beaten] > under[arms])] = 1
    return chances.round(_DIGITS)


def _decisions(
    packed: PackedArms,
    columns: ArmColumns,
    settings: LearnerSettings,
    assigned: Assigned | None,
    held: Sequence[Decision] = (),
) -> tuple[Decision, ...]:
    order = packed.order.tolist()
    left = packed.budget_left
    lefts = [None] * len(order) if left is None else left.tolist()
    draws = [None] * len(order) if packed.draws is None else packed.draws[packed.order].tolist()
    chances = _chances(packed, columns, settings, assigned, held)
    rows = zip(
        order,
        packed.included.tolist(),
        packed.reasons,
        packed.cost.tolist(),
        draws,
        lefts,
        chances,
        strict=True,
    )
    return tuple(
        Decision(
            arm=columns.keys[index],
            included=is_in,
            reason=reason,
            rank=rank,
            token_cost=cost,
            draw=draw,
            budget_left=budget_left,
            chance=chance,
        )
        for rank, (index, is_in, reason, cost, draw, budget_left, chance) in enumerate(rows, start=1)
    )
