"""The data page: files dropped, their report, their undo; exports; hostile names; who may do what."""

from __future__ import annotations

import gc
import hashlib
import json
import zipfile
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.bundle import BundleAnswer
from core.flows.context import Context
from core.flows.corrections import note, undo
from core.flows.evaluate import evaluate_all
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.settings import change
from core.records.actor import Actor
from core.records.parameters import TakingOptions
from core.records.training import TRAINING_FORMATS, TrainingAnswer
from dashboard import downloads
from dashboard.widgets.data import exports
from tests.dashboard.conftest import Open, check, texts, unfold
from tests.dashboard.worlds import HOSTILE, context_at, keys, world
from tests.formats.builders import lines
from tests.worlds.training import execution_line, layer_line, layer_uid, order, store_unmasked

HOSTILE_NAME = "<script>alert(1)</script> :material/home: $\\alpha$ ../../etc/passwd.jsonl"


def run_line(uid: str, *, arms: tuple[str, ...] = ("tool:fs:Read",)) -> dict[str, object]:
    return {"kind": "run", "uid": uid, "arms": list(arms), "calls": ["Read"], "usage": {"total": 10}}


def drop(page: AppTest, *files: tuple[str, bytes]) -> AppTest:
    """Drop files and press the button."""
    page.file_uploader(key="dropped 0").set_value([(name, content, "text/plain") for name, content in files])
    page.run()
    page.button(key="do import").click().run()
    check(page)
    return page


def test_dropped_files_are_imported_and_reported(open_page: Open, database: Path) -> None:
    page = drop(open_page("data"), ("runs.jsonl", lines([run_line("a"), run_line("b")]) + b"broken\n"))
    (done,) = queries.imports(context_at(database))
    assert (done.answer.runs, done.answer.rejected_count) == (2, 1)
    assert [one.file for one in done.answer.rejected] == ["runs.jsonl"]
    assert page.toast[0].value.startswith("2 new runs")
    assert page.selectbox(key="import").value == "import-1"
    assert "1 line was rejected" in page.title[0].value
    rejected = next(table.value for table in page.dataframe if "reason" in table.value)
    assert list(rejected["line"]) == [3]
    assert not page.file_uploader(key="dropped 1").value, "the files are let go"
    assert open_page("data", **{"import": "import-1"}).selectbox(key="import").value == "import-1"


def test_the_form_takes_records_where_others_are_known_under_their_ids(
    open_page: Open, database: Path
) -> None:
    first, second = (lines([run_line("a", arms=("tool:fs:Read", arm))]) for arm in ("tool:a:x", "tool:a:y"))
    drop(open_page("data"), ("runs.jsonl", first))
    page = drop(open_page("data"), ("runs.jsonl", second))
    assert "1 record left out" in page.toast[0].value
    page = unfold(open_page("data"), "how to read")
    assert {one.key for one in page.toggle} >= {f"import {name}" for name in TakingOptions.__annotations__}
    page.toggle(key="import replace").set_value(True).run()
    drop(page, ("runs.jsonl", second))
    context = context_at(database)
    assert [arm.arm for arm in queries.run(context, "a").arms] == ["tool:a:y", "tool:fs:Read"]
    undo(context, "import-2")
    assert [arm.arm for arm in queries.run(context, "a").arms] == ["tool:a:x", "tool:fs:Read"]


def test_each_import_names_what_it_left_behind(open_page: Open, database: Path) -> None:
    drop(open_page("data"), ("runs.jsonl", lines([run_line("a"), run_line("b")])))
    drop(open_page("data"), ("more.jsonl", lines([run_line("a"), run_line("c")])))
    page = open_page("data")
    (table,) = [one.value for one in page.dataframe if "added" in one.value.columns]
    assert list(table["added"]) == ["1 run", "2 runs"]
    assert [list(one.options) for one in page.button_group if one.key == "training"] == [
        [words for words, _ in exports.TRAINING_WORDS.values()]
    ]
    undo(context_at(database), "import-1")
    (table,) = [one.value for one in open_page("data").dataframe if "added" in one.value.columns]
    assert list(table["added"])[1] == "nothing: undone"


