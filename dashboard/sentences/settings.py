"""Sentences about settings: their meaning, allowed values, and the effect of a change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from core.explained import NOT_OFFERED, chance_words
from core.explained.prices import prices_text
from core.flows.queries import SettingsPreview
from core.maths.statistics.cheapest import READ_RATIO, WRITE_RATIO, PromptCosts, PromptKind
from core.records import savings_words
from core.records.bill import MAX_PRICE, ModelPrices, Price, dollars, plain_prices
from core.records.currency import DOLLAR
from core.records.learner import MAX_HOLD_MINUTES, MAX_KEEP_DAYS, SELECTS, LearnerSettings
from core.records.transcript import texts_policy
from dashboard import wording
from dashboard.figures.theme import Tokens
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

SHOWN_MOVERS: Final = 8
_VISIBLE: Final = 0.005
"""Chances that move by less than half a point are drawn, not moved."""

SETTING_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Choosing": (
        "phase",
        "baseline_rate",
        "budget_tokens",
        "k",
        "min_pulls",
        "sticky",
        "hold_minutes",
        "seed_arms",
        "excluded_arms",
    ),
    "Recognising": ("mode", "meta_tools"),
    "Believing": ("priors",),
    "Judging": (
        "thresholds",
        "graders",
        "evaluation_credit",
        "weight_by_agreement",
        "trusted_graders",
        "keep_texts",
        "personal_numbers",
        "outcome_from",
        "worse_by",
    ),
    "Money": ("currency", "prices"),
    "Keeping": ("keep_runs_days",),
}

NEW_POLICY: Final = Words(savings_words.NEW_POLICY)
_EFFECTS: Final[dict[str, Words]] = {
    **dict.fromkeys(SELECTS, NEW_POLICY),
    "hold_minutes": Words("It applies to running sessions, too."),
    "currency": Words("Only the sign of sums changes; no amount is converted."),
    "keep_runs_days": Words("Only `armscope compact` deletes runs; the setting alone deletes none."),
}
"""Effects of settings that are the same at every value."""

_KINDS: Final[dict[PromptKind, str]] = {
    "held": "held in its session",
    "redrawn": "drawn for each run",
    "full": "with every arm",
}

PRICE_LINES: Final = Words(
    'A line reads `model = 3`, the price of input, or `model = {"input": 3, "output": 15}`. Further parts: '
    "`cache_read`, `cache_write_5m`, `cache_write_1h`. "
    'Apart: `"fast": 2` (also priority, batch, flex), `"long": {"above": 200000, "input": 6}`, `"region": 1.1`, '
    '`"search": 0.01`. A list has a price for each `"valid_from": "2026-01-31"`.'
)
"""The form of prices as text."""


@dataclass(frozen=True, kw_only=True)
class SettingWords:
    """``explains`` and ``allowed`` are our own words, in Markdown; a choice shows what is allowed (None)."""

    label: Words
    explains: Words
    allowed: Words | None = None


SETTING_WORDS: Final[dict[str, SettingWords]] = {
    "phase": SettingWords(
        label="Phase",
        explains="Active: arms are selected and learned from. Passive: every arm is in, runs are recorded only.",
    ),
    "baseline_rate": SettingWords(
        label="Baseline rate, %",
        explains="Share of runs that get as many arms as fit, as the comparison for savings.",
        allowed="0 to 100",
    ),
    "budget_tokens": SettingWords(
        label="Token budget",
        explains="Tokens of arms that a prompt may hold; seeds are in even beyond it. 0: no limit.",
        allowed="whole numbers, 0 to 10¹²",
    ),
    "k": SettingWords(
        label="Arms at most",
        explains="How many arms a selected prompt may hold, seeds included. 0: no limit.",
        allowed="whole numbers, 0 to 10¹²",
    ),
    "min_pulls": SettingWords(
        label="Minimum of pulls",
        explains="Arms with fewer pulls go ahead of every drawn arm, the least known first.",
        allowed="whole numbers, 0 to 10¹²",
    ),
    "sticky": SettingWords(
        label="A selection holds for",
        explains="Each run: arms are drawn on each request, as the source says. The session: its first draw holds, "
        "so that the provider's cache keeps the prompt.",
    ),
    "hold_minutes": SettingWords(
        label="Minutes until a hold ends",
        explains="A session that is idle for longer gets a new draw. Use the time that the provider keeps its cache.",
        allowed=f"whole numbers, 1 to {wording.count(MAX_HOLD_MINUTES)}",
    ),
    "seed_arms": SettingWords(
        label="Seed arms, one a line",
        explains="Always in, at any belief. Unknown ids are ignored. Default: the detector's list.",
        allowed="ids that read type:category:name",
    ),
    "excluded_arms": SettingWords(
        label="Excluded arms, one a line",
        explains="In no prompt, for example until a detector is repaired. Unknown ids are ignored. In the passive "
        "phase nothing is left out.",
        allowed="ids of arms, none of them a seed",
    ),
    "mode": SettingWords(
        label="Detection",
        explains="How skills, files and memories are recognised. Standard: whole words, and 20 characters of a "
        "memory. OpenClaw: substrings, as that program finds them. Holds for runs recorded from then on.",
    ),
    "meta_tools": SettingWords(
        label="Meta tools, one a line",
        explains="A run that calls only these has no real tool call, so nothing is learned from it.",
        allowed="tool names, exactly as they are called",
    ),
    "priors": SettingWords(
        label="Priors by type",
        explains="Belief of an arm before its first pull, alpha and beta. Their sum is its weight in pulls. An arm's "
        "own prior stays.",
        allowed="above 0, to 10⁹",
    ),
    "currency": SettingWords(
        label="Currency",
        explains="Sign or code of the prices, shown at every sum. A change converts no amount.",
        allowed="1 to 8 characters without digits and spaces",
    ),
    "prices": SettingWords(
        label="Prices, per million tokens",
        explains="Price of a million tokens by model and part, for savings in money. A missing part is assumed by "
        "its usual ratio to the input. Selection ignores prices.",
        allowed=f"0 to {wording.count(int(MAX_PRICE))} each",
    ),
    "thresholds": SettingWords(
        label="Thresholds of scores",
        explains="Lowest scores of an evaluation for training, and for gold. Stored evaluations are graded again at "
        "once.",
        allowed="scores from 0 to 1",
    ),
    "graders": SettingWords(
        label="Who moves an arm",
        explains="Evaluations that count if several people judge one arm in one run. They share one observation.",
    ),
    "evaluation_credit": SettingWords(
        label="Credit of a whole run",
        explains="Arms that share the judgement of a whole run: none, each in the prompt, or each referenced.",
    ),
    "weight_by_agreement": SettingWords(
        label="Weights of raters, one a line",
        explains="Weight of each rater, as `rater = weight`. The page Evaluations suggests them. Default: 1.",
        allowed="0 to 1 each",
    ),
    "trusted_graders": SettingWords(
        label="Trusted tokens, one a line",
        explains="Tokens that may name the rater. Training files include their evaluations, agreement does not.",
        allowed="names of tokens",
    ),
    "keep_texts": SettingWords(
        label="Keep texts",
        explains="Keep transcripts, requests and answers, for people who judge and for training. Off: nothing of "
        "them touches the disk.",
    ),
    "personal_numbers": SettingWords(
        label="Hold back personal numbers",
        explains="Leave rows with numbers of cards, bank accounts (IBAN) or US social security out of training, "
        "as with secrets.",
    ),
    "outcome_from": SettingWords(
        label="Sources of outcomes, the first known one is shown",
        explains="Where the outcome of a run is taken from. Programs state it, environments pay, people and model "
        "graders evaluate. A thumb is a reward of a full run.",
        allowed="program, environment, person, grader, thumb, each once",
    ),
    "worse_by": SettingWords(
        label="Points that count as as much",
        explains="Outcomes of selected runs may be worse by so many points, and still count as as much. At most half "
        "of the rarer of the baseline's shares of solved and unsolved runs counts.",
        allowed="numbers above 0, up to 50",
    ),
    "keep_runs_days": SettingWords(
        label="Days until runs may be compacted",
        explains="`armscope compact` deletes the rows of runs that ended earlier, for good. Their sums stay. 0: off.",
        allowed=f"whole numbers, 0 to {wording.count(MAX_KEEP_DAYS)}",
    ),
}


def allowed(names: Sequence[str]) -> Markdown:
    """Return the allowed values of settings, once for those with the same.

    >>> allowed(["phase", "baseline_rate", "k", "min_pulls"])
    'Allowed: Baseline rate 0 to 100; Arms at most and Minimum of pulls whole numbers, 0 to 10¹².'
    """
    alike: dict[Words, list[Words]] = {}
    for words in (SETTING_WORDS[name] for name in names):
        if words.allowed is not None:
            alike.setdefault(words.allowed, []).append(words.label.split(",")[0])
    parts = [f"{wording.listed(labels)} {what}" for what, labels in alike.items()]
    return Markdown(f"Allowed: {'; '.join(parts)}." if parts else "")


def settings(chosen: LearnerSettings) -> Sentence:
    """Return the settings in force."""
    if chosen.phase == "passive":
        return composed(
            "The learner is ", Phrase("passive"), ": it records runs and learns nothing from them."
        )
    rate = wording.percent(chosen.baseline_rate, 0 if round(chosen.baseline_rate * 100, 6) % 1 == 0 else 1)
    limits = []
    if chosen.budget_tokens:
        limits.append(f"within {wording.things(chosen.budget_tokens, 'token')}")
    if chosen.k:
        limits.append(f"at most {wording.things(chosen.k, 'arm')}")
    limit = " and ".join(limits) if limits else "without a budget"
    return composed(
        f"{rate} of runs are baseline runs, with {wording.BASELINE}; the others pick arms ",
        Phrase(limit),
        ".",
    )


def setting_value(name: str, value: object, currency: str = DOLLAR) -> Markdown:
    """Return a setting's value in short, as Markdown; ``value`` as JSON has it."""
    return wording.literal(setting_text(name, value, currency))


