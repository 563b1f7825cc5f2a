"""The table of verb, fields and expectation: each row runs behind every door that offers the verb.

All rows run in one world (`tests.doors.examples`), in their order. What is expected are facts that are read from the
store, or the code of the error: then no fact changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any, Final, NamedTuple

import pytest

from core import Client, Learner
from core.doors.cli import main
from core.doors.mcp.tools import call
from core.doors.service import Service
from core.doors.verbs import verb
from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.flows.members import members, senders
from core.flows.queues import queues, rubrics
from core.flows.settings import in_force
from core.flows.tokens import tokens
from core.records.times import DAY_MS
from tests.doors.examples import ARM, FILE, LAYER, RUN
from tests.doors.http.test_served import served
from tests.doors.test_verbs import LINES, PYTHON
from tests.guide import command_tree
from tests.worlds import START_MS, context_at

READ: Final = "tool:fs:Read"
NOWHERE: Final = "tool:x:nope"
ID: Final = "https://id.example.com"
USAGE: Final = "usage"
PRIOR: Final = {"alpha_micro": 1, "beta_micro": 1}
PRICES: Final = [
    {"m": {"input": 3, **one}}
    for one in (
        {"cached": 1},
        {"input": 3.0000001},
        {"input": -1},
        {"input_micro": -1},
        {"valid_from": "soon"},
    )
]
TOKEN: Final[dict[str, Any]] = {"name": "ci", "scopes": ["read"]}
JOINED: Final[dict[str, Any]] = {"issuer": ID, "subject": "u-3"}
HERE: Final[dict[str, Any]] = {"issuer": ID, "command": None}
JUDGED: Final[dict[str, Any]] = {"subject": RUN, "outcome": "success"}
KEYED: Final[dict[str, Any]] = {"arm": ARM, "value": 0.25, "key": "k"}
EXECUTED: Final = f"{LAYER}?execution_id=11111111-2222-4333-8444-555555555555"
STEP: Final[dict[str, Any]] = {"episode": "e", "reward": 0.1}
MENDED: Final[dict[str, Any]] = {"arms": [READ], "since": "2020-01-31", "key": "again"}
HOOK: Final = "https://hooks.example/armscope"
POSITIONAL: Final = {"import": "import_files", "run": "why", "export": "export"}
"""Methods of a name of their own, or with a first parameter that has one."""
TOOLS: Final[Mapping[str, Mapping[str, str]]] = {
    "undo": {"act_id": "id"},
    "outcome": {},
    "repair": {},
    "versions": {},
    "session": {"name": "session"},
}
"""Tools of verbs, and the names of their arguments."""
COMMANDS: Final = command_tree()
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "create_token": {"scopes": "scope", "learners": "learner_names"},
    "set_role": {"member": "name", "learner": "learner_name"},
    "lint": {"environment": "name"},
    "reward_run": {"value": "every"},
    "export": {"target": "file"},
}
"""Names that a command gives its fields."""


class Row(NamedTuple):
    """A verb with fields, and the facts that change or the code of the error.

    ``command`` is the code where the command line has one of its own. None: it can't be typed there.
    """

    verb: str
    fields: dict[str, Any]
    expected: dict[str, object] | str
    command: str | None = ""


def refused(
    name: str, code: str, /, *wrong: dict[str, Any], command: str | None = "", **right: object
) -> list[Row]:
    """Return a row for each of the fields that are wrong."""
    return [Row(name, {**right, **one}, code, command) for one in wrong]


def each(field: str, *values: object) -> Iterator[dict[str, Any]]:
    """Yield a field with each of the values."""
    return ({field: one} for one in values)


ASKS: Final = [
    *each("source", "x", "runs"),
    *each("limit", 0, 10_001),
    *({"about": "session"}, {"order": "newest"}, {"below": 1.5}, {"runs": ["r1"]}),
]

ROWS: Final = [
    # Repairs
    *refused("repair", "unknown_arm", {"arms": [NOWHERE]}, since="2020-01-31"),
    *refused("repair", "invalid_input", {"since": "soon"}, arms=[ARM]),
    Row("repair", {"arms": [ARM], "since": "2020-01-31"}, {"repair-1": True, ARM: (4.5, 1.5, 2)}),
    Row("undo", {"act_id": "repair-1"}, {"repair-1": False, ARM: (5.5, 1.5, 3), "undo-2": True}),
    # Rewards
    *refused("reward", "unknown_arm", {"arm": NOWHERE}, value=1.0),
    *refused("reward", "invalid_arm", {"arm": "Read"}, {"arm": "tool:x:a\x1b[31m"}, value=1.0, create=True),
    *refused("reward", "invalid_arm", {"arm": "tool:x:" + "a" * 600}, value=1.0, create=True),
    *refused("reward", "invalid_reward", {"value": 1.7}, {"value": 1.0000001}, arm=ARM),
    *refused("reward", "invalid_reward", {"value": -0.1}, arm=ARM),
    *refused(
        "reward", "unknown_run", *each("run", "run-9", "99", "0", "１", "1" * 30, "x" * 600, ""), arm=ARM
    ),
    *refused("reward", "unknown_run", {"run": "-1"}, arm=ARM, command=None),
    *refused("reward", "invalid_input", {"correct": True}, {"reason": "x" * 2001}, arm=ARM),
    *refused("reward", "invalid_input", {"key": ""}, {"key": "x" * 201}, arm=ARM),
    Row("reward", {"arm": ARM, "value": 0.25, "key": "k"}, {"reward-4": True, ARM: (5.75, 2.25, 4)}),
    Row("reward", {"arm": ARM, "value": 0.25, "key": "k"}, {}),
    *refused("reward", "conflict", {"arm": READ}, {"value": 0.5}, {"run": RUN}, {"reason": "why"}, **KEYED),
    Row(
        "reward", {"arm": ARM, "value": 0.0, "outcome": "accepted"}, {"reward-5": True, ARM: (5.75, 3.25, 5)}
    ),
    Row("reward", {"arm": ARM, "outcome": "partial"}, {"reward-6": True, ARM: (6.25, 3.75, 6)}),
    Row(
        "reward",
        {"arm": ARM, "value": 0.25, "run": RUN, "correct": True},
        {"reward-7": True, ARM: (5.5, 4.5, 6)},
    ),
    Row(
        "reward",
        {"arm": "skill:new:main", "value": 1.0, "create": True},
        {"reward-8": True, "skill:new:main": (4.0, 1.0, 1)},
    ),
    *refused("reward", "not_applicable", {"arm": "skill:new:main"}, run=RUN),
    *refused("reward_run", "unknown_run", {"run": "nope"}, value=0.5),
    *refused("reward_run", "invalid_reward", {"value": 1.5}, run=RUN, command=USAGE),
    *refused("reward_run", "invalid_input", {"rule": "all"}, run=RUN, value=0.5, command=USAGE),
    # Outcomes
    *refused("outcome", "unknown_run", *each("run", "nope", "99", "0"), value=1.0),
    *refused("outcome", "invalid_input", {"run": "x" * 900}, value=1.0),
    *refused("outcome", "invalid_input", *each("value", 1.0000001, -0.1), run=RUN),
    *refused("outcome", "invalid_input", *each("value", True, "1", None), run=RUN, command=None),
    *refused("outcome", "invalid_input", {"key": ""}, {"key": "x" * 201}, run=RUN, value=1.0),
    Row("outcome", {"run": RUN, "value": 0.5, "preview": True}, {}),
    Row("outcome", {"run": RUN, "value": 0.0, "key": "o"}, {"outcome-1": True, RUN: (0.0, "program")}),
    Row("outcome", {"run": RUN, "value": 0.0, "key": "o"}, {}),
    *refused("outcome", "conflict", {"value": 1.0}, run=RUN, key="o"),
    *refused("outcome", "conflict", {"key": "k"}, run=RUN, value=1.0),
    *refused(
        "outcomes",
        "invalid_batch",
        {"rows": [{"run": RUN, "value": 1}, {"run": "nope", "value": 1}]},
        command=None,
    ),
    *refused("outcomes", "invalid_input", {"rows": []}, command=None),
    Row("outcomes", {"rows": [{"run": RUN, "value": 1}]}, {"outcome-2": True, RUN: (1.0, "program")}, None),
    Row("undo", {"act_id": "outcomes-2"}, {"outcome-2": False, "undo-3": True, RUN: (0.0, "program")}),
    Row("outcome", {"run": RUN, "value": 0.25}, {"outcome-3": True, RUN: (0.25, "program")}),
    # Notes
    *refused("note", "unknown_arm", {"arm": NOWHERE}, text="hm"),
    *refused("note", "invalid_input", {"text": ""}, {"text": " \n"}, {"text": "x" * 2001}, arm=ARM),
    *refused("note", "invalid_input", {"key": ""}, arm=ARM, text="slow"),
    Row(
        "note",
        {"arm": ARM, "text": "  slow on Mondays\n", "key": "n"},
        {f"note of {ARM}": ("slow on Mondays", False), "note-1": True},
    ),
    Row("note", {"arm": ARM, "text": "slow on Mondays", "key": "n"}, {}),
    *refused("note", "conflict", {"text": "fixed"}, {"arm": READ}, arm=ARM, text="slow on Mondays", key="n"),
    *refused("note", "conflict", {"key": "k"}, arm=ARM, text="once"),
    *refused("reward", "conflict", {"key": "n"}, arm=ARM),
    # Evaluations
    *refused("evaluate", "unknown_run", {"subject": "nope"}, outcome="success"),
    *refused("evaluate", "unknown_layer", {"subject": LAYER.replace("aaaa", "bbbb")}, outcome="success"),
    *refused("evaluate", "unknown_arm", {"arm": NOWHERE}, subject=RUN, outcome="success"),
    *refused("evaluate", "invalid_evaluation", {"score": 1.2}, {"score": -0.1}, {"feedback": ""}, **JUDGED),
    *refused("evaluate", "invalid_evaluation", {"feedback": "x" * 10_000}, **JUDGED),
    *refused("evaluate", "invalid_evaluation", {"subject": "kairos://adapter/review"}, outcome="success"),
    Row(
        "evaluate",
        {"subject": RUN, "outcome": "failure", "rater": "zoe", "arm": ARM},
        {"evaluation-6": True, ARM: (5.0, 5.0, 6)},
    ),
    *refused("evaluate", "unknown_execution", {"subject": EXECUTED}, outcome="success"),
    *refused("evaluate", "not_applicable", {"arm": "skill:new:main"}, **JUDGED),
    *refused("undo", "not_applicable", {"act_id": "reward-9"}),
    # Undo
    *refused("undo", "unknown_act", *each("act_id", "", "reward", "reward-0", "reward-01", "reward-99")),
    *refused(
        "undo", "unknown_act", *each("act_id", "Reward-1", "reward-1\n", "reward-" + "9" * 40, "reward-1 ")
    ),
    *refused("undo", "unknown_act", *each("act_id", "run-1", "audit-1", "everything")),
    *refused("undo", "unknown_act", *each("act_id", "rewards-9", "rewards-0", "resets-1")),
    *refused("undo", "unknown_act", *each("act_id", "rewards-1..4", "rewards-")),
    Row(
        "undo",
        {"act_id": "note-1"},
        {"note-1": False, f"note of {ARM}": ("slow on Mondays", True), "undo-4": True},
    ),
    Row("undo", {"act_id": "note-1"}, {}),
    Row(
        "redo",
        {"act_id": "note-1"},
        {"note-1": True, f"note of {ARM}": ("slow on Mondays", False), "undo-4": False, "undo-5": True},
        None,
    ),
    # Resets
    *refused("reset", "unknown_arm", {"arms": [NOWHERE]}),
    *refused("reset", "invalid_arm", {"arms": ["nonsense"]}),
    *refused("reset", "not_applicable", {"types": ["section"]}),
    *refused("reset", "invalid_input", {"types": ["tools"]}, {"target": "zero"}, command=USAGE),
    *refused("reset", "invalid_input", {"reason": "x" * 2001}),
    *refused("reset", "invalid_input", {"arms": []}, command=None),
    Row("reset", {"arms": [ARM], "reason": "detector repaired"}, {"reset-1": True, ARM: (1.0, 1.0, 0)}),
    # Settings
    *refused("change", "invalid_setting", {"name": "nope"}, value=1),
    *refused("change", "invalid_setting", *each("value", 1.7, "often", None), name="baseline_rate"),
    *refused("change", "invalid_setting", {"value": True}, {"value": 1.5}, name="k"),
    *refused("change", "invalid_setting", {"name": "phase"}, {"name": "mode"}, value="asleep"),
    *refused("change", "invalid_setting", {"name": "seed_arms"}, {"name": "keep_runs_days"}, value=["Read"]),
    *refused("change", "invalid_setting", {"value": {"tool": 5}}, {"value": {"agent": PRIOR}}, name="priors"),
    *refused("change", "invalid_setting", {"value": {"tool": PRIOR | {"alpha_micro": -1}}}, name="priors"),
    *refused(
        "change",
        "invalid_setting",
        *each("value", {"m": "3"}, {"m": []}, {"m": {"output": 3}}),
        name="prices",
    ),
    *refused("change", "invalid_setting", *each("value", {"m": [{"input": 1}, {"input": 2}]}), name="prices"),
    *refused("change", "invalid_setting", *each("value", *PRICES), name="prices"),
    *refused(
        "change", "invalid_setting", *each("value", {"bob": 1.5}, {"": 0.5}), name="weight_by_agreement"
    ),
    *refused("change", "invalid_setting", *each("value", 0, 1_441), name="hold_minutes"),
    *refused("change", "invalid_setting", *each("value", [""], ["a\n"], "ci"), name="trusted_graders"),
    *refused("change", "invalid_setting", *each("value", -1, 18_251, 10**9), name="keep_runs_days"),
    Row("change", {"name": "k", "value": 2}, {"k": 2, "setting-2": True}),
    *refused(
        "change",
        "invalid_setting",
        *each("value", ["people"], "program", None),
        name="outcome_from",
    ),
    *refused(
        "change",
        "invalid_setting",
        *each("value", [], ["thumb", "thumb"]),
        name="outcome_from",
        command=None,
    ),
    Row(
        "change",
        {"name": "outcome_from", "value": ["environment"]},
        {"setting-3": True, RUN: (0.0, "environment")},
        None,
    ),
    # Episodes
    *refused("episode", "not_found", {"uid": "sums/none"}),
    *refused("lint", "not_found", {"environment": "other"}),
    *refused("credit_episode", "not_found", {"uid": "sums/none"}, rule="equal"),
    *refused("credit_episode", "invalid_input", {"rule": "all"}, uid="sums/1", command=USAGE),
    *refused("declare", "not_found", {"environment": "nowhere"}, hi=2.0),
    *refused("declare", "invalid_input", {"lo": 1.0}, environment="sums", command=None),
    *refused("record_step", "invalid_input", {}, {"environment": "sums", "number": 1}, **STEP),
    *refused(
        "record_step",
        "invalid_input",
        *each("reward", "1.0", True),
        episode="e",
        environment="sums",
        command=None,
    ),
    Row("record_step", STEP | {"environment": "sums"}, {"episode e": (1, 0.1)}, None),
    Row("record_step", STEP, {"episode e": (2, 0.2)}, None),
    *refused("record_step", "conflict", {"number": 1}, episode="e", reward=0.2, command=None),
    *refused("record_step", "invalid_input", {"number": 3}, **STEP),
    Row("record_step", STEP | {"number": 1}, {}, None),
    # Lists
    *refused("run", "unknown_run", {"name": "nope"}),
    *refused("run", "unknown_run", {"name": "99"}, {"name": "<script>"}, {"name": "x" * 900}),
    *refused("versions", "unknown_arm", {"arm": NOWHERE}),
    *refused("search", "invalid_input", {"limit": 0}, {"kinds": ["tool"]}, words="x", command=None),
    *refused("alerts", "invalid_input", {"limit": 0}, command=USAGE),
    *refused("session", "not_found", {"name": "nope"}),
    *refused("export", "invalid_input", {"target": FILE}),
    *refused("import", "unreadable_source", {"paths": ["none.jsonl"]}),
    *refused("import", "invalid_input", {"format": "pickle"}, {"unit": "episode"}, paths=[FILE]),
    Row("import", {"paths": [FILE]}, {"import-1": True, ARM: (2.0, 1.0, 1)}),
    Row("import", {"paths": [FILE]}, {}),
    *refused("erase", "invalid_input", {}, {"run": RUN, "rater": "mara"}),
    *refused("erase", "unknown_run", {"run": "nope"}),
    *refused("erase", "unknown_execution", {"execution": "nope"}),
    *refused("erase", "not_found", {"session": "nope"}, {"rater": "nobody"}),
    *refused("compact", "invalid_input", {"keep_days": 0}, {"keep_days": -1}, {"keep_days": 18_251}),
    # Queues and rubrics
    *refused("add_queue", "invalid_input", *each("name", " ", "x" * 121)),
    *refused("add_queue", "invalid_input", {"rubric": "x" * 201}, {"due_days": -1}, name="W"),
    *refused("add_queue", "invalid_input", *each("asks", *ASKS), name="W", command=None),
    *refused("add_queue", "invalid_input", *each("n_reviewers", 0, 21), name="W"),
    Row("add_queue", {"name": "W", "asks": {"source": "filter"}}, {"queue W": 2, "queue-2": True}),
    *refused("next_item", "not_found", {"queue": "queue-9"}),
    Row(
        "add_rubric",
        {"rubric": {"version": "v9", "title": "Answers"}},
        {"rubric v9": "Answers", "rubric-1": True},
    ),
    Row("add_rubric", {"rubric": {"version": "v9", "title": "Answers"}}, {}),
    *refused("add_rubric", "conflict", {"rubric": {"version": "v9"}}),
    # Tokens
    *refused("create_token", "invalid_input", *each("name", "", " x", "a\n"), scopes=["read"]),
    *refused("create_token", "invalid_input", {"scopes": []}, {"scopes": ["operator"]}, name="ci"),
    *refused("create_token", "invalid_input", *each("days", 0, 366, -1), **TOKEN, command=USAGE),
    *refused("create_token", "invalid_input", {"learners": []}, **TOKEN, command=None),
    *refused("create_token", "invalid_setting", {"learners": [""]}, **TOKEN),
    *refused("create_token", "conflict", {"name": "old"}, scopes=["read"]),
    *refused("revoke_token", "not_found", {"token": "token-9"}),
    Row(
        "create_token",
        {"name": "ci", "scopes": ["ingest"], "learners": ["default"]},
        {"token ci": ("ingest", True)},
    ),
    Row("revoke_token", {"token": "ci"}, {"token ci": ("ingest", False)}),
    *refused("create_token", "conflict", {"name": "ci"}, scopes=["read"]),
    # Members
    *refused(
        "add_member", "invalid_input", *each("name", "token:ci", "", " jo", "j\no", "x" * 101), **JOINED
    ),
    *refused("add_member", "invalid_input", {"role": "operate"}, **JOINED, name="kim", command=USAGE),
    *refused("invite_member", "invalid_input", *each("email", "", "jo", "@example.com", "jo@"), **HERE),
    Row("add_member", {"issuer": ID, "subject": "u-2", "name": "jo"}, {"member jo": [("viewer", "None")]}),
    Row(
        "set_role",
        {"member": "jo", "role": "reviewer", "learner": "default"},
        {"member jo": [("viewer", "None"), ("reviewer", "default")]},
    ),
    *refused("add_member", "conflict", {"name": "jo"}, **JOINED),
    *refused("add_member", "conflict", {"name": "kim"}, issuer=ID, subject="u-2"),
    Row("remove_member", {"member": "jo"}, {"member jo": None}),
    *refused("add_member", "conflict", {"name": "jo"}, **JOINED),
    *refused("remove_member", "not_found", {"member": "nobody"}),
    *refused("sign_out_member", "not_found", {"member": "nobody"}),
    *refused("invite_member", "conflict", {"name": "jo"}, issuer=ID, email="x@example.com"),
    *refused("confirm_browser", "not_found", *each("browser", "", "kim", "kim 3f2a92")),
    *refused("remove_webhook", "not_found", {"webhook": "webhook-9"}),
    *refused("remove_sender", "not_found", {"channel": "slack", "sender": "U999"}),
    Row("remove_sender", {"channel": "slack", "sender": "U017"}, {"sender U017": None}),
    Row(
        "invite_member",
        {"issuer": ID, "email": "kim@example.com", "name": "kim"},
        {"member kim": [("viewer", "None")]},
        None,
    ),
    *refused("add_sender", "not_applicable", {"member": "kim"}, channel="slack", sender="U3"),
    *refused("add_sender", "not_found", {"member": "nobody"}, channel="slack", sender="U3"),
    *refused("add_sender", "invalid_input", *each("channel", "", "x" * 201), member="ann", sender="U3"),
    *refused(
        "add_sender", "invalid_input", *each("sender", "", "U\n3", " U3"), member="ann", channel="slack"
    ),
    *refused(
        "add_webhook",
        "invalid_input",
        *each("secret_from", "HOME", "x", "ARMSCOPE_WEBHOOK_SECRET_FILE"),
        url=HOOK,
    ),
    *refused("add_webhook", "invalid_input", {"pages": "https://desk.example/?a=b"}, url=HOOK),
    *refused("add_webhook", "invalid_setting", {"learner": ""}, url=HOOK),
    # Under a key
    *refused("repair", "invalid_input", {"until": "2020-01-31"}, **MENDED),
    Row("repair", MENDED, {"repair-2": True, READ: (3.0, 1.0, 0)}),
    Row("repair", MENDED, {}),
    *refused("repair", "conflict", {"until": "2020-02-01"}, {"arms": [ARM]}, **MENDED),
    *refused("repair", "not_applicable", {"key": "another"}, **MENDED),
    *refused("repair", "invalid_input", {"arms": []}, since="2020-01-31", command=None),
]


# What is read from the store


def facts(context: Context) -> dict[str, object]:
    """Return what is recorded: beliefs, acts, settings, and who may do what."""
    return {
        **{one.arm: (one.alpha, one.beta, one.pulls) for one in queries.posteriors(context)},
        **{str(one.act): not one.undone for one in queries.changes(context, 999) if one.act},
        **{
            f"note of {key}": (one.text, one.undone)
            for key in (READ, ARM)
            for one in queries.notes(context, key)
        },
        **{f"episode {one.uid}": (one.n_steps, one.total) for one in queries.episode_list(context).rows},
        **{one.uid: one.outcome_shown for one in queries.runs(context, 999) if one.achieved is not None},
        **{f"token {one.name}": (*one.scopes, one.revoked_ms is None) for one in tokens(context)},
        **{
            f"member {one.name}": [(*map(str, (role.role, role.learner)),) for role in one.roles]
            for one in members(context)
            if one.removed_ms is None
        },
        **{f"sender {one.sender}": one.member for one in senders(context)},
        **{f"queue {one.progress.name}": one.progress.total for one in queues(context)},
        **{f"rubric {one.rubric.version}": one.rubric.title for one in rubrics(context)},
        "k": in_force(context).k,
    }


# Doors

Door = Callable[[Row], object]
"""Run a row; raise its error, or return the code where the door answers one."""


@contextmanager
def flow(context: Context) -> Iterator[Door]:
    yield lambda row: verb(row.verb).respond(context, verb(row.verb).decode(row.fields))


def method(client: object, row: Row) -> Any:  # noqa: ANN401
    """Call a row's verb as a method, with records where it takes them."""
    records = row.fields.keys() & {"asks", "rubric"}
    fields = row.fields | {name: getattr(verb(row.verb).decode(row.fields), name) for name in records}
    if row.verb not in POSITIONAL:
        return getattr(client, row.verb)(**fields)
    first = fields.pop(next(iter(fields)))
    return getattr(client, POSITIONAL[row.verb])(*(first if isinstance(first, list) else [first]), **fields)


