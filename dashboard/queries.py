"""Cached queries of the pages: one read per learner revision; everything the dashboard reads is here.

Each rerun first reads the learner's frame with its snapshot key. Every answer is cached under database, learner,
snapshot, question and view. So thirty people on one page cost one read. A write makes a new snapshot and new keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec

from core import demo
from core.columns import Ints
from core.errors import ArmscopeError, NotFound
from core.flows import maintenance, queries
from core.flows.alerts import alerts as alerts_of
from core.flows.context import Context, learner_names
from core.flows.episode import preview_declare as preview_declared
from core.flows.experiments import experiment_path as experiment_path_of
from core.flows.experiments import experiment_result, plan_experiment, share_experiment, stop_experiment
from core.flows.experiments import experiments as experiment_rows
from core.flows.inventory import carried
from core.flows.learners import LearnerCache, fleet_version, learners
from core.flows.queues import missed_use as missed_use_by_arm
from core.flows.queues import rubrics as rubrics_of
from core.flows.settings import changed, changed_all
from core.flows.trials.plan import read_trial, trial_result
from core.flows.trials.plan import trials as trial_rows
from core.flows.trials.results import read_results
from core.maths.statistics.confidence import Confidence
from core.maths.statistics.heatmap import RowChoice
from core.maths.statistics.overview import Overview
from core.maths.statistics.savings import Savings
from core.records.alert import AlertsView
from core.records.audit import AuditEntry
from core.records.batch import BatchLine
from core.records.episode_page import EpisodeFilter
from core.records.experiment import Decision, ExperimentChanged, ExperimentRow
from core.records.inventory import StoredInventory
from core.records.judgement import Judgement
from core.records.learner import LearnerSummary
from core.records.observation import Observation
from core.records.run_page import Cursor, Direction, RunsOfSession, SessionRow
from core.records.run_query import RunFilter, RunSide, View, side_of
from core.records.search import SEARCH_KINDS, SearchAnswer
from core.records.times import DAY_MS, HOUR_MS, MINUTE_MS
from core.records.transcript import Transcript
from core.records.trial import TrialRead, TrialResults
from dashboard.reading import (
    Cache,
    at_revision,
    at_revision_for_actor,
    belief_view,
    cached,
    cached_by_visibility,
    cached_for_actor,
    cached_of_all,
    cached_query,
    context_of,
    reading,
    wherever,
)

EVERY_EPISODE: Final = EpisodeFilter()
_SETTING_CHANGES_READ: Final = 50
_UNDOS_READ: Final = 1_000
"""Longer ago, the page offers no redo to who may undo their own only; the command line does."""

_TRIED: Final = 10
_LEARNERS_EACH_MS: Final = 10 * MINUTE_MS
"""The lack of runs is reported again after this time, although nothing happens."""
_learner_summaries: Final = Cache(4)

known_learners: Final = learner_names

inclusion: Final = at_revision(queries.inclusion)

unread: Final = at_revision(queries.unread)

arm_ledger: Final = at_revision_for_actor(queries.arm_ledger)
arm_runs: Final = at_revision(queries.arm_runs)
runs_without_tokens: Final = at_revision(queries.runs_without_tokens)
arm_notes: Final = at_revision(queries.notes)
near_arms: Final = at_revision(queries.near_arms)

compared_sides: Final = at_revision(queries.compare_sides)

evaluations: Final = at_revision_for_actor(queries.page_of_evaluations)
bias_watch: Final = at_revision_for_actor(queries.bias_watch)
agreement: Final = at_revision_for_actor(queries.agreement)
evaluated_names: Final = at_revision(queries.evaluated)
rubrics: Final = at_revision(rubrics_of)
layers: Final = at_revision(queries.layers)

run: Final = at_revision_for_actor(queries.run)

compared: Final = at_revision(queries.compare)
episode_list: Final = at_revision(queries.episode_list)
without_episode: Final = at_revision(queries.without_episode)

preview_credit: Final = at_revision(queries.preview_credit)
preview_declare: Final = at_revision(preview_declared)
episode: Final = at_revision_for_actor(queries.episode)
episode_runs: Final = at_revision(queries.episode_runs)

changes: Final = at_revision(queries.changes)

repairs: Final = at_revision(queries.repairs)
evidence: Final = at_revision(queries.evidence)
preview_left_out: Final = at_revision(queries.preview_left_out)
preview_repair: Final = at_revision(queries.preview_repair)
resets: Final = at_revision(queries.resets)

trials: Final = at_revision(trial_rows)

missed_use: Final = at_revision(missed_use_by_arm)
trial: Final = at_revision(trial_result)

planned_experiment: Final = at_revision(plan_experiment)
experiment_path: Final = at_revision(experiment_path_of)

imports: Final = at_revision(queries.imports)

database: Final = at_revision(maintenance.database_facts)

preview_reward: Final = at_revision(queries.preview_reward)

preview_reset: Final = at_revision(queries.preview_reset)

preview_undo: Final = at_revision(queries.preview_undo)


# The frame


def frame_of(context: Context) -> queries.Frame:
    """Return learners, time span, filters and revision. Every rerun checks whether they are current."""
    pages = context.for_pages()
    return cached_by_visibility(pages, "frame", lambda: queries.frame(pages))


def revision() -> queries.Revision:
    """Return the learner's current revision and number of runs, checked on every call."""
    context = reading().pages
    return cached_by_visibility(context, "revision", lambda: queries.revision(context))