def setting_text(name: str, value: object, currency: str = DOLLAR) -> str:  # noqa: PLR0911 - one per kind of value
    """Return the same as plain text.

    >>> setting_text("baseline_rate", 0.05), setting_text("k", 0), setting_text("budget_tokens", 21_000)
    ('5%', '0, no limit', '21,000')
    """
    if name == "baseline_rate" and isinstance(value, (int, float)):
        return wording.percent(value, 0 if round(value * 100, 6) % 1 == 0 else 2)
    if name == "priors" and isinstance(value, Mapping):
        pairs = [(kind, prior) for kind, prior in value.items() if isinstance(prior, Mapping)]
        return ", ".join(
            f"{kind} {prior['alpha_micro'] / 1e6:g}, {prior['beta_micro'] / 1e6:g}" for kind, prior in pairs
        )
    if name == "thresholds" and isinstance(value, Mapping):
        return f"fine-tuning {value['sft']:g}, pairs {value['preference']:g}, gold {value['gold']:g}"
    if isinstance(value, bool):
        return "on" if value else "off"
    if name == "prices" and isinstance(value, Mapping):
        kept: dict[str, ModelPrices] = msgspec.convert(plain_prices(value), dict[str, ModelPrices])
        return prices_text(kept, currency) or "none"
    if name == "weight_by_agreement" and isinstance(value, Mapping):
        return ", ".join(f"{model} = {price:g}" for model, price in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(one) for one in value) or "none"
    if isinstance(value, int):
        return "0, no limit" if value == 0 and name in {"budget_tokens", "k"} else wording.count(value)
    return str(value)


