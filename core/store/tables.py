"""Tables, defined once. Facts are append-only; caches equal the fold of the facts.

``learner_id`` leads every key, so that the same schema can be distributed. Unknown usage, duration, model, time and
reward of a run are NULL. Every column of outcome, observation, posterior and the rollups is NOT NULL, because CHECK
passes on NULL and SQLite stores NaN as NULL. There 0, '' and -1 mean none where the column's comment says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain
from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.schema import SchemaItem

NUMBERED: Final = (
    "arm",
    "run",
    "observation",
    "reset",
    "import",
    "setting",
    "undo",
    "note",
    "audit",
    "adapter",
    "layer",
    "execution",
    "rubric",
    "evaluation",
    "choice",
    "review_queue",
    "review_aside",
    "member",
    "token",
    "offer",
    "agent_session",
    "webhook",
    "alert",
    "alert_message",
    "environment",
    "scale",
    "episode",
    "episode_credit",
    "link",
    "repair",
    "browser",
    "compaction",
    "achieved",
    "trial",
    "experiment",
    "assignment",
)
"""Tables whose rows have numbers, ``<table>_no``, that the learner's row gives."""
ACT: Final = "act"
KEYED: Final = "keyed"
"""Marks of a table: its rows are acts, with this prefix of their ids; acts take an idempotency key."""

_WHERE: Final = "where"
"""Condition of a partial index."""

LISTED: Final = "(a.declared > 0 OR p.seen > 0)"
"""SQL condition: an arm (``arm a``, ``posterior p``) is listed: made on purpose, named by an import, or in a run."""

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

learner_name = Table(
    "learner_name",  # gives a learner its number, once for all; small, so every server of many has it whole
    metadata,
    Column("learner_id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)

EVALUATION_KEY: Final = (
    *("layer_no", "execution_no", "run_no", "arm_no"),
    *("rater", "model", "rubric", "claimed_by"),
)
"""Columns of which one evaluation counts."""

Key = TypeVar("Key", int, tuple[Any, ...])

OBSERVATION_COLUMNS: Final = (
    *("observation_no", "uid", "kind", "arm_no", "run_no", "success_micro", "failure_micro", "pulls"),
    *("actor", "reason", "at_ms", "import_no", "revision", "standing", "undone", "changed"),
)
"""Columns of an observation as the ledger writes it."""


def _key(name: str) -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False, nullable=False)


def _text_key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True, nullable=False)


def _learner() -> Column[int]:
    owner = ForeignKey("learner.learner_id")
    return Column("learner_id", Integer, owner, primary_key=True, autoincrement=False, nullable=False)


def _bulk_learner() -> Column[int]:
    """Return the column without a foreign key, for tables with millions of rows.

    A server checks a foreign key for every row. That costs a quarter of the time of a batch of rewards, and finds the
    row that the write began with.
    """
    return Column("learner_id", Integer, primary_key=True, autoincrement=False, nullable=False)


def _int(name: str, *, default: int | None = None) -> Column[int]:
    server = None if default is None else text(str(default))
    return Column(name, BigInteger, nullable=False, server_default=server)


def _part() -> Column[int]:
    """Weight of observations of weight below 1, in millionths: with the whole pulls the exact sum of them."""
    return _int("part_micro", default=0)


def _source() -> tuple[Column[int], ...]:
    """Return the columns of the import of a fact (0: none), its revision, and whether it is active."""
    return _int("import_no"), _int("revision"), _int("standing")


def _byline() -> tuple[Column[Any], ...]:
    """Return the columns of who recorded a fact, when, and from where."""
    return _text("actor"), _int("at_ms"), *_source()


def _sums() -> tuple[Column[int], ...]:
    """Return the columns of sums over observations of an arm."""
    return _int("inclusions"), _int("pulls"), _int("success_micro"), _int("failure_micro"), _part()


def _by_name() -> tuple[Column[int], ...]:
    """Return the columns of runs that had an arm by name, and of those of them that found it."""
    return _int("n_named", default=0), _int("n_loaded", default=0)


def _counted_tokens() -> tuple[Column[int], ...]:
    """Return the columns of tokens: by part, of an unknown split (in no sum), and 1 for an assumed cache lifetime."""
    parts = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "unsplit")
    return *(_int(f"{part}_tokens") for part in parts), _int("assumed")


def _changed() -> Column[int]:
    """Return the column of the revision that changed a row last; lists continue by it."""
    return _int("changed", default=0)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _text_or_none(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=text("''"))


def _maybe_int(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=True)


def _maybe_text(name: str) -> Column[str]:
    return Column(name, Text, nullable=True)


def _maybe_float(name: str) -> Column[float]:
    return Column(name, Float, nullable=True)


