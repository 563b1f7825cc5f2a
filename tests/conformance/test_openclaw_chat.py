"""OpenClaw's ``/learning`` command, message by message, over desks like the gateway that it talked to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from core.doors.chat import ChatMessage, chat
from core.flows.corrections import reset
from core.flows.learn import reward
from core.flows.queries import openclaw_config, openclaw_posteriors, openclaw_summary
from core.records.actor import Actor
from tests.conformance import rules
from tests.conformance.arm_ids import is_arm_id
from tests.conformance.openclaw_worlds import Tell, desk_of, overheard
from tests.conformance.vectors import Case, Deviation, Vector, compare, load, print_counts

Json = dict[str, Any]

_PREFIX: Final = "/__openclaw__/api/learning"
_FATES: Final = {"down": "noclient", "503": "unavailable", "reward_not_ok": "reward_not_ok"}
_AT_MS: Final = 1_707_091_200_000
_CONFIG: Final = {"phase": "active", "tokenBudget": 8000, "baselineRate": 0.1, "minPulls": 5}

_FRACTION: Final = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+)")
_LIKE_A_NUMBER: Final = re.compile(r"[+-]?[.,]?\d[\d.,]*(?:e[+-]?\d+)?%?", re.IGNORECASE)
_POSTED: Final = {None, rules.FRACTIONS, rules.KNOWN_ARMS, rules.ARM_ID}
"""What becomes of a reward that the flow is asked for."""


def _unrecorded(
    command: str, gateway: str = "ok", arms: Sequence[str] = ("tool:exec:Bash", "tool:x:a 0.5")
) -> Any:  # noqa: ANN401
    """A command of the kinds that no recording shows, as OpenClaw answers it."""
    given = {"command": command, "gateway": gateway, "authorized": True, "posteriors": list(arms)}
    action, _, rest = command.removeprefix("/learning").strip().partition(" ")
    requests: list[Json] = []
    text = f"Unknown learning action: {action}. Use: reset, reward, status"
    if action == "reward":
        told = {
            "arm_id": rest,
            "outcome": "accepted",
            "reward": 1,
            "reason": "user feedback via /learning reward",
        }
        requests = [
            {"method": "GET", "path": f"{_PREFIX}/posteriors"},
            {"method": "POST", "path": f"{_PREFIX}/reward", "body": told},
        ]
        text = f"Recorded accepted (reward=1) for {rest}"
        if gateway != "ok":
            text = f'Reward failed for "{rest}" — gateway or qortex not reachable.'
    output = {"requests": requests, "result": {"shouldContinue": False, "reply": {"text": text}}}
    return pytest.param(
        Vector(command, "handleLearningCommand", given, output, None), id=f"{command} {gateway}"
    )


UNRECORDED: Final = [
    *(
        _unrecorded(f"/learning reward bash {last}")
        for last in ("0.5", ".5", "0.25", "1.0", "0.0", "1.5", "5%", "1e-1")
    ),
    *(_unrecorded("/learning reward bash 0.5", gateway) for gateway in ("down", "503", "reward_not_ok")),
    _unrecorded("/learning reward bash 0.5", arms=()),
    _unrecorded("/learning reward tool:exec:Bash 0.5"),
    _unrecorded("/learning reward tool:exec:Other 0.5"),
    *(
        _unrecorded(f"/learning {word}")
        for word in (
            "STATUS",
            "Status",
            "RESET",
            "Reset all",
            "REWARD",
            "Reward bash",
            "REWARD bash 7",
            "Status now",
        )
    ),
    *(
        _unrecorded(f"/learning {word}", "down")
        for word in ("STATUS", "RESET", "REWARD bash", "REWARD bash 0.5")
    ),
]


@pytest.mark.parametrize("vector", [*load("openclaw_chat"), *UNRECORDED])
def test_a_message_is_answered_as_openclaws(vector: Vector, tmp_path: Path) -> None:
    compare(vector, _ours(vector, tmp_path), _theirs(vector), DEVIATIONS)


def test_deviations_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By rule, for whoever reads along; without vectors there is nothing to count."""
    vectors = [case.values[0] for case in load("openclaw_chat")]
    met = [compare(one, _ours(one, tmp_path), _theirs(one), DEVIATIONS) for one in vectors]
    with capsys.disabled():
        print_counts("openclaw_chat", met)
    assert any(met)


# What we answer


