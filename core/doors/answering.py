"""Answering: what every door for agents does alike: a request from its selection to what is recorded of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

from core.doors.running import RunUnderWay
from core.errors import Conflict, InvalidInput
from core.records.answers import RecordAnswer
from core.records.arm import Arm
from core.records.candidate import tool_candidate
from core.records.run import Call, Inventory, Run, Status, Usage
from core.records.selection import Selection

_OFFERS_KEPT: Final = 64


class RunOptions(TypedDict, total=False):
    """What may be said of a request: how much room its prompt has, and what it is part of."""

    budget_tokens: int | None
    k: int | None
    uid: str | None
    session: str | None
    model: str | None
    channel: str | None
    keep: bool


class Answering(ABC):
    """Selects and records; how and where, each door says. Safe to share between threads."""

    def __init__(self) -> None:
        self._offers = _Offers()

    @abstractmethod
    def select(
        self, arms: Iterable[object] | None = None, *, budget_tokens: int | None = None, k: int | None = None
    ) -> Selection:
        """Choose the arms of the next prompt among those offered (None = all that are known)."""

    @abstractmethod
    def _recorded(self, run: Run, *, ended_now: bool) -> RecordAnswer:
        """Record a run."""

    @abstractmethod
    def _now_ms(self) -> int:
        """The clock, in UTC milliseconds."""

    def _offered(self, chosen: Selection, offered: Sequence[Arm] | None) -> Selection:
        """Remember what was said of the arms on offer."""
        self._offers.keep(chosen, offered or ())
        return chosen

    def _under_way(self, arms: Iterable[Any] | None, options: RunOptions) -> RunUnderWay[Any]:
        began_ms = 0

        def begin(offered: Sequence[Any] | None) -> Selection:
            nonlocal began_ms
            chosen = self.select(offered, budget_tokens=options.get("budget_tokens"), k=options.get("k"))
            began_ms = self._now_ms()
            return chosen

        def end(run: RunUnderWay[Any], status: Status) -> RecordAnswer:
            return self.record(
                run.uid,
                selection=run.selection,
                calls=run.calls,
                texts=run.texts,
                usage=run.usage,
                status=status,
                duration_ms=max(self._now_ms() - began_ms, 0),
                session=options.get("session"),
                model=options.get("model"),
                channel=options.get("channel"),
                prompt=run.prompt,
                keep=options.get("keep", True),
            )

        return RunUnderWay(arms, uid=options.get("uid"), begin=begin, end=end)

    def record(
        self,
        uid: str,
        *,
        selection: Selection | None = None,
        arms: Iterable[object] | None = None,
        calls: Iterable[Call | str] = (),
        texts: Iterable[str] = (),
        usage: Usage | None = None,
        status: Status = "completed",
        ended_at: datetime | None = None,
        duration_ms: int | None = None,
        session: str | None = None,
        model: str | None = None,
        channel: str | None = None,
        prompt: str | None = None,
        keep: bool = True,
    ) -> RecordAnswer:
        """Record what came of one request. Give the ``selection`` it ran with, or the ``arms`` in its prompt.

        What was said of arms when they were offered (content, label, prior) is remembered from the latest
        selections of this object; a program that selects in one process and records in another gives these
        ``arms`` with the ``selection``, else a memory's content can't be recognised in the run's texts.
        ``calls`` are the tools called, ``texts`` what the agent wrote: read by the detectors. ``prompt`` is what was
        asked; it and the last of the ``texts`` are kept for judging and training, up to 100,000 characters each,
        where the setting ``keep_texts`` is on and ``keep`` doesn't say no; else neither is stored.
        ``ended_at`` is an aware time; left out, it is when the run was first recorded. Sent again with the same
        ``uid`` it changes nothing, with other content it is a `Conflict`.
        """
        run = Run(
            uid=uid,
            inventory=self._inventory(selection, arms),
            excluded=() if selection is None else selection.excluded,
            selection=selection,
            run_class="imported" if selection is None else selection.run_class,
            calls=tuple(call if isinstance(call, Call) else Call(name=call) for call in calls),
            texts=tuple(texts),
            usage=usage,
            status=status,
            ended_at_ms=None if ended_at is None else _utc_ms(ended_at),
            duration_ms=duration_ms,
            session=session,
            model=model,
            channel=channel,
            prompt=prompt if keep else None,
            reply=None if keep else "",
        )
        try:
            return self._recorded(run, ended_now=ended_at is None)
        except Conflict as problem:
            raise Conflict(
                problem.problem,
                next_step="Give every request a uid of its own, for example str(uuid.uuid4()); learner.run(…) does.",
            ) from None

    def _inventory(self, selection: Selection | None, arms: Iterable[object] | None) -> Inventory:
        said = [arm_of(arm) for arm in arms or ()]
        if selection is not None:
            _check_offered(selection, said)
            return Inventory(kind="declared", arms=self._offers.included(selection, said))
        if arms is None:
            raise InvalidInput(
                "A run must come with its selection or its arms, got neither.",
                next_step="Pass selection=learner.select(…), or arms=[…] where something else chose.",
            )
        return Inventory(kind="declared", arms=tuple(said))


def arm_of(arm: object) -> Arm:
    """What was offered as an arm: an arm, an id, or a tool as some SDK defines it."""
    if isinstance(arm, Arm):
        return arm
    return Arm(key=arm) if isinstance(arm, str) else tool_candidate(arm)


class _Offers:
    """What was said of arms on offer, by selection: the latest few, since most are recorded soon or never."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, int], dict[str, Arm]] = {}

    def keep(self, selection: Selection, offered: Sequence[Arm]) -> None:
        included = set(selection.included)
        self._said[selection.seed, selection.revision] = {
            arm.key: arm for arm in offered if arm.key in included
        }
        for oldest in list(self._said)[:-_OFFERS_KEPT]:
            self._said.pop(oldest, None)

    def included(self, selection: Selection, arms: Sequence[Arm]) -> tuple[Arm, ...]:
        """The arms of a selection's prompt, with what is known of them."""
        said = self._said.get((selection.seed, selection.revision), {}) | {arm.key: arm for arm in arms}
        return tuple(
            # A cost of 0 may stand for one that nobody knows.
            said.get(one.arm) or Arm(key=one.arm, token_cost=one.token_cost or None)
            for one in selection.decisions
            if one.included
        )


def _check_offered(selection: Selection, arms: Sequence[Arm]) -> None:
    decided = {one.arm for one in selection.decisions}
    for arm in arms:
        if arm.key not in decided:
            raise InvalidInput(
                f"arms must be of those that the selection decided on, got {arm.key!r}.",
                next_step="Offer it to select, or record the run without the selection.",
            )


def _utc_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise InvalidInput(
            f"ended_at must be an aware time, got {moment.isoformat()} without a zone.",
            next_step="Use datetime.now(UTC).",
        )
    return round(moment.timestamp() * 1000)
