"""Review: sources of a queue, its items, and the answers to reviewers; and the rubrics they read beside it."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from core.errors import InvalidInput
from core.records.estimate import Estimate
from core.records.evaluation import EvaluationAnswer, EvaluationOutcome, Subject, check_feedback, check_score
from core.records.evidence import INCLUDED, NAMED
from core.records.limits import MAX_COUNT, MAX_LABEL_CHARS, number, shown, text, whole
from core.records.run import RUN_CLASSES, RunClass
from core.records.run_query import RunFilter, View

Source = Literal["unjudged", "low", "disagree", "filter", "runs", "unused", "experiment"]
"""Sources of items: not judged by a person, low reward, disputed by raters, any match of a filter, runs picked by
hand, runs that had an arm and did not use it, sessions of an experiment.
"""
About = Literal["run", "arm", "execution", "layer"]
"""Kinds of items. An arm is one in a run, a layer one in an execution."""
Order = Literal["oldest", "lowest", "disagreement", "random"]
"""Orders in which items are given out. A random order takes full sessions, each with the same chance."""
StoredOrder = Literal[Order, "information"]
"""Orders of stored queues. An earlier version ordered by information."""
ItemState = Literal["needs_review", "needs_another", "done", "set_aside"]
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
ABOUTS: Final[tuple[About, ...]] = get_args(About)
ORDERS: Final[tuple[Order, ...]] = get_args(Order)
STATE_WORDS: Final[dict[ItemState, str]] = {
    "needs_review": "needs a review",
    "needs_another": "needs another review",
    "done": "done",
    "set_aside": "skipped",
}
MISSED_OFTEN: Final = 0.1
"""Rate of missed use that the lower bound must exceed before an arm counts as missed."""
MAX_ITEMS: Final = 10_000
MAX_REVIEWERS: Final = 20
MAX_NAME_CHARS: Final = 120
MAX_REASON_CHARS: Final = 500
SKIP_RATERS: Final = 2
"""Number of reviewers who must skip an item until it is done; one operator suffices."""
_LEAST_CHANCE: Final = 1e-12
HOLD_MINUTES: Final = 10
MAX_HOLD_MINUTES: Final = 24 * 60
DRAFT_MS: Final = 7 * 24 * 3_600_000
"""Time for which a draft is stored after its last change."""
MAX_VERSION_CHARS: Final = 200
MAX_TITLE_CHARS: Final = 200
MAX_WORDS_CHARS: Final = 4_000
MAX_CRITERIA: Final = 50
FEWEST_LEVELS: Final = 2
MOST_LEVELS: Final = 9


class QueueAsks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Sources of a queue or batch; checked when made.

    ``wanted`` and ``view`` filter the runs of every source but ``runs``, which names runs by uid or number. ``below``
    is the highest reward or mean score that is ``low``, from 0 to 1. A queue has at most ``limit`` items. An item
    that a reviewer opens is held for them for ``hold_minutes``, 1 to 1,440. A random order needs the source
    ``filter``. Its ``seed`` is drawn where it is left out, and its ``chance`` of each session is stored.

    The source ``unused`` is always a random order of the arm of ``wanted``. Of each session one run is drawn among
    those that had the arm. ``used`` counts the sessions whose run used it. The others are drawn with the ``chance``.

    The source ``experiment`` is always a random sample of the sessions of an ``experiment``, one run of each.
    ``chances`` are those of a session with the arm, and of one without. A reviewer sees neither arms nor side of a
    session while its item is open to them.
    """

    source: Source = "unjudged"
    about: About = "run"
    order: StoredOrder = "oldest"
    wanted: RunFilter = RunFilter()
    view: View = View()
    runs: tuple[str, ...] = ()
    below: float = 0.5
    limit: int = 100
    hold_minutes: int = HOLD_MINUTES
    seed: str | None = None
    chance: float | None = None
    used: int | None = None
    experiment: str = ""
    chances: tuple[float, float] | None = None

    @property
    def hold_ms(self) -> int:
        """Time for which an item is held for the reviewer who opened it."""
        return self.hold_minutes * 60_000

    @property
    def sampled(self) -> tuple[RunClass, ...]:
        """The classes of which its runs are a random sample: no other filter applies; () = it is none."""
        runs = self.wanted
        is_full = (self.about, runs, self.view) == ("run", RunFilter(classes=runs.classes), View())
        return (runs.classes or RUN_CLASSES) if is_full and self.chance is not None else ()

    def __post_init__(self) -> None:
        for name, allowed in (("source", SOURCES), ("about", ABOUTS), ("order", get_args(StoredOrder))):
            if getattr(self, name) not in allowed:
                raise InvalidInput(
                    f"{name} must be one of {', '.join(allowed)}, got {shown(getattr(self, name))}.",
                    next_step="Choose one of those.",
                )
        if self.source in {"unused", "experiment"}:
            msgspec.structs.force_setattr(self, "about", "arm" if self.source == "unused" else "run")
            msgspec.structs.force_setattr(self, "order", "random")
        whole("used", self.used or 0, MAX_COUNT)
        whole("limit", self.limit, MAX_ITEMS, lowest=1)
        whole("hold_minutes", self.hold_minutes, MAX_HOLD_MINUTES, lowest=1)
        number("below", self.below, lowest=0, highest=1)
        if self.order == "random" and self.source not in {"filter", "unused", "experiment"}:
            raise InvalidInput(
                f"The source of a random order must be filter, got {self.source}.",
                next_step="Choose the source filter: then each session that passes has the same chance.",
            )
        for name in ("seed", "chance", "used"):
            if self.order != "random" and getattr(self, name) is not None:
                raise InvalidInput(
                    f"{name} must be left out of the order {self.order}, got {shown(getattr(self, name))}.",
                    next_step="Leave it out, or choose the order random.",
                )
        text("seed", self.seed or "drawn", MAX_LABEL_CHARS)
        number("chance", self.chance or 0, lowest=0, highest=1)
        for chance in self.chances or ():
            number("chances", chance, lowest=_LEAST_CHANCE, highest=1)
        if (self.source == "experiment") != bool(self.experiment):
            raise InvalidInput(
                f"experiment must be named for the source experiment and no other, got it for {self.source}.",
                next_step="Name one that armscope experiment list shows, with the source experiment.",
            )
        if (self.source == "runs") != bool(self.runs):
            raise InvalidInput(
                f"runs must be named for the source runs and no other, got {len(self.runs):,} for {self.source}.",
                next_step="Name runs by uid or number, or choose another source.",
            )
        if len(self.runs) > MAX_ITEMS:
            raise InvalidInput(
                f"runs must be at most {MAX_ITEMS:,}, got {len(self.runs):,}.",
                next_step="Make several queues.",
            )
        for run in self.runs:
            text("A run", run, MAX_LABEL_CHARS, lowest=1)


