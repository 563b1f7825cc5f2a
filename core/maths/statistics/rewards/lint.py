"""Lint: what may be wrong with how an environment pays; one small function for each kind of finding.

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
from core.maths.statistics.rewards import hacks
from core.maths.statistics.rewards.paid import (
    MOST_STEPS,
    Paid,
    bootstrap_share,
    columns_of,
    finding_of,
    ranked,
)
from core.maths.statistics.rewards.pattern import is_potential
from core.records.episode import Episode, Finding, Scale
from core.records.times import iso

MIN_EPISODES: Final = 10
MIN_STEPS: Final = 4
"""From which on only the last step's payment comes late."""
LATE_SHARE: Final = 0.9
HACKED_SHARE: Final = 0.05
AGAIN: Final = 3
"""Payments of one action in one episode, from which on it is paid again and again."""
AGAIN_BY_TOOL: Final = 5
"""Payments of one tool, if only the tool is known and not its arguments."""
TOLERANCE: Final = 0.1
"""Payments are alike within this share of their median."""
CONSTANT_SHARE: Final = 0.95
"""Share of a tool's calls that are paid alike, from which on its arguments don't matter."""
MATERIAL: Final = 0.25
"""Share of the best final reward. Less than that on the way is a small payment for progress."""
RISES: Final = 0.9
"""Rank correlation of what is paid on the way with the number of steps, beyond which steps are paid for."""
OUTWEIGH_SHARE: Final = 0.2
"""Share of the episodes that end well in which the way outweighs the end."""
ALIKE_SHARE: Final = 0.05
MOST_OUTCOMES: Final = 20
"""Values of a member of metadata, beyond which it names something else than the outcome."""
APART: Final = 10.0
"""Times that what one tool pays is what another does."""
PURE: Final = 0.95
CHANGED: Final = 5.0
"""Times that the payments of one time are those of another, by the middle and by the largest."""
CHANGE_CHANCE: Final = 0.01
"""Probability of such a change point in payments of one scale."""
CONSTANT: Final = 0.95
"""Share of episodes that end with one payment, from which on it says next to nothing."""
DECIDES: Final = 0.95
"""Share of episodes that are paid by the rank of their length, to a hundredth, where nothing but length decides."""
LENGTH: Final = 0.5
"""Rank correlation of payment and length, beyond which length is what is paid for."""
BY_LENGTH_ALONE: Final = 0.9
"""Rank correlation required of a payment of two values, which says no more than success does."""
PROB: Final = 0.95
_FEW_PAYMENTS: Final = 3
_FEW_OF_A_KIND: Final = 5
_FULL: Final = 1 - 1e-9
_BEYOND_CHANCE: Final = 3.0
"""Standard errors of a rank correlation that one of seven hundred independent pairs of columns exceeds."""


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
    """Find delayed-only feedback: of episodes of four steps or more only the last pays. If hardly any of
    them ends above the lowest payment either, nothing is learned at all: sparsity.
    """
    n_steps = paid.counted(~paid.refused)
    long = paid.finished & (n_steps >= MIN_STEPS) & ~np.isnan(paid.total)
    pays = paid.counted(paid.is_midway & (paid.reward != 0) & ~np.isnan(paid.reward))
    only_last = long & (pays == 0)
    n, hits = int(long.sum()), int(only_last.sum())
    if n < MIN_EPISODES or hits < LATE_SHARE * n:
        return None
    agree = bootstrap_share(hits, n, LATE_SHARE)
    ends = paid.last_reward[long & ~np.isnan(paid.last_reward)]
    above, rare = hacks.seldom_above(ends, n)
    is_sparse = rare >= 0.5
    of_n = f"{n} episodes of {MIN_STEPS} steps or more"
    text = f"In {hits} of {of_n} only the last pays."
    if is_sparse:
        text = text if np.any(ends) else f"In {of_n} nothing is ever paid."
        text += f" {above} of them end above the lowest payment."
    return finding_of(
        paid,
        kind="sparsity" if is_sparse else "delayed",
        certainty=agree * rare if is_sparse else agree,
        text=text,
        steps=paid.last[only_last],
        advice="Pay for progress on the way, or begin with easier tasks: there is hardly anything to learn from."
        if is_sparse
        else "Pay for meaningful progress where it is made, so that good and bad steps have different rewards.",
    )


def _hacking(paid: Paid) -> Finding | None:
    """Find hacking: one action paid alike again and again, or a tool that pays each call alike.

    Where steps back take what steps forward paid, repeating a step brings nothing. Where the last step is paid like
    all others, staying alive may be the goal.
    """
    if hacks.per_step(paid) is not None:
        return None
    midway = paid.added(paid.pays_midway, paid.reward)
    finding = _repeating(paid, midway) or _per_call(paid, midway)
    return None if finding is None or is_potential(paid) else finding


