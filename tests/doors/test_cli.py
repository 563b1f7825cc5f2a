"""The command line: one JSON document, stable keys, exit codes, one shape of error, hostile text as text."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core import guide
from core.doors.cli.program import groups
from core.doors.verbs import VERBS
from core.flows.learn import record
from core.store.schema import HEAD
from tests.conftest import ROOT
from tests.doors.conftest import RUN, A, Shell, document, error
from tests.doors.test_verbs import PYTHON, line_of
from tests.formats.builders import lines
from tests.guide import command_tree
from tests.terminal import warm
from tests.worlds import a_run, context_at

NO_VERBS = set(
    """
    api chat copy demo doctor help hook ledger mcp mcp-proxy prune report restore spool savings serve upgrade
    with config
    """.split()  # noqa: SIM905 - one word per line is a page
)
"""Commands of a dashboard, of the file beneath a context, of several verbs, or of a report."""

COMMANDS = {line_of(one)[0] for one in VERBS if one.name not in PYTHON} | NO_VERBS

BAD: dict[str, tuple[tuple[str, ...], int, str]] = {
    "hostile arm id": (("reward", "tool:x:a\x1b[31m", "1", "--create"), 1, "invalid_arm"),
    "NaN": (("reward", A, "nan"), 1, "invalid_reward"),
    "infinity": (("reward", A, "inf"), 1, "invalid_reward"),
    "1e400": (("reward", A, "1e400"), 1, "invalid_reward"),
    "words for a number": (("reward", A, "good"), 2, "usage"),
    "unknown outcome": (("reward", A, "--outcome", "fine"), 2, "usage"),
    "correction of a skipped run": (("reward", A, "1", "--run", "r2", "--correct"), 1, "not_applicable"),
    "text that is no text": (("reward", A, "1", "--reason", "\udcff"), 1, "invalid_input"),
    "file that is no text": (("import", "nope\udcff"), 1, "unreadable_source"),
    "malformed file": (("import", "malformed"), 1, "unreadable_source"),
    "truncated file": (("import", "truncated"), 1, "unreadable_source"),
    "truncated archive": (("import", "truncated.gz"), 1, "unreadable_source"),
    "foreign file": (("import", "foreign"), 1, "unreadable_source"),
    "empty file": (("import", "empty"), 1, "unreadable_source"),
    "database as a transcript": (("import", "a.db"), 1, "unreadable_source"),
    "empty folder": (("import", "folder"), 1, "unreadable_source"),
    "unknown unit": (("import", "runs.jsonl", "--unit", "day"), 2, "usage"),
    "tools that are none": (("import", "runs.jsonl", "--tools", "malformed"), 1, "unreadable_source"),
    "nothing to import": (("import",), 2, "usage"),
    "reset without asking": (("reset",), 2, "usage"),
    "erase without asking": (("erase", "--run", "r1"), 2, "usage"),
    "compact without asking": (("compact", "--keep-days", "9"), 2, "usage"),
    "setting of wrong shape": (("settings", "set", "k", "[" * 5000), 1, "invalid_setting"),
    "half a setting": (("settings", "set", "k"), 2, "usage"),
    "unknown verb of settings": (("settings", "drop", "k"), 2, "usage"),
    "arms that are none": (("select", "--arms", "malformed"), 1, "invalid_input"),
    "arms nested without end": (("select", "--arms", "nested"), 1, "invalid_input"),
    "no such arms file": (("select", "--arms", "nope"), 1, "invalid_input"),
    "arms with a bad id": (("select", "--arms", "badids"), 1, "invalid_arm"),
    "budget without end": (("select", "--budget", "1" * 30), 1, "invalid_setting"),
    "negative budget": (("select", "--budget", "-1"), 2, "usage"),
    "too many runs": (("runs", "--limit", "99999999999"), 2, "usage"),
    "no runs": (("runs", "--limit", "0"), 2, "usage"),
    "export to two places": (("export", "-"), 1, "invalid_input"),
    "export to nowhere": (("export", "no/such/folder"), 1, "invalid_input"),
    "backup over a file": (("backup", "foreign"), 1, "invalid_input"),
    "backup under a file": (("backup", "foreign/copy.db"), 1, "invalid_input"),
    "unknown command": (("frobnicate",), 2, "usage"),
    "unknown option": (("status", "--frobnicate"), 2, "usage"),
    "one argument too many": (("status", "now"), 2, "usage"),
}

WRONG_NUMBERS: list[tuple[list[str], int, str, str]] = [
    (["--", "1.0000001"], 1, "invalid_reward", "got 1.0000001"),
    (["--", "-0.0000001"], 1, "invalid_reward", "got -1e-07"),
    *(([value], 2, "usage", f"got {value!r}") for value in ("1_0", "0_1", "abc", "")),
    *(([value], 2, "usage", f"can't be negative, got {value}") for value in ("-1", "-.5", "-0.1")),
]


# Keys


def test_settings_are_said_as_they_are_set(filled: Shell) -> None:
    said = filled("settings", "set", "meta_tools", '["message", "say"]')[1]
    assert said.startswith('meta_tools: ["message"] -> ["message","say"].')
    code, _, problem = filled("settings", "set", "phase", "Passive")
    assert (code, problem.splitlines()[0]) == (1, "error: phase must be active or passive, got 'Passive'.")
    problem = filled("settings", "set", "priors", '{"tool": 5}')[2]
    assert "priors.tool must be" in problem


def test_guidance_is_said_line_by_line(filled: Shell, tmp_path: Path) -> None:
    (tmp_path / "arms.json").write_text(json.dumps([A, {"key": "tool:web:s", "token_cost": 500}]))
    said = filled("select", "--arms", tmp_path / "arms.json", "--budget", "100")[1]
    assert 'Left out: "s".' in said.splitlines()
    assert "\\n" not in said


def test_a_copy_is_read_a_schema_upgraded_and_an_export_written_to_standard_output(
    filled: Shell, tmp_path: Path
) -> None:
    assert document(filled("backup", tmp_path / "copy.db", "--json"))["size_bytes"] > 0
    assert document(filled("--database", tmp_path / "copy.db", "status", "--json"))["runs"] == 2
    assert document(filled("upgrade", "--json"))["after"] == HEAD
    assert document(filled("export", tmp_path / "out.jsonl", "--json"))["runs"] == 2
    code, out, _ = filled("export", "-")
    assert (code, out) == (0, (tmp_path / "out.jsonl").read_text(encoding="utf-8"))


def test_backups_and_exports_name_the_head_on_a_line_of_its_own(filled: Shell, tmp_path: Path) -> None:
    head = document(filled("status", "--json"))["head"]
    assert document(filled("verify", "--json"))["heads"] == {"default": head}
    for asked in (("backup", tmp_path / "copy.db"), ("export", tmp_path / "out.jsonl"), ("verify",)):
        _, out, _ = filled(*asked)
        assert [line for line in out.splitlines() if line.endswith(f": {head}")], out
        assert "\\n" not in out


def test_verify_exits_with_1_and_the_differences(filled: Shell, tmp_path: Path) -> None:
    driver = sqlite3.connect(tmp_path / "a.db")
    driver.execute("UPDATE posterior SET pulls = pulls + 1 WHERE arm_no = 1")
    driver.commit()
    driver.close()
    found = document(filled("verify", "--json"), code=1)
    assert (found["ok"], found["differences_count"]) == (False, 1)
    assert set(found["differences"][0]) == {"learner", "table", "key", "stored", "recomputed"}
    code, out, _ = filled("verify")
    assert code == 1
    assert "posterior" in out


# Where the data are


def test_the_database_is_a_path_a_url_or_a_variable(
    filled: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for database in (tmp_path / "a.db", f"sqlite:///{tmp_path}/a.db", "a.db", "sqlite:///a.db"):
        assert document(filled("--database", database, "status", "--json"))["runs"] == 2
    monkeypatch.setenv("ARMSCOPE_DATABASE", f"sqlite:///{tmp_path}/a.db")
    assert document(filled("status", "--json"))["runs"] == 2
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "data"))
    monkeypatch.setenv("ARMSCOPE_DATABASE", "")
    usual = tmp_path / "home" / "data" / "armscope" / "armscope.db"
    assert str(usual) in error(filled("status", "--json"), 1, "no_database")["error"]
    document(filled("import", tmp_path / "runs.jsonl", "--json"))
    assert document(filled("status", "--json"))["database"] == str(usual)


@pytest.mark.parametrize("database", ["", "mysql://host/db", "sqlite:///", "~nobody-of-that-name/a.db"])
def test_what_is_no_database_is_refused(shell: Shell, database: str) -> None:
    error(shell("--database", database, "status", "--json"), 1, "invalid_setting")


def test_learners_are_apart(filled: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = error(filled("--learner", "support", "status", "--json"), 1, "unknown_learner")
    assert "default" in answer["error"]
    assert document(filled("--learner", "support", "import", tmp_path / "runs.jsonl", "--json"))["runs"] == 2
    document(filled("--learner", "support", "reset", "--yes", "--json"))
    assert document(filled("posteriors", "--json"))[0]["pulls"] == 1
    monkeypatch.setenv("ARMSCOPE_LEARNER", "support")
    assert document(filled("posteriors", "--json"))[0]["pulls"] == 0
    assert document(filled("--learner", "default", "status", "--json"))["learner"] == "default"
    for name in ("", "a\nb", "x" * 129):
        error(filled("--learner", name, "status", "--json"), 1, "invalid_setting")


# Errors


def test_the_script_of_a_trial_is_a_new_file(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names").write_text("one\ntwo\n", encoding="utf-8")
    document(shell("trial", "plan", "tool:web:search", "--tasks", "names", "--json"))
    write = ("trial", "script", "1", "--harness", "command", "--command", "true", "--json")
    assert "Leave --tasks out" in error(shell(*write, "--tasks", "names"), 1, "invalid_input")["next"]
    assert document(shell(*write)) == document(shell(*write))
    assert "--to" in error(shell(*write, "--grade", "true"), 1, "invalid_input")["next"]


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_a_clear_error_and_changes_nothing(filled: Shell, tmp_path: Path, what: str) -> None:
    (tmp_path / "malformed").write_text('{"kind": "run", ', encoding="utf-8")
    (tmp_path / "truncated").write_text(
        '[{"task_id": 1, "trial": 0, "reward": 1, "traj": [', encoding="utf-8"
    )
    (tmp_path / "truncated.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03abc")
    (tmp_path / "foreign").write_text("Dear diary,\n", encoding="utf-8")
    (tmp_path / "nested").write_text("[" * 100_000, encoding="utf-8")
    (tmp_path / "badids").write_text('["tool:x", "Read"]', encoding="utf-8")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    arguments, code, kind = BAD[what]
    before = filled("status", "--json"), sorted(tmp_path.rglob("*"))
    answer = error(filled(*arguments, "--json"), code, kind)
    assert answer["error"].isprintable()
    assert len(answer["error"]) < 1_000
    assert "--yes" in answer["error"] or not what.endswith("without asking")
    assert (filled("status", "--json"), sorted(tmp_path.rglob("*"))) == before
    assert document(filled("verify", "--json"))["ok"]
    if what != "export to two places":
        got, out, err = filled(*arguments)
        assert (got, out) == (code, ""), "for people too, errors go to standard error"
        assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "no_database"),
        (b"Dear diary,\n" * 99, "store_damaged"),
        (b"SQLite format 3\x00" + b"\x01" * 9_000, "store_damaged"),
    ],
)
def test_the_database_named_is_none_of_ours(shell: Shell, tmp_path: Path, content: bytes, kind: str) -> None:
    (tmp_path / "b.db").write_bytes(content)
    making = () if kind == "no_database" else (("upgrade",), ("import", tmp_path))
    for command in (("status",), ("verify",), ("reward", A, "1"), *making):
        error(shell("--database", "b.db", *command, "--json"), 1, kind)
    assert (tmp_path / "b.db").read_bytes() == content


def test_a_wrong_schema_is_named_with_the_next_step(filled: Shell, tmp_path: Path) -> None:
    driver = sqlite3.connect(tmp_path / "a.db")
    driver.execute("UPDATE alembic_version SET version_num = '0000'")
    driver.commit()
    driver.close()
    for command in (("status",), ("reward", A, "1"), ("verify",), ("export", "-")):
        arguments = command if command[0] == "export" else (*command, "--json")
        code, out, err = filled(*arguments)
        assert code == 1
        assert "armscope upgrade" in out + err


# Help


def test_these_are_theprogram() -> None:
    assert set(command_tree()) == COMMANDS


def _leaves(name: str) -> list[Any]:
    """Commands of a name: itself, or its sub-commands."""
    command = command_tree()[name]
    return list(command.commands.values()) if hasattr(command, "commands") else [command]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_every_option_is_explained_in_short_sentences(name: str) -> None:
    assert command_tree()[name].help
    for command in _leaves(name):
        assert command.help
        silent = [item.name for item in command.params if not getattr(item, "help", None)]
        assert set(silent) <= {"help"}
        assert "--json" in {option for item in command.params for option in item.opts}
        texts = [command.help, *(getattr(item, "help", None) or "" for item in command.params)]
        sentences = [part for text in texts for part in re.split(r"(?<=[.;:])\s+|\n\n", text)]
        assert max(len(sentence.split()) for sentence in sentences) <= 25


def test_the_program_alone_lists_its_commands_by_section(shell: Shell) -> None:
    code, out, err = shell()
    assert (code, err) == (0, "")
    assert set(COMMANDS) <= set(out.split())
    assert groups.OTHER not in {line.rstrip(":") for line in out.splitlines()}


def test_help_prints_the_guide(shell: Shell) -> None:
    names = [topic["name"] for topic in document(shell("help", "--json"))]
    assert names
    assert set(names) <= set(shell("help")[1].split())
    assert shell("help", names[0])[1].startswith("# ")
    error(shell("help", "no-such-topic", "--json"), 1, "not_found")


GROUPS = sorted(name for name in COMMANDS if len(_leaves(name)) > 1 and name not in {"spool", "hook"})


def test_help_of_a_command_is_what_its_option_prints(shell: Shell) -> None:
    for path in (*((name,) for name in sorted(COMMANDS)), ("member", "add"), ("alert", "test")):
        if path[0] in guide.NAMES:
            continue
        assert shell("help", *path)[1].startswith(shell(*path, "--help")[1].rstrip()), path


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_alone_prints_its_help_before_there_is_a_database(
    shell: Shell, tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.db").unlink()
    code, out, err = shell(name)
    assert (code, err) == (0, "")
    assert out.startswith(shell(name, "--help")[1].rstrip())
    error(shell(name, "--json"), 1, "no_database")


def test_no_message_has_a_line_end_as_two_characters(shell: Shell) -> None:
    """Each command without a required argument, and with wrong choices."""
    for name in sorted(COMMANDS):
        for command in _leaves(name):
            path = (name,) if command.name == name else (name, command.name)
            wrong: list[tuple[str, ...]] = [()] * any(one.required for one in command.params)
            wrong += [(one.opts[0], "?") for one in command.params if one.opts[0] in {"--format", "--rule"}]
            for more in wrong:
                code, out, err = shell(*path, *more)
                assert code == 2
                assert not re.search(r"\\[nt]", out + err), (*path, *more)


@pytest.mark.parametrize(
    "line",
    [
        ("settings",),
        ("settings", "--json", "list"),
        ("episodes", "--model", "m", "each", "--limit", "3"),
        ("episodes", "--model=m"),
        ("episodes", "compare", "--models", "a", "b", "sums"),
        ("queue", "--quiet"),
    ],
)
def test_a_sub_command_may_follow_options_and_may_be_left_out(filled: Shell, line: tuple[str, ...]) -> None:
    assert filled(*line)[0] == (1 if "compare" in line else 0)


def test_a_summary_starts_without_the_slow_part_of_scipy(filled: Shell, tmp_path: Path) -> None:
    """``scipy.stats`` takes longer to import than each of these commands takes to answer."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from dashboard.launch import main\n"
        "for name in ('status', 'posteriors', 'arms'):\n"
        "    sys.argv[3:] = [name]\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code, name\n"
        "    assert 'scipy.stats' not in sys.modules, name"
    )
    line = [sys.executable, "-c", code, "--database", str(tmp_path / "a.db")]
    assert subprocess.run(line, capture_output=True, check=False, cwd=tmp_path).returncode == 0


