"""Plans, writes, records and undos of edits in the settings files of agents.

A file is written only if it is still the one that the plan was made from. The new content goes to a temporary file
in the same folder, which then takes the file's name. So a kill at any step leaves the old file or the new one. Links
and files that are not regular are refused. A record has the paths of keys and our own values; it has nothing else of
the file but digests.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from core.errors import ArmscopeError, Conflict, InvalidInput, NotApplicable
from core.installed import json_text, toml_text
from core.installed.json_text import Edit, Edited, Span, canonical, reverted, same, shown_keys
from core.secrecy import masked

if sys.platform != "win32":
    import fcntl

_MOST_BYTES: Final = 4 << 20
_NEW_MODE: Final = 0o600
_AGAIN: Final = "Look at the edit again."
_BY_HAND: Final = "Edit the file by hand."


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """An edit of a file as it is recorded: enough to take it back, and nothing of the file's other values.

    ``before`` and ``after`` are digests of the content; ``before`` is None where there was no file. ``spans`` take
    back the edit of an unchanged file, ``back`` that of a file which others have changed since. ``marks`` has short
    digests of the other keys and their values, with a salt: by them an undo names the keys that others changed.
    """

    path: str
    before: str | None
    after: str
    spans: tuple[Span, ...]
    back: tuple[Edit, ...]
    salt: str
    marks: dict[str, str]


class Plan(NamedTuple):
    """An edit of a file that is not written yet.

    ``text`` is the content to write, None to take the file out. ``shown`` are the lines for a person. ``left`` are
    paths of ours that others changed since: an undo leaves them. ``others`` are further changes that an undo keeps.
    """

    path: Path
    before: str | None
    text: str | None
    shown: tuple[str, ...]
    change: FileChange | None = None
    left: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Edits that were made together: when, by what, and when they were taken back."""

    number: int
    kind: str
    at_ms: int
    changes: tuple[FileChange, ...]
    undone_ms: int | None = None


def planned(path: Path, edits: Sequence[Edit]) -> Plan | None:
    """Return the plan of some edits of a settings file; None if they are all made already."""
    content = _read(path)
    text = _text(path, content)
    result = _edited(path, text, edits)
    if not result.spans:
        return None
    _encoded(result.text)
    if reverted(result.text, result.spans) != text:
        raise NotApplicable(f"The edit of {path} has no inverse.", next_step=_BY_HAND)
    salt = secrets.token_hex(16)
    change = FileChange(
        path=str(path),
        before=None if content is None else _digest(content),
        after=_digest(_encoded(result.text)),
        spans=result.spans,
        back=result.back,
        salt=salt,
        marks={name: mark for name, mark, _ in _marks(values_of(path, result.text), result.back, salt)},
    )
    return Plan(path, change.before, result.text, tuple(_shown(result)), change)


class SettingsFiles:
    """Values in settings files, each read once: thousands of edits may ask for one file."""

    def __init__(self) -> None:
        self._values: dict[Path, dict[str, Any]] = {}
        self._present: dict[tuple[Path, tuple[str, ...]], frozenset[str]] = {}

    def have(self, path: Path, edit: Edit) -> bool:
        """Return whether a file has what an edit sets or adds; False for a file that can't be read."""
        if path not in self._values:
            try:
                self._values[path] = values_of(path, _text(path, _read(path)))
            except ArmscopeError:
                self._values[path] = {}
        key = path, edit.keys
        if key not in self._present:
            is_there, value = _at(self._values[path], edit.keys)
            values = value if edit.action == "add" and isinstance(value, list) else [value]
            self._present[key] = frozenset(map(canonical, values)) if is_there else frozenset()
        return canonical(edit.value) in self._present[key]


def undone(change: FileChange) -> Plan | None:
    """Return the plan that takes an edit back; None if there is nothing to take back.

    The file gets its old content bit for bit if nothing else changed. Otherwise only our keys are taken back.
    """
    path = Path(change.path)
    content = _read(path)
    now = None if content is None else _digest(content)
    if content is None or now == change.before:
        return None
    text = _text(path, content)
    if now == change.after:
        before = None if change.before is None else reverted(text, change.spans)
        return Plan(path, now, before, tuple(_shown(_edited(path, text, change.back))))
    values = values_of(path, text)
    result = _edited(path, text, [one for one in change.back if _is_ours(values, one)])
    left = [*(one for one in change.back if not _is_ours(values, one)), *result.skipped]
    return Plan(
        path,
        now,
        result.text,
        tuple(_shown(result)),
        left=tuple(shown_keys(one.keys) for one in left),
        others=tuple(_others(values, change)),
    )