def price_text(prices: ModelPrices) -> str:
    """Return the prices of one model as its field and the command line take them: a number, or JSON.

    >>> price_text(3.0), price_text(Price(input_micro=5_000_000))
    ('3', '{"input": 5.0}')
    """
    if isinstance(prices, (int, float)):
        return str(prices).removesuffix(".0")
    return json.dumps(dollars(prices) if isinstance(prices, Price) else [dollars(one) for one in prices])


def setting_effects(shown: SettingsPreview) -> list[Markdown]:
    """Return the effects of a change, a sentence each, as Markdown."""
    before, after = shown.before, shown.after
    nothing = Words("There is no arm yet; it applies from the first one on.")
    parts: list[Markdown] = [_prompt(shown) if len(shown.columns) else nothing]
    if after.phase != before.phase and after.phase == "passive":
        parts.append(Words("Runs recorded from then on teach nothing, until the learner is active again."))
    if after.min_pulls != before.min_pulls:
        under = [int((shown.columns.pulls < value).sum()) for value in (before.min_pulls, after.min_pulls)]
        arms = wording.things(under[1], "arm")
        parts.append(f"{arms} would have fewer pulls than that and go first, {wording.count(under[0])} now.")
    if after.sticky != before.sticky:
        parts.append(
            Words(
                "Runs of one session would share a draw. Savings compare them apart from runs so far."
                if after.sticky == "session"
                else "Each run would have a draw of its own. Savings compare them apart from runs so far."
            )
        )
    if shown.prompt_costs is not None:
        parts.append(_cheapest(shown.prompt_costs))
    changed = (name for name in _EFFECTS if getattr(after, name) != getattr(before, name))
    parts += dict.fromkeys(_EFFECTS[name] for name in changed)
    seeds = (Words("seed"), before.seed_arms, after.seed_arms)
    for noun, were, keys in (seeds, (Words("excluded arm"), before.excluded_arms, after.excluded_arms)):
        if keys != were:
            known = len(set(keys) & set(shown.columns.keys))
            parts.append(f"{wording.count(known)} of {wording.things(len(keys), noun)} are arms here.")
    if after.mode != before.mode or after.meta_tools != before.meta_tools:
        parts.append(Words("It applies to runs recorded from then on; earlier runs stay as judged."))
    if after.priors != before.priors:
        parts.append(_beliefs(shown))
    if shown.ready is not None:
        was, now = shown.ready
        parts.append(
            f"Of {wording.things(now.n, 'evaluation')}, **{wording.count(now.n_sft)}** would be ready for "
            f"fine-tuning instead of {wording.count(was.n_sft)}, and **{wording.count(now.n_preference)}** for "
            f"preference pairs instead of {wording.count(was.n_preference)}."
        )
    held = ("graders", "evaluation_credit", "weight_by_agreement")
    if any(getattr(after, name) != getattr(before, name) for name in held):
        parts.append(Words("It applies to evaluations from then on; stored ones keep their weight."))
    if after.keep_texts != before.keep_texts:
        parts += _texts(keeps=after.keep_texts)
    if after.prices != before.prices:
        parts.append(Words("Only figures in money change; beliefs and prompts do not."))
    return parts


