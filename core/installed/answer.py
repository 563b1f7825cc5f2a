"""Answer: what the agents of a machine carry, what its sessions used, and what may be listed by name alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from core.installed import claude_code, others
from core.installed.files import FileReader
from core.installed.sessions import SessionUse, read_sessions
from core.records.arm import quarter_up
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


def machine_inventory(home: Path, now_ms: int) -> MachineInventory:
    """Return what the agents below a home folder carry, with the uses in the sessions of Claude Code.

    Only skills and tools count as used or not. No session records whether a file that is always there was
    of use.
    """
    sessions = read_sessions(home / ".claude" / "projects")
    files = FileReader()
    installed = [
        *claude_code.items(home, _projects(home, sessions), files),
        *_deferred(sessions),
        *others.items(home, files),
    ]
    carried = [_judged(item, sessions, installed, now_ms) for item in installed]
    counted = [one for one in carried if one.item.kind in _COUNTED and one.item.state in _LOADED]
    unused = [one for one in counted if one.use is not None and not one.use.uses]
    used = [one for one in counted if one.use is not None and one.use.uses]
    tokens = _a_session(unused, sessions)
    n_silent = sum(one.carried is None and one.state in _LOADED for one in installed)
    oldest = min((one.started_ms for one in sessions if one.started_ms is not None), default=None)
    return MachineInventory(
        sentence=_sentence(len(counted), len(used), len(unused), len(sessions), tokens),
        notes=(
            *(
                [f"{number_of(n_silent, 'server')}: no file gives the size of their tools."]
                if n_silent
                else []
            ),
            *(f"{one.path} was not read: {one.reason}." for one in files.unread),
        ),
        items=tuple(sorted(carried, key=_order)),
        sessions=len(sessions),
        oldest_ms=oldest,
        loaded=len(counted),
        used=len(used),
        carried=tokens,
    )


def _sentence(n_loaded: int, n_used: int, n_unused: int, n_sessions: int, tokens: int) -> str:
    if not n_loaded:
        return "No skill or tool of an agent was folders on this machine."
    if not n_sessions:
        loaded = "1 skill or tool is" if n_loaded == 1 else f"{n_loaded:,} skills and tools are"
        return f"{loaded} loaded. No session is on record to compare them with."
    where = f"in the {number_of(n_sessions, 'session')} on record"
    head = f"Of {n_loaded:,} loaded skills and tools, {n_used:,} were used {where}."
    return f"{head} The other {n_unused:,} carry about {tokens:,} tokens a session." if n_unused else head


def _order(one: CarriedItem) -> tuple[bool, int, str, str]:
    is_used = one.use is None or bool(one.use.uses)
    return is_used, -(one.item.carried or 0), one.item.agent, one.item.name


def _projects(home: Path, sessions: Iterable[SessionUse]) -> list[Path]:
    """Return the folders of sessions that are still there, with those above them that hold settings."""
    folders: dict[Path, None] = {}
    for folder in sorted({one.folder for one in sessions if one.folder is not None}):
        path = Path(folder)
        if not path.is_absolute():
            continue
        for one in (path, *path.parents):
            if one in {home, home.parent} or one == Path(one.anchor):
                break
            if one == path or any((one / name).exists() for name in (".claude", ".mcp.json", "CLAUDE.md")):
                folders[one] = None
    return [path for path in folders if path.is_dir()]


def _deferred(sessions: Sequence[SessionUse]) -> list[InstalledItem]:
    """Return the tools that the newest session with such a list had by name: a name is what each of them carries."""
    newest = next((one for one in reversed(sessions) if one.tools), None)
    return (
        [
            InstalledItem(
                agent=claude_code.AGENT,
                kind="tool",
                name=name,
                path="",
                state="by name",
                carried=quarter_up(len(name)),
                server=claude_code.server_of_tool(name),
                changed_ms=newest.started_ms,
            )
            for name in sorted(newest.tools or ())
        ]
        if newest
        else []
    )


# Use


def _judged(
    item: InstalledItem, sessions: Sequence[SessionUse], installed: Sequence[InstalledItem], now_ms: int
) -> CarriedItem:
    if item.agent != claude_code.AGENT or not sessions or item.kind == "file":
        return CarriedItem(item=item, use=None, at_most=None, proposal=None, why=_unread(item))
    use = _use(item, sessions)
    bound = None if use.uses or not use.offered else upper_bound(use.offered)
    proposal, why = _proposal(item, use, sessions, installed, now_ms)
    return CarriedItem(item=item, use=use, at_most=bound, proposal=proposal, why=why)


def _unread(item: InstalledItem) -> str:
    return "always there" if item.kind == "file" else f"no session of {item.agent} was read"


def _use(item: InstalledItem, sessions: Iterable[SessionUse]) -> ItemUse:
    offered = n_sessions = uses = elsewhere = 0
    last_ms = None
    for one in sessions:
        names = _names(item, one)
        n = sum(one.uses[name] for name in names)
        if item.project is not None and not one.is_within(item.project):
            elsewhere += n > 0
            continue
        offered += n > 0 or _is_offered(item, one)
        if n:
            n_sessions, uses = n_sessions + 1, uses + n
            last_ms = max(last_ms or 0, *(one.last_ms.get(name, 0) for name in names))
    return ItemUse(
        offered=offered, sessions=n_sessions, uses=uses, last_ms=last_ms or None, elsewhere=elsewhere
    )


def _names(item: InstalledItem, session: SessionUse) -> list[str]:
    """Return the names in a session that are uses of an item."""
    if item.kind != "server":
        return [item.name]
    own = claude_code.as_in_tools(item)
    return [name for name in session.uses if claude_code.server_of_tool(name) == own]


def _is_offered(item: InstalledItem, session: SessionUse) -> bool:
    """Return whether a session had an item on offer: by its own lines, else by the time of the file's change."""
    if item.kind == "skill" and session.skills is not None:
        return item.name in session.skills
    if item.kind == "tool":
        return session.tools is not None and item.name in session.tools
    if item.kind == "server" and session.tools:
        own = claude_code.as_in_tools(item)
        return any(claude_code.server_of_tool(name) == own for name in session.tools)
    begun = session.started_ms
    return item.state in _LOADED and begun is not None and begun >= (item.changed_ms or 0)


