"""What people try first: the version, help, options wherever they stand, the one learner there is, a typo."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from core import open_learner
from core.demo import LEARNER
from core.demo.build import build
from core.doors.cli import app
from core.doors.cli.program.groups import MEANT, SECTIONS
from core.errors import InvalidSetting
from core.version import __version__
from dashboard import commands
from tests.conftest import ROOT
from tests.doors.conftest import RUN, A, Shell, document, error
from tests.doors.test_cli import COMMANDS
from tests.engine import file_database
from tests.formats.builders import lines
from tests.terminal import script, warm

READING = (
    ("status",),
    ("posteriors",),
    ("arms",),
    ("runs",),
    ("run", "r1"),
    ("learners",),
    ("verify",),
    ("settings",),
    ("select",),
    ("export", "out.jsonl"),
    ("backup", "copy.db"),
    ("report", "report.html"),
    ("reward", A, "1"),
    ("note", A, "hm"),
    ("undo", "reward-1"),
    ("reset", "--yes"),
)
"""Commands that need something to be there."""

_ONE_AFTER_THE_OTHER = """
import json, os, sys
sys.path.insert(0, sys.argv.pop(1))
commands = json.loads(sys.argv.pop(1))
from dashboard.launch import main
codes = []
for command in commands:
    while "=" in command[0]:
        name, _, os.environ[name] = command.pop(0).partition("=")
    sys.argv[1:] = command
    try:
        main()
    except SystemExit as end:
        codes.append(end.code or 0)
    for stream in (sys.stdout, sys.stderr):
        stream.write("\\f")
        stream.flush()
