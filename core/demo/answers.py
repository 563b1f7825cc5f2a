"""Answers: a workflow that answers tickets, its instructions and responses, and whether they are right.

Every ticket is answered twice, by two executions, so that raters' preferences can train a model. The truth is planted
and shows in the texts: a rater who reads them knows it, and one who doesn't guesses. The first tickets have all
steps, the others only the reply.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from core.demo.world import WORLD_VERSION, at
from core.records.evaluation_lines import ExecutionLine, LayerLine, PairLine
from core.records.times import MINUTE_MS

ADAPTER: Final = "kairos://adapter/support-answers"
N_TICKETS: Final = 45
"""Three parts of fifteen: judged by the first rubric, by the second, and not yet."""
N_ANSWERS: Final = 2
_PROB_RIGHT: Final = 0.62
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, ADAPTER)

UNKNOWN_LAYER: Final = str(uuid.uuid5(_NAMESPACE, "a layer of somebody else's"))
"""A layer that a program's evaluation names and no import describes."""

_CUSTOMERS: Final = ("A. Keller", "T. Nowak", "Nordwind GmbH", "R. Osei", "L. Haddad", "J. Lindqvist")


def _layer(index: int, label: str, task: str, kind: str) -> LayerLine:
    return LayerLine(
        uid=str(uuid.uuid5(_NAMESPACE, f"layer {index}")),
        adapter=ADAPTER,
        adapter_name="Support answers",
        adapter_version="2",
        index=index,
        label=label,
        task=task,
        type=kind,
        domain="support",
        tags=("tickets",),
    )


