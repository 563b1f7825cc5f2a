"""Evaluations by people and models, append-only; as rows, and as the lines of an export.

With an execution or run, one evaluation of a key (subject, rater, model, rubric, claiming token) counts: the latest
active one. It supersedes earlier ones, which stay. Caches follow from the counted ones: the quality of layers
(`core.store.quality`) and observations of arms (`core.store.crediting`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, cast

import msgspec

from core.maths.evaluate import grade
from core.records.alike import alike
from core.records.browser import NamedBrowser
from core.records.evaluation import (
    EvaluationAnswer,
    EvaluationOutcome,
    Grade,
    Graders,
    Rated,
    Subject,
    evaluation_payload,
)
from core.records.evaluation_lines import CONTENT_PREFIX, EvaluationLine
from core.records.ledger_lines import PlacedLine
from core.records.observation import CountedIn, not_in_prompt
from core.records.review import judged_parts
from core.records.times import iso
from core.store.browsers import note_browsers, raters_behind
from core.store.caches import mark_runs
from core.store.crediting import credit_again, credit_first
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, BY_RUN, EVALUATIONS_BY_KEY, EVALUATIONS_BY_RUN
from core.store.quality import Placed, fold_again, gain
from core.store.reads import outcome_of
from core.store.replies import HOLDS, Reply, reply_to
from core.store.subjects import executions_of, name_again, name_subject, named_run_no, subject_no
from core.store.tables import EVALUATION_KEY, leaving_out
from core.store.transaction import Facts, Snapshot, Transaction

_COLUMNS: Final = (
    "evaluation_no",
    "uid",
    *EVALUATION_KEY,
    "blank",
    "outcome",
    "score",
    "feedback",
    "mover",
    "supersedes",
    "counts",
    "actor",
    "at_ms",
    "import_no",
    "revision",
    "standing",
    "undone",
    "changed",
)
_CREDIT: Final = ("evaluation_no", "arm_no", "weight_micro")
_KEY: Final = ", ".join(EVALUATION_KEY)
_OF_KEY: Final = (
    "learner_id = ? AND layer_no = ? AND execution_no = ? AND run_no = ? AND arm_no = ? AND rater = ? AND model = ?"
    " AND rubric = ? AND claimed_by = ? AND (execution_no <> 0 OR run_no <> 0)"
)

Key = tuple[int, int, int, int, str, str, str, str]
"""Layer, execution, run and arm by number (0 = none), rater, model, rubric, claiming token ('' = none)."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An evaluation to be. Numbers are 0 for none; a name is None where it was not given, which "" is not."""

    layer_no: int
    execution_no: int
    run_no: int
    arm_no: int
    rater: str | None
    model: str | None
    rubric: str | None
    outcome: EvaluationOutcome
    score: float | None
    feedback: str | None
    mover: Graders
    credit: Mapping[int, int]
    """Arm → weight in millionths, before raters share it."""
    actor: str
    at_ms: int
    uid: str = ""
    claimed_by: str = ""
    """The token that named the rater; "": the actor is the rater."""
    browser: NamedBrowser | None = None
    """Without sign-in: the browser, if it gave itself a name."""
    run_revision: int = 0
    """Revision of the run, if it is known to be active and to include all arms of ``credit``."""

    @property
    def key(self) -> Key:
        return (
            self.layer_no,
            self.execution_no,
            self.run_no,
            self.arm_no,
            self.rater or "",
            self.model or "",
            self.rubric or "",
            self.claimed_by,
        )

    @property
    def blank(self) -> int:
        """Names that were sent as empty texts."""
        return (self.rater == "") | (self.model == "") << 1 | (self.rubric == "") << 2


class Added(msgspec.Struct, frozen=True, gc=False):
    """An appended evaluation: its number, the superseded one's (0 = none), and those of its active observations."""

    number: int
    supersedes: int
    observations: Sequence[int]


