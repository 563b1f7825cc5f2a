"""Views: tables for SQL programs that only read, without texts and names of people.

They show what counts at present: undone imports, undone rewards and imports in progress are left out. Only
evaluations that were undone or superseded stay, with their state. A view has no rows of its own, so what was erased
is erased here, too. `core.store.schema` makes all views again after a migration.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from core.records.arm import MICRO
from core.records.evidence import INCLUDED, NAMED, OBSERVATION, OBSERVED, REFERENCED
from core.records.observation import SOURCE_OF
from core.store.engine import Connection
from core.store.engine.dialect import ACTIVE, BY_RUN, OUTCOMES_BY_RUN
from core.store.tables import LISTED

_LEARNER: Final = """
learner_id | integer | l.learner_id | Number of the learner. On Citus each query must name it.
learner | text | l.name | Name of the learner.
"""
_ALPHA, _BETA = "(p.base_alpha_micro + p.success_micro)", "(p.base_beta_micro + p.failure_micro)"

_IN_RUN: Final = (
    "(SELECT count(*) FROM outcome o WHERE o.learner_id = r.learner_id AND o.run_no = r.run_no"
    f" AND o.flags & {INCLUDED} <> 0"
)
"""Number of arms in the prompt of run ``r``. The user adds conditions and closes the parenthesis."""
_NAMED_IN_RUN: Final = _IN_RUN.replace(f"& {INCLUDED}", f"& {NAMED}")
_STATED: Final = (
    f"(SELECT c.value FROM achieved c {OUTCOMES_BY_RUN} WHERE c.learner_id = r.learner_id AND c.run = r.uid"
    f" AND c.{ACTIVE} AND c.undone = 0 ORDER BY c.revision DESC, c.achieved_no DESC LIMIT 1)"
)
_RUNS: Final = f"""
run | text | r.uid | Uid of the run.
run_no | integer | r.run_no | Number of the run.
session | text | r.session | Session of the run; a number after erasing.
at_ms | integer | r.at_ms | End of the run, UTC milliseconds; NULL: unknown.
provider | text | r.provider | Provider of the model.
model | text | r.model | Model.
channel | text | r.channel | Channel.
class | text | r.class | baseline, selected, passive, fallback or imported.
status | text | r.status | How the run ended.
outcome | text | r.outcome | observed, or why it was skipped.
tokens | integer | r.tokens | All tokens; NULL: unknown.
input_tokens | integer | r.input_tokens | Input tokens.
output_tokens | integer | r.output_tokens | Output tokens.
cache_read_tokens | integer | r.cache_read_tokens | Input tokens from the cache.
cache_write_tokens | integer | r.cache_write_tokens | Input tokens into the cache.
cost_pico | integer | r.bill_pico | Cost in 10^-12 dollars; NULL: unknown.
duration_ms | integer | r.duration_ms | Duration in milliseconds.
n_arms | integer | {_IN_RUN}) | Arms in the prompt in full.
n_named | integer | {_NAMED_IN_RUN}) | Arms by name when it began.
n_referenced | integer | {_IN_RUN} AND o.flags & {REFERENCED} <> 0) | Arms in the prompt that the run referenced.
n_calls | integer | r.n_calls | Tool calls.
reward | number | r.reward | Reward that its source states.
program_outcome | number | {_STATED} | Outcome that its program stated last, 0 to 1; NULL: none.
format | text | r.format | Format of its source.
revision | integer | r.revision | Revision of the learner that recorded it.
"""
_WEIGHT: Final = "(b.success_micro + b.failure_micro)"
_SOURCE: Final = (
    f"CASE b.kind {' '.join(f'WHEN {kind!r} THEN {one!r}' for kind, one in SOURCE_OF.items())} END"
)
_IN_EPOCH: Final = "CASE WHEN {revision} > p.epoch THEN 1 ELSE 0 END"
_LEDGER_EPOCH: Final = _IN_EPOCH.replace("{revision}", "coalesce(r.revision, b.revision)")

_IS_USED: Final = f"CASE WHEN o.flags & {REFERENCED} <> 0 THEN"

_CORRECTED: Final = (
    f"EXISTS (SELECT 1 FROM observation c {BY_RUN} WHERE c.learner_id = o.learner_id AND c.run_no = o.run_no"
    f" AND c.run_no <> 0 AND c.arm_no = o.arm_no AND c.kind = 'correction' AND c.undone = 0 AND c.{ACTIVE}"
)
"""Whether arm and run of outcome ``o`` have an active correction ``c``. The user closes the parenthesis likewise."""
_ACTIVE_RUN: Final = f"r.{ACTIVE} AND r.revision <= l.revision"
_EPISODES: Final = """
episode | text | e.uid | Uid of the episode.
environment | text | v.name | Environment.
split | text | e.split | Split.
task | text | e.task | Task; a number after erasing.
variant | text | e.variant | Variant.
model | text | e.model | Model.
at_ms | integer | e.at_ms | Time, UTC milliseconds; NULL: unknown.
n_steps | integer | e.n_steps | Steps.
n_paid | integer | e.n_paid | Steps with a reward.
status | text | e.status | How the episode ended.
total | number | e.total | Sum of its rewards; NULL: none.
final | number | e.final | Last reward; NULL: none.
"""
_GRADER: Final = "CASE WHEN e.model <> '' THEN 'model' WHEN e.rater <> '' THEN 'human' ELSE 'unknown' END"
_STATE: Final = "CASE WHEN e.undone = 1 THEN 'undone' WHEN e.counts = 1 THEN 'counts' ELSE 'superseded' END"
_EVALUATIONS: Final = f"""
evaluation | text | 'evaluation-' || CAST(e.evaluation_no AS text) | Id, which undo takes.
layer | text | y.uid | Uid of the layer; NULL: none.
execution | text | x.uid | Uid of the execution; NULL: none.
run | text | r.uid | Uid of the run; NULL: none.
arm | text | a.key | Id of the arm; NULL: none.
grader_kind | text | {_GRADER} | model, human or unknown.
model | text | CASE WHEN e.model <> '' THEN e.model END | Model that judged.
rubric | text | CASE WHEN e.rubric <> '' THEN e.rubric END | Version of the rubric.
outcome | text | e.outcome | success or failure.
score | number | e.score | Score, 0 to 1; NULL: none.
state | text | {_STATE} | counts, superseded or undone.
at_ms | integer | e.at_ms | Time, UTC milliseconds.
"""


class ViewColumn(NamedTuple):
    """A column: its name, its type (integer, number or text), its SQL and its meaning."""

    name: str
    type: str
    sql: str
    words: str


class SqlView(NamedTuple):
    """A view: its columns and the statement that creates it."""

    name: str
    columns: tuple[ViewColumn, ...]
    sql: str


def create(connection: Connection) -> None:
    """Create all views; the caller has removed older ones."""
    for view in VIEWS:
        connection.run(view.sql)


def drop(connection: Connection) -> None:
    """Remove the views: a table that a view reads can't be changed."""
    for view in VIEWS:
        connection.run(f"DROP VIEW IF EXISTS {view.name}")


