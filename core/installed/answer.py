"""Inventory of what the agents of a machine carry, with the use in its sessions and proposals."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, Literal

from msgspec.structs import replace

from core.formats import is_folder
from core.installed import claude_code, others
from core.installed.files import FileReader, clean
from core.installed.other_sessions import codex_sessions, gemini_sessions, opencode_sessions, pi_sessions
from core.installed.sessions import AGENT, SessionReader, SessionUse, claude_code_sessions, settled
from core.records.arm import quarter_up, skill_name
from core.records.counts import number_of
from core.records.inventory import (
    DAY_MS,
    LEAST_AGE_MS,
    LEAST_SESSIONS,
    CarriedItem,
    InstalledItem,
    ItemUse,
    MachineInventory,
    upper_bound,
)

_LOADED: Final = frozenset(("in full", "by name"))
_COUNTED: Final = frozenset(("skill", "tool"))
_NAMELESS: Final = frozenset(("Gemini CLI",))
"""Agents whose calls need not name the server of a tool."""
_MOST_NAMED: Final = 5
_LONGEST_FOLDER: Final = 4_096
_NO_TIME_MS: Final = 946_684_800_000
"""Packages set the times of their files to a year before 2000; such a time says nothing."""
_OWN: Final = (".claude", ".codex", ".gemini", ".openclaw", ".pi", ".local/share/opencode")
"""Folders below the home folder in which agents keep their sessions."""

Proposal = Literal["by name", "user only"]
"""``by name``: only its name stays in the prompt. ``user only``: out of the prompt, but a person can call it."""
Sessions = Mapping[str, Sequence[SessionUse]]
"""Sessions by agent."""


def is_own(path: Path, home: Path) -> bool:
    """Return whether a path leads to sessions that agents keep below a home folder."""
    real = Path(os.path.realpath(path))  # resolve() refuses a link that leads to itself
    return any(real.is_relative_to(os.path.realpath(home / folder)) for folder in _OWN)


def inventory(home: Path | None = None) -> MachineInventory:
    """Return what the agents of this machine carry and what their sessions used; nothing is started or written.

    Args:
        home: Another home folder than the user's.
    """
    return machine_inventory(home or Path.home(), time.time_ns() // 1_000_000)


def machine_inventory(home: Path, now_ms: int) -> MachineInventory:
    """Return what the agents below a home folder carry, with the uses in their sessions.

    Only skills and tools count as used or not. No session records whether a file that is always there was
    of use.
    """
    reader, files = SessionReader(), FileReader()
    every = settled(
        [
            *claude_code_sessions(home, reader),
            *codex_sessions(home, reader),
            *gemini_sessions(home, reader),
            *pi_sessions(home, reader),
            *opencode_sessions(home, reader),
        ]
    )
    sessions: dict[str, list[SessionUse]] = {}
    for one in every:
        sessions.setdefault(one.agent, []).append(one)
    installed = _with_tools(
        [
            *claude_code.items(home, _projects(home, sessions.get(AGENT, ())), files),
            *others.items(home, files),
        ],
        sessions,
    )
    return _answer([*_judged(installed, sessions, now_ms)], sessions, reader, files)


def _answer(
    carried: Sequence[CarriedItem], sessions: Sessions, reader: SessionReader, files: FileReader
) -> MachineInventory:
    every = [one for of_agent in sessions.values() for one in of_agent]
    whole = sum(one.parent is None for one in every)
    loaded = [one for one in carried if one.item.kind in _COUNTED and one.item.state in _LOADED]
    counted = [one for one in loaded if one.use is not None] if every else loaded
    unused = [one for one in counted if one.use is not None and not one.use.uses]
    n_used = len(counted) - len(unused) if every else 0
    tokens = _a_session(unused, sessions, whole)
    n_requests = [len(one.requests) for one in every if one.requests]
    models = Counter(
        model
        for one in every
        for model in one.requests.values()
        if model.isprintable() and model[:1] not in "<"
    )
    return MachineInventory(
        sentence=_sentence(len(counted), n_used, whole, tokens),
        notes=tuple(_notes(carried, loaded, sessions, reader)),
        unread=tuple(clean(f"{one.path} was not read: {one.reason}.") for one in files.unread),
        items=tuple(sorted(carried, key=_order)),
        sessions=whole,
        oldest_ms=_first(every),
        loaded=len(counted),
        used=n_used,
        carried=tokens,
        requests=round(median(n_requests)) if n_requests else None,
        model=models.most_common(1)[0][0] if models else None,
    )


def _sentence(n_loaded: int, n_used: int, n_sessions: int, tokens: int) -> str:
    if not n_loaded:
        return "No loaded skill or tool of an agent was found on this machine."
    if not n_sessions:
        loaded = "1 skill or tool is" if n_loaded == 1 else f"{n_loaded:,} skills and tools are"
        return f"{loaded} loaded. No session is on record to compare them with."
    things = "loaded skill or tool" if n_loaded == 1 else "loaded skills and tools"
    head = (
        f"Of {n_loaded:,} {things} you used {n_used:,} in the {number_of(n_sessions, 'session')} on record."
    )
    if n_used == n_loaded:
        return head
    n_left = n_loaded - n_used
    others = "The other carries" if n_left == 1 else f"The other {n_left:,} carry"
    return f"{head} {others} about {number_of(tokens, 'token')} a session."


def _notes(
    carried: Sequence[CarriedItem], loaded: Sequence[CarriedItem], sessions: Sessions, reader: SessionReader
) -> Iterator[str]:
    items = [one.item for one in carried]
    silent = sum(
        one.kind == "server" and one.carried is None and one.state in _LOADED and not _has_tools(one, items)
        for one in items
    )
    if silent:
        yield f"{number_of(silent, 'server')}: no file gives the size of their tools."
    apart = [one for one in loaded if one.use is None] if sessions else []
    if apart:
        agents = " and ".join(sorted({one.item.agent for one in apart}))
        yield f"{number_of(len(apart), 'more skill')} of {agents}: no session of it is on record."
    gone = _gone(carried, sessions)
    if gone:
        named = ", ".join(f"{name} ({number_of(n, 'session')})" for name, n in gone[:_MOST_NAMED])
        more = f" and {len(gone) - _MOST_NAMED:,} more" if len(gone) > _MOST_NAMED else ""
        yield f"Sessions loaded skills under names that are not installed now: {named}{more}."
    cut = _listing_limit(carried, sessions.get(AGENT, ()))
    if cut is not None:
        yield (
            f"The newest list of skills in a session of {AGENT} has about {cut:,} tokens. "
            "The agent shortens it, so skills carry less than their lines together."
        )
    if reader.n_older:
        yield f"Not read: {number_of(reader.n_older, 'older session file')}."
    if reader.n_unread:
        yield f"{number_of(reader.n_unread, 'session file')} could not be read."


def _gone(carried: Iterable[CarriedItem], sessions: Sessions) -> list[tuple[str, int]]:
    """Return names of skills that sessions loaded and that are not installed, as after a change of name."""
    known = {name for one in carried for name in (one.item.name, one.item.also)}
    n_of: dict[str, int] = {}
    for of_agent in sessions.values():
        for session in of_agent:
            for name in session.loads - known:
                n_of[name] = n_of.get(name, 0) + 1
    return sorted(n_of.items(), key=lambda one: (-one[1], one[0]))


def _listing_limit(carried: Iterable[CarriedItem], sessions: Sequence[SessionUse]) -> int | None:
    """Return the tokens of the newest list of skills, if its skills' lines together have more."""
    newest = next((one for one in reversed(sessions) if one.listing_chars), None)
    if newest is None:
        return None
    listed = quarter_up(newest.listing_chars)
    lines = sum(
        one.item.carried or 0
        for one in carried
        if one.item.kind == "skill" and one.item.name in (newest.skills or ())
    )
    return listed if lines > listed else None


