"""Sentences of the page of evidence: the finding, its consequence for selection, and the repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from core.flows.queries import ChangeEvidence, RepairPreview, Share
from core.maths.statistics.overview import AttentionKind
from core.records.corrections import Repair
from core.records.learner import LearnerSettings
from core.records.limits import LAST_MS
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.sentences.settings import NEW_POLICY
from dashboard.wording import Markdown, Words

_REAL: Final = Words(
    "**It may be real.** Then what came before misleads, and beliefs can start then. Or leave it."
)
_MORE_RUNS: Final = Words("No act here changes it: only more runs can.")
_REWARDS: Final = Words("Look whether they were meant. All of them can be taken back as one.")
WHY: Final[Mapping[AttentionKind, Words]] = {
    "poisoned": Words("A broken detector sees no use where there is some. What it gave can be taken back."),
    **dict.fromkeys(("drifting", "rising", "fell_together", "new_model"), _REAL),
    "mix_changed": Words(
        "No act fits: within each model and channel, which the row above filters, nothing changed."
    ),
    "rival": Words("The newer arm takes its work. If one of them is enough, exclude this one."),
    "never_referenced": Words(
        "Runs carried them and none used them. Exclude them, or leave them for rare work."
    ),
    "stale_arms": Words(
        "Earlier use keeps them in prompts; no observed run carries them. Exclude the needless."
    ),
    "under_explored": Words("No act is needed: the next selected runs try them first."),
    "silent": Words("No act here brings runs back. Look whether the agent and its import still run."),
    "feed_silent": Words("No act here brings it back. Look whether it was switched off or its import fails."),
    "rejected_lines": Words(
        "No act fits. Repair the lines in their file and import it again: runs count once."
    ),
    "raters_part": Words(
        "Read where they differ. If this rater is off, take back the evaluations by one rubric."
    ),
    **dict.fromkeys(("rewards_apart", "reward_burst"), _REWARDS),
    "queue_overdue": Words("No act here does it: the items wait to be judged, in their queue."),
    "experiment_harms": Words("The experiment assigns no more sessions. Decide about its arm."),
    "reward_hacked": Words(
        "The agent is paid for what is no success. Leave its episodes out until that is repaired."
    ),
    "success_fell": Words(
        "No act fits: the episodes are what they are. Compare the models and tasks of both times."
    ),
    "costs_more": Words("While the learner is passive, every arm is in and nothing is learned."),
    "part_costs_more": Words("No act fits: all share one policy. Look which arms the part needs."),
    "savings_not_proven": _MORE_RUNS,
    "no_baseline_runs": Words(
        "No act makes them at once: they need a baseline rate above 0, and runs that ask armscope."
    ),
    "baseline_share_off": Words(
        "No act fits: runs reported this share. Look whether some skip armscope’s answer."
    ),
    "unknown_usage": Words(
        "Past runs can’t be filled in. This line in your agent records the tokens of the next:"
    ),
    "uncompared": Words("No act fits: they wait for baseline runs of their model, channel and rate."),
    "passive": Words("Nothing is learned and every arm is in, until the learner is active."),
}
"""What the act of each kind rests on, or why none fits."""
RECORD_TOKENS: Final = "run.used(input=900, output=120)  # or run.used(usage) of your provider"


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
    since = wording.since(change.since_ms, year_of_ms=year_of_ms)
    was = "was" if len(change.arms) == 1 else "were"
    used = Phrase(f"{_used(after)} runs")
    return composed(f"{arms} {was} used in ", used, f" since {since} (before: {_used(before)}).")


def repair_effect(preview: RepairPreview, *, starts_then: bool) -> Markdown:
    """Return the observations that a repair takes back, and those that it keeps."""
    rest = wording.things(preview.n_corrected, "observation")
    corrected = f" {rest} that people corrected stay{'s' if preview.n_corrected == 1 else ''}." * bool(
        preview.n_corrected
    )
    n_before = sum(one.n_earlier for one in preview.arms)
    n_light = preview.n - n_before - sum(one.now.pulls - one.after.pulls for one in preview.arms)
    if n_light > 0:
        corrected = f" {wording.count(n_light)} of them weigh less than a pull.{corrected}"
    if n_before:
        corrected = f" {wording.count(n_before)} of them were before a reset and move nothing.{corrected}"
    if starts_then:
        n = wording.things(preview.n, "earlier automatic observation")
        return Markdown(f"{n} would count no more, all later ones stay.{corrected} You can undo it.")
    return Markdown(f"Only automatic observations in this span.{corrected} You can undo it.")


def after_repair(done: Repair, *, is_excluded: bool) -> Words:
    """Return the next step after a repair."""
    if done.until_ms < LAST_MS:
        return Words("Nothing else to do: the belief rests on what came since.")
    if is_excluded:
        return Words("Next: repair the detector, then let the arms back in.")
    return Words("Next: repair the detector, or the same observations come again with new runs.")


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


def _used(share: Share) -> Words:
    return Words(f"{round(100 * share.value)} of 100")
