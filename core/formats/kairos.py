"""KAIROS's ``reward`` call and its training exports, bytes ↔ evaluations.

``reward_jsonl`` has every rewarded pair, ``sft_jsonl`` those good enough to fine-tune on. ``preference_jsonl`` has a
chosen and a rejected answer, ``trace_jsonl`` the pairs as they are, and ``reward_csv`` is a table for spreadsheets.
Each is a function from rows to lines without line ends. The bytes equal JSON as JavaScript writes it, with members in
KAIROS's order.

Consequences of a reward (signed score, label, grader, flags, blockers) are computed from its record and the
thresholds in force at each write. Reads ignore them. The exports write scores as they were sent. A missing one is
null, or left out where KAIROS leaves out undefined values. The answer to a reward call has the normalized score: a
missing one is 1 for a success and 0 for a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Literal

import msgspec
import orjson

from core.errors import ArmscopeError, Conflict, Denied, InvalidEvaluation, InvalidInput, NotFound
from core.formats.strict import UNDECODABLE, check, reason, utc_ms_of
from core.maths.evaluate import known_grade
from core.records.alike import alike
from core.records.cells import csv_line
from core.records.evaluation import (
    EVALUATION_OUTCOMES,
    EvaluationOutcome,
    Grade,
    Thresholds,
)
from core.records.javascript import number, rewritten
from core.records.layer import LayerUri, parse_uri
from core.records.limits import Count, Share, shown, storable
from core.records.times import HOUR_MS, MINUTE_MS, instant

Pairing = Literal["prompt", "layer"]
ROOT: Final = "(root)"
"""Name of the full input among the invalid fields."""
MAX_DEPTH: Final = 100
_THRESHOLDS: Final = Thresholds()
_NEXT: Final = "Correct what is named and send it again; nothing was recorded."
_TEXTS: Final = ("rater", "rubric_version", "llm_model_id")
_ALLOWED: Final = {
    "uri": "must be kairos://layer/{uuid}, or that with ?execution_id={uuid}",
    "outcome": f"must be one of {', '.join(EVALUATION_OUTCOMES)}",
    "score": "must be a number from 0 to 1, or left out",
    "feedback": "must be a text that is not empty, or left out",
    **dict.fromkeys(_TEXTS, "must be a text, or left out"),
}
_Score = float | msgspec.Raw
_WRITTEN_ALIKE: Final = 1e-5
"""Below it msgspec writes an exponent, JavaScript only below a millionth."""

_NULL: Final = msgspec.Raw(b"null")
_Written = msgspec.Raw | msgspec.UnsetType
"""A member that is written already; what is unset is left out."""

_RECORD: Final = (
    "outcome",
    "score",
    "signed_score",
    "quality_bonus",
    "feedback",
    "rater",
    "rubric_version",
    "llm_model_id",
    "grader_kind",
    "evaluation_label",
    "exportable_for_sft",
    "exportable_for_preference",
    "sft_blockers",
    "preference_blockers",
    "rated_at",
)
"""Members of a reward as KAIROS stores it with an execution; missing values are left out."""
_ITEM: Final = (*_RECORD[:6], "llm_model_id", "rubric_version", *_RECORD[8:])
"""Members of a reward in ``reward_jsonl``: every one is there."""
_CELLS: Final = (
    "execution_id",
    "adapter_uri",
    "layer_uri",
    "layer_index",
    "timestamp",
    "instruction",
    "response",
    *_RECORD[:3],
    "evaluation_label",
    "grader_kind",
    "rater",
    "llm_model_id",
    "rubric_version",
    "feedback",
    *_RECORD[10:],
)
"""Columns of the table for spreadsheets."""

_Record: Final = msgspec.defstruct("_Record", _RECORD, gc=False)
_Item: Final = msgspec.defstruct("_Item", _ITEM, gc=False)
_Rewarded: Final = msgspec.defstruct("_Rewarded", ("instruction", "response", "reward", "metadata"), gc=False)

_SAMPLE: Final = (
    b'{"messages":[{"role":"user","content":%b},{"role":"assistant","content":%b}],"metadata":%b}}'
)
_encode: Final = msgspec.json.Encoder().encode

_NULLABLE: Final = frozenset({"activation_query", "tensor_out", "trace", "raw_solution"})
"""Members for which ``reward_jsonl`` writes null where they aren't there."""

