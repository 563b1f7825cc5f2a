"""Our own format: JSON lines, loss-free, in and out; the guide's topic *import* describes every field.

Unknown fields are refused, because they may be misspelt. Absent ones mean "unknown" or the default. The order of
lines is the order of learning.

``armscope export --manifest`` writes the lines into a zip with their manifest. They are held against it before any is
read: a zip that was changed on its way is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, get_args

import msgspec

from core.errors import InvalidInput, UnreadableSource
from core.formats.archive import Archive
from core.formats.entries import Entry, Progress, Rejected
from core.formats.reading import Format, Head, Reading
from core.formats.stream import Damage
from core.formats.strict import Flaw, decoded, utc_ms_of
from core.records.arm import Arm
from core.records.bill import Spent
from core.records.evidence import Outcome, Reference
from core.records.ledger_lines import (
    LINES_VERSION,
    ContentLine,
    LearnerLine,
    LedgerLine,
    RunLine,
)
from core.records.limits import Count, Duration, Label, Millis, shown
from core.records.misfits import misfit
from core.records.run import (
    Call,
    History,
    Inventory,
    InventoryKind,
    Phase,
    Run,
    RunClass,
    Status,
    Unit,
    Usage,
)
from core.records.selection import Selection

NAME: Final = "armscope"
MANIFEST: Final = "manifest.json"
LINES: Final = "export.jsonl"

_MAX_KNOWN: Final = 4096
_NO_ARMS: Final = msgspec.Raw(b"")

_ENCODER: Final = msgspec.json.Encoder()
_OF_ARM: Final = Arm.__struct_fields__

_ARM_VALUES: Final = attrgetter(*_OF_ARM)
_NO_DETAILS: Final = (None,) * (len(_OF_ARM) - 1)


class _Arm(Arm, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An arm as a line has it, checked as one."""


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
    typed: tuple[str, ...] = ()
    loads_known: bool = False
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
    achieved: float | None = None
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
    history: History | None = None
    outcome: Outcome | None = None
    phase: Phase = "active"
    references: tuple[Reference, ...] = ()
    n_calls: Count = 0
    n_real_calls: Count = 0
    revision: Count | None = None


class _File(msgspec.Struct):
    name: str
    sha256: str


class _Manifest(msgspec.Struct):
    files: tuple[_File, ...]


class _Version(msgspec.Struct):
    armscope: int


_LINE: Final = msgspec.json.Decoder(ContentLine | _Run)
_RUN: Final = msgspec.json.Decoder(_Run)
_ARMS: Final = msgspec.json.Decoder(list[str | _Arm])
_VERSION: Final = msgspec.json.Decoder(_Version)
_MANIFEST: Final = msgspec.json.Decoder(_Manifest)
_OF_RUN: Final = tuple(name for name in Run.__struct_fields__ if name in _Run.__struct_fields__)
"""Fields of a line that are fields of its run, too; its arms, calls and time are written in another way."""
_WrittenArm: Final = msgspec.defstruct(
    "_WrittenArm", [(name, object, None) for name in _OF_ARM], omit_defaults=True
)
_RUN_VALUES: Final = attrgetter(*_OF_RUN)
_NOT_OF_RUN: Final = tuple({*_Run.__struct_fields__}.difference(Run.__struct_fields__))
_OF_OUTCOME: Final = tuple(name for name in RunLine.__struct_fields__ if name != "run")


# --- in ---------------------------------------------------------------------------------------------------


_REQUIRED: Final[dict[bytes, frozenset[str]]] = {
    msgspec.json.encode(record.__struct_config__.tag): frozenset(
        field.encode_name for field in msgspec.structs.fields(record) if field.required
    )
    for record in (*get_args(ContentLine), _Run)
}
"""Required fields of each kind of line; kinds as JSON writes them."""


def _claims(head: Head) -> bool:
    is_bundle = head.shape == "archive" and {MANIFEST, LINES} <= head.keys
    return is_bundle or "armscope" in head.keys or any(_is_ours(line) for line in head.lines)


def _is_ours(line: Mapping[str, msgspec.Raw]) -> bool:
    required = _REQUIRED.get(bytes(line.get("kind", b"")))
    return required is not None and required <= line.keys()


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    if reading.shape == "archive":
        with _unpacked(reading, progress) as lines:
            yield from _read_lines(lines, None)
    else:
        yield from _read_lines(reading, progress)


