"""The one `.streamlit/config.toml`, beside the sources or in the wheel, flattened for `App.run`.

A console script gives Streamlit no folder to look for its settings in, so the server passes them on.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from core.doors.http.serving import check_base_path
from core.settings import base_path

PACKAGE: Final = Path(__file__).resolve().parent
_BESIDE_SOURCES: Final = PACKAGE.parent / ".streamlit" / "config.toml"

STREAMLITS: Final = frozenset(
    ("_stcore", "app", "auth", "component", "favicon.png", "media", "oauth2callback", "static")
)
"""First parts of Streamlit's paths."""

Option = str | int | float | bool | list[str] | list[int]


def options() -> dict[str, Option]:
    """Return every setting under its full dotted name.

    >>> options()["runner.magicEnabled"], options()["theme.dark.backgroundColor"]
    (False, '#0F1318')
    """
    path = _BESIDE_SOURCES if _BESIDE_SOURCES.is_file() else PACKAGE / "config.toml"  # in a wheel
    with path.open("rb") as file:
        return flatten(tomllib.load(file))


def own_names(address: str) -> list[str]:
    """Return the host names under which clients may address this machine."""
    listed = options()["server.allowedHosts"]
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    return list(dict.fromkeys([*names, address.lower()]))


def checked_base_path() -> str:
    """Return the base path; raises `InvalidSetting` for one that begins like a path of the pages or the doors."""
    pages = (file.stem for file in (PACKAGE / "app_pages").glob("*.py"))
    return check_base_path(base_path(), {*STREAMLITS, *pages, "sign-in"})


def flatten(tables: dict[str, object], prefix: str = "") -> dict[str, Option]:
    """Return nested tables as one level of dotted names."""
    flat: dict[str, Option] = {}
    for name, value in tables.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        elif isinstance(value, (str, int, float, list)):
            flat[prefix + name] = value
    return flat
