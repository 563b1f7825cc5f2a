"""Exchanges with environments of the OpenReward Standard, as two servers were recorded: every one a step, or none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.importing import import_files
from core.formats import Rejected, open_sources, recognise
from core.maths.episodes import decimal_text, totals_of
from core.records.episode import Episode
from core.store.episodes import episode_digest
from tests.conftest import VECTORS
from tests.flows.test_episodes import held
from tests.formats.builders import lines, put, read

FILES = ("ors_http_ors", "ors_http_openreward")


def recordings(name: str) -> dict[str, list[dict[str, Any]]]:
    path = VECTORS / f"{name}.json"
    episodes = json.loads(path.read_text(encoding="utf-8"))["episodes"]
    return {key: one["exchanges"] for key, one in episodes.items() if one.get("exchanges")}


def playable(name: str) -> list[str]:
    """Recordings in which an environment was called."""
    return sorted(key for key, exchanges in recordings(name).items() if expected_steps(exchanges))


CASES = [pytest.param(name, key, id=f"{name}-{key}") for name in FILES for key in recordings(name)]


def episodes(folder: Path, exchanges: list[dict[str, Any]]) -> list[Episode]:
    path = put(folder, lines(exchanges), "recorded.jsonl")
    assert recognise(path) == "ors"
    found = read(path)
    assert [one for one in found if isinstance(one, Rejected)] == []
    return [one for one in found if isinstance(one, Episode)]


class Expected(NamedTuple):
    """A call that reached an environment, by code of the test's own."""

    name: str
    reward: Decimal | None
    finished: bool
    refused: bool

    @property
    def told(self) -> tuple[str, float | None, bool, bool]:
        return self.name, None if self.reward is None else float(self.reward), self.finished, self.refused


def expected_steps(exchanges: list[dict[str, Any]]) -> list[Expected]:
    """Every call that reached an environment; one that was resumed by its task id is the same call."""
    found: list[tuple[str, list[dict[str, Any]]]] = []
    tasks: dict[str, list[dict[str, Any]]] = {}
    is_active = False
    for one in exchanges:
        path, status = one["path"], one["status"]
        if path == "/create" and status == 200:
            is_active = True
        elif path == "/delete":
            is_active = False
        elif path.endswith("/call") and one["method"] == "POST" and is_active:
            resumed = one["request_body"].get("task_id")
            if resumed in tasks:
                tasks[resumed].append(one)
                continue
            answers = [one]
            found.append((one["request_body"]["name"], answers))
            tasks |= {event["data"]: answers for event in one.get("sse") or () if event["event"] == "task_id"}
    return list(_outcomes(found))


def _outcomes(calls: list[tuple[str, list[dict[str, Any]]]]) -> Iterator[Expected]:
    """Nothing counts after the end."""
    is_over = False
    for name, answers in calls:
        result = result_of(answers)
        output = result.get("output") or {}
        refused = is_over or result.get("reason") == "episode_finished"
        is_end = bool(output.get("finished", False))
        yield Expected(name, _number(output.get("reward")), is_end, refused)
        is_over |= is_end


def _number(value: object) -> Decimal | None:
    return Decimal(value) if isinstance(value, Decimal | int) and not isinstance(value, bool) else None


