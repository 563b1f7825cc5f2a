"""opencode: the database and the exported document of one session give the same runs."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.errors import UnreadableSource
from core.flows.importing import import_files
from core.formats import Limits, Rejected, Remark, open_sources, recognise
from core.records.run import Run
from tests.formats.builders import Json, lines, names, put, read, rejected, runs
from tests.worlds import context_at

START = 1_767_323_045_000


def tokens(read: int, written: int, cached: int = 0, thought: int = 0, total: int | None = None) -> Json:
    counts: Json = {
        "input": read,
        "output": written,
        "reasoning": thought,
        "cache": {"read": cached, "write": 0},
    }
    return counts if total is None else {**counts, "total": total}


def say(words: str, **fields: object) -> Json:
    return {"type": "text", "text": words, **fields}


def call(name: str, identity: str, status: str = "completed", **metadata: object) -> Json:
    return {
        "type": "tool",
        "tool": name,
        "callID": identity,
        "state": {"status": status, "input": {"q": 1}, "output": "ok", "metadata": metadata},
    }


def finish(counts: Json) -> Json:
    return {"type": "step-finish", "reason": "stop", "tokens": counts}


def session(
    number: int, *messages: tuple[str, list[Json], Json], parent: int | None = None
) -> dict[str, Any]:
    """An exported session; each message is (role, parts, further members). A sub-agent works in the first run."""
    made = []
    began = 100 * number if parent is None else 101
    for place, (role, parts, more) in enumerate(messages):
        info: Json = {"id": f"msg_{number}_{place}", "sessionID": f"ses_{number}", "role": role}
        info["time"] = {"created": START + 1000 * (began + place)}
        if role == "assistant":
            info |= {"modelID": "m", "providerID": "p", "parentID": f"msg_{number}_0"}
        made.append(
            {"info": info | more, "parts": [{"id": f"prt_{place}_{n}", **one} for n, one in enumerate(parts)]}
        )
    info = {"id": f"ses_{number}", "title": "t", "version": "1.2"}
    return {"info": info if parent is None else {**info, "parentID": f"ses_{parent}"}, "messages": made}


def database(folder: Path, *sessions: dict[str, Any], name: str = "opencode.db") -> Path:
    """The tables that the program makes, with their indexes."""
    path = folder / name
    with closing(sqlite3.connect(path)) as base:
        base.executescript(
            "CREATE TABLE `session` (`id` text PRIMARY KEY, `parent_id` text, `title` text, `cost` real);"
            "CREATE TABLE `message` (`id` text PRIMARY KEY, `session_id` text, `time_created` integer, `data` text);"
            "CREATE TABLE `part` (`id` text PRIMARY KEY, `message_id` text, `session_id` text, `data` text);"
            "CREATE TABLE `todo` (`session_id` text, `content` text);"
            "CREATE INDEX `a` ON `message` (`session_id`, `time_created`, `id`);"
            "CREATE INDEX `b` ON `part` (`session_id`);"
        )
        for one in sessions:
            info = one["info"]
            base.execute("INSERT INTO session VALUES (?, ?, 't', 0)", (info["id"], info.get("parentID")))
            for message in one["messages"]:
                own = {key: value for key, value in message["info"].items() if key not in {"id", "sessionID"}}
                identity = message["info"]["id"]
                row = (identity, info["id"], own["time"]["created"], json.dumps(own))
                base.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
                for part in message["parts"]:
                    data = json.dumps({key: value for key, value in part.items() if key != "id"})
                    base.execute(
                        "INSERT INTO part VALUES (?, ?, ?, ?)",
                        (identity + part["id"], identity, info["id"], data),
                    )
        base.commit()
    return path


def newer(folder: Path, *sessions: dict[str, Any], name: str = "opencode.db") -> Path:
    """Add the tables of version 2, with the sessions, to a database or to a new one."""
    path = folder / name
    with closing(sqlite3.connect(path)) as base:
        base.executescript(
            "CREATE TABLE `session_v2` (`id` text PRIMARY KEY, `parent_id` text, `title` text);"
            "CREATE TABLE `session_message` (`id` text PRIMARY KEY, `session_id` text, `type` text, `seq` integer,"
            " `time_created` integer, `time_updated` integer, `data` text);"
        )
        for one in sessions:
            info = one["info"]
            base.execute("INSERT INTO session_v2 VALUES (?, ?, 't')", (info["id"], info.get("parentID")))
            for seq, message in enumerate(one["messages"]):
                own = message["info"]
                at = own["time"]["created"]
                row = (own["id"], info["id"], own["role"], seq, at, at, json.dumps(_newer(message)))
                base.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            base.execute(
                "INSERT INTO session_message VALUES (?, ?, 'system', 999, 0, 0, '{\"text\": \"x\"}')",
                (f"sys_{info['id']}", info["id"]),
            )
        base.commit()
    return path


def _newer(message: Json) -> Json:
    info: Any = message["info"]
    parts: Any = message["parts"]
    if info["role"] == "user":
        return {"text": "".join(one.get("text", "") for one in parts), "time": info["time"], "files": []}
    content = [
        {**one, "id": one["callID"], "name": one["tool"]} if one["type"] == "tool" else one
        for one in parts
        if one["type"] != "step-finish"
    ]
    model = {"id": info["modelID"], "providerID": info["providerID"]}
    return {"time": info["time"], "model": model, "content": content, "tokens": info.get("tokens")}


def stored(folder: Path, *sessions: dict[str, Any]) -> Path:
    """The files of the program before 1.2."""
    storage = folder / "storage"
    for one in sessions:
        info = {"projectID": "p", **one["info"]}
        _write(storage / "session" / "p" / f"{info['id']}.json", info)
        for message in one["messages"]:
            own = message["info"]
            _write(storage / "message" / info["id"] / f"{own['id']}.json", own)
            for place, part in enumerate(message["parts"]):
                names = {"id": f"prt_{place}", "messageID": own["id"], "sessionID": info["id"]}
                _write(storage / "part" / own["id"] / f"prt_{place}.json", names | part)
    return storage


def _write(path: Path, content: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2))


MAIN = session(
    1,
    ("user", [say("be brief", synthetic=True), say("go")], {}),
    ("assistant", [say("I look"), call("read", "c1"), finish(tokens(10, 5, 100))], {"tokens": tokens(1, 1)}),
    (
        "assistant",
        [call("task", "c2", sessionId="ses_2"), call("bash", "c3", "error")],
        {"tokens": tokens(20, 6)},
    ),
    ("user", [say("attached", synthetic=True), {"type": "file", "url": "x"}], {}),
    ("user", [{"type": "subtask", "prompt": "review it", "agent": "r", "description": "d"}], {}),
    (
        "assistant",
        [say("done")],
        {"tokens": tokens(4, 2, thought=3, total=6), "error": {"name": "MessageAbortedError"}},
    ),
)
CHILD = session(
    2, ("user", [say("look")], {}), ("assistant", [call("grep", "c4"), finish(tokens(900, 90))], {}), parent=1
)
GRANDCHILD = session(3, ("assistant", [say("x")], {"tokens": tokens(7, 1, thought=2)}), parent=2)


def facts(found: list[Run]) -> list[object]:
    """All of the runs but the white space of arguments."""
    return [
        (one.uid, names(one), one.tokens, one.bill, one.prompt, one.texts, one.status, one.rank, one.source)
        for one in found
    ]


def of_documents(folder: Path, *sessions: Json) -> list[Run]:
    """The runs of one document a session, every other one indented."""
    paths = [
        put(folder, json.dumps(one, indent=None if n % 2 else 2).encode(), f"{n}.json")
        for n, one in enumerate(sessions)
    ]
    return runs(read(*paths))


def test_a_message_of_the_user_is_a_run(tmp_path: Path) -> None:
    path = put(tmp_path, json.dumps(MAIN, indent=2).encode())
    first, second = runs(read(path))
    assert recognise(path) == "opencode"
    assert (names(first), first.prompt, first.texts, first.model) == (
        ["read", "task", "bash"],
        "go",
        ("I look",),
        "m",
    )
    assert first.usage is not None
    assert (first.usage.input, first.usage.cache_read, first.usage.output, first.provider) == (
        30,
        100,
        11,
        "p",
    )
    assert (second.prompt, second.tokens, second.status, second.uid) == (
        "review it",
        6,
        "aborted",
        "opencode/prompt/msg_1_4",
    )
    assert first.ended_at_ms == START + 102_000


def test_the_database_and_the_documents_give_the_same_runs(tmp_path: Path) -> None:
    wanted = of_documents(tmp_path, MAIN, CHILD, GRANDCHILD)
    bill = {(row.owner, row.tokens) for row in wanted[0].bill}
    assert bill == {("agent", 141), ("sub-agent", 990 + 10)}
    others = [
        runs(read(database(tmp_path, MAIN, CHILD, GRANDCHILD))),
        of_documents(tmp_path, GRANDCHILD, CHILD, MAIN),
        runs(read(put(tmp_path, lines([MAIN, CHILD, GRANDCHILD]), "joined"))),
    ]
    assert [facts(one) for one in others] == [facts(wanted)] * 3


def test_rows_that_only_the_log_holds_are_read_and_nothing_is_written_beside(tmp_path: Path) -> None:
    path = database(tmp_path)
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("INSERT INTO session VALUES ('ses_1', NULL, 't', 0)")
        for place, role in enumerate(("user", "assistant")):
            data = json.dumps({"role": role, "time": {"created": START}})
            part = json.dumps(say("go") if role == "user" else call("read", "c"))
            base.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (f"m{place}", place, data))
            base.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?)", (f"p{place}", f"m{place}", part))
        base.commit()
        before = {one.name: one.stat().st_mtime_ns for one in tmp_path.iterdir()}
        assert [names(run) for run in runs(read(path))] == [["read"]]
        assert {one.name: one.stat().st_mtime_ns for one in tmp_path.iterdir()} == before


def test_rows_that_are_no_json_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = database(tmp_path, MAIN)
    with closing(sqlite3.connect(path)) as base:
        base.execute("UPDATE part SET data = '{' WHERE id LIKE 'msg_1_1%' AND data LIKE '%I look%'")
        base.execute("INSERT INTO part VALUES ('x', 'msg_1_5', 'ses_1', ?)", (json.dumps({"type": "magic"}),))
        base.commit()
    entries = read(path)
    assert (len(rejected(entries)), len(runs(entries))) == (1, 2)
    assert len([one for one in entries if isinstance(one, Remark)]) == 1


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE message",
        "DROP TABLE part; CREATE VIEW part AS SELECT id, id message_id, session_id, data FROM message",
        "ALTER TABLE part ADD COLUMN more text AS (upper(data))",
    ],
)
def test_a_database_made_to_hurt_is_refused(tmp_path: Path, change: str) -> None:
    path = database(tmp_path, MAIN)
    with closing(sqlite3.connect(path)) as base:
        base.executescript(change)
    with (
        open_sources([path], format="opencode") as opened,
        pytest.raises(UnreadableSource, match="opencode database"),
    ):
        list(opened.sources[0].entries())


def turns(number: int, *tools: str) -> dict[str, Any]:
    """A session with one call and 1,100 tokens for each prompt."""
    messages: list[tuple[str, list[Json], Json]] = []
    for place, tool in enumerate(tools):
        messages.append(("user", [say(f"go {place}")], {}))
        messages.append(("assistant", [call(tool, f"c{place}")], {"tokens": tokens(1000, 100)}))
    return session(number, *messages)


@pytest.mark.parametrize("form", [database, newer, stored])
def test_a_fork_counts_its_history_once_and_keeps_its_sub_agents(
    tmp_path: Path, form: Callable[..., Path]
) -> None:
    child = session(2, ("assistant", [say("x")], {"tokens": tokens(7, 1)}), parent=1)
    main, longer = turns(1, "read"), turns(4, "read", "bash")
    for one in (main, longer):
        one["messages"][1]["parts"].append({"id": "prt_1_1", **call("task", "c9", sessionId="ses_2")})
    for place, message in enumerate(main["messages"]):
        longer["messages"][place]["info"]["time"] = message["info"]["time"]
    context = context_at(tmp_path / "a.db")
    answer = import_files(context, [form(tmp_path, longer, main, child)])
    assert (answer.runs, answer.duplicates + answer.updated) == (3, 1)
    with context.reading() as snapshot:
        rows = snapshot.connection.rows(
            "SELECT uid, tokens, session, (SELECT sum(input_tokens + output_tokens) FROM spent s"
            " WHERE s.learner_id = run.learner_id AND s.run_no = run.run_no AND by_sub_agent = 1)"
            " FROM run WHERE learner_id = ? ORDER BY run_no",
            [snapshot.learner_id],
        )
    assert [(row[1], row[3]) for row in rows] == [(1100, 8), (1100, None)]


@pytest.mark.parametrize("form", [database, newer, stored])
def test_each_store_gives_the_runs_of_the_documents(tmp_path: Path, form: Callable[..., Path]) -> None:
    child = session(2, ("assistant", [say("x")], {"tokens": tokens(7, 1)}), parent=1)
    main = turns(1, "read", "bash")
    main["messages"][1]["parts"].append({"id": "prt_1_1", **call("task", "c9", sessionId="ses_2")})
    wanted = of_documents(tmp_path, main, child)
    assert {(row.owner, row.tokens) for row in wanted[0].bill} == {("agent", 1100), ("sub-agent", 8)}
    assert facts(runs(read(form(tmp_path, main, child)))) == facts(wanted)


def test_a_session_in_the_frozen_and_in_the_new_tables_is_read_once(tmp_path: Path) -> None:
    old, grown, new = turns(1, "read"), turns(1, "read", "bash"), turns(3, "grep")
    database(tmp_path, old)
    found = read(newer(tmp_path, grown, new))
    assert [(one.uid, names(one), one.tokens) for one in runs(found)] == [
        ("opencode/prompt/msg_1_0", ["read"], 1100),
        ("opencode/prompt/msg_1_2", ["bash"], 1100),
        ("opencode/prompt/msg_3_0", ["grep"], 1100),
    ]


def test_a_file_of_the_storage_is_read_with_its_session_or_refused_by_name(tmp_path: Path) -> None:
    storage = stored(tmp_path, turns(1, "read"))
    part = next(storage.glob("part/*/*.json"))
    assert [names(run) for run in runs(read(part))] == [["read"]]
    for path in (part, *storage.glob("session/*/*.json")):
        (found,) = read(put(tmp_path, path.read_bytes()))
        assert isinstance(found, Rejected)
        assert "opencode from before 1.2" in found.reason


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("limits", [Limits(), Limits(line_bytes=1_000)])
def test_an_export_after_the_sentence_of_its_program_is_the_same(
    tmp_path: Path, end: bytes, limits: Limits
) -> None:
    document = json.dumps(MAIN, indent=2).encode()
    path = put(tmp_path, b"Exporting session: ses_1" + end + document)
    assert recognise(path) == "opencode"
    found, wanted = read(path, limits=limits), read(put(tmp_path, document, "alone"), limits=limits)
    assert (facts(runs(found)), rejected(found)) == (facts(runs(wanted)), [])


def test_documents_whose_ids_are_one_word_are_exact(tmp_path: Path) -> None:
    made = [turns(number, "read", "read", "bash") for number in range(3)]
    text = re.sub(
        r'"(msg_\w+|ses_\w+|prt_\w+|c\d)"', '"REDACTED"', "\n".join(json.dumps(one) for one in made)
    )
    found = read(put(tmp_path, text.encode(), "published"))
    assert [names(run) for run in runs(found)] == [["read"], ["read"], ["bash"]] * 3
    assert "share an id with another content" in "".join(one.text for one in found if isinstance(one, Remark))
