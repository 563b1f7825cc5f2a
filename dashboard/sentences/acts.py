"""Sentences about acts: the effect of a reward or reset."""

from __future__ import annotations

from core.columns import ArmColumns
from core.explained import NOT_OFFERED, chance_words
from core.flows.queries import ArmBelief, BatchPreview
from core.records.learner import LearnerSettings
from core.records.observation import Observation
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.sentences.inclusion import error_words
from dashboard.wording import Markdown, Words


def rewarded_by_hand(row: Observation, now_ms: int) -> Markdown:
    """Return who rewarded an arm in a run, how and when, as Markdown.

    >>> row = Observation(id="reward-1", row_no=1, arm="tool:fs:Read", kind="correction", reward=0.5, weight=1.0,
    ...     run="a", run_no=1, reason=None, actor="Priya", at_ms=0, epoch=1, undone=False, counts=True)
    >>> rewarded_by_hand(row, 61_000)
    'Priya corrected this to 0.5 a minute ago'
    """
    did = "corrected this to" if row.kind == "correction" else "gave this"
    return f"{wording.literal(row.actor)} {did} {row.reward:g} {wording.ago(row.at_ms, now_ms)}"


def batch(preview: BatchPreview) -> Words:
    """Return number and kind of a batch's rewards, as Markdown."""
    n_lines, n_corrections = len(preview.lines), preview.n_corrections
    parts = [
        wording.things(number, *words)
        for number, words in (
            (n_corrections, ("correction",)),
            (n_lines - n_corrections, ("piece of feedback", "pieces of feedback")),
        )
        if number
    ]
    kinds = f": {' and '.join(parts)}." if parts else ""
    return f"**{wording.things(n_lines, 'reward')}** about {wording.things(len(preview.arms), 'arm')}{kinds}"


def replaced_reward(automatic: float | None, reward: float) -> str:
    """Return a reward beside the automatic one that it would replace, if there is one.

    >>> replaced_reward(1.0, 0.5), replaced_reward(None, 0.0)
    ('● 1.0 → ◆ 0.5', '× 0.0')
    """
    value = wording.reward(reward)
    return value if automatic is None else f"{wording.reward(automatic)} → {value}"


def effect(
    before_mean: float, after_mean: float, ranks: tuple[int, int], *, is_done: bool = False
) -> Markdown:
    """Return the effect of a reward, before or after it is sent."""
    move, leave = ("moved", "left") if is_done else ("move", "leave")
    before, after = wording.means(before_mean, after_mean)
    was, now = (wording.count(rank) for rank in ranks)
    mean = f"the mean from {before} to {after}" if before != after else f"the mean at {after}"
    rank = f"the rank from {was} to {now}" if was != now else f"the rank at {now}"
    verb, other = (move if changed else leave for changed in (before != after, was != now))
    did = f"{verb} {mean} and {rank if verb == other else f'{other} {rank}'}"
    return Markdown(f"This {did}." if is_done else f"This would {did}. Nothing is sent yet.")


def scope_words(columns: ArmColumns) -> Words:
    """Return the arms of a reset in words: 14 tools, 45 arms."""
    kinds = set(columns.types)
    if len(kinds) == 1:
        kind = next(iter(kinds))
        return wording.things(len(columns), kind, wording.TYPE_PLURALS[kind])
    return wording.things(len(columns), "arm")


def reset(columns: ArmColumns, *, uniform: bool) -> Sentence:
    """Return the effect of a reset, and that it can be undone."""
    target = (
        "to Beta(1, 1)" if uniform else "to their own priors" if len(columns) != 1 else "to its own prior"
    )
    pulls = columns.n_pulls
    whose = "Its" if len(columns) == 1 else "Their"
    stay = f"{whose} {wording.things(pulls, 'pull')} stay{'s' if pulls == 1 else ''} readable"
    return composed("Reset ", Phrase(scope_words(columns)), f" {target}. {stay}, and you can undo it.")


def consequence(columns: ArmColumns, settings: LearnerSettings) -> Words:
    """Return the consequence of a reset for the next runs, as Markdown.

    An arm below the minimum of pulls precedes every drawn arm. So each of these is in the next selected runs until it
    has that many. Seed arms are always included, excluded arms never.
    """
    n_excluded = sum(key in columns.places for key in settings.left_out)
    n_tried = len(columns) - n_excluded - sum(key in columns.places for key in settings.always_in)
    if settings.phase == "passive":
        return Words(
            "**Nothing is selected while the learner is passive**; the arms stay at their new start."
        )
    if n_excluded == len(columns):
        return Words("**A setting excludes these arms**: they stay out of every prompt.")
    if n_tried == 0:
        return Words("**These are seed arms**: they stay in every prompt and begin to learn again.")
    arms = "this arm" if len(columns) == 1 else "these arms"
    pulls = wording.number_word(settings.min_pulls)
    each = "until it has" if len(columns) == 1 else "until each has"
    return (
        f"**The next selected runs will explore {arms} first**, {each} {pulls} pulls; what they cost goes "
        "into the prompt meanwhile."
    )


def effect_table(before: ArmBelief, after: ArmBelief, *, n_arms: int) -> dict[str, list[Markdown]]:
    """Before, after and change of one arm, as the small table of the reward form says it, in Markdown."""
    pulls = after.pulls - before.pulls
    widths = (before.upper - before.lower, after.upper - after.lower)
    rows: list[tuple[Words, ...]] = [
        (
            Words("mean"),
            *wording.means(before.mean, after.mean),
            wording.small_change(after.mean - before.mean),
        ),
        (
            Words("95% interval"),
            wording.interval(before.lower, before.upper),
            wording.interval(after.lower, after.upper),
            f"width {wording.small_change(widths[1] - widths[0])}",
        ),
        (
            Words("confidence"),
            f"{wording.band(before.band)}, {wording.things(before.pulls, 'pull')}",
            f"{wording.band(after.band)}, {wording.things(after.pulls, 'pull')}",
            Words(f"{wording.change(pulls)} pull{'' if abs(pulls) == 1 else 's'}" if pulls else "none"),
        ),
        (
            f"rank among {wording.count(n_arms)}",
            wording.count(before.rank),
            wording.count(after.rank),
            _places(after.rank - before.rank),
        ),
    ]
    if before.chance is not None and after.chance is not None:
        points = wording.change((after.chance - before.chance) * 100)
        chances = chance_words(before.chance), chance_words(after.chance)
        errors = error_words(before.chance_error), error_words(after.chance_error)
        rows.append((Words("chance of inclusion"), *chances, f"{points} points"))
        rows.append((Words("its standard error"), *errors, wording.MISSING))
    else:
        rows.append((Words("chance of inclusion"), Words(NOT_OFFERED), Words(NOT_OFFERED), Words("none")))
    return {
        "what": [row[0] for row in rows],
        "before": [row[1] for row in rows],
        "after": [row[2] if row[1] == row[2] else f"**{row[2]}**" for row in rows],
        "change": [row[3] for row in rows],
    }


def _places(delta: int) -> Words:
    """Return a change of rank; down is a larger number.

    >>> _places(2), _places(-1), _places(0)
    ('2 places down', '1 place up', 'none')
    """
    if delta == 0:
        return Words("none")
    return f"{wording.things(abs(delta), 'place')} {'down' if delta > 0 else 'up'}"
