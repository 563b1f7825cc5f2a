"""Attacks on sign-in over plain HTTP: whoever attacks has a browser, an account, or what leaked from another's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

from core.flows.context import Context
from core.flows.members import add_member, invite_member, members, remove_member, sign_out_member
from core.records.actor import PersonRole

MEMBER: Final = "jo"
STRANGER: Final = "mallory"
GUESTS: Final = ("kim", "twin")
"""Accounts with one verified address."""
ADDRESS: Final = "kim@example.com"
LIAR: Final = "liar"
"""Has that address, too, which no one verified."""
PEOPLE: Final[Mapping[str, Mapping[str, object]]] = {
    **{guest: {"email": ADDRESS, "email_verified": True} for guest in GUESTS},
    LIAR: {"email": ADDRESS, "email_verified": False},
}
_USER: Final = "_streamlit_user"
_NO_TLS: Final = SSLContext(PROTOCOL_TLS_CLIENT)
"""Made once: without it each client would read the certificates of all authorities."""


class Provider(Protocol):
    """Where people have their accounts."""

    @property
    def issuer(self) -> str: ...

    def approve(self, request: str, person: str) -> str:
        """The address to which a person is sent back who signs in for this request."""
        ...


@dataclass(frozen=True, kw_only=True)
class Site:
    """Pages on which people sign in, with their database."""

    url: str
    provider: Provider
    context: Context

    def let_in(self, person: str, role: PersonRole = "viewer") -> None:
        add_member(self.context, self.provider.issuer, person, person, role=role, learner=None)

    @contextmanager
    def browsers(self, n: int = 1) -> Iterator[tuple[Browser, ...]]:
        found = tuple(Browser(self) for _ in range(n))
        yield found
        for one in found:
            one.http.close()


class Browser:
    """A client with its own cookies, which follows no address by itself."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.http = httpx.Client(
            base_url=site.url, headers={"accept": "text/html"}, timeout=60, verify=_NO_TLS
        )

    def begin(self) -> str:
        """The request to the provider to which the sign-in leads."""
        answer = self.http.get("/sign-in/default")
        assert answer.status_code == 303
        return self.http.get(answer.headers["location"]).headers["location"]

    def sign_in(self, person: str) -> None:
        self.come_back(self._site.provider.approve(self.begin(), person))

    def come_back(self, address: str) -> httpx.Response:
        """Follow the provider's address back to the pages."""
        parts = urlsplit(address)
        return self.http.get(f"{parts.path}?{parts.query}")

    @property
    def is_in(self) -> bool:
        """Whether a page is answered."""
        return self.http.get("/").status_code == 200

    def cookies(self) -> dict[str, str]:
        return {one.name: one.value or "" for one in self.http.cookies.jar}

    def plant(self, cookies: Mapping[str, str]) -> None:
        for name, value in cookies.items():
            self.http.cookies.set(
                name, value, domain="localhost.local" if "." not in self.http.base_url.host else ""
            )


def with_query(address: str, **changes: str | None) -> str:
    """The same address with other fields (None: without them)."""
    parts = urlsplit(address)
    query = {**dict(parse_qsl(parts.query)), **changes}
    return parts._replace(
        query=urlencode({name: value for name, value in query.items() if value is not None})
    ).geturl()


# What holds


def a_member_is_let_in_and_a_stranger_is_not(site: Site) -> None:
    with site.browsers(3) as (member, stranger, nobody):
        member.sign_in(MEMBER)
        stranger.sign_in(STRANGER)
        assert (member.is_in, stranger.is_in, nobody.is_in) == (True, False, False)


def each_request_has_a_state_a_nonce_and_a_challenge_of_its_own(site: Site) -> None:
    with site.browsers(2) as browsers:
        asked = [dict(parse_qsl(urlsplit(one.begin()).query)) for one in browsers for _ in range(2)]
    for name in ("state", "nonce", "code_challenge"):
        found = {one[name] for one in asked}
        assert (len(found), min(map(len, found)) >= 16) == (4, True), name
    assert {one["code_challenge_method"] for one in asked} == {"S256"}


def a_state_that_this_browser_did_not_begin_lets_nobody_in(site: Site) -> None:
    """An attacker's own address back, in the browser of a victim, would sign the victim in as the attacker."""
    with site.browsers(2) as (attacker, victim):
        back = site.provider.approve(attacker.begin(), MEMBER)
        victim.begin()
        for one in (
            back,
            with_query(back, state=None),
            with_query(back, state="x"),
            with_query(back, state=""),
        ):
            victim.come_back(one)
            assert not victim.is_in
            assert _USER not in victim.cookies()


def an_address_back_counts_once(site: Site) -> None:
    with site.browsers(2) as (browser, other):
        before = browser.begin()
        began = browser.cookies()
        back = site.provider.approve(before, MEMBER)
        browser.come_back(back)
        assert browser.is_in
        other.plant(began)  # what the browser had sent before it came back
        other.come_back(back)
        assert not other.is_in


