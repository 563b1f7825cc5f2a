"""Episodes: results as arrays, steps of some of them, and a page of them.

Episodes are ordered by time, those without one last, ties by number. Pages start at a cursor, an episode's position
in that order, never at a count of rows. Every environment has an index in that order: a page of all is merged from
theirs.
"""

from __future__ import annotations

import difflib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import chain, islice, repeat
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from core.columns import UNKNOWN, EpisodeColumns, Floats, Ints, StepColumns, coded, coded_metadata, ints
from core.maths.episodes import running
from core.records.episode import Scale
from core.records.episode_page import (
    EpisodeCursor,
    EpisodeFilter,
    EpisodeOutcome,
    EpisodePage,
    EpisodeRow,
)
from core.records.run_page import Direction
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, EPISODES_BY_TIME
from core.store.environments import BROKEN, declared_scales
from core.store.reads.log import Position, mark_of
from core.store.transaction import Facts, Snapshot

LINE_STEPS: Final = 500
"""Steps of an episode beyond which a list shows no line of it."""

_EVER: Final = 1 << 60
Fits = tuple[str, list[Any]]
"""SQL conditions of a filter, with their values."""
_COLUMNS: Final = (
    "SELECT environment_no, split, task, variant, model, coalesce(at_ms, -1), finished, total, final FROM episode"
    f" WHERE learner_id = ? AND {ACTIVE}"
)
_ROW: Final = "at_ms, episode_no, uid, task, model, split, status, n_steps, total, final, finished"
_STEP: Final = (
    "episode_no, step_no, reward, finished, refused, name, args_digest, meta_digest, coalesce(n_chars_in, -1)"
    " FROM step"
)


def environment_names(facts: Facts) -> dict[int, str]:
    """Return known environments, by number."""
    return dict(facts.rows("SELECT environment_no, name FROM environment WHERE learner_id = ?"))


def near_environments(facts: Facts, name: str, limit: int = 3) -> list[str]:
    """Environments that a mistyped name may have meant."""
    names = sorted(environment_names(facts).values())
    last = name.rsplit("/", 1)[-1].lower()
    named = [known for known in names if known.rsplit("/", 1)[-1].lower() == last]
    by_last = {known.rsplit("/", 1)[-1].lower(): known for known in names}
    close = [by_last[one] for one in difflib.get_close_matches(last, by_last, n=limit, cutoff=0.6)]
    return list(dict.fromkeys([*named, *close]))[:limit]


def episode_columns(snapshot: Snapshot, environment_no: int | None = None) -> EpisodeColumns:
    """Return the results of active episodes, of one environment or of all."""
    of_one = "" if environment_no is None else " AND environment_no = ?"
    values = [snapshot.learner_id, *([] if environment_no is None else [environment_no])]
    columns, named = snapshot.together(
        lambda: snapshot.connection.columns(_COLUMNS + of_one, values), lambda: environment_names(snapshot)
    )
    numbers, splits, tasks, variants, models, times, finished, total, final = columns
    environment, known = coded(numbers)
    split, model = coded(splits), coded(models)
    task, task_names = _tasks(tasks, environment, split[0], coded(variants)[0])
    return EpisodeColumns(
        environment=environment,
        split=split[0],
        task=task,
        model=model[0],
        at_ms=ints(times),
        finished=np.array(finished, dtype=np.bool_),
        broken=ints(finished) == BROKEN,
        total=np.array(total, dtype=np.float64),  # None is NaN
        final=np.array(final, dtype=np.float64),
        environments=tuple(named[number] for number in known),
        splits=split[1],
        tasks=task_names,
        models=model[1],
    )


def alike_columns(
    snapshot: Snapshot, named: Mapping[int, str], environment_no: int | None = None
) -> EpisodeColumns:
    """Return episodes without times, equal ones read as one row; ``named`` are all environments by number."""
    of_one = "" if environment_no is None else " AND environment_no = ?"
    values = [snapshot.learner_id, *([] if environment_no is None else [environment_no])]
    numbers, splits, tasks, variants, models, finished, totals, finals, counts = snapshot.connection.columns(
        "SELECT environment_no, split, task, variant, model, finished, total_text, final_text, n"
        f" FROM environment_task WHERE learner_id = ?{of_one}",
        values,
    )
    n = ints(counts)
    known, environment = np.unique(ints(numbers), return_inverse=True)
    split, model = coded(splits), coded(models)
    task, task_names = _tasks(tasks, environment, split[0], coded(variants)[0])
    return EpisodeColumns(
        environment=np.repeat(environment, n),
        split=np.repeat(split[0], n),
        task=np.repeat(task, n),
        model=np.repeat(model[0], n),
        at_ms=np.full(int(n.sum()), UNKNOWN),
        finished=np.repeat(np.array(finished, dtype=np.bool_), n),
        broken=np.repeat(ints(finished) == BROKEN, n),
        total=np.repeat(_floats(totals), n),
        final=np.repeat(_floats(finals), n),
        environments=tuple(named[number] for number in known.tolist()),
        splits=split[1],
        tasks=task_names,
        models=model[1],
    )


