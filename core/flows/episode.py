"""Episodes: what an environment paid, recorded step by step; and on what scale it pays, as a person declares it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from core.errors import InvalidInput, NotFound
from core.flows.context import Context
from core.records.episode import Base, Episode, Scale, ScaleOptions, Step, StepNote
from core.records.limits import shown
from core.store.environments import (
    add_scale,
    declared_scale,
    environment_no_of,
    settle_scales,
    sums_by,
    sums_of_environment,
)
from core.store.episodes import add_step, set_incomplete, tell_episodes
from core.store.reads.episodes import near_environments
from core.store.transaction import Facts, Transaction


class ScaleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The scale of an environment that is in force now, and how many of its episodes are a success by it; ``before``
    is what was in force. ``id`` None: it was in force already, and nothing was declared.
    """

    id: str | None
    environment: str
    scale: Scale
    before: Scale
    episodes: int
    successes: int
    successes_before: int


class StepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an episode came to with a step: ``total`` None = nothing was paid, ``refused``: the step adds nothing."""

    episode: str
    number: int
    refused: bool
    steps: int
    total: float | None
    finished: bool


class EpisodeMarked(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that is told to be incomplete from now on."""

    episode: str
    status: Literal["incomplete"] = "incomplete"


def declare(
    context: Context,
    environment: str,
    *,
    lo: float | None = None,
    hi: float | None = None,
    step_lo: float | None = None,
    step_hi: float | None = None,
    threshold: float | None = None,
    base: Base | None = None,
    gamma: float | None = None,
) -> ScaleAnswer:
    """Declare on what scale an environment pays; what is left out stays as it is in force. `undo` takes it back.

    Raises `NotFound` for an environment that nobody told of, `InvalidInput` for a scale that is none.
    """
    said = ScaleOptions(
        lo=lo, hi=hi, step_lo=step_lo, step_hi=step_hi, threshold=threshold, base=base, gamma=gamma
    )

    def work(txn: Transaction) -> ScaleAnswer:
        answer = _would_be(txn, environment, said)
        if answer.scale == answer.before:
            return answer
        scale_no = add_scale(txn, environment, answer.scale, actor=txn.actor.name, at_ms=txn.now_ms)
        settle_scales(txn, [scale_no])
        answer = msgspec.structs.replace(answer, id=f"scale-{scale_no}")
        scale = answer.scale
        txn.audit("scale", answer.id, {"environment": environment, "lo": scale.lo, "hi": scale.hi})
        return answer

    return context.write("settings", work)


def preview_declare(
    context: Context,
    environment: str,
    *,
    lo: float | None = None,
    hi: float | None = None,
    step_lo: float | None = None,
    step_hi: float | None = None,
    threshold: float | None = None,
    base: Base | None = None,
    gamma: float | None = None,
) -> ScaleAnswer:
    """What `declare` would come to; nothing is declared. Raises what it does."""
    said = ScaleOptions(
        lo=lo, hi=hi, step_lo=step_lo, step_hi=step_hi, threshold=threshold, base=base, gamma=gamma
    )
    with context.reading() as snapshot:
        return _would_be(snapshot, environment, said)


def _would_be(facts: Facts, environment: str, said: ScaleOptions) -> ScaleAnswer:
    """What a declaration comes to, without its id."""
    number = environment_no_of(facts, environment)
    if number is None:
        near = near_environments(facts, environment)
        known = f"Did you mean {', '.join(near)}?" if near else "Use a name that armscope episodes lists."
        raise NotFound(
            f"There is no environment {shown(environment)} in learner {facts.name!r}.",
            next_step=f"{known} Nothing was declared.",
        )
    before, earlier = declared_scale(facts, number), sums_of_environment(facts, number)
    scale = msgspec.structs.replace(
        before, **{name: value for name, value in said.items() if value is not None}
    )
    return ScaleAnswer(
        id=None,
        environment=environment,
        scale=scale,
        before=before,
        episodes=earlier.n,
        successes=earlier.successes if scale == before else sums_by(facts, number, scale).successes,
        successes_before=earlier.successes,
    )