def active_versions(facts: Facts, versions: Collection[str]) -> set[str]:
    """Return the active ones of these versions of rubrics."""
    return facts.distinct_in(
        f"SELECT version FROM rubric WHERE learner_id = ? AND {ACTIVE} AND undone = 0 AND version IN ({{}})",
        sorted(versions),
    )


def add_evaluations(txn: Transaction, judgements: Sequence[Judgement], *, import_no: int = 0) -> list[Added]:
    """Append evaluations, in their order, and let what follows from them follow."""
    txn.note_news()
    first = txn.number("evaluation", len(judgements))
    numbers = range(first, first + len(judgements))
    run_nos = {one.run_no for one in judgements} - {0}
    judged = txn.distinct_in(
        f"SELECT DISTINCT run_no FROM evaluation {EVALUATIONS_BY_RUN} WHERE learner_id = ? AND run_no <> 0"
        " AND run_no IN ({})",
        sorted(run_nos),
    )
    superseded = _superseded_by(txn, numbers, judgements, judged)
    gone = set(superseded) - {0}
    if gone:
        txn.connection.many(
            "UPDATE evaluation SET counts = 0, changed = ? WHERE learner_id = ? AND evaluation_no = ?",
            [(txn.revision, txn.learner_id, number) for number in sorted(gone) if number < first],
        )
    rows = (
        _row(txn, number, one, before, counts=number not in gone, import_no=import_no)
        for number, one, before in zip(numbers, judgements, superseded, strict=True)
    )
    txn.connection.insert("evaluation", _COLUMNS, txn.learner_id, chain.from_iterable(rows))
    credits = (
        (number, arm_no, weight)
        for number, one in zip(numbers, judgements, strict=True)
        for arm_no, weight in sorted(one.credit.items())
    )
    named = [(number, one.browser) for number, one in zip(numbers, judgements, strict=True) if one.browser]
    if named:
        note_browsers(txn, named)
    if run_nos:
        txn.connection.insert("credit", _CREDIT, txn.learner_id, chain.from_iterable(credits))
        mark_runs(txn, run_nos)
    if not import_no:  # an import has named its subjects
        layers = {one.layer_no for one in judgements}
        name_again(txn, {"layer": layers, "execution": {one.execution_no for one in judgements}})
    _gain(txn, numbers, judgements, superseded)
    observations = _credit(txn, numbers, judgements, superseded, judged) if run_nos else {}
    return [
        Added(number, before, observations.get(number, ()))
        for number, before in zip(numbers, superseded, strict=True)
    ]


def _superseded_by(
    txn: Transaction, numbers: Sequence[int], judgements: Sequence[Judgement], judged: Collection[int]
) -> list[int]:
    """Return the evaluation that each new one supersedes, 0 = none; ``judged`` are runs with earlier ones."""
    keys = [one.key if one.execution_no or one.run_no else None for one in judgements]
    counting = _counting_of(
        txn, {key for key in keys if key is not None and (not key[2] or key[2] in judged)}
    )
    superseded: list[int] = []
    for number, key in zip(numbers, keys, strict=True):
        superseded.append(0 if key is None else counting.get(key, 0))
        if key is not None:
            counting[key] = number
    return superseded


def _counting_of(txn: Transaction, keys: Collection[Key]) -> dict[Key, int]:
    """Return the counted evaluation of each key, if any."""
    sought: dict[tuple[int, str], set[int]] = defaultdict(set)
    for layer_no, execution_no, run_no, *_ in keys:
        by, value = (
            ("execution_no", execution_no) if execution_no else ("execution_no = 0 AND run_no", run_no)
        )
        sought[layer_no, by].add(value)
    counting: dict[Key, int] = {}
    for (layer_no, by), values in sought.items():
        for number, *key in txn.connection.rows_in(
            f"SELECT evaluation_no, {_KEY} FROM evaluation {EVALUATIONS_BY_KEY} WHERE learner_id = ? AND layer_no = ?"
            f" AND counts = 1 AND (execution_no <> 0 OR run_no <> 0) AND {by} IN ({{}})",
            [txn.learner_id, layer_no],
            sorted(values),
        ):
            counting[cast("Key", tuple(key))] = number
    return counting


