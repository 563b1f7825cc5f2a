#!/usr/bin/env python3
"""The program of a trial: it runs the same tasks with and without an arm, by the plan that it holds.

Read it before you run it. Without ``--yes`` it starts nothing: it shows the tasks, the sides, the price, the hooks,
and the servers and tools that are off. It needs Python 3.11 or later on Linux or macOS, and no other package. It
holds no key. It permits skills, and what you name with ``--allow``, and nothing else that the agent would ask for.
You can stop it at any time: the same command goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

if sys.platform != "win32":
    import fcntl

CONFIG: Final = "{}"
"""The plan and its setup, as JSON."""
READ_ONLY: Final = ("Agent", "Glob", "Grep", "LSP", "Read", "Skill", "ToolSearch", "WaitForMcpServers")
"""Tools of Claude Code that change nothing by themselves. Every other tool is off unless a rule names it."""
LIMITS: Final = frozenset(("time", "turns", "tokens"))
"""Errors that belong to the task. Every other error is a fault, and its block runs again."""
PILOT: Final = 100
"""The attempt that is no part of the result."""
HIDDEN: Final = ("prompt.md", "grade")
"""Files of a task's folder that the agent does not get."""
MOST_TOKENS: Final = 10**12
MOST_DOLLARS: Final = 10**6
ODD: Final = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of a line or an event that is not in the documented form."""
COUNTS: Final = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
Values = dict[str, Any]


class Refused(Exception):
    """A trial that can't be run as it is, and why."""


class Slot(NamedTuple):
    """A cell of the trial, before or after its run. ``arm`` is '' unless each of several arms is left out in turn."""

    task: str
    repeat: int
    side: str
    arm: str = ""
    attempt: int = 1


# Order


def rank(*parts: object) -> str:
    """Return a digest that orders what a seed mixes, the same on every machine."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def blocks(tasks: Sequence[str], arms: Sequence[str], repeats: int, seed: str) -> list[list[Slot]]:
    """Return each task's cells in their order: mixed by the seed, and each side comes first equally often."""
    sides = [("with", ""), *(("without", arm) for arm in (arms if len(arms) > 1 else [""]))]
    shift, result = int(rank(seed), 16), {}
    for number, task in enumerate(sorted(tasks, key=lambda task: rank(seed, task)), shift):
        slots = [Slot(task, repeat, *side) for repeat in range(1, repeats + 1) for side in sides]
        slots.sort(key=lambda slot: rank(seed, *slot))
        first = next(slot for slot in slots if (slot.side, slot.arm) == sides[number % len(sides)])
        result[task] = [first, *(slot for slot in slots if slot != first)]
    return [result[task] for task in tasks]


def session_of(prefix: str, slot: Slot) -> str:
    """Return the session id of a cell, with the prefix of its plan."""
    digest = rank(*slot)
    return f"{prefix}4{digest[:3]}-8{digest[3:6]}-{digest[6:18]}"


def pending(
    every: Sequence[Sequence[Slot]], cells: Mapping[Slot, Values], attempts: Iterable[int]
) -> list[Slot]:
    """Return the cells to run next. A block with a fault runs again as a whole, on every side."""
    todo: list[Slot] = []
    for block in every:
        for attempt in attempts:
            slots = [slot._replace(attempt=attempt) for slot in block]
            rest = [slot for slot in slots if slot not in cells]
            todo += rest
            if rest or all(cells[slot].get("end") != "fault" for slot in slots):
                break
    return todo


# Folders


