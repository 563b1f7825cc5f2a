"""A failing panel is one line; the rest of the page stays, and foreign text in the error is text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st  # noqa: PLC0415 - AppTest runs this function as a script of its own

    from core.errors import NotFound  # noqa: PLC0415
    from dashboard.widgets.parts import panel  # noqa: PLC0415

    def fails(problem: Exception) -> None:
        raise problem

    st.markdown("before")
    with panel("Savings over time", still="the figures still work"):
        st.markdown("half drawn")
        st.markdown("half drawn, too")
        fails(NotFound("No arm <b>x</b>.", next_step="Try another."))
    with panel("Unforeseen"):
        fails(ValueError("secret"))
    with panel("Fine"):
        st.markdown("after")


def test_a_failing_panel_takes_nothing_with_it() -> None:
    page = AppTest.from_function(_page, default_timeout=300).run()
    assert not page.exception
    said = [text.value for text in page.markdown]
    assert said[0] == "before"
    assert said[-1] == "after"
    assert not [text for text in said if "half drawn" in text]
    first = next(text for text in said if "Savings over time could not be shown" in text)
    assert "<b>" not in first
    assert "The figures still work" in first
    assert not any("secret" in text for text in said)
    assert [button.label for button in page.button] == ["Retry", "Retry"]


@pytest.fixture
def sent() -> Iterator[list[ForwardMsg]]:
    """What is stated to the browser, before what is stated of one place comes together where nothing was sent yet."""
    messages: list[ForwardMsg] = []
    ForwardMsgQueue.on_before_enqueue_msg(messages.append)
    yield messages
    ForwardMsgQueue.on_before_enqueue_msg(None)


def test_a_panel_that_is_drawn_again_stays_where_it_is(sent: list[ForwardMsg]) -> None:
    """Of the place of a panel that works one thing is said: sent one by one, two would take it out and back in."""
    AppTest.from_function(_page, default_timeout=300).run()
    places = [tuple(one.metadata.delta_path) for one in sent if one.HasField("delta")]
    said_of = {place: places.count(place) for place in places}
    assert said_of == dict.fromkeys(said_of, 1) | {(0, 1): 2, (0, 3): 2}
