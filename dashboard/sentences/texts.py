"""Sentences in place of texts that are hidden or not stored."""

from __future__ import annotations

from dashboard.wording import Words


def hidden(*, may_read: bool) -> Words:
    """In the place of a text that is not shown.

    >>> hidden(may_read=False)
    'Hidden from viewers.'
    """
    return Words("Erased, or left out of the file it came from." if may_read else "Hidden from viewers.")


def how_to_keep(*, keeps: bool, may_read: bool = True) -> Words:
    """In the place of what a run was asked and answered, by whether the learner keeps such texts now.

    >>> how_to_keep(keeps=False)
    'What was asked and answered is not kept. The setting keep_texts keeps it from then on, and of what is imported \
again.'
    """
    if not may_read:
        return Words("What was asked and answered is hidden from viewers.")
    if keeps:
        return Words("What was asked and answered was not kept of this run: import it again to have it.")
    return Words(
        "What was asked and answered is not kept. The setting keep_texts keeps it from then on, and of what is "
        "imported again."
    )
