"""Training exports: instructions, answers and evaluations, written to a training file with a manifest.

Eligibility is computed from the record and the active thresholds during the export. Rows are streamed in the order of
their evaluations. Memory is only needed for the manifest's counts: a few hundred bytes per row, without texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import IO, Annotated, Final, Unpack

import msgspec
from msgspec import Meta

from core.flows.context import Context
from core.flows.new_file import new_file
from core.flows.training_counts import TrainingCounts
from core.formats.kairos import (
    TrainingRow,
    preference_jsonl,
    reward_csv,
    reward_jsonl,
    sft_jsonl,
    trace_jsonl,
)
from core.records.alike import alike
from core.records.evaluation import Thresholds
from core.records.layer import LayerUri
from core.records.parameters import completed
from core.records.times import iso
from core.records.training import (
    MANIFEST_END,
    Pairing,
    TrainingAnswer,
    TrainingFormat,
    TrainingManifest,
    TrainingOptions,
    TrainingQuery,
)
from core.store.reads.training import JudgedPair, TrainingFilter, all_pairs, judged_pairs, texts_of_pair
from core.store.transaction import Snapshot
from core.version import __version__

_BLOCK_BYTES: Final = 1 << 16


def export_training(
    context: Context,
    target: Annotated[Path, Meta(description="A new file.")],
    format: Annotated[TrainingFormat, Meta(description="What becomes a row.")],
    *,
    pairing: Annotated[
        Pairing, Meta(description="What a chosen and a rejected answer have in common: prompt or layer.")
    ] = "prompt",
    manifest: Annotated[bool, Meta(description="Write FILE.manifest.json next to it.")] = True,
    include_reward: Annotated[bool, Meta(description="Write the reward into each row.")] = True,
    with_secrets: Annotated[bool, Meta(description="Write rows that seem to hold a secret, too.")] = False,
    **filters: Unpack[TrainingOptions],
) -> TrainingAnswer:
    """Write evaluations into a new file to train on, with a manifest next to it.

    The manifest is ``NAME.manifest.json``; the answer has it in any case. ``reward_jsonl`` and ``reward_csv`` have a
    row for every evaluation of a pair. ``sft_jsonl`` has one for each pair with an eligible success, by the first of
    them. ``preference_jsonl`` has one for each group with an eligible success and an eligible failure.
    ``trace_jsonl`` has a row for every evaluation and for each pair without one.

    By ``pairing`` a group has the same instruction (equal as JSON), or the same layer. Without ``include_reward``
    ``sft_jsonl`` and ``trace_jsonl`` have the same rows without their rewards. Rows that seem to hold a secret are
    held back and listed, except ``with_secrets``. ``filters`` are adapters by URI or name, layers and executions by
    URI or uid, and times in UTC milliseconds, the end excluded. Raises `Denied` for an actor who may not export for
    training, and `InvalidInput` for an existing file.

    Of one rater's evaluations of a pair, its execution and its run the nearest counts. A tenth of all clusters of
    sessions and instructions is held out for tests (see `core.maths.statistics.clusters`).
    """
    context.permit("export_training")
    only = completed(TrainingOptions, filters)
    query = TrainingQuery(
        format=format,
        pairing=pairing,
        include_reward=include_reward,
        with_secrets=with_secrets,
        adapters=tuple(only["adapters"]),
        layers=tuple(_uid(name) for name in only["layers"]),
        executions=tuple(name.lower() for name in only["executions"]),
        raters=tuple(only["raters"]),
        rubrics=tuple(only["rubrics"]),
        since_ms=only["since_ms"],
        until_ms=only["until_ms"],
    )
    manifest_path = target.with_name(target.name + MANIFEST_END) if manifest else None
    with ExitStack() as files:
        second = None if manifest_path is None else files.enter_context(new_file(manifest_path))
        file = files.enter_context(new_file(target))
        result = training_into(context, file, target.name, query)
        if second is not None:
            second.write(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    name = None if manifest_path is None else str(manifest_path)
    return TrainingAnswer(file=str(target), rows=result.rows, manifest_file=name, manifest=result)


def training_into(context: Context, file: IO[bytes], name: str, query: TrainingQuery) -> TrainingManifest:
    """Write the rows of one snapshot into an open file called ``name``, and return the manifest."""
    with context.reading_for_export("export_training") as snapshot:
        settings = snapshot.settings
        counts = TrainingCounts(
            query, settings.thresholds, settings.trusted_graders, personal=settings.personal_numbers
        )
        digest, size_bytes = sha256(), 0
        for block in _blocks(_lines(snapshot, query, counts)):
            file.write(block)
            digest.update(block)
            size_bytes += len(block)
        return TrainingManifest(
            armscope=__version__,
            file=name,
            sha256=digest.hexdigest(),
            size_bytes=size_bytes,
            made_at=iso(context.clock()),
            made_by=context.actor.name,
            learner=snapshot.name,
            origin=snapshot.origin,
            revision=snapshot.revision,
            query=query,
            thresholds=snapshot.settings.thresholds,
            **counts.manifest_counts(snapshot),
        )


def _blocks(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines with line ends, in blocks large enough for one system call."""
    block: list[bytes] = []
    n_bytes = 0
    for line in lines:
        block.append(line)
        n_bytes += len(line)
        if n_bytes > _BLOCK_BYTES:
            yield b"\n".join((*block, b""))
            block, n_bytes = [], 0
    if block:
        yield b"\n".join((*block, b""))


