"""Deprecation: an old name of `core` works for one version and warns once."""

from __future__ import annotations

import pytest

import core
from core import names
from core.names import RENAMED, Renamed
from core.version import __version__


def test_an_old_name_works_warns_once_and_has_a_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "RENAMED", {"OldArm": Renamed("Arm", "0.2.0")})
    with pytest.warns(DeprecationWarning, match="OldArm is Arm since armscope 0.2.0"):
        core.__getattr__("OldArm")
    assert core.__getattr__("OldArm") is core.Arm  # a second warning would be an error
    with pytest.raises(AttributeError):
        core.__getattr__("OlderArm")
    for name, row in RENAMED.items():
        assert name not in core.__all__
        assert row.replacement in core.__all__
        assert row.since == __version__, f"{name} was accepted for one version: remove it"
