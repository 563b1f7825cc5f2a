"""One learner at one revision: the same name has the same figure on every page and at every door."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from core.doors.chat import ChatMessage, chat
from core.doors.cli import app
from core.doors.exchange import HttpCall
from core.doors.http import metrics, openclaw
from core.doors.service import Service
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all, reward
from core.records.actor import Actor
from core.records.run import Run
from core.records.run_query import View
from core.records.times import DAY_MS
from dashboard import wording
from dashboard.report import gather, rendered, report
from dashboard.sentences import Phrase, Sentence, achieved, gain
from dashboard.sentences import overview as overview_sentences
from dashboard.sentences import savings as sentences
from dashboard.sentences.overview import needs
from tests.worlds import START_MS, a_run, context_at

ARMS = [f"t{number}" for number in range(16)]
STALE = 'armscope_learner_metrics_fresh{learner="default"} 0.0'
MARA = Actor(name="mara")


def switched(seed: int, n_days: int = 60, a_day: int = 12) -> list[Run]:
    """A new model on day 45: eight arms are used more or less, and every run costs more."""
    chance = np.random.default_rng(seed)
    rates = np.clip(chance.beta(3, 2, len(ARMS)), 0.15, 0.9)
    later = rates.copy()
    later[:8] += np.where(rates[:8] > 0.5, -0.3, 0.3)
    runs = []
    for number in range(n_days * a_day):
        day = number / a_day
        is_new = day >= 45
        inside = [place for place in range(len(ARMS)) if chance.random() < 0.6] or [0]
        used = [place for place in inside if chance.random() < (later if is_new else rates)[place]]
        run = a_run(
            f"r{number}",
            [ARMS[place] for place in inside],
            ["other", *(ARMS[place] for place in used)],
            at_ms=START_MS + int(day * DAY_MS),
            tokens=max(1, round((1_400 if is_new else 1_000) * chance.lognormal(0, 0.6))),
            run_class="baseline" if chance.random() < (0.05 if is_new else 0.15) else "selected",
            model="m2" if is_new else "m1",
        )
        runs.append(replace(run, session=f"s{number // 3}", channel="web"))
    return runs


@dataclass(frozen=True)
class Doors:
    """A context, and a service on the same database."""

    context: Context
    service: Service
    path: Path

    def command(self, *words: str) -> str:
        answer = CliRunner().invoke(app, ["--database", str(self.path), *words])
        assert answer.exit_code == 0, answer.output
        return answer.output

    def get(self, path: str) -> str:
        calls = {"/metrics": metrics.metrics}
        call = HttpCall("GET", path, {}, {}, b"")
        if path in calls:
            while STALE in (text := calls[path](self.service, MARA, call).body.decode()):
                time.sleep(0.1)
            return text
        return openclaw.handle(self.service, MARA, call).body.decode()


@pytest.fixture(scope="module", params=[3, 4])
def doors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Doors:
    path = tmp_path_factory.mktemp("doors") / "a.db"
    context = context_at(path)
    record_all(context, switched(request.param))
    for number in range(60):
        reward(context, f"tool:other:t{number % 16}", (0, 0.5, 1, 0.333333)[number % 4])
    return Doors(context, Service(store=context.store, learner="default", clock=context.clock), path)


def text_of(parts: Sentence) -> str:
    return "".join(part.text if isinstance(part, Phrase) else part for part in parts)


def test_every_door_names_one_figure_as_the_savings(doors: Doors) -> None:
    saved = queries.savings(doors.context)
    first, plain = saved.overall.shown, saved.overall.plain_percent
    assert first.value is not None
    assert first.lower is not None
    assert first.upper is not None
    assert plain is not None
    assert abs(first.value - plain) > 0.05, "the world must tell the two formulas apart"
    interval = sentences.limits(first)
    share = achieved.share(first)
    for words in (
        doors.command("savings"),
        doors.command("status"),
        text_of(overview_sentences.overview(queries.overview(doors.context), queries.savings(doors.context))),
        rendered(report(gather(doors.context, View()))).decode(),
        text_of(gain.headline(saved)),
    ):
        assert share.strip("−") in words
        assert interval.replace("−", "-") in words.replace("−", "-") or "proven" in words
    text = doors.get("/metrics")
    (ratio,) = re.findall(r'armscope_savings_ratio\{bound="value",learner="default"\} (\S+)', text)
    assert float(ratio) == pytest.approx(first.value / 100)
    (low,) = re.findall(r'armscope_savings_ratio\{bound="lower",learner="default"\} (\S+)', text)
    assert float(low) == pytest.approx(first.lower / 100)


def test_openclaws_member_is_its_own_formula_and_ours_stands_beside_it(doors: Doors) -> None:
    overall = queries.savings(doors.context).overall
    runs = json.loads(doors.get(f"{openclaw.PREFIX}/summary"))["baseline"]
    base, selected = runs["baselineAvgTokens"], runs["selectedAvgTokens"]
    assert runs["tokenSavingsPercent"] == pytest.approx((base - selected) / base * 100)
    assert runs["savingsPercent"] == overall.shown.value
    assert runs["savingsInterval"] == [overall.shown.lower, overall.shown.upper]
    told = chat(doors.service, MARA, ChatMessage(text="/learning status")) or ""
    assert f"{overall.plain_percent:.1f}% (baseline avg: {base:.0f}, selected avg: {selected:.0f})" in told
    assert f"armscope: {overall.shown.value:.1f}%" in told
    assert json.loads(doors.command("status", "--json"))["baseline"][
        "formula_savings_percent"
    ] == pytest.approx(runs["tokenSavingsPercent"])


def test_every_door_counts_the_same_runs_and_the_same_rows_that_need_a_look(doors: Doors) -> None:
    seen, saved = queries.overview(doors.context), queries.savings(doors.context)
    status = json.loads(doors.command("status", "--json"))
    rows = re.findall(r"armscope_attention\{[^}]*\} (\S+)", doors.get("/metrics"))
    assert sum(map(float, rows)) == len(seen.attention) > 0
    assert needs(len(seen.attention)) in text_of(
        overview_sentences.overview(seen, queries.savings(doors.context))
    )
    n_compared = list(saved.overall.n_compared)
    assert status["baseline"]["compared_runs"] == n_compared
    for words in (sentences.savings_numbers(saved), doors.command("savings")):
        assert f"{n_compared[0]} baseline" in words
        assert f"{n_compared[1]} selected runs" in words
    assert sum(n_compared) + saved.overall.n_uncompared == sum(
        group.n_known for group in (saved.overall.baseline, saved.overall.selected)
    )


def test_a_claim_has_one_rounding(doors: Doors) -> None:
    seen, saved = queries.overview(doors.context), queries.savings(doors.context)
    shown = saved.overall.shown
    assert shown.limits is not None
    words = text_of(overview_sentences.overview(seen, saved))
    limits = re.findall(r"[\d.]+", wording.percent_interval(*shown.limits))
    assert sorted(re.findall(r"[\d.]+", words)[1:3]) == sorted(limits)
    assert achieved.share(seen.savings.shown).strip("−") in words
