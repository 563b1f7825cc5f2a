"""Results of verifiers, one evaluated rollout a line, ``{example_id, task, prompt, completion, reward, info, …}``.

Beside ``NAME.results.jsonl`` lies ``NAME.metadata.json``, which names the environment and the model: they are part of
an identity. Both may have no ``NAME``. Every other
number of a line is a part of its reward or a measure (counts of calls, tokens, times). Calls are in the messages of
``completion``, each a JSON text; offered are the tools of ``info.oai_tools``. Lines of one ``example_id`` are
rollouts of the same task. A rollout without a reward is unpaid. One with an ``error``, or with ``is_completed``
false, is broken with any reward. Where measures count calls and the completion shows none, the called tools are
known, but not their steps, and the answer says so. Version 1 writes traces (`core.formats.verifiers_traces`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from core.errors import UnreadableSource
from core.formats import verifiers_traces
from core.formats.chat import Message, Record, Requested, ToolCall, read
from core.formats.entries import Entry, Limits, Progress, Remark
from core.formats.reading import Format, Head, Reading
from core.formats.stream import Bytes
from core.formats.strict import UNDECODABLE, check, digest_of, named, with_nulls
from core.formats.tools import DeclaredLists
from core.records.counts import number_of
from core.records.episode import Episode, Part
from core.records.limits import MAX_LABEL_CHARS
from core.records.run import Inventory

NAME: Final = "verifiers"

_RESULTS: Final = "results.jsonl"
_METADATA: Final = "metadata.json"
_ENDS: Final = ("", ".")
"""What a name before these two ends with: both are whole names, too."""
_PACKED: Final = ("", ".gz", ".bz2", ".xz")
_MARKS: Final = frozenset(("prompt", "completion", "reward"))
_OWN: Final = frozenset(("reward", "example_id", "id"))
_MEASURE: Final = re.compile(r"_calls$|_ms$|_tokens$|^num_|_turns$|_count$")
_CALLS: Final = re.compile(r"_calls$")

_NO_ERROR: Final = (b"null", b'""', b"false", b"{}")
_TYPE_CHARS: Final = 80
_ANY: Final = msgspec.json.Decoder()
_TEXT: Final = msgspec.json.Decoder(str)
_LISTED: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_CALL: Final = msgspec.json.Decoder(ToolCall)

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

_NUMBER: Final = msgspec.json.Decoder(float)

_DIGITS: Final = frozenset(bytes([digit]) for digit in b"-0123456789")


class _Message(Message):
    """A message whose calls are objects, texts that hold one each, or one text that holds all."""

    tool_calls: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]  # only `requested` reads it

    @property
    def requested(self) -> list[Requested]:
        calls = [_CALL.decode(_opened(bytes(one))).requested for one in self._listed]
        return [call for call in calls if call is not None]

    @property
    def _listed(self) -> list[msgspec.Raw]:
        return _LISTED.decode(_opened(bytes(self.tool_calls))) or []


def _opened(raw: bytes) -> bytes:
    """Return the JSON that a text holds, else the JSON itself."""
    return _TEXT.decode(raw).encode() if raw.startswith(b'"') else raw


class _Info(msgspec.Struct):
    oai_tools: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    """Members that are read by name; numbers are read from all members."""

    completion: msgspec.Raw
    reward: float | None = None
    prompt: msgspec.Raw = msgspec.Raw(b"null")
    example_id: msgspec.Raw = msgspec.Raw(b"null")
    id: msgspec.Raw = msgspec.Raw(b"null")
    info: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")
    is_completed: bool | None = None
    total_ms: float | None = None

    @property
    def broken(self) -> str | None:
        """The type of the error that ended the rollout, None for one that came to its end."""
        error = bytes(self.error)
        if error not in _NO_ERROR:
            return _type_of(error)
        return "not completed" if self.is_completed is False else None


class _Metadata(msgspec.Struct):
    env_id: str | None = None
    env: str | None = None
    model: str | None = None

    @property
    def about(self) -> str:
        """Part of each identity: equal lines of two environments or models are two rollouts."""
        names = [self.env_id or self.env, self.model]
        return f"-{digest_of(msgspec.json.encode(names))[:8]}" if any(names) else ""


_LINE: Final = msgspec.json.Decoder(_Line)
_MESSAGES: Final = msgspec.json.Decoder(list[_Message] | str | None)
_INFO: Final = msgspec.json.Decoder(_Info | str | None)
_METADATA_OF: Final = msgspec.json.Decoder(_Metadata)


def _type_of(error: bytes) -> str:
    """Return the type of an error: of an object its name, of a text the part before the colon.

    >>> _type_of(b'{"error": "ModelError", "error_chain_str": "ModelError"}'), _type_of(b'"Timeout: 30 s"')
    ('ModelError', 'Timeout')
    """
    content = _ANY.decode(error)
    if isinstance(content, dict):
        content = next((content[key] for key in ("error", "type", "name") if content.get(key)), "error")
    text = str(content).partition(":")[0].partition("(")[0].strip()
    return text[:_TYPE_CHARS] or "error"


def results_of(path: Path) -> Path | None:
    """The results that metadata belong to, None if the path names none, or there are none beside it."""
    stem = path.name.removesuffix(_METADATA)
    if stem == path.name or stem[-1:] not in _ENDS:
        return None
    paths = (path.with_name(f"{stem}{_RESULTS}{packed}") for packed in _PACKED)
    return next((one for one in paths if one.is_file()), None)


def _metadata(path: Path, limits: Limits) -> _Metadata:
    """Return the metadata beside results; empty where unreadable."""
    endings = (_RESULTS + packed for packed in _PACKED)
    stem = next((path.name.removesuffix(end) for end in endings if path.name.endswith(end)), None)
    beside = None if stem is None or stem[-1:] not in _ENDS else path.with_name(stem + _METADATA)
    if beside is None or not beside.is_file():
        return _Metadata()
    try:
        with Bytes(beside, beside.name, limits) as content:
            document = with_nulls(content.document())
        check(document, limits.depth)
        return _METADATA_OF.decode(document)
    except (*UNDECODABLE, OSError) as error:
        raise UnreadableSource(
            f"What lies beside results must be their metadata, but {beside.name} can't be read ({path.name}).",
            next_step="Copy both files again; without the metadata the environment has no name.",
        ) from error


@dataclass
class _Results:
    """Lines of one file → records."""

    metadata: _Metadata
    lists: DeclaredLists = field(default_factory=DeclaredLists)

    def record(self, raw: bytes) -> Record:
        trace = verifiers_traces.record(NAME, self.lists, raw)
        return self._record(raw) if trace is None else trace

    def _record(self, raw: bytes) -> Record:
        line = _LINE.decode(raw)
        prompt, completion = (_messages(one) for one in (line.prompt, line.completion))
        for message in completion:
            _ = message.requested  # which are read here, where a line that can't be is left out
        environment = named(self.metadata.env_id) or named(self.metadata.env)
        return Record(
            messages=[*(one for one in prompt if one.role == "user"), *completion],
            declared=self._offered(line.info),
            model=named(self.metadata.model),
            reward=line.reward,
            environment=NAME if environment is None else f"{NAME}/{environment}",
            task=named(line.example_id) or named(line.id),
            broken=line.broken,
            status="completed" if line.broken is None else "error",
            state=1 if line.broken else 2,
            parts=_parts(_MEMBERS.decode(raw)),
            duration_ms=round(line.total_ms) if line.total_ms and line.total_ms > 0 else None,
        )

    def _offered(self, raw: msgspec.Raw) -> Inventory | None:
        info = _INFO.decode(raw)
        if isinstance(info, str):
            info = _INFO.decode(info) if info.strip() else None
        if not isinstance(info, _Info) or bytes(info.oai_tools) == b"null":
            return None
        return self.lists.inventory(bytes(info.oai_tools))


def _messages(raw: msgspec.Raw) -> list[_Message]:
    messages = _MESSAGES.decode(raw)
    if isinstance(messages, str):
        return [_Message(role="assistant", content=messages)] if messages else []
    return messages or []


def _parts(members: dict[str, msgspec.Raw]) -> tuple[Part, ...]:
    """Return the numbers beside the reward, as parts of it or measures."""
    parts = []
    for name, value in members.items():
        raw = bytes(value)
        if name in _OWN or raw[:1] not in _DIGITS or not 1 <= len(name) <= MAX_LABEL_CHARS:
            continue
        parts.append(
            Part(name=name, value=_NUMBER.decode(raw), kind="measure" if _MEASURE.search(name) else "reward")
        )
    return tuple(parts)


def _claims(head: Head) -> bool:
    return any(line.keys() >= _MARKS or verifiers_traces.is_trace({*line}) for line in head.lines) or (
        (head.keys >= _MARKS and b'"role"' in head.start) or verifiers_traces.is_trace({*head.keys})
    )


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    metadata = _metadata(reading.path, reading.limits)
    results = _Results(metadata)
    pieces = partial(verifiers_traces.separated, reading)
    n_hidden = 0
    for entry in read(
        NAME, reading, progress, results.record, pieces=pieces, about=metadata.about, resumes=True
    ):
        if isinstance(entry, Episode) and len(entry.steps) == 1:
            n_hidden += any(_CALLS.search(part.name) and part.value > 0 for part in entry.parts)
        yield entry
    if n_hidden:
        episodes = number_of(n_hidden, "episode")
        yield Remark(
            file=reading.file,
            text=f"{episodes} in {reading.file} report calls and show none: the called tools are known, "
            "in which step is not.",
        )


FORMAT: Final = Format(name=NAME, units=("episode",), claims=_claims, read=_read, takes_nan=True)