def result_of(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of a call: all of it in its last answer, or put together from all of them."""
    events = [event for one in answers for event in one.get("sse") or ()]
    if answers[-1]["status"] != 200 or not events or events[-1]["event"] != "end":
        return {}
    for some in (answers[-1].get("sse") or (), events):
        text = "".join(event["data"] for event in some if event["event"] in {"chunk", "end"})
        with suppress(ValueError):
            found: dict[str, Any] = json.loads(text, parse_float=Decimal, parse_constant=lambda _: None)
            return found
    return {}


@pytest.mark.parametrize(("name", "key"), CASES)
def test_every_exchange_is_a_step_or_none_and_steps_add_up(tmp_path: Path, name: str, key: str) -> None:
    exchanges = recordings(name)[key]
    found = episodes(tmp_path, exchanges)
    wanted = expected_steps(exchanges)
    assert len(found) == (1 if wanted else 0)
    for one in found:
        told = [(step.name, step.reward, step.finished, step.refused) for step in one.steps]
        assert told == [step.told for step in wanted]
        called = next(one for one in exchanges if one["path"].endswith("/call"))
        environment, session = called["path"].split("/")[1], called["request_headers"]["x-session-id"]
        assert (one.environment, one.uid) == (environment, f"{environment}/{session}")
        counted = [step for step in wanted if not step.refused]
        paid = [step.reward for step in counted if step.reward is not None]
        total = f"{sum(paid, Decimal()).normalize():f}" if paid else None
        sums = totals_of(one.steps)
        assert (sums.n_steps, sums.n_refused) == (len(counted), len(wanted) - len(counted))
        assert (sums.n_paid, sums.finished) == (len(paid), any(step.finished for step in counted))
        assert (None if sums.total is None else decimal_text(sums.total)) == total


@pytest.mark.parametrize(("name", "key"), CASES)
def test_the_text_of_a_stream_says_what_its_events_say(tmp_path: Path, name: str, key: str) -> None:
    """Where only the bytes were kept; a long result, of which the vectors keep none, is put together here."""
    exchanges = recordings(name)[key]
    wanted = episodes(tmp_path, exchanges)
    for one in exchanges:
        events = one.pop("sse", None)
        if events is not None:
            told = "".join(f"event: {e['event']}\r\ndata: {e['data']}\r\n\r\n" for e in events)
            assert one.setdefault("response_text", told) == told
    assert episodes(tmp_path, exchanges) == wanted


@pytest.mark.parametrize("name", FILES)
def test_a_document_of_recordings_is_read_as_it_is(context: Context, name: str) -> None:
    path = VECTORS / f"{name}.json"
    assert recognise(path) == "ors"
    (source,) = open_sources([path]).sources
    found = [one for one in source.entries() if isinstance(one, Episode)]
    assert len({one.uid for one in found}) == len(found) == len(playable(name))
    answer = import_files(context, [path])
    assert (answer.runs, answer.episodes, answer.rejected_count) == (0, len(found), 0)
    assert queries.verify(context).clean
    assert import_files(context, [path]).id is None
    told = {one.uid: episode_digest(one) for one in held(context).values()}
    assert told == {one.uid: episode_digest(one) for one in found}


# Further exchanges of the same kinds


def created(session: str = "s1", **body: object) -> dict[str, Any]:
    said = {"env_name": "Sums", "split": "train", "index": 1, **body}
    return exchange("/create", session, said, response_body={"sid": session})


def exchange(path: str, session: str | None, body: object, **answer: object) -> dict[str, Any]:
    headers = {} if session is None else {"X-Session-ID": session}
    told = {"method": "POST", "path": path, "request_headers": headers, "request_body": body, "status": 200}
    return {**told, **answer}


def call(*events: tuple[str, str], session: str = "s1", name: str = "look", **more: object) -> dict[str, Any]:
    told = [{"event": kind, "data": data} for kind, data in events]
    return exchange("/sums/call", session, {"name": name, "input": {}, **more}, events=told)


def output(reward: object = None, **more: object) -> str:
    told = {"blocks": [{"type": "text", "text": "seen"}], "reward": reward, "finished": False, **more}
    return json.dumps({"ok": True, "output": told})


@pytest.mark.parametrize(
    ("sent", "note"),
    [
        ('"1.0"', "not_a_number"),
        ("true", "not_a_number"),
        ("NaN", "nan"),
        ("1e400", "infinite"),
        ("[1]", "not_a_number"),
    ],
)
def test_what_is_no_reward_is_none_and_the_step_says_so(tmp_path: Path, sent: str, note: str) -> None:
    data = output(0.5).replace("0.5", sent)
    (one,) = episodes(tmp_path, [created(), call(("end", data)), call(("end", output(0.25)))])
    assert [(step.reward, step.note) for step in one.steps] == [(None, note), (0.25, None)]


def test_a_resumed_call_counts_once(tmp_path: Path) -> None:
    whole = output(0.5)
    cut = call(("task_id", "t1"), ("chunk", whole[:20]))
    rest = call(("task_id", "t1"), ("end", whole[20:]), task_id="t1")
    again = call(("task_id", "t1"), ("chunk", whole[:20]), ("end", whole[20:]), task_id="t1")
    for answers in ([cut, rest], [cut, again], [cut, cut, again], [again, again], [cut, again, again]):
        (one,) = episodes(tmp_path, [created(), *answers, call(("end", output(0.25)))])
        assert [(step.number, step.reward, step.note) for step in one.steps] == [
            (0, 0.5, None),
            (1, 0.25, None),
        ]


def test_a_stream_that_breaks_off_leaves_what_arrived(tmp_path: Path) -> None:
    (one,) = episodes(
        tmp_path, [created(), call(("end", output(0.5))), call(("task_id", "t"), ("chunk", '{"ok'))]
    )
    assert [(step.reward, step.note) for step in one.steps] == [(0.5, None), (None, "cut")]
    assert one.status == "unfinished"


def test_an_answer_that_comes_twice_with_other_content_is_a_conflict(tmp_path: Path) -> None:
    told = [
        created(),
        call(("task_id", "t"), ("end", output(0.5))),
        call(("task_id", "t"), ("end", output(0.6))),
    ]
    found = read(put(tmp_path, lines(told), "recorded.jsonl"))
    (rejected,) = [one for one in found if isinstance(one, Rejected)]
    assert (rejected.line, "conflict" in rejected.reason) == (3, True)
    (one,) = [one for one in found if isinstance(one, Episode)]
    assert [step.reward for step in one.steps] == [0.5]


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_chunk_may_split_a_character(tmp_path: Path, place: int) -> None:
    """Halves of a pair, as programs write them that count in UTF-16."""
    text = "a\U0001f3afb"
    units = text.encode("utf-16-le")
    halves = [units[: 2 * place], units[2 * place :]]
    first, second = (half.decode("utf-16-le", "surrogatepass") for half in halves)
    before, after = output(0.5).split("seen")
    told = call(("chunk", before + first), ("end", second + after))
    (one,) = episodes(tmp_path, [created(), told])
    assert (one.steps[0].reward, one.steps[0].n_chars_out) == (0.5, 3)


def test_members_that_nobody_knows_are_named_and_finished_may_be_left_out(tmp_path: Path) -> None:
    data = json.dumps({"ok": True, "output": {"reward": 0, "cost": 1, "x": {"deep": []}}})
    (one,) = episodes(tmp_path, [created(), call(("end", data))])
    assert (one.steps[0].reward, one.steps[0].finished, one.steps[0].extra) == (0.0, False, ("cost", "x"))


def test_sessions_are_kept_apart_and_one_that_is_made_again_is_another(tmp_path: Path) -> None:
    deleted = exchange("/delete", "s1", None, response_body={"sid": "s1"})
    found = episodes(
        tmp_path,
        [
            created("s1"),
            created("s2", index=4),
            call(("end", output(0.5))),
            call(("end", output(1.0, finished=True)), session="s2"),
            deleted,
            created("s1", env_name=None, index=None, task_spec={"id": "hard"}),
            call(("end", output(0.25))),
            exchange("/sums/call", None, {"name": "look", "input": {}}, status=400),
        ],
    )
    told = {one.uid: (one.split, one.task, [step.reward for step in one.steps]) for one in found}
    assert told == {
        "sums/s1": ("train", "1", [0.5]),
        "sums/s2": ("train", "4", [1.0]),
        "sums/s1/1": ("train", "hard", [0.25]),
    }


def test_hostile_names_and_lines_lose_nothing(tmp_path: Path) -> None:
    names = ["<script>", "%{x}", "x" * 10_000, "nul\0", 7]
    told: list[dict[str, Any]] = [created()]
    told += [call(("end", output(0.1)), name=name) for name in names]  # type: ignore[arg-type]  # hostile
    (one,) = episodes(tmp_path, told)
    assert len(one.steps) == len(names)
    raw = lines(told) + b'{"method": "POST", "path": 7, "status": 200, "sse": []}\n[[[[\n'
    found = read(put(tmp_path, raw, "hostile.jsonl"))
    assert [entry.line for entry in found if isinstance(entry, Rejected)] == [7, 8]
    assert [entry.uid for entry in found if isinstance(entry, Episode)] == ["sums/s1"]