sys.stdout.write(json.dumps(codes))
"""
"""Starting the program takes longer than what these commands do: several of them are given in one start."""

LONG = f"tool:messaging:{'long_name_' * 3}"


# Version and help


def test_it_says_which_version_it_is(shell: Shell) -> None:
    for option in ("--version", "-V"):
        assert shell(option) == (0, f"armscope {__version__}\n", "")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_an_example_that_its_own_options_allow(name: str, shell: Shell) -> None:
    code, out, _ = shell(name, "-h")
    assert code == 0
    if "\nCommands:\n" not in out:
        _check_examples(name, name, out)
        return
    parts = re.findall(r"^  ([a-z-]+)  ", out.split("\nCommands:\n", 1)[1], re.MULTILINE)
    assert len(parts) > 1, out
    for part in parts:
        code, out, _ = shell(name, part, "-h")
        assert code == 0
        # A group without a part is its list.
        _check_examples(f"{name}( {part})?" if part == "list" else f"{name} {part}", f"{name} {part}", out)


def _check_examples(allowed: str, required: str, out: str) -> None:
    options, examples_text = out.split("Examples:\n", 1)
    examples = examples_text.splitlines()
    assert all(re.match(rf"    armscope (.* )?{allowed}\b", example) for example in examples), examples
    assert any(re.match(rf"    armscope (.* )?{required}\b", example) for example in examples), examples
    for option in re.findall(
        r" (--[a-z-]+)", "\n".join(example.partition(" -- ")[0] for example in examples)
    ):
        assert option in options, option
    assert "<bool>" not in out


def test_help_names_a_switch_without_a_value(shell: Shell) -> None:
    assert re.search(r"^  --correct  +Replace", shell("reward", "--help")[1], re.MULTILINE)
    assert shell("-h") == shell("--help")


def test_a_wrong_command_line_names_the_help_that_helps(shell: Shell) -> None:
    assert "armscope reward --help" in error(shell("reward", "--json"), 2, "usage")["next"]


def test_each_natural_word_means_a_command_and_is_none(shell: Shell) -> None:
    names = {one for members in SECTIONS.values() for one in members}
    assert set(MEANT.values()) <= names
    assert not MEANT.keys() & names
    failed = error(shell("acts", "--json"), 2, "usage")
    assert failed["error"].endswith("mean 'audit'?")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--database", "typo/a.db", "import", "runs.jsonl"), "invalid_setting", "folder must exist, got"),
        (
            ("--database", "typo/a.db", "settings", "set", "k", "3"),
            "invalid_setting",
            "folder must exist, got",
        ),
        (("--database", "typo/", "status"), "invalid_setting", "must be a file, got the folder typo/"),
        (("import", "typo.jsonl"), "unreadable_source", "no file or folder of that name"),
        (("inventory", "--home", "typo"), "invalid_input", "must be a folder"),
        (("prune", "--home", "typo"), "invalid_input", "must be a folder"),
    ],
)
def test_a_mistyped_path_is_named_and_nothing_is_made(
    words: tuple[str, ...], code: str, message: str, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text('{"kind": "run", "uid": "r", "arms": ["tool:fs:Read"]}\n')
    failed = error(shell(*words, "--json"), 1, code)
    assert message in failed["error"]
    assert "typo" in failed["error"]
    assert failed["next"]
    assert not [*tmp_path.rglob("typo*")]


def test_a_learner_opens_in_no_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"mkdir -p .*typo"):
        open_learner(tmp_path / "typo" / "runs.db")
    with pytest.raises(InvalidSetting, match="must be a file"):
        open_learner(f"{tmp_path}/typo/")
    assert not (tmp_path / "typo").exists()
    with open_learner(tmp_path / "runs.db") as learner:
        assert learner.posteriors() == []


@pytest.mark.parametrize("asked", [["--help"], ["--version"], ["import", "--help"], ["status", "-h"]])
def test_help_and_version_wait_for_neither_scipy_nor_the_store(asked: list[str], tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = {asked!r}\n"
        "from dashboard.launch import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'scipy', 'numpy', 'sqlalchemy', 'sqlite3', 'core.store', 'core.flows', 'core.formats', 'rich'}\n"
        "print('loaded:', sorted(heavy & sys.modules.keys()))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert found.stdout.endswith("loaded: []\n")


# Options


def test_options_stand_before_the_command_or_after_it(filled: Shell, tmp_path: Path) -> None:
    plain = document(filled("status", "--json"))
    assert document(filled("--json", "status")) == plain
    copy = tmp_path / "copy.db"
    filled("backup", copy)
    for arguments in (("--database", copy, "status"), ("status", "--database", copy)):
        assert document(filled(*arguments, "--json"))["database"] == str(copy)
    assert document(filled("--database", "nowhere.db", "status", "--database", copy, "--json"))["runs"] == 2
    assert document(filled("posteriors", "--learner", "default", "--json")) == document(
        filled("--learner", "default", "--json", "posteriors")
    )


def test_a_text_that_looks_like_an_option_stays_a_text(filled: Shell) -> None:
    code, out, _ = filled("note", A, "--", "--json")
    assert code == 0
    assert out.startswith("Noted about")


def test_quiet_says_nothing_but_what_was_asked_for_and_what_is_wrong(filled: Shell, tmp_path: Path) -> None:
    told = [
        filled("import", tmp_path / "runs.jsonl", "-q"),
        filled("-q", "reward", A, "1"),
        filled("verify", "--quiet"),
        filled("export", tmp_path / "out.jsonl", "-q"),
        filled("backup", tmp_path / "copy.db", "-q"),
        filled("settings", "set", "k", "3", "-q"),
    ]
    assert told == [(0, "", "")] * len(told)
    assert A in filled("posteriors", "-q")[1]
    code, out, err = filled("reward", "tool:x:nope", "1", "-q")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")


# Whose data


def test_the_only_learner_is_the_one_that_is_meant(tmp_path: Path, shell: Shell) -> None:
    demo = tmp_path / "demo.db"
    build(demo, n_runs=40)
    (tmp_path / "runs.jsonl").write_bytes(lines([RUN]))
    on = ("--database", demo)
    assert document(shell(*on, "status", "--json"))["learner"] == LEARNER
    arm = document(shell(*on, "posteriors", "--json"))[0]["arm"]
    given = document(shell(*on, "reward", arm, "1", "--json"))
    assert given["learner"] == LEARNER
    assert f"Written to learner {LEARNER}." in shell(*on, "undo", given["id"])[1]
    refused = error(shell(*on, "import", tmp_path / "runs.jsonl", "--json"), 1, "unknown_learner")
    assert f"--learner {LEARNER}" in refused["next"]
    assert "--learner default" in refused["next"]
    assert [one["name"] for one in document(shell(*on, "learners", "--json"))] == [LEARNER]
    told = document(shell(*on, "--learner", "mine", "import", tmp_path / "runs.jsonl", "--json"))
    assert (told["learner"], told["runs"]) == ("mine", 1)


def test_several_learners_are_named_and_none_is_guessed(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(lines([RUN]))
    for name in ("support", "sales"):
        document(shell("--learner", name, "import", tmp_path / "runs.jsonl", "--json"))
    for command in (("status",), ("posteriors",), ("reward", A, "1"), ("import", tmp_path / "runs.jsonl")):
        refused = error(shell(*command, "--json"), 1, "unknown_learner")
        assert "'sales', 'support'" in refused["error"]
        assert "--learner sales" in refused["next"]
    assert {"sales", "support"} <= set(shell("learners")[1].split())
    assert document(shell("verify", "--json"))["learners"] == ["sales", "support"]
    assert document(shell("backup", tmp_path / "copy.db", "--json"))["size_bytes"] > 0
    asked = document(shell("doctor", "--json"))
    assert [one["name"] for one in asked["learners"]] == ["sales", "support"]
    assert {one["learner"] for one in asked["imports"]} == {"sales", "support"}
    out = shell("reward", A, "1", "--learner", "sales")[1]
    assert out.splitlines()[-1].endswith("armscope --learner sales undo reward-1"), "it names the same data"
    document(shell("learners", "--create", "default", "--json"))
    assert document(shell("status", "--json"))["learner"] == "default"


@pytest.mark.long  # it builds the whole demo, as the use of the installed wheel does in each CI
def test_the_demo_prints_what_to_copy(shell: Shell, tmp_path: Path) -> None:
    build(tmp_path / "my demo.db")
    out = shell("demo", "--build-only", "--database", tmp_path / "my demo.db")[1]
    assert out.splitlines()[-1].endswith(
        f"armscope --database '{tmp_path / 'my demo.db'}' --learner {LEARNER} status"
    )


# Nothing there


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_what_only_reads_makes_nothing(shell: Shell, tmp_path: Path, command: tuple[str, ...]) -> None:
    before = sorted(tmp_path.rglob("*"))
    for database in ("typo.db", "no/such/folder/x.db"):
        refused = error(shell("--database", database, *command, "--json"), 1, "no_database")
        assert database in refused["error"]
        assert "armscope import" in refused["next"]
    assert sorted(tmp_path.rglob("*")) == before


# Forms for programs


def test_rows_come_as_csv_tsv_and_lines(filled: Shell) -> None:
    for command in ("posteriors", "arms", "runs"):
        rows = document(filled(command, "--json"))
        as_lines = [json.loads(line) for line in filled(command, "--format", "nl")[1].splitlines()]
        assert as_lines == rows
        heads, *cells = list(csv.reader(io.StringIO(filled(command, "--format", "csv")[1])))
        assert len(cells) == len(rows)
        assert heads == list(dict.fromkeys(heads))
        tabbed = [line.split("\t") for line in filled(command, "--format", "tsv")[1].splitlines()]
        assert tabbed == [heads, *cells]
    heads, first, *_ = list(csv.reader(io.StringIO(filled("posteriors", "--format", "csv")[1])))
    told = dict(zip(heads, first, strict=True))
    assert (told["arm"], told["alpha"], told["prior_beta"]) == (A, "4.0", "1.0")
    error(filled("arms", "--format", "csv", "--json"), 2, "usage")


def test_no_cell_is_a_formula_or_an_order_to_a_terminal(shell: Shell, tmp_path: Path) -> None:
    run = {**RUN, "uid": "=cmd|' /C calc'!A0", "model": 'a\x1b[2Jb,"c"'}
    (tmp_path / "runs.jsonl").write_bytes(lines([run]))
    shell("import", tmp_path / "runs.jsonl")
    for form in ("csv", "tsv"):
        out = shell("runs", "--format", form)[1]
        assert "\x1b" not in out
        assert "'=cmd|" in out
    _, row = list(csv.reader(io.StringIO(shell("runs", "--format", "csv")[1])))
    assert 'a\\x1b[2Jb,"c"' in row


# Where it is read


def in_one_start(
    *commands: Sequence[str | Path],
    cwd: Path,
    before: str = "",
    start: Sequence[str] = (sys.executable,),
    **environment: str,
) -> list[tuple[int, bytes, bytes]]:
    """Exit code, output and errors of each command; ``before`` is run before the program is loaded.

    As in a shell, a command may begin with NAME=VALUE, which holds from then on.
    """
    asked = json.dumps([list(map(str, command)) for command in commands])
    found = subprocess.run(
        [*start, "-c", before + _ONE_AFTER_THE_OTHER, str(ROOT), asked],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )
    *outs, codes = found.stdout.split(b"\f")
    *errs, rest = found.stderr.split(b"\f")
    assert (found.returncode, rest, len(outs)) == (0, b"", len(commands)), found
    return list(zip(json.loads(codes), outs, errs, strict=True))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three arms with long names, one run; only read."""
    folder = tmp_path_factory.mktemp("long")
    arms = [f"{LONG}{number}" for number in range(3)]
    run = {**RUN, "arms": arms, "calls": [arms[0].split(":")[2]]}
    (folder / "runs.jsonl").write_bytes(lines([run]))
    imported(folder)
    return folder / "a.db"


