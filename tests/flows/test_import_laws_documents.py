"""The laws of importing, on formats whose file is a document that is written again as it grows, or a zip."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import UnreadableSource
from core.flows.context import Context
from core.flows.importing import import_files
from core.records.run import Unit
from tests.flows.test_import_laws import Growing, check, of_kind
from tests.formats import test_gemini_cli as gemini
from tests.formats import test_inspect_log as inspect
from tests.formats import test_langfuse as langfuse
from tests.formats import test_swe_agent as swe
from tests.formats import test_tau2 as tau2
from tests.worlds import context_at

Json = dict[str, Any]


def synthetic() -> Iterator[Growing]:
    simulations = [tau2.simulation([*tau2.TALK, tau2.call(f"tool{n}")], id=f"s{n}") for n in range(4)]
    for unit in ("episode", "turn"):
        yield Growing(f"tau2-{unit}", tuple(tau2.results(*simulations[:n]) for n in (1, 3, 4)), unit)
    messages = [*gemini.TALK]
    early = {**messages[1], "toolCalls": [], "tokens": None}
    stages = [[messages[0]], [messages[0], early], *(messages[:n] for n in range(2, len(messages) + 1))]
    yield Growing("gemini", tuple(gemini.document(stage) for stage in stages))
    samples = [inspect.sample(n, events=None if n else []) for n in range(3)]
    yield Growing("inspect", tuple(inspect.log(*samples[:n]) for n in (1, 2, 3)))
    declared = [inspect.sample(n) for n in range(3)]
    yield Growing("inspect-zip", tuple(inspect.archive(*declared[:n]) for n in (1, 2, 3)))
    spans = [
        langfuse.observation("a1", "AGENT"),
        langfuse.reply("g2", "a1", output=langfuse.assistant_calls(langfuse.FUNCTION)),
        langfuse.step("s3", "a1", sent={"gen_ai.tool.name": "search"}),
        langfuse.step("s4", "a1", sent={"gen_ai.tool.name": "book"}),
        langfuse.reply("g5", "a1", output="done"),
    ]
    exports = (json.dumps(langfuse.export(*spans[:n])).encode() for n in range(1, 6))
    yield Growing("langfuse", tuple(exports))
    works = (swe.trajectory(*swe.WORK[:n], steps=(n + 1) // 2) for n in (1, 2, 3, 5))
    yield Growing("swe-agent", tuple(swe.content(work) for work in works))


def _documents(folder: Path) -> list[Json]:
    return [json.loads(gzip.decompress(path.read_bytes())) for path in sorted(folder.glob("*.gz"))]


def _stages(document: Json, field: str, *counts: int) -> tuple[bytes, ...]:
    told = ({**document, field: document[field][:n]} for n in counts)
    return tuple(msgspec.json.format(msgspec.json.encode(one), indent=1) for one in told)


def real(data: Path) -> Iterator[Growing]:
    for number, results in enumerate(_documents(data / "tau2-results")):
        unit: Unit = "turn" if number == 1 else "episode"
        stages = _stages(results, "simulations", 1, 9, 14)
        yield Growing(f"tau2-{number}", stages, unit, data / "tau2-results" / "tools-by-domain.json")
        yield Growing(f"tau2-inferred-{number}", stages, unit)
    for number, session in enumerate(_documents(data / "gemini-cli")):
        counts = range(1, len(session["messages"]) + 1)
        yield Growing(f"gemini-{number}", _stages(session, "messages", *counts))
    for number, log in enumerate(_documents(data / "inspect-ai")):
        counts = range(1, len(log["samples"]) + 1)
        yield Growing(f"inspect-{number}", _stages(log, "samples", *counts))
    for path in (data / "inspect-ai").glob("*.eval"):
        yield Growing("inspect-zip", tuple(_part(path, n) for n in (1, 30, 100)))
    for number, trace in enumerate(_documents(data / "langfuse-trace")):
        trace["observations"].sort(key=lambda one: one["startTime"])
        n_all = len(trace["observations"])
        yield Growing(f"langfuse-{number}", _stages(trace, "observations", max(n_all // 2, 1), n_all))


def _part(path: Path, n_samples: int) -> bytes:
    """The zip as it was when fewer samples were done."""
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as part:
        samples = [name for name in whole.namelist() if name.startswith("samples/")]
        for name in ("header.json", *samples[:n_samples]):
            part.writestr(name, whole.read(name))
    return packed.getvalue()


@pytest.mark.parametrize("growing", list(synthetic()), ids=lambda growing: growing.name)
def test_made_up_sources(growing: Growing, tmp_path: Path) -> None:
    check(growing, tmp_path)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["tau2-", "gemini-", "inspect-", "langfuse-"])
def test_real_sources(shared_data: Path, kind: str, tmp_path: Path, *, every: bool) -> None:
    sources = of_kind(real(shared_data), kind, every=every)
    assert sources
    for growing in sources:
        try:
            growing.into(context_at(tmp_path / f"{growing.name}-whole.db"), tmp_path, len(growing.stages) - 1)
        except UnreadableSource:
            assert kind == "langfuse-"  # one trace can't be told, however long it is
        else:
            check(growing, tmp_path)


def test_results_that_are_here_by_turn_are_refused_by_episode(shared_data: Path, context: Context) -> None:
    """Those of an agent without a user have no turns, so they come by episode only."""
    import_files(context, [shared_data / "tau2-results"], unit="turn")
    answer = import_files(context, [shared_data / "tau2-results"], unit="episode")
    assert (answer.runs, answer.rejected_count) == (40, 100)
    assert "by turn; by episode its calls would count twice" in answer.rejected[0].reason


def test_a_folder_with_a_trace_that_can_t_be_told_imports_the_others(
    shared_data: Path, tmp_path: Path
) -> None:
    answer = import_files(context_at(tmp_path / "a.db"), [shared_data / "langfuse-trace"])
    assert (answer.runs, answer.observed, answer.skipped, answer.rejected_count) == (6, 4, 2, 1)
    assert "beeai" in answer.rejected[0].file
    assert "name the tool" in answer.rejected[0].reason
