"""Whether what a secrets file says is enough to let people come, and from where."""

from __future__ import annotations

import json
import re
import secrets
import sys
from pathlib import Path

import pytest

from core.errors import InvalidInput, InvalidSetting
from core.flows.members import invite_member
from core.records.times import HOUR_MS
from core.settings import BASE_PATH
from dashboard.launch import main
from dashboard.sign_in import check_address, check_operator, read_sign_in, session_ms
from tests.conftest import ROOT
from tests.dashboard.signed_in import ISSUER, auth_file, let_in
from tests.dashboard.worlds import context_at

GUIDE = ROOT / "core" / "guide" / "people.md"


def test_a_complete_file_says_where_people_come_from_and_who_vouches(tmp_path: Path) -> None:
    found = read_sign_in(auth_file(tmp_path), port=8501)
    assert (found.origin, found.host, found.providers, found.is_encrypted) == (
        "https://armscope.example.com",
        "armscope.example.com",
        ("default",),
        True,
    )
    near = read_sign_in(auth_file(tmp_path, redirect_uri="http://localhost:{port}/oauth2callback"), port=9)
    assert (near.origin, near.is_encrypted) == ("http://localhost:9", False)


def test_the_file_in_the_guide_is_complete_but_for_a_secret_of_ones_own(tmp_path: Path) -> None:
    (written,) = re.findall(
        r"^```toml\n(\[auth\].*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    file = tmp_path / "auth.toml"
    file.write_text(written, "utf-8")
    with pytest.raises(InvalidSetting, match="cookie_secret must have 32 bytes or more, got 15"):
        read_sign_in(file, port=1)
    file.write_text(written.replace("one of your own", secrets.token_urlsafe(48)), "utf-8")
    assert read_sign_in(file, port=1).providers == ("default",)


def test_below_a_path_people_come_back_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BASE_PATH, "/tools/armscope")
    right = "https://armscope.example.com/tools/armscope/oauth2callback"
    found = read_sign_in(auth_file(tmp_path, redirect_uri=right), port=1)
    assert (found.origin, found.path) == ("https://armscope.example.com", "/tools/armscope")
    for wrong in ("/oauth2callback", "/armscope/oauth2callback", "/tools/armscope/x/oauth2callback"):
        with pytest.raises(InvalidSetting, match="/tools/armscope/oauth2callback right after") as problem:
            read_sign_in(auth_file(tmp_path, redirect_uri=f"https://armscope.example.com{wrong}"), port=1)
        assert "--base-path" in problem.value.next_step


def test_several_may_vouch_each_in_a_table_of_its_own(tmp_path: Path) -> None:
    file = auth_file(tmp_path, client_id=None, client_secret=None, server_metadata_url=None)
    table = f'client_id = "a"\nclient_secret = "b"\nserver_metadata_url = "{ISSUER}/x"\n'
    file.write_text(f"{file.read_text('utf-8')}[auth.google]\n{table}[auth.work]\n{table}", "utf-8")
    assert read_sign_in(file, port=1).providers == ("google", "work")
    file.write_text(file.read_text("utf-8").replace("[auth.work]", "[auth.my_work]"), "utf-8")
    with pytest.raises(InvalidSetting, match="letters and digits"):
        read_sign_in(file, port=1)


def test_what_is_asked_of_the_provider_is_none_itself(tmp_path: Path) -> None:
    file = auth_file(tmp_path)
    more = '[auth.authorize_params]\nclaims = "{}"\n[auth.client_kwargs]\nprompt = "login"\n'
    file.write_text(f"{file.read_text('utf-8')}{more}", "utf-8")
    assert read_sign_in(file, port=1).providers == ("default",)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cookie_secret": None}, "cookie_secret must have 32 bytes or more, got none"),
        ({"cookie_secret": "x" * 31}, "cookie_secret must have 32 bytes or more, got 31"),
        ({"redirect_uri": None}, "redirect_uri must be https"),
        ({"redirect_uri": "http://armscope.example.com/oauth2callback"}, "redirect_uri must be https"),
        ({"redirect_uri": "https://armscope.example.com/"}, "redirect_uri must be https"),
        ({"redirect_uri": "https://armscope.example.com/a/oauth2callback"}, "redirect_uri must be https"),
        ({"redirect_uri": "https://Armscope.example.com/oauth2callback"}, "redirect_uri must be https"),
        ({"redirect_uri": "https://armscope.example.com:443/oauth2callback"}, "redirect_uri must be https"),
        ({"redirect_uri": "https://me@armscope.example.com/oauth2callback"}, "redirect_uri must be https"),
        ({"redirect_uri": "https://armscope.example.com/oauth2callback?x=1"}, "redirect_uri must be https"),
        ({"redirect_uri": "http://localhost.example.com/oauth2callback"}, "redirect_uri must be https"),
        ({"client_id": None}, r"\[auth\] must have client_id"),
        ({"client_secret": ""}, r"\[auth\] must have client_secret"),
        ({"server_metadata_url": None}, r"\[auth\] must have server_metadata_url"),
        ({"server_metadata_url": "http://id.example.com/x"}, "server_metadata_url of"),
    ],
)
def test_what_is_missing_or_not_safe_is_said_in_a_sentence_with_the_next_step(
    tmp_path: Path, changed: dict[str, str | None], words: str
) -> None:
    with pytest.raises(InvalidSetting, match=words) as problem:
        read_sign_in(auth_file(tmp_path, **changed), port=8501)
    assert problem.value.next_step
    assert "told by the provider" not in str(problem.value)


