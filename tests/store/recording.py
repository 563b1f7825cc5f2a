"""What SQLite asks of the disk, in order.

The recorder registers a copy of SQLite's file system, whose writing calls are noted and then passed on, as the
default of the very library that the standard driver uses. So nothing of the product is replaced, and no
compiler or package is needed. It stays for the rest of the process: only children do it.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

FileNo = int

_Noted = Callable[..., int]

_DURABLE_KINDS = 0x100 | 0x800 | 0x4000 | 0x80000
"""Open flags of a database, its journal, a journal over several files, and its log; the rest is temporary."""

_File = ctypes.c_void_p
_Path = ctypes.c_void_p
"""Passed on as the address it came as: SQLite keeps it for as long as the file is open."""
_Open = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, _Path, _File, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
)
_Delete = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _Path, ctypes.c_int)
_WriteCall = ctypes.CFUNCTYPE(ctypes.c_int, _File, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_TruncateCall = ctypes.CFUNCTYPE(ctypes.c_int, _File, ctypes.c_int64)
_SyncCall = ctypes.CFUNCTYPE(ctypes.c_int, _File, ctypes.c_int)
_OpenFolder = ctypes.CFUNCTYPE(ctypes.c_int, _Path, ctypes.POINTER(ctypes.c_int))
_SetCall = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_GetCall = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


class Write(NamedTuple):
    file: FileNo
    offset: int
    data: bytes


class Truncate(NamedTuple):
    file: FileNo
    size: int


class Sync(NamedTuple):
    """What was done to a file before this is on disk."""

    file: FileNo


class Name(NamedTuple):
    """A name in the folder now means this file; None = it is gone."""

    name: str
    file: FileNo | None


class SyncFolder(NamedTuple):
    """The names are on disk."""


class Told(NamedTuple):
    """Something the product answered; all before it was promised to be on disk."""

    answer: object


Step = Write | Truncate | Sync | Name | SyncFolder | Told


class _FileSystem(ctypes.Structure):
    """sqlite3_vfs, version 3."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("max_path", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("open", _Open),
        ("delete", _Delete),
        ("others", ctypes.c_void_p * 11),  # from xAccess to xCurrentTimeInt64
        ("set_call", _SetCall),
        ("get_call", _GetCall),
        ("next_call", ctypes.c_void_p),
    )


