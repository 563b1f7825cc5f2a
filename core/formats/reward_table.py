"""Reward tables: pasted text, a CSV file or JSON lines → the lines of a batch; and such tables of outcomes.

The first line shows the delimiter: a tab (as spreadsheets copy), a semicolon or a comma. A line ``sep=;`` before it
names the delimiter. A first line with names of columns is the head. Without one the columns are arm, value or
outcome, run, reason and kind. Cells are text: what looks like a formula stays as it is. An unreadable line is
reported by its number in the text; the others are read.

Spreadsheets write semicolons where the decimal mark is a comma, so there ``0,5`` is a half. Between tabs ``0,5`` can
only be a half, but ``1,000`` can be a thousand. Between commas no decimal comma is read.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import msgspec

from core.errors import ArmscopeError, InvalidInput, InvalidReward
from core.records.achieved import OutcomeOrder
from core.records.batch import MAX_BATCH, BatchLine, RewardKind, refused
from core.records.observation import OUTCOME_REWARDS, RewardOutcome

MAX_TABLE_BYTES: Final = 32 << 20
"""More than ten thousand lines with the longest of reasons in any script hold."""
COLUMNS: Final[Mapping[str, str]] = {
    "arm": "arm",
    "value": "value",
    "reward": "value",
    "outcome": "outcome",
    "value or outcome": "value",
    "run": "run",
    "reason": "reason",
    "why": "reason",
    "kind": "kind",
}
"""Names of the columns in a head, in any case."""
_PLAIN: Final = ("arm", "value", "run", "reason", "kind")
"""Columns without a head."""
_DELIMITER_LINE: Final = re.compile(r"\s*sep=(?P<mark>[^\r\n\w\s\"]|\t)\s*(?:\r\n?|\n|$)", re.IGNORECASE)
"""First line that names the delimiter to a spreadsheet."""
_DECIMAL_COMMAS: Final[Mapping[str, re.Pattern[str]]] = {
    ";": re.compile(r"\d*,\d+"),
    "\t": re.compile(r"0?,\d+"),
}
"""Numbers with a decimal comma that are read as such, by delimiter."""
_WORKBOOKS: Final = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
"""First bytes of .xlsx and .ods, and of .xls."""
_KINDS: Final[tuple[RewardKind, ...]] = get_args(RewardKind)
_SHOWN_CHARS: Final = 60
_OUTCOME_HEAD: Final = ["run", "value"]

Read = tuple[int, BatchLine | ArmscopeError]


@dataclass(frozen=True, kw_only=True)
class RewardTable:
    """The lines that can be read, in their order, and what is wrong with the others, by number."""

    lines: tuple[BatchLine, ...]
    bad: Mapping[int, ArmscopeError]

    @property
    def n_lines(self) -> int:
        """Both together, head and empty lines left out."""
        return len(self.lines) + len(self.bad)


def read_table(text: str) -> RewardTable:
    """Read a table; raises `InvalidInput` for one that is empty, too long or has a head without arms."""
    _check_size(len(text.encode(errors="surrogatepass")))
    plain = text.removeprefix("\ufeff")
    read = _json_lines(plain) if plain.lstrip().startswith("{") else _rows(plain)
    lines: list[BatchLine] = []
    bad: dict[int, ArmscopeError] = {}
    for number, line in read:
        if len(lines) + len(bad) == MAX_BATCH:
            raise InvalidInput(
                f"A table must have at most {MAX_BATCH:,} rewards, got more.",
                next_step="Send it in parts; nothing was recorded.",
            )
        if isinstance(line, BatchLine):
            lines.append(line)
        else:
            bad[number] = line
    if not lines and not bad:
        raise InvalidInput(
            "A table must have a line for each reward, got none.",
            next_step="Write an arm and its value or outcome on each line.",
        )
    return RewardTable(lines=tuple(lines), bad=bad)


def table_text(content: bytes) -> str:
    r"""The text of a file; raises `InvalidInput` where it is too large or not UTF-8, as spreadsheets' "CSV UTF-8" is.

    >>> table_text("arm;value\n".encode("utf-16"))
    'arm;value\n'
    """
    _check_size(len(content))
    if content.startswith(_WORKBOOKS):
        raise InvalidInput(
            "A table must be text, got a workbook of a spreadsheet (.xlsx, .xls or .ods).",
            next_step='Save its sheet as "CSV UTF-8" and send that file; nothing was recorded.',
        )
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as problem:
        raise InvalidInput(
            f"A table must be text in UTF-8, got {content[problem.start : problem.start + 1]!r} at byte "
            f"{problem.start:,}.",
            next_step='Save it again as "CSV UTF-8"; nothing was recorded.',
        ) from None


def _check_size(n_bytes: int) -> None:
    if n_bytes > MAX_TABLE_BYTES:
        raise InvalidInput(
            f"A table must have at most {MAX_TABLE_BYTES >> 20} MiB, got {n_bytes:,} bytes.",
            next_step="Send it in parts; nothing was recorded.",
        )


# JSON lines


def _json_lines(text: str) -> Iterator[Read]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _json_line(number, line)


def _json_line(number: int, line: str) -> BatchLine | ArmscopeError:
    try:
        document = msgspec.json.decode(line.strip().encode(errors="replace"), type=dict[str, Any])
        if document.get("value") is None and document.get("outcome") is None:
            return _nothing("")
        return msgspec.convert({**document, "line": number}, BatchLine)
    except msgspec.MsgspecError as problem:
        fields = "arm, value, outcome, run, reason, kind"
        return InvalidInput(
            f"A line must be a JSON object of {fields}, got one of which this is wrong: {problem}.",
            next_step='Write it like {"arm": "tool:web:search", "value": 0.5}.',
        )


# Rows


def _rows(text: str) -> Iterator[Read]:
    """Rows of cells, each with the number of its first line: a quoted cell may go over several."""
    named = _DELIMITER_LINE.match(text)
    table, n_before = (text[named.end() :], named[0].count("\n") or 1) if named else (text, 0)
    delimiter = named["mark"] if named else _delimiter(table)
    reader = csv.reader(io.StringIO(table, newline=""), delimiter=delimiter, strict=True)
    columns: Sequence[str] | None = None
    while True:
        number = n_before + reader.line_num + 1
        try:
            row = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as problem:
            yield number, _unreadable(problem)
            continue
        if not any(row):
            continue
        if columns is None:
            columns = _head(row) or _PLAIN
            if _head(row):
                continue
        yield number, _row(number, columns, row, delimiter)


def _delimiter(text: str) -> str:
    """Return the delimiter: the first of these in the first line with content."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return next((mark for mark in ("\t", ";", ",") if mark in first), ",")


