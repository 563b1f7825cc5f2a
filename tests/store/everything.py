"""Everything that the store can be asked, asked once: by the flows, and what they seldom ask, without them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from contextlib import chdir, closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace as replace_fields

from core.errors import (
    Conflict,
    NotApplicable,
    Unidentified,
    UnknownLayer,
    UnknownLearner,
    UnknownRun,
    UnreadableSource,
)
from core.flows import alerts, maintenance, queries
from core.flows.audit import audit, denials
from core.flows.batch import reward_batch, reward_run
from core.flows.choose import choose, next_pair
from core.flows.context import USUAL_PACE, Context
from core.flows.corrections import note, redo, repair, reset, undo
from core.flows.credit import credit_episode
from core.flows.episode import declare, mark_incomplete, record_step
from core.flows.erase import erase
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.identity import (
    actor_of_member,
    actor_of_token,
    has_operator,
    note_denied,
    sign_out,
    take_invitation,
)
from core.flows.importing import import_files
from core.flows.importing.files import import_in_steps
from core.flows.inventory import carried, keep_inventory
from core.flows.learn import record, record_all, reward, reward_all
from core.flows.learners import create_learner
from core.flows.members import (
    add_member,
    add_sender,
    invite_member,
    members,
    members_behind,
    remove_member,
    remove_sender,
    restore_member,
    senders,
)
from core.flows.offers import finish_session, offer, report, start_session
from core.flows.outcome import outcome as state_outcome
from core.flows.outcome import outcomes
from core.flows.queries.episodes import hacked
from core.flows.queues import (
    actor_of_browser,
    add_queue,
    add_rubric,
    assign,
    browsers,
    confirm_browser,
    propose_queue,
    rubrics,
)
from core.flows.restore import copy_database, restore
from core.flows.review import (
    hold,
    judge_batch,
    keep_draft,
    my_last,
    next_item,
    propose_batch,
    put_off,
    release,
    requeue,
    skip_item,
)
from core.flows.rollouts import rollouts, settle_all_rollouts, take_events
from core.flows.select import select
from core.flows.settings import change
from core.flows.tokens import create_token
from core.flows.traces import settle_all_traces, take_spans, traces
from core.flows.training import export_training
from core.flows.trials.plan import read_trial
from core.flows.webhooks import add_webhook, remove_webhook, settle, take_due
from core.formats import open_sources
from core.formats.armscope import write
from core.installed.answer import machine_inventory
from core.records.achieved import OutcomeOrder
from core.records.actor import Actor
from core.records.alert import Alarm, SendResult
from core.records.arm import Arm
from core.records.audit import AuditFilter
from core.records.batch import BatchLine
from core.records.bill import Spent
from core.records.episode import Scale, ScaleLine, Step
from core.records.episode_page import EPISODE_OUTCOMES, EpisodeCursor, EpisodeFilter
from core.records.evaluation_page import EvaluationFilter
from core.records.limits import LAST_MS
from core.records.member import secret_of
from core.records.observation import RewardOrder
from core.records.offer import Report, SelectionOptions
from core.records.review import ABOUTS, ORDERS, Draft, QueueAsks, Rubric
from core.records.run import History, Inventory, Usage
from core.records.run_page import Cursor, Direction, SessionCursor
from core.records.run_query import RunFilter, RunSide, View, rewards_of
from core.records.times import iso
from core.records.training import TRAINING_FORMATS
from core.records.trial import Cell, TrialResults
from core.store import reads
from core.store.compacted import compacted_observations
from core.store.compacting import old_runs
from core.store.damage import quick_check
from core.store.episodes import tell_episodes as store_episodes
from core.store.experiments import started
from core.store.facts import EXCHANGED
from core.store.imports import present
from core.store.reads import session_moments
from core.store.reads.arm_story import unversioned_counts
from core.store.reads.episodes import changed_episodes
from core.store.reads.evaluations import evaluation_page
from core.store.reads.experiments import experiment_sessions, past_sessions
from core.store.reads.log import Position, position_of
from core.store.reads.run_pages import changed_runs, run_page
from core.store.reads.run_story import arms_in_runs, manual_rewards, parts
from core.store.reads.training import Subjects, texts_of_pair
from core.store.reads.usage import budgets_used, counted, last_run_no
from core.store.rollouts import keep_rollouts
from core.store.text_index import build_index
from core.store.traces import keep_spans
from core.store.transaction import Transaction
from tests.doors.examples import example_world
from tests.engine import kept_in
from tests.flows.test_authorisation import FLOWS
from tests.flows.test_episodes import LONG, SHORT, file_of
from tests.flows.test_erase import PERSON, SESSION, planted_world
from tests.flows.test_traces import OTHER, packed, spans_of
from tests.formats.builders import lines, put
from tests.formats.test_atif import agent, trajectory
from tests.formats.test_otlp import AGENT, TRACE, reply, span
from tests.formats.test_qortex_db import database as qortex
from tests.formats.test_qortex_db import state
from tests.store.compacting import compact_until
from tests.store.test_chain import execute
from tests.store.test_mending import CHANGED, broken_by, write_lines
from tests.worlds import HOUR_MS, IN_PARTS, START_MS, a_run, chosen_among, context_at, lines_file, run_line
from tests.worlds.events import EVERY, PLAYED
from tests.worlds.experiments import ARM, OFFERED, assigned_run, start_experiment
from tests.worlds.lively import chosen_run, told_context
from tests.worlds.reviewers import QUEUE, desk_at, executed, judge_all

A, B, C = (f"tool:other:{name}" for name in "abc")
SCHEMAS = Path(__file__).parent / "schemas"

RUN = "request-9"
LAYER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
FIRST, SECOND = "11111111-2222-4333-8444-555555555555", "22222222-3333-4444-8555-666666666666"

VIEWS = (
    View(),
    View(types=("tool",)),
    View(since_ms=START_MS - HOUR_MS, until_ms=START_MS + 30 * HOUR_MS),
    View(since_ms=START_MS - 90 * HOUR_MS, until_ms=START_MS + 90 * HOUR_MS, types=("tool", "skill")),
    View(until_ms=START_MS + 2 * HOUR_MS, models=("small", "large"), channels=("",)),
)
FILTERS = (
    RunFilter(),
    RunFilter(classes=("selected",), statuses=("completed",), outcomes=("observed",)),
    *(RunFilter(arm=A, part=part) for part in (None, "in", "out")),
)


def ask_everything(folder: Path) -> None:
    """What is done, told, told in parts, erased, read and looked after."""
    keep_texts(folder)
    erase_all(folder)
    context = told_context(folder)
    do(context, folder)
    tell(context, folder)
    judge(folder)
    review(folder)
    tell_in_parts(folder)
    read(context)
    flow_by_flow(folder / "flows")
    identify(folder)
    alert(folder)
    trace(folder)
    rollout(folder)
    lose_a_row(folder)
    mend(folder)
    compact(folder)
    look_after(context, folder)


def do(context: Context, folder: Path) -> None:
    """What those worlds leave out: long and short batches, keys, arms that hide and come back, another learner."""
    run = a_run("r", at_ms=START_MS + 4 * HOUR_MS, model="small", tokens=300)
    record_all(context, [run, *(a_run(f"many {number}", model="small") for number in range(70))])
    orders = [RewardOrder(arm=A, key=f"key {number}", value=0.5) for number in range(3)]
    assert reward_all(context, orders) == reward_all(context, orders)
    reward(context, A, 0.5, run="r", correct=True)
    undo_and_redo(context, str(reward_run(context, "r", 0.5, rule="equal").id))
    half = [state_outcome(context, "r", 0.5, key="half") for _ in range(2)]
    assert half[0] == half[1]
    stated = [OutcomeOrder(run="r", value=1.0), OutcomeOrder(run="many 1", value=0.0)]
    undo_and_redo(context, outcomes(context, stated).id)
    record(context, replace_fields(run, achieved=0.5))
    undo_and_redo(context, change(context, "outcome_from", ["grader"]).id)
    table = [BatchLine(arm=A, value=0.5), BatchLine(arm=A, value=0, run="r")]
    assert reward_batch(context, table, key="table") == reward_batch(context, table, key="table")
    undo(context, redo(context, undo(context, reward_batch(context, table).id).undone).id)
    for _ in range(2):
        keep_inventory(context, machine_inventory(folder / "no home", 0), machine="laptop")
    assert len(carried(context).machines) == 1
    assert queries.preview_batch(context, table).bad == {}
    with pytest.raises(Conflict):
        reward(context, A, 0.5, run="r", seen="reward-1")
    assert note(context, A, "asked once", key="asked") == note(context, A, "asked once", key="asked")
    offer_and_hear(context)
    read_a_trial(context)
    assign_and_count(context, folder)
    select_and_hold(replace(context, learner="holding", clock=count(START_MS + 9 * HOUR_MS, 60_000).__next__))
    redo(context, undo(context, reset(context, arms=[A], target="prior").id).undone)
    repair_and_read(context, folder)
    undo(context, change(context, "k", 5).id)
    spent = (
        Spent(model="small", input=5),
        Spent(model="large", owner="sub-agent", output=7),
        Spent(model="large", tier="fast", region="us", context=200_000, input=3, searches=2, unread=1),
    )
    record(context, replace_fields(a_run("billed", at_ms=START_MS, model="small"), bill=spent))
    defined = Inventory(kind="declared", arms=(Arm(key=A, version="1"), Arm(key=B, version="2")))
    history = History(key=5, marks=b"\x01abcdefgh")
    record(context, replace_fields(a_run("defined", at_ms=START_MS), inventory=defined, history=history))
    undo(context, change(context, "prices", {"small": 3.0, "large": {"input": 5.0, "output": 25.0}}).id)
    share_a_cache(context.of("cached"))
    assert queries.verify(context).clean
    few = session_moments.MOST_NAMED
    session_moments.MOST_NAMED = 0  # as if the learner had thousands of arms
    queries.judgements(context)
    session_moments.MOST_NAMED = few
    written: list[Transaction] = []
    context.write("settings", written.append)
    assert context.store.database.write(written[0].has_landed)

    def noted(txn: Transaction) -> None:
        txn.audit("settings", None, {})
        written.append(txn)

    def named(txn: Transaction) -> None:
        txn.note_run("r")
        written.append(txn)

    context.write("settings", noted)
    context.write("ingest", named)
    context.write("settings", lambda _: None)
    assert [context.store.database.write(one.has_landed) for one in written] == [None, True, False]
    create_learner(context, "second")
    with pytest.raises(UnknownLearner):
        queries.status(context.of("third"))
    nobody = context_at(folder / "second.db")
    create_learner(nobody, "only")
    with pytest.raises(UnknownLearner):
        record(replace(nobody, is_named=False), a_run("whose"))
    nobody.store.close()


def compact(folder: Path) -> None:
    """Runs with texts of an import before and after a reset, compacted; what needs them is asked again."""
    context = context_at(folder / "compacted.db")
    change(context, "keep_texts", value=True)
    file = lines_file(
        folder / "old.jsonl",
        *(run_line(f"f/turn/{number}", session="s", prompt="Why?", reply="So.") for number in range(3)),
    )
    told = import_files(context, [file])
    again = reset(context, arms=[A])
    record(context, replace_fields(a_run("kept", at_ms=START_MS), session="s"))
    reward(context, A, 0.5, run="kept")
    with context.reading() as snapshot:
        assert old_runs(snapshot, LAST_MS).n_referenced == 1
    assert compact_until(context, LAST_MS) == 3
    with context.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        reads.session_sums(snapshot, columns, np.ones(len(columns), dtype=np.bool_))
        assert list(compacted_observations(snapshot))
    import_files(context, [file], continuing=told.id)
    undo_and_redo(context, again.id)
    with pytest.raises(NotApplicable):
        undo(context, str(told.id))
    with pytest.raises(NotApplicable):
        repair(context, arms=[A], since=iso(START_MS) or "")
    with pytest.raises(UnknownRun, match="deleted by compact"):
        reward(context, A, 0.5, run="f/turn/0")
    assert queries.status(context).compacted is not None
    with context.reading() as snapshot:
        assert reads.totals(snapshot).first_at_ms == START_MS
        assert present(snapshot, ["f/turn/0", "f/episode/0"]) == {"f/turn/0"}
    assert queries.verify(context).clean
    context.store.close()


def share_a_cache(context: Context) -> None:
    """Savings in money of sessions that begin with a read of a cache which another run left."""
    create_learner(context, context.learner)
    change(context, "baseline_rate", 0.5)
    change(context, "prices", {"small": 3.0})
    for number in range(8):
        run = chosen_run(context, f"cached {number}", session=f"session {number}", model="small")
        record(context, replace_fields(run, usage=Usage(input=10, output=5, cache_read=90), calls=()))
    add_queue(context, "sample", QueueAsks(source="filter", order="random", seed="1"))
    assert queries.savings(context).money is not None


def read_a_trial(context: Context) -> None:
    """Results of two sessions, of which one is erased."""
    cells = (
        Cell(task="sums", repeat=1, side="with", grade=1, session="of a trial"),
        Cell(task="sums", repeat=1, side="without", grade=0, session="erased of a trial"),
    )
    read_trial(context, TrialResults(source="lines", cells=cells, arm=A))
    erase(context, session="erased of a trial")


def assign_and_count(context: Context, folder: Path) -> None:
    """An experiment with sessions that have a run, an erased one that has none, and a run without a session."""
    number, now_ms = start_experiment(context, ARM, judged=True), START_MS + 13 * HOUR_MS
    for uid, session in (("assigned 1", "of a side"), ("assigned 2", None)):
        record(context, assigned_run(context, uid, session, ended_at_ms=START_MS + 12 * HOUR_MS))
    late = chosen_among("assigned 3", select(context, OFFERED), OFFERED, session="of a later name")
    record(context, replace_fields(late, ended_at_ms=START_MS + 12 * HOUR_MS))
    file = lines_file(folder / "assigned.jsonl", *(run_line(f"of no side {number}") for number in range(9)))
    import_files(replace(context, pace=IN_PARTS), [file])
    select(context, OFFERED, session="erased of a side")
    erase(context, session="erased of a side")
    select(context, OFFERED, session="erased of a side")
    with context.reading() as snapshot:
        plan = next(one.plan for one in started(snapshot) if one.fact.number == number)
        sessions, n_late = experiment_sessions(snapshot, number, plan, now_ms)
        assert (len(sessions), n_late, int(sessions.followed.sum())) == (4, 0, 4)
        assert len(past_sessions(snapshot, ARM, hours=24, days=7, source=None, now_ms=now_ms)) == 3
    undo_and_redo(context, f"experiment-{number}")
    blind = replace(context, clock=lambda: START_MS + 60 * HOUR_MS)
    queue = add_queue(blind, "sides", QueueAsks(source="experiment", experiment=ARM))
    next_item(blind, queue.id)
    for arm in (None, ARM):
        see_runs(blind, RunFilter(arm=arm), View())
    queries.rewards(blind)
    queries.arm_ledger(blind, ARM)
    queries.changes(blind)
    undo(context, queue.id)


def offer_and_hear(context: Context) -> None:
    """Offers that are told of wholly, in a session, too late and not at all; a client's session."""
    minute = replace(context, clock=count(START_MS + 9 * HOUR_MS, 60_000).__next__)
    arms = [Arm(key=A, token_cost=3), Arm(key="tool:other:offered")]
    for session in (None, "chat 1"):
        offer(minute, arms, SelectionOptions(k=0, seed_arms=(A,), seed_boost=2.0), session=session)
        for arm, value in zip(arms, (1.0, 0.5), strict=True):
            report(minute, Report(arm=arm.key, value=value, session=session))
    offer(context, arms)
    offer(context, arms, session="of an offer alone")
    erase(context, session="of an offer alone")
    offer(replace(context, clock=lambda: START_MS + 99 * HOUR_MS), arms)
    for arm in arms:
        report(replace(context, clock=lambda: START_MS + 99 * HOUR_MS), Report(arm=arm.key, value=0.0))
    uid = start_session(context, "chat 1").uid
    start_session(replace(context, identity=lambda: "another"), "chat 2")
    erase(context, session="chat 2")
    assert finish_session(context, uid) == finish_session(context, uid) is not None


