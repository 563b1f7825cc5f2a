"""Settings form: drafts, each checked where it is typed, with their effect, sent together.

A draft begins from the value in force. If another person changes the setting meanwhile, the draft shows it and can't
be sent. Settings without a draft follow the value in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
import streamlit as st

from core.records.learner import LearnerSettings
from dashboard import actions, queries, sentences, wording
from dashboard.reading import reading
from dashboard.widgets.results import result
from dashboard.widgets.settings.fields import FIELDS, Raw
from dashboard.widgets.words import muted, small, small_table
from dashboard.wording import Markdown, Words

PART: Final = "part"
_BASE: Final = "armscope settings seen"


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """``changes`` are the drafts by setting, as JSON has them; ``problems`` why some can't be sent."""

    base: LearnerSettings
    changes: dict[str, object]
    problems: dict[str, str]


def fields() -> Drafts:
    """Return every setting of the learner, by group; one group has its fields, every group its drafts."""
    now = reading().frame.settings
    base = _followed(now)
    changes: dict[str, object] = {}
    problems: dict[str, str] = {}
    groups = sentences.SETTING_GROUPS
    tabs = st.tabs(
        [wording.literal(group) for group in groups], key=PART, on_change="rerun", bind="query-params"
    )
    notes = {
        name: _checked(name, base, now, changes, problems) for names in groups.values() for name in names
    }
    sound = {name: value for name, value in changes.items() if name not in problems}
    together = queries.problem_together(sound)
    if together is not None:
        for name in _TOGETHER & sound.keys():
            problems[name], notes[name] = together, wording.literal(together)
    for tab, names in zip(tabs, groups.values(), strict=True):
        if tab.open:
            with tab:
                _draw_group({name: notes[name] for name in names})
    return Drafts(base=base, changes=changes, problems=problems)


_TOGETHER: Final = frozenset({"seed_arms", "excluded_arms"})
"""Settings that no arm may be in both of."""


_SMALL: Final = frozenset(
    {
        "phase",
        "baseline_rate",
        "budget_tokens",
        "k",
        "min_pulls",
        "sticky",
        "hold_minutes",
        "graders",
        "evaluation_credit",
        "keep_runs_days",
    }
)


