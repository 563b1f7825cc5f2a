"""Episodes: what an environment paid, recorded step by step; and on what scale it pays, as a person declares it."""

from __future__ import annotations

import msgspec

from core.errors import InvalidInput, NotFound
from core.flows.context import Context
from core.records.episode import Base, Episode, Scale, Step
from core.records.limits import shown
from core.store.environments import (
    add_scale,
    declared_scale,
    environment_no_of,
    settle_scales,
    sums_of_environment,
)
from core.store.episodes import add_step, tell_episodes
from core.store.transaction import Transaction


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
    said = {
        name: value
        for name, value in (
            ("lo", lo),
            ("hi", hi),
            ("step_lo", step_lo),
            ("step_hi", step_hi),
            ("threshold", threshold),
            ("base", base),
            ("gamma", gamma),
        )
        if value is not None
    }

    def work(txn: Transaction) -> ScaleAnswer:
        number = environment_no_of(txn, environment)
        if number is None:
            raise NotFound(
                f"There is no environment {shown(environment)} in learner {txn.name!r}.",
                next_step="Use a name that armscope episodes lists; nothing was declared.",
            )
        before, earlier = declared_scale(txn, number), sums_of_environment(txn, number)
        scale = msgspec.structs.replace(before, **said)
        answer = ScaleAnswer(
            id=None,
            environment=environment,
            scale=scale,
            before=before,
            episodes=earlier.n,
            successes=earlier.successes,
            successes_before=earlier.successes,
        )
        if scale == before:
            return answer
        scale_no = add_scale(txn, environment, scale, actor=txn.actor.name, at_ms=txn.now_ms)
        settle_scales(txn, [scale_no])
        answer = msgspec.structs.replace(
            answer, id=f"scale-{scale_no}", successes=sums_of_environment(txn, number).successes
        )
        txn.audit("scale", answer.id, {"environment": environment, "lo": scale.lo, "hi": scale.hi})
        return answer

    return context.write("settings", work)


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
    model: str | None = None,
    run: str | None = None,
) -> StepAnswer:
    """Record one answer of an environment; it is on disk when this returns. The first makes the episode.

    ``reward`` None is no reward, which is not 0. ``number``, from 0 on, says which step it is: sent again it counts
    once. ``environment``, ``task``, ``split`` and ``model`` are said with the first step, ``run`` with any. What
    comes after the end is kept, and adds nothing.

    Raises `InvalidInput` for a reward that is no finite number, a first step without an environment, and a number
    that leaves one out; `Conflict` for a number that was told with other content, and for an episode that an import
    told longer than it was recorded.
    """
    now_ms = context.clock()

    def work(txn: Transaction) -> StepAnswer:
        step = Step(number=number or 0, name=name, reward=reward, finished=finished, at_ms=now_ms)
        runs = () if run is None else (run,)
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
                split=split,
                task=task,
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
