"""Spool: content without a file of its own, from a pipe or an archive, → a file in a private folder.

Names are foreign text: they show which files belong together. Only plain ones become names here, so that a file lies
beside the same files as in its archive; others are numbered. The folder is removed after the reading.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import IO, Final, NamedTuple, Self

from core.errors import UnreadableSource
from core.formats.archive import ZIP_MAGIC, Archive, Stream, members
from core.formats.entries import MIB, Limits
from core.formats.heads import is_binary
from core.formats.stream import Bytes, Damage

STANDARD_INPUT: Final = "standard input"
_ENDINGS: Final = (".openclaw.txt.gz", ".openclaw.txt", ".jsonl.gz", ".jsonl")
"""Endings that mark files that belong together: a report beside its session."""
_PLAIN: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,63}")
"""Names that can be kept: of lower case, because some file systems do not distinguish cases."""
_MAX_LEVELS: Final = 24
_STANDARD: Final = ("-", "/dev/stdin", "/dev/fd/0")
_FIRST_BYTES: Final = 64 << 10
_MAX_MEMBERS: Final = 100_000


class Spooled(NamedTuple):
    """A file that was put here, and what it is called."""

    path: Path
    file: str


class Spool:
    """A private folder, made when something is put into it; use it in a ``with``."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._folder: TemporaryDirectory[str] | None = None
        self._stems: dict[str, int] = {}
        self._ids: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete all that was put here."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def folder(self) -> Path:
        """The private folder."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="armscope-")
        return Path(self._folder.name)

    def path_for(self, name: str) -> Path:
        """Return a path for a file of this name, beside those of its folder. Equal names get different folders."""
        parts = name.split("/")
        near, far = parts[:-1][:_MAX_LEVELS], parts[:-1][_MAX_LEVELS:]
        ending = next((one for one in _ENDINGS if name.endswith(one)), "")
        folders = [*map(self._plain, near), *([self._numbered("/".join(far))] if far else ())]
        folder = self.folder.joinpath(f"{self._ids[name]:04d}", *folders)
        path = folder / self._plain(parts[-1], ending)
        self._ids[name] += 1
        with suppress(FileExistsError, NotADirectoryError):
            folder.mkdir(parents=True, exist_ok=True)
            if not path.is_dir():
                return path
        return self.folder / self._numbered(name + ending, ending)  # one name is a file and a folder

    def _plain(self, name: str, ending: str = "") -> str:
        return name if _PLAIN.fullmatch(name) else self._numbered(name, ending)

    def _numbered(self, name: str, ending: str = "") -> str:
        return f"~{self._stems.setdefault(name.removesuffix(ending), len(self._stems)):06d}{ending}"

    def pipe(self, path: Path) -> Spooled:
        """All that comes through standard input, or another pipe, until it is closed."""
        file = STANDARD_INPUT if str(path) in _STANDARD else str(path)
        with (
            self._report_errors(file),
            self._opened(path) as content,
            self.path_for(file).open("wb") as target,
        ):
            first = content.read(_FIRST_BYTES)
            if is_binary(first):  # what never ends is not waited for
                raise UnreadableSource(
                    f"What comes through a pipe must be text, or packed as files may be, but this begins with other "
                    f"binary data ({file}).",
                    next_step="Check what is sent.",
                )
            target.write(first)
            self._copy(content, target, file, len(first))
        return Spooled(Path(target.name), file)

    def unpack(
        self, path: Path, file: str, *, is_zip: bool, is_read: Callable[[str], bool]
    ) -> Iterator[Spooled]:
        """The files of a tar, or of a zip, whose names are ``is_read``, one by one; the caller deletes what it has no
        use for.
        """
        with self._report_errors(file):
            yield from (self._of_zip if is_zip else self._of_tar)(path, file, is_read)

    def _opened(self, path: Path) -> IO[bytes] | nullcontext[IO[bytes]]:
        return nullcontext(sys.stdin.buffer) if str(path) in _STANDARD else path.open("rb", buffering=0)

    def _of_tar(self, path: Path, file: str, is_read: Callable[[str], bool]) -> Iterator[Spooled]:
        with Bytes(path, file, self._limits) as content:
            for number, member in enumerate(members(content), start=1):
                self._count(number, file)
                if not is_read(member.name):
                    continue
                yield self._put(member, f"{file}/{shown_name(member.name)}")
                if not member.is_whole:
                    raise self._broken(file, "ends in the middle")
            if content.damage is not None:
                raise self._broken(file, content.damage)

    def _of_zip(self, path: Path, file: str, is_read: Callable[[str], bool]) -> Iterator[Spooled]:
        with path.open("rb") as raw:
            if raw.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
                raise self._broken(file, "is compressed once more as a whole")
        with Archive(path, file, self._limits) as archive:
            for number, name in enumerate(archive.names, start=1):
                self._count(number, file)
                if name.endswith("/") or not is_read(name):
                    continue
                target_path = self.path_for(f"{file}/{name}")
                with target_path.open("wb") as target:
                    copied = archive.copy(name, target)
                if isinstance(copied, Damage):
                    raise self._broken(file, f"has an entry that {copied.reason} ({name[:60]!a})")
                yield Spooled(target_path, f"{file}/{shown_name(name)}")

    def _put(self, content: Stream, name: str) -> Spooled:
        path = self.path_for(name)
        with path.open("wb") as target:
            self._copy(content, target, name)
        return Spooled(path, name)

    def _copy(self, content: Stream, target: IO[bytes], file: str, n_bytes: int = 0) -> None:
        while piece := content.read(MIB):
            n_bytes += len(piece)
            if n_bytes > self._limits.inflated_bytes:
                most = self._limits.inflated_bytes // MIB
                raise UnreadableSource(
                    f"A pipe or an archive may hold at most {most} MiB, got more ({file}).",
                    next_step="Allow more with --max if you trust it.",
                )
            target.write(piece)

    @staticmethod
    def _count(number: int, file: str) -> None:
        if number > _MAX_MEMBERS:
            raise UnreadableSource(
                f"An archive may hold at most {_MAX_MEMBERS:,} files, got more ({file}).",
                next_step="Unpack it, and import the folder.",
            )

    @staticmethod
    def _broken(file: str, what: str) -> UnreadableSource:
        return UnreadableSource(
            f"An archive must be whole and as it was made, but this one {what} ({file}).",
            next_step="Copy it again from where it came, or unpack it and import the folder; nothing of it was read.",
        )

    @contextmanager
    def _report_errors(self, file: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnreadableSource(
                f"What is read must fit into the folder for temporary files, and be readable, got: {error.strerror} "
                f"({file}).",
                next_step=f"Make room in {gettempdir()}, or unpack it where there is room.",
            ) from None


def shown_name(name: str) -> str:
    """A foreign name for a report: text, on one line, of bounded length.

    >>> shown_name("a" + chr(10) + "b.jsonl")
    'a b.jsonl'
    """
    text = name.encode("utf-8", "replace").decode()
    shown = "".join(char if char.isprintable() else " " for char in text)[:200]
    return shown if shown.strip() else "file without a name"


def is_pipe(path: Path) -> bool:
    """Return whether a named path is read once, from front to back: ``-``, a fifo, a terminal."""
    try:
        return str(path) in _STANDARD[:1] or (path.exists() and (path.is_fifo() or path.is_char_device()))
    except (OSError, ValueError):  # no name of a file: opening it reports the error
        return False