def select_and_hold(context: Context) -> None:
    """A hold that begins, is read, grows, is used by a run and ends; one of a session that is erased."""
    learner = context.of_own_door()
    arms = [Arm(key=A, token_cost=3), Arm(key="tool:other:held")]
    first = select(learner, arms, session="held 1", budget_tokens=2)
    frozen = replace(learner, clock=lambda: START_MS + 9 * HOUR_MS + 120_000)
    assert select(frozen, arms, session="held 1", budget_tokens=2) == first
    grown = select(learner, [*arms, Arm(key="tool:other:later")], session="held 1")
    run = chosen_among("held", grown, session="held 1")
    record(learner, run)
    select(learner, arms, session="held 2")
    late = replace(learner, clock=lambda: START_MS + 99 * HOUR_MS)
    select(late, arms, session="held 1")
    erase(late, session="held 2")
    erase(late, session="held 1")
    assert select(late, arms, session="held 1").held_since_ms == START_MS + 99 * HOUR_MS
    assert queries.verify(late).clean


def tell(context: Context, folder: Path) -> None:
    """Arms with priors, costs and labels of their own; a learner as a whole; what goes on; beliefs without runs."""
    named = {"kind": "arm", "key": "tool:other:told", "label": "Told", "token_cost": 7}
    prior = {"alpha_micro": 2_000_000, "beta_micro": 5_000_000}
    first = import_files(
        context, [lines_file(folder / "arms.jsonl", {**named, "prior": prior}, run_line("of arms"))]
    )
    more = lines_file(
        folder / "more.jsonl", {**named, "label": "Otherwise"}, run_line("of more", ended_at_ms=None)
    )
    assert import_files(context, [more], continuing=first.id).id == first.id
    same = lines_file(
        folder / "same.jsonl", {**named, "prior": {**prior, "alpha_micro": 9_000_000}}, run_line("r2")
    )
    undo(context, import_files(context, [same]).id)
    in_full = run_line("by name", session="s", format="f", source="f")
    import_files(context, [lines_file(folder / "full.jsonl", in_full)])
    by_name = {**in_full, "arms": [], "named": in_full["arms"], "rank": 1}
    assert import_files(context, [lines_file(folder / "named.jsonl", by_name)]).only_named
    record(context, a_run("hidden", arms=("told", "a")))
    undo(context, first.id)
    record(context, a_run("comes back", arms=("told", "a")))
    redo(context, first.id)
    tell_episodes(context, folder)
    import_files(context, [qortex(folder, [state()])])
    import_files(context, [qortex(folder, [state(alpha=9.5, pulls=9)], name="later.sqlite")])
    turns: dict[str, object] = {
        "messages": [{"role": "user", "content": "Go"}, {"role": "assistant", "content": "Gone"}]
    }
    import_files(context, [lines_file(folder / "chat.jsonl", turns)], unit="turn")
    with pytest.raises(UnreadableSource):
        import_files(context, [folder / "chat.jsonl"], unit="episode")
    import_files(context, [lines_file(folder / "own.jsonl", run_line("own", session="s1", format="f"))])
    same = lines_file(folder / "trajectory.json", trajectory([agent("a")], session_id="s1"))
    with pytest.raises(UnreadableSource, match="the agent's own session"):
        import_files(context, [same])
    export_file(context, folder / "whole.jsonl")
    other = context_at(folder / "other.db", name="kim")
    for told in (other, other, context):
        undo_and_redo(told, import_files(told, [folder / "whole.jsonl"]).id)
    assert queries.verify(other).clean
    for fact in EXCHANGED.values():
        (folder / f"{fact.name}.jsonl").write_bytes(b"".join(write([fact.line])))
        for _ in range(2):
            import_files(other, [folder / f"{fact.name}.jsonl"])
    export_file(other, folder / "of every kind.jsonl")
    other.store.close()


