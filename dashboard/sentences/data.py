"""Sentences about data: imports, their results, and the effect of an undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.explained.table import Table, count, text, time
from core.flows.importing import BeliefDifference, ImportAnswer, RejectedLine, Unread
from core.flows.queries import PastImport, UndoEffect, UndoPreview
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_NAMED = 10
"""Tools outside the prompt that a sentence names."""
_SKIPPED = {
    "conversational": "no real tool was called",
    "aborted": "stopped before a real tool was called",
    "error": "failed before a real tool was called",
    "passive": "passive phase: recorded only",
}

UNREAD: Final[Table[Unread]] = Table(
    files=count("files", lambda one: one.files),
    ending=text("ending", lambda one: one.ending, "none"),
    reason=text("reason", lambda one: one.reason),
    first=text("the first", lambda one: one.first),
)
REJECTED: Final[Table[RejectedLine]] = Table(
    file=text("file", lambda one: one.file),
    line=count("line", lambda one: one.line),
    reason=text("reason", lambda one: one.reason),
)
DIFFERENCES: Final[Table[BeliefDifference]] = Table(
    arm=text("arm", lambda one: one.arm),
    stated=text("the file says", lambda one: wording.beta(one.stated_alpha, one.stated_beta)),
    stated_pulls=count("pulls there", lambda one: one.stated_pulls),
    computed=text("its runs come to", lambda one: wording.beta(one.alpha, one.beta)),
    pulls=count("pulls", lambda one: one.pulls),
)


def data(n_runs: int, n_arms: int, done: Sequence[PastImport]) -> Sentence:
    """Return what is stored, and its origin."""
    if not n_runs and not done:
        return composed("Nothing is here yet. ", Phrase("Drop your agent’s sessions"), " to begin.")
    here = f"{wording.things(n_runs, 'run')} and {wording.things(n_arms, 'arm')}"
    active = [one for one in done if not one.undone]
    if not active:
        return composed(f"{here} are here, recorded directly; ", Phrase("no import is active"), ".")
    rejected = sum(one.answer.rejected_count for one in active)
    came = f"{here} are here; "
    imports = wording.things(len(active), "import")
    are = "is" if len(active) == 1 else "are"
    if not rejected:
        return composed(f"{came}{imports} {are} active, and ", Phrase("no line was rejected"), ".")
    were = "line was rejected" if rejected == 1 else "lines were rejected"
    return composed(f"{came}{imports} {are} active, and ", Phrase(f"{wording.count(rejected)} {were}"), ".")


def left_behind(one: PastImport) -> Words:
    """Return what an import added that is still there."""
    if one.undone:
        return Words("nothing: undone")
    answer = one.answer
    counts = (
        (answer.new_runs, "run"),
        (answer.updated, "updated run"),
        (answer.new_episodes, "episode"),
        (answer.episodes_updated, "updated episode"),
        (answer.ledger - answer.ledger_duplicates, "fact"),
    )
    return wording.listed([wording.things(n, noun) for n, noun in counts if n]) or Words("nothing new")


def import_line(answer: ImportAnswer) -> Markdown:
    """Return an import in one line, in Markdown."""
    if answer.runs == 0:
        return f"No runs; {wording.literal(answer.other_facts)}."
    new = answer.new_runs
    paid = answer.new_episodes
    episodes = f" and **{wording.things(paid, 'new episode')}**" if answer.episodes else ""
    return (
        f"**{wording.things(new, 'new run')}**{episodes}, {wording.count(answer.updated)} updated, "
        f"{wording.count(answer.duplicates)} known already; {wording.things(answer.rejected_count, 'line')} rejected."
    )


def report(answer: ImportAnswer) -> dict[str, list[object]]:
    """Return the result of an import, row by row; rows of 0 only where a reader expects them."""
    rows: list[tuple[str, int, str]] = [
        ("runs read", answer.runs, f"from {wording.things(answer.files, 'file')}"),
        ("observed", answer.observed, "their arms were rewarded or penalised"),
        ("known already", answer.duplicates, "nothing changed"),
        ("updated", answer.updated, "a longer copy or a correction took their place"),
    ]
    rows += [("skipped", n, _SKIPPED[reason]) for reason, n in answer.skipped_by.items()]
    if answer.skipped and not answer.skipped_by:
        rows.append(("skipped", answer.skipped, "no real tool was called, or passive"))
    more = [
        ("empty", answer.empty, "neither reply nor call"),
        ("replies outside any turn", answer.outside, "no request came before"),
        ("calls of tools that were not offered", answer.not_offered, "they get no arm"),
        ("observations taken back", sum(answer.only_named.values()), "their arms were only named"),
        ("episodes read", answer.episodes, "what environments paid, step by step"),
        ("episodes known already", answer.episode_duplicates, "nothing changed"),
        ("episodes updated", answer.episodes_updated, "a longer record or a correction took their place"),
        ("records left out", answer.left_out, "known with other content, which stays in force"),
        *(
            (f"{kind}s", n, "reported by the files")
            for kind, n in (answer.ledger_by or {"fact": answer.ledger}).items()
        ),
    ]
    rows += [row for row in more if row[1]]
    rows.append(
        ("lines rejected", answer.rejected_count, "listed with the reason" if answer.rejected_count else "")
    )
    return {
        "what": [row[0] for row in rows],
        "how many": [row[1] for row in rows],
        "which means": [row[2] for row in rows],
    }


def calls_not_offered(answer: ImportAnswer) -> str | None:
    """Return the tools that were called without being in the prompt, most frequent first; plain text."""
    named = answer.not_offered_calls[:_NAMED]
    if not named:
        return None
    tools = ", ".join(f"{wording.plain(one.tool)} ({wording.things(one.runs, 'run')})" for one in named)
    more = ", …" if len(answer.not_offered_calls) > _NAMED else ""
    return f"Called, but no arm of the prompt offers it: {tools}{more}"


IMPORTS: Final[Table[PastImport]] = Table(
    id=text("import", lambda one: one.id, width=96),
    at=time("when", lambda one: one.at_ms, width=130),
    actor=text("by", lambda one: one.actor, width=110),
    format=text("format", lambda one: one.answer.format, width=126),
    files=count("files", lambda one: one.answer.files, width=64),
    added=text("added", left_behind, width=180),
    known=count("known", lambda one: one.answer.duplicates + one.answer.n_other_known, width=76),
    skipped=count("skipped", lambda one: one.answer.skipped, width=84),
    rejected=count("rejected", lambda one: one.answer.rejected_count, width=84),
    state=text("state", lambda one: "undone" if one.undone else "active", width=90),
)


def undo_effect(shown: UndoPreview) -> Markdown:
    """Return the effect of undoing or redoing an import, as Markdown."""
    runs, arms, pulls = (after - before for before, after in (shown.n_runs, shown.n_arms, shown.n_pulls))
    moved: list[Markdown] = [
        f"{wording.change(delta)} {noun}{'' if abs(delta) == 1 else 's'}"
        for delta, noun in ((runs, "run"), (arms, "arm"), (pulls, "pull"))
        if delta
    ]
    if shown.settings:
        names = wording.listed([wording.literal(name.replace("_", " ")) for name in shown.settings])
        moved.append(f"another value of {names}")
    what = "Restoring it" if shown.again else "Undoing it"
    if not moved and not shown.n_moved:
        return f"{what} would change nothing: other imports hold the same records, or it has none."
    words = wording.listed(moved) if moved else "no run, no arm and no pull"
    return f"{what} would mean **{words}**; {wording.things(shown.n_moved, 'arm')} would move. Nothing is deleted."


def _number(value: int | None) -> str:
    return "not listed" if value is None else wording.count(value)


MOVED: Final[Table[UndoEffect]] = Table(
    arm=text("arm", lambda one: one.key),
    pulls_now=text("pulls now", lambda one: _number(one.pulls[0])),
    pulls_after=text("pulls after", lambda one: _number(one.pulls[1])),
    mean_now=text("mean now", lambda one: wording.mean(one.mean[0], 3)),
    mean_after=text("mean after", lambda one: wording.mean(one.mean[1], 3)),
)
