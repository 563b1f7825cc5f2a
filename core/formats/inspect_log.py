"""Inspect logs, one run per sample: a document ``{version, status, eval, samples}`` or a zip (``.eval``) with a
document per sample.

Calls carry their name as plain ``function``. The tools offered are those of the sample's model events; a log
without them takes ``--tools``, else what is called. Usage, time and scores are the sample's. A sample keeps its
``uuid`` when a log is converted, retried or scored again. `_state` orders its states. A score of NaN is
read as null. An invalidated sample is broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from core.errors import UnreadableSource
from core.formats.archive import Archive
from core.formats.chat import Message, Part, Pieces, Record, read
from core.formats.entries import Entry, Progress, Rejected
from core.formats.prompts import Parts, counts_of, summed
from core.formats.reading import Format, Head, Piece, Reading
from core.formats.stream import Damage
from core.formats.strict import decoded, named, plain, utc_ms_of
from core.formats.tools import DeclaredLists
from core.records.arm import Arm
from core.records.bill import Spent, disjoint, merged
from core.records.limits import Label, Tokens
from core.records.run import Inventory, Status

NAME: Final = "inspect-ai"

_HEADERS: Final = ("header.json", "_journal/start.json")
"""The second is all there is while an evaluation runs, or if it was killed."""
_SAMPLES: Final = "samples/"
_ATTACHED: Final = "attachment://"
_GRADES: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partly correct, incorrect, no answer."""
_WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}

_SCORING: Final = ("score", "score_edit")
_SINCE_S: Final = 1_672_531_200
"""2023-01-01, before the first log."""
_MOST_SECONDS: Final = 1 << 29
"""About 17 years; a later change counts as one at their end."""

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=10**9)]

_VALUE: Final = msgspec.json.Decoder(float | bool | str)
_NUMBER: Final = msgspec.json.Decoder(float)


class _Usage(msgspec.Struct):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    input_tokens_cache_read: Tokens | None = None
    input_tokens_cache_write: Tokens | None = None

    @property
    def parts(self) -> Parts:
        parts = (
            self.input_tokens or 0,
            self.output_tokens or 0,
            self.input_tokens_cache_read or 0,
            self.input_tokens_cache_write or 0,
        )
        return (*parts, self.total_tokens or sum(parts))

    def spent(self, model: str) -> Spent:
        """Return the disjoint counts; whether the input contains the cached tokens shows in the total."""
        row = disjoint(*self.parts)
        return Spent(model=model, total=self.parts[-1]) if row is None else replace(row, model=model)


class _Event(msgspec.Struct):
    event: str = ""
    intermediate: bool | None = None
    timestamp: str | None = None
    tools: msgspec.Raw = msgspec.Raw(b"null")


class _Mark(msgspec.Struct):
    """Time of a change by a person."""

    timestamp: str | None = None


class _Edit(msgspec.Struct):
    provenance: _Mark | None = None


class _Score(msgspec.Struct):
    value: msgspec.Raw = msgspec.Raw(b"null")
    history: list[_Edit] | None = None


class _Limit(msgspec.Struct):
    type: str = ""


class _Sample(msgspec.Struct):
    id: int | str
    messages: list[Message]
    epoch: int = 1
    uuid: str | None = None
    events: list[_Event] | None = None
    score: _Score | None = None
    scores: dict[str, _Score] | None = None
    model_usage: dict[str, msgspec.Raw] | None = None
    total_time: _Seconds | None = None
    completed_at: str | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")
    limit: _Limit | None = None
    invalidation: _Mark | None = None
    attachments: dict[str, msgspec.Raw] | None = None

    @property
    def grades(self) -> list[bytes]:
        """The grade of each scorer, as it is in the log."""
        scores = list((self.scores or {}).values()) or [one for one in (self.score,) if one is not None]
        return [bytes(one.value) for one in scores]


class _Eval(msgspec.Struct):
    run_id: str = ""
    task_id: str = ""
    eval_id: str | None = None
    task: msgspec.Raw = msgspec.Raw(b"null")
    model: Label | None = None

    @property
    def identity(self) -> str:
        return self.eval_id or f"{self.run_id}/{self.task_id}"