@contextmanager
def learner(context: Context) -> Iterator[Door]:
    yield lambda row: method(Learner(context), row)


@contextmanager
def client(context: Context) -> Iterator[Door]:
    with served(context) as url, Client(url) as one:
        yield lambda row: method(one, row)


@contextmanager
def mcp(context: Context) -> Iterator[Door]:
    service = Service(store=context.store, learner="default", clock=context.clock, entropy=context.entropy)

    def called(row: Row) -> object:
        names = TOOLS[row.verb]
        fields = {names.get(name, name): value for name, value in row.fields.items()}
        return json.loads(call(service, context.actor, row.verb, fields).text).get("code")

    yield called


# The command line


def line(row: Row) -> list[str]:
    """Return the command line of a row: arguments in their order, then options; an absent argument ends them."""
    group, *rest = LINES.get(row.verb, [row.verb])[:2]
    command = COMMANDS[group]
    rest = [name for name in rest if name in getattr(command, "commands", {})]
    command = command.commands[rest[0]] if rest else command
    names = OPTIONS.get(row.verb, {})
    fields = dict(row.fields)
    for value in row.fields.values():
        fields |= value if isinstance(value, dict) and rest == ["add"] else {}
    renamed = {names.get(name, name): value for name, value in fields.items()}
    words = {
        one.name: renamed[one.name] if isinstance(renamed[one.name], list) else [renamed[one.name]]
        for one in command.params
        if one.name in renamed
    }
    options, arguments = list[str](), list[str]()
    for one in command.params:
        for value in words.get(one.name, ()):
            text = value if isinstance(value, str) else json.dumps(value)
            if one.param_type_name == "argument":
                arguments.append(text)
            else:
                options += [one.opts[0]] if value is True else [f"{one.opts[0]}={text}"]
    yes = ["--yes"] if any(one.name == "yes" for one in command.params) else []
    return [group, *rest, *options, *yes, "--json", "--", *arguments]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[[Context], AbstractContextManager[Door]]:
    """The command line, with a database that others read meanwhile."""

    @contextmanager
    def opened(_: Context) -> Iterator[Door]:
        def run(row: Row) -> object:
            with pytest.raises(SystemExit):
                main(line(row))
            return dict(json.loads(capsys.readouterr().out)).get("code")

        yield run

    return opened


