"""Lint: what may be wrong with how an environment pays; one small function for each of nine findings.

Each takes the columns and returns its finding, with the steps that show it, or None. A fault that is
certain is reported from the first step on. A fault of shares needs ten episodes; its certainty is the share of
bootstrap samples that agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import scipy

from core.columns import UNKNOWN, Bools, Floats, Ints
from core.records.episode import Episode, Finding, Scale
from core.statistics.rewards.agreeing import agreeing
from core.statistics.rewards.paid import Paid, columns_of

MIN_EPISODES: Final = 10
MIN_STEPS: Final = 4
"""From which on only the last step's payment comes late."""
LATE_SHARE: Final = 0.9
SUCCESS_SHARE: Final = 0.1
"""Share of successful episodes; fewer successes teach next to nothing."""
HACKED_SHARE: Final = 0.05
AGAIN: Final = 3
"""Payments of one action in one episode, from which on it is paid again and again."""
AGAIN_BY_TOOL: Final = 5
"""Payments of one tool, if only the tool is known and not its arguments."""
OUTWEIGH_SHARE: Final = 0.5
ALIKE_SHARE: Final = 0.05
APART: Final = 10.0
"""Times that what one tool pays is what another does."""
PURE: Final = 0.95
LENGTH: Final = 0.5
"""Rank correlation of payment and length, beyond which length is what is paid for."""
BY_LENGTH_ALONE: Final = 0.9
"""Rank correlation required of a payment of two values, which says no more than success does."""
PROB: Final = 0.95
MOST_STEPS: Final = 50
"""Steps that a finding shows."""
_FEW_PAYMENTS: Final = 3
_FEW_OF_A_KIND: Final = 5
_FULL: Final = 1 - 1e-9


def lint(episodes: Sequence[Episode], scale: Scale | None = None) -> tuple[Finding, ...]:
    """Return the faults in how an environment pays, from its episodes alone.

    Parameters
    ----------
    episodes : sequence of Episode
        Of one environment.
    scale : Scale, optional
        On which it pays; payments from 0 to 1 where none is given.

    Returns
    -------
    tuple of Finding
        Empty without faults, or for too few episodes.

    References
    ----------
    OpenReward Standard, "Rewards": design principles and common pitfalls.

    Examples
    --------
    >>> from core.records.episode import Step
    >>> echo = [Step(number=n, name="bash", args_digest="e" * 32, reward=0.1) for n in range(8)]
    >>> steps = (*echo, Step(number=8, name="submit", reward=0.0, finished=True))
    >>> episodes = [Episode(uid=f"shell/{n}", environment="shell", steps=steps) for n in range(20)]
    >>> [result.kind for result in lint(episodes)]
    ['hacking']
    """
    return findings_in(columns_of(episodes, scale or Scale()))


def findings_in(paid: Paid) -> tuple[Finding, ...]:
    """Return the faults that the columns show.

    Parameters
    ----------
    paid : Paid
        Episodes of one environment.

    Returns
    -------
    tuple of Finding
        In the order of `FINDINGS`, each kind at most once.

    Examples
    --------
    >>> findings_in(columns_of([], Scale()))
    ()
    """
    results = (look(paid) for look in FINDINGS)
    return tuple(finding for finding in results if finding is not None)


def _late(paid: Paid) -> Finding | None:
    """Find delayed-only feedback: of episodes of four steps or more only the last pays. If hardly any succeeds
    either, nothing is learned at all: sparsity.
    """
    n_steps = paid.counted(~paid.refused)
    long = paid.finished & (n_steps >= MIN_STEPS) & ~np.isnan(paid.total)
    pays = paid.counted(paid.is_midway & (paid.reward != 0) & ~np.isnan(paid.reward))
    only_last = long & (pays == 0)
    n, hits = int(long.sum()), int(only_last.sum())
    if n < MIN_EPISODES or hits < LATE_SHARE * n:
        return None
    agree = agreeing(hits, n, LATE_SHARE)
    shows = paid.last[only_last]
    successes = int((long & paid.succeeded).sum())
    rare = float(scipy.special.betainc(successes + 0.5, n - successes + 0.5, SUCCESS_SHARE))
    if rare >= 0.5:
        return Finding(
            kind="sparsity",
            certainty=agree * rare,
            seen=f"In {hits} of {n} episodes of {MIN_STEPS} steps or more only the last pays; {successes} succeed.",
            steps=paid.shown(shows, MOST_STEPS),
            advice="Pay for progress on the way, or begin with easier tasks: there is hardly anything to learn from.",
        )
    return Finding(
        kind="delayed",
        certainty=agree,
        seen=f"In {hits} of {n} episodes of {MIN_STEPS} steps or more only the last pays.",
        steps=paid.shown(shows, MOST_STEPS),
        advice="Pay for meaningful progress where it is made, so that good and bad steps have different rewards.",
    )