def _floats(texts: Sequence[str | None]) -> Floats:
    """Return the numbers nearest to decimals; NaN where there is none."""
    code, known = coded(texts)
    return np.array([*map(float, known), np.nan])[code]  # unknown is -1: the last


def _tasks(names: Sequence[str | None], *within: Ints) -> tuple[Ints, tuple[str, ...]]:
    """Return a number for each task (a name within environment, split and variant), and each number's name."""
    name, known = coded(names)
    order = name.copy()
    for of in within:
        order = order * (of.max(initial=UNKNOWN) + 2) + of + 1
    is_known = name != UNKNOWN
    _, first, task = np.unique(order[is_known], return_index=True, return_inverse=True)
    numbers = np.full(len(name), UNKNOWN)
    numbers[is_known] = task
    return numbers, tuple(known[order] for order in name[is_known][first].tolist())


def step_columns(snapshot: Snapshot, episode_nos: Sequence[int]) -> StepColumns:
    """The steps of some episodes, and the parts of what they were paid."""
    places = {number: index for index, number in enumerate(episode_nos)}
    rows, parts = snapshot.together(
        lambda: snapshot.rows_in(
            f"SELECT {_STEP} WHERE learner_id = ? AND episode_no IN ({{}})", episode_nos
        ),
        lambda: _parts(snapshot, places),
    )
    turned: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * 9
    numbers, step_no, reward, finished, refused, names, arguments, meta, n_chars = turned
    tool, tools = coded(names)
    digests_of = (None if one is None else (name, one) for name, one in zip(names, arguments, strict=True))
    ended = (
        places[number] if is_end and not out else UNKNOWN
        for number, is_end, out in zip(numbers, finished, refused, strict=True)
    )
    whole, members = coded_metadata(meta, ended, len(episode_nos))
    episode, number = ints([places[number] for number in numbers]), ints(step_no)
    order = np.lexsort((number, episode))
    return StepColumns(
        episode=episode[order],
        number=number[order],
        reward=np.array(reward, dtype=np.float64)[order],
        finished=np.array(finished, dtype=np.bool_)[order],
        refused=np.array(refused, dtype=np.bool_)[order],
        tool=tool[order],
        tools=tools,
        action=coded(digests_of)[0][order],
        meta=whole[order],
        n_chars=ints(n_chars)[order],
        parts=parts,
        members=members,
    )


def _parts(snapshot: Snapshot, places: Mapping[int, int]) -> dict[str, Floats]:
    parts: dict[str, Floats] = {}
    for number, name, value in snapshot.rows_in(
        "SELECT episode_no, name, value FROM episode_part WHERE learner_id = ? AND episode_no IN ({})",
        list(places),
    ):
        parts.setdefault(name, np.full(len(places), np.nan))[places[number]] = value
    return parts


class Newest(NamedTuple):
    """An episode to look into; ``at_ms`` is -1 where unknown, ``total`` and ``final`` NaN where none was paid."""

    number: int
    uid: str
    at_ms: int
    finished: bool
    total: float
    final: float


def is_paid_again(snapshot: Snapshot, episode_nos: Sequence[int], *, often: int, tolerance: float) -> bool:
    """Return whether an episode pays one action, or each call of a tool alike, so often; the database counts."""
    alike = f"max(reward) * {1 - tolerance} <= min(reward) * {1 + tolerance}"
    for action, paid in (("name, args_digest", ""), ("name", f" AND {alike}")):
        rows = snapshot.rows_in(
            "SELECT 1 FROM step WHERE learner_id = ? AND reward > 0 AND refused = 0 AND finished = 0"
            f" AND episode_no IN ({{}}) GROUP BY episode_no, {action} HAVING count(*) >= {often}{paid} LIMIT 1",
            episode_nos,
        )
        if any(rows):
            return True
    return False