def _row(
    txn: Transaction, number: int, one: Judgement, before: int, *, counts: bool, import_no: int
) -> tuple[object, ...]:
    return (
        number,
        one.uid,
        *one.key,
        one.blank,
        one.outcome,
        one.score,
        one.feedback,
        one.mover,
        before,
        int(counts),
        one.actor,
        one.at_ms,
        import_no,
        txn.revision,
        1,
        0,
        txn.revision,
    )


def _gain(
    txn: Transaction, numbers: Sequence[int], judgements: Sequence[Judgement], superseded: Sequence[int]
) -> None:
    """Add new evaluations to quality; then fold layers with superseded ones again, and their heads.

    The head comes last, because it includes the other layers: before them it would count twice.
    """
    again = {
        one.layer_no for one, before in zip(judgements, superseded, strict=True) if before and one.layer_no
    }
    gain(
        txn,
        [
            Placed(
                txn.revision,
                number,
                one.layer_no,
                Rated(
                    outcome=one.outcome, score=one.score, rater=one.rater, model=one.model, at_ms=one.at_ms
                ),
            )
            for number, one in zip(numbers, judgements, strict=True)
            if one.layer_no and one.layer_no not in again
        ],
    )
    fold_again(txn, sorted(again))


def _credit(
    txn: Transaction,
    numbers: Sequence[int],
    judgements: Sequence[Judgement],
    superseded: Sequence[int],
    judged: Collection[int],
) -> dict[int, list[int]]:
    """Compute the shares of arms; return each evaluation's observations. Runs in ``judged`` had earlier ones."""
    gone = set(superseded)
    again: set[int] = set()
    claims: list[Row] = []
    for number, one, before in zip(numbers, judgements, superseded, strict=True):
        if not one.run_no or not (one.credit or before):
            continue
        if one.run_no in judged or not 0 < one.run_revision <= txn.revision:
            again.add(one.run_no)
        elif number not in gone:
            claims += [_claim(txn, number, one, *credit) for credit in one.credit.items()]
    return credit_first(txn, claims) | credit_again(txn, sorted(again))


def _claim(txn: Transaction, number: int, one: Judgement, arm_no: int, weight: int) -> Row:
    """Return a new evaluation's claim about an arm, as it would be read."""
    return (
        one.run_no,
        txn.revision,
        number,
        arm_no,
        weight,
        one.rater,
        one.model,
        one.mover,
        one.outcome,
        one.score,
        one.actor,
        one.at_ms,
        one.run_revision,
    )


def settle_evaluations(txn: Transaction, numbers: Sequence[int]) -> None:
    """Recompute counts and caches after a change of evaluations: of each key the latest active one counts."""
    rows = txn.rows_in(
        f"SELECT evaluation_no, standing, undone, counts, {_KEY} FROM evaluation"
        " WHERE learner_id = ? AND evaluation_no IN ({})",
        sorted(set(numbers)),
    )
    layers: set[int] = set()
    runs: set[int] = set()
    settled: set[Row] = set()
    for number, is_active, undone, counts, *key in rows:
        layers.add(key[0])
        runs.add(key[2])
        if not key[1] and not key[2]:
            is_in_force = int(bool(is_active) and not undone)
            if is_in_force != counts:
                _count(txn, number, is_in_force)
        elif tuple(key) not in settled:
            settled.add(tuple(key))
            _settle_key(txn, key)
    fold_again(txn, sorted(layers - {0}))
    credit_again(txn, sorted(runs - {0}))
    mark_runs(txn, runs - {0})


def _settle_key(txn: Transaction, key: Sequence[object]) -> None:
    rows = txn.rows(
        f"SELECT revision, evaluation_no, counts, CASE WHEN {ACTIVE} AND undone = 0 THEN 1 ELSE 0 END"
        f" FROM evaluation WHERE {_OF_KEY} ORDER BY revision, evaluation_no",
        key,
    )
    latest = next((number for _, number, _, is_in_force in reversed(rows) if is_in_force), 0)
    for _, number, counts, _ in rows:
        if counts and number != latest:
            _count(txn, number, 0)
    for _, number, counts, _ in rows:
        if number == latest and not counts:
            _count(txn, number, 1)


