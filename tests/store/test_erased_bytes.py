"""Erasing on PostgreSQL: no erased byte is left in the files of the server's tables."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from core.flows import queries
from core.flows.corrections import note
from core.flows.erase import erase
from core.flows.importing import import_files
from core.flows.learn import reward
from core.flows.settings import change
from tests.engine import Cluster
from tests.flows.test_erase import written_by
from tests.store.test_every_engine import context_of
from tests.worlds import lines_file, run_line

pytestmark = pytest.mark.own_engines
A = "tool:other:a"


@pytest.mark.parametrize("n_runs", [1, 1_828])
def test_no_erased_byte_is_left_in_the_tables_of_a_server(
    tmp_path: Path, cluster: Cluster, n_runs: int
) -> None:
    canary, typed, person = "CANARY9", "TYPED9", "PERSON9"
    server = cluster.fresh(tmp_path / "a.db")
    context = context_of(server)
    with closing(context.store):
        change(context, "keep_texts", value=True)
        runs = [
            run_line(f"z{number}", session=canary, prompt=f"{canary} asks", reply=canary)
            for number in range(n_runs)
        ]
        import_files(context, [lines_file(tmp_path / "runs.jsonl", *written_by(person), *runs)])
        change(context, "weight_by_agreement", {person: 0.5})
        acts = [note(context, A, f"slow, by {typed}").id, reward(context, A, 0.5, reason=typed).id]
        context.store.database.settle()
        assert tables_with(server.url, canary)
        assert tables_with(server.url, typed)
        assert {"arm", "layer", "provenance", "rubric"} <= {*tables_with(server.url, person)}
        erase(context, rater=person)
        erase(context, session=canary)
        for act in acts:
            erase(context, act=act)
        assert [tables_with(server.url, word) for word in (canary, typed, person)] == [[], [], []]
        assert queries.verify(context).clean


def tables_with(url: str, word: str) -> list[str]:
    """Name the tables and indexes in whose files a word is."""
    with psycopg.connect(url, autocommit=True) as driver:
        driver.execute("CHECKPOINT")
        row = driver.execute(
            "SELECT current_setting('data_directory'), oid FROM pg_database WHERE datname = current_database()"
        ).fetchone()
        assert row is not None
        names = {
            str(number): str(name)
            for number, name in driver.execute("SELECT pg_relation_filenode(oid), relname FROM pg_class")
        }
    files = (file for file in Path(str(row[0]), "base", str(row[1])).iterdir() if file.is_file())
    return [names.get(file.name, str(file)) for file in files if word.encode() in file.read_bytes()]