class Draft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Input of a reviewer that was not submitted; None = nothing yet.

    >>> Draft(level=3).feedback is None
    True
    """

    level: int | None = None
    outcome: EvaluationOutcome | None = None
    score: float | None = None
    feedback: str | None = None

    def __post_init__(self) -> None:
        if self.level is not None:
            whole("level", self.level, MOST_LEVELS, lowest=1)
        if self.score is not None:
            check_score(self.score)
        check_feedback(self.feedback or None)


class ItemText(msgspec.Struct, frozen=True, kw_only=True):
    """Instruction and response of a layer, as JSON text; None = not stored."""

    layer: str
    index: int
    instruction: str | None
    response: str | None


class ReviewItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item as its reviewer sees it.

    ``n_judged`` counts the people who judged it since the queue was made; None = hidden (blind). ``seen`` goes back
    to `submit`, which reports later judgements by others. ``hold_until_ms`` 0 = the caller does not hold it.
    ``rubric`` None = the queue's rubric is not defined; ``levels`` are then the default ones. ``mine`` is the
    caller's own counted evaluation. ``meanwhile`` names people who judged it since the caller opened it; the
    answer to the caller's own judgement has theirs.
    """

    queue: str
    item: int
    subject: Subject
    uri: str
    run_no: int | None
    at_ms: int | None
    why: str
    state: ItemState
    n_reviewers: int
    blind: bool
    n_judged: int | None
    assigned_to: str | None
    hold_until_ms: int
    seen: str
    rubric: Rubric | None
    rubric_version: str
    levels: tuple[Level, ...]
    draft: Draft | None
    texts: tuple[ItemText, ...]
    mine: str | None
    meanwhile: tuple[str, ...] = ()


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The reviewer who holds an item, and the end of the hold."""

    actor: str
    item: int
    until_ms: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a queue for all reviewers and for the caller.

    ``total`` is ``done + set_aside + open``. ``set_aside`` items are out for all reviewers;
    ``skipped_by_me`` are put off by the caller alone.
    ``seconds_each`` is the median time between the caller's judgements, None below three.
    """

    queue: str
    name: str
    total: int
    done: int
    set_aside: int
    open: int
    held_by_others: int
    holders: tuple[Holder, ...]
    judged_by_me: int
    left_for_me: int
    skipped_by_me: int
    assigned_to_me: int
    seconds_each: float | None