# All learners


def learner_that_opens() -> str | None:
    """Return a learner whose frame is readable, where the requested one's is not; None if the first few fail."""
    with suppress(ArmscopeError):
        context = context_of()
        there = (one.name for one in learners(context.for_pages()) if one.state != "unreadable")
        for name in islice(there, _TRIED):
            with suppress(ArmscopeError):
                return frame_of(context.of(name)).learner
    return None


def fleet() -> Sequence[LearnerSummary]:
    """Return a summary of every learner that the reader may see; only changed ones are read again."""
    context = reading().pages
    known: LearnerCache = _learner_summaries.get(str(context.store.location), dict)
    snapshot = wherever(context, lambda: fleet_version(context))(), context.clock() // _LEARNERS_EACH_MS
    return cached_of_all(context, snapshot, "learners", lambda: learners(context, cache=known))


# All arms


def belief() -> queries.Belief:
    """Return every arm in view with what is believed of it."""
    return cached_query(queries.belief, belief_view(reading().view))


def matches(words: str) -> SearchAnswer:
    """Return what has the words in its names."""
    here = reading()
    return cached(("search", words), None, lambda: queries.search(here.pages, words, SEARCH_KINDS))


def everything() -> queries.Belief:
    """Return every arm as it is now, without filters, for acts."""
    return cached_query(queries.belief, View())


def as_of() -> queries.Belief:
    """Return every arm at the end of the span, of all types."""
    return cached_query(queries.belief, View(until_ms=reading().view.until_ms))


def judgements() -> Mapping[str, Judgement]:
    """Return the judgement of every arm at the end of the span, by id, of all types."""
    here = reading()
    view = View(until_ms=here.view.until_ms)
    return cached("judgements", view, lambda: queries.judgements(here.pages, view, inclusion=inclusion()))


def truth() -> dict[str, float]:
    """Return planted values of a demo world, by arm; nothing elsewhere."""
    seed = demo.seed_of(reading().frame.origin)
    return {} if seed is None else demo.truth(seed)


def planted_environments() -> Mapping[str, demo.World]:
    """Return the planted truth of a demo's environments by name; empty elsewhere."""
    return {} if demo.seed_of(reading().frame.origin) is None else demo.ENVIRONMENTS


def overview() -> Overview:
    """Return the first page in numbers."""
    here = reading()
    today = here.pages.clock() // DAY_MS  # the days without a run grow each day
    return cached(("overview", today), here.view, lambda: queries.overview(here.pages, here.view))


def confidence() -> Confidence:
    """Return how well the arms are known."""
    return cached_query(queries.confidence, reading().view)