def _count(txn: Transaction, number: int, counts: int) -> None:
    txn.set_row("evaluation", "evaluation_no = ?", [number], counts=counts)


def counting_evaluations(facts: Facts) -> dict[int, int]:
    """Return which evaluations count, by the active ones; number → 0 or 1."""
    latest: dict[Row, int] = {}
    counting: dict[int, int] = {}
    for number, is_in_force, *key in facts.each(
        f"SELECT evaluation_no, CASE WHEN {ACTIVE} AND undone = 0 THEN 1 ELSE 0 END, {_KEY} FROM evaluation"
        " WHERE learner_id = ? ORDER BY revision, evaluation_no"
    ):
        counting[number] = is_in_force
        if is_in_force and (key[1] or key[2]):
            before = latest.get(tuple(key))
            if before is not None:
                counting[before] = 0
            latest[tuple(key)] = number
    return counting


# Rows → lines


def evaluation_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone evaluations as lines with their keys, never before their run."""
    unless, left_out = leaving_out("e.evaluation_no", snapshot.hidden)
    for row in snapshot.each(
        "SELECT CASE WHEN r.revision > e.revision THEN r.revision ELSE e.revision END AS since, e.evaluation_no,"
        " e.uid, l.uid, x.uid, r.uid, a.key, e.rater, e.model, e.rubric, e.blank, e.outcome, e.score, e.feedback,"
        " e.mover, e.actor, e.at_ms, e.revision, e.undone, p.key, e.claimed_by, j.browser, j.named, j.person"
        " FROM evaluation e"
        " LEFT JOIN judged_in j ON j.learner_id = e.learner_id AND j.evaluation_no = e.evaluation_no"
        " LEFT JOIN layer l ON l.learner_id = e.learner_id AND l.layer_no = e.layer_no AND e.layer_no > 0"
        " LEFT JOIN execution x ON x.learner_id = e.learner_id AND x.execution_no = e.execution_no"
        " LEFT JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no AND e.run_no > 0"
        " LEFT JOIN arm a ON a.learner_id = e.learner_id AND a.arm_no = e.arm_no AND e.arm_no > 0"
        " LEFT JOIN reply p ON p.learner_id = e.learner_id AND p.kind = 'evaluation' AND p.no = e.evaluation_no"
        f" AND {HOLDS}"
        f" WHERE e.learner_id = ?1 AND e.{ACTIVE} AND coalesce(r.standing, 1) > 0{unless}"
        " ORDER BY since, e.revision, e.evaluation_no",
        left_out,
    ):
        yield row[0], _line(snapshot, row[1:])


def _line(snapshot: Snapshot, row: Sequence[object]) -> EvaluationLine:
    number, uid, layer, execution, run, arm, rater, model, rubric, blank, *rest = row
    outcome, score, feedback, mover, actor, at_ms, revision, undone, key, claimed_by, *browser = rest
    assert isinstance(number, int) and isinstance(blank, int)  # noqa: S101, PT018 - narrows for the type checker
    weights = snapshot.rows(
        "SELECT a.key, c.weight_micro FROM credit c JOIN arm a ON a.learner_id = c.learner_id AND a.arm_no = c.arm_no"
        " WHERE c.learner_id = ? AND c.evaluation_no = ? ORDER BY a.key",
        [number],
    )
    return msgspec.convert(
        {
            "id": uid or f"{snapshot.origin}/evaluation-{number}",
            "outcome": outcome,
            "layer": layer,
            "execution": execution,
            "run": run,
            "arm": arm,
            "score": score,
            "feedback": feedback,
            **{
                name: stored_name(str(value), blank, index)
                for index, (name, value) in enumerate(
                    (("rater", rater), ("model", model), ("rubric", rubric))
                )
            },
            "mover": mover,
            "credit": [{"arm": key, "weight_micro": weight} for key, weight in weights],
            "by": actor,
            "at_ms": at_ms,
            "revision": revision,
            "undone": bool(undone),
            "key": key,
            "claimed_by": claimed_by or None,
            **dict(zip(NamedBrowser._fields, browser, strict=True)),
        },
        EvaluationLine,
    )


def stored_name(stored: str, blank: int, bit: int) -> str | None:
    """A name as it was given: None for none, which "" is not.

    >>> stored_name("", 2, 1), stored_name("", 2, 0), stored_name("mara", 0, 0)
    ('', None, 'mara')
    """
    return stored if stored or blank >> bit & 1 else None


# Lines → rows


def read_evaluation(txn: Transaction, line: EvaluationLine, import_no: int) -> int:
    """Append an imported evaluation; return its number."""
    run_no = named_run_no(txn, "Evaluation", line.id, line.run)
    arm_no = 0 if line.arm is None else txn.arm_no_of(line.arm)
    if arm_no:
        flags = outcome_of(txn, run_no, arm_no)
        if flags is None or not flags & judged_parts(line.rubric):
            raise not_in_prompt(line.arm or "", run_no)
    one = alike(
        Judgement,
        line,
        layer_no=0 if line.layer is None else name_subject(txn, "layer", line.layer, import_no),
        execution_no=0
        if line.execution is None
        else name_subject(txn, "execution", line.execution, import_no),
        run_no=run_no,
        arm_no=arm_no,
        credit={txn.arm_no_of(credit.arm): credit.weight_micro for credit in line.credit},
        actor=line.by or txn.actor.name,
        at_ms=txn.now_ms if line.at_ms is None else line.at_ms,
        uid=line.id,
        claimed_by=line.claimed_by or txn.actor.token_name,
        browser=NamedBrowser(line.browser, line.named or "", line.person or "") if line.browser else None,
    )
    return add_evaluations(txn, [one], import_no=import_no)[0].number


def evaluation_again(txn: Transaction, number: int, import_no: int) -> None:
    """Record an import's copy of a known evaluation, and with it the names of its subject."""
    row = txn.row(
        "SELECT layer_no, execution_no FROM evaluation WHERE learner_id = ? AND evaluation_no = ?", [number]
    )
    layer_no, execution_no = row or (0, 0)
    name_again(txn, {"layer": [layer_no], "execution": [execution_no]}, import_no)


