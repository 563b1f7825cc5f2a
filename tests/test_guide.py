"""The guide: plain English, complete and current tables, links that lead somewhere, and code that runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from core import __version__, guide
from core.errors import NotFound
from core.formats import FORMATS
from core.records.learner import LearnerSettings
from tests.bench.servers import free_port
from tests.conftest import ROOT
from tests.engine import Cluster
from tests.guide import rewritten, tables
from tests.store.postgres import address
from tests.terminal import script, warm

TOPICS = [topic.name for topic in guide.topics()]
README = "README"
MOST_LINES = 150
MOST_WORDS = 25
USUAL_WORDS = 15
BANNED = re.compile(
    r"\b(told|tells?|telling|said|whoever|whomever|whatever|nobody|somebody|anybody|lest|anew|stand(?:s|ing)?|be it"
    r"|(?:the|a|this|that|one) (?:place|sight|glance|stretch|desk|moment))\b",
    re.IGNORECASE,
)
PATIENCE_S = 120
PACKAGE = f"{ROOT}:{ROOT / 'core' / 'package'}"
"""The project, and the folder with the module ``armscope``, which the guide imports."""

READ: Final = """
import os, sys
sys.path[1:1] = os.environ["PYTHONPATH"].split(":")
exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
"""
"""A program that runs its input like ``python -``, with the folders of PYTHONPATH first."""

every_topic = pytest.mark.parametrize("name", TOPICS)
every_text = pytest.mark.parametrize("name", [README, *TOPICS])

RUN_RARELY: Final = {"alerts", "environments", "evaluation", "openclaw", "operations", "people", "review"}
"""Topics whose code the long tests alone run."""


def text_of(name: str) -> str:
    """A topic as it lies on the disk, or the README."""
    path = ROOT / "README.md" if name == README else guide.path_of(name)
    return path.read_text(encoding="utf-8")


def prose_of(text: str) -> str:
    """A text without code, tables and the targets of links; a piece of code in a sentence is one word."""
    text = re.sub(r"<!-- generated: .*?<!-- end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(\||#|<!--|!\[).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]+`", "code", text)
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"<https?:[^>]+>", "address", text)


def sentences_of(text: str) -> list[str]:
    blocks = re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", prose_of(text), flags=re.MULTILINE)
    return [
        sentence
        for block in blocks
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(block.split()))
        if sentence
    ]


# Language


@every_text
def test_sentences_are_short(name: str) -> None:
    sentences = sentences_of(text_of(name))
    lengths = [len(sentence.split()) for sentence in sentences]
    assert [one for one, length in zip(sentences, lengths, strict=True) if length > MOST_WORDS] == []
    assert not lengths or sum(lengths) / len(lengths) <= USUAL_WORDS


@every_text
def test_no_banned_word_is_used(name: str) -> None:
    assert BANNED.findall(prose_of(text_of(name))) == []


def test_the_readme_is_short() -> None:
    assert len(text_of(README).splitlines()) <= MOST_LINES


# Topics


def test_every_file_is_a_topic() -> None:
    assert {path.stem for path in guide.path_of("start").parent.glob("*.md")} == set(TOPICS)
    table = text_of(README).partition("`armscope help` lists the topics.")[2]
    assert [name for name in TOPICS if f"[{name}](core/guide/{name}.md)" not in table] == []


@every_topic
def test_a_topic_has_a_title_and_a_first_sentence(name: str) -> None:
    (topic,) = [one for one in guide.topics() if one.name == name]
    assert text_of(name).startswith(f"# {topic.title}\n")
    assert 15 < len(topic.words) < 150
    assert topic.words.endswith(".")
    assert "<!--" not in guide.read(name)


def test_an_unknown_topic_has_near_ones() -> None:
    with pytest.raises(NotFound, match="Did you mean settings") as raised:
        guide.read("setings")
    assert "'setings'" in raised.value.problem
    with pytest.raises(NotFound, match="start, import"):
        guide.read("\0")
    assert guide.read(" Start ") == guide.read("start")


@every_text
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(name)):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        topic = file.removeprefix("core/guide/").removesuffix(".md") or name
        if file.endswith((".png", ".svg")):
            assert (ROOT / file).is_file(), target
            continue
        assert topic in TOPICS, target
        assert not anchor or anchor in {section.anchor for section in guide.sections(topic)}, target


# Tables


@every_topic
def test_tables_are_current(name: str) -> None:
    """`python -m tests.guide --write` writes them; then only a person can fill an empty cell."""
    assert rewritten(text_of(name)) == text_of(name)


@pytest.mark.parametrize(
    ("topic", "table", "may_be_empty"),
    [
        ("python", "verbs", set()),
        ("mcp", "tools", set()),
        ("import", "formats", set()),
        ("settings", "settings", set()),
        ("variables", "variables", set()),
        ("errors", "errors", {1}),
        ("http", "routes", set()),
        ("http", "doors", set()),
        ("data", "views", set()),
        ("http", "metrics", set()),
    ],
)
def test_tables_are_complete(topic: str, table: str, may_be_empty: set[int]) -> None:
    rows = tables(text_of(topic))[table]
    assert rows
    empty = [
        row[0] for row in rows for number, cell in enumerate(row) if not cell and number not in may_be_empty
    ]
    assert empty == []


def test_formats_and_settings_are_all_there() -> None:
    formats, settings = tables(text_of("import"))["formats"], tables(text_of("settings"))["settings"]
    assert {row[0].strip("`") for row in formats} == set(FORMATS)
    for name, _, _, inventory in formats:
        assert ("--tools FILE" in inventory) == FORMATS[name.strip("`")].takes_tools, name
    assert [row[0].strip("`") for row in settings] == list(LearnerSettings.__struct_fields__)


def test_every_variable_is_explained() -> None:
    code = "".join(
        path.read_text("utf-8") for path in (*ROOT.glob("core/**/*.py"), *ROOT.glob("dashboard/**/*.py"))
    )
    for name in set(re.findall(r"(?<!\w)_?ARMSCOPE_[A-Z_]*[A-Z]\b", code)):
        assert f"`{name}`" in text_of("variables") or name.startswith("ARMSCOPE_WEBHOOK_SECRET_"), name


def test_the_map_names_what_is_there() -> None:
    (tree,) = re.findall(r"^```\n(.*?)^```$", text_of("house"), flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"([a-z_]+(?:/|\.py))(?=\s)", tree):
        places = [ROOT / name, *(ROOT / room / name for room in ("core", "core/maths", "dashboard"))]
        assert any(place.exists() for place in places), name
    parts = [part for folder in ("core", "dashboard") for part in (ROOT / folder).iterdir()]
    for part in parts:
        name = f"{part.name}/" if part.is_dir() else part.name
        if not part.name.startswith("__") and part.suffix in {"", ".py"}:
            assert re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/])", tree), f"not on the map: {part}"


def test_recipes_are_steps_that_name_files() -> None:
    """At most eight steps each; what a recipe names is there, and it says what comes next."""
    _, *recipes = re.split(r"^## ", text_of("recipes"), flags=re.MULTILINE)
    for recipe in recipes:
        title = recipe.splitlines()[0]
        steps = re.findall(r"^(\d)\. ", recipe, flags=re.MULTILINE)
        assert steps == [str(number) for number in range(1, len(steps) + 1)], title
        assert 1 < len(steps) <= 8, title
        assert re.search(r"^Next: ", recipe, flags=re.MULTILINE), title
        for path in re.findall(r"`((?:core|dashboard|tests)/[\w/.]*)`", recipe):
            assert (ROOT / path).exists(), f"{title}: {path}"


def test_the_changelog_has_this_version() -> None:
    versions = re.findall(r"^## (\S+)", text_of("changelog"), flags=re.MULTILINE)
    assert __version__ in versions


# Code


class Block(NamedTuple):
    """A block of code: its language, whether it is for the long tests, its text."""

    language: str
    is_long: bool
    code: str


def blocks_of(name: str) -> list[Block]:
    found = re.findall(r"^```(\w*)( long)?\n(.*?)^```$", text_of(name), flags=re.MULTILINE | re.DOTALL)
    return [Block(language, bool(long), code) for language, long, code in found]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the commands `armscope` and `python`; what `python -` reads runs in a warm process, too."""
    folder = tmp_path_factory.mktemp("bin")
    script(folder / "armscope", *warm())
    script(folder / "python -", *warm(), "-c", READ)
    choice = f'[ "$1" = - ] && exec {shlex.quote(str(folder / "python -"))}'
    (folder / "python").write_text(f'#!/bin/sh\n{choice}\nexec {shlex.quote(sys.executable)} "$@"\n')
    (folder / "python").chmod(0o755)
    return folder


