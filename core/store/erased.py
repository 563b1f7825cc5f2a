"""Erased content that no import may restore, remembered by keyed digests.

The key is drawn at a learner's first erasure and stored beside the digests. A person with the file can test whether a
name was erased, and can't read it there. Names of sessions and people become numbers, taken from the digest. So they
stay distinct in any number of imports.
"""

from __future__ import annotations

import re
import secrets
from collections import defaultdict
from hashlib import blake2b
from typing import Any, Final, Literal, TypeVar

import msgspec

from core.records.evaluation_lines import ChoiceLine, EvaluationLine
from core.records.ledger_lines import FactLine, RewardLine, line_without_texts
from core.store.engine import Connection
from core.store.tables import insert_into

Remembered = Literal["run", "execution", "episode", "session", "name", "rater", "task"]
"""``session``: its runs come without texts, and its name becomes a number; ``name``: only its name does. ``task``: no
digest of it is stored, because it becomes a number in erased episodes only.
"""
_KEY: Final = "key"
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 16
_NUMBER_DIGITS: Final = 12
_WORDS: Final = {"session": "session", "name": "session", "rater": "rater", "task": "erased-task"}
REMEMBER: Final = insert_into("erased", "learner_id", "digest", "at_ms") + " ON CONFLICT DO NOTHING"
_LEFT: Final = "left"
"""Kind of the rows that name what is left of a version; no name becomes a number of it."""
_TASK: Final = re.compile(r"erased-task-\d+")
_WORD: Final = re.compile(r"\w+")
_MARKS: Final = re.compile(r"[^\w\s]{0,3}")
"""What a name may end in beyond its last word."""
_MOST_WORDS: Final = 8
"""Words of a name that is found in a text, such as those of an address."""
_WORDED: Final = frozenset(
    (
        *("reason", "text", "feedback", "why", "name", "title", "words", "example", "assigned_to"),
        *("label", "task", "type", "domain", "tags", "adapter_name", "adapter_version"),
    )
)
"""Members of lines in which people write."""
_NAMES: Final = ("by", "rater", "named", "person")

Line = TypeVar("Line", bound=msgspec.Struct)


def _ends(text: str, end: int) -> range:
    """Return where a name with a last word up to here may end, the farthest first."""
    marks = _MARKS.match(text, end)
    return range(end if marks is None else marks.end(), end - 1, -1)


