"""Episodes in the store: each once, in its longest telling, whoever tells it, in any order; taken back whole."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.errors import Conflict, InvalidInput, NotFound, UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.episode import declare, record_step
from core.flows.export import lines
from core.flows.importing import import_files
from core.formats.armscope import write
from core.formats.tool_output import digest_of_metadata
from core.maths.episodes import EpisodeSums, closed, totals_of
from core.records.episode import Episode, Part, Step
from core.records.import_answer import ImportAnswer
from core.records.ledger_lines import LedgerLine
from core.records.run import Run
from core.store.environments import DAY_MS, stored_days
from core.store.episodes import read_episode, tell_episodes
from tests.engine import copy_world
from tests.formats.builders import reply, trajectory, user
from tests.worlds import START_MS, a_run, context_at, is_clean

LONG = Episode(
    uid="sums/1",
    environment="sums",
    split="train",
    task="t1",
    model="large",
    at_ms=START_MS,
    steps=(
        Step(number=0, name="look", reward=0.1, at_ms=START_MS, n_chars_in=2, n_chars_out=6),
        Step(number=1, name="idle"),
        Step(number=2, name="submit", reward=1.0, finished=True, extra=("x-cost",), note=None),
        Step(number=3, name="submit", reward=1.0, refused=True, note="episode_finished"),
    ),
    parts=(Part(name="judge", value=0.5), Part(name="calls", value=3.0, kind="measure")),
)
SHORT = replace(LONG, steps=LONG.steps[:2], parts=())
OTHER = Episode(uid="sums/2", environment="sums", steps=(Step(number=0),))

SAID = st.tuples(
    st.sampled_from(["look", "submit"]), st.none() | st.sampled_from([0.0, 0.1, -0.5, 1.0]), st.booleans()
)


def file_of(folder: Path, name: str, *told: LedgerLine | Run) -> Path:
    path = folder / name
    path.write_bytes(b"".join(write(told)))
    return path


def held(context: Context) -> dict[str, Episode]:
    """Episodes that stand, as an export tells them, without when they were told."""
    with context.reading() as snapshot:
        told = [line for line in lines(snapshot) if isinstance(line, Episode)]
    return {line.uid: replace(line, revision=None) for line in told}


def days(context: Context) -> dict[tuple[int, int, str, str, str], EpisodeSums]:
    with context.reading() as snapshot:
        return stored_days(snapshot)


def import_cleanly(context: Context, file: Path) -> ImportAnswer:
    answer = import_files(context, [file])
    assert is_clean(context)
    return answer


def test_whatever_is_told_and_taken_back_leaves_what_the_others_say(context: Context, tmp_path: Path) -> None:
    """Random tellings of what grows, undos and redos, beside a plain model: the longest that stands is in force."""
    rng = random.Random(8)
    whole = {
        uid: Episode(
            uid=uid,
            environment=environment,
            steps=tuple(
                closed(
                    Step(number=place, reward=rng.choice([None, 0.0, 0.1, 1.0]), finished=place == 3)
                    for place in range(5)
                )
            ),
        )
        for uid, environment in (("e0", "a"), ("e1", "b"))
    }
    acts: dict[str, Episode] = {}
    standing: dict[str, bool] = {}
    for number in range(14):
        one = whole[f"e{rng.randrange(2)}"]
        telling = replace(one, steps=one.steps[: rng.randrange(1, 6)])
        answer = import_cleanly(context, file_of(tmp_path, f"{number}.jsonl", telling))
        if answer.id is not None:
            acts[answer.id], standing[answer.id] = telling, True
        flipped = rng.choice(sorted(acts))
        (undo if standing[flipped] else redo)(context, flipped)
        standing[flipped] = not standing[flipped]
        expected: dict[str, Episode] = {}
        for act, one in acts.items():
            best = expected.get(one.uid)
            if standing[act] and (best is None or len(one.steps) > len(best.steps)):
                expected[one.uid] = one
        assert held(context) == expected
        assert is_clean(context)


def test_days_add_up_what_success_goes_by_and_gaps_are_no_zeros(context: Context, tmp_path: Path) -> None:
    tens = Episode(
        uid="tens",
        environment="sums",
        at_ms=START_MS,
        steps=tuple(Step(number=n, reward=0.1) for n in range(9)),
    )
    unpaid = replace(OTHER, uid="unpaid", at_ms=START_MS + 3 * DAY_MS)
    import_cleanly(context, file_of(tmp_path, "a.jsonl", LONG, tens, unpaid))
    day = START_MS // DAY_MS
    assert days(context) == {
        (1, day, "train", "", "large"): EpisodeSums(
            n=1,
            n_paid=1,
            n_finished=1,
            successes=1,
            reward_sum=Decimal("1.1"),
            reward_squares=Decimal("1.21"),
        ),
        (1, day, "", "", ""): EpisodeSums(
            n=1,
            n_paid=1,
            n_finished=0,
            successes=0,
            reward_sum=Decimal("0.9"),
            reward_squares=Decimal("0.81"),
        ),
        (1, day + 3, "", "", ""): EpisodeSums(n=1),
    }


def test_a_run_that_comes_later_is_linked_when_the_episode_is_told_again(
    context: Context, tmp_path: Path
) -> None:
    linked = replace(LONG, runs=("r",))
    import_cleanly(context, file_of(tmp_path, "a.jsonl", linked))
    assert held(context)["sums/1"].runs == ()
    act = import_cleanly(context, file_of(tmp_path, "b.jsonl", a_run("r", calls=["a"]), linked)).id
    assert held(context)["sums/1"].runs == ("r",)
    undo(context, act)
    assert held(context)["sums/1"].runs == (), "that run stands no more"


def test_recorded_directly_it_may_go_on_and_not_be_another(context: Context) -> None:

    def record(line: Episode) -> list[str]:
        return list(context.write("ingest", lambda txn: tell_episodes(txn, [line]), create=True))

    assert record(SHORT) == ["new"]
    assert record(SHORT) == ["duplicate"]
    assert record(LONG) == ["updated"]
    assert record(SHORT) == ["duplicate"], "what it began with"
    assert held(context) == {"sums/1": LONG}
    other = replace(LONG, steps=(replace(LONG.steps[0], reward=0.2), *LONG.steps[1:]))
    for wrong in (other, replace(SHORT, steps=other.steps[:1]), replace(LONG, task="t2")):
        with pytest.raises(Conflict, match="sums/1"):
            record(wrong)
    assert held(context) == {"sums/1": LONG}
    assert is_clean(context)


def test_members_of_metadata_are_equal_where_they_were_under_a_key_of_their_own(tmp_path: Path) -> None:
    """With a whole digest alone, as older versions stored it, the whole stays comparable."""
    metadata = [{"grade": "half", "at": 1}, {"grade": "half", "at": 2}, {"grade": "right", "at": 2}]
    sent = [digest_of_metadata(one) for one in metadata]
    sent.append(sent[0].split()[0])
    steps = tuple(Step(number=at, meta_digest=one) for at, one in enumerate(sent))
    context = context_at(tmp_path / "a.db")
    import_cleanly(context, file_of(tmp_path, "e.jsonl", Episode(uid="e", environment="sums", steps=steps)))
    record_step(context, "f", environment="sums", meta_digest="")
    with context.reading() as snapshot:
        rows = snapshot.connection.rows("SELECT meta_digest FROM step ORDER BY episode_no, step_no")
        assert [step.meta_digest for step in read_episode(snapshot, 1).steps] == [row[0] for row in rows[:4]]
    one, other, third, old, _ = (row[0].split() for row in rows)
    assert (one[0], one[2], other[1]) == (old[0], other[2], third[1])
    assert len({one[0], other[0], third[0], one[1], other[1], other[2], third[2]}) == 7
    assert {one[1][:8], one[2][:8]} == {third[1][:8], third[2][:8]}
    assert not {digest for each in sent for digest in each.split()} & {*one, *other, *third}


def test_equal_arguments_are_told_apart_under_a_key_that_no_export_has(tmp_path: Path) -> None:
    same, another = "00" * 16, "01" * 16
    steps = tuple(Step(number=n, args_digest=one) for n, one in enumerate((same, another, same)))
    line = Episode(uid="e", environment="sums", steps=steps)
    found = []
    for name in "ab":
        context = context_at(tmp_path / f"{name}.db")
        import_cleanly(context, file_of(tmp_path, "e.jsonl", line))
        with context.reading() as snapshot:
            rows = snapshot.connection.rows("SELECT args_digest FROM step ORDER BY step_no")
        first, second, third = (digest for (digest,) in rows)
        assert first == third != second
        assert {first, second}.isdisjoint({same, another})
        assert all(step.args_digest is None for step in held(context)["e"].steps)
        found.append(first)
    assert found[0] != found[1], "every learner has a key of its own"


@given(said=st.lists(SAID, min_size=1, max_size=6), times=st.integers(1, 2))
@settings(max_examples=25)
def test_step_by_step_is_all_at_once(said: list[tuple[str, float | None, bool]], times: int) -> None:
    """Whether each step is sent once or again: the rows, sums and days of an episode that was told whole."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        context = context_at(Path(folder) / "a.db")
        for number, (name, reward, finished) in enumerate(said):
            for _ in range(times):
                answer = record_step(
                    context,
                    "e",
                    environment="sums",
                    number=number,
                    name=name,
                    reward=reward,
                    finished=finished,
                )
            assert answer.number == number
        (one,) = held(context).values()
        whole = tuple(
            closed(
                Step(
                    number=number, name=name, reward=reward, finished=finished, at_ms=one.steps[number].at_ms
                )
                for number, (name, reward, finished) in enumerate(said)
            )
        )
        assert one.steps == whole
        sums = totals_of(whole)
        assert (answer.steps, answer.finished) == (sums.n_steps, sums.finished)
        assert answer.total == (None if sums.total is None else float(sums.total))
        assert is_clean(context)
        context.store.close()


