"""Hacks by kind: pay for staying alive or for nothing, a tool that decides, early ends, retries, grades alike.

Rewards alone seldom show what an author meant. Where an honest environment looks the same, the text says so.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import scipy

from core.columns import UNKNOWN, Floats, Ints
from core.maths.statistics.rewards.paid import Paid, bootstrap_share, finding_of, ranked
from core.records.episode import Finding

MIN_EPISODES: Final = 10
ALIKE: Final = 0.1
"""Payments are alike within this share of the middle one."""
NEARLY_ALL: Final = 0.95
MOSTLY: Final = 0.9
SPREAD: Final = 0.05
"""Share of the best final reward within which a grader's rewards have no spread."""
PAID_SHARE: Final = 0.125
"""Share of episodes that end above the lowest payment; with fewer, payments on the way lead nowhere."""
RETRIES: Final = 3
EARLY_SHARE: Final = 0.5
_LIKE_STEPS: Final = 0.35
"""Largest distance of two distributions (Kolmogorov, Smirnov) of payments of one kind."""
_BEYOND: Final = 2.33
_MANY_VALUES: Final = 0.2
_SURE: Final = 0.01
_FEW: Final = 5
_SOME: Final = 3


def ends_like_steps(paid: Paid) -> bool:
    """Return whether the last payment is one more of the kind of the others, and no reward for the end.

    Both have one distribution, and the last is no more often the largest or smallest of its episode than any other.
    Or the last has many values, and none beyond the others: progress that a limit cuts short.
    """
    known = paid.is_midway & ~np.isnan(paid.reward)
    n_steps = paid.counted(known)
    ended = paid.finished & ~np.isnan(paid.last_reward) & (n_steps > 0)
    midway = paid.reward[known & ended[paid.episode]]
    if int(ended.sum()) < MIN_EPISODES or not midway.any():
        return False
    last = paid.last_reward[ended]
    many = len(np.unique(last)) >= max(_FEW, _MANY_VALUES * len(last))
    if many and midway.min() <= last.min() and last.max() <= midway.max():
        return True
    if scipy.stats.ks_2samp(midway, last, method="asymp").statistic > _LIKE_STEPS:
        return False
    least, most = np.full(paid.n, np.inf), np.full(paid.n, -np.inf)
    np.minimum.at(least, paid.episode[known], paid.reward[known])
    np.maximum.at(most, paid.episode[known], paid.reward[known])
    outside = (last > most[ended]) | (last < least[ended])
    expected = 2 / (n_steps[ended] + 1)
    error = np.sqrt((expected * (1 - expected)).sum())
    return bool(outside.sum() - expected.sum() <= _BEYOND * max(float(error), 1.0))


def per_step(paid: Paid) -> Finding | None:
    """Find one payment for each step, the last included: it pays for length."""
    counts = ~paid.refused & ~np.isnan(paid.reward)
    n_steps = paid.counted(counts)
    payments = paid.reward[counts]
    if paid.n < MIN_EPISODES or not len(payments) or float(np.median(n_steps)) <= _SOME:
        return None
    typical = float(np.median(payments))
    n_alike = int((np.abs(payments - typical) <= ALIKE * typical).sum())
    if (
        typical <= 0
        or n_alike < NEARLY_ALL * len(payments)
        or not np.ptp(n_steps)
        or not ends_like_steps(paid)
    ):
        return None
    return finding_of(
        paid,
        kind="per_step",
        certainty=bootstrap_share(n_alike, len(payments), NEARLY_ALL),
        text=f"Each step pays {typical:.3g}, the last like the others, so an episode earns its length "
        f"({n_steps.min()} to {n_steps.max()} steps). Rewards alone can't distinguish a reward for staying alive "
        "from a hack.",
        steps=np.flatnonzero(counts),
        advice="If length is not the goal, pay for what a step brings, and for the end.",
    )


def seldom_above(ends: Floats, n: int) -> tuple[int, float]:
    """Return how many of ``n`` episodes end above the lowest payment, and the chance that `PAID_SHARE` do not."""
    above = int((ends > min(0.0, float(ends.min(initial=0.0)))).sum())
    return above, float(scipy.special.betainc(above + 0.5, n - above + 0.5, PAID_SHARE))


def unrelated(paid: Paid) -> Finding | None:
    """Find payments on the way in episodes that fail at any payment."""
    ended = paid.finished & ~np.isnan(paid.last_reward)
    n = int(ended.sum())
    if n < MIN_EPISODES:
        return None
    above, rare = seldom_above(paid.last_reward[ended], n)
    earned = paid.added(paid.pays_midway, paid.reward)
    pays = ended & (earned > 0)
    hits = int(pays.sum())
    if rare < EARLY_SHARE or hits < MOSTLY * n:
        return None
    n_steps = paid.n_midway[pays].astype(np.float64)
    if ranked(earned[pays], n_steps) < EARLY_SHARE:
        return None
    return finding_of(
        paid,
        kind="unrelated",
        certainty=rare * bootstrap_share(hits, n, MOSTLY),
        text=f"In {hits} of {n} episodes steps are paid, and {above} end above the lowest payment. What is paid on "
        "the way rises with the number of steps. It can't be distinguished from tasks that are too hard so far.",
        steps=np.flatnonzero(paid.pays_midway & pays[paid.episode]),
        advice="Read an episode: a payment should mean that success came nearer.",
    )


