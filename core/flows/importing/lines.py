"""Lines: what files tell besides runs, kept until it is told; in a file of its own where there is much of it.

The first of them stay as they were read, which an episode with its steps was checked for at no small cost; what comes
out of the file is checked once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Final

import msgspec

from core.errors import InvalidInput
from core.records.ledger_lines import SaidLine

_AS_READ_BYTES: Final = 16 << 20
"""What lines that stay as they were read would take in the file; as records they take about thrice as much."""
_IN_MEMORY_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 4


class Line(msgspec.Struct, frozen=True, array_like=True):
    """A line, the file it is from and its stretch."""

    file: str
    stretch: int
    line: SaidLine


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Line)


class Lines:
    """Lines in their order: first all are added, then they are read, as often as they are told.

    >>> from core.records.ledger_lines import ArmLine
    >>> lines = Lines()
    >>> lines.add(Line("a.jsonl", 1, ArmLine(key="tool:fs:Read")))
    >>> lines.rewind()
    >>> list(lines.of(0)), [one.line.key for one in lines.of(1)]
    ([], ['tool:fs:Read'])
    >>> lines.close()
    """

    def __init__(self, *, as_read_bytes: int = _AS_READ_BYTES) -> None:
        self._kept = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES, prefix="armscope-")  # noqa: SIM115 - until `of`
        self._first: list[Line] = []
        self._room = as_read_bytes
        self._coming: Iterator[Line] = iter(())
        self._next: Line | None = None

    def add(self, line: Line) -> None:
        """Keep a line; no stretch comes after a later one."""
        told = _ENCODER.encode(line)
        self._room -= len(told)
        if self._room >= 0:
            self._first.append(line)
            return
        try:
            self._kept.write(len(told).to_bytes(_LENGTH_BYTES, "big") + told)
        except OSError as problem:
            raise InvalidInput(
                f"What a file tells must fit into the folder for temporary files, got: {problem.strerror}.",
                next_step="Make room there, or name another folder in TMPDIR; nothing was recorded.",
            ) from problem

    def rewind(self) -> None:
        """Go back to the first line, once all are added."""
        self._coming = self._all()
        self._next = next(self._coming, None)

    def of(self, stretch: int) -> Iterator[Line]:
        """The lines of a stretch, if those of the stretches before it have been read."""
        while self._next is not None and self._next.stretch == stretch:
            yield self._next
            self._next = next(self._coming, None)

    def close(self) -> None:
        """Forget them."""
        self._first, self._coming = [], iter(())
        self._kept.close()

    def _all(self) -> Iterator[Line]:
        yield from self._first
        self._kept.seek(0)
        while length := self._kept.read(_LENGTH_BYTES):
            yield _DECODER.decode(self._kept.read(int.from_bytes(length, "big")))