def _order(one: CarriedItem) -> tuple[bool, int, str, str, str]:
    is_used = one.use is None or bool(one.use.uses)
    return is_used, -(one.item.carried or 0), one.item.agent, one.item.name, one.item.path


def _projects(home: Path, sessions: Iterable[SessionUse]) -> list[Path]:
    """Return the folders of sessions that are still there, with those above them that hold settings."""
    folders: dict[Path, None] = {}
    for folder in sorted({one.folder for one in sessions if one.folder is not None}):
        path = Path(folder)
        if not path.is_absolute() or "\0" in folder or len(folder) > _LONGEST_FOLDER:
            continue
        for one in (path, *path.parents):
            if one in {home, home.parent} or one == Path(one.anchor):
                break
            if one == path or any(_exists(one / name) for name in (".claude", ".mcp.json", "CLAUDE.md")):
                folders[one] = None
    return [path for path in folders if is_folder(path)]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _with_tools(items: list[InstalledItem], sessions: Sessions) -> list[InstalledItem]:
    """Add the tools that the newest session with a list of them had, and what servers say in each session."""
    claude = sessions.get(AGENT, ())
    newest = next((one for one in reversed(claude) if one.tools), None)
    tools = [_deferred(claude, name, items) for name in sorted(newest.tools or ())] if newest else []
    codex = next((one for one in reversed(sessions.get("Codex CLI", ())) if one.definitions), None)
    tools += _defined(codex) if codex else []
    words = next((one.instructions for one in reversed(claude) if one.instructions), {})
    return [*(_served(one, words, tools) for one in items), *tools]


