"""One file, its format chosen → its raw records, each with its place or the reason it was left out.

Bytes that hold several JSON values, one after another or in an array, → the values, each by itself.

Two writers that met on one line, records printed over many lines, lines that end in CR alone: between two values
there is nothing but white space.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from core.errors import UnreadableSource
from core.formats.entries import Entry, Limits, Progress, Rejected, Source
from core.formats.split import SLICE_BYTES, Split, TooManyLists
from core.formats.stream import Bytes, Damage, whole
from core.formats.strict import UNDECODABLE, Excess, check, reason, uncollected, with_nulls
from core.formats.tools import Supplied
from core.records.run import Inventory, Unit

_VALUE: Final = msgspec.json.Decoder(msgspec.Raw)
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_SPACE: Final = b" \t\r\n"

Shape = Literal["lines", "array", "object", "archive", "tar"]
"""JSON lines; one array of records; records spread over several lines; a zip; a tar."""

T = TypeVar("T")
Piece = tuple[int, bytes | Damage]
"""One record's bytes with its number, or the reason why there are none."""
_TOO_LARGE: Final = Damage("is too large, even without its long texts", "record")

_MOST_KEYS: Final = 1_000
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]', re.DOTALL)
_HALVES: Final = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""A pair of surrogates, or half of one."""
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def values_in(text: bytes) -> Iterator[bytes]:
    """The values of a text that holds several records; what is left of the last may be cut off. Else the text alone.

    >>> list(values_in(b'{"a": 1}{"b": 2} [3'))
    [b'{"a": 1}', b'{"b": 2} ', b'[3']
    >>> list(values_in(b'{"a": 1} and more'))
    [b'{"a": 1} and more']
    """
    values = _values(memoryview(text), b"")
    first, second = next(values, text), next(values, b"")
    if second.startswith((b"{", b"[")):
        yield from (first, second)
        yield from values
    else:
        yield text


def complete_values(start: bytes) -> Iterator[bytes]:
    """Yield the complete values at the beginning of a document, an array or a sequence of them.

    >>> list(complete_values(b'[{"a": 1}, {"b": 2}, {"c"'))
    [b'{"a": 1}', b'{"b": 2}']
    """
    is_array = start.startswith(b"[")
    view = memoryview(start)[is_array:]
    for value in _values(view, b"," if is_array else b""):
        try:
            _VALUE.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            return
        yield value


def _values(rest: memoryview, separator: bytes) -> Iterator[bytes]:
    """Values with at most one ``separator`` between two; the last piece is what no value could be found in."""
    while rest:
        try:
            _VALUE.decode(rest)
        except (msgspec.MsgspecError, RecursionError) as error:
            position = _TRAILING.search(str(error))
            if position is None:
                break
            at = int(position[1]) - 1  # the byte that was read last
            yield bytes(rest[:at])
            rest = _stripped(rest[at:], separator)
        else:
            break
    if rest:
        yield bytes(rest)


def _stripped(rest: memoryview, separator: bytes) -> memoryview:
    start = 0
    for what in (_SPACE, separator, _SPACE):
        limit = start + 1 if what == separator else len(rest)
        while start < limit and start < len(rest) and rest[start] in what:
            start += 1
    return rest[start:]


@dataclass(frozen=True, kw_only=True)
class Head:
    """A file's beginning; ``keys`` are the first object's, large or not, or an archive's names, ``lines`` objects."""

    shape: Shape
    start: bytes
    keys: frozenset[str]
    lines: tuple[dict[str, msgspec.Raw], ...] = ()
    is_long: bool = False
    """The first line is longer than a line may be, so its long texts are left out here."""


def _mended(raw: bytes) -> bytes:
    """Return a line with a mark in place of each broken character, empty for one without any."""
    mended = _HALVES.sub(lambda match: match[1] or b"\\ufffd", raw.decode(errors="replace").encode())
    return b"" if mended == raw else mended


def first_keys(start: bytes) -> Iterator[str]:
    """Keys of the first object (of an array, of its first element), even if its end is not in sight."""
    level, key, n_keys = 0, b"", 0
    is_array = start.startswith(b"[")
    for match in _TOKEN.finditer(start):
        token = match[0]
        if token in (b"{", b"["):
            level += 1
        elif token in (b"}", b"]"):
            level -= 1
            if level == is_array:
                return
        elif token == b":" and level == 1 + is_array:
            yield key[1:-1][:200].decode(errors="replace")
            n_keys += 1
            if n_keys == _MOST_KEYS:
                return
        else:
            key = token


