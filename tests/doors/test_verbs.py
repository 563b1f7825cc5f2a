"""The table of verbs: true to the flows, impossible without an action, and answered alike behind every door."""

from __future__ import annotations

import inspect
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given as cases
from hypothesis import strategies as st
from msgspec import UNSET

from core.doors.cli import app, main
from core.doors.cli.program.spelling import fields_of, words
from core.doors.flow_parameters import parameters_of
from core.doors.python import Learner
from core.doors.verbs import ACTIONS, REPORTS, VERBS, Input, Verb, verb
from core.errors import Denied, InvalidArm, InvalidInput, InvalidReward
from core.flows.context import Context, open_context
from core.flows.queries.status import status
from core.records.actor import Actor
from core.records.observation import value_of
from core.records.parameters import defaults_of
from core.settings import Settings
from tests.conftest import ROOT
from tests.doors.examples import ARM, OUTCOME_TABLE, RESULTS, RUN, TABLE, TASKS
from tests.guide import command_tree
from tests.worlds import START_MS

SEED = 3

LINES: Mapping[str, Sequence[str]] = {
    "create_learner": ["learners", "--create", "support"],
    "posteriors": ["posteriors", "--type", "tool"],
    "export_bundle": ["export", "handover.zip", "--manifest"],
    "export_training": ["export", "samples.jsonl", "--format", "sft_jsonl", "--manifest"],
    "select": ["select", "--budget", "8000", "--seed", str(SEED)],
    "outcomes": ["outcome", "--file", OUTCOME_TABLE],
    "reward_batch": ["reward", "--file", TABLE],
    "reward_run": ["reward", "--run", RUN, "--all", "0.5"],
    "evaluations": ["evaluations", "--outcome", "success", "--limit", "10"],
    "agreement": ["agreement", "--rubric", "v2"],
    "carried": ["inventory", "--stored", "--limit", "1"],
    "compare_sides": ["compare", "--a", "model=large", "--b", "model=small"],
    "search": ["search", "request-1", "--limit", "5"],
    "plan_trial": ["trial", "plan", ARM, "--tasks", TASKS, "--smallest", "10"],
    "read_trial": ["trial", "read", RESULTS],
    "plan_experiment": ["experiment", "plan", ARM],
    "start_experiment": ["experiment", "start", ARM, "--metric", "tokens", "--preview"],
    "share_experiment": ["experiment", "share", "experiment-1", "0.2"],
    "stop_experiment": ["experiment", "stop", "experiment-1", "--decision", "keep"],
    "experiments": ["experiment", "list"],
    "experiment_result": ["experiment", "show", "experiment-1"],
    "trials": ["trial", "list"],
    "trial_result": ["trial", "show", "trial-1"],
    "browsers": ["browser", "list"],
    "confirm_browser": ["browser", "confirm", "kim 3f2a91"],
    "queues": ["queue", "list"],
    "add_queue": ["queue", "add", "Week 13", "--source", "filter"],
    "next_item": ["queue", "next", "queue-1"],
    "rubrics": ["rubric", "list"],
    "add_rubric": ["rubric", "add", "v2", "--title", "Answers"],
    "members": ["member", "list"],
    "add_member": [
        *("member", "add", "kim", "--issuer", "https://id.example.com", "--subject", "u-17"),
        *("--role", "operator"),
    ],
    "invite_member": [
        *("member", "add", "jo@example.com", "--issuer", "https://id.example.com"),
        *("--email", "jo@example.com", "--role", "reviewer"),
    ],
    "set_role": ["member", "role", "ann", "reviewer"],
    "remove_member": ["member", "remove", "ann"],
    "sign_out_member": ["member", "signout", "ann"],
    "tokens": ["token", "list"],
    "create_token": ["token", "create", "ci-support", "--scope", "ingest", "--in", "default"],
    "revoke_token": ["token", "revoke", "old"],
    "alerts": ["alert", "list"],
    "add_webhook": ["alert", "add", "https://hooks.example/armscope", "--in", "default"],
    "remove_webhook": ["alert", "remove", "webhook-1"],
    "senders": ["channel", "list"],
    "add_sender": ["channel", "add", "slack", "U018", "ann"],
    "remove_sender": ["channel", "remove", "slack", "U017"],
    "audit": ["audit", "--action", "reward", "--limit", "10"],
    "denials": ["audit", "--denials"],
    "episode": ["episodes", "show", "sums/1"],
    "episode_list": ["episodes", "each", "--environment", "sums", "--limit", "20"],
    "lint": ["episodes", "lint", "sums"],
    "compare": ["episodes", "compare", "sums", "--models", "large", "small"],
    "preview_declare": [
        *("episodes", "declare", "sums", "--scale", "0", "2", "--threshold", "1.5", "--preview")
    ],
    "declare": ["episodes", "declare", "sums", "--scale", "0", "2", "--threshold", "1.5"],
    "credit_episode": ["episodes", "credit", "sums/1", "--rule", "equal", "--yes"],
    "change": ["settings", "set", "baseline_rate", "0.1"],
    "accept_price": ["settings", "accept-price", "large-20260401"],
    "erase": ["erase", "--run", "request-1", "--yes"],
    "compact": ["compact", "--keep-days", "365", "--yes"],
    "repair": [
        *("repair", "--arm", ARM, "--since", "2026-01-31T08:00:00Z"),
        *("--reason", "detector repaired", "--yes"),
    ],
    "reset": ["reset", "--type", "tool", "--to", "prior", "--reason", "detector repaired", "--yes"],
}
"""Command lines of verbs whose options have other names than their fields; any other's follows from its example."""

