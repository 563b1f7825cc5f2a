"""Destructive requests: a field too many or misspelt, at any door, changes nothing."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from core.doors.cli import main
from core.doors.http.app import Api
from core.doors.http.serving import ROUTES
from core.doors.mcp.tools import call
from core.doors.python import Learner
from core.doors.verbs import verb
from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.learn import reward
from tests.doors.examples import ARM, LAYER, RUN, example_world
from tests.doors.http.asking import Asking
from tests.doors.http.conftest import LOCAL, MARA, at_desk
from tests.worlds.events import EVERY, START

Fields = Mapping[str, Any]
AT: Final = "/api/v1/learners/default"
OPENCLAW: Final = "/__openclaw__/api/learning/reset"
QORTEX: Final = "/v1/learning/reset"
ERASABLE: Final = frozenset({"run", "session", "execution", "episode", "rater"})
ALLOWED: Final = frozenset({"reset", "repair"})

_TEXTS: Final[tuple[object, ...]] = (None, False, 0, 1.5, ["x"], {"a": 1})
_LISTS: Final[tuple[object, ...]] = (False, 0, ARM, {}, {"a": 1}, [None], [7], [ARM, 7], [[ARM]])
_NO_NAMES: Final[tuple[object, ...]] = (*_LISTS, None, [])

_ACT: Final = frozenset({"act_id"})
_SPAN: Final = {"arms": [ARM], "since": "2026-01-31"}
_NO_SPANS: Final = {
    "arms": _NO_NAMES,
    "since": ("", "soon", "31 January", *_TEXTS),
    "until": ("", "soon", "2026-01-30", *_TEXTS[1:]),
}
_SUMS: Final = {"episode": "sums/1", "environment": "sums"}
_EXECUTION: Final = "11111111-2222-4333-8444-555555555555"
_REVISION: Final = {
    **{"uri": f"{LAYER}?execution_id={_EXECUTION}", "outcome": "failure", "score": 1.0},
    **{"rater": "mara", "rubric_version": "v2", "feedback": "wrong", "llm_model_id": "judge-1"},
}
"""An evaluation that replaces the earlier one of the same rater, model and rubric about an execution."""
_NO_URIS: Final[tuple[object, ...]] = (
    *(f"{LAYER}?{name}={_EXECUTION}" for name in ("execution", "executionid", "execution-id", "id")),
    *(f"{LAYER}?execution_id=", f"{LAYER}?", f"{LAYER}/", LAYER[:-1], LAYER.replace("layer", "mem"), *_TEXTS),
)
_NO_REVISIONS: Final = {
    **{"uri": _NO_URIS, "outcome": ("accepted", "Failure", "", *_TEXTS), "score": ("1", 2, -0.5, True, [1])},
    **{"feedback": ("", 5), "rater": (5, None), "rubric_version": (2,), "llm_model_id": ({},)},
}
_NO_EVENTS: Final[tuple[object, ...]] = (
    *(None, {}, "x", 7, EVERY[0], [7], [None], [{}], [EVERY]),
    *(
        [{name: held for name, held in START.items() if name != missing}]
        for missing in ("eventId", "timestamp")
    ),
    [{**START, "eventId": 7}],
)

_NAMING: Final = ("HTTP reset", "HTTP undo", "HTTP redo", "HTTP erase", "OpenClaw reset", "qortex reset")
"""Requests over HTTP that take something away."""
NAMES: Final = st.text(string.ascii_letters + "_-é", min_size=1, max_size=12)
VALUES: Final = st.sampled_from(["x", 0, None, True, [ARM], {"a": 1}, ""])

LINES: Final = {
    "reset": ["--arm", ARM],
    "undo": ["reward-1"],
    "erase": ["--run", RUN],
    "compact": ["--keep-days", "1"],
    "member remove": ["ann"],
    "token revoke": ["old"],
    "alert remove": ["webhook-1"],
}


class World(NamedTuple):
    """A file with facts, one reward that is active and one that is undone, and its doors."""

    context: Context
    asking: Asking
    learner: Learner
    active: str
    undone: str

    def state(self) -> tuple[object, ...]:
        """Return every posterior bit by bit, and the revision: nothing at all was written if both are equal."""
        columns = queries.belief(self.context).columns
        return (
            queries.revision(self.context),
            columns.keys,
            columns.alpha.tobytes(),
            columns.beta.tobytes(),
            columns.n_pulls,
        )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    context = example_world(tmp_path)
    active, undone = reward(context, ARM, 0.25).id, reward(context, ARM, 0.75).id
    undo(context, undone)
    now_ms = context.clock()  # a code of the chat is valid for minutes
    service = replace(at_desk(context), clock=lambda: now_ms)
    with closing(Asking(app=Api(service, ROUTES, listener=LOCAL))) as asking:
        yield World(context, asking, Learner(context), active, undone)
    context.store.close()


class Verb(NamedTuple):
    """A destructive verb at a door: its valid fields, all names that it takes, and how a request is sent.

    ``send`` returns whether the door accepted it. ``wrong`` are values of another kind, by field. Where the client's
    own schema leaves unknown members alone, only what it ``needs`` can be misspelt.
    """

    fields: Callable[[World], Fields]
    takes: frozenset[str]
    send: Callable[[World, Fields], bool]
    wrong: Fields = MappingProxyType({})
    needs: tuple[str, ...] = ()


def _posted(path: str) -> Callable[[World, Fields], bool]:
    return lambda world, fields: world.asking.post(path, dict(fields)).status < 300


def _tool(name: str) -> Callable[[World, Fields], bool]:
    return lambda world, fields: (
        call(at_desk(world.context), MARA, name, dict(fields), ALLOWED).document is not None
    )


def _method(name: str) -> Callable[[World, Fields], bool]:
    def send(world: World, fields: Fields) -> bool:
        try:
            getattr(world.learner, name)(**fields)
        except (ArmscopeError, TypeError):
            return False
        return True

    return send


def _chat(world: World, fields: Fields) -> bool:
    answer = world.asking.post("/api/v1/chat", dict(fields))
    return answer.status < 300 and answer.document["reply"].startswith("Reset ")


def _chat_fields(world: World) -> Fields:
    asked = world.asking.post("/api/v1/chat", {"text": f"/learning reset {ARM}"}).document["reply"]
    return {"text": f"/learning reset {ARM} confirm {asked.split()[-1]}"}


def _uploads(_: World) -> Fields:
    return {"events": [*EVERY]}


def _taken(name: str) -> frozenset[str]:
    return frozenset(verb(name).input.__struct_fields__)


_RESET: Final = _taken("reset")
VERBS: Final[Mapping[str, Verb]] = {
    "HTTP reset": Verb(
        lambda _: {"arms": [ARM]}, _RESET, _posted(f"{AT}/resets"), {"arms": _NO_NAMES, "types": _NO_NAMES}
    ),
    "HTTP repair": Verb(
        lambda _: _SPAN, _taken("repair"), _posted(f"{AT}/repairs"), _NO_SPANS, ("arms", "since")
    ),
    "MCP repair": Verb(lambda _: _SPAN, _taken("repair") | {"learner"}, _tool("repair"), _NO_SPANS),
    "HTTP undo": Verb(
        lambda one: {"act_id": one.active}, _ACT, _posted(f"{AT}/undo"), {"act_id": _TEXTS[1:]}
    ),
    "HTTP redo": Verb(
        lambda one: {"act_id": one.undone}, _ACT, _posted(f"{AT}/redo"), {"act_id": _TEXTS[1:]}
    ),
    "HTTP erase": Verb(
        lambda _: {"run": RUN}, ERASABLE, _posted(f"{AT}/erasures"), dict.fromkeys(ERASABLE, (*_TEXTS, ""))
    ),
    "OpenClaw reset": Verb(
        lambda _: {"arm_ids": [ARM]}, frozenset({"arm_ids"}), _posted(OPENCLAW), {"arm_ids": _NO_NAMES}
    ),
    "qortex reset": Verb(
        lambda _: {"learner": "default", "arm_ids": [ARM]},
        frozenset({"learner", "arm_ids", "context"}),
        _posted(QORTEX),
        {"arm_ids": _LISTS, "learner": (*_TEXTS, ""), "context": (False, "x", [])},
    ),
    "MCP reset": Verb(
        lambda _: {"learner": "default", "arm_ids": [ARM]},
        frozenset({"learner", "arm_ids", "context"}),
        _tool("qortex_learning_reset"),
        {"arm_ids": _LISTS, "learner": (*_TEXTS, ""), "context": (False, "x", [])},
    ),
    "MCP undo": Verb(
        lambda one: {"id": one.active}, frozenset({"id", "learner"}), _tool("undo"), {"id": _TEXTS[1:]}
    ),
    "KAIROS reward": Verb(
        lambda _: _REVISION, frozenset(_REVISION), _posted("/api/reward"), _NO_REVISIONS, ("uri", "outcome")
    ),
    "MCP KAIROS reward": Verb(lambda _: _REVISION, frozenset(_REVISION), _tool("reward"), _NO_REVISIONS),
    "OpenReward rollouts": Verb(
        _uploads, frozenset({"events"}), _posted("/v1/rollouts"), {"events": _NO_EVENTS}
    ),
    "ORS step": Verb(
        lambda _: {**_SUMS, "number": 1, "reward": 1.0, "finished": True},
        _taken("record_step"),
        _posted(f"{AT}/steps"),
        {
            "episode": (*_TEXTS, ""),
            "number": ("1", -1, 0.5, True),
            "reward": ("1", True, []),
            "finished": (1, "yes"),
        },
    ),
    "ORS incomplete": Verb(
        lambda _: _SUMS,
        _taken("mark_incomplete"),
        _posted(f"{AT}/episodes:incomplete"),
        {"episode": (*_TEXTS, "")},
    ),
    "Python step": Verb(
        lambda _: {**_SUMS, "number": 1, "reward": 1.0}, _taken("record_step"), _method("record_step")
    ),
    "Python incomplete": Verb(lambda _: _SUMS, _taken("mark_incomplete"), _method("mark_incomplete")),
    "chat reset": Verb(_chat_fields, frozenset({"text", "channel", "sender"}), _chat, {"text": _TEXTS}),
    "Python reset": Verb(
        lambda _: {"arms": [ARM]},
        _RESET,
        _method("reset"),
        {"arms": ([], (), ARM, [7], 7), "types": ([], "tool")},
    ),
    "Python undo": Verb(
        lambda one: {"act_id": one.active}, _ACT, _method("undo"), {"act_id": ("", "reward")}
    ),
    "Python redo": Verb(
        lambda one: {"act_id": one.undone}, _ACT, _method("redo"), {"act_id": ("", "reward")}
    ),
    "Python erase": Verb(lambda _: {"run": RUN}, ERASABLE, _method("erase"), dict.fromkeys(ERASABLE, ("",))),
}


@st.composite
def misspelt(draw: st.DrawFn, name: str) -> str:
    """A name as hands and other programs write it: a letter too many, too few or wrong, or another case."""
    at = draw(st.integers(0, len(name) - 1))
    letter = draw(st.sampled_from(string.ascii_lowercase))
    camel = "".join(part.capitalize() for part in name.split("_"))
    changed = (
        name[:at] + name[at + 1 :],
        name[:at] + letter + name[at:],
        name[:at] + letter + name[at + 1 :],
        *(f"{name}s", name.rstrip("s"), name.upper(), name.replace("_", "-"), name.replace("_", "")),
        *(camel, camel[0].lower() + camel[1:], f"{name} ", f" {name}"),
    )
    return draw(st.sampled_from(changed))


@pytest.mark.parametrize("named", VERBS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_field_too_many_misspelt_or_of_another_kind_changes_nothing(
    named: str, world: World, data: st.DataObject
) -> None:
    verb = VERBS[named]
    fields = dict(verb.fields(world))
    hows = {"misspelt": True, "added": not verb.needs, "another kind": bool(verb.wrong)}
    how = data.draw(st.sampled_from([how for how, is_there in hows.items() if is_there]))
    if how == "another kind":
        field = data.draw(st.sampled_from(sorted(verb.wrong)))
        if verb.takes is ERASABLE:
            fields = {}
        fields[field] = data.draw(st.sampled_from(verb.wrong[field]))
    else:
        right = data.draw(st.sampled_from(sorted(verb.needs or fields)))
        name = data.draw(misspelt(right) if how == "misspelt" else NAMES | misspelt(right))
        assume(name not in verb.takes)
        value = fields.pop(right) if how == "misspelt" else data.draw(VALUES)
        fields[name] = value
    before = world.state()
    assert not verb.send(world, fields), fields
    assert world.state() == before


@pytest.mark.parametrize("named", VERBS)
def test_a_request_that_is_right_is_done(named: str, world: World) -> None:
    """Or the property above would hold for doors that refuse everything."""
    verb, before = VERBS[named], world.state()
    assert verb.send(world, verb.fields(world))
    assert world.state() != before


@pytest.mark.parametrize("named", _NAMING)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=NAMES | st.sampled_from(["arms", "arm_ids", "act_id", "run", "learner"]))
def test_a_field_in_the_query_changes_nothing(named: str, world: World, name: str) -> None:
    """A body that is right, or means all, and a query that would say less."""
    verb, before = VERBS[named], world.state()

    class Queried(Asking):
        def post(self, path: str, document: object, **headers: str) -> Any:  # noqa: ANN401
            return super().post(f"{path}?{quote(name)}={quote(ARM)}", document, **headers)

    there = world._replace(asking=Queried(app=world.asking.app, loop=world.asking.loop))
    for fields in (verb.fields(world), {}):
        assert not verb.send(there, fields), fields
    assert world.state() == before


@pytest.mark.parametrize(
    "body", [b" ", b"bad", b"[]", b"null", b'"all"', b"0", b"false", b'{"arm_ids":["x"]', b'[{"arm_ids":[]}]']
)
@pytest.mark.parametrize(
    "path", [OPENCLAW, QORTEX, f"{AT}/resets", f"{AT}/undo", f"{AT}/redo", f"{AT}/erasures"]
)
def test_a_body_of_another_kind_changes_nothing(path: str, body: bytes, world: World) -> None:
    before = world.state()
    assert world.asking.post(path, body).status == 400
    assert world.state() == before


@pytest.mark.parametrize("body", [b"", b"{}", b'{"learner":null}', b'{"learner":""}', b'{"arm_ids":null}'])
def test_a_reset_of_qortex_names_its_learner(body: bytes, world: World) -> None:
    before = world.state()
    assert world.asking.post(QORTEX, body).status == 400
    arguments = json.loads(body or b"{}")
    assert not _tool("qortex_learning_reset")(world, arguments)
    assert world.state() == before


@pytest.mark.parametrize("body", [b"", b"{}"])
def test_nothing_at_all_resets_every_arm_where_openclaw_says_so(body: bytes, world: World) -> None:
    answer = world.asking.post(OPENCLAW, body)
    assert (answer.status, answer.document["reset_count"]) == (200, len(world.state()[1]))  # type: ignore[arg-type]


def test_arms_of_qortex_that_are_absent_or_null_are_all(world: World) -> None:
    null: Fields = {"learner": "default", "arm_ids": None, "context": {}}
    for fields in ({"learner": "default"}, null):
        assert world.asking.post(QORTEX, fields).document["reset_count"] == 2


@pytest.mark.parametrize(
    "words",
    ["{arm} confrm {code}", "{arm}x confirm {code}", "all confirm {code}", "{arm} confirm {code} now"],
)
def test_a_word_too_many_or_misspelt_in_chat_resets_nothing(words: str, world: World) -> None:
    code = _chat_fields(world)["text"].split()[-1]
    before = world.state()
    assert not _chat(world, {"text": f"/learning reset {words.format(arm=ARM, code=code)}"})
    assert world.state() == before


@pytest.mark.parametrize("command", LINES)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_an_option_too_many_or_misspelt_changes_nothing(
    command: str, world: World, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    right = LINES[command]
    yes = ["--yes"] if command in {"reset", "erase", "compact"} else []
    option = right[0] if right[0].startswith("--") else "--learner"
    name = data.draw(misspelt(option.removeprefix("--")).map(str.strip))
    assume(name not in {"arm", "run", "learner", "type", "keep-days", ""})
    wrong = data.draw(
        st.sampled_from(
            [[f"--{name}", *right[-1:]], [*right, f"--{name}", "x"], [*right, "more"], [*right, "--all"]]
        )
    )
    before = world.state()
    path = str(world.context.store.location)
    with pytest.raises(SystemExit) as ended:
        main(["--database", path, *command.split(), *wrong, *yes])
    capsys.readouterr()
    assert ended.value.code
    assert world.state() == before