@dataclass
class SubAgentFiles:
    """Files of sub-agents by their session's id and their own; sessions and paths that the import reads besides."""

    sessions: set[str] = field(default_factory=set)
    sources: set[Path] = field(default_factory=set)
    _shown: dict[str, dict[Path, str]] = field(default_factory=dict)

    def add(self, path: Path, file: str, *ids: str) -> None:
        """Add a file with its shown name."""
        for one in ids:
            self._shown.setdefault(one, {}).setdefault(path, file)

    def of(self, one: str) -> Iterable[tuple[Path, str]]:
        """Return the files of an id."""
        return self._shown.get(one, {}).items()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Input of a format for one file."""

    path: Path
    file: str
    shape: Shape
    unit: Unit
    supplied: Inventory | None
    limits: Limits
    by_domain: Supplied | None = None
    """In place of ``supplied`` for records that name their domain."""
    each_event: bool = False
    """Of events that repeat the reward of their message all count."""
    sub_agents: SubAgentFiles = field(default_factory=SubAgentFiles)
    sessions: Mapping[Path, Sequence[Source]] = field(default_factory=dict)
    """The other sources of the import that lie below a folder, where they may be the same work."""
    keeps_texts: bool = False
    """Runs bring their transcripts, because the learner keeps texts."""
    takes_nan: bool = False
    """NaN in place of a number is read as no value."""
    seems: str | None = None
    """The format that it was recognised as, where a person named another."""
    cut: list[str] = field(default_factory=list)
    """The file, for each record whose long texts were cut."""

    def records(
        self,
        decode: Callable[[bytes], T],
        progress: Progress | None = None,
        pieces: Iterable[Piece] | None = None,
        *,
        mends: bool = False,
    ) -> Iterator[tuple[int, bytes, T | Rejected]]:
        """Yield number, bytes and decoded value of every record: strict UTF-8 JSON of bounded depth.

        ``pieces`` None = the file's own. Decoding shows whether they are JSON. Several records in one position are
        separated: two writers may have met on a line, or a record may span many lines. After too many unreadable ones
        in a row the rest of the file is left out. ``mends``: a line that is too long, or holds broken
        characters, is named, and then yielded without its long texts or with other characters. A line that is too
        long and the only one of its file is always yielded so.
        """
        n_bad, most = 0, self.limits.first_rejected
        for number, piece in self.pieces(progress) if pieces is None else pieces:
            if isinstance(piece, Damage):
                refused, raw = self._left_out(number, piece), b""  # what was left out has no bytes to look at
                rest = piece.rest if mends or piece.is_alone else b""
            else:
                raw = piece
                try:
                    raw, decoded = self._decoded(raw, decode)
                except UNDECODABLE as error:
                    refused = self.rejected(number, error, raw)
                    may_mend = mends and self.shape == "lines" and not isinstance(error, Excess)
                    rest = _mended(raw) if may_mend else b""
                else:
                    n_bad, most = 0, self.limits.rejected_lines
                    yield number, raw, decoded
                    continue
            if rest:
                with suppress(*UNDECODABLE):
                    self.check(rest)
                    decoded = uncollected(decode, rest)
                    n_bad, most = 0, self.limits.rejected_lines
                    yield number, rest, refused
                    yield number, rest, decoded
                    continue
            for at, value, problem in self._several(number, raw, refused, decode):
                if isinstance(problem, Rejected):
                    n_bad += 1
                else:
                    n_bad, most = 0, self.limits.rejected_lines
                yield at, value, problem
                if n_bad == most:
                    yield number, b"", self._exhausted(n_bad)
                    return

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        """The lines of the file, the elements of the array that it is, or all of it as one."""
        with self.report_errors(), Bytes(self.path, self.file, self.limits, progress) as content:
            if self.shape == "lines":
                yield from content.lines()
            elif self.shape != "array":
                yield 1, self._whole(list(content.slices())) or _TOO_LARGE
            else:
                start, is_large = self._start(content)
                yield from (
                    self._apart(chain(start, content.slices()), None)
                    if is_large
                    else self.elements(b"".join(start))
                )

    def _several(
        self, number: int, raw: bytes, refused: Rejected, decode: Callable[[bytes], T]
    ) -> Iterator[tuple[int, bytes, T | Rejected]]:
        """Yield the records in the position of one; if it is only one, the reason against it."""
        for position, value in enumerate(values_in(raw), start=1):
            if value is raw:
                yield number, raw, refused
                return
            at = number if self.shape == "lines" else position
            try:
                value, decoded = self._decoded(value, decode)  # noqa: PLW2901
            except UNDECODABLE as error:
                yield at, value, self.rejected(at, error, value)
            else:
                yield at, value, decoded

    def _decoded(self, raw: bytes, decode: Callable[[bytes], T]) -> tuple[bytes, T]:
        """Check and decode a value; return it as decoded, which may be without NaN."""
        limits = self.limits
        try:
            check(raw, limits.depth, limits.elements)
            return raw, decode(raw) if len(raw) < SLICE_BYTES else uncollected(decode, raw)
        except UNDECODABLE:
            mended = with_nulls(raw) if self.takes_nan else raw
            if mended == raw:
                raise
        self.check(mended)
        return mended, uncollected(decode, mended)

    def _exhausted(self, n_bad: int) -> Rejected:
        return Rejected(
            file=self.file,
            line=None,
            reason=f"{n_bad:,} lines in a row could not be read, so the rest of the file was left out; "
            "--max-rejected allows more.",
        )

    def document(self, listed: str, progress: Progress | None = None, depth: int = 1) -> Document:
        """The one object that the file is; a large one is read twice, without and with its lists ``listed``."""
        with self.report_errors(), Bytes(self.path, self.file, self.limits, progress) as content:
            start, is_large = self._start(content)
            if not is_large:
                return Document(self, listed, b"".join(start), is_large=False)
            apart = Split(chain(start, content.slices()), listed, depth, self._whole, in_runs=True)
            try:
                deque(apart.elements(), maxlen=0)
            except TooManyLists as error:
                raise self.damaged(Excess(error), b"") from None
        return Document(self, listed, apart.rest, is_large=True, depth=depth, gaps=apart.gaps)

    def again(self, listed: str) -> Iterator[Piece]:
        """Yield each element of a list of the one object that the file is."""
        with self.report_errors(), Bytes(self.path, self.file, self.limits) as content:
            yield from self._apart(content.slices(), listed)

    def numbered(self, listed: str, depth: int) -> Iterator[tuple[int, bytes]]:
        """Yield runs of elements of the lists of the one object that the file is, with the number of the list."""
        with self.report_errors(), Bytes(self.path, self.file, self.limits) as content:
            yield from Split(content.slices(), listed, depth, self._whole, in_runs=True).elements()

    def _start(self, content: Bytes) -> tuple[list[bytes], bool]:
        """Return the beginning of a document, and whether it is too large to be decoded at one time."""
        most, n_bytes = self.limits.line_bytes, 0
        start = []
        for piece in content.slices():
            start.append(piece)
            n_bytes += len(piece)
            if n_bytes > most:
                return start, True
        n_elements = (
            sum(piece.count(mark) for piece in start for mark in (b"{", b"[", b","))
            if n_bytes > self.limits.elements
            else 0
        )
        return start, n_elements > self.limits.elements

    def _apart(self, pieces: Iterable[bytes], listed: str | None) -> Iterator[Piece]:
        """Yield each element of a large list by itself."""
        apart = Split(pieces, listed, 0 if listed is None else 1, self._whole)
        for number, (_, element) in enumerate(apart.elements(), start=1):
            yield number, element or _TOO_LARGE
        if listed is None:
            self.decoded_whole(_ELEMENTS, apart.rest)

    def _whole(self, pieces: list[bytes]) -> bytes:
        """Return a record as one text, its long texts cut if it is too large."""
        most = self.limits.whole_bytes
        if sum(map(len, pieces)) > most:
            self.cut.append(self.file)
        return whole(pieces, most)

    def elements(self, array: bytes | msgspec.Raw) -> Iterator[Piece]:
        """Yield each element of an array."""
        try:
            elements = self.tolerant(_ELEMENTS, array)
        except UNDECODABLE as error:
            raise self.damaged(error, bytes(array)) from None
        for number, element in enumerate(elements, start=1):
            yield number, bytes(element)

    def tolerant(self, decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> T:
        """Return the decoded value, where NaN is null if the format takes it."""
        try:
            return decoder.decode(raw)
        except msgspec.DecodeError:
            if not self.takes_nan:
                raise
            return decoder.decode(with_nulls(bytes(raw)))

    def decoded_whole(self, decoder: msgspec.json.Decoder[T], document: bytes) -> T:
        """Return a document; raise `UnreadableSource` for one of which nothing can be read."""
        try:
            return decoder.decode(document)
        except UNDECODABLE as error:
            raise self.damaged(error, document) from None

    def damaged(self, error: BaseException, document: bytes) -> UnreadableSource:
        """Return why nothing of a document can be read."""
        if self.seems is not None:
            return UnreadableSource(
                f"A file must be of the format that is named for it, but this one is {self.seems} ({self.file}).",
                next_step="Leave --format out and it is recognised.",
            )
        if isinstance(error, Excess):
            return UnreadableSource(
                f"A JSON document must be small enough to be decoded, but this one {error} ({self.file}).",
                next_step="Check what made it. Else split it, or write one record a line.",
            )
        return UnreadableSource(
            f"A JSON document must be whole, but this one {reason(error, document)} ({self.file}).",
            next_step="Copy or export it again.",
        )

    def check_parts(self, n_parts: int) -> None:
        """Raise `UnreadableSource` for sessions that take too much memory."""
        if n_parts > self.limits.parts:
            raise UnreadableSource(
                f"Sessions that are read together must have at most {self.limits.parts:,} parts, got more "
                f"({self.file}). A line is one part, a call three, a run ten, and a long text more.",
                next_step="Check what made it. Else split it, one session a file.",
            )

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Errors of the disk while the file is read, as ours."""
        try:
            yield
        except OSError as error:
            raise UnreadableSource(
                f"A file must be readable, got {error.strerror} ({self.file}).",
                next_step="Check the disk and import the file again.",
            ) from None

    def rejected(self, number: int, error: BaseException, raw: bytes) -> Rejected:
        return Rejected(file=self.file, line=number, reason=self._sentence(reason(error, raw), raw))

    def checked(self, number: int, piece: bytes | Damage) -> bytes | Rejected:
        """The piece, if it is strict UTF-8 JSON of bounded depth as a text; else why it is left out."""
        if isinstance(piece, Damage):
            return self._left_out(number, piece)
        try:
            self.check(piece)
        except UNDECODABLE as error:
            return self.rejected(number, error, piece)
        return with_nulls(piece) if self.takes_nan else piece

    def check(self, raw: bytes) -> None:
        """Raise `Flaw` for what is no strict JSON, or more of it than the limits allow."""
        check(raw, self.limits.depth, self.limits.elements)

    def _left_out(self, number: int, damage: Damage) -> Rejected:
        return Rejected(file=self.file, line=number, reason=f"The {damage.of} {damage.reason}.")

    def _sentence(self, why: str, raw: bytes) -> str:
        if why.endswith("."):
            return why  # our own records say what is wrong with them in a sentence
        if self.shape == "lines" and not raw.endswith(b"\n"):
            return f"The last line {why}; import the file again once it is complete."
        return f"It {why}."


