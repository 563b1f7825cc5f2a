"""Where the data are and who asks: arguments before variables before defaults."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from core.errors import InvalidSetting
from core.settings import (
    BASE_PATH,
    NO_ADDRESS,
    UNREADABLE_ADDRESS,
    Server,
    Settings,
    base_path,
    check_learner,
    database_at,
    default_database,
    demo_database,
)

PRINTABLE = st.text(
    st.characters(codec="ascii", exclude_categories=["Cc"]) | st.sampled_from("é日@:/?#%&=+, "),
    min_size=1,
    max_size=20,
)


def test_an_argument_goes_before_a_variable_and_that_before_the_default() -> None:
    environment = {"ARMSCOPE_DATABASE": "/data/env.db", "ARMSCOPE_LEARNER": "env"}
    found = Settings.from_environment(environment, database="/data/a.db", learner="me")
    assert (found.database, found.learner) == (Path("/data/a.db"), "me")
    found = Settings.from_environment(environment)
    assert (found.database, found.learner) == (Path("/data/env.db"), "env")
    for unset in ({}, {"ARMSCOPE_DATABASE": "", "ARMSCOPE_LEARNER": ""}):
        found = Settings.from_environment(unset)
        assert (found.database, found.learner) == (default_database(), None)


def test_a_base_path_is_names_and_nothing_else() -> None:
    for text in ("", "/", "//"):
        assert base_path(text, {}) == base_path(None, {BASE_PATH: text}) == ""
    assert base_path(None, {}) == ""
    assert base_path("", {BASE_PATH: "/other"}) == "", "an option goes before the variable"
    assert base_path("/a/b-1/", {}) == base_path(None, {BASE_PATH: "a/b-1"}) == "/a/b-1"
    wrong = (
        "a//b",
        "a/../b",
        "/.",
        "https://a.example/b",
        "a b",
        "a?b",
        "a%20b",
        "_a",
        "ä",
        "a;b",
        '"',
        "a" * 201,
    )
    for text in wrong:
        with pytest.raises(InvalidSetting, match="base path must be"):
            base_path(text, {})


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
        *((name, name) for name in ("a b?mode=ro#x.db", "runs.db", "./a:b/runs.db", "me@home/runs.db")),
        *((name, name) for name in ("C:/data/runs.db", "/data/p=1/a.db")),
    ],
)
def test_a_path_stays_one_and_a_url_means_the_same(given: str, path: str) -> None:
    assert database_at(given) == Path(path)


@pytest.mark.parametrize(
    "given",
    [
        *("", "sqlite:///", "mysql://u:secret@host/db", "http://x", "a\0b", "~no-such-user/a"),
        "mara:s3cret-word@db.example/app",
        "postgresql:/mara:s3cret-word@db.example/app",
        "postgres:mara:s3cret-word@db.example/app",
        "host=db.example user=mara password=s3cret-word",
        "mara:s3cret-word://db.example/app",
    ],
)
def test_what_is_no_file_is_refused_without_repeating_secrets(given: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        database_at(given)
    assert "secret" not in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert refused.value.next_step


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb", "\x1b[0m", "\ud800", "\u200b"])
def test_a_learners_name_is_short_and_printable(name: str) -> None:
    with pytest.raises(InvalidSetting):
        check_learner(name)
    for fine in ("x", "日本 agent", "support-agent", "<b>", "x" * 128):
        assert check_learner(fine) == fine


@given(password=PRINTABLE, tail=st.sampled_from(["/db", "/db?sslmode=require", "", ":5432/db"]))
@example(password="p@ss:w/rd%#é", tail="/db")
@example(password="12/34", tail="/db")
@example(password="12?host=xy", tail="/db")
@example(password="x,y:1", tail="/db")
def test_no_part_of_a_raw_password_is_shown(password: str, tail: str) -> None:
    server = Server(f"postgresql://mara:{password}@host.example{tail}")
    shown = {"str": str(server), "repr": repr(server), "name": server.name, "short": server.short}
    path = tail.partition("?")[0]
    right = {
        "str": f"postgresql://mara@host.example{path}",
        "repr": f"postgresql://mara@host.example{path}",
        "name": "db" if "db" in path else f"postgresql://mara@host.example{path}",
        "short": f"{'db' if 'db' in path else f'postgresql://mara@host.example{path}'} on host.example",
    }
    if server.is_readable:
        assert shown == right
        assert database_at(server.url) == server
    else:
        assert set(shown.values()) == {NO_ADDRESS}
        with pytest.raises(InvalidSetting) as refused:
            database_at(server.url)
        assert str(refused.value) == " ".join(UNREADABLE_ADDRESS)


@given(password=PRINTABLE)
def test_an_encoded_password_is_read_whole(password: str) -> None:
    server = Server(f"postgresql://mara:{quote(password, safe='')}@host.example/db")
    assert server.is_readable
    assert conninfo_to_dict(server.url)["password"] == password