def _view(name: str, columns: str, rows: str, *more: tuple[dict[str, str], str]) -> SqlView:
    """Return a view of ``rows``, and ``more`` with other SQL; ``columns`` are lines of name, type, SQL, meaning."""
    table = tuple(
        ViewColumn(*line.split(" | ")) for line in (_LEARNER + columns.lstrip()).strip().splitlines()
    )
    selects = [
        f"SELECT {', '.join(f'{changed.get(one.name, one.sql)} AS {one.name}' for one in table)} FROM learner l {of}"
        for changed, of in (({}, rows), *more)
    ]
    return SqlView(name, table, f"CREATE VIEW {name} AS {' UNION ALL '.join(selects)}")


def _number(micro: str) -> str:
    return f"CAST({micro} AS double precision)"


def _join(table: str, short: str, on: str, *keys: str) -> str:
    same = " AND ".join(f"{short}.{key} = {on}.{key}" for key in ("learner_id", *keys))
    return f" JOIN {table} {short} ON {same}"


_ARMS: Final = f"""
arm | text | a.key | Id of the arm.
type | text | a.type | Type of the arm.
token_cost | integer | a.token_cost | Tokens in the prompt; NULL: unknown.
alpha | number | {_number(_ALPHA)} / {MICRO} | Alpha in the present epoch, with the prior.
beta | number | {_number(_BETA)} / {MICRO} | Beta in the present epoch, with the prior.
mean | number | {_number(_ALPHA)} / ({_ALPHA} + {_BETA}) | Mean of the belief.
start_alpha_micro | integer | p.base_alpha_micro | Alpha at the start of the epoch, in millionths.
start_beta_micro | integer | p.base_beta_micro | Beta at the start of the epoch, in millionths.
success_micro | integer | p.success_micro | Sum of rewards, in millionths.
failure_micro | integer | p.failure_micro | Weight less that sum, in millionths.
pulls | integer | p.pulls + p.part_micro / {MICRO} | Whole pulls, by the weight of observations.
pulls_micro | integer | p.pulls * {MICRO} + p.part_micro | Weight of all observations, in millionths.
inclusions | integer | p.inclusions | Runs with the arm in the prompt in full.
n_named | integer | p.n_named | Runs with the arm by name.
n_loaded | integer | p.n_loaded | Those of them that found it.
epoch | integer | p.epoch | Revision of the reset that began the epoch; 0: the first.
last_at_ms | integer | CASE WHEN p.last_at_ms >= 0 THEN p.last_at_ms END | Newest observation, UTC milliseconds.
"""
_OBSERVATIONS: Final = f"""
arm | text | a.key | Id of the arm.
run | text | r.uid | Uid of the run; NULL: about no run.
source | text | {_SOURCE} | detector, person, grader, credit or carried.
kind | text | b.kind | automatic, or the kind of a reward in the ledger.
observation_no | integer | b.observation_no | Number in the ledger; NULL: automatic.
reward | number | CASE WHEN {_WEIGHT} > 0 THEN {_number("b.success_micro")} / {_WEIGHT} ELSE 0 END | Reward, 0 to 1.
success_micro | integer | b.success_micro | Part of alpha, in millionths.
failure_micro | integer | b.failure_micro | Part of beta, in millionths.
at_ms | integer | b.at_ms | End of the run, or time of the reward, UTC milliseconds.
revision | integer | b.revision | Revision of the learner that recorded it.
in_epoch | integer | {_LEDGER_EPOCH} | 1: in the present epoch of its arm.
"""
_OF_RUNS: Final = {  # automatic observations, which no row has: the flags of outcomes give their columns
    "source": "'detector'",
    "kind": "'automatic'",
    "observation_no": "NULL",
    "reward": f"{_number(f'{_IS_USED} 1 ELSE 0 END')}",
    "success_micro": f"{_IS_USED} {MICRO} ELSE 0 END",
    "failure_micro": f"{_IS_USED} 0 ELSE {MICRO} END",
    "at_ms": "r.at_ms",
    "revision": "r.revision",
    "in_epoch": _IN_EPOCH.replace("{revision}", "r.revision"),
}
VIEWS: Final = (
    _view(
        "v_arms",
        _ARMS,
        f"JOIN arm a ON a.learner_id = l.learner_id{_join('posterior', 'p', 'a', 'arm_no')} WHERE {LISTED}",
    ),
    _view(
        "v_runs",
        _RUNS,
        f"JOIN run r ON r.learner_id = l.learner_id WHERE {_ACTIVE_RUN} AND r.outcome <> 'empty'",
    ),
    _view(
        "v_observations",
        _OBSERVATIONS,
        f"JOIN observation b ON b.learner_id = l.learner_id{_join('arm', 'a', 'b', 'arm_no')}"
        f"{_join('posterior', 'p', 'b', 'arm_no')} LEFT{_join('run', 'r', 'b', 'run_no')} AND b.run_no > 0"
        f" LEFT{_join('outcome', 'o', 'b', 'run_no', 'arm_no')}"
        f" WHERE b.undone = 0 AND b.{ACTIVE} AND b.revision <= l.revision"
        f" AND (b.run_no = 0 OR ({_ACTIVE_RUN} AND o.flags & {INCLUDED} <> 0))"
        f" AND (b.kind <> 'correction' OR (o.flags & {OBSERVATION} <> 0"
        f" AND NOT {_CORRECTED} AND c.observation_no > b.observation_no)))",
        (
            _OF_RUNS,
            f"JOIN run r ON r.learner_id = l.learner_id{_join('outcome', 'o', 'r', 'run_no')}"
            f"{_join('arm', 'a', 'o', 'arm_no')}{_join('posterior', 'p', 'o', 'arm_no')}"
            f" WHERE {_ACTIVE_RUN} AND o.flags & {OBSERVED} <> 0 AND NOT {_CORRECTED})",
        ),
    ),
    _view(
        "v_episodes",
        _EPISODES,
        f"JOIN episode e ON e.learner_id = l.learner_id{_join('environment', 'v', 'e', 'environment_no')}"
        f" WHERE e.{ACTIVE}",
    ),
    _view(
        "v_evaluations",
        _EVALUATIONS,
        "JOIN evaluation e ON e.learner_id = l.learner_id"
        f" LEFT{_join('layer', 'y', 'e', 'layer_no')} AND e.layer_no > 0"
        f" LEFT{_join('execution', 'x', 'e', 'execution_no')} AND e.execution_no > 0"
        f" LEFT{_join('run', 'r', 'e', 'run_no')} AND e.run_no > 0"
        f" LEFT{_join('arm', 'a', 'e', 'arm_no')} AND e.arm_no > 0 WHERE e.{ACTIVE}",
    ),
)
"""All views, which any program may read."""