def script_of(blocks: list[Block]) -> str:
    """The blocks as one program of the shell, in order."""
    parts = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for number, block in enumerate(blocks):
        if block.language == "sh":
            parts.append(block.code)
        elif block.language == "python":
            parts.append(f"python - <<'END_OF_BLOCK'\n{block.code}END_OF_BLOCK")
        elif block.language == "json":
            parts.append(f"cat > block-{number}.jsonl <<'END_OF_BLOCK'\n{block.code}END_OF_BLOCK")
            parts.append(f"armscope --database block-{number}.db import block-{number}.jsonl")
    return "\n".join(parts)


def outputs_of(blocks: list[Block]) -> list[str]:
    """Lines that blocks of Python print as they show them: the comment after a ``print``, or comments below it.

    >>> outputs_of([Block("python", False, "print(1)  # 1\\nprint(2, end=sep)\\n# 2\\n# 3\\nx = 4  # no\\n")])
    ['1', '2', '3']
    """
    shown = []
    for block in blocks:
        is_below = False
        for line in block.code.splitlines() if block.language == "python" else ():
            words = line.strip()
            is_print = words.startswith("print(")
            if is_print and "  # " in words:
                shown.append(words.rpartition("  # ")[2])
            elif is_below and words.startswith("# "):
                shown.append(words[2:])
            is_below = is_print or (is_below and words.startswith("# "))
    return shown