def test_a_file_that_is_none_is_named_and_nothing_of_it_is_said(tmp_path: Path) -> None:
    for content in (None, b"[auth\ncookie_secret = hidden", b"\xff\xfe", b"[other]\nx = 1"):
        file = tmp_path / "auth.toml"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(InvalidSetting) as problem:
            read_sign_in(file, port=1)
        assert "ARMSCOPE_AUTH" in str(problem.value)
        assert "hidden" not in str(problem.value)


def test_off_this_machine_and_behind_a_proxy_people_have_to_sign_in() -> None:
    for address in ("0.0.0.0", "::", "192.0.2.7", "elsewhere.example"):
        with pytest.raises(InvalidInput, match="must be of this machine"):
            check_address(address, (), signs_in=False)
        check_address(address, ("192.0.2.1", "::1"), signs_in=True)
    check_address("127.0.0.1", (), signs_in=False)
    with pytest.raises(InvalidInput, match="only where people sign in"):
        check_address("127.0.0.1", ("127.0.0.1",), signs_in=False)
    for proxy in ("*", "proxy.example", "192.0.2.0/24", ""):
        with pytest.raises(InvalidInput, match="must be named by its address"):
            check_address("127.0.0.1", (proxy,), signs_in=True)


def test_somebody_must_be_able_to_let_others_in() -> None:
    check_operator(has_one=True)
    with pytest.raises(InvalidInput, match="operator of all learners") as problem:
        check_operator(has_one=False)
    assert "armscope member add" in problem.value.next_step


def test_how_long_a_session_lasts_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARMSCOPE_SESSION_HOURS", raising=False)
    assert session_ms() == 12 * HOUR_MS
    monkeypatch.setenv("ARMSCOPE_SESSION_HOURS", "0.5")
    assert session_ms() == HOUR_MS // 2
    for wrong in ("0", "-1", "721", "nan", "a day"):
        monkeypatch.setenv("ARMSCOPE_SESSION_HOURS", wrong)
        with pytest.raises(InvalidSetting, match="must be a number of hours"):
            session_ms()


def test_serve_refuses_to_listen_in_a_sentence_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str) -> str:
        command = ["armscope", "--database", str(tmp_path / "a.db"), "serve", "--no-browser", "--port", "0"]
        monkeypatch.setattr(sys, "argv", [*command, *arguments, "--json"])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 1
        answer = json.loads(capsys.readouterr().out)
        assert answer["next"]
        return str(answer["error"])

    monkeypatch.delenv("ARMSCOPE_AUTH", raising=False)
    assert "must be of this machine" in refused("--address", "0.0.0.0")
    assert "only where people sign in" in refused("--proxy", "10.0.0.2")
    monkeypatch.setenv("ARMSCOPE_AUTH", str(tmp_path / "nowhere.toml"))
    for near in ((), ("--address", "0.0.0.0")):
        assert "must name a file that can be read" in refused(*near)
    monkeypatch.setenv("ARMSCOPE_AUTH", str(auth_file(tmp_path, cookie_secret="short")))
    assert "cookie_secret must have 32 bytes" in refused("--address", "0.0.0.0")
    monkeypatch.setenv("ARMSCOPE_AUTH", str(auth_file(tmp_path)))
    assert "one of them must be an operator of all learners" in refused("--address", "0.0.0.0")
    context = context_at(tmp_path / "a.db")
    let_in(context, "jo", "operator", "support")
    invite_member(context, ISSUER, "kim@example.com", role="operator")
    assert "one of them must be an operator of all learners" in refused()


def test_a_file_that_others_can_read_is_told(tmp_path: Path) -> None:
    file = auth_file(tmp_path)
    for mode, is_shared in ((0o600, False), (0o640, True), (0o604, True)):
        file.chmod(mode)
        assert read_sign_in(file, port=1).is_shared == is_shared