class Erased:
    """The erased content of a learner: its key, None before the first erasure, and digests as ``kind digest``."""

    def __init__(self, key: bytes | None = None, digests: frozenset[str] = frozenset()) -> None:
        self.key = key
        self._digests = digests
        self._left: dict[str, set[str]] = defaultdict(set)
        for one in digests:
            if one.startswith(f"{_LEFT} "):
                _, version, content = one.split(" ")
                self._left[version].add(content)
        parts = [one.partition(" ") for one in digests if not one.startswith(f"{_LEFT} ")]
        self._numbers = {self._number(kind, number) for kind, _, number in parts}
        self.has_persons = any(kind == "rater" for kind, _, _ in parts)
        self._whole = {self._number(kind, number) for kind, _, number in parts if kind == "session"}

    def __bool__(self) -> bool:
        return bool(self._digests)

    @classmethod
    def of(cls, connection: Connection, learner_id: int) -> Erased:
        """Return the erased content of a learner."""
        rows = [
            one for (one,) in connection.rows("SELECT digest FROM erased WHERE learner_id = ?", [learner_id])
        ]
        key = next((one.partition(" ")[2] for one in rows if one.startswith(f"{_KEY} ")), None)
        if key is None:
            return cls()
        return cls(bytes.fromhex(key), frozenset(one for one in rows if not one.startswith(f"{_KEY} ")))

    def digest(self, kind: Remembered, name: str) -> str:
        """Return the digest of a name."""
        assert self.key is not None  # noqa: S101 - the first erasure makes a key
        normalised = name.lower() if kind == "execution" else name
        # One for both kinds of a session, so that it has one number whichever way its name went.
        of = "session" if kind == "name" else kind
        hashed = blake2b(
            f"{of}/{normalised}".encode("utf-8", "surrogatepass"), key=self.key, digest_size=_DIGEST_BYTES
        )
        return f"{kind} {hashed.hexdigest()}"

    def has(self, kind: Remembered, name: str | None) -> bool:
        """Return whether a name was erased."""
        return bool(self._digests) and name is not None and self.digest(kind, name) in self._digests

    def number_for(self, kind: Remembered, name: str) -> str:
        """Return the number that replaces a name."""
        return self._number(kind, self.digest(kind, name).partition(" ")[2])

    def is_number(self, name: str) -> bool:
        """Return whether a name is such a number."""
        return name in self._numbers

    def session(self, name: str | None) -> str | None:
        """A session's name as it may be kept."""
        if not name or self.is_number(name) or not (self.has("name", name) or self.has("session", name)):
            return name
        return self.number_for("name", name)

    def rater(self, name: str | None) -> str | None:
        """A person's name as it may be kept."""
        return self.number_for("rater", name) if name and self.has("rater", name) else name

    def words(self, text: str) -> str:
        """Return a text with numbers in the place of the names of erased persons."""
        if not self.has_persons:
            return text
        spans = [one.span() for one in _WORD.finditer(text)]
        parts, at, first = [], 0, 0
        while first < len(spans):
            start = spans[first][0]
            for last in range(min(first + _MOST_WORDS, len(spans)) - 1, first - 1, -1):
                names = [text[start:end] for end in _ends(text, spans[last][1])]
                if name := next((one for one in names if self.has("rater", one)), None):
                    parts += [text[at:start], self.number_for("rater", name)]
                    at, first = start + len(name), last
                    break
            first += 1
        return "".join((*parts, text[at:]))

    def task(self, name: str | None) -> str | None:
        """The task of an erased episode as it may be kept."""
        return self.number_for("task", name) if name and not _TASK.fullmatch(name) else name

    def takes(self, run: str, session: str | None) -> bool:
        """Return whether a run must come without texts."""
        if not self:
            return False
        known = self.session(session)
        return (
            self.has("run", run)
            or self.has("session", session)
            or self.has("session", known)
            or known in self._whole
        )

    def left_of(self, uid: str, digest: int, content: tuple[int, int]) -> str:
        """Return a row that names the digests of a source's content and, of the same version, of what is left."""
        return " ".join((_LEFT, self._hashed(f"{uid}/{digest}"), self._hashed("{}/{}".format(*content))))

    def is_left(self, uid: str, digest: int, content: tuple[int, int]) -> bool:
        """Return whether this may be left of a version; of earlier erasures nothing is known."""
        known = self._left.get(self._hashed(f"{uid}/{digest}"))
        return known is None or self._hashed("{}/{}".format(*content)) in known

    def _hashed(self, name: str) -> str:
        assert self.key is not None  # noqa: S101 - the first erasure makes a key
        data = f"{_LEFT}/{name}".encode("utf-8", "surrogatepass")
        return blake2b(data, key=self.key, digest_size=_DIGEST_BYTES).hexdigest()

    def _number(self, kind: str, digest: str) -> str:
        return f"{_WORDS.get(kind, kind)}-{int(digest[:_NUMBER_DIGITS], 16)}"


def new_key() -> str:
    """Return a row with a random key."""
    return f"{_KEY} {secrets.token_hex(_KEY_BYTES)}"


def redacted(erased: Erased, line: FactLine) -> FactLine:
    """A line as it may be taken: persons that were erased as numbers, and no words about what was."""
    if not erased:
        return line
    names = {name: erased.rater(held) for name in _NAMES if (held := getattr(line, name, None)) is not None}
    line = reworded(erased, msgspec.structs.replace(line, **names))
    if isinstance(line, RewardLine):
        context = msgspec.structs.replace(line.context, by=erased.rater(line.context.by))
        line = msgspec.structs.replace(line, context=context)
    return _wordless(line) if _is_about(erased, line) else line


def reworded(erased: Erased, line: Line) -> Line:
    """Return a line with numbers in the place of erased persons in its words."""
    if not erased.has_persons:
        return line
    plain = msgspec.to_builtins(line)
    words = _reworded(erased, plain, is_worded=False)
    return line if words == plain else msgspec.convert(words, type(line))


def _reworded(erased: Erased, value: Any, *, is_worded: bool) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return erased.words(value) if is_worded else value
    if isinstance(value, dict):
        return {name: _reworded(erased, held, is_worded=name in _WORDED) for name, held in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_reworded(erased, one, is_worded=is_worded) for one in value)
    return value


def _is_about(erased: Erased, line: FactLine) -> bool:
    if isinstance(line, RewardLine):
        return erased.has("run", line.context.run)
    if isinstance(line, EvaluationLine):
        return erased.has("run", line.run) or erased.has("execution", line.execution)
    return isinstance(line, ChoiceLine) and any(
        erased.has("execution", one) for one in (line.first, line.second)
    )


def _wordless(line: FactLine) -> FactLine:
    stripped = line_without_texts(line)
    assert isinstance(stripped, type(line))  # noqa: S101 - narrows for the type checker
    return stripped