class _Methods(ctypes.Structure):
    """sqlite3_io_methods, version 2: without memory maps, so that every write passes here."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("close", ctypes.c_void_p),
        ("read", ctypes.c_void_p),
        ("write", _WriteCall),
        ("truncate", _TruncateCall),
        ("sync", _SyncCall),
        ("others", ctypes.c_void_p * 11),  # from xFileSize to xShmUnmap
    )


class Recorder:
    """Notes what is asked of the files of one folder at a time."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._folder = ""
        self._names: dict[str, FileNo] = {}
        self._n_files = 0
        self._open_files: dict[int, FileNo] = {}
        self._methods: dict[int, _Methods] = {}
        self._kept: list[object] = []
        self._register(shared_library())

    def begin(self, folder: Path) -> dict[str, tuple[FileNo, bytes]]:
        """Start a new recording; the files that are there, which count as being on disk."""
        self.steps = []
        self._folder = f"{os.path.realpath(folder)}/"
        self._names = {}
        found: dict[str, tuple[FileNo, bytes]] = {}
        for path in sorted(folder.iterdir()):
            if path.suffix == ".db" or path.name.endswith(("-wal", "-journal")):
                found[path.name] = (self._file_named(path.name), path.read_bytes())
        return found

    def tell(self, answer: object) -> None:
        """Note that the product has answered."""
        self.steps.append(Told(answer))

    def _file_named(self, name: str) -> FileNo:
        self._n_files += 1
        self._names[name] = self._n_files
        return self._n_files

    def _register(self, library: ctypes.CDLL) -> None:
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_FileSystem)
        real = library.sqlite3_vfs_find(None).contents
        assert real.version >= 3
        noting = _FileSystem.from_buffer_copy(real)
        noting.name = b"noting"
        noting.open = _Open(self._noted_open(real))
        noting.delete = _Delete(self._noted_delete(real))
        open_folder = _OpenFolder(self._noted_open_folder(real))
        real.set_call(ctypes.addressof(real), b"openDirectory", ctypes.cast(open_folder, ctypes.c_void_p))
        self._kept += [library, real, noting, open_folder]
        assert library.sqlite3_vfs_register(ctypes.byref(noting), 1) == sqlite3.SQLITE_OK

    def _noted_open(self, real: _FileSystem) -> _Noted:
        def noted(system: int, path: int | None, file: int, flags: int, out: object) -> int:
            name = self._name(path) if flags & _DURABLE_KINDS else None
            code: int = real.open(system, path, file, flags, out)
            if name is not None and code == sqlite3.SQLITE_OK:
                if name not in self._names:  # made now, or by the product a moment ago, for its owner alone
                    self.steps.append(Name(name, self._file_named(name)))
                self._open_files[file] = self._names[name]
                self._listen(file)
            return code

        return noted

    def _listen(self, file: int) -> None:
        """Give an open file methods that note; one set for each kind of file that SQLite has."""
        place = ctypes.c_void_p.from_address(file)
        assert place.value is not None
        if place.value not in self._methods:
            real = _Methods.from_address(place.value)
            noting = _Methods.from_buffer_copy(real)
            noting.version = 2
            noting.write = _WriteCall(self._noted_write(real))
            noting.truncate = _TruncateCall(self._noted_truncate(real))
            noting.sync = _SyncCall(self._noted_sync(real))
            self._methods[place.value] = noting
        place.value = ctypes.addressof(self._methods[place.value])

    def _noted_write(self, real: _Methods) -> _Noted:
        def noted(file: int, data: int, size: int, offset: int) -> int:
            self.steps.append(Write(self._open_files[file], offset, ctypes.string_at(data, size)))
            code: int = real.write(file, data, size, offset)
            return code

        return noted

    def _noted_truncate(self, real: _Methods) -> _Noted:
        def noted(file: int, size: int) -> int:
            self.steps.append(Truncate(self._open_files[file], size))
            code: int = real.truncate(file, size)
            return code

        return noted

    def _noted_sync(self, real: _Methods) -> _Noted:
        def noted(file: int, flags: int) -> int:
            code: int = real.sync(file, flags)
            if code == sqlite3.SQLITE_OK:
                self.steps.append(Sync(self._open_files[file]))
            return code

        return noted

    def _noted_delete(self, real: _FileSystem) -> _Noted:
        def noted(system: int, path: int, sync_folder: int) -> int:
            name = self._name(path)
            if name is not None and name in self._names:
                self.steps.append(Name(name, None))
                del self._names[name]
            code: int = real.delete(system, path, sync_folder)
            return code

        return noted

    def _noted_open_folder(self, real: _FileSystem) -> _Noted:
        """SQLite opens a folder for one purpose only: to have its names on disk."""
        call = ctypes.cast(real.get_call(ctypes.addressof(real), b"openDirectory"), _OpenFolder)

        def noted(path: int, out: object) -> int:
            code: int = call(path, out)
            if code == sqlite3.SQLITE_OK and self._name(path) is not None:
                self.steps.append(SyncFolder())
            return code

        return noted

    def _name(self, path: int | None) -> str | None:
        """A file's name in the folder that is recorded."""
        full = "" if path is None else os.fsdecode(ctypes.string_at(path))
        return full.removeprefix(self._folder) if full.startswith(self._folder) else None


def shared_library() -> ctypes.CDLL:
    """The SQLite that the standard driver uses; raises `LookupError` where it can't be reached."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    for path in dict.fromkeys(line.split(maxsplit=5)[-1] for line in lines if "sqlite3" in line):
        try:
            library = ctypes.CDLL(path)
            _ = library.sqlite3_vfs_register
        except (OSError, AttributeError):
            continue
        library.sqlite3_libversion.restype = ctypes.c_char_p
        if library.sqlite3_libversion() == sqlite3.sqlite_version.encode():
            return library
    raise LookupError("the standard sqlite3 driver has its SQLite built in, not as a library that is shared")
