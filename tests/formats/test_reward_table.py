"""Tables of rewards: whatever people paste is read as what they mean, or said to be wrong, line by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.formats.reward_table import read_table, table_text
from core.records.batch import MAX_BATCH, BatchLine

A, B = "tool:web:search", "tool:fs:Read"


def line(number: int, arm: str, value: float | None = None, **more: str) -> BatchLine:
    said: dict[str, object] = {**more}
    return BatchLine(arm=arm, value=value, line=number, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize("mark", ["\t", ";", ","])
def test_cells_are_parted_by_what_spreadsheets_write(mark: str) -> None:
    rows = ["arm|value|run|reason|kind", f"{A}|0.5|r1|half|correction", f"{B}|Accepted|||"]
    table = read_table("\r\n".join(rows).replace("|", mark))
    assert table.lines == (
        line(2, A, 0.5, run="r1", reason="half", kind="correction"),
        line(3, B, outcome="accepted"),
    )
    assert not table.bad


def test_a_head_may_come_in_any_order_or_not_at_all() -> None:
    assert read_table(f"Why,OUTCOME,Arm\nslow,rejected,{A}").lines == (
        line(2, A, outcome="rejected", reason="slow"),
    )
    assert read_table(f"{A},0\n\n{B},1,r1,because").lines == (
        line(1, A, 0.0),
        line(3, B, 1.0, run="r1", reason="because"),
    )


def test_an_explicit_value_and_an_outcome_are_kept_in_rows_and_json_lines() -> None:
    assert read_table(f"arm,value,outcome\n{A},0.25,accepted").lines == (
        line(2, A, 0.25, outcome="accepted"),
    )
    table = read_table(f'{{"arm":"{A}","value":0.5,"run":"r1"}}\n\n{{"arm":"{B}","outcome":"partial"}}\n')
    assert table.lines == (line(1, A, 0.5, run="r1"), line(3, B, outcome="partial"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{A},1.2", "1.2"),
        (f"{A},-0.1", "-0.1"),
        (f"{A},nan", "nan"),
        (f"{A},inf", "inf"),
        (f"{A},true", "true"),
        (f"{A},1_0", "1_0"),
        (f'{A},"0,5"', "0,5"),
        (f"{A};1,5", "1.5"),
        (f"{A};0,5,5", "0,5,5"),
        (f"{A},=1+1", "=1+1"),
        (f"{A},", "nothing"),
        (A, "nothing"),
        (f"{A},Success", "Success"),
        (f"{A},1,r,why,sideways", "sideways"),
        (f"{A},1,r,why,,more", "5 cells"),
        (f'{A},1,r,"never closed', "quotation"),
        ('{"arm": 3, "value": 1}', "str"),
        (f'{{"arm": "{A}"}}', "nothing"),
        (f'{{"arm": "{A}", "value": "0.9"}}', "float"),
        (f'{{"arm": "{A}", "value": true}}', "float"),
        (f'{{"arm": "{A}", "value": 1, "loud": 1}}', "loud"),
        ('{"arm": ', "JSON"),
        ('{"arm": "a"} [', "JSON"),
    ],
)
def test_what_is_wrong_is_said_of_the_line_that_has_it(text: str, said: str) -> None:
    good = f'{{"arm": "{A}", "value": 1}}' if text.startswith("{") else f"{A}{';' if ';' in text else ','}1"
    table = read_table(f"{good}\n{text}")
    assert len(table.lines) == 1
    assert list(table.bad) == [2]
    assert said in table.bad[2].problem
    assert table.bad[2].next_step


def test_a_quoted_cell_may_go_over_lines_and_the_next_keeps_its_number() -> None:
    table = read_table(f'{A},1,,"first\nsecond, with a comma"\n{B},2')
    assert table.lines == (line(1, A, 1.0, reason="first\nsecond, with a comma"),)
    assert list(table.bad) == [3]


@pytest.mark.parametrize(
    "reason", ["=HYPERLINK(1)", "<script>alert(1)</script>", "@sum", "+1", "שלום", "`x` **b**"]
)
def test_what_looks_like_a_formula_or_markup_is_text(reason: str) -> None:
    assert read_table(f"{A}\t1\t\t{reason}").lines[0].reason == reason


@pytest.mark.parametrize(
    "text", ["", "\n\n", "arm,value\n", "arm,loud\nx,1", "arm,arm,value", "arm,reason\nx,y"]
)
def test_a_text_that_is_no_table_is_refused_whole(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_table(text)


def test_ten_thousand_lines_are_read_and_one_more_is_refused() -> None:
    whole = f"{A},1\n" * MAX_BATCH
    assert read_table(whole).n_lines == MAX_BATCH
    with pytest.raises(InvalidInput, match="10,000"):
        read_table(f"{whole}{A},1\n")


def test_files_come_in_the_encodings_of_spreadsheets() -> None:
    text = "arm;value\nskill:größe:main;1"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert read_table(table_text(text.encode(encoding))).lines[0].arm == "skill:größe:main"
    with pytest.raises(InvalidInput, match="UTF-8"):
        table_text(text.encode("latin-1"))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("first", ["", "sep=;", "SEP=;"])
def test_semicolons_come_with_decimal_commas(first: str, ending: str) -> None:
    rows = [*[first][: len(first)], "arm;value;run", f"{A};0,25;1,234", f"{B};,5;", f"{A};1,0;", f"{B};0.75;"]
    table = read_table(ending.join(rows))
    begin = len(rows) - 3
    assert table.lines == (
        line(begin, A, 0.25, run="1234"),
        line(begin + 1, B, 0.5),
        line(begin + 2, A, 1.0),
        line(begin + 3, B, 0.75),
    )
    assert not table.bad


def test_a_decimal_comma_between_tabs_is_read_where_it_can_be_nothing_else() -> None:
    assert read_table(f"{A}\t0,125").lines == (line(1, A, 0.125),)
    assert "1,000" in str(read_table(f"{A}\t1,000").bad[1])
    assert read_table(f"sep=|\n{A}|0.5|r1").lines == (line(2, A, 0.5, run="r1"),)
    assert read_table(f"sep=,\n{A},0.5").lines == (line(2, A, 0.5),)


@pytest.mark.parametrize("begin", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"])
def test_a_workbook_is_named(begin: bytes) -> None:
    with pytest.raises(InvalidInput, match="workbook") as refused:
        table_text(begin + bytes(20))
    assert "CSV UTF-8" in refused.value.next_step


@given(st.text(max_size=300))
def test_no_text_whatever_is_read_as_an_unsound_reward(text: str) -> None:
    try:
        table = read_table(text)
    except InvalidInput:
        return
    for one in table.lines:
        assert one.value is None or 0 <= one.value <= 1
        assert one.value is not None or one.outcome is not None