def test_a_call_of_a_meta_tool_is_no_real_call(open_page: Open, database: Path) -> None:
    page = drop(open_page("data"), ("runs.jsonl", lines([run_line("a") | {"calls": ["message"]}])))
    counts = next(table.value for table in page.table if "what" in table.value)
    assert [row["which means"] for _, row in counts.iterrows() if row["what"] == "skipped"] == [
        "no real tool was called"
    ]
    said = str(open_page("runs").title[0].value)
    assert " was in; " in said
    assert said.endswith(" had no tool call, so nothing was learned.")


def test_notes_are_counted_among_what_the_files_told(open_page: Open, database: Path, tmp_path: Path) -> None:
    elsewhere = world(tmp_path / "elsewhere.db", keys(2), 1)
    note(elsewhere, keys(2)[0], "slow on Mondays")
    export_file(elsewhere, tmp_path / "told.jsonl")
    page = drop(open_page("data"), ("told.jsonl", (tmp_path / "told.jsonl").read_bytes()))
    counts = next(table.value for table in page.table if "what" in table.value)
    told = dict(zip(counts["what"], counts["how many"], strict=True))
    assert told["notes"] == 1


def test_a_broken_file_takes_nothing_with_it(open_page: Open, database: Path) -> None:
    page = drop(open_page("data"), ("notes.txt", b"shopping list"), ("runs.jsonl", lines([run_line("a")])))
    (done,) = queries.imports(context_at(database))
    assert [one.file for one in done.answer.ignored] == ["notes.txt"]
    assert done.answer.runs == 1
    assert any("Files not read" in text for text in texts(page))


@pytest.mark.parametrize(
    "content", [b"shopping list", b"", b'{"kind": "run"}\n', b"\xff\xfe\x00", b"PK\x03\x04junk"]
)
def test_what_cannot_be_read_records_nothing_and_says_why(
    open_page: Open, database: Path, content: bytes
) -> None:
    page = drop(open_page("data"), ("x.jsonl", content))
    assert queries.imports(context_at(database)) == ()
    assert queries.frame(context_at(database)).n_runs == 0
    (said,) = [text for text in texts(page) if "Nothing was imported" in text]
    assert "armscope-" not in said, "the folder is nobody's business"


def test_hostile_names_are_text(open_page: Open, database: Path) -> None:
    content = lines([run_line("<b>a</b>", arms=HOSTILE)]) + b"{broken\n"
    page = drop(open_page("data"), (HOSTILE_NAME, content))
    for text in texts(page):
        assert "<script" not in text
        assert ":material/home:" not in text
        assert "$\\alpha" not in text
    rejected = next(table.value for table in page.dataframe if "reason" in table.value)
    assert set(rejected["file"]) == {HOSTILE_NAME}


def test_a_report_belongs_to_its_session(open_page: Open, database: Path) -> None:
    page = open_page("data")
    page.file_uploader(key="dropped 0").set_value([("a.jsonl", b"{}", "text/plain")]).run()
    assert page.button(key="do import").label == "Import 1 file"


def test_undo_is_shown_before_it_is_done(open_page: Open, context: Context, database: Path) -> None:
    import_files(context, [_file(database, [run_line("a"), run_line("b")])])
    before = queries.posteriors(context)
    page = open_page("data")
    page.selectbox(key="import").set_value("import-1").run()
    page.toggle(key="rehearse import-1").set_value(True).run()
    check(page)
    assert any("−2 runs" in text and "−2 pulls" in text for text in texts(page))
    assert queries.posteriors(context) == before, "a rehearsal leaves nothing behind"
    page.button(key="take back sent import-1").click().run()
    assert queries.posteriors(context) == []
    assert page.button(key="take back sent import-1").label == "Redo import-1"
    assert any("material/check_circle" in text and "Undone." in text for text in texts(page))
    shown = queries.preview_undo(context, "import-1", again=True)
    assert (shown.n_runs, shown.n_pulls) == ((0, 2), (0, 2))


