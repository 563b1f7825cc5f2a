"""Where the data are and who asks: arguments before variables before defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InvalidSetting
from core.settings import Settings, check_learner, database_at, default_database, demo_database


def test_an_argument_goes_before_a_variable_and_that_before_the_default() -> None:
    environment = {"ARMSCOPE_DATABASE": "/data/env.db", "ARMSCOPE_LEARNER": "env"}
    found = Settings.from_environment(environment, database="/data/a.db", learner="me")
    assert (found.database, found.learner) == (Path("/data/a.db"), "me")
    found = Settings.from_environment(environment)
    assert (found.database, found.learner) == (Path("/data/env.db"), "env")
    for unset in ({}, {"ARMSCOPE_DATABASE": "", "ARMSCOPE_LEARNER": ""}):
        found = Settings.from_environment(unset)
        assert (found.database, found.learner) == (default_database(), None)


def test_a_child_process_finds_the_same_data() -> None:
    here = Settings.from_environment({}, database="/data/a.db", learner="me")
    assert Settings.from_environment(here.as_environment()) == here


def test_the_machines_user_is_the_operator() -> None:
    actor = Settings.from_environment({}).actor
    assert (actor.role, bool(actor.name)) == ("operator", True)


def test_the_demo_never_shares_a_file_with_the_default() -> None:
    assert demo_database() != default_database()
    assert demo_database().parent == default_database().parent


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("a.db", "a.db"),
        ("sqlite:///a.db", "a.db"),
        ("sqlite:////data/a.db", "/data/a.db"),
        ("a b?mode=ro#x.db", "a b?mode=ro#x.db"),
    ],
)
def test_a_path_and_a_url_mean_the_same(given: str, path: str) -> None:
    assert database_at(given) == Path(path)


@pytest.mark.parametrize(
    "given", ["", "sqlite:///", "mysql://u:secret@host/db", "http://x", "a\0b", "~no-such-user/a"]
)
def test_what_is_no_file_is_refused_without_repeating_secrets(given: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        database_at(given)
    assert "secret" not in str(refused.value)
    assert refused.value.next_step


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb", "\x1b[0m", "\ud800", "\u200b"])
def test_a_learners_name_is_short_and_printable(name: str) -> None:
    with pytest.raises(InvalidSetting):
        check_learner(name)
    for fine in ("x", "日本 agent", "support-agent", "<b>", "x" * 128):
        assert check_learner(fine) == fine
