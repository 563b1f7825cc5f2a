"""Our own format: JSON lines, loss-free, in and out; the topic *import* of the guide describes every field.

Unknown fields are refused, because they may be misspelt. Absent ones mean "unknown" or the default. The order of
lines is the order of learning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, get_args

import msgspec

from core.errors import InvalidInput, UnreadableSource
from core.formats.bundle import is_bundle, unpacked
from core.formats.entries import Entry, Progress, Rejected
from core.formats.moments import utc_ms_of
from core.formats.reading import Format, Head, Reading
from core.formats.strict import UNDECODABLE, Flaw
from core.records.arm import Arm, Prior
from core.records.bill import Spent
from core.records.evidence import Reference
from core.records.ledger_lines import (
    LINES_VERSION,
    ContentLine,
    LearnerLine,
    LedgerLine,
    RunLine,
)
from core.records.limits import Count, Duration, Label, Millis, Tokens, shown
from core.records.run import Call, Inventory, InventoryKind, Phase, Run, RunClass, Status, Unit, Usage
from core.records.selection import Selection
from core.records.verdict import Outcome

NAME: Final = "armscope"

_MAX_KNOWN: Final = 4096
_NO_ARMS: Final = msgspec.Raw(b"")


class _Arm(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    key: str
    label: str | None = None
    token_cost: Tokens | None = None
    content: str | None = None
    prior: Prior | None = None
    version: str | None = None


class _Run(
    msgspec.Struct,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="run",
    rename={"run_class": "class"},
):
    uid: str
    arms: msgspec.Raw
    named: msgspec.Raw = _NO_ARMS
    loaded: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    calls: tuple[Label | Call, ...] = ()
    texts: tuple[str, ...] = ()
    referenced: tuple[str, ...] | None = None
    not_offered: tuple[Label, ...] = ()
    unobserved: tuple[str, ...] = ()
    inventory: InventoryKind = "declared"
    run_class: RunClass = "imported"
    status: Status = "completed"
    ended_at_ms: Millis | None = None
    ended_at: str | None = None
    naive_time: bool = False
    usage: Usage | None = None
    duration_ms: Duration | None = None
    prompt_chars: Count | None = None
    reward: float | None = None
    provider: Label | None = None
    model: Label | None = None
    channel: Label | None = None
    session: Label | None = None
    format: Label = NAME
    unit: Unit = "prompt"
    source: Label | None = None
    rank: Count = 0
    empty: bool = False
    prompt: str | None = None
    reply: str | None = None
    selection: Selection | None = None
    bill: tuple[Spent, ...] = ()
    outcome: Outcome | None = None
    phase: Phase = "active"
    references: tuple[Reference, ...] = ()
    n_calls: Count = 0
    n_real_calls: Count = 0
    revision: Count | None = None


class _Version(msgspec.Struct):
    armscope: int


_LINE: Final = msgspec.json.Decoder(ContentLine | _Run)
_RUN: Final = msgspec.json.Decoder(_Run)
_ARMS: Final = msgspec.json.Decoder(list[str | _Arm])
_VERSION: Final = msgspec.json.Decoder(_Version)
_ENCODER: Final = msgspec.json.Encoder()


# --- in ---------------------------------------------------------------------------------------------------


_REQUIRED: Final[dict[bytes, frozenset[str]]] = {
    msgspec.json.encode(record.__struct_config__.tag): frozenset(
        field.encode_name for field in msgspec.structs.fields(record) if field.required
    )
    for record in (*get_args(ContentLine), _Run)
}
"""Kinds of line as JSON writes them, and the fields that none of the kind goes without."""


def _claims(head: Head) -> bool:
    return is_bundle(head) or "armscope" in head.keys or any(_is_ours(line) for line in head.lines)


def _is_ours(line: Mapping[str, msgspec.Raw]) -> bool:
    required = _REQUIRED.get(bytes(line.get("kind", b"")))
    return required is not None and required <= line.keys()


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    if reading.shape == "archive":
        with unpacked(reading, progress) as lines:
            yield from _read_lines(lines, None)
    else:
        yield from _read_lines(reading, progress)


def _read_lines(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    inventories = _Inventories()

    def entry_of(raw: bytes) -> Entry:
        line = _LINE.decode(raw)
        return _run_entry(line, inventories) if isinstance(line, _Run) else line

    for _, raw, entry in reading.records(entry_of, progress):
        if isinstance(entry, Rejected):
            _refuse_newer_version(raw, reading.file)
        yield entry


def _refuse_newer_version(raw: bytes, file: str) -> None:
    try:
        version = _VERSION.decode(raw).armscope
    except UNDECODABLE:
        return
    if version != LINES_VERSION:
        raise UnreadableSource(
            f"An armscope file must be of version {LINES_VERSION}, got {version} ({file}).",
            next_step="Import it with the version of armscope that wrote it, or a later one.",
        )


class _Inventories:
    """Inventories by their JSON, arms by their id: checked once, however many lines repeat them."""

    def __init__(self) -> None:
        self._inventories: dict[tuple[bytes, bytes, InventoryKind], Inventory] = {}
        self._arms: dict[str, Arm] = {}

    def inventory(self, raw: bytes, named: bytes, kind: InventoryKind) -> Inventory:
        known = self._inventories.get((raw, named, kind))
        if known is None:
            known = Inventory(kind=kind, arms=self._arms_of(raw), named=self._arms_of(named or b"[]"))
            _make_room(self._inventories)
            self._inventories[raw, named, kind] = known
        return known

    def _arms_of(self, raw: bytes) -> tuple[Arm, ...]:
        return tuple([self._arm(arm) for arm in _ARMS.decode(raw)])

    def _arm(self, arm: str | _Arm) -> Arm:
        if isinstance(arm, _Arm):
            return Arm(
                key=arm.key,
                label=arm.label,
                token_cost=arm.token_cost,
                content=arm.content,
                prior=arm.prior,
                version=arm.version,
            )
        known = self._arms.get(arm)
        if known is None:
            _make_room(self._arms)
            known = self._arms[arm] = Arm(key=arm)
        return known


def _make_room(known: dict[tuple[bytes, bytes, InventoryKind], Inventory] | dict[str, Arm]) -> None:
    if len(known) >= _MAX_KNOWN:
        known.clear()


class RunDecoder:
    """Runs as a program sends them, a line each."""

    def __init__(self) -> None:
        self._inventories = _Inventories()

    def run(self, line: bytes) -> Run:
        """The run that a line says; the line is strict JSON already.

        Raises `InvalidInput` for what is no run, and for one that says what came of it: that is found out here.
        """
        try:
            line_run = _RUN.decode(line)
            entry = _run_entry(line_run, self._inventories)
        except msgspec.ValidationError as problem:
            raise InvalidInput(
                f"A run must be as our own lines have it, got one of which this is wrong: {problem}.",
                next_step='Send it like {"kind":"run","uid":"r1","arms":["tool:fs:Read"],"calls":["Read"]}.',
            ) from problem
        except (Flaw, UnreadableSource) as problem:
            raise InvalidInput(
                f"A run must be as our own lines have it, got one that {problem}.", next_step="Correct it."
            ) from problem
        if isinstance(entry, RunLine):
            raise InvalidInput(
                "A run must be sent without its outcome, got one that says it.",
                next_step="Leave outcome out, or import the file.",
            )
        return entry


def _run_entry(line: _Run, inventories: _Inventories) -> Run | RunLine:
    run = _run(line, inventories.inventory(bytes(line.arms), bytes(line.named), line.inventory))
    if line.outcome is None:
        return run
    if line.references:
        _check_references(line.references, run.inventory)
    return RunLine(
        run=run,
        outcome=line.outcome,
        phase=line.phase,
        references=line.references,
        n_calls=line.n_calls,
        n_real_calls=line.n_real_calls,
        revision=line.revision,
    )


def _run(line: _Run, inventory: Inventory) -> Run:
    ended_at_ms, naive_time = line.ended_at_ms, line.naive_time
    if line.ended_at is not None:
        ended_at_ms, naive_time = _ended(line.ended_at)
    return Run(
        uid=line.uid,
        inventory=inventory,
        format=line.format,
        unit=line.unit,
        source=line.source,
        rank=line.rank,
        session=line.session,
        ended_at_ms=ended_at_ms,
        naive_time=naive_time,
        provider=line.provider,
        model=line.model,
        channel=line.channel,
        run_class=line.run_class,
        status=line.status,
        usage=line.usage,
        duration_ms=line.duration_ms,
        prompt_chars=line.prompt_chars,
        reward=line.reward,
        calls=tuple([Call(name=call) if isinstance(call, str) else call for call in line.calls]),
        texts=line.texts,
        loaded=line.loaded,
        excluded=line.excluded,
        referenced=line.referenced,
        not_offered=line.not_offered,
        unobserved=line.unobserved,
        empty=line.empty,
        selection=line.selection,
        bill=line.bill,
        prompt=line.prompt,
        reply=line.reply,
    )


def _ended(text: str) -> tuple[int, bool]:
    ended_at_ms, is_naive = utc_ms_of(text)
    if ended_at_ms is None:
        raise Flaw("has an ended_at that is not an ISO 8601 time since 1970")
    return ended_at_ms, is_naive


def _check_references(references: Sequence[Reference], inventory: Inventory) -> None:
    """Check that references name included arms, one each."""
    named = [reference.arm for reference in references]
    foreign = set(named).difference([arm.key for arm in inventory.offered])
    if foreign:
        raise Flaw(f"has a reference to an arm that was not in the prompt, {shown(min(foreign))}")
    if len(set(named)) != len(named):
        raise Flaw("has two references to the same arm")


# --- out --------------------------------------------------------------------------------------------------


def write(lines: Iterable[LedgerLine | Run]) -> Iterator[bytes]:
    """The lines as JSON, each ended by a newline; reading them gives equal records.

    >>> from core.records.ledger_lines import LearnerLine
    >>> list(write([LearnerLine(armscope=1, name="default")]))[0].startswith(b'{"kind":"learner"')
    True
    """
    for line in lines:
        yield _ENCODER.encode(_written(line)) + b"\n"


def _written(line: LedgerLine | Run) -> ContentLine | _Run | dict[str, object]:
    if isinstance(line, Run):
        return _written_run(line)
    if isinstance(line, LearnerLine) and line.settings is not None:
        return {**msgspec.to_builtins(line), "settings": line.settings.document()}
    if not isinstance(line, RunLine):
        return line
    written = _written_run(line.run)
    written.outcome = line.outcome
    written.phase = line.phase
    written.references = line.references
    written.n_calls = line.n_calls
    written.n_real_calls = line.n_real_calls
    written.revision = line.revision
    return written


def _written_run(run: Run) -> _Run:
    return _Run(
        uid=run.uid,
        arms=_written_arms(run.inventory.arms),
        named=_written_arms(run.inventory.named) if run.inventory.named else _NO_ARMS,
        loaded=run.loaded,
        excluded=run.excluded,
        calls=tuple([call if call.metadata else call.name for call in run.calls]),
        texts=run.texts,
        referenced=run.referenced,
        not_offered=run.not_offered,
        unobserved=run.unobserved,
        inventory=run.inventory.kind,
        run_class=run.run_class,
        status=run.status,
        ended_at_ms=run.ended_at_ms,
        naive_time=run.naive_time,
        usage=run.usage,
        duration_ms=run.duration_ms,
        prompt_chars=run.prompt_chars,
        reward=run.reward,
        provider=run.provider,
        model=run.model,
        channel=run.channel,
        session=run.session,
        format=run.format,
        unit=run.unit,
        source=run.source,
        rank=run.rank,
        empty=run.empty,
        selection=run.selection,
        bill=run.bill,
        prompt=run.prompt,
        reply=run.reply,
    )


def _written_arms(arms: Sequence[Arm]) -> msgspec.Raw:
    return msgspec.Raw(_ENCODER.encode([_written_arm(arm) for arm in arms]))


def _written_arm(arm: Arm) -> str | _Arm:
    written = _Arm(
        key=arm.key,
        label=arm.label,
        token_cost=arm.token_cost,
        content=arm.content,
        prior=arm.prior,
        version=arm.version,
    )
    return arm.key if written == _Arm(key=arm.key) else written


FORMAT: Final = Format(name=NAME, units=(), claims=_claims, read=_read, takes_tools=False, reads_zips=True)
