"""Lines of a file other than runs, queued until they are written; many of them wait in a temporary file.

The first lines stay decoded, because validating an episode with its steps is expensive. Lines from the temporary
file are validated again.
"""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Final

import msgspec

from core.errors import InvalidInput
from core.records.ledger_lines import ContentLine

_AS_READ_BYTES: Final = 16 << 20
"""Maximum encoded size of the decoded lines. As records they take about three times as much memory."""
_IN_MEMORY_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 4


class QueuedLine(msgspec.Struct, frozen=True, array_like=True):
    """A line, its file and its segment."""

    file: str
    segment: int
    line: ContentLine


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(QueuedLine)


class LineQueue:
    """Queue of lines in their order. All lines are added first, then read, more than once if an act is retried.

    >>> from core.records.ledger_lines import ArmLine
    >>> lines = LineQueue()
    >>> lines.add(QueuedLine("a.jsonl", 1, ArmLine(key="tool:fs:Read")))
    >>> lines.rewind()
    >>> list(lines.of(0)), [one.line.key for one in lines.of(1)]
    ([], ['tool:fs:Read'])
    >>> lines.close()
    """

    def __init__(self, *, as_read_bytes: int = _AS_READ_BYTES) -> None:
        self._spool = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES, prefix="armscope-")  # noqa: SIM115 - until `of`
        self._first: list[QueuedLine] = []
        self._room = as_read_bytes
        self._rest: Iterator[QueuedLine] = iter(())
        self._next: QueuedLine | None = None

    def add(self, line: QueuedLine) -> None:
        """Add a line. Segments must not decrease."""
        encoded = _ENCODER.encode(line)
        self._room -= len(encoded)
        if self._room >= 0:
            self._first.append(line)
            return
        try:
            self._spool.write(len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded)
        except OSError as problem:
            raise InvalidInput(
                f"The lines of a file must fit into the folder for temporary files, got: {problem.strerror}.",
                next_step="Make room there, or name another folder in TMPDIR; nothing was recorded.",
            ) from problem

    def rewind(self) -> None:
        """Go back to the first line, once all are added."""
        self._rest = self._all()
        self._next = next(self._rest, None)

    def of(self, segment: int) -> Iterator[QueuedLine]:
        """Yield the lines of a segment. The segments before it must have been read."""
        while self._next is not None and self._next.segment == segment:
            yield self._next
            self._next = next(self._rest, None)

    def close(self) -> None:
        """Delete the lines."""
        self._first, self._rest = [], iter(())
        self._spool.close()

    def _all(self) -> Iterator[QueuedLine]:
        yield from self._first
        self._spool.seek(0)
        while length := self._spool.read(_LENGTH_BYTES):
            yield _DECODER.decode(self._spool.read(int.from_bytes(length, "big")))