def parsed(text: str) -> Values:
    """Return the object in a text of JSON; empty where there is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def amount(value: Any, most: float) -> float:  # noqa: ANN401 - a member of JSON
    """Return a number of a result, 0 for none; raise `ValueError` unless it is one from 0 to ``most``."""
    if not isinstance(value or 0, int | float) or not 0 <= (value or 0) <= most:
        raise ValueError
    return float(value or 0)


def tokens_of(counts: Iterable[Any]) -> int | None:
    """Return the sum of counts of tokens; None where it is 0."""
    return int(amount(sum(amount(one, MOST_TOKENS) for one in counts), MOST_TOKENS)) or None


def pico_of(dollars: Any) -> int | None:  # noqa: ANN401 - a member of JSON
    """Return millionths of a millionth of a dollar; None where they are unknown."""
    return None if dollars is None else round(amount(dollars, MOST_DOLLARS) * 1e12)


def digest_of(folder: Path) -> str:
    """Return a digest of a folder: names, contents, links, and which files can be run."""
    entries = []
    for path in sorted(folder.rglob("*")):
        is_file = path.is_file() and not path.is_symlink()
        text = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if is_file else b""
        mode = "x" if is_file and path.stat().st_mode & 0o100 else "l" if path.is_symlink() else str(is_file)
        entries.append([path.relative_to(folder).as_posix(), mode, hashlib.sha256(text).hexdigest()])
    return rank(*entries)[:16]


def task_folder(root: str, task: str) -> Path:
    """Return the folder of a task. A name that leads out of the folder of tasks is refused."""
    path = Path(root, task)
    if not path.is_dir() or Path(root).resolve() not in path.resolve().parents:
        raise Refused(f"Task {json.dumps(task)} must be a folder in {root}. Plan it again.")
    return path


def without_section(text: str, title: str) -> str | None:
    """Return a Markdown text without the section of a title; None unless exactly one section has it."""
    lines, headings, is_code = text.splitlines(keepends=True), [], False
    for number, line in enumerate(lines):
        is_code ^= line.lstrip().startswith(("```", "~~~"))
        match = re.match(r"(#{1,6})\s+(.*?)\s*#*\s*$", line)
        if match and not is_code:
            headings.append((number, len(match[1]), match[2]))
    own = [one for one in headings if one[2] == title]
    if len(own) != 1:
        return None
    start, level, _ = own[0]
    after = (number for number, depth, _ in headings if number > start and depth <= level)
    return "".join([*lines[:start], *lines[next(after, len(lines)) :]])


def part_in(folder: Path, way: Values) -> tuple[Path, str | None] | None:
    """Return the file that holds an arm, and its text without it (None = no file); None if the arm is not there."""
    path = folder / way["file"]
    if not path.is_file() or folder.resolve() not in path.resolve().parents:
        return None
    if "section" not in way:
        return path, None
    rest = without_section(path.read_text(encoding="utf-8"), way["section"])
    return None if rest is None else (path, rest)


def files_of(folder: Path) -> Path:
    """Return the folder with what the agent gets of a task."""
    return folder / "files" if (folder / "files").is_dir() else folder


def copy_task(source: Path, target: Path) -> None:
    """Copy what the agent gets of a task: its folder ``files``, else all but the prompt and the grader."""
    start = files_of(source)
    for path in start.rglob("*"):
        if path.is_symlink() and start.resolve() not in path.resolve().parents:
            raise Refused(f"A link in a task must stay within it, and {path} leads out. Copy its target.")
    shutil.copytree(start, target, symlinks=True)
    for name in HIDDEN if start == source else ():
        (target / name).unlink(missing_ok=True)


# Sessions of Claude Code


def calls_in(events: Iterable[Values]) -> Iterator[str]:
    """Yield the name of each call, as a permission rule names it."""
    parts = {"Skill": "skill", "Agent": "subagent_type", "Task": "subagent_type", "Read": "file_path"}
    for event in events:
        content = (event.get("message") or {}).get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                name, part = block["name"], parts.get(block["name"])
                words = (block.get("input") or {}).get(part)
                yield name if part is None else f"{name.replace('Task', 'Agent')}({words})"


def listed_in(start: Values) -> list[str]:
    """Return the names of what a session has, as permission rules name it, from its first event."""
    skills = [f"Skill({one})" for one in start.get("skills", ())]
    return [*start.get("tools", ()), *skills, *(f"Agent({one})" for one in start.get("agents", ()))]


def presence(names: Sequence[str], listed: Sequence[str] | None, calls: Iterable[str]) -> Values:
    """Return whether the arm was there, by patterns of its names, and its calls. ``listed`` None = unknown."""
    used = sum(any(fnmatchcase(call, one) for one in names) for call in calls)
    is_listed = any(fnmatchcase(name, one) for name in listed or () for one in names)
    word = "called" if used else "unknown" if listed is None else "listed" if is_listed else "absent"
    return {"presence": word, "used": used}


def error_of(status: int | None, last: Values) -> str:
    """Return the error of a session: a limit of the task, a fault, or '' for none."""
    subtype = last.get("subtype")
    if status is None or subtype == "error_max_turns":
        return "time" if status is None else "turns"
    if subtype == "success" and not last.get("is_error"):
        return ""
    return f"claude: {last.get('api_error_status') or last.get('terminal_reason') or subtype or f'status {status}'}"


def ended(error: str) -> Values:
    """Return the end of a cell: by itself, by a limit of the task, or by a fault."""
    end = "limit" if error in LIMITS else "fault" if error else "ended"
    return {"error": error[:200].encode(errors="replace").decode() or None, "end": end}


def need(program: str, folder: Path) -> None:
    """Refuse a program that can't be run. One with a folder in its name is looked for as a run would."""
    if shutil.which(str(folder / program) if "/" in program else program) is None:
        raise Refused(
            f"The program {json.dumps(program)} must be one that can be run, and is not there. Install it."
        )


