"""New file: a file that appears only when it is complete and on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from core.errors import InvalidInput
from core.store.files import opener, sync_names


@contextmanager
def new_file(target: Path) -> Iterator[IO[bytes]]:
    """Create a file that must not exist yet; it stays only if it is complete and on disk."""
    try:
        with open(target, "xb", opener=opener) as file, _whole_or_gone(file, target):
            yield file
    except FileExistsError as problem:
        raise InvalidInput(
            f"The export's file must not exist yet, got {target}.",
            next_step="Choose another name; nothing was overwritten.",
        ) from problem
    except OSError as problem:
        raise InvalidInput(
            f"The export can't be written to {target}: {problem.strerror or problem}.",
            next_step="Choose a folder you can write to.",
        ) from problem


@contextmanager
def _whole_or_gone(file: IO[bytes], target: Path) -> Iterator[None]:
    """Write a complete file to disk, and remove an incomplete one."""
    try:
        yield
        file.flush()
        os.fsync(file.fileno())
        sync_names(target.parent)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def observations_file(target: Path) -> Path:
    """Return the path of the observations that belong to an export of posteriors as CSV."""
    return target.with_name(f"{target.name.removesuffix('.csv')}.observations.csv")
