"""Sentences in place of texts that are hidden or not stored."""

from __future__ import annotations

from dashboard.wording import Words


def hidden(*, may_read: bool) -> Words:
    """In the place of a text that is not shown.

    >>> hidden(may_read=False)
    'Hidden from viewers.'
    """
    return Words("Erased, or left out of the file it came from." if may_read else "Hidden from viewers.")


def how_to_keep(*, keeps: bool, may_read: bool = True, of: Words = Words("run")) -> Words:
    """In the place of what a run or an episode was asked and answered, by whether the learner keeps such texts now.

    >>> how_to_keep(keeps=False)
    'Texts are not kept. The setting keep_texts keeps them from then on, and those of runs imported again.'
    """
    if not may_read:
        return Words(f"Operators read texts. Reviewers read those of {of}s that are in a queue to judge.")
    if keeps:
        return Words(f"The texts of this {of} were not kept. Import it again to keep them.")
    return Words(
        f"Texts are not kept. The setting keep_texts keeps them from then on, and those of {of}s imported again."
    )
