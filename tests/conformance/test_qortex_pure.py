"""Updates, means and names of qortex, one call each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from core.errors import InvalidReward, InvalidSetting
from core.formats.carried import micro_above_one
from core.maths.posterior import beta
from core.records.arm import MICRO, UNIFORM, Prior
from core.records.observation import OUTCOME_REWARDS, Amount, RewardOutcome
from core.settings import check_learner
from tests.conformance import rules
from tests.conformance.vectors import ABSENT, Case, Deviation, Vector, close, compare, each_of, load

TOLERANCE: Final = 1.001e-12  # their 1e-12, with room for the last digit of 1 + 1e-12

STATES: Final = (
    Deviation(
        rules.CARRIED,
        "The sum of rewards is the success that is carried; qortex keeps one apart, which may be another.",
        lambda case: case.name == "total_reward" and case.theirs != case.vector.input.get("alpha", 1) - 1,
    ),
)

OUTCOMES: Final = (
    Deviation(
        rules.OUTCOMES,
        "Ours has three outcomes; another word is refused, where qortex takes it for a rejection.",
        lambda case: case.vector.input not in OUTCOME_REWARDS,
    ),
)
BINARY: Final = (
    *OUTCOMES,
    Deviation(
        rules.OUTCOMES,
        "There is one way to read an outcome; the binary one has no half.",
        lambda case: case.vector.input == "partial",
    ),
)

CONTEXTS: Final = (
    Deviation(
        rules.ONE_POSTERIOR,
        "No posterior is kept per context, so none needs a name.",
        lambda case: case.name == "hash",
    ),
)

_UNPRINTABLE: Final = "\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029"

NAMES: Final = (
    Deviation(
        rules.NO_PATH,
        "qortex makes a file's name of it; ours is a value in a column, where a slash or a dot does no harm.",
        lambda case: case.theirs == "refused" and _is_harmless(case.vector.input),
    ),
    Deviation(
        rules.PRINTABLE,
        "qortex lets a final line break through.",
        lambda case: case.theirs == "valid" and case.vector.input.endswith(tuple(_UNPRINTABLE)),
    ),
)

# Updates


def _reward(case: Case) -> float:
    return float(case.vector.input["reward"])


UPDATES: Final = (
    Deviation(
        rules.WITHIN_0_1,
        "qortex adds whatever it is given, and a posterior may end with a parameter of 0 or less.",
        lambda case: not 0 <= _reward(case) <= 1,
    ),
    Deviation(
        rules.MILLIONTHS,
        "The reward, or what it is added to, is finer than a millionth.",
        lambda case: (
            case.name != "pulls" and abs(_rounded_off(case)) > TOLERANCE * max(1.0, abs(case.theirs))
        ),
    ),
)


def _rounded_off(case: Case) -> float:
    """What a sum loses where its parts are kept in millionths."""
    before, reward = case.vector.input["state"][case.name], _rest(_reward(case))
    return _rest(before) + (-reward if case.name == "beta" else reward)


def _rest(number: float) -> float:
    return number - round(number * MICRO) / MICRO


@each_of(load("qortex_pure", "ThompsonSampling.update"))
def test_a_posterior_moves_by_the_reward(vector: Vector) -> None:
    told = {name: value for name, value in vector.output.items() if name != "last_updated"}
    compare(vector, _updated(**vector.input), told, UPDATES, close(TOLERANCE))


def _updated(state: Mapping[str, Any], reward: float) -> dict[str, object]:
    try:
        amount = Amount.of(reward)
    except InvalidReward:
        return {}
    prior = Prior(alpha_micro=round(state["alpha"] * MICRO), beta_micro=round(state["beta"] * MICRO))
    belief = _moved(prior, amount.success_micro, amount.failure_micro)
    return {
        "alpha": belief.alpha,
        "beta": belief.beta,
        "pulls": state["pulls"] + 1,
        "total_reward": (round(state["total_reward"] * MICRO) + amount.success_micro) / MICRO,
    }


def _moved(prior: Prior, success_micro: int, failure_micro: int) -> Prior:
    """Where a belief stands after these sums."""
    return Prior(alpha_micro=prior.alpha_micro + success_micro, beta_micro=prior.beta_micro + failure_micro)


@each_of(load("qortex_pure", "ArmState.mean"))
def test_the_mean_is_qortexs(vector: Vector) -> None:
    ours = float(beta.mean(vector.input["alpha"], vector.input["beta"]))
    compare(vector, {"mean": ours}, {"mean": vector.output}, (), close(TOLERANCE))


@each_of(load("qortex_pure", "ArmState.from_dict"))
def test_a_carried_state_starts_from_the_uniform_prior(vector: Vector) -> None:
    told = {name: value for name, value in vector.output.items() if name != "last_updated"}
    given = vector.input
    success_micro = micro_above_one("alpha", given.get("alpha", 1))
    belief = _moved(UNIFORM, success_micro, micro_above_one("beta", given.get("beta", 1)))
    ours = {
        "alpha": belief.alpha,
        "beta": belief.beta,
        "pulls": given.get("pulls", 0),
        "total_reward": success_micro / MICRO,
        "mean": belief.mean,
    }
    compare(vector, ours, told, STATES, close(TOLERANCE))


# Outcomes


@each_of(load("qortex_pure", "TernaryReward.compute"))
def test_an_outcome_is_worth_its_reward(vector: Vector) -> None:
    compare(vector, {"reward": _worth(vector.input)}, {"reward": vector.output}, OUTCOMES)


@each_of(load("qortex_pure", "BinaryReward.compute"))
def test_a_whole_outcome_is_worth_its_reward(vector: Vector) -> None:
    compare(vector, {"reward": _worth(vector.input)}, {"reward": vector.output}, BINARY)


def _worth(outcome: RewardOutcome) -> object:
    return OUTCOME_REWARDS.get(outcome, ABSENT)


# Contexts and names


@each_of(load("qortex_pure", "context_hash"))
def test_contexts_have_no_posteriors_of_their_own(vector: Vector) -> None:
    compare(vector, {}, {"hash": vector.output}, CONTEXTS)


def _is_harmless(name: str) -> bool:
    return 1 <= len(name) <= 128 and not any(char in name for char in _UNPRINTABLE)


@each_of(load("qortex_pure", "learner_name"))
def test_a_learner_has_a_name_of_printable_characters(vector: Vector) -> None:
    theirs = "valid" if vector.error is None else "refused"
    compare(vector, {"name": _checked(vector.input)}, {"name": theirs}, NAMES)


def _checked(name: str) -> str:
    try:
        check_learner(name)
    except InvalidSetting:
        return "refused"
    return "valid"