def decided_by_tool(paid: Paid) -> Finding | None:
    """Find a tool that comes up one day and since then separates success from failure (Fisher's exact test)."""
    ended = np.flatnonzero(paid.finished & ~np.isnan(paid.last_reward))
    ended = ended[np.argsort(paid.rank[ended], kind="stable")]
    best = float(paid.last_reward[ended].max(initial=0.0))
    if len(ended) < MIN_EPISODES or best <= 0:
        return None
    well = paid.last_reward[ended] >= MOSTLY * best
    for tool in range(len(paid.tools)):
        used = paid.counted(paid.tool == tool)[ended] > 0
        first = int(used.argmax())
        since = np.arange(len(ended)) >= first
        with_it, without = well[used], well[~used]
        if min(first, int(used.sum()), len(without)) < _FEW or with_it.mean() < NEARLY_ALL:
            continue
        table = np.array([[one.sum(), (~one).sum()] for one in (with_it, without)])
        chance = float(scipy.stats.fisher_exact(table)[1])
        if chance > _SURE or used[since & well].mean() < NEARLY_ALL:
            continue
        calls = np.flatnonzero(paid.tool == tool)
        called, won = f"{int(with_it.sum())} of {len(with_it)}", f"{int(without.sum())} of {len(without)}"
        return finding_of(
            paid,
            kind="decided_by_tool",
            certainty=1 - chance,
            text=f"From {paid.uids[ended[first]]} on, successes call {paid.tools[tool] or 'a step without a tool'}: "
            f"{called} episodes that call it succeed, {won} others do. It can't be distinguished from a tool that "
            "solves the tasks.",
            steps=calls[np.isin(paid.episode[calls], ended[used])],
            advice="Read an episode that calls it: does it solve the task, or change what is checked?",
        )
    return None


def narrow(paid: Paid) -> Finding | None:
    """Find graded final rewards that hardly differ, not even by the number of steps."""
    ended = np.flatnonzero(paid.finished & ~np.isnan(paid.last_reward))
    rewards = paid.last_reward[ended]
    best = float(rewards.max(initial=0.0))
    if len(ended) < MIN_EPISODES or best <= 0 or len(np.unique(rewards)) < _SOME or ends_like_steps(paid):
        return None
    if (rewards == best).mean() > EARLY_SHARE:
        return None
    low, high = np.quantile(rewards, (0.025, 0.975))
    if high - low > SPREAD * best or abs(ranked(rewards, paid.n_midway[ended].astype(np.float64))) > MOSTLY:
        return None
    inside = int(((rewards >= low) & (rewards <= high)).sum())
    return finding_of(
        paid,
        kind="narrow",
        certainty=bootstrap_share(inside, len(ended), MOSTLY),
        text=f"{inside} of {len(ended)} final rewards lie between {low:.3g} and {high:.3g}. It can't be "
        "distinguished from tasks that nearly every attempt solves as well.",
        steps=paid.last[ended],
        advice="Grade some poor answers: if they are paid as much, the grader sees no difference.",
    )


def gives_up(paid: Paid) -> Finding | None:
    """Find episodes that end at the first cost, where others pay costs on the way to a goal."""
    costs = paid.reward < 0
    n_steps, n_costs = paid.counted(~paid.refused), paid.counted(costs & ~paid.refused)
    earned = paid.added(~paid.refused & (paid.reward > 0), paid.reward)
    ends_in_cost = np.nan_to_num(paid.last_reward) < 0
    early = paid.finished & (earned == 0) & ((n_steps == 1) | ((n_costs == 1) & ends_in_cost))
    others = paid.finished & (paid.counted(costs & paid.is_midway) >= 2)
    n, hits = int(paid.finished.sum()), int(early.sum())
    if (
        n < MIN_EPISODES
        or hits < EARLY_SHARE * n
        or int(others.sum()) < _SOME
        or not (earned[others] > 0).any()
    ):
        return None
    cost = -float(np.median(paid.added(costs & paid.is_midway, paid.reward)[others]))
    return finding_of(
        paid,
        kind="gives_up",
        certainty=bootstrap_share(hits, n, EARLY_SHARE),
        text=f"{hits} of {n} episodes end at the first step or the first cost. The others pay costs of {cost:.3g} on "
        f"the way, for {float(np.median(earned[others])):.3g}.",
        steps=paid.last[early],
        advice="Make an early end cost as much as going on, or the way cheaper than the goal is paid.",
    )


def retried(paid: Paid) -> Finding | None:
    """Find a final call that is repeated, unpaid, until it is paid in full."""
    ended = paid.finished & ~np.isnan(paid.last_reward)
    n, best = int(ended.sum()), float(np.nan_to_num(paid.last_reward).max(initial=0.0))
    if n < MIN_EPISODES or best <= 0:
        return None
    repeats = _repeats(paid)
    again = ended & (paid.last_reward == best) & (repeats >= RETRIES)
    hits = int(again.sum())
    if hits < MOSTLY * n:
        return None
    return finding_of(
        paid,
        kind="retried",
        certainty=bootstrap_share(hits, n, MOSTLY),
        text=f"In {hits} of {n} episodes the last call is repeated unpaid until it pays {best:.3g}, "
        f"{int(np.median(repeats[again])) + 1} calls in the median one. It can't be distinguished from a task that "
        "takes several calls.",
        steps=paid.last[again],
        advice="Count the first answer, or pay less for each further one.",
    )


def _repeats(paid: Paid) -> Ints:
    """Return how many unpaid calls of the last tool come right before each episode's end."""
    result = np.zeros(paid.n, dtype=np.int64)
    unpaid = np.nan_to_num(paid.reward) == 0
    for episode in np.flatnonzero(paid.finished & (paid.last != UNKNOWN)).tolist():
        last, start = int(paid.last[episode]), int(paid.starts[episode])
        alike = (paid.tool[start:last] == paid.tool[last]) & unpaid[start:last]
        result[episode] = int(np.minimum.accumulate(alike[::-1]).sum()) if len(alike) else 0
    return result