def keep_texts(folder: Path) -> None:
    """Texts of runs: told at once, in parts, again, longer, undone, and left behind by an import that died."""
    file, longer = folder / "texts.jsonl", folder / "longer.jsonl"
    for path, rank in ((file, 0), (longer, 1)):
        told = [a_run(f"t{number}", rank=rank, calls=("a",) * (rank + 1)) for number in range(3)]
        path.write_bytes(b"".join(write([replace_fields(run, prompt="Why?", reply="So.") for run in told])))
    for pace in (USUAL_PACE, IN_PARTS):
        context = replace(context_at(folder / f"texts {pace.at_once}.db"), pace=pace)
        import_files(context, [file])
        change(context, "keep_texts", True)
        left = import_in_steps(replace(context, pace=IN_PARTS), open_sources([file]))
        next(left)
        left.close()
        import_files(context, [file])
        undo_and_redo(context, import_files(context, [longer]).id)
        assert queries.search(context, "why so", ["text"]).hits
        reviewer = replace(context, actor=Actor(name="kim", role="reviewer"))
        assert not queries.search(reviewer, "why so", ["text"]).hits
        build_index(context.store.database)
        change(context, "keep_texts", False)
        assert queries.verify(context).clean
        context.store.close()


def erase_all(folder: Path) -> None:
    """What can be erased, each in a world of its own, and told again afterwards."""
    for number, named in enumerate(
        ({"run": RUN}, {"execution": FIRST}, {"session": SESSION}, {"rater": PERSON}, {"act": "note-1"})
    ):
        place = folder / f"erased {number}"
        place.mkdir()
        context = planted_world(place)
        erase(context, **named)
        import_files(replace(context, pace=IN_PARTS) if number % 2 else context, [place / "runs.jsonl"])
        import_files(context, [place / "planted.jsonl"])
        assert queries.verify(context).clean
        context.store.close()


