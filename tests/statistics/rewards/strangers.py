"""Strangers: environments that no finding was written against; some pay well, in others one thing is wrong."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.demo.environments import WIDE, Dice, World, episode_of, new_question, step
from core.records.episode import Episode, Part, Scale, Step

UNIT: Final = Scale(step_lo=-1, step_hi=1, lo=-5, hi=5)


def maze(dice: Dice, uid: str) -> Episode:
    """Every step costs a little; the exit pays 1, and where it is not found in time nothing does."""
    n, found = int(dice.integers(2, 30)), dice.random() < 0.7
    steps = [
        step(at, str(dice.choice(["north", "east"])), -0.01, args_digest=new_question(dice))
        for at in range(n)
    ]
    return episode_of(uid, [*steps, step(n, "north", 1.0 if found else -0.01, finished=True)])


def repair(dice: Dice, uid: str) -> Episode:
    """Each edit pays the share of tests that it made pass; some edits pass none, some break what passed."""
    n = int(dice.integers(3, 12))
    passed = np.clip(np.cumsum(dice.normal(0.06, 0.05, n)), 0, 0.4)
    gains = np.diff(np.concatenate(([0.0], passed))).round(3)
    names = [str(dice.choice(["edit", "run_tests"])) for _ in range(n)]
    steps = [
        step(at, names[at], float(gain), args_digest=new_question(dice)) for at, gain in enumerate(gains)
    ]
    quality = round(float(dice.uniform(0.2, 1)), 2) if dice.random() < 0.8 else 0.0
    end = step(n, "submit", quality, n_chars_in=int(dice.integers(10, 4_000)), finished=True)
    return episode_of(uid, [*steps, end])


def quiz(dice: Dice, uid: str) -> Episode:
    """A question, a look into a book or none, an answer; metadata says right or wrong, and so does the reward."""
    right = bool(dice.random() < 0.6)
    looks = [step(at, "book", None, args_digest=new_question(dice)) for at in range(int(dice.integers(0, 3)))]
    told = {"meta_digest": f"{int(right):032x}", "n_chars_in": int(dice.integers(1, 200))}
    return episode_of(uid, [*looks, step(len(looks), "answer", float(right), finished=True, **told)])


def match(dice: Dice, uid: str) -> Episode:
    """Two moves, then lost, drawn or won: -1, 0, 1."""
    steps = [step(at, "move", None, args_digest=new_question(dice)) for at in range(2)]
    return episode_of(uid, [*steps, step(2, "move", float(dice.integers(-1, 2)), finished=True)])


def library(dice: Dice, uid: str) -> Episode:
    """Reading again pays, reading again pays nothing; longer answers are somewhat better, and paid for that."""
    n, seen = int(dice.integers(4, 14)), set[int]()
    steps = []
    for at in range(n):
        page = int(dice.integers(12))
        steps.append(step(at, "read", 0.0 if page in seen else 0.03, args_digest=f"{page:032x}"))
        seen.add(page)
    skill = dice.random()
    n_chars = int(200 + 300 * skill + dice.integers(0, 600))
    right = float(dice.random() < 0.2 + 0.6 * skill)
    return episode_of(uid, [*steps, step(n, "answer", right, n_chars_in=n_chars, finished=True)])


def unfinished(dice: Dice, uid: str) -> Episode:
    """As the maze, and a fifth of the attempts break off."""
    one = maze(dice, uid)
    return episode_of(uid, one.steps[:-1]) if dice.random() < 0.2 else one


GOOD: Final = (
    World(name="maze", episode=maze, scale=UNIT),
    World(name="repair", episode=repair, scale=UNIT),
    World(name="quiz", episode=quiz, scale=Scale()),
    World(name="match", episode=match, scale=UNIT),
    World(name="library", episode=library, scale=UNIT),
    World(name="unfinished", episode=unfinished, scale=UNIT),
)


def waiting(dice: Dice, uid: str) -> Episode:
    """Twelve to forty steps without a word, then a grade."""
    n = int(dice.integers(12, 40))
    steps = [step(at, "act", None, args_digest=new_question(dice)) for at in range(n)]
    return episode_of(uid, [*steps, step(n, "end", round(float(dice.beta(5, 2)), 2), finished=True)])


def hopeless(dice: Dice, uid: str) -> Episode:
    n = int(dice.integers(6, 20))
    steps = [step(at, "act", 0.0, args_digest=new_question(dice)) for at in range(n)]
    return episode_of(uid, [*steps, step(n, "end", float(dice.random() < 0.02), finished=True)])


def idling(dice: Dice, uid: str) -> Episode:
    """A third have found that one of two idle commands is paid each time, and never come to an answer."""
    if dice.random() > 0.33:
        return library(dice, uid)
    n = int(dice.integers(10, 30))
    steps = [step(at, "read", 0.03, args_digest=f"{at % 2:032x}") for at in range(n)]
    return episode_of(uid, [*steps, step(n, "answer", 0.0, n_chars_in=10, finished=True)])


def crumbs(dice: Dice, uid: str) -> Episode:
    """Thirty to fifty steps of 0.1 each, and 1 for the goal."""
    n = int(dice.integers(30, 50))
    steps = [step(at, "act", 0.1, args_digest=new_question(dice)) for at in range(n)]
    return episode_of(uid, [*steps, step(n, "end", float(dice.random() < 0.5), finished=True)])


def coarse(dice: Dice, uid: str) -> Episode:
    """A part of the reward tells half solved from not at all; the reward itself does not."""
    solved = float(dice.choice([0.0, 0.5, 1.0], p=[0.3, 0.3, 0.4]))
    steps = (step(0, "act", None), step(1, "end", float(solved == 1), finished=True))
    return Episode(uid=uid, environment="strange", steps=steps, parts=(Part(name="solved", value=solved),))


def percent(dice: Dice, uid: str) -> Episode:
    """One tool pays on the way in shares, the other in percent."""
    n = int(dice.integers(4, 10))
    tools = [("probe", 0.05) if dice.random() < 0.5 else ("scan", 5.0) for _ in range(n)]
    steps = [step(at, tool, most * float(dice.random() < 0.4)) for at, (tool, most) in enumerate(tools)]
    return episode_of(uid, [*steps, step(n, "end", 50.0 * float(dice.random() < 0.6), finished=True)])


def terse(dice: Dice, uid: str) -> Episode:
    """The shorter the answer, the more it pays, right or wrong."""
    n_chars = int(dice.integers(1, 500))
    reward = round(1 - n_chars / 500 * 0.8, 3)
    return episode_of(uid, [step(0, "answer", reward, n_chars_in=n_chars, finished=True)])


def concise(dice: Dice, uid: str) -> Episode:
    """Shorter answers pay more, but for some noise: they may be better."""
    (answer,) = terse(dice, uid).steps
    reward = round(float(np.clip((answer.reward or 0) + dice.normal(0, 0.05), 0, 1)), 3)
    return episode_of(uid, [step(0, "answer", reward, n_chars_in=answer.n_chars_in, finished=True)])


def solved(dice: Dice, uid: str) -> Episode:
    """Nearly every attempt is paid in full."""
    looks = [step(at, "look", None, args_digest=new_question(dice)) for at in range(int(dice.integers(0, 3)))]
    return episode_of(uid, [*looks, step(len(looks), "end", float(dice.random() < 0.99), finished=True)])


def overpaid(dice: Dice, uid: str) -> Episode:
    one = quiz(dice, uid)
    if dice.random() > 0.1:
        return one
    *rest, last = one.steps
    return episode_of(uid, [*rest, Step(number=last.number, name="answer", reward=1.5, finished=True)])


def again(dice: Dice, uid: str) -> Episode:
    one = quiz(dice, uid)
    if dice.random() > 0.1:
        return one
    return episode_of(uid, [*one.steps, step(len(one.steps), "answer", 1.0, refused=True)])


BAD: Final = (
    World(name="waiting", wrong="delayed", episode=waiting, scale=Scale(threshold=0.6)),
    World(name="hopeless", wrong="sparsity", episode=hopeless, scale=Scale()),
    World(name="idling", wrong="hacking", episode=idling, scale=UNIT),
    World(name="crumbs", wrong="scaling", episode=crumbs, scale=Scale(hi=10)),
    World(name="coarse", wrong="ambiguity", episode=coarse, scale=Scale()),
    World(name="percent", wrong="inconsistent", episode=percent, scale=Scale(step_hi=100, hi=200)),
    World(name="terse", wrong="proxy", episode=terse, scale=Scale()),
    World(name="concise", wrong="length", episode=concise, scale=Scale()),
    World(name="solved", wrong="constant", episode=solved, scale=Scale()),
    World(name="overpaid", wrong="out_of_scale", episode=overpaid, scale=Scale()),
    World(name="again", wrong="paid_after_finished", episode=again, scale=WIDE),
)