def alike_evaluation(txn: Transaction, line: EvaluationLine) -> int | None:
    """Return the known evaluation with the content of a line whose id is a digest of its content.

    Such a line is a training row, which repeats an execution's or run's evaluation for each pair. So all that count
    for the pair are compared, and the ones they superseded. None without a match.
    """
    if not line.id.startswith(CONTENT_PREFIX) or line.layer is None or line.execution is None:
        return None
    layer_no = subject_no(txn, "layer", line.layer)
    execution = executions_of(txn, [line.execution.lower()]).get(line.execution.lower())
    if layer_no is None or execution is None:
        return None
    execution_no, run_no = execution.execution_no, execution.run_no
    raters = raters_behind(txn, line.rater or "")
    # A row for training does not name the token that claimed it.
    tokens = txn.column(
        "SELECT DISTINCT claimed_by FROM evaluation WHERE learner_id = ? AND claimed_by <> '' ORDER BY claimed_by"
    )
    whom = [(one, line.model or "", line.rubric or "", token) for one in raters for token in ("", *tokens)]
    places = {(layer_no, execution_no), (0, execution_no), (layer_no, 0), (0, 0)}
    for index in sorted(places, reverse=True):
        for of_run in sorted({run_no, 0}, reverse=True):
            keys = [(*index, of_run, 0, *who) for who in whom] if index[1] or of_run else []
            counting = _counting_of(txn, keys)
            for key in keys:
                match = _alike(txn, counting.get(key, 0), line)
                if match is not None:
                    return match
    return None