def _repeating(paid: Paid, midway: Floats) -> Finding | None:
    """Find the same action paid alike again, as most of the midway payment, also without success."""
    again, excess = _again(paid)
    mostly = (excess * 2 >= midway) & (excess > 0)
    hacked = mostly & ~(paid.last_reward > paid.scale.threshold)
    n, hits = int((paid.n_midway > 0).sum()), int(hacked.sum())
    if n < MIN_EPISODES or hits < HACKED_SHARE * n or _goes_with_the_end(paid, excess, mostly):
        return None
    return finding_of(
        paid,
        kind="hacking",
        certainty=bootstrap_share(hits, n, HACKED_SHARE),
        text=f"In {hits} of {n} episodes the agent earned most of its reward by repeating one action, and still "
        "failed.",
        steps=np.flatnonzero(again & hacked[paid.episode]),
        advice="Pay an action for the new things it brings, and nothing for doing it again.",
    )


def _again(paid: Paid) -> tuple[Bools, Floats]:
    """Return the steps paid like another step for the same action, if that is frequent, and their sum by episode.

    If no step has a digest of its arguments, the tool counts as the action. What that adds up to must be material.
    """
    by_tool = bool(paid.action.max(initial=UNKNOWN) == UNKNOWN)
    action, often = (paid.tool, AGAIN_BY_TOOL) if by_tool else (paid.action, AGAIN)
    again = np.zeros(len(paid.reward), dtype=np.bool_)
    steps = np.flatnonzero(paid.pays_midway)
    if not by_tool:
        steps = steps[action[steps] != UNKNOWN]
    key = paid.episode[steps] * (int(action.max(initial=0)) + 1) + action[steps]
    if np.any(key[1:] < key[:-1]):
        order = np.argsort(key, kind="stable")
        steps, key = steps[order], key[order]
    size = np.diff(np.flatnonzero(np.diff(key, prepend=UNKNOWN)), append=len(key))
    frequent = size >= often
    if not np.all(frequent):
        steps, size = steps[np.repeat(frequent, size)], size[frequent]
    if not len(steps):
        return again, np.zeros(paid.n)
    again[_alike(paid.reward, steps, size, often)] = True
    excess = paid.added(again, paid.reward)
    if by_tool:
        excess[excess <= MATERIAL * _best(paid)] = 0
    return again, excess


