"""Bills: exact integers of the tokens and the prices of the run's time; a cache that follows every change."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core import explained
from core.errors import Conflict, InvalidInput
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.settings import change
from core.records.bill import (
    AT_LEAST,
    ESTIMATED,
    MAX_PICO,
    PARTS,
    RATIOS,
    Bill,
    Price,
    Spent,
    bill_of,
    disjoint,
    merged,
)
from core.records.run import Run, Usage
from tests.worlds import START_MS, a_run, context_at, lines_file, run_line

FULL = {"input": 3, "cache_read": 0.3, "cache_write_5m": 3.75, "cache_write_1h": 6, "output": 15}
WHOLE = Usage(input=400, output=300, cache_read=15_000)

counts = st.integers(0, 10**7)
rows = st.builds(
    Spent,
    model=st.sampled_from([None, "a", "b"]),
    owner=st.sampled_from(["agent", "sub-agent"]),
    **dict.fromkeys((*PARTS, "total"), counts),
    assumed=st.booleans(),
)
prices = st.builds(
    Price,
    input_micro=st.integers(0, 10**9),
    **{f"{part}_micro": st.none() | st.integers(0, 10**9) for part in PARTS[1:]},
)


def bills(context: Context) -> dict[str, tuple[int | None, int]]:
    """The stored bills of active runs, by uid."""
    assert queries.verify(context).clean
    with context.reading() as snapshot:
        rows = snapshot.connection.rows(
            "SELECT uid, bill_pico, bill_marks FROM run WHERE learner_id = ? AND standing = 1",
            [snapshot.learner_id],
        )
    return {uid: (pico, marks) for uid, pico, marks in rows}


def priced_run(uid: str = "r") -> Run:
    return replace(a_run(uid), model="m", ended_at_ms=START_MS, usage=WHOLE)


@given(st.lists(rows, max_size=5), prices, prices)
def test_a_bill_is_the_exact_sum_rounded_once(spent: list[Spent], a: Price, b: Price) -> None:
    """Fractions of the standard library, row by row and part by part."""
    amount = Fraction(0)
    for row in spent:
        price = b if row.model == "b" else a
        for part in PARTS:
            known = getattr(price, f"{part}_micro")
            each = Fraction(price.input_micro) * Fraction(*RATIOS[part]) if known is None else Fraction(known)
            amount += getattr(row, part) * each
    expected = round(amount)
    bill = bill_of(merged(spent), "a", 5, {"a": a, "b": b})
    assert bill.pico == (expected if any(row.tokens for row in spent) else None)
    if bill.pico is not None:
        assert bill.is_at_least == any(row.total for row in spent)
    assert bill == bill_of(merged(reversed(spent)), "a", 5, {"a": a, "b": b})


@given(counts, counts, counts, counts)
def test_disjoint_parts_add_up_to_the_total(read: int, written: int, cached: int, stored: int) -> None:
    """In both ways of counting: cached tokens beside input, or inside of it."""
    beside = disjoint(read, written, cached, stored, read + written + cached + stored)
    inside = disjoint(read + cached + stored, written, cached, stored, read + written + cached + stored)
    assert beside == inside
    assert beside is not None
    assert beside.tokens == read + written + cached + stored
    assert disjoint(read, written, cached, stored, beside.tokens + 1) is None


def test_the_price_of_the_run_s_time_counts(context: Context) -> None:
    for uid, day in (("before", -1), ("first", 0), ("second", 5)):
        record(context, replace(priced_run(uid), ended_at_ms=START_MS + day * 86_400_000))
    first = Price(input_micro=1, output_micro=1, cache_read_micro=1, valid_from_ms=START_MS)
    second = Price(input_micro=2, output_micro=2, cache_read_micro=2, valid_from_ms=START_MS + 5 * 86_400_000)
    change(context, "prices", {"m": [first, second]})
    n_tokens = 15_700
    assert bills(context) == {"before": (None, 0), "first": (n_tokens, 0), "second": (2 * n_tokens, 0)}


def test_bills_follow_every_act(context: Context, tmp_path: Path) -> None:
    """A change of prices and its undo, an import, its growth, its undo and redo, and erasing."""
    line: dict[str, Any] = {"model": "m", "ended_at_ms": START_MS, "session": "s"}
    short = run_line("r", **line, usage={"input": 10}, rank=1)
    grown = run_line(
        "r",
        **line,
        usage={"input": 10, "output": 5},
        rank=2,
        bill=[{"input": 10}, {"model": "n", "output": 5}, {"owner": "sub-agent", "input": 1, "total": 9}],
    )
    priced = change(context, "prices", {"m": 1, "n": 2})
    once = import_files(context, [lines_file(tmp_path / "a.jsonl", short)])
    small = {"r": (10_000_000, 0)}
    assert bills(context) == small
    again = import_files(context, [lines_file(tmp_path / "b.jsonl", grown)])
    large = {"r": (11_000_000 + 5 * 2_000_000 * 5, ESTIMATED | AT_LEAST)}
    assert bills(context) == large
    undo(context, priced.id or "")
    assert bills(context) == {"r": (None, 0)}
    redo(context, priced.id or "")
    assert bills(context) == large
    undo(context, again.id)
    assert bills(context) == small
    redo(context, again.id)
    erase(context, session="s")
    assert bills(context) == large
    undo(context, once.id)
    assert bills(context) == large
    export_file(context, tmp_path / "out.jsonl")
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "out.jsonl"])
    assert bills(other) == large


def test_a_larger_bill_of_the_same_lines_wins_in_any_order(context: Context, tmp_path: Path) -> None:
    """A copy of a session with its sub-agents' files, and one without: the same result in both orders."""
    change(context, "prices", {"m": 1})
    bare = run_line(
        "r", model="m", usage={"input": 10}, rank=1, bill=[{"input": 10}, {"owner": "sub-agent", "total": 90}]
    )
    known = run_line(
        "r", model="m", usage={"input": 10}, rank=1, bill=[{"input": 10}, {"owner": "sub-agent", "input": 90}]
    )
    files = [lines_file(tmp_path / f"{n}.jsonl", one) for n, one in enumerate((bare, known))]
    for learner, order in (("one", files), ("two", files[::-1])):
        own = context_at(Path(str(context.store.database.location)), learner=learner)
        change(own, "prices", {"m": 1})
        for file in order:
            import_files(own, [file])
        assert bills(own) == {"r": (100_000_000, 0)}


