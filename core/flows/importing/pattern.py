"""Pattern that finds the name of the learner in the path of a file.

A pattern is compared part by part with the path below the named folder. ``{learner}`` is the name, ``*`` matches any
characters of a part, and ``**`` any number of folders. A path has at most one match, so no run is assigned to the
wrong learner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from core.errors import InvalidInput, InvalidSetting
from core.settings import check_learner

NAME: Final = "{learner}"
ANY_FOLDERS: Final = "**"
_EXAMPLE: Final = "*/{learner}/*.jsonl"


@dataclass(frozen=True)
class LearnerPattern:
    """A valid pattern; raises `InvalidInput` for an invalid one.

    >>> pattern = LearnerPattern("*/agent-{learner}/**")
    >>> pattern.learner_of("2026/agent-support/may/1.jsonl"), pattern.learner_of("2026/readme.md")
    ('support', None)
    """

    text: str

    def __post_init__(self) -> None:
        problem = _problem(self.text)
        if problem is not None:
            raise InvalidInput(
                f"A pattern of learners {problem}, got {self.text[:200]!r}.",
                next_step=f"Write it like {_EXAMPLE!r}: {NAME} is the name, * any characters of a part of the path, "
                f"{ANY_FOLDERS} any number of folders.",
            )

    def learner_of(self, path: str) -> str | None:
        """Return the learner of a path below the folder, or None if the pattern does not match.

        The parts of the path are separated by ``/``. Raises `InvalidSetting` for an invalid learner name.
        """
        match = re.fullmatch(_expression(self.text), path)
        return None if match is None else check_learner(match["learner"])

    def learner_or_reason(self, path: str) -> tuple[str | None, str]:
        """Return the learner of a path, or the reason why it has none.

        >>> LearnerPattern("{learner}.jsonl").learner_or_reason("a.txt")
        (None, "Its path doesn't fit {learner}.jsonl.")
        """
        try:
            learner = self.learner_of(path)
        except InvalidSetting as problem:
            return None, problem.problem
        return learner, "" if learner is not None else f"Its path doesn't fit {self.text}."


def _problem(text: str) -> str | None:
    parts = text.split("/")
    holders = [part for part in parts if NAME in part]
    if text.count(NAME) != 1 or "{" in text.replace(NAME, "") or "}" in text.replace(NAME, ""):
        return f"must hold {NAME} once and no other braces"
    if any(part in {"", ".", ".."} for part in parts):
        return "must be a path below the folder, without empty parts, . or .."
    if "*" in holders[0]:
        return f"must have no * in the part of {NAME}: where the name ends would be a guess"
    if sum(ANY_FOLDERS in part for part in parts) > 1 or any(
        ANY_FOLDERS in part and part != ANY_FOLDERS for part in parts
    ):
        return f"must have {ANY_FOLDERS} once at most, as a whole part"
    return None


def _expression(text: str) -> str:
    *folders, last = text.split("/")
    below = "(?:[^/]+/)*"
    start = "".join(below if part == ANY_FOLDERS else f"{_part(part)}/" for part in folders)
    return start + (f"{below}[^/]+" if last == ANY_FOLDERS else _part(last))


def _part(part: str) -> str:
    quoted = "[^/]*".join(re.escape(text) for text in part.split("*"))
    return quoted.replace(re.escape(NAME), "(?P<learner>[^/]+)")
