"""Sentences about one episode, its facts in a line, and its steps."""

from __future__ import annotations

from typing import Final

from core.flows.queries import EpisodeView, StepView
from core.records.episode import Scale, StepKind, StepNote
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_REQUEST_CHARS: Final = 60
STEP_KINDS: Final[dict[StepKind, str]] = {
    "call": "answer of a tool",
    "message": "message",
    "outcome": "judged at the end",
}
_NOTES: Final[dict[StepNote, str]] = {
    "nan": "its reward was NaN",
    "infinite": "its reward was infinite",
    "not_a_number": "its reward was no number",
    "error": "the call failed",
    "cut": "the answer broke off",
    "episode_finished": "nothing was run: it had finished",
}
_LEFT: Final = {
    "finished": " and finished",
    "unfinished": " and has not finished",
    "broken": " and was ended by an error, so its reward counts in no average",
    "incomplete": "; part of the answers could not be stored",
}


def episode(view: EpisodeView) -> Sentence:
    """Return total, number of steps, state, and number of steps without a reward."""
    name = f"Episode {wording.short(view.uid)} "
    if not view.n_steps:
        return composed(name, "has no step that counts.")
    in_steps = f" in {wording.things(view.n_steps, 'step')}"
    left = _LEFT[view.status]
    if view.total is None:
        return composed(name, "was paid ", Phrase(f"nothing{in_steps}"), f"{left}; no reward is not a zero.")
    n_none = view.n_steps - view.n_paid
    none = (
        f"; {wording.number_word(n_none)} step{'' if n_none == 1 else 's'} sent no reward, which is not a zero."
        if n_none
        else "."
    )
    return composed(name, "reached ", Phrase(f"{wording.paid(view.total)}{in_steps}"), f"{left}{none}")


def episode_verdict(view: EpisodeView) -> Words:
    """Return whether it counts as a success, and by which rule."""
    rule = threshold(view.scale)
    reached = view.scale.reached(view.total, view.final)
    if view.scale.base == "none":
        return f"Success means {rule}."
    if reached is None:
        missing = "without any reward" if view.total is None else "without a final reward"
        return f"Success means {rule}: {missing} it is none."
    if view.success is None:
        return (
            f"Success means {rule}; {wording.paid(reached)} lies outside {ends(view.scale)}, which is no declared "
            "scale, so it is unknown whether this is one."
        )
    beside = "" if view.normalised is not None else f", outside {ends(view.scale)}"
    return f"Success means {rule}: {wording.paid(reached)} is {'one' if view.success else 'none'}{beside}."


def threshold(scale: Scale) -> Words:
    """Return the rule of success."""
    if scale.base == "none":
        return Words("nothing: its episodes are left out")
    base = "a total" if scale.base == "total" else "a final reward"
    return f"{base} above {wording.paid(scale.threshold)}"


def ends(scale: Scale) -> Words:
    """Return the declared scale of totals.

    >>> ends(Scale(lo=-1))
    'the scale −1 to 1'
    """
    return f"the scale {wording.signed_minus(f'{scale.lo:g}')} to {wording.signed_minus(f'{scale.hi:g}')}"


def episode_facts(view: EpisodeView, *, year_of_ms: int | None) -> Markdown:
    """Return time, task, model and actor on one line; foreign text is escaped."""
    at = (
        "time unknown" if view.at is None else f"{wording.written_minute(view.at, year_of_ms=year_of_ms)} UTC"
    )
    foreign = {
        "environment": view.environment,
        "task": view.task,
        "split": view.split,
        "variant": view.variant,
        "model": view.model,
    }
    parts = [f"{name} {wording.short(value)}" for name, value in foreign.items() if value is not None]
    return " · ".join([at, *parts])


def step_name(step: StepView) -> str:
    """Return a step's tool, or its kind, as plain text."""
    return wording.plain(step.name) or STEP_KINDS[step.kind]


def step_request(step: StepView) -> str:
    """Return the beginning of a step's request, else the earlier step that it repeats, as plain text."""
    text = " ".join(wording.plain((step.asked or "")[: 2 * _REQUEST_CHARS]).split())
    if len(text) > _REQUEST_CHARS:
        return f"{text[: _REQUEST_CHARS - 1]}…"
    return text or _repeated(step) or wording.MISSING


def _repeated(step: StepView) -> str:
    """Return the earlier step with the same action, "" without one."""
    return "" if step.same_as is None else f"same action as step {step.same_as:,}"


def step_state(step: StepView) -> str:
    """Return the exceptions of a step, as plain text."""
    parts = [
        words
        for words, is_so in (
            ("finished", step.finished and not step.refused),
            ("refused, adds nothing", step.refused),
            ("outside the scale", step.out_of_scale),
            (_repeated(step), step.same_as is not None),
            (_NOTES[step.note] if step.note is not None else "", step.note is not None),
            (f"also sent {wording.plain(', '.join(step.extra))}", bool(step.extra)),
        )
        if is_so
    ]
    return "; ".join(parts)


def steps_note(view: EpisodeView) -> Words:
    """Return the number of steps by kind."""
    n_refused = sum(one.refused for one in view.steps)
    parts = [wording.things(view.n_steps, "step"), f"{wording.count(view.n_paid)} paid"]
    if view.n_steps > view.n_paid:
        parts.append(f"{wording.count(view.n_steps - view.n_paid)} none paid")
    if n_refused:
        parts.append(f"{wording.count(n_refused)} refused after the end")
    return ", ".join(parts)


def picture_note(view: EpisodeView, *, each: int) -> Words:
    """Return the legend of the marks that occur; ``each`` steps are a column."""
    counted = [one for one in view.steps if not one.refused]
    marks = [
        words
        for words, is_there in (
            ("hatched: none paid", any(one.reward is None for one in counted)),
            ("open circle: 0", any(one.reward == 0 for one in counted)),
            ("grey: refused after the end", len(counted) < len(view.steps)),
        )
        if is_there
    ]
    if each > 1:
        marks.append(f"a column is {wording.count(each)} steps, from the lowest payment to the highest")
    return "; ".join(marks)