def pulls_needed(width: float) -> Ints:
    """Return further pulls of every arm in view until its interval is at most so wide; aligned with `confidence`."""
    return cached_query(queries.pulls_needed, belief_view(reading().view), width=width)


def savings() -> Savings:
    """Return the savings of the selection."""
    return cached_query(queries.savings, reading().view)


# One arm


def arm_path(arm: str) -> queries.ArmPath:
    """Return the path of an arm's belief up to the end of the span."""
    return cached_query(queries.arm_path, arm, reading().view.until_ms)


def newest_reward(story: queries.RunStory, arm: str | None) -> Observation | None:
    """Return the latest active manual reward of an arm in a run."""
    rows = next((one.by_hand for one in story.arms if one.arm == arm), ())
    return next((row for row in rows if not row.undone), None)


# Comparison


def side_savings(side: RunSide) -> Savings | None:
    """Return the savings among the runs of a side; None for a single run, where nothing can be compared."""
    return None if side.run is not None else cached_query(queries.savings, side_of(side).view)


# Runs


def runs_view(
    chosen: RunFilter, cursor: Cursor | None, direction: Direction, rows_by: RowChoice
) -> queries.RunsView:
    """Return a page of runs with their heat map."""
    view = reading().view
    return cached_query(queries.runs_view, chosen, view, cursor=cursor, direction=direction, rows_by=rows_by)


def transcript(name: str) -> Transcript:
    """Return the transcript of a run; it is read each time, so that no memory holds an erased one."""
    here = reading()
    return wherever(here.pages, lambda: queries.transcript(here.pages, name))()


def sessions() -> tuple[SessionRow, ...]:
    """Return the sessions of the view, the latest first."""
    return cached_query(queries.sessions_in, reading().view)


def session(name: str) -> RunsOfSession | None:
    """Return a session with its runs; None for an unknown one."""
    with suppress(NotFound):
        return cached_query(queries.session, name)
    return None


# Episodes


def environments(chosen: EpisodeFilter) -> tuple[queries.EnvironmentSummary, ...]:
    """Return the results of each environment's matching episodes; empty for an unknown environment."""
    with suppress(NotFound):
        return cached_query(queries.episodes, **msgspec.structs.asdict(chosen))
    return ()


def environment(name: str, chosen: EpisodeFilter = EVERY_EPISODE) -> queries.EnvironmentStory:
    """Return all about an environment, of its episodes that pass; raises `NotFound`."""
    return cached_query(
        queries.environment,
        name,
        split=chosen.split,
        task=chosen.task,
        model=chosen.model,
        outcome=chosen.outcome,
    )


# Experiments


def experiments() -> tuple[ExperimentRow, ...]:
    """Return the experiments, newest first, read each hour: the time of a session ends without a write."""
    here = reading()
    hour = here.pages.clock() // HOUR_MS
    return cached(("experiments", hour), None, lambda: experiment_rows(here.pages))


def experiment(name: str) -> ExperimentRow:
    """Return one of them by its id, else as `experiment_result` does."""
    known = next((row for row in experiments() if row.experiment == name), None)
    return cached_query(experiment_result, name) if known is None else known


def preview_act(experiment: str, decision: Decision | None, share: float) -> ExperimentChanged:
    """Return what an act on an experiment would do; nothing is changed. Without a decision: another share."""
    if decision is None:
        return share_experiment(reading().context, experiment, share, preview=True)
    return stop_experiment(reading().context, experiment, decision=decision, preview=True)


def acts_on(row: ExperimentRow) -> list[AuditEntry]:
    """Return the acts on an experiment and exclusions of its arm among the latest changes, newest first."""
    arm = f'"{row.plan.arm}"'

    def concerns(one: AuditEntry) -> bool:
        detail = one.detail
        if one.action == "setting" and one.at_ms >= row.at_ms and detail.get("name") == "excluded_arms":
            return (arm in str(detail.get("value"))) != (arm in str(detail.get("before")))
        return one.action == "experiment" and row.experiment in {one.act, detail.get("of")}

    here = reading()
    entries = cached("changes", None, lambda: queries.changes(here.pages, limit=_UNDOS_READ))
    return list(filter(concerns, entries))


