"""Who may do what: every verb and every other flow with every role, and nothing changed where it is denied."""

from __future__ import annotations

import importlib
import inspect
import io
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import chdir, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

import pytest

import core.flows
from core.doors.verbs import VERBS, Verb
from core.errors import Denied, UnknownExecution
from core.flows import (
    alerts,
    choose,
    experiments,
    export,
    inventory,
    launch,
    learn,
    maintenance,
    offers,
    queries,
    queues,
    review,
    rollouts,
    traces,
    webhooks,
)
from core.flows.compact import preview_compact
from core.flows.context import Context, arm_ids, learner_names, settle_learners
from core.flows.corrections import redo, reset, undo
from core.flows.erase import preview_erase
from core.flows.evaluate import evaluate_all, order_of
from core.flows.kairos import export_call, record_reward, reward_call
from core.flows.learn import reward, reward_all
from core.flows.learners import create_learner, fleet_version, learners
from core.flows.members import members, restore_member
from core.flows.settings import change, change_all
from core.flows.training import training_into
from core.flows.upload import ReceivedFile, import_uploaded
from core.flows.watch import watch
from core.formats.kairos import read_reward
from core.formats.otlp import RequestSpans as SentSpans
from core.installed.answer import machine_inventory
from core.records.actor import Action, Actor, Grant, Role, authorise, may
from core.records.alert import Message, SendResult
from core.records.arm import Arm
from core.records.batch import BatchLine
from core.records.evaluation import EvaluationOrder
from core.records.evaluation_page import EvaluationFilter
from core.records.limits import LAST_MS
from core.records.observation import RewardOrder
from core.records.offer import Report
from core.records.review import Draft, QueueAsks
from core.records.run_query import View
from core.records.training import TrainingQuery
from tests.doors.examples import ARM, FILE, LAYER, RUN, arguments, example_world
from tests.engine import copy_world
from tests.worlds import a_run, acting, context_at, granted
from tests.worlds.training import executed, execution_line, order

ROLES: tuple[Role, ...] = get_args(Role)
ACTIONS: tuple[Action, ...] = get_args(Action)
A = ARM
CALLED = b'{"uri": "kairos://layer/aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "outcome": "success"}'
EXPORTED = b'{"all_adapters": true, "format": "trace_jsonl"}'
QUEUE = "queue-1"
BROWSER = Actor(name="mara", browser="kim 3f2a91")

TABLE: dict[Action, set[Role]] = {
    "read": {"viewer", "reviewer", "operator", "read", "review", "operate"},
    "read_words": {"reviewer", "operator", "texts"},
    "read_texts": {"operator", "texts"},
    "evaluate": {"reviewer", "operator", "review", "operate"},
    "judge": {"reviewer", "operator"},
    "queue": {"operator", "operate"},
    "export_training": {"operator", "texts"},
    "erase": {"operator"},
    "reward": {"reviewer", "operator", "review", "operate"},
    "undo_own": {"reviewer", "operator", "review", "operate"},
    "undo": {"operator", "operate"},
    "reset": {"operator", "operate"},
    "settings": {"operator", "operate"},
    "credit": {"operator", "operate"},
    "ingest": {"operator", "ingest"},
    "select": {"operator", "ingest"},
    "members": {"operator"},
    "alerts": {"operator"},
    "connect": set(ROLES),
}
"""Which roles include an action, written a second time by hand, so that a change of `core.records.actor` is meant."""

Flow = Callable[[Context, Path], object]

EVERY = EvaluationFilter(
    rater="mara",
    kind="human",
    rubric="v2",
    outcome="success",
    label="silver",
    blocker="score_below_preference_threshold",
    layer=LAYER,
    run=RUN,
    arm=A,
    since_ms=0,
    until_ms=LAST_MS,
    counting=False,
)
"""Everything that can be wanted of evaluations."""

