"""Sentences about entries of the audit log; many by one person in a day become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from core.errors import ArmscopeError
from core.explained.prices import changed_prices
from core.records.audit import ActionName, AuditEntry
from core.records.bill import ModelPrices
from core.records.times import DAY_MS
from dashboard import wording
from dashboard.wording import Markdown, Words

Detail = dict[str, str | int | float | bool | None]

Shown = TypeVar("Shown", str, Markdown)
Made_co = TypeVar("Made_co", covariant=True)

_VALUE_CHARS: Final = 40
_FOLDED_FROM: Final = 3
"""So many acts of one kind, by one person on one day, are one line."""

_SUBJECT_CHARS: Final = 60
_SHOWN_PRICES: Final = 2
_MANY: Final[dict[ActionName, tuple[str, str, str]]] = {
    "reward": ("gave", "reward", "rewards"),
    "repair": ("made", "repair", "repairs"),
    "reset": ("made", "reset", "resets"),
    "undo": ("took back or restored", "act", "acts"),
    "import": ("made", "import", "imports"),
    "setting": ("changed", "setting", "settings"),
    "note": ("wrote", "note", "notes"),
    "outcome": ("stated", "outcome", "outcomes"),
    "evaluation": ("made", "evaluation", "evaluations"),
    "choice": ("made", "choice", "choices"),
    "trial": ("added", "plan or result of a trial", "plans and results of trials"),
    "experiment": ("made", "change of an experiment", "changes of experiments"),
    "rubric": ("defined", "rubric", "rubrics"),
    "queue": ("made", "queue", "queues"),
    "aside": ("skipped", "item of a queue", "items of a queue"),
    "assign": ("assigned", "batch of items", "batches of items"),
    "scale": ("declared", "scale", "scales"),
    "credit": ("credited", "episode", "episodes"),
    "browser": ("confirmed", "name of a browser", "names of browsers"),
    "create": ("created", "arm or learner", "arms or learners"),
    "compact": ("made", "compaction", "compactions"),
    "erase": ("made", "erasure", "erasures"),
    "mend": ("mended", "chain", "chains"),
}


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


def many_changes(entries: Sequence[AuditEntry], *, or_more: bool = False) -> Words:
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


def change(entry: AuditEntry, currency: str) -> Markdown:
    """Return one entry of the change log in Markdown."""
    words = _worded(entry, _marked, currency)
    return f"{words}; undone" if entry.undone else words


def act(entry: AuditEntry, currency: str) -> str:
    """Return one entry without its state, as plain text for a table's cell; foreign text is as it came."""
    return _worded(entry, _plain, currency)


class _Foreign(Protocol[Made_co]):
    """Foreign text, and whether it is the key word of its line."""

    def __call__(self, text: str, *, is_key: bool = False) -> Made_co: ...


def _worded(  # noqa: PLR0911, PLR0912 - one per action
    entry: AuditEntry, foreign: _Foreign[Shown], currency: str
) -> Shown:
    detail = entry.detail
    match entry.action:
        case "reward":
            verb = Words("corrected" if detail.get("kind") == "correction" else "rewarded")
            return f"{verb} {_arm_of(detail, foreign)}{_reward_of(detail)} by hand"
        case "reset":
            number = _int_of(detail, "arms")
            to = {"uniform": " to Beta(1, 1)", "prior": " to their priors"}.get(str(detail.get("to")), "")
            return f"reset {'arms' if number is None else wording.things(number, 'arm')}{to}"
        case "repair":
            number, arms = _int_of(detail, "observations"), _int_of(detail, "arms")
            of = Words("" if arms is None else f" of {wording.things(arms, 'arm')}")
            return (
                f"took back {'observations' if number is None else wording.things(number, 'observation')}{of}"
            )
        case "undo":
            return _undo_of(detail, foreign)
        case "import":
            return _imported(detail)
        case "setting":
            prices = _price_changes(detail, currency)
            return f"set {foreign(prices)}" if prices else _setting_of(detail, foreign)
        case "note":
            return f"wrote a note about {_arm_of(detail, foreign)}"
        case "outcome":
            value = f"{detail.get('value')}"
            return f"stated that {foreign(str(detail.get('run')), is_key=True)} achieved {foreign(value)}"
        case "evaluation":
            return _judged(detail, foreign)
        case "trial":
            return Words("planned a trial" if detail.get("form") == "plan" else "read results of a trial")
        case "experiment":
            return _experiment(detail, foreign)
        case "create":
            learner = detail.get("learner")
            return f"created {_arm_of(detail, foreign) if learner is None else 'this learner'}"
        case "queue":
            number = _int_of(detail, "items")
            items = Words("" if number is None else f" of {wording.things(number, 'item')}")
            return f"made a queue{items}"
        case "scale":
            ends = f"{detail.get('lo')} to {detail.get('hi')}"
            return f"declared that {foreign(str(detail.get('environment')))} pays {foreign(ends)}"
        case "credit":
            return _credited(detail, foreign)
        case "browser":
            return f"confirmed the name of browser {foreign(str(detail.get('browser')), is_key=True)}"
        case "compact":
            number = _int_of(detail, "runs")
            return f"deleted the rows of {'runs' if number is None else wording.things(number, 'old run')}"
        case "erase":
            if detail.get("of") == "rater":
                return Words("erased the name of one rater")
            return f"erased texts of one {foreign(str(detail.get('of', 'record')), is_key=True)}"
        case "mend":
            return Words("mended the chain of acts")
        case "aside":
            return Words("skipped an item of a queue")
        case "assign":
            number = _int_of(detail, "items")
            return f"assigned {'items' if number is None else wording.things(number, 'item')} of a queue"
        case _:  # a kind of act without words of its own
            if "arm" in detail:
                return f"added {_act(entry.action, foreign)} about {_arm_of(detail, foreign)}"
            return f"added {_act(entry.action, foreign)}"