def imported(folder: Path) -> None:
    with open_learner(folder / "a.db") as learner:
        assert learner.import_files(folder / "runs.jsonl").runs == 1


def test_a_narrow_terminal_is_enough(database: Path, tmp_path: Path) -> None:
    commands = (("posteriors",), ("arms",), ("runs",), ("run", "r1"), ("status",))
    asked = [(columns, *command) for columns in (60, 80, 99, 100, 160) for command in commands]
    told = in_one_start(
        *((f"COLUMNS={columns}", "--database", database, *command) for columns, *command in asked),
        cwd=tmp_path,
        before="import sys; sys.stdout.isatty = lambda: True\n",
        start=warm(),
        NO_COLOR="1",
    )
    for (columns, name, *_), (code, said, _) in zip(asked, told, strict=True):
        assert code == 0, (columns, name)
        out = said.decode()
        table = out.split("\n\n", 1)[1] if name == "run" else out  # sentences are left to the terminal
        assert max(map(len, table.splitlines())) <= columns, (columns, name)
        if name in {"posteriors", "arms", "run"}:
            assert all(f"{LONG}{number}" in out for number in range(3)), (columns, name, "an id is never cut")
        if name == "run" and columns < 100:
            assert "why: " in out, columns
            assert "what would have flipped it: " in out, columns