PYTHON = {"record", "record_step", "mark_incomplete", "redo"}
"""Verbs that no command has."""


FIELDS: Mapping[str, str] = {
    "create_learner": "name",
    "posteriors": "view type since",
    "arms": "type since",
    "runs": "limit model channel session class status outcome achieved arm part span from to since",
    "run": "name",
    "import": "paths format unit tools_file phase each_event replace",
    "record": "run ended_now references",
    "record_step": (
        "episode environment task split variant model format number name reward finished run refused "
        "note n_chars_in n_chars_out extra args_digest meta_digest asked answered"
    ),
    "mark_incomplete": "episode environment task split variant model format",
    "episodes": "environment split task model outcome with_design",
    "episode_list": "wanted cursor direction limit since",
    "lint": "environment",
    "compare": "environment models compared paired",
    "episode": "uid",
    "declare": "environment lo hi step_lo step_hi threshold base gamma",
    "credit_episode": "uid rule",
    "preview_declare": "environment lo hi step_lo step_hi threshold base gamma",
    "export": "target format",
    "export_bundle": "target format",
    "export_training": (
        "target format pairing manifest include_reward with_secrets adapters layers executions raters "
        "rubrics since_ms until_ms"
    ),
    "select": "arms session budget_tokens k",
    "change": "name value",
    "accept_price": "model",
    "reward": "arm value outcome reason run correct key create seen",
    "outcome": "run value preview key",
    "outcomes": "rows preview key",
    "reward_batch": "rewards key",
    "reward_run": "run value rule outcome reason correct key",
    "evaluate": "subject outcome score feedback rater model rubric arm key create",
    "evaluations": "wanted limit from to since",
    "agreement": "wanted",
    "versions": "arm",
    "sessions": "limit model channel span from to",
    "session": "name limit texts",
    "compare_sides": "a b limit",
    "carried": "limit",
    "search": "words kinds limit",
    "note": "arm text key",
    "plan_trial": (
        "arm tasks environment each repeats smallest metric halves retest preview "
        "model harness grader grader_digest workers"
    ),
    "read_trial": "results plan arm preview",
    "plan_experiment": "arm metric share smallest source hours days",
    "start_experiment": "arm seed preview metric share smallest source hours days",
    "share_experiment": "experiment share preview",
    "stop_experiment": "experiment decision preview",
    "experiments": "arm",
    "experiment_result": "experiment",
    "trials": "arm",
    "trial_result": "trial",
    "repair": "arms since until reason key",
    "reset": "arms types target reason seen key",
    "queues": "undone",
    "add_queue": "name asks n_reviewers blind rubric due_days token",
    "next_item": "queue",
    "add_rubric": "rubric",
    "confirm_browser": "browser",
    "undo": "act_id",
    "redo": "act_id",
    "erase": "run session execution episode act rater",
    "compact": "keep_days shrink",
    "verify": "head limit",
    "backup": "target",
    "add_member": "issuer subject name role learner email",
    "invite_member": "issuer email name role learner",
    "set_role": "member role learner",
    "sign_out_member": "member",
    "add_sender": "member channel sender",
    "remove_sender": "channel sender",
    "remove_member": "member",
    "create_token": "name scopes learners days bridge",
    "revoke_token": "token",
    "alerts": "limit",
    "add_webhook": "url learner pages secret_from private",
    "remove_webhook": "webhook",
    "audit": "installation wanted before since limit",
    "denials": "wanted after limit",
}
"""JSON keys of the inputs of verbs."""

OTHER_WORDS = {
    ("import", "paths"): "a shell also takes - and none",
    ("audit", "since"): "also a time",
    ("select", "arms"): "a file in place of arms",
    ("change", "value"): "text in place of JSON",
    ("reward", "value"): "names --outcome",
    ("reward_run", "value"): "names --outcome",
    ("reward_run", "run"): "one option of two verbs",
    ("invite_member", "email"): "one option of two verbs",
    ("invite_member", "name"): "one option of two verbs",
    ("set_role", "role"): "a shell has no null",
    ("plan_trial", "tasks"): "a folder, a file or an environment in place of tasks",
}
"""Reasons why an option with the name of a verb's field has words of its own."""

