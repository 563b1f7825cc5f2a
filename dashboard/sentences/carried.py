"""Sentences about what agents carry: the answer of a machine, its notes and its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from core.explained.table import Table, count, text
from core.records.arm import ESTIMATE_ERROR
from core.records.bill import Spent, bill_of
from core.records.currency import PICO
from core.records.inventory import LEAST_SESSIONS, CarriedItem, InstalledItem, StoredInventory
from core.records.learner import LearnerSettings
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

Which = Literal["unused", "proposed", "all"]
WHICH: Final[Mapping[Which, Words]] = {
    "unused": Words("Not used"),
    "proposed": Words("Proposed"),
    "all": Words("All"),
}
OWN_SKILLS: Final = "own skills"
_CARRIED: Final = "What each session carries of it, about a quarter of the characters; none: no file says"
_OFFERED: Final = "Sessions that had it on offer"


def carried(stored: StoredInventory) -> Sentence:
    """Return the answer of a machine; its first sentence is plain, the rest is highlighted."""
    used, full_stop, rest = stored.inventory.sentence.partition(". ")
    head = wording.literal(f"{used}{full_stop.strip()}")
    return composed(head, " ", Phrase(wording.literal(rest))) if rest else composed(head)


def carried_read(stored: StoredInventory) -> Markdown:
    """Return when, where and from which sessions the answer was read."""
    inventory = stored.inventory
    by = f"Read {wording.minute(stored.at_ms)} UTC on a machine of {wording.literal(stored.by)}"
    act = "" if stored.act is None else f" with {wording.literal(stored.act)}"
    oldest = (
        ""
        if inventory.oldest_ms is None
        else f" The oldest session began on {wording.day(inventory.oldest_ms)}."
    )
    few = (
        f" {wording.things(inventory.sessions, 'session')} on record: nothing is proposed below {LEAST_SESSIONS}."
        if inventory.sessions < LEAST_SESSIONS
        else ""
    )
    return f"{by}{act}.{oldest}{few}"


def carried_money(stored: StoredInventory, settings: LearnerSettings) -> Markdown | None:
    """Return the cost of what no session used; None where the model has no prices by part."""
    read = stored.inventory
    if not read.carried or not read.requests or read.model is None:
        return None
    reads = read.requests - 1
    row = Spent(model=read.model, cache_write_5m=read.carried, cache_read=read.carried * reads)
    bill = bill_of((row,), read.model, stored.at_ms, settings.prices)
    if bill.pico is None or bill.is_estimated:
        return None
    times = "never read" if not reads else f"read {wording.things(reads, 'time')}"
    amount = wording.literal(wording.money(bill.pico / PICO, settings.currency))
    model = wording.literal(read.model)
    return f"That is about {amount} a session at the prices of {model}: written to the cache once, {times}."


def carried_note(stored: StoredInventory) -> Markdown:
    """Return what the figures of the table mean, and what is not known."""
    notes = "".join(f" {wording.literal(note)}" for note in stored.inventory.notes)
    return (
        f"Tokens are about a quarter of the characters. {ESTIMATE_ERROR} "
        "A skill is carried by its line in the list, a deferred tool by its name. A use adds the rest. Only sessions "
        "with the item on offer count. The bound holds at 95%; it is exact for independent sessions. Not used does "
        "not mean of no use."
        f"{notes}"
    )


def group_of(item: InstalledItem) -> str:
    """Return the server, plugin or folder that an item comes from.

    >>> group_of(InstalledItem(agent="a", kind="tool", name="t", path="", state="by name", carried=1, server="git"))
    'server git'
    """
    if item.plugin is not None:
        return f"plugin {item.plugin}"
    if item.server is not None:
        return f"server {item.server}"
    if item.kind == "file":
        return "context files"
    if item.kind == "tool":
        return "other tools"
    return OWN_SKILLS if item.project is None else f"skills of {item.project}"


def chosen(items: Iterable[CarriedItem], which: Which, group: str | None) -> list[CarriedItem]:
    """Return the items that a choice names; "unused" needs a session that had the item on offer."""
    return [
        one
        for one in items
        if (group is None or group_of(one.item) == group)
        and (
            which == "all"
            or (which == "proposed" and one.proposal is not None)
            or (which == "unused" and one.use is not None and not one.use.uses and one.use.offered > 0)
        )
    ]


def carried_groups(stored: StoredInventory, *, compact: bool) -> dict[str, list[object]]:
    """Return the table by server, plugin and folder, most unused tokens first; a narrow window has fewer columns."""
    groups: dict[tuple[str, str], list[CarriedItem]] = {}
    for one in stored.inventory.items:
        if one.item.state in {"in full", "by name"}:
            groups.setdefault((group_of(one.item), one.item.agent), []).append(one)
    ordered = sorted(groups.items(), key=lambda pair: (-_tokens(_unused(pair[1])), pair[0]))
    table: dict[str, list[object]] = {
        "from": [wording.literal(name) for (name, _), _ in ordered],
        "tokens a session": [_known(own) for _, own in ordered],
        "of it not used": [
            wording.count(_tokens(_unused(own)))
            if any(one.use is not None for one in own)
            else wording.MISSING
            for _, own in ordered
        ],
        "proposed": [wording.count(sum(one.proposal is not None for one in own)) for _, own in ordered],
    }
    if not compact:
        table |= {
            "items": [wording.count(len(own)) for _, own in ordered],
            "used": [_n_used(own) for _, own in ordered],
            "last use": [_last(own, stored.at_ms) for _, own in ordered],
            "agent": [wording.literal(agent) for (_, agent), _ in ordered],
        }
    return table


def _n_used(items: Iterable[CarriedItem]) -> str:
    known = [one.use for one in items if one.use is not None]
    return wording.count(sum(use.uses > 0 for use in known)) if known else wording.MISSING


def _unused(items: Iterable[CarriedItem]) -> list[CarriedItem]:
    return [one for one in items if one.use is not None and not one.use.uses]


def _tokens(items: Iterable[CarriedItem]) -> int:
    return sum(one.item.carried or 0 for one in items)


def _known(items: Sequence[CarriedItem]) -> str:
    if all(one.item.carried is None for one in items):
        return "unknown"
    more = " and unknown" if any(one.item.carried is None for one in items) else ""
    return f"{wording.count(_tokens(items))}{more}"


def _last(items: Iterable[CarriedItem], year_of_ms: int) -> str:
    known = [one.use for one in items if one.use is not None]
    times = [use.last_ms for use in known if use.last_ms is not None]
    return wording.day(max(times), year_of_ms=year_of_ms) if times else "never" if known else wording.MISSING


def carried_table(year_of_ms: int) -> Table[CarriedItem]:
    """Return the table of items."""
    return Table(
        what=text("what", lambda one: one.item.kind, width=52),
        name=text("name", lambda one: _name(one.item), width=200),
        group=text("from", lambda one: group_of(one.item), width=130),
        state=text("state", lambda one: one.item.state, width=66),
        carried=count("tokens", lambda one: one.item.carried, width=58, explained=_CARRIED),
        used=count("+ a use", lambda one: one.item.used, width=58, explained="What a use adds"),
        offered=count(
            "on offer", lambda one: one.use.offered if one.use else None, width=62, explained=_OFFERED
        ),
        n_uses=count("uses", lambda one: one.use.uses if one.use else None, width=48),
        last=text("last use", lambda one: _last([one], year_of_ms), width=68),
        since=text(
            "there since",
            lambda one: wording.day(_since(one), year_of_ms=year_of_ms),
            width=78,
            explained="The file's change, or the first session that shows it",
        ),
        proposed=text("proposed", lambda one: one.proposal, width=74),
        why=text("why", lambda one: one.why, width=380),
        agent=text("agent", lambda one: one.item.agent, width=90),
    )


def _name(item: InstalledItem) -> str:
    """Return a name without its server's, which the next column has; the middle of a long one goes."""
    name = item.name.removeprefix(f"mcp__{item.server}__") if item.kind == "tool" else item.name
    return wording.cut_middle(wording.plain(name or item.name))


def _since(one: CarriedItem) -> int | None:
    return one.use.since_ms if one.use is not None else one.item.changed_ms or None
