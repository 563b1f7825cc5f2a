"""Help: of commands, of the topics of the guide, and by a reader's own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import typer

from core import guide
from core.doors.cli.program.app import answer, command
from core.doors.terminal import say, say_table, say_text
from core.errors import NotFound
from core.explained.table import Field, Table

_NEXT: Final = (
    "Read a topic: armscope help TOPIC. Help of a command: armscope help COMMAND. Or use your own words."
)
TOPICS: Final[Table[guide.Topic]] = Table(
    name=Field("topic", lambda one: one.name), words=Field("about", lambda one: one.words)
)
FILES: Final[Table[tuple[str, ...]]] = Table(
    name=Field("name", lambda one: one[0]),
    file=Field("file", lambda one: one[1]),
    use=Field("use", lambda one: one[2]),
)


@command(
    "help",
    words="Print help: of a topic of the guide, of a command, or by your own words.",
    examples=["help", "help start", "help reward", "help sticky sessions", "help deploy compose"],
)
def help_(
    line: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Topic, command or words; without them all topics are listed."),
    ] = None,
) -> None:
    path = " ".join(words or ()).split()
    topic = path[0].casefold() if path and path[0].casefold() in guide.NAMES else None
    if not path:
        _list(line)
    elif topic is not None and len(path) == 1:
        text = guide.read(topic)
        answer(line, {"topic": topic, "text": text}, lambda: say(*text.splitlines()))
    elif path[0].casefold() == "deploy" and len(path) < 3:
        _deploy(line, path[1:])
    elif not _command(line, path):
        inside = [] if topic is None else guide.search(" ".join(path[1:]), topic)
        _by_words(line, " ".join(path), inside)


def _list(line: typer.Context) -> None:
    topics = guide.topics()

    def write() -> None:
        say_table(TOPICS, topics)
        say("", _NEXT)

    answer(line, msgspec.to_builtins(topics), write)


def _deploy(line: typer.Context, names: Sequence[str]) -> None:
    if names:
        file, text = guide.deploy_file(names[0])
        answer(line, {"file": file, "text": text}, lambda: say_text(text))
        return
    rows = [
        (one.title, *(cell.partition(": ")[2].replace("`", "") for cell in one.text.splitlines()))
        for one in guide.deploy_files()
    ]

    def write() -> None:
        say_table(FILES, rows)
        say("", "Print a file: armscope help deploy NAME. The guide: armscope help team")

    answer(line, [dict(zip(FILES.heads, row, strict=True)) for row in rows], write)


def _command(line: typer.Context, path: Sequence[str]) -> bool:
    """Print the help of a command and return True; False if there is none of this name."""
    context: Any = line.parent
    for name in path:
        inner = getattr(context.command, "commands", {}).get(name)
        if inner is None:
            return False
        context = type(line)(inner, parent=context, info_name=name)
    text = context.get_help()
    more = _also(guide.search(" ".join(path)))

    def write() -> None:
        say(*text.splitlines())
        _say_also("In the guide", more)

    answer(line, {"command": " ".join(path), "text": text, "more": more}, write)
    return True


def _by_words(line: typer.Context, query: str, inside: Sequence[guide.Match]) -> None:
    matches = inside if inside and inside[0].is_answer else guide.search(query)
    if not matches or not matches[0].is_answer:
        near = _also(matches or guide.search(guide.spelled(query)))
        raise NotFound(
            f"The guide has no topic {query[:60]!r}.",
            next_step=f"Near ones: {', '.join(near)}." if near else "List the topics: armscope help",
        )
    section = matches[0].section
    title = next(one.title for one in guide.topics() if one.name == section.topic)
    text = (
        guide.read(section.topic)
        if not section.anchor and not section.is_entry
        else f"# {title}: {section.title}\n\n{section.text}"
    )
    more = _also(matches[1:])

    def write() -> None:
        say(*text.splitlines())
        _say_also("See also", more)

    answer(line, {"topic": section.topic, "section": section.title, "text": text, "more": more}, write)


def _also(matches: Sequence[guide.Match]) -> list[str]:
    return list(dict.fromkeys(f"armscope help {_path(one.section)}" for one in matches[:4]))


def _path(section: guide.Section) -> str:
    if section.is_entry:
        return f"{section.topic} {section.title}"
    return f"{section.topic} {section.anchor}".strip()


def _say_also(head: str, commands: Sequence[str]) -> None:
    if commands:
        say("", f"{head}:", *(f"  {one}" for one in commands))
