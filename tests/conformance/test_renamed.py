"""These tests know rules and no recordings: they pass with every one renamed, repeated or split."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import ROOT, VECTORS

_FAST: Final = ("test_ors.py", "test_openreward.py")
_PATIENCE_S: Final = 600
Recording = dict[str, Any]


def passed_on_others(folder: Path, *files: str) -> int:
    """Run tests of this folder on other recordings; return how many passed."""
    target = folder / "vectors"
    target.mkdir()
    rename_all(VECTORS, target)
    here = Path(__file__).parent
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-v",
            "-x",
            "-p",
            "no:cacheprovider",
            *[str(here / one) for one in files],
        ],
        cwd=ROOT,
        env={**os.environ, "ARMSCOPE_CONFORMANCE": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    found = re.search(r"(\d+) passed", done.stdout)
    assert (done.returncode, found is None) == (0, False), done.stdout[-4_000:] + done.stderr[-1_000:]
    return int(found[1]) if found else 0


def test_recordings_of_environments_may_have_any_name(tmp_path: Path) -> None:
    assert passed_on_others(tmp_path, *_FAST) > 0


@pytest.mark.long
def test_every_recording_may_have_any_name(tmp_path: Path) -> None:
    others = sorted(path.name for path in Path(__file__).parent.glob("test_*.py"))
    assert passed_on_others(tmp_path, *[name for name in others if name != Path(__file__).name]) > 0


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
