"""Erased is gone: out of every place a text can be, off the disk, out of what imports bring; every number stays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import LargeBinary, Text

import core
from core.errors import NotFound
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, redo, reset, undo
from core.flows.erase import erase, preview_erase
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward
from core.flows.queues import add_queue, add_rubric, rubrics
from core.flows.settings import change
from core.formats.armscope import write
from core.records.actor import Actor
from core.records.arm import Arm
from core.records.evaluation_lines import ChoiceLine, ExecutionLine, PairLine
from core.records.ledger_lines import LedgerLine
from core.records.queue_lines import ItemLine, QueueLine, SkippedLine
from core.records.review import Criterion, Level, QueueAsks, Rubric
from core.records.run import History, Inventory, Run
from core.store import tables
from core.store.erasing import REACHED
from core.store.texts import execution_uid
from core.store.transaction import Transaction
from tests.engine import content, file_database, named
from tests.formats.builders import lines
from tests.worlds import a_run, context_at

WORD, SESSION, PERSON = "PLANTED", "session-of-PLANTED", "Perdita"
ARM, SKILL = "tool:other:a", "skill:review:main"
LAYER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
FIRST, SECOND = "11111111-2222-4333-8444-555555555555", "22222222-3333-4444-8555-666666666666"
PROMPT = Inventory(kind="declared", arms=(Arm(key=ARM), Arm(key=SKILL)))

COLUMNS = {
    f"{table.name}.{column.name}"
    for table in tables.metadata.tables.values()
    for column in table.columns
    if isinstance(column.type, (Text, LargeBinary))
}

WRITTEN = st.builds(
    "Zoë{}Q{}".format,
    st.text(st.sampled_from("Aéß'-. 7"), min_size=1, max_size=6),
    st.text(st.sampled_from(".)'"), max_size=3),
)


def words_at(place: str) -> str:
    return f"{WORD} {place}"


def run(uid: str = "request-9", rank: int = 0) -> Run:
    made = a_run(uid, calls=("a",) * (rank + 1), inventory=PROMPT, rank=rank)
    texts = (f"as review says {words_at(f'excerpt {rank}')}", words_at(f"reply {rank}"))
    history = History(marks=b"\x01" + words_at("marks").encode() + b"+" * rank)
    made = msgspec.structs.replace(made, session=SESSION, texts=texts, prompt=words_at(f"prompt {rank}"))
    return msgspec.structs.replace(made, history=history)


def told_by_a_file() -> list[LedgerLine | Run]:
    asked, answered = (
        msgspec.json.encode({"said": words_at(one)}).decode() for one in ("instruction", "response")
    )
    pairs = (PairLine(layer=LAYER, index=1, instruction=asked, response=answered),)
    choice = ChoiceLine(
        id="c",
        layer=LAYER,
        first=FIRST,
        second=SECOND,
        chosen="first",
        rater=PERSON,
        feedback=words_at("choice"),
    )
    item = ItemLine(no=1, run="request-9", why=words_at("why"), assigned_to=PERSON)
    return [
        *(
            ExecutionLine(
                uid=uid, adapter="kairos://adapter/a", session=SESSION, run="request-9", pairs=pairs
            )
            for uid in (FIRST, SECOND)
        ),
        choice,
        QueueLine(id="q", name="Week 12", items=(item,), by=PERSON),
        SkippedLine(id="s", queue="q", item=1, reason=words_at("aside"), by=PERSON),
    ]


def draft(context: Context) -> None:
    def work(txn: Transaction) -> None:
        txn.connection.run(
            "INSERT INTO review_draft (learner_id, review_queue_no, item_no, actor, fields, until_ms)"
            " VALUES (?, 1, 1, ?, ?, 0)",
            [txn.learner_id, PERSON, msgspec.json.encode({"feedback": words_at("draft")}).decode()],
        )

    context.write("evaluate", work)


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    """A world whose sums equal its facts afterwards, no matter what was erased."""
    made = planted_world(tmp_path)
    yield made
    made.store.close()
    with closing(context_at(tmp_path / "a.db").store) as store:
        assert queries.verify(replace(made, store=store)).differences == ()


def planted_world(folder: Path) -> Context:
    """A word wherever someone can say one of one run, by one person, and another run beside it."""
    context = context_at(folder / "a.db")
    change(context, "keep_texts", True)
    person = replace(context, actor=Actor(name=PERSON, role="operator"))
    file = folder / "runs.jsonl"
    bad = {
        "kind": "run",
        "uid": words_at("rejected"),
        "arms": ["tool:other:a"],
        "status": words_at("rejected"),
    }
    file.write_bytes(b"".join(write([run(), run(rank=1)])) + lines([bad]))
    import_files(person, [file])
    beside = msgspec.structs.replace(run("request-10"), session="another", history=None)
    record_all(person, [msgspec.structs.replace(beside, texts=(), prompt=None)])
    other = replace(person, pace=context.pace)
    reward(other, ARM, 0.5, run="request-9", correct=True, reason=words_at("reason"), key="k-reward")
    evaluate(
        other, "request-9", "success", score=0.9, arm=ARM, feedback=words_at("feedback"), key="k-evaluation"
    )
    evaluate(other, execution_uid("request-9"), "failure", feedback=words_at("feedback too"), rubric="v1")
    note(other, ARM, f"see request-9: {words_at('note')}", key="k-note")
    undo(other, reset(other, arms=[SKILL], reason=f"after request-9 {words_at('reset')}").id)
    planted = folder / "planted.jsonl"
    planted.write_bytes(b"".join(write(told_by_a_file())))
    assert import_files(other, [planted]).rejected == ()
    evaluate(other, FIRST, "success", score=1.0, feedback=words_at("of an execution"), rater=PERSON)
    draft(other)
    return context


def bytes_of(context: Context) -> bytes:
    return content(context.store)


def numbers(context: Context) -> object:
    """Everything that is counted, with no word in it."""
    with context.store.reading(context.learner) as snapshot:
        counted = [
            (table.name, snapshot.connection.rows(f'SELECT count(*) FROM "{table.name}"'))
            for table in tables.metadata.tables.values()
            if table.name not in {"erased", "audit", "link", "review_draft", "learner", "run_text", "history"}
        ]
        beliefs = ", ".join(set(tables.metadata.tables["posterior"].columns.keys()) - {"changed"})
        moved = snapshot.connection.rows(f"SELECT {beliefs} FROM posterior ORDER BY arm_no")
        kept = snapshot.connection.rows(
            "SELECT run_no, rank, trace, digest, tokens, n_calls, revision, standing FROM run ORDER BY run_no"
        )
        judged = snapshot.connection.rows(
            "SELECT evaluation_no, score, outcome, counts, supersedes, at_ms FROM evaluation ORDER BY evaluation_no"
        )
        quality = snapshot.connection.rows(
            "SELECT layer_no, retrievals, bonus FROM layer_quality ORDER BY layer_no"
        )
    return counted, moved, kept, judged, quality


def staying() -> dict[str, set[str]]:
    """Return the columns that the page says stay, by its patterns, without those that erasing reaches."""
    page = (Path(core.__file__).parent / "guide/promises.md").read_text(encoding="utf-8")
    patterns = re.findall(r"`([\w*]+\.[\w*]+)`", page.split("| why they stay |")[1].split("\n\n")[0])
    return {one: {place for place in COLUMNS - REACHED.keys() if fnmatch(place, one)} for one in patterns}


def test_every_text_is_reached_or_the_page_says_why_it_stays() -> None:
    assert REACHED.keys() - COLUMNS == set()
    assert COLUMNS - REACHED.keys() - {*chain.from_iterable(staying().values())} == set()
    assert [one for one, places in staying().items() if not places] == []


def written_by(person: str) -> list[dict[str, object]]:
    """Lines of a file with a person's name in every text that a file may have, as a word of it and alone."""
    word, text = person, f"by {person}: fine"
    subject = {"layer": LAYER, "execution": FIRST}
    described = {"label": text, "task": text, "type": word, "domain": word, "tags": [word, "b"]}
    level = {"words": word, "outcome": "success", "score": 1.0, "example": text}
    criterion = {"name": word, "words": text, "example": text}
    rubric = {"version": "v9", "title": text, "criteria": [criterion], "levels": [level, level]}
    item = {"no": 1, "run": "w1", "why": text, "assigned_to": word}
    return [
        {"kind": "arm", "key": ARM, "label": text},
        {"kind": "run", "uid": "w1", "arms": [{"key": SKILL, "label": text}], "calls": []},
        {"kind": "layer", "uid": LAYER, "adapter": "kairos://adapter/a", "adapter_name": text, **described},
        {"kind": "layer", "uid": LAYER, "adapter": "kairos://adapter/a", "adapter_version": word},
        {"kind": "execution", "uid": FIRST, "adapter": "kairos://adapter/a", "run": "w1"},
        {"kind": "rubric", "id": "w-r", "rubric": rubric, "by": word},
        {"kind": "note", "id": "w-n", "arm": ARM, "text": text, "by": word},
        {"kind": "reset", "id": "w-t", "arms": [ARM], "target": "prior", "reason": text, "by": word},
        {"kind": "evaluation", "id": "w-e", **subject, "outcome": "success", "rater": word, "feedback": text},
        {"kind": "review_queue", "id": "w-q", "name": text, "items": [item], "by": word},
        {"kind": "review_aside", "id": "w-s", "queue": "w-q", "item": 1, "reason": text, "by": word},
    ]