# The reward call


class _Judged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A judgement, without its consequences; None = not sent, which is not ""."""

    outcome: EvaluationOutcome
    score: Share | None = None
    feedback: str | None = None
    rater: str | None = None
    rubric_version: str | None = None
    llm_model_id: str | None = None

    def graded(self, thresholds: Thresholds = _THRESHOLDS) -> Grade:
        return known_grade(
            self.outcome,
            self.score,
            self.rater,
            self.llm_model_id,
            self.rubric_version,
            thresholds=thresholds,
        )


class RewardInput(_Judged, frozen=True, kw_only=True, gc=False):
    """A ``reward`` call as it was sent."""

    layer: LayerUri


def read_reward(body: bytes) -> RewardInput:
    """The ``reward`` call in a body of JSON; see `reward_input`.

    >>> read_reward(b"[]")
    Traceback (most recent call last):
    core.errors.InvalidEvaluation: A reward must be an object with uri and outcome, got []. Correct what is named \
and send it again; nothing was recorded.
    """
    return reward_input(value_of(body, "A reward must be", _NEXT))


def value_of(body: bytes, must_be: str, next_step: str) -> object:
    """Return the JSON value of a call; raise `InvalidEvaluation` for another body."""
    try:
        check(body, MAX_DEPTH)
        return msgspec.json.decode(body)
    except UNDECODABLE as error:
        words = f"{must_be} one object in JSON, got a body that {reason(error, body)}."
        raise InvalidEvaluation(words, next_step=next_step, fields=(ROOT,)) from None


def reward_input(value: object) -> RewardInput:
    """Check a ``reward`` call by KAIROS's schema; `InvalidEvaluation` names all wrong members in ``fields``."""
    if not isinstance(value, Mapping):
        raise InvalidEvaluation(
            f"A reward must be an object with uri and outcome, got {shown(value)}.",
            next_step=_NEXT,
            fields=(ROOT,),
        )
    layer = _layer(value.get("uri"))
    wrong = sorted(_wrong(value, layer))
    if layer is None or wrong:
        problems = ", ".join(
            f"{name} {_ALLOWED[name]}, got {shown(value[name]) if name in value else 'none'}"
            for name in wrong
        )
        raise InvalidEvaluation(f"{problems}.", next_step=_NEXT, fields=tuple(wrong))
    return RewardInput(
        layer=layer,
        outcome=value["outcome"],
        score=value.get("score"),
        feedback=value.get("feedback"),
        **{name: value.get(name) for name in _TEXTS},
    )


def _layer(uri: object) -> LayerUri | None:
    """Return the layer that a call names, without white space around it; None for other values and the older form."""
    if not isinstance(uri, str):
        return None
    try:
        layer_uri = parse_uri(uri)
    except InvalidEvaluation:
        return None
    is_older = uri.startswith("kairos://mem/")
    return layer_uri if isinstance(layer_uri, LayerUri) and layer_uri.raw == uri and not is_older else None


def _wrong(value: Mapping[str, object], layer: LayerUri | None) -> Iterator[str]:
    if layer is None:
        yield "uri"
    outcome, score, feedback = value.get("outcome"), value.get("score"), value.get("feedback")
    if not isinstance(outcome, str) or outcome not in EVALUATION_OUTCOMES:
        yield "outcome"
    if "score" in value and (
        isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1
    ):
        yield "score"
    if "feedback" in value and (not isinstance(feedback, str) or not feedback):
        yield "feedback"
    for name in _TEXTS:
        if name in value and not isinstance(value[name], str):
            yield name