READ_OF_ALL: Final = (
    "revision", "frame", "belief", "arms", "posteriors", "overview", "confidence", "savings",
    "judgements", "inclusion", "rewards", "repairs", "resets", "changes", "runs_view", "listed_runs",
    "visibility", "imports", "without_episode", "setting_changes", "preview_reset", "unread",
    "openclaw_summary", "openclaw_config", "openclaw_posteriors", "openclaw_traces", "timeseries",
    "bias_watch", "evaluated", "layers", "alarms", "n_denials",
)  # fmt: skip
"""Queries that need a context alone."""

OF_OTHERS: dict[str, tuple[Action, Flow]] = {
    "corrections.undo of another's": ("undo", lambda context, _: undo(context, "reward-1")),
    "corrections.redo of another's": ("undo", lambda context, _: redo(context, "reward-2")),
}
"""Flows that ask for more where the act is not one's own."""


def dropped(context: Context, file: Path) -> object:
    """A file as a browser would bring it."""
    content = file.read_bytes()
    one = ReceivedFile(name=file.name, size_bytes=len(content), content=io.BytesIO(content))
    return import_uploaded(context, [one], at_most_bytes=1_000_000)


def judged_at_once(context: Context) -> object:
    """All runs, alike."""
    asks = QueueAsks(source="filter")
    token = review.propose_batch(context, asks).token
    return review.judge_batch(context, asks, token, outcome="success", score=0.7)


def chosen(context: Context) -> object:
    """Of two answers that no one knows; who may choose is told that, and no one else."""
    with pytest.raises(UnknownExecution):
        return choose.choose(context, "a", "b", "c", "first")
    return None


def restored(context: Context, _: Path) -> object:
    """A member as they are."""
    first, *_others = members(acting(context, "operator"))
    return restore_member(context, first, current=first)


def a_test(context: Context) -> Message:
    """A test of the webhook that stands, or stands again."""
    mara = replace(context, actor=Actor(name="mara"))
    return webhooks.take_test(context, webhooks.add_webhook(mara, "https://hooks.example/old").id)


def settled(context: Context) -> None:
    """What came of a message that someone took, if it was allowed them."""
    message = a_test(replace(context, actor=Actor(name="mara")))
    sent = SendResult(webhook="webhook-1", message=message.uid, result="200", ok=True)
    webhooks.settle(context, message, sent)


def query_named(name: str) -> Flow:
    return lambda context, _: getattr(queries, name)(context)


