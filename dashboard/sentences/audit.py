"""Sentences about the audit: acts and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.records.audit import AuditEntry, Denial
from dashboard import wording
from dashboard.sentences.changes import act as changed
from dashboard.sentences.phrase import Phrase, Sentence

NOBODY: Final = "unknown"
_NAME_CHARS: Final = 40
_ACTS: Final[dict[str, Callable[[dict[str, str]], str]]] = {
    "member_add": lambda told: f"let {told['name']} in as {told['role']} {told['where']}",
    "member_invite": lambda told: f"invited {told['name']} as {told['role']} {told['where']}",
    "member_role": lambda told: (
        f"made {told['name']} {told['role']} {told['where']}"
        if told["role"]
        else f"took {told['name']}’s role {told['where']} away"
    ),
    "member_remove": lambda told: f"removed {told['name']}",
    "member_restore": lambda told: f"took a change of {told['name']} back",
    "member_join": lambda told: f"came in as {told['name']}, who was invited",
    "member_sign_out": lambda told: f"ended the sessions of {told['name']}",
    "token_create": lambda told: f"made the token {told['name']} for {told['scopes']}",
    "token_revoke": lambda told: f"ended the token {told['name']}",
    "webhook_add": lambda told: f"added a webhook to {told['host']}",
    "webhook_remove": lambda told: f"removed the webhook to {told['host']}",
    "sender_add": lambda told: f"let {told['name']} speak in a chat",
    "sender_remove": lambda told: f"let {told['name']} speak in a chat no longer",
    "erase": lambda told: f"erased texts of a {told['of']}",
    "rubric": lambda told: f"defined the rubric {told['version']}",
    "choice": lambda told: "chose between two answers",  # noqa: ARG005 - all are asked alike
}
"""Words for acts at the installation, and for acts that only this page lists."""
ACTIONS: Final = (
    *("reward", "evaluation", "reset", "setting", "import", "note", "undo", "create", "erase"),
    *("rubric", "queue", "choice", "aside", "assign", "scale", "credit"),
)
"""Words for actions at a learner."""
OF_INSTALLATION: Final = tuple(
    name for name in _ACTS if name.startswith(("member_", "token_", "webhook_", "sender_"))
)
"""Words for actions at members, tokens, and the rest of the installation."""


def act(entry: AuditEntry) -> str:
    """Return the act as plain text."""
    words = _ACTS.get(entry.action)
    if words is None:
        return wording.plain(changed(entry))
    detail = entry.detail
    detail_words = {
        name: wording.plain(str(detail.get(name) or ""))
        for name in ("name", "role", "scopes", "of", "version", "host")
    }
    learner = detail.get("learner")
    detail_words["where"] = "everywhere" if learner is None else f"in {wording.plain(str(learner))}"
    return words(detail_words)


def details(entry: AuditEntry) -> str:
    """Return the details of an act as plain text."""
    pairs = (f"{name} {value}" for name, value in entry.detail.items() if value not in {None, ""})
    return wording.plain(", ".join(pairs)) or wording.MISSING


def actor(name: str) -> str:
    """Return the actor as plain text."""
    return wording.plain(name) or NOBODY


def audit(entry: AuditEntry | None, learner: str | None, now_ms: int, *, filtered: bool) -> Sentence:
    """Return the latest act at a learner (``learner``) or (None) the installation."""
    about = "on the installation" if learner is None else f"at {_short(learner)}"
    if entry is None:
        return (f"No act {about} passes the filters." if filtered else f"Nothing was done {about} yet.",)
    last = "The last of these acts" if filtered else "The last act"
    return (f"{last} {about} was by ", Phrase(_short(entry.actor)), f", {wording.ago(entry.at_ms, now_ms)}.")


def refused(denial: Denial | None, now_ms: int, *, filtered: bool) -> Sentence:
    """Return the latest refusal."""
    if denial is None:
        return ("No refusal passes the filters." if filtered else "Nobody was refused anything yet.",)
    who = _short(denial.actor) if denial.actor else "Somebody unknown"
    times = "" if denial.n == 1 else f" {wording.count(denial.n)} times in a minute"
    return (
        Phrase(who),
        f" was refused {_short(refusal(denial.action))}{times}, {wording.ago(denial.at_ms, now_ms)}.",
    )


def refusal(action: str) -> str:
    """Return the refused action as plain text."""
    return wording.plain(action.replace("_", " "))


def _short(name: str) -> str:
    return wording.literal(wording.cut_middle(wording.plain(name), _NAME_CHARS))
