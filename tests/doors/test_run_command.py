"""armscope run UID: the same explanation as the page's, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from core import explained
from core.doors.cli import main
from core.flows import queries
from core.flows.learn import record
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run
from tests.flows.world import START_MS, context_at

Ask = Callable[..., tuple[int, str, str]]
HOSTILE = "tool:x:[bold red]loud[/]<b>"
OFFERED = [
    Arm(key=HOSTILE, token_cost=90),
    Arm(key="tool:fs:Read", token_cost=50),
    Arm(key="skill:a:main", token_cost=80),
]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """One selected run, and the command line to ask about it."""
    context = context_at(tmp_path / "a.db")
    change(context, "baseline_rate", 0.0)
    chosen = select(context, OFFERED, budget_tokens=140)
    inside = tuple(arm for arm in OFFERED if arm.key in chosen.included)
    record(
        context,
        Run(
            uid="one",
            inventory=Inventory(kind="declared", arms=inside),
            excluded=chosen.excluded,
            selection=chosen,
            run_class="selected",
            ended_at_ms=START_MS,
            calls=(Call(name="Read"),),
        ),
    )
    monkeypatch.setenv("ARMSCOPE_DATABASE", str(tmp_path / "a.db"))
    monkeypatch.delenv("ARMSCOPE_LEARNER", raising=False)

    def asked(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["run", *arguments])
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return asked


def test_it_says_what_the_page_says(ask: Ask, tmp_path: Path) -> None:
    code, out, err = ask("one")
    story = queries.run(context_at(tmp_path / "a.db"), "one")
    assert (code, err) == (0, "")
    assert out.startswith("Run 1 (one), selected, completed, ")
    assert explained.verdict(story) in out
    for arm in story.arms:
        assert explained.why(arm) in out
        assert explained.evidence(arm, story) in out
    assert "[bold red]loud" in out, "an id is shown as it is"
    assert "what would have flipped it" in out


def test_an_unknown_run_is_an_error_of_the_one_shape(ask: Ask) -> None:
    code, out, _ = ask("nope", "--json")
    assert code == 1
    assert json.loads(out)["code"] == "unknown_run"
    code, out, err = ask("nope")
    assert (code, out) == (1, "")
    assert "armscope runs" in err