def assert_shows(shown: list[str], printed: str) -> None:
    """Check that lines are among those that were printed, in their order."""
    lines = iter(printed.splitlines())  # `in` goes on from the line that it found, so the order counts
    assert [one for one in shown if one not in lines] == [], printed


RUN = [
    name
    for name in TOPICS
    if any(block.language in {"sh", "python"} and not block.is_long for block in blocks_of(name))
]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in RUN_RARELY else []) for name in RUN]
)
def test_code_runs_as_it_is_printed(name: str, commands: Path, tmp_path: Path) -> None:
    """In order, in a home of its own; only ports are others, so that several may run at once."""
    script = script_of([block for block in blocks_of(name) if not block.is_long])
    for port in ("8080", "8502"):
        script = script.replace(port, str(free_port()))
    done = _bash(script, tmp_path, f"{commands}:/usr/bin:/bin", timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert_shows(outputs_of([block for block in blocks_of(name) if not block.is_long]), done.stdout)


@pytest.mark.long
@pytest.mark.parametrize("name", RUN)
def test_code_runs_a_second_time(name: str, commands: Path, tmp_path: Path) -> None:
    """In the same home, as by a reader who repeats it."""
    script = script_of([block for block in blocks_of(name) if not block.is_long])
    for _ in range(2):
        here = script
        for port in ("8080", "8502"):
            here = here.replace(port, str(free_port()))
        done = _bash(here, tmp_path, f"{commands}:/usr/bin:/bin", timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr


def _bash(
    script: str, home: Path, path: str, *, timeout: float, package: str = PACKAGE
) -> subprocess.CompletedProcess[str]:
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("ARMSCOPE_", "XDG_"))}
    variables = {
        **outer,
        "HOME": str(home),
        "PATH": path,
        "PYTHONPATH": package,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        ["bash", "-c", script],
        cwd=home,
        env=variables,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.parametrize("name", [README, "python", "loops", "environments"])
def test_pages_show_what_their_code_prints(name: str) -> None:
    """Else the comparison of outputs would compare nothing."""
    assert outputs_of(blocks_of(name))


@every_text
def test_data_are_well_formed(name: str) -> None:
    for block in blocks_of(name):
        if block.language == "jsonc":
            json.loads(block.code)
        elif block.language == "toml":
            tomllib.loads(block.code)
        assert block.language in {"", "sh", "python", "json", "jsonc", "toml"}


def waited_for(script: str) -> str:
    """A program whose dashboards are opened, looked at once they answer, and closed, instead of waited for."""
    looked_at = (
        r"\1 > dashboard.log 2>&1 & dashboard=$!\n"
        "until page=$(grep -o 'http://127.0.0.1:[0-9]*' dashboard.log | head -1) && curl -sf -o page.html $page; do"
        " kill -0 $dashboard || { cat dashboard.log; exit 1; }; sleep 0.2; done\n"
        "kill $dashboard; wait $dashboard || true"
    )
    return re.sub(r"^(\S*armscope (?:demo|serve))$", looked_at, script, flags=re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("name", [README, "start"])
def test_an_installation_runs_as_it_is_printed(name: str, tmp_path: Path) -> None:
    """In a copy of the project, in an environment of its own; of the README all but its tests."""
    for part in (".streamlit", "README.md", "core", "dashboard", "pyproject.toml"):
        source = ROOT / part
        shutil.copytree(source, tmp_path / part) if source.is_dir() else shutil.copy(source, tmp_path / part)
    sessions = tmp_path / ".claude" / "projects"
    sessions.mkdir(parents=True)
    (sessions / "one.jsonl").write_bytes(one_session())
    blocks = [block for block in blocks_of(name) if "pytest" not in block.code]
    path = f"{tmp_path / '.venv' / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin"
    done = _bash(waited_for(script_of(blocks)), tmp_path, path, timeout=900, package="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_shows(outputs_of(blocks), done.stdout)


@pytest.mark.long
def test_a_copy_to_a_server_runs_as_it_is_printed(commands: Path, tmp_path: Path) -> None:
    with address() as place:
        cluster = Cluster(place)
        server = cluster.at(tmp_path / "guide.db")
        script = script_of(blocks_of("operations")).replace(
            "postgresql://mara@db.example/armscope", f"'{server.url}'"
        )
        done = _bash(script, tmp_path, f"{commands}:/usr/bin:/bin", timeout=PATIENCE_S)
        cluster.close()
    assert done.returncode == 0, done.stdout + done.stderr


def one_session() -> bytes:
    """A prompt of Claude Code with one call."""
    lines = [
        {"type": "user", "uuid": "u1", "sessionId": "s", "message": {"role": "user", "content": "Read it."}},
        {
            "type": "assistant",
            "uuid": "u2",
            "parentUuid": "u1",
            "sessionId": "s",
            "message": {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "a.txt"}}],
            },
        },
    ]
    return b"".join(
        json.dumps({"timestamp": "2026-01-31T08:00:00Z", **line}).encode() + b"\n" for line in lines
    )