def _served(item: InstalledItem, words: Mapping[str, int], tools: Iterable[InstalledItem]) -> InstalledItem:
    """Return a server as its listed tools leave it: by name, with its own words, whose size only a session has."""
    if item.kind != "server" or item.state not in _LOADED or not _has_tools(item, tools):
        return item
    n_chars = words.get(item.name)
    return replace(item, state="by name", carried=None if n_chars is None else quarter_up(n_chars))


def _has_tools(server: InstalledItem, items: Iterable[InstalledItem]) -> bool:
    """Return whether tools of a server are listed beside it, with the size of each."""
    name = claude_code.as_in_tools(server)
    return any((one.agent, one.kind, one.server) == (server.agent, "tool", name) for one in items)


def _deferred(sessions: Iterable[SessionUse], name: str, items: Iterable[InstalledItem]) -> InstalledItem:
    """Return a tool that sessions list by name, since the first of them: its name is what each session carries."""
    own = [
        claude_code.as_in_tools(one)
        for one in items
        if one.kind == "server" and one.agent == AGENT and claude_code.is_of(name, one)
    ]
    return InstalledItem(
        agent=AGENT,
        kind="tool",
        name=name,
        path="",
        state="by name",
        carried=quarter_up(len(name)),
        server=max(own, key=len, default=claude_code.server_of_tool(name)),
        changed_ms=_first(one for one in sessions if name in (one.tools or ())),
    )


def _first(sessions: Iterable[SessionUse]) -> int | None:
    return min((one.started_ms for one in sessions if one.started_ms is not None), default=None)


def _defined(session: SessionUse) -> Iterator[InstalledItem]:
    """Yield the tools that a session of Codex CLI has the definitions of."""
    for name, one in sorted(session.definitions.items()):
        yield InstalledItem(
            agent=session.agent,
            kind="tool",
            name=name,
            path="",
            state="by name" if one.is_deferred else "in full",
            carried=quarter_up(len(one.text)),
            changed_ms=session.started_ms,
        )


# Use


