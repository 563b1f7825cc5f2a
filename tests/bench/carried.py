"""Carried: time to the first answer, and the error of the estimator: ``python -m tests.bench.carried``.

The first part makes a home with 300 sessions of Claude Code, 50 MB together, 60 skills and 80 tools. It prints the
seconds from the command to the sentence, of an import and of ``armscope inventory``.

``--estimate`` compares a quarter of the characters with tokenisers, on the tool definitions in the shared data. The
wheels of ``mistral-common`` and of ``anthropic`` 0.38 hold a vocabulary, and so does ``js-tiktoken`` of npm. A
missing one is left out. ``--node FOLDER`` names a folder with the package of npm.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from core.records.arm import quarter_up
from tests.conftest import ROOT
from tests.test_inventory import DAY_MS, PlannedSession, put, write_session, write_skill

_SESSIONS: Final = 300
_BYTES: Final = 50_000_000
_COMMAND: Final = (sys.executable, "-c", "from dashboard.launch import main; main()")
_SHARED: Final = ROOT.parent / "shared"
_NODE: Final = """
const {Tiktoken} = require('js-tiktoken/lite'), texts = JSON.parse(require('fs').readFileSync(0));
const all = {};
for (const name of ['o200k_base', 'cl100k_base']) {
  const one = new Tiktoken(require('js-tiktoken/ranks/' + name));
  all[name] = texts.map(text => one.encode(text, 'all').length);
}
console.log(JSON.stringify(all));
"""


def plant(home: Path) -> int:
    """Make the home; return the bytes of its sessions."""
    dice, now_ms = random.Random(7), time.time_ns() // 1_000_000
    projects = [home / "work" / name for name in ("shop", "billing", "docs")]
    for project in projects:
        project.mkdir(parents=True)
    skills = [f"skill-{number}" for number in range(60)]
    for name in skills:
        write_skill(home / ".claude" / "skills", name, "does it well " * 12, changed_ms=now_ms - 90 * DAY_MS)
    put(home / ".claude.json", {"mcpServers": {name: {"command": "x"} for name in ("git", "issues")}})
    tools = [f"mcp__{server}__tool_{number}" for server in ("git", "issues") for number in range(40)]
    for number in range(_SESSIONS):
        session = PlannedSession(
            f"session-{number}",
            dice.choice(projects),
            now_ms - number * DAY_MS // 5,
            skills=skills,
            tools=tools,
            calls=dice.choices(["Bash", "Read", "Edit", *tools[:9]], k=40),
            loads=dice.choices(skills[:5], k=2),
        )
        write_session(home, session)
    paths = sorted((home / ".claude" / "projects").rglob("*.jsonl"))
    text = "".join(dice.choices("abcdefgh \n\"'{}", k=20_000))
    for path in paths:
        lines = path.read_bytes().splitlines()[:-1]
        seen = {key: json.loads(lines[-1])[key] for key in ("sessionId", "cwd", "timestamp")}
        missing = _BYTES // len(paths) - path.stat().st_size
        while missing > 0:
            result = {"type": "tool_result", "tool_use_id": "t", "content": text[: dice.randint(200, 20_000)]}
            line = json.dumps(
                {
                    "type": "user",
                    "uuid": f"{path.stem} {missing}",
                    "message": {"role": "user", "content": [result]},
                    **seen,
                }
            )
            lines.append(line.encode())
            missing -= len(line)
        path.write_bytes(b"\n".join([*lines, b""]))
    return sum(path.stat().st_size for path in paths)


def first_answer() -> Iterator[str]:
    """Yield a line for each command: seconds from its start to the sentence."""
    with tempfile.TemporaryDirectory(prefix="armscope-carried-") as folder:
        home = Path(folder) / "home"
        n_bytes = plant(home)
        yield f"{_SESSIONS} sessions, {n_bytes / 1e6:.0f} MB"
        database = Path(folder) / "a.db"
        for command in (["import", str(home / ".claude" / "projects")], ["inventory"]):
            started = time.perf_counter()
            done = subprocess.run(
                [*_COMMAND, "--database", str(database), *command],
                env={**os.environ, "HOME": str(home)},
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            )
            took_s = time.perf_counter() - started
            (sentence,) = (line for line in done.stdout.splitlines() if line.startswith("Of "))
            yield f"armscope {command[0]}: {took_s:.1f} s: {sentence}"


def definitions() -> list[str]:
    """Return the tool definitions in the shared data, each once, as JSON without white space."""
    known: dict[str, None] = {}
    for pattern in ("data/tau*/*tools*.json", "data/inspect-ai/*.gz", "contracts/*.json"):
        for path in sorted(_SHARED.glob(pattern)):
            raw = path.read_bytes()
            known.update(_definitions(json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)))
    return list(known)


def _definitions(value: Any) -> Iterator[tuple[str, None]]:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        for one in value:
            yield from _definitions(one)
    if not isinstance(value, dict):
        return
    tool = value.get("function", value)
    schema = next(
        (tool[name] for name in ("parameters", "input_schema", "inputSchema") if name in tool), None
    ) if isinstance(tool, dict) else None  # fmt: skip
    if isinstance(schema, dict) and isinstance(tool.get("name"), str):
        whole = {"name": tool["name"], "description": tool.get("description", ""), "parameters": schema}
        yield json.dumps(whole, ensure_ascii=False, separators=(",", ":")), None
        return
    for one in value.values():
        yield from _definitions(one)


def token_counts(texts: Sequence[str], node: Path | None) -> dict[str, list[int]]:
    """Return the tokens of each text, by the tokenisers that are there."""
    counts: dict[str, list[int]] = {}
    if path := _in_wheel("mistral_common", "data/tekken_240911.json"):
        tekken = import_module("mistral_common.tokens.tokenizers.tekken").Tekkenizer.from_file(path)
        counts["Tekken (mistral-common)"] = [len(tekken.encode(one, bos=False, eos=False)) for one in texts]
    if path := _in_wheel("anthropic", "tokenizer.json"):
        claude = import_module("tokenizers").Tokenizer.from_file(str(path))
        counts["Claude 2 (anthropic 0.38)"] = [
            len(claude.encode(one, add_special_tokens=False).ids) for one in texts
        ]
    if node is not None:
        answer = subprocess.run(
            ["node", "-e", _NODE],
            cwd=node,
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            check=True,
        )
        counts |= {f"{name} (js-tiktoken)": one for name, one in json.loads(answer.stdout).items()}
    return counts


def _in_wheel(package: str, name: str) -> Path | None:
    spec = find_spec(package)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((Path(place) / name for place in places if (Path(place) / name).is_file()), None)


def errors(texts: Sequence[str], counts: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield the error of the estimator against each tokeniser: of the sum, and of single definitions."""
    estimates = [quarter_up(len(one)) for one in texts]
    yield f"{len(texts)} tool definitions, {sum(map(len, texts)):,} characters, about {sum(estimates):,} tokens"
    for name, tokens in counts.items():
        apart = sorted(estimate / true - 1 for estimate, true in zip(estimates, tokens, strict=True))
        yield (
            f"{name}: {sum(tokens):,} tokens; the sum is {sum(estimates) / sum(tokens) - 1:+.1%} off, one definition "
            f"{apart[0]:+.0%} to {apart[-1]:+.0%}, half of them {statistics.median(apart):+.0%} or less"
        )


def main() -> None:
    """Run the part that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--estimate", action="store_true")
    parser.add_argument("--node", type=Path)
    options = parser.parse_args()
    if options.estimate:
        texts = definitions()
        lines = errors(texts, token_counts(texts, options.node))
    else:
        lines = first_answer()
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