def test_a_step_is_not_another_and_leaves_none_out(context: Context, tmp_path: Path) -> None:
    for wrong in ({}, {"environment": "sums", "number": 1}):
        with pytest.raises(InvalidInput, match="first step"):
            record_step(context, "e", reward=0.1, **wrong)  # type: ignore[arg-type]
    for reward in ("1.0", True, float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match="reward"):
            record_step(context, "e", environment="sums", reward=reward)  # type: ignore[arg-type]
    assert held(context) == {}
    record_step(context, "e", environment="sums", reward=0.1)
    record_step(context, "e", reward=0.1)
    with pytest.raises(Conflict, match="Step 1"):
        record_step(context, "e", number=1, reward=0.2)
    with pytest.raises(InvalidInput, match="number 2"):
        record_step(context, "e", number=3, reward=0.2)
    assert [step.reward for step in held(context)["e"].steps] == [0.1, 0.1]
    known = held(context)["e"]
    import_cleanly(context, file_of(tmp_path, "other.jsonl", replace(LONG, uid="e")))
    assert held(context)["e"] == known, "what goes on otherwise is no later state"
    grown = replace(known, steps=(*known.steps, Step(number=2, reward=0.3)))
    import_cleanly(context, file_of(tmp_path, "long.jsonl", grown))
    with pytest.raises(Conflict):
        record_step(context, "e", reward=0.2)
    assert is_clean(context)