# The table

DOORS: Final = {one.__name__: one for one in (flow, learner, client, mcp)}


def is_offered(row: Row, door: str) -> bool:
    if door == "mcp":
        return row.verb in TOOLS
    if door == "client":
        return bool(verb(row.verb).route) or row.verb in {"import", "export"}
    return door != "command" or (row.command is not None and row.verb not in PYTHON)


def outcome(run: Door, row: Row, context: Context) -> dict[str, object] | str:
    """Return the code of the error, if no fact changed, else the changed facts."""
    before, revision = facts(context), queries.revision(context).revision
    try:
        answer = run(row)
        code = answer if isinstance(answer, str) else None
    except ArmscopeError as problem:
        code = problem.code
    after = facts(context)
    assert code is None or queries.revision(context).revision == revision, row
    changed = {name: after.get(name) for name in before | after if before.get(name) != after.get(name)}
    return changed if code is None or changed else code


@pytest.mark.parametrize("door", [*DOORS, "command"])
def test_every_row_holds_behind_every_door(
    door: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    copytree(world, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ARMSCOPE_DATABASE", "a.db")
    monkeypatch.setenv("LOGNAME", "mara")
    context = replace(context_at(Path("a.db")), clock=lambda: START_MS + DAY_MS, entropy=lambda: 3)
    open_door = DOORS.get(door) or request.getfixturevalue("command")
    wrong = {}
    with ExitStack() as ending:
        ending.callback(context.store.close)
        run, by_flow = (ending.enter_context(one(context)) for one in (open_door, flow))
        for number, row in enumerate(ROWS):
            expected = row.command if door == "command" and row.command else row.expected
            actual = outcome(run if is_offered(row, door) else by_flow, row, context)
            if actual != expected:
                wrong[number, row.verb] = row.fields, actual, expected
        assert queries.verify(context).clean
    assert wrong == {}
