"""Files that armscope makes: readable by their owner alone, and present only when complete."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import randbits
from typing import Final

from filelock import lock_descriptor

from core.errors import StoreUnusable
from core.settings import Located, Server

_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "ceph", "glusterfs", "lustre", "fuse.sshfs"}
)
_FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077
_PARTIAL: Final = re.compile(r"\.armscope-partial-\d+-[0-9a-f]{8}")


@contextmanager
def appearing(target: Path, *, replacing: bool = False) -> Iterator[Path]:
    """Yield a temporary file that gets its own name when it is complete and on disk.

    It replaces a file only on request. Incomplete files of killed processes in the folder are deleted first: each
    process locks its own while it lives. Raises `FileExistsError` where the name was taken meanwhile, and other
    `OSError` where the folder or file can't be made.
    """
    make_folder(target.parent)
    _sweep(target.parent)
    partial = target.with_name(f".armscope-partial-{os.getpid()}-{randbits(32):08x}")
    handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    try:
        lock_descriptor(handle, blocking=False)
        yield partial
        sync_file(partial)
        if replacing:
            partial.replace(target)
        else:
            _name(partial, target)
        sync_names(target.parent)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        os.close(handle)


def _name(partial: Path, target: Path) -> None:
    """Give a file its name; unlike a rename, a link refuses to replace a file that appeared meanwhile."""
    try:
        os.link(partial, target)
    except OSError as problem:  # a memory stick, say, knows no links
        if problem.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS} or os.path.lexists(target):
            raise
        partial.rename(target)


def _sweep(folder: Path) -> None:
    """Delete files without a living writer."""
    for left in folder.iterdir():
        if not _PARTIAL.fullmatch(left.name):
            continue
        with suppress(OSError):
            handle = os.open(left, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                if lock_descriptor(handle, blocking=False):
                    left.unlink(missing_ok=True)
            finally:
                os.close(handle)


def make_file(path: Path, *, like: Path | None = None) -> None:
    """Make an empty file with the permissions of its owner alone, or of another file; an existing one stays."""
    with suppress(FileExistsError):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        try:
            if like is not None:
                with suppress(OSError):  # there may be nothing that it could be like
                    os.fchmod(handle, like.stat().st_mode & 0o666)
        finally:
            os.close(handle)


def is_open_to_others(path: Path) -> bool:
    """Return whether other users of this machine may read or write the file."""
    try:
        return path.stat().st_mode & _OTHERS != 0
    except OSError:
        return False


def files_of(path: Located) -> list[Path]:
    """The files of a database that are there: itself, its log and what goes with it; none where a server keeps it."""
    if isinstance(path, Server):
        return []
    return [
        one for end in ("", "-wal", "-shm", ".lock", ".lock.turn") if (one := Path(f"{path}{end}")).exists()
    ]


def make_folder(folder: Path) -> None:
    """Make a folder, and those missing above it, for their owner alone; their names are on disk afterwards."""
    missing = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # says what is wrong with what is there
    for one in missing:
        sync_names(one.parent)


def sync_names(folder: Path) -> None:
    """Have the names in a folder on disk, where the file system can: a file synced alone may still lose its name."""
    with suppress(OSError):
        sync_file(folder)


def sync_file(path: Path) -> None:
    """Have what a file holds on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_network(path: Path, mounts: Path = Path("/proc/mounts")) -> None:
    """Raise `StoreUnusable` if ``path`` lies on a network file system, whose locks can't be trusted."""
    if not mounts.exists():
        return
    folder = path.absolute().parent.resolve()
    best, kind = "", ""
    for line in mounts.read_text(errors="replace").splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = fields[1].replace("\\040", " ")
        if len(mount) >= len(best) and folder.is_relative_to(mount):
            best, kind = mount, fields[2]
    if kind in _NETWORK_FILE_SYSTEMS:
        raise StoreUnusable(
            f"The database must be on a local disk, got {path} on a network file system ({kind}), "
            "where file locks don't hold and acknowledged writes can be lost.",
            next_step="Name a file on a local disk with --database.",
        )
