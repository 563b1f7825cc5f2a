"""Other recordings of the same kinds: the same ones renamed, repeated under another name, and split in two."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Recording = dict[str, Any]


def rename_all(vectors: Path, target: Path) -> None:
    """Write a copy of all vectors in which nothing has its name any more."""
    for path in sorted(vectors.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        for kind in ("episodes", "rollouts"):
            if kind in document:
                document[kind] = dict(_recordings(document[kind]))
        if "vectors" in document:
            document["vectors"] = list(_vectors(document["vectors"]))
        (target / path.name).write_text(json.dumps(document), encoding="utf-8")
    for folder in ("contracts", "data"):
        if (vectors.parent / folder).is_dir() and not (target.parent / folder).exists():
            (target.parent / folder).symlink_to(vectors.parent / folder)
    for path in vectors.glob("*.md"):
        shutil.copy(path, target)


def _vectors(listed: list[Recording]) -> Iterator[Recording]:
    """Each under another id, and every third twice."""
    for number, one in enumerate(listed):
        yield {**one, "id": f"{one['function']}#{number}"}
        if number % 3 == 0:
            yield {**one, "id": f"{one['function']}#{number} again"}


def _recordings(named: Mapping[str, Recording]) -> Iterator[tuple[str, Recording]]:
    """Each under another name and once more, and each that can be cut in two such parts."""
    for number, one in enumerate(named.values()):
        yield f"recording {number}", one
        yield f"recording {number} again", one
        for part, exchanges in enumerate(_parts(one.get("exchanges", []))):
            yield f"recording {number} part {part}", {**one, "exchanges": exchanges}


def _parts(exchanges: list[Recording]) -> list[list[Recording]]:
    """Two recordings of one session: what is before its first call stays in both."""
    calls = [place for place, one in enumerate(exchanges) if one["path"].endswith("/call")]
    if len(calls) < 2:
        return []
    first, middle = calls[0], calls[len(calls) // 2]
    return [exchanges[:middle], [*exchanges[:first], *exchanges[middle:]]]
