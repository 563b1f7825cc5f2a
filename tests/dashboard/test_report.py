"""The frozen report says what the pages say, tells where every number comes from, and needs nothing else."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from itertools import count
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from core.demo import LEARNER, build
from core.doors.cli import app
from core.errors import StoreBusy
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.records.actor import Actor
from core.records.run_query import View
from core.store.store import Store
from dashboard import commands, wording
from dashboard.report import gather, rendered, report
from dashboard.report.facts import opening
from dashboard.sentences import gain as gain_sentences
from dashboard.sentences import money as money_sentences
from dashboard.sentences import overview as overview_sentences
from dashboard.sentences import savings as sentences
from tests.dashboard.worlds import HOSTILE, NOON_MS, context_at, keys, runs, world


class Reader(HTMLParser):
    """What a browser would find: elements with their attributes, and text outside scripts and styles."""

    def __init__(self, document: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(document.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag if tag in {"script", "style"} else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text += data

    def values(self, name: str) -> list[str]:
        return [value for _, attrs in self.elements for key, value in attrs.items() if key == name and value]


def test_it_says_what_the_pages_say_and_its_first_page_has_the_months_bill(tmp_path: Path) -> None:
    context = world(tmp_path / "a.db", keys(12), 120)
    read = Reader(rendered(report(gather(context, View()))))
    saved, seen = queries.savings(context), queries.overview(context)
    for line in (gain_sentences.failures(seen.savings).words, sentences.savings_numbers(saved)):
        assert re.sub(r"[*\\]", "", line) in read.text
    for one in queries.posteriors(context):
        assert one.arm in read.text
        assert wording.interval(one.interval.lower, one.interval.upper, 3) in read.text
    facts = gather(context, View())
    made = report(facts)
    _, _, step, words = made.lines
    assert step.startswith("**What to do next:**"), "the fourth line of the page"
    assert words == f"{overview_sentences.MEANT} {overview_sentences.PROVEN}"
    document = rendered(made).decode()
    first = document[document.index('class="first"') : document.index("<section>")]
    assert first.count("<svg ") == 4, "two pictures, each for a page and for a phone"
    assert first.count("<table>") == 1
    assert "The month&#x27;s bill" in first
    for cells in money_sentences.months_table(facts.savings).values():
        assert all(cell in first for cell in cells)


def test_every_section_names_its_question_and_every_colour_has_two_values(tmp_path: Path) -> None:
    read = Reader(rendered(report(gather(world(tmp_path / "a.db", keys(6), 60), View()))))
    known = {value for value in read.values("id") if value.startswith("query-")}
    asked = [value.removeprefix("#") for value in read.values("href")]
    assert len(known) == 7
    assert set(asked) <= known
    n_sections = sum(tag == "section" for tag, _ in read.elements)
    assert len(asked) >= n_sections - 1, "all but the list of the questions itself"
    document = rendered(report(gather(world(tmp_path / "a.db", keys(6), 60), View()))).decode()
    light, dark = (
        {*re.findall(r"--\d+", values)} for values in re.findall(r":root {([^}]*)}", document, re.DOTALL)
    )
    assert light == dark == {f"--{at}" for at in range(len(light))}
    assert {*re.findall(r"var\((--\d+)\)", document)} <= light
    assert not re.search(r'="(#|rgba?\(\d)', document.replace('href="#', "")), (
        "a colour that no theme changes"
    )


@pytest.mark.parametrize(
    "view",
    [
        View(),
        View(since_ms=NOON_MS - 30 * 3_600_000, until_ms=NOON_MS, models=("large",), types=("tool", "file")),
        View(channels=("<b>cron</b>", "caf\u00e9 \u202e")),
    ],
    ids=["everything", "filtered", "hostile"],
)
def test_every_number_can_be_had_again_as_the_report_says(tmp_path: Path, view: View) -> None:
    context = world(tmp_path / "a.db", keys(6), 60)
    facts = gather(context, view)
    read = Reader(rendered(report(facts)))
    names: dict[str, object] = {"file": tmp_path / "a.db"}
    assert opening(context.learner) in read.text
    exec(opening(context.learner), names)
    for name, query in facts.questions.items():
        assert query.expression in read.text
        assert repr(eval(query.expression, names)) == repr(getattr(facts, name))


def test_a_command_is_named_only_where_it_answers(tmp_path: Path) -> None:
    context = world(tmp_path / "a.db", keys(6), 60)
    everything, tools = gather(context, View()), gather(context, View(types=("tool",)))
    commands = {name: query.command for name, query in everything.questions.items() if query.command}
    assert commands == dict.fromkeys(("belief", "judgements"), "armscope posteriors")
    assert not [query for query in tools.questions.values() if query.command]
    done = CliRunner().invoke(app, ["--database", str(tmp_path / "a.db"), "posteriors", "--json"])
    assert [one["arm"] for one in json.loads(done.output)] == [one.arm for one in queries.posteriors(context)]
    assert len(everything.belief.columns) == len(json.loads(done.output))


def test_the_figure_of_densities_names_how_many_it_shows(tmp_path: Path) -> None:
    read = Reader(rendered(report(gather(world(tmp_path / "a.db", keys(4), 60), View()))))
    assert "Densities of 4 arms: those that changed or went unused, then the most used" in read.text


def test_it_loads_nothing_and_has_no_script(tmp_path: Path) -> None:
    document = rendered(report(gather(world(tmp_path / "a.db", keys(6), 60), View())))
    read = Reader(document)
    tags = [tag for tag, _ in read.elements]
    assert not {*tags} & {
        "script",
        "link",
        "img",
        "image",
        "use",
        "iframe",
        "object",
        "embed",
        "foreignobject",
    }
    assert read.values("src") == []
    assert all(value.startswith("#") for value in (*read.values("href"), *read.values("xlink:href")))
    assert not re.search(r"https?:|@import|url\((?!#)", document.decode())
    (policy,) = (value for value in read.values("content") if "default-src" in value)
    allowed = dict(part.split(maxsplit=1) for part in policy.split(";"))
    assert allowed.pop("style-src") == "'unsafe-inline'"
    assert {*allowed} == {"default-src", "base-uri", "form-action"}
    assert {*allowed.values()} == {"'none'"}


def test_each_figure_has_a_name_an_alternative_text_and_a_table(tmp_path: Path) -> None:
    read = Reader(rendered(report(gather(world(tmp_path / "a.db", keys(12), 120), View()))))
    ids = read.values("id")
    assert len(ids) == len({*ids})
    drawn = [attrs for tag, attrs in read.elements if tag == "svg"]
    assert [attrs["class"] for attrs in drawn] == ["page", "phone"] * (len(drawn) // 2)
    for attrs in drawn:
        assert {*(attrs["aria-labelledby"] or "").split()} <= {*ids}
    tags = [tag for tag, _ in read.elements]
    assert tags.count("desc") == tags.count("title") - 1 == len(drawn)
    figures = [attrs for tag, attrs in read.elements if tag == "details" and attrs.get("class") == "figure"]
    n_first = 2  # their table is the bill
    assert len(figures) == len(drawn) // 2 - n_first == 4


def test_the_report_of_the_demo_can_be_mailed(tmp_path: Path) -> None:
    build(tmp_path / "demo.db")
    with closing(Store(tmp_path / "demo.db")) as store:
        facts = gather(Context(store=store, learner=LEARNER, actor=Actor(name="op")), View())
        document = rendered(report(facts))
    assert len(document) <= 250_000
    in_view = Reader(re.sub(rb"<details.*?</summary>.*?</details></section>", b"", document)).text
    assert len(in_view.split()) <= 900


def test_hostile_names_are_text(tmp_path: Path) -> None:
    read = Reader(rendered(report(gather(world(tmp_path / "a.db", HOSTILE, 60), View()))))
    assert HOSTILE[0] in read.text
    tags = {tag for tag, _ in read.elements}
    assert not tags & {"i", "img", "iframe", "em", "object", "script"}
    assert not any(name.startswith("on") for _, attrs in read.elements for name in attrs)
    assert not any("javascript:" in value for value in read.values("href"))


def test_an_empty_learner_has_a_short_report(tmp_path: Path) -> None:
    read = Reader(rendered(report(gather(context_at(tmp_path / "a.db"), View()))))
    assert "no run has been recorded" in read.text


def test_all_of_it_is_of_one_revision(tmp_path: Path) -> None:
    context = world(tmp_path / "a.db", keys(3), 10)
    numbers, extra = count(), runs(keys(3), 1)[0]

    def busy() -> int:
        """Someone else writes whenever the clock is looked at."""
        record_all(context, [msgspec.structs.replace(extra, uid=f"other-{next(numbers)}")])
        return 0

    with pytest.raises(StoreBusy, match="one revision"):
        gather(replace(context, clock=busy), View())


def test_the_command_writes_a_new_file_and_overwrites_none(tmp_path: Path) -> None:
    assert commands.report in [command.callback for command in app.registered_commands]
    world(tmp_path / "a.db", keys(3), 10).store.close()
    command = ["--database", str(tmp_path / "a.db"), "report", str(tmp_path / "r.html"), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert (tmp_path / "r.html").stat().st_size == told["size_bytes"]
    again = CliRunner().invoke(app, command)
    assert again.exit_code != 0
    assert (tmp_path / "r.html").stat().st_size == told["size_bytes"]