def _texts(*, keeps: bool) -> list[Markdown]:
    if not keeps:
        return [
            Words("Texts of runs recorded from then on are not kept; `armscope erase` removes stored ones.")
        ]
    policy = texts_policy("this learner's database")
    first = Words("Texts of runs recorded from then on are kept, and of runs imported again.")
    return [first, *(wording.literal(one) for one in policy)]


def _prompt(shown: SettingsPreview) -> Words:
    n_all = wording.things(len(shown.columns), "arm")
    arms, tokens = [
        [f"{value:,.1f}" for value in shown.n_arms],
        [f"{value:,.0f}" for value in shown.n_tokens],
    ]
    if arms[0] == arms[1] and tokens[0] == tokens[1]:
        return f"The next prompt would hold {arms[1]} of {n_all} on average, as it does now."
    return (
        f"The next prompt would hold **{arms[1]} of {n_all}** on average instead of {arms[0]}, and "
        f"**{tokens[1]} tokens** of arms instead of {tokens[0]}."
    )


def _cheapest(costs: PromptCosts) -> Words:
    """Return which kind of prompt costs least at the latest rates of the learner."""
    rates, first = costs.rates, costs.cheapest
    by = (
        "Assumed"
        if (costs.read_ratio, costs.write_ratio) == (READ_RATIO, WRITE_RATIO)
        else "By the prices set"
    )
    others = " and ".join(
        f"{costs.cost[kind]:,.0f} {words}" for kind, words in _KINDS.items() if kind != first
    )
    return (
        f"A prompt **{_KINDS[first]}** is the cheapest at {rates.runs_per_session:,.1f} runs a session and "
        f"{rates.calls_per_run:,.1f} model calls a run. Its arms cost as much as {costs.cost[first]:,.0f} "
        f"input tokens a session, {others}. {by}: a cached read costs {costs.read_ratio:.3g} of the input price, a "
        f"cache write {costs.write_ratio:.3g}."
    )


def _beliefs(shown: SettingsPreview) -> Words:
    delta = np.abs(shown.summary_after.mean - shown.summary_before.mean)
    moved = int((delta > 0).sum())
    if not moved:
        return Words("No belief would move: no arm starts from this prior, or they were reset to Beta(1, 1).")
    return (
        f"The belief of **{wording.things(moved, 'arm')}** would move, by {wording.small_change(float(delta.max()))}"
        " at most; observations stay."
    )


def movers_table(shown: SettingsPreview, look: Tokens) -> dict[str, list[object]]:
    """Return arms whose chance of inclusion or belief would move most, in Markdown. Empty where none would."""
    columns = shown.columns
    chance = np.abs(shown.chance_after - shown.chance_before)
    mean = np.abs(shown.summary_after.mean - shown.summary_before.mean)
    moving = np.flatnonzero((chance >= _VISIBLE) | (mean >= _VISIBLE))
    order = moving[np.argsort(-(np.nan_to_num(chance) + mean)[moving], kind="stable")][:SHOWN_MOVERS].tolist()
    if not order:
        return {}
    chances = [
        [chance_words(float(chance[at]), float(error[at])) for at in order]
        for chance, error in (
            (shown.chance_before, shown.error_before),
            (shown.chance_after, shown.error_after),
        )
    ]
    cells: dict[str, list[object]] = {
        "arm": [
            f"{wording.chip(columns.types[at], look.types[columns.types[at]].streamlit)} "
            f"{wording.literal(wording.short_name(columns.keys[at]))}"
            for at in order
        ],
        "chance of inclusion": [
            chance if chance == NOT_OFFERED else f"{chance} → {after}"  # one not offered lately has neither
            for chance, after in zip(chances[0], chances[1], strict=True)
        ],
    }
    if mean.any():
        pairs = (shown.summary_before.mean, shown.summary_after.mean)
        cells["mean"] = [" → ".join(wording.means(*(float(one[at]) for one in pairs))) for at in order]
    return cells