def _hacking(paid: Paid) -> Finding | None:
    """Find hacking: the same action paid the same again and again, most of the midway payment, and no success."""
    again, excess = _again(paid)
    midway = paid.added(paid.is_midway & (paid.reward > 0), paid.reward)
    mostly = (excess * 2 >= midway) & (excess > 0)
    hacked = mostly & ~(paid.ended > paid.scale.threshold)
    n, hits = int((paid.n_midway > 0).sum()), int(hacked.sum())
    if n < MIN_EPISODES or hits < HACKED_SHARE * n or hits * 2 < int(mostly.sum()):
        return None
    return Finding(
        kind="hacking",
        certainty=agreeing(hits, n, HACKED_SHARE),
        seen=f"In {hits} of {n} episodes most of what is paid on the way is for the same action again, "
        "without success.",
        steps=paid.shown(np.flatnonzero(again & hacked[paid.episode]), MOST_STEPS),
        advice="Pay an action for what it brings anew, and nothing for doing it again.",
    )


def _again(paid: Paid) -> tuple[Bools, Floats]:
    """Return the steps that pay the same as an earlier step for the same action, if that is frequent, and their sum
    by episode. If no step has a digest of its arguments, the tool counts as the action.
    """
    by_tool = bool(np.all(paid.action == UNKNOWN))
    action, often = (paid.tool, AGAIN_BY_TOOL) if by_tool else (paid.action, AGAIN)
    places = np.flatnonzero(paid.is_midway & (paid.reward > 0) & (action != UNKNOWN))
    again = np.zeros(len(paid.reward), dtype=np.bool_)
    if not len(places):
        return again, np.zeros(paid.n)
    order = places[np.lexsort((places, paid.reward[places], action[places], paid.episode[places]))]
    starts = np.ones(len(order), dtype=np.bool_)
    for column in (paid.episode, action, paid.reward):
        starts[1:] &= column[order[1:]] == column[order[:-1]]
    starts[1:] = ~starts[1:]
    group = np.cumsum(starts) - 1
    size = np.bincount(group)
    again[order[~starts & (size[group] >= often)]] = True
    return again, paid.added(again, paid.reward)


def _scaling(paid: Paid) -> Finding | None:
    """Find steps that outweigh the final reward: midway payments, signs aside, exceed the largest final one."""
    is_paid = ~np.isnan(paid.reward)
    on_the_way = paid.added(paid.is_midway & is_paid, np.abs(paid.reward))
    ended = paid.finished & ~np.isnan(paid.ended)
    n = int(ended.sum())
    if n < MIN_EPISODES:
        return None
    most = float(np.max(np.abs(paid.ended[ended])))
    outweighs = ended & (on_the_way > most)
    hits = int(outweighs.sum())
    if not most or hits <= OUTWEIGH_SHARE * n:
        return None
    shows = np.flatnonzero(paid.is_midway & is_paid & (paid.reward != 0) & outweighs[paid.episode])
    typical = float(np.median(on_the_way[ended]))
    return Finding(
        kind="scaling",
        certainty=agreeing(hits, n, OUTWEIGH_SHARE),
        seen=f"Steps on the way come to {typical:.3g} in the middle episode; the end pays {most:.3g} at most.",
        steps=paid.shown(shows, MOST_STEPS),
        advice="Keep the final reward well above all that can be had on the way.",
    )


def _ambiguity(paid: Paid) -> Finding | None:
    """Find one final reward for outcomes that metadata or a part of the reward distinguishes.

    Outcomes differ where equal metadata (or an equal part) goes with one final reward throughout, so that it
    speaks of the outcome; it is ambiguous where several such outcomes share their reward.
    """
    ended = paid.finished & ~np.isnan(paid.ended)
    if int(ended.sum()) < MIN_EPISODES:
        return None
    meta = np.full(paid.n, UNKNOWN)
    meta[ended] = paid.meta[paid.last[ended]]
    worst: tuple[int, str, Ints] | None = None
    sources = [
        ("metadata", meta),
        *((f"the part {name}", _codes(values)) for name, values in paid.parts.items()),
    ]
    for name, code in sources:
        alike = _alike(paid.ended, np.where(ended, code, UNKNOWN))
        if len(alike) and (worst is None or len(alike) > worst[0]):
            worst = len(alike), name, alike
    n = int(ended.sum())
    if worst is None or worst[0] < ALIKE_SHARE * n:
        return None
    return Finding(
        kind="ambiguity",
        certainty=agreeing(worst[0], n, ALIKE_SHARE),
        seen=f"{worst[0]} of {n} episodes ended with the reward of another outcome; {worst[1]} tells the two apart.",
        steps=paid.shown(paid.last[worst[2]], MOST_STEPS),
        advice="Pay outcomes that differ differently: graduated rewards tell partial success from failure.",
    )