def _judged(installed: Sequence[InstalledItem], sessions: Sessions, now_ms: int) -> Iterator[CarriedItem]:
    """Yield items with their use; all uses are counted before anything is proposed."""
    uses = [_use(item, sessions[item.agent]) if item.agent in sessions else None for item in installed]
    used_plugins = {
        item.plugin for item, use in zip(installed, uses, strict=True) if use is not None and use.uses
    }
    for item, use in zip(installed, uses, strict=True):
        if item.kind == "file":
            yield _unjudged(item, "always there")
        elif use is None:
            yield _unjudged(item, f"no session of {item.agent} is on record")
        elif item.kind == "server" and item.agent in _NAMELESS:
            yield _unjudged(item, f"calls of {item.agent} need not name the server")
        else:
            yield _with_proposal(item, use, now_ms, is_plugin_used=item.plugin in used_plugins)


def _with_proposal(item: InstalledItem, use: ItemUse, now_ms: int, *, is_plugin_used: bool) -> CarriedItem:
    proposal, why = _proposal(item, use, now_ms, is_plugin_used=is_plugin_used)
    # A skill with uses has a proposal where only a person called it. The bound is then of loads by the agent.
    is_bounded = use.offered > 0 and (not use.uses or proposal is not None)
    if proposal == "user only" and item.switch is not None:
        item = replace(item, switch=replace(item.switch, value="user-invocable-only"))
    return CarriedItem(
        item=item,
        use=use,
        at_most=upper_bound(use.offered) if is_bounded else None,
        proposal=proposal,
        why=why,
    )


def _unjudged(item: InstalledItem, why: str) -> CarriedItem:
    return CarriedItem(item=item, use=None, at_most=None, proposal=None, why=why)


def spared(inventory: MachineInventory, missed: Collection[str]) -> MachineInventory:
    """Return an inventory in which nothing goes out that is an arm of ``missed``, or the server of one."""
    return replace(
        inventory,
        items=tuple(
            _unjudged(one.item, "needed and not used, by a queue: say better when to use it")
            if any(is_arm(one.item, arm) for arm in missed)
            else one
            for one in inventory.items
        ),
    )


def is_arm(item: InstalledItem, arm: str) -> bool:
    """Return whether an item is an arm, or the server of one."""
    name = skill_name(arm)
    return name in {item.name, item.also} or (item.kind == "server" and claude_code.is_of(name, item))


def _use(item: InstalledItem, sessions: Sequence[SessionUse]) -> ItemUse:
    offered = n_sessions = uses = typed = elsewhere = 0
    last_ms = None
    since_ms = _since(item, sessions)
    for one in sessions:
        names = _names(item, one)
        n = sum(one.uses[name] for name in names)
        if item.project is not None and not one.is_within(item.project):
            elsewhere += n > 0
            continue
        offered += n > 0 or (one.parent is None and _is_offered(item, one, since_ms))
        if n:
            n_sessions, uses = n_sessions + 1, uses + n
            typed += sum(one.typed[name] for name in names)
            last_ms = max(last_ms or 0, *(one.last_ms.get(name, 0) for name in names))
    return ItemUse(
        offered=offered,
        sessions=n_sessions,
        uses=uses,
        typed=typed,
        last_ms=last_ms or None,
        elsewhere=elsewhere,
        since_ms=since_ms,
    )


def _since(item: InstalledItem, sessions: Iterable[SessionUse]) -> int | None:
    """Return the time from which an item counts as on offer.

    That is the time of its file's change, or of the first session that lists it if that is earlier: cloned files are
    new. It is after the latest session whose list lacks it: a moved file keeps its time. A server is there since the
    first session that lists or uses its tools.
    """
    if item.kind == "server":  # its file may change for other reasons
        first_ms = _first(one for one in sessions if any(claude_code.is_of(name, item) for name in one.known))
        return item.changed_ms if first_ms is None else first_ms
    lists = [
        (one.started_ms, item.name in names)
        for one in sessions
        if one.started_ms
        and (names := {"skill": one.skills, "tool": one.tools}.get(item.kind)) is not None
        and (item.project is None or one.is_within(item.project))
    ]
    lacked_ms = max((at_ms for at_ms, has in lists if not has), default=-1)
    times = [at_ms for at_ms, has in lists if has and at_ms > lacked_ms]
    if item.changed_ms is not None and item.changed_ms >= _NO_TIME_MS:
        times.append(max(item.changed_ms, lacked_ms + 1))
    return min(times, default=None)