def test_steps_come_from_several_threads_and_none_is_lost(context: Context) -> None:
    record_step(context, "e", environment="sums", reward=0.1)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: record_step(context, "e", reward=0.1), range(19)))
    assert sorted(answer.number for answer in answers) == list(range(1, 20))
    assert totals_of(held(context)["e"].steps).total == 2
    assert is_clean(context)


def test_an_environment_is_seen_by_the_scale_in_force(context: Context, tmp_path: Path) -> None:
    assert queries.episodes(context) == ()
    import_cleanly(
        context, file_of(tmp_path, "a.jsonl", LONG, OTHER, replace(OTHER, uid="x", environment="unpaid"))
    )
    sums, unpaid = queries.episodes(context)
    assert (sums.environment, sums.n, sums.without_reward, sums.average.value) == ("sums", 2, 1, 1.1)
    assert (sums.n_off_scale, sums.success, sums.declared) == (1, None, False), (
        "nobody said what a success is"
    )
    assert (unpaid.average.value, unpaid.success, unpaid.without_reward) == (None, None, 1)
    wide = declare(context, "sums", hi=2)
    sums, unpaid = queries.episodes(context)
    assert sums.success is not None
    assert (sums.success.rate, sums.success.of_paid, sums.success.base) == (1.0, 1.0, "total")
    assert sums.success.missing == "few_for_interval"
    assert [one.n for one in queries.episodes(context, model="large")] == [1]
    seen = queries.episode(context, "sums/1")
    assert (seen.total, seen.final, seen.success, seen.status) == (1.1, 1.0, True, "finished")
    assert seen.normalised == pytest.approx(0.55)
    assert [step.running for step in seen.steps] == [0.1, 0.1, 1.1, 1.1]
    assert [step.refused for step in seen.steps] == [False, False, False, True]

    declared = declare(context, "sums", lo=-1, hi=3, threshold=2)
    assert (declared.episodes, declared.successes_before, declared.successes) == (2, 1, 0)
    assert is_clean(context)
    assert declare(context, "sums", hi=3).id is None, "it is in force already"
    found = queries.episode(context, "sums/1")
    assert found.normalised == pytest.approx(2.1 / 4)
    assert not found.success
    assert queries.episodes(context, environment="sums")[0].declared
    undo(context, declared.id)
    assert queries.episodes(context) == (sums, unpaid)
    undo(context, wide.id)
    seen = queries.episode(context, "sums/1")
    assert (seen.normalised, seen.success, seen.declared) == (None, None, False)
    with pytest.raises(NotFound, match="nowhere"):
        declare(context, "nowhere", hi=2)
    with pytest.raises(InvalidInput, match="below"):
        declare(context, "sums", lo=1)
    with pytest.raises(NotFound, match="sums/9"):
        queries.episode(context, "sums/9")


