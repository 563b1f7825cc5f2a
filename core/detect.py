"""Run → Evidence: which of the arms in the prompt did the agent use?

One small detector per arm type, in the table `DETECTORS`. Each promises to look at the run's calls and texts
only, never at the clock or at what is already believed, and refuses to guess: an arm it cannot recognise (a
memory without content) counts as not referenced.

What is "inside a longer word"? A letter, digit or underscore beside a name makes it part of a longer word;
so does a hyphen (for files also a dot) that ties it to one: ``pdf`` is not in ``pdf-forms``, ``app.py``
neither in ``my-app.py`` nor in ``app.py.bak``, but both may end a sentence. Scripts that put no spaces
between words (Chinese, Japanese, Thai, ...) or glue particles to them (Korean) never lengthen a word, else a
file name in such a sentence could not be recognised at all.
"""

from __future__ import annotations

import unicodedata
import weakref
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.records.arm import Arm, ArmType, arm_type
from core.records.evidence import EXCERPT_CHARS, Evidence, Reference, Where
from core.records.learner import Mode
from core.records.run import Inventory, Run

MEMORY_WINDOW_CHARS: Final = 20
"""So many consecutive characters of a memory's content, found in a text, are a reference."""

_GRAM: Final = 10
# Every window of 20 characters holds 11 consecutive starting places of a 10-gram. So it is enough to keep all
# 10-grams of the contents and to look up every 11th of a text, or the other way round.
_STRIDE: Final = MEMORY_WINDOW_CHARS - _GRAM + 1
_DENSE_CONTENT_CHARS: Final = 100_000  # above this, keep every 11th 10-gram: memory matters more than speed

# Between texts: no arm id can hold it and it belongs to no word.
_SEPARATOR: Final = "\0"

_SPACELESS_STARTS: Final = (0x0E00, 0x1000, 0x1100, 0x1780, 0x2E80, 0xA960, 0xAC00, 0xF900, 0xFF66, 0x20000)
_SPACELESS_ENDS: Final = (0x0F00, 0x10A0, 0x1200, 0x1800, 0xA000, 0xA980, 0xD800, 0xFB00, 0xFFDD, 0x40000)


def detect(run: Run, mode: Mode = "standard", meta_tools: Collection[str] = ("message",)) -> Evidence:
    """Which arms of ``run.inventory`` were referenced, in its order.

    Parameters
    ----------
    run
        If its source says what was referenced (``run.referenced`` is not None), that is taken as it is.
    mode
        How names are matched; ``standard`` is the only one.
    meta_tools
        Names of tools whose calls are not real work. They stay ordinary arms.

    Examples
    --------
    >>> from core.records.run import Call
    >>> arms = (Arm(key="tool:fs:Read"), Arm(key="file:workspace:docs/plan.md"))
    >>> inventory = Inventory(kind="declared", arms=arms)
    >>> run = Run(uid="r1", inventory=inventory, calls=(Call(name="Read"), Call(name="Grep")))
    >>> evidence = detect(run)
    >>> evidence.referenced, evidence.n_real_calls, evidence.not_offered
    ((True, False), 2, ('Grep',))
    """
    assert mode == "standard"  # noqa: S101 - the only mode there is; the settings refuse others
    if run.referenced is not None:
        return _given(run, run.referenced, meta_tools)
    return _seen(run, _plan_of(run.inventory), meta_tools)


def _seen(run: Run, plan: _Plan, meta_tools: Collection[str]) -> Evidence:
    called = {call.name for call in run.calls}
    found = bytearray(plan.always)
    for name in called:
        for place in plan.tools.get(name, ()):
            found[place] = 1
    references = tuple(plan.mentions(run, found)) if plan.reads_text else ()
    return Evidence(
        referenced=tuple(map(bool, found)),
        references=references,
        n_calls=len(run.calls),
        n_real_calls=sum(call.name not in meta_tools for call in run.calls) if called else 0,
        not_offered=_not_offered(run, called, plan.tools),
    )


def _given(run: Run, referenced: Sequence[str], meta_tools: Collection[str]) -> Evidence:
    """The source's own flags; without calls, its referenced tools are the calls that we know of."""
    arms = run.inventory.arms
    chosen = set(referenced)
    flags = tuple([arm.key in chosen for arm in arms])
    if run.calls:
        offered = {arm.name for arm in arms if arm.type == "tool"}
        called = {call.name for call in run.calls}
        n_real = sum(call.name not in meta_tools for call in run.calls)
        missing = _not_offered(run, called, offered)
        return Evidence(referenced=flags, n_calls=len(run.calls), n_real_calls=n_real, not_offered=missing)
    tools = [key.split(":", 2)[2] for key in chosen if key.startswith("tool:")]
    n_real = sum(name not in meta_tools for name in tools)
    return Evidence(referenced=flags, n_calls=len(tools), n_real_calls=n_real, not_offered=run.not_offered)


