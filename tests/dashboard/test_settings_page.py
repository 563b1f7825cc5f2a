"""The settings page: every setting of the record, previewed, checked at its field, sent together, taken back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import NumberInput

from core.flows import queries
from core.flows.corrections import undo
from core.flows.settings import change, changed
from core.records.actor import Actor
from core.records.bill import Price
from core.records.learner import LearnerSettings
from core.records.transcript import texts_policy
from dashboard import wording
from dashboard.sentences import settings as sentences
from dashboard.widgets.address import SETTINGS_PART
from dashboard.widgets.settings import FIELDS
from tests.dashboard.conftest import Open, check, texts
from tests.dashboard.worlds import context_at, keys, world

NAMES = LearnerSettings.__struct_fields__


def key(name: str, learner: str = "default") -> str:
    return f"setting {learner}/{name}"


def part(name: str) -> str:
    """The group that a setting's field stands in, as the address names it."""
    return next(group for group, names in sentences.SETTING_GROUPS.items() if name in names)


def settings_of(database: Path) -> LearnerSettings:
    return queries.frame(context_at(database)).settings


def test_no_setting_of_the_record_is_forgotten() -> None:
    assert set(sentences.SETTING_WORDS) == set(NAMES)
    assert sorted(name for group in sentences.SETTING_GROUPS.values() for name in group) == sorted(NAMES)
    assert set(FIELDS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_field_shows_reads_as_the_value_in_force(name: str) -> None:
    odd = {
        "baseline_rate": 0.123456789,
        "prices": {"a = b": 0.1234567, "large": 3.0},
        "seed_arms": ("tool:x:a b", "file:workspace:é"),
    }
    chosen = msgspec.convert({name: odd.get(name, getattr(LearnerSettings(), name))}, LearnerSettings)
    field = FIELDS[name]
    read = field.read(field.write(getattr(chosen, name)))
    assert getattr(msgspec.convert({name: read}, LearnerSettings), name) == getattr(chosen, name)


def test_every_setting_is_on_the_page_with_its_meaning(open_page: Open, database: Path) -> None:
    world(database, keys(5), 12)
    for group, names in sentences.SETTING_GROUPS.items():
        page = open_page("settings", part=group)
        said = " ".join(texts(page))
        for words in (sentences.SETTING_WORDS[name] for name in names):
            assert words.explains in said
            assert said.count(f"Allowed: {words.allowed}") <= 1
            assert words.allowed is None or words.allowed in said
            assert said.count("whole numbers, 0 to 10¹²") <= 1
        assert page.button(key="send settings").disabled


def test_the_highest_price_that_the_page_names_is_taken(open_page: Open, database: Path) -> None:
    world(database, keys(5), 5)
    allowed = sentences.SETTING_WORDS["prices"].allowed or ""
    highest = allowed.removeprefix("0 to ").partition(" ")[0].replace(",", "")
    page = open_page("settings", part=part("prices"))
    page.text_area(key=key("prices")).set_value(f"large = {int(highest) * 10}").run()
    assert page.button(key="send settings").disabled
    page.text_area(key=key("prices")).set_value(f"large = {highest}").run()
    page.button(key="send settings").click().run()
    assert settings_of(database).prices == {"large": float(highest)}


def test_a_price_is_set_by_model_and_part_previewed_and_taken_back(open_page: Open, database: Path) -> None:
    context = world(database, keys(5), 12)
    page = open_page("settings", part=part("prices"))

    def cell(model: str, name: str) -> NumberInput:
        return page.number_input(key=f"{key('prices')} {model} {name}")

    assert cell("large", "input").value is None, "a model of its runs has a row before it has a price"
    cell("large", "input").set_value(4.0).run()
    cell("large", "output").set_value(20.0).run()
    page.text_input(key=f"{key('prices')} other").set_value("mini-2").run()
    cell("mini-2", "input").set_value(0.5).run()
    check(page)
    assert cell("large", "cache_read").placeholder == "0.4, assumed"
    assert settings_of(database).prices == {}
    cells = [cell for table in page.table for cell in table.value.to_numpy().ravel().tolist()]
    shown = " ".join(map(str, cells)).replace("\\", "").replace("\u2060", "")
    assert "large: input $4.00, output $20.00; mini-2: input $0.50" in shown
    page.button(key="send settings").click().run()
    large = Price(input_micro=4_000_000, output_micro=20_000_000)
    assert settings_of(database).prices == {"large": large, "mini-2": 0.5}
    cell("mini-2", "input").set_value(None).run()
    page.button(key="send settings").click().run()
    assert settings_of(database).prices == {"large": large}, "a model without a part has no price"
    undo(context, "setting-2")
    assert settings_of(database).prices == {"large": large, "mini-2": 0.5}


def test_a_part_changed_in_its_field_keeps_what_is_billed_apart(open_page: Open, database: Path) -> None:
    context = world(database, keys(5), 12)
    dated = [{"input": 1, "valid_from": "2026-01-01"}, {"input": 2, "valid_from": "2026-02-01"}]
    change(context, "prices", {"large": {"input": 3, "fast": 2, "search": 0.01}, "old": dated})
    page = open_page("settings", part=part("prices"))
    page.number_input(key=f"{key('prices')} large input").set_value(4.0).run()
    latest = page.number_input(key=f"{key('prices')} old input")
    assert (latest.value, latest.disabled) == (2.0, True)
    page.button(key="send settings").click().run()
    expected = changed(
        LearnerSettings(), "prices", {"large": {"input": 4, "fast": 2, "search": 0.01}, "old": dated}
    )
    assert settings_of(database).prices == expected.prices


def test_a_draft_stays_while_another_group_is_open(open_page: Open, database: Path) -> None:
    world(database, keys(5), 5)
    page = open_page("settings")
    page.number_input(key=key("k")).set_value(3).run()
    page.session_state[SETTINGS_PART] = part("prices")
    page.run()
    page.text_area(key=key("prices")).set_value("large 3").run()
    check(page)
    assert page.button(key="send settings").label == "Change 2 settings"
    assert page.button(key="send settings").disabled, "for what is wrong in this group"
    page.text_area(key=key("prices")).set_value("large = 3").run()
    page.session_state[SETTINGS_PART] = part("k")
    page.run()
    assert page.number_input(key=key("k")).value == 3
    page.button(key="send settings").click().run()
    after = settings_of(database)
    assert (after.k, dict(after.prices)) == (3, {"large": 3.0})


def test_no_arm_can_be_a_seed_and_excluded(open_page: Open, database: Path) -> None:
    arms = keys(5)
    world(database, arms, 12)
    page = open_page("settings")
    page.text_area(key=key("seed_arms")).set_value(arms[0]).run()
    page.text_area(key=key("excluded_arms")).set_value(f"{arms[0]}\n{arms[1]}").run()
    check(page)
    assert any("name no arm of" in text.replace("\\", "") for text in texts(page))
    assert page.button(key="send settings").disabled
    page.text_area(key=key("seed_arms")).set_value(arms[2]).run()
    check(page)
    assert any("2 of 2 excluded" in text for text in texts(page))
    page.button(key="send settings").click().run()
    after = settings_of(database)
    assert (after.seed_arms, after.excluded_arms) == ((arms[2],), (arms[0], arms[1]))


def test_a_draft_shows_its_effect_and_changes_nothing_until_sent(open_page: Open, database: Path) -> None:
    world(database, keys(10), 40)
    page = open_page("settings")
    before = settings_of(database)
    page.number_input(key=key("budget_tokens")).set_value(500).run()
    page.number_input(key=key("baseline_rate")).set_value(20.0).run()
    check(page)
    assert settings_of(database) == before
    shown = queries.preview_settings(context_at(database), {"budget_tokens": 500, "baseline_rate": 0.2})
    assert any(f"**{shown.n_arms[1]:,.1f} of 10 arms**" in text for text in texts(page))
    assert page.button(key="send settings").label == "Change 2 settings"
    page.button(key="send settings").click().run()
    check(page)
    after = settings_of(database)
    assert (after.budget_tokens, after.baseline_rate) == (500, 0.2)
    assert page.button(key="send settings").disabled
    history = next(table.value for table in page.dataframe if "setting" in table.value)
    assert list(history["setting"]) == ["Token budget", "Baseline rate"]
    assert list(history["act"]) == ["Undo", "Undo"]


def test_every_change_is_an_act_of_its_own(database: Path) -> None:
    context = world(database, keys(5), 5)
    change(context, "k", 3)
    change(context, "min_pulls", 0)
    undo(context, "setting-1")
    done = queries.setting_changes(context)
    assert [(one.name, one.before, one.value, one.undone) for one in done] == [
        ("min_pulls", 5, 0, False),
        ("k", 0, 3, True),
    ]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("seed_arms", "tool:fs:Read\n<b>bad</b>", "type\\:category\\:name"),
        ("prices", "large 3", "model \\= price"),
        ("prices", "large = -1", "per million tokens"),
    ],
)
def test_an_error_stands_at_its_field(
    open_page: Open, database: Path, name: str, value: str, said: str
) -> None:
    world(database, keys(5), 5)
    page = open_page("settings", part=part(name))
    page.text_area(key=key(name)).set_value(value).run()
    check(page)
    shown = [text.replace("\u2060", "") for text in texts(page) if ":red[:material/error:]" in text]
    assert len(shown) == 1
    assert said in shown[0]
    assert "<b>" not in shown[0]
    assert page.button(key="send settings").disabled


