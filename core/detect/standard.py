"""Mode ``standard``: skills and files as whole words, memories by any 20 characters of their content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from core.detect.quotations import Grams, spaced
from core.detect.words import Haystack, find_word
from core.records.arm import Arm, ArmType, skill_name
from core.records.evidence import Where
from core.records.run import Run

_SKILL_TIES: Final = "-"
_FILE_TIES: Final = ".-"


class StandardMentions:
    """Searcher of the texts and metadata of the runs of one inventory, any case."""

    def __init__(self) -> None:
        self._skills: dict[str, list[int]] = {}
        self._files: dict[str, list[int]] = {}
        self._memories: dict[str, list[int]] = {}
        self._grams: Grams | None = None

    def want(self, index: int, arm: Arm) -> None:
        """Add an arm to look for; ``index`` is its index in the inventory."""
        _WANTS[arm.type](self, index, arm)

    def ready(self) -> None:
        """Build the index of memories once all arms are added."""
        if self._memories:
            self._grams = Grams.of(self._memories)

    def search(self, run: Run) -> Iterator[tuple[int, Where, str]]:
        """Yield index, kind and surroundings of each mention; an arm may come more than once."""
        if self._skills or self._files:
            text = Haystack.of(run.texts, str.casefold)
            yield from _words(self._files, text, "text", _FILE_TIES)
            yield from _words(self._skills, text, "text", _SKILL_TIES)
        if self._skills:
            metadata = Haystack.of([call.metadata for call in run.calls], str.casefold)
            yield from _words(self._skills, metadata, "metadata", _SKILL_TIES)
        if self._grams is not None:
            for index, excerpt in self._grams.search(run.texts):
                yield index, "text", excerpt

    def _skill(self, index: int, arm: Arm) -> None:
        _add(self._skills, skill_name(arm.key).casefold(), index)

    def _file(self, index: int, arm: Arm) -> None:
        # A path has the file name at its end, after a slash, which starts a word:
        # looking for the file name alone finds both.
        path = arm.name.replace("\\", "/").rstrip("/")
        _add(self._files, path.rsplit("/", 1)[-1].casefold(), index)

    def _memory(self, index: int, arm: Arm) -> None:
        if arm.content is not None:
            _add(self._memories, spaced(arm.content), index)


_WANTS: Final[dict[ArmType, Callable[[StandardMentions, int, Arm], None]]] = {
    "skill": StandardMentions._skill,
    "file": StandardMentions._file,
    "memory": StandardMentions._memory,
}


def _words(
    names: dict[str, list[int]], hay: Haystack, where: Where, ties: str
) -> Iterator[tuple[int, Where, str]]:
    for name, places in names.items():
        start = find_word(hay.folded, name, ties)
        if start >= 0:
            excerpt = hay.excerpt(start, start + len(name))
            for index in places:
                yield index, where, excerpt


def _add(names: dict[str, list[int]], name: str, index: int) -> None:
    if name.strip():  # a blank name would be found everywhere
        names.setdefault(name, []).append(index)