def judge(folder: Path) -> None:
    """Layers of an adapter, executions with texts, a rubric, and what several people judge of them, and again."""
    context = context_at(folder / "judged.db", name="mara")
    record_all(context, [a_run("judged"), a_run("as a whole", calls=("a", "b"))])
    change(context, "keep_texts", True)
    change(context, "evaluation_credit", "equal")
    pair = {"layer": LAYER, "index": 1, "instruction": '{"ask": "x"}', "response": '{"say": "y"}'}
    executed: dict[str, object] = {
        "kind": "execution",
        "uid": FIRST,
        "adapter": "kairos://adapter/review",
        "run": "judged",
        "pairs": [pair],
    }
    layer: dict[str, object] = {
        "kind": "layer",
        "uid": LAYER,
        "adapter": "kairos://adapter/review",
        "index": 1,
        "adapter_name": "Review",
    }
    second: dict[str, object] = {**layer, "uid": SECOND, "index": 2}
    file = lines_file(folder / "subjects.jsonl", layer, second, executed)
    told = import_files(context, [file])
    other = {**executed, "pairs": [{**pair, "response": '{"say": "z"}'}]}
    with pytest.raises(UnreadableSource, match="known already"):
        import_files(context, [lines_file(folder / "other.jsonl", other)])
    change(context, "keep_texts", False)
    import_files(context, [lines_file(folder / "again.jsonl", executed, run_line("beside it"))])
    change(context, "keep_texts", True)
    uri = f"kairos://layer/{LAYER}?execution_id={FIRST}"
    for outcome in ("success", "failure"):
        evaluate(context, uri, outcome, score=0.5)
        evaluate(context, f"kairos://layer/{SECOND}", outcome, model="judge-1", key=f"key {outcome}")
        evaluate(context, "as a whole", outcome, rubric="v1")
        evaluate(context, "judged", outcome, arm=A)
    evaluate(context, FIRST, "success")
    evaluate(context, SECOND, "success")
    with pytest.raises(UnknownRun):
        evaluate(context, "nobody", "success")
    with pytest.raises(UnknownLayer):
        evaluate(context, "kairos://layer/bbbbbbbb-bbbb-4ccc-8ddd-eeeeeeeeeeee", "success")
    for number in (1, 2, 4, 8):
        undo_and_redo(context, f"evaluation-{number}")
    undo(context, "evaluation-6")
    undo_and_redo(context, told.id)
    for one in (
        lines_file(folder / "rubric.jsonl", {"kind": "rubric", "id": "r", "rubric": {"version": "v1"}}),
        lines_file(
            folder / "choice.jsonl",
            {
                "kind": "choice",
                "id": "c",
                "layer": LAYER,
                "first": FIRST,
                "second": SECOND,
                "chosen": "first",
            },
        ),
    ):
        import_files(context, [one])
    train_on(context, folder)
    export_file(context, folder / "judged.jsonl")
    assert queries.verify(context).clean
    empty = context_at(folder / "judged elsewhere.db")
    undo_and_redo(empty, import_files(empty, [folder / "judged.jsonl"]).id)
    assert queries.verify(empty).clean
    empty.store.close()
    context.store.close()


