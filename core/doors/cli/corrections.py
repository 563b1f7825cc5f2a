"""Corrections: rewards and notes given by hand, repairs and resets of arms, and the undo of any act."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import Asking, Fields, answer, command, context_of, writes, written
from core.doors.cli.program.spelling import arm_ids, types_of, words
from core.doors.flow_parameters import parameters_of
from core.doors.terminal import say
from core.doors.verbs import Verbs
from core.errors import InvalidReward
from core.explained.table import mean_words
from core.records.batch import RUN_REWARD_RULES, BatchAnswer, RunRewardAnswer, RunRewardRule, past_effect
from core.records.counts import number_of

if TYPE_CHECKING:
    from core.flows.context import Context
    from core.formats.reward_table import RewardTable
    from core.records.achieved import OutcomeAnswer, OutcomesAnswer
    from core.records.answers import RepairAnswer, ResetAnswer, UndoAnswer
    from core.records.corrections import NoteAnswer
    from core.records.observation import RewardAnswer

_ARMS = typer.Option("--arm", metavar="ID", autocompletion=arm_ids)


def plain_number(text: str) -> float:
    """A number as people write it: Python would read 1_0 as 10."""
    try:
        return float(text if "_" not in text else "")
    except ValueError as problem:
        raise typer.BadParameter(f"a reward must be a number from 0 to 1, got {text[:60]!a}") from problem


@command(
    examples=[
        "reward tool:web:search 1",
        'reward tool:web:search --outcome rejected --reason "wrong page" --run request-1 --correct',
        "reward --file rewards.csv",
        "reward --run request-1 --all 0.5",
        "reward --run request-1 --all rejected --rule step",
    ],
    options={
        "value": typer.Argument(metavar="VALUE", help="0 to 1; wins over --outcome.", parser=plain_number),
        "run": "ID",
    },
)
def reward(
    line: typer.Context,
    *,
    arm: Annotated[str | None, typer.Argument(help=words("reward", "arm"), autocompletion=arm_ids)] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="A CSV table or JSON lines with arm, value or outcome, run, reason and kind, - for standard input: "
            "one act, all of it or nothing.",
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--all",
            metavar="VALUE",
            help="0 to 1 or an outcome, for the arms of --run that --rule names, as one act.",
        ),
    ] = None,
    rule: Annotated[
        RunRewardRule | None,
        typer.Option("--rule", help=words("reward_run", "rule"), show_default="referenced"),
    ] = None,
    values: Fields,
) -> None:
    """With --file, a reward that names a run corrects the arms observed in it. With --all, add --correct for that."""
    if rule is not None and every is None:
        raise typer.BadParameter("--rule goes with --all only")
    if file is not None:
        _only(arm, values, "--file", {"key"}, also=every)
        _table(line, file, values["key"])
    elif every is not None:
        _only(arm, values, "--all", {"key", "run", "reason", "correct"})
        _whole_run(line, values, every, rule or RUN_REWARD_RULES[0])
    elif arm is None:
        raise typer.BadParameter("name an ARM, or a table with --file, or a run with --run and --all")
    else:
        _one(line, {"arm": arm, **values})


def _one(line: typer.Context, values: Fields) -> None:
    context = context_of(line, create=values["create"])
    result: RewardAnswer = Verbs.reward.call(context, **values)
    rounded = ", rounded to millionths" if result.rounded else ""
    words = (
        f"{result.arm} rewarded {result.reward:g} ({result.kind}{rounded}); {result.effect} "
        f"{mean_words(result.mean)} after {result.pulls:,} pulls."
    )
    written(line, context, result, words, act=result.id)


def _only(arm: str | None, values: Fields, option: str, takes: set[str], *, also: str | None = None) -> None:
    """Refuse what an option doesn't go with."""
    usual = {name: one.default for name, one in parameters_of(Verbs.reward.flow).items()}
    others = {name: value != usual[name] for name, value in values.items()}
    wrong = [f"--{name}" for name, said in others.items() if said and name not in takes]
    wrong += ["ARM"] if arm is not None else []
    wrong += ["--all"] if also is not None else []
    if wrong:
        takes_words = " and ".join(f"--{name}" for name in sorted(takes))
        raise typer.BadParameter(f"{option} goes with {takes_words} only, got {', '.join(wrong)}")


def _table(line: typer.Context, file: Path, key: str | None) -> None:
    """Every bad line is named, those that can't be read with those that can't be done."""
    from core.files import read_file
    from core.flows.queries import preview_batch
    from core.formats.reward_table import MAX_TABLE_BYTES, read_table, table_text
    from core.records.batch import refused

    table: RewardTable = read_table(table_text(read_file(file, "--file", max_bytes=MAX_TABLE_BYTES)))
    context = context_of(line)
    if table.bad:
        raise refused({**preview_batch(context, table.lines).bad, **table.bad}, table.n_lines)
    _print_batch(line, context, Verbs.reward_batch.call(context, rewards=table.lines, key=key))


def _whole_run(line: typer.Context, values: Fields, every: str, rule: RunRewardRule) -> None:
    from core.formats.reward_table import judged

    if values["run"] is None:
        raise typer.BadParameter("--all needs the run that it is about: --run ID")
    try:
        value, outcome = judged(every)
    except InvalidReward as problem:
        raise typer.BadParameter(f"--all: {problem.problem}") from None
    context = context_of(line)
    rest = {name: values[name] for name in ("run", "reason", "correct", "key")}
    result: RunRewardAnswer = Verbs.reward_run.call(context, value=value, outcome=outcome, rule=rule, **rest)
    if result.id is None:  # no arm by the rule
        answer(line, result, lambda: say(result.why or ""))
        return
    _print_batch(line, context, result)