def reward_output(reward: RewardInput, graded: Grade, at_ms: int) -> bytes:
    """The answer to a ``reward`` call that was recorded at ``at_ms`` (UTC milliseconds)."""
    row = {
        "uri": reward.layer.raw,
        "outcome": reward.outcome,
        "score": _plain(graded.normalized_score),
        "feedback": reward.feedback,
        "rater": reward.rater,
        "rubric_version": reward.rubric_version,
        "llm_model_id": reward.llm_model_id,
        "grader_kind": graded.grader_kind,
        "evaluation_label": graded.label,
        "exportable_for_sft": graded.exportable_for_sft,
        "exportable_for_preference": graded.exportable_for_preference,
        "sft_blockers": graded.sft_blockers,
        "preference_blockers": graded.preference_blockers,
        "rated_at": _time(at_ms),
    }
    return _encode({"results": [row], "total_rated": 1, "total_failed": 0, "next_call": None})


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Reason of a refused ``reward`` call, as KAIROS reports it: an HTTP status, a code, a message."""

    status: int
    code: Literal["INVALID_INPUT", "INVALID_URI", "DENIED", "REWARD_FAILED"]
    message: str

    def body(self) -> bytes:
        return _encode({"error": self.code, "message": self.message})


def refusal(error: ArmscopeError) -> Refusal:
    """Return KAIROS's answer to an error: invalid input, a URI that names no layer, or a failed write."""
    if isinstance(error, InvalidEvaluation) and not error.fields:
        return Refusal(status=400, code="INVALID_URI", message=str(error))
    if isinstance(error, (InvalidInput, NotFound, Conflict)):
        return Refusal(status=400, code="INVALID_INPUT", message=str(error))
    if isinstance(error, Denied):
        return Refusal(status=403, code="DENIED", message=str(error))
    return Refusal(status=503, code="REWARD_FAILED", message=str(error))


# Training rows


class Reward(_Judged, frozen=True, kw_only=True, gc=False):
    """An evaluation as training rows carry it, without its consequences; ``rated_at_ms`` None = unknown."""

    rated_at_ms: int | None = None


class TrainingRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pair of instruction and response with its reward, None = it has none.

    ``execution`` is the execution's id, URIs are as they were sent, ``at_ms`` is when the response came (UTC
    milliseconds, None = unknown). ``instruction`` and ``response`` are JSON texts, each of an object, written as
    JavaScript writes them: `core.records.javascript.rewritten` makes any JSON so.
    """

    execution: str
    adapter_uri: str
    layer_uri: str
    layer_index: int
    at_ms: int | None
    instruction: str
    response: str
    reward: Reward | None = None


class _Instruction(msgspec.Struct, gc=False):
    activation_query: _Written = msgspec.UNSET
    tensor_in: _Written = msgspec.UNSET
    layer_instructions: _Written = msgspec.UNSET


class _Response(msgspec.Struct, gc=False):
    tensor_out: _Written = msgspec.UNSET
    trace: _Written = msgspec.UNSET
    raw_solution: _Written = msgspec.UNSET


class _FilledInstruction(_Instruction, gc=False):
    activation_query: _Written = _NULL


class _FilledResponse(_Response, gc=False):
    tensor_out: _Written = _NULL
    trace: _Written = _NULL
    raw_solution: _Written = _NULL


class _Origin(msgspec.Struct, gc=False):
    """Source of a row, in the members of the exports."""

    execution_id: str
    adapter_uri: str
    layer_uri: str
    layer_index: Count
    timestamp: str | None = None


_Trace: Final = msgspec.defstruct(
    "_Trace", ("id", *_Origin.__struct_fields__, "instruction", "response", "reward"), gc=False
)
_INSTRUCTION: Final = msgspec.json.Decoder(_Instruction)
_RESPONSE: Final = msgspec.json.Decoder(_Response)
_FILLED_INSTRUCTION: Final = msgspec.json.Decoder(_FilledInstruction)
_FILLED_RESPONSE: Final = msgspec.json.Decoder(_FilledResponse)


def reward_jsonl(rows: Iterable[TrainingRow], thresholds: Thresholds = _THRESHOLDS) -> Iterator[bytes]:
    """A line for every row with a reward."""
    for row in rows:
        if row.reward is not None:
            values = _values(row.reward, row.reward.graded(thresholds), row.reward.rated_at_ms, None)
            line = _Rewarded(
                _FILLED_INSTRUCTION.decode(row.instruction),
                _FILLED_RESPONSE.decode(row.response),
                _Item(*values[:6], values[7], values[6], *values[8:]),
                _origin(row, canonical_uri(row.layer_uri)),
            )
            yield _encode(line)


def sft_jsonl(
    rows: Iterable[TrainingRow], thresholds: Thresholds = _THRESHOLDS, *, include_reward: bool = True
) -> Iterator[bytes]:
    """A line for every row that is good enough to fine-tune on, with or without its reward."""
    for row in rows:
        if row.reward is None:
            continue
        evaluation, rated_at = _reward_members(row.reward, thresholds), _time(row.reward.rated_at_ms)
        if not evaluation:
            continue
        instruction = orjson.dumps(_encode(_INSTRUCTION.decode(row.instruction)).decode())
        answered = orjson.dumps(_encode(_RESPONSE.decode(row.response)).decode())
        source = _source(row.adapter_uri, row.layer_uri, row.layer_index)
        if include_reward:
            when = b"" if rated_at is None else b',"rated_at":"%b"' % rated_at.encode()
            source = b'%b,"reward":%b%b}' % (source, evaluation, when)
        yield _SAMPLE % (instruction, answered, source)


def preference_jsonl(
    rows: Iterable[TrainingRow], thresholds: Thresholds = _THRESHOLDS, *, pairing: Pairing = "prompt"
) -> Iterator[bytes]:
    """Return a line for each group of rows with an eligible success and an eligible failure.

    Of each kind the row with the highest score is used, the first among equals. A missing score ranks as 0. Groups
    come in the order of their first rows. Rows are read once, and two of each group are held. By ``"prompt"`` a group
    has the same instruction (equal but for the order of members), by ``"layer"`` the same layer and index.
    """
    best: dict[bytes, dict[EvaluationOutcome, TrainingRow]] = {}
    for row in rows:
        group = best.setdefault(_group(row, pairing), {})
        if row.reward is None or not row.reward.graded(thresholds).exportable_for_preference:
            continue
        known = group.get(row.reward.outcome)
        if known is None or _rank_score(row) > _rank_score(known):
            group[row.reward.outcome] = row
    for group in best.values():
        if len(group) == len(EVALUATION_OUTCOMES):
            chosen, rejected = group["success"], group["failure"]
            pair = {"prompt": chosen.instruction, "chosen": chosen.response, "rejected": rejected.response}
            source = _source(chosen.adapter_uri, canonical_uri(chosen.layer_uri), chosen.layer_index)
            yield _encode({**pair, "metadata": msgspec.Raw(source + b"}")})


def trace_jsonl(
    rows: Iterable[TrainingRow], thresholds: Thresholds = _THRESHOLDS, *, include_reward: bool = True
) -> Iterator[bytes]:
    """A line for every row, as it is."""
    for row in rows:
        reward = row.reward if include_reward else None
        line = _Trace(
            f"{row.execution}:{row.layer_index}",
            row.execution,
            row.adapter_uri,
            row.layer_uri,
            row.layer_index,
            _time(row.at_ms),
            msgspec.Raw(row.instruction),
            msgspec.Raw(row.response),
            msgspec.UNSET if reward is None else _record(reward, reward.graded(thresholds)),
        )
        yield _encode(line)


def reward_csv(rows: Iterable[TrainingRow], thresholds: Thresholds = _THRESHOLDS) -> Iterator[bytes]:
    """Heads, then a line for every row with a reward, without ends of lines.

    A text that a spreadsheet would take for a formula gets an apostrophe before it; numbers stay numbers, texts that
    hold one (``-0.5``) too.
    """
    yield csv_line(_CELLS).removesuffix("\n").encode()
    for row in rows:
        if row.reward is None:
            continue
        graded = row.reward.graded(thresholds)
        cells = {
            **msgspec.structs.asdict(_origin(row, canonical_uri(row.layer_uri))),
            "instruction": row.instruction,
            "response": row.response,
            **dict(zip(_RECORD, _values(row.reward, graded, row.reward.rated_at_ms, None), strict=True)),
            "score": row.reward.score,
            "signed_score": graded.signed_score,
            "sft_blockers": " ".join(graded.sft_blockers),
            "preference_blockers": " ".join(graded.preference_blockers),
        }
        yield csv_line([cells[name] for name in _CELLS]).removesuffix("\n").encode()


@lru_cache(maxsize=4096)
def canonical_uri(uri: str) -> str:
    """A layer's URI without its execution, its id as it was sent; any other text as it is."""
    try:
        parsed = parse_uri(uri)
    except InvalidEvaluation:
        return uri
    return parsed.uri if isinstance(parsed, LayerUri) else uri


