"""Files of results → the cells of a trial."""

from __future__ import annotations

from pathlib import Path

from core.errors import UnreadableSource
from core.formats import Limits, refuse_address, trial_lines
from core.formats.heads import head_of
from core.formats.reading import Reading
from core.records.trial import TrialResults


def read_results(path: Path, *, limits: Limits | None = None) -> TrialResults:
    """Return the cells of a file of results, whose format is recognised.

    Reading a file again once it has grown gives the same earlier cells. Lines that can't be read are noted and left
    out. Raises `UnreadableSource` where nothing can be read.
    """
    limits, file = limits or Limits(), str(path)
    refuse_address(file)
    head = head_of(path, file, limits)
    if not trial_lines.claims(head):
        raise UnreadableSource(
            f"Results of a trial must be of a known format, got another ({file}).",
            next_step="The formats are lines of armscope.",
        )
    return trial_lines.results_in(
        Reading(path=path, file=file, shape="lines", unit="episode", supplied=None, limits=limits)
    )
