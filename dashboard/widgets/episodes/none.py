"""None yet: the ways to get episodes, and runs with a reward that belong to no episode."""

from __future__ import annotations

import streamlit as st

from dashboard import pages, queries, wording
from dashboard.reading import reading
from dashboard.widgets.empty import command, empty
from dashboard.widgets.navigation import link
from dashboard.widgets.words import muted
from dashboard.wording import Words


def no_episodes() -> None:
    """Draw the empty state of the page: nothing that an environment paid is here."""
    untold = queries.without_episode().n
    runs = wording.things(untold, "run")
    empty(
        ("No episode is recorded yet.",),
        "What environments paid appears here as soon as one is recorded or imported.",
        rows={
            "needed": ["episodes"],
            "now": ["0"],
            "which is": [":yellow[:material/warning:] none yet"],
        },
        to_do=(
            f"**Read the sources of {runs} again**: they have rewards, and were imported before episodes were "
            "kept."
            if untold
            else "**Import rewards of environments**: records of tau-bench, tau2, verifiers, Inspect or SWE-agent, "
            "recorded exchanges or rollout events; or record steps as they come."
        ),
        shell=command("import FILE"),
        elsewhere=(pages.DATA, Words("Drop files here instead")) if reading().may("ingest") else None,
    )


def untold_runs() -> None:
    """Show how many runs have a reward of their source and no episode, with the command that reads them again."""
    untold = queries.without_episode()
    if not untold.n:
        return
    runs = wording.things(untold.n, "run")
    with st.container(border=True):
        muted(
            f"{runs} brought a reward of their source, but no episode names them: read their files again "
            f"({wording.literal(', '.join(untold.formats))})."
        )
        st.code(command(untold.command.removeprefix("armscope ")), language=None, wrap_lines=True)
        if reading().may("ingest"):
            link(pages.DATA, Words("Drop files here instead"))
