"""Traces: however their spans come, in whatever parts and order and however often, they are one run each."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import StoreBusy
from core.flows import queries
from core.flows.context import Context
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.offers import offer, report
from core.flows.traces import settle_all_traces, settle_traces, take_spans, traces
from core.formats.otlp import RequestSpans, read_spans
from core.records.arm import Arm
from core.records.offer import Report
from core.store.traces import LIFETIME_MS, LISTED_MS, MAX_SPANS, MAX_STORED_BYTES, Packed, keep_spans
from tests.flows.test_holds import Clock, clock
from tests.formats.test_otlp import AGENT, TRACE, Json, as_json, called, reply, span
from tests.worlds import HOUR_MS, context_at

__all__ = ["clock"]
OTHER = "f" * 32


@pytest.fixture
def context(tmp_path: Path, clock: Clock) -> Iterator[Context]:
    made = replace(context_at(tmp_path / "a.db"), clock=clock)
    yield made
    assert queries.verify(made).clean
    made.store.close()


def spans_of(*spans: Json) -> RequestSpans:
    return read_spans(as_json(*spans), "json")


def beliefs(context: Context) -> list[tuple[str, float, float]]:
    return [(one.arm, one.alpha, one.beta) for one in queries.posteriors(context)]


def n_spans(context: Context) -> int:
    with context.store.reading(context.learner) as snapshot:
        ((found,),) = snapshot.connection.rows("SELECT count(*) FROM span WHERE learner_id = ?", [1])
    return int(found)


def test_a_trace_is_a_run_once_its_root_is_there(context: Context) -> None:
    waits = take_spans(context, spans_of(*AGENT[1:]))
    assert (waits.kept, waits.refused, waits.runs, waits.words) == (2, 0, 0, "")
    assert queries.status(context).runs == 0
    (row,) = traces(context)
    assert (row.trace, row.session, row.state, row.spans, row.run) == (TRACE, None, "waiting", 2, None)
    assert take_spans(context, spans_of(AGENT[0])).runs == 1
    assert traces(context) == []
    story = queries.run(context, f"otlp/prompt/{TRACE}")
    assert {arm.arm: arm.reward for arm in story.arms} == {"tool:web:search": 1.0, "tool:web:fetch": 0.0}
    assert take_spans(context, spans_of(*AGENT)).runs == 0, "told again it is known"
    grown = take_spans(context, spans_of(called(4, 1, "fetch", gen_ai__tool__call__id="c2")))
    assert (grown.runs, queries.status(context).runs) == (1, 1)
    story = queries.run(context, f"otlp/prompt/{TRACE}")
    assert {arm.arm: arm.reward for arm in story.arms} == {"tool:web:search": 1.0, "tool:web:fetch": 1.0}


def test_however_spans_come_it_comes_to_the_same(tmp_path: Path) -> None:
    spans = [
        *AGENT,
        *({**one, "traceId": OTHER} for one in AGENT),
        called(4, 1, "fetch"),
        span(1, trace="e" * 32, http__method="GET"),
    ]
    told = []
    dice = random.Random(7)
    for number in range(8):
        context = replace(context_at(tmp_path / f"{number}.db"), clock=Clock())
        parts = _parts(dice, spans) if number else [spans]
        for part in parts:
            take_spans(context, spans_of(*part))
        told.append((beliefs(context), queries.status(context).runs))
        assert queries.verify(context).clean
        context.store.close()
    assert told == [told[0]] * len(told)
    assert told[0][1] == 2, "what holds no agent's work is no run"


def _parts(dice: random.Random, spans: Sequence[Json]) -> list[list[Json]]:
    """The spans in some order, in up to four requests, a few of them twice."""
    found: dict[int, list[Json]] = defaultdict(list)
    for one in dice.sample([*spans, *dice.sample(list(spans), 3)], len(spans) + 3):
        found[dice.randrange(4)].append(one)
    return list(found.values())


def test_without_a_root_it_is_a_run_after_an_hour(context: Context, clock: Clock) -> None:
    take_spans(context, spans_of(*AGENT[1:]))
    clock.now_ms += HOUR_MS - 1
    settle_all_traces(context)
    assert queries.status(context).runs == 0
    clock.now_ms += 1
    said = take_spans(context, spans_of({**span(9), "traceId": OTHER}))
    assert (said.refused, said.words) == (0, "1 trace without a root became runs after an hour.")
    (row,) = traces(context)
    assert (row.state, row.run) == ("rootless", f"otlp/prompt/{TRACE}")
    assert queries.status(context).runs == 1
    clock.now_ms += HOUR_MS
    assert take_spans(context, spans_of(AGENT[0])).runs == 1, "the root still finds the others"
    assert traces(context) == []
    assert queries.run(context, f"otlp/prompt/{TRACE}").facts.session == "s-1"


def test_what_was_kept_and_not_told_is_told_the_next_time(context: Context) -> None:
    """As a process leaves it that is killed between the two."""
    assert keep_limited(context, *AGENT) == 0
    assert [row.state for row in traces(context)] == ["waiting"]
    assert settle_traces(context).runs == 1
    assert (traces(context), queries.status(context).runs) == ([], 1)


def test_what_can_t_be_read_is_listed_with_its_reason(context: Context) -> None:
    said = take_spans(context, spans_of(reply(1, gen_ai__response__finish_reasons=["tool_calls"])))
    why = "It says that the model asked for tools, but not for which."
    assert (said.refused, said.words) == (0, f"No run can be made of a trace: {why}")
    (row,) = traces(context)
    assert (row.state, row.said, row.run) == ("unread", why, None)
    assert take_spans(context, spans_of(called(2, 1, "search"))).runs == 1
    assert traces(context) == []


def test_spans_go_after_a_day_and_the_list_after_a_week(context: Context, clock: Clock) -> None:
    take_spans(context, spans_of(*AGENT, {**reply(2, 1), "traceId": OTHER}))
    clock.now_ms += HOUR_MS
    settle_all_traces(context)
    assert n_spans(context) == 4
    clock.now_ms += LIFETIME_MS
    settle_all_traces(context)
    assert (n_spans(context), [row.trace for row in traces(context)]) == (0, [OTHER])
    take_spans(context, spans_of(AGENT[1]))
    clock.now_ms += HOUR_MS
    settle_all_traces(context)
    story = queries.run(context, f"otlp/prompt/{TRACE}")
    assert len(story.arms) == 2, "what is told shorter, once the rest is gone, changes nothing"
    clock.now_ms += LISTED_MS
    settle_all_traces(context)
    settle_all_traces(context)
    assert traces(context) == []


def packed(*spans: Json) -> dict[str, list[Packed]]:
    """As they are kept, by trace."""
    found: dict[str, list[Packed]] = defaultdict(list)
    for one in spans_of(*spans).spans:
        found[one.trace].append(Packed(one.id, one.packed(), not one.parent, one.session or ""))
    return found


def keep_limited(context: Context, *spans: Json, at_most_bytes: int = MAX_STORED_BYTES) -> int:
    return context.write(
        "ingest", lambda txn: keep_spans(txn, packed(*spans), at_most_bytes=at_most_bytes), create=True
    )


def test_there_is_room_for_so_much(context: Context) -> None:
    take_spans(context, spans_of(*AGENT))
    before = n_spans(context)
    assert keep_limited(context, {**reply(2, 1), "traceId": OTHER}, at_most_bytes=1_000) == 0
    assert n_spans(context) == 1 < before, "what is a run already goes first"
    many = [{**reply(number, 1), "traceId": "e" * 32} for number in range(2, 9)]
    with pytest.raises(StoreBusy):
        keep_limited(context, *many, at_most_bytes=1_000)
    assert n_spans(context) == 1
    beyond = [{**span(number, 1), "traceId": OTHER} for number in range(2, MAX_SPANS + 4)]
    said = take_spans(context, spans_of(*beyond))
    assert (said.kept, said.refused) == (MAX_SPANS, 2)
    assert said.words == "A trace must have at most 10,000 spans. (2 spans)"


def test_erasing_reaches_spans_and_no_export_has_them(context: Context, tmp_path: Path) -> None:
    take_spans(context, spans_of(*AGENT, {**reply(2, 1, session__id="s-9"), "traceId": OTHER}))
    export_file(context, tmp_path / "out.jsonl")
    assert "I look it up" not in (tmp_path / "out.jsonl").read_text()
    assert n_spans(context) == 4
    erase(context, run=f"otlp/prompt/{TRACE}")
    assert n_spans(context) == 1
    erase(context, session="s-9")
    assert (n_spans(context), traces(context)) == (0, [])


def test_what_was_observed_through_a_door_is_not_observed_again(context: Context) -> None:
    arm = Arm(key="tool:web:search")
    offer(context, [arm], session="s-1")
    report(context, Report(arm=arm.key, value=1.0, session="s-1"))
    before = beliefs(context)
    assert take_spans(context, spans_of(*AGENT)).runs == 1
    assert {one[0]: one[1:] for one in beliefs(context)}[arm.key] == before[0][1:]
    assert queries.run(context, f"otlp/prompt/{TRACE}").facts.outcome == "passive"
