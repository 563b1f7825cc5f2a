"""Types of shown text: mypy refuses each wrong line here, and only `dashboard.wording` makes text literal."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import streamlit as st

from dashboard import wording
from dashboard.actions import Flash
from dashboard.sentences import Phrase, composed
from dashboard.widgets.parts import muted, section, small
from dashboard.wording import Markdown, Words
from tests.conftest import ROOT

HELD = {"key": "held until a page names it"}


def wrong(name: str, names: list[str], number: int) -> None:
    """Every line that is ignored here is an error: an ignore that hides none is one itself."""
    st.markdown(name)  # type: ignore[arg-type]
    st.markdown(f"Arm {name}")  # type: ignore[arg-type]
    st.markdown(f"{wording.plain(name)} has {number} runs")  # type: ignore[arg-type]
    st.button("Judge " + name)  # type: ignore[arg-type]
    st.toast(name if number else "none")  # type: ignore[arg-type]
    st.text_input("Why", help=name)  # type: ignore[call-overload]
    st.tabs(names)  # type: ignore[arg-type]
    st.metric("Runs", name)  # type: ignore[arg-type]
    st.segmented_control("Which", names)  # type: ignore[arg-type]
    st.radio("Which", names, format_func=str.capitalize)  # type: ignore[arg-type]
    st.columns(2)[0].expander(name)  # type: ignore[arg-type]
    st.markdown(", ".join(names))  # type: ignore[arg-type]
    st.markdown(wording.literal(name)[:10])  # type: ignore[arg-type]
    st.markdown(f"{wording.literal(name)!r}")  # type: ignore[arg-type]
    HELD["key"] = name
    st.markdown(HELD["key"])  # type: ignore[arg-type]
    muted(name)  # type: ignore[arg-type]
    section("Runs", small(name))  # type: ignore[arg-type]
    Flash(text=f"{name} is gone.")  # type: ignore[arg-type]
    Phrase(name)  # type: ignore[arg-type]
    composed("Of ", name)  # type: ignore[arg-type]
    Words(name)  # type: ignore[arg-type]
    Markdown(f"{number} of {name}")  # type: ignore[arg-type]
    parts = ["Of "]
    parts.append(name)
    st.markdown("".join(parts))  # type: ignore[arg-type]


def wrong_answer(name: str) -> Markdown:
    return f"Arm {name}"  # type: ignore[return-value]


def right(name: str, names: list[str], number: int) -> None:
    """The same with literal text."""
    st.markdown(f"Arm {wording.literal(name)} has {number:,} runs")
    st.button("Judge " + wording.spoken(name))
    st.toast(wording.literal(name) if number else "none")
    st.segmented_control("Which", [wording.literal(one) for one in names])
    st.radio("Which", names, format_func=wording.literal)
    st.selectbox("Which", names)
    st.text(name)
    st.text_input("Why", value=name, placeholder=name)
    parts = ["Of "]
    parts.append(wording.literal(name))
    more = f", {number} more" if number else ""
    muted("".join(parts) + more)


def test_mypy_reads_the_wrong_lines_with_the_plugin() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert mypy["strict"], "an ignore of no error is an error"
    assert mypy["plugins"] == ["tests/literal_types.py"]
    assert {"dashboard", "tests"} <= set(mypy["packages"])


def test_only_wording_says_that_text_is_literal() -> None:
    """Elsewhere no text is cast, no error about one is ignored, and none of them is made without its check."""
    kinds = {"Markdown", "PlotText", "Words"}
    found = []
    for path in sorted((ROOT / "dashboard").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        lines = [line for line in source.splitlines() if "type: ignore" in line and "[arg-type]" in line]
        casts = [
            ast.unparse(node)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"cast", "typing.cast"}
            and kinds & set(ast.unparse(node.args[0]).strip("'\"").replace("[", " ").replace("]", " ").split())
        ]  # fmt: skip
        if path != Path(wording.__file__):
            found += [f"{path.name}: {one}" for one in (*lines, *casts)]
    assert found == []
