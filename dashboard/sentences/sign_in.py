"""Sentences for rejected visitors, on the sign-in page and on an open page."""

from __future__ import annotations

import re
import shlex
from typing import Final, Literal, NamedTuple

from core.records.member import Session
from core.records.times import HOUR_MS
from dashboard import wording
from dashboard.wording import Markdown, Words

SignInState = Literal["out", "over", "unknown", "large"]
"""Why a visitor has no session: not signed in; expired; unknown to armscope; more claims than a cookie holds."""
_CODE: Final = re.compile("[a-z_]{1,40}")

_OUT: Final = "Sign in with your company's account. Your role decides what you see and may do."
_LARGE: Final = (
    "Your identity provider sends more about you than fits into one cookie. Ask the operator to request less, by "
    "scope in client_kwargs of the secrets file."
)


class SignInMessage(NamedTuple):
    """A title, what to do, and lines to copy; plain text all of it. ``fold`` = lines of the server's operator."""

    title: Words
    text: str
    lines: tuple[str, ...] = ()
    fold: str = ""


def next_step(state: SignInState, session: Session | None, session_ms: int) -> SignInMessage:
    """Return the next step for a visitor without a session.

    >>> jo = Session(issuer="https://id.example.com", subject="u-17", issued_ms=0)
    >>> next_step("unknown", jo, 12 * HOUR_MS).lines[0]
    'armscope member add NAME --issuer https://id.example.com --subject u-17 --role viewer'
    >>> next_step("over", jo, 12 * HOUR_MS).title
    'Your session is over.'
    """
    if state == "over":
        return SignInMessage("Your session is over.", f"{_over(session_ms)} Sign in again.")
    if state == "unknown" and session is not None:
        who = f"--issuer {shlex.quote(session.issuer)} --subject {shlex.quote(session.subject)}"
        return SignInMessage(
            "No operator has added you yet.",
            f"Ask an operator of this desk to add you, and send them this line. {_invited(session)}",
            (f"armscope member add NAME {who} --role viewer",),
        )
    if state == "large":
        return SignInMessage("You can't be signed in.", _LARGE)
    return SignInMessage("Sign in to armscope.", _OUT)


def refused(code: str) -> SignInMessage:
    """Return the message after a refusal by the identity provider; only a known code is shown, because it is foreign
    text.

    >>> "(access_denied)" in refused("access_denied").text, "script" in refused("<script>").text
    (True, False)
    """
    why = f" ({code})" if _CODE.fullmatch(code) else ""
    return SignInMessage(
        "You were not signed in.",
        f"Your identity provider refused it{why}. Try again, or ask its administrator for access to armscope.",
    )


def no_page(path: str, under: str) -> SignInMessage:
    """Return the message for an unknown address; ``under`` is the path that a proxy may have put before it."""
    return SignInMessage(
        "There is no page at this address.",
        f"You asked for {path[:200]}.",
        (f"armscope serve --base-path /{shlex.quote(under[:200])}",),
        "If a proxy serves armscope below a path and keeps it in the requests, the server must know it. Start it "
        "with:",
    )


def full(most: int, of_person: int) -> SignInMessage:
    """Return the message when no further page can be opened."""
    return SignInMessage(
        "Too many pages are open.",
        f"The server keeps {most} pages open at one time, and {of_person} of one person. Close some, and try again.",
    )


def no_role(name: str) -> SignInMessage:
    """Return the message for a member without a role in any learner."""
    return SignInMessage(
        "You have no role here.",
        f"You are signed in as {name}, without a role in any learner of this database. Ask an operator for one.",
        (f"armscope member role {shlex.quote(name)} viewer",),
    )


def button(provider: str, *, is_first: bool) -> Markdown:
    """Return the label of the button to an identity provider."""
    by = "" if provider == "default" else f" by {wording.literal(provider)}"
    return f"Sign in{'' if is_first else ' again'}{by}"


def _over(session_ms: int) -> str:
    hours = session_ms / HOUR_MS
    return f"It ends after {hours:g} hour{'' if hours == 1 else 's'}, and when you or an operator ends it."


def _invited(session: Session) -> str:
    if session.email:
        return f"There is no invitation for {session.email} by that provider, or it was taken or is over."
    return (
        "An invitation by address can't help: your identity provider does not say in its ID token that it verified "
        "yours."
    )