def _not_offered(run: Run, called: set[str], offered: Collection[str]) -> tuple[str, ...]:
    """Called tools outside the inventory, each once, in the order of their first call."""
    if not run.not_offered and called.issubset(offered):
        return ()
    outside = [call.name for call in run.calls if call.name not in offered]
    return tuple(dict.fromkeys((*run.not_offered, *outside)))


# --- what an inventory asks for, worked out once -----------------------------------------------------------


@dataclass
class _Plan:
    """All that the detectors look for in the runs of one inventory."""

    always: bytearray
    tools: dict[str, list[int]] = field(default_factory=dict)
    skills: dict[str, list[int]] = field(default_factory=dict)
    files: dict[str, list[int]] = field(default_factory=dict)
    memories: dict[str, list[int]] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    grams: _Grams | None = None

    @property
    def reads_text(self) -> bool:
        return bool(self.skills or self.files or self.memories)

    def mentions(self, run: Run, found: bytearray) -> Iterator[Reference]:
        """Marks skills, files and memories in ``found`` and tells where they were seen."""
        hits: dict[int, Reference] = {}
        if self.skills or self.files:
            text = _Haystack.of(run.texts)
            self._note(hits, self.files, text, "text", ".-")
            self._note(hits, self.skills, text, "text", "-")
        if self.skills:
            metadata = _Haystack.of(call.metadata for call in run.calls)
            self._note(hits, self.skills, metadata, "metadata", "-")
        if self.grams is not None:
            for place, excerpt in self.grams.search(run.texts):
                hits.setdefault(place, Reference(arm=self.keys[place], where="text", excerpt=excerpt))
        for place in sorted(hits):
            found[place] = 1
            yield hits[place]

    def _note(
        self, hits: dict[int, Reference], names: dict[str, list[int]], hay: _Haystack, where: Where, ties: str
    ) -> None:
        for name, places in names.items():
            start = find_word(hay.folded, name, ties)
            if start < 0:
                continue
            excerpt = hay.excerpt(start, start + len(name))
            for place in places:
                hits.setdefault(place, Reference(arm=self.keys[place], where=where, excerpt=excerpt))


def _see_tool(plan: _Plan, place: int, arm: Arm) -> None:
    plan.tools.setdefault(arm.name, []).append(place)


def _see_skill(plan: _Plan, place: int, arm: Arm) -> None:
    _want(plan.skills, skill_name(arm.key).casefold(), place)


def _see_file(plan: _Plan, place: int, arm: Arm) -> None:
    # Whoever writes the path has written the file name at its end, after a slash, which starts a word:
    # looking for the file name alone finds both.
    path = arm.name.replace("\\", "/").rstrip("/")
    _want(plan.files, path.rsplit("/", 1)[-1].casefold(), place)


def _see_memory(plan: _Plan, place: int, arm: Arm) -> None:
    if arm.content is not None:
        _want(plan.memories, _spaced(arm.content), place)


def _see_section(plan: _Plan, place: int, _arm: Arm) -> None:
    plan.always[place] = 1


DETECTORS: Final[dict[ArmType, Callable[[_Plan, int, Arm], None]]] = {
    "tool": _see_tool,
    "skill": _see_skill,
    "file": _see_file,
    "memory": _see_memory,
    "section": _see_section,
}


def skill_name(key: str) -> str:
    """Name of a skill from its arm id, which reads ``skill:<name>:main``; else what follows the category.

    >>> skill_name("skill:coding:main"), skill_name("skill:team:coding")
    ('coding', 'coding')
    """
    rest = key.split(":", 1)[1]
    return rest.removesuffix(":main") if rest.endswith(":main") else key.split(":", 2)[2]


def _want(names: dict[str, list[int]], name: str, place: int) -> None:
    if name.strip():  # a blank name would be found everywhere
        names.setdefault(name, []).append(place)


# By identity, because comparing or hashing an inventory costs more than reading a run; an entry goes with it.
_PLANS: Final[dict[int, tuple[weakref.ref[Inventory], _Plan]]] = {}


def _plan_of(inventory: Inventory) -> _Plan:
    known = _PLANS.get(id(inventory))
    if known is not None and known[0]() is inventory:
        return known[1]
    plan = _plan(inventory)
    number = id(inventory)
    _PLANS[number] = (weakref.ref(inventory, lambda _: _PLANS.pop(number, None)), plan)
    return plan


def _plan(inventory: Inventory) -> _Plan:
    plan = _Plan(bytearray(len(inventory.arms)), keys=tuple([arm.key for arm in inventory.arms]))
    for place, arm in enumerate(inventory.arms):
        DETECTORS[arm_type(arm.key)](plan, place, arm)
    if plan.memories:
        plan.grams = _Grams.of(plan.memories)
    return plan


# --- words ------------------------------------------------------------------------------------------------


def find_word(text: str, name: str, ties: str = "-") -> int:
    """Place of ``name`` in ``text`` where it is not inside a longer word, or -1.

    ``ties`` are the characters that join two words into one when both sides are letters or digits.

    >>> find_word("recoding, then coding.", "coding"), find_word("pdf-forms", "pdf")
    (15, -1)
    """
    start = text.find(name)
    while start >= 0:
        if not _lengthened(text, start - 1, -1, ties) and not _lengthened(text, start + len(name), 1, ties):
            return start
        start = text.find(name, start + 1)
    return -1


