"""Page of one session: its runs in order, what was on offer, outcomes and cost."""

from __future__ import annotations

from dashboard import wording
from dashboard.reading import reading
from dashboard.sentences import runs as sentences
from dashboard.widgets import run_table, sessions
from dashboard.widgets.parts import compacted, muted, panel, section, sentence


def page() -> None:
    here = reading()
    one = sessions.requested()
    if one is None:
        return
    sentence(sentences.session(one.row), here.tokens)
    muted(sentences.session_facts(one.row, year_of_ms=here.frame.last_at_ms))
    compacted(here.frame.compacted, here.frame.unpriced)
    sessions.links(one)
    with panel("Its runs"):
        shown = "in order" if len(one.rows) == one.row.n_runs else f"the first {wording.count(len(one.rows))}"
        section("Its runs", f"{shown}; a click opens one")
        run_table.table(one.rows, order="in order")
    with panel("What was on offer", still="the runs above still work"):
        section("What was on offer", f"{wording.things(len(one.arms), 'arm')}, the most used first")
        run_table.arms(one.arms)


page()