def _names(item: InstalledItem, session: SessionUse) -> list[str]:
    if item.kind == "server":
        return [name for name in session.uses if claude_code.is_of(name, item)]
    return [name for name in {item.name, item.also} if name is not None and session.uses[name]]


def _is_offered(item: InstalledItem, session: SessionUse, since_ms: int | None) -> bool:
    """Return whether a session had an item on offer: by its own lines, else by the time of the file's change."""
    if item.kind == "skill" and session.skills is not None:
        return item.name in session.skills
    if item.kind == "tool":
        return session.tools is not None and item.name in session.tools
    if (
        item.kind == "server"
        and session.tools
        and any(claude_code.is_of(name, item) for name in session.tools)
    ):
        return True
    begun = session.started_ms
    return item.state in _LOADED and None not in {begun, since_ms} and (begun or 0) >= (since_ms or 0)


# Proposals


def _proposal(
    item: InstalledItem, use: ItemUse, now_ms: int, *, is_plugin_used: bool
) -> tuple[Proposal | None, str]:
    is_users = use.uses > 0 and use.uses == use.typed and item.kind == "skill"
    against = next(_against(item, use, now_ms, is_users=is_users), None)
    if against is not None:
        return None, against
    head = f"typed in {use.sessions:,}, loaded by the agent in 0" if is_users else "0"
    bound = f"{head} of {use.offered:,} sessions: at most {upper_bound(use.offered):.1%}"
    if item.switch is None:
        return None, f"no setting of {item.agent} puts it by name alone; {bound}"
    if item.switch.whole is not None:
        rest = "other parts of it are used" if is_plugin_used else "none of it is used"
        if item.is_unrecorded and not is_plugin_used:
            rest = "it has hooks or agents, whose use no session records"
        return None, f"{item.switch.whole} goes out only as a whole, and {rest}; {bound}"
    is_by_name = item.switch.value == "user-invocable-only"
    return "user only" if is_users or is_by_name else "by name", bound


def _against(item: InstalledItem, use: ItemUse, now_ms: int, *, is_users: bool) -> Iterator[str]:
    """Yield the reasons why nothing is proposed for an item; the first one is shown."""
    if item.state not in _LOADED:
        yield f"already {item.state}"
    if use.uses and not is_users:
        yield f"used in {use.sessions:,} of {use.offered:,} sessions"
    if use.elsewhere:
        yield f"used in {number_of(use.elsewhere, 'session')} of another folder"
    age_ms = now_ms - (use.since_ms or 0)
    if age_ms < 0:
        yield "the time of its file lies in the future"
    if age_ms < LEAST_AGE_MS:
        yield f"there for {number_of(age_ms // DAY_MS, 'day')}: less than {LEAST_AGE_MS // DAY_MS}"
    if use.offered < LEAST_SESSIONS:
        yield f"on offer in {number_of(use.offered, 'session')}: fewer than {LEAST_SESSIONS}"
    if use.since_ms is None:
        yield "the time of its file is unknown"


def _a_session(unused: Iterable[CarriedItem], sessions: Sessions, n_sessions: int) -> int:
    total = 0.0
    for one in unused:
        own = [session for session in sessions[one.item.agent] if session.parent is None]
        project = one.item.project
        n = len(own) if project is None else sum(session.is_within(project) for session in own)
        total += n * (one.item.carried or 0)
    return round(total / n_sessions) if n_sessions else 0
