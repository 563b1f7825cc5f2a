"""Content of the reward form: filled from the address and a draft on arrival, stored in both as it changes.

The fields are not bound to the address, which could then hold labels only. On arrival the address fills the form. The
newest draft that does not contradict it fills the rest. The content is a draft until it is sent.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import streamlit as st

from dashboard import queries
from dashboard.widgets import address
from dashboard.widgets.drafts import Draft, Drafts, here

Outcome = Literal["accepted", "partial", "rejected", "number"]
Kind = Literal["Feedback", "Correction"]
ARM: Final = address.REWARDS_ARM
RUN: Final = address.REWARDS_RUN
OUTCOME: Final = "reward_outcome"
NUMBER: Final = "reward"
KIND: Final = "reward_kind"
WHY: Final = "reward reason"
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
OUTCOME_WORDS: Final[dict[Outcome, str]] = {one: one.capitalize() for one in OUTCOMES} | {
    "number": "A number"
}
_KEY: Final = "reward form key"
_ARRIVAL: Final = "reward form arrival"
_BEGUN: Final = "reward form as it was begun with"
_ABOUT: Final = "reward form is about"
_KNOWN: Final = "reward form has seen"


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Content of the form; ``run`` and ``why`` as typed."""

    arm: str | None = None
    outcome: Outcome | None = None
    number: float | None = 0.5
    run: str = ""
    kind: Kind = "Feedback"
    why: str = ""


DRAFTS: Final = Drafts[Fields](bound=500)


"""Those of this server. Of two thousand characters at most each, they weigh a megabyte."""


def arrive() -> None:
    """Fill in the form on arrival."""
    if st.session_state.get(_ARRIVAL) == address.arrival():
        return
    st.session_state[_ARRIVAL] = address.arrival()
    requested, named = _requested()
    draft = DRAFTS.newest(
        here(), lambda fields: all(getattr(fields, name) == getattr(requested, name) for name in named)
    )
    if draft is not None:
        begin(draft.fields, key=draft.key)
        return
    begin(requested)
    if "kind" not in named:
        st.session_state[_ABOUT] = None


def _requested() -> tuple[Fields, frozenset[str]]:
    """Return the address's valid values, and the fields that it names."""
    query = st.query_params
    arm, run, kind = query.get(ARM), query.get(RUN, "").strip(), query.get(KIND)
    outcome = next((name for name, word in OUTCOME_WORDS.items() if word == query.get(OUTCOME)), None)
    number = _number(query.get(NUMBER, ""))
    plain = Fields()
    requested = Fields(
        arm=arm if arm in queries.everything().columns.places else None,
        outcome=outcome,
        number=plain.number if number is None else number,
        run=run,
        kind=next((name for name in KINDS if name == kind), plain.kind),
    )
    named = {
        "arm": requested.arm,
        "outcome": outcome,
        "number": number,
        "run": run or None,
        "kind": kind if kind in KINDS else None,
    }
    return requested, frozenset(name for name, value in named.items() if value is not None)


def _number(text: str) -> float | None:
    """Return a reward as an address has it.

    >>> _number("0.25"), _number("2"), _number("nan"), _number("x")
    (0.25, None, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def begin(fields: Fields, *, key: str | None = None) -> None:
    """Fill the form in; a new one unless it is the draft of this ``key``."""
    state = st.session_state
    state[_KEY] = uuid.uuid4().hex if key is None else key
    state[_BEGUN] = fields if key is None else None
    state[_ABOUT] = (fields.run, fields.arm)
    state[ARM], state[OUTCOME], state[NUMBER] = fields.arm, fields.outcome, fields.number
    state[RUN], state[KIND], state[WHY] = fields.run, fields.kind, fields.why


def now() -> Fields:
    """Return the form's content."""
    state = st.session_state
    return Fields(
        arm=state.get(ARM),
        outcome=state.get(OUTCOME),
        number=state[NUMBER] if NUMBER in state else Fields().number,
        run=(state.get(RUN) or "").strip(),
        kind=state.get(KIND) or "Feedback",
        why=state.get(WHY) or "",
    )


def form_key() -> str:
    """Return the form's own, as long as it is this one."""
    return str(st.session_state[_KEY])


def offer(kind: Kind) -> None:
    """Choose what the form is, where it has come to be about another arm or run; the person may choose otherwise."""
    about = (now().run, now().arm)
    if st.session_state.get(_ABOUT) != about:
        st.session_state[_ABOUT] = about
        st.session_state[KIND] = kind


def known_newest(newest: str) -> str:
    """Return the newest manual reward that the person knows: ``newest`` at first, then a later one that was shown."""
    about = (form_key(), now().run, now().arm)
    known: tuple[object, str] = st.session_state.get(_KNOWN, (None, ""))
    if known[0] != about:
        known = st.session_state[_KNOWN] = (about, newest)
    return known[1]


def forget_known() -> None:
    """Record that the newest one was shown to the person."""
    st.session_state.pop(_KNOWN, None)


def is_draft() -> bool:
    """Return whether the person has begun to fill in the form."""
    begun: Fields | None = st.session_state[_BEGUN]
    return now() != begun


def keep() -> None:
    """Keep what is half filled in, and have the address say what is chosen; what is typed as a reason it does not."""
    fields, plain = now(), Fields()
    if is_draft():
        st.session_state[_BEGUN] = None  # it stays one, also where it is changed back
        DRAFTS.keep(here(), Draft(key=form_key(), fields=fields))
    number = None if fields.outcome != "number" or fields.number is None else f"{fields.number:g}"
    address.say(
        {
            ARM: fields.arm,
            OUTCOME: None if fields.outcome is None else OUTCOME_WORDS[fields.outcome],
            NUMBER: None if number == f"{plain.number:g}" else number,
            RUN: fields.run or None,
            KIND: fields.kind if fields.run else None,
        }
    )


def begin_again() -> None:
    """After it was sent: a new form without a reason; arm, run and the outcome they chose stay as they were."""
    DRAFTS.drop(here(), form_key())
    begin(replace(now(), why=""))


def discard() -> None:
    """Forget the draft; the run it is about stays."""
    DRAFTS.drop(here(), form_key())
    begin(Fields(run=now().run))
