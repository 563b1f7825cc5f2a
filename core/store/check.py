"""Check: recompute every cache from the facts and report the differences."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from core.errors import InvalidInput
from core.maths.episodes import totals_of
from core.records.arm import MICRO
from core.records.evidence import INCLUDED, NAMED, OBSERVATION, RETRACTED
from core.records.observation import Amount, plain_reward
from core.records.run import OFFERED
from core.records.times import iso
from core.records.verification import Difference
from core.store.arms import descriptions
from core.store.caches import CHUNK, chunks, newest_observations, rollup_facts
from core.store.compacted import compacted_rollups, unlike_compactions
from core.store.contradicted import (
    unknown_numbers,
    unlike_digests,
    unlike_facts,
    unlike_log,
    unlike_namings,
    unlike_sources,
)
from core.store.crediting import credited_observations, due, unlike_evaluations
from core.store.damage import damage, guarded, quick_check
from core.store.environments import Stored, counted_anew, stored_days, stored_kinds
from core.store.episode_credits import credits_in_force, followed_credits
from core.store.episodes import episode_digest, episode_plans, read_episodes, unlike_recorded
from core.store.evaluations import counting_evaluations
from core.store.experiments import unlike_assignments
from core.store.facts import EXCHANGED, Fact
from core.store.links import last_link, link_with, unlike_chain
from core.store.offers import unlike_holds
from core.store.provenance import fact_states, plans, runs_of_trials
from core.store.quality import (
    folded,
    folded_histories,
    rated_layers,
    stored_histories,
    stored_quality,
)
from core.store.reads import numbered_runs
from core.store.rollup import (
    ARM_SUMS,
    DAY_KEY,
    HOUR_KEY,
    USAGE_KIND,
    USAGE_SUMS,
    Rollup,
    merged,
    seen_increase,
)
from core.store.settings import folded_settings, wrong_bills
from core.store.subjects import SUBJECTS, Kind, described_layers, subject_states
from core.store.tables import ACTS, EVALUATION_KEY, NUMBERED, metadata
from core.store.transaction import BY_IMPORT, TAKEN, Snapshot, base_of
from core.store.trials import missing_sessions
from core.store.version import ASSIGNED_SESSIONS, UNLIKE_RETRACTED, session_key

_EVER: Final = 1 << 62
PASSES: Final = 3
"""Number of passes over a learner's runs."""


_SMALL_FILE_BYTES: Final = 12 << 20
"""Up to this size everything in a learner is recomputed in half a second."""

_INSTALLATION: Final = ("", 0, "{}", "run", "")
"""Columns that only learners use: origin, time, settings, kind of session, key of digests."""

_WHOLE_PULLS: Final = (
    f"CASE WHEN kind = 'correction' OR success_micro + failure_micro >= {MICRO} THEN 1 ELSE 0 END"
)
"""`whole_pulls`, where the store counts them."""

_EPISODES: Final = 200
"""Episodes per query; each may have many steps."""

_GAPLESS: Final = tuple(name for name in NUMBERED if name not in {*TAKEN, "link"})
"""Tables whose numbers are given in the transaction that writes the row. The chain checks the numbers of links."""

_FORM: Final = re.compile(r"(?:([1-9][0-9]{0,17}):)?([0-9a-f]{64})")


def differences(snapshot: Snapshot, taken: Callable[[int], None] = lambda _: None) -> Iterator[Difference]:
    """Yield each difference between caches of a learner and its facts; ``taken`` receives the runs that were read."""
    checks: list[tuple[str, Iterator[Difference]]] = [
        ("caches", _caches(snapshot, taken)),
        ("learner", _settings(snapshot)),
        ("hold", (Difference("hold", *map(_shown, one)) for one in unlike_holds(snapshot))),
        ("undone", _acts(snapshot)),
        ("compaction", (Difference("compaction", *map(_shown, one)) for one in unlike_compactions(snapshot))),
        (
            "trial_session",
            (Difference("trial_session", str(one[0]), "none", one[1]) for one in missing_sessions(snapshot)),
        ),
        ("outcome", _flags(snapshot)),
        ("outcome", _retracted(snapshot)),
        ("observation", _weighed(snapshot)),
        ("run", _in_sessions(snapshot)),
        ("run", _billed(snapshot)),
        ("run", _attributed(snapshot, taken)),
        *((fact.table, _imported(snapshot, fact)) for fact in EXCHANGED.values()),
        ("evaluation", _counted(snapshot)),
        ("evaluation", _superseded(snapshot)),
        ("evaluation", _judged_arms(snapshot)),
        ("observation", _credited(snapshot)),
        ("layer_quality", _qualities(snapshot)),
        *((kind, _subjects(snapshot, kind)) for kind in SUBJECTS),
        ("episode", _episodes(snapshot)),
        ("environment_day", _paid(snapshot)),
        ("observation", _in_force(snapshot)),
        ("episode_credit", _shared(snapshot)),
        ("arm", _listed(snapshot)),
        ("arm", _described(snapshot)),
        ("learner", _counters(snapshot)),
    ]
    for table, listed in checks:
        yield from guarded(table, listed)


