"""Transcript of a run as steps in HTML, and what is shown where texts are not kept."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from markdown_it import MarkdownIt

from core.flows.queries import RunArm
from core.records.arm import skill_name
from core.records.times import instant
from core.records.transcript import Message
from dashboard import wording
from dashboard.figures.theme import Tokens
from dashboard.wording import Words

STEPS: Final = "armscope-steps"
"""Class of the list of steps, which the style sheet of the frame draws."""
_SHOWN: Final = 200
"""Messages that are drawn at first; the others unfold without a rerun."""
_GIST_CHARS: Final = 160
_WORDED_CHARS: Final = 200
_LEAST_NAME: Final = 3
_WHO: Final = {"user": "User", "agent": "Agent"}
_TAG: Final = re.compile(
    r"^[ \t]*<(?P<name>[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+)>(?P<inside>.*?)</(?P=name)>",
    re.DOTALL | re.MULTILINE,
)
"""What an agent puts around parts of a text, such as the output of a command. HTML has no such names."""
_TAG_WORDS: Final = {"command-message": "", "command-name": "Command", "command-args": "With"}
_FENCE: Final = "```"


Shape = Callable[[str], str]
"""Makes HTML of a piece of plain text."""
_MARKDOWN: Final = MarkdownIt("js-default", {"html": False, "breaks": True, "xhtmlOut": False}).disable(
    ["image", "link", "autolink", "reference", "lheading"]
)
_MARKDOWN.add_render_rule("text", lambda _, tokens, at, __, env: env["shape"](tokens[at].content))
_MARKDOWN.add_render_rule("heading_open", lambda *_: "<p><b>")
_MARKDOWN.add_render_rule("heading_close", lambda *_: "</b></p>")


def escaped(text: str) -> str:
    """Return plain text as HTML."""
    return html.escape(wording.plain(text))


def rendered(text: str, shape: Shape = escaped) -> str:
    """Return Markdown of others as HTML, without links, images and markup of its own; text passes ``shape``.

    >>> rendered("**a** <b>").strip()
    '<p><strong>a</strong> &lt;b&gt;</p>'
    """
    return str(_MARKDOWN.render(wording.plain(text), {"shape": shape}))


def transcript_note(messages: Sequence[Message], n_calls: int) -> Words:
    """Return how many messages, and how many of the run's calls, are shown, and their times where known.

    >>> transcript_note((Message(kind="user", text="a", at_ms=0), Message(kind="call", name="b")), 1)
    '1 message and 1 call, 00:00 to 00:00 UTC, secrets masked'
    """
    n_shown = sum(one.kind == "call" for one in messages)
    calls = wording.things(n_shown, "call")
    if any(one.kind == "left out" for one in messages):
        calls = f"{wording.count(n_shown)} of {wording.things(n_calls, 'call')} (the middle is not kept)"
    n_messages = sum(one.kind in _WHO for one in messages)
    times = [instant(one.at_ms) for one in messages if one.at_ms is not None]
    span = f", {min(times):%H:%M} to {max(times):%H:%M} UTC" if times else ""
    return Words(f"{wording.things(n_messages, 'message')} and {calls}{span}, secrets masked")


def first_words(messages: Sequence[Message], room: int) -> str:
    """Return the beginning of what the user asked, on a line, without the agent's tags.

    >>> first_words((Message(kind="user", text="<command-name>/go</command-name>"),), 20)
    '/go'
    """
    text = next((one.text for one in messages if one.kind == "user"), "")
    words = " ".join(re.sub(r"</?[a-z][\w-]*>", " ", text[: 8 * room]).split())
    return words if len(words) <= room else f"{words[:room]}…"


def transcript(
    messages: Sequence[Message],
    arms: Sequence[RunArm],
    look: Tokens,
    *,
    cost: Callable[[Message], str] = lambda _: "",
    who: Mapping[str, str] = _WHO,
) -> str:
    """Return a transcript as a list of steps in HTML, with the references of its arms marked in place.

    The style sheet of the frame draws it; ``who`` names the speakers, and ``cost`` is that of a step, "" = unknown.
    """
    drawing = _Drawing(arms, look, cost, who)
    parts = [drawing.step(one) for one in messages]
    body = "".join(parts[:_SHOWN])
    if rest := parts[_SHOWN:]:
        more = wording.things(len(rest), "more message or call", "more messages and calls")
        body += f"<li>{_folded(more, _listed(rest))}</li>"
    return _listed([body])


def _listed(steps: Sequence[str]) -> str:
    return f'<ol class="{STEPS}">{"".join(steps)}</ol>'


class _Drawing:
    """Steps in a theme. Tools are marked at their calls, other referenced arms where a text names them."""

    def __init__(
        self, arms: Sequence[RunArm], look: Tokens, cost: Callable[[Message], str], who: Mapping[str, str]
    ) -> None:
        self._look = look
        self._cost = cost
        self._who = who
        referenced = [arm for arm in arms if arm.referenced]
        self._tools = {
            arm.arm.split(":", 2)[-1]: arm.arm for arm in referenced if wording.type_of(arm.arm) == "tool"
        }
        self._terms = {
            term.casefold(): arm.arm for arm in referenced for term in _terms(arm) if len(term) >= _LEAST_NAME
        }
        either = "|".join(map(re.escape, sorted(self._terms, key=len, reverse=True)))
        self._pattern = re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE) if either else None

    def step(self, one: Message) -> str:
        """Return a message, or a call as a line that unfolds to its arguments and its result."""
        if one.kind == "left out":
            return f"<li><small>… {escaped(one.text)} in the middle are not kept …</small></li>"
        if one.kind == "call":
            arguments = _arguments(one.text) if one.text else {}
            gist = " ".join(" · ".join(arguments.values())[:_GIST_CHARS].split())
            body = "".join(
                f"<small>{escaped(name)}</small><pre>{escaped(value)}</pre>"
                for name, value in arguments.items()
            )
            head = f'{self._call(one.name)}<span class="gist">{escaped(gist)}</span>{self._when(one)}'
            return f'<li class="call">{_folded(head, body + _result(one.result))}</li>'
        body = _worded(one.text, self._marked if one.kind == "agent" else escaped)
        head = f"<b>{escaped(self._who[one.kind])}</b>{self._when(one)}"
        return f'<li class="{one.kind}"><div class="head">{head}</div>{body}</li>'

    def _when(self, one: Message) -> str:
        """Return the tokens, the cost and the time of a step, where known."""
        tokens = wording.things(one.tokens, "token") if one.tokens else ""
        at = "" if one.at_ms is None else f"{instant(one.at_ms):%H:%M:%S}"
        known = " · ".join(filter(None, (tokens, escaped(self._cost(one)), at)))
        return f'<span class="when">{known}</span>' if known else ""

    def _call(self, name: str) -> str:
        arm, tool = self._tools.get(name), self._look.types["tool"]
        if arm is None:
            return f"<b>{escaped(name)}</b>"
        mark = f'<mark style="background:{tool.chip};color:{tool.text}"'
        return f'{mark} title="{escaped(arm)}">{tool.glyph} <b>{escaped(name)}</b></mark>'

    def _marked(self, text: str) -> str:
        pieces, at = [], 0
        for match in self._pattern.finditer(text) if self._pattern is not None else ():
            arm = self._terms.get(match[0].casefold())
            if arm is None:
                continue
            kind = self._look.types[wording.type_of(arm)]
            style = f"background:{kind.chip};color:{kind.text}"
            mark = f'<mark style="{style}" title="{escaped(arm)}">{kind.glyph} {escaped(match[0])}</mark>'
            pieces += [escaped(text[at : match.start()]), mark]
            at = match.end()
        return "".join([*pieces, escaped(text[at:])])


def _folded(head: str, body: str) -> str:
    return f"<details><summary>{head}</summary>{body}</details>"


def _worded(text: str, shape: Shape) -> str:
    """Return a text whose tags of the agent became words, with the raw text behind a fold."""
    pieces = _pieces(text, lambda part: rendered(part, shape))
    raw = _folded("Raw text", f"<pre>{escaped(text)}</pre>") if len(pieces) > 1 else ""
    return "".join(pieces) + raw


def _pieces(text: str, draw: Callable[[str], str]) -> Sequence[str]:
    pieces, at = [], 0
    for match in _TAG.finditer(text):
        if text.count(_FENCE, 0, match.start()) % 2:
            continue  # in code
        name, inside = match["name"], match["inside"].strip()
        head = _TAG_WORDS.get(name, re.sub("[-_]", " ", name).capitalize())
        is_short = len(inside) <= _WORDED_CHARS and "\n" not in inside
        words = f"<p><b>{head}</b> {escaped(inside)}</p>" if is_short else _folded(head, draw(inside))
        pieces += [draw(text[at : match.start()]), words if head else ""]
        at = match.end()
    return [*pieces, draw(text[at:])]


def _arguments(call: str) -> dict[str, str]:
    """Return what a call was given, by name where it has names.

    >>> _arguments('{"all": false, "path": "a.py"}'), _arguments("ls")
    ({'all': 'false', 'path': 'a.py'}, {'': 'ls'})
    """
    try:
        read = json.loads(call)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        return {"": call}
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        for name, value in read.items()
    }


def _result(result: str | None) -> str:
    if result is None:
        return "<small>No result is kept.</small>"
    pieces = _pieces(result, lambda part: f"<pre>{escaped(part)}</pre>" if part.strip() else "")
    return f"<small>Result, {wording.things(len(result), 'character')}</small>{''.join(pieces)}"


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