def record_step(
    context: Context,
    episode: str,
    *,
    environment: str | None = None,
    number: int | None = None,
    name: str = "",
    reward: float | None = None,
    finished: bool = False,
    task: str | None = None,
    split: str | None = None,
    variant: str | None = None,
    model: str | None = None,
    run: str | None = None,
    format: str = "armscope",
    refused: bool = False,
    note: StepNote | None = None,
    n_chars_in: int | None = None,
    n_chars_out: int | None = None,
    extra: Sequence[str] = (),
    args_digest: str | None = None,
    meta_digest: str | None = None,
    asked: str | None = None,
    answered: str | None = None,
) -> StepAnswer:
    """Record one answer of an environment; it is on disk when this returns. The first makes the episode.

    ``reward`` None is no reward, which is not 0. ``number``, from 0 on, says which step it is: sent again it counts
    once. ``environment``, ``task``, ``split``, ``variant``, ``model`` and ``format`` (which protocol it came by) are
    said with the first step, ``run`` with any. What comes after the end is kept, and adds nothing; so does a call
    that was ``refused``. What else may be said of a step is what `core.records.episode.Step` keeps of it; ``asked``
    and ``answered`` are kept only where the setting ``keep_texts`` is on.

    Raises `InvalidInput` for a reward that is no finite number, a first step without an environment, and a number
    that leaves one out; `Conflict` for a number that was told with other content, and for an episode that an import
    told longer than it was recorded.
    """
    now_ms = context.clock()
    step = Step(
        number=number or 0,
        name=name,
        reward=reward,
        finished=finished,
        refused=refused,
        at_ms=now_ms,
        note=note,
        n_chars_in=n_chars_in,
        n_chars_out=n_chars_out,
        extra=tuple(extra),
        args_digest=args_digest,
        meta_digest=meta_digest,
        asked=asked,
        answered=answered,
    )
    runs = () if run is None else (run,)

    def work(txn: Transaction) -> StepAnswer:
        added = add_step(txn, episode, step, is_numbered=number is not None, runs=runs)
        if added is None:
            if environment is None or step.number:
                raise InvalidInput(
                    f"The first step of an episode must be number 0 and name its environment, got number "
                    f"{step.number} and {shown(environment)} (episode {shown(episode)}).",
                    next_step="Send environment with the first step, and the steps in their order.",
                )
            first = Episode(
                uid=episode,
                environment=environment,
                format=format,
                split=split,
                task=task,
                variant=variant,
                model=model,
                at_ms=now_ms,
                steps=(step,),
                runs=runs,
            )
            tell_episodes(txn, [first])
            added = add_step(txn, episode, step, is_numbered=True)
        assert added is not None  # noqa: S101 - it was made at the latest just now
        total = added.totals.total
        return StepAnswer(
            episode=episode,
            number=added.number,
            refused=added.refused,
            steps=added.totals.n_steps,
            total=None if total is None else float(total),
            finished=added.totals.finished,
        )

    return context.write("ingest", work, create=True)


def mark_incomplete(
    context: Context,
    episode: str,
    *,
    environment: str | None = None,
    task: str | None = None,
    split: str | None = None,
    variant: str | None = None,
    model: str | None = None,
    format: str = "armscope",
) -> EpisodeMarked:
    """Mark an episode: not everything that its environment answered could be written. Again changes nothing.

    One of which nothing was written yet is made, with what else is said of it. Raises `InvalidInput` where that
    leaves out its environment.
    """
    now_ms = context.clock()

    def work(txn: Transaction) -> EpisodeMarked:
        if not set_incomplete(txn, episode):
            if environment is None:
                raise InvalidInput(
                    f"An episode that nothing was recorded of must name its environment (episode {shown(episode)}).",
                    next_step="Send environment, or record a step first.",
                )
            head = Episode(
                uid=episode,
                environment=environment,
                format=format,
                split=split,
                task=task,
                variant=variant,
                model=model,
                at_ms=now_ms,
                incomplete=True,
            )
            tell_episodes(txn, [head])
        return EpisodeMarked(episode=episode)

    return context.write("ingest", work, create=True)
