"""Arms by name in a learner: imports keep their laws, the counts are their own, and no part of the posterior."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, reset, undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.formats.armscope import write
from core.records.arm import Arm, skill_key, tool_key
from core.records.run import Inventory
from core.store.engine import Row
from tests.formats.builders import Session, put, read, runs, text, use
from tests.formats.test_by_name import NAMES, delta, skills
from tests.worlds import context_at

FAR, NEAR, PDF = tool_key("far"), tool_key("near"), skill_key("pdf")

_events = st.lists(
    st.tuples(st.sampled_from(["prompt", "call", "add", "remove", "load", "list"]), st.sampled_from(NAMES)),
    max_size=12,
)


def states(context: Context) -> list[Row]:
    """Each arm of each active run, with its flags and cost."""
    with context.reading() as snapshot:
        return snapshot.connection.rows(
            "SELECT r.uid, a.key, o.flags, o.token_cost FROM run r JOIN outcome o ON o.learner_id = r.learner_id"
            " AND o.run_no = r.run_no JOIN arm a ON a.learner_id = o.learner_id AND a.arm_no = o.arm_no"
            " WHERE r.learner_id = ? AND r.standing = 1 ORDER BY r.uid, a.key",
            [snapshot.learner_id],
        )


def by_name(context: Context) -> dict[str, tuple[int, int]]:
    """The runs that had each arm by name, and those of them that loaded it."""
    with context.reading() as snapshot:
        rows = snapshot.connection.rows(
            "SELECT a.key, p.n_named, p.n_loaded FROM posterior p JOIN arm a ON a.learner_id = p.learner_id"
            " AND a.arm_no = p.arm_no WHERE p.learner_id = ? AND p.n_named > 0",
            [snapshot.learner_id],
        )
    return {key: (named, loaded) for key, named, loaded in rows}


def pulls(context: Context) -> dict[str, tuple[int, float]]:
    return {one.arm: (one.pulls, one.alpha) for one in queries.posteriors(context) if one.pulls}


def planted() -> Session:
    session = delta(skills(Session().prompt("one"), "pdf"), "far", "near").reply(use("Read", "t1"))
    session.prompt("two").reply(use("far", "t2"), use("Skill", "t3", skill="pdf"), id="m2")
    session.prompt("three").reply(use("Read", "t4"), id="m3").prompt("four").reply(use("far", "t5"), id="m4")
    return session.prompt("thanks").reply(text("welcome"), id="m5")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    made = context_at(tmp_path / "learner.db")
    import_files(made, [put(tmp_path, planted().bytes(), "s.jsonl")])
    return made


def test_what_was_only_named_is_counted_and_not_observed(context: Context) -> None:
    assert by_name(context) == {NEAR: (5, 0), FAR: (2, 1), PDF: (2, 1)}
    assert pulls(context) == {
        tool_key("Read"): (4, 5.0),
        tool_key("Skill"): (4, 4.0),
        FAR: (2, 4.0),
        PDF: (2, 3.0),
    }
    assert queries.verify(context).clean


def test_a_reset_an_undo_and_a_redo_move_the_counts_with_the_runs(context: Context, tmp_path: Path) -> None:
    before = by_name(context)
    told = reset(context, arms=[NEAR])
    assert by_name(context) == {key: counts for key, counts in before.items() if key != NEAR}
    undo(context, told.id)
    assert by_name(context) == before
    undo(context, "import-1")
    assert by_name(context) == {}
    redo(context, "import-1")
    assert by_name(context) == before
    assert queries.verify(context).clean


def test_sessions_with_a_load_are_counted_and_runs_stay_pulls(context: Context, tmp_path: Path) -> None:
    typed = "<command-message>pdf</command-message>\n<command-name>/pdf</command-name>"
    for number, prompts in enumerate([("go", "again"), (typed,), (typed, "go")]):
        session = Session(id=f"more-{number}")
        for at, prompt in enumerate(prompts):
            skills(session.prompt(f"{prompt} {number}"), "pdf", "mp:pdf")
            if prompt != typed:
                session.reply(use("Skill", f"t{at}", skill="pdf"), id=f"m{at}")
            session.reply(use("Read", f"r{at}"), id=f"n{at}")
        import_files(context, [put(tmp_path, session.bytes(), f"more-{number}.jsonl")])
    counted = {one.arm: (one.loaded_sessions, one.typed_sessions) for one in queries.arms(context)}
    assert (counted.pop(PDF), {*counted.values()}) == ((3, 2), {(0, 0)})
    use_of = queries.arm_path(context, PDF).use
    assert use_of is not None
    assert (use_of.loaded_sessions, use_of.typed_sessions, use_of.by_text) == (3, 2, False)
    assert use_of.spellings == ("skill:mp:pdf:main",)
    assert queries.arm_path(context, tool_key("Read")).use is None


def test_an_export_gives_the_states_back(context: Context, tmp_path: Path) -> None:
    export_file(context, tmp_path / "ours.jsonl")
    other = context_at(tmp_path / "other.db")
    import_files(other, [tmp_path / "ours.jsonl"])
    assert (states(other), by_name(other), pulls(other)) == (
        states(context),
        by_name(context),
        pulls(context),
    )


def test_a_session_that_was_read_as_in_full_moves_its_arms_and_counts_them(tmp_path: Path) -> None:
    """As an earlier version has imported it: each deferred tool in full in each run."""
    context, session = context_at(tmp_path / "learner.db"), put(tmp_path, planted().bytes(), "s.jsonl")
    arms = sorted([FAR, NEAR, tool_key("Read"), tool_key("Skill")])
    earlier = [
        replace(
            run,
            inventory=Inventory(kind="declared", arms=tuple(Arm(key=key) for key in arms)),
            loaded=(),
            rank=5,
        )
        for run in runs(read(session))
    ]
    lines_file = put(tmp_path, b"".join(write(earlier)), "earlier.jsonl")
    import_files(context, [lines_file])
    before = pulls(context)
    only_named = {FAR: 2, NEAR: 4}
    shown = import_files(context.for_rehearsal(), [session])
    assert (shown.id, shown.updated, shown.only_named, pulls(context)) == (None, 5, only_named, before)
    answer = import_files(context, [session])
    assert (answer.updated, answer.only_named) == (5, only_named)
    assert [word for word in str(answer.taken_back).split() if word.isdigit()] == ["6", "2"]
    alone = context_at(tmp_path / "alone.db")
    import_files(alone, [session])
    assert (states(context), by_name(context), pulls(context)) == (
        states(alone),
        by_name(alone),
        pulls(alone),
    )
    undo(context, answer.id)
    assert (pulls(context), by_name(context)) == (before, {})
    assert queries.verify(context).clean


def play(events: list[tuple[str, str]]) -> Session:
    session = Session().prompt("go")
    for at, (kind, name) in enumerate(events):
        if kind == "prompt":
            session.prompt(f"p{at}")
        elif kind == "call":
            session.reply(use(name, f"t{at}"), id=f"m{at}")
        elif kind == "load":
            session.reply(use("Skill", f"t{at}", skill=name), id=f"m{at}")
        elif kind == "list":
            skills(session, name)
        else:
            delta(session, *([name] if kind == "add" else []), removed=(name,) if kind == "remove" else ())
    return session.reply(text("done"), id="last")


@settings(max_examples=20)
@given(events=_events, at=st.integers(0, 12))
def test_imports_of_growing_sessions_keep_their_laws(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, str]], at: int
) -> None:
    folder = tmp_path_factory.mktemp("laws")
    whole = play(events)
    early, late = put(folder, whole.bytes(at + 1), "a.jsonl"), put(folder, whole.bytes(), "b.jsonl")
    once, grown = context_at(folder / "once.db"), context_at(folder / "grown.db")
    import_files(once, [late])
    import_files(grown, [early])
    import_files(grown, [late])
    assert import_files(grown, [late]).id is None
    assert (states(grown), by_name(grown), pulls(grown)) == (states(once), by_name(once), pulls(once))
    assert queries.verify(grown).clean
    _recount(once)
    once.store.close()
    grown.store.close()


def _recount(context: Context) -> None:
    """Compare the sums with a count of the runs' arms."""
    named, loaded, observed = Counter[str](), Counter[str](), Counter[str]()
    for _, key, flags, _ in states(context):
        named[key] += flags in {8, 11}
        loaded[key] += flags == 11
        observed[key] += flags in {5, 7}
        assert flags in {0, 1, 3, 5, 7, 8, 11}
    assert by_name(context) == {key: (n, loaded[key]) for key, n in named.items() if n}
    assert {key: n for key, (n, _) in pulls(context).items()} == {key: n for key, n in observed.items() if n}
