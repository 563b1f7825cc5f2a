"""Every error armscope raises on purpose.

::

    ArmscopeError                 code "error"
    ├── InvalidInput              "invalid_input"      a value outside what is allowed
    │   ├── InvalidReward         "invalid_reward"
    │   ├── InvalidArm            "invalid_arm"
    │   ├── InvalidSetting        "invalid_setting"
    │   ├── InvalidEvaluation     "invalid_evaluation"
    │   └── InvalidBatch          "invalid_batch"      some of its lines; ``lines`` says of each what is wrong
    ├── NotFound                  "not_found"
    │   ├── UnknownArm            "unknown_arm"
    │   ├── UnknownRun            "unknown_run"
    │   ├── UnknownLearner        "unknown_learner"
    │   ├── UnknownLayer          "unknown_layer"
    │   ├── UnknownExecution      "unknown_execution"
    │   └── UnknownAct            "unknown_act"        nothing by that id can be undone
    ├── Conflict                  "conflict"           same key, other content
    │   └── NotApplicable         "not_applicable"     well-formed, but the record does not admit it
    ├── Unidentified              "unidentified"       the caller is unknown: no valid token or session
    ├── Denied                    "denied"
    ├── NotInstalled              "not_installed"      a part that is needed for this, and only for this
    ├── UnreadableSource          "unreadable_source"  a file that is none of our formats, or damaged
    └── StoreError                "store"
        ├── Closed                "closed"             it was closed, and is used again
        ├── NoDatabase            "no_database"        nothing has been recorded where it should be
        ├── SchemaMismatch        "schema_mismatch"
        ├── StoreAway             "store_away"
        ├── StoreBusy             "store_busy"
        ├── StoreReadOnly         "store_read_only"
        ├── StoreFull             "store_full"
        ├── TimedOut              "timed_out"          no answer within the caller's time limit
        ├── StoreUnsure           "store_unsure"       it is unknown whether it was recorded
        └── StoreUnusable         "store_unusable"     not a database, a network file system, ...
            └── StoreDamaged      "store_damaged"      what is stored can't be read, or doesn't fit together

Each message says what is wrong, the value received and what is allowed; ``next`` is the step that helps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar


class ArmscopeError(Exception):
    """Root of the tree: a sentence, a stable ``code`` and the ``next`` step.

    >>> str(InvalidReward("reward must be within 0..1, got 1.7.", next_step="Send a number from 0 to 1."))
    'reward must be within 0..1, got 1.7. Send a number from 0 to 1.'
    """

    code: ClassVar[str] = "error"
    is_answer = False
    """Whether a server's answer to an agent is at fault, and not the caller's arguments."""

    def __init__(self, problem: str, *, next_step: str) -> None:
        super().__init__(problem, next_step)
        self.problem = problem
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.problem} {self.next_step}"

    def __reduce__(self) -> tuple[Callable[..., ArmscopeError], tuple[object, ...], dict[str, object]]:
        """Make the error picklable: a process pool hangs on an exception that it can't unpickle."""
        return _again, (type(self), *self.args), self.__dict__

    def as_answer(self) -> dict[str, object]:
        """Return the one error shape of every door."""
        return {"ok": False, "error": self.problem, "code": self.code, "next": self.next_step}


def _again(kind: type[ArmscopeError], *args: object) -> ArmscopeError:
    return kind.__new__(kind, *args)


class InvalidInput(ArmscopeError, ValueError):
    code = "invalid_input"


class InvalidReward(InvalidInput):
    code = "invalid_reward"


class InvalidArm(InvalidInput):
    code = "invalid_arm"


class InvalidSetting(InvalidInput):
    code = "invalid_setting"


class InvalidEvaluation(InvalidInput):
    """``fields`` names the members of the input that are wrong, sorted; empty where it isn't about members."""

    code = "invalid_evaluation"

    def __init__(self, problem: str, *, next_step: str, fields: tuple[str, ...] = ()) -> None:
        super().__init__(problem, next_step=next_step)
        self.fields = fields


class InvalidBatch(InvalidInput):
    """``lines`` says of each bad line, by number, what is wrong with it; none of the others was done either."""

    code = "invalid_batch"

    def __init__(
        self, problem: str, *, next_step: str, lines: Mapping[int, ArmscopeError] | None = None
    ) -> None:
        super().__init__(problem, next_step=next_step)
        self.lines = dict(sorted((lines or {}).items()))

    def as_answer(self) -> dict[str, object]:
        """Return the one shape; if lines are known, each has its own error next to it."""
        known = [
            {"line": number, "error": bad.problem, "code": bad.code, "next": bad.next_step}
            for number, bad in self.lines.items()
        ]
        return super().as_answer() | ({"lines": known} if known else {})


class NotFound(ArmscopeError, LookupError):
    code = "not_found"


class UnknownArm(NotFound):
    code = "unknown_arm"


class UnknownRun(NotFound):
    code = "unknown_run"


class UnknownLearner(NotFound):
    code = "unknown_learner"


class UnknownLayer(NotFound):
    code = "unknown_layer"


class UnknownExecution(NotFound):
    code = "unknown_execution"


class UnknownAct(NotFound):
    code = "unknown_act"


class Conflict(ArmscopeError):
    code = "conflict"


class NotApplicable(Conflict):
    code = "not_applicable"


class Unidentified(ArmscopeError):
    code = "unidentified"


class Denied(ArmscopeError):
    """``action`` is what was refused, '' where it is no single one."""

    code = "denied"

    def __init__(self, problem: str, *, next_step: str, action: str = "") -> None:
        super().__init__(problem, next_step=next_step)
        self.action = action


class NotInstalled(ArmscopeError):
    code = "not_installed"


class UnreadableSource(ArmscopeError):
    code = "unreadable_source"


class StoreError(ArmscopeError):
    code = "store"


class Closed(StoreError):
    code = "closed"


class NoDatabase(StoreError):
    code = "no_database"


class SchemaMismatch(StoreError):
    code = "schema_mismatch"


class StoreBusy(StoreError):
    code = "store_busy"


class StoreAway(StoreError):
    """Error of one unreachable server among several that share a database; the others still work."""

    code = "store_away"


class StoreReadOnly(StoreError):
    code = "store_read_only"


class StoreFull(StoreError):
    code = "store_full"


class TimedOut(StoreError):
    code = "timed_out"


class StoreUnsure(StoreError):
    code = "store_unsure"


class StoreUnusable(StoreError):
    code = "store_unusable"


class StoreDamaged(StoreUnusable):
    code = "store_damaged"