HEAD: Final = _layer(1, "Answer a ticket", "From the customer's words to a reply that can be sent.", "head")
SORT: Final = _layer(2, "Sort the ticket", "Say in one word which team it is for.", "classify")
DRAFT: Final = _layer(3, "Draft the reply", "Write the reply in at most four sentences.", "write")
LAYERS: Final = (HEAD, SORT, DRAFT)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A customer's problem with ``{who}``, ``{no}`` and ``{euros}`` to fill in, its team, and replies.

    The right replies come first. In the others a careful reader sees the mistake.
    """

    team: str
    asks: str
    right: tuple[str, str]
    wrong: tuple[str, str]


PROBLEMS: Final = (
    Problem(
        team="billing",
        asks="Invoice {no} says {euros}.03 EUR, our order says {euros}.00 EUR. Which is right? {who}",
        right=(
            "Both lines of invoice {no} were rounded on their own, which makes three cents more. I have corrected "
            "it to {euros}.00 EUR; the new invoice is attached. Sorry for the trouble, {who}.",
            "{who}, the order is right: {euros}.00 EUR. Invoice {no} rounded each line; it is cancelled, and the "
            "corrected one is on its way to you today.",
        ),
        wrong=(
            "Invoice {no} is right, {who}: please transfer {euros}.03 EUR within 14 days.",
            "Small differences are normal and cannot be corrected. Is there anything else, {who}?",
        ),
    ),
    Problem(
        team="billing",
        asks="You charged {euros} EUR twice for order {no}. Please send one back. {who}",
        right=(
            "You are right, {who}: order {no} was charged twice. {euros} EUR go back to the same card today and "
            "arrive within five working days.",
            "The second charge for order {no} was ours to prevent, {who}. I have returned {euros} EUR; your bank "
            "shows them within five working days.",
        ),
        wrong=(
            "I have cancelled order {no} and returned both charges, {who}.",
            "Refunds above 20 EUR need a form by post, {who}. You find it in our office in Munich.",
        ),
    ),
    Problem(
        team="delivery",
        asks="Parcel {no} has not moved for six days, and we need it on Friday. {who}",
        right=(
            "Parcel {no} is stuck at the depot in Leipzig, {who}. I have sent a new one by express; it arrives on "
            "Thursday, and you need not return the old one.",
            "{who}, parcel {no} counts as lost after five days. Another leaves today by express and is with you on "
            "Thursday; the tracking number follows within the hour.",
        ),
        wrong=(
            "Parcel {no} was delivered yesterday, {who}. Please look at your neighbours'.",
            "Please be patient, {who}: parcels can take up to three weeks.",
        ),
    ),
    Problem(
        team="access",
        asks="Since this morning my second factor is refused; ticket {no} got no reply. {who}",
        right=(
            "The clock of your phone is probably off, {who}: let it set itself, then try a fresh code. If it is "
            "still refused, use one of your recovery codes, and I will stay on ticket {no}.",
            "{who}, I have looked at ticket {no}: codes are refused for running three minutes late. Switch on the "
            "automatic time of your phone; a recovery code works meanwhile.",
        ),
        wrong=(
            "I have switched off your second factor, {who}, so that the password alone lets you in.",
            "Please create a new account, {who}; ticket {no} is closed.",
        ),
    ),
    Problem(
        team="contracts",
        asks="We want to go from 40 to {euros} seats before contract {no} ends. What happens to the price? {who}",
        right=(
            "You pay for the added seats from the day they are there, at the price of contract {no}, {who}. For "
            "{euros} seats I have attached the figures; the end of the contract stays as it is.",
            "{who}, contract {no} lets you add seats at any time, at its own price and for the days that remain. "
            "The figures for {euros} seats are attached.",
        ),
        wrong=(
            "For that, contract {no} has to be cancelled first, {who}. The notice is three months.",
            "Seats are free until the end of the year, {who}. Just add them.",
        ),
    ),
    Problem(
        team="product",
        asks="The export of report {no} stops at {euros} rows. There should be more. {who}",
        right=(
            "Report {no} has a filter on open items, {who}; without it all rows are in the export. I have saved a "
            "copy without the filter under your name.",
            "{who}, the export follows the filter of report {no}, which leaves out what is closed: hence {euros} "
            "rows. Remove the filter above the table, and all of them come.",
        ),
        wrong=(
            "Exports are limited to {euros} rows, {who}.",
            "I have deleted report {no} so that you can make it again, {who}.",
        ),
    ),
    Problem(
        team="contracts",
        asks="Please confirm that we are out of contract {no} at the end of the year. {who}",
        right=(
            "Your notice came in time, {who}: contract {no} ends on 31 December. Your data can be exported until "
            "the end of January and is deleted after that.",
            "{who}, contract {no} ends on 31 December; this is your confirmation. Until 31 January you can export "
            "what is yours.",
        ),
        wrong=(
            "Contract {no} renews itself, {who}; a notice is possible in March again.",
            "Sorry to see you go, {who}! Your account and all data are deleted as of now.",
        ),
    ),
    Problem(
        team="product",
        asks="Is there a way to send reminders after {euros} days instead of 14? Our number is {no}. {who}",
        right=(
            "Yes, {who}: under Settings, Reminders, the first field says after how many days. {euros} is allowed, "
            "and it holds for reminders from tomorrow on.",
            "{who}, you can set that yourself: Settings, Reminders, days until the first. Put in {euros}; what is "
            "already under way keeps its date.",
        ),
        wrong=(
            "That is not possible, {who}.",
            "I have set it to 14 days for customer {no}, as you asked, {who}.",
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """A customer's request; ``words`` fill in the texts of its problem."""

    number: int
    problem: Problem
    words: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One execution; ``is_right`` is planted."""

    uid: str
    ticket: int
    is_right: bool
    line: ExecutionLine


def question(number: int, problem: int) -> str:
    """Return the request of a run in a conversation about a problem.

    >>> question(8, 0)
    'Invoice 10304 says 11.03 EUR, our order says 11.00 EUR. Which is right? Nordwind GmbH'
    """
    return PROBLEMS[problem].asks.format(
        who=_CUSTOMERS[number % len(_CUSTOMERS)], no=10_000 + 38 * number, euros=3 + number % 57
    )


def answers(seed: int, rng: np.random.Generator) -> tuple[Answer, ...]:
    """Return two answers to each ticket, in order of time.

    >>> pairs = answers(7, np.random.default_rng(0))
    >>> len(pairs), pairs[0].line.pairs[2].instruction == pairs[1].line.pairs[2].instruction
    (90, True)
    """
    tickets = [_ticket(number, rng) for number in range(N_TICKETS)]
    return tuple(
        _answer(seed, ticket, index, is_right=bool(rng.random() < _PROB_RIGHT))
        for ticket in tickets
        for index in range(N_ANSWERS)
    )


def _ticket(number: int, rng: np.random.Generator) -> Ticket:
    return Ticket(
        number=number,
        problem=PROBLEMS[number % len(PROBLEMS)],
        words={
            "who": _CUSTOMERS[number % len(_CUSTOMERS)],
            "no": str(int(rng.integers(10_000, 99_999))),
            "euros": str(int(rng.integers(3, 60))),
        },
    )


def _answer(seed: int, ticket: Ticket, index: int, *, is_right: bool) -> Answer:
    uid = str(uuid.uuid5(_NAMESPACE, f"{WORLD_VERSION} {seed} {ticket.number} {index}"))
    problem, words = ticket.problem, ticket.words
    reply = (problem.right if is_right else problem.wrong)[index].format(**words)
    n_layers = len(LAYERS) if ticket.number < N_TICKETS // 3 else 1
    layers = zip(LAYERS[-n_layers:], (reply, problem.team, reply)[-n_layers:], strict=True)
    line = ExecutionLine(
        uid=uid,
        adapter=ADAPTER,
        session=f"ticket-{words['no']}",
        at_ms=at(9, 8) + (N_ANSWERS * ticket.number + index) * 5 * MINUTE_MS,
        pairs=tuple(_pair(layer, problem.asks.format(**words), response) for layer, response in layers),
    )
    return Answer(uid=uid, ticket=ticket.number, is_right=is_right, line=line)


def _pair(layer: LayerLine, request: str, response: str) -> PairLine:
    """Return the instruction of a layer and its answer, as KAIROS stores them."""
    instruction = {
        "tensor_in": {"tokens": len(request) // 4},
        "layer_instructions": layer.task,
        "activation_query": request,
    }
    return PairLine(
        layer=layer.uid,
        index=layer.index,
        instruction=msgspec.json.encode(instruction).decode(),
        response=msgspec.json.encode({"tensor_out": {}, "raw_solution": response}).decode(),
    )
