"""Marks: a draft of rewards for arms of a run."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from core.flows.queries import RunArm, RunStory
from core.records.batch import BatchLine
from core.records.observation import Observation, RewardOutcome
from dashboard.widgets.drafts import Draft, Drafts, here


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Outcomes by arm. ``seen`` is the newest manual reward of each that the person knows ("" = none).

    ``why`` is the reason for all of them.
    """

    run: str
    outcomes: Mapping[str, RewardOutcome] = field(default_factory=dict)
    known_newest: Mapping[str, str] = field(default_factory=dict)
    why: str = ""


_DRAFTS: Final = Drafts[Marks](bound=500)


def marks_of(story: RunStory) -> Draft[Marks]:
    """Return the marks of a run's included arms; an empty draft has no key."""
    uid = story.facts.uid
    draft = _DRAFTS.newest(here(), lambda marks: marks.run == uid)
    if draft is None:
        return Draft(key="", fields=Marks(run=uid))
    known = {arm.arm for arm in judged(story)}
    outcomes = {arm: outcome for arm, outcome in draft.fields.outcomes.items() if arm in known}
    return replace(draft, fields=replace(draft.fields, outcomes=outcomes))


def mark(story: RunStory, outcomes: Mapping[str, RewardOutcome | None]) -> None:
    """Mark some arms, or (None) take their marks back."""
    draft = marks_of(story)
    known = draft.fields
    marked = {**known.outcomes, **outcomes}
    newest = {**{arm: newest_id(story, arm) for arm in outcomes}, **known.known_newest}
    _keep(
        draft,
        replace(
            known,
            outcomes={arm: outcome for arm, outcome in marked.items() if outcome is not None},
            known_newest={arm: newest[arm] for arm, outcome in marked.items() if outcome is not None},
        ),
    )


def write_why(story: RunStory, why: str) -> None:
    """Keep the reason as far as it is typed."""
    draft = marks_of(story)
    _keep(draft, replace(draft.fields, why=why))


def see(story: RunStory, arms: Iterable[str]) -> None:
    """Record that the newest rewards of some arms were shown to the person."""
    draft = marks_of(story)
    newest = {arm: newest_id(story, arm) for arm in arms}
    _keep(draft, replace(draft.fields, known_newest={**draft.fields.known_newest, **newest}))


def drop(key: str) -> None:
    """Forget a draft, if it is there."""
    _DRAFTS.drop(here(), key)


def lines_of(story: RunStory, marks: Marks, *, checked: bool) -> tuple[BatchLine, ...]:
    """Return marks as lines of a batch, in the order of the run's arms; ``checked`` adds the newest known reward."""
    lines = [
        BatchLine(
            arm=arm.arm,
            outcome=marks.outcomes[arm.arm],
            run=story.facts.uid,
            reason=marks.why.strip() or None,
            kind="feedback" if arm.reward is None else "correction",
        )
        for arm in judged(story)
        if arm.arm in marks.outcomes
    ]
    if not checked:
        return tuple(lines)
    return tuple(msgspec.structs.replace(line, seen=marks.known_newest.get(line.arm, "")) for line in lines)


def judged(story: RunStory) -> list[RunArm]:
    """Return the arms that can be judged, those that were referenced first."""
    arms = [arm for arm in story.arms if arm.in_prompt]
    return [arm for arm in arms if arm.referenced] + [arm for arm in arms if not arm.referenced]


def latest_reward(arm: RunArm) -> Observation | None:
    """Return the latest active manual reward of an arm in its run."""
    return next((row for row in arm.by_hand if not row.undone), None)


def newest(story: RunStory, arm: str) -> Observation | None:
    """Return the same, by the arm's name."""
    return next((latest_reward(one) for one in story.arms if one.arm == arm), None)


def newest_id(story: RunStory, arm: str) -> str:
    """Return its id, "" without one."""
    row = newest(story, arm)
    return "" if row is None else row.id


def _keep(draft: Draft[Marks], marks: Marks) -> None:
    if marks.outcomes or marks.why:
        _DRAFTS.keep(here(), Draft(key=draft.key or uuid.uuid4().hex, fields=marks))
    else:
        drop(draft.key)