def _experiment(detail: Detail, foreign: _Foreign[Shown]) -> Shown:
    of, arm = foreign(str(detail.get("of"))), _arm_of(detail, foreign)
    if detail.get("form") == "start":
        return f"started an experiment on {arm}"
    if detail.get("form") == "share":
        return f"gave new sessions of {of} a chance of {foreign(str(detail.get('share')))}"
    if detail.get("harms") is not None:
        return f"had {of} stop by itself for the harm of {arm}"
    return f"kept {arm} after {of}" if detail.get("decision") == "keep" else f"ended {of} on {arm}"


def _marked(text: str, *, is_key: bool = False) -> Markdown:
    return f"**{wording.literal(text)}**" if is_key else wording.literal(text)


def _plain(text: str, *, is_key: bool = False) -> str:  # noqa: ARG001 - a cell has no bold words
    return text


def _arm_of(detail: Detail, foreign: _Foreign[Shown]) -> Shown:
    arm = detail.get("arm")
    if not isinstance(arm, str):
        return Words("an arm")
    return foreign(wording.short_name(arm), is_key=True)


def _judged(detail: Detail, foreign: _Foreign[Shown]) -> Shown:
    subject, outcome = detail.get("subject"), detail.get("outcome")
    what = wording.cut_middle(wording.plain(str(subject or "something")), _SUBJECT_CHARS)
    return f"judged {foreign(what, is_key=True)} a {'success' if outcome == 'success' else 'failure'}"


def _credited(detail: Detail, foreign: _Foreign[Shown]) -> Shown:
    name = wording.cut_middle(wording.plain(str(detail.get("episode"))), _SUBJECT_CHARS)
    return f"credited episode {foreign(name, is_key=True)} to {_credited_arms(detail)}"


def _credited_arms(detail: Detail) -> Words:
    number = _int_of(detail, "arms")
    arms = "arms" if number is None else wording.things(number, "arm")
    return Words("no arm" if detail.get("rule") == "off" else arms)


def _imported(detail: Detail) -> Words:
    number, files = _int_of(detail, "runs", "n_runs"), _int_of(detail, "files")
    runs = "imported runs" if number is None else f"imported {wording.things(number, 'run')}"
    return Words(runs if files is None else f"{runs} from {wording.things(files, 'file')}")


def _reward_of(detail: Detail) -> Words:
    value = detail.get("reward")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return Words("")
    words = f"{value:.1f}" if round(value, 1) == value else f"{value:g}"
    return f" {'to ' if detail.get('kind') == 'correction' else ''}{words}"


def _undo_of(detail: Detail, foreign: _Foreign[Shown]) -> Shown:
    redone = detail.get("redone")
    if isinstance(redone, str):
        return f"restored {_act(redone.rpartition('-')[0], foreign)}"
    return f"took back {_act(str(detail.get('kind', 'change')), foreign)}"


def _act(kind: str, foreign: _Foreign[Shown]) -> Shown:
    """Return a kind of act with its article.

    >>> _act("reward", _plain), _act("import", _plain), _act("setting", _plain)
    ('a reward', 'an import', 'a setting')
    """
    word = "skip" if kind == "aside" else kind.replace("-", " ") or "change"
    return f"{'an' if word[0] in 'aeiou' else 'a'} {foreign(word)}"


def _int_of(detail: Detail, *names: str) -> int | None:
    for name in names:
        value = detail.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _price_changes(detail: Detail, currency: str) -> str:
    """Return the first parts of prices that a change of settings sets, and how many more; "" for another setting."""
    if detail.get("name") != "prices":
        return ""
    try:
        before, after = (
            msgspec.json.decode(str(detail.get(name)), type=dict[str, ModelPrices])
            for name in ("before", "value")
        )
    except (msgspec.DecodeError, ArmscopeError):
        return ""
    changes = changed_prices(before, after, currency)
    more = f" and {len(changes) - _SHOWN_PRICES} more prices" if len(changes) > _SHOWN_PRICES else ""
    return "; ".join(changes[:_SHOWN_PRICES]) + more


def _setting_of(detail: Detail, foreign: _Foreign[Shown]) -> Shown:
    name = foreign(str(detail.get("name", "a setting")).replace("_", " "))
    before, after = detail.get("before"), detail.get("value")
    if before is None or after is None:
        return f"changed {name}"
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        listed = foreign(wording.cut_middle(", ".join(map(str, keys)), _SUBJECT_CHARS))
        return f"changed {name} of {listed}"
    was, now = (foreign(wording.cut_middle(str(value), _VALUE_CHARS)) for value in (before, after))
    return f"changed {name} {was} → {now}"