def train_on(context: Context, folder: Path) -> None:
    """Every format, of all and of some; what is added up of a layer."""
    for format in TRAINING_FORMATS:
        export_training(context, folder / f"all.{format}", format)
        export_training(
            context,
            folder / f"some.{format}",
            format,
            pairing="layer",
            adapters=("Review",),
            layers=(LAYER,),
            executions=(FIRST,),
            raters=("mara",),
            rubrics=("",),
            since_ms=0,
            until_ms=START_MS + 1000 * HOUR_MS,
        )
    evaluate(context, f"kairos://layer/{LAYER}?execution_id={FIRST}", "success", score=0.75)
    import_files(context, [folder / "all.trace_jsonl"])  # what it tells was revised since
    with context.reading() as snapshot:
        unversioned_counts(snapshot, 1, [("later", START_MS + 1), ("earlier", START_MS)])
        assert texts_of_pair(snapshot, 1, 1) != (None, None)
        assert len(Subjects(snapshot).pairs([(0, 1, 1), (0, 1_000_000, 1)])) == 1


def review(folder: Path) -> None:
    """Queues of everything in every order, given out, judged, put off and skipped by two, and told elsewhere."""
    desk = desk_at(folder / "review.db")
    evaluate(desk.of("kim"), "r0", "failure", rubric="v1", score=0.1)
    reward(desk.context, A, 0.0, run="r1", correct=True)
    executed(desk, folder, "y", "z")
    for about in ABOUTS:
        for order in ORDERS:
            propose_queue(desk.context, QueueAsks(source="filter", about=about, order=order))
    propose_queue(desk.context, QueueAsks(about="execution", wanted=RunFilter(arm=A)))
    asks = QueueAsks(source="filter")
    add_rubric(desk.context, Rubric(version="v1"))
    erase(desk.context, act="rubric-1")
    add_queue(desk.context, "W", asks, n_reviewers=2, blind=True, rubric="v1")
    assign(desk.context, QUEUE, [2], "ann")
    ann = desk.of("ann")
    queries.transcript(replace(ann, actor=Actor(name="ann", role="reviewer")), "r0")
    keep_draft(ann, QUEUE, 1, Draft(level=2))
    put_off(ann, QUEUE, 1, returns=True)
    requeue(ann, QUEUE)
    skip_item(ann, QUEUE, 2, "cut off")
    judge_all(ann)
    review_item(ann)
    add_queue(desk.context, "L", QueueAsks(about="layer"))
    judge_all(ann, "queue-2")
    rubrics(ann)
    name_browsers(desk.context)
    pair = next_pair(ann, layer=LAYER)
    assert pair is not None
    choose(ann, pair.layer, pair.first, pair.second, "equal")
    export_file(desk.context, folder / "review.jsonl")
    elsewhere = context_at(folder / "reviewed elsewhere.db")
    undo_and_redo(elsewhere, import_files(elsewhere, [folder / "review.jsonl"]).id)
    for one in (desk.context, elsewhere):
        assert queries.verify(one).clean
        one.store.close()


def review_item(context: Context) -> None:
    """What is hidden while an item is open, and what is told of one's own."""
    undo(context, my_last(context, 1)[0].id)
    given = next_item(context, QUEUE)
    assert given.item is not None
    hold(context, QUEUE, given.item.item)
    queries.changes(context)
    release(context, QUEUE, given.item.item)


def name_browsers(context: Context) -> None:
    """A browser that holds an item, and one that judged under its own name, confirmed and not."""
    for browser in ("zoe 000001", "kim 3f2a91"):
        page = replace(context, actor=Actor(name="ann", browser=browser))
        next_item(page, "queue-2")
        evaluate(page, "r5", "success", rubric="v1")
        act = confirm_browser(context, browser)
        actor_of_browser(page, page.actor)
        undo_and_redo(context, act.id)
        evaluate(replace(page, actor=actor_of_browser(page, page.actor)), "r6", "failure", rubric="v1")
    browsers(context)
    undo(context, act.id)
    lee, asks = (
        replace(context, actor=Actor(name="ann", browser="lee 99aa00")),
        QueueAsks(source="runs", runs=("r5",)),
    )
    judge_batch(lee, asks, propose_batch(lee, asks).token, outcome="success", score=1.0, rubric="v1")


def undo_and_redo(context: Context, act: str | None) -> None:
    if act is not None:
        redo(context, undo(context, act).undone)