# Proposals


def _proposal(
    item: InstalledItem,
    use: ItemUse,
    sessions: Sequence[SessionUse],
    installed: Sequence[InstalledItem],
    now_ms: int,
) -> tuple[Literal["by name"] | None, str]:
    against = next(_against(item, use, now_ms), None)
    if against is not None:
        return None, against
    bound = f"0 of {use.offered:,} sessions: at most {upper_bound(use.offered):.1%}"
    if item.switch is None:
        return None, f"{bound}; no setting of {item.agent} switches it"
    if item.switch.whole is not None:
        rest = (one for one in installed if one.plugin == item.plugin and one is not item)
        is_used = any(_use(one, sessions).uses for one in rest)
        parts = "other parts of it are used" if is_used else "none of it is used"
        return None, f"{bound}; {item.switch.whole} goes out only as a whole, and {parts}"
    return "by name", bound


def _against(item: InstalledItem, use: ItemUse, now_ms: int) -> Iterator[str]:
    """Yield the reasons why nothing is proposed for an item."""
    if item.state not in _LOADED:
        yield f"already {item.state}"
    if use.uses:
        yield f"used in {use.sessions:,} of {use.offered:,} sessions"
    if use.elsewhere:
        yield f"used in {number_of(use.elsewhere, 'session')} of another folder"
    age_ms = now_ms - (item.changed_ms or 0)
    if age_ms < LEAST_AGE_MS:
        yield f"changed {number_of(age_ms // DAY_MS, 'day')} ago: younger than 30 days"
    if use.offered < LEAST_SESSIONS:
        yield f"on offer in {number_of(use.offered, 'session')}: fewer than {LEAST_SESSIONS}"


def _a_session(unused: Iterable[CarriedItem], sessions: Sequence[SessionUse]) -> int:
    """Return the tokens that items carry in a session, on average over the folders of the sessions."""
    total = 0.0
    for one in unused:
        project = one.item.project
        share = 1.0 if project is None else sum(s.is_within(project) for s in sessions) / len(sessions)
        total += share * (one.item.carried or 0)
    return round(total)