class _Stats(msgspec.Struct):
    completed_at: str | None = None


class _Header(msgspec.Struct):
    eval: _Eval
    stats: _Stats | None = None

    @property
    def completed_ms(self) -> int:
        """The time at which the log ended, 0 if it is unknown."""
        return 0 if self.stats is None else utc_ms_of(self.stats.completed_at)[0] or 0


_HEADER: Final = msgspec.json.Decoder(_Header)
_USAGE: Final = msgspec.json.Decoder(_Usage)
_SAMPLE: Final = msgspec.json.Decoder(_Sample)


def _claims(head: Head) -> bool:
    if head.shape == "archive":
        return any(name in head.keys for name in _HEADERS)
    return {"eval", "status"} <= head.keys and b'"task_id"' in head.start


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    if reading.shape == "archive":
        header, pieces = _archived_header(reading), _archived(reading)
    else:
        header, pieces = _document(reading, progress)
    return read(NAME, reading, progress, _Samples(header.eval, header.completed_ms).record, pieces=pieces)


def _document(reading: Reading, progress: Progress | None) -> tuple[_Header, Pieces]:
    document = reading.document("samples", progress)
    fields = document.fields()
    parts = (b'"%b":%b' % (name.encode(), bytes(fields.get(name, b"null"))) for name in ("eval", "stats"))
    header = reading.decoded_whole(_HEADER, b"{" + b",".join(parts) + b"}")
    samples = fields.get("samples", msgspec.Raw(b"null"))
    # They are nearly the whole file, so they are copied only where they are as short as a null.
    is_null = memoryview(samples).nbytes == len(b"null") and bytes(samples) == b"null"

    def pieces(_: Progress | None) -> Iterator[Piece]:
        return reading.elements(b"[]") if is_null else document.elements(fields)

    return header, pieces


def _archived_header(reading: Reading) -> _Header:
    with reading.report_errors(), Archive(reading.path, reading.file, reading.limits) as archive:
        name = next((name for name in _HEADERS if name in archive.names), _HEADERS[0])
        header = archive.read(name) if name in archive.names else Damage("has no header", "archive")
    checked = reading.checked(1, header)
    if isinstance(checked, Rejected):
        raise UnreadableSource(
            f"A log must say what was evaluated. {checked.reason} ({reading.file}).",
            next_step="Copy it again from where it came.",
        )
    return reading.decoded_whole(_HEADER, checked)


def _archived(reading: Reading) -> Pieces:
    def pieces(progress: Progress | None) -> Iterator[Piece]:
        with (
            reading.report_errors(),
            Archive(reading.path, reading.file, reading.limits, progress) as archive,
        ):
            samples = [name for name in archive.names if name.startswith(_SAMPLES) and name.endswith(".json")]
            for number, name in enumerate(samples, start=1):
                yield number, archive.read(name)

    return pieces


