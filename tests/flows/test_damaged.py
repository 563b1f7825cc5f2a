"""Ten thousand damaged files made from real ones: each is read, or refused with nothing changed."""

from __future__ import annotations

import gzip
import json
import resource
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from core.errors import ArmscopeError
from core.flows import queries
from core.flows.importing import import_files
from tests.worlds import context_at

pytestmark = pytest.mark.of_file
_ROOM = 120_000
"""Characters kept of each real file, so that ten thousand of them take minutes."""
_VERIFIED_EVERY = 500
_FLAT_MB = 96


def handy(content: bytes) -> bytes:
    """A real file cut to a size that is quickly read, still whole in its format."""
    if content.count(b"\n{") > 2:
        return content[: content.rfind(b"\n", 0, _ROOM) + 1] if len(content) > _ROOM else content
    try:
        document = json.loads(content)
    except ValueError:
        return content
    if isinstance(document, list):
        document = document[:2]
    elif isinstance(document, dict):
        document = {
            name: value[:1] if name in {"simulations", "samples", "tasks"} else value
            for name, value in document.items()
        }
    return json.dumps(document).encode()


def real_files(folder: Path) -> list[tuple[str, bytes]]:
    """Names and contents of what people's agents wrote, one of each source at least."""
    found = []
    for path in sorted(folder.glob("*/*")):
        if path.parent.name in {"EXPECTED", "LICENSES"} or "tools" in path.stem.split("-"):
            continue
        content = path.read_bytes()
        packed = path.suffix == ".gz"
        found.append((path.name.removesuffix(".gz"), handy(gzip.decompress(content) if packed else content)))
    return found


def damaged(content: bytes, dice: Random) -> bytes:
    """Cut short, a piece lost or told twice, bits turned, bytes of another world in between."""
    made = bytearray(content)
    start = dice.randrange(len(made))
    kind = dice.randrange(5)
    if kind == 0:
        return bytes(made[:start])
    if kind == 1:
        del made[start : start + dice.randrange(1, 400)]
    elif kind == 2:
        made[start:start] = made[start : start + dice.randrange(1, 2_000)]
    elif kind == 3:
        made[start:start] = dice.randbytes(dice.randrange(1, 40))
    for _ in range(dice.choice((1, 3, 30)) if kind == 4 else 0):
        made[dice.randrange(len(made))] ^= 1 << dice.randrange(8)
    return bytes(made)


def shown(shared_data: Path, folder: Path, n_files: int, seed: int) -> Counter[str]:
    """Import so many damaged files, one after the other, into one learner; what became of them."""
    context, dice = context_at(folder / "a.db"), Random(seed)
    sources = real_files(shared_data)
    became: Counter[str] = Counter()
    for number in range(n_files):
        name, content = sources[number % len(sources)]
        path = folder / name
        path.write_bytes(damaged(content, dice))
        before = queries.visibility(context)
        try:
            answer = import_files(context, [path])
            became["read"] += 1
            became["rejected lines"] += answer.rejected_count
        except ArmscopeError:
            became["refused"] += 1
            assert queries.visibility(context) == before, "a refused file leaves nothing behind"
        path.unlink()
        if number % _VERIFIED_EVERY == _VERIFIED_EVERY - 1:
            assert queries.verify(context).clean
    assert queries.verify(context).clean
    return became


def test_damaged_files_are_read_or_refused(shared_data: Path, tmp_path: Path) -> None:
    became = shown(shared_data, tmp_path, 80, seed=1)
    assert became["read"] + became["refused"] == 80
    assert min(became["read"], became["refused"]) > 0


@pytest.mark.long
def test_ten_thousand_damaged_files_in_flat_memory(shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    shown(shared_data, tmp_path / "first", 300, seed=2)
    at_first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    became = shown(shared_data, tmp_path, 10_000, seed=3)
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - at_first) / 1024
    sys.stdout.write(f"\n10,000 damaged files: {dict(became)}, memory grew by {grown_mb:.0f} MB\n")
    assert became["read"] + became["refused"] == 10_000
    assert grown_mb < _FLAT_MB
