"""A failing panel is one line; the rest of the page stays, and foreign text in the error is text."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st  # noqa: PLC0415 - AppTest runs this function as a script of its own

    from core.errors import NotFound  # noqa: PLC0415
    from dashboard.widgets.panel import panel  # noqa: PLC0415

    def fails(problem: Exception) -> None:
        raise problem

    st.markdown("before")
    with panel("Savings over time", still="the figures still work"):
        st.markdown("half drawn")
        fails(NotFound("No arm <b>x</b>.", next_step="Try another."))
    with panel("Unforeseen"):
        fails(ValueError("secret"))
    with panel("Fine"):
        st.markdown("after")


def test_a_failing_panel_takes_nothing_with_it() -> None:
    page = AppTest.from_function(_page).run()
    assert not page.exception
    said = [text.value for text in page.markdown]
    assert said[0] == "before"
    assert said[-1] == "after"
    assert "half drawn" not in said
    first = next(text for text in said if "Savings over time could not be shown" in text)
    assert "<b>" not in first
    assert "The figures still work" in first
    assert not any("secret" in text for text in said)
    assert [button.label for button in page.button] == ["Retry", "Retry"]