def test_an_export_is_made_when_asked_and_its_hashes_hold(open_page: Open, database: Path) -> None:
    world(database, keys(5), 12)
    page = open_page("data")
    assert "save export" not in {button.key for button in page.get("download_button")}
    page.button(key="make export").click().run()
    check(page)
    made: downloads.Ready[BundleAnswer] = page.session_state["armscope export"]
    with zipfile.ZipFile(BytesIO(made.path.read_bytes())) as zipped:
        manifest = json.loads(zipped.read("manifest.json"))
        for file in manifest["files"]:
            assert hashlib.sha256(zipped.read(file["name"])).hexdigest() == file["sha256"]
    assert manifest["runs"] == 12
    assert manifest["revision"] == queries.frame(context_at(database)).revision
    page.button(key="drop export").click().run()
    assert not made.path.exists()


def test_what_nobody_fetched_goes_with_its_session_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    folder = downloads.Folder("armscope export")
    (folder.path / "a.zip").write_bytes(b"")
    path = folder.path
    del folder
    gc.collect()
    assert not path.exists()
    assert not recwarn.list


def test_a_training_file_of_every_format_is_said_in_words() -> None:
    assert set(exports.TRAINING_WORDS) == set(TRAINING_FORMATS)


def test_a_training_file_is_made_with_its_counts_and_its_manifest(open_page: Open, database: Path) -> None:
    context = context_at(database)
    change(context, "keep_texts", True)
    told = [layer_line(1), *(execution_line(number) for number in range(3))]
    import_files(context, [_file(database, told)])
    evaluate_all(
        context, [order(n, "success", score=0.3 + 0.3 * n, rater="mara", rubric="v1") for n in range(3)]
    )
    page = open_page("data")
    assert "save training" not in {button.key for button in page.get("download_button")}
    page.button(key="make training").click().run()
    check(page)
    made: downloads.Ready[TrainingAnswer] = page.session_state["armscope training"]
    manifest = json.loads(Path(made.answer.manifest_file or "").read_bytes())
    assert manifest["sha256"] == hashlib.sha256(made.path.read_bytes()).hexdigest()
    assert any("**1 row** of 3 evaluations" in text for text in texts(page))
    assert any("2 below the thresholds" in text for text in texts(page))
    blockers = next(table.value for table in page.dataframe if "kept out because" in table.value)
    assert list(blockers["fine-tuning"]) == ["2", "0"]
    page.button(key="drop training").click().run()
    assert not made.path.exists()


