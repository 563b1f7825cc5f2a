"""OpenClaw's report of a session: log lines, then one JSON object from the first line that is only ``{``.

``X.openclaw.txt`` beside ``X.jsonl`` (either may be ``.gz``) is one source with it. The report lists the tools,
skills and files of the prompt with their sizes, for all runs of the session. It also has duration and interruption of
the last one. A report alone makes no run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from core.errors import UnreadableSource
from core.formats.entries import Rejected
from core.formats.reading import Reading
from core.formats.stream import Bytes
from core.formats.strict import UNDECODABLE, Flaw, check, millis, reason
from core.records.arm import Arm, file_key, known_key, skill_key, tool_key
from core.records.limits import Count, Label, Tokens
from core.records.run import Inventory

_SESSION: Final = (".jsonl", ".jsonl.gz")
_REPORT: Final = (".openclaw.txt", ".openclaw.txt.gz")
_JSON: Final = re.compile(rb"^\{\r?\n.*?^\}\r?$", re.DOTALL | re.MULTILINE)


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    schema_chars: Tokens | None = None


class _Skill(msgspec.Struct, rename="camel"):
    name: str
    block_chars: Tokens | None = None


class _File(msgspec.Struct, rename="camel"):
    name: str = ""
    path: str = ""
    missing: bool = False
    injected_chars: Tokens | None = None


class _Tools(msgspec.Struct):
    entries: list[_Tool] = []


class _Skills(msgspec.Struct):
    entries: list[_Skill] = []


class _Prompt(msgspec.Struct):
    chars: Count | None = None


class _PromptReport(msgspec.Struct, rename="camel"):
    system_prompt: _Prompt | None = None
    workspace_dir: str | None = None
    tools: _Tools | None = None
    skills: _Skills | None = None
    injected_workspace_files: list[_File] | None = None


class _Agent(msgspec.Struct):
    provider: Label | None = None
    model: Label | None = None


class _Meta(msgspec.Struct, rename="camel"):
    duration_ms: Count | float | None = None
    aborted: bool | None = None
    agent_meta: _Agent | None = None
    system_prompt_report: _PromptReport | None = None


class _Document(msgspec.Struct):
    meta: _Meta


_DOCUMENT: Final = msgspec.json.Decoder(_Document)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report of a session; ``inventory`` None = it lists nothing."""

    inventory: Inventory | None
    prompt_chars: int | None
    duration_ms: int | None
    is_aborted: bool
    provider: str | None
    model: str | None


def report_beside(reading: Reading) -> Report | Rejected | None:
    """The report of the session that is being read; a `Rejected` says why the one there can't be used."""
    path = _beside(reading.path, _SESSION, _REPORT)
    if path is None:
        return None
    file = f"{reading.file[: -len(reading.path.name)]}{path.name}"
    document = b""
    try:
        with Bytes(path, file, reading.limits) as content:
            match = _JSON.search(content.document())
            if match is None:
                raise Flaw("has no whole JSON object that begins on a line of its own")
            document = match[0]
        check(document, reading.limits.depth)
        return _report(_DOCUMENT.decode(document).meta)
    except OSError as error:
        why = f"could not be read ({error.strerror})"
    except UnreadableSource as error:
        return Rejected(file=file, line=None, reason=error.problem)
    except UNDECODABLE as error:
        why = reason(error, document)
    return Rejected(
        file=file,
        line=None,
        reason=f"The report {why}; its session was read without it.",
    )


def is_report(path: Path) -> bool:
    """Return whether a path is named like a report."""
    return path.name.endswith(_REPORT)


def session_of_report(path: Path) -> Path | None:
    """Return the session of a report, None for another file; raises `UnreadableSource` where none lies beside it."""
    if not is_report(path):
        return None
    session = _beside(path, _REPORT, _SESSION)
    if session is None:
        raise UnreadableSource(
            f"OpenClaw's report of a session makes no run alone ({path.name}).",
            next_step="Put the session file of the same name (.jsonl) beside it.",
        )
    return session


def _beside(path: Path, own: tuple[str, ...], other: tuple[str, ...]) -> Path | None:
    """The file with the same name but for its ending."""
    stem = next((path.name.removesuffix(end) for end in own if path.name.endswith(end)), None)
    if not stem:
        return None
    paths = (path.with_name(stem + end) for end in other)
    return next((one for one in paths if one.is_file()), None)


def _report(meta: _Meta) -> Report:
    prompt = meta.system_prompt_report
    agent = meta.agent_meta or _Agent()
    chars = None if prompt is None or prompt.system_prompt is None else prompt.system_prompt.chars
    return Report(
        inventory=None if prompt is None else _inventory(prompt),
        prompt_chars=chars,
        duration_ms=None if meta.duration_ms is None else millis(meta.duration_ms),
        is_aborted=meta.aborted is True,
        provider=agent.provider,
        model=agent.model,
    )


def _inventory(prompt: _PromptReport) -> Inventory | None:
    """Arms in the order of the report, each once; None if it lists none."""
    arms: dict[str, Arm] = {}
    for key, chars in _listed(prompt):
        cost = None if chars is None else -(-chars // 4)
        arms.setdefault(key, Arm(key=key, token_cost=cost))
    return Inventory(kind="declared", arms=tuple(arms.values())) if arms else None


def _listed(prompt: _PromptReport) -> Iterator[tuple[str, int | None]]:
    """Ids and sizes of what was in the prompt; a name that can be no arm's is left out, a missing file too."""
    for tool in prompt.tools.entries if prompt.tools else ():
        if key := known_key(tool_key, tool.name):
            yield key, tool.schema_chars
    for skill in prompt.skills.entries if prompt.skills else ():
        if key := known_key(skill_key, skill.name):
            yield key, skill.block_chars
    for file in prompt.injected_workspace_files or ():
        label = _within(prompt.workspace_dir, file.path) or file.name
        if not file.missing and (key := known_key(file_key, label)):
            yield key, file.injected_chars


def _within(workspace: str | None, path: str) -> str:
    """The path as the workspace sees it, so that the same file is the same arm on every machine."""
    inside = f"{(workspace or '').rstrip('/')}/"
    return path.removeprefix(inside) if workspace else path
