"""Tables of runs: their list, the arms of one, sessions, observed rewards, two sides, and hits of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.explained.run import NONE, evidence, flip, observed, state, why
from core.explained.table import Field, Table, count, mean, number, text, time
from core.records.arm import MICRO

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.flows.queries import RunArm, RunStory
    from core.records.observation import Observation
    from core.records.run_page import RunRow, SessionRow
    from core.records.search import SearchHit
    from core.records.sides import ComparedArm, ComparedSides, SideArm, SideRuns

_PICO: Final = 10**12
_UNKNOWN: Final = "unknown"

RUNS: Final[Table[RunRow]] = Table(
    run_no=Field("run", lambda one: str(one.run_no), "count"),
    at=time("ended", lambda one: one.at_ms, _UNKNOWN),
    run_class=text("class", lambda one: one.run_class),
    outcome=text("outcome", lambda one: one.outcome),
    n_arms=Field("arms", lambda one: str(one.n_arms), "count"),
    n_referenced=Field("referenced", lambda one: str(one.n_referenced), "count"),
    tokens=count("tokens", lambda one: one.tokens, _UNKNOWN),
    uid=text("uid", lambda one: one.uid),
)
RUNS_OF_SESSION: Final = RUNS.only(
    "run_no", "at", "run_class", "outcome", "n_referenced", "tokens", "uid"
).but(n_referenced=lambda one: f"{one.n_referenced} of {one.n_arms}")
SESSIONS: Final[Table[SessionRow]] = Table(
    session=text("session", lambda one: one.session),
    last=time("last run", lambda one: one.last_ms, _UNKNOWN),
    n_runs=count("runs", lambda one: one.n_runs),
    n_observed=count("observed", lambda one: one.n_observed),
    n_unfinished=count("unfinished", lambda one: one.n_unfinished),
    tokens=count("tokens", lambda one: one.tokens if one.n_tokens else None, _UNKNOWN),
)
ARMS_OF_SESSION: Final[Table[tuple[str, int, int]]] = Table(
    arm=text("arm", lambda one: one[0]),
    n_in=count("prompts", lambda one: one[1]),
    n_referenced=count("referenced", lambda one: one[2]),
)

SIDES: Final[Table[tuple[str, str, str]]] = Table(
    name=text("", lambda one: one[0]),
    a=Field("a", lambda one: one[1], "number"),
    b=Field("b", lambda one: one[2], "number"),
)


def arms_of(story: RunStory) -> Table[RunArm]:
    """Return the table of the arms of a run: decision, evidence, and the change that would have flipped it."""
    return Table(
        state=text("", state),
        arm=text("arm", lambda one: one.arm),
        why=text("why", why),
        rank=count("rank", lambda one: one.rank, NONE),
        draw=number("draw", lambda one: one.draw, ".3f", NONE),
        token_cost=count("tokens", lambda one: one.token_cost, NONE),
        evidence=text("evidence", lambda one: evidence(one, story)),
        observed=text("observed", observed),
        flip=text("what would have flipped it", lambda one: flip(one, story)),
    )


def _ledger_state(one: Observation) -> str:
    return "undone" if one.undone else "counts" if one.counts else "superseded or inactive"


LEDGER: Final[Table[Observation]] = Table(
    id=text("reward of", lambda one: one.id),
    arm=text("arm", lambda one: one.arm),
    kind=text("kind", lambda one: one.kind),
    reward=number("value", lambda one: one.reward),
    run=text("run", lambda one: one.run, "none"),
    actor=text("by", lambda one: one.actor),
    at=time("at", lambda one: one.at_ms, _UNKNOWN),
    state=text("state", _ledger_state),
)


def _failed(one: SideRuns) -> str:
    return "-" if one.failed.value is None else f"{one.n_failed:,} ({100 * one.failed.value:.1f}%)"


def _shift(side: SideArm) -> str:
    parts = [f"{one.source} {_amount(one.alpha_micro)}, {_amount(one.beta_micro)}" for one in side.shifts]
    return "; ".join(parts) or "-"


def _amount(micro: int) -> str:
    """Return millionths as an exact decimal.

    >>> _amount(1_500_000), _amount(-1)
    ('+1.5', '-0.000001')
    """
    whole, rest = divmod(abs(micro), MICRO)
    return f"{'-' if micro < 0 else '+'}{whole}{f'.{rest:06}'.rstrip('0') if rest else ''}"


def sides_of(result: ComparedSides) -> list[tuple[str, str, str]]:
    """Return the rows of `SIDES`: figures of both sides."""
    figures: dict[str, Callable[[SideRuns], str]] = {
        "runs": lambda one: f"{one.n_runs:,}",
        "failed": _failed,
        "tokens a run": lambda one: f"{one.tokens / one.n_tokens:,.0f}" if one.n_tokens else "-",
        "cost a run": lambda one: f"${one.cost_pico / _PICO / one.n_costs:.4f}" if one.n_costs else "-",
    }
    return [(name, figure(result.a), figure(result.b)) for name, figure in figures.items()]


ARMS_OF_SIDES: Final[Table[ComparedArm]] = Table(
    arm=text("arm", lambda one: one.arm),
    mean_a=mean("mean a", lambda one: one.a.mean),
    mean_b=mean("mean b", lambda one: one.b.mean),
    n_in_a=count("in a", lambda one: one.a.n_in),
    n_in_b=count("in b", lambda one: one.b.n_in),
    shift_a=text("shift a: alpha, beta", lambda one: _shift(one.a)),
    shift_b=text("shift b: alpha, beta", lambda one: _shift(one.b)),
)


def _about(one: SearchHit) -> str:
    return " · ".join(filter(None, ("" if one.title == one.id else one.title, one.about)))


HITS: Final[Table[SearchHit]] = Table(
    kind=text("kind", lambda one: one.kind),
    id=text("id", lambda one: one.id),
    at=time("newest", lambda one: one.at_ms),
    about=text("about", _about),
)
