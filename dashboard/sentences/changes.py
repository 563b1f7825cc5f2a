"""Sentences about entries of the audit log; many by one person in a day become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from core.records.audit import ActionName, AuditEntry
from core.records.times import DAY_MS
from dashboard import wording

Detail = dict[str, str | int | float | bool | None]

_VALUE_CHARS: Final = 40
_FOLDED_FROM: Final = 3
"""So many acts of one kind, by one person on one day, are one line."""


def folded(entries: Sequence[AuditEntry]) -> list[tuple[AuditEntry, ...]]:
    """Return entries, newest first, as lines: those of one kind, person and day (UTC) share one line."""
    groups: dict[tuple[str, ActionName, int], list[AuditEntry]] = {}
    for entry in entries:
        groups.setdefault(_group(entry), []).append(entry)
    lines: list[tuple[AuditEntry, ...]] = []
    for entry in entries:
        group = groups[_group(entry)]
        if len(group) < _FOLDED_FROM:
            lines.append((entry,))
        elif entry is group[0]:
            lines.append(tuple(group))
    return lines


def _group(entry: AuditEntry) -> tuple[str, ActionName, int]:
    return entry.actor, entry.action, entry.at_ms // DAY_MS


def many_changes(entries: Sequence[AuditEntry], *, or_more: bool = False) -> str:
    """Return a repeated act by one person, as Markdown; ``or_more``: earlier entries may exist.

    >>> one = AuditEntry(at_ms=0, actor="Mara", action="reward", act="reward-1", detail={}, revision=1)
    >>> many_changes([one] * 30)
    'gave **30 rewards**'
    """
    n_acts, action = len(entries), entries[0].action
    n_undone = sum(entry.undone for entry in entries)
    verb, one, many = _MANY.get(action, ("did", "other act", "other acts"))
    undone = f"; {wording.count(n_undone)} undone" if n_undone else ""
    more = " or more" if or_more else ""
    return f"{verb} **{wording.count(n_acts)}{more} {one if n_acts == 1 else many}**{undone}"


_SUBJECT_CHARS: Final = 60
_MANY: Final[dict[ActionName, tuple[str, str, str]]] = {
    "reward": ("gave", "reward", "rewards"),
    "reset": ("made", "reset", "resets"),
    "undo": ("took back or restored", "act", "acts"),
    "import": ("made", "import", "imports"),
    "setting": ("changed", "setting", "settings"),
    "note": ("wrote", "note", "notes"),
    "evaluation": ("made", "evaluation", "evaluations"),
    "choice": ("made", "choice", "choices"),
    "rubric": ("defined", "rubric", "rubrics"),
    "queue": ("made", "queue", "queues"),
    "aside": ("set aside", "item of a queue", "items of a queue"),
    "assign": ("assigned", "batch of items", "batches of items"),
    "scale": ("declared", "scale", "scales"),
    "credit": ("credited", "episode", "episodes"),
    "create": ("created", "arm or learner", "arms or learners"),
}


def change(entry: AuditEntry) -> str:
    """Return one entry of the change log in Markdown."""
    words = _worded(entry, marked=True)
    return f"{words}; undone" if entry.undone else words


def act(entry: AuditEntry) -> str:
    """Return one entry without its state, as plain text for a table's cell; foreign text is as it came."""
    return _worded(entry, marked=False)