# For people


def test_what_a_person_reads_names_the_way_back(filled: Shell, tmp_path: Path) -> None:
    assert "armscope undo reward-1" in filled("reward", A, "1")[1]
    assert "(feedback, rounded to millionths)" in filled("reward", A, "0.123456789")[1]
    assert "rewarded 0.25 (feedback);" in filled("reward", A, "0.25")[1]
    assert "armscope undo reset-1" in filled("reset", "--yes")[1]
    assert "armscope undo undo-1" in filled("undo", "reward-1")[1]
    assert "armscope undo setting-1" in filled("settings", "set", "k", "3")[1]
    assert "already" in filled("settings", "set", "k", "3")[1]
    assert "no act to undo" in filled("import", tmp_path / "runs.jsonl")[1]
    (tmp_path / "more.jsonl").write_bytes(lines([{**RUN, "uid": "r3"}]))
    assert "armscope undo import-2" in filled("import", tmp_path / "more.jsonl")[1]
    assert "Everything equals" in filled("verify")[1]
    for command in ("posteriors", "arms"):
        assert "too early: 19 more pulls" in filled(command)[1]


def test_an_empty_database_says_what_comes_next(shell: Shell) -> None:
    assert "armscope import" in shell("status")[1]


# As a program


def program(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*warm(), *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_program_answers_and_leaves_a_database_that_is_closed(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(lines([RUN]))
    found = program("--database", "a.db", "import", "runs.jsonl", "--json", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["runs"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "a.db.lock", "runs.jsonl"]
    shown = program("--database", "a.db", "posteriors", cwd=tmp_path)
    assert A in shown.stdout
    assert "\x1b" not in shown.stdout, "no colours where a program reads"
    wrong = program("--database", "a.db", "reward", A, "1.7", "--json", cwd=tmp_path)
    assert (wrong.returncode, json.loads(wrong.stdout)["code"]) == (1, "invalid_reward")


def test_commands_other_than_serve_and_demo_do_not_wait_for_streamlit(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import dashboard.commands;"
        "print([name for name in ('streamlit', 'plotly', 'pandas', 'alembic') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert found.stdout == "[]\n"


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(lines([{**RUN, "uid": f"r{number}"} for number in range(3_000)]))
    program("--database", "a.db", "import", "runs.jsonl", cwd=tmp_path)
    for extra in ([], ["--json"]):
        child = subprocess.Popen(
            [*warm(), "--database", "a.db", "runs", "--limit", "3000", *extra],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        problem = child.stderr.read()
        child.stderr.close()
        child.wait(300)
        assert b"Traceback" not in problem
        assert b"Exception ignored" not in problem


@pytest.mark.parametrize(("value", "code", "kind", "shown"), WRONG_NUMBERS)
def test_a_number_that_is_no_reward_is_shown_as_it_was_given(
    filled: Shell, value: list[str], code: int, kind: str, shown: str
) -> None:
    answer = error(filled("reward", A, "--json", *value), code, kind)["error"]
    assert shown in answer
    assert "No such option" not in answer


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "huge"])
@pytest.mark.parametrize(
    "command", [("select", "--arms"), ("import", "runs.jsonl", "--tools"), ("restore", "--yes")]
)
def test_a_file_that_would_never_end_is_answered_at_once(
    filled: Shell, tmp_path: Path, kind: str, command: tuple[str, ...]
) -> None:
    path = tmp_path / "given"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(20 << 30)
    else:
        path = Path("/dev/zero")
    assert document(filled(*command, path, "--json"), 1)["code"] in {
        "invalid_input",
        "unreadable_source",
        "store_damaged",
    }


def test_a_role_that_was_taken_away_is_told_in_the_audit(shell: Shell) -> None:
    joined = ("--issuer", "https://id.example.com", "--subject")
    for line in (
        ("member", "add", "ann", *joined, "u-1", "--role", "operator"),
        ("member", "add", "jo", *joined, "u-2", "--role", "viewer"),
        ("member", "role", "jo", "none"),
    ):
        assert shell(*line)[0] == 0
    latest, *_ = (line for line in shell("audit", "--installation")[1].splitlines() if "role" in line)
    assert "role none" in latest


def test_a_plan_prints_the_command_that_starts_it(shell: Shell, tmp_path: Path) -> None:
    arm = "tool:other:<b>$(id) 'a'"
    context = context_at(tmp_path / "a.db")
    record(context, a_run("r", ["<b>$(id) 'a'"], run_class="selected"))
    context.store.close()
    code, out, _ = shell("experiment", "plan", arm, "--metric", "tokens", "--smallest", "50")
    printed = shlex.split(out.splitlines()[-1].partition("armscope ")[2])
    assert (code, printed[:5]) == (0, ["experiment", "start", arm, "--metric", "tokens"])
    assert shell(*printed)[0] == 0
    shown = shell("experiment", "show", arm)[1]
    assert "pending 0 and 0," in shown
    assert shown.endswith("armscope undo experiment-1\n")
