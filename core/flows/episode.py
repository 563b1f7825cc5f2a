"""Episodes, recorded step by step, and the declared reward scales of environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Unpack

import msgspec
from msgspec import Meta

from core.errors import InvalidInput, NotFound
from core.flows.context import Context
from core.records.answers import EpisodeMarked, ScaleAnswer, StepAnswer
from core.records.episode import Episode, EpisodeOptions, ScaleOptions, Step, StepOptions
from core.records.limits import shown
from core.records.parameters import completed, defaults_of
from core.store.environments import (
    add_scale,
    environment_no_of,
    scales_of,
    sums_by,
    sums_of_environment,
)
from core.store.episode_credits import settle_scales
from core.store.episodes import add_step, set_incomplete, tell_episodes
from core.store.reads.episodes import near_environments
from core.store.transaction import Facts, Transaction

_STEP_DEFAULTS: Final = defaults_of(StepOptions)
_STEP_FIELDS: Final = tuple(_STEP_DEFAULTS.keys() & set(Step.__struct_fields__) - {"number", "extra"})


def declare(
    context: Context,
    environment: Annotated[str, Meta(description="The environment.")],
    **options: Unpack[ScaleOptions],
) -> ScaleAnswer:
    """Declare the reward scale of an environment.

    Options that are left out keep their active value; `undo` reverts the declaration. Raises `NotFound` for an
    unknown environment, `InvalidInput` for an invalid scale.
    """
    return context.write("settings", lambda txn: declare_in(txn, environment, options))


def declare_in(txn: Transaction, environment: str, options: ScaleOptions) -> ScaleAnswer:
    """Declare a scale inside an open transaction, like `declare`."""
    answer = _declared(txn, environment, options)
    if answer.scale == answer.before:
        return answer
    scale_no = add_scale(txn, environment, answer.scale, txn.own)
    settle_scales(txn, [scale_no])
    answer = msgspec.structs.replace(answer, id=f"scale-{scale_no}")
    scale = answer.scale
    txn.audit("scale", answer.id, {"environment": environment, "lo": scale.lo, "hi": scale.hi})
    return answer


def preview_declare(
    context: Context,
    environment: Annotated[str, Meta(description="The environment.")],
    **options: Unpack[ScaleOptions],
) -> ScaleAnswer:
    """Preview the successes by another reward scale; nothing is declared.

    Raises the errors of `declare`.
    """
    with context.reading() as snapshot:
        return _declared(snapshot, environment, options)


def _declared(facts: Facts, environment: str, options: ScaleOptions) -> ScaleAnswer:
    """Return the answer of a declaration, without its id."""
    number = environment_no_of(facts, environment)
    if number is None:
        near = near_environments(facts, environment)
        known = f"Did you mean {', '.join(near)}?" if near else "Use a name that armscope episodes lists."
        raise NotFound(
            f"There is no environment {shown(environment)} in learner {facts.name!r}.",
            next_step=f"{known} Nothing was declared.",
        )
    before, earlier = scales_of(facts, [number])[number], sums_of_environment(facts, number)
    scale = msgspec.structs.replace(
        before, **{name: value for name, value in options.items() if value is not None}
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
    episode: Annotated[str, Meta(description="The episode's uid.")],
    **options: Unpack[StepOptions],
) -> StepAnswer:
    """Record one answer of an environment and its reward.

    The step is on disk when this returns. The first step creates the episode and names its ``environment``. A step
    with a ``number`` counts once, however often it is sent. Steps after the end and ``refused`` calls are stored,
    and add nothing to the total. ``asked`` and ``answered`` are stored only with the setting ``keep_texts``.

    Raises `InvalidInput` for a reward that is no finite number, a first step without an environment, and a gap in
    the numbers. Raises `Conflict` for a number that is recorded with other content, and for an episode that an
    import recorded with more steps.
    """
    now_ms = context.clock()
    values: dict[str, Any] = {**_STEP_DEFAULTS, **options}
    if len(values) > len(_STEP_DEFAULTS):
        completed(StepOptions, options)  # raises for the unknown key
    number, environment, run = values["number"], values["environment"], values["run"]
    step = Step(
        number=number or 0,
        at_ms=now_ms,
        extra=tuple(values["extra"]),
        **{name: values[name] for name in _STEP_FIELDS},
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
            first = _episode(episode, values, now_ms, steps=(step,), runs=runs)
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
    episode: Annotated[str, Meta(description="The episode's uid.")],
    **options: Unpack[EpisodeOptions],
) -> EpisodeMarked:
    """Mark an episode as incomplete: some of its answers could not be recorded.

    A repeat changes nothing. An unknown episode is created from the options; raises `InvalidInput` where they name
    no environment.
    """
    values, now_ms = completed(EpisodeOptions, options), context.clock()

    def work(txn: Transaction) -> EpisodeMarked:
        if not set_incomplete(txn, episode):
            if values["environment"] is None:
                raise InvalidInput(
                    f"An episode without recorded steps must name its environment (episode {shown(episode)}).",
                    next_step="Send environment, or record a step first.",
                )
            head = _episode(episode, values, now_ms, incomplete=True)
            tell_episodes(txn, [head])
        return EpisodeMarked(episode=episode)

    return context.write("ingest", work, create=True)


def _episode(uid: str, values: Mapping[str, Any], at_ms: int, **rest: Any) -> Episode:  # noqa: ANN401 - its fields
    return Episode(
        uid=uid, at_ms=at_ms, **{name: values[name] for name in defaults_of(EpisodeOptions)}, **rest
    )