def _cells(n_fields: int) -> list[Any]:
    """Places for small fields, two in a row."""
    return [cell for _ in range(-(-n_fields // 2)) for cell in st.columns(2, gap="medium")]


def _draw_group(notes: dict[str, Markdown]) -> None:
    """Draw the fields of a group, each with what is wrong with it ("" = nothing)."""
    cells = iter(_cells(sum(name in _SMALL for name in notes)))
    for name, problem in notes.items():
        words = sentences.SETTING_WORDS[name]
        with next(cells) if name in _SMALL else st.container():
            FIELDS[name].draw(words.label, _key(name))
            alone = name not in _SMALL and words.allowed is not None
            st.markdown(small(f"{words.explains} Allowed: {words.allowed}." if alone else words.explains))
            if problem:
                st.markdown(f":red[:material/error:] {problem}")
    allowed = sentences.allowed([name for name in notes if name in _SMALL])
    if allowed:
        st.markdown(small(allowed))


def _checked(
    name: str,
    base: LearnerSettings,
    now: LearnerSettings,
    changes: dict[str, object],
    problems: dict[str, str],
) -> Markdown:
    """Note a draft and what is wrong with it; the same in Markdown, "" where nothing is."""
    field, raw = FIELDS[name], _raw(name)
    if raw == field.write(getattr(base, name)):
        return Words("")
    try:
        value = field.read(raw)
        problem = queries.problem_with(name, value)
    except ValueError as wrong:
        value, problem = None, str(wrong)
    changes[name] = value
    if getattr(base, name) != getattr(now, name):
        standing = sentences.setting_value(name, msgspec.to_builtins(getattr(now, name)))
        problems[name] = "changed by another user"
        return f"Another user changed it meanwhile; it is **{standing}** now. Discard yours, or begin again."
    if problem is not None:
        problems[name] = problem
        return wording.literal(problem)
    return Words("")


def preview(drafts: Drafts) -> None:
    """Show the effect of the drafts; nothing is sent yet."""
    if not drafts.changes:
        muted("Nothing is changed yet. Change a value, and its effect is shown here before you send it.")
        return
    sound = {name: value for name, value in drafts.changes.items() if name not in drafts.problems}
    before = msgspec.to_builtins(drafts.base)
    small_table(
        {
            "setting": [_label(name) for name in drafts.changes],
            "now": [sentences.setting_value(name, before[name]) for name in drafts.changes],
            "after": [
                ":red[not allowed]"
                if name in drafts.problems
                else f"**{sentences.setting_value(name, value)}**"
                for name, value in drafts.changes.items()
            ],
        },
        alt="Settings now and after",
    )
    if sound:
        shown = queries.preview_settings(sound)
        for line in sentences.setting_effects(shown):
            st.markdown(line)
        movers = sentences.movers_table(shown, reading().tokens)
        if movers:
            small_table(movers, alt="Arms whose chance of inclusion or belief would move most")


def send(drafts: Drafts) -> None:
    """Put all drafts in force, or none of them."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Change {wording.things(len(drafts.changes), 'setting')}"
            if drafts.changes
            else "Change settings",
            type="primary",
            icon=":material/check:",
            key="send settings",
            disabled=not drafts.changes or bool(drafts.problems),
            on_click=_send,
            args=(drafts,),
        )
        st.button(
            "Discard", type="tertiary", key="discard settings", disabled=not drafts.changes, on_click=_discard
        )
    if drafts.changes:
        st.markdown(small("Nothing is sent yet. A change holds from then on, is logged, and can be undone."))
    result("settings")


def table() -> None:
    """Draw every setting with its value and meaning, for those who may not change them."""
    now = reading().frame.settings
    names = [name for group in sentences.SETTING_GROUPS.values() for name in group]
    small_table(
        {
            "setting": [_label(name) for name in names],
            "value": [
                sentences.setting_value(name, msgspec.to_builtins(getattr(now, name))) for name in names
            ],
            "meaning": [sentences.SETTING_WORDS[name].explains for name in names],
        },
        alt="Settings of the learner",
    )


def _send(drafts: Drafts) -> None:
    actions.send_settings(drafts.changes, before=drafts.base, after=_discard)


def _discard() -> None:
    """End all drafts; the fields follow what is in force again."""
    st.session_state.pop(_base_key(), None)
    for key in [key for key in st.session_state if str(key).startswith(_key(""))]:
        del st.session_state[key]


def _followed(now: LearnerSettings) -> LearnerSettings:
    """Return the values that drafts began from; fields without a draft get the value in force."""
    base = cast("LearnerSettings", st.session_state.get(_base_key(), now))
    for name, field in FIELDS.items():
        is_there = all(key in st.session_state for key in _keys(name))
        if is_there and _raw(name) not in (field.write(getattr(base, name)), field.write(getattr(now, name))):
            continue
        if not is_there or getattr(base, name) != getattr(now, name):
            _put(name, field.write(getattr(now, name)))
        base = msgspec.structs.replace(base, **{name: getattr(now, name)})
    st.session_state[_base_key()] = base
    return base


def _label(name: str) -> str:
    return sentences.SETTING_WORDS[name].label.split(",")[0]


def _base_key() -> str:
    return f"{_BASE} {reading().context.learner}"


def _key(name: str) -> str:
    return f"setting {reading().context.learner}/{name}"


def _keys(name: str) -> list[str]:
    """Return keys of a setting's widgets: one, or one for each of its parts."""
    parts = FIELDS[name].parts
    return [f"{_key(name)} {part}" for part in parts] if parts else [_key(name)]


def _raw(name: str) -> Raw:
    values = [st.session_state[key] for key in _keys(name)]
    return tuple(values) if FIELDS[name].parts else values[0]


def _put(name: str, raw: Raw) -> None:
    for key, value in zip(_keys(name), raw if FIELDS[name].parts else [raw], strict=True):
        st.session_state[key] = value
