"""Evaluation lines: what is judged, by what, and how, as lines of our own loss-free export."""

from __future__ import annotations

from typing import Annotated

import msgspec

from core.errors import InvalidInput
from core.records.alike import alike
from core.records.arm import MICRO, check_key
from core.records.browser import MAX_BROWSER_CHARS, check_browser_name
from core.records.evaluation import (
    MAX_NAME_CHARS,
    EvaluationOrder,
    EvaluationOutcome,
    Graders,
    check_feedback,
)
from core.records.limits import MAX_LABEL_CHARS, Count, Label, Millis, shown, storable, text
from core.records.line_checks import FactOfLine, KindLine, check_id, check_storable
from core.records.observation import check_request_key
from core.records.review import Rubric

MAX_TAGS = 100
CONTENT_PREFIX = "kairos/"
"""Prefix of the ids of evaluations that files hold without an id. Such an id is a digest of the content, because
another file or this learner may hold the same evaluation.
"""


class LayerLine(KindLine, frozen=True, kw_only=True, tag="layer"):
    """One step of an adapter; with nothing but its ``uid`` it is bare: named, and not known.

    >>> LayerLine(uid="0000000b-1111-4222-8333-000000015445").is_bare
    True
    """

    uid: str
    adapter: str = ""
    adapter_name: str | None = None
    adapter_version: str | None = None
    index: Count = 0
    label: str | None = None
    task: str | None = None
    type: str | None = None
    domain: str | None = None
    tags: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        check_id(self.uid)
        for name in ("adapter", "adapter_name", "adapter_version", "type", "domain"):
            text(name, getattr(self, name) or "", MAX_LABEL_CHARS)
        check_storable(label=self.label, task=self.task)
        if len(self.tags) > MAX_TAGS:
            raise InvalidInput(
                f"A layer must have at most {MAX_TAGS} tags, got {len(self.tags):,}.",
                next_step="Keep those it is found by.",
            )
        for tag in self.tags:
            check_storable(tag=tag)

    @property
    def is_bare(self) -> bool:
        return self == LayerLine(uid=self.uid)


class PairLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Instruction and response of a layer in an execution, as JSON text with numbers as sent; None = not stored.

    >>> PairLine(layer="l", instruction='{"ask": 1.0}').response
    """

    layer: str
    index: Count = 0
    instruction: str | None = None
    response: str | None = None

    def __post_init__(self) -> None:
        check_id(self.layer)
        for name in ("instruction", "response"):
            value = getattr(self, name)
            if value is not None:
                try:
                    msgspec.json.decode(storable(name, value))
                except msgspec.DecodeError as problem:
                    raise InvalidInput(
                        f"{name} must be JSON, got {shown(value)}.",
                        next_step="A plain text is written in quotes.",
                    ) from problem


class ExecutionLine(KindLine, frozen=True, kw_only=True, tag="execution"):
    """One time that an adapter was followed, with what was asked and what came of it; with nothing but its ``uid``
    it is bare.

    >>> ExecutionLine(uid="00000dd0-1111-4222-8333-000001ab4530").is_bare
    True
    """

    uid: str
    adapter: str = ""
    run: str | None = None
    session: Label | None = None
    at_ms: Millis | None = None
    pairs: tuple[PairLine, ...] = ()

    def __post_init__(self) -> None:
        check_id(self.uid)
        text("adapter", self.adapter, MAX_LABEL_CHARS)
        check_storable(run=self.run, session=self.session)

    @property
    def is_bare(self) -> bool:
        return self == ExecutionLine(uid=self.uid)


def without_texts(line: ExecutionLine) -> ExecutionLine:
    """Return the line without instructions and responses.

    >>> line = ExecutionLine(uid="e", pairs=(PairLine(layer="l", instruction='{"ask": 1}'),))
    >>> without_texts(line).pairs[0].instruction is None
    True
    """
    pairs = tuple(PairLine(layer=pair.layer, index=pair.index) for pair in line.pairs)
    return msgspec.structs.replace(line, pairs=pairs)


class RubricLine(FactOfLine, frozen=True, tag="rubric"):
    """A version of a rubric.

    >>> RubricLine(id="r1", rubric=Rubric(version="v1")).undone
    False
    """

    id: str
    rubric: Rubric

    def __post_init__(self) -> None:
        check_id(self.id)
        check_storable(by=self.by)


class BrowserLine(FactOfLine, frozen=True, tag="browser"):
    """An operator's confirmation of the name that a browser gave itself.

    >>> BrowserLine(id="b1", browser="3f2a91", named="kim").undone
    False
    """

    id: str
    browser: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BROWSER_CHARS)]
    named: str

    def __post_init__(self) -> None:
        check_id(self.id)
        check_browser_name(self.named)
        check_storable(browser=self.browser, by=self.by)


class Credit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The weight of a judgement for one arm in millionths, before raters share it."""

    arm: str
    weight_micro: Annotated[int, msgspec.Meta(ge=1, le=MICRO)] = MICRO

    def __post_init__(self) -> None:
        check_key(self.arm)