def _print_batch(line: typer.Context, context: Context, result: BatchAnswer | RunRewardAnswer) -> None:
    n_corrections = sum(one.kind == "correction" for one in result.rewards)
    n_rounded = sum(one.rounded for one in result.rewards)
    rounded = f"; {n_rounded:,} rounded to millionths" if n_rounded else ""
    words = (
        f"{number_of(result.count, 'reward')} recorded as one act ({n_corrections:,} corrections, "
        f"{result.count - n_corrections:,} feedback{rounded})."
    )
    words = " ".join(filter(None, (words, past_effect(result.rewards))))
    written(line, context, result, words, act=result.id)


@command(
    examples=["outcome request-1 1", "outcome request-1 0.5 --preview", "outcome --file outcomes.csv"],
)
def outcome(
    line: typer.Context,
    *,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help=words("outcome", "run"))] = None,
    value: Annotated[
        float | None,
        typer.Argument(metavar="VALUE", help=words("outcome", "value"), parser=plain_number),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="A CSV table or JSON lines with run and value, - for standard input: one act, all of it or nothing.",
        ),
    ] = None,
    values: Fields,
) -> None:
    """The latest statement about a run is in force."""
    from core.files import read_file
    from core.formats.reward_table import MAX_TABLE_BYTES, read_outcomes

    result: OutcomeAnswer | OutcomesAnswer
    if file is not None and run is None:
        rows = read_outcomes(read_file(file, "--file", max_bytes=MAX_TABLE_BYTES))
        context = context_of(line)
        result = Verbs.outcomes.call(context, rows=rows, **values)
        text = f"{number_of(result.count, 'outcome')} stated as one act."
    elif file is None and run is not None and value is not None:
        context = context_of(line)
        result = Verbs.outcome.call(context, run=run, value=value, **values)
        shows = "" if result.achieved_by == "program" else f" It shows {_shown_outcome(result)}."
        text = f"Run {result.run} achieved {result.value:g}.{shows}"
    else:
        raise typer.BadParameter("name a RUN and a VALUE, or a table with --file")
    if result.id is None:
        answer(line, result, lambda: say(f"A preview: {text} Nothing was recorded."))
    else:
        written(line, context, result, text, act=result.id)


def _shown_outcome(result: OutcomeAnswer) -> str:
    if result.achieved is None:
        return "none: the setting outcome_from leaves programs out"
    return f"{result.achieved:g} by {result.achieved_by}, as the setting outcome_from says"


@writes("note", examples=['note tool:web:search "slow on Mondays"'])
def _noted(result: NoteAnswer) -> str:
    return f"Noted about {result.arm}."


def _preview_repair(context: Context, values: Fields) -> None:
    from core.flows import queries

    preview = queries.preview_repair(context, values["arms"], values["since"], values["until"])
    say(f"Take back {preview.n:,} automatic observations:")
    for one in preview.arms:
        say(
            f"  {one.arm}: {one.n:,}, mean {one.now.mean:.2f} to {one.after.mean:.2f}, "
            f"pulls {one.now.pulls:,} to {one.after.pulls:,}"
        )


@writes(
    "repair",
    asks=Asking("a repair", "taken back", _preview_repair),
    examples=[
        'repair --arm tool:fs:Read --since 2026-01-31T08:00 --reason "detector repaired"',
        "repair --arm tool:fs:Read --since 2026-01-31 --until 2026-02-02 --yes",
    ],
    options={"arms": _ARMS, "since": typer.Option("--since", metavar="TIME")},
)
def _repaired(result: RepairAnswer) -> str:
    """Observations by people and graders are kept, and undo reverts it."""
    return f"{result.observation_count:,} observations of {len(result.arm_ids):,} arms taken back."


def _preview_reset(context: Context, values: Fields) -> None:
    from core.flows import queries

    scope = {name: values[name] for name in ("arms", "types", "target")}
    preview = queries.preview_reset(context, **scope)
    say(
        f"Reset {len(preview.columns):,} arms ({preview.scope}) to {preview.target}. "
        f"Their {preview.columns.n_pulls:,} pulls stay readable, and you can undo it."
    )


@writes(
    "reset",
    asks=Asking("a reset", "reset", _preview_reset),
    examples=['reset --type tool --to prior --reason "detector repaired"', "reset --arm tool:fs:Read --yes"],
    options={
        "arms": _ARMS,
        "types": typer.Option("--type", callback=types_of),
        "target": typer.Option("--to"),
    },
    omit=("seen",),
)
def _reset_words(result: ResetAnswer) -> str:
    """Without --arm and --type it is all of them."""
    return f"{result.reset_count:,} arms reset to {result.to}."


@writes(
    "undo",
    way="Redo",
    examples=["undo reward-12", "undo rewards-12", "undo import-1"],
    options={"act_id": "act"},
)
def _undone(result: UndoAnswer) -> str:
    all_of_it = f", all {result.count:,} acts of it" if result.count > 1 else ""
    text = f"{result.undone} is undone{all_of_it}; nothing was deleted."
    if not result.left_out:
        return text
    return (
        f"{text} {result.left_out:,} rewards and notes don't count again: their keys were used again meanwhile, "
        "and a key counts once."
    )
