"""Findings: the page of each row of the attention list, with its numbers, its rows and the act that fits.

`KINDS` has a row for each kind. A kind without an act says why none fits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import streamlit as st

from core.explained import chance_words
from core.explained.runs import LEDGER
from core.explained.table import Field, Row, Table, count, mean, text, time
from core.flows.queries import MAX_EVIDENCE_ARMS
from core.formats.strict import utc_ms_of
from core.maths.statistics.overview import Attention, AttentionKind
from core.records.evaluation_page import Evaluation, EvaluationFilter
from dashboard import actions, pages, queries, wording
from dashboard.pages import Page
from dashboard.reading import reading
from dashboard.sentences import Phrase, composed, judging
from dashboard.sentences import data as data_sentences
from dashboard.sentences import evidence as sentences
from dashboard.sentences import overview as overview_sentences
from dashboard.sentences import savings as savings_sentences
from dashboard.sentences.settings import setting_effects
from dashboard.widgets import address, environment, evidence, experiments, run_table, savings
from dashboard.widgets.charts import table_once
from dashboard.widgets.fields import choice
from dashboard.widgets.opening import open_one, opening_records
from dashboard.widgets.parts import (
    as_table,
    empty,
    link,
    muted,
    no_arms,
    panel,
    section,
    sentence,
    small,
    small_table,
)
from dashboard.widgets.results import result
from dashboard.widgets.tables import frame_of
from dashboard.wording import Markdown, Words

RUBRIC: Final = "parting_rubric"
_MOST_JUDGED: Final = 2_000
_MOST_ROWS: Final = 50
_PHONE: Final = {"type": 48, "arm": 150, "last": 110}
_PHONE_BESIDE: Final = {"mine": 84, "others": 120, "what": 150}


class Finding(NamedTuple):
    """Finding of the address; ``item`` is None once the overview no longer names it."""

    kind: AttentionKind
    item: Attention | None
    arms: tuple[str, ...]
    since_ms: int | None


class Kind(NamedTuple):
    """Drawing of a kind: its rows, the act that fits (None: none does), and the page with the rest."""

    rows: Callable[[Attention], None]
    act: Callable[[Attention], None] | None
    page: Page


def requested() -> Finding | None:
    """Return the finding of the address; else the page says what to do instead."""
    known = queries.everything().columns.places
    if not known:
        no_arms("The evidence of a finding")
        return None
    named = [arm for arm in dict.fromkeys(st.query_params.get_all(address.EVIDENCE_ARM)) if arm in known]
    kind, of = (st.query_params.get(name, "") for name in (address.FINDING, address.FINDING_OF))
    item = next((one for one in queries.overview().attention if _is_named(one, kind, of, named)), None)
    since_ms, _ = utc_ms_of(st.query_params.get(address.EVIDENCE_SINCE, ""))
    if item is not None and item.kind in evidence.CHANGES:
        named, since_ms = named or [*item.arms], since_ms or item.began_ms
    named_kind = next((one for one in KINDS if one == kind), None if item is None else item.kind)
    if named_kind is None and not (named and since_ms is not None):
        _nothing_named(is_named=bool(named))
        return None
    return Finding(named_kind or "poisoned", item, tuple(named[:MAX_EVIDENCE_ARMS]), since_ms)


def _is_named(one: Attention, kind: str, of: str, arms: Sequence[str]) -> bool:
    if arms:
        return one.kind in evidence.CHANGES & {kind or one.kind} and not {*arms}.isdisjoint(one.arms)
    return one.kind == kind and (not of or of in one.about)


def _nothing_named(*, is_named: bool) -> None:
    empty(
        ("No change is known of this arm.",) if is_named else ("No finding is named here.",),
        "This page shows a finding of the overview with its evidence.",
        rows={"needed": ["an arm", "a time"], "now": ["named" if is_named else "none", "none"]},
        to_do="**Open it from a row** of “Needs attention” on the overview.",
        shell=None,
        elsewhere=(pages.OVERVIEW, Words("Overview")),
    )


def draw(known: Finding) -> None:
    """Draw the page of a finding: what changed for some arms, or the rows of another kind."""
    item = known.item
    if known.arms and known.since_ms is not None:
        evidence.draw(known.arms if item is None else item.arms, known.since_ms, known.kind, _claimed(item))
    elif item is None:
        sentence(composed("This finding is ", Phrase(Words("gone")), "."), reading().tokens)
        muted("The overview no longer names it.")
        last = actions.result()
        result("" if last is None else last.at)
        link(pages.OVERVIEW, "Back to the overview")
    else:
        _draw_rows(item)


def _claimed(item: Attention | None) -> tuple[Markdown, Markdown]:
    """Return the claim and the evidence of a row, in the words of the overview."""
    if item is None:
        return Words(""), Words("")
    frame = reading().frame
    claim = overview_sentences.attention(
        item, queries.savings(), min_pulls=frame.settings.min_pulls, year_of_ms=frame.last_at_ms
    )
    return claim.claim, wording.without_stop(claim.evidence)


def _draw_rows(item: Attention) -> None:
    claim, numbers = _claimed(item)
    sentence(composed(Phrase(claim), "."), reading().tokens)
    muted(f"{wording.capital(numbers)}.")
    kind = KINDS[item.kind]
    left, right = st.columns([64, 36], gap="large")
    with left, panel("What is behind it"):
        kind.rows(item)
    with right, panel("What to do", still="nothing was changed"):
        section("What to do")
        with st.container(border=True, gap="small"):
            st.markdown(sentences.WHY[item.kind])
            if kind.act is not None:
                kind.act(item)
        if reading().may(kind.page.needs):
            link(kind.page, kind.page.title, **_whole(item))


def _whole(item: Attention) -> dict[str, str]:
    """Return the parameters of the page with the rest, where it names an object."""
    if item.harm is not None:
        return {address.TRIAL: item.harm.experiment}
    if item.paid is not None:
        return {address.ENVIRONMENT: item.paid.environment}
    if item.manual is not None:
        return {address.ARM: item.arms[0]}
    return {address.REVIEW_QUEUE: item.overdue[0].queue} if item.overdue else {}


# Rows


def _arms(item: Attention) -> None:
    """Draw the arms with their last use, and whether they still come into prompts; a click opens one."""
    known, judged = queries.everything(), queries.judgements()
    columns, places = known.columns, known.columns.places
    table: Table[str] = Table(
        arm=Field("arm", lambda arm: arm, "arm", width=216),
        last=time("last observed", lambda arm: judged[arm].last_at_ms, "never", width=126),
        mean=mean("mean", lambda arm: judged[arm].mean, width=60),
        pulls=count("pulls", lambda arm: judged[arm].pulls, width=60),
        tokens=count("tokens", lambda arm: max(int(columns.token_cost[places[arm]]), 0) or None, width=66),
        chance=text("in prompts", lambda arm: chance_words(judged[arm].chance), width=80),
    )
    arms = [arm for arm in item.arms if arm in judged]
    section("The arms", "most urgent first")
    alt = f"{wording.things(len(arms), 'arm')} with last use and chance of inclusion"
    chosen = opening_records(
        table, arms, _PHONE, name="arms of a finding", rest="type", alt=alt, cache_key=(item.kind, *arms)
    )
    if chosen is not None:
        open_one(pages.ARM, chosen)


def _records(title: Words, note: Markdown, table: Table[Row], rows: Sequence[Row]) -> None:
    section(title, note)
    as_table(frame_of(table, rows, year_of_ms=reading().frame.last_at_ms), alt=title)


def _imports(item: Attention) -> None:
    """Draw the feeds that stopped, the lines that were rejected, and the latest imports."""
    if item.feeds:
        section("What stopped", "expected by day of the week")
        small_table(
            {
                "feed": [f"{one.kind} {wording.short(one.name)}" for one in item.feeds],
                "days": [one.days for one in item.feeds],
                "expected since": [f"{one.expected:,.0f}" for one in item.feeds],
            },
            alt="Feeds that stopped",
        )
    done = [one for one in queries.imports() if not one.undone]
    rejected = [line for one in done for line in one.answer.rejected]
    if item.kind == "rejected_lines":
        n = f"the first {wording.count(len(rejected))} of {wording.count(item.count)}"
        _records(Words("Lines rejected"), n, data_sentences.REJECTED, rejected)
    else:
        _records(Words("Imports"), Words("the latest first"), data_sentences.IMPORTS, done[:_MOST_ROWS])


def _runs(item: Attention) -> None:
    runs = queries.runs_without_tokens(reading().view)
    more = "; the latest" if len(runs) < item.count else ""
    section("Runs without tokens", f"those of earlier policies too{more}")
    run_table.table(runs)


def _queues(item: Attention) -> None:
    section("Overdue queues")
    due = [wording.minute(one.due_ms, year_of_ms=reading().frame.last_at_ms) for one in item.overdue]
    names = [wording.short(one.name) for one in item.overdue]
    small_table(
        {"queue": names, "open items": [one.n_open for one in item.overdue], "due": due}, alt="Overdue queues"
    )


def _experiment(item: Attention) -> None:
    if item.harm is not None:
        experiments.picture(queries.experiment(item.harm.experiment))
        experiments.measures(queries.experiment(item.harm.experiment))


def _environment(item: Attention) -> None:
    if item.paid is not None:
        story = queries.environment(item.paid.environment)
        (environment.findings if item.kind == "reward_hacked" else environment.success_over_time)(story)


def _savings(item: Attention) -> None:
    saved = queries.savings()
    section("Baseline against selected", "difference: selected minus baseline, at the same mix")
    alt = "Tokens, duration and errors of both groups"
    table_once(
        "groups of a finding", lambda: savings_sentences.comparison_table(saved, wording.literal), alt=alt
    )
    if item.kind == "part_costs_more":
        savings.by_part(saved)
    section("What was left out, and why")
    alt = "Runs that take no part in the comparison, and why"
    table_once("left out of a finding", lambda: savings_sentences.left_out_table(saved), alt=alt)


def _rewards(item: Attention) -> None:
    if item.manual is not None:
        acts = {*item.manual.acts}
        rows = [one for one in queries.rewards(_MOST_JUDGED, everyone=True) if one.id in acts]
        table = LEDGER.only("at", "arm", "reward", "run", "state")
        _records(
            Words("Rewards"),
            f"by {wording.short(item.manual.actor)}, the latest first",
            table,
            rows[:_MOST_ROWS],
        )


# A rater beside the others


class _Beside(NamedTuple):
    """One item: what this rater judged, and how often the others judged each outcome."""

    row: Evaluation
    others: Counter[str]

    @property
    def differs(self) -> float:
        """The share of the others who judged another outcome; below 0 without others."""
        n = self.others.total()
        return (n - self.others[self.row.outcome]) / n if n else -1.0


_BESIDE: Final[Table[_Beside]] = Table(
    what=text("what", lambda one: judging.judged(one.row, judging.layer_names(queries.layers())), width=200),
    at=time("judged", lambda one: one.row.at_ms, width=98),
    run=text("run", lambda one: None if one.row.run_no is None else f"run {one.row.run_no:,}", width=72),
    mine=text("this rater", lambda one: one.row.outcome, width=84),
    others=text(
        "the others", lambda one: ", ".join(f"{n} {name}" for name, n in one.others.most_common()), width=150
    ),
    rubric=text("rubric", lambda one: judging.rubric_name(one.row.rubric or ""), width=90),
)


def _beside(item: Attention) -> list[_Beside]:
    """Return what a rater judged, beside the others, the plainest differences first."""
    if item.parting is None:
        return []
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    grader = item.parting.grader
    for one in queries.evaluations(EvaluationFilter(), limit=_MOST_JUDGED).rows:
        if one.grader != grader and one.grader.kind != "unknown":
            outcomes[one.subject.uri][one.outcome] += 1
    rows = queries.evaluations(EvaluationFilter(rater=grader.name, kind=grader.kind), limit=_MOST_JUDGED).rows
    return sorted((_Beside(one, outcomes[one.subject.uri]) for one in rows), key=lambda one: -one.differs)


def _judgements(item: Attention) -> None:
    rows = [one for one in _beside(item) if one.others]
    n = sum(one.differs > 0 for one in rows)
    section(
        "The same items",
        f"another rater differs on {wording.count(n)} of {wording.count(len(rows))}; these first",
    )
    chosen = opening_records(
        _BESIDE.filled(rows),
        rows[:_MOST_ROWS],
        _PHONE_BESIDE,
        name="beside the others",
        rest="rubric",
        alt="Items that this rater and others judged",
        cache_key=tuple(one.row.id for one in rows[:_MOST_ROWS]),
    )
    if chosen is not None and chosen.row.subject.run:
        open_one(pages.RUN, chosen.row.subject.run)


# Acts


def _exclude(item: Attention) -> None:
    evidence.exclusion(item.arms, until=Words(""))


def _take_back(acts: Sequence[str], label: Markdown) -> None:
    """Draw the button that undoes several acts as one, with what moves."""
    if acts and reading().may("undo"):
        environment.moved(queries.preview_undo(*acts))
    st.button(
        label,
        icon=":material/undo:",
        type="primary",
        disabled=not acts or not reading().may("undo"),
        key="take all back",
        on_click=actions.take_back_all,
        args=(tuple(acts),),
    )
    result(actions.UNDO_THEM)


def _undo_rewards(item: Attention) -> None:
    if item.manual is not None:
        _take_back(item.manual.acts, f"Take back {wording.things(len(item.manual.acts), 'reward')}")


def _undo_judgements(item: Attention) -> None:
    """Take back the active evaluations of this rater by one rubric."""
    rows = _beside(item)
    by_rubric = Counter(one.row.rubric or "" for one in rows)
    words = {name: wording.literal(judging.rubric_name(name)) for name, _ in by_rubric.most_common()}
    rubric = next(iter(words), "")
    if len(words) > 1:
        rubric = choice("Rubric", words, rubric, key=RUBRIC, labelled=True, bound=False)
    going = [one for one in rows if (one.row.rubric or "") == rubric]
    differ, rest = (wording.count(sum(one.differs > 0 for one in part)) for part in (going, rows))
    st.markdown(f"{differ} of the {rest} items that differ would lose this rater’s judgement.")
    of = f" by {words[rubric]}" if len(words) > 1 else ""
    _take_back([one.row.id for one in going], f"Take back {wording.things(len(going), 'evaluation')}{of}")


def _set(name: str, value: object, label: Words) -> Callable[[Attention], None]:
    """Return what draws the button that changes a setting, with its effect; None: the recommended rate."""

    def draw_button(_: Attention) -> None:
        here = reading()
        changes = {name: queries.savings().recommended_rate if value is None else value}
        if changes[name] in {None, getattr(here.frame.settings, name)}:
            result("settings")
            return
        st.markdown(small(Markdown(" ".join(setting_effects(queries.preview_settings(changes))))))
        st.button(
            label,
            type="primary",
            disabled=not here.may("settings"),
            key=f"set {name}",
            on_click=actions.send_settings,
            args=(changes,),
            kwargs={"before": here.frame.settings, "after": lambda: None},
        )
        result("settings")

    return draw_button


def _decide(item: Attention) -> None:
    if item.harm is not None:
        experiments.state(queries.experiment(item.harm.experiment))


def _leave_out(item: Attention) -> None:
    """Leave the episodes of an environment out of averages and credit, or declare its scale."""
    if item.paid is not None:
        environment.leave_out(queries.environment(item.paid.environment))
        with st.expander("If the scale is wrong"):
            environment.scale_form(queries.environment(item.paid.environment))


def _record_tokens(_: Attention) -> None:
    st.code(sentences.RECORD_TOKENS, language=None, wrap_lines=True)


_SET_RATE: Final = _set("baseline_rate", None, Words("Set the recommended baseline rate"))
KINDS: Final[dict[AttentionKind, Kind]] = {
    **dict.fromkeys(evidence.CHANGES, Kind(_arms, None, pages.POSTERIORS)),
    "never_referenced": Kind(_arms, _exclude, pages.POSTERIORS),
    "stale_arms": Kind(_arms, _exclude, pages.POSTERIORS),
    "under_explored": Kind(_arms, None, pages.CONFIDENCE),
    "silent": Kind(_imports, None, pages.DATA),
    "feed_silent": Kind(_imports, None, pages.DATA),
    "rejected_lines": Kind(_imports, None, pages.DATA),
    "raters_part": Kind(_judgements, _undo_judgements, pages.EVALUATIONS),
    "rewards_apart": Kind(_rewards, _undo_rewards, pages.ARM),
    "reward_burst": Kind(_rewards, _undo_rewards, pages.ARM),
    "queue_overdue": Kind(_queues, None, pages.REVIEW),
    "experiment_harms": Kind(_experiment, _decide, pages.TRIALS),
    "reward_hacked": Kind(_environment, _leave_out, pages.ENVIRONMENT),
    "success_fell": Kind(_environment, None, pages.ENVIRONMENT),
    "costs_more": Kind(_savings, _set("phase", "passive", Words("Make it passive")), pages.SAVINGS),
    "part_costs_more": Kind(_savings, None, pages.SAVINGS),
    "savings_not_proven": Kind(_savings, _SET_RATE, pages.SAVINGS),
    "no_baseline_runs": Kind(_savings, _SET_RATE, pages.SAVINGS),
    "baseline_share_off": Kind(_savings, None, pages.SAVINGS),
    "unknown_usage": Kind(_runs, _record_tokens, pages.SAVINGS),
    "uncompared": Kind(_savings, None, pages.SAVINGS),
    "passive": Kind(_savings, _set("phase", "active", Words("Make it active")), pages.SETTINGS),
}
