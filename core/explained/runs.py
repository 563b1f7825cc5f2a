"""Tables of runs: their list, the arms of one, sessions, observed rewards, two sides, and hits of a search."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from core.explained.run import NONE, evidence, flip, observed, state, why
from core.explained.table import Field, Table, count, mean, number, text, time
from core.records.arm import MICRO
from core.records.currency import PICO, money_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.flows.queries import RunArm, RunStory
    from core.records.observation import Observation
    from core.records.run_page import RunRow, SessionRow
    from core.records.search import SearchHit
    from core.records.sides import ComparedArm, ComparedSides, SideArm, SideRuns

_UNKNOWN: Final = "unknown"

ARMS_OF_SESSION: Final[Table[tuple[str, int, int]]] = Table(
    arm=Field("arm", lambda one: one[0], "arm", width=320),
    n_in=count("prompts", lambda one: one[1], width=86),
    n_referenced=count("used in", lambda one: one[2], width=86),
)
SIDES: Final[Table[tuple[str, str, str]]] = Table(
    name=text("", lambda one: one[0]),
    a=Field("A", lambda one: one[1], "number"),
    b=Field("B", lambda one: one[2], "number"),
)
HITS: Final[Table[SearchHit]] = Table(
    kind=text("kind", lambda one: one.kind, width=84),
    id=text("id", lambda one: one.id),
    name=text("name", lambda one: one.title, width=286),
    about=text("about", lambda one: one.about, width=150),
    at=time("newest", lambda one: one.at_ms, width=112),
    text=text("text", lambda one: one.excerpt, width=480),
)
LEDGER: Final[Table[Observation]] = Table(
    id=text("reward of", lambda one: one.id),
    arm=text("arm", lambda one: one.arm),
    kind=text("kind", lambda one: one.kind),
    reward=number("value", lambda one: one.reward),
    run=text("run", lambda one: one.run, "none"),
    actor=text("by", lambda one: one.actor),
    at=time("at", lambda one: one.at_ms, _UNKNOWN),
    state=text(
        "state", lambda one: "undone" if one.undone else "counts" if one.counts else "superseded or inactive"
    ),
)


def _seconds(one: RunRow) -> float | None:
    return None if one.duration_ms is None else one.duration_ms / 1000


RUNS: Final[Table[RunRow]] = Table(
    at=time("ended", lambda one: one.at_ms, _UNKNOWN, width=114),
    run_no=Field("run", lambda one: str(one.run_no), "count", lambda one: one.run_no, width=64),
    run_class=text("class", lambda one: one.run_class, width=76),
    outcome=text("verdict", lambda one: one.outcome, width=106),
    status=text("status", lambda one: one.status, width=84),
    model=text("model", lambda one: one.model, width=122),
    channel=text("channel", lambda one: one.channel, width=80),
    n_arms=count("arms in", lambda one: one.n_arms, width=68),
    n_referenced=count("used", lambda one: one.n_referenced, width=60),
    tokens=count("tokens", lambda one: one.tokens, _UNKNOWN, width=72),
    seconds=number("seconds", _seconds, ".1f", width=70),
    achieved=number("achieved", lambda one: one.achieved, ".3g", _UNKNOWN, width=82),
    uid=text("id", lambda one: one.uid, width=180),
)
LISTED: Final[Table[RunRow]] = RUNS.only(
    "run_no", "at", "run_class", "outcome", "n_arms", "n_referenced", "tokens", "achieved", "uid"
)
RUNS_OF_SESSION: Final[Table[RunRow]] = RUNS.only(
    "run_no", "at", "run_class", "outcome", "n_referenced", "tokens", "achieved", "uid"
).but(n_referenced=lambda one: f"{one.n_referenced} of {one.n_arms}")


def _one_of(name: str | None, number: int) -> str | None:
    return name if number < 2 else f"{number} of them"


SESSIONS: Final[Table[SessionRow]] = Table(
    last=time("last run", lambda one: one.last_ms, _UNKNOWN, width=136),
    session=text("session", lambda one: one.session, width=320),
    n_runs=count("runs", lambda one: one.n_runs, width=70),
    n_observed=count("observed", lambda one: one.n_observed, width=84),
    n_unfinished=count("unfinished", lambda one: one.n_unfinished, width=90),
    tokens=count("tokens", lambda one: one.tokens if one.n_tokens else None, _UNKNOWN, width=96),
    cost=text(
        "cost",
        lambda one: money_words(one.cost_pico / PICO, one.currency) if one.n_costs else "",
        width=90,
    ),
    model=text("model", lambda one: _one_of(one.model, one.n_models), width=140),
    channel=text("channel", lambda one: _one_of(one.channel, one.n_channels), width=96),
)


def arms_of(story: RunStory) -> Table[RunArm]:
    """Return the table of the arms of a run: decision, evidence, and the change that would have flipped it."""
    return Table(
        state=text("", state),
        arm=text("arm", lambda one: one.arm),
        why=text("why", why),
        rank=count("rank", lambda one: one.rank, NONE),
        draw=number("draw", lambda one: one.draw, ".3f", NONE),
        chance=number("chance", lambda one: one.chance, ".2%", _UNKNOWN),
        token_cost=count("tokens", lambda one: one.token_cost, NONE),
        evidence=text("evidence", lambda one: evidence(one, story)),
        observed=text("observed", observed),
        flip=text("what would have flipped it", lambda one: flip(one, story)),
    )


def _failed(one: SideRuns) -> str:
    return "-" if one.failed.value is None else f"{one.n_failed:,} ({100 * one.failed.value:.1f}%)"


def _shift(side: SideArm) -> str:
    pairs = [(one.source, Decimal(one.alpha_micro), Decimal(one.beta_micro)) for one in side.shifts]
    return (
        "; ".join(f"{source} {alpha / MICRO:+f}, {beta / MICRO:+f}" for source, alpha, beta in pairs) or "-"
    )


def _cost(one: SideRuns, currency: str) -> str:
    return money_words(one.cost_pico / PICO / one.n_costs, currency, 4) if one.n_costs else "-"


def sides_of(result: ComparedSides) -> list[tuple[str, str, str]]:
    """Return the rows of `SIDES`: figures of both sides."""
    currency = result.currency
    figures: dict[str, Callable[[SideRuns], str]] = {
        "runs": lambda one: f"{one.n_runs:,}",
        "failed": _failed,
        "tokens a run": lambda one: f"{one.tokens / one.n_tokens:,.0f}" if one.n_tokens else "-",
        "cost a run": lambda one: _cost(one, currency),
    }
    return [(name, figure(result.a), figure(result.b)) for name, figure in figures.items()]


ARMS_OF_SIDES: Final[Table[ComparedArm]] = Table(
    arm=Field("arm", lambda one: one.arm, "arm", width=254),
    evidence=number("difference / error", lambda one: one.evidence, "+.1f", "-", width=124),
    mean_a=mean("mean A", lambda one: one.a.mean, width=72),
    mean_b=mean("mean B", lambda one: one.b.mean, width=72),
    in_a=count("in prompts A", lambda one: one.a.n_in, width=118),
    in_b=count("in prompts B", lambda one: one.b.n_in, width=118),
    shift_a=text("shift A: α, β", lambda one: _shift(one.a), width=200),
    shift_b=text("shift B: α, β", lambda one: _shift(one.b), width=200),
)


def _about(one: SearchHit) -> str:
    return " · ".join(filter(None, ("" if one.title == one.id else one.title, one.about)))


LISTED_HITS: Final[Table[SearchHit]] = HITS.only("kind", "id", "at", "about").but(about=_about)