def write(plan: Plan) -> None:
    """Write a plan; it is refused if the file changed since."""
    with _opened_folder(plan.path) as folder:
        name = plan.path.name
        state = _stat(folder, plan.path)
        _check_same(folder, plan)
        if plan.text is None:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
            return
        temporary = f".{name}.armscope"
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)  # of a process that was killed
        try:
            _fill(folder, temporary, _encoded(plan.text), state)
            _check_same(folder, plan)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)


def _fill(folder: int, name: str, content: bytes, state: os.stat_result | None) -> None:
    """Write a new file with the mode and the owner of the one that it replaces."""
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _NEW_MODE, dir_fd=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        if state is not None:
            own = os.fstat(handle)
            if (own.st_uid, own.st_gid) != (state.st_uid, state.st_gid):
                os.fchown(handle, state.st_uid, state.st_gid)
            os.fchmod(handle, stat.S_IMODE(state.st_mode))
        file.flush()
        os.fsync(handle)


# Records


def make(plans: Sequence[Plan], kind: str, folder: Path, now_ms: int) -> Record:
    """Write some plans and record them first, so that an undo finds what a kill left half done.

    Where a file can't be written, those before it are taken back.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for plan in plans:
        with _opened_folder(plan.path) as opened:
            _check_same(opened, plan)
    number = max((one.number for one in records(folder)), default=0) + 1
    changes = tuple(plan.change for plan in plans if plan.change is not None)
    record = Record(number=number, kind=kind, at_ms=now_ms, changes=changes)
    _save(folder, record)
    try:
        for plan in plans:
            write(plan)
    except BaseException:
        for change in changes:
            if (back := undone(change)) is not None:
                write(back)
        _record_path(folder, number).unlink()
        raise
    return record


def take_back(record: Record, plans: Sequence[Plan], folder: Path, now_ms: int) -> None:
    """Write the plans that take a record back, and note the time in the record."""
    for plan in plans:
        write(plan)
    _save(folder, msgspec.structs.replace(record, undone_ms=now_ms))


def records(folder: Path) -> list[Record]:
    """Return the records in a folder by their numbers."""
    paths = sorted(folder.glob("[0-9]*.json")) if folder.is_dir() else []
    return [_loaded(path) for path in paths]


def _loaded(path: Path) -> Record:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise InvalidInput(
            f"A record of edits must be readable, and {path} is not.",
            next_step="Move it to another folder. Its edits then have no undo.",
        ) from problem


def _record_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.json"


def _save(folder: Path, record: Record) -> None:
    path = _record_path(folder, record.number)
    content = _read(path)
    is_new = record.undone_ms is None
    if is_new and content is not None:
        raise Conflict("Another edit was recorded at the same time.", next_step=_AGAIN)
    text = msgspec.json.encode(record).decode()
    write(Plan(path, None if content is None else _digest(content), text, ()))


# Files


@contextmanager
def _opened_folder(path: Path) -> Iterator[int]:
    """Open the folder of a file, with a lock against other edits by this program."""
    if sys.platform == "win32":
        raise NotApplicable("Settings files can't be edited on Windows.", next_step=_BY_HAND)
    try:
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)
    except OSError as problem:
        what = (
            "be in a folder that is no link" if path.parent.is_symlink() else "be a file that can be edited"
        )
        raise NotApplicable(
            f"{path} must {what}: {problem.strerror}.", next_step="Check the file and its folder."
        ) from problem


def _stat(folder: int, path: Path) -> os.stat_result | None:
    """Return the state of a file in a folder, None if there is none; what is not plain is refused."""
    try:
        state = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except OSError as problem:
        if problem.errno == errno.ENOENT:
            return None
        raise
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFREG: ""}
    kind = kinds.get(stat.S_IFMT(state.st_mode), "a device or a pipe")
    if not kind and state.st_nlink > 1:
        kind = "a file with a second name"
    if not kind and not state.st_mode & 0o200:
        kind = "read-only"
    if not kind and state.st_size > _MOST_BYTES:
        kind = f"larger than {_MOST_BYTES >> 20} MiB"
    if kind:
        raise NotApplicable(f"{path} must be a plain file to be edited, and is {kind}.", next_step=_BY_HAND)
    return state


def _content(folder: int, path: Path) -> bytes | None:
    if _stat(folder, path) is None:
        return None
    handle = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        return file.read(_MOST_BYTES + 1)


def _read(path: Path) -> bytes | None:
    with _opened_folder(path) as folder:
        return _content(folder, path)


def _check_same(folder: int, plan: Plan) -> None:
    content = _content(folder, plan.path)
    if (None if content is None else _digest(content)) != plan.before:
        raise Conflict(f"{plan.path} changed since the preview. Nothing was written to it.", next_step=_AGAIN)


def _text(path: Path, content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as problem:
        raise InvalidInput(
            f"{path} must be UTF-8; byte {problem.start} is not.", next_step=_BY_HAND
        ) from None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("A name in an edit must be Unicode, and one is not.", next_step=_BY_HAND) from None


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


# Values


def _at(values: object, keys: Sequence[str]) -> tuple[bool, Any]:
    for key in keys:
        if not isinstance(values, dict) or key not in values:
            return False, None
        values = values[key]
    return True, values


def _edited(path: Path, text: str, edits: Sequence[Edit]) -> Edited:
    if path.suffix == ".toml":
        return toml_text.edited(text, edits)
    return json_text.edited(text, edits, is_json5=path.name in json_text.JSON5_FILES)


def values_of(path: Path, text: str) -> dict[str, Any]:
    """Return the values in the text of a settings file: TOML, JSON5, or JSON with comments, by the file's name."""
    if path.suffix == ".toml":
        return toml_text.parsed(text)
    return json_text.parsed(text, is_json5=path.name in json_text.JSON5_FILES)