NO_VERBS: dict[str, tuple[Action, Flow]] = {
    **{f"queries.{name}": ("read", query_named(name)) for name in READ_OF_ALL},
    "queries.evidence": ("read", lambda context, _: queries.evidence(context, [A], 0)),
    "queues.actor_of_browser": ("read", lambda context, _: queues.actor_of_browser(context, BROWSER)),
    "queries.acts": ("read", lambda context, _: queries.acts(context, before=9)),
    "queries.environment": ("read", lambda context, _: queries.environment(context, "sums")),
    "queries.preview_settings": ("settings", lambda context, _: queries.preview_settings(context, {"k": 3})),
    "queries.episode_runs": ("read", lambda context, _: queries.episode_runs(context, "sums/1")),
    "queries.runs_without_tokens": ("read", lambda context, _: queries.runs_without_tokens(context, View())),
    "queries.preview_left_out": ("settings", lambda context, _: queries.preview_left_out(context, "sums")),
    "queries.preview_undo": ("undo", lambda context, _: queries.preview_undo(context, "reward-1")),
    "queries.preview_reward": ("read", lambda context, _: queries.preview_reward(context, A, 0.5)),
    "queries.preview_batch": (
        "read",
        lambda context, _: queries.preview_batch(context, [BatchLine(arm=A, value=0.5)]),
    ),
    "queries.preview_repair": ("read", lambda context, _: queries.preview_repair(context, [A], "2026-01-31")),
    "queries.pulls_needed": ("read", lambda context, _: queries.pulls_needed(context, width=0.2)),
    "export.export_into": ("read", lambda context, _: export.export_into(context, io.BytesIO(), "-")),
    "inventory.keep_inventory": (
        "ingest",
        lambda context, folder: inventory.keep_inventory(context, machine_inventory(folder, 0), machine="m"),
    ),
    "inventory.keep_own_inventory": (
        "ingest",
        lambda context, folder: inventory.keep_own_inventory(
            context, folder, [folder / ".claude"], machine="m"
        ),
    ),
    "inventory.is_inventory_due": ("ingest", lambda context, _: inventory.is_inventory_due(context, "m")),
    "launch.prepare": ("select", lambda context, folder: launch.prepare(context, folder, folder)),
    "launch.discard_prepared": ("settings", lambda context, _: launch.discard_prepared(context)),
    "launch.begin_imports": ("ingest", lambda context, _: launch.begin_imports(context)),
    "launch.import_ended": ("ingest", launch.import_ended),
    "context.arm_ids": ("read", lambda context, _: arm_ids(context)),
    "learners.fleet_version": ("read", lambda context, _: fleet_version(context)),
    "context.settle_learners": (
        "ingest",
        lambda context, _: settle_learners(context, rollouts.settle_rollouts),
    ),
    "context.learner_names": ("read", lambda context, _: learner_names(context)),
    "maintenance.database_facts": ("read", lambda context, _: maintenance.database_facts(context)),
    "members.restore_member": ("members", restored),
    "learn.record_all": ("ingest", lambda context, _: learn.record_all(context, [a_run("x")])),
    "upload.import_uploaded": ("ingest", lambda context, folder: dropped(context, folder / FILE)),
    "watch.watch": ("ingest", lambda context, folder: next(watch(context, [folder / FILE], lambda: None))),
    "queries.listed_sessions": ("read", lambda context, _: queries.listed_sessions(context, limit=1)),
    "queries.sessions_in": ("read", lambda context, _: queries.sessions_in(context, View())),
    "queries.transcript": ("read", lambda context, _: queries.transcript(context, RUN)),
    "queries.arm_path": ("read", lambda context, _: queries.arm_path(context, A)),
    "queries.arm_ledger": ("read", lambda context, _: queries.arm_ledger(context, A)),
    "queries.arm_runs": ("read", lambda context, _: queries.arm_runs(context, A)),
    "queries.near_arms": ("read", lambda context, _: queries.near_arms(context, A)),
    "queries.notes": ("read", lambda context, _: queries.notes(context, A)),
    "learn.reward_all": ("reward", lambda context, _: reward_all(context, [RewardOrder(arm=A)])),
    "evaluate.order_of": (
        "read",
        lambda context, _: order_of(context, RUN, "success"),
    ),
    "queries.page_of_evaluations": (
        "read",
        lambda context, _: queries.page_of_evaluations(context, EVERY, before=9),
    ),
    "queries.preview_evaluation": (
        "evaluate",
        lambda context, _: queries.preview_evaluation(context, RUN, "success", arm=A),
    ),
    "queries.preview_credit": (
        "credit",
        lambda context, _: queries.preview_credit(context, "sums/1", "equal"),
    ),
    "evaluate.evaluate_all": (
        "evaluate",
        lambda context, _: evaluate_all(context, [EvaluationOrder(run=RUN, outcome="success")]),
    ),
    "kairos.reward_call": ("evaluate", lambda context, _: reward_call(context, CALLED)),
    "kairos.record_reward": ("evaluate", lambda context, _: record_reward(context, read_reward(CALLED))),
    "kairos.export_call": ("export_training", lambda context, _: export_call(context, EXPORTED)),
    "training.training_into": (
        "export_training",
        lambda context, _: training_into(
            context, io.BytesIO(), "-", TrainingQuery(format="preference_jsonl", pairing="layer")
        ),
    ),
    "erase.preview_erase": ("erase", lambda context, _: preview_erase(context, run=RUN)),
    "compact.preview_compact": ("erase", lambda context, _: preview_compact(context, keep_days=365)),
    "experiments.experiment_path": (
        "read",
        lambda context, _: experiments.experiment_path(context, "experiment-1"),
    ),
    "queues.propose_queue": ("queue", lambda context, _: queues.propose_queue(context)),
    "queues.missed_arms": ("read", lambda context, _: queues.missed_arms(context)),
    "queues.missed_use": ("read", lambda context, _: queues.missed_use(context)),
    "queues.progress": ("read", lambda context, _: queues.progress(context, QUEUE)),
    "queues.assign": ("queue", lambda context, _: queues.assign(context, QUEUE, [1], None)),
    "review.view_item": ("judge", lambda context, _: review.view_item(context, QUEUE, 1)),
    "review.hold": ("judge", lambda context, _: review.hold(context, QUEUE, 1)),
    "review.release": ("judge", lambda context, _: review.release(context, QUEUE, 1)),
    "review.skip_item": ("judge", lambda context, _: review.skip_item(context, QUEUE, 1, "cut off")),
    "review.submit": (
        "judge",
        lambda context, _: review.submit(context, QUEUE, 1, level=3, anyway=True),
    ),
    "review.put_off": ("judge", lambda context, _: review.put_off(context, QUEUE, 1)),
    "review.requeue": ("judge", lambda context, _: review.requeue(context, QUEUE)),
    "review.keep_draft": (
        "judge",
        lambda context, _: review.keep_draft(context, QUEUE, 1, Draft(level=3)),
    ),
    "review.draft": ("judge", lambda context, _: review.draft(context, QUEUE, 1)),
    "review.my_last": ("judge", lambda context, _: review.my_last(context)),
    "review.take_back": ("undo_own", lambda context, _: review.take_back(owning(context), ["reward-1"])),
    "review.propose_batch": ("judge", lambda context, _: review.propose_batch(context, QueueAsks())),
    "review.judge_batch": ("judge", lambda context, _: judged_at_once(context)),
    "choose.next_pair": ("judge", lambda context, _: choose.next_pair(context)),
    "choose.choose": ("judge", lambda context, _: chosen(context)),
    "offers.offer": ("select", lambda context, _: offers.offer(context, [Arm(key=A)])),
    "offers.report": ("ingest", lambda context, _: offers.report(context, Report(arm=A))),
    "offers.arm_states": ("read", lambda context, _: offers.arm_states(context)),
    "offers.start_session": ("ingest", lambda context, _: offers.start_session(context, "a session")),
    "offers.finish_session": ("ingest", lambda context, _: offers.finish_session(context, "nobody's")),
    "queries.refused": ("alerts", lambda context, _: queries.refused(context)),
    "alerts.look": ("alerts", lambda context, _: alerts.look(context)),
    "webhooks.take_test": ("alerts", lambda context, _: a_test(context)),
    "webhooks.take_due": ("alerts", lambda context, _: webhooks.take_due(context)),
    "webhooks.settle": ("alerts", lambda context, _: settled(context)),
    "traces.take_spans": ("ingest", lambda context, _: traces.take_spans(context, SentSpans([], []))),
    "rollouts.take_events": ("ingest", lambda context, _: rollouts.take_events(context, [])),
    "rollouts.hold_events": ("ingest", lambda context, _: rollouts.hold_events(context, [])),
    "rollouts.settle_rollouts": ("ingest", lambda context, _: rollouts.settle_rollouts(context)),
    "rollouts.settle_all_rollouts": ("ingest", lambda context, _: rollouts.settle_all_rollouts(context)),
    "queries.environment_no": ("read", lambda context, _: queries.environment_no(context, "sums")),
    "queries.variants": ("read", lambda context, _: queries.variants(context, "sums")),
    "queries.task_difficulty": ("read", lambda context, _: queries.task_difficulty(context, "sums")),
    "traces.settle_traces": ("ingest", lambda context, _: traces.settle_traces(context)),
    "traces.settle_all_traces": ("ingest", lambda context, _: traces.settle_all_traces(context)),
    "settings.change_all": ("settings", lambda context, _: change_all(context, {"k": 3})),
}
"""Flows that the table of verbs does not name: what pages and commands ask beside it."""