def newest_episodes(snapshot: Snapshot, environment_no: int, *, most: int, most_steps: int) -> list[Newest]:
    """Return the newest episodes that did not break: at most so many, with so many steps, and one in any case."""
    fits: Fits = (" AND finished < ?", [BROKEN])
    newest: list[Newest] = []
    left = most_steps
    for row in islice(_stream(snapshot, environment_no, fits, None, "older"), most):
        at_ms, number, uid, *_, n_steps, total, final, finished = row
        left -= n_steps
        if left < 0 and newest:
            break
        paid = [math.nan if one is None else one for one in (total, final)]
        newest.append(Newest(number, uid, UNKNOWN if at_ms is None else at_ms, bool(finished), *paid))
    return newest


def episode_page(
    snapshot: Snapshot,
    episode_filter: EpisodeFilter,
    *,
    cursor: EpisodeCursor | None = None,
    direction: Direction = "older",
    limit: int = 50,
) -> EpisodePage:
    """Return active matching episodes beyond ``cursor`` in a direction; without one the newest (or oldest).

    Rows are newest first in either direction.
    """
    named = {
        number: name
        for number, name in environment_names(snapshot).items()
        if episode_filter.environment in {None, name}
    }
    declared = declared_scales(snapshot)
    rows_of = snapshot.together(
        *[
            partial(
                _stream,
                snapshot,
                number,
                _fits(episode_filter, declared.get(number, Scale())),
                cursor,
                direction,
            )
            for number in named
        ]
    )
    streams = [zip(stream, repeat(number)) for stream, number in zip(rows_of, named, strict=True)]
    matches = list(islice(merge(*streams, key=lambda one: _order(one[0], direction)), limit + 1))
    is_more = len(matches) > limit
    rows = matches[:limit] if direction == "older" else matches[:limit][::-1]
    lines = _lines(snapshot, [row[1] for row, _ in rows if row[7] <= LINE_STEPS])
    shown = tuple(_row(row, named[number], declared.get(number), lines) for row, number in rows)
    last = matches[limit - 1][0] if is_more else None
    return EpisodePage(rows=shown, onward=None if last is None else EpisodeCursor(last[0], last[1]))


def changed_episodes(
    snapshot: Snapshot, episode_filter: EpisodeFilter, after: Position, *, limit: int
) -> tuple[EpisodeRow, ...]:
    """Return the episodes that changed after a position, in the order of their changes.

    The caller has refused a filter by outcome, and an unknown environment. Of the episodes that were listed once,
    undone ones and those that no longer pass the filter are returned, too.
    """
    names, declared = environment_names(snapshot), declared_scales(snapshot)
    fits, values = _fits(episode_filter, Scale())
    if episode_filter.environment is not None:
        within = [number for number, name in names.items() if name == episode_filter.environment]
        fits, values = f"{fits} AND environment_no = ?", [*values, *within]
    fits = f"{ACTIVE}{fits}"
    rows = snapshot.rows(
        f"SELECT {_ROW}, environment_no, changed, standing,"
        f" CASE WHEN learner_id = ?1 AND {fits} THEN 1 ELSE 0 END FROM episode WHERE learner_id = ?1"
        f" AND (changed, episode_no) > (?, ?) AND changed <= ? AND (({fits}) OR changed <> revision)"
        " ORDER BY changed, episode_no LIMIT ?",
        [*values, *after, snapshot.revision, *values, limit],
    )
    lines = _lines(snapshot, [row[1] for row in rows if row[7] <= LINE_STEPS])
    return tuple(
        replace(
            _row(row, names[environment_no], declared.get(environment_no), lines),
            state="active" if is_listed else "gone" if is_active else "undone",
            revision=changed,
            mark=mark_of(snapshot, Position(changed, row[1])),
        )
        for *row, environment_no, changed, is_active, is_listed in rows
    )


def _order(row: Row, direction: Direction) -> tuple[int, int]:
    """Return its sort key in that direction: the greater time and number first, or last."""
    key = (UNKNOWN if row[0] is None else row[0], row[1])
    return (-key[0], -key[1]) if direction == "older" else key


