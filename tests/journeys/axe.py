"""Findings of axe about a page, of every impact."""

from __future__ import annotations

from typing import Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

_RUN: Final = """
async () => {
  const found = await axe.run({resultTypes: ['violations']});
  return found.violations.flatMap(rule => rule.nodes.map(node => {
    const why = [...node.any, ...node.all, ...node.none].map(check => check.message).join('; ');
    return `${rule.id} (${rule.impact}): ${why}\\n  ${node.html.slice(0, 300)}`;
  }));
}
"""


def findings(page: Page) -> list[str]:
    """Findings on the page as it is."""
    if page.evaluate("!window.axe"):
        page.evaluate(AXE_SCRIPT)
    told: list[str] = page.evaluate(_RUN)
    return told
