"""Masked texts: no secret in a kept text reaches the database, by any way that texts come in."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.settings import change
from core.records.episode import Episode, Step
from core.records.transcript import Message
from core.secrecy import masked, secrets_in
from core.store.texts import storable_json
from tests.engine import content, database_rows, named
from tests.flows.test_episodes import file_of
from tests.secret_kinds import CHOSEN, COMMANDS, ISSUED, NAMED, PLACED, fill_form, in_sentence
from tests.worlds import a_run, lines_file
from tests.worlds.training import execution_line, layer_line

FORMS: Final = [form for forms in [*ISSUED.values(), *CHOSEN.values(), NAMED, PLACED] for form in forms]
_CHANCE: Final = random.Random(11)
SECRETS: Final = [
    *(fill_form(form, _CHANCE) for form in FORMS),
    *(form.format(fill_form("{L4}{U2}{L3}", _CHANCE)) for form in COMMANDS),
]
TEXTS: Final = [in_sentence(secret, _CHANCE) for secret in SECRETS]


def by_runs(context: Context) -> None:
    runs = [a_run(f"r{number}") for number in range(len(TEXTS))]
    halves = zip(runs, TEXTS, reversed(TEXTS), strict=True)
    record_all(
        context, [msgspec.structs.replace(run, prompt=text, reply=other) for run, text, other in halves]
    )


def by_transcripts(context: Context) -> None:
    """Record each text as a message, as a result, and as a call's arguments."""
    runs = [
        msgspec.structs.replace(
            a_run(f"t{number}"),
            messages=(
                Message(kind="user", text=text),
                Message(kind="call", name="do", text=json.dumps({"command": text}), result=f"{text}\n0"),
            ),
        )
        for number, text in enumerate(TEXTS)
    ]
    record_all(context, runs)


def by_steps(context: Context) -> None:
    steps = tuple(Step(number=n, name="do", asked=text, answered=text) for n, text in enumerate(TEXTS))
    path = named(context.store).parent
    import_files(context, [file_of(path, "steps.jsonl", Episode(uid="e/1", environment="e", steps=steps))])


def by_events(context: Context) -> None:
    path = named(context.store).parent / "events.jsonl"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in _events()))
    import_files(context, [path])


def _events() -> Iterator[dict[str, object]]:
    yield {"eventId": "r-1", "eventType": "rollout", "timestamp": 0, "environment": "sums"}
    for number, text in enumerate(TEXTS):
        call = {"name": "look", "callId": f"c{number}", "content": text}
        yield _message(2 * number, "tool_call", **call)
        yield _message(2 * number + 1, "tool_result", **call, reward=0.5)
    yield _message(2 * len(TEXTS), "assistant_message", content=TEXTS[0], reward=1.0, isFinished=True)


def _message(index: int, kind: str, **more: object) -> dict[str, object]:
    of_rollout = {"eventType": "message", "type": kind, "index": index, "rolloutEventId": "r-1"}
    return {"eventId": f"m{index}", "timestamp": index * 1_000, **of_rollout, **more}


def by_executions(context: Context) -> None:
    lines = [execution_line(n, ask=text, say=text) for n, text in enumerate(TEXTS)]
    import_files(context, [lines_file(named(context.store).parent / "told.jsonl", layer_line(1), *lines)])


@pytest.mark.parametrize("keep", [by_runs, by_transcripts, by_steps, by_events, by_executions])
def test_no_secret_reaches_the_database(context: Context, keep: Callable[[Context], None]) -> None:
    change(context, "keep_texts", value=True)
    keep(context)
    held = content(context.store).decode(errors="replace")
    assert [secret for secret in SECRETS if secret in held or json.dumps(secret)[1:-1] in held] == []
    assert held.count("works, thanks.") > 0, "the rest of a text is kept"
    assert queries.verify(context).clean
    context.store.close()


def test_the_same_description_comes_again_whatever_was_stored(context: Context, tmp_path: Path) -> None:
    """With the secrets that an earlier version stored, and where texts are not stored any more."""
    change(context, "keep_texts", value=True)
    by_executions(context)
    line = execution_line(0, ask=TEXTS[0], say=TEXTS[0])
    (pair,) = line["pairs"]
    database_rows(
        tmp_path / "a.db",
        f"UPDATE training_pair SET response = '{pair['response']}' WHERE execution_no = 1",
    )
    for keeps in (True, False):
        change(context, "keep_texts", value=keeps)
        file = lines_file(tmp_path / f"again-{keeps}.jsonl", layer_line(1), line)
        assert import_files(context, [file]).rejected == ()
    context.store.close()


@pytest.mark.parametrize("secret", ["correct-horse-9", 12345678, ["correct-horse-9"]])
def test_json_stays_json(secret: object) -> None:
    text = json.dumps({"password": secret, "note": 'a "quoted" line\n'})
    result = storable_json(text)
    assert result is not None
    assert secrets_in(result) == ()
    assert isinstance(json.loads(result), dict)


@pytest.mark.parametrize(
    "text", [*TEXTS[::9], "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\nMIIdef\n", "plain", ""]
)
def test_a_masked_text_stays_as_it_is(text: str) -> None:
    assert masked(masked(text)) == masked(text)
    assert secrets_in(masked(text)) == ()