def _group(row: TrainingRow, pairing: Pairing) -> bytes:
    """Return a digest that identifies a row's group: instructions are long, and two rows per group are held."""
    if pairing == "layer":
        identity = f"{canonical_uri(row.layer_uri).lower()}:{row.layer_index}".encode()
    else:
        identity = msgspec.json.encode(msgspec.json.decode(row.instruction), order="sorted")
    return blake2b(identity, digest_size=16).digest()


def _rank_score(row: TrainingRow) -> float:
    score = None if row.reward is None else row.reward.score
    return 0.0 if score is None else score


def _origin(row: TrainingRow, layer_uri: str) -> _Origin:
    return _Origin(row.execution, row.adapter_uri, layer_uri, row.layer_index, _time(row.at_ms))


def _values(
    reward: _Judged, graded: Grade, rated_at_ms: int | None, missing: msgspec.UnsetType | None
) -> tuple[object, ...]:
    """Return the values of a reward with its consequences, in the order of a record."""
    return (
        reward.outcome,
        missing if reward.score is None else _plain(reward.score),
        _plain(graded.signed_score),
        _plain(graded.quality_bonus),
        missing if reward.feedback is None else reward.feedback,
        missing if reward.rater is None else reward.rater,
        missing if reward.rubric_version is None else reward.rubric_version,
        missing if reward.llm_model_id is None else reward.llm_model_id,
        graded.grader_kind,
        graded.label,
        graded.exportable_for_sft,
        graded.exportable_for_preference,
        graded.sft_blockers,
        graded.preference_blockers,
        missing if rated_at_ms is None or rated_at_ms < 0 else _time(rated_at_ms),
    )


def _record(reward: Reward, graded: Grade) -> msgspec.Struct:
    return _Record(*_values(reward, graded, reward.rated_at_ms, msgspec.UNSET))


def _reward_members(reward: Reward, thresholds: Thresholds) -> bytes:
    """Return a reward's record without its time; empty where it is not good enough for training."""
    members = _members if reward.feedback is None else _members.__wrapped__
    return members(msgspec.structs.replace(reward, rated_at_ms=None), thresholds)


@lru_cache(maxsize=4096)
def _members(reward: Reward, thresholds: Thresholds) -> bytes:
    graded = reward.graded(thresholds)
    return _encode(_record(reward, graded)).removesuffix(b"}") if graded.exportable_for_sft else b""