class EvaluationLine(KindLine, frozen=True, kw_only=True, tag="evaluation"):
    """A judgement. ``mover`` and ``credit`` follow from the settings at its time. ``claimed_by`` is the token that
    named the rater. Without sign-in, ``browser`` is where it was made, ``named`` the name that the browser
    gave itself, and ``person`` the machine's user.

    >>> EvaluationLine(id="e1", run="request-1", outcome="success", rater="mara").undone
    False
    """

    id: str
    outcome: EvaluationOutcome
    layer: str | None = None
    execution: str | None = None
    run: str | None = None
    arm: str | None = None
    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    feedback: str | None = None
    rater: str | None = None
    model: str | None = None
    rubric: str | None = None
    mover: Graders = "all"
    credit: tuple[Credit, ...] = ()
    by: str | None = None
    at_ms: Millis | None = None
    revision: Count | None = None
    key: str | None = None
    undone: bool = False
    claimed_by: str | None = None
    browser: str | None = None
    named: str | None = None
    person: str | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        check_storable(
            by=self.by,
            claimed_by=self.claimed_by,
            browser=self.browser,
            named=self.named,
            person=self.person,
        )
        if len({bool(self.browser), bool(self.named), bool(self.person)}) > 1:
            raise InvalidInput(
                f"browser, named and person of an evaluation must come together, got {shown(self.browser)}, "
                f"{shown(self.named)} and {shown(self.person)}.",
                next_step="Give all three, or none.",
            )
        check_feedback(self.feedback)
        check_request_key(self.key)
        self.order()
        if self.arm is not None and any(credit.arm != self.arm for credit in self.credit):
            raise InvalidInput(
                f"An evaluation of an arm must credit that arm alone, got arm {shown(self.arm)} and credit for "
                f"{', '.join(shown(credit.arm) for credit in self.credit[:3])}.",
                next_step="Leave the arm out, or the credit of the others.",
            )

    def order(self) -> EvaluationOrder:
        """Return the order that the line records; raises the errors of an order."""
        return alike(EvaluationOrder, self)


class ChoiceLine(FactOfLine, frozen=True, tag="choice"):
    """A reviewer's preference between two answers to one instruction, in the order they were shown.

    >>> ChoiceLine(id="c1", layer="l", first="a", second="b", chosen="equal").undone
    False
    """

    id: str
    layer: str
    first: str
    second: str
    chosen: Annotated[str, msgspec.Meta(pattern="^(first|second|equal)$")]
    rater: str = ""
    rubric: str = ""
    feedback: str | None = None

    def __post_init__(self) -> None:
        for uid in (self.id, self.layer, self.first, self.second):
            check_id(uid)
        text("rater", self.rater, MAX_NAME_CHARS)
        text("rubric", self.rubric, MAX_NAME_CHARS)
        check_feedback(self.feedback)
        check_storable(by=self.by)