@dataclass(frozen=True)
class Document:
    """The object that a file is, with an empty list ``listed`` if it ``is_large``."""

    reading: Reading
    listed: str
    raw: bytes
    is_large: bool
    depth: int = 1
    gaps: Sequence[bytes] = ()

    def parts(self) -> Iterator[Piece]:
        """Yield the object; a large one as several, each with some of the elements."""
        if not self.is_large:
            yield 1, self.raw
            return
        held, n_bytes, is_first = dict[int, list[bytes]](), 0, True
        for at, element in self.reading.numbered(self.listed, self.depth):
            if not element:
                yield 1, _TOO_LARGE
                continue
            held.setdefault(at, []).append(element)
            n_bytes += len(element)
            if n_bytes > self.reading.limits.line_bytes // 2:
                yield 1, self._with(held)
                held, n_bytes, is_first = {}, 0, False
        if held or is_first:
            yield 1, self._with(held)

    def _with(self, elements: Mapping[int, Sequence[bytes]]) -> bytes:
        return b"".join(gap + b",".join(elements.get(at, ())) for at, gap in enumerate(self.gaps))

    def fields(self) -> dict[str, msgspec.Raw]:
        """Fields of the object, all checked but the list of records, whose elements `records` checks one by one."""
        try:
            if self.is_large:
                self.reading.check(self.raw)
            fields = self.reading.tolerant(_FIELDS, self.raw)
            for name, value in fields.items():
                if name != self.listed:
                    self.reading.check(bytes(value))
        except UNDECODABLE as error:
            raise self.reading.damaged(error, self.raw) from None
        return fields

    def elements(self, fields: dict[str, msgspec.Raw] | None = None) -> Iterator[Piece]:
        """Yield the elements of the list."""
        if self.is_large:
            return self.reading.again(self.listed)
        fields = self.fields() if fields is None else fields
        return self.reading.elements(fields.get(self.listed, b"null"))


@dataclass(frozen=True, kw_only=True)
class Format:
    """A transcript format: how it is recognised by content, in which units it counts, how it is read."""

    name: str
    units: tuple[Unit, ...]
    """The first is the default; empty = every run names its own."""
    claims: Callable[[Head], bool]
    read: Callable[[Reading, Progress | None], Iterator[Entry]]
    sort: Callable[[Head, Path, str, SubAgentFiles], None] | None = None
    """Adds a file to those of sub-agents, or its session to those of other files."""
    takes_tools: bool = True
    names_domain: bool = False
    """Its records say which list of a ``--tools`` file by domain is theirs."""
    takes_nan: bool = False
    """Its programs write NaN for a value that is none."""
    is_document: bool = False
    """A file is one JSON object, on however many lines."""
    may_be_document: str | None = None
    """A file with this key whose first line is too long to be one is one JSON object."""
    reads_zips: bool = False
    """A file may be a zip that is one thing as a whole."""