@pytest.mark.parametrize(("name", "value"), [("k", -1), ("baseline_rate", 100.5), ("min_pulls", 10**13)])
def test_numbers_out_of_range_are_refused(open_page: Open, database: Path, name: str, value: float) -> None:
    world(database, keys(5), 5)
    page = open_page("settings")
    page.number_input(key=key(name)).set_value(value).run()
    assert page.button(key="send settings").disabled
    assert any(":red[:material/error:]" in text for text in texts(page))


def test_nobodys_change_is_overwritten_unseen(open_page: Open, database: Path) -> None:
    context = world(database, keys(5), 5)
    page = open_page("settings")
    page.number_input(key=key("k")).set_value(3).run()
    change(context, "k", 7)
    page.button(key="send settings").click().run()
    assert any("Nothing was changed" in text and "another user" in text for text in texts(page))
    assert settings_of(database).k == 7, "changed between the last look and the click"
    change(context, "min_pulls", 2)
    page.run()
    assert any("Another user changed it" in text and "**7**" in text for text in texts(page))
    assert page.button(key="send settings").disabled
    assert page.number_input(key=key("min_pulls")).value == 2, "a field without a draft follows"
    page.button(key="discard settings").click().run()
    assert page.number_input(key=key("k")).value == 7
    assert settings_of(database).k == 7