# The trial


class Trial:
    """One trial in its folder: the plan, the options of this start, and the cells that have run."""

    def __init__(self, config: Values, options: argparse.Namespace) -> None:
        self.config, self.options = config, options
        self.folder = Path(options.folder, "pilot" if options.pilot else "").absolute()
        arms = config["arms"][:1] if config["halves"] else config["arms"]
        self.blocks = blocks(config["tasks"], arms, config["repeats"], config["seed"])
        self.attempts = range(1, options.attempts + 1)
        if options.pilot:
            self.blocks = [[slot for slot in block if slot.repeat == 1] for block in self.blocks[:3]]
            self.attempts = range(PILOT, PILOT + 1)
        self.cells: dict[Slot, Values] = {}
        self.prints: dict[tuple[str, tuple[str, ...]], str] = {}
        self.stop = ""
        self._running: set[int] = set()
        self._lock = threading.RLock()

    def out_of(self, slot: Slot) -> tuple[str, ...]:
        """Return the arms that a cell leaves out: one on the side without it, or its side's half of all."""
        if self.config["halves"]:
            return tuple(self.config["halves"][slot.task][slot.side])
        return (slot.arm or self.config["arms"][0],) if slot.side == "without" else ()

    def sides(self) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
        """Yield each task with the arms that each of its sides leaves out."""
        for block in self.blocks:
            yield block[0].task, sorted({self.out_of(slot) for slot in block})

    def is_on(self, tool: str) -> bool:
        """Return whether a rule of ``--allow`` names a tool, or its server, or a tool of that server."""
        rules = [rule.partition("(")[0].removesuffix("__*") for rule in self.options.allow]
        return any(f"{tool}__".startswith(f"{rule}__") or rule.startswith(f"{tool}__") for rule in rules)

    def check(self) -> None:
        """Refuse what can't be compared, and take the fingerprint of each side of each task."""
        for arm, way in self.config["ways"].items():
            for rule in way.get("deny", ()):
                if not (rule in READ_ONLY or rule.startswith("Agent(") or self.is_on(rule)):
                    raise Refused(f"{json.dumps(arm)} is off on both sides. Turn it on: --allow {rule}")
        for task, sides in self.sides():
            self._same(task)
            grader = self._grader(task) if self.config["harness"] == "claude" else self.config["grade"]
            if not grader and self.config["harness"] == "claude":
                raise Refused(f"Task {json.dumps(task)} must have a grade program, and has none. Add it.")
            for out in sides:
                with tempfile.TemporaryDirectory() as scratch:
                    target = Path(scratch, "task")
                    self._prepare(task, target, out)
                    for program in (*self.config["command"][:1], *grader[:1]):
                        need(program, target)
                    if self.config["folder"]:
                        self.prints[task, out] = digest_of(target)

    def _same(self, task: str) -> None:
        """Refuse a task that has changed: a run might have rewritten its grader."""
        root = self.config["folder"]
        if root and digest_of(task_folder(root, task)) != self.config["digests"][task]:
            raise Refused(f"Task {json.dumps(task)} must be as planned, and has changed. Plan it again.")

    def _grader(self, task: str) -> list[str]:
        """Return the words of the command that grades a task; empty for none."""
        own = Path(self.config["folder"], task, "grade")
        is_own = bool(self.config["folder"]) and own.is_file()
        return self.config["grade"] or ([str(own)] if is_own else [])

    def show(self) -> None:
        """Print what a start would run, and what is off on both sides."""
        config, options, n_runs = self.config, self.options, sum(map(len, self.blocks))
        say(f"Trial {config['plan']}, harness {config['harness']}, model {json.dumps(config['model'])}.")
        for arm, way in config["ways"].items():
            say(f"Left out: {json.dumps(arm)}, by {json.dumps(way['words'])}.")
        for task, sides in self.sides():
            prints = dict.fromkeys(self.prints.get((task, out), "") for out in sides)
            say(f"Task {json.dumps(task)} {' without: '.join(prints)}".rstrip())
        n_sides = len({(slot.side, slot.arm) for block in self.blocks for slot in block})
        say(f"{len(config['tasks'])} tasks, {config['repeats']} repeats, {n_sides} sides.")
        if config["halves"]:
            say("Each side leaves out a random half of the arms.")
        say(f"{n_runs} runs, {config['workers']} at a time.")
        if config["price_usd"] is not None:
            say(f"By recorded runs the price is about ${n_runs * config['price_usd']:.2f}.")
        most = min(n_runs * len(self.attempts) * options.money, options.total_money)
        say(f"By the limits of the runs the price is at most ${most:.2f}.")
        say(f"Limits of each run: ${options.money:g}, {options.turns} turns, {options.time:g} seconds.")
        say(f"Limits of all runs: ${options.total_money:g}, {options.total_time:g} seconds.")
        if config["harness"] == "claude":
            off = [one for one in config["servers"] if not self.is_on(f"mcp__{one}")]
            say(f"Hooks in settings: {', '.join(config['hooks']) or 'none'}. Plugins may have others.")
            say(f"Hooks are {'on' if options.hooks else 'off'} on both sides (--hooks). Memory is off.")
            say(f"Servers that no file marks as read-only, off on both sides (--allow): {json.dumps(off)}")
            say(f"Tools that are on: {', '.join(self._tools())}. All others are off on both sides (--allow).")
        say("Not reset between runs: named servers, files outside the copies, the provider's cache.")
        say(f"Results: {self.folder}")

    # Results

    def open(self) -> None:
        """Make the private folder, and read what has run before. A cell that began and has no line is a fault.

        A second start at the same time is refused.
        """
        if self.folder.is_symlink():
            raise Refused(f"{self.folder} must be a folder, and is a link. Name another one with --folder.")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)  # until the program ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"Another start must not be under way in {self.folder}. Wait for its end."
            ) from None
        (self.folder / "logs").mkdir(exist_ok=True)
        (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")
        begun, lines = {path.name for path in (self.folder / "logs").iterdir()}, self._lines()
        if not all(name.startswith(self.config["prefix"]) for name in begun):
            raise Refused(f"{self.folder} has the results of another plan. Name another one with --folder.")
        if not lines:
            arm = self.config["arms"][0] if len(self.config["arms"]) == 1 else ""
            header = {"plan": self.config["plan"], "arm": arm, "harness": self.config["harness"]}
            self._append({"armscope_trial": 1, **header, **({"pilot": True} if self.options.pilot else {})})
        self.cells = {Slot(*(line[name] for name in Slot._fields)): line for line in lines[1:]}
        for attempt in self.attempts:
            for slot in (slot._replace(attempt=attempt) for block in self.blocks for slot in block):
                if slot not in self.cells and self.session(slot) in begun:
                    self._keep(slot, ended("stopped"))

    def _lines(self) -> list[Values]:
        """Return the lines of the results, and cut off half a line at their end."""
        path = self.folder / "results.jsonl"
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            path.write_bytes(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def _append(self, line: Values) -> None:
        with self._lock, (self.folder / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _keep(self, slot: Slot, cell: Values) -> None:
        line = {name: value for name, value in {**slot._asdict(), **cell}.items() if value is not None}
        self._append(line)
        self.cells[slot] = line

    # Runs

    def run(self) -> int:
        """Run every cell that is missing; return the program's status."""
        last = time.monotonic() + self.options.total_time
        with ThreadPoolExecutor(self.config["workers"]) as pool:
            while (todo := pending(self.blocks, self.cells, self.attempts)) and not self.stop:
                if min(slot.attempt for slot in todo) > self.attempts[0]:
                    time.sleep(self.options.wait)
                try:
                    for _ in pool.map(lambda slot: self._turn(slot, last), todo):
                        pass
                except BaseException:
                    self.end_all()
                    raise
        faults = sum(cell["end"] == "fault" for cell in self.cells.values())
        price = self.spent() / max(1, len(self.cells))
        say(
            f"{len(self.cells)} cells, {faults} of them with a fault. ${self.spent():.2f}, ${price:.4f} each."
        )
        n_left = sum(map(self._is_left, self.blocks))
        if n_left and not self.stop:
            say(f"Tasks without a whole attempt: {n_left}. Go on with a higher --attempts.")
        read = f"Read them: armscope trial read {self.folder / 'results.jsonl'}"
        say(
            self.stop
            or ("These are no results: a pilot shows the price alone." if self.options.pilot else read)
        )
        return 1 if n_left else 0

    def _is_left(self, block: Sequence[Slot]) -> bool:
        """Return whether no attempt of a block is whole."""
        every = [[self.cells.get(one._replace(attempt=n)) for one in block] for n in self.attempts]
        return not any(all(one and one["end"] != "fault" for one in cells) for cells in every)

    def spent(self) -> float:
        """Return the US dollars of all runs."""
        return float(sum(cell.get("money_pico", 0) for cell in [*self.cells.values()])) / 1e12

    def end_all(self) -> None:
        """End every run, and let no other begin."""
        self.stop = "Stopped. The same command goes on."
        with self._lock:
            for process in self._running:
                kill(process)

    def _turn(self, slot: Slot, last: float) -> None:
        """Run one cell, unless all runs have come to a limit. Each running agent may still spend its own limit."""
        money = self.spent() + self.config["workers"] * self.options.money
        if not self.stop and (time.monotonic() > last or money > self.options.total_money):
            self.stop = "A limit of all runs was reached. Start again with a higher one to go on."
        if self.stop:
            return
        try:
            cell = self._cell(slot)
        except OSError as problem:
            cell = ended(f"script: {problem.strerror}")
        self._keep(slot, ended("stopped") if self.stop.startswith("Stopped") else cell)
        words = json.dumps(cell.get("error") or cell.get("grade")).strip('"')
        say(f"{len(self.cells)}: {json.dumps(list(slot))} {cell['end']} {words}")

    def _cell(self, slot: Slot) -> Values:
        """Run the agent in a fresh copy of the task's folder, and grade what it leaves."""
        out = self.out_of(slot)
        with tempfile.TemporaryDirectory(prefix="armscope-") as name:
            target = Path(name).resolve() / "task"
            self._same(slot.task)
            self._prepare(slot.task, target, out)
            if self.prints and digest_of(target) != self.prints[slot.task, out]:
                return ended("copy")
            at = {"at_ms": time.time_ns() // 1_000_000, "session": self.session(slot)}
            way = self.config["ways"][slot.arm or self.config["arms"][0]]
            is_there = "file" in way and part_in(target, way) is not None
            run = self._claude if self.config["harness"] == "claude" else self._command
            try:
                cell = run(slot, way, target)
                if cell["end"] != "fault" and cell.get("grade") is None:
                    cell |= self._graded(slot, target, cell["end"])
            except ODD:
                cell = ended("a result that is not in the documented form")
            self._same(slot.task)
            if self.config["halves"]:  # a cell has the presence of one arm
                cell |= {"presence": None, "used": None}
            elif "file" in way and cell.get("presence") != "called":
                cell["presence"] = way["present"] if is_there else "absent"
            return {**at, **cell}

    def _prepare(self, task: str, target: Path, out: Iterable[str]) -> None:
        """Make a fresh copy of a task's folder, without the files, sections and memories that are left out."""
        if not self.config["folder"]:
            target.mkdir()
            return
        copy_task(task_folder(self.config["folder"], task), target)
        ways = {arm: way for arm in out if "file" in (way := self.config["ways"][arm])}
        for arm, way in sorted(ways.items(), key=lambda one: "section" not in one[1]):  # before their file
            if (part := part_in(target, way)) is None:
                raise Refused(f"{json.dumps(arm)} must be in each task, and is not in {json.dumps(task)}.")
            path, rest = part
            path.unlink() if rest is None else path.write_text(rest, encoding="utf-8")

    def _start(
        self, argv: Sequence[str], cell: Path, target: Path, env: Values, source: str = os.devnull
    ) -> int | None:
        """Run a program for a cell, and return its status; None where its time ended first."""
        own = {**os.environ, **{f"ARMSCOPE_{name}": value for name, value in env.items()}}
        with Path(source).open("rb") as stdin, cell.open("wb") as out:
            streams: Values = {"stdin": stdin, "stdout": out, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(
                argv, cwd=target, env=own, start_new_session=True, text=False, **streams
            )
        with self._lock:
            self._running.add(process.pid)
        try:
            return process.wait(0 if self.stop.startswith("Stopped") else self.options.time)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with self._lock:
                kill(process.pid)
                self._running.discard(process.pid)
            process.wait()

    def _env(self, slot: Slot, target: Path) -> Values:
        """Return what a command and a grader read, and take an earlier result away."""
        (target.parent / "result.json").unlink(missing_ok=True)
        root = self.config["folder"]
        own = {"TASK": slot.task, "WITHOUT": "\n".join(self.out_of(slot)), "CELL": self.session(slot)}
        return {
            **own,
            "RESULT": f"{target.parent}/result.json",
            "FOLDER": f"{root}/{slot.task}" if root else "",
        }

    def session(self, slot: Slot) -> str:
        """Return the session id of a cell."""
        return session_of(self.config["prefix"], slot)

    # The harness command

    def _command(self, slot: Slot, way: Values, target: Path) -> Values:
        log = self.folder / "logs" / self.session(slot)
        status = self._start(self.config["command"], log, target, self._env(slot, target))
        line: Values = {}
        with contextlib.suppress(*(ODD if status is None else ())):  # its time may end within the line
            line = result_in(target)
        return self._result(line, way, status)

    def _result(self, line: Values, way: Values, status: int | None) -> Values:
        """Return the members of a cell from the line that a command wrote; it may leave the grade to the grader."""
        if status and not line:
            return ended(f"no result, status {status}")
        grade, usage, calls = line.get("grade"), line.get("usage") or {}, line.get("calls")
        cell = ended(str(line.get("error") or ("time" if status is None else "")))
        cell["grade"] = None if grade is None or cell["end"] == "fault" else amount(grade, 1)
        parts = (usage.get(name) for name in ("input", "output", "cache_read", "cache_write"))
        summed = tokens_of(parts)
        cell["tokens"] = tokens_of([usage.get("total")]) or summed
        cell["money_pico"] = pico_of(usage.get("money"))
        if calls is not None:
            listed = line.get("listed")
            if not isinstance(calls, list) or not isinstance(listed, list | None):
                raise TypeError
            cell |= presence(way["names"], listed, map(str, calls))
        return cell

    # The harness claude

    def _tools(self) -> list[str]:
        own = [rule.partition("(")[0] for rule in self.options.allow if not rule.startswith("mcp__")]
        return [*dict.fromkeys([*READ_ONLY, *own])]

    def _settings(self, out: Iterable[str]) -> Values:
        """Return the settings of a run: the same on both sides, but for the arms that are left out."""
        servers = [f"mcp__{one}__*" for one in self.config["servers"] if not self.is_on(f"mcp__{one}")]
        has_server = any(rule.startswith("mcp__") for rule in self.options.allow)
        ways = [self.config["ways"][arm] for arm in out]
        denied = [rule for way in ways for rule in way.get("deny", ())]
        own = {**self.config["own"]}
        for name, change in ((name, one) for way in ways for name, one in way.get("settings", {}).items()):
            own[name] = {**own.get(name, {}), **change}
        deny = [*(servers if has_server else ["mcp__*"]), *denied]
        return {
            **own,
            "permissions": {"allow": ["Skill", *self.options.allow], "deny": deny},
            "disableAllHooks": not self.options.hooks,
            "disableClaudeAiConnectors": not self.is_on("mcp__claude_ai"),
            "autoMemoryEnabled": False,
        }

    def _claude(self, slot: Slot, way: Values, target: Path) -> Values:
        path, options = target.parent / "settings.json", self.options
        path.write_text(json.dumps(self._settings(self.out_of(slot))), encoding="utf-8")
        argv = [*self.config["command"], "-p", "--verbose", "--output-format=stream-json"]
        argv += [f"--settings={path}", f"--session-id={self.session(slot)}", "--permission-mode=dontAsk"]
        argv += [f"--max-turns={options.turns}", f"--max-budget-usd={options.money:g}"]
        argv += [f"--tools={','.join(self._tools())}"]
        argv += [f"--model={self.config['model']}"] if self.config["model"] else []
        folder, log = task_folder(self.config["folder"], slot.task), self.folder / "logs" / self.session(slot)
        status = self._start(argv, log, target, {}, str(folder / "prompt.md"))
        return self._session(log.read_text(encoding="utf-8", errors="replace"), slot, way, status)

    def _session(self, printed: str, slot: Slot, way: Values, status: int | None) -> Values:
        """Return the members of a cell from the events of a session."""
        events = [*map(parsed, printed.splitlines())]
        start = next((one for one in events if one.get("subtype") == "init"), {})
        last = next((one for one in reversed(events) if one.get("type") == "result"), {})
        listed, names = listed_in(start), (start.get("model"), start.get("claude_code_version"))
        if not all(isinstance(one, str | None) for one in names):
            raise TypeError
        others = [one for one in listed if one.startswith("mcp__") and not self.is_on(one)]
        models = (last.get("modelUsage") or {}).values()
        # The list of agents may name those that a deny rule keeps from the model.
        is_blind = way["names"][0].startswith("Agent(") and (slot.side == "without" or "agents" not in start)
        waits = any(one.get("status") == "pending" for one in start.get("mcp_servers", ()))
        is_blind = is_blind or not start or (waits and way["names"][-1].startswith("mcp__"))
        return {
            "model": names[0],
            "version": names[1],
            "tokens": tokens_of(one.get(name) for one in models for name in COUNTS),
            "money_pico": pico_of(last.get("total_cost_usd")),
            **presence(way["names"], None if is_blind else listed, calls_in(events)),
            **ended(f"{others[0]} was on" if others else error_of(status, last)),
        }

    def _graded(self, slot: Slot, target: Path, end: str) -> Values:
        """Return the grade of what an agent left: from the grader's line, else 1 for its status 0 and 0 for 1."""
        self._same(slot.task)
        argv, log = self._grader(slot.task), f"logs/{self.session(slot)}.grade"
        if not argv:
            return {} if end == "limit" else ended("no grade")
        status = self._start(argv, self.folder / log, target, self._env(slot, target))
        line = result_in(target)
        grade = line.get("grade") if line else {0: 1.0, 1: 0.0}.get(-1 if status is None else status)
        if line.get("error") or not isinstance(grade, int | float) or not 0 <= grade <= 1:
            return ended(f"grader: {line.get('error') or status}")
        return {"grade": float(grade)}


def result_in(target: Path) -> Values:
    """Return the line that a command or a grader wrote; empty for none. One that is no object raises an error."""
    path = target.parent / "result.json"
    line = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if not isinstance(line, dict):
        raise TypeError
    return line


def kill(process: int) -> None:
    """End a process and those that it started."""
    with contextlib.suppress(OSError):
        os.killpg(process, signal.SIGKILL)


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def options_of(config: Values, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of a start."""
    parser = argparse.ArgumentParser(description=f"Trial {config['plan']}. Without --yes nothing is run.")
    parser.add_argument("--yes", action="store_true", help="run it")
    parser.add_argument("--pilot", action="store_true", help="run 3 tasks a side for the price alone")
    parser.add_argument("--hooks", action="store_true", help="leave the hooks on, on both sides")
    words = "turn on a tool or server, and allow its calls, by a permission rule"
    parser.add_argument("--allow", action="append", default=[], metavar="RULE", help=words)
    folder = f"armscope-trial-{config['plan']}"
    parser.add_argument("--folder", default=folder, help=f"private folder of the results ({folder})")
    for name, default, words in (
        ("--turns", 50, "turns of each run"),
        ("--time", 1800.0, "seconds of each run"),
        ("--money", 2.0, "US dollars of each run"),
        ("--total-time", 86_400.0, "seconds of all runs of this start"),
        ("--total-money", 20.0, "US dollars of all runs"),
        ("--attempts", 3, "attempts of a block that has a fault"),
        ("--wait", 60.0, "seconds before a block runs again"),
    ):
        parser.add_argument(name, type=type(default), default=default, help=f"{words} ({default:,})")
    return parser.parse_args(arguments)


def main(config: Values, arguments: Sequence[str] | None = None) -> int:
    """Show the trial, and run it with ``--yes``."""
    trial = Trial(config, options_of(config, arguments))
    try:
        trial.check()
        trial.show()
        if not trial.options.yes:
            say("Nothing was run. Run it with --yes.")
            return 0
        trial.open()
        return trial.run()
    except Refused as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("Stopped. The same command goes on.")
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(json.loads(CONFIG)))