def _worded(entry: AuditEntry, *, marked: bool) -> str:  # noqa: PLR0911, PLR0912 - one per action
    detail = entry.detail
    match entry.action:
        case "reward":
            verb = "corrected" if detail.get("kind") == "correction" else "rewarded"
            return f"{verb} {_arm_of(detail, marked)} {_reward_of(detail)} by hand".replace("  ", " ")
        case "reset":
            number = _int_of(detail, "arms")
            arms = "arms" if number is None else wording.things(number, "arm")
            to = {"uniform": " to Beta(1, 1)", "prior": " to their priors"}.get(str(detail.get("to")), "")
            return f"reset {arms}{to}"
        case "undo":
            return _undo_of(detail, marked)
        case "import":
            number = _int_of(detail, "runs", "n_runs")
            runs = "imported runs" if number is None else f"imported {wording.things(number, 'run')}"
            files = _int_of(detail, "files")
            return runs if files is None else f"{runs} from {wording.things(files, 'file')}"
        case "setting":
            return _setting_of(detail, marked)
        case "note":
            return f"wrote a note about {_arm_of(detail, marked)}"
        case "evaluation":
            return _judged(detail, marked)
        case "create":
            learner = detail.get("learner")
            return f"created {_arm_of(detail, marked) if learner is None else 'this learner'}"
        case "queue":
            number = _int_of(detail, "items")
            return "made a queue" if number is None else f"made a queue of {wording.things(number, 'item')}"
        case "scale":
            ends = f"{detail.get('lo')} to {detail.get('hi')}"
            return f"declared that {_foreign(str(detail.get('environment')), marked)} pays {ends}"
        case "credit":
            return _credited(detail, marked)
        case "aside":
            return "set an item of a queue aside"
        case "assign":
            number = _int_of(detail, "items")
            return f"assigned {'items' if number is None else wording.things(number, 'item')} of a queue"
        case _:  # a kind of act without words of its own
            about = f" about {_arm_of(detail, marked)}" if "arm" in detail else ""
            return f"added {_act(entry.action, marked)}{about}"


def _foreign(text: str, marked: bool) -> str:
    return wording.literal(text) if marked else text


def _arm_of(detail: Detail, marked: bool) -> str:
    arm = detail.get("arm")
    if not isinstance(arm, str):
        return "an arm"
    name = _foreign(wording.short_name(arm), marked)
    return f"**{name}**" if marked else name


def _judged(detail: Detail, marked: bool) -> str:
    subject, outcome = detail.get("subject"), detail.get("outcome")
    what = wording.cut_middle(wording.plain(str(subject or "something")), _SUBJECT_CHARS)
    name = _foreign(what, marked)
    return f"judged {f'**{name}**' if marked else name} a {'success' if outcome == 'success' else 'failure'}"


def _credited(detail: Detail, marked: bool) -> str:
    name = _foreign(wording.cut_middle(wording.plain(str(detail.get("episode"))), _SUBJECT_CHARS), marked)
    number, to = _int_of(detail, "arms"), "no arm"
    if detail.get("rule") != "off":
        to = "arms" if number is None else f"{wording.things(number, 'arm')}"
    return f"credited episode {f'**{name}**' if marked else name} to {to}"


def _reward_of(detail: Detail) -> str:
    value = detail.get("reward")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return ""
    words = f"{value:.1f}" if round(value, 1) == value else f"{value:g}"
    return f"to {words}" if detail.get("kind") == "correction" else words


def _undo_of(detail: Detail, marked: bool) -> str:
    redone = detail.get("redone")
    if isinstance(redone, str):
        return f"restored {_act(redone.rpartition('-')[0], marked)}"
    return f"took back {_act(str(detail.get('kind', 'change')), marked)}"


def _act(kind: str, marked: bool) -> str:
    """Return a kind of act with its article.

    >>> _act("reward", True), _act("import", True), _act("setting", True)
    ('a reward', 'an import', 'a setting')
    """
    word = _foreign(kind.replace("-", " ") or "change", marked)
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _int_of(detail: Detail, *names: str) -> int | None:
    for name in names:
        value = detail.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _setting_of(detail: Detail, marked: bool) -> str:
    name = _foreign(str(detail.get("name", "a setting")).replace("_", " "), marked)
    before, after = detail.get("before"), detail.get("value")
    if before is None or after is None:
        return f"changed {name}"
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        listed = _foreign(wording.cut_middle(", ".join(map(str, keys)), _SUBJECT_CHARS), marked)
        return f"changed {name} of {listed}"
    was, now = (_foreign(wording.cut_middle(str(value), _VALUE_CHARS), marked) for value in (before, after))
    return f"changed {name} {was} → {now}"
