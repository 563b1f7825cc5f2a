"""Small files of every format, made here, and the shortest way to read them."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from core.formats import Entry, Limits, Outside, Rejected, open_sources
from core.records.run import Run, Unit

Json = dict[str, object]


def lines(records: Iterable[object]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def put(folder: Path, content: bytes, name: str = "data") -> Path:
    """A file whose name says nothing about its content."""
    path = folder / name
    path.write_bytes(content)
    return path


def zipped_by_zstandard(files: Mapping[str, bytes], *, spoilt: bool = False) -> bytes:
    """A zip whose entries have the method 93, as newer versions of Inspect write it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, pa.compress(content, codec="zstd", asbytes=True))
            entry = archive.infolist()[-1]
            entry.compress_type, entry.file_size = 93, len(content)
            entry.CRC = zlib.crc32(content) ^ spoilt
    return made.getvalue()


def read(
    *paths: Path,
    format: str | None = None,
    unit: Unit | None = None,
    tools_file: Path | None = None,
    limits: Limits | None = None,
) -> list[Entry]:
    with open_sources(paths, format=format, unit=unit, tools_file=tools_file, limits=limits) as opened:
        return [entry for source in opened.sources for entry in source.entries()]


def runs(entries: Iterable[Entry]) -> list[Run]:
    return [entry for entry in entries if isinstance(entry, Run)]


def rejected(entries: Iterable[Entry]) -> list[Rejected]:
    return [entry for entry in entries if isinstance(entry, Rejected)]


def outside(entries: Iterable[Entry]) -> list[Outside]:
    return [entry for entry in entries if isinstance(entry, Outside)]


def names(run: Run) -> list[str]:
    return [call.name for call in run.calls]


def offered(run: Run) -> list[str]:
    return [arm.name for arm in run.inventory.arms]


# --- OpenAI chat messages ---------------------------------------------------------------------------------


def user(content: object) -> Json:
    return {"role": "user", "content": content}


def reply(content: object = None, *calls: str) -> Json:
    message: Json = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{place}", "type": "function", "function": {"name": name, "arguments": '{"q": 1}'}}
            for place, name in enumerate(calls)
        ]
    return message


def tool(name: str, description: str = "") -> Json:
    function = {"name": name, "description": description, "parameters": {"type": "object"}}
    return {"type": "function", "function": function}


def trajectory(messages: Sequence[Mapping[str, object]], task: int = 0, reward: float = 1.0) -> Json:
    return {"task_id": task, "trial": 0, "reward": reward, "info": {}, "traj": list(messages)}


# --- Claude Code ------------------------------------------------------------------------------------------


@dataclass
class Session:
    """A session file, line by line; every line gets the next uuid and the next second."""

    id: str = "s1"
    made: list[Json] = field(default_factory=list)

    def line(self, kind: str, **fields: object) -> Session:
        number = len(self.made)
        self.made.append(
            {
                "type": kind,
                "uuid": f"{self.id}-u{number}",
                "sessionId": self.id,
                "timestamp": f"2026-01-02T03:{number // 60:02}:{number % 60:02}.000Z",
                "isSidechain": False,
                **fields,
            }
        )
        return self

    def prompt(self, content: object, **fields: object) -> Session:
        return self.line("user", message={"role": "user", "content": content}, **fields)

    def result(self, **fields: object) -> Session:
        block = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "ok"}]}
        return self.line("user", message={"role": "user", "content": [block]}, **fields)

    def reply(
        self,
        *blocks: Json,
        id: str = "m1",
        model: str = "opus",
        usage: Mapping[str, object] | None = None,
        **fields: object,
    ) -> Session:
        message = {"id": id, "model": model, "content": list(blocks), "usage": usage}
        return self.line("assistant", message=message, **fields)

    def bytes(self, n_lines: int | None = None) -> bytes:
        return lines(self.made[:n_lines])


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(name: str, id: str, **arguments: object) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}
