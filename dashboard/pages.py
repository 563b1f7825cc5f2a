"""The table of pages, one row each.

Navigation, titles, addresses, visibility, the page that is shown while the data can't be read, and the tests read it.
So a page with a row has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from core.records.actor import Action
from dashboard.widgets import address
from dashboard.wording import Words

Named = Literal["arm", "run", "session", "episode", "environment", "trial", "topic"]

_ARMS: Final = "Arms"
_RUNS: Final = "Runs"
_JUDGING: Final = "Judging"
_MANAGE: Final = "Manage"


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page. ``name`` is its address and its file in `app_pages`. Most pages have a module or folder in `widgets`.

    ``group`` is its menu in the navigation ("" = a line of its own). ``needs`` is the action that visitors must be
    allowed; hiding is no permission, the flows decide. ``is_hidden`` = reached by links only. ``is_of_many`` = shown
    with several learners, or to an operator of all. ``has_chart`` = it begins with a chart. ``names`` lists the
    parameters of its address that name its object.
    """

    name: str
    title: Words
    group: str = ""
    needs: Action = "read"
    is_hidden: bool = False
    is_of_many: bool = False
    has_chart: bool = False
    names: Mapping[str, Named] = field(default_factory=dict, hash=False)


# Left of each row is the name that links go by; a page that no link leads to can do without.
PAGES: Final[tuple[Page, ...]] = (
    OVERVIEW := Page(name="overview", title="Overview", has_chart=True),
    POSTERIORS := Page(name="posteriors", title="Posteriors", group=_ARMS, has_chart=True),
    ARM := Page(name="arm", title="Arm", is_hidden=True, has_chart=True, names={address.ARM: "arm"}),
    EVIDENCE := Page(
        name="evidence",
        title="Evidence",
        is_hidden=True,
        has_chart=True,
        names={address.EVIDENCE_ARM: "arm"},
    ),
    TRIALS := Page(
        name="trials", title="Trials", group=_ARMS, has_chart=True, names={address.TRIAL: "trial"}
    ),
    CONFIDENCE := Page(name="confidence", title="Confidence", group=_ARMS, has_chart=True),
    SAVINGS := Page(name="savings", title="Savings", has_chart=True),
    RUNS := Page(name="runs", title="Runs", group=_RUNS),
    RUN := Page(name="run", title="Run", is_hidden=True, names={address.RUN: "run"}),
    COMPARE := Page(name="compare", title="Compare", group=_RUNS, names={address.COMPARE_RUN_A: "run"}),
    SESSIONS := Page(name="sessions", title="Sessions", group=_RUNS),
    SESSION := Page(name="session", title="Session", is_hidden=True, names={address.SESSION: "session"}),
    EPISODES := Page(name="episodes", title="Episodes", group=_RUNS),
    EPISODE := Page(name="episode", title="Episode", is_hidden=True, names={address.EPISODE: "episode"}),
    ENVIRONMENT := Page(
        name="environment",
        title="Environment",
        is_hidden=True,
        has_chart=True,
        names={address.ENVIRONMENT: "environment"},
    ),
    EVALUATIONS := Page(name="evaluations", title="Evaluations", group=_JUDGING),
    REWARDS := Page(
        name="rewards",
        title="Rewards",
        group=_JUDGING,
        needs="reward",
        names={address.REWARDS_ARM: "arm"},
    ),
    REVIEW := Page(name="review", title="Review", group=_JUDGING, needs="evaluate"),
    RESET := Page(name="reset", title="Reset", group=_MANAGE, needs="reset"),
    DATA := Page(name="data", title="Data", group=_MANAGE),
    SETTINGS := Page(name="settings", title="Settings", group=_MANAGE),
    FLEET := Page(name="fleet", title="Fleet", group=_MANAGE, is_of_many=True),
    ALERTS := Page(name="alerts", title="Alerts", group=_MANAGE, needs="alerts"),
    PEOPLE := Page(name="people", title="People", group=_MANAGE, needs="members"),
    TOKENS := Page(name="tokens", title="Tokens", group=_MANAGE, needs="members"),
    AUDIT := Page(name="audit", title="Audit", group=_MANAGE, needs="members"),
    SEARCH := Page(name="search", title="Search", is_hidden=True),
    STEPS := Page(name="steps", title="First steps", is_hidden=True),
    PRESENT := Page(name="present", title="Present", is_hidden=True, has_chart=True),
    HELP := Page(name="help", title="Help", names={address.HELP_TOPIC: "topic"}),
)
"""In the order of the navigation; the first is what an address without a page opens."""
