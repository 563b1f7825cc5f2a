"""Real transcripts: arms with a known inventory are judged, those known by their calls alone are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import explained
from core.flows import queries
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.records.judgement import Judgement
from tests.flows.world import context_at, run_of

_RARE = "other:update_reservation_passengers"


@pytest.fixture(scope="module")
def judged(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    context = context_at(tmp_path_factory.mktemp("real") / "a.db")
    airline = shared_data / "tau-bench"
    import_files(
        context, [airline / "gpt-4o-airline.trials-0-1.json.gz"], tools_file=airline / "airline-tools.json"
    )
    import_files(context, sorted((shared_data / "verifiers").glob("wiki-search--*.gz")))
    import_files(context, [shared_data / "claude-code"])
    return queries.judgements(context)


def test_two_arms_of_old_runs_get_opposite_judgements(judged: dict[str, Judgement]) -> None:
    """The latest 25 runs are another program's. In their own, everything fits, so that no break-even exists."""
    often, rarely = judged["tool:web:search_pages"], judged["tool:other:update_reservation_passengers"]
    assert (often.name, rarely.name) == ("useful", "not_useful")
    assert (often.pulls, often.chance, often.no_break_even) == (387, 1.0, "always_in")
    assert explained.judgement(often, since="") == "used in at least 99 of 100 runs; picked at any usefulness"
    assert often.judged_by is not None
    assert rarely.judged_by is not None
    assert rarely.judged_by.upper < 0.12
    assert often.judged_by.lower > 0.98


def test_arms_that_the_agent_no_longer_offers_are_judged_by_belief(shared_data: Path, tmp_path: Path) -> None:
    """Selection runs for another program alone, so no break-even exists."""
    context = context_at(tmp_path / "a.db")
    airline = shared_data / "tau-bench"
    import_files(
        context, [airline / "gpt-4o-airline.trials-0-1.json.gz"], tools_file=airline / "airline-tools.json"
    )
    import_files(context, sorted((shared_data / "verifiers").glob("wiki-search--*.gz")))
    record_all(context, [run_of(f"own-{number}", "ab", run_class="selected") for number in range(25)])
    found = queries.judgements(context)
    words = [explained.judgement(found[f"tool:{arm}"], since="") for arm in ("web:search_pages", _RARE)]
    shares = ["used in at least 99 of 100 runs", "used in at most 8 of 100 runs"]
    assert words == [f"{share}; {explained.NOT_WEIGHED}" for share in shares]


def test_arms_of_inferred_inventories_are_not_judged(judged: dict[str, Judgement]) -> None:
    """A session without a list of its tools shows only those that it called."""
    bash = judged["tool:exec:Bash"]
    assert (bash.name, bash.called_only, bash.effective_pulls) == ("called_only", True, None)
    assert explained.judgement(bash, since="then") == (
        "called in 31 of 33 runs, last then; only called tools are known"
    )
    called = {arm for arm, one in judged.items() if one.called_only}
    assert len(called) == 19
    assert not {judged[arm].name for arm in called} & {"worth", "not_worth", "useful", "not_useful", "open"}
