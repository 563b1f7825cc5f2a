"""What agents carry, on the overview: the answer comes first over imported runs, with its table and its date."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from core.flows.corrections import redo, undo
from core.flows.importing import import_files
from core.flows.inventory import carried, keep_inventory
from core.flows.settings import change
from core.installed.answer import machine_inventory
from core.records.inventory import MachineInventory
from dashboard import wording
from tests.dashboard.conftest import Open, check, is_text_only, texts
from tests.dashboard.test_overview_page import sick
from tests.dashboard.worlds import HOSTILE, context_at
from tests.test_inventory import LONG_AGO_MS, NOW_MS, PlannedSession, put, write_session, write_skill

DAY_MS = 86_400_000


def planted_home(folder: Path, *, n_sessions: int = 40) -> MachineInventory:
    """Two skills and a server, of which one skill is used."""
    home, project = folder / "home", folder / "secret-customer" / "shop"
    project.mkdir(parents=True)
    for name in ("idle", "busy"):
        write_skill(home / ".claude" / "skills", name, "does it", changed_ms=LONG_AGO_MS)
    put(home / ".claude.json", {"mcpServers": {"db": {"command": "x"}}})
    for number in range(n_sessions):
        session = PlannedSession(f"s{number}", project, NOW_MS - number * DAY_MS, skills=["idle", "busy"])
        session.loads = ["busy"] if number % 2 else []
        write_session(home, session)
    return machine_inventory(home, NOW_MS)


def cells(page: AppTest) -> dict[str, list[object]]:
    (table,) = (one.value for one in page.dataframe if "on offer" in one.value)
    return {str(name): list(column) for name, column in table.items()}


def test_the_answer_comes_first_over_imported_runs(open_page: Open, database: Path, tmp_path: Path) -> None:
    context = sick(database, run_class="imported")
    page = open_page()
    assert page.code[0].value.endswith("import ~/.claude/projects")
    keep_inventory(context, planted_home(tmp_path), machine="laptop")
    page = open_page()
    assert page.title[0].value.startswith("Of 2 loaded")
    assert "about 4 tokens" in page.title[0].value
    shown = cells(page)
    assert (shown["name"], shown["on offer"], shown["proposed"]) == (["idle"], [40], ["by name"])
    assert str(shown["why"][0]).endswith("7.2%")
    every = cells(open_page(carried="All"))
    assert {*every["name"]} == {"idle", "busy", "db"}
    assert dict(zip(every["name"], every["uses"], strict=True))["busy"] == 20
    some = cells(open_page(carried="All", carried_from="server db"))
    assert some["name"] == ["db"]
    check(open_page(carried="nonsense", carried_from="nothing", machine="none"))


def test_selected_runs_keep_their_own_sentence(open_page: Open, database: Path, tmp_path: Path) -> None:
    keep_inventory(sick(database), planted_home(tmp_path), machine="laptop")
    page = open_page()
    assert "loaded skills" not in page.title[0].value
    assert "What agents carry" in [str(one.value).partition(" :small")[0] for one in page.header]


def test_few_sessions_propose_nothing_and_say_so(open_page: Open, database: Path, tmp_path: Path) -> None:
    context = sick(database, run_class="imported")
    keep_inventory(context, planted_home(tmp_path, n_sessions=3), machine="laptop")
    page = open_page(carried="Proposed")
    words = "\n".join(texts(page))
    assert "below 30" in words
    assert "Nothing is proposed" in words
    assert not [one for one in page.dataframe if "on offer" in one.value]


def test_a_machine_without_agents_and_one_without_sessions(
    open_page: Open, database: Path, tmp_path: Path
) -> None:
    context = sick(database, run_class="imported")
    keep_inventory(context, machine_inventory(tmp_path / "nowhere", NOW_MS), machine="empty")
    assert "this machine" in open_page().title[0].value
    keep_inventory(context, planted_home(tmp_path, n_sessions=0), machine="empty")
    assert "No session" in open_page().title[0].value


def test_names_from_a_machine_stay_text(open_page: Open, database: Path, tmp_path: Path) -> None:
    context = sick(database, run_class="imported")
    answer = planted_home(tmp_path)
    items = tuple(
        replace(one, item=replace(one.item, name=name, server=name, project=name), why=name)
        for one in answer.items
        for name in HOSTILE
    )
    hostile = replace(answer, items=items, notes=HOSTILE, sentence=". ".join(HOSTILE))
    keep_inventory(context, hostile, machine="laptop")
    assert is_text_only(open_page(carried="All"))


def test_each_machine_has_its_own_answer(open_page: Open, database: Path, tmp_path: Path) -> None:
    context = sick(database, run_class="imported")
    keep_inventory(context, planted_home(tmp_path), machine="laptop")
    keep_inventory(context, machine_inventory(tmp_path / "nowhere", NOW_MS), machine="desktop")
    of_each = {one.inventory.loaded: one for one in carried(context, limit=9).machines}
    for loaded, words in ((0, "this machine"), (2, "Of 2 loaded")):
        one = of_each[loaded]
        label = f"{one.by}, {wording.day(one.at_ms)}, {one.machine}"
        assert words in open_page(machine=label).title[0].value
        assert words in open_page(machine=one.machine).title[0].value


def test_an_answer_goes_and_comes_back_with_its_import(database: Path, tmp_path: Path) -> None:
    """And without the machine's paths: they have names of customers, and a database may be shared."""
    context = context_at(database)
    answer = planted_home(tmp_path)
    sessions = tmp_path / "home" / ".claude" / "projects"
    act = import_files(context, [sessions]).id
    assert act is not None
    keep_inventory(context, answer, machine="laptop", act=act)
    (stored,) = carried(context).machines
    assert (stored.act, stored.by, stored.inventory.sentence) == (act, context.actor.name, answer.sentence)
    assert str(tmp_path) not in str(stored)
    assert "laptop" not in str(stored)
    undone = undo(context, act)
    assert carried(context).machines == ()
    redo(context, undone.undone)
    assert carried(context).machines == (stored,)
    keep_inventory(context, answer, machine="laptop")  # an import without news
    assert carried(context).machines[0].act == act


def test_money_is_named_where_the_model_has_prices_by_part(
    open_page: Open, database: Path, tmp_path: Path
) -> None:
    context = sick(database, run_class="imported")
    answer = replace(planted_home(tmp_path), carried=1_000, requests=11, model="large")
    keep_inventory(context, answer, machine="laptop")
    assert "at the prices of" not in "".join(texts(open_page()))
    change(context, "prices", {"large": 3.0})
    assert "at the prices of" not in "".join(texts(open_page())), "an input price alone is not enough"
    parts = {"input": 3, "cache_read": 0.3, "cache_write_5m": 3.75, "cache_write_1h": 6, "output": 15}
    change(context, "prices", {"large": parts})
    # 1,000 tokens written at 3.75 and read ten times at 0.30 dollars a million
    assert "about $0.0067 a session" in "".join(texts(open_page())).replace("\\", "")