def test_where_a_program_reads_nothing_is_folded_or_padded(database: Path, shell: Shell) -> None:
    for command in (("posteriors",), ("run", "r1"), ("runs",), ("status",)):
        _, out, _ = shell("--database", database, *command)
        assert all(line == line.rstrip() for line in out.splitlines())
    said = shell("--database", database, "run", "r1")[1]
    assert len([line for line in said.splitlines() if "tool:messaging:" in line]) == 3


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("iso-8859-1", marks=pytest.mark.long), "cp437"])
def test_any_encoding_will_do(tmp_path: Path, encoding: str) -> None:
    run = {**RUN, "arms": ["tool:x:日本", A]}
    (tmp_path / "runs.jsonl").write_bytes(lines([run]))
    imported(tmp_path)
    asked = (["run", "r1"], ["posteriors"], ["posteriors", "--format", "csv"], ["run", "--help"])
    told = in_one_start(
        *(["--database", "a.db", *command] for command in asked),
        cwd=tmp_path,
        start=warm(),
        PYTHONIOENCODING=encoding,
    )
    assert [(code, err) for code, _, err in told] == [(0, b"")] * len(asked)


# Completion


def completed(cwd: Path, *lines: str) -> list[list[str]]:
    """What bash offers after each of these and a tab: it cuts words at colons, and puts in the last piece."""
    bash = shutil.which("bash")
    assert bash is not None
    folder = cwd / "bin"
    folder.mkdir(exist_ok=True)
    script(folder / "armscope", *warm())
    asked = ['eval "$(armscope --show-completion bash)"']
    for typed in lines:
        pieces = [piece for piece in re.split(r"(:)|\s", typed) if piece]
        if typed.endswith(" "):
            pieces.append("")
        words = " ".join(f"'{piece}'" for piece in pieces)
        asked.append(
            f"COMP_WORDS=({words}); COMP_CWORD={len(pieces) - 1}; COMPREPLY=(); "
            "_armscope_completion armscope; printf '%s\\n' \"${COMPREPLY[@]}\" $'\\f'"
        )
    found = subprocess.run(
        [bash, "--norc", "-c", "; ".join(asked)],
        cwd=cwd,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "ARMSCOPE_DATABASE": str(cwd / "a.db")}
        | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stderr == ""
    *offered, rest = found.stdout.split("\f\n")
    assert (rest, len(offered)) == ("", len(lines))
    return [[word for word in one.split("\n") if word] for one in offered]