def a_code_of_another_request_is_refused(site: Site) -> None:
    """A code that leaked is put into a request of the attacker's own: verifier and nonce are of another."""
    with site.browsers(2) as (victim, attacker):
        code = dict(parse_qsl(urlsplit(site.provider.approve(victim.begin(), MEMBER)).query))["code"]
        back = site.provider.approve(attacker.begin(), STRANGER)
        attacker.come_back(with_query(back, code=code))
        assert not attacker.is_in
        assert _USER not in attacker.cookies()


def a_challenge_taken_away_is_refused(site: Site) -> None:
    """Without it a code could be redeemed by whoever has it."""
    with site.browsers() as (browser,):
        asked = with_query(browser.begin(), code_challenge="A" * 43)
        browser.come_back(site.provider.approve(asked, MEMBER))
        assert not browser.is_in


def a_session_planted_before_is_no_session_after(site: Site) -> None:
    """Who planted the cookies of a sign-in that they began does not come in by them when the victim has."""
    with site.browsers(2) as (attacker, victim):
        attacker.begin()
        planted = attacker.cookies()
        victim.plant(planted)
        victim.sign_in(MEMBER)
        assert victim.is_in
        assert not attacker.is_in
        attacker.plant(planted)
        assert not attacker.is_in


def a_planted_account_is_replaced(site: Site) -> None:
    with site.browsers(2) as (attacker, victim):
        attacker.sign_in(STRANGER)
        victim.plant(attacker.cookies())
        victim.sign_in(MEMBER)
        assert victim.is_in
        attacker.http.cookies.clear()
        attacker.plant({name: value for name, value in victim.cookies().items() if name != _USER})
        assert not attacker.is_in


def a_cookie_that_was_changed_is_none(site: Site) -> None:
    with site.browsers(2) as (member, attacker):
        member.sign_in(MEMBER)
        cookies = member.cookies()
        whole = cookies[_USER].strip('"')
        told, _, mark = whole.rpartition(".")
        other = {"A": "B"}
        forged = [
            told,
            f"{told}.",
            f"{told}.{other.get(mark[0], 'A')}{mark[1:]}",
            f"{other.get(whole[0], 'A')}{whole[1:]}",
            f"{whole}{whole}",
            cookies.get("_streamlit_user_tokens", "x"),
            "",
        ]
        for one in forged:
            attacker.http.cookies.clear()
            attacker.plant({**cookies, _USER: one})
            assert not attacker.is_in, one
        attacker.plant(cookies)
        assert attacker.is_in, "it is the change that is refused"


def what_an_operator_ends_is_over_in_every_browser(site: Site) -> None:
    # Two people: a sign-in within the second of a sign-out is over with it, because providers tell whole seconds.
    for person, end in (("ivy", sign_out_member), ("eve", remove_member)):
        site.let_in(person)
        with site.browsers(2) as (browser, copy):
            browser.sign_in(person)
            copy.plant(browser.cookies())
            assert (browser.is_in, copy.is_in) == (True, True)
            end(site.context, person)
            assert (browser.is_in, copy.is_in) == (False, False)


def an_invitation_is_taken_once(site: Site) -> None:
    """Two accounts with one address come at once, several times each; one of them is the member afterwards."""
    invite_member(site.context, site.provider.issuer, ADDRESS, role="viewer", learner=None)
    with site.browsers(1) as (liar,):
        liar.sign_in(LIAR)
        assert not liar.is_in, "an address that nobody verified"
    with site.browsers(2 * len(GUESTS)) as browsers, ThreadPoolExecutor(len(browsers)) as threads:
        list(threads.map(lambda pair: pair[0].sign_in(pair[1]), zip(browsers, 2 * GUESTS, strict=True)))
        admitted = list(threads.map(lambda one: one.is_in, browsers))
        assert admitted in ([True, False] * 2, [False, True] * 2)
        (member,) = (one for one in members(site.context) if one.email == ADDRESS)
        assert member.subject == GUESTS[not admitted[0]]
        remove_member(site.context, member.id)
        assert not any(one.is_in for one in browsers), "and it is not taken again"


ATTACKS: Final[tuple[Callable[[Site], None], ...]] = (
    a_member_is_let_in_and_a_stranger_is_not,
    each_request_has_a_state_a_nonce_and_a_challenge_of_its_own,
    a_state_that_this_browser_did_not_begin_lets_nobody_in,
    an_address_back_counts_once,
    a_code_of_another_request_is_refused,
    a_challenge_taken_away_is_refused,
    a_session_planted_before_is_no_session_after,
    a_planted_account_is_replaced,
    a_cookie_that_was_changed_is_none,
    what_an_operator_ends_is_over_in_every_browser,
    an_invitation_is_taken_once,
)