def test_what_can_not_be_known_is_unknown(context: Context) -> None:
    change(context, "prices", {"m": 1, "dear": 1e9})
    record(context, replace(priced_run("total alone"), usage=Usage(total=500)))
    record(context, replace(priced_run("no usage"), usage=None))
    record(context, replace(priced_run("no price"), model="other"))
    record(
        context,
        replace(
            priced_run("a sub-agent without a price"),
            bill=(Spent(input=1), Spent(model="x", input=1, owner="sub-agent")),
        ),
    )
    record(context, replace(priced_run("above all bounds"), model="dear", usage=Usage(input=10**12)))
    assert set(bills(context).values()) == {(None, 0)}
    assert MAX_PICO // 10**12 == 9_223_372


def test_a_run_says_each_model_once(context: Context) -> None:
    with pytest.raises(InvalidInput, match="once for each owner, got 'm' of the agent twice"):
        replace(priced_run(), bill=(Spent(model="m", input=1), Spent(model="m", output=1)))
    record(context, priced_run())
    with pytest.raises(Conflict):
        record(context, replace(priced_run(), bill=(Spent(model="m", input=1),)))


def test_a_price_list_of_a_vendor_is_taken(context: Context) -> None:
    """The form of the first finding, where a cache write means five minutes."""
    given_prices = {"claude-opus-4-7": {"input": 5, "output": 25, "cache_read": 0.5, "cache_write": 6.25}}
    answer = change(context, "prices", given_prices)
    assert answer.value == {
        "claude-opus-4-7": {
            "input_micro": 5_000_000,
            "cache_read_micro": 500_000,
            "cache_write_5m_micro": 6_250_000,
            "output_micro": 25_000_000,
        }
    }
    assert change(context, "prices", given_prices).id is None
    assert Bill(5, ESTIMATED | AT_LEAST).is_at_least


def test_a_run_s_story_shows_who_used_which_tokens(context: Context) -> None:
    change(context, "prices", {"opus": FULL})
    rows = (
        Spent(model="opus", input=1_000_000, output=20),
        Spent(model="haiku", owner="sub-agent", cache_write_1h=7, total=900),
    )
    record(context, replace(a_run("r1"), model="opus", bill=rows))
    unknown = queries.run(context, "r1")
    change(context, "prices", {"opus": FULL, "haiku": {**FULL, "cache_write_1h": 1_000_000}})
    known = queries.run(context, "r1")
    assert (unknown.facts.cost_pico, known.facts.cost_pico) == (None, 10_000_300_000_000)
    assert (known.facts.at_least, known.facts.estimated, known.facts.bill) == (True, False, rows)
    words = explained.bill(known)
    assert words is not None
    assert all(part in words for part in ("$10.00", "1,000,020", "haiku", "900"))
