"""Write operations of the pages. Each result or error is a toast, and a state at its control.

Acts run in callbacks, before the page is drawn again. So the next page shows the effect. An import has a thread of
its own (`dashboard.uploads`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, ParamSpec

import streamlit as st

from core import demo
from core.doors.alerting import send_test
from core.errors import ArmscopeError, Denied, InvalidInput
from core.flows import maintenance, webhooks
from core.flows.batch import reward_batch, reward_run
from core.flows.context import Context
from core.flows.corrections import note, redo, repair, reset, undo
from core.flows.credit import credit_episode
from core.flows.episode import declare
from core.flows.experiments import share_experiment, start_experiment, stop_experiment
from core.flows.identity import note_denied
from core.flows.identity import sign_out as end_sessions
from core.flows.learn import reward
from core.flows.learners import create_learner
from core.flows.queries import verify as verified
from core.flows.review import take_back as undo_all
from core.flows.settings import change_all
from core.flows.trials.plan import read_trial
from core.records.alert import PAGES_AT, WebhookRow
from core.records.answers import SettingAnswer
from core.records.arm import ArmType
from core.records.batch import BatchLine, RunRewardRule, past_effect
from core.records.corrections import Target
from core.records.episode_credit import CreditRule
from core.records.experiment import Decision, ExperimentOptions
from core.records.learner import LearnerSettings
from core.records.observation import epoch_words
from core.records.trial import TrialResults
from core.settings import base_path
from dashboard import wording
from dashboard.reading import ask_again, reading
from dashboard.sentences.alerts import tried as tried_words
from dashboard.widgets.address import arrival
from dashboard.wording import Markdown

Parameters = ParamSpec("Parameters")
_FLASHES: Final = "armscope flashes"
_RESULT: Final = "armscope result"
_LAST_ACT: Final = "armscope last act"
_LAST_TAKEN: Final = "armscope last taken back"
_DOUBLE_CLICK_S: Final = 0.8
REWARD: Final = "reward"
NEW_LEARNER: Final = "new learner"
EXCLUSION: Final = "exclusion"
EXPERIMENT: Final = "experiment"
NEW_EXPERIMENT: Final = "new experiment"
"""Controls of a reward, a new learner, excluded arms, an experiment and a new one, where their results are shown."""

UNDO_THEM: Final = "undo them"
PLAYED_ON: Final = "played on"
READ: Final = "read a trial"


# What an act has to say


@dataclass(frozen=True, kw_only=True)
class Flash:
    """Message after an act, as escaped Markdown; ``act`` is the id that undoes it."""

    text: Markdown
    failed: bool = False
    act: str | None = None


def flashes() -> list[Flash]:
    """Return the flashes since the last rerun, and clear them."""
    waiting: list[Flash] = st.session_state.pop(_FLASHES, [])
    return waiting


def say(flash: Flash) -> None:
    """Have it shown by the next rerun; a refusal stays until the next act."""
    st.session_state.setdefault(_FLASHES, []).append(flash)
    last: Result | None = st.session_state.get(_RESULT)
    if flash.failed and (last is None or last.flash != flash):
        st.session_state[_RESULT] = Result(at="", flash=flash, arrival=arrival())


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of the last act: at which control it is shown, and on which arrival at a page it was done."""

    at: str
    flash: Flash
    arrival: int


def result() -> Result | None:
    """Return the result of this person's last act, while they are on the page of its control."""
    last: Result | None = st.session_state.get(_RESULT)
    return last if last is not None and last.arrival == arrival() else None


def tried(
    otherwise: Markdown,
    act: Callable[[], Flash],
    *,
    at: str = "",
    reported_elsewhere: Callable[[ArmscopeError], bool] = lambda _: False,
) -> bool:
    """Run an act, show its result ``at`` its control, and return whether it was done.

    An error begins with ``otherwise``, our own words; one that is ``reported_elsewhere`` has no flash. Without a
    control, a refusal is shown above the page.
    """
    ask_again()
    st.session_state.pop(_RESULT, None)
    try:
        flash = act()
    except ArmscopeError as problem:
        note_refusal(problem)
        if reported_elsewhere(problem):
            return False
        flash = failure(otherwise, problem)
    st.session_state[_RESULT] = Result(at=at, flash=flash, arrival=arrival())
    if flash.failed:
        say(flash)
    else:
        done(flash)
    return not flash.failed