def _ours(vector: Vector, folder: Path) -> Json:
    given = vector.input
    if not given.get("allowTextCommands", True):
        return _parts(None, ())  # its host hands the message to no one
    who = None if given["authorized"] else (lambda channel, sender: None)
    named = {} if who is None else {"channel": "general", "sender": "stranger"}
    fate = _FATES.get(given["gateway"], "ok")
    with desk_of(folder, _states(vector), _CONFIG, fate=fate) as desk, overheard(GATEWAY) as calls:
        text = chat(desk, Actor(name="mara"), ChatMessage(text=given["command"], **named), member_of=who)
    return _parts(text, calls)


def _states(vector: Vector) -> dict[str, Json]:
    """Two successes each, and failures from none on; the gateway knew them as that."""
    return {
        arm: {"alpha": 3, "beta": 1 + place, "pulls": 2 + place, "total_reward": 2, "at_ms": _AT_MS}
        for place, arm in enumerate(vector.input.get("posteriors", ()))
    }


def _posted(given: Mapping[str, Any]) -> list[object]:
    outcome = {0.0: "rejected", 1.0: "accepted"}.get(given["value"], "partial")
    told = {"arm_id": given["arm"], "outcome": outcome, "reward": given["value"], "reason": given["reason"]}
    return ["POST", f"{_PREFIX}/reward", told]


def _got(path: str) -> Tell:
    return lambda _: ["GET", f"{_PREFIX}/{path}", None]


GATEWAY: Final[Mapping[Callable[..., object], Tell]] = {
    openclaw_summary: _got("summary"),
    openclaw_config: _got("config"),
    openclaw_posteriors: _got("posteriors"),
    reward: _posted,
    reset: lambda _: ["POST", f"{_PREFIX}/reset", {}],
}
"""Flows in the words of the handler's requests."""


# Both in parts


def _theirs(vector: Vector) -> Json:
    result = vector.output["result"]
    requests = [[made["method"], made["path"], made.get("body")] for made in vector.output["requests"]]
    if any(made[1].endswith("/reward") for made in requests):  # which arms there are is no request of ours
        requests = [made for made in requests if made[0] == "POST"]
    return _parts(None if result is None else result["reply"]["text"], requests)


def _parts(text: str | None, requests: Sequence[Sequence[object]]) -> Json:
    told: Json = {"requests": sorted(map(repr, map(_numbers, requests)))}
    if text is None or not text.startswith("Learning Layer Status"):
        return {**told, "text": text}
    lines = [line for line in text.split("\n") if line]
    counted = [line for line in lines if line.startswith("  Observations:")]
    shares = [line for line in lines if line.startswith(("Run Distribution", "  Baseline: "))]
    shares = [line for line in shares if "|" not in line]
    rest = [line for line in lines if line not in {*counted, *shares}]
    return {**told, "counted": counted, "shares": shares, "rest": rest}


def _numbers(made: Sequence[object]) -> list[object]:
    """1 and 1.0 are one number."""
    method, path, body = made
    if isinstance(body, dict):
        body = {key: float(one) if isinstance(one, int) else one for key, one in body.items()}
    return [method, path, body]


# Where we answer otherwise, told from what was asked


def _asked(vector: Vector) -> tuple[str, str] | None:
    """Action as typed and the rest, None where it is no command, or nothing reads it."""
    found = re.fullmatch(r"/learning(?:\s+(.*))?", vector.input["command"].strip(), re.IGNORECASE)
    if found is None or not vector.input.get("allowTextCommands", True):
        return None
    action, _, rest = (found[1] or "status").strip().partition(" ")
    return action, rest.strip()


def _is(vector: Vector, action: str) -> bool:
    """Whether theirs understands this action, which it does in small letters alone."""
    asked = _asked(vector)
    return asked is not None and asked[0] == action and vector.input["authorized"] is True


def _is_cased(case: Case) -> bool:
    """Whether ours alone understands it: another answer, and what is requested for it."""
    asked, vector = _asked(case.vector), case.vector
    if asked is None or asked[0] == asked[0].lower() or vector.input["authorized"] is not True:
        return False
    action, rest = asked[0].lower(), asked[1]
    is_posted = bool(rest) and _is_reachable(vector) and _rest_rule(vector, rest) in _POSTED
    is_asked = action == "status" or (action == "reward" and is_posted)
    return action in {"status", "reset", "reward"} and (case.name != "requests" or is_asked)


def _is_reachable(vector: Vector) -> bool:
    return vector.input["gateway"] not in {"down", "503"}


