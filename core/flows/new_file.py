"""New file: a file that appears only when it is complete and on disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from core.errors import InvalidInput
from core.store.files import appearing


@contextmanager
def new_file(target: Path) -> Iterator[IO[bytes]]:
    """Create a file that must not exist yet. A killed process leaves no file of that name."""
    try:
        _check(target)
        with appearing(target) as partial, partial.open("wb") as file:
            yield file
            file.flush()
    except FileExistsError as problem:
        raise InvalidInput(
            f"The file must not exist yet, got {target}.",
            next_step="Choose another name; nothing was overwritten.",
        ) from problem
    except OSError as problem:
        raise InvalidInput(
            f"The file can't be written to {target}: {problem.strerror or problem}.",
            next_step="Choose a folder you can write to.",
        ) from problem


def _check(target: Path) -> None:
    """Raise early where the target exists, or its folder does not."""
    if os.path.lexists(target):
        raise FileExistsError
    if not target.parent.is_dir():
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))


def observations_file(target: Path) -> Path:
    """Return the path of the observations that belong to an export of posteriors as CSV."""
    return target.with_name(f"{target.name.removesuffix('.csv')}.observations.csv")