def as_act(
    otherwise: Markdown, *, at: str = ""
) -> Callable[[Callable[Parameters, Flash]], Callable[Parameters, None]]:
    """Return what makes a function an act that is `tried`."""

    def decorate(act: Callable[Parameters, Flash]) -> Callable[Parameters, None]:
        @wraps(act)
        def attempt(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
            tried(otherwise, partial(act, *arguments, **options), at=at)

        return attempt

    return decorate


def note_refusal(problem: ArmscopeError) -> None:
    """Count a refusal for the audit."""
    if isinstance(problem, Denied):
        context = reading().context
        note_denied(context.store, context.actor, problem.action or "act", context.clock())


@as_act("You are still signed in.")
def sign_out() -> Flash:
    """End every session of the signed-in person, copied cookies included, and leave."""
    here = reading()
    if here.session is not None:
        issued_ms, now_ms = here.session.issued_ms, here.context.clock()
        end_sessions(here.context.store, here.context.actor, now_ms=now_ms, issued_ms=issued_ms)
    st.logout()
    return Flash(text="Signed out.")


def done(flash: Flash, *, at: str = "") -> None:
    """Show the result of an act ``at`` its control, else as a toast. It is now the last act of this person."""
    st.session_state[_LAST_ACT] = flash.act
    if at:
        st.session_state[_RESULT] = Result(at=at, flash=flash, arrival=arrival())
    else:
        say(flash)


def last_act() -> str | None:
    """Return the id of what this person did last here, while it can be taken back."""
    act: str | None = st.session_state.get(_LAST_ACT)
    return act


def failure(otherwise: Markdown, problem: ArmscopeError) -> Flash:
    """Return the words for an act that failed, and the reason."""
    return Flash(text=f"{otherwise} {wording.literal(str(problem))}", failed=True)


@as_act("Nothing was played on.", at=PLAYED_ON)
def play_on(n_runs: int) -> Flash:
    """Let the world of a demo go on."""
    demo.play_on(reading().context, n_runs)
    return Flash(text=f"{wording.things(n_runs, 'run')} were played on.")


# Acts that can be taken back


@dataclass(frozen=True, kw_only=True)
class RewardForm:
    """One filled-in form; ``key`` belongs to the form, not to the click, so sending it twice counts once.

    ``seen`` is the newest reward by hand about this arm in this run that it showed, "" = none.
    """

    arm: str
    value: float
    reason: str | None = None
    run: str | None = None
    correct: bool = False
    seen: str = ""
    key: str = field(default_factory=lambda: uuid.uuid4().hex)


def send_reward(
    form: RewardForm, after: Callable[[str], None], *, reported_elsewhere: Callable[[ArmscopeError], bool]
) -> None:
    """Send the form as drawn; ``after`` gets the id of the act and clears the form."""

    def act() -> Flash:
        answer = reward(
            reading().context,
            form.arm,
            form.value,
            run=form.run,
            reason=form.reason,
            correct=form.correct,
            key=form.key,
            seen=form.seen,
        )
        after(answer.id)
        name = wording.literal(wording.short_name(form.arm))
        rounded = " The reward was rounded to millionths." if answer.rounded else ""
        effect = f"{wording.literal(answer.effect)} {wording.mean(answer.mean)}"
        return Flash(
            text=f"{name} rewarded {form.value:g}; {effect}.{rounded}",
            act=answer.id,
        )

    tried("The reward was not sent.", act, at=REWARD, reported_elsewhere=reported_elsewhere)


def _late(sentence: str) -> wording.Markdown:
    return f" {wording.literal(sentence)}" if sentence else wording.literal(sentence)


def send_batch(
    lines: Sequence[BatchLine],
    key: str,
    after: Callable[[str, str], None],
    *,
    at: str,
    reported_elsewhere: Callable[[ArmscopeError], bool] = lambda _: False,
) -> None:
    """Send many rewards as one act under the form's ``key``; the result is shown ``at`` the form.

    ``after`` gets the ids of the act and of its last reward, and clears the form.
    """

    def act() -> Flash:
        answer = reward_batch(reading().context, lines, key=key)
        after(answer.id, answer.rewards[-1].id)
        effect = _late(past_effect(answer.rewards))
        return Flash(text=f"{wording.things(answer.count, 'reward')} sent as one act.{effect}", act=answer.id)

    tried("Nothing was sent.", act, at=at, reported_elsewhere=reported_elsewhere)


@as_act("The reward was not sent.", at="run reward")
def send_run_reward(
    run: str, value: float, rule: RunRewardRule, *, correct: bool, key: str, after: Callable[[], None]
) -> Flash:
    """Reward arms of a run as one act under the form's ``key``; ``after`` begins a new form."""
    answer = reward_run(reading().context, run, value, rule=rule, correct=correct, key=key)
    if answer.why is not None:
        return Flash(text=wording.literal(answer.why), failed=True)
    after()
    effect = _late(past_effect(answer.rewards))
    return Flash(
        text=f"{wording.things(answer.count, 'arm')} rewarded {value:g} as one act.{effect}",
        act=answer.id,
    )


@as_act("The note was not written.", at="note")
def send_note(arm: str, text: str, key: str, after: Callable[[], None]) -> Flash:
    """Write a note as it was typed; ``key`` belongs to the form, so that sending it twice writes it once."""
    answer = note(reading().context, arm, text, key=key)
    after()
    return Flash(text=f"Noted about {wording.literal(wording.short_name(arm))}.", act=answer.id)


@as_act("Nothing was reset.", at="reset")
def send_reset(
    *,
    arms: tuple[str, ...],
    types: tuple[ArmType, ...],
    target: Target,
    reason: str | None,
    after: Callable[[], None],
) -> Flash:
    """Reset the arms; ``after`` clears the form."""
    answer = reset(reading().context, arms=arms, types=types, target=target, reason=reason)
    after()
    return Flash(text=f"{wording.things(answer.reset_count, 'arm')} reset.", act=answer.id)


@as_act("Nothing was read.", at=READ)
def read_results(results: TrialResults, plan: str | None) -> Flash:
    """Read the results of a trial."""
    answer = read_trial(reading().context, results, plan=plan)
    return Flash(text=f"{wording.things(answer.n_new, 'new run')} read.", act=answer.id)


@as_act("No experiment was started.", at=NEW_EXPERIMENT)
def send_experiment(arm: str, options: ExperimentOptions, *, seed: bool) -> Flash:
    """Start an experiment on an arm."""
    answer = start_experiment(reading().context, arm, seed=seed, **options)
    return Flash(text=f"{wording.literal(answer.id or '')} runs from now on.", act=answer.id)


@as_act("Nothing was changed.", at=EXPERIMENT)
def act_on_experiment(experiment: str, decision: Decision | None, share: float) -> Flash:
    """Stop an experiment with a decision about its arm, or (None) change the share of new sessions."""
    context, name = reading().context, wording.literal(experiment)
    if decision is None:
        answer = share_experiment(context, experiment, share)
        return Flash(text=f"{name} has another chance for new sessions.", act=answer.id)
    answer = stop_experiment(context, experiment, decision=decision)
    words = {"end": "assigns no new session", "keep": "keeps its arm", "exclude": "has its arm excluded"}
    return Flash(text=f"{name} {words[decision]}.", act=answer.id)


@as_act("Nothing was taken back.", at="repair")
def send_repair(arms: tuple[str, ...], since: str, until: str | None) -> Flash:
    """Take back the automatic observations of arms in a span."""
    answer = repair(reading().context, arms=arms, since=since, until=until)
    return Flash(text=f"{wording.things(answer.observation_count, 'observation')} taken back.", act=answer.id)


@as_act("Nothing was changed.", at="settings")
def send_settings(
    changes: Mapping[str, object], *, before: LearnerSettings, after: Callable[[], None]
) -> Flash:
    """Change settings unless another person changed the same ones meanwhile; ``after`` ends the drafts."""
    answers = [one for one in _changed(changes, before) if one.id is not None]
    after()
    things = wording.things(len(answers), "setting")
    act_id = answers[0].id if len(answers) == 1 else None
    return Flash(text=f"{things} changed. In force from now on; undo is below.", act=act_id)


def _changed(changes: Mapping[str, object], before: LearnerSettings) -> list[SettingAnswer]:
    """Change settings that still have the values of ``before``."""
    return change_all(reading().context, changes, seen=before)


def send_exclusion(arms: Sequence[str], *, excluded: bool, before: LearnerSettings) -> None:
    """Exclude arms from the next prompts, or let them back in, unless another user changed the setting meanwhile."""

    def act() -> Flash:
        others = [arm for arm in before.excluded_arms if arm not in set(arms)]
        after = [*others, *arms] if excluded else others
        (answer,) = _changed({"excluded_arms": after}, before)
        n = wording.things(len(arms), "arm")
        words = f"{n} excluded from the next prompts." if excluded else f"{n} may be in prompts again."
        return Flash(text=words, act=answer.id)

    tried("Nothing was excluded." if excluded else "Nothing was let back in.", act, at=EXCLUSION)


def declare_scale(environment: str, scale: Mapping[str, Any], *, at: str = "scale") -> None:
    """Declare on what scale an environment pays, or that its episodes are left out."""

    def act() -> Flash:
        answer = declare(reading().context, environment, **scale)
        n = wording.things(answer.episodes, "episode")
        if answer.scale.base == "none":
            return Flash(text=f"{n} left out of averages, success and credit.", act=answer.id)
        n = f"{wording.count(answer.successes)} of {n}"
        return Flash(text=f"The scale is declared: {n} are a success by it.", act=answer.id)

    tried("No scale was declared.", act, at=at)


@as_act("Nothing was credited.", at="credit")
def credit(uid: str, rule: CreditRule) -> Flash:
    """Credit an episode to arms of its runs, or withdraw the credit."""
    answer = credit_episode(reading().context, uid, rule)
    if answer.id is None:
        return Flash(text=f"Nothing was credited. {wording.literal(answer.why or '')}", failed=True)
    if rule == "off":
        return Flash(text="Its credit was taken away.", act=answer.id)
    shares = wording.things(len(answer.shares), "share")
    late = _late(epoch_words(answer.counted_in))
    return Flash(text=f"Credited: {shares} of one observation in all.{late}", act=answer.id)


# Taking back


def take_back(act_id: str, *, again: bool = False, at: str = "") -> None:
    """Undo an act, or redo it with ``again``. The second half of a double click does nothing.

    A person can only reverse an act after its effect was drawn.
    """
    last_id, shown_s = st.session_state.get(_LAST_TAKEN, ("", 0.0))
    if act_id == last_id and (shown_s is None or time.monotonic() - shown_s < _DOUBLE_CLICK_S):
        return

    def act() -> Flash:
        context = reading().context
        if again:
            redo(context, act_id)
        else:
            undo(context, act_id)
        st.session_state[_LAST_TAKEN] = (act_id, None)
        return Flash(text="Done again." if again else "Undone. The record stays, its effect is gone.")

    tried("Nothing was done again." if again else "Nothing was undone.", act, at=at)


def last_undone() -> str:
    """Return the id of the act that this session undid or did again last; "" without one."""
    act_id: str = st.session_state.get(_LAST_TAKEN, ("", None))[0]
    return act_id


def take_back_all(acts: Sequence[str], *, at: str = UNDO_THEM, forget: str = "") -> None:
    """Undo several acts as one, all or none, and ``forget`` a key of the session."""

    def act() -> Flash:
        answer = undo_all(reading().context, acts)
        if forget:
            del st.session_state[forget]
        n = wording.things(answer.count, "act")
        return Flash(text=f"{n} undone. The record stays, their effect is gone.", act=answer.id)

    tried("Nothing was undone.", act, at=at)


def page_has_reloaded() -> None:
    """Note that what the last act did can be seen from now on."""
    last_id, shown_s = st.session_state.get(_LAST_TAKEN, ("", 0.0))
    if shown_s is None:
        st.session_state[_LAST_TAKEN] = (last_id, time.monotonic())


# Of the whole database


@as_act("No learner was made.", at=NEW_LEARNER)
def new_learner(name: str, after: Callable[[str], None]) -> Flash:
    """Make a learner; ``after`` gets its name and goes there."""
    created = create_learner(reading().context, name)
    after(created.name)
    return Flash(text=f"{wording.literal(created.name)} is new and empty.")


def add_webhook(url: str, *, private: bool, opened_at: str | None) -> bool:
    """Add a webhook for alerts and return whether it was added. Links lead to the address of this page."""
    pages = PAGES_AT if opened_at is None else "/".join(opened_at.split("/")[:3]) + base_path()
    return _put_webhook(lambda context: webhooks.add_webhook(context, url, pages=pages, private=private))


def bring_back(one: WebhookRow) -> None:
    """Restore a removed webhook."""
    _put_webhook(
        lambda context: webhooks.add_webhook(
            context,
            one.url,
            learner=one.learner,
            pages=one.pages,
            secret_from=one.secret_from,
            private=one.private,
        )
    )


def _put_webhook(put: Callable[[Context], WebhookRow]) -> bool:
    def act() -> Flash:
        added = put(reading().context)
        return Flash(
            text=f"{wording.literal(added.id)} receives alerts from now on. A test shows whether they arrive."
        )

    return tried("No webhook was added.", act, at="webhook")


def remove_webhook(webhook: str) -> bool:
    """Remove a webhook and return whether it was removed."""

    def act() -> Flash:
        webhooks.remove_webhook(reading().context, webhook)
        return Flash(text=f"{wording.literal(webhook)} no longer receives alerts.")

    return tried("The webhook was not removed.", act, at="webhook")


@as_act("Nothing was sent.", at="webhook")
def try_webhook(webhook: str) -> Flash:
    """Send a test message and flash the result."""
    result = send_test(reading().context, webhook)
    return Flash(text=f"{wording.literal(webhook)}: {tried_words(result.result)}.", failed=not result.ok)


@as_act("Nothing was verified.", at="verify")
def verify() -> Flash:
    """Recompute every cache from the facts, and show the result."""
    verification = verified(reading().context)
    learners = wording.things(len(verification.learners), "learner")
    if verification.clean:
        return Flash(text=f"Everything equals the sum of what was recorded ({learners}).")
    differences = wording.things(verification.n_differences, "difference")
    return Flash(
        text=f"{differences} between what is kept and what was recorded. `armscope verify` lists them.",
        failed=True,
    )


@as_act("No backup was made.", at="backup")
def back_up(file: str) -> Flash:
    """Copy the whole database into a new file."""
    copied = maintenance.backup(reading().context, _path(file))
    size = wording.size(copied.size_bytes)
    return Flash(
        text=f"{size} written to {wording.literal(copied.file)}, as of revision {copied.revision:,}."
    )


def _path(file: str) -> Path:
    """Return a typed path without the server's working folder, which is private."""
    try:
        path = Path(file).expanduser()
    except RuntimeError:  # ~unknown: there is no such home
        path = Path()
    if file.isprintable() and path.is_absolute():
        return path
    raise InvalidInput(
        f"A backup's file must be a path on this machine, from its root on, got {file[:80]!r}.",
        next_step="Write it in full; the folder of the data is proposed.",
    )
