"""An episode: the steps of an agent in an environment, with their rewards, and the scale of the environment.

A missing reward is a gap, not a reward of 0. Steps after the end are stored and marked as refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Final, Literal, TypedDict, TypeVar, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr, replace

from core.errors import InvalidInput
from core.records.limits import (
    LAST_MS,
    MAX_COUNT,
    MAX_LABEL_CHARS,
    NUL,
    Count,
    Label,
    Millis,
    flag,
    keepable,
    number,
    one_of,
    several,
    shown,
    text,
    texts,
    whole,
)
from core.records.line_checks import FactOfLine, KindLine, check_id, check_storable

EpisodeStatus = Literal["finished", "unfinished", "incomplete", "broken"]
StepKind = Literal["call", "message", "outcome"]
"""A tool's answer, a message that was paid for by itself, or what the whole was judged to be worth at its end."""
StepNote = Literal["nan", "infinite", "not_a_number", "error", "cut", "episode_finished"]
"""Reason for a missing reward: the value sent is no reward, the call failed, the answer broke off, or the episode had
finished before.
"""
PartKind = Literal["reward", "measure"]
Base = Literal["total", "final", "none"]
Reached = TypeVar("Reached")
Pattern = Literal["sparse", "dense", "shaped", "penalty", "binary", "continuous"]
FindingKind = Literal[
    "delayed",
    "sparsity",
    "hacking",
    "scaling",
    "ambiguity",
    "inconsistent",
    "proxy",
    "length",
    "constant",
    "per_step",
    "unrelated",
    "decided_by_tool",
    "narrow",
    "gives_up",
    "retried",
    "out_of_scale",
    "paid_after_finished",
]
STEP_KINDS: Final[tuple[StepKind, ...]] = get_args(StepKind)
STEP_NOTES: Final[tuple[StepNote, ...]] = get_args(StepNote)
PART_KINDS: Final[tuple[PartKind, ...]] = get_args(PartKind)
BASES: Final[tuple[Base, ...]] = get_args(Base)
FINDING_KINDS: Final[tuple[FindingKind, ...]] = get_args(FindingKind)
MAX_STEPS: Final = 100_000
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
"""128 bits in hexadecimal."""
MAX_MEMBERS: Final = 64
MetaDigest = Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{32}}( [0-9a-f]{{32}}){{0,{MAX_MEMBERS}}}$")]
"""Digest of metadata. Digests of its top-level members may follow: 8 digits for the name, 24 for name and value."""

_STEP_COUNTS: Final = (("at_ms", LAST_MS), ("n_chars_in", MAX_COUNT), ("n_chars_out", MAX_COUNT))