def contradictions(snapshot: Snapshot, taken: Callable[[int], None] = lambda _: None) -> Iterator[Difference]:
    """Yield each contradiction between rows of a learner: missing numbers, digests, references, the log.

    No act is refused for it: most of it moves no number.
    """
    for table, listed in (
        ("learner", _gaps(snapshot)),
        ("run", unlike_digests(snapshot, taken)),
        ("provenance", unlike_sources(snapshot)),
        ("provenance", unlike_namings(snapshot)),
        ("observation", unlike_evaluations(snapshot)),
        ("episode", unlike_recorded(snapshot)),
        ("learner", unknown_numbers(snapshot)),
        ("learner", unlike_facts(snapshot)),
        ("assignment", _sides(snapshot)),
        ("audit", unlike_log(snapshot)),
        ("layer", _layers(snapshot)),
        ("link", _chain(snapshot)),
    ):
        yield from guarded(table, listed)


def installation_differences(snapshot: Snapshot) -> Iterator[Difference]:
    """Yield differences of the installation's members, tokens, webhooks and log, and learners without their names."""
    yield from guarded("learner_name", _unnamed(snapshot))
    yield from guarded("learner", _hidden(snapshot))
    for listed in (_counters(snapshot), _gaps(snapshot), _chain(snapshot)) if snapshot.exists else ():
        yield from guarded("learner", listed)


def _unnamed(snapshot: Snapshot) -> Iterator[Difference]:
    for number, name in snapshot.connection.rows(
        "SELECT l.learner_id, l.name FROM learner l LEFT JOIN learner_name n"
        " ON n.learner_id = l.learner_id AND n.name = l.name WHERE n.name IS NULL"
    ):
        yield Difference("learner_name", name, "another number", str(number))


def _hidden(snapshot: Snapshot) -> Iterator[Difference]:
    """Find learners that no list shows: only an import in progress makes one without a revision."""
    for name, revision in snapshot.connection.rows(
        "SELECT name, revision FROM learner WHERE revision < 1 AND (staged_import_no = 0 OR chain_head IS NOT NULL)"
    ):
        yield Difference("learner", name or "the installation", f"revision {revision}", "1 or more")
    for row in snapshot.connection.rows(
        "SELECT origin, created_at_ms, settings, sticky, digest_key FROM learner WHERE learner_id = ?", [0]
    ):
        if row != _INSTALLATION:
            yield Difference("learner", "the installation", str(row), str(_INSTALLATION))


def _chain(snapshot: Snapshot) -> Iterator[Difference]:
    return unlike_chain(snapshot.connection, snapshot.learner_id, snapshot.name, snapshot.revision)


def look_over(snapshot: Snapshot) -> Difference | None:
    """Return the first damage within about a second; None where the examined part is sound."""
    if snapshot.connection.size() > _SMALL_FILE_BYTES:
        return next(quick_check(snapshot), None)
    return next(chain(damage(snapshot), differences(snapshot) if snapshot.exists else ()), None)