@lru_cache(maxsize=4096)
def _source(adapter_uri: str, layer_uri: str, layer_index: int) -> bytes:
    """Return a sample's source without its end."""
    source = {"adapter_uri": adapter_uri, "layer_uri": layer_uri, "layer_index": layer_index}
    return _encode(source).removesuffix(b"}")


def _plain(score: float) -> _Score:
    """A score as JavaScript writes it: a whole one without its fraction, zero without its sign, some millionths
    without an exponent. The others of -1 to 1 msgspec writes alike.
    """
    if score in {-1, 0, 1}:
        return int(score)
    return score if abs(score) >= _WRITTEN_ALIKE else msgspec.Raw(number(score).encode())


def _time(at_ms: int | None) -> str | None:
    """Return a time as `core.records.times.iso` does, faster for times of one hour."""
    if at_ms is None or at_ms < 0:
        return None
    hour, rest = divmod(at_ms, HOUR_MS)
    minutes, rest = divmod(rest, MINUTE_MS)
    seconds, millis = divmod(rest, 1000)
    return f"{_hour(hour)}{minutes:02d}:{seconds:02d}.{millis:03d}Z"


@lru_cache(maxsize=4096)
def _hour(hour: int) -> str:
    return instant(hour * HOUR_MS).isoformat()[:14]


# Reading training rows back


class _RewardRead(_Judged, frozen=True, kw_only=True, gc=False):
    rated_at: str | None = None


class _TraceLine(_Origin, gc=False, kw_only=True):
    instruction: dict[str, msgspec.Raw]
    response: dict[str, msgspec.Raw]
    reward: _RewardRead | None = None


class _RewardLine(msgspec.Struct, gc=False):
    instruction: dict[str, msgspec.Raw]
    response: dict[str, msgspec.Raw]
    reward: _RewardRead
    metadata: _Origin


_TRACE_LINE: Final = msgspec.json.Decoder(_TraceLine)
_REWARD_LINE: Final = msgspec.json.Decoder(_RewardLine)


def read_trace(line: bytes) -> TrainingRow:
    """The row of a line of `trace_jsonl`, with any URIs; raises one of `core.formats.strict.UNDECODABLE`."""
    check(line, MAX_DEPTH)
    trace = _TRACE_LINE.decode(line)
    instruction, response = _rejoined(trace.instruction), _rejoined(trace.response)
    return _row(trace, instruction, response, trace.reward)


def read_rewarded(line: bytes) -> TrainingRow:
    """The row of a line of `reward_jsonl`, without its execution and nulls; raises as `read_trace` does."""
    check(line, MAX_DEPTH)
    line_read = _REWARD_LINE.decode(line)
    instruction, response = _rejoined(_there(line_read.instruction)), _rejoined(_there(line_read.response))
    return _row(line_read.metadata, instruction, response, line_read.reward)


def _row(origin: _Origin, instruction: str, response: str, reward: _RewardRead | None) -> TrainingRow:
    return TrainingRow(
        execution=storable("execution_id", origin.execution_id),
        adapter_uri=storable("adapter_uri", origin.adapter_uri),
        layer_uri=storable("layer_uri", origin.layer_uri),
        layer_index=origin.layer_index,
        at_ms=utc_ms_of(origin.timestamp)[0],
        instruction=instruction,
        response=response,
        reward=None if reward is None else _reward(reward),
    )


def _reward(read: _RewardRead) -> Reward:
    for name in ("feedback", *_TEXTS):
        value = getattr(read, name)
        if value is not None:
            storable(name, value)
    return alike(
        Reward,
        read,
        score=None if read.score is None else abs(read.score),  # a negative zero is a zero
        rated_at_ms=utc_ms_of(read.rated_at)[0],
    )


def _there(members: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    return {
        name: value for name, value in members.items() if name not in _NULLABLE or bytes(value) != b"null"
    }


def _rejoined(members: Mapping[str, msgspec.Raw]) -> str:
    return rewritten(msgspec.json.encode(members))
