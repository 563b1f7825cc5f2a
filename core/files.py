"""Files: the content of a file that a user names, checked before it is read, and within limits."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import IO, Final

from core.errors import ArmscopeError, InvalidInput

MAX_BYTES: Final = 16 << 20
STANDARD_INPUT: Final = Path("-")


def read_file(
    file: Path,
    what: str,
    *,
    max_bytes: int = MAX_BYTES,
    error: type[ArmscopeError] = InvalidInput,
    standard_input: IO[bytes] | None = None,
) -> bytes:
    """Return the content of a regular file, or of standard input for ``-``; at most so many bytes.

    >>> read_file(Path("/dev/zero"), "--arms")
    Traceback (most recent call last):
    core.errors.InvalidInput: --arms must name a regular file, got /dev/zero, which is a device. Name a file.
    """
    if file == STANDARD_INPUT:
        content = (standard_input or sys.stdin.buffer).read(max_bytes + 1)
    else:
        with open_file(file, what, error=error) as opened:
            content = opened.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise error(
            f"{what} must name a file of at most {max_bytes >> 20} MiB, got {file}, which is larger.",
            next_step="Check that it is the right file.",
        )
    return content


def open_file(file: Path, what: str, *, error: type[ArmscopeError] = InvalidInput) -> IO[bytes]:
    """Open a regular file to be read; a pipe without a writer does not block.

    Raises ``error`` for a missing, unreadable or irregular file.
    """
    check_file(file, what, error=error)
    try:
        return os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    except OSError as problem:
        raise _unreadable(file, what, problem, error) from problem


def check_file(file: Path, what: str, *, error: type[ArmscopeError] = InvalidInput) -> None:
    """Check that a regular file exists, else raise ``error``; a pipe or a device might never end."""
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError) as problem:  # ValueError: no path may hold a NUL
        raise _unreadable(file, what, problem, error) from problem
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device"
        raise error(
            f"{what} must name a regular file, got {file}, which is {kind}.", next_step="Name a file."
        )


def _unreadable(
    file: Path, what: str, problem: OSError | ValueError, error: type[ArmscopeError]
) -> ArmscopeError:
    why = problem.strerror if isinstance(problem, OSError) else str(problem)
    return error(
        f"{what} must name a file that can be read, got {file}: {why}.",
        next_step="Check its path and permissions.",
    )
