"""Progress: one line on a terminal with the progress of a long command, redrawn a few times a second.

The command reports as often as it likes: between two redraws a report costs one read of the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Final, TextIO

from core.doors.terminal import printable

EVERY_S: Final = 0.25
_ESTIMATED_AFTER_S: Final = 1.0
"""Before this the start does not predict the duration."""
_BAR_CHARS: Final = 20
_CLEARED: Final = "\r\x1b[K"


class Bar:
    r"""The line itself; ``clock`` counts seconds, ``columns`` says how many characters fit at the moment.

    >>> import io
    >>> shown, seconds = io.StringIO(), iter([0.0, 0.1, 2.0])
    >>> bar = Bar(shown, clock=lambda: next(seconds), columns=lambda: 80)
    >>> bar.show(10, 100, lambda: "10 of 100 runs")  # too soon
    >>> bar.show(40, 100, lambda: "40 of 100 runs")
    >>> shown.getvalue()
    '\r\x1b[K[########............] 40 of 100 runs, about 3 s'
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        columns: Callable[[], int] = lambda: get_terminal_size().columns,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._columns = columns
        self._began_s = self._shown_s = clock()
        self._is_shown = False

    def show(self, done: float, total: float, words: Callable[[], str], *, at: str = "") -> None:
        """Redraw the line if it is time: the share, the words, the estimated rest, and the position."""
        now_s = self._clock()
        if now_s - self._shown_s < EVERY_S:
            return
        self._shown_s = now_s
        share = min(done / total, 1.0) if total > 0 else 0.0
        n_full = int(share * _BAR_CHARS)
        bar = "#" * n_full + "." * (_BAR_CHARS - n_full)
        line = printable(f"[{bar}] {words()}{_left(now_s - self._began_s, share)}{at and f': {at}'}")
        # One column stays free: a full line would go on in the next, and could not be taken back.
        self._write(_CLEARED + line[: max(self._columns() - 1, 0)])
        self._is_shown = True

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._is_shown:
            self._write(_CLEARED)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


@contextmanager
def progress_bar(*, enabled: bool) -> Iterator[Bar | None]:
    """A bar where a person sees it: on a terminal, unless the command is to be quiet or to answer a program."""
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    bar = Bar(sys.stderr)
    try:
        yield bar
    finally:
        bar.clear()


def counted(bar: Bar | None, noun: str) -> Callable[[int, int], None] | None:
    """Return a callback for the numbers of done and of all things; None without a bar.
    >>> counted(None, "runs") is None
    True
    """
    if bar is None:
        return None
    return lambda done, total: bar.show(done, total, lambda: f"{done:,} of {total:,} {noun}")


def _left(gone_s: float, share: float) -> str:
    """
    >>> _left(0.5, 0.1), _left(4.0, 0.8), _left(60.0, 0.25)
    ('', ', about 1 s', ', about 3 min')
    """
    if gone_s < _ESTIMATED_AFTER_S or share <= 0:
        return ""
    left_s = gone_s * (1 - share) / share
    return f", about {max(round(left_s), 1)} s" if left_s < 100 else f", about {left_s / 60:.0f} min"