def flow_of(one: Verb[..., Any]) -> str:
    module, name = one.address.split(":")
    return f"{module.split('.')[2]}.{name}"


def itself(one: Verb[..., Any]) -> Flow:
    """A verb's flow, which asks who is calling though the verb has asked before; what it is about is one's own."""
    return lambda context, _: one.function(owning(context), **arguments(one))


FLOWS: dict[str, tuple[Action, Flow]] = (
    {f"verb {one.name}": (one.action, itself(one)) for one in VERBS} | NO_VERBS | OF_OTHERS
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reward that stands and one that is undone, both an operator's; the verbs' examples name files beside it."""
    folder = tmp_path_factory.mktemp("world")
    example_world(folder).store.close()
    return folder


@contextmanager
def copied(world: Path, folder: Path) -> Iterator[Context]:
    """The world in a new folder, where one is meanwhile; by mara, an operator."""
    copy_world(world, folder)
    with chdir(folder):
        made = context_at(folder / "a.db")
        with closing(made.store):
            yield made


@pytest.fixture
def context(world: Path, tmp_path: Path) -> Iterator[Context]:
    """A copy of the world."""
    with copied(world, tmp_path / "here") as made:
        yield made


def owning(context: Context) -> Context:
    """The same role by the name under which everything was done."""
    return acting(context, context.actor.role, "mara")


def test_every_flow_that_takes_a_context_is_in_the_table() -> None:
    found = set()
    flows = [one.name for one in pkgutil.iter_modules(core.flows.__path__)]
    for home in [*flows, "trials.plan"]:  # a package that exports nothing, as loops of trials need no NumPy
        module = importlib.import_module(f"core.flows.{home}")
        for name, value in vars(module).items():
            ours = inspect.isfunction(value) and f"{value.__module__}.".startswith(f"{module.__name__}.")
            if ours and not name.startswith("_") and "context" in inspect.signature(value).parameters:
                found.add(f"{home.partition('.')[0]}.{name}")
    verbs = {flow_of(one) for one in VERBS}
    assert found == verbs | NO_VERBS.keys()
    assert not verbs & NO_VERBS.keys()


@pytest.mark.parametrize("name", FLOWS)
def test_each_role_may_do_what_the_table_says(world: Path, tmp_path: Path, name: str) -> None:
    action, flow = FLOWS[name]
    for role in sorted(TABLE[action]):
        with copied(world, tmp_path / role) as context:
            flow(acting(context, role), tmp_path / role)
    folder = tmp_path / "denied"
    with copied(world, folder) as context:
        before = queries.changes(context), queries.revision(context), sorted(folder.iterdir())
        for role in sorted(set(ROLES) - TABLE[action]):
            with pytest.raises(Denied) as denied:
                flow(acting(context, role), folder)
            assert denied.value.code == "denied"
            assert role in denied.value.problem
            assert (queries.changes(context), queries.revision(context), sorted(folder.iterdir())) == before


@pytest.mark.parametrize("one", VERBS, ids=lambda one: one.name)
def test_a_verb_is_denied_before_its_flow_is_asked(context: Context, one: Verb[..., Any]) -> None:
    for role in ROLES:
        if role not in TABLE[one.action]:
            with pytest.raises(Denied):
                one.respond(owning(acting(context, role)), one.decode(one.example))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("action", ACTIONS)
def test_the_table_is_the_designs(action: Action, role: Role) -> None:
    everywhere = Actor(name="jo", role=role)
    here = Actor(name="jo", role=None, grants=(Grant(role=role, learner="support"),))
    included = role in TABLE[action]
    for actor, learner in ((everywhere, None), (everywhere, "sales"), (here, "support")):
        assert may(actor, action, learner) == included
        if included:
            authorise(actor, action, learner)
        else:
            with pytest.raises(Denied):
                authorise(actor, action, learner)
    for learner in (None, "sales"):
        with pytest.raises(Denied, match="none"):
            authorise(here, action, learner)


def test_roles_add_up_and_a_person_sees_the_learners_that_are_theirs(context: Context) -> None:
    both = (Grant(role="viewer"), Grant(role="operator", learner="support"))
    jo = granted(context, *both)
    assert (jo.may("reset"), jo.of("support").may("reset"), jo.of("support").may("read")) == (
        False,
        True,
        True,
    )
    create_learner(context, "support")
    names = learner_names(context)
    assert learner_names(jo) == names
    one = granted(context, *both[1:], name="kim")
    assert learner_names(one) == ("support",) != names
    assert [row.name for row in learners(one)] == ["support"]


def test_a_reviewer_takes_back_their_own_and_nobody_elses(context: Context) -> None:
    jo, kim = acting(context, "reviewer"), acting(context, "reviewer", "kim")
    own = reward(jo, A, 1.0)
    with pytest.raises(Denied):
        undo(kim, own.id)
    taken = undo(jo, own.id)
    with pytest.raises(Denied):
        undo(kim, taken.id)
    assert undo(jo, taken.id).kind == "undo"
    assert undo(context, own.id).undone == own.id, "an operator takes back anybody's"
    with pytest.raises(Denied):
        redo(jo, own.id)
    assert redo(context, own.id).kind == "undo"


def test_nobody_but_an_operator_takes_back_what_moves_everything(context: Context) -> None:
    acts = [reset(context).id, change(context, "k", 2).id, "reward-1"]
    for act in acts:
        assert act is not None
        with pytest.raises(Denied):
            undo(acting(context, "reviewer"), act)
        undo(context, act)


def test_everybody_sees_who_did_what(context: Context) -> None:
    reward(acting(context, "reviewer"), A, 1.0, reason="good")
    newest = queries.changes(acting(context, "viewer"), 1)[0]
    assert (newest.actor, newest.action, newest.detail["reward"]) == ("jo", "reward", 1.0)
    assert newest.detail["reason"] is None, "why is for those who may read texts"
    assert queries.changes(acting(context, "reviewer"), 1)[0].detail["reason"] == "good"


def test_a_token_exports_to_train_by_the_scope_of_texts_alone(tmp_path: Path) -> None:
    context = executed(tmp_path, execution_line(1, say="the secret of the answer"))
    evaluate_all(context, [order(1, "success", score=0.9, rater="mara", rubric="v1", feedback="well said")])

    def token(*scopes: Role) -> Context:
        grants = tuple(Grant(role=scope) for scope in scopes)
        return granted(context, *grants, name="token:x", token=1)

    everything_else = token("read", "ingest", "review", "operate")
    with pytest.raises(Denied):
        training_into(everything_else, io.BytesIO(), "-", TrainingQuery(format="reward_jsonl"))
    (seen,) = queries.evaluations(everything_else)
    assert (seen.feedback, queries.evaluations(context)[0].feedback) == (None, "well said")
    file = io.BytesIO()
    training_into(token("texts"), file, "-", TrainingQuery(format="reward_jsonl"))
    assert b"the secret of the answer" in file.getvalue()
    assert queries.evaluations(token("read", "texts"))[0].feedback == "well said"


def test_what_one_may_see_of_a_learner_is_no_matter_of_another(context: Context) -> None:
    create_learner(context, "support")
    both = (Grant(role="reviewer"), Grant(role="viewer", learner="support"))
    with granted(context, *both).reading() as snapshot:
        assert snapshot.shows_words
        assert not snapshot.of("support").shows_words
    only = Actor(name="jo", role=None, grants=(Grant(role="viewer", learner="default"),))
    assert queries.verify(replace(context, actor=only)).learners == ("default",)
    assert queries.verify(context).learners == ("default", "support")


def test_a_token_is_never_taken_for_the_person_of_its_name(context: Context) -> None:
    """What mara did is not the token's own, though it is called so."""
    token = Actor(name="token:mara", role=None, grants=(Grant(role="review"),), token=1)
    with pytest.raises(Denied):
        undo(replace(context, actor=token), "reward-1")
    given = reward(replace(context, actor=token), A, 0.5)
    with pytest.raises(Denied):
        undo(acting(context, "reviewer", "mara"), given.id)
    assert undo(replace(context, actor=token), given.id).undone == given.id