def _is_stranger(case: Case) -> bool:
    return case.name == "text" and _asked(case.vector) is not None and not case.vector.input["authorized"]


def _is_reset(case: Case) -> bool:
    is_answered = case.name == "text" and _is_reachable(case.vector)
    return _is(case.vector, "reset") and (case.name == "requests" or is_answered)


def _is_usage(case: Case) -> bool:
    return _is(case.vector, "reward") and _asked(case.vector) == ("reward", "") and case.name == "text"


def _reward_rule(vector: Vector) -> str | None:
    """The rule by which a reward is refused, or counts otherwise; None = it is recorded as theirs, or can't be."""
    asked = _asked(vector)
    if asked is None or not _is(vector, "reward") or not asked[1]:
        return None
    rule = _rest_rule(vector, asked[1])
    return rule if _is_reachable(vector) or rule == rules.FRACTIONS else None


def _rest_rule(vector: Vector, rest: str) -> str | None:
    arms: list[str] = vector.input.get("posteriors", [])
    name, _, last = rest.rpartition(" ")
    label = rest.lower() in {arm.split(":", 2)[2].lower() for arm in arms} or rest in arms
    is_number = bool(name) and _LIKE_A_NUMBER.fullmatch(last) is not None and not label
    if is_number and not (_FRACTION.fullmatch(last) and 0 <= float(last) <= 1):
        return rules.WITHIN_0_1
    said = name.strip() if is_number else rest
    if not _is_reachable(vector):
        return rules.FRACTIONS if is_number and last not in {"0", "1"} else None
    if ":" in said and said not in arms:
        return rules.KNOWN_ARMS if is_arm_id(said) else rules.ARM_ID
    if ":" not in said and _n_meant(said.lower(), arms) != 1:
        return rules.NO_GUESS
    return rules.FRACTIONS if is_number and last not in {"0", "1"} else None


def _is_fraction(vector: Vector) -> bool:
    """Whether a number is split off that theirs takes for a part of the name."""
    name, _, last = vector.input["command"].rstrip().rpartition(" ")
    return bool(name) and _FRACTION.fullmatch(last) is not None and last not in {"0", "1"}


def _n_meant(said: str, arms: Sequence[str]) -> int:
    """How many arms may be meant: by their label, else by a part of their id."""
    exact = [arm for arm in arms if said in {arm.split(":", 2)[2].lower(), _category(arm)}]
    return len(exact or [arm for arm in arms if said in arm.lower()])


def _category(arm: str) -> str | None:
    kind, category, name = arm.split(":", 2)
    return category.lower() if (kind, name) == ("skill", "main") else None


def _is_refused(rule: str) -> Deviation:
    def covers(case: Case) -> bool:
        is_asked = rule in {rules.KNOWN_ARMS, rules.ARM_ID} and not _is_fraction(case.vector)
        is_call = case.name == "requests" and not is_asked
        return _reward_rule(case.vector) == rule and (case.name == "text" or is_call)

    return Deviation(rule, "A reward that is refused.", covers)


def _is_not_tried(case: Case) -> bool:
    is_reward = _is(case.vector, "reward") and _asked(case.vector) != ("reward", "")
    is_status = _is(case.vector, "status")
    return not _is_reachable(case.vector) and (is_reward or is_status) and case.name == "requests"


def _is_status(case: Case, part: str) -> bool:
    return _is(case.vector, "status") and _is_reachable(case.vector) and case.name == part


DEVIATIONS: Final = (
    Deviation(rules.SILENCE, "Theirs tells a stranger why not.", _is_stranger),
    Deviation(rules.ANY_CASE, "Theirs knows small letters alone.", _is_cased),
    Deviation(rules.CONFIRMED, "Theirs resets at once, and whatever was named.", _is_reset),
    Deviation(rules.WITHIN_0_1, "The usage names the numbers there are.", _is_usage),
    *map(_is_refused, (rules.WITHIN_0_1, rules.KNOWN_ARMS, rules.ARM_ID, rules.NO_GUESS, rules.FRACTIONS)),
    Deviation(rules.READ_FIRST, "The gateway was not there.", _is_not_tried),
    Deviation(rules.PULLS_ADD_UP, "Their gateway said 12.", lambda case: _is_status(case, "counted")),
    Deviation(rules.RUNS_COUNTED, "Observations without runs.", lambda case: _is_status(case, "shares")),
)
