"""Who may not read texts gets none: a word planted wherever someone can write is in nothing that they are given."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from core.errors import Denied
from core.flows import queries
from core.flows.bundle import export_bundle
from core.flows.context import Context
from core.flows.corrections import note, reset, undo
from core.flows.evaluate import evaluate
from core.flows.export import export_file, export_into
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward
from core.flows.queues import add_queue
from core.flows.review import keep_draft, skip_item
from core.flows.settings import change
from core.formats.armscope import write
from core.records.actor import Grant, Role
from core.records.arm import Arm
from core.records.evaluation_lines import ChoiceLine, ExecutionLine, PairLine
from core.records.ledger_lines import LedgerLine
from core.records.parameters import EXPORT_FORMATS, ExportFormat
from core.records.review import Draft, QueueAsks
from core.records.run import Inventory, Run
from tests.doors.examples import ARM, RUN, example_world
from tests.engine import copy_world
from tests.flows.test_authorisation import FLOWS, TABLE
from tests.worlds import a_run, acting, context_at, granted

WORD = "PLANTED"
SKILL = "skill:review:main"
LAYER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
EXECUTIONS = ("11111111-2222-4333-8444-555555555555", "22222222-3333-4444-8555-666666666666")
READERS: tuple[Role, ...] = ("viewer", "read")
PLACES = set(
    """
    note reward correction reset feedback choice instruction response prompt reply excerpt aside draft key
    """.split()  # noqa: SIM905 - one word per line is a page
)


def planted(place: str) -> str:
    assert place in PLACES
    return f"{WORD} {place}"


def plant(context: Context, folder: Path) -> None:
    """A word wherever people, agents and files can say one."""
    change(context, "keep_texts", True)
    prompt = Inventory(kind="declared", arms=(Arm(key=ARM), Arm(key=SKILL)))
    run = a_run("told", inventory=prompt, calls=["search"])
    excerpt = f"as review says {planted('excerpt')}"
    record_all(
        context,
        [msgspec.structs.replace(run, texts=(excerpt, planted("reply")), prompt=planted("prompt"))],
    )
    note(context, ARM, planted("note"), key="k-note")
    reward(context, ARM, 0.5, reason=planted("reward"), key="k-reward")
    reward(context, ARM, 0.5, run="told", correct=True, reason=planted("correction"))
    evaluate(context, "told", "success", score=0.9, arm=ARM, feedback=planted("feedback"), key="k-evaluation")
    reset(context, arms=[ARM], reason=planted("reset"))
    skip_item(context, "queue-1", 1, planted("aside"))
    keep_draft(context, "queue-1", 1, Draft(feedback=planted("draft")))
    asked, said = (
        msgspec.json.encode({"said": planted(place)}).decode() for place in ("instruction", "response")
    )
    pairs = (PairLine(layer=LAYER, index=1, instruction=asked, response=said),)
    choice = ChoiceLine(
        id="c",
        layer=LAYER,
        first=EXECUTIONS[0],
        second=EXECUTIONS[1],
        chosen="first",
        feedback=planted("choice"),
    )
    told: list[LedgerLine | Run] = [
        *(ExecutionLine(uid=uid, adapter="kairos://adapter/a", pairs=pairs) for uid in EXECUTIONS),
        choice,
    ]
    (folder / "planted.jsonl").write_bytes(b"".join(write(told)))
    assert import_files(context, [folder / "planted.jsonl"]).rejected == ()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to copy, with a database in which every word is planted."""
    folder = tmp_path_factory.mktemp("planted")
    made = example_world(folder)
    (folder / "in").mkdir()
    plant(made, folder / "in")
    made.store.close()
    return folder