def _codes(values: Floats) -> Ints:
    known = ~np.isnan(values)
    codes = np.full(len(values), UNKNOWN)
    codes[known] = np.unique(values[known], return_inverse=True)[1]
    return codes


def _alike(ended: Floats, code: Ints) -> Ints:
    """Return the episodes whose outcome shares its final reward with a commoner one."""
    known = np.flatnonzero(code != UNKNOWN)
    if len(known) < MIN_EPISODES:
        return known[:0]
    _, outcome, often = np.unique(code[known], return_inverse=True, return_counts=True)
    common = often[outcome] >= _FEW_PAYMENTS
    if int(common.sum()) * 2 < len(known):
        return known[:0]
    known, outcome = known[common], outcome[common]
    values, reward = np.unique(ended[known], return_inverse=True)
    if len(values) < 2:
        return known[:0]
    table = np.zeros((int(outcome.max()) + 1, len(values)), dtype=np.int64)
    np.add.at(table, (outcome, reward), 1)
    whole = table.sum(axis=1)
    if int(table.max(axis=1).sum()) < PURE * len(known):
        return known[:0]
    paid_by = np.where(whole > 0, table.argmax(axis=1), UNKNOWN)
    commonest = np.array(
        [np.argmax(np.where(paid_by == value, whole, UNKNOWN)) for value in range(len(values))]
    )
    of = paid_by[outcome]
    return np.asarray(known[(outcome != commonest[of]) & (reward == of)])