def _caches(snapshot: Snapshot, taken: Callable[[int], None]) -> Iterator[Difference]:
    rollup = merged(_rollups(snapshot, taken))
    arm_hours = {key: sums for key, sums in rollup.arms.items() if any(sums)}
    for table, key, sums, expected in (
        ("arm_hour", HOUR_KEY, ARM_SUMS, arm_hours),
        ("arm_day", DAY_KEY, ARM_SUMS, rollup.arm_days()),
        ("usage_hour", ("hour", *USAGE_KIND), USAGE_SUMS, rollup.usage),
        ("usage_day", ("day", *USAGE_KIND), USAGE_SUMS, rollup.usage_days()),
    ):
        rows = snapshot.rows(f"SELECT {', '.join((*key, *sums))} FROM {table} WHERE learner_id = ?")
        yield from _compare(table, {row[: len(key)]: list(row[len(key) :]) for row in rows}, expected)
    beliefs = snapshot.rows(
        f"SELECT arm_no, base_alpha_micro, base_beta_micro, epoch, {', '.join(ARM_SUMS)}, seen, last_at_ms"
        " FROM posterior WHERE learner_id = ?"
    )
    stored = {number: tuple(rest) for number, *rest in beliefs}
    yield from _compare("posterior", stored, _posteriors(snapshot, rollup))


def _settings(snapshot: Snapshot) -> Iterator[Difference]:
    yield from _compare("learner", {"settings": snapshot.settings}, {"settings": folded_settings(snapshot)})


def _acts(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that the acts that are marked as undone are those with an active undo."""
    computed: dict[object, object] = {}
    for kind, table in ACTS.items():
        numbers = snapshot.column(f'SELECT {table}_no FROM "{table}" WHERE learner_id = ? AND undone = 1')
        computed.update(((kind, number), 1) for number in numbers)
    rows = snapshot.rows("SELECT kind, no FROM undo WHERE learner_id = ? AND undone = 0")
    yield from _compare("undone", computed, dict.fromkeys(rows, 1))


def _rollups(snapshot: Snapshot, taken: Callable[[int], None]) -> Iterator[Rollup]:
    for run_nos in numbered_runs(snapshot, CHUNK):
        yield rollup_facts(snapshot, run_nos)
        taken(len(run_nos))
    loose = snapshot.column("SELECT observation_no FROM observation WHERE learner_id = ? AND run_no = 0")
    yield rollup_facts(snapshot, (), loose)
    yield from compacted_rollups(snapshot, damaged=True)


def _compare(
    table: str, stored: Mapping[Any, object], recomputed: Mapping[Any, object]
) -> Iterator[Difference]:
    for key in stored.keys() | recomputed.keys():
        left, right = stored.get(key), recomputed.get(key)
        if left != right:
            yield Difference(table, _shown(key), _shown(left), _shown(right))


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)


def _posteriors(snapshot: Snapshot, rollup: Rollup) -> dict[object, object]:
    """Each arm's row as its facts say: base, present epoch, sums, everything ever seen, newest pull."""
    arms = snapshot.rows(
        "SELECT arm_no, key, prior_alpha_micro, prior_beta_micro FROM arm WHERE learner_id = ?"
    )
    targets: dict[int, str] = dict(snapshot.rows("SELECT revision, target FROM reset WHERE learner_id = ?"))
    snapshot.epochs.load(number for number, *_ in arms)
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0] * len(ARM_SUMS))
    ever: dict[int, int] = defaultdict(int)
    for (_, arm_no, epoch), amounts in rollup.arms.items():
        ever[arm_no] += seen_increase(amounts)
        for index, amount in enumerate(amounts):
            sums[arm_no, epoch][index] += amount
    newest = newest_observations(snapshot, [number for number, *_ in arms])
    computed: dict[object, object] = {}
    for arm_no, key, alpha, beta in arms:
        epoch = snapshot.epochs.current(arm_no)
        base = base_of(snapshot.settings, key, alpha, beta, targets.get(epoch))
        computed[arm_no] = (
            base.alpha_micro,
            base.beta_micro,
            epoch,
            *sums[arm_no, epoch],
            ever[arm_no],
            newest.get(arm_no, -1),
        )
    return computed