def test_what_becomes_a_row_can_be_narrowed(open_page: Open, context: Context, database: Path) -> None:
    change(context, "keep_texts", True)
    told = [layer_line(1), layer_line(2)]
    told += [execution_line(n, layer=1 + n % 2, ask="same", say=f"answer {n}") for n in range(3)]
    told += [execution_line(3, ask="other")]
    import_files(context, [_file(database, told)])
    store_unmasked(database, 3, "my key is AKIAIOSFODNN7EXAMPLE")
    evaluate_all(
        context,
        [
            order(0, "success", score=0.9, rater="mara", rubric="v1"),
            order(1, "failure", layer=2, score=0.9, rater="mara", rubric="v1"),
            order(2, "success", score=0.8, rater="bob", rubric="v2"),
            order(3, "success", score=0.9, rater="mara", rubric="v1"),
        ],
    )
    page = open_page("data")
    assert not list(page.multiselect), "what is folded away costs nothing"

    def lines_made() -> list[dict[str, object]]:
        page.button(key="make training").click().run()
        check(page)
        made: downloads.Ready[TrainingAnswer] = page.session_state["armscope training"]
        return [json.loads(line) for line in made.path.read_bytes().splitlines()]

    assert len(lines_made()) == 2
    unfold(page, "training more")
    assert page.multiselect(key="training_raters").options == ["bob", "mara"]
    page.toggle(key="training_secrets").set_value(True).run()
    assert "save training" not in {button.key for button in page.get("download_button")}, (
        "was asked otherwise"
    )
    assert len(lines_made()) == 3
    assert any("1 row in it seems to hold a secret" in text for text in texts(page))
    page.multiselect(key="training_raters").set_value(["mara"]).run()
    assert len(lines_made()) == 2
    page.multiselect(key="training_rubrics").set_value(["v2"]).run()
    assert lines_made() == []
    page.multiselect(key="training_raters").set_value([]).run()
    page.multiselect(key="training_layers").set_value([f"  kairos://layer/{layer_uid(1)} "]).run()
    assert len(lines_made()) == 1
    page.multiselect(key="training_rubrics").set_value([]).run()
    page.multiselect(key="training_layers").set_value([]).run()
    page.button_group(key="training").set_value("preference_jsonl").run()
    assert len(lines_made()) == 1
    page.button_group(key="training_pairing").set_value("layer").run()
    assert lines_made() == [], "chosen and rejected are of two layers"
    page.multiselect(key="training_layers").set_value(["kairos://adapter/<b>a</b>"]).run()
    page.button(key="make training").click().run()
    check(page)
    assert any("No training file was made" in text for text in texts(page))
    asked = {"training": "Pairs", "training_pairing": "Same layer", "training_raters": ["mara", "<b>x</b>"]}
    page = open_page("data", **asked, training_secrets="true", training_layers=layer_uid(1))
    assert page.button_group(key="training_pairing").value == "layer"
    assert page.multiselect(key="training_raters").value == ["mara", "<b>x</b>"]
    assert page.multiselect(key="training_layers").value == [layer_uid(1)]
    assert page.toggle(key="training_secrets").value
    assert any(exports._NARROWED in text for text in texts(page))
    last_month = (datetime.now(UTC) - timedelta(days=30)).date().isoformat()
    page = unfold(open_page("data", span="Dates", to=last_month, training="All judged"), "training more")
    assert len(lines_made()) == 3
    page.toggle(key="training_span").set_value(True).run()
    assert lines_made() == [], "nothing was judged before that day"
    page.button(key="drop training").click().run()


def test_verify_and_backup_answer(open_page: Open, database: Path) -> None:
    world(database, keys(3), 5)
    page = unfold(open_page("data"), "backup popover")
    page.button(key="verify").click().run()
    assert page.toast[0].value.startswith("Everything equals")
    page.button(key="do backup").click().run()
    check(page)
    assert list(database.parent.glob("pages-r*.db"))
    page.text_input(key=f"backup file {queries.frame(context_at(database)).revision}").set_value(
        str(database)
    ).run()
    page.button(key="do backup").click().run()
    assert any("No backup was made" in text for text in texts(page))


def test_a_viewer_reads_and_exports_only(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(database, keys(3), 5)
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="vi", role="viewer"))
    page = open_page("data")
    assert not list(page.file_uploader)
    assert {button.key for button in page.button} >= {"make export", "verify"}
    assert not {"do backup", "make training"} & {button.key for button in page.button}


def _file(database: Path, content: list[dict[str, object]]) -> Path:
    path = database.with_name("runs.jsonl")
    path.write_bytes(lines(content))
    return path


@pytest.mark.parametrize("file", ["~nobody-by-that-name/x.db", "/a\0b", "x.db", "../x.db"])
def test_a_backup_needs_a_whole_path(open_page: Open, database: Path, file: str) -> None:
    world(database, keys(3), 5)
    page = unfold(open_page("data"), "backup popover")
    page.text_input(key=f"backup file {queries.frame(context_at(database)).revision}").set_value(file).run()
    page.button(key="do backup").click().run()
    check(page)
    assert any("No backup was made" in text for text in texts(page))
    assert not [path for path in (Path("x.db"), Path("../x.db")) if path.exists()]
