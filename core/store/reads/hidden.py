"""Hidden evaluations: those that the caller may not see yet, because their own judgement is missing."""

from __future__ import annotations

from collections.abc import Collection


def leaving_out(column: str, hidden: Collection[int]) -> tuple[str, list[int]]:
    """SQL that leaves evaluations out by the column of their numbers, and its values; nothing where none is hidden.

    >>> leaving_out("e.evaluation_no", [7, 3])
    (' AND e.evaluation_no NOT IN (?,?)', [3, 7])
    >>> leaving_out("e.evaluation_no", [])
    ('', [])
    """
    if not hidden:
        return "", []
    return f" AND {column} NOT IN ({','.join('?' * len(hidden))})", sorted(hidden)