def _flags(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that outcomes are observed exactly where their run is observed and included the arm in full.

    Arms of an offer may be without a report.
    """
    for run_no, arm_no, flags, outcome in snapshot.rows(
        "SELECT o.run_no, o.arm_no, o.flags, r.outcome FROM outcome o"
        " LEFT JOIN run r ON r.learner_id = o.learner_id AND r.run_no = o.run_no"
        " WHERE o.learner_id = ? AND coalesce(r.revision, 0) <= ?"
        f" AND (o.flags & {OBSERVATION} <> 0) <> (coalesce(r.outcome, '') = 'observed'"
        f" AND o.flags & {INCLUDED | NAMED} = {INCLUDED})"
        f" AND (o.flags & {OBSERVATION} <> 0 OR coalesce(r.format, '') <> ?)",
        [snapshot.revision, OFFERED],
    ):
        yield Difference(
            "outcome", f"run {run_no}, arm {arm_no}", f"flags {flags}", f"a run that is {outcome}"
        )


def _retracted(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that outcomes are marked exactly where an active repair takes them back."""
    for run_no, arm_no, flags in snapshot.connection.rows(
        f"SELECT run_no, arm_no, flags FROM outcome WHERE learner_id = ? AND {UNLIKE_RETRACTED} LIMIT 100",
        [snapshot.learner_id] * 2,
    ):
        marked = flags & RETRACTED != 0
        yield Difference("outcome", f"run {run_no}, arm {arm_no}", f"taken back: {marked}", str(not marked))


def _weighed(snapshot: Snapshot) -> Iterator[Difference]:
    """Observations of weight below 1 are no whole pull, all others are; a carried belief says how many it is."""
    for number, pulls, expected in snapshot.rows(
        f"SELECT observation_no, pulls, {_WHOLE_PULLS} FROM observation WHERE learner_id = ?"
        f" AND kind <> 'carried' AND pulls <> {_WHOLE_PULLS}"
    ):
        yield Difference("observation", str(number), f"pulls {pulls}", f"pulls {expected}")


def _in_sessions(snapshot: Snapshot) -> Iterator[Difference]:
    """Runs are kept under the number of their session."""
    assigned = {*snapshot.column(ASSIGNED_SESSIONS)}
    for run_no, *known, stored in snapshot.each(
        "SELECT run_no, class, session, choice, session_key FROM run WHERE learner_id = ? AND revision <= ?",
        [snapshot.revision],
    ):
        key = session_key(run_no, *known, is_assigned=known[1] in assigned)
        if key != stored:
            yield Difference("run", str(run_no), f"session key {stored}", f"session key {key}")


def _billed(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that runs have the bills of their tokens at the prices of their time."""
    for run_no, stored, expected in wrong_bills(snapshot):
        yield Difference("run", str(run_no), f"bill {tuple(stored)}", f"bill {tuple(expected)}")


def _attributed(snapshot: Snapshot, taken: Callable[[int], None]) -> Iterator[Difference]:
    """Check that runs have the state, version and epoch of their active imports."""
    for run_nos in numbered_runs(snapshot, CHUNK):
        now = {
            number: tuple(rest)
            for number, *rest in snapshot.rows_in(
                "SELECT run_no, standing, rank, trace, digest, revision FROM run"
                " WHERE learner_id = ? AND run_no IN ({})",
                run_nos,
            )
        }
        of_trial = runs_of_trials(snapshot, run_nos)
        for plan in plans(snapshot, run_nos):
            expected = (plan.standing(of_trial), plan.rank, plan.trace, plan.digest, plan.revision)
            if expected != now[plan.run_no]:
                yield Difference("run", str(plan.run_no), str(now[plan.run_no]), str(expected))
        taken(len(run_nos))


def _imported(snapshot: Snapshot, fact: Fact) -> Iterator[Difference]:
    """Check that facts have state and revision of their imports; one key has one active fact."""
    kind = fact.table
    itself = "".join(f" AND {table}_no = 0" for table in fact.follows)
    rows = snapshot.rows(
        f"SELECT {kind}_no, import_no, revision, standing FROM {kind} WHERE learner_id = ?{itself}"
    )
    expected = fact_states(
        snapshot, kind, {number: (teller, revision) for number, teller, revision, _ in rows}
    )
    for number, _, revision, is_active in rows:
        now = bool(is_active), revision
        if now != expected[number]:
            yield Difference(kind, str(number), _state(*now), _state(*expected[number]))


def _counted(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that of each key the latest active evaluation counts."""
    stored: dict[int, int] = dict(
        snapshot.rows("SELECT evaluation_no, counts FROM evaluation WHERE learner_id = ?")
    )
    yield from _compare("evaluation", stored, counting_evaluations(snapshot))


def _superseded(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that an evaluation supersedes an earlier one of its key, and one where one counted for certain."""
    undone = set(snapshot.column("SELECT no FROM undo WHERE learner_id = ? AND kind = 'evaluation'"))
    earlier: dict[tuple[object, ...], list[int]] = defaultdict(list)
    certain: set[tuple[object, ...]] = set()
    for number, before, import_no, *key in snapshot.each(
        f"SELECT evaluation_no, supersedes, import_no, {', '.join(EVALUATION_KEY)} FROM evaluation"
        " WHERE learner_id = ? AND (execution_no <> 0 OR run_no <> 0) ORDER BY evaluation_no"
    ):
        known = earlier[tuple(key)]
        if (before and before not in known) or (not before and tuple(key) in certain):
            expected = f"one of {known[-3:]}" if known else "none of its key"
            yield Difference("evaluation", str(number), f"supersedes {before or 'none'}", expected)
        known.append(number)
        if not import_no and number not in undone:
            certain.add(tuple(key))


def _judged_arms(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that an evaluation of an arm credits that arm alone."""
    for number, arm_no, credited in snapshot.rows(
        "SELECT e.evaluation_no, e.arm_no, c.arm_no FROM evaluation e"
        " JOIN credit c ON c.learner_id = e.learner_id AND c.evaluation_no = e.evaluation_no"
        " WHERE e.learner_id = ? AND e.arm_no <> 0 AND c.arm_no <> e.arm_no"
    ):
        yield Difference("evaluation", str(number), f"arm {arm_no}", f"arm {credited}, which it credits")


def _credited(snapshot: Snapshot) -> Iterator[Difference]:
    """Arms get from evaluations what those that count say."""
    run_nos = snapshot.column(
        "SELECT DISTINCT run_no FROM evaluation WHERE learner_id = ? AND run_no <> 0 ORDER BY run_no"
    )
    for chunk in chunks(run_nos):
        stored = {
            key: one for key, (_, one) in credited_observations(snapshot, chunk).items() if one is not None
        }
        yield from _compare("observation", stored, due(snapshot, chunk))


def _qualities(snapshot: Snapshot) -> Iterator[Difference]:
    """Layers, and the histories of models at them, are what the evaluations that count make of them."""
    stored = stored_quality(snapshot)
    layer_nos = sorted({*stored, *rated_layers(snapshot)})
    expected = {layer_no: folded(snapshot, layer_no) for layer_no in layer_nos}
    yield from _compare(
        "layer_quality", stored, {layer_no: one for layer_no, one in expected.items() if one is not None}
    )
    stored_history = stored_histories(snapshot, layer_nos)
    computed_history = {layer_no: folded_histories(snapshot, layer_no) for layer_no in layer_nos}
    yield from _compare(
        "model_history", stored_history, {layer_no: one for layer_no, one in computed_history.items() if one}
    )


def _subjects(snapshot: Snapshot, kind: Kind) -> Iterator[Difference]:
    """Check that active and placeholder flags of layers and executions match the rows that refer to them."""
    rows = snapshot.rows(f"SELECT {kind}_no, bare, standing FROM {kind} WHERE learner_id = ?")
    expected = subject_states(snapshot, kind, [number for number, *_ in rows])
    yield from _compare(kind, {number: (bare, active) for number, bare, active in rows}, expected)


def _layers(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that layers are what their active sources describe."""
    yield from _compare("layer", *described_layers(snapshot))


def _episodes(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that episodes have the state and version of their sources, and the sums of their steps."""
    numbers = snapshot.column("SELECT episode_no FROM episode WHERE learner_id = ? ORDER BY episode_no")
    for chunk in chunks(numbers, _EPISODES):
        stored: dict[int, object] = {
            number: row
            for number, *row in snapshot.rows_in(
                "SELECT episode_no, standing, revision, digest, digest, n_steps, n_paid, finished, total_text,"
                " final_text, total, final, status FROM episode WHERE learner_id = ? AND episode_no IN ({})",
                chunk,
            )
        }
        plans = episode_plans(snapshot, chunk)
        expected: dict[int, object] = {}
        for number, line in zip(chunk, read_episodes(snapshot, chunk), strict=True):
            totals = totals_of(line.steps, broken=line.broken)
            numbers_to_sort_by = [None if one is None else float(one) for one in (totals.total, totals.final)]
            expected[number] = [
                *plans[number],
                episode_digest(line),
                *Stored.of(totals),
                *numbers_to_sort_by,
                line.status,
            ]
        yield from _compare("episode", stored, expected)


def _paid(snapshot: Snapshot) -> Iterator[Difference]:
    """Episodes add up, by day and by what is alike of them, to what is stored."""
    days, kinds = counted_anew(snapshot)
    yield from _compare("environment_day", stored_days(snapshot), days)
    yield from _compare("environment_task", stored_kinds(snapshot), kinds)


def _in_force(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that a credit's observations are active exactly while the credit is in force."""
    in_force = set(credits_in_force(snapshot).values())
    for number, credit_no, is_active in followed_credits(snapshot):
        if is_active != (credit_no in in_force):
            expected = f"{'' if credit_no in in_force else 'not '}active"
            yield Difference("observation", str(number), "active" if is_active else "not active", expected)


def _shared(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that the observations of a credit are its reward, each by its weight, and that the weights are one whole.

    An imported credit may lack arms of runs that the export left out.
    """
    weights: dict[int, list[int]] = defaultdict(list)
    rules: dict[int, str] = {}
    imported: set[int] = set()
    for number, rule, reward, import_no, success, failure, is_of_act in snapshot.each(
        "SELECT c.episode_credit_no, c.rule, c.reward, c.import_no, b.success_micro, b.failure_micro,"
        " b.actor = c.actor AND b.at_ms = c.at_ms FROM observation b"
        " JOIN episode_credit c ON c.learner_id = b.learner_id AND c.episode_credit_no = b.episode_credit_no"
        " WHERE b.learner_id = ? AND b.episode_credit_no <> 0"
    ):
        weights[number].append(success + failure)
        rules[number] = rule
        imported |= {number} if import_no else set()
        amount = Amount.of(reward or 0.0, success + failure)
        if amount.success_micro != success:
            expected = plain_reward(success, success + failure)
            yield Difference("episode_credit", str(number), f"reward {reward}", f"about {expected}")
        if not is_of_act:
            yield Difference(
                "observation", f"credit {number}", "another actor or time", "those of the credit"
            )
    for number, shares in weights.items():
        is_partial = number in imported and (rules[number] == "step" or max(shares) < MICRO // len(shares))
        if sum(shares) > MICRO or (sum(shares) < MICRO and not is_partial):
            yield Difference(
                "episode_credit", str(number), f"weights that add up to {sum(shares)}", str(MICRO)
            )


def _sides(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that assigned sessions have the side of their coin."""
    for number, side in unlike_assignments(snapshot):
        yield Difference("assignment", str(number), f"side {side}", "the side of its coin")


def _state(is_active: bool, revision: int) -> str:
    return f"{'active' if is_active else 'not active'} at revision {revision}"


def _listed(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that arms are marked as imported exactly where an active import names them."""
    for key, declared in snapshot.rows(
        "SELECT a.key, a.declared FROM arm a WHERE a.learner_id = ?1"
        f" AND (a.declared & {BY_IMPORT} <> 0) <> EXISTS (SELECT 1 FROM provenance s JOIN import i"
        "   ON i.learner_id = s.learner_id AND i.import_no = s.import_no"
        "   WHERE s.learner_id = ?1 AND s.kind = 'arm' AND s.no = a.arm_no AND i.undone = 0)"
    ):
        yield Difference("arm", key, f"declared {declared}", f"declared {declared ^ BY_IMPORT}")


def _described(snapshot: Snapshot) -> Iterator[Difference]:
    """Arms have the cost and label that the imports that are not undone say."""
    rows = snapshot.rows("SELECT arm_no, key, token_cost, label FROM arm WHERE learner_id = ?")
    expected = descriptions(snapshot, [number for number, *_ in rows])
    for arm_no, key, *now in rows:
        if tuple(now) != expected[arm_no][:2]:
            yield Difference("arm", key, _words(*now), _words(*expected[arm_no][:2]))


def _words(token_cost: int | None, label: str | None) -> str:
    cost = "no known cost" if token_cost is None else f"{token_cost} tokens"
    return f"{cost}, {'no label' if label is None else f'label {label!r}'}"


def _counters(snapshot: Snapshot) -> Iterator[Difference]:
    """Numbers still to be given lie beyond those that were given, and no fact is newer than the learner."""
    for name in NUMBERED:
        for number, least in snapshot.rows(
            f'SELECT next_{name}_no, (SELECT coalesce(max({name}_no), 0) + 1 FROM "{name}"'
            " WHERE learner_id = ?1) FROM learner WHERE learner_id = ?1"
        ):
            if number < least:
                yield Difference("learner", f"next_{name}_no", str(number), f"{least} or more")
    yield from _unlike_staged(snapshot)
    for table in [name for name in NUMBERED if "revision" in metadata.tables[name].columns]:
        latest = snapshot.count_of(
            f'SELECT max(revision) FROM "{table}" WHERE learner_id = ? AND revision < ?',
            [snapshot.staged.revision or _EVER],
        )
        if latest > snapshot.revision:
            yield Difference("learner", "revision", str(snapshot.revision), f"{latest} or more ({table})")


def _unlike_staged(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that an import in progress has its number and arms, and lies beyond the learner's revision."""
    row = snapshot.row(
        "SELECT next_import_no, next_arm_no, (SELECT coalesce(max(arm_no), 0) FROM staged_arm"
        " WHERE learner_id = ?1) FROM learner WHERE learner_id = ?1"
    )
    if row is None:
        return
    if not snapshot.staged.import_no:
        if snapshot.staged.revision or snapshot.staged.parts:
            stored = f"revision {snapshot.staged.revision}, {snapshot.staged.parts} parts"
            yield Difference("learner", "staged_import_no", "0", f"the import in progress of {stored}")
        return
    next_import, next_arm, last_arm = row
    for name, number, highest in (
        ("import", next_import, snapshot.staged.import_no),
        ("arm", next_arm, last_arm),
    ):
        if number <= highest:
            yield Difference("learner", f"next_{name}_no", str(number), f"{highest + 1} or more")
    if snapshot.revision >= snapshot.staged.revision:
        revision = snapshot.staged.revision
        yield Difference(
            "learner", "revision", str(snapshot.revision), f"less than {revision}, of the staged import"
        )


def _gaps(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that each number that was given has its row, up to the last."""
    for name in _GAPLESS:
        for given, n_rows in snapshot.rows(
            f'SELECT next_{name}_no - 1, (SELECT count(*) FROM "{name}" WHERE learner_id = ?1)'
            " FROM learner WHERE learner_id = ?1"
        ):
            if given > n_rows:
                yield from _missing(snapshot, name, given)


def _missing(snapshot: Snapshot, name: str, given: int) -> Iterator[Difference]:
    """Yield the ranges of numbers without a row."""
    before = 0
    for (number,) in chain(
        snapshot.each(f'SELECT {name}_no FROM "{name}" WHERE learner_id = ? ORDER BY {name}_no'),
        [(given + 1,)],
    ):
        if number > before + 1:
            until = "" if number == before + 2 else f" to {number - 1}"
            yield Difference(name, f"{before + 1}{until}", "nothing", "a row")
        before = number


# Heads that were noted before


class Head(NamedTuple):
    """A head, and the number of its link where it was noted with it."""

    link_no: int | None
    digest: bytes

    @classmethod
    def parse(cls, text: str) -> Head:
        """Return the head of a text such as ``120:5f0c…``; raises `InvalidInput` for another form."""
        match = _FORM.fullmatch(text.strip().lower())
        if match is None:
            raise InvalidInput(
                f"A head must be the number of a link, a colon and 64 hexadecimal digits, got {text[:80]!r}.",
                next_step="Take it from the answer of armscope status, of an earlier backup or report.",
            )
        return cls(None if match[1] is None else int(match[1]), bytes.fromhex(match[2]))


def without_head(learners: Sequence[Snapshot], head: Head) -> Iterator[Difference]:
    """Yield a difference if no learner's chain has the head."""
    if any(link_with(one.connection, one.learner_id, head.digest, head.link_no) for one in learners):
        return
    where = "" if head.link_no is None else f" {head.link_no}"
    chains = "; ".join(_without(learner, head) for learner in learners) or "no learner"
    yield Difference("link", f"head{where}", chains, "a chain that has this head")


def _without(learner: Snapshot, head: Head) -> str:
    """Return how a chain without the head ends, and from where on it differs where that is known."""
    link = last_link(learner.connection, learner.learner_id)
    last, at_ms = (0, 0) if link is None else (link.link_no, link.at_ms)
    end = f"{learner.name} ends with link {last}" + (f" of {iso(at_ms)}" if at_ms else "")
    if head.link_no is None:
        return end
    if last < head.link_no:
        return f"{end}: it is an older copy, or its end was cut"
    return f"{end}: it forks at link {head.link_no} or before"