def _lengthened(text: str, place: int, step: int, ties: str) -> bool:
    """Does the character at ``place``, just outside a name, carry the word on in direction ``step``?"""
    if not 0 <= place < len(text):
        return False
    if _in_word(text[place]):
        return True
    beyond = place + step
    return text[place] in ties and 0 <= beyond < len(text) and _in_word(text[beyond])


def _in_word(char: str) -> bool:
    if char.isascii():
        return char.isalnum() or char == "_"
    if not (char.isalnum() or unicodedata.category(char)[0] == "M"):
        return False
    span = bisect_right(_SPACELESS_STARTS, ord(char)) - 1
    return span < 0 or ord(char) >= _SPACELESS_ENDS[span]


@dataclass(frozen=True)
class _Haystack:
    """Texts of a run, searched in one piece, any case."""

    text: str
    folded: str

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Haystack:
        text = _SEPARATOR.join(texts)
        return cls(text, text.casefold())

    def excerpt(self, start: int, end: int) -> str:
        if len(self.folded) != len(self.text):  # a letter such as ß folds into two
            offsets = [place for place, char in enumerate(self.text) for _ in char.casefold()]
            start, end = offsets[start], offsets[end - 1] + 1
        lowest = self.text.rfind(_SEPARATOR, 0, start) + 1
        highest = self.text.find(_SEPARATOR, end)
        return excerpt_of(self.text[lowest : highest if highest >= 0 else None], start - lowest, end - lowest)


def excerpt_of(text: str, start: int, end: int) -> str:
    """At most 160 characters of ``text`` with the part from ``start`` to ``end`` in the middle.

    >>> excerpt_of("see README.md for more", 4, 13)
    'see README.md for more'
    """
    spare = max(EXCERPT_CHARS - (end - start), 0)
    lowest = max(0, min(start - spare // 2, len(text) - EXCERPT_CHARS))
    return text[lowest : lowest + EXCERPT_CHARS]


# --- memories ---------------------------------------------------------------------------------------------


def _spaced(text: str) -> str:
    """Any case, white space folded."""
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class _Grams:
    """Memories' contents by their 10-grams; contents under 20 characters are looked for whole."""

    contents: dict[str, list[int]]
    short: tuple[str, ...]
    index: dict[str, tuple[str, ...]]
    text_step: int

    @classmethod
    def of(cls, contents: dict[str, list[int]]) -> _Grams:
        long = [content for content in contents if len(content) >= MEMORY_WINDOW_CHARS]
        short = tuple(content for content in contents if len(content) < MEMORY_WINDOW_CHARS)
        is_dense = sum(map(len, long)) <= _DENSE_CONTENT_CHARS
        content_step, text_step = (1, _STRIDE) if is_dense else (_STRIDE, 1)
        index: dict[str, tuple[str, ...]] = {}
        for content in long:
            for gram in {content[at : at + _GRAM] for at in range(0, len(content) - _GRAM + 1, content_step)}:
                index[gram] = (*index.get(gram, ()), content)
        return cls(contents, short, index, text_step)

    def search(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Place of each memory that a text quotes, with the surroundings of its first quotation."""
        found: set[str] = set()
        for text in texts:
            folded = _spaced(text)
            for content, start, end in self._quotations(folded, found):
                found.add(content)
                offsets = _spaced_offsets(text)
                excerpt = excerpt_of(text, offsets[start], offsets[end - 1] + 1)
                for place in self.contents[content]:
                    yield place, excerpt

    def _quotations(self, text: str, found: set[str]) -> Iterator[tuple[str, int, int]]:
        for content in self.short:
            start = -1 if content in found else text.find(content)
            if start >= 0:
                yield content, start, start + len(content)
        refused: set[tuple[str, str]] = set()
        for at in range(0, len(text) - _GRAM + 1, self.text_step):
            for content in self.index.get(text[at : at + _GRAM], ()):
                start = -1 if content in found else _window(text, at, content, refused)
                if start >= 0:
                    yield content, start, start + MEMORY_WINDOW_CHARS


def _window(text: str, at: int, content: str, refused: set[tuple[str, str]]) -> int:
    """First window of 20 characters around the 10-gram at ``at`` that ``content`` holds, or -1."""
    last = min(at, len(text) - MEMORY_WINDOW_CHARS)
    for start in range(max(0, at - _STRIDE + 1), last + 1):
        window = text[start : start + MEMORY_WINDOW_CHARS]
        if (window, content) in refused:
            continue
        if window in content:
            return start
        refused.add((window, content))
    return -1


def _spaced_offsets(text: str) -> list[int]:
    """For each character of `_spaced` its place in ``text``; only worked out once something was found."""
    offsets: list[int] = []
    is_gap = False
    for place, char in enumerate(text):
        if char.isspace():
            is_gap = bool(offsets)
            continue
        if is_gap:
            offsets.append(place - 1)
            is_gap = False
        offsets.extend([place] * len(char.casefold()))
    return offsets