def _alike(reward: Floats, steps: Ints, size: Ints, often: int) -> Ints:
    """Return the steps that are paid like the middle one of their group, without the first, where that is frequent.

    ``size`` are the sizes of groups of steps that follow each other.
    """
    starts, group = np.cumsum(size) - size, np.repeat(np.arange(len(size)), size)
    payments = reward[steps]
    low, high = np.minimum.reduceat(payments, starts), np.maximum.reduceat(payments, starts)
    if np.all(high - low <= TOLERANCE * low):  # no group has to be ordered to know its middle
        first = np.zeros(len(steps), dtype=np.bool_)
        first[starts] = True
        return np.asarray(steps[~first])
    order = np.lexsort((payments, group))
    steps, payments = steps[order], payments[order]
    middle = payments[starts + (size - 1) // 2][group]
    is_alike = np.abs(payments - middle) <= TOLERANCE * middle
    is_alike &= (np.bincount(group[is_alike], minlength=len(size)) >= often)[group]
    steps, group = steps[is_alike], group[is_alike]
    return np.asarray(steps[np.diff(group, prepend=UNKNOWN) == 0])


def _best(paid: Paid) -> float:
    """Return the highest final reward; 0 where none is above 0."""
    return float(np.nan_to_num(paid.last_reward).max(initial=0.0))


def _goes_with_the_end(paid: Paid, values: Floats, among: Bools) -> bool:
    """Return whether higher values go with higher final rewards, beyond chance."""
    known = among & ~np.isnan(paid.last_reward)
    n = int(known.sum())
    return n > 1 and ranked(values[known], paid.last_reward[known]) * math.sqrt(n - 1) > _BEYOND_CHANCE


def _per_call(paid: Paid, midway: Floats) -> Finding | None:
    """Find a tool that pays each call alike, for any arguments: steps are paid for, and not what they bring.

    What is paid on the way rises with the number of steps, and not with the final reward.
    """
    calls = np.bincount(paid.tool[paid.is_midway], minlength=len(paid.tools))
    pays = np.bincount(paid.tool[paid.pays_midway], minlength=len(paid.tools))
    frequent = (calls >= MIN_EPISODES * AGAIN) & (pays >= CONSTANT_SHARE * calls)
    for tool in np.flatnonzero(frequent).tolist():
        steps = np.flatnonzero(paid.is_midway & (paid.tool == tool))
        payments = paid.reward[steps]
        typical = float(np.median(payments[payments > 0]))
        n_alike = int((np.abs(payments - typical) <= TOLERANCE * typical).sum())
        n_of = np.bincount(paid.episode[steps], minlength=paid.n)
        among, often = n_of > 0, n_of >= AGAIN
        if (
            n_alike < CONSTANT_SHARE * len(steps)
            or int(often.sum()) < max(MIN_EPISODES, int(among.sum()) / 2)
            or float(np.median(n_of[often])) * typical <= MATERIAL * _best(paid)
            or _goes_with_the_end(paid, midway, among)
        ):
            continue
        rises = ranked(midway[among], paid.n_midway[among].astype(np.float64))
        if rises > RISES:
            return finding_of(
                paid,
                kind="hacking",
                certainty=bootstrap_share(n_alike, len(steps), CONSTANT_SHARE),
                text=f"{_named(paid.tools[tool])} pays {typical:.3g} for {n_alike} of {len(steps)} calls, with any "
                f"arguments. What is paid on the way rises with the number of steps (rank correlation {rises:.2f}), "
                f"{_and_the_end(paid)}",
                steps=steps[often[paid.episode[steps]]],
                advice="Pay a call for what it brings, and nothing for the call itself.",
            )
    return None


def _and_the_end(paid: Paid) -> str:
    """Return what is known of the final reward: no correlation, or always one value."""
    known = paid.last_reward[~np.isnan(paid.last_reward)]
    if len(known) and not np.ptp(known):
        return f"and the final reward is always {known[0]:.3g}. A reward for staying alive can look the same."
    return "and not with the final reward."


def _scaling(paid: Paid) -> Finding | None:
    """Find steps that outweigh the end of episodes that end well, with half of the best final reward or more.

    Their payments are more than half of what the episode pays, or one of them is more than half of the end.
    Differences of a potential add up to the same on any way, and outweigh nothing. Costs are no payments. Where the
    last payment is of the kind of the others, no end is paid apart.
    """
    known = paid.finished & ~np.isnan(paid.last_reward)
    best = _best(paid)
    well = known & (paid.last_reward * 2 >= best)
    n = int(well.sum())
    if int(known.sum()) < MIN_EPISODES or not best or n < _FEW_PAYMENTS:
        return None
    payments = np.where(paid.pays_midway, paid.reward, 0.0)
    on_the_way = np.bincount(paid.episode, weights=payments, minlength=paid.n)
    has_steps = np.diff(paid.starts) > 0
    largest = np.zeros(paid.n)
    largest[has_steps] = np.maximum.reduceat(payments, paid.starts[:-1][has_steps])
    outweighs = well & ((on_the_way > paid.last_reward) | (largest * 2 > paid.last_reward))
    hits = int(outweighs.sum())
    if hits < OUTWEIGH_SHARE * n or is_potential(paid) or hacks.ends_like_steps(paid):
        return None
    middle = [float(np.median(values[outweighs])) for values in (on_the_way, largest, paid.last_reward)]
    return finding_of(
        paid,
        kind="scaling",
        certainty=bootstrap_share(hits, n, OUTWEIGH_SHARE),
        text=f"In {hits} of {n} successful episodes the steps pay more than the end. In the median one the steps pay "
        f"{middle[0]:.3g}, the largest of them {middle[1]:.3g}, and the end {middle[2]:.3g}.",
        steps=np.flatnonzero((payments != 0) & outweighs[paid.episode]),
        advice="Keep the final reward well above all that can be had on the way.",
    )


def _ambiguity(paid: Paid) -> Finding | None:
    """Find one final reward for outcomes that metadata, a member of it, or a part of the reward distinguishes.

    Outcomes differ where equal metadata (or an equal part) goes with one final reward throughout, so that it
    speaks of the outcome; it is ambiguous where several such outcomes share their reward.
    """
    ended = paid.finished & ~np.isnan(paid.last_reward)
    if int(ended.sum()) < MIN_EPISODES:
        return None
    meta = np.full(paid.n, UNKNOWN)
    meta[ended] = paid.meta[paid.last[ended]]
    worst: tuple[int, str, Ints] | None = None
    sources = [
        ("metadata", meta),
        *(("a member of the metadata", code) for code in paid.members.values() if code.max() < MOST_OUTCOMES),
        *((f"the part {name}", _codes(values)) for name, values in paid.parts.items()),
    ]
    for name, code in sources:
        alike = _same_reward(paid.last_reward, np.where(ended, code, UNKNOWN))
        if len(alike) and (worst is None or len(alike) > worst[0]):
            worst = len(alike), name, alike
    n = int(ended.sum())
    if worst is None or worst[0] < ALIKE_SHARE * n:
        return None
    return finding_of(
        paid,
        kind="ambiguity",
        certainty=bootstrap_share(worst[0], n, ALIKE_SHARE),
        text=f"{worst[0]} of {n} episodes ended with another outcome's reward; {worst[1]} distinguishes the two.",
        steps=paid.last[worst[2]],
        advice="Pay outcomes that differ differently: graduated rewards distinguish partial success from failure.",
    )


def _codes(values: Floats) -> Ints:
    known = ~np.isnan(values)
    codes = np.full(len(values), UNKNOWN)
    codes[known] = np.unique(values[known], return_inverse=True)[1]
    return codes


def _same_reward(last_reward: Floats, code: Ints) -> Ints:
    """Return the episodes whose outcome shares its final reward with a commoner one."""
    known = np.flatnonzero(code != UNKNOWN)
    if len(known) < MIN_EPISODES:
        return known[:0]
    _, outcome, often = np.unique(code[known], return_inverse=True, return_counts=True)
    common = often[outcome] >= _FEW_PAYMENTS
    if int(common.sum()) * 2 < len(known):
        return known[:0]
    known, outcome = known[common], outcome[common]
    values, reward = np.unique(last_reward[known], return_inverse=True)
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
    """Find payments on different scales, of two tools or of two times."""
    return _tools_apart(paid) or _changed(paid)


def _tools_apart(paid: Paid) -> Finding | None:
    """Find tools of which one pays ten times another, both midway or both at the end.

    Tools of 1 and 0.2 are no finding: both pay from 0 to 1, and a smaller task may pay less.
    """
    for mask in (paid.is_last & (paid.reward > 0), paid.pays_midway):
        pays = np.flatnonzero(mask)
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
        return finding_of(
            paid,
            kind="inconsistent",
            certainty=bootstrap_share(len(apart), len(of_high), 0.5),
            text=f"{names[0]} pays {typical.max():.3g} where {names[1]} pays {typical.min():.3g}.",
            steps=both,
            advice="Have all tools pay on one scale, best from 0 to 1.",
        )
    return None


def _changed(paid: Paid) -> Finding | None:
    """Find the time since which final rewards are on another scale: their middle and their largest.

    A. N. Pettitt, *Appl. Stat.* 28, 1979, 126 (doi:10.2307/2346729): a change point by ranks.
    """
    episodes = np.flatnonzero(np.nan_to_num(paid.last_reward))
    size = np.abs(paid.last_reward[episodes])
    n = len(size)
    if n < MIN_EPISODES or size.max() < CHANGED * size.min():
        return None
    order = np.argsort(paid.rank[episodes], kind="stable")
    episodes, size = episodes[order], size[order]
    apart = np.abs(2 * np.cumsum(scipy.stats.rankdata(size)) - np.arange(1, n + 1) * (n + 1))
    first = int(apart.argmax()) + 1
    chance = 2 * math.exp(-6 * float(apart.max()) ** 2 / (n**3 + n**2))
    before, after = size[:first], size[first:]
    if chance >= CHANGE_CHANCE or min(len(before), len(after)) < _FEW_OF_A_KIND:
        return None
    middle = [float(np.median(part)) for part in (before, after)]
    by_middle, by_largest = math.log(middle[1] / middle[0]), math.log(after.max() / before.max())
    if by_middle * by_largest < 0 or min(abs(by_middle), abs(by_largest)) < math.log(CHANGED):
        return None
    since = iso(int(paid.at_ms[episodes[first]])) if paid.at_ms[episodes[first]] != UNKNOWN else None
    is_graded = len(np.unique(before)) > 2 and len(np.unique(after)) > 2
    better = " It can't be distinguished from an agent that became much better." if is_graded else ""
    return finding_of(
        paid,
        kind="inconsistent",
        certainty=1 - chance,
        text=f"The middle final reward was {middle[0]:.3g} before {paid.uids[episodes[first]]}"
        f"{f' ({since})' if since else ''}, and is {middle[1]:.3g} from then on: another scale.{better}",
        steps=paid.last[episodes[max(first - MOST_STEPS // 2, 0) : first + MOST_STEPS // 2]],
        advice="Declare one scale and pay on it throughout, or give the changed environment a name of its own.",
    )


def _named(tool: str) -> str:
    return tool if tool else "A step without a tool"


def _proxy(paid: Paid) -> Finding | None:
    """Find a final payment that goes with the length of the answer, among successes and among failures.

    Only where length decides alone it is a proxy. Where it does not, longer answers may be better: the payments look
    the same. A payment of two values is a report of success, and is looked at only if length all but decides it.

    D. G. Bonett and T. A. Wright, *Psychometrika* 65, 2000, 23 (doi:10.1007/BF02294183): the error of a rank
    correlation; F. Wilcoxon, *Biometrics Bull.* 1, 1945, 80 (doi:10.2307/3001968): that of the rank-biserial one.
    """
    known = paid.finished & ~np.isnan(paid.last_reward)
    length = np.full(paid.n, UNKNOWN)
    length[known] = paid.n_chars[paid.last[known]]
    known &= length != UNKNOWN
    if int(known.sum()) < MIN_EPISODES:
        return None
    reward, chars = paid.last_reward[known], length[known].astype(np.float64)
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
    decides = _by_rank(reward, chars if correlation > 0 else -chars) >= DECIDES
    longer = "longer" if correlation > 0 else "shorter"
    doubt = "" if decides else f" It can't be distinguished from {longer} answers that are better."
    return finding_of(
        paid,
        kind="proxy" if decides else "length",
        certainty=float(scipy.special.ndtr((size - math.atanh(needed)) / error)),
        text="The final reward goes with the length of what was sent, among successes and failures. The rank "
        f"correlation is {correlation:.2f} ({PROB:.0%} interval {ends[0]:.2f} to {ends[1]:.2f}).{doubt}",
        steps=paid.last[np.flatnonzero(known)[order]],
        advice="Pay for the answer being right; how long it is should not matter."
        if decides
        else "Judge some long and some short answers by hand: only that shows what is paid for.",
    )


def _by_rank(reward: Floats, chars: Floats) -> float:
    """Return the share of payments that are, to a hundredth of their range, those of the same rank by length."""
    by_length = reward[np.lexsort((reward, chars))]
    return float((np.abs(by_length - np.sort(reward)) <= 0.01 * np.ptp(reward)).mean())


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


def _constant(paid: Paid) -> Finding | None:
    """Find one payment above 0 at the end of nearly every episode."""
    ended = np.flatnonzero(paid.finished & ~np.isnan(paid.last_reward))
    n, best = len(ended), _best(paid)
    same = ended[paid.last_reward[ended] == best]
    if n < MIN_EPISODES or not best or len(same) < CONSTANT * n or hacks.ends_like_steps(paid):
        return None
    return finding_of(
        paid,
        kind="constant",
        certainty=bootstrap_share(len(same), n, CONSTANT),
        text=f"In {len(same)} of {n} episodes the final reward is the highest, {best:.3g}. It can't be distinguished "
        "from tasks that nearly every attempt solves.",
        steps=paid.last[same],
        advice="Check that a poor answer is paid less, or add harder tasks: equal payments teach nothing.",
    )


def _unrelated(paid: Paid) -> Finding | None:
    """Find payments on the way that lead nowhere, where no one action is paid again and again."""
    return None if _hacking(paid) is not None else hacks.unrelated(paid)


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
    return finding_of(
        paid,
        kind="out_of_scale",
        certainty=1.0,
        text=" ".join(texts),
        steps=shows,
        advice="Declare the scale on which it pays, or have it pay from 0 to 1.",
    )


def _paid_after_finished(paid: Paid) -> Finding | None:
    """Find payments after the end: they add nothing here, and could be repeated elsewhere."""
    after = np.flatnonzero(paid.refused & (paid.reward != 0) & ~np.isnan(paid.reward))
    if not len(after):
        return None
    n = len(np.unique(paid.episode[after]))
    return finding_of(
        paid,
        kind="paid_after_finished",
        certainty=1.0,
        text=f"{len(after)} payments came after the end, in {n} of {paid.n} episodes; none was counted.",
        steps=after,
        advice="Answer nothing more once an episode has finished, and pay for its end once.",
    )


FINDINGS: Final[tuple[Callable[[Paid], Finding | None], ...]] = (
    _late,
    _hacking,
    _scaling,
    _ambiguity,
    _inconsistent,
    _proxy,
    _constant,
    hacks.per_step,
    _unrelated,
    hacks.decided_by_tool,
    hacks.narrow,
    hacks.gives_up,
    hacks.retried,
    _out_of_scale,
    _paid_after_finished,
)