def _stream(
    snapshot: Snapshot, environment_no: int, fits: Fits, cursor: EpisodeCursor | None, direction: Direction
) -> Iterator[Row]:
    """Rows of one environment's episodes in their order: those of a known time, then the others; or the other way."""
    way, beyond, last = ("DESC", "<", _EVER) if direction == "older" else ("ASC", ">", UNKNOWN)
    timed: list[int | None] = [last, last]
    others: list[int | None] = [last]
    orders = [(True, timed), (False, others)]
    if direction == "newer":
        orders.reverse()
    if cursor is not None:
        is_timed = cursor.at_ms is not None
        timed[:], others[:] = ([*cursor], others) if is_timed else (timed, [cursor.episode_no])
        if orders[0][0] is not is_timed:  # it is among the second ones
            del orders[0]
    begun: list[Callable[[], Iterator[Row]]] = []
    for has_time, start in orders:
        order = (
            f"at_ms IS NOT NULL AND (at_ms, episode_no) {beyond} (?, ?) ORDER BY at_ms {way}, episode_no {way}"
            if has_time
            else f"at_ms IS NULL AND episode_no {beyond} ? ORDER BY episode_no {way}"
        )
        values = [snapshot.learner_id, environment_no, *fits[1], *start]
        begun.append(partial(_begun, snapshot, fits[0], order, values))
    return chain.from_iterable(snapshot.together(*begun))


def _begun(snapshot: Snapshot, fits: str, order: str, values: list[Any]) -> Iterator[Row]:
    return snapshot.connection.each(
        f"SELECT {_ROW} FROM episode {EPISODES_BY_TIME} WHERE learner_id = ? AND environment_no = ?"
        f" AND {ACTIVE}{fits} AND {order}",
        values,
    )


def _fits(episode_filter: EpisodeFilter, scale: Scale) -> Fits:
    named = [
        (name, value)
        for name in ("split", "task", "model")
        if (value := getattr(episode_filter, name)) is not None
    ]
    conditions = "".join(f" AND {name} = ?" for name, _ in named)
    values: list[Any] = [value for _, value in named]
    reached = scale.reached("total", "final") or "CAST(NULL AS double precision)"
    outcomes: dict[EpisodeOutcome, tuple[str, list[float]]] = {
        "success": (f"{reached} > ?", [scale.threshold]),
        "no_success": (f"{reached} <= ?", [scale.threshold]),
        "unpaid": (f"{reached} IS NULL AND finished < ?", [BROKEN]),
        "broken": ("finished = ?", [BROKEN]),
        "unfinished": ("finished = 0", []),
    }
    if episode_filter.outcome is None:
        return conditions, values
    sql, bound = outcomes[episode_filter.outcome]
    return f"{conditions} AND {sql}", [*values, *bound]


def _row(
    row: Sequence[Any],
    environment: str,
    declared: Scale | None,
    lines: Mapping[int, tuple[float | None, ...]],
) -> EpisodeRow:
    at_ms, number, uid, task, model, split, status, n_steps, total, final, _ = row
    scale = declared or Scale()
    reached: float | None = scale.reached(total, final)
    is_known = reached is not None and (declared is not None or scale.normalised(reached) is not None)
    return EpisodeRow(
        place=EpisodeCursor(at_ms, number),
        uid=uid,
        environment=environment,
        task=task,
        model=model,
        split=split,
        status=status,
        n_steps=n_steps,
        total=total,
        final=final,
        base=scale.base,
        success=reached > scale.threshold if reached is not None and is_known else None,
        running=None if n_steps > LINE_STEPS else lines.get(number, ()),
    )


def _lines(snapshot: Snapshot, episode_nos: Sequence[int]) -> dict[int, tuple[float | None, ...]]:
    """Return the running total at each counted step."""
    rewards: dict[int, list[float | None]] = defaultdict(list)
    for number, _, reward in sorted(
        snapshot.rows_in(
            "SELECT episode_no, step_no, reward FROM step"
            " WHERE learner_id = ? AND refused = 0 AND episode_no IN ({})",
            episode_nos,
        ),
        key=lambda row: row[:2],
    ):
        rewards[number].append(reward)
    return {
        number: tuple(None if one is None else float(one) for one in running(paid))
        for number, paid in rewards.items()
    }


def runs_without_episode(snapshot: Snapshot) -> dict[str, int]:
    """Return active runs with a reward of their source and without an episode, by format."""
    rows = snapshot.rows(
        f"SELECT r.format, count(*) FROM run r WHERE r.learner_id = ?1 AND r.revision <= ? AND r.{ACTIVE}"
        " AND r.reward IS NOT NULL AND NOT EXISTS (SELECT 1 FROM episode_run l JOIN episode e"
        f" ON e.learner_id = l.learner_id AND e.episode_no = l.episode_no AND e.{ACTIVE}"
        " WHERE l.learner_id = ?1 AND l.run_no = r.run_no) GROUP BY r.format",
        [snapshot.revision],
    )
    return dict(sorted(rows))
