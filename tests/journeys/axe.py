"""What axe says of a page, without what Streamlit causes and nothing on our side can change.

Every exception names the rule, the elements and the reason; `test_accessibility` fails when one isn't needed
any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

_RUN: Final = """
async exceptions => {
  const found = await axe.run({resultTypes: ['violations']});
  const told = [];
  for (const rule of found.violations) {
    if (rule.impact !== 'serious' && rule.impact !== 'critical') continue;
    for (const node of rule.nodes) {
      const element = document.querySelector(node.target[0]);
      const why = [...node.any, ...node.all, ...node.none].map(check => check.message).join('; ');
      const excused = exceptions.findIndex(one => one.rule === rule.id && element && element.matches(one.selector));
      told.push({rule: rule.id, html: node.html.slice(0, 300), why, excused});
    }
  }
  return told;
}
"""


@dataclass(frozen=True, kw_only=True)
class Excuse:
    """One rule at the elements that match a selector."""

    rule: str
    selector: str
    why: str


EXCUSES: Final = (
    Excuse(
        rule="list",
        selector="ul[data-testid=stSidebarNavItems]",
        why="On a phone Streamlit folds the navigation into its sidebar, a div around each group inside the list.",
    ),
    Excuse(
        rule="listitem",
        selector="ul[data-testid=stSidebarNavItems] li",
        why="The same list: its items stand in Streamlit's divs.",
    ),
    Excuse(
        rule="svg-img-alt",
        selector="[data-testid=stMetricChart] g[role=graphics-symbol]",
        why="Streamlit's sparkline holds an empty group for the point under the mouse; label and value of the metric "
        "are text.",
    ),
    Excuse(
        rule="scrollable-region-focusable",
        selector="[data-testid=stTable] > div",
        why="Streamlit's table has no tabindex where it is wider than a phone; Chromium (since 130) and Firefox let "
        "the keyboard reach it all the same.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """``ours`` are told as text, ``excused`` are the exceptions that were needed."""

    ours: list[str]
    excused: set[Excuse]


def findings(page: Page) -> Findings:
    """Serious and critical findings on the page as it stands."""
    page.evaluate(AXE_SCRIPT)
    rules = [{"rule": one.rule, "selector": one.selector} for one in EXCUSES]
    told: list[dict[str, str | int]] = page.evaluate(_RUN, rules)
    return Findings(
        ours=[f"{one['rule']}: {one['why']}\n  {one['html']}" for one in told if int(one["excused"]) < 0],
        excused={EXCUSES[int(one["excused"])] for one in told if int(one["excused"]) >= 0},
    )
