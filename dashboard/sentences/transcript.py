"""Transcript of a run as HTML, and what is shown where texts are not kept."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from core.flows.queries import RunArm
from core.records.arm import skill_name
from core.records.transcript import Message
from dashboard import wording
from dashboard.figures.theme import Tokens
from dashboard.wording import Words

_SHOWN: Final = 40
"""Messages that are drawn at first; the others unfold without a rerun."""
_LONG_CHARS: Final = 1_200
"""A longer text shows its beginning, and unfolds."""
_LEAST_NAME: Final = 3
_WHO: Final = {"user": "User", "agent": "Agent"}
_SMALL: Final = "font-size:0.8125rem"
_TEXT: Final = "white-space:pre-wrap;overflow-wrap:anywhere;margin:2px 0 0 0;font-size:0.9rem"
_CODE: Final = f"font-family:'Source Code',monospace;{_SMALL}"


def transcript_note(messages: Sequence[Message]) -> Words:
    """Return how many messages and calls are shown.

    >>> transcript_note((Message(kind="user", text="a"), Message(kind="call", name="b")))
    '1 message and 1 call, secrets masked'
    """
    n_calls = sum(one.kind == "call" for one in messages)
    n_messages = sum(one.kind in _WHO for one in messages)
    return Words(
        f"{wording.things(n_messages, 'message')} and {wording.things(n_calls, 'call')}, secrets masked"
    )


def transcript(messages: Sequence[Message], arms: Sequence[RunArm], look: Tokens) -> str:
    """Return a transcript as HTML, with the references of its arms marked in place."""
    drawing = _Drawing(arms, look)
    parts = [drawing.message(one) for one in messages]
    body = "".join(parts[:_SHOWN])
    if rest := parts[_SHOWN:]:
        more = wording.things(len(rest), "more message or call", "more messages and calls")
        body += drawing.folded(more, "".join(rest))
    return f'<div style="color:{look.text}">{body}</div>'


class _Drawing:
    """Messages in a theme. Tools are marked at their calls, other referenced arms where a text names them."""

    def __init__(self, arms: Sequence[RunArm], look: Tokens) -> None:
        self._look = look
        referenced = [arm for arm in arms if arm.referenced]
        self._tools = {
            arm.arm.split(":", 2)[-1]: arm.arm for arm in referenced if wording.type_of(arm.arm) == "tool"
        }
        self._terms = {
            term.casefold(): arm.arm for arm in referenced for term in _terms(arm) if len(term) >= _LEAST_NAME
        }
        either = "|".join(map(re.escape, sorted(self._terms, key=len, reverse=True)))
        self._pattern = re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE) if either else None

    def message(self, one: Message) -> str:
        """Return a message, or a call with its arguments and its result folded."""
        look = self._look
        if one.kind == "left out":
            return self._row(look.guide, f"… {_escaped(one.text)} in the middle are not kept …", "")
        if one.kind == "call":
            body = self._text(one.text, style=_CODE) if one.text else ""
            return self._row(look.guide, self._call(one.name), body + self._result(one.result))
        colour = look.accent_text if one.kind == "user" else look.gray
        return self._row(
            colour, f"<b>{_WHO[one.kind]}</b>", self._text(one.text, is_marked=one.kind == "agent")
        )

    def _call(self, name: str) -> str:
        arm, tool = self._tools.get(name), self._look.types["tool"]
        if arm is None:
            return f"Call of <b>{_escaped(name)}</b>"
        mark = f'<mark style="background:{tool.chip};color:{tool.text};border-radius:3px;padding:0 3px"'
        return f'Call of {mark} title="{_escaped(arm)}">{tool.glyph} <b>{_escaped(name)}</b></mark>'

    def _result(self, result: str | None) -> str:
        if result is None:
            return f'<div style="{_SMALL};color:{self._look.muted}">No result is kept.</div>'
        head = f"Result, {wording.things(len(result), 'character')}"
        return self.folded(head, f'<div style="{_TEXT};{_CODE}">{_escaped(result)}</div>')

    def folded(self, head: str, body: str) -> str:
        """Return what unfolds at a click."""
        summary = f'<summary style="cursor:pointer;{_SMALL};color:{self._look.muted}">{head}</summary>'
        return f'<details style="margin:4px 0">{summary}<div style="padding:4px 0 0 0">{body}</div></details>'

    @staticmethod
    def _row(colour: str, head: str, body: str) -> str:
        style = f"border-left:3px solid {colour};padding:0 0 0 12px;margin:0 0 14px 0"
        return f'<div style="{style}"><div style="{_SMALL}">{head}</div>{body}</div>'

    def _text(self, text: str, *, style: str = "", is_marked: bool = True) -> str:
        """Return a text; of a long one the rest is folded."""
        shape = self._marked if is_marked else _escaped
        parts = [
            f'<div style="{_TEXT};{style}">{shape(one)}</div>'
            for one in (text[:_LONG_CHARS], text[_LONG_CHARS:])
        ]
        if len(text) <= _LONG_CHARS:
            return parts[0]
        return parts[0] + self.folded(wording.things(len(text) - _LONG_CHARS, "more character"), parts[1])

    def _marked(self, text: str) -> str:
        pieces, at = [], 0
        for match in self._pattern.finditer(text) if self._pattern is not None else ():
            arm = self._terms.get(match[0].casefold())
            if arm is None:
                continue
            kind = self._look.types[wording.type_of(arm)]
            style = f"background:{kind.chip};color:{kind.text};border-radius:3px;padding:0 3px"
            mark = f'<mark style="{style}" title="{_escaped(arm)}">{kind.glyph} {_escaped(match[0])}</mark>'
            pieces += [_escaped(text[at : match.start()]), mark]
            at = match.end()
        return "".join([*pieces, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return html.escape(wording.plain(text))


def _terms(arm: RunArm) -> Sequence[str]:
    """Return the words by which a text refers to an arm; a tool is referenced by its calls."""
    kind = wording.type_of(arm.arm)
    if kind == "skill":
        return (skill_name(arm.arm),)
    if kind == "file":
        path = arm.arm.split(":", 2)[-1]
        return (path, PurePosixPath(path).name)
    return ((arm.excerpt or "").strip(),) if kind == "memory" else ()


def hidden(*, may_read: bool) -> Words:
    """In the place of a text that is not shown.

    >>> hidden(may_read=False)
    'Hidden from viewers.'
    """
    return Words("Erased, or left out of the file it came from." if may_read else "Hidden from viewers.")


def how_to_keep(*, keeps: bool, may_read: bool = True, of: Words = Words("run")) -> Words:
    """In the place of what a run or an episode was asked and answered, by whether the learner keeps such texts now.

    >>> how_to_keep(keeps=False)
    'Texts are not kept. The setting keep_texts keeps them from then on, and those of runs imported again.'
    """
    if not may_read:
        return Words(f"Operators read texts. Reviewers read those of {of}s that are in a queue to judge.")
    if keeps:
        return Words(f"The texts of this {of} were not kept. Import it again to keep them.")
    return Words(
        f"Texts are not kept. The setting keep_texts keeps them from then on, and those of {of}s imported again."
    )