def _unreadable(problem: csv.Error) -> InvalidInput:
    return InvalidInput(
        f"A line must have cells with every quotation mark closed, got one of which this is wrong: {problem}.",
        next_step="Double the marks inside a quoted cell, or leave them out.",
    )


def _head(row: Sequence[str]) -> Sequence[str] | None:
    """The columns that a first line names; None where it is a reward itself."""
    names = [cell.casefold() for cell in row]
    if "arm" not in names:
        return None
    unknown = [cell for cell, name in zip(row, names, strict=True) if name and name not in COLUMNS]
    columns = [COLUMNS.get(name, "") for name in names]
    doubled = sorted({name for name in columns if name and columns.count(name) > 1})
    if unknown or doubled or not {"value", "outcome"} & {*columns}:
        raise InvalidInput(
            "A head must name each column once, out of arm, value, outcome, run, reason and kind, with the arm and a "
            f"value or outcome among them, got {', '.join(row)[:200]!r}.",
            next_step="Rename or remove the others; nothing was recorded.",
        )
    return columns


def _row(
    number: int, columns: Sequence[str], row: Sequence[str], delimiter: str
) -> BatchLine | ArmscopeError:
    """A row as a line of the batch, or what is wrong with it."""
    if any(row[len(columns) :]):
        return InvalidInput(
            f"A line must have at most {len(columns)} cells, got {len(row)}.",
            next_step="Put a cell that holds what parts the others into quotation marks.",
        )
    cells = {name: cell for name, cell in zip(columns, row, strict=False) if name and cell}
    try:
        value, outcome = _judged(cells.get("value", ""), cells.get("outcome", ""), delimiter)
        text = cells.get("run", "")
        bare = text.replace(",", "")  # numbers may carry the commas that pages show them with
        return BatchLine(
            arm=cells.get("arm", ""),
            value=value,
            outcome=outcome,
            run=(bare if bare.isdecimal() else text) or None,
            reason=cells.get("reason"),
            kind=_kind(cells.get("kind", "")),
            line=number,
        )
    except ArmscopeError as problem:
        return problem


