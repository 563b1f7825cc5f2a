"""Ctrl+C at whatever moment: one answer, true of what is stored, and never a traceback."""

from __future__ import annotations

import json

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record
from tests.engine import kept_in
from tests.store.child import answer
from tests.worlds import a_run

pytestmark = pytest.mark.of_file  # by processes that are told a path

STOPPED = "Stopped before anything was done."


@pytest.mark.parametrize(
    ("where", "code", "said", "is_stored"),
    [
        ("open_context", 130, STOPPED, False),
        ("Transaction.__init__", 130, STOPPED, False),
        ("Transaction.finish", 130, STOPPED, False),
        ("Database._log_is_long", 130, STOPPED, False),
        ("written", 130, "Stopped; something was stored before.", True),
        ("Database.close", 0, None, True),
        ("WritersLock.close", 0, None, True),
    ],
)
def test_the_answer_is_true_of_what_is_stored(
    context: Context, where: str, code: int, said: str | None, is_stored: bool
) -> None:
    record(context, a_run("r"))
    context.store.close()
    given = ("--database", kept_in(context.store), "reward", "tool:other:a", "1", "--json")
    found, out = answer("struck", "SIGINT", where, *given)  # which fails on a traceback
    told = json.loads(out)
    assert (found, told.get("error")) == (code, said), told
    assert bool(queries.rewards(context)) == is_stored
    assert queries.verify(context).clean
    assert answer("limited", str(10**9), *given)[0] == 0