@pytest.mark.parametrize(
    "spoiled",
    [
        "UPDATE episode SET n_paid = n_paid + 1",
        "UPDATE episode SET standing = 0",
        "UPDATE episode SET total_text = '1.2'",
        "UPDATE step SET reward = 0.2 WHERE step_no = 0",
        "DELETE FROM step WHERE step_no = 3",
        "UPDATE environment_day SET successes = 0",
        "UPDATE environment_day SET reward_sum = '1.2'",
        "DELETE FROM environment_day",
        "UPDATE environment_task SET n = n + 1",
        "UPDATE environment_task SET task = 'another'",
        "DELETE FROM environment_task",
    ],
)
def test_what_is_not_as_the_steps_say_is_found(spoiled: str, told_once: Path, tmp_path: Path) -> None:
    copy_world(told_once, tmp_path / "a.db")
    context = context_at(tmp_path / "a.db")
    assert is_clean(context)
    context.store.database.write(lambda connection: connection.run(spoiled))
    assert not is_clean(context)


@pytest.fixture(scope="module")
def told_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("episodes")
    context = context_at(folder / "a.db")
    import_files(context, [file_of(folder, "a.jsonl", LONG)])
    context.store.close()
    return folder / "a.db"


def test_a_hundred_thousand_steps_are_one_episode(context: Context, tmp_path: Path) -> None:
    steps = tuple(Step(number=number, name="s", reward=0.1) for number in range(100_000))
    long = Episode(uid="long", environment="sums", steps=steps)
    assert totals_of(steps).total == 10_000
    answer = import_files(context, [file_of(tmp_path, "long.jsonl", long)])
    assert (answer.episodes, answer.rejected_count) == (1, 0)
    assert [sums.reward_sum for sums in days(context).values()] == [Decimal(10_000)]


