"""View: the part of a learner's history that a page looks at."""

from __future__ import annotations

import msgspec

from core.records.arm import ArmType


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Time span and filters; empty = all. Times are UTC milliseconds, ``until_ms`` is "as of", exclusive.

    Models, channels and the start of the span choose runs. There is one posterior per arm, so beliefs heed
    only ``until_ms`` (by full hours) and ``types``.

    >>> View(types=("tool",)).until_ms is None
    True
    """

    since_ms: int | None = None
    until_ms: int | None = None
    models: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    types: tuple[ArmType, ...] = ()