def test_a_tab_completes_commands_options_and_arms(tmp_path: Path) -> None:
    hostile = "tool:x:$(touch gone)"
    run = {**RUN, "arms": [A, "tool:other:b", "skill:review:main", hostile]}
    (tmp_path / "runs.jsonl").write_bytes(lines([run]))
    imported(tmp_path)
    commands, options, *arms = completed(
        tmp_path,
        "armscope rew",
        "armscope reward --o",
        "armscope reward sk",
        "armscope reward tool:ot",
        "armscope reward tool:other:",
        "armscope reset --arm tool:x",
        "armscope --learner ",
    )
    assert commands == ["reward"]
    assert "--outcome" in options
    skill, server, its_tools, obeyed, learners = arms
    assert skill == ["skill:review:main"]
    assert server == ["other:a", "other:b"]
    assert its_tools == ["a", "b"]
    assert obeyed == [], "what a shell would obey is not offered"
    assert learners == ["default"]
    (tmp_path / "a.db").unlink()
    assert completed(tmp_path, "armscope reward tool:ot") == [[]]
    assert not (tmp_path / "a.db").exists()
    assert not (tmp_path / "gone").exists()


def test_the_program_knows_itself_by_name() -> None:
    assert app.info.name == "armscope"


# Without the dashboard


def without(*modules: str) -> str:
    """A program that can't import these."""
    return (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {modules!r}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "import importlib.util; real = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name: None if name in {modules!r} else real(name)\n"
    )


def test_only_what_draws_needs_what_draws(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(lines([RUN]))
    works = (
        ["import", "runs.jsonl"],
        ["status"],
        ["select"],
        ["verify"],
        ["export", "out.jsonl"],
        ["--help"],
    )
    draws = (["serve"], ["demo"], ["report", "report.html"])
    told = in_one_start(
        *(["--database", "a.db", *arguments] for arguments in works),
        *(["--database", "a.db", *arguments, "--json"] for arguments in draws),
        cwd=tmp_path,
        before=without(*commands.NEEDED),
        HOME=str(tmp_path),
    )
    assert [(code, err) for code, _, err in told[: len(works)]] == [(0, b"")] * len(works)
    for code, out, _ in told[len(works) :]:
        refused = json.loads(out)
        assert (code, refused["code"]) == (1, "not_installed")
        assert refused["next"] == f"Install with: pip install {' '.join(commands.NEEDED.values())}"
    ((_, out, _),) = in_one_start(["serve", "--json"], cwd=tmp_path, before=without("plotly"))
    assert json.loads(out)["next"] == "Install with: pip install plotly"


# Doctor


def test_the_doctor_says_what_is_asked_first(filled: Shell, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_bytes(lines([{**RUN, "uid": "r3", "calls": ["a", "Reed"]}]) + b"{\n")
    filled("import", tmp_path / "more.jsonl")
    found = document(filled("doctor", "--json"))
    assert (found["armscope"], found["schema"], found["problem"]) == (
        __version__,
        found["schema_needed"],
        None,
    )
    assert (found["database"], found["writer"]) == (str(tmp_path / "a.db"), None)
    assert [(one["name"], one["runs"]) for one in found["learners"]] == [("default", 3)]
    (last,) = found["imports"]
    assert (last["id"], last["lines_rejected"], last["calls_without_an_arm"]) == ("import-2", 1, ["Reed"])
    assert found["free_bytes"] > 0
    said = filled("doctor")[1]
    assert "calls without an arm: Reed" in said
    assert re.search(rf"^armscope +{re.escape(__version__)} \(Python ", said)


def test_the_doctor_names_who_is_writing(filled: Shell, tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner, file_database(learner.context.store).locked():
        writer = document(filled("doctor", "--json"))["writer"]
    assert writer.startswith(f"process {os.getpid()} (")


@pytest.mark.parametrize(
    ("content", "code"), [(None, "no_database"), (b"Dear diary\n" * 99, "store_damaged")]
)
def test_the_doctor_answers_whatever_is_wrong(
    shell: Shell, tmp_path: Path, content: bytes | None, code: str
) -> None:
    path = tmp_path / "odd" / "b.db"
    if content is not None:
        path.parent.mkdir()
        path.write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    got, out, err = shell("doctor", "--database", path, "--json")
    found = json.loads(out)
    assert (got, err, found["problem"]["code"], found["schema"]) == (1, "", code, None)
    assert found["problem"]["next"] in shell("doctor", "--database", path)[1]
    assert sorted(tmp_path.rglob("*")) == before