def _judged(value: str, outcome: str, delimiter: str) -> tuple[float | None, RewardOutcome | None]:
    """Return value and outcome; each may be in the column of the other."""
    cells = [_with_decimal_point(cell, delimiter) for cell in (value, outcome) if cell]
    if not cells:
        raise _nothing("")
    judgements = [judged(cell) for cell in cells]
    numbers = [number for number, _ in judgements if number is not None]
    words = [word for _, word in judgements if word is not None]
    return (numbers[0] if numbers else None), (words[0] if words else None)


def _with_decimal_point(cell: str, delimiter: str) -> str:
    """Return a cell, where a decimal comma that is read as such is a point."""
    decimal_comma = _DECIMAL_COMMAS.get(delimiter)
    return cell.replace(",", ".") if decimal_comma and decimal_comma.fullmatch(cell) else cell


def judged(text: str) -> tuple[float | None, RewardOutcome | None]:
    """A number from 0 to 1, or an outcome by its name, as people write them; raises `InvalidReward` for any other.

    >>> judged("0.25"), judged("Rejected"), judged("0")
    ((0.25, None), (None, 'rejected'), (0.0, None))
    """
    word = next((name for name in OUTCOME_REWARDS if name == text.strip().casefold()), None)
    if word is not None:
        return None, word
    try:
        number = float(text if "_" not in text else "")  # Python would read 1_0 as 10
    except ValueError:
        raise _nothing(text) from None
    if not 0 <= number <= 1:  # neither is NaN
        raise _nothing(text)
    return abs(number), None


def _nothing(text: str) -> InvalidReward:
    got = f"{text[:_SHOWN_CHARS]!r}" if text else "nothing"
    return InvalidReward(
        f"A reward must be a number from 0 to 1, or {', '.join(OUTCOME_REWARDS)}, got {got}.",
        next_step="Write one of those; a decimal has a point, or a comma where semicolons separate the cells.",
    )


def _kind(text: str) -> RewardKind | None:
    if not text:
        return None
    kind = next((name for name in _KINDS if name == text.casefold()), None)
    if kind is None:
        raise InvalidInput(
            f"A kind must be one of {', '.join(_KINDS)}, or nothing, got {text[:_SHOWN_CHARS]!r}.",
            next_step="Leave it out, and the run decides.",
        )
    return kind


# Outcomes


def read_outcomes(content: bytes) -> tuple[OutcomeOrder, ...]:
    r"""Read a table of runs and values from 0 to 1, under a head ``run,value`` or without one.

    Raises `InvalidBatch` with the error of each bad line, by number.

    >>> [(one.run, one.value) for one in read_outcomes(b"run;value\nrequest-1;1\nrequest-2;0,5")]
    [('request-1', 1.0), ('request-2', 0.5)]
    """
    plain = table_text(content)
    delimiter = None if plain.lstrip().startswith("{") else _delimiter(plain)
    orders: list[OutcomeOrder] = []
    bad: dict[int, ArmscopeError] = {}
    for number, line in enumerate(plain.split("\n"), 1):
        try:
            orders += _outcome(line, delimiter)
        except ArmscopeError as problem:
            bad[number] = problem
    if bad:
        raise refused(bad, len(orders) + len(bad))
    return tuple(orders)


def _outcome(line: str, delimiter: str | None) -> list[OutcomeOrder]:
    """Return the outcome on a line; none on the head or an empty line."""
    try:
        if delimiter is None:
            return [msgspec.json.decode(line, type=OutcomeOrder)] if line.strip() else []
        row = [cell.strip() for cell in next(csv.reader([line.strip("\r")], delimiter=delimiter), [])]
        if not any(row) or [cell.casefold() for cell in row] == _OUTCOME_HEAD:
            return []
        run, value = row
        cells = {"run": run, "value": _with_decimal_point(value, delimiter)}
        return [msgspec.convert(cells, OutcomeOrder, strict=False)]
    except (ValueError, csv.Error) as problem:
        if isinstance(problem.__cause__, ArmscopeError):
            raise problem.__cause__ from None
        raise InvalidInput(
            f"A line must have a run and a number from 0 to 1, got {line.strip()[:_SHOWN_CHARS]!r}.",
            next_step='Write it like request-1,0.5 or {"run": "request-1", "value": 0.5}.',
        ) from None