@dataclass
class _Samples:
    """Samples of one evaluation → records."""

    evaluation: _Eval
    completed_ms: int = 0
    lists: DeclaredLists = field(default_factory=DeclaredLists)

    def record(self, raw: bytes) -> Record:
        sample = _SAMPLE.decode(raw)
        evaluation = self.evaluation
        used = {model: counts_of(_USAGE, one) for model, one in (sample.model_usage or {}).items()}
        seconds, times = sample.total_time, [one.timestamp for one in sample.events or () if one.timestamp]
        ended_at = sample.completed_at or (times[-1] if times else None)
        return Record(
            messages=_attached(sample),
            declared=self._offered(sample),
            identity=plain(sample.uuid or f"{evaluation.identity}/{sample.id}/{sample.epoch}"),
            session=plain(evaluation.identity),
            model=evaluation.model,
            reward=_reward(sample),
            environment=named(evaluation.task) or (NAME if sample.scores or sample.score else None),
            task=named(sample.id),
            is_divided=len(sample.grades) > 1 or any(grade[:1] == b"{" for grade in sample.grades),
            usage=summed(usage.parts for usage, _ in used.values()),
            spent=merged(usage.spent(model) for model, (usage, _) in used.items()),
            unread=[name for _, names in used.values() for name in names],
            duration_ms=None if seconds is None else round(seconds * 1000),
            ended_at=ended_at,
            status=_status(sample),
            broken=_broken(sample),
            state=_state(sample, ended_at, self.completed_ms),
            place=f"{evaluation.task_id}/{sample.id}/{sample.epoch}" if evaluation.task_id else None,
        )

    def _offered(self, sample: _Sample) -> Inventory | None:
        """All tools that any request to the model listed; None = the log keeps no requests."""
        requests = [event for event in sample.events or () if event.event == "model"]
        lists = [
            self.lists.inventory(bytes(event.tools)) for event in requests if bytes(event.tools) != b"null"
        ]
        distinct = list({id(inventory): inventory for inventory in lists}.values())
        if len(distinct) <= 1:
            return distinct[0] if distinct else None
        arms: dict[str, Arm] = {}
        for inventory in distinct:
            for arm in inventory.arms:
                arms.setdefault(arm.key, arm)
        return Inventory(kind="declared", arms=tuple(arms.values()))


def _attached(sample: _Sample) -> list[Message]:
    """Messages with the long texts that a log keeps apart."""
    attachments = sample.attachments or {}

    for message in sample.messages:
        if message.role in {"assistant", "user"} and _ATTACHED in message.text:
            parts = message.content if isinstance(message.content, list) else [Part(text=message.text)]
            message.content = [_whole(part, attachments) for part in parts]
    return sample.messages


def _whole(part: Part, attachments: dict[str, msgspec.Raw]) -> Part:
    text = part.text
    if text is None:
        return part
    attached = attachments.get(text.removeprefix(_ATTACHED)) if text.startswith(_ATTACHED) else None
    return Part(text=text if attached is None else msgspec.json.decode(attached, type=str))


def _reward(sample: _Sample) -> float | None:
    """The grade of the one scorer, as Inspect counts it. Several are no reward."""
    value = decoded(_VALUE, sample.grades[0]) if len(sample.grades) == 1 else None
    if value is None:  # several, grades by name, or none
        return None
    if not isinstance(value, str):
        return float(value)
    return _GRADES.get(value, _WORDS.get(value.lower(), decoded(_NUMBER, value.encode())))


def _broken(sample: _Sample) -> str | None:
    if bytes(sample.error) != b"null":
        return "error"
    return None if sample.invalidation is None else "invalidated"


def _state(sample: _Sample, ended_at: str | None, log_completed_ms: int) -> int:
    """Return a number that grows with later states: scores and edits, plus seconds to the last change."""
    scores = [*(sample.scores or {}).values(), *(one for one in (sample.score,) if one is not None)]
    edits = [edit for score in scores for edit in score.history or ()]
    marks = [*(edit.provenance for edit in edits), sample.invalidation]
    scored = [one for one in sample.events or () if one.event in _SCORING and not one.intermediate]
    times = {ended_at, *(one.timestamp for one in (*marks, *scored) if one is not None)}
    changed = [ms for ms, _ in map(utc_ms_of, times) if ms is not None]
    seconds = max(log_completed_ms, *changed, 0) // 1000 - _SINCE_S
    n_marks = len(scores) + len(edits) + len(scored) + (sample.invalidation is not None)
    return 1 + n_marks + min(max(seconds, 0), _MOST_SECONDS)


def _status(sample: _Sample) -> Status:
    """A sample that ran into a limit did not end by itself; one that a person ended was interrupted."""
    if bytes(sample.error) != b"null":
        return "error"
    if sample.limit is None:
        return "completed"
    return "aborted" if sample.limit.type == "operator" else "error"


FORMAT: Final = Format(
    name=NAME,
    units=("episode",),
    claims=_claims,
    read=_read,
    is_document=True,
    reads_zips=True,
    takes_nan=True,
)
