"""Out and in again: nothing of what was learnt is lost, no matter what arms are called."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from core.flows import queries
from core.flows.context import Context
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm, Prior
from core.records.run import Call, Inventory, Run, Usage
from core.store.version import read_version
from tests.worlds import START_MS, a_run, chosen_among, context_at
from tests.worlds.lively import lively_context

HOSTILE = [
    "tool:x:<script>alert(1)</script>",
    "tool:x:O'Brien\"; DROP TABLE arm; --",
    "skill:%{x}:main",
    "file:workspace:../../etc/passwd",
    "memory:m::material/x: $\\alpha$ [bold]x[/]",
    "section:日本:\u202eevil",
    "tool:x:=1+1",
    "tool:x:" + "é" * 505,
    "file:workspace:\u2028\ufeff",
]


def beliefs(context: Context) -> list[object]:
    assert queries.verify(context).clean
    # An epoch has the revision of its reset, and an import gives other revisions. Only 0 or later is compared.
    return [msgspec.structs.replace(one, epoch=min(one.epoch, 1)) for one in queries.posteriors(context)]


def again(context: Context, folder: Path, name: str) -> Context:
    """Exported, and imported into an empty database."""
    export_file(context, folder / f"{name}.jsonl")
    other = context_at(folder / f"{name}.db")
    import_files(other, [folder / f"{name}.jsonl"])
    return other


def plain_status(context: Context) -> dict[str, object]:
    """The status without what each learner has by itself; outcomes are compared by coins of its own alone."""
    status = msgspec.to_builtins(queries.status(context))
    del status["baseline"]["outcome"]
    return {name: value for name, value in status.items() if name not in {"database", "revision", "head"}}


def facts(context: Context) -> list[object]:
    """Return rewards, resets and notes, without what each learner numbers by itself."""
    rewards = [
        (one.arm, one.kind, one.reward, one.run, one.reason, one.actor, one.at_ms, one.undone, one.counts)
        for one in queries.rewards(context)
    ]
    resets = [(one.target, one.scope, one.n_arms, one.undone) for one in queries.resets(context)]
    notes = [queries.notes(context, key) for key in ("tool:other:a", "tool:other:b")]
    of_notes = [[(one.text, one.actor, one.at_ms, one.undone) for one in each] for each in notes]
    return [rewards, resets, of_notes]


def test_a_lively_learner_comes_back_whole_and_again_from_there(tmp_path: Path) -> None:
    context = lively_context(tmp_path)
    other = again(context, tmp_path, "other")
    assert beliefs(other) == beliefs(context)
    assert plain_status(other) == plain_status(context)
    assert queries.frame(other).settings == queries.frame(context).settings
    assert facts(other) == facts(context)
    twice = again(other, tmp_path, "twice")
    assert beliefs(twice) == beliefs(other)
    assert plain_status(twice) == plain_status(other)


def test_an_own_export_read_back_changes_nothing(tmp_path: Path) -> None:
    context = lively_context(tmp_path)
    before = beliefs(context), plain_status(context), queries.rewards(context), queries.resets(context)
    export_file(context, tmp_path / "own.jsonl")
    answer = import_files(context, [tmp_path / "own.jsonl"])
    assert (answer.duplicates, answer.updated, answer.rejected_count) == (answer.runs, 0, 0)
    assert (
        beliefs(context),
        plain_status(context),
        queries.rewards(context),
        queries.resets(context),
    ) == before


def test_hostile_ids_are_data(context: Context, tmp_path: Path) -> None:
    arms = tuple(Arm(key=key, label=key, token_cost=place) for place, key in enumerate(HOSTILE))
    run = Run(
        uid="'; DROP TABLE run; --",
        inventory=Inventory(kind="declared", arms=arms),
        calls=(Call(name=arms[0].name),),
        referenced=(HOSTILE[1],),
        model="<img src=x onerror=alert(1)>",
        channel="%{y}",
        ended_at_ms=START_MS,
    )
    record(context, run)
    for key in HOSTILE:
        reward(context, key, 0.5, reason=f"because {key}", run=run.uid)
    other = again(context, tmp_path, "other")
    assert [one.arm for one in queries.posteriors(other)] == sorted(HOSTILE)
    assert beliefs(other) == beliefs(context)
    assert {one.reason for one in queries.rewards(other)} == {f"because {key}" for key in HOSTILE}
    assert queries.frame(other).models == ("<img src=x onerror=alert(1)>",)


def test_priors_costs_labels_and_selections_come_back(context: Context, tmp_path: Path) -> None:
    change(context, "baseline_rate", 0.25)
    change(context, "priors", {"file": {"alpha_micro": 2_500_000, "beta_micro": 1_000_000}})
    own = Prior(alpha_micro=123_456, beta_micro=7)
    offered = [
        Arm(key="file:workspace:a", token_cost=70, label="A", prior=own),
        Arm(key="file:workspace:b", token_cost=70),
        Arm(key="tool:fs:Read", token_cost=0),
    ]
    chosen = select(context, offered, budget_tokens=100)
    run = chosen_among(
        "chosen",
        chosen,
        offered,
        calls=(Call(name="Read"),),
        usage=Usage(input=5, cache_read=7, total=99),
        duration_ms=0,
        reward=0.0,
        prompt_chars=0,
    )
    record(context, run)
    other = again(context, tmp_path, "other")
    assert beliefs(other) == beliefs(context)
    assert queries.frame(other).settings == queries.frame(context).settings
    assert (
        queries.belief(other).columns.token_cost.tolist()
        == queries.belief(context).columns.token_cost.tolist()
    )
    assert _version(other) == _version(context)


def _version(context: Context) -> list[object]:
    """A run as it is stored, but for the numbers its arms have."""
    with context.reading() as snapshot:
        version = read_version(snapshot, 1)
        keys: dict[int, str] = dict(snapshot.connection.rows("SELECT arm_no, key FROM arm"))
    outcomes = sorted(zip([keys[no] for no in version.arm_nos], version.flags, version.costs, strict=True))
    return [version.columns, outcomes, sorted((keys[row[0]], *row[1:]) for row in version.decisions)]


def test_every_exported_reward_says_in_what_context_it_was_given(context: Context, tmp_path: Path) -> None:
    record(context, a_run("r"))
    reward(context, "tool:other:a", 0.25, reason="half", run="r")
    reward(context, "tool:other:a", 0.5)
    export_file(context, tmp_path / "out")
    told = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    assert [line["context"] for line in told if line["kind"] == "reward"] == [
        {"lagged": True, "reason": "half", "by": "mara", "run": "r"},
        {"lagged": True, "reason": None, "by": "mara", "run": None},
    ]