def holding(context: Context, word: str) -> set[str]:
    """Return the columns with a word, as a text or as bytes."""
    with context.store.reading(context.learner) as snapshot:
        return {
            f"{table.name}.{column.name}"
            for table in tables.metadata.tables.values()
            for column in table.columns
            for (value,) in snapshot.connection.rows(f'SELECT {column.name} FROM "{table.name}"')
            if word in (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))
        }


@settings(max_examples=12, deadline=None)
@given(person=WRITTEN, is_rated=st.booleans())
def test_a_name_in_any_text_goes_and_no_import_brings_it_back(person: str, is_rated: bool) -> None:
    with TemporaryDirectory() as folder, closing(context_at(Path(folder) / "a.db").store) as store:
        context = context_at(named(store))
        file = Path(folder) / "w.jsonl"
        told = [one for one in written_by(person) if is_rated or b"rater" not in lines([one])]
        file.write_bytes(lines(told))
        assert import_files(context, [file]).rejected == ()
        change(context, "weight_by_agreement", {person: 0.5, "other": 1.0})
        assert holding(context, person) > {"arm.label", "layer.tags", "rubric.content", "setting.value"}
        assert holding(context, person) - REACHED.keys() == set()
        before = numbers(context)
        erase(context, rater=person)
        assert (holding(context, person), numbers(context)) == (set(), before)
        again = lines(told).replace(b'"w-', b'"x-').replace(b'"v9"', b'"v10"')
        file.write_bytes(again)
        assert import_files(context, [file]).rejected == ()
        assert holding(context, person) == set()
        assert queries.verify(context).differences == ()
        context.store.close()