class NextItem(msgspec.Struct, frozen=True, kw_only=True):
    """The next item for a reviewer; None = no item is left."""

    item: ReviewItem | None
    progress: Progress


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """A model grader's evaluation of the same subject. ``difference`` is its score less the reviewer's, None without
    both.
    """

    model: str
    outcome: EvaluationOutcome
    score: float | None
    agrees: bool
    difference: float | None


class Meanwhile(msgspec.Struct, frozen=True, kw_only=True):
    """Another reviewer's judgement of an item since it was opened."""

    rater: str
    outcome: EvaluationOutcome
    score: float | None


class SubmitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded judgement, a model grader's earlier one, and the next item.

    ``hold_ran_out``: the hold had ended, and no other reviewer held the item, so it was recorded. ``meanwhile`` holds
    judgements by others since the item was opened, if it needs several; never of a blind queue. ``replaced`` names
    other browsers in which the replaced judgement was made.
    """

    evaluation: EvaluationAnswer
    replaced: tuple[str, ...]
    hold_ran_out: bool
    meanwhile: tuple[Meanwhile, ...]
    suggestion: Suggestion | None
    next: NextItem


class MyJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """One of the caller's evaluations; ``id`` is what `undo` takes. ``queue`` None = not from an active queue."""

    id: str
    queue: str | None
    item: int | None
    uri: str
    outcome: EvaluationOutcome
    score: float | None
    rubric: str | None
    at_ms: int
    undone: bool


class MissedUse(msgspec.Struct, frozen=True, kw_only=True):
    """Missed use of an arm by a queue: sessions whose drawn run needed the arm and did not use it.

    Of ``n_items`` items ``n_judged`` are done, and in ``n_needed`` of them most people found the arm needed. ``rate``
    is the share of sessions with that among those and the sessions that used it, as `missed_use_of` weighs them.
    """

    queue: str
    n_items: int
    n_judged: int
    n_needed: int
    rate: Estimate

    @property
    def is_frequent(self) -> bool:
        """Return whether the lower bound is above `MISSED_OFTEN`."""
        return self.rate.lower is not None and self.rate.lower > MISSED_OFTEN


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """One queue; ``overdue``: items are open past ``due_ms`` (None: at no time).

    ``missed`` is the missed use of an arm that a queue of the source unused shows.
    """

    progress: Progress
    asks: QueueAsks
    n_reviewers: int
    blind: bool
    rubric: str
    by: str
    at_ms: int
    due_ms: int | None
    overdue: bool
    undone: bool
    missed: MissedUse | None = None


class QueueProposal(msgspec.Struct, frozen=True, kw_only=True):
    """The items that a queue or batch would hold now; ``token`` is a digest of all, ``first`` holds at most 20."""

    n: int
    token: str
    first: tuple[Subject, ...]


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that was made; ``id`` is what undo takes."""

    id: str
    name: str
    n_items: int


class ItemAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an action on an item other than judging; ``id`` is what `undo` takes."""

    id: str
    queue: str
    item: int
    state: ItemState
    next: NextItem


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Evaluations of one batch, by their ids. ``replaced`` names other browsers in which replaced ones were made."""

    n: int
    acts: tuple[str, ...]
    replaced: tuple[str, ...]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two answers to one instruction, in the order that was drawn; texts are JSON, None where they were not kept.

    ``n_left`` counts what is left with it, up to 1,000.
    """

    layer: str
    first: str
    second: str
    instruction: str | None
    first_response: str | None
    second_response: str | None
    n_left: int


class ChoiceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded preference between two answers; ``id`` is what `undo` takes."""

    id: str
    layer: str
    first: str
    second: str
    chosen: Literal["first", "second", "equal"]


class RubricAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A version that was defined; ``id`` is what undo takes."""

    id: str
    version: str


class RubricRow(msgspec.Struct, frozen=True, kw_only=True):
    """An active version, and the number of counted evaluations that use it."""

    id: str
    rubric: Rubric
    by: str
    at_ms: int
    n_judged: int


def check_skip_reason(reason: str) -> str:
    """Return why an item can't be judged, if it has 1 to 500 characters.

    >>> check_skip_reason("the answer is in a language I don't read")
    "the answer is in a language I don't read"
    """
    return text("reason", reason, MAX_REASON_CHARS, lowest=1)


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing to look at, and an example of it."""

    name: str
    words: str = ""
    example: str = ""

    def __post_init__(self) -> None:
        text("A criterion's name", self.name, MAX_TITLE_CHARS, lowest=1)
        text("A criterion's words", self.words, MAX_WORDS_CHARS)
        text("A criterion's example", self.example, MAX_WORDS_CHARS)


class Level(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The meaning of one digit: an outcome with its score. For a failure the score is the certainty.

    >>> Level(words="Right", outcome="success", score=1.0).example
    ''
    """

    words: str
    outcome: EvaluationOutcome
    score: float
    example: str = ""

    def __post_init__(self) -> None:
        text("A level's words", self.words, MAX_TITLE_CHARS, lowest=1)
        text("A level's example", self.example, MAX_WORDS_CHARS)
        number("A level's score", self.score, lowest=0, highest=1)


LEVELS: Final = (
    Level(words="Wrong, and surely so", outcome="failure", score=1.0),
    Level(words="Probably wrong", outcome="failure", score=0.7),
    Level(words="Right, with flaws", outcome="success", score=0.7),
    Level(words="Right", outcome="success", score=1.0),
)


"""The levels of a rubric that names none."""


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One version: its title, what to look at, and 2 to 9 levels.

    >>> [level.outcome for level in Rubric(version="v1").levels]
    ['failure', 'failure', 'success', 'success']
    """

    version: str
    title: str = ""
    criteria: tuple[Criterion, ...] = ()
    levels: tuple[Level, ...] = LEVELS

    def __post_init__(self) -> None:
        text("A rubric's version", self.version, MAX_VERSION_CHARS, lowest=1)
        text("A rubric's title", self.title, MAX_TITLE_CHARS)
        if self.version.strip() != self.version:
            raise InvalidInput(
                f"A rubric's version must not begin or end with a blank, got {self.version[:60]!r}.",
                next_step="Write it without.",
            )
        if len(self.criteria) > MAX_CRITERIA:
            raise InvalidInput(
                f"A rubric must have at most {MAX_CRITERIA} criteria, got {len(self.criteria):,}.",
                next_step="Join those that belong together.",
            )
        if not FEWEST_LEVELS <= len(self.levels) <= MOST_LEVELS:
            raise InvalidInput(
                f"A rubric must have {FEWEST_LEVELS} to {MOST_LEVELS} levels, one for each digit, got "
                f"{len(self.levels)}.",
                next_step="Leave levels out to have the usual four.",
            )


NEEDED: Final = Rubric(
    version="was-it-needed",
    title="Was it needed?",
    criteria=(Criterion(name="Needed", words="The run would have been better with a use of this arm."),),
    levels=(
        Level(words="Not needed", outcome="failure", score=1.0),
        Level(words="Needed, and not used", outcome="success", score=1.0),
    ),
)
"""The rubric of queues of unused arms. A judgement by it moves no arm: it says nothing of what the arm did."""


def judged_parts(rubric: str | None) -> int:
    """Return the flags of which an arm must have one in a run, to be judged there by a rubric."""
    return INCLUDED | NAMED if rubric == NEEDED.version else INCLUDED