def test_what_is_no_episode_is_a_rejected_line_and_loses_nothing(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    bad = [
        '{"kind":"episode","uid":"a","environment":"s","steps":[{"number":0,"reward":"1.0"}]}',
        '{"kind":"episode","uid":"b","environment":"s","steps":[{"number":0,"reward":true}]}',
        '{"kind":"episode","uid":"c","environment":"s","steps":[{"number":0,"reward":NaN}]}',
        '{"kind":"episode","uid":"d","environment":"s","steps":[{"number":0,"reward":1e400}]}',
        '{"kind":"episode","uid":"e","environment":"s","steps":[{"number":1},{"number":1,"reward":1}]}',
        '{"kind":"environment","id":"s1","environment":"s","scale":{"lo":1,"hi":1}}',
    ]
    good = b"".join(write([LONG])).decode()
    file.write_text("\n".join([*bad[:3], good.strip(), *bad[3:]]) + "\n")
    answer = import_files(context, [file])
    assert answer.rejected_count == len(bad)
    assert [one.line for one in answer.rejected] == [1, 2, 3, 5, 6, 7]
    assert set(held(context)) == {"sums/1"}


def test_a_source_that_is_read_again_brings_its_episodes_and_moves_nothing_else(tmp_path: Path) -> None:
    """As where its runs were recorded before there were episodes."""
    talk = [user("Book it"), reply(None, "search", "book"), reply("Booked")]
    records = [trajectory(talk, task, reward) for task, reward in enumerate((1.0, 0.0, 0.5))]
    source = tmp_path / "records.json"
    source.write_text(json.dumps(records))
    fresh = context_at(tmp_path / "fresh.db")
    first = import_files(fresh, [source])
    assert (first.runs, first.episodes) == (3, 3)
    with fresh.reading() as snapshot:
        runs = [line for line in lines(snapshot) if not isinstance(line, Episode)]
    before = context_at(tmp_path / "before.db")
    import_files(before, [file_of(tmp_path, "runs.jsonl", *runs)])
    believed = queries.posteriors(before)
    assert held(before) == {}
    again = import_cleanly(before, source)
    assert (again.runs, again.duplicates, again.updated) == (3, 3, 0)
    assert (again.episodes, again.episode_duplicates) == (3, 0)
    assert queries.posteriors(before) == believed == queries.posteriors(fresh)
    assert held(before) == held(fresh)
    assert all(one.runs for one in held(before).values())
    undo(before, again.id)
    assert is_clean(before)
    assert held(before) == {}
    assert queries.posteriors(before) == believed


def test_by_turn_and_by_episode_it_is_the_same_episode(tmp_path: Path) -> None:
    talk = [user("Find"), reply(None, "search"), user("Book"), reply(None, "book"), reply("Done")]
    source = tmp_path / "records.json"
    source.write_text(json.dumps([trajectory(talk, 7, 0.25)]))
    found = []
    for unit in ("turn", "episode"):
        context = context_at(tmp_path / f"{unit}.db")
        import_files(context, [source], unit=unit)
        assert is_clean(context)
        (one,) = held(context).values()
        found.append(one)
    assert [len(one.runs) for one in found] == [2, 1]
    assert replace(found[0], runs=()) == replace(found[1], runs=())
    assert (found[0].environment, found[0].task) == ("tau-bench", "7")
    assert [(step.kind, step.name, step.reward, step.finished) for step in found[0].steps] == [
        ("call", "search", None, False),
        ("call", "book", None, False),
        ("outcome", "", 0.25, True),
    ]
    with pytest.raises(UnreadableSource, match="here already by episode"):
        import_files(context, [source], unit="turn")
    assert held(context) == {found[1].uid: found[1]}


def test_an_episode_names_those_beside_it_and_a_run_its_episodes(context: Context, tmp_path: Path) -> None:
    """In the order of time within its environment; those of unknown time come before all others."""
    context.write("ingest", lambda txn: None, create=True)
    times = {"late": START_MS + 2, "unknown": None, "early": START_MS, "also unknown": None, "same": START_MS}
    told_all = [replace(OTHER, uid=uid, at_ms=at_ms) for uid, at_ms in times.items()]
    stranger = replace(OTHER, uid="stranger", environment="shell", at_ms=START_MS + 1)
    import_cleanly(context, file_of(tmp_path, "a.jsonl", a_run("r"), stranger, *told_all))
    import_cleanly(
        context, file_of(tmp_path, "b.jsonl", replace(OTHER, uid="linked", runs=("r",), environment="games"))
    )
    order = ["unknown", "also unknown", "early", "same", "late"]
    for before, uid, after in zip([None, *order[:-1]], order, [*order[1:], None], strict=True):
        seen = queries.episode(context, uid)
        assert (seen.older, seen.newer) == (before, after)
    assert (queries.episode(context, "stranger").older, queries.episode(context, "stranger").newer) == (
        None,
        None,
    )
    assert queries.run(context, "r").episodes == ("linked",)
    made = queries.episode_runs(context, "linked")
    assert (made.n, [row.uid for row in made.rows]) == (1, ["r"])
    assert [(arm.arm, arm.n_in, arm.n_used) for arm in made.arms] == [
        ("tool:other:a", 1, 1),
        ("tool:other:b", 1, 0),
        ("tool:other:c", 1, 0),
    ]
    assert queries.episode_runs(context, "unknown").arms == ()