def _is_ours(values: Mapping[str, Any], back: Edit) -> bool:
    """Return whether the path of an edit still has the value that the edit left."""
    is_there, value = _at(values, back.keys)
    if back.action == "unset":
        return is_there and same(value, back.value)
    if back.action == "remove":
        return isinstance(value, list) and any(same(one, back.value) for one in value)
    return not is_there if not back.over else is_there and same(value, back.over[0])


def _shown(result: Edited) -> Iterator[str]:
    """Yield the lines of an edit, read from its inverse: only our own keys and values are in them."""
    for one in reversed(result.back):
        keys, value = shown_keys(one.keys), f"{canonical(one.value)}"
        if one.action in {"unset", "remove"}:
            yield f"+ {keys}{' has' if one.action == 'remove' else ' ='} {value}"
            continue
        yield f"- {keys}{' has' if one.action == 'add' else ' ='} {value}"
        if one.over:
            yield f"+ {keys} = {canonical(one.over[0])}"


def _marks(values: Mapping[str, Any], back: Sequence[Edit], salt: str) -> Iterator[tuple[str, str, str]]:
    """Yield digests of each key that is not ours and of its value, and the key's path in words.

    The digests are short: so they do not confirm a guess at a value.
    """
    ours: dict[tuple[str, ...], list[Any]] = {}
    for one in back:
        ours.setdefault(one.keys, []).append(one.value)
    for keys, value in _not_ours(values, (), ours):
        yield _mark(salt, keys), _mark(salt, value), masked(shown_keys(keys))


def _not_ours(
    values: Mapping[str, Any], above: tuple[str, ...], ours: Mapping[tuple[str, ...], Sequence[Any]]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        keys = (*above, name)
        if keys in ours:
            if isinstance(value, list):
                yield keys, [one for one in value if not any(same(one, own) for own in ours[keys])]
        elif isinstance(value, dict) and any(one[: len(keys)] == keys for one in ours):
            yield from _not_ours(value, keys, ours)
        else:
            yield keys, value


def _mark(salt: str, value: object) -> str:
    return blake2b(canonical(value).encode(), digest_size=3, key=salt.encode()).hexdigest()


def _others(values: Mapping[str, Any], change: FileChange) -> Iterator[str]:
    """Yield the changes of a file, since an edit of ours, that are not ours."""
    known = dict(change.marks)
    is_same = True
    for name, mark, words in _marks(values, change.back, change.salt):
        old = known.pop(name, None)
        if old != mark:
            is_same = False
            yield f"{words} was {'added' if old is None else 'changed'}"
    if known:
        yield f"{len(known):,} of the other keys were taken out"
    elif is_same:
        yield "comments, white space or the order changed"
