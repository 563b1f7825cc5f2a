"""Runs by day of each channel, model, source and importer → which of them stopped, against today's clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from core.columns import FeedDays, Floats, Ints
from core.records.times import DAY_MS

FeedKind = Literal["channel", "model", "source", "importer"]

HISTORY_DAYS: Final = 56
"""Days up to a feed's last one that say how many runs are expected on each day of the week."""

LONGEST_DAYS: Final = 60
"""A silence that is longer is known, or the feed was given up."""

FALSE_ALARM: Final = 0.001
"""At most this often is a feed that goes on as before named at one look, all feeds together."""

_WEEK: Final = 7
_LEAST_DAYS: Final = 3
_LEAST_SPAN: Final = 14
_LEAST_ACTIVE: Final = 5
_MOVED: Final = 0.5
_N_DAYS: Final = HISTORY_DAYS + LONGEST_DAYS


@dataclass(frozen=True, kw_only=True)
class SilentFeed:
    """A channel, model, source or importer without a run for ``days`` whole days, when ``expected`` were due."""

    kind: FeedKind
    name: str
    days: int
    expected: float
    since_ms: int


def silent_feeds(feeds: FeedDays, now_ms: int) -> tuple[SilentFeed, ...]:
    """Return the feeds that stopped while others went on, the longest silent first.

    A feed is silent where none of its runs came for three whole days, for twice its longest pause of the last eight
    weeks, and so few would come in at most one look in a thousand: counts of a day of the week are negative
    binomial, with the dispersion of the feed's own days. A model whose runs another one took over is not silent.
    ``now_ms`` is the time now.

    C. I. Bliss and R. A. Fisher, *Biometrics* 9, 1953, 176-200: the negative binomial by moments.
    """
    today = now_ms // DAY_MS
    rows: dict[tuple[FeedKind, str], list[int]] = {}
    for index, key in enumerate(zip(feeds.kind, feeds.name, strict=True)):
        rows.setdefault(key, []).append(index)
    names = sorted(rows)
    counts = {key: _counts(feeds, rows[key], today) for key in names}
    whole = sum((counts[key] for key in names if key[0] == "channel"), np.zeros(_N_DAYS, dtype=np.int64))
    found = [_silent(key, counts[key], whole, today, len(names)) for key in names if key[1]]
    silent = [feed for feed in found if feed is not None]
    return tuple(sorted(silent, key=lambda one: (-one.days, one.kind, one.name)))


def stopped_together(feeds: Iterable[SilentFeed]) -> list[tuple[SilentFeed, ...]]:
    """Return the feeds in groups that stopped within a day of one another, in their order."""
    groups: list[list[SilentFeed]] = []
    for feed in feeds:
        if groups and groups[-1][0].days - feed.days <= 1:
            groups[-1].append(feed)
        else:
            groups.append([feed])
    return [tuple(group) for group in groups]


def _counts(feeds: FeedDays, mine: list[int], today: int) -> Ints:
    """Return the runs of each of the last days; the last entry is yesterday's, and has those of today."""
    counts = np.zeros(_N_DAYS, dtype=np.int64)
    ago = np.maximum(today - feeds.day[mine], 1)
    recent = ago <= _N_DAYS
    np.add.at(counts, _N_DAYS - ago[recent], feeds.n[mine][recent])
    return counts


def _silent(key: tuple[FeedKind, str], n: Ints, whole: Ints, today: int, n_feeds: int) -> SilentFeed | None:
    active = np.flatnonzero(n)
    if not len(active):
        return None
    last = int(active[-1])
    days = len(n) - 1 - last
    recent = active[active > last - HISTORY_DAYS]
    pause = int(np.diff(recent).max(initial=1))
    is_known = len(recent) >= _LEAST_ACTIVE and last - recent[0] >= _LEAST_SPAN
    if not is_known or not max(_LEAST_DAYS, 2 * pause) <= days <= LONGEST_DAYS:
        return None
    beside = whole - n if key[0] in {"channel", "model"} else whole
    if 2 * np.count_nonzero(beside[last + 1 :]) < days:
        return None
    mean, inverse_size = _by_weekday(n[recent[0] : last + 1])
    due = mean[(np.arange(last + 1, len(n)) - recent[0]) % _WEEK]
    log_none = -due.sum() if inverse_size == 0 else -np.log1p(inverse_size * due).sum() / inverse_size
    if log_none > np.log(FALSE_ALARM / n_feeds) or (key[0] == "model" and _was_moved(n, beside, last, due)):
        return None
    return SilentFeed(
        kind=key[0], name=key[1], days=days, expected=float(due.sum()), since_ms=(today - days) * DAY_MS
    )


def _by_weekday(n: Ints) -> tuple[Floats, float]:
    """Return the mean count of each day of the week, from the first day on, and the inverse size of all days."""
    week = np.arange(len(n)) % _WEEK
    mean = np.bincount(week, n, _WEEK) / np.maximum(np.bincount(week, minlength=_WEEK), 1)
    due = mean[week]
    squares = float((due**2).sum())
    return mean, max(float(((n - due) ** 2 - due).sum()) / squares, 0.0) if squares else 0.0


def _was_moved(n: Ints, beside: Ints, last: int, due: Floats) -> bool:
    """Return whether the other models have more runs since, by half of what is missing or more."""
    first = max(last + 1 - HISTORY_DAYS, 0)
    mean, _ = _by_weekday(beside[first : last + 1])
    usual = mean[(np.arange(last + 1, len(n)) - first) % _WEEK].sum()
    return bool(beside[last + 1 :].sum() - usual >= _MOVED * due.sum())
