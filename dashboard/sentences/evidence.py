"""Sentences of the page of evidence: the finding, its consequence for selection, and the repair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.flows.queries import ChangeEvidence, RepairPreview, Share
from core.records.learner import LearnerSettings
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.sentences.settings import NEW_POLICY
from dashboard.wording import Markdown, Words


def arms_words(arms: Sequence[str]) -> Markdown:
    """Return the name of one arm, or the number and type of several.

    >>> arms_words(["file:workspace:a.csv", "file:workspace:b.csv"])
    '2 files'
    """
    if len(arms) == 1:
        return wording.literal(wording.short_name(arms[0]))
    kinds = {wording.type_of(arm) for arm in arms}
    kind = next(iter(kinds))
    return wording.things(len(arms), *((kind, wording.TYPE_PLURALS[kind]) if len(kinds) == 1 else ("arm",)))


def evidence(change: ChangeEvidence, *, year_of_ms: int | None) -> Sentence:
    """Return the finding with its time and counts, or that there are too few observations for one."""
    arms = arms_words([one.arm for one in change.arms])
    when = wording.minute(change.since_ms, year_of_ms=year_of_ms)
    before, after = change.before, change.after
    if not change.is_enough:
        sides = f"{wording.count(before.n)} before {when}, {wording.count(after.n)} since"
        return composed(f"There are too few observations of {arms} to compare: ", Phrase(sides), ".")
    were_zero = f"{wording.count(after.n - after.n_used)} of {wording.count(after.n)}"
    return composed(
        f"Since {when} ",
        Phrase(f"{were_zero} observations"),
        f" of {arms} were 0; before, {_used(before)} used ",
        Words("it." if len(change.arms) == 1 else "them."),
    )


def evidence_line(change: ChangeEvidence) -> Markdown:
    """Return the effect on selection: how often the arms were chosen before and since."""
    before = _sum(one.chosen_before for one in change.arms)
    after = _sum(one.chosen_after for one in change.arms)
    if not before.n or not after.n:
        return Words(
            "Only automatic observations count here. No run was selected on both sides of this time."
        )
    shares = [wording.percent(one.value, 0) for one in (before, after)]
    return Markdown(
        f"Selection put {'it' if len(change.arms) == 1 else 'them'} into {shares[0]} of the prompts before, and into "
        f"{shares[1]} since. Only automatic observations count here."
    )


def repair_effect(preview: RepairPreview) -> Markdown:
    """Return the size of a repair, and the observations that it keeps."""
    rest = wording.things(preview.n_corrected, "observation")
    corrected = f" {rest} that people corrected stay{'s' if preview.n_corrected == 1 else ''}." * bool(
        preview.n_corrected
    )
    return Markdown(f"Only automatic observations in this span.{corrected} You can undo it.")


def exclusion_effect(settings: LearnerSettings, *, n_excluded: int, n_arms: int) -> Markdown:
    """Return the effect of excluding the arms, or that a setting excludes some or all of them."""
    passive = Words(
        " The learner is passive: until it is active, every arm is in." * (settings.phase == "passive")
    )
    if n_excluded == n_arms:
        return f"No prompt includes them, baseline runs included. {NEW_POLICY}{passive}"
    some = Words("")
    if n_excluded:
        some = f"{wording.count(n_excluded)} of {wording.things(n_arms, 'arm')} excluded so far. "
    return f"{some}No prompt includes them until you let them back in. Their observations stay. {NEW_POLICY}{passive}"


def reset_warning(n_pulls: float, settings: LearnerSettings, *, is_excluded: bool) -> Markdown:
    """Return the reason why a reset is the larger cure, and what it does while the detector is broken.

    ``n_pulls`` are those of the arms, what people gave among them.
    """
    n = wording.things(round(n_pulls), "observation")
    if is_excluded:
        return Markdown(f"A reset ends all {n}. The excluded arms stay out of prompts after it.")
    return Markdown(
        f"A reset ends all {n}. Arms with fewer than {settings.min_pulls} pulls come first in every prompt. "
        "So repair the detector before a reset, or exclude the arms until then."
    )


def _used(share: Share) -> Words:
    return Words(f"{round(100 * share.value)} of 100")


def _sum(shares: Iterable[Share]) -> Share:
    listed = list(shares)
    return Share(sum(one.n for one in listed), sum(one.n_used for one in listed))
