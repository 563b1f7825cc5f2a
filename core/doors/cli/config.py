"""Config: the variables that armscope reads, a learner's settings, the learners, and a status of the data."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import msgspec
import typer

from core.doors.cli.program.app import (
    Fields,
    ReadDatabase,
    answer,
    command,
    context_of,
    done,
    global_options,
    group,
    reads,
    written,
    written_words,
)
from core.doors.cli.program.spelling import words
from core.doors.cli.spool import spool_words
from core.doors.documents import act as act_document
from core.doors.http.guard import LAYERS_PER_MINUTE, PER_MINUTE
from core.doors.terminal import say, say_facts, say_table
from core.doors.verbs import Verbs
from core.explained import machine, server
from core.explained.table import Table, text
from core.records.estimate import Estimate
from core.records.learner import SELECTS
from core.records.model_kinds import price_offers
from core.records.savings_words import NEW_POLICY, compared, figure, savings_facts
from core.records.status import Baseline, SpoolCounts
from core.records.transcript import texts_policy
from core.records.verification import unprovable_words
from core.settings import database_at, default_database, secret, spool_folder, variable

if TYPE_CHECKING:
    from core.flows import queries
    from core.records.answers import SettingAnswer
    from core.records.learner import LearnerSettings, LearnerSummary

Source = Literal["option", "variable", "default"]
SETTINGS = group("settings", words="List the settings, or set one.")
UNCHANGED = "{name} is {value} already."
CHANGED = "{name}: {before} -> {value}."
ACCEPTED = "{model} now has the price of {like}."
PRICED = "{model} has a price already."

SETTING: Final[Table[tuple[str, object]]] = Table(
    name=text("setting", lambda one: one[0]),
    value=text("value", lambda one: msgspec.json.encode(one[1]).decode()),
)


class Variable(NamedTuple):
    """A variable; ``option`` takes precedence over it, and ``default`` holds without both."""

    name: str
    words: str
    option: str = ""
    default: str | None = None
    is_secret: bool = False


VARIABLES: Final = (
    Variable(
        "ARMSCOPE_DATABASE",
        "path, `sqlite:///` URL or `postgresql://` URL of the database",
        "--database",
        "`armscope.db` in the user data folder",
    ),
    Variable("ARMSCOPE_LEARNER", "learner", "--learner", "`default`, or the only learner"),
    Variable("ARMSCOPE_READ_DATABASE", "PostgreSQL standby for reads", "--read-database"),
    Variable("ARMSCOPE_PORT", "port of `serve`, `demo` and `api`", "--port", "8501, and 8502 for `api`"),
    Variable("ARMSCOPE_ADDRESS", "address on which they listen", "--address", "127.0.0.1"),
    Variable(
        "ARMSCOPE_HOST",
        "names by which `api` is called, separated by spaces: a name, `*.example.internal` or `10.0.0.0/8`",
        "--host",
    ),
    Variable("ARMSCOPE_PROXY", "proxies of `serve` and `api`, separated by spaces", "--proxy"),
    Variable("ARMSCOPE_RATE", "requests a minute and token at `api`", "--rate", str(PER_MINUTE)),
    Variable(
        "ARMSCOPE_NEW_LAYERS",
        "new layers a minute and token at `api`",
        "--new-layers",
        str(LAYERS_PER_MINUTE),
    ),
    Variable(
        "ARMSCOPE_REQUIRE_TOKEN",
        "1: programs on this machine need a token, too",
        "--require-token",
        "0",
    ),
    Variable("ARMSCOPE_BROWSER", "0: `serve` and `demo` open no page", "--no-browser", "1"),
    Variable(
        "ARMSCOPE_BASE_PATH",
        "path below which a proxy serves armscope, see [people](people.md#below-a-path)",
        "--base-path",
    ),
    Variable(
        "ARMSCOPE_LOG_FORMAT", "form of the log of `serve` and `api`: text or json", "--log-format", "text"
    ),
    Variable(
        "ARMSCOPE_LOG_LEVEL",
        "least level of its lines: debug, info, warning or error",
        "--log-level",
        "info",
    ),
    Variable("ARMSCOPE_AUTH", "file with the table `[auth]`; people sign in, see [people](people.md)"),
    Variable("ARMSCOPE_SESSION_HOURS", "length of a signed-in session in hours", default="12"),
    Variable("ARMSCOPE_CORS_ORIGIN", "origins whose pages may call the HTTP interface"),
    Variable(
        "ARMSCOPE_WEBHOOK_SECRET",
        "secret that signs alerts, 24 bytes or more, see [alerts](alerts.md)",
        is_secret=True,
    ),
    Variable("ARMSCOPE_WEBHOOK_SECRET_FILE", "file that holds this secret"),
    Variable(
        "ARMSCOPE_CONNECT_S",
        "seconds that an agent's request waits for a connection, see [python](python.md#when-the-server-is-away)",
        default="0.3",
    ),
    Variable("ARMSCOPE_SELECT_S", "seconds that it waits for a selection", default="1"),
    Variable("ARMSCOPE_RECORD_S", "seconds that it waits for a record", default="0.5"),
    Variable("ARMSCOPE_READ_S", "seconds that a method of a client that reads waits", default="120"),
    Variable(
        "ARMSCOPE_SPOOL",
        "folder of runs that wait to be recorded",
        default="`spool` in the user's state folder",
    ),
    Variable(
        "ARMSCOPE_TOKEN",
        "token for `--server` of `armscope spool send` and `armscope mcp-proxy`",
        is_secret=True,
    ),
    Variable("PGPASSWORD", "password for PostgreSQL; `~/.pgpass` and the URL work too", is_secret=True),
)


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """A variable with its value and the source of it; the value of a secret is not shown."""

    name: str
    value: str | None
    source: Source
    option: str
    words: str


IN_FORCE: Final[Table[InForce]] = Table(
    name=text("variable", lambda one: one.name),
    value=text("value", lambda one: one.value, "none"),
    source=text("from", lambda one: one.source),
    option=text("option", lambda one: one.option),
)


@command(
    words="Show the variables that armscope reads, with their values.", examples=["config", "config --json"]
)
def config(line: typer.Context) -> None:
    """An option takes precedence over its variable, and an empty variable counts as unset."""
    options = global_options(line)
    by_option = {"--database": options.database, "--learner": options.learner}
    rows = [_in_force(one, by_option.get(one.option)) for one in VARIABLES]

    def write() -> None:
        say_table(IN_FORCE, rows)
        say("", "What they mean: armscope help variables")

    answer(line, msgspec.to_builtins(rows), write)


def _in_force(one: Variable, option: str | None) -> InForce:
    stored = secret(one.name) if one.is_secret else variable(one.name) or None
    source: Source = "default" if stored is None else "variable"
    value = _default(one) if stored is None else "set" if one.is_secret else _shown(one, stored)
    if option is not None:
        source, value = "option", _shown(one, option)
    return InForce(name=one.name, value=value, source=source, option=one.option, words=one.words)


def _shown(one: Variable, value: str) -> str:
    """Return a value; an address of a database is shown without its password."""
    return str(database_at(value)) if one.name.endswith("DATABASE") else value


def _default(one: Variable) -> str | None:
    paths = {"ARMSCOPE_DATABASE": default_database, "ARMSCOPE_SPOOL": spool_folder}
    if one.name in paths:
        return str(paths[one.name]())
    return None if one.default is None else one.default.replace("`", "")


@reads("list", inside=SETTINGS, takes="settings", examples=["settings", "settings list --json"])
def _say_settings(in_force: LearnerSettings) -> None:
    say_table(SETTING, msgspec.to_builtins(in_force).items())


def _setting_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text


@command(
    "set",
    inside=SETTINGS,
    takes="change",
    examples=["settings set baseline_rate 0.1", "settings set prices '{\"MODEL\": 3}'"],
    options={"value": typer.Argument(help="Its value, as JSON or plain text.")},
)
def set_setting(line: typer.Context, values: Fields) -> None:
    context = context_of(line, create=True)
    value = _setting_value(values["value"])
    change: SettingAnswer = Verbs.change.call(context, name=values["name"], value=value)
    before, now = msgspec.json.encode(change.before).decode(), msgspec.json.encode(change.value).decode()
    text = (UNCHANGED if change.id is None else CHANGED).format(name=change.name, before=before, value=now)
    keeps = change.name == "keep_texts" and change.value is True
    policy = texts_policy(str(context.store.location)) if keeps else ()
    if change.id is not None and change.name in SELECTS:
        policy = (*policy, NEW_POLICY)
    lines = (text, *policy, *written_words(line, context, change.id))
    done(line, act_document(context, change), lambda: say(*lines))


@command("accept-price", inside=SETTINGS, takes="accept_price", examples=["settings accept-price MODEL"])
def accept_price(line: typer.Context, values: Fields) -> None:
    context, model = context_of(line), values["model"]
    accepted: SettingAnswer = Verbs.accept_price.call(context, **values)
    like = price_offers([model], accepted.before).get(model) if isinstance(accepted.before, dict) else None
    text = (PRICED if like is None else ACCEPTED).format(model=model, like=like)
    written(line, context, accepted, text, act=accepted.id)


@command(examples=["status", "--database demo.db status --json"])
def status(line: typer.Context, read_database: ReadDatabase = None) -> None:
    result: queries.Status = Verbs.status.call(context_of(line, read_database=read_database))
    answer(line, result, lambda: _say_status(result))


def _say_status(result: queries.Status) -> None:
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in result.skipped.items() if count) or "none"
    baseline = result.baseline
    truncated = f" ({baseline.truncated_runs:,} truncated)" if baseline.truncated_runs else ""
    rows = [
        ("database", result.database),
        *([("server", server(result.standing))] if result.standing else []),
        *([("distributed over", ", ".join(result.servers))] if result.servers else []),
        *([("pages are read from", _read_from(result))] if result.read_database else []),
        (
            "learner",
            f"{result.learner} ({result.phase}, detection {result.mode}, revision {result.revision:,})",
        ),
        ("head of its chain", result.head or "none"),
        (
            "runs",
            f"{result.runs:,} ({result.observed:,} observed; skipped: {skipped}; {result.empty:,} empty)",
        ),
        ("arms", f"{result.arms:,} with {result.pulls:,} pulls{_judged(result)}"),
        *([("offers", _offers(result))] if result.offers else []),
        *([("not recorded", spool_words(result.spool))] if result.spool != SpoolCounts() else []),
        ("tokens", f"{result.tokens:,}"),
        ("first and last run", f"{result.first_run or 'unknown'} to {result.last_run or 'unknown'}"),
        *([("compacted", result.compacted.words)] if result.compacted else []),
        *([("facts", unprovable_words(result.unprovable))] if result.unprovable is not None else []),
        *([("damage", f"{result.damage}; list it with: armscope verify")] if result.damage else []),
        ("baseline, selected", f"{baseline.baseline_runs:,}{truncated} and {baseline.selected_runs:,} runs"),
        *savings_facts(
            result.money,
            verdict=baseline.verdict,
            reason="",
            outcome=baseline.outcome,
            figure_shown=_saved(baseline),
            runs_compared=compared(baseline.compared_runs, baseline.uncompared_runs),
        ),
    ]
    say_facts(rows)
    if result.open_to_others:
        files = shlex.join(result.open_to_others)
        say("", f"Other users of this machine can read it. To end that: chmod go= {files}")
    if not result.runs:
        what = "No run counts" if result.revision else "Nothing is recorded"
        say("", f"{what} yet. Next: armscope import <files or folders>, or armscope demo.")


def _read_from(result: queries.Status) -> str:
    if result.read_standing is None:
        return f"the primary, for the standby can't be asked: {result.read_problem}"
    return f"{result.read_database} ({server(result.read_standing)})"


def _offers(result: queries.Status) -> str:
    return f"{result.offers:,} given to clients, {result.offers_unobserved:,} of them with nothing observed"


def _saved(baseline: Baseline) -> str:
    """Return the figure that every page names first."""
    capped = baseline.headline == "capped"
    value = baseline.capped_savings_percent if capped else baseline.savings_percent
    lower, upper = (baseline.capped_interval if capped else baseline.interval) or (None, None)
    return figure(Estimate(value=value, lower=lower, upper=upper), capped=capped)


def _judged(result: queries.Status) -> str:
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in result.judged.items()]
    return f"; judged {', '.join(parts)}" if parts else ""


@command(
    examples=["learners", "learners --create support"],
    words="List every learner of the database, or create one.",
)
def learners(
    line: typer.Context,
    create: Annotated[
        str | None, typer.Option("--create", metavar="NAME", help=words("create_learner", "name"))
    ] = None,
) -> None:
    context = context_of(line, create=create is not None, whole=True)
    result: list[LearnerSummary] = (
        Verbs.learners.call(context) if create is None else [Verbs.create_learner.call(context, name=create)]
    )
    tell = answer if create is None else done
    tell(line, result, lambda: _say_learners(result))


def _say_learners(result: Sequence[LearnerSummary]) -> None:
    say_table(machine.LEARNERS, result)
    for one in result:
        if one.problem is not None:
            say(f"{one.name}: {one.problem}")
