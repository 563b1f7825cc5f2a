"""Every page with an address at which it shows something, and what is cut off on the page one looks at."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page

from dashboard.pages import PAGES, Named
from tests.journeys.visit import Visit

_EXAMPLES: Final[dict[Named, str]] = {
    "arm": "tool:fs:Read",
    "run": "run-7",
    "session": "journey",
    "episode": "desk/6",
    "environment": "desk",
    "trial": "trial-1",
    "topic": "savings",
}
"""Of `world`."""

ADDRESSES: Final = {
    page.name: {parameter: _EXAMPLES[named] for parameter, named in page.names.items()} for page in PAGES
}
"""What each page has to be told."""

_CUT_OFF: Final = """
() => {
  const cut = [], tells = one => one.innerText && one.innerText.trim() !== '';
  // The navigation's labels hold a second, invisible copy, which keeps their width when they turn bold.
  const skipped = 'svg, [data-testid=stDataFrame], [data-testid=stTopNavLinkContainer]';
  const hides = overflow => overflow === 'hidden' || overflow === 'clip';
  for (const one of document.querySelectorAll('[data-testid=stApp] *')) {
    if (one.closest(skipped) || one.clientWidth < 2 || one.clientHeight < 2) continue;
    const style = getComputedStyle(one);
    if (style.visibility === 'hidden' || !tells(one)) continue;
    const shortened = style.textOverflow === 'ellipsis' || style.webkitLineClamp !== 'none';
    const wide = hides(style.overflowX) && one.scrollWidth > one.clientWidth + 1;
    const high = hides(style.overflowY) && one.scrollHeight > one.clientHeight + 2;
    if ((wide || high) && !shortened) cut.push(`${wide ? 'wide' : 'high'}: ${one.innerText.slice(0, 80)}`);
  }
  for (const drawing of document.querySelectorAll('.js-plotly-plot .main-svg')) {
    const frame = drawing.getBoundingClientRect();
    for (const one of drawing.querySelectorAll('text')) {
      const box = one.getBoundingClientRect();
      const inside = box.left > frame.left - 1 && box.right < frame.right + 1
        && box.top > frame.top - 1 && box.bottom < frame.bottom + 1;
      if (box.width > 0 && !inside) cut.push(`figure: ${one.textContent.slice(0, 80)}`);
    }
  }
  return cut;
}
"""


_WITHOUT_CSV: Final = """
() => {
  const small = [...document.querySelectorAll('[data-testid=stTable]')].filter(one => one.querySelector('table'));
  const none = small.filter(one => !one.querySelector('button.armscope-csv[aria-label^="Download as CSV"]'));
  const big = [...document.querySelectorAll('[data-testid=stDataFrame]')].filter(one => {
    const around = one.closest('[data-testid=stElementContainer]');
    const lazy = around?.parentElement.querySelector('[data-testid=stDownloadButton]');
    return !lazy && !around?.querySelector('button[aria-label^="Download as CSV"]');
  });
  return [...none, ...big].map(one => one.textContent.slice(0, 80));
}
"""


def without_csv(page: Page) -> list[str]:
    """Tables, small and big, that offer no CSV."""
    texts: list[str] = page.evaluate(_WITHOUT_CSV)
    return texts


def loose(page: Page) -> list[str]:
    """Charts in which a drag does more than select days, after at most 10 s of drawing."""
    for _ in range(40):
        if not (texts := _loose_now(page)):
            break
        page.wait_for_timeout(250)
    return texts


def _loose_now(page: Page) -> list[str]:
    texts: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('.js-plotly-plot')].filter(one => {
          const layout = one._fullLayout;
          const axes = Object.keys(layout).filter(name => /^[xy]axis/.test(name));
          return layout.dragmode === 'zoom' || axes.some(name => !layout[name].fixedrange)
            || (layout.dragmode === 'select' && layout.selectdirection !== 'h');
        }).map(one => one.textContent.slice(0, 80))"""
    )
    return texts


def open_page(visit: Visit, name: str, **more: str) -> Visit:
    """Come to a page where it shows something."""
    return visit.come_to(name, **ADDRESSES[name], **more)


def cut_off(page: Page) -> list[str]:
    """Texts of which a part is hidden without saying so, in elements and in figures."""
    texts: list[str] = page.evaluate(_CUT_OFF)
    return texts