def look_at_episodes(context: Context) -> None:
    """One and all; pages of every kind, in both directions, from a place with a time and from one without."""
    queries.episodes(context)
    queries.episode(context, "sums/1")
    queries.environment(context, "sums")
    with context.reading() as snapshot:  # the overview asks from ten episodes on
        hacked(snapshot, 1, Scale())
    queries.without_episode(context)
    for outcome in (None, *EPISODE_OUTCOMES):
        wanted = EpisodeFilter(environment="sums", split="train", task="t1", model="large", outcome=outcome)
        queries.episode_list(context, wanted)
        queries.episode_list(context, EpisodeFilter(outcome=outcome))
    for cursor in (None, EpisodeCursor(START_MS, 1), EpisodeCursor(None, 1)):
        for direction in ("older", "newer"):
            queries.episode_list(context, cursor=cursor, direction=direction)


def tell_episodes(context: Context, folder: Path) -> None:
    """One that grows, goes back and comes again, in the run it was made in; and the scale of its environment."""
    grown = replace_fields(LONG, runs=("r",))
    scale = ScaleLine(id="x/scale-1", environment="sums", scale=Scale(hi=2))
    change(context, "keep_texts", value=True)
    digested = Step(number=0, args_digest="00" * 16, asked="1 + 1?", answered="2")
    other = replace_fields(LONG, uid="other", steps=(digested,))
    import_files(context, [file_of(folder, "short.episodes", SHORT, scale)])
    undo_and_redo(context, import_files(context, [file_of(folder, "long.episodes", grown, other)]).id)
    context.write("ingest", lambda txn: store_episodes(txn, [LONG]))
    export_file(context, folder / "episodes.out")
    for _ in range(2):
        record_step(context, "steps", environment="sums", number=0, reward=0.5)
    record_step(context, "steps", reward=0.5)
    mark_incomplete(context, "steps")
    undo(context, declare(context, "sums", hi=3).id)
    untimed = replace_fields(LONG, uid="untimed", at_ms=None, runs=())
    context.write("ingest", lambda txn: store_episodes(txn, [untimed]))
    look_at_episodes(context)
    credit_episode(context, "sums/1", "equal")
    undo_and_redo(context, credit_episode(context, "sums/1", "referenced").id)
    queries.episode(context, "sums/1")
    export_file(context, folder / "credits.out")
    import_files(context_at(folder / "credited elsewhere.db"), [folder / "credits.out"])
    queries.episode(context, "untimed")
    queries.episode_runs(context, "sums/1")
    erase(context, episode="other")
    erase(context, episode="sums/1")
    import_files(context, [file_of(folder, "again.episodes", other)])


def tell_in_parts(folder: Path) -> None:
    """Imports that take their time, while others do whatever what is staged has to heed."""
    context = replace(context_at(folder / "parts.db"), pace=IN_PARTS)
    record(context, a_run("known", at_ms=START_MS))
    undo(context, import_files(context, [lines_file(folder / "undone.jsonl", run_line("undone"))]).id)
    arm: dict[str, object] = {
        "kind": "arm",
        "key": "tool:other:staged",
        "label": "Staged",
        "prior": {"alpha_micro": 5, "beta_micro": 5},
    }
    boundary: dict[str, object] = {
        "kind": "reset",
        "id": "boundary",
        "arms": [A],
        "target": "prior",
        "at_ms": START_MS,
    }
    runs = [run_line(uid, rank=3) for uid in ("known", "undone", *(f"new {number}" for number in range(8)))]
    file = lines_file(
        folder / "parts.jsonl", arm, *runs[:5], boundary, *runs[5:], run_line("known", "ab", rank=9)
    )
    between: list[Callable[[], object]] = [
        lambda: record(context, a_run("new 0", rank=1, calls=("b",))),
        lambda: record(context, a_run("new 1", arms=("staged", "a"))),
        lambda: reward(context, A, 0.5, run="known"),
        lambda: _use_up_the_room(context),
        lambda: queries.verify(context),
        lambda: queries.verify(context, head="0" * 64),
        lambda: queries.verify(context, head="1:" + "0" * 64),
    ]
    whole = _in_steps(context, file, between)
    again = lines_file(
        folder / "again.jsonl", *(run_line(f"new {number}", "c", rank=9) for number in range(8))
    )
    _in_steps(context, again, [lambda: undo(context, whole)], continuing=whole)
    with closing(import_in_steps(context, open_sources([file]))) as dies:
        next(dies)
        next(dies)
    new = replace(context.of("made by it"), is_named=True)
    longer = lines_file(folder / "longer.jsonl", *(run_line(f"l{number}", rank=1) for number in range(6)))
    _in_steps(new, longer, [lambda: record(new, a_run("meanwhile"))])
    redo(context, whole)
    third = lines_file(
        folder / "goes on.jsonl", *(run_line(f"new {number}", "ab", rank=12) for number in range(8))
    )
    _in_steps(context, third, [lambda: reward(context, B, 1.0, run="new 3", correct=True)], continuing=whole)
    assert queries.verify(context).clean
    assert queries.verify(new).clean
    context.store.close()


def _in_steps(
    context: Context, file: Path, between: Iterable[Callable[[], object]], continuing: str | None = None
) -> str:
    """An import, with something done after each of its parts; its act."""
    acts = iter(between)
    steps = import_in_steps(context, open_sources([file]), continuing=continuing)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value.id)
        next(acts, lambda: None)()


def repair_and_read(context: Context, folder: Path) -> None:
    """A repair, previewed, keyed, undone and redone, with a correction of what it took back."""
    since = iso(START_MS - HOUR_MS) or ""
    preview = queries.preview_repair(context, [A, B], since)
    assert queries.evidence(context, [A, B], START_MS).arms
    assert queries.compare_sides(context, RunSide(span="7 days"), RunSide(session="none")).arms
    latest = queries.listed_sessions(context, limit=1).onward
    assert latest is None or queries.session(context, latest.session, texts=True).rows
    assert queries.listed_sessions(context, after=SessionCursor(None, "z"), limit=5).onward is None
    answer = repair(context, arms=[A, B], since=since, key="repaired")
    assert answer == repair(context, arms=[A, B], since=since, key="repaired")
    assert (preview.n, preview.n_corrected) == (answer.observation_count, answer.corrected)
    again = reward(context, B, 0.5, run="r", correct=True).id
    undo(context, reward(context, B, 0.25, run="r", correct=True).id)
    redo(context, undo(context, answer.id).undone)
    undo(context, again)
    assert queries.repairs(context)[0].id == answer.id
    export_file(context, folder / "without repaired.json", "json")
    undo(context, answer.id)


