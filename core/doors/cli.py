"""The command line: parse, call one flow, format. ``serve`` and ``demo`` are added by the dashboard's launcher.

Exit codes: 0 done, 1 failed (also: verify found differences), 2 the command line was wrong.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from core.doors.terminal import literal, say, say_error, say_json, say_json_line, say_table
from core.errors import ArmscopeError, InvalidInput, UnreadableSource
from core.flows import keep, learn, look
from core.flows.desk import Desk, open_desk
from core.flows.export import ExportAnswer, export_file, export_into
from core.flows.find import USUAL, Found, find_sessions
from core.flows.reset import reset as reset_arms
from core.flows.reward import reward as reward_arm
from core.flows.select import select as select_arms
from core.flows.settings import change
from core.flows.undo import undo as undo_act
from core.flows.watch import tells_news, watch
from core.formats import Source
from core.records.arm import ARM_TYPES, Arm, ArmType
from core.records.observation import RewardOutcome
from core.records.reset import Target
from core.records.run import Phase, Unit
from core.settings import Settings

app = typer.Typer(
    name="armscope",
    help="The desk for Thompson-sampled prompt components: what the learner believes, why, and how to put it right.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What the options before the command said."""

    database: str | None
    learner: str | None

    def settings(self) -> Settings:
        return Settings.from_environment(database=self.database, learner=self.learner)


@app.callback()
def _before(
    context: typer.Context,
    database: Annotated[
        str | None,
        typer.Option(
            "--database", help="File or sqlite:/// URL [ARMSCOPE_DATABASE]; default: the user's data folder."
        ),
    ] = None,
    learner: Annotated[
        str | None, typer.Option("--learner", help="Whose data [ARMSCOPE_LEARNER]; default: default.")
    ] = None,
) -> None:
    context.obj = Where(database=database, learner=learner)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code; every error has the one shape."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        code = app(args=given, standalone_mode=False, prog_name="armscope")
    except ArmscopeError as problem:
        say_error(problem, as_json=as_json)
        sys.exit(1)
    except typer.Abort:
        say_error(_aborted(), as_json=as_json)
        sys.exit(1)
    except typer.TyperException as problem:
        _usage(problem, as_json=as_json)
    except BrokenPipeError:  # the reader of our output has gone; there is nobody to tell
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        say_error(_aborted(), as_json=as_json)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(problem: typer.TyperException, *, as_json: bool) -> NoReturn:
    message = problem.format_message() if hasattr(problem, "format_message") else str(problem)
    answer = {
        "ok": False,
        "error": message,
        "code": "usage",
        "next": "Run the command with --help to see what it takes; nothing was changed.",
    }
    say_error(answer, as_json=as_json)
    sys.exit(getattr(problem, "exit_code", 2))


def _aborted() -> dict[str, object]:
    return {
        "ok": False,
        "error": "Stopped before anything was done.",
        "code": "aborted",
        "next": "Run it again when you are ready.",
    }


def desk_of(context: typer.Context) -> Desk:
    """The desk that the options before the command name."""
    where = context.obj
    if not isinstance(where, Where):
        raise TypeError("a command runs below the callback that says where the data are")
    desk = open_desk(where.settings())
    context.call_on_close(desk.store.close)  # under the lock; at the interpreter's end nobody would hold it
    return desk


def answer(value: object, *, as_json: bool, words: Callable[[], None]) -> None:
    """Give an answer in the form that was asked for."""
    if as_json:
        say_json(value)
    else:
        words()


# What is there


@app.command()
def status(context: typer.Context, as_json: Json = False) -> None:
    """Where the data are, and what they hold."""
    found = look.status(desk_of(context))
    answer(found, as_json=as_json, words=lambda: _say_status(found))


