"""Settings form: drafts, each checked where it is typed, with their effect, sent together.

A draft begins from the value in force. If another person changes the setting meanwhile, the draft shows it and can't be
sent. Settings without a draft follow the value in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
import streamlit as st

from core.records.learner import LearnerSettings
from dashboard import actions, queries, sentences, wording
from dashboard.reading import reading
from dashboard.widgets.settings.fields import FIELDS, Raw
from dashboard.widgets.words import muted, small, small_table

PART: Final = "part"
_SEEN: Final = "armscope settings seen"


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """``changes`` are the drafts by setting, as JSON has them; ``problems`` why some can't be sent."""

    seen: LearnerSettings
    changes: dict[str, object]
    problems: dict[str, str]


def fields() -> Drafts:
    """Every setting of the learner, by group; the fields of one group are there at a time, the drafts of all."""
    now = reading().frame.settings
    seen = _followed(now)
    changes: dict[str, object] = {}
    problems: dict[str, str] = {}
    groups = sentences.SETTING_GROUPS
    for tab, names in zip(
        st.tabs(list(groups), key=PART, on_change="rerun", bind="query-params"), groups.values(), strict=True
    ):
        said = {name: _checked(name, seen, now, changes, problems) for name in names}
        if tab.open:
            with tab:
                _draw_group(said)
    return Drafts(seen=seen, changes=changes, problems=problems)


_SMALL: Final = frozenset(
    {"phase", "baseline_rate", "budget_tokens", "k", "min_pulls", "graders", "evaluation_credit"}
)


def _cells(n_fields: int) -> list[Any]:
    """Places for small fields, two in a row."""
    return [place for _ in range(-(-n_fields // 2)) for place in st.columns(2, gap="medium")]


def _draw_group(said: dict[str, str]) -> None:
    """The fields of a group, each with what is wrong with it ("" = nothing)."""
    cells = iter(_cells(sum(name in _SMALL for name in said)))
    for name, problem in said.items():
        words = sentences.SETTING_WORDS[name]
        with next(cells) if name in _SMALL else st.container():
            FIELDS[name].draw(words.label, _key(name))
            alone = name not in _SMALL and words.allowed is not None
            st.markdown(small(f"{words.explains} Allowed: {words.allowed}." if alone else words.explains))
            if problem:
                st.markdown(f":red[:material/error:] {problem}")
    allowed = sentences.allowed([name for name in said if name in _SMALL])
    if allowed:
        st.markdown(small(allowed))


def _checked(
    name: str,
    seen: LearnerSettings,
    now: LearnerSettings,
    changes: dict[str, object],
    problems: dict[str, str],
) -> str:
    """Note a draft and what is wrong with it; the same in Markdown, "" where nothing is."""
    field, raw = FIELDS[name], _raw(name)
    if raw == field.write(getattr(seen, name)):
        return ""
    try:
        value = field.read(raw)
        problem = queries.problem_with(name, value)
    except ValueError as wrong:
        value, problem = None, str(wrong)
    changes[name] = value
    if getattr(seen, name) != getattr(now, name):
        standing = sentences.setting_value(name, msgspec.to_builtins(getattr(now, name)))
        problems[name] = "changed by somebody else"
        return f"Somebody else changed it meanwhile; it is **{standing}** now. Discard yours, or begin again."
    if problem is not None:
        problems[name] = problem
        return wording.literal(problem)
    return ""


def preview(drafts: Drafts) -> None:
    """Show the effect of the drafts; nothing is sent yet."""
    if not drafts.changes:
        muted("Nothing is changed yet. Change a value, and its effect is shown here before you send it.")
        return
    sound = {name: value for name, value in drafts.changes.items() if name not in drafts.problems}
    before = msgspec.to_builtins(drafts.seen)
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
        for said in sentences.setting_effects(shown):
            st.markdown(said)
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
            on_click=_sent,
            args=(drafts,),
        )
        st.button(
            "Discard", type="tertiary", key="discard settings", disabled=not drafts.changes, on_click=_discard
        )
    if drafts.changes:
        st.markdown(small("Nothing is sent yet. A change holds from then on, is logged, and can be undone."))


def table() -> None:
    """Every setting with its value and meaning, for those who may not change them."""
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


def _sent(drafts: Drafts) -> None:
    actions.send_settings(drafts.changes, seen=drafts.seen, after=_discard)


def _discard() -> None:
    """End all drafts; the fields follow what is in force again."""
    st.session_state.pop(_seen_key(), None)
    for key in [key for key in st.session_state if str(key).startswith(_key(""))]:
        del st.session_state[key]


def _followed(now: LearnerSettings) -> LearnerSettings:
    """Return the values that drafts began from; fields without a draft get the value in force."""
    seen = cast("LearnerSettings", st.session_state.get(_seen_key(), now))
    for name, field in FIELDS.items():
        is_there = all(key in st.session_state for key in _keys(name))
        if is_there and _raw(name) not in (field.write(getattr(seen, name)), field.write(getattr(now, name))):
            continue
        if not is_there or getattr(seen, name) != getattr(now, name):
            _put(name, field.write(getattr(now, name)))
        seen = msgspec.structs.replace(seen, **{name: getattr(now, name)})
    st.session_state[_seen_key()] = seen
    return seen


def _label(name: str) -> str:
    return sentences.SETTING_WORDS[name].label.split(",")[0]


def _seen_key() -> str:
    return f"{_SEEN} {reading().context.learner}"


def _key(name: str) -> str:
    return f"setting {reading().context.learner}/{name}"


def _keys(name: str) -> list[str]:
    """Keys of a setting's widgets: one, or one for each of its parts."""
    parts = FIELDS[name].parts
    return [f"{_key(name)} {part}" for part in parts] if parts else [_key(name)]


def _raw(name: str) -> Raw:
    found = [st.session_state[key] for key in _keys(name)]
    return tuple(found) if FIELDS[name].parts else found[0]


def _put(name: str, raw: Raw) -> None:
    for key, value in zip(_keys(name), raw if FIELDS[name].parts else [raw], strict=True):
        st.session_state[key] = value