@contextmanager
def _unpacked(reading: Reading, progress: Progress | None) -> Iterator[Reading]:
    """Yield the zip's lines as a file; raises `UnreadableSource` if the manifest names others or one is damaged."""
    with TemporaryDirectory(prefix="armscope-") as folder:
        lines = Path(folder) / LINES
        with (
            reading.report_errors(),
            Archive(reading.path, reading.file, reading.limits, progress) as archive,
            lines.open("wb") as target,
        ):
            manifest = archive.read(MANIFEST)
            named = None if isinstance(manifest, Damage) else decoded(_MANIFEST, manifest)
            expected = {file.name: file.sha256 for file in named.files}.get(LINES) if named else None
            copied = archive.copy(LINES, target)
        if expected is None or isinstance(copied, Damage) or copied != expected:
            raise UnreadableSource(
                f"An export's lines must be the ones that its manifest names, but these aren't ({reading.file}).",
                next_step="Copy the zip again from where it came; nothing of it was read.",
            )
        yield replace(reading, path=lines, shape="lines")


def _read_lines(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    inventories = _Inventories()

    def entry_of(raw: bytes) -> Entry:
        line = _LINE.decode(raw)
        return _run_entry(line, inventories) if isinstance(line, _Run) else line

    for _, raw, entry in reading.records(entry_of, progress):
        line = decoded(_VERSION, raw) if isinstance(entry, Rejected) else None
        if line is not None and line.armscope != LINES_VERSION:
            raise UnreadableSource(
                f"An armscope file must be of version {LINES_VERSION}, got {line.armscope} ({reading.file}).",
                next_step="Import it with the version of armscope that wrote it, or a later one.",
            )
        yield entry


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
            return Arm(**{name: getattr(arm, name) for name in _OF_ARM})
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
        """Return the run of a line, which is strict JSON already.

        Raises `InvalidInput` for an invalid run, and for one with an ``outcome``, which armscope computes itself.
        """
        try:
            line_run = _RUN.decode(line)
            entry = _run_entry(line_run, self._inventories)
        except msgspec.ValidationError as problem:
            raise InvalidInput(
                f"A run must be as our own lines have it, got one of which this is wrong: {misfit(problem)}.",
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
        named = [reference.arm for reference in line.references]
        foreign = set(named).difference([arm.key for arm in run.inventory.offered])
        if foreign:
            raise Flaw(f"has a reference to an arm that was not in the prompt, {shown(min(foreign))}")
        if len(set(named)) != len(named):
            raise Flaw("has two references to the same arm")
    return RunLine(run=run, **{name: getattr(line, name) for name in _OF_OUTCOME})


def _run(line: _Run, inventory: Inventory) -> Run:
    fields = msgspec.structs.asdict(line)
    for name in _NOT_OF_RUN:
        del fields[name]
    fields["calls"] = tuple([Call(name=call) if isinstance(call, str) else call for call in line.calls])
    if line.ended_at is not None:
        ended_at_ms, is_naive = utc_ms_of(line.ended_at)
        if ended_at_ms is None:
            raise Flaw("has an ended_at that is not an ISO 8601 time since 1970")
        fields["ended_at_ms"], fields["naive_time"] = ended_at_ms, is_naive
    fields["inventory"] = inventory
    return Run(**fields)


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
    for name in _OF_OUTCOME:
        setattr(written, name, getattr(line, name))
    return written


def _written_run(run: Run) -> _Run:
    fields = dict(zip(_OF_RUN, _RUN_VALUES(run), strict=True))
    fields["arms"] = _written_arms(run.inventory.arms)
    fields["named"] = _written_arms(run.inventory.named) if run.inventory.named else _NO_ARMS
    fields["calls"] = tuple([call if call.metadata else call.name for call in run.calls])
    fields["inventory"] = run.inventory.kind
    return _Run(**fields)


def _written_arms(arms: Sequence[Arm]) -> msgspec.Raw:
    return msgspec.Raw(_ENCODER.encode([_written_arm(arm) for arm in arms]))


def _written_arm(arm: Arm) -> str | msgspec.Struct:
    """Return an arm as `_Arm` encodes it. Its constructor would check each arm of each run again."""
    values = _ARM_VALUES(arm)
    return arm.key if values[1:] == _NO_DETAILS else _WrittenArm(*values)


FORMAT: Final = Format(name=NAME, units=(), claims=_claims, read=_read, takes_tools=False, reads_zips=True)