SCORES: dict[str, tuple[object, ...]] = {"value": (None, 0.0, 0.5), "outcome": (None, "rejected")}


def by_name(one: Verb[..., Any]) -> str:
    return one.name


def given(one: Verb[..., Any]) -> Input:
    return one.decode(one.example)


class Doors:
    """One verb behind several doors, each in a copy of the world, all at one moment."""

    def __init__(self, world: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._world = world
        self._folder = folder
        self._patch = patch
        patch.setenv("ARMSCOPE_DATABASE", "a.db")
        patch.delenv("ARMSCOPE_LEARNER", raising=False)
        patch.setattr(time, "time_ns", lambda: (START_MS + 1) * 1_000_000)
        patch.setattr(secrets, "randbits", lambda _: SEED)

    def afresh(self) -> None:
        """Put a fresh copy at the one place, since answers name it."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._world, self._folder)
        self._patch.chdir(self._folder)

    def context(self) -> Context:
        self.afresh()
        return replace(open_context(Settings.from_environment(), create=False), entropy=lambda: SEED)


@pytest.fixture
def doors(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doors:
    return Doors(world, tmp_path / "here", monkeypatch)


def line_of(one: Verb[..., Any]) -> list[str]:
    """The command line of a verb's example: what must be said as arguments, the rest as options."""
    if one.name in LINES:
        return list(LINES[one.name])
    said: list[str] = [one.name]
    for field in msgspec.structs.fields(one.input):
        value = one.example.get(field.name)
        if value is not None:
            words = [str(item) for item in value] if isinstance(value, list) else [str(value)]
            said += words if field.required else [f"--{field.name}", *words]
    return said


def commands() -> set[str]:
    return {str(one.name) for one in app.registered_commands} | {
        str(one.name) for one in app.registered_groups
    }


@pytest.mark.parametrize("one", VERBS, ids=by_name)
def test_a_verb_is_answered_alike_behind_every_door(
    one: Verb[..., Any], doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    context = doors.context()
    answer = one.respond(context, given(one))
    document = json.loads(msgspec.json.encode(one.plain(context, answer)))
    context.store.close()
    if one.name in PYTHON:
        return
    doors.afresh()
    with pytest.raises(SystemExit) as ended:
        main([*line_of(one), "--json"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out) == document


def test_every_verb_is_a_command_or_a_method() -> None:
    assert {line_of(one)[0] for one in VERBS if one.name not in PYTHON} <= commands()
    assert {one.name for one in VERBS} >= PYTHON | LINES.keys()


@pytest.mark.parametrize("one", [one for one in VERBS if one.name in {"reward", "reward_run"}], ids=str)
@cases(
    fields=st.fixed_dictionaries({}, optional={name: st.sampled_from(ones) for name, ones in SCORES.items()})
)
def test_a_null_is_a_score_at_no_door_and_an_absent_one_is_accepted(
    one: Verb[..., Any], fields: dict[str, Any]
) -> None:
    subject = {"arm": ARM} if one.name == "reward" else {"run": RUN}
    is_unknown = bool(fields) and all(value is None for value in fields.values())
    with pytest.raises(InvalidReward, match="got None") if is_unknown else nullcontext():
        one.decode({**subject, **fields})
    with pytest.raises(InvalidReward) if is_unknown else nullcontext():
        assert value_of(fields.get("value", UNSET), fields.get("outcome", UNSET)) == fields.get("value")


@pytest.mark.parametrize("method", ["reward", "reward_run"])
@pytest.mark.parametrize("value", [None, [1], {}, "x"])
def test_what_is_no_number_is_a_score_in_no_method(doors: Doors, method: str, value: object) -> None:
    doors.afresh()
    with Learner(doors.context()) as learner, pytest.raises(InvalidReward, match="got"):
        getattr(learner, method)(ARM, value)


@pytest.mark.parametrize("one", [one for one in VERBS if one.name not in PYTHON], ids=by_name)
def test_an_option_has_the_words_of_its_field(one: Verb[..., Any]) -> None:
    name, *rest = line_of(one)
    command = command_tree()[name]
    if hasattr(command, "commands"):
        command = command.commands[next((word for word in rest if word in command.commands), "list")]
    fields = {field.name for field in fields_of(one.input)} - {"learner"}
    for option in command.params:
        if option.name in fields and (one.name, option.name) not in OTHER_WORDS:
            assert option.help == words(one.name, option.name), option.name


@pytest.mark.parametrize("one", [*VERBS, *REPORTS], ids=by_name)
def test_an_input_is_derived_from_the_signature_of_its_flow(one: Verb[..., Any]) -> None:
    """The signature that is read from the source equals the one of the function: names, types, words, defaults."""
    hints = get_type_hints(one.function, include_extras=True)
    expected: dict[str, tuple[Any, Any]] = {}
    for name, parameter in list(inspect.signature(one.function).parameters.items())[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            (options,) = get_args(hints[name])
            types = get_type_hints(options, include_extras=True)
            expected |= {key: (types[key], default) for key, default in defaults_of(options).items()}
        elif any(isinstance(part, msgspec.Meta) for part in get_args(hints[name])):
            default = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
            expected[name] = (hints[name], default)
        else:  # without a description it is of this process, and may be left out
            assert parameter.default is not parameter.empty, name
    assert parameters_of(one.address) == expected
    assert one.input.__struct_fields__ == tuple(expected)
    for field in msgspec.structs.fields(one.input):
        assert field.default == expected[field.name][1], field.name
        assert field.type == expected[field.name][0] or expected[field.name][0].__origin__ is object
        assert all(part.description for part in get_args(field.type) if isinstance(part, msgspec.Meta))


def test_the_names_of_fields_are_json_keys_and_stay() -> None:
    """A renamed parameter of a flow would break every program that sends it."""
    assert {name: " ".join(verb(name).input.__struct_encode_fields__) for name in FIELDS} == FIELDS


def test_inputs_are_derived_without_an_import_of_numpy_or_the_store(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom core.doors.verbs import VERBS\n[(one.words, one.input) for one in VERBS]\n"
        "print(sorted({'numpy', 'scipy', 'sqlalchemy', 'core.store', 'core.flows'} & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "[]\n"


@pytest.mark.parametrize("one", VERBS, ids=by_name)
def test_a_verb_says_what_it_does_and_what_it_answers(one: Verb[..., Any]) -> None:
    assert one.words.endswith(".")
    assert "\n" not in one.words
    assert one.answer is not None
    assert one.address.startswith("core.")
    assert callable(resolve_name(f"core.doors.{one.document}"))
    assert next(iter(inspect.signature(one.function).parameters)) == "context"


def test_names_are_told_apart() -> None:
    assert len({one.name for one in VERBS}) == len(VERBS)


# A verb without an action is impossible


def test_there_is_no_verb_without_an_action() -> None:
    with pytest.raises(TypeError, match="action"):
        Verb(name="x", flow=status)  # type: ignore[call-arg]
    for wrong in ("", "everything", None):
        with pytest.raises(InvalidInput) as refused:
            Verb(wrong, status)  # type: ignore[arg-type]
        assert all(action in refused.value.problem for action in ACTIONS)


def test_a_verb_asks_before_its_flow_is_even_looked_for(doors: Doors) -> None:
    context = replace(doors.context(), actor=Actor(name="vi", role="viewer"))
    nothing: Verb[[], object] = Verb("reset", cast("Any", "core.flows.nowhere:nothing"))
    with pytest.raises(Denied):
        nothing.respond(context, Input())
    context.store.close()


# What programs send


def test_what_a_program_sends_is_checked_by_name_and_type() -> None:
    note = verb("note")
    for wrong in (
        {"arm": ARM},
        {"arm": ARM, "text": 3},
        {"arm": ARM, "text": "x", "loud": True},
        [ARM],
        None,
    ):
        with pytest.raises(InvalidInput) as refused:
            note.decode(wrong)
        assert "`" not in refused.value.problem
        assert "arm, text, key" in refused.value.problem
        assert '"text":"slow on Mondays"' in refused.value.next_step
    with pytest.raises(InvalidArm, match="type:category:name"):
        verb("select").decode({"arms": [{"key": "search"}]})
    with pytest.raises(InvalidInput, match="paths"):
        verb("import").decode({"paths": [3]})


@pytest.mark.parametrize(
    ("name", "sent", "words"),
    [
        ("compact", {"keep_days": "many"}, "keep_days must be a whole number or null, got 'many'"),
        ("compact", {"shrink": 1}, "shrink must be true or false, got 1"),
        ("compact", {"days": 1}, "it has an unknown field 'days'"),
        ("note", {"arm": ARM}, "it lacks the field 'text'"),
        ("note", [ARM], f"it must be an object, got ['{ARM}']"),
        ("import", {"paths": [3]}, "paths[0] must be text, got 3"),
        ("select", {"arms": [{"key": 7}]}, "arms[0].key must be text, got 7"),
    ],
)
def test_a_wrong_type_is_named_in_plain_words(name: str, sent: object, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        verb(name).decode(sent)
    assert refused.value.problem.endswith(f"{words}.")


def test_a_name_that_is_no_verb_is_told_what_there_is() -> None:
    with pytest.raises(InvalidInput, match="learners, create_learner") as refused:
        verb("explode")
    assert "'explode'" in refused.value.problem