def _use_up_the_room(context: Context) -> None:
    """As if there had been so many acts since an import in parts was begun."""
    used_up = "UPDATE learner SET revision = staged_revision - 1 WHERE staged_revision > 0"
    context.store.database.write(lambda connection: connection.run(used_up))
    reset(context, arms=[B])


def read(context: Context) -> None:
    """Every page in every view, on from every kind of place; what only certain data lead to, by its own function."""
    for view in VIEWS:
        for page in (
            queries.overview,
            queries.savings,
            queries.belief,
            queries.judgements,
            queries.confidence,
        ):
            page(context, view)
        for wanted in FILTERS:
            see_runs(context, wanted, view)
    for name in ("r", "1", "grows", "chosen", "apart told", "gone"):
        queries.run(context, name)
    for arm in (A, "tool:other:told", "skill:x:main"):
        ledger = queries.arm_ledger(context, arm, limit=2)
        if ledger.onward is not None:
            queries.arm_ledger(context, arm, after=ledger.onward, limit=2)
        queries.arm_path(context, arm)
        queries.arm_versions(context, arm)
        queries.arm_runs(context, arm)
        queries.preview_reward(context, arm, 0.5)
    for correct in (False, True):
        queries.preview_reward(context, B, 0.5, run="run-1", correct=correct)
    queries.rewards(context, actor="mara")
    for words in ("r small", "session", "other"):
        queries.search(context, words)
    queries.preview_undo(context, "import-1")
    queries.preview_left_out(context, "sums")
    queries.runs_without_tokens(context, View(since_ms=0))
    queries.preview_settings(context, {"k": 3})
    for metric in queries.METRICS:
        for window in queries.WINDOWS:
            queries.timeseries(context, metric, window)
    queries.openclaw_traces(context, 3, 1)
    with pytest.raises(NotApplicable):
        reward(context, "skill:x:main", 0.5, run="r")
    by_their_own(context)


def see_runs(context: Context, wanted: RunFilter, view: View) -> None:
    directions: tuple[Direction, ...] = ("older", "newer")
    for direction in directions:
        for cursor in (None, Cursor(START_MS + HOUR_MS, 5), Cursor(None, 5)):
            queries.runs_view(context, wanted, view, cursor=cursor, direction=direction, limit=3)


def by_their_own(context: Context) -> None:
    """What is read of runs only where arms changed, where there are many runs, or where a page is empty."""
    span = {"since_ms": START_MS - 9 * HOUR_MS, "until_ms": START_MS + 99 * HOUR_MS}
    with context.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        every = np.arange(len(columns))
        walk, first = reads.walk(snapshot, columns), reads.first_days(snapshot)
        reads.arm_sessions(snapshot, columns, every, walk)
        reads.arm_hours(snapshot, columns, every, since_ms=span["since_ms"], until_ms=span["until_ms"])
        reads.joined_arms(snapshot, columns, A, days=(0, 1 << 20), since_ms=0, walk=walk, first=first)
        for n_runs in (1, 1 << 20):
            reads.session_runs(snapshot, n_runs)
            reads.session_runs(snapshot, n_runs, **span)
            reads.session_runs(snapshot, n_runs, until_ms=span["until_ms"])
        last_run_no(snapshot)
        budgets_used(snapshot, 0)
        counted(snapshot)
        reads.observations(snapshot, limit=3, arm=A, run_no=2)
        for run_filter in (RunFilter(), RunFilter(arm=A, part="in", classes=("imported",))):
            for view in (View(), VIEWS[-1]):
                changed_runs(snapshot, run_filter, view, Position(0, 0), limit=3)
                changed_runs(snapshot, run_filter, view, Position(1, 2), limit=3, session="s")
                for cursor in (None, Cursor(START_MS, 2), Cursor(None, 2)):
                    run_page(snapshot, run_filter, view, session="s", cursor=cursor)
                    run_page(snapshot, run_filter, view, session="s", cursor=cursor, direction="newer")
        position = position_of(snapshot, snapshot.head)
        asked = {"kind": "feedback", "model": "m", "session": "s", "from_": "2026-01-01", "to": "2026-01-02"}
        reads.observations(snapshot, limit=3, scope=rewards_of(asked), before=9)
        reads.audit_page(snapshot, AuditFilter(), limit=3, after=position)
        for after in (Position(0, 0), position):
            reads.observations(snapshot, limit=3, after=after)
            evaluation_page(snapshot, EvaluationFilter(rater="mara"), limit=3, after=after)
            changed_episodes(snapshot, EpisodeFilter(environment="sums", model="m"), after, limit=3)
            changed_episodes(snapshot, EpisodeFilter(), after, limit=3)
        for run_nos in ([], [1, 2]):
            found = arms_in_runs(snapshot, run_nos)
            parts(snapshot, run_nos, found.arm_nos.tolist())
            manual_rewards(snapshot, run_nos)
        list(quick_check(snapshot))


def flow_by_flow(folder: Path) -> None:
    """Every flow there is, whoever may."""
    folder.mkdir()
    context = example_world(folder)
    with chdir(folder):  # the examples name files as a person would
        for _, flow in FLOWS.values():
            flow(context, folder)
    context.store.close()