def test_the_words_of_a_rubric_and_a_queue_go_by_their_ids(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    level = Level(words="ZAP", outcome="failure", score=0.4, example="ZAP")
    criterion = Criterion(name="ZAP", words="ZAP")
    add_rubric(context, Rubric(version="v1", title="ZAP", criteria=(criterion,), levels=(level, level)))
    record(context, run("r"))
    add_queue(context, "ZAP", QueueAsks(source="filter"))
    for act in ("rubric-1", "queue-1"):
        erase(context, act=act)
    assert holding(context, "ZAP") == set()
    (left,) = rubrics(context)
    assert [level.outcome for level in left.rubric.levels] == ["failure", "failure"]
    assert queries.verify(context).differences == ()
    context.store.close()


@pytest.mark.parametrize("kind", ["reward", "reset", "note", "evaluation", "choice", "queue", "aside"])
def test_the_words_of_each_kind_of_act_go_by_its_id(context: Context, kind: str) -> None:
    """The fixture verifies the world afterwards."""
    before = numbers(context)
    assert erase(context, act=f"{kind}-1").texts > 0
    assert numbers(context) == before


@pytest.mark.parametrize("name", ["run", "success", "human", "ab"])
def test_a_name_that_is_a_word_of_armscope_leaves_answers_readable(context: Context, name: str) -> None:
    with suppress(NotFound):
        erase(context, rater=name)
    assert queries.changes(context, 50)
    assert rubrics(context) == ()
    assert note(context, ARM, f"see request-9: {words_at('note')}", key="k-note").id == "note-1"


def test_a_run_goes_out_of_every_place_and_every_number_stays(context: Context) -> None:
    assert WORD.encode() in bytes_of(context)
    before, preview = numbers(context), preview_erase(context, run="request-9")
    assert numbers(context) == before
    answer = erase(context, run="request-9")
    assert (answer.places, answer.texts) == (preview.places, preview.texts)
    assert answer.places.keys() >= {
        *("observation.reason", "reset.reason", "note.text", "evaluation.feedback", "choice.feedback"),
        *(
            "review_aside.reason",
            "review_item.why",
            "review_draft.fields",
            "evidence.excerpt",
            "training_pair",
        ),
        *("import.summary", "audit.detail", "session"),
    }
    assert WORD.encode() not in bytes_of(context)
    assert numbers(context) == before
    newest = queries.changes(context, 1)[0]
    assert (newest.action, newest.act, newest.detail["of"]) == ("erase", None, "run")
    with closing(context.store):
        pass
    assert WORD.encode() not in bytes_of(context)


@pytest.mark.parametrize("way", ["session", "execution"])
def test_a_session_and_an_execution_go_likewise(context: Context, way: str) -> None:
    before = numbers(context)
    if way == "session":
        erase(context, session=SESSION)
    else:
        erase(context, execution=execution_uid("request-9"))
    assert WORD.encode() not in bytes_of(context)
    assert numbers(context) == before


def test_an_execution_of_no_run_of_its_own_goes_alone(context: Context) -> None:
    erase(context, execution=FIRST)
    held = bytes_of(context)
    assert words_at("of an execution").encode() not in held
    assert words_at("choice").encode() not in held
    assert words_at("reply 1").encode() in held, "the run's own texts are not the execution's"


def test_a_session_keeps_its_runs_together(context: Context) -> None:
    record(context, msgspec.structs.replace(run("request-11"), session=SESSION))
    erase(context, run="request-9")
    names = {queries.run(context, uid).facts.session for uid in ("request-9", "request-11")}
    assert len(names) == 1
    assert names != {SESSION}
    record(context, msgspec.structs.replace(run("request-12"), session=SESSION, texts=(), prompt=None))
    assert queries.run(context, "request-12").facts.session in names, "told again it is the same number"
    assert SESSION.encode() not in bytes_of(context)


def test_a_session_that_has_a_number_can_go_whole(context: Context) -> None:
    erase(context, run="request-9")
    drawn = queries.run(context, "request-9").facts.session
    assert drawn is not None
    record(context, run("request-14"))
    assert WORD.encode() in bytes_of(context), "only the other run was erased"
    erase(context, session=drawn)
    record(context, run("request-15"))
    assert {queries.run(context, f"request-{uid}").facts.session for uid in (9, 14, 15)} == {drawn}
    assert WORD.encode() not in bytes_of(context)


def test_no_import_brings_it_back(context: Context, tmp_path: Path) -> None:
    export_file(context, tmp_path / "before.jsonl")
    erase(context, run="request-9")
    after = numbers(context)
    for file in ("runs.jsonl", "planted.jsonl", "before.jsonl"):
        import_files(context, [tmp_path / file])
    assert WORD.encode() not in bytes_of(context)
    assert numbers(context)[1] == after[1]  # type: ignore[index]
    export_file(context, tmp_path / "after.jsonl")
    assert WORD.encode() not in (tmp_path / "after.jsonl").read_bytes()
    assert import_files(context, [tmp_path / "after.jsonl"]).rejected == ()
    record(context, run(rank=2))  # and who tells more of it
    assert WORD.encode() not in bytes_of(context)
    assert queries.run(context, "request-9").facts.n_calls == 3


def test_undoing_what_told_it_brings_nothing_back(context: Context) -> None:
    erase(context, run="request-9")
    redo(context, undo(context, "import-1").undone)
    assert WORD.encode() not in bytes_of(context)


def test_what_is_told_of_an_erased_session_later_comes_without_texts(context: Context) -> None:
    erase(context, session=SESSION)
    record(context, run("request-13"))
    assert WORD.encode() not in bytes_of(context)
    assert queries.run(context, "request-13").facts.n_calls == 1


def test_a_person_becomes_a_number_everywhere(context: Context, tmp_path: Path) -> None:
    export_file(context, tmp_path / "before.jsonl")
    note(context, ARM, f"{PERSON} said so, Perditas didn't")
    before = numbers(context)
    answer = erase(replace(context, actor=Actor(name=PERSON, role="operator")), rater=PERSON)
    held = bytes_of(context).replace(b"Perditas", b"")
    assert PERSON.encode() not in held
    assert numbers(context) == before
    drawn = queries.changes(context, 1)[0].actor
    assert drawn.startswith("rater-")
    assert queries.notes(context, ARM)[0].text == f"{drawn} said so, Perditas didn't"
    assert answer.places["evaluation.rater"] == 3
    import_files(context, [tmp_path / "before.jsonl"])
    import_files(context_at(named(context.store), learner="second"), [tmp_path / "before.jsonl"])
    with context.store.reading(context.learner) as snapshot:
        raters = snapshot.connection.rows(
            "SELECT DISTINCT rater FROM evaluation WHERE learner_id = 1 ORDER BY 1"
        )
    assert raters == [(drawn,)]


def test_keys_answer_as_the_first_time_without_the_words(context: Context) -> None:
    erase(context, run="request-9")
    again = note(context, ARM, f"see request-9: {words_at('note')}", key="k-note")
    assert (again.id, again.text) == ("note-1", "")
    assert (
        reward(context, ARM, 0.5, run="request-9", correct=True, reason=words_at("reason"), key="k-reward").id
        == "reward-1"
    )
    assert WORD.encode() not in bytes_of(context)


@pytest.mark.of_file
def test_whoever_reads_meanwhile_is_waited_for(context: Context) -> None:
    with context.store.reading(context.learner) as snapshot:
        assert snapshot.exists
        assert not file_database(context.store).scour(wait_s=0)
    assert file_database(context.store).scour(wait_s=0)


@pytest.mark.parametrize("named", [{"run": "request-9"}, {"session": SESSION}, {"rater": PERSON}])
def test_again_it_does_no_harm(context: Context, named: dict[str, str]) -> None:
    erase(context, **named)
    before = numbers(context)
    again = erase(context, **named)
    assert "run" not in named or again.places == {}
    assert numbers(context) == before


@pytest.mark.of_file
def test_what_lies_elsewhere_is_named(context: Context, tmp_path: Path) -> None:
    aside = tmp_path / "a.db-wal.replaced-1"
    aside.write_bytes(b"")
    assert str(aside) in erase(context, run="request-9").not_reached