def _uid(name: str) -> str:
    """Return the comparable form of a layer's URI or uid."""
    return LayerUri.parse(name).key if name.lower().startswith("kairos:") else name.lower()


def _lines(snapshot: Snapshot, query: TrainingQuery, counts: TrainingCounts) -> Iterator[bytes]:
    """Yield the file's lines without line ends."""
    thresholds, judged = snapshot.settings.thresholds, judged_pairs(snapshot, alike(TrainingFilter, query))
    if query.format == "preference_jsonl":
        return _preferences(snapshot, query, counts, judged)
    if query.format == "sft_jsonl":
        rows = counts.rows(judged, attrgetter("exportable_for_sft"), once=True)
        return sft_jsonl(rows, thresholds, include_reward=query.include_reward)
    rows = counts.rows(judged, lambda _: True)
    if query.format == "reward_jsonl":
        return reward_jsonl(rows, thresholds)
    if query.format == "reward_csv":
        return reward_csv(rows, thresholds)
    return trace_jsonl(
        _and_unjudged(snapshot, query, counts, rows), thresholds, include_reward=query.include_reward
    )


def _and_unjudged(
    snapshot: Snapshot, query: TrainingQuery, counts: TrainingCounts, rows: Iterator[TrainingRow]
) -> Iterator[TrainingRow]:
    """Yield unjudged pairs after the rows, unless the query filters by rater, rubric or time."""
    yield from rows
    is_about_judges = (
        query.raters or query.rubrics or query.since_ms is not None or query.until_ms is not None
    )
    if not is_about_judges:
        yield from counts.unjudged(all_pairs(snapshot, alike(TrainingFilter, query)))


def _preferences(
    snapshot: Snapshot, query: TrainingQuery, counts: TrainingCounts, judged: Iterator[list[JudgedPair]]
) -> Iterator[bytes]:
    """Read the pairs twice: first find the best of each group by numbers alone, then read their texts."""
    thresholds: Thresholds = snapshot.settings.thresholds
    texts: Callable[[JudgedPair], JudgedPair] = lambda row: _with_texts(snapshot, row)  # noqa: E731
    for chosen, rejected in counts.best(judged, texts):
        pair = [chosen, msgspec.structs.replace(rejected, instruction=chosen.instruction)]
        yield from preference_jsonl(pair, thresholds, pairing=query.pairing)


def _with_texts(snapshot: Snapshot, row: JudgedPair) -> JudgedPair:
    instruction, response = texts_of_pair(snapshot, row.execution_no, row.layer_no)
    return row._replace(instruction=instruction, response=response)