def test_priors_move_what_the_preview_says(open_page: Open, database: Path) -> None:
    world(database, keys(10), 40)
    page = open_page("settings", part=part("priors"))
    page.number_input(key=f"{key('priors')} tool alpha").set_value(9.0).run()
    check(page)
    assert any("The belief of **2 arms** would move" in text for text in texts(page))
    drafted = {
        "priors": msgspec.to_builtins(LearnerSettings().priors)
        | {"tool": {"alpha_micro": 9_000_000, "beta_micro": 1_000_000}}
    }
    shown = queries.preview_settings(context_at(database), drafted)
    page.button(key="send settings").click().run()
    after = queries.belief(context_at(database)).summary
    assert after.mean.tolist() == shown.summary_after.mean.tolist()


def test_a_mode_brings_its_seeds_in_the_preview(database: Path) -> None:
    context = world(database, keys(5), 5)
    shown = queries.preview_settings(context, {"mode": "openclaw"})
    change(context, "mode", "openclaw")
    assert shown.after == queries.frame(context).settings
    assert queries.setting_changes(context)[0].value == "openclaw"


def test_a_viewer_sees_the_settings_and_no_form(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(database, keys(3), 5)
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="vi", role="viewer"))
    page = open_page("settings")
    assert not list(page.number_input)
    assert "send settings" not in {button.key for button in page.button}
    assert len(page.table[0].value) == len(NAMES)


def test_an_empty_learner_can_be_set_and_each_learner_has_its_own_drafts(
    open_page: Open, database: Path
) -> None:
    page: AppTest = open_page("settings")
    page.number_input(key=key("k")).set_value(3).run()
    check(page)
    page.button(key="send settings").click().run()
    assert settings_of(database).k == 3
    change(context_at(database).of("other"), "k", 9)
    page = open_page("settings", learner="other")
    assert page.number_input(key=key("k", "other")).value == 9


def test_turning_texts_on_says_what_where_how_long_and_who_reads_it(database: Path) -> None:
    world(database, keys(2), 2)
    context = context_at(database)
    shown = queries.preview_settings(context, {"keep_texts": True})
    policy = {wording.literal(one) for one in texts_policy("this learner's database")}
    assert policy <= {*sentences.setting_effects(shown)}
    change(context, "keep_texts", value=True)
    shown = queries.preview_settings(context, {"keep_texts": False})
    assert not policy & {*sentences.setting_effects(shown)}


@pytest.mark.parametrize(
    ("name", "value", "begins"),
    [
        ("k", 3, True),
        ("excluded_arms", ["tool:a:b"], True),
        ("baseline_rate", 0.2, False),
        ("currency", "€", False),
    ],
)
def test_a_setting_that_selects_begins_a_policy(
    database: Path, name: str, value: object, begins: bool
) -> None:
    world(database, keys(2), 2)
    shown = queries.preview_settings(context_at(database), {name: value})
    assert (sentences.NEW_POLICY in sentences.setting_effects(shown)) == begins
