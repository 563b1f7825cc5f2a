"""Views for SQL programs: what the flows answer, without texts and names, on both engines."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from core.demo import LEARNER
from core.demo.build import build
from core.flows import maintenance
from core.flows.erase import erase
from core.flows.evaluate import evaluate
from core.flows.importing.files import import_in_steps
from core.flows.learn import record_all
from core.formats import open_sources
from core.settings import Located, Server
from core.store.schema import HEAD
from core.store.views import VIEWS
from tests.engine import Cluster
from tests.flows.test_erase import PERSON, SESSION, WORD, planted_world
from tests.store.test_every_engine import context_of, lively
from tests.store.viewed import COLUMNS, check_views, rows_of
from tests.worlds import IN_PARTS, a_run, lines_file, run_line

pytestmark = pytest.mark.own_engines
DEMO_RUNS = 150


def test_views_are_the_answers_of_the_flows_about_the_demo(tmp_path: Path) -> None:
    build(tmp_path / "demo.db", n_runs=DEMO_RUNS)
    context = context_of(tmp_path / "demo.db", learner=LEARNER)
    counts = check_views(context)
    context.store.close()
    assert min(counts.values()) > 0, counts
    assert counts["v_runs"] > DEMO_RUNS / 2


def test_views_are_the_answers_of_the_flows_after_acts_of_every_kind(place: Located, tmp_path: Path) -> None:
    context = context_of(place)
    lively(context, tmp_path)
    evaluate(context, "run 1", "success", score=0.5, rater="mara")
    evaluate(context, "run 1", "failure", rater="mara")
    evaluate(context, "run 2", "success", model="judge", rubric="v1")
    counts = check_views(context)
    context.store.close()
    assert counts["v_arms"]
    assert counts["v_evaluations"] == 3


def test_an_import_in_progress_is_in_no_view(place: Located, tmp_path: Path) -> None:
    context = context_of(place, pace=IN_PARTS)
    file = lines_file(tmp_path / "many.jsonl", *(run_line(f"told {number}") for number in range(9)))
    record_all(context, [a_run("first")])
    for _ in import_in_steps(context, open_sources([file])):
        check_views(context)
    assert check_views(context)["v_runs"] == 10
    context.store.close()


def test_views_have_no_texts_no_people_and_nothing_that_was_erased(tmp_path: Path) -> None:
    context = planted_world(tmp_path)

    def shown() -> str:
        rows = [row for view in VIEWS for row in rows_of(context, view.name)]
        return repr([{**row, "run": None, "execution": None} for row in rows])

    before = shown()
    assert SESSION in before
    assert WORD not in before.replace(SESSION, "")
    assert PERSON not in before
    erase(context, session=SESSION)
    assert WORD not in shown()
    check_views(context)
    context.store.close()


def test_columns_are_documented_with_their_types(place: Located) -> None:
    context = context_of(place)
    record_all(context, [a_run("r")])
    context.store.close()
    if isinstance(place, Server):
        types = {"bigint": "integer", "integer": "integer", "double precision": "number", "text": "text"}
        with psycopg.connect(place.url) as driver:
            rows = driver.execute(
                "SELECT table_name, column_name, data_type FROM information_schema.columns"
                " WHERE table_schema = current_schema() AND table_name LIKE 'v!_%' ESCAPE '!'"
                " ORDER BY table_name, ordinal_position"
            ).fetchall()
        found = [(view, name, types[kind]) for view, name, kind in rows]
        documented = sorted((view.name, one.name, one.type) for view in VIEWS for one in view.columns)
        assert sorted(found) == documented
        return
    with closing(sqlite3.connect(place)) as driver_of_file:
        names = [
            name for (name,) in driver_of_file.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
        ]
        assert sorted(names) == sorted(COLUMNS)
        for name in names:
            columns = [row[1] for row in driver_of_file.execute(f"PRAGMA table_info({name})")]
            assert columns == COLUMNS[name]


def test_an_upgrade_makes_the_views_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context_of(path).store.close()
    with closing(sqlite3.connect(path)) as driver:
        for name in COLUMNS:
            driver.execute(f"DROP VIEW {name}")
        for table in ("posterior", "arm_hour", "arm_day", "staged_hour", "staged_day"):
            for name in ("n_named", "n_loaded"):
                driver.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        later = (
            "whole_reward",
            "achieved",
            "trial",
            "trial_session",
            "experiment",
            "assignment",
            "browser",
            "judged_in",
            "history",
            "spent_apart",
            "mended",
            "compaction",
            "compacted",
        )
        for table in (
            *("machine", "repair", "retraction", "defined", "definition", "run_text", "text_index"),
            *(*later, "compacted_import"),
        ):
            driver.execute(f"DROP TABLE {table}")
        driver.execute("DROP INDEX ix_evidence_load")
        driver.execute("DROP INDEX ix_run_trial")
        driver.execute("ALTER TABLE posterior DROP COLUMN changed")
        driver.execute("ALTER TABLE decision DROP COLUMN chance")
        for name in ("repair", "browser", "compaction", "achieved", "trial", "experiment", "assignment"):
            driver.execute(f"ALTER TABLE learner DROP COLUMN next_{name}_no")
        driver.execute("CREATE VIEW v_runs AS SELECT 1 AS other")
        driver.execute("UPDATE alembic_version SET version_num = '0026'")
        driver.commit()
    assert maintenance.upgrade(path).after == HEAD
    context = context_of(path)
    record_all(context, [a_run("r")])
    assert check_views(context)["v_runs"] == 1
    context.store.close()


def test_a_role_may_read_the_views_and_no_table(tmp_path: Path, cluster: Cluster) -> None:
    server = cluster.fresh(tmp_path / "served.db")
    context = context_of(server)
    record_all(context, [a_run("r")])
    context.store.close()
    with psycopg.connect(server.url) as driver:
        driver.execute("CREATE ROLE analyst_of_views")
        for view in VIEWS:
            driver.execute(f"GRANT SELECT ON {view.name} TO analyst_of_views".encode())
        driver.execute("SET LOCAL ROLE analyst_of_views")
        assert driver.execute("SELECT run FROM v_runs").fetchall() == [("r",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            driver.execute("SELECT uid FROM run")
        driver.rollback()