@pytest.fixture
def here(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the world, where one is meanwhile."""
    copy_world(world, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def context(here: Path) -> Iterator[Context]:
    """Its database."""
    made = context_at(here / "a.db")
    yield made
    made.store.close()


def answer_text(answer: object) -> str:
    return repr(answer)


def exported(context: Context, format: ExportFormat = "jsonl") -> str:
    file = io.BytesIO()
    export_into(context, file, "-", format)
    return text_of(file.getvalue())


def text_of(content: bytes) -> str:
    """The texts of a file; a table of them is packed."""
    is_table = content.startswith(b"PAR1")
    return repr(pq.read_table(io.BytesIO(content)).to_pylist()) if is_table else content.decode()


def unpacked(files: Iterator[Path]) -> str:
    found = ""
    for file in files:
        if file.suffix == ".zip":
            with zipfile.ZipFile(file) as zipped:
                found += "".join(text_of(zipped.read(name)) for name in zipped.namelist())
        elif file.is_file():
            found += text_of(file.read_bytes())
    return found


def test_the_word_is_everywhere_for_who_may_read_it(context: Context) -> None:
    everything = exported(context)
    assert {place for place in PLACES if planted(place) in everything} == PLACES - {"key", "draft"}


@pytest.mark.parametrize("role", READERS)
@pytest.mark.parametrize(
    "name", [name for name, (action, _) in FLOWS.items() if TABLE[action].intersection(READERS)]
)
def test_no_flow_tells_it(context: Context, here: Path, name: str, role: Role) -> None:
    flow = FLOWS[name][1]
    before = set(here.iterdir())
    with suppress(Denied):
        assert WORD not in answer_text(flow(acting(context, role), here))
    written = sorted(set(here.iterdir()) - before)
    assert WORD not in unpacked(file for file in written if file.suffix != ".lock")


@pytest.mark.parametrize("role", READERS)
def test_no_query_tells_it_of_what_it_was_planted_about(context: Context, role: Role) -> None:
    here = acting(context, role)
    of_arm = (queries.notes(here, ARM), queries.arm_ledger(here, ARM), queries.arm_path(here, ARM))
    of_skill = (queries.arm_ledger(here, SKILL), queries.arm_runs(here, SKILL))
    of_runs = (queries.run(here, "told"), queries.run(here, RUN), queries.runs_view(here))
    of_acts = (queries.changes(here, 100), queries.resets(here), queries.rewards(here), queries.imports(here))
    assert WORD not in answer_text((of_arm, of_skill, of_runs, of_acts))
    assert [one.text for one in queries.notes(here, ARM)] == [""]
    assert WORD in answer_text(queries.run(context, "told"))
    assert WORD in answer_text(queries.changes(context, 100))


@pytest.mark.parametrize("role", READERS)
@pytest.mark.parametrize("format", EXPORT_FORMATS)
def test_no_export_tells_it(context: Context, tmp_path: Path, role: Role, format: ExportFormat) -> None:
    here = acting(context, role)
    assert WORD not in exported(here, format)
    (tmp_path / "out").mkdir()
    assert not export_file(here, tmp_path / "out" / f"a.{format}", format).texts
    assert not export_bundle(here, tmp_path / "out" / "a.zip", format).manifest.texts
    assert WORD not in unpacked((tmp_path / "out").iterdir())
    assert export_file(context, tmp_path / f"b.{format}", format).texts


def test_an_export_without_texts_is_the_same_without_them(context: Context, tmp_path: Path) -> None:
    whole, without = exported(context).splitlines(), exported(acting(context, "viewer")).splitlines()
    assert len(whole) == len(without)
    assert msgspec.json.decode(without[0])["texts"] is False
    assert "texts" not in msgspec.json.decode(whole[0])
    (tmp_path / "without.jsonl").write_text("\n".join(without))
    other = context_at(tmp_path / "other.db")
    answer = import_files(other, [tmp_path / "without.jsonl"])
    assert answer.rejected == ()
    assert queries.verify(other).differences == ()
    assert [(one.arm, one.alpha, one.beta, one.pulls) for one in queries.posteriors(other)] == [
        (one.arm, one.alpha, one.beta, one.pulls) for one in queries.posteriors(context)
    ]
    again = exported(acting(other, "viewer")).splitlines()
    assert len(again) == len(without)
    assert import_files(context, [tmp_path / "without.jsonl"]).rejected == ()
    assert exported(context).splitlines()[1:] == whole[1:], "what is known keeps its texts"


def test_a_token_reads_them_by_name(context: Context) -> None:
    grants = tuple(Grant(role=scope) for scope in ("read", "texts"))
    token = granted(context, *grants, name="token:x", token=1)
    assert WORD in exported(token)
    assert planted("excerpt") in answer_text(queries.run(token, "told"))


def test_a_reviewer_reads_words_of_people_and_texts_of_runs_to_judge(context: Context) -> None:
    here = acting(context, "reviewer")
    assert WORD not in exported(here)
    assert [one.text for one in queries.notes(here, ARM)] == [planted("note")]
    assert planted("excerpt") not in answer_text(queries.run(here, "told"))
    assert queries.transcript(here, "told").messages is None
    queue = add_queue(context, "more", QueueAsks(source="runs", runs=("told",)))
    assert planted("excerpt") in answer_text(queries.run(here, "told"))
    assert planted("prompt") in answer_text(queries.transcript(here, "told"))
    assert queries.transcript(acting(context, "viewer"), "told").messages is None
    undo(context, queue.id)
    assert queries.transcript(here, "told").messages is None


def test_a_run_that_is_told_is_kept_whoever_tells_it(context: Context) -> None:
    """Who may not read texts may bring them."""
    here = acting(context, "ingest")
    run: Run = a_run("brought")
    record(here, msgspec.structs.replace(run, prompt="ask", reply=planted("reply")))
    assert exported(context).count(planted("reply")) == 2