def identify(folder: Path) -> None:
    """Tokens known and unknown, an invitation that is taken, again by who was removed; refusals; the audit."""
    context = context_at(folder / "people.db")
    made = create_token(context, "ci", ("read",), bridge=True)
    behind = members_behind(context.store, made.token.actor)
    assert behind is not None
    assert behind("slack", "nobody") is None
    for secret in (made.secret, secret_of(1)):
        with suppress(Unidentified):
            note_denied(
                context.store, actor_of_token(context.store, secret, now_ms=START_MS), "reset", START_MS
            )
    issuer, email = "https://id.example.com", "jo@example.com"
    for name in ("jo", "josephine"):
        for _ in range(2):
            invite_member(context, issuer, email, name=name, role="operator")
        take_invitation(
            context.store, issuer, "u-1", email=email, email_verified=True, now_ms=context.clock()
        )
        jo = actor_of_member(context.store, issuer, "u-1", issued_ms=LAST_MS, now_ms=LAST_MS)
        create_token(replace(context, actor=jo), f"of {name}", ("read",))
        sign_out(context.store, jo, now_ms=context.clock())
        add_sender(context, "jo", "slack", name)
        senders(context)
        remove_sender(context, "slack", name)
        add_member(context, issuer, f"other than {name}", f"other than {name}", role="operator")
        remove_member(context, "member-1")
    assert has_operator(context.store)
    members(context)
    for one in members(context):
        restore_member(context, one, current=one)
    wanted = AuditFilter(actor="mara", action="member_add", since_ms=0, until_ms=LAST_MS)
    audit(context, installation=True, wanted=wanted, before=9)
    denials(context, wanted=wanted)
    context.store.close()


def alert(folder: Path) -> None:
    """What is raised, gone, there again, and cleared; told, tried, and told again by a webhook that came back."""
    desk = desk_at(folder / "alerts.db")
    for _ in range(2):
        add_webhook(desk.context, "https://hooks.example/")
    alarm = Alarm(learner="default", kind="silent", count=9)
    for found in ([alarm], [], [alarm], [], []):
        alerts.look(desk.context, find=lambda _, found=found: found)  # type: ignore[misc]
        desk.pass_minutes(60)
    message = take_due(desk.context)
    assert message is not None
    settle(desk.context, message, SendResult(webhook="webhook-1", message=message.uid, result="200", ok=True))
    assert len(alerts.alerts(desk.context).alerts) == 1
    remove_webhook(desk.context, "webhook-1")
    desk.context.store.close()


def trace(folder: Path) -> None:
    """A trace that comes in parts, one without a root, one that can't be read; too little room; erased, forgotten."""
    made = replace(context_at(folder / "traces.db"), clock=count(START_MS, 2 * HOUR_MS).__next__)
    take_spans(made, spans_of(*AGENT[1:]))
    take_spans(
        made, spans_of(AGENT[0], reply(2, 1, trace=OTHER), reply(2, 1, trace="e" * 32, session__id="s-9"))
    )
    settle_all_traces(made)
    traces(made)
    made.write("ingest", lambda txn: keep_spans(txn, packed(span(3, 1, trace=OTHER)), at_most_bytes=1_000))
    erase(made, run=f"otlp/prompt/{TRACE}")
    erase(made, session="s-9")
    late = replace(made, clock=lambda: START_MS + 30 * 24 * HOUR_MS)
    settle_all_traces(late)
    settle_all_traces(late)
    made.store.close()


def rollout(folder: Path) -> None:
    """Rollouts that wait, start, go on and contradict; too little room; forgotten; and how hard their tasks are."""
    made = replace(context_at(folder / "rollouts.db"), clock=count(START_MS, 2 * HOUR_MS).__next__)
    take_events(made, PLAYED)
    rollouts(made)
    take_events(made, EVERY)
    queries.task_difficulty(made, "own/sums")
    queries.variants(made, "own/sums")
    waiting = [{**one, "rolloutEventId": "w"} for one in PLAYED]
    take_events(made, waiting)
    made.write("ingest", lambda txn: keep_rollouts(txn, [], {}, at_most=len(waiting)))
    change(made, "keep_texts", value=True)
    held = [{**one, "rolloutEventId": "h", "eventId": f"h{number}"} for number, one in enumerate(PLAYED)]
    import_files(made, [put(folder, lines(held), "held.jsonl")])
    take_events(made, [{**EVERY[0], "eventId": "h"}])
    erase(made, episode="own/sums/h")
    late = replace(made, clock=lambda: START_MS + 30 * 24 * HOUR_MS)
    settle_all_rollouts(late)
    made.store.close()


def lose_a_row(folder: Path) -> None:
    """A note that someone deleted past all flows."""
    context = context_at(folder / "lost.db")
    record(context, a_run("r"))
    note(context, A, "slow")
    lost = "DELETE FROM note WHERE learner_id = 1"
    context.store.database.write(lambda connection: connection.n_changed(lost, [()]))
    assert not queries.verify(context).clean
    context.store.close()


def mend(folder: Path) -> None:
    """Chains of an earlier version: one that the stored rows explain, and one that a person accepts."""
    other = write_lines(folder / "explains nothing.jsonl", [("e", [0.75])])
    for name, explained in (("grown", "rows"), ("mended", None)):
        path = folder / f"{name}.db"
        context, _ = broken_by(path, [("e", [0.5]), ("e", [0.5, 1.0])])
        if explained is None:
            execute(context, CHANGED["the learner"])
        answer = maintenance.upgrade(path, explain=[other], accept_unprovable=True, clock=context.clock)
        assert [one.explained for one in answer.mended] == [explained]
        assert queries.verify(context).clean
        context.store.close()


def look_after(context: Context, folder: Path) -> None:
    """Check, back up, put back, and bring a database of each older schema up to date; large ones are looked into."""
    assert queries.verify(context).clean
    maintenance.backup(context, folder / "backup.db")
    record(context, a_run("newer than the backup"))
    context.store.close()
    restore(kept_in(context.store), folder / "backup.db")
    assert (
        copy_database(kept_in(context.store), folder / "copied.db").learners
        == queries.verify(context).learners
    )
    for old in sorted(SCHEMAS.glob("*-0020.db.gz")):
        path = folder / old.stem
        path.write_bytes(gzip.decompress(old.read_bytes()))
        maintenance.upgrade(path)
