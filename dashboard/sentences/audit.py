"""Sentences about the audit: acts and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.records.audit import AuditEntry, Denial
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.sentences.changes import act as changed
from dashboard.wording import short

_ACTS: Final[dict[str, Callable[[dict[str, str]], str]]] = {
    "member_add": lambda detail: f"added {detail['name']} as {detail['role']} {detail['where']}",
    "member_invite": lambda detail: f"invited {detail['name']} as {detail['role']} {detail['where']}",
    "member_role": lambda detail: (
        f"made {detail['name']} {detail['role']} {detail['where']}"
        if detail["role"]
        else f"removed {detail['name']}’s role {detail['where']}"
    ),
    "member_remove": lambda detail: f"removed {detail['name']}",
    "member_restore": lambda detail: f"undid a change of {detail['name']}",
    "member_join": lambda detail: f"signed in as {detail['name']}, who was invited",
    "member_sign_out": lambda detail: f"ended the sessions of {detail['name']}",
    "token_create": lambda detail: f"made the token {detail['name']} for {detail['scopes']}",
    "token_revoke": lambda detail: f"ended the token {detail['name']}",
    "webhook_add": lambda detail: f"added a webhook to {detail['host']}",
    "webhook_remove": lambda detail: f"removed the webhook to {detail['host']}",
    "sender_add": lambda detail: f"added {detail['name']} to the chat",
    "sender_remove": lambda detail: f"removed {detail['name']} from the chat",
    "rubric": lambda detail: f"defined the rubric {detail['version']}",
    "choice": lambda detail: "chose between two answers",  # noqa: ARG005 - all are asked alike
}
"""Words for acts at the installation, and for acts that only this page lists."""
ACTIONS: Final = (
    *("reward", "evaluation", "repair", "reset", "setting", "import", "note", "undo", "create", "erase"),
    *("rubric", "queue", "choice", "aside", "assign", "scale", "credit", "browser", "compact", "mend"),
    *("outcome", "trial", "experiment", "assignment"),
)
"""Words for actions at a learner."""
OF_INSTALLATION: Final = tuple(
    name for name in _ACTS if name.startswith(("member_", "token_", "webhook_", "sender_"))
)
"""Words for actions at members, tokens, and the rest of the installation."""


def act(entry: AuditEntry, currency: str) -> str:
    """Return the act as plain text."""
    words = _ACTS.get(entry.action)
    if words is None:
        return wording.plain(changed(entry, currency))
    detail = entry.detail
    detail_words = {
        name: wording.plain(str(detail.get(name) or ""))
        for name in ("name", "role", "scopes", "version", "host")
    }
    learner = detail.get("learner")
    detail_words["where"] = "everywhere" if learner is None else f"in {wording.plain(str(learner))}"
    return words(detail_words)


def audit(entry: AuditEntry | None, learner: str | None, now_ms: int, *, filtered: bool) -> Sentence:
    """Return the latest act at a learner (``learner``) or (None) the installation."""
    about = "on the installation" if learner is None else f"at {short(learner)}"
    if entry is None:
        return composed(
            f"No act {about} passes the filters." if filtered else f"Nothing was done {about} yet.",
        )
    last = "The last of these acts" if filtered else "The last act"
    return composed(
        f"{last} {about} was by ", Phrase(short(entry.actor)), f", {wording.ago(entry.at_ms, now_ms)}."
    )


def refused(denial: Denial | None, now_ms: int, *, filtered: bool) -> Sentence:
    """Return the latest refusal."""
    if denial is None:
        return composed(
            "No refusal passes the filters." if filtered else "No request was refused yet.",
        )
    who = short(denial.actor) if denial.actor else "An unknown caller"
    times = "" if denial.n == 1 else f" {wording.count(denial.n)} times in a minute"
    return composed(
        Phrase(who),
        f" was refused {short(denial.action.replace('_', ' '))}{times}, {wording.ago(denial.at_ms, now_ms)}.",
    )