class Step(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """One answer of an environment; ``reward`` None = no reward, which is not 0.

    ``number`` orders the steps from 0. A ``refused`` step came after the end or was not executed, and adds nothing.
    ``n_chars_in`` and ``n_chars_out`` are lengths of request and answer, None = unknown. ``extra`` names answer
    members that the protocol does not define. ``args_digest`` and ``meta_digest`` are equal for equal arguments and
    metadata; they are stored with a key that no export holds. ``asked`` and ``answered`` are the texts, stored only
    with the setting ``keep_texts``.

    Raises `InvalidInput` for a value that is no number or too long.
    """

    number: Count
    kind: StepKind = "call"
    name: Label = ""
    reward: float | None = None
    finished: bool = False
    refused: bool = False
    at_ms: Millis | None = None
    n_chars_in: Count | None = None
    n_chars_out: Count | None = None
    note: StepNote | None = None
    extra: tuple[Label, ...] = ()
    args_digest: Digest | None = None
    meta_digest: MetaDigest | None = None
    asked: str | None = None
    answered: str | None = None

    def __post_init__(self) -> None:
        # Each value is asked for its exact type and limits, and only what is out of the ordinary goes through a
        # check: an episode may have a hundred thousand steps.
        if type(self.number) is not int or not 0 <= self.number <= MAX_COUNT:
            force_setattr(self, "number", whole("A step's number", self.number, MAX_COUNT))
        name, reward = self.name, self.reward
        if (self.kind != "call" and self.kind not in STEP_KINDS) or (
            self.note is not None and self.note not in STEP_NOTES
        ):
            one_of("A step's kind", self.kind, STEP_KINDS, where=self._where)
            one_of("A step's note", self.note, STEP_NOTES, where=self._where)
        if type(name) is not str or len(name) > MAX_LABEL_CHARS or NUL in name:
            force_setattr(self, "name", text("A step's name", name, MAX_LABEL_CHARS, where=self._where))
        if reward is not None and (type(reward) is not float or not math.isfinite(reward) or reward == 0):
            checked = number("A step's reward", reward, where=self._where)
            force_setattr(self, "reward", checked + 0.0)  # a negative zero is a zero
        finished: object = self.finished
        refused: object = self.refused
        if type(finished) is not bool or type(refused) is not bool:
            flag("A step's finished", finished, where=self._where)
            flag("A step's refused", refused, where=self._where)
        at_ms, n_in, n_out = self.at_ms, self.n_chars_in, self.n_chars_out
        if (
            (at_ms is not None and (type(at_ms) is not int or not 0 <= at_ms <= LAST_MS))
            or (n_in is not None and (type(n_in) is not int or not 0 <= n_in <= MAX_COUNT))
            or (n_out is not None and (type(n_out) is not int or not 0 <= n_out <= MAX_COUNT))
        ):
            self._check_counts()
        if self.extra != ():
            force_setattr(self, "extra", texts("extra", self.extra, MAX_LABEL_CHARS, where=self._where))
        if self.asked is not None or self.answered is not None:
            for words in ("asked", "answered"):
                value = getattr(self, words)
                if value is not None and (type(value) is not str or not value.isascii() or NUL in value):
                    force_setattr(self, words, keepable(text(words, value, where=self._where)))

    @property
    def has_texts(self) -> bool:
        """True if the step holds the text of its request or answer."""
        return self.asked is not None or self.answered is not None

    def _check_counts(self) -> None:
        for count, highest in _STEP_COUNTS:
            value = getattr(self, count)
            if value is not None:
                force_setattr(self, count, whole(count, value, highest, where=self._where))

    @property
    def _where(self) -> str:
        return f" (step {shown(self.number)})"


class ScaleOptions(TypedDict, total=False):
    """Options of the declaration of an environment's reward scale."""

    lo: Annotated[float | None, Meta(description="The lowest total, or final reward.")]
    hi: Annotated[float | None, Meta(description="The highest.")]
    step_lo: Annotated[float | None, Meta(description="The lowest payment of a step.")]
    step_hi: Annotated[float | None, Meta(description="The highest.")]
    threshold: Annotated[float | None, Meta(description="A value above it is a success.")]
    base: Annotated[Base | None, Meta(description="The quantity that decides success.")]
    gamma: Annotated[float | None, Meta(description="Discount of later steps.")]


class EpisodeOptions(TypedDict, total=False):
    """Options of an episode, next to its uid."""

    environment: Annotated[
        str | None, Meta(description="The environment that pays; needed with the first step.")
    ]
    task: Annotated[str | None, Meta(description="Its task in the environment.")]
    split: Annotated[str | None, Meta(description="The split of the task.")]
    variant: Annotated[str | None, Meta(description="The variant of the environment.")]
    model: Annotated[str | None, Meta(description="The model that acts.")]
    format: Annotated[
        str, Meta(description="The protocol of the environment's answers.", extra={"default": "armscope"})
    ]


class StepOptions(EpisodeOptions, total=False):
    """Options of a step, next to its episode; `core.flows.episode.record_step` explains them."""

    number: Annotated[int | None, Meta(description="Number from 0 on: a repeat counts once.")]
    name: Annotated[str, Meta(description="The tool that was called.", extra={"default": ""})]
    reward: Annotated[float | None, Meta(description="The payment; null is no reward, which is not 0.")]
    finished: Annotated[bool, Meta(description="The step ended the episode.", extra={"default": False})]
    run: Annotated[str | None, Meta(description="The uid of the run that made the call.")]
    refused: Annotated[
        bool, Meta(description="The call had no effect: the episode had ended.", extra={"default": False})
    ]
    note: Annotated[StepNote | None, Meta(description="Why there is no reward.")]
    n_chars_in: Annotated[int | None, Meta(description="Characters of the call.")]
    n_chars_out: Annotated[int | None, Meta(description="Characters of the answer.")]
    extra: Annotated[Sequence[str], Meta(description="Unknown members of the answer.", extra={"default": ()})]
    args_digest: Annotated[str | None, Meta(description="Digest of the arguments: 32 hexadecimal digits.")]
    meta_digest: Annotated[
        str | None,
        Meta(description="Digest of the metadata: 32 hexadecimal digits, then as many for each member."),
    ]
    asked: Annotated[str | None, Meta(description="Text of the call, where texts are kept.")]
    answered: Annotated[str | None, Meta(description="Text of the answer, where texts are kept.")]


class Part(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """A named part of an episode's reward, or a measure beside it.

    >>> Part(name="judge_reward", value=1.0).kind
    'reward'
    """

    name: Label
    value: float
    kind: PartKind = "reward"

    def __post_init__(self) -> None:
        force_setattr(self, "name", text("A part's name", self.name, MAX_LABEL_CHARS, lowest=1))
        force_setattr(
            self, "value", number("A part's value", self.value, where=f" ({shown(self.name)})") + 0.0
        )
        force_setattr(self, "kind", one_of("A part's kind", self.kind, PART_KINDS))


class Episode(KindLine, frozen=True, kw_only=True, tag="episode", gc=False):
    """One attempt at one task of an environment; also a line of our own export, steps and parts within it.

    ``uid`` is unique in a learner and never a path: environment and session, or the source's own identity. ``runs``
    are the uids of runs that were made in it. ``incomplete``: not everything that was answered could be written.
    ``broken``: an error ended it, so its reward counts in no average. The note of its last step names the error.
    Steps are in the order of their numbers, each number once, and all of them after the one that finished are marked
    as refused; parts are sorted by name. ``revision`` is the counter of the learner whose line it is. ``rank`` orders
    states of one episode as its source does: the higher is later, 0 = unknown. It is no part of the content.

    >>> steps = (Step(number=0, reward=0.1), Step(number=1), Step(number=2, reward=1.0, finished=True))
    >>> episode = Episode(uid="sums/1", environment="sums", steps=steps)
    >>> episode.status, episode.total
    ('finished', 1.1)
    """

    uid: str
    environment: str
    format: Label = "armscope"
    split: Label | None = None
    task: Label | None = None
    variant: Label | None = None
    model: Label | None = None
    at_ms: Millis | None = None
    incomplete: bool = False
    broken: bool = False
    steps: tuple[Step, ...] = ()
    parts: tuple[Part, ...] = ()
    runs: tuple[Label, ...] = ()
    revision: Count | None = None
    rank: Count = 0

    def __post_init__(self) -> None:
        force_setattr(self, "uid", text("An episode's uid", self.uid, MAX_LABEL_CHARS, lowest=1))
        where = f" (episode {shown(self.uid)})"
        environment = text("An environment's name", self.environment, MAX_LABEL_CHARS, lowest=1, where=where)
        force_setattr(self, "environment", environment)
        for name in ("format", "split", "task", "variant", "model"):
            value = getattr(self, name)
            if value is not None:
                force_setattr(self, name, text(name, value, MAX_LABEL_CHARS, where=where))
        if self.at_ms is not None:
            force_setattr(self, "at_ms", whole("at_ms", self.at_ms, LAST_MS, where=where))
        force_setattr(self, "rank", whole("rank", self.rank, MAX_COUNT, where=where))
        flag("incomplete", self.incomplete, where=where)
        flag("broken", self.broken, where=where)
        if self.incomplete and self.broken:
            raise InvalidInput(
                f"An episode must be incomplete or broken, got both{where}.",
                next_step="Leave incomplete out: a broken episode counts in no average.",
            )
        force_setattr(self, "steps", several("steps", self.steps, Step, where=where))
        parts = several("parts", self.parts, Part, where=where)
        force_setattr(self, "parts", tuple(sorted(parts, key=lambda part: part.name)))
        force_setattr(self, "runs", texts("runs", self.runs, MAX_LABEL_CHARS, where=where))
        self._check_steps(where)
        self._check_parts(where)

    def _check_steps(self, where: str) -> None:
        if len(self.steps) > MAX_STEPS:
            raise InvalidInput(
                f"An episode must have at most {MAX_STEPS:,} steps, got {len(self.steps):,}{where}.",
                next_step="Record what goes on as another episode.",
            )
        last, is_over = -1, False
        for step in self.steps:
            if step.number <= last:
                raise InvalidInput(
                    f"Steps must come in the order of their numbers, each once, got {step.number} after {last}"
                    f"{where}.",
                    next_step="Number them from 0, and send each once.",
                )
            if is_over and not step.refused:
                raise InvalidInput(
                    f"A step after the end must be marked as refused, got step {step.number} without it{where}.",
                    next_step="Set refused, or leave finished out of the step before it.",
                )
            last, is_over = step.number, is_over or (step.finished and not step.refused)

    def _check_parts(self, where: str) -> None:
        names = [part.name for part in self.parts]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(
                f"A part may be named once, got {shown(twice)} twice{where}.",
                next_step="Name every part once.",
            )

    @property
    def total(self) -> float | None:
        """The sum of the steps' rewards, exact in decimals; None without any reward."""
        paid = [
            Fraction(repr(step.reward)) for step in self.steps if step.reward is not None and not step.refused
        ]
        return float(sum(paid, Fraction(0))) if paid else None

    def without_texts(self) -> Episode:
        """The same without what its steps were asked and answered."""
        if not any(step.has_texts for step in self.steps):
            return self
        steps = tuple(replace(step, asked=None, answered=None) for step in self.steps)
        return replace(self, steps=steps)

    @property
    def finished(self) -> bool:
        """True if a counted step ended the episode."""
        return any(step.finished and not step.refused for step in self.steps)

    @property
    def status(self) -> EpisodeStatus:
        """The state: broken, incomplete, finished or running."""
        if self.broken or self.incomplete:
            return "broken" if self.broken else "incomplete"
        return "finished" if self.finished else "unfinished"


class Scale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On what scale an environment pays, and when an episode is a success.

    ``step_lo`` to ``step_hi`` is what one payment may be, ``lo`` to ``hi`` what the total or the final reward may be,
    whichever ``base`` says success goes by: ten payments of 0.2 are each within [0, 1], and come to 2. Success is
    strictly above ``threshold``, which is in raw units. ``gamma``, 0 to 1, discounts later steps. The base ``none``
    leaves episodes out: they count in no average, no success and no credit.

    Raises `InvalidInput` where a lower end is not below its upper one, or an end is not finite.

    References
    ----------
    OpenReward Standard, "Rewards" (scales, success above 0.9 of the total).

    >>> Scale().hi, Scale(lo=-1, hi=1).normalised(0.5), Scale().normalised(1.5) is None
    (1.0, 0.75, True)
    """

    step_lo: float = 0.0
    step_hi: float = 1.0
    lo: float = 0.0
    hi: float = 1.0
    threshold: float = 0.9
    base: Base = "total"
    gamma: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0

    def __post_init__(self) -> None:
        for name in ("step_lo", "step_hi", "lo", "hi", "threshold"):
            force_setattr(self, name, number(f"A scale's {name}", getattr(self, name)) + 0.0)
        force_setattr(self, "gamma", number("A scale's gamma", self.gamma, lowest=0, highest=1) + 0.0)
        force_setattr(self, "base", one_of("A scale's base", self.base, BASES))
        for low, high in (("step_lo", "step_hi"), ("lo", "hi")):
            lower, upper = getattr(self, low), getattr(self, high)
            if not lower < upper or not math.isfinite(upper - lower):
                raise InvalidInput(
                    f"A scale's {low} must be below its {high}, got {lower!r} and {upper!r}.",
                    next_step="Give the lowest reward first, then the highest: 0 1, or -1 1.",
                )

    def reached(self, total: Reached, final: Reached) -> Reached | None:
        """Return what decides success; None where episodes are left out."""
        return {"total": total, "final": final, "none": None}[self.base]

    def normalised(self, reward: float) -> float | None:
        """Return a total or final reward as a number from 0 to 1 on the scale; None outside it."""
        return (reward - self.lo) / (self.hi - self.lo) if self.lo <= reward <= self.hi else None


class ScaleLine(FactOfLine, frozen=True, tag="environment"):
    """A declaration of an environment's scale; the latest active one is in force.

    >>> ScaleLine(id="s1", environment="sums", scale=Scale(hi=2)).scale.hi
    2.0
    """

    id: str
    environment: str
    scale: Scale

    def __post_init__(self) -> None:
        check_id(self.id)
        text("An environment's name", self.environment, MAX_LABEL_CHARS, lowest=1)
        check_storable(by=self.by)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may be wrong with how an environment pays: what was seen, and where.

    ``certainty`` is a share, 0 to 1; ``steps`` are pairs of an episode's uid and a step's number; ``advice`` is one
    sentence.

    >>> Finding(kind="scaling", certainty=0.97, seen="…", steps=(("e1", 3),), advice="…").kind
    'scaling'
    """

    kind: FindingKind
    certainty: Annotated[float, msgspec.Meta(ge=0, le=1)]
    seen: str
    steps: tuple[tuple[str, int], ...]
    advice: str

    def __post_init__(self) -> None:
        one_of("A finding's kind", self.kind, FINDING_KINDS)
        number("A finding's certainty", self.certainty, lowest=0, highest=1)
