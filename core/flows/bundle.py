"""Bundle: a zip with an export and its manifest, which holds the learner, the revision and the hash of each file.

The recipient can check that the files are complete and unchanged, and which settings the learner had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import msgspec
from msgspec import Meta

from core.flows.context import Context
from core.flows.export import OpenClawView, write_into
from core.flows.new_file import new_file
from core.flows.progress import ProgressCallback
from core.formats.openclaw_shape import observations_as_csv, posteriors_as_csv
from core.records.alike import alike
from core.records.answers import ExportAnswer
from core.records.parameters import ChosenExportFormat, ExportFormat
from core.records.times import iso
from core.store.reads import totals
from core.store.schema import HEAD
from core.store.transaction import Snapshot
from core.version import __version__

MANIFEST: Final = "manifest.json"
_FIRST_DAY_MS: Final = 315_532_800_000
"""Earliest time that a zip can store: 1980."""


class PackedFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Manifest of an export. Times are ISO 8601 UTC, None = unknown.

    ``lines``, ``runs``, ``rewards`` and ``resets`` count the content of the files, without undone imports. ``texts``
    False: texts and excerpts are left out. ``hidden`` counts evaluations that are left out because a blind queue
    hides them from the actor. ``compacted`` counts runs of which only sums are left, so that they are in no file.
    """

    armscope: str
    schema: str
    format: ExportFormat
    made_at: str | None
    made_by: str
    learner: str
    origin: str
    revision: int
    lines: int
    arms: int
    runs: int
    rewards: int
    resets: int
    observations: int
    first_run: str | None
    last_run: str | None
    settings: dict[str, object]
    files: tuple[PackedFile, ...]
    texts: bool = True
    hidden: int = 0
    head: str | None = None
    compacted: int = 0


class BundleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a bundle export. ``size_bytes`` and ``sha256`` belong to the zip."""

    file: str
    size_bytes: int
    sha256: str
    manifest: Manifest


def export_bundle(
    context: Context,
    target: Annotated[Path, Meta(description="A new file.")],
    format: ChosenExportFormat = "jsonl",
    *,
    progress: ProgressCallback | None = None,
) -> BundleAnswer:
    """Write all data into a new zip: the export and a manifest with hashes and settings.

    The zip holds one snapshot of the learner. Raises `InvalidInput` for an existing file.
    """
    context.permit("read")
    with (
        new_file(target) as file,
        context.reading_for_export() as snapshot,
        ZipFile(file, "w", ZIP_DEFLATED) as zipped,
    ):
        packer = _Packer(zipped, context.clock())
        answer = _pack(snapshot, packer, format, progress)
        manifest = _manifest(context, snapshot, answer, packer)
        with packer.file(MANIFEST) as put:
            put(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    return BundleAnswer(
        file=str(target), size_bytes=target.stat().st_size, sha256=_hash_of(target), manifest=manifest
    )


def _pack(
    snapshot: Snapshot, packer: _Packer, format: ExportFormat, progress: ProgressCallback | None
) -> ExportAnswer:
    if format != "csv":
        with packer.file(f"export.{format}") as put:
            return write_into(snapshot, put, f"export.{format}", format, progress)
    view = OpenClawView(snapshot, progress)
    with packer.file("export.csv") as put:
        for line in posteriors_as_csv(view.posteriors):
            put(line.encode())
    with packer.file("export.observations.csv") as put:
        for line in observations_as_csv(view.observations()):
            put(line.encode())
    return view.answer("export.csv", format)


class _Packer:
    """Writer of files into a zip, with the size and hash of each."""

    def __init__(self, zipped: ZipFile, now_ms: int) -> None:
        self._zipped = zipped
        self.now_ms = now_ms
        self.files: list[PackedFile] = []

    @contextmanager
    def file(self, name: str) -> Iterator[Callable[[bytes], object]]:
        """Yield a function that writes bytes to one new file."""
        packed_at = datetime.fromtimestamp(max(self.now_ms, _FIRST_DAY_MS) / 1000, UTC)
        info = ZipInfo(name, date_time=packed_at.timetuple()[:6])
        info.compress_type = ZIP_DEFLATED
        digest, n_bytes = hashlib.sha256(), 0
        with self._zipped.open(info, "w", force_zip64=True) as member:

            def put(piece: bytes) -> None:
                nonlocal n_bytes
                member.write(piece)
                digest.update(piece)
                n_bytes += len(piece)

            yield put
        self.files.append(PackedFile(name=name, size_bytes=n_bytes, sha256=digest.hexdigest()))


def _manifest(context: Context, snapshot: Snapshot, answer: ExportAnswer, packer: _Packer) -> Manifest:
    known = totals(snapshot)
    return alike(
        Manifest,
        answer,
        armscope=__version__,
        schema=HEAD,
        made_at=iso(packer.now_ms),
        made_by=context.actor.name,
        learner=snapshot.name,
        origin=snapshot.origin,
        first_run=iso(known.first_at_ms),
        last_run=iso(known.last_at_ms),
        settings=snapshot.settings.document(),
        files=tuple(packer.files),
    )


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