def _alike(txn: Transaction, number: int, line: EvaluationLine) -> int | None:
    """The one of an evaluation, and those whose place it took, that says what a line says."""
    while number:
        row = txn.row(
            "SELECT supersedes, at_ms, outcome, score, feedback FROM evaluation"
            " WHERE learner_id = ? AND evaluation_no = ?",
            [number],
        )
        assert row is not None  # noqa: S101 - its number was read
        supersedes, at_ms, *content = row
        if content == [line.outcome, line.score, line.feedback] and line.at_ms in {None, at_ms}:
            return number
        number = supersedes
    return None


# What its request is answered with


def evaluation_request(line: EvaluationLine) -> int:
    """Return the digest of the request that made an imported evaluation."""
    layer, execution = (line.layer or "").lower(), (line.execution or "").lower()
    subject = Subject(layer=layer, execution=execution, run=line.run or "", arm=line.arm or "")
    return evaluation_payload(subject, line.order())


def evaluation_reply(txn: Transaction, line: EvaluationLine, number: int) -> Reply:
    """Return the answer to that request here."""
    answer = answer_of(txn, number)
    return reply_to("evaluation", number, evaluation_request(line), answer)


def answer_of(facts: Facts, number: int) -> EvaluationAnswer:
    """Return the answer for a stored evaluation, by the thresholds in force."""
    row = facts.row(
        "SELECT l.uid, x.uid, r.uid, a.key, e.outcome, e.score, e.rater, e.model, e.rubric, e.supersedes, e.at_ms,"
        " e.run_no"
        " FROM evaluation e"
        " LEFT JOIN layer l ON l.learner_id = e.learner_id AND l.layer_no = e.layer_no"
        " LEFT JOIN execution x ON x.learner_id = e.learner_id AND x.execution_no = e.execution_no"
        " LEFT JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no"
        " LEFT JOIN arm a ON a.learner_id = e.learner_id AND a.arm_no = e.arm_no"
        " WHERE e.learner_id = ? AND e.evaluation_no = ?",
        [number],
    )
    assert row is not None  # noqa: S101 - it was just written
    layer, execution, run, arm, outcome, score, rater, model, rubric, supersedes, at_ms, run_no = row
    moved = facts.column(
        f"SELECT observation_no FROM observation {BY_RUN} WHERE learner_id = ? AND run_no = ? AND run_no <> 0"
        f" AND evaluation_no = ? AND {ACTIVE} ORDER BY observation_no",
        [run_no, number],
    )
    return answered(
        Added(number, supersedes, moved),
        Subject(layer=layer or "", execution=execution or "", run=run or "", arm=arm or ""),
        outcome,
        score,
        grade(outcome, score, rater=rater, model=model, rubric=rubric, thresholds=facts.settings.thresholds),
        rated_at=iso(at_ms) or "",
    )


def answered(
    added: Added,
    subject: Subject,
    outcome: EvaluationOutcome,
    score: float | None,
    graded: Grade,
    *,
    rated_at: str,
    warnings: tuple[str, ...] = (),
    counted: tuple[CountedIn, ...] = (),
) -> EvaluationAnswer:
    """Return the answer for an evaluation with its grade."""
    return EvaluationAnswer(
        id=f"evaluation-{added.number}",
        uri=subject.uri,
        outcome=outcome,
        score=score,
        signed_score=graded.signed_score,
        quality_bonus=graded.quality_bonus,
        grader_kind=graded.grader_kind,
        label=graded.label,
        exportable_for_sft=graded.exportable_for_sft,
        exportable_for_preference=graded.exportable_for_preference,
        sft_blockers=graded.sft_blockers,
        preference_blockers=graded.preference_blockers,
        supersedes=f"evaluation-{added.supersedes}" if added.supersedes else None,
        observation=f"reward-{min(added.observations)}" if added.observations else None,
        arms=len(added.observations),
        rated_at=rated_at,
        warnings=warnings,
        counted_in=counted,
    )
