"""The vectors are there, or one skip names what is missing."""

from __future__ import annotations

from pathlib import Path


def test_the_vectors_are_there(vectors: Path) -> None:
    assert any(vectors.glob("*.json"))