def _bytes(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


def _maybe_bytes(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=True)


def _float(name: str) -> Column[float]:
    return Column(name, Float, nullable=False)


def _partial(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """An index of a learner's rows of which something holds."""
    condition = text(where)
    return Index(
        name, "learner_id", *columns, unique=unique, sqlite_where=condition, info={_WHERE: condition}
    )


@event.listens_for(metadata, "before_create")
def _say_where(_: MetaData, connection: Connection, **__: object) -> None:
    """Add the condition of partial indexes for a server when its tables are made.

    Defined with the index, it would load PostgreSQL's dialect into every process, a twentieth of its start.
    """
    if connection.dialect.name == "postgresql":
        for index in chain.from_iterable(table.indexes for table in metadata.tables.values()):
            index.dialect_options["postgresql"]["where"] = index.info.get(_WHERE)


def _clustered(name: str, *parts: SchemaItem, **says: object) -> Table:
    """A table kept in the order of its key, without a hidden row number on SQLite; and what it ``says`` of itself."""
    return Table(name, metadata, *parts, sqlite_with_rowid=False, info=says)


def _small(name: str, *parts: SchemaItem) -> Table:
    return _clustered(name, _learner(), *parts)


def _bulk(name: str, *parts: SchemaItem) -> Table:
    """Return a table of which a learner may have millions of rows."""
    return _clustered(name, _bulk_learner(), *parts)


def _acts(name: str, *parts: SchemaItem, act: str, keyed: bool = False, bulk: bool = False) -> Table:
    """Return a table of acts of one kind, with number, revision and undo mark; ``bulk``: thousands at once."""
    owner = _bulk_learner() if bulk else _learner()
    return _clustered(name, owner, _key(f"{name}_no"), *parts, _int("undone"), **{ACT: act, KEYED: keyed})


def _exchanged(name: str, *parts: SchemaItem, act: str, keyed: bool = False, bulk: bool = False) -> Table:
    """Return a table of acts that go from one learner to another; ``uid`` is the id in an import, '' = ours."""
    return _acts(name, _text("uid"), *parts, act=act, keyed=keyed, bulk=bulk)


learner = Table(
    "learner",
    metadata,
    Column("learner_id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    _text("origin"),
    _int("created_at_ms"),
    _text("settings"),
    Column("sticky", Text, nullable=False, server_default=text("'run'")),  # its setting until it is changed
    _int("revision", default=0),
    _int("token", default=0),  # drawn by each write
    _int("staged_import_no", default=0),  # the import in progress; 0: none
    _int("staged_revision", default=0),  # first revision of its rows, beyond the learner's own
    _int("staged_parts", default=0),
    _text_or_none("digest_key"),  # key of digests that only distinguish values; '': none was needed yet
    _maybe_bytes("chain_key"),  # key of the digests of its facts (`core.store.chain`); NULL: it has none yet
    _maybe_bytes("chain_sum"),
    _maybe_bytes("chain_head"),  # of its latest link
    _maybe_bytes("chain_held"),  # its latest links, until the table takes them
    _maybe_bytes("staged_sum"),  # of the facts of the import in progress
    _text_or_none("chain_at"),  # how far an upgrade has built its chain; '': to the end
    *(_int(f"next_{name}_no", default=1) for name in NUMBERED),
)

arm = _small(
    "arm",
    _key("arm_no"),
    *map(_text, ("key", "type")),
    _maybe_text("label"),  # as `provenance` says
    _maybe_int("token_cost"),
    _int("declared"),  # bits: 1 made on purpose, 2 named by an active import; 0: listed while it is seen
    _maybe_int("prior_alpha_micro"),  # NULL: the learner's prior of the type
    _maybe_int("prior_beta_micro"),
    UniqueConstraint("learner_id", "key"),
    CheckConstraint("(prior_alpha_micro IS NULL) = (prior_beta_micro IS NULL)", name="prior_pair"),
)

run = _bulk(
    "run",
    _key("run_no"),
    *map(_text, ("uid", "format", "unit")),
    _int("rank"),
    _int("trace"),  # digest of the source's content, at any settings
    _int("digest"),  # digest of everything stored of this version
    _maybe_text("session"),
    _maybe_int("at_ms"),
    _int("naive_time"),
    *map(_maybe_text, ("provider", "model", "channel")),
    *map(_text, ("class", "phase", "status", "outcome")),
    *map(_maybe_int, ("tokens", "input_tokens", "output_tokens")),
    *map(_maybe_int, ("cache_read_tokens", "cache_write_tokens", "duration_ms", "prompt_chars")),
    *map(_int, ("n_calls", "n_real_calls")),
    _maybe_float("reward"),
    _text("inventory"),
    _maybe_text("not_offered"),
    _maybe_text("choice"),  # how our own selection came about, as JSON: `core.store.version.Choice`
    _int("import_no"),  # 0: recorded directly
    _int("revision"),
    _int("standing"),  # 0: every import that brought it is undone; 2: active, and of a trial
    _maybe_int("session_key"),  # its session as a number without meaning; NULL: no coin decided; -2: assigned
    _maybe_int("bill_pico"),  # its cost in 10^-12 dollars at the prices of its time; NULL: unknown
    _int("bill_marks", default=0),  # bits of the cost: 1 estimated, 2 at least
    _changed(),
    UniqueConstraint("learner_id", "uid"),
    Index("ix_run_time", "learner_id", "at_ms"),
    _partial("ix_run_session", "session_key", where="session_key IS NOT NULL"),
    _partial("ix_run_named", "session", "at_ms", "run_no", where="session IS NOT NULL"),
    Index("ix_run_changed", "learner_id", "changed", "run_no"),
    _partial("ix_run_trial", "at_ms", "run_no", where="standing = 2"),
)

outcome = _bulk(
    "outcome",
    *map(_key, ("run_no", "arm_no")),
    _int("flags"),
    _int("token_cost"),  # -1: unknown
)

decision = _bulk(
    "decision",
    *map(_key, ("run_no", "arm_no")),
    _text("reason"),
    *map(_int, ("rank", "token_cost")),
    _maybe_float("draw"),
    _maybe_int("budget_left"),
    _maybe_float("chance"),
)

evidence = _bulk(
    "evidence",
    *map(_key, ("run_no", "arm_no")),
    _text("place"),
    _maybe_text("excerpt"),
    _partial("ix_evidence_load", "arm_no", "run_no", "place", where="place IN ('call', 'typed')"),
)

spent = _bulk(
    "spent",  # tokens of a run by model and owner; a run without a row has one: its usage
    _key("run_no"),
    _key("by_sub_agent"),  # 0: the agent, 1: its sub-agents
    _text_key("model"),  # '': the run's own
    *_counted_tokens(),
)

spent_apart = _bulk(
    "spent_apart",  # tokens and searches that providers bill apart, by tier, region and size of the request
    *map(_key, ("run_no", "by_sub_agent")),
    *map(_text_key, ("model", "tier", "region")),
    _key("context"),  # each request exceeds so many tokens; 0: not known to be long
    *_counted_tokens(),
    _int("searches"),
    _int("unread"),  # spends of a kind that is not understood
)

defined = _bulk(
    "defined",  # the set of definitions in a run's prompt; a run without a row has none on record
    _key("run_no"),
    _int("set_key"),
    Index("ix_defined_set", "learner_id", "set_key"),
)

history = _bulk(
    "history",  # digests of a run's messages: a run without a row has none on record
    _key("run_no"),
    _int("history_key"),  # of all of its session up to its prompt; 0: without times
    _bytes("marks"),  # of each message from its prompt on
    _partial("ix_history_key", "history_key", where="history_key <> 0"),
)

definition = _small(
    "definition",  # versions of arms by set, which many runs share; the key is a digest of the rows
    *map(_key, ("set_key", "arm_no")),
    _text("version"),
    Index("ix_definition_arm", "learner_id", "arm_no"),
)

provenance = _small(
    "provenance",  # further sources of a fact, beside its own row; see `core.store.provenance`
    _text_key("kind"),
    _key("no"),
    _key("import_no"),  # 0: recorded directly
    _int("revision"),
    _int("rank", default=0),  # of runs: the source's version
    _int("trace", default=0),
    _int("digest", default=0),
    _maybe_text("said"),  # of an arm: its prior, cost or label
)

version = _small(
    "version",  # inactive versions of a run
    *map(_key, ("run_no", "digest")),
    _bytes("payload"),
)

observation = _exchanged(
    "observation",
    _text("kind"),
    _int("arm_no"),
    _int("run_no"),  # 0: about no run
    *map(_int, ("success_micro", "failure_micro", "pulls")),
    *map(_text, ("actor", "reason")),
    _int("at_ms"),
    *_source(),
    _int("evaluation_no", default=0),  # 0: a fact itself; else it follows from that evaluation
    _int("episode_credit_no", default=0),  # the same of an episode's credit
    _changed(),
    CheckConstraint("success_micro >= 0 AND failure_micro >= 0 AND pulls >= 0", name="amounts"),
    _partial("uq_observation_uid", "uid", where="uid <> ''", unique=True),
    _partial("ix_observation_run", "run_no", where="run_no <> 0"),
    Index("ix_observation_arm", "learner_id", "arm_no", "at_ms"),
    Index("ix_observation_changed", "learner_id", "changed", "observation_no"),
    _partial("ix_observation_credit", "episode_credit_no", where="episode_credit_no <> 0"),
    act="reward",
    keyed=True,
    bulk=True,
)

whole_reward = _bulk(
    "whole_reward",  # observations that a reward of their whole run gave
    _key("observation_no"),
)

achieved = _exchanged(
    "achieved",  # outcomes of runs, by their programs; the latest active one of a run is in force
    _text("run"),  # its uid: a file may have the outcome before it
    _float("value"),
    *_byline(),
    CheckConstraint("value >= 0 AND value <= 1", name="value"),
    _partial("uq_achieved_uid", "uid", where="uid <> ''", unique=True),
    Index("ix_achieved_run", "learner_id", "run"),
    act="outcome",
    keyed=True,
    bulk=True,
)

trial = _exchanged(
    "trial",  # plans of trials, and the results that were read of them or without one
    _text("form"),  # plan or reading
    _text("plan"),  # of a reading the id of its plan's line; '': none
    _text("content"),  # JSON: `TrialPlan` or `TrialResults`
    *_byline(),
    _partial("uq_trial_uid", "uid", where="uid <> ''", unique=True),
    act="trial",
)

trial_session = _bulk(
    "trial_session",  # names of sessions of a trial's runs; one that ends with * is how they begin
    _text_key("session"),
    _key("trial_no"),
    Index("ix_trial_session_trial", "learner_id", "trial_no"),
)

experiment = _exchanged(
    "experiment",  # starts of experiments, and later acts on them
    _text("form"),  # start, share or stop
    _int("start_no"),  # of a later act the number of its start; 0: it is one
    _text("content"),  # JSON: `ExperimentPlan` or `ExperimentAct`
    _text("secret"),  # key of the draws of sides, in hexadecimal; '': none, so it assigns nothing here
    *_byline(),
    _partial("uq_experiment_uid", "uid", where="uid <> ''", unique=True),
    act="experiment",
)

assignment = _exchanged(
    "assignment",  # sessions, or runs without one, with their side in an experiment
    _int("experiment_no"),
    _text("session"),  # '': it is of a run
    _text("run"),  # uid of a run without a session; '': it is of a session
    _text("side"),
    _int("chance_micro"),  # of the side with the arm
    _int("n_fitting"),  # experiments of which one was chosen with equal chance
    *_byline(),
    _partial("uq_assignment_uid", "uid", where="uid <> ''", unique=True),
    _partial("ix_assignment_session", "session", where="session <> ''"),
    _partial("ix_assignment_run", "run", where="run <> ''"),
    Index("ix_assignment_experiment", "learner_id", "experiment_no"),
    act="assignment",
    bulk=True,
)

adapter = _small(
    "adapter",  # what layers belong to: one agent's work, step by step
    _key("adapter_no"),
    _text("uri"),
    *map(_maybe_text, ("name", "version")),
    UniqueConstraint("learner_id", "uri"),
)

layer = _small(
    "layer",  # one step of an adapter; as `provenance` says
    _key("layer_no"),
    _text("uid"),
    _int("adapter_no"),  # 0: none is known
    _int("layer_index"),  # 1: the adapter's head; 0: unknown
    *map(_maybe_text, ("label", "task", "type", "domain")),
    _text("tags"),  # JSON
    _int("bare"),  # 1: named, and nothing else is known of it
    _int("standing"),
    UniqueConstraint("learner_id", "uid"),
    Index("ix_layer_adapter", "learner_id", "adapter_no", "layer_index"),
)

execution = _small(
    "execution",  # one time that an adapter was followed; as `provenance` says
    _key("execution_no"),
    _text("uid"),
    _int("adapter_no"),
    _int("run_no"),  # 0: it is no run's
    _maybe_text("session"),
    _maybe_int("at_ms"),
    *map(_int, ("bare", "standing")),
    UniqueConstraint("learner_id", "uid"),
    _partial("ix_execution_run", "run_no", where="run_no <> 0"),
)

training_pair = _bulk(
    "training_pair",  # what was asked of a layer in an execution, and what came of it
    *map(_key, ("execution_no", "layer_no")),
    _int("layer_index"),
    _text("digest"),  # of the instruction, by which answers to the same one are found; '' without one
    _maybe_text("instruction"),  # JSON; NULL: texts were not kept
    _maybe_text("response"),
    Index("ix_training_pair_layer", "learner_id", "layer_no"),
    _partial("ix_training_pair_digest", "digest", where="digest <> ''"),
)

run_text = _bulk(
    "run_text",  # the transcript of a run's version, with marks in the place of secrets
    _key("run_no"),
    _key("trace"),  # of what the version's source says
    _text("messages"),  # JSON
    _int("revision", default=0),  # that stored it; 0: before transcripts were under the chain
)

rubric = _exchanged(
    "rubric",  # by what people judge
    _text("version"),
    _text("content"),  # JSON: title, criteria, levels
    *_byline(),
    Index("ix_rubric_version", "learner_id", "version"),
    act="rubric",
)


evaluation = _exchanged(
    "evaluation",  # judgements; 0 and '' mean absent
    *map(_int, ("layer_no", "execution_no", "run_no", "arm_no")),
    *map(_text, ("rater", "model", "rubric")),
    _int("blank"),  # bits of the three before that were given, and empty: 1, 2, 4
    _text("outcome"),
    _maybe_float("score"),  # as it was given
    _maybe_text("feedback"),
    _text_or_none("claimed_by"),  # the token that named the rater; '': the actor is the rater
    _text("mover"),  # which graders moved the arm when it came: model, human or all
    _int("supersedes"),  # 0: the first of its key
    _int("counts"),  # 1: it is active and not superseded
    *_byline(),
    _changed(),
    CheckConstraint("outcome IN ('success', 'failure')", name="outcome"),
    _partial(
        "uq_evaluation_key",
        *EVALUATION_KEY,
        where="counts = 1 AND (execution_no <> 0 OR run_no <> 0)",
        unique=True,
    ),
    _partial("uq_evaluation_uid", "uid", where="uid <> ''", unique=True),
    Index("ix_evaluation_layer", "learner_id", "layer_no", "revision"),
    _partial("ix_evaluation_run", "run_no", where="run_no <> 0"),
    Index("ix_evaluation_changed", "learner_id", "changed", "evaluation_no"),
    act="evaluation",
    keyed=True,
)

credit = _bulk(
    "credit",  # what of an evaluation each arm was to get when it came, before raters share it
    *map(_key, ("evaluation_no", "arm_no")),
    _int("weight_micro"),
)

judged_in = _bulk(
    "judged_in",  # the named browser of a judgement without sign-in
    _key("evaluation_no"),
    _text("browser"),
    _text("named"),  # the name that it gave itself
    _text("person"),  # the machine's user
)

browser = _exchanged(
    "browser",  # names of browsers that an operator confirmed
    *map(_text, ("browser", "named")),
    *_byline(),
    Index("ix_browser_browser", "learner_id", "browser"),
    act="browser",
)

choice = _exchanged(
    "choice",  # preferences between two answers to one instruction
    _int("layer_no"),
    _int("first_no"),  # executions, in the order they were shown
    _int("second_no"),
    _text("chosen"),  # first, second or equal
    *map(_text, ("rater", "rubric")),
    _maybe_text("feedback"),
    *_byline(),
    act="choice",
)

layer_quality = _small(
    "layer_quality",  # what the evaluations that count make of a layer
    _key("layer_no"),
    *map(_int, ("retrievals", "successes", "failures")),
    _float("bonus"),
    _int("last_no"),  # the evaluation that says when, by whom and of what it was judged last
)

model_history = _small(
    "model_history",  # how each model has done at a layer
    _key("layer_no"),
    _text_key("model"),
    _int("rank"),  # among those that rated the layer, by who came first
    *map(_int, ("attempts", "successes")),
)

review_queue = _exchanged(
    "review_queue",  # what is to be judged, by how many, and how
    _text("name"),
    _text("asks"),  # JSON: what it was made from
    *map(_int, ("n_reviewers", "blind")),
    _text("rubric"),
    _int("control_micro"),  # how often a control item is given instead, in millionths
    _maybe_int("due_ms"),
    *_byline(),
    act="queue",
)

review_item = _bulk(
    "review_item",  # numbered in the order they are given out; what state they are in, evaluations say
    *map(_key, ("review_queue_no", "item_no")),
    *map(_int, ("layer_no", "execution_no", "run_no", "arm_no")),
    _text("why"),
    _text("control"),  # '': none; else the outcome that is known
    _text("assigned_to"),  # '': anyone
    Index("ix_review_item_subject", "learner_id", "execution_no", "run_no", "arm_no"),
)

review_aside = _exchanged(
    "review_aside",  # items reported as impossible to judge
    _text("queue"),  # its id in lines: it may be imported before its queue, or without it
    _int("item_no"),
    _text("reason"),
    _int("final"),  # 1: by an operator
    *_byline(),
    Index("ix_review_aside_queue", "learner_id", "queue", "item_no"),
    act="aside",
)

# What people do on the way to a judgement. It is no fact: no export has it, and verify asks nothing of it.

review_hold = _bulk(
    "review_hold",  # an item that a reviewer holds
    *map(_key, ("review_queue_no", "item_no")),
    _text_key("actor"),
    _int("until_ms"),  # end of the hold; the item stays open
    _int("repeats"),  # 0; else the evaluation of theirs that they are to repeat, unseen
)

review_skip = _bulk(
    "review_skip",  # an item that a reviewer put off
    *map(_key, ("review_queue_no", "item_no")),
    _text_key("actor"),
    _int("later"),  # 1: it comes again, after all others
    _int("at_ms"),
)

review_draft = _bulk(
    "review_draft",  # input that was not submitted
    *map(_key, ("review_queue_no", "item_no")),
    _text_key("actor"),
    _text("fields"),  # JSON
    _int("until_ms"),
)

review_repeat = _bulk(
    "review_repeat",  # two judgements of one item by one person, the second without knowing it
    *map(_key, ("review_queue_no", "item_no")),
    _text_key("actor"),
    *map(_int, ("first_no", "second_no")),
)

# Offers to an agent's client that wait for its reports. A report makes a run of one: no export has the
# offer itself, and verify asks nothing of it.

offer = _small(
    "offer",  # a selection that a door gave away
    _key("offer_no"),
    _text("session"),  # '': none was named
    _int("at_ms"),
    _text("class"),
    _text("choice"),  # the selection as JSON; '': nothing more is waited for
    _int("run_no"),  # 0: nothing was observed of it yet
    _partial("ix_offer_open", "at_ms", where="choice <> ''"),
)

offer_arm = _bulk(
    "offer_arm",  # arms of its prompt that nothing was observed of, as long as that may come
    *map(_key, ("arm_no", "offer_no")),
    Index("ix_offer_arm_offer", "learner_id", "offer_no"),
)

# Selections that hold within a session. The runs have what was chosen: no export has the hold itself.

hold = _small(
    "hold",  # a coin and a draw that all requests of a session share until it was idle
    _text_key("session"),
    _key("began_ms"),
    _int("used_ms"),  # last selection, or end of a run that it was for
    _text("class"),
    _int("prob_micro"),
    _text("seed"),
    _int("revision"),
    _text("choice"),  # the selection as JSON, its arms in their order; '': it ended
    _partial("uq_hold_open", "session", where="choice <> ''", unique=True),
    _partial("ix_hold_used", "used_ms", where="choice <> ''"),
)

agent_session = _small(
    "agent_session",  # sessions as clients begin and end them
    _key("agent_session_no"),
    *map(_text, ("uid", "name")),
    _int("started_ms"),
    _maybe_int("ended_ms"),
    UniqueConstraint("learner_id", "uid"),
)

# Traces that OpenTelemetry's exporters send, span by span, until they are runs that no longer grow. No
# export has them, and verify asks nothing of them.

trace = _small(
    "trace",
    _text_key("uid"),
    _text("session"),  # '': none known
    _text("said"),  # why it can't become a run
    _int("is_rooted"),  # whether the span that is around all others is there
    *map(_int, ("n_spans", "n_bytes")),
    _int("n_told"),  # spans it had when it last became a run, or could not
    _int("last_ms"),  # when the last of them came
    _partial("ix_trace_due", "last_ms", where="n_told < n_spans"),
)

span = _bulk(
    "span",
    *map(_text_key, ("trace", "uid")),
    _bytes("content"),  # what of it is read, packed
)

# Rollouts whose events are sent, until they no longer grow. No export has them, and verify asks nothing of
# them.

rollout = _small(
    "rollout",
    _text_key("uid"),
    _text("started"),  # its start, as JSON; '': it waits for that
    _text("updated"),  # its latest update
    _text("said"),  # why it can't become an episode
    _int("n_events"),
    _int("n_told"),  # events it had when it last became an episode, or could not
    _int("last_ms"),  # when the last of them came
)

rollout_message = _bulk(
    "rollout_message",
    _text_key("rollout"),
    _key("place"),
    _text("content"),  # JSON: digests under the learner's key of what is read, its text where texts are kept
)

machine = _small(
    "machine",  # what a person's agents carry there, as their latest import of own sessions read it; no fact
    _text_key("actor"),
    _text_key("name"),  # a digest: no export and no page needs the host's name
    _int("at_ms"),
    _int("import_no"),  # 0: no import of that time had news
    _text("content"),  # JSON
)

environment = _small(
    "environment",  # what pays rewards, by name
    _key("environment_no"),
    _text("name"),
    UniqueConstraint("learner_id", "name"),
)

scale = _exchanged(
    "scale",  # declared scales of environments; the latest active one is in force
    _int("environment_no"),
    *map(_float, ("step_lo", "step_hi", "lo", "hi", "threshold")),
    _text("base"),
    _float("gamma"),
    *_byline(),
    Index("ix_scale_environment", "learner_id", "environment_no"),
    act="scale",
)

episode = _small(
    "episode",  # with sources in `provenance` from the first on; its sums are its steps'
    _key("episode_no"),
    *map(_text, ("uid", "format")),
    _int("environment_no"),
    *map(_maybe_text, ("split", "task", "variant", "model")),
    _maybe_int("at_ms"),
    _int("n_steps"),  # refused ones left out
    *map(_int, ("n_paid", "finished")),
    _text("status"),
    _maybe_text("total_text"),  # the decimal; NULL: nothing was paid
    _maybe_text("final_text"),
    _maybe_float("total"),  # the same, to sort by
    _maybe_float("final"),
    _int("digest"),  # of the active version
    *map(_int, ("revision", "standing")),
    _changed(),
    UniqueConstraint("learner_id", "uid"),
    Index("ix_episode_environment", "learner_id", "environment_no", "at_ms"),
    Index("ix_episode_changed", "learner_id", "changed", "episode_no"),
)

step = _bulk(
    "step",  # what an environment answered
    *map(_key, ("episode_no", "step_no")),
    *map(_text, ("kind", "name")),
    _maybe_float("reward"),  # NULL: none, which is not 0
    *map(_int, ("finished", "refused")),
    *map(_maybe_int, ("at_ms", "n_chars_in", "n_chars_out")),
    _maybe_text("args_digest"),  # under the learner's own key
    *map(_maybe_text, ("meta_digest", "note")),
    _maybe_text("extra"),  # JSON
)

step_text = _bulk(
    "step_text",  # what a step was asked and answered, of the step of its number that says exactly so
    *map(_key, ("episode_no", "step_no")),
    _key("digest"),  # of what the step says
    *map(_maybe_text, ("asked", "answered")),
)

episode_part = _bulk(
    "episode_part",  # what an environment names beside the whole reward
    _key("episode_no"),
    _text_key("name"),
    _float("value"),
    _text("kind"),
)

episode_run = _bulk(
    "episode_run",  # the runs that were made in it
    *map(_key, ("episode_no", "run_no")),
    Index("ix_episode_run", "learner_id", "run_no"),
)

episode_credit = _exchanged(
    "episode_credit",  # credits of episodes; the latest active one of an episode is in force
    _text("episode"),  # its uid: a file may have the credit before it
    _text("rule"),
    _maybe_float("reward"),  # on the scale of that time, 0 to 1; NULL: credited to no arm
    *_byline(),
    Index("ix_episode_credit_episode", "learner_id", "episode"),
    act="credit",
)

environment_day = _bulk(
    "environment_day",  # sums of active episodes, by the basis of success
    _key("environment_no"),
    _key("day"),  # since 1970 UTC; -1: unknown
    _text_key("split"),  # '': unknown
    *map(_text_key, ("variant", "model")),
    _int("n"),
    _int("n_paid"),  # with a reward to go by
    *map(_int, ("n_finished", "successes")),
    _text("reward_sum"),  # decimals, exact
    _text("reward_squares"),
)

environment_task = _bulk(
    "environment_task",  # numbers of active episodes with equal values for averages and rates
    _key("environment_no"),
    _text_key("digest"),  # of all that follows: together too long for a key
    *map(_maybe_text, ("split", "task", "variant", "model")),
    _int("finished"),
    *map(_maybe_text, ("total_text", "final_text")),
    _int("n"),
)

erased = _small(
    "erased",  # erased content that no import may restore, as a keyed digest
    _text_key("digest"),
    _int("at_ms"),
)

note = _exchanged(
    "note",  # what people wrote about an arm; moves no number
    _int("arm_no"),
    _text("text"),
    *_byline(),
    Index("ix_note_arm", "learner_id", "arm_no"),
    act="note",
    keyed=True,
)

reply = _small(
    "reply",  # what the request that made a reward or note was answered with, and the key it came under
    _text_key("kind"),
    _key("no"),
    _text("key"),
    _int("payload"),  # digest of what was asked
    _text("answer"),
    Index("ix_reply_key", "learner_id", "key"),
)

reset = _exchanged(
    "reset",
    *map(_text, ("target", "scope", "actor", "reason")),
    *map(_int, ("n_arms", "at_ms")),
    *_source(),
    act="reset",
    keyed=True,
)

reset_arm = _small("reset_arm", _key("reset_no"), _key("arm_no"))

repair = _exchanged(
    "repair",
    _int("since_ms"),
    _int("until_ms"),  # without it
    *map(_text, ("actor", "reason")),
    _int("n_arms"),
    _int("n_observations"),  # that counted when it was made
    _int("at_ms"),
    *_source(),
    act="repair",
    keyed=True,
)

retraction = _bulk(
    "retraction",  # automatic observations that repairs take back, while the run's outcome is the same
    *map(_key, ("run_no", "arm_no")),
    _key("observation_no"),  # 0: the run's own; else a report in the ledger
    _key("repair_no"),
    _int("referenced"),  # the outcome that the repair read
    Index("ix_retraction_repair", "learner_id", "repair_no"),
    _partial("ix_retraction_report", "observation_no", where="observation_no <> 0"),
)

setting = _acts(
    "setting",
    *map(_text, ("name", "value", "before", "actor")),
    *map(_int, ("at_ms", "revision")),
    act="setting",
)

import_ = _acts(
    "import",
    *map(_text, ("actor", "summary")),
    *map(_int, ("at_ms", "revision")),
    act="import",
)

undo = _acts(
    "undo",
    _text("kind"),
    _int("no"),
    _text("actor"),
    *map(_int, ("at_ms", "revision")),
    act="undo",
)

audit = _bulk(
    "audit",
    _key("audit_no"),
    *map(_text, ("actor", "action")),
    _maybe_text("act"),
    _text("detail"),
    *map(_int, ("at_ms", "revision")),
)

link = _bulk(
    "link",  # one of each act that changed facts; never changed
    _key("link_no"),
    _int("encoding"),  # of the facts that its sum is of
    *map(_int, ("revision", "at_ms")),
    _bytes("sum"),
    _bytes("head"),
)

compaction = _bulk(
    "compaction",  # sums of active runs whose rows were deleted; never changed
    _key("compaction_no"),
    *map(_int, ("revision", "at_ms")),
    _int("until_ms"),  # the runs ended before it
    _maybe_int("first_ms"),  # ends of the first and the last of them with an answer; NULL: there is none
    _maybe_int("last_ms"),
    _int("n_runs"),
    _bytes("digest"),  # of the facts that were deleted
    _bytes("sums"),  # `core.store.compacted.Sums`
)

mended = _small(
    "mended",  # differences between the chain and the rows that an act holds; never changed
    _key("link_no"),  # the last link before that act
    *map(_int, ("revision", "at_ms")),
    _text("explained"),  # by what: "rows", "source"; "" = it was accepted without an explanation
    _bytes("difference"),  # what the sum had beyond that of the rows
)

compacted = _bulk(
    "compacted",  # digests of the uids of deleted runs, and of their sources
    *map(_key, ("uid_high", "uid_low")),
    _int("compaction_no"),
    _int("trace"),  # digest of the run's content; 0: a source
)

compacted_import = _small(
    "compacted_import",  # imports that lost runs, and how many
    *map(_key, ("import_no", "compaction_no")),
    _int("n_runs"),
)

# What belongs to the installation: only learner 0 has rows, and no export of a learner has any of them.

member = _small(
    "member",  # who may sign in
    _key("member_no"),
    _text("issuer"),
    _text("subject"),  # '': an open invitation
    _text("email"),
    _text("name"),  # the unique name by which they act
    _int("invited_until_ms"),  # 0: it is no invitation, or it was taken
    _int("not_before_ms"),  # sessions that began before are over
    _int("removed_ms"),  # 0: they are a member
    _text("by"),
    _int("at_ms"),
    UniqueConstraint("learner_id", "name"),
    _partial("uq_member_subject", "issuer", "subject", where="subject <> ''", unique=True),
)

member_role = _small(
    "member_role",  # what a member is, and in which learner
    _key("member_no"),
    _text_key("learner"),  # '': in every one
    _text("role"),
)

token = _small(
    "token",
    _key("token_no"),
    _text("digest"),  # SHA-256 of the secret, which is nowhere
    _text("name"),  # unique for ever
    _text("scopes"),  # JSON
    _text("learners"),  # JSON; null: every one
    _int("member_no"),  # who made it; 0: the machine's user
    _text("by"),
    *map(_int, ("at_ms", "expires_ms")),
    _int("used_hour"),  # since 1970 UTC; -1: never
    _int("revoked_ms"),  # 0: it is in force
    _int("is_bridge", default=0),  # whether it may say who sent what it sends
    UniqueConstraint("learner_id", "digest"),
    UniqueConstraint("learner_id", "name"),
)

bridge_sender = _small(
    "bridge_sender",  # which member speaks in a chat as whom
    *map(_text_key, ("channel", "sender")),
    _int("member_no"),
    _text("by"),
    _int("at_ms"),
)

denial = _small(
    "denial",  # what was refused, added up, so that a flood of it fills no disk
    _key("minute"),  # since 1970 UTC
    _text_key("actor"),  # '': unknown
    _text_key("action"),
    _int("n"),
)

webhook = _small(
    "webhook",  # receivers of alerts; the secret is not stored
    _key("webhook_no"),
    _text("url"),
    _text("learner"),  # '': of every one, and of the installation
    _text("pages"),  # where its readers find ours
    _text("secret_from"),  # the variable that holds the secret
    _int("private"),  # 1: addresses that only this network reaches are allowed
    _text("by"),
    _int("at_ms"),
    _int("removed_ms"),  # 0: active
    UniqueConstraint("learner_id", "url", "learner"),
)

alert = _small(
    "alert",  # a condition from when it was found until it was gone
    _key("alert_no"),
    _text("learner"),  # '': the installation
    *map(_text, ("kind", "object")),
    _int("count"),
    _text("ids"),  # JSON
    _int("raised_ms"),
    _int("quiet_ms"),  # since when it isn't found; 0: it is
    _int("cleared_ms"),  # 0: active
    _partial("uq_alert_standing", "learner", "kind", "object", where="cleared_ms = 0", unique=True),
)

alert_message = _small(
    "alert_message",  # messages to webhooks; the process that moves `due_ms` sends it
    _key("alert_message_no"),
    _int("webhook_no"),
    _int("alert_no"),  # 0: a test
    *map(_text, ("uid", "state")),
    _int("at_ms"),
    _int("due_ms"),  # when it is tried next
    _int("tries"),
    _int("tried_ms"),  # 0: never
    _text("result"),  # '': none is known of the latest try
    _int("done_ms"),  # 0: it is to be sent
    _partial("ix_alert_message_due", "due_ms", where="done_ms = 0"),
    Index("ix_alert_message_webhook", "learner_id", "webhook_no", "tried_ms"),
)

posterior = _small(
    "posterior",
    _key("arm_no"),
    *map(_int, ("base_alpha_micro", "base_beta_micro")),
    _int("success_micro", default=0),
    _int("failure_micro", default=0),
    _int("pulls", default=0),
    _int("inclusions", default=0),
    _int("seen", default=0),  # all but `epoch` and sums of rewards, of all epochs: 0 hides an undeclared arm
    _int("epoch", default=0),
    _int("last_at_ms", default=-1),
    _part(),
    *_by_name(),
    _changed(),
    CheckConstraint(
        "base_alpha_micro > 0 AND base_beta_micro > 0 AND success_micro >= 0 AND failure_micro >= 0 "
        "AND pulls >= 0 AND inclusions >= 0 AND seen >= 0",
        name="counts",
    ),
    CheckConstraint("part_micro >= 0", name="part"),
)

arm_hour = _bulk(
    "arm_hour",
    _key("hour"),  # since 1970 UTC; -1: unknown
    *map(_key, ("arm_no", "epoch")),
    *_sums(),  # of one hour; successes may be negative where a later correction took one away
    *_by_name(),
)

arm_day = _bulk(
    "arm_day",  # the hours added up, by arm: the path of one of them is one seek
    *map(_key, ("arm_no", "epoch")),
    _key("day"),  # since 1970 UTC; -1: unknown
    *_sums(),
    *_by_name(),
)


def _usage(name: str, unit: str) -> Table:
    """Runs added up by hour or day and kind."""
    return _bulk(
        name,
        _key(unit),
        *map(_text_key, ("class", "model", "channel", "status", "outcome")),
        _key("prob_micro"),  # with which the coin made a baseline run; -1: none was stored; -2: assigned
        _key("bucket"),
        *map(_int, ("n", "n_truncated", "tokens")),
        _int("tokens_squared_high"),  # sums of squares in two parts of 2**32: one would pass 2**63
        *map(_int, ("tokens_squared_low", "log_micro", "log_squared_micro")),
        *map(_int, ("n_timed", "duration_ms", "duration_squared_high", "duration_squared_low")),
    )


usage_hour = _usage("usage_hour", "hour")
usage_day = _usage("usage_day", "day")

# Sums of an import in progress, and its versions of active facts: stored apart until it settles.

staged_arm = _small(
    "staged_arm",  # the number that an arm will have
    _key("arm_no"),
    _text("key"),
    UniqueConstraint("learner_id", "key"),
)

staged_hour = _bulk(
    "staged_hour",  # as `arm_hour`; the epoch is the segment of the import, between two of its resets
    *map(_key, ("epoch", "hour", "arm_no")),
    *_sums(),
    *_by_name(),
)

staged_day = _bulk(
    "staged_day",  # the hours added up
    *map(_key, ("epoch", "arm_no", "day")),
    *_sums(),
    *_by_name(),
)

staged_usage = _usage("staged_usage", "hour")

staged_provenance = _small(
    "staged_provenance",  # its other versions of known runs
    _key("run_no"),
    *map(_int, ("stretch", "rank", "trace", "digest")),
    _text("counted"),  # as what its answer has counted the run so far
)


def _tables_of_acts() -> dict[str, str]:
    """Return the tables of acts, of all tables above."""
    return {str(table.info[ACT]): str(table.name) for table in metadata.tables.values() if ACT in table.info}


ACTS: Final[Mapping[str, str]] = _tables_of_acts()
"""Tables of acts, by how their ids begin."""
KEYED_ACTS: Final[Mapping[str, str]] = {
    act: table for act, table in ACTS.items() if metadata.tables[table].info[KEYED]
}
"""Those of acts that may be asked for under an idempotency key."""


def insert_into(name: str, *columns: str) -> str:
    """Return an INSERT whose values follow the named columns, in any order of the table; without names all of them.

    Raises `ValueError`, when the text is made, for an unknown column, or a missing one without a default.
    """
    table = metadata.tables[name]
    columns = columns or tuple(table.columns.keys())
    strange = [column for column in columns if column not in table.columns]
    needed = {
        column.name for column in table.columns if not column.nullable and column.server_default is None
    }
    missing = sorted(needed - {*columns})
    if strange or missing:
        raise ValueError(
            f"Columns of {name} must be its own, and all it needs, got {strange}, missing {missing}."
        )
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def marking(table: str) -> str:
    """Return the assignment that marks a row of a table as changed, if it has that mark."""
    return ", changed = ?" if "changed" in metadata.tables[table].columns else ""


def beyond(after: Key, key: Key) -> Key:
    """Return the key of the last row of a page, which comes after that of the earlier page.

    Raises `ValueError` where it does not: a damaged index would give the same page for ever.
    """
    if key <= after:
        raise ValueError(f"Rows must come in the order of their key, got {key!r} after {after!r}.")
    return key


def leaving_out(column: str, hidden: Collection[int]) -> tuple[str, list[int]]:
    """SQL that leaves evaluations out by the column of their numbers, and its values; nothing where none is hidden.

    >>> leaving_out("e.evaluation_no", [7, 3])
    (' AND e.evaluation_no NOT IN (?,?)', [3, 7])
    >>> leaving_out("e.evaluation_no", [])
    ('', [])
    """
    if not hidden:
        return "", []
    return f" AND {column} NOT IN ({','.join('?' * len(hidden))})", sorted(hidden)
