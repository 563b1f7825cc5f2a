"""armscope run UID: the same explanation as the page's, with ids as they are."""

from __future__ import annotations

from core import Learner, explained
from core.flows import queries
from core.flows.context import Context
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from tests.doors.test_cli import Shell, shell

__all__ = ["shell"]
HOSTILE = "tool:x:[bold red]loud[/]<b>"
OFFERED = [
    Arm(key=HOSTILE, token_cost=90),
    Arm(key="tool:fs:Read", token_cost=50),
    Arm(key="skill:a:main", token_cost=80),
]


def test_it_says_what_the_page_says(shell: Shell, context: Context) -> None:
    change(context, "baseline_rate", 0.0)  # so that the run is no baseline run
    chosen = select(context, OFFERED, budget_tokens=140)  # enough for two of the three arms
    Learner(context).record("one", selection=chosen, calls=["Read"])
    code, out, err = shell("run", "one")
    story = queries.run(context, "one")
    assert (code, err) == (0, "")
    assert out.startswith("Run 1 (one), selected, completed, ")
    assert explained.verdict(story) in out
    for arm in story.arms:
        assert explained.why(arm) in out
        assert explained.evidence(arm, story) in out
    assert "[bold red]loud" in out, "an id is shown as it is"
    assert "what would have flipped it" in out