# What was done


class Batch(NamedTuple):
    """A batch of rewards: the id that undoes all of them, and their number.

    ``or_more``: the latest changes may not reach back to the first of them.
    """

    id: str
    n_rewards: int
    or_more: bool


def batches() -> dict[str, Batch]:
    """Return the batches of rewards by the id of each reward, as far as the latest changes reach."""
    here = reading()
    return cached("batches", None, lambda: _batches(queries.changes(here.pages, limit=_UNDOS_READ)))


def _batches(entries: Sequence[AuditEntry]) -> dict[str, Batch]:
    together: dict[int, list[str]] = {}
    for entry in entries:
        if entry.action == "reward" and entry.act is not None:
            together.setdefault(entry.revision, []).append(entry.act)
    last = entries[-1].revision if len(entries) == _UNDOS_READ else None
    return {
        act: Batch(acts[-1].replace("reward-", "rewards-"), len(acts), or_more=revision == last)
        for revision, acts in together.items()
        if len(acts) > 1
        for act in acts
    }


def undoers() -> dict[str, frozenset[str]]:
    """Return who undid each act, by its id, among the latest changes: they may redo it."""
    here = reading()
    return cached("undoers", None, lambda: _undoers(queries.changes(here.pages, limit=_UNDOS_READ)))


def _undoers(entries: Sequence[AuditEntry]) -> dict[str, frozenset[str]]:
    undoers: dict[str, frozenset[str]] = {}
    for entry in entries:
        act = entry.detail.get("undone")
        if entry.action == "undo" and not entry.undone and isinstance(act, str):
            undoers[act] = undoers.get(act, frozenset()) | {entry.actor}
    return undoers


def rewards(limit: int = 20, *, everyone: bool) -> tuple[Observation, ...]:
    """Return the latest rewards of this person or of all, newest first."""
    actor = None if everyone else reading().pages.actor.name
    return cached_for_actor(queries.rewards, limit=limit, actor=actor)


def setting_changes() -> tuple[queries.SettingChange, ...]:
    """Return the latest changes of settings, newest first."""
    return cached_query(queries.setting_changes, limit=_SETTING_CHANGES_READ)


def inventories() -> tuple[StoredInventory, ...]:
    """Return what agents carry, by machine, the latest import first."""
    return cached_query(carried, limit=100).machines


# What would come of it


def preview_batch(rewards: Sequence[BatchLine]) -> queries.BatchPreview:
    """Return the effect of many rewards, and those that are not allowed; nothing is written."""
    return cached_query(queries.preview_batch, tuple(rewards))


def alerts() -> AlertsView:
    """Return webhooks and the latest alerts. They belong to the installation, so no revision covers them."""
    return alerts_of(reading().pages, limit=10)


def results_of(name: str, content: bytes, *, plan: str | None, arm: str) -> tuple[TrialResults, TrialRead]:
    """Return the results of a dropped file, of ``arm`` if it names none, and what they would show when read."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / (PurePath(name).name or "results")
        path.write_bytes(content)
        results = read_results(path)
    results = msgspec.structs.replace(results, arm=results.arm or arm)
    return results, read_trial(reading().context, results, plan=plan, preview=True)


def preview_settings(changes: Mapping[str, object]) -> queries.SettingsPreview:
    """Return the effect of settings; nothing is changed."""
    here = reading()
    question = ("preview settings", msgspec.json.encode(changes))
    return cached(question, None, lambda: queries.preview_settings(here.pages, changes))


def problem_with(name: str, value: object) -> str | None:
    """Return why a setting can't have a value, or None."""
    try:
        changed(reading().frame.settings, name, value)
    except ArmscopeError as problem:
        return problem.problem
    return None


def problem_together(changes: Mapping[str, object]) -> str | None:
    """Return why settings can't have these values together, or None; each alone is sound."""
    try:
        changed_all(reading().frame.settings, changes)
    except ArmscopeError as problem:
        return problem.problem
    return None