def _inconsistent(paid: Paid) -> Finding | None:
    """Find tools that pay on different scales: one ten times another, both midway or both at the end."""
    for mask in (paid.is_last, paid.is_midway):
        pays = np.flatnonzero(mask & (paid.reward > 0))
        count = np.bincount(paid.tool[pays], minlength=len(paid.tools))
        tools = np.flatnonzero(count >= _FEW_PAYMENTS)
        if len(tools) < 2:
            continue
        typical = np.array([np.median(paid.reward[pays[paid.tool[pays] == tool]]) for tool in tools])
        low, high = tools[typical.argmin()], tools[typical.argmax()]
        if typical.max() < APART * typical.min():
            continue
        of_high = pays[paid.tool[pays] == high]
        apart = of_high[paid.reward[of_high] >= APART * typical.min()]
        names = [_named(paid.tools[tool]) for tool in (high, low)]
        both = np.concatenate((apart[: MOST_STEPS // 2], pays[paid.tool[pays] == low][: MOST_STEPS // 2]))
        return Finding(
            kind="inconsistent",
            certainty=agreeing(len(apart), len(of_high), 0.5),
            seen=f"{names[0]} pays {typical.max():.3g} where {names[1]} pays {typical.min():.3g}.",
            steps=paid.shown(both, MOST_STEPS),
            advice="Have all tools pay on one scale, best from 0 to 1.",
        )
    return None


def _named(tool: str) -> str:
    return tool if tool else "A step without a tool"


def _proxy(paid: Paid) -> Finding | None:
    """Find a final payment that follows the length of the answer rather than success.

    Among successes and among failures, each ranked for itself: so that longer answers that are better are no reason.
    A payment of two values says no more than success does, and is reported only if length all but decides it.

    References
    ----------
    D. G. Bonett and T. A. Wright, *Psychometrika* 65, 2000, 23 (doi:10.1007/BF02294183): the error of a rank
    correlation; F. Wilcoxon, *Biometrics Bull.* 1, 1945, 80 (doi:10.2307/3001968): that of the rank-biserial one.
    """
    known = paid.finished & ~np.isnan(paid.ended)
    length = np.full(paid.n, UNKNOWN)
    length[known] = paid.n_chars[paid.last[known]]
    known &= length != UNKNOWN
    if int(known.sum()) < MIN_EPISODES:
        return None
    reward, chars = paid.ended[known], length[known].astype(np.float64)
    if len(np.unique(reward)) <= 2:
        (correlation, error), needed = _of_two(reward, chars), BY_LENGTH_ALONE
    else:
        (correlation, error), needed = _within(reward, chars, paid.succeeded[known]), LENGTH
    size = math.atanh(min(abs(correlation), _FULL))
    half = float(scipy.special.ndtri((1 + PROB) / 2)) * error
    lower, upper = math.tanh(size - half), math.tanh(size + half)
    if lower <= needed:
        return None
    ends = np.sort([math.copysign(lower, correlation), math.copysign(upper, correlation)])
    order = np.argsort(-chars if correlation > 0 else chars, kind="stable")
    return Finding(
        kind="proxy",
        certainty=float(scipy.special.ndtr((size - math.atanh(needed)) / error)),
        seen="The final reward goes with the length of what was sent, whether it succeeds or not: rank correlation "
        f"{correlation:.2f} ({PROB:.0%} interval {ends[0]:.2f} to {ends[1]:.2f}).",
        steps=paid.shown(paid.last[np.flatnonzero(known)[order]], MOST_STEPS),
        advice="Pay for the answer being right; how long it is should not matter.",
    )


def _of_two(reward: Floats, chars: Floats) -> tuple[float, float]:
    """Return the rank-biserial correlation and its error. It states how much more often the longer of two is paid
    better than worse; each value needs five episodes.
    """
    better = reward == reward.max()
    n_better, n_worse = int(better.sum()), int((~better).sum())
    if min(n_better, n_worse) < _FEW_OF_A_KIND:
        return 0.0, math.inf
    passed = float(scipy.stats.rankdata(chars)[better].sum()) - n_better * (n_better + 1) / 2
    error = math.sqrt((len(reward) + 1) / (3 * n_better * n_worse))
    return 2 * passed / (n_better * n_worse) - 1, error


def _within(reward: Floats, chars: Floats, succeeded: Bools) -> tuple[float, float]:
    """Return the rank correlation pooled over successes and failures, of those that vary, and its error."""
    centred: list[tuple[Floats, Floats]] = []
    for stratum in (succeeded, ~succeeded):
        one, other = (scipy.stats.rankdata(values[stratum]) for values in (reward, chars))
        middle, n = (len(one) + 1) / 2, max(len(one), 1)
        if len(one) and np.ptp(one) and np.ptp(other):
            centred.append(((one - middle) / n, (other - middle) / n))
    if sum(len(one) for one, _ in centred) < MIN_EPISODES:
        return 0.0, math.inf
    one, other = (np.concatenate(parts) for parts in zip(*centred, strict=True))
    correlation = float(one @ other / math.sqrt((one @ one) * (other @ other)))
    return correlation, math.sqrt((1 + correlation**2 / 2) / (len(one) - 3))


def _out_of_scale(paid: Paid) -> Finding | None:
    """Find payments, and results of episodes, outside the declared scale."""
    scale = paid.scale
    outside = (paid.reward < scale.step_lo) | (paid.reward > scale.step_hi)
    steps = np.flatnonzero(outside & ~paid.refused)
    reached = paid.total if scale.base == "total" else paid.final
    episodes = np.flatnonzero((reached < scale.lo) | (reached > scale.hi))
    if not len(steps) and not len(episodes):
        return None
    texts = []
    if len(steps):
        texts.append(f"{len(steps)} payments lie outside {scale.step_lo:g} to {scale.step_hi:g}.")
    if len(episodes):
        texts.append(
            f"The {scale.base} of {len(episodes)} of {paid.n} lies outside {scale.lo:g} to {scale.hi:g}."
        )
    shows = np.unique(np.concatenate((steps, paid.last[episodes])))
    return Finding(
        kind="out_of_scale",
        certainty=1.0,
        seen=" ".join(texts),
        steps=paid.shown(shows, MOST_STEPS),
        advice="Declare the scale on which it pays, or have it pay from 0 to 1.",
    )


def _paid_after_finished(paid: Paid) -> Finding | None:
    """Find payments after the end: they add nothing here, and could be repeated elsewhere."""
    after = np.flatnonzero(paid.refused & (paid.reward != 0) & ~np.isnan(paid.reward))
    if not len(after):
        return None
    n = len(np.unique(paid.episode[after]))
    return Finding(
        kind="paid_after_finished",
        certainty=1.0,
        seen=f"{len(after)} payments came after the end, in {n} of {paid.n} episodes; none was counted.",
        steps=paid.shown(after, MOST_STEPS),
        advice="Answer nothing more once an episode has finished, and pay for its end once.",
    )


FINDINGS: Final[tuple[Callable[[Paid], Finding | None], ...]] = (
    _late,
    _hacking,
    _scaling,
    _ambiguity,
    _inconsistent,
    _proxy,
    _out_of_scale,
    _paid_after_finished,
)