def _say_status(found: look.Status) -> None:
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in found.skipped.items() if count) or "none"
    saved = found.baseline.savings_percent
    interval = found.baseline.interval
    rows = [
        ("database", found.database),
        ("learner", f"{found.learner} ({found.phase}, detection {found.mode}, revision {found.revision:,})"),
        ("runs", f"{found.runs:,} ({found.observed:,} observed; skipped: {skipped}; {found.empty:,} empty)"),
        ("arms", f"{found.arms:,} with {found.pulls:,} pulls"),
        ("tokens", f"{found.tokens:,}"),
        ("first and last run", f"{found.first_run or 'unknown'} to {found.last_run or 'unknown'}"),
        ("baseline, selected", f"{found.baseline.baseline_runs:,} and {found.baseline.selected_runs:,} runs"),
        ("savings", "no figure" if saved is None else f"{saved:.1f}% of the tokens"),
    ]
    if interval is not None:
        rows[-1] = ("savings", f"{saved:.1f}%, 95% interval {interval[0]:.1f}% to {interval[1]:.1f}%")
    say_table(("", ""), rows)
    if not found.runs:
        say("", "Nothing is recorded yet. Next: armscope import <files or folders>, or armscope demo.")


@app.command()
def posteriors(
    context: typer.Context,
    arm_type: Annotated[
        list[str] | None, typer.Option("--type", help="Only arms of this type; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What is believed of every arm."""
    types = _types(arm_type or [])
    found = [one for one in look.posteriors(desk_of(context)) if not types or one.type in types]
    rows = [
        (
            one.arm,
            f"{one.mean:.3f}",
            f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
            f"{one.pulls:,}",
            f"{one.inclusions:,}",
            one.confidence.replace("_", " "),
        )
        for one in sorted(found, key=lambda one: (-one.mean, one.arm))
    ]
    heads = ("arm", "mean", "95% interval, exact", "pulls", "in runs", "confidence")
    answer(found, as_json=as_json, words=lambda: say_table(heads, rows, numbers=(1, 2, 3, 4)))


@app.command()
def arms(context: typer.Context, as_json: Json = False) -> None:
    """Every arm with its cost and prior."""
    columns = look.belief(desk_of(context)).columns
    found = [
        {
            "arm": key,
            "type": columns.types[place],
            "token_cost": None if columns.token_cost[place] < 0 else int(columns.token_cost[place]),
            "prior": {
                "alpha": int(columns.prior_alpha_micro[place]) / 1e6,
                "beta": int(columns.prior_beta_micro[place]) / 1e6,
            },
            "pulls": int(columns.pulls[place]),
            "inclusions": int(columns.inclusions[place]),
        }
        for place, key in enumerate(columns.keys)
    ]
    rows = [
        (
            str(one["arm"]),
            "unknown" if one["token_cost"] is None else f"{one['token_cost']:,}",
            f"{columns.prior_alpha_micro[place] / 1e6:g}, {columns.prior_beta_micro[place] / 1e6:g}",
            f"{one['pulls']:,}",
        )
        for place, one in enumerate(found)
    ]
    answer(
        found,
        as_json=as_json,
        words=lambda: say_table(("arm", "tokens", "prior", "pulls"), rows, numbers=(1, 3)),
    )


@app.command()
def runs(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many, newest first.")] = 50,
    as_json: Json = False,
) -> None:
    """The latest runs."""
    found = [
        {
            "run": one.run_no,
            "uid": one.uid,
            "ended_at": look.iso(one.at_ms),
            "model": one.model,
            "channel": one.channel,
            "class": one.run_class,
            "status": one.status,
            "outcome": one.outcome,
            "tokens": one.tokens,
            "arms": one.n_arms,
            "referenced": one.n_referenced,
        }
        for one in look.runs(desk_of(context), limit)
    ]
    heads = ("run", "ended", "class", "outcome", "arms", "referenced", "tokens", "uid")
    rows = [
        (
            f"{one['run']}",
            f"{one['ended_at'] or 'unknown'}",
            f"{one['class']}",
            f"{one['outcome']}",
            f"{one['arms']}",
            f"{one['referenced']}",
            "unknown" if one["tokens"] is None else f"{one['tokens']:,}",
            f"{one['uid']}",
        )
        for one in found
    ]
    answer(found, as_json=as_json, words=lambda: say_table(heads, rows, numbers=(0, 4, 5, 6)))


# In and out


@app.command("import")
def import_(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files and folders with transcripts; none: what the usual agents keep here, after asking."
        ),
    ] = None,
    format_name: Annotated[str | None, typer.Option("--format", help="Instead of recognising it.")] = None,
    unit: Annotated[
        Literal["prompt", "turn", "episode"] | None, typer.Option("--unit", help="What counts as a run.")
    ] = None,
    tools: Annotated[
        Path | None, typer.Option("--tools", help="The tools that were offered, where the runs don't say.")
    ] = None,
    phase: Annotated[
        Literal["passive", "active"] | None, typer.Option("--phase", help="For this import.")
    ] = None,
    watched: Annotated[
        bool, typer.Option("--watch", help="Go on and import what grows, until Ctrl+C; all of it is one act.")
    ] = False,
    every_s: Annotated[
        float, typer.Option("--every", min=0.1, max=86_400, help="With --watch: seconds between two looks.")
    ] = 2.0,
    as_json: Json = False,
) -> None:
    """Read agent transcripts; again changes nothing."""
    named = paths or _found_sessions(as_json=as_json)
    desk = desk_of(context)
    chosen_unit: Unit | None = unit
    chosen_phase: Phase | None = phase
    if watched:
        told = watch(
            desk,
            named,
            partial(time.sleep, every_s),
            format=format_name,
            unit=chosen_unit,
            tools_file=tools,
            phase=chosen_phase,
        )
        _say_watched(told, as_json=as_json)
        return
    with _progress(quiet=as_json) as follow:
        found = learn.import_files(
            desk,
            named,
            format=format_name,
            unit=chosen_unit,
            tools_file=tools,
            phase=chosen_phase,
            progress=follow,
        )
    answer(found, as_json=as_json, words=lambda: _say_import(found))


def _found_sessions(*, as_json: bool) -> list[Path]:
    """Folders where the usual agents keep sessions, once the person has agreed; else the list and exit code 2."""
    found = find_sessions(Path.home())
    folders = list(dict.fromkeys(Path(one.folder) for one in found))
    if not as_json and found:
        _say_found(found)
    if as_json or not found or not sys.stdin.isatty():
        say_error(_nothing_named(found, folders), as_json=as_json)
        raise typer.Exit(2)
    typer.confirm("Import all of it?", abort=True)
    return folders


def _say_found(found: Sequence[Found]) -> None:
    heads = ("agent", "format", "files", "size", "newest", "folder")
    rows = [
        (
            one.agent,
            one.format,
            f"{one.files:,}",
            decimal(one.size_bytes),
            (look.iso(one.newest_ms) or "unknown")[:16].replace("T", " "),
            one.folder,
        )
        for one in found
    ]
    say_table(heads, rows, numbers=(2, 3))


def _nothing_named(found: Sequence[Found], folders: Sequence[Path]) -> dict[str, object]:
    if not found:
        places = ", ".join(f"~/{place}" for _, place in USUAL)
        error = f"Nothing was named to import, and there are no sessions where the usual agents keep them ({places})."
        command = "Name files or folders that hold agent transcripts; the README lists the formats."
    else:
        error = f"Nothing was named to import; sessions were found in {len(folders):,} folders."
        command = f"Import them with: armscope import {shlex.join(map(str, folders))}"
    told: dict[str, object] = {"ok": False, "error": error, "code": "usage", "next": command}
    return {**told, "found": [msgspec.to_builtins(one) for one in found]} if found else told


def _say_watched(told: Iterable[learn.ImportAnswer | UnreadableSource], *, as_json: bool) -> None:
    """Say what watching brings until it is stopped; with ``--json`` one document a line."""
    act: str | None = None
    try:
        for one in told:
            act = act if isinstance(one, UnreadableSource) else one.id
            if as_json:
                say_json_line(one.as_answer() if isinstance(one, UnreadableSource) else one)
            elif isinstance(one, UnreadableSource):
                say_error(one, as_json=False)
            elif tells_news(one):
                say(f"{one.id}: {one.runs - one.duplicates - one.updated:,} new runs, {one.updated:,} grown")
    except KeyboardInterrupt:
        if not as_json:
            say(
                "Stopped watching."
                if act is None
                else f"Stopped watching. Take it back with: armscope undo {act}"
            )


def _say_import(found: learn.ImportAnswer) -> None:
    say(
        f"{found.id}: {found.runs:,} runs ({found.unit}) from {found.files:,} files ({found.format}): "
        f"{found.observed:,} observed, {found.skipped:,} skipped."
    )
    counts = {
        "known already": found.duplicates,
        "grown": found.updated,
        "empty prompts": found.empty,
        "replies outside any turn": found.outside,
        "calls of tools that were not offered": found.not_offered,
        "rewards, carried beliefs and resets": found.ledger,
        "lines rejected": found.rejected_count,
    }
    for what, count in counts.items():
        if count:
            say(f"  {count:,} {what}")
    for line in found.rejected[:10]:
        say(f"    {line.file}{'' if line.line is None else f', line {line.line}'}: {line.reason}")
    for file in found.ignored[:10]:
        say(f"  not read: {file.file}: {file.reason}")
    _say_differences(found)
    for note in found.notes:
        say(f"  {note}")
    if found.hint:
        say(found.hint)
    say(f"Take it back with: armscope undo {found.id}")


def _say_differences(found: learn.ImportAnswer) -> None:
    if not found.differences_count:
        return
    say(f"  {found.differences_count:,} posteriors in the file differ from what its own runs come to:")
    for one in found.differences[:10]:
        say(
            f"    {one.arm}: Beta({one.stated_alpha:g}, {one.stated_beta:g}) after {one.stated_pulls:,} pulls there, "
            f"Beta({one.alpha:g}, {one.beta:g}) after {one.pulls:,} from the runs"
        )


class _Following:
    """A progress bar over the files of an import, on a terminal only."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._tasks: dict[str, Any] = {}

    def __call__(self, source: Source, n_bytes: int) -> None:
        if self._bar is None:
            return
        if source.file not in self._tasks:
            self._tasks[source.file] = self._bar.add_task(
                literal(Path(source.file).name[:40]).plain, total=source.size_bytes
            )
        self._bar.update(self._tasks[source.file], completed=n_bytes)


class _progress:  # noqa: N801 - reads like a context
    def __init__(self, *, quiet: bool) -> None:
        console = Console(stderr=True)
        self._bar = (
            None
            if quiet or not console.is_terminal
            else Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
        )

    def __enter__(self) -> _Following:
        if self._bar is not None:
            self._bar.start()
        return _Following(self._bar)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


@app.command()
def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A new file, or - for standard output.")],
    format_name: Annotated[
        Literal["jsonl", "json", "csv"],
        typer.Option(
            "--format", help="jsonl: our own lines; json, csv: OpenClaw's shape, for other programs."
        ),
    ] = "jsonl",
    as_json: Json = False,
) -> None:
    """Write everything as lines of armscope's own format, loss-free, or a view of it for other programs."""
    desk = desk_of(context)
    if str(file) == "-":
        if as_json:
            raise InvalidInput(
                "Standard output can hold the lines or the JSON answer, got both (- and --json).",
                next_step="Name a file, or leave --json out.",
            )
        export_into(desk, sys.stdout.buffer, "-", format_name)
        return
    found = export_file(desk, file, format_name)
    answer(found, as_json=as_json, words=lambda: say(_export_words(found)))


def _export_words(found: ExportAnswer) -> str:
    if found.format == "jsonl":
        return f"{found.runs:,} runs, {found.rewards:,} rewards and {found.resets:,} resets written to {found.file}."
    tables = found.file if found.observations_file is None else f"{found.file} and {found.observations_file}"
    return f"{found.arms:,} posteriors and {found.observations:,} observations written to {tables}."


# Choosing


@app.command()
def select(
    context: typer.Context,
    arms: Annotated[
        Path | None,
        typer.Option("--arms", help="JSON list of ids or {key, token_cost}; default: all known arms."),
    ] = None,
    budget: Annotated[int | None, typer.Option("--budget", min=0, help="Tokens; 0 = unlimited.")] = None,
    k: Annotated[int | None, typer.Option("--k", min=0, help="Arms at most; 0 = unlimited.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="To draw the same again.")] = None,
    as_json: Json = False,
) -> None:
    """Choose the arms of the next prompt, with draw, rank, reason and cost of each."""
    desk = desk_of(context)
    if seed is not None:
        desk = replace(desk, entropy=lambda: seed)
    found = select_arms(desk, None if arms is None else _read_arms(arms), budget_tokens=budget, k=k)
    rows = [
        (
            "in" if one.included else "out",
            one.arm,
            one.reason.replace("_", " "),
            f"{one.rank}",
            "" if one.draw is None else f"{one.draw:.3f}",
            f"{one.token_cost:,}",
        )
        for one in found.decisions
    ]

    def words() -> None:
        say_table(("", "arm", "why", "rank", "draw", "tokens"), rows, numbers=(3, 4, 5))
        say("", f"A {found.run_class} run with {found.tokens:,} tokens of arms; seed {found.seed}.")
        if found.guidance:
            say(found.guidance)

    answer(found, as_json=as_json, words=words)


def _read_arms(file: Path) -> list[Arm]:
    try:
        listed = msgspec.json.decode(file.read_bytes(), type=list[str | Arm])
    except (OSError, msgspec.MsgspecError, RecursionError) as problem:
        raise InvalidInput(
            f"--arms must name a JSON file with a list of ids or of objects with key and token_cost, "
            f"got {file}: {problem}.",
            next_step='Write it like ["tool:fs:Read", {"key": "tool:web:search", "token_cost": 120}].',
        ) from problem
    return [arm if isinstance(arm, Arm) else Arm(key=arm) for arm in listed]


# Changing


@app.command()
def settings(
    context: typer.Context,
    action: Annotated[
        Literal["set"] | None, typer.Argument(help="set NAME VALUE, or nothing to list.")
    ] = None,
    name: Annotated[str | None, typer.Argument(help="Which setting.")] = None,
    value: Annotated[str | None, typer.Argument(help="Its value, as JSON or plain text.")] = None,
    as_json: Json = False,
) -> None:
    """List the settings, or change one: armscope settings set baseline_rate 0.1."""
    desk = desk_of(context)
    if action is None:
        found = msgspec.to_builtins(look.frame(desk).settings)
        rows = [(key, msgspec.json.encode(one).decode()) for key, one in found.items()]
        answer(found, as_json=as_json, words=lambda: say_table(("setting", "value"), rows))
        return
    if name is None or value is None:
        raise typer.BadParameter("set takes a name and a value, for example: settings set baseline_rate 0.1")
    changed = change(desk, name, _setting_value(value))
    words = (
        f"{changed.name} is {changed.value} already."
        if changed.id is None
        else f"{changed.name}: {changed.before} -> {changed.value}. Take it back with: armscope undo {changed.id}"
    )
    answer(changed, as_json=as_json, words=lambda: say(words))


def _setting_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text


@app.command()
def reward(
    context: typer.Context,
    arm: Annotated[str, typer.Argument(help="The arm's id, type:category:name.")],
    value: Annotated[float | None, typer.Argument(help="0 to 1; wins over --outcome.")] = None,
    outcome: Annotated[
        Literal["accepted", "partial", "rejected"] | None, typer.Option("--outcome", help="1, 0.5 or 0.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="The run it is about: uid or number.")] = None,
    correct: Annotated[bool, typer.Option("--correct", help="Replace that run's automatic reward.")] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: sent again, it counts once.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the arm if there is none.")] = False,
    as_json: Json = False,
) -> None:
    """Give a lagged reward by hand."""
    chosen: RewardOutcome | None = outcome
    found = reward_arm(
        desk_of(context),
        arm,
        value,
        outcome=chosen,
        reason=reason,
        run=run,
        correct=correct,
        key=key,
        create=create,
    )
    words = (
        f"{found.arm} rewarded {found.reward:g} ({found.kind}); its mean is now {found.mean:.3f} after "
        f"{found.pulls:,} pulls. Take it back with: armscope undo {found.id}"
    )
    answer(found, as_json=as_json, words=lambda: say(words))


@app.command()
def reset(
    context: typer.Context,
    arm: Annotated[list[str] | None, typer.Option("--arm", help="This arm; repeatable.")] = None,
    arm_type: Annotated[
        list[str] | None, typer.Option("--type", help="All arms of this type; repeatable.")
    ] = None,
    to: Annotated[
        Literal["uniform", "prior"], typer.Option("--to", help="Beta(1, 1), or each own prior.")
    ] = "uniform",
    reason: Annotated[str | None, typer.Option("--reason", help="Why.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: Json = False,
) -> None:
    """Start arms again (all of them, if none are named); nothing is deleted."""
    desk = desk_of(context)
    types, target = _types(arm_type or []), _target(to)
    preview = look.preview_reset(desk, arms=arm or (), types=types, target=target)
    if not yes:
        _confirm(preview)
    found = reset_arms(desk, arms=arm or (), types=types, target=target, reason=reason)
    words = f"{found.reset_count:,} arms reset to {found.to}. Take it back with: armscope undo {found.id}"
    answer(found, as_json=as_json, words=lambda: say(words))


def _confirm(preview: look.ResetPreview) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("a reset without a terminal to ask on needs --yes; nothing was reset")
    say(
        f"Reset {len(preview.columns):,} arms ({preview.scope}) to {preview.target}. "
        f"Their {int(preview.columns.pulls.sum()):,} pulls stay readable, and you can undo it."
    )
    typer.confirm("Go on?", abort=True)


def _target(to: Literal["uniform", "prior"]) -> Target:
    return to


def _types(names: Sequence[str]) -> tuple[ArmType, ...]:
    found = tuple(known for known in ARM_TYPES if known in names)
    unknown = [name for name in names if name not in ARM_TYPES]
    if unknown:
        raise typer.BadParameter(f"--type must be one of {', '.join(ARM_TYPES)}, got {unknown[0]!a}")
    return found


@app.command()
def undo(
    context: typer.Context,
    act: Annotated[str, typer.Argument(help="Its id, like reward-12, reset-3, import-1, setting-2, undo-4.")],
    as_json: Json = False,
) -> None:
    """Take a reward, reset, import, setting or undo back."""
    found = undo_act(desk_of(context), act)
    words = f"{found.undone} is undone; nothing was deleted. Redo with: armscope undo {found.id}"
    answer(found, as_json=as_json, words=lambda: say(words))


# Keeping


@app.command()
def verify(context: typer.Context, as_json: Json = False) -> None:
    """Recompute every cache from the recorded facts; exit 1 with the differences if there are any."""
    found = look.verify(desk_of(context))
    listed = [{"learner": name, **difference._asdict()} for name, difference in found.found]
    result = {
        "ok": found.clean,
        "learners": found.learners,
        "differences_count": found.n_differences,
        "differences": listed,
    }

    def words() -> None:
        if found.clean:
            say(f"Everything equals the fold of the facts ({len(found.learners):,} learners).")
            return
        say(f"{found.n_differences:,} differences:")
        heads = ("learner", "table", "key", "stored", "recomputed")
        say_table(heads, [[str(value) for value in one.values()] for one in listed])

    answer(result, as_json=as_json, words=words)
    if not found.clean:
        raise typer.Exit(1)


@app.command()
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A new file.")],
    as_json: Json = False,
) -> None:
    """Copy the database as it is at this moment, while it is in use."""
    found = keep.backup(desk_of(context), file)
    words = f"{found.size_bytes:,} bytes written to {found.file}; open it with --database {found.file}."
    answer(found, as_json=as_json, words=lambda: say(words))


@app.command()
def upgrade(context: typer.Context, as_json: Json = False) -> None:
    """Bring a database of an older armscope up to date."""
    found = keep.upgrade(context.obj.settings().database)
    words = f"{found.database} has schema {found.after} (it had {found.before or 'none'})."
    answer(found, as_json=as_json, words=lambda: say(words))
