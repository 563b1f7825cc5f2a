"""Status: where the data are, and what they hold."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import typer

from core.doors.cli.program.app import ReadDatabase, answer, command, context_of
from core.doors.terminal import say, say_facts
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.flows import queries


@command(examples=["status", "--database demo.db status --json"])
def status(line: typer.Context, read_database: ReadDatabase = None) -> None:
    found: queries.Status = verb("status").call(context_of(line, read_database=read_database))
    answer(line, found, lambda: _say_status(found))


def _say_status(found: queries.Status) -> None:
    from core.explained import server  # with what it explains of runs comes the store

    skipped = ", ".join(f"{count:,} {reason}" for reason, count in found.skipped.items() if count) or "none"
    baseline = found.baseline
    truncated = f" ({baseline.truncated_runs:,} truncated)" if baseline.truncated_runs else ""
    rows = [
        ("database", found.database),
        *([("server", server(found.standing))] if found.standing else []),
        *([("distributed over", ", ".join(found.servers))] if found.servers else []),
        *([("pages are read from", _read_from(found))] if found.read_database else []),
        ("learner", f"{found.learner} ({found.phase}, detection {found.mode}, revision {found.revision:,})"),
        ("runs", f"{found.runs:,} ({found.observed:,} observed; skipped: {skipped}; {found.empty:,} empty)"),
        ("arms", f"{found.arms:,} with {found.pulls:,} pulls{_need_a_look(found)}"),
        *([("offers", _offers(found))] if found.offers else []),
        ("tokens", f"{found.tokens:,}"),
        ("first and last run", f"{found.first_run or 'unknown'} to {found.last_run or 'unknown'}"),
        ("baseline, selected", f"{baseline.baseline_runs:,}{truncated} and {baseline.selected_runs:,} runs"),
        ("savings", _saved(baseline.savings_percent, baseline.interval)),
        ("counted up to a cap", _saved(baseline.capped_savings_percent, baseline.capped_interval)),
        ("of a typical run", _saved(baseline.typical_savings_percent, baseline.typical_interval)),
        ("may be said", _VERDICTS[baseline.verdict]),
    ]
    say_facts(rows)
    if found.open_to_others:
        files = shlex.join(found.open_to_others)
        say("", f"Other users of this machine can read it. To end that: chmod go= {files}")
    if not found.runs:
        say("", "Nothing is recorded yet. Next: armscope import <files or folders>, or armscope demo.")


def _read_from(found: queries.Status) -> str:
    """Return the standby, or why pages are read from the primary."""
    from core.explained import server

    if found.read_standing is None:
        return f"the primary, for the standby can't be asked: {found.read_problem}"
    return f"{found.read_database} ({server(found.read_standing)})"


_VERDICTS: Final[Mapping[str, str]] = {
    "proven": "proven: it saves tokens, however often one looks",
    "not_proven": "not proven",
    "costs_more": "proven: it costs more tokens, however often one looks",
    "mixed": "ordinary runs and runaway runs go different ways",
    "no_interval": "nothing is proven: no interval yet",
    "no_figure": "no savings can be claimed",
}


def _offers(found: queries.Status) -> str:
    """Return the number of selections given to clients, and of those without an observation."""
    return f"{found.offers:,} given to clients, {found.offers_unobserved:,} of them with nothing observed"


def _saved(percent: float | None, interval: tuple[float, float] | None) -> str:
    if percent is None:
        return "no figure"
    if interval is None:
        return f"{percent:.1f}% of the tokens, no interval"
    return f"{percent:.1f}% of the tokens, 95% interval for one look {interval[0]:.1f}% to {interval[1]:.1f}%"


def _need_a_look(found: queries.Status) -> str:
    """Return the numbers of arms with a notable judgement."""
    said = [f"{count:,} {name.replace('_', ' ')}" for name, count in found.need_a_look.items()]
    return f"; to look at: {', '.join(said)}" if said else ""
