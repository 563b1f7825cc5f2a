"""The map is true: imports point one way, heavy libraries stay where they belong, public names explain themselves."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pickle
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import core
from core import errors
from core.errors import ArmscopeError
from core.names import RENAMED, Renamed
from core.version import __version__
from dashboard.pages import PAGES
from tests.conftest import ROOT
from tests.language import nodes_of, sources, tree_of

STAGES: list[set[str]] = [
    {"core.errors", "core.version", "core.names"},
    {"core.records"},
    {"core.settings", "core.records.actor", "core.columns", "core.files", "core.frames", "core.guide"},
    {"core.issuers", "core.spool", "core.upkeep"},
    {"core.maths", "core.detect", "core.secrecy"},
    {"core.store", "core.formats", "core.guidance"},
    {"core.installed"},
    {"core.flows"},
    {"core.demo", "core.explained"},
    {"core.doors"},
    {"core.adapters"},
    {"core.client"},
    {"core"},
    {"core.package"},
    {"dashboard"},
]
"""From the innermost outwards: a stage imports only from stages before it, or from within itself."""

AT_HOME = {
    "sqlalchemy": ("core.store",),
    "alembic": ("core.store",),
    "sqlite3": ("core.store", "core.formats.sqlite_file"),  # that reads databases of others
    "filelock": ("core.store",),
    "psycopg": ("core.store.engine",),
    "typer": ("core.doors", "dashboard.commands"),
    "plotly": ("dashboard.figures",),
    "pandas": ("dashboard", "core.frames"),
    "pyarrow": ("dashboard", "core.frames"),
    "streamlit": (
        "dashboard.app",
        "dashboard.app_pages",
        "dashboard.widgets",
        "dashboard.reading",
        "dashboard.actions",
        "dashboard.uploads",
        "dashboard.downloads",
        "dashboard.commands",
        "dashboard.server",
        "dashboard.gate",
        "dashboard.who",
        "dashboard.start_page",
        "dashboard.configuration",
    ),
    "jinja2": ("core.doors.http.api",),
    "starlette": ("core.doors.http.app", "core.doors.http.proxied", "dashboard.server", "dashboard.gate"),
    "yaml": ("core.installed.files",),
    "mcp": ("core.doors.mcp",),
    "mcp_types": ("core.doors.mcp",),
    "langchain": ("core.adapters.langchain",),
    "langchain_core": ("core.adapters.langchain", "core.adapters.langgraph"),
    "langgraph": ("core.adapters.langchain", "core.adapters.langgraph"),
    "agents": ("core.adapters.openai_agents",),
    "pydantic_ai": ("core.adapters.pydantic_ai",),
}
"""Which modules may import a library that is shut in one place."""

LAZY = (
    "core.installed.files",  # YAML, which the process of an agent does without
    "dashboard.commands",
    "dashboard.launch",
    "core.doors.cli",
    "core.doors.mcp.over_http",
    "core.formats",
    "core.store.schema",
    "core.store.store",
)
"""Modules whose functions may import: what only one command, one format or one migration needs."""

STRICT_RECORDS = {"numpy", "scipy", "time", "random", "os", "pathlib", "io", "logging"}
"""Nouns know no arrays, no clock, no dice and no files."""

ROWS_BY_POSITION = 185
"""Places in the store and the flows that read a row by a number. It may only fall."""

MOST_PARAMETERS = 12

MOST_SHARED_HELPERS = 202
"""Names of functions that three or more files of tests define; it only falls. `tests/worlds` has the builders."""

FORBIDDEN = {
    "unsafe_allow_html": r"unsafe_allow_html|allow_html",
    "pickle": r"\b([pP]ickle|dill|joblib)\b|import (marshal|shelve)",
    "yaml": r"\byaml\.(?!safe_load\b|YAMLError\b|SafeLoader\b)|from yaml",
    "eval": r"(?<![\w.])(eval|exec)\(",
    "shell": r"shell\s*=\s*True|os\.system|os\.popen",
    "bare type: ignore": r"#\s*type:\s*ignore(?!\[)",
    "unfinished": r"\b(TODO|FIXME|XXX|NotImplemented)\b",
    "a path of some machine": r"[\"'](/work|/tmp|/home|/root|/Users)\b",
}

MAY_SKIP = [
    "tests/conformance/environments.py",
    "tests/conformance/vectors.py",
    "tests/conftest.py",
    "tests/journeys/conftest.py",
    "tests/store/pooler.py",
    "tests/store/test_citus.py",
    "tests/store/test_every_engine.py",
    "tests/store/test_faults.py",
    "tests/test_deploy.py",
]
"""The real agent runs may be missing, Debian's Chromium and PgBouncer (`.ci/run` installs both), an SQLite that can
be listened to (Debian's can), a network to install other programs from to compare with, a system whose libpq tells
what it sends, one where a user may mount a small disk that is soon full (Debian's may), and a Citus cluster, which
no one can install in a moment. Files for production are checked by systemd, nginx and Prometheus, where they are.
Nothing else is skipped.
"""

NEEDED = {
    "core.adapters.langchain": "langchain",
    "core.adapters.langgraph": "langgraph",
    "core.adapters.openai_agents": "agents",
}
"""Modules that import a package which need not be installed."""

IMPORT_AFTER_CODE = {
    "core.package.armscope": "it first refuses another package named core",
    "dashboard.app": "it first puts the folder of the project on the path",
}
OURS = sources()
IMPORT = (ast.Import, ast.ImportFrom)
DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Import(NamedTuple):
    """One import statement: where, of what, and whether inside a function."""

    module: str
    line: int
    imported: str
    inside: bool


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    return tuple(_imports(module_of(path), tree_of(path), inside=False))


def _imports(module: str, node: ast.AST, *, inside: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        within = inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(module, child.lineno, alias.name, inside)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{module}:{child.lineno} imports relatively"
            assert child.module is not None
            yield from _names(module, child, child.module, inside)
        if not isinstance(child, ast.expr):
            yield from _imports(module, child, inside=within)


def _names(module: str, node: ast.ImportFrom, origin: str, inside: bool) -> Iterator[Import]:
    """``from core.flows import queries`` imports the module core.flows.queries, not only its package."""
    for alias in node.names:
        inner = f"{origin}.{alias.name}"
        path = ROOT / Path(*inner.split("."))
        is_module = path.with_suffix(".py").exists() or (path / "__init__.py").exists()
        yield Import(module, node.lineno, inner if is_module else origin, inside)


def stage_of(module: str) -> tuple[int, str]:
    """Number and name of the innermost stage a module belongs to."""
    if module == "core":
        return STAGES.index({"core"}), "core"
    for number, names in enumerate(STAGES):
        for name in names - {"core"}:
            if module == name or module.startswith(f"{name}."):
                return number, name
    raise AssertionError(f"{module} has no place on the map")


def is_within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def test_imports_point_inwards() -> None:
    assert [wrong for path in OURS for wrong in _outward(path)] == []


def _outward(path: Path) -> Iterator[str]:
    number, name = stage_of(module_of(path))
    for found in imports_of(path):
        if found.imported.split(".")[0] not in {"core", "dashboard"}:
            continue
        other_number, other_name = stage_of(found.imported)
        if other_name != name and other_number >= number:
            yield f"{found.module}:{found.line} imports {found.imported}: {name} may not know {other_name}"


def test_no_file_imports_itself_through_others() -> None:
    """Imports for types and in functions count too."""
    TopologicalSorter(
        {module_of(path): {one.imported for one in imports_of(path)} for path in OURS}
    ).prepare()


def test_heavy_libraries_stay_at_home() -> None:
    away = [
        f"{found.module}:{found.line} imports {found.imported}, which belongs to {', '.join(homes)}"
        for path in OURS
        for found in imports_of(path)
        if (homes := AT_HOME.get(found.imported.split(".")[0])) and not is_within(found.module, homes)
    ]
    assert away == []


def test_the_dashboard_knows_nothing_of_the_store() -> None:
    """It asks flows, and gets records: where and how something is kept is no page's business."""
    knowing = [
        f"{found.module}:{found.line} imports {found.imported}"
        for path in sources("dashboard")
        for found in imports_of(path)
        if is_within(found.imported, ("core.store",))
    ]
    assert knowing == []


def test_only_the_store_talks_to_the_database() -> None:
    """Whoever else is handed a snapshot or a transaction asks it through the store, never by its connection."""
    talking = {
        f"{module_of(path)}:{node.lineno}"
        for path in OURS
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr == "connection"
    }
    elsewhere = {place for place in talking if not place.startswith("core.store.")}
    assert elsewhere == set()
    assert talking, "the store itself talks"


def test_what_a_page_shows_knows_no_other_page() -> None:
    """A folder of widgets stands on what all pages share, which stands on no folder; pages meet in addresses only."""
    files = {path.stem for path in sources("dashboard/app_pages")} - {"__init__"}
    assert files == {page.name for page in PAGES}
    folders = {path.parent.name for path in sources("dashboard/widgets")} - {"widgets"}
    assert folders <= files | {"frame"}
    for path in sources("dashboard/widgets"):
        own = {"widgets", path.parent.name}
        for found in imports_of(path):
            parts = found.imported.split(".")
            if parts[:2] == ["dashboard", "widgets"]:
                folder = parts[2] if len(parts) > 2 and parts[2] in folders else "widgets"
                assert folder in own, f"{found.module}:{found.line} imports {found.imported}"


def test_pages_read_in_queries_and_write_in_actions() -> None:
    """Whatever else a page is made of knows what flows answer, and calls none."""
    pages = sources("dashboard/app_pages", "dashboard/widgets", "dashboard/figures", "dashboard/sentences")
    called = [
        f"{module_of(path)}:{node.lineno} {alias.name}"
        for path in [*pages, ROOT / "dashboard" / "app.py"]
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and is_within(node.module or "", ("core.flows",))
        for alias in node.names
        if alias.name[0].islower()
    ]
    assert called == []


def test_few_rows_are_read_by_position() -> None:
    places = [
        f"{module_of(path)}:{node.lineno}"
        for path in sources("core/store", "core/flows")
        if "migrations" not in path.parts
        for node in nodes_of(path)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "row"
        if re.fullmatch(r"-?\d+", ast.unparse(node.slice))
    ]
    assert len(places) <= ROWS_BY_POSITION, places


def test_functions_import_only_where_it_is_agreed() -> None:
    inside = [found for path in OURS for found in imports_of(path) if found.inside]
    strangers = [f"{found.module}:{found.line}" for found in inside if not is_within(found.module, LAZY)]
    assert strangers == []
    assert {found.module for found in inside} >= {"dashboard.commands", "core.store.schema"}


def test_a_file_begins_with_imports_then_constants() -> None:
    """A constant below a function or class needs one of the file, directly or through another such constant."""
    assert [below for path in sources("core", "dashboard", "tests") for below in _below(path)] == []


def _below(path: Path) -> Iterator[str]:
    defined: set[str] = set()
    has_code = False
    for node in tree_of(path).body:
        inner = node.body if isinstance(node, (ast.If, ast.Try)) else [node]
        if any(isinstance(one, IMPORT) for one in inner):
            if has_code and module_of(path) not in IMPORT_AFTER_CODE:
                yield f"{module_of(path)}:{node.lineno} imports below code"
            continue
        has_code = has_code or not isinstance(node, ast.Expr)
        if isinstance(node, DEFINITION):
            defined.add(node.name)
            continue
        names = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
        if (defined and not isinstance(node, (ast.Assign, ast.AnnAssign))) or defined & {
            one.id for one in names
        }:
            defined |= {one.id for one in names if isinstance(one.ctx, ast.Store)}
        elif defined and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            yield f"{module_of(path)}:{node.lineno} sets a constant below a function or class"


def test_nouns_know_no_arrays_clock_dice_or_files() -> None:
    for path in sources("core/records"):
        for found in imports_of(path):
            assert found.imported.split(".")[0] not in STRICT_RECORDS, f"{found.module}:{found.line}"


def test_scipys_parts_are_read_at_their_first_use(tmp_path: Path) -> None:
    """They take a process as long to load as a third of all else, and who records and verifies needs none."""
    at_once = [
        f"{found.module}:{found.line}"
        for path in OURS
        for found in imports_of(path)
        if is_within(found.imported, ("scipy.special", "scipy.stats"))
    ]
    assert at_once == []
    (tmp_path / "a.jsonl").write_text(
        '{"kind": "run", "uid": "r", "arms": ["tool:fs:Read"], "calls": ["Read"]}'
    )
    begun = (
        "import sys; from core import Client, open_learner\nClient\nwith open_learner('a.db') as learner:\n "
    )
    acts = (
        "learner.import_files('a.jsonl'), learner.select(['tool:fs:Read']), learner.reward('tool:fs:Read', 1)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", f"{begun}{acts}, learner.verify()\nprint(*sys.modules)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"scipy.special", "scipy.stats", "starlette"} & set(loaded.stdout.split())


def test_no_function_has_more_than_twelve_parameters() -> None:
    """More options are one keyword record: ``**options: Unpack[StepOptions]``."""
    wide = [
        f"{module_of(path)}.{node.name} has {count}"
        for path in OURS
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (count := _n_parameters(node.args)) > MOST_PARAMETERS
    ]
    assert wide == []


def _n_parameters(arguments: ast.arguments) -> int:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len(named) + (arguments.vararg is not None) + (arguments.kwarg is not None)


def test_the_environment_is_read_in_one_place() -> None:
    readers = set()
    for path in OURS:
        for node in nodes_of(path):
            is_read = isinstance(node, ast.Attribute) and node.attr in {
                "environ",
                "getenv",
                "environb",
                "putenv",
            }
            if is_read or (isinstance(node, ast.ImportFrom) and node.module == "os"):
                readers.add(module_of(path))
    # The second is a program of its own, which a person runs.
    assert readers == {"core.settings", "core.flows.trials.program"}


def test_every_folder_of_core_is_on_the_map() -> None:
    for path in OURS:
        stage_of(module_of(path))


def test_the_top_level_is_as_given() -> None:
    kept = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    caches = {name for name in kept if name.endswith(".egg-info")} | {"__pycache__", "build", "dist"}
    assert kept - caches == {"pyproject.toml", "dashboard", "core", "tests", "README.md"}


def test_a_helper_of_tests_is_defined_once() -> None:
    homes: dict[str, set[Path]] = {}
    for path in sources("tests"):
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
                homes.setdefault(node.name.lstrip("_"), set()).add(path)
    shared = sorted(name for name, files in homes.items() if len(files) >= 3)
    assert len(shared) <= MOST_SHARED_HELPERS, shared


@pytest.mark.parametrize("what", FORBIDDEN)
def test_forbidden_words_do_not_occur(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in OURS
        if pattern.search(text := path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_tests_skip_only_for_the_shared_data_and_the_browser() -> None:
    pattern = re.compile(r"pytest\.(skip|importorskip)|mark\.(skip|skipif|xfail)")
    skipping = [
        path.relative_to(ROOT).as_posix()
        for path in sources("tests")
        if path != Path(__file__) and pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert sorted(skipping) == MAY_SKIP


# Public names


def test_public_names_are_sorted_and_there() -> None:
    assert core.__all__ == sorted(core.__all__)
    assert len(set(core.__all__)) == len(core.__all__)
    for name in set(core.__all__) - {"__version__"}:
        assert getattr(core, name).__module__.startswith("core."), name


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(core.__path__, "core."):
        needed = NEEDED.get(found.name)
        if not found.name.startswith("core.store.migrations") and (needed is None or find_spec(needed)):
            yield importlib.import_module(found.name)


def _public(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name, value in vars(module).items():
        ours = getattr(value, "__module__", None) == module.__name__
        if ours and not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            yield name, value


def _says_itself(value: object) -> bool:
    """Error leaves are drawn in their module; plain shapes of a few fields say it by their names."""
    return inspect.isclass(value) and (
        issubclass(value, ArmscopeError) or hasattr(value, "__struct_fields__") or hasattr(value, "_fields")
    )


def test_every_public_function_and_class_of_core_says_what_it_answers() -> None:
    silent = [
        f"{module.__name__}.{name}"
        for module in _modules()
        for name, value in _public(module)
        if not _says_itself(value) and not (value.__doc__ or "").strip()
    ]
    assert silent == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        module_of(path)
        for path in OURS
        if path.name != "__init__.py" and ast.get_docstring(tree_of(path)) is None
    ]
    assert silent == []


def test_what_pages_keep_has_a_name_of_its_own() -> None:
    """Pictures and tables are kept by name for all pages: one name for two would show one in the other's place."""
    names = [
        _name_of(node.args[0])
        for path in sources("dashboard")
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"pictured_once", "pictured", "table_once"}
    ]
    assert None not in names, names
    assert len(names) == len(set(names)) > 10


def _name_of(question: ast.expr) -> object:
    """The constant that a question is, or begins with."""
    first = question.elts[0] if isinstance(question, ast.Tuple) else question
    return first.value if isinstance(first, ast.Constant) else None


# Errors


def _drawn() -> dict[str, tuple[str, str | None]]:
    """Name → code and parent, as the docstring of the errors draws them."""
    found: dict[str, tuple[str, str | None]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r'([\s│├└─]*)(\w+)\s+(?:code )?"(\w+)"', line)
        if match is None:
            continue
        depth, name, code = len(match[1]), match[2], match[3]
        above = [one for one in above if one[0] < depth]
        found[name] = (code, above[-1][1] if above else None)
        above.append((depth, name))
    return found


def _classes() -> dict[str, type[ArmscopeError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, ArmscopeError)
    }


def test_an_error_comes_whole_to_another_process() -> None:
    """A pool whose worker raises one would wait for ever for what it can't read."""
    for kind in _classes().values():
        problem = kind("It is wrong, got 1.", next_step="Send 2.")
        problem.lines = {3: "wrong"}  # type: ignore[attr-defined]
        come = pickle.loads(pickle.dumps(problem))
        assert type(come) is kind
        assert (come.problem, come.next_step, str(come), vars(come)) == (
            problem.problem,
            problem.next_step,
            str(problem),
            vars(problem),
        )


def test_the_error_tree_is_as_drawn() -> None:
    real = {
        name: (kind.code, None if kind is ArmscopeError else kind.__bases__[0].__name__)
        for name, kind in _classes().items()
    }
    assert _drawn() == real
    assert len(real) == len({kind.code for kind in _classes().values()}), "a code stands for one error"


@pytest.mark.parametrize("name", sorted(_classes()))
def test_every_error_has_the_one_shape(name: str) -> None:
    problem = _classes()[name]("Something is wrong.", next_step="Do this.")
    assert str(problem) == "Something is wrong. Do this."
    assert problem.as_answer() == {
        "ok": False,
        "error": "Something is wrong.",
        "code": _drawn()[name][0],
        "next": "Do this.",
    }


def test_every_error_that_is_raised_names_the_next_step() -> None:
    names = set(_classes())
    silent = []
    for path in OURS:
        for node in nodes_of(path):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id in names and all(keyword.arg != "next_step" for keyword in node.keywords):
                silent.append(f"{module_of(path)}:{node.lineno}")
    assert silent == []


def test_an_old_name_works_warns_once_and_has_a_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.names.RENAMED", {"OldArm": Renamed("Arm", "0.2.0")})
    with pytest.warns(DeprecationWarning, match="OldArm is Arm since armscope 0.2.0"):
        core.__getattr__("OldArm")
    assert core.__getattr__("OldArm") is core.Arm  # a second warning would be an error
    with pytest.raises(AttributeError):
        core.__getattr__("OlderArm")
    for name, row in RENAMED.items():
        assert name not in core.__all__
        assert row.replacement in core.__all__
        assert row.since == __version__, f"{name} was accepted for one version: remove it"
