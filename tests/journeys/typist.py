"""A person without a mouse: Tab from control to control, each of which must show that it has the focus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.journeys.visit import Visit

_MOST_STOPS: Final = 90
_STOP: Final = """
() => {
  const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
  const labelled = document.getElementById((one.getAttribute('aria-labelledby') || '').split(' ')[0]);
  const words = one.cloneNode(true);
  words.querySelectorAll('[data-testid=stIconMaterial]').forEach(icon => icon.remove());
  const name = one.getAttribute('aria-label') || (one.labels && one.labels[0] && one.labels[0].innerText)
    || (labelled && labelled.innerText) || words.textContent || one.placeholder || '';
  const ringed = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
  // A text field shows its caret and the colour of the frame around it; a grid draws its own cell on a canvas.
  // A part of a date is filled.
  const drawn = one.matches('input, textarea, canvas, td, [role=gridcell], [role=spinbutton], main');
  return {
    tag: one.tagName.toLowerCase(),
    name: name.trim(),
    shown: ringed || drawn,
    top: Math.round(box.top + scrollY + document.querySelector('[data-testid=stMain]').scrollTop),
    left: Math.round(box.left),
    inside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}
"""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What has the focus: its name, whether it shows it, and where it stands on the page."""

    tag: str
    name: str
    shown: bool
    top: int
    left: int
    inside: bool


class Typist:
    """Goes through a page by its keys alone."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.stops: list[Stop] = []

    def press(self, *keys: str) -> None:
        """Press keys one after the other, and wait until the page has settled."""
        for key in keys:
            self.visit.page.keyboard.press(key)
        self.visit.settle()

    def type(self, text: str) -> None:
        """Type where the focus is."""
        self.visit.page.keyboard.type(text)

    def stop(self) -> Stop:
        """What has the focus now."""
        return Stop(**self.visit.page.evaluate(_STOP))

    def tab_to(self, name: str, *, tag: str | None = None, back: bool = False) -> Stop:
        """Press Tab until what has the focus is called so; every stop on the way must be visible."""
        passed = []
        for _ in range(_MOST_STOPS):
            self.visit.page.keyboard.press("Shift+Tab" if back else "Tab")
            here = self.stop()
            passed.append(here.name)
            if here.tag == "body":
                continue
            self.stops.append(here)
            assert here.shown, f"the focus on {here} must be visible"
            if here.name.startswith(name) and (tag is None or here.tag == tag):
                self.visit.until(lambda: self.stop().inside)  # scrolled to, or unfolded
                return here
        raise AssertionError(f"{name} can't be reached by Tab, only {passed}")
