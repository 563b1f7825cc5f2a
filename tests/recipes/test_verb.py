"""The recipe "A verb", followed: a flow, a row, a command; then every door has it, and who may call it is tested."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.doors.examples import example_world
from tests.recipes.copy import Copy, recipe

_MOST_BY_HAND: Final = 3

_FLOW: Final = '''"""Count: how many arms there are of a type."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from core.flows.context import Context
from core.records.arm import ArmType
from core.store.reads import arm_columns


class CountAnswer(msgspec.Struct, frozen=True, kw_only=True):
    type: ArmType
    arms: int


def count(
    context: Context, type: Annotated[ArmType, Meta(description="The type of the arms.")]
) -> CountAnswer:
    """Count the listed arms of a type."""
    with context.reading() as snapshot:
        return CountAnswer(type=type, arms=len(arm_columns(snapshot, types=(type,))))
'''
_IMPORT: Final = """    from core.flows.count import count
"""
_BEFORE_IMPORT: Final = """    from core.flows.context import Context
"""
_ROW: Final = """    count = Verb("read", count, example={"type": "tool"})
"""
_BEFORE_ROW: Final = """    arms = Verb("read", judged_arms, route="records/arms")
"""
_COMMAND: Final = '''"""Counts: how many arms there are of a type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.doors.cli.program.app import reads
from core.doors.terminal import say

if TYPE_CHECKING:
    from core.flows.count import CountAnswer


@reads("count", examples=["count tool"])
def _say_count(result: CountAnswer) -> None:
    say(f"{result.arms:,} arms of type {result.type}.")
'''
_TESTS: Final = '''"""Count: arms of a type, none of another."""

from __future__ import annotations

from pathlib import Path

from core.flows.count import CountAnswer, count
from tests.doors.examples import example_world


def test_it_counts_arms_of_one_type(tmp_path: Path) -> None:
    context = example_world(tmp_path)
    assert count(context, "tool") == CountAnswer(type="tool", arms=2)
    assert count(context, "skill").arms == 0
'''
_CALLED: Final = """
import json
from core.doors.terminal import as_plain
from core.doors.verbs import verb
from core.flows.context import open_context
from core.settings import Settings

asked, context = verb("count"), open_context(Settings.from_environment(), create=False)
print(json.dumps(asked.plain(context, asked.respond(context, asked.decode({"type": "tool"})))))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The recipe followed to the letter."""
    copy = Copy(tmp_path_factory.mktemp("verb"))
    copy.add("core/flows/count.py", _FLOW)
    copy.insert("core/doors/verbs.py", _IMPORT, after=_BEFORE_IMPORT)
    copy.insert("core/doors/verbs.py", _ROW, after=_BEFORE_ROW)
    copy.add("core/doors/cli/counts.py", _COMMAND)
    copy.add("tests/flows/test_count.py", _TESTS)
    copy.write_guide()
    return copy


def python(copy: Copy, database: Path, code: str, *arguments: str) -> str:
    """What Python says of the copy's sources."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=copy.root,
        env={**copy.environment(), "ARMSCOPE_DATABASE": str(database)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_verb_is_a_flow_a_row_and_a_command(copy: Copy) -> None:
    """It changes the table of verbs and the generated parts of the guide, and no other file there is."""
    read = recipe("A verb")
    generated = {"core/guide/commands.md", "core/guide/python.md"}
    assert copy.changed() == {*generated, "core/doors/verbs.py"}
    assert copy.new() == {"core/doors/cli/counts.py", "core/flows/count.py", "tests/flows/test_count.py"}
    by_hand = (copy.changed() | copy.new()) - generated - {"tests/flows/test_count.py"}
    assert len(by_hand) <= _MOST_BY_HAND
    for named in (
        "`core/flows/`",
        "`core/doors/verbs.py`",
        "`core/doors/cli/`",
        "`core/guide/commands.md`",
        "`core/guide/python.md`",
        "`tests/flows/`",
    ):
        assert named in read


def test_every_door_has_it(copy: Copy, tmp_path: Path) -> None:
    example_world(tmp_path).store.close()
    database, line = tmp_path / "a.db", "from dashboard.launch import main; main()"
    said = json.loads(python(copy, database, line, "count", "tool", "--json"))
    assert said == {"type": "tool", "arms": 2}
    assert json.loads(python(copy, database, _CALLED)) == said
    assert python(copy, database, line, "count", "tool") == "2 arms of type tool.\n"
    listed = python(copy, database, line, "--help")
    assert re.search(r"^  count +Count the listed arms of a type\.$", listed, flags=re.MULTILINE)
    assert "The type of the arms." in python(copy, database, line, "count", "--help")


def test_the_tests_of_all_verbs_see_it(copy: Copy) -> None:
    """With every role, its input beside its flow, its answer behind every door, its place in the help."""
    copy.passes(
        "tests/flows/test_count.py",
        "tests/flows/test_authorisation.py",
        "tests/doors/test_verbs.py",
        "tests/doors/test_cli.py",
        "-k",
        "count or every_flow_that_takes or command_or_a_method or these_are_the_commands",
    )
