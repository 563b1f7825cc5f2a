"""Rules of ours that decide where we answer otherwise than the public systems; each deviation cites one."""

from __future__ import annotations

from typing import Final

# Arms and learners

ARM_ID: Final = "An arm's id reads type:category:name, and all that follows the second colon is its name."
NO_ARM: Final = (
    f"{ARM_ID} The type is tool, skill, file, memory or section; the whole has 1 to 512 characters, none of them a "
    "control character. Anything else is no arm."
)
NO_PATH: Final = "An id or a name is a value in a column, and is never made into a path."
PRINTABLE: Final = "A learner's name has 1 to 128 printable characters."
OWN_PRIOR: Final = (
    "Priors are set per type, and an arm may have one of its own; nothing else tells arms apart."
)

# Belief

MILLIONTHS: Final = (
    "Counts are whole millionths: each observation is rounded half to even, and an answer says where it was."
)
ANY_ORDER: Final = "The same facts in any order give the same posterior, to the last bit."
ONE_POSTERIOR: Final = (
    "An arm of a learner has one posterior, which the selector reads; a context is only written down."
)
RANKS: Final = "Arms rank by posterior mean, equal ones by id."

# Rewards and resets

WITHIN_0_1: Final = "A reward is a number from 0 to 1; anything else is refused."
NUMBER_FIRST: Final = "A number counts before an outcome, 0 like any other."
ACCEPTED: Final = "A reward with neither number nor outcome is an acceptance."
OUTCOMES: Final = "The outcomes are accepted for 1, partial for 0.5 and rejected for 0."
KNOWN_ARMS: Final = "A reward or reset of an arm nobody knows is refused, and similar ids are named."
NO_SILENT_RESET: Final = "A reset that would reset nothing is an error, not an answer of 0."
NOTHING_DELETED: Final = "What was recorded stays: undo and reset take an effect away, never a fact."
CARRIED: Final = (
    "Beliefs from elsewhere become a prior of Beta(1, 1) and one carried row per arm with the rest."
)
OBSERVED_ONLY: Final = (
    "Beliefs move by observations with a reward from 0 to 1, an episode's share among them."
)

# Runs and selection

CLASSES: Final = (
    "A run without a working selector is a fallback run; only baseline and selected runs are compared."
)
NO_BUDGET: Final = "A budget of 0, or none, is no limit."
EXPLORED: Final = (
    "After the seeds come arms with fewer than min_pulls pulls, 5 unless set, those with the fewest first."
)
SELECTED: Final = f"{EXPLORED} Then the others by draw; what does not fit is skipped, and the next is tried."
BASELINE: Final = (
    "A baseline run takes the seeds, then all other arms in random order, as far as the budget goes."
)
GUIDANCE: Final = (
    "A short text in the system prompt names the tools left out, so that the agent can say what it lacks."
)

# Evaluations

RECOMPUTED: Final = (
    "What follows from an evaluation (signed score, grader, label, flags, blockers) is computed from its record and "
    "the thresholds in force; what a row says of it is not believed."
)
REVISION: Final = (
    "A repeat by the same rater, model and rubric about one execution is a revision: it takes the earlier one's "
    "place, and counts do not grow."
)
HISTORY_KEPT: Final = (
    "Which models did how well on a layer is kept, so that the next evaluation's bonus knows it."
)
GATE: Final = (
    "Leaving the reward out of a row never opens the gate: only what is eligible becomes training data."
)
CASELESS: Final = "KAIROS's ids compare in lower case and are answered as they were sent."
AS_GIVEN: Final = "A score is kept as it was given, one that was not given is left out."

# Doors

CONTEXT_WRITTEN: Final = (
    f"{ONE_POSTERIOR} What is asked of a context, or told in one, is asked of the arm and told of it."
)
NO_5XX: Final = "What a client sends is answered or refused by name, and is no failure of the server."
STAYS_LISTED: Final = "An arm that was reset stays listed, at Beta(1, 1) and zero pulls."
BOTH_SHAPES: Final = (
    "A reset names how many, which, and its learner, in the shapes of qortex and of OpenClaw."
)
NO_STAR: Final = "No answer is for every origin: only our own, and one that is named, may read it."
TOO_LONG: Final = "A body that is too long is answered 413, and the connection is closed."
MEANT_RESET: Final = (
    "A reset resets what it names, or all where nothing is sent; what can't be read as either resets nothing."
)
HALF: Final = f"{OUTCOMES} Partial without a number is half a success."
SHORT_REASON: Final = "A reason has at most 2,000 characters."
MORE_TOLD: Final = (
    "More may be told: both shapes of a reset, the act's id, the credible interval, our own five bands."
)
ONE_RATE: Final = "The share of exploring runs is the learner's baseline rate, wherever it is told."
RUNS_COUNTED: Final = "An observation is no run: only runs are counted as baseline or selected."
OWN_SETTINGS: Final = "A learner's settings have defaults of their own, and a learner that is served is on."
IN_MS: Final = "Times are milliseconds here; what is no time is none."
REAL_RUNS: Final = (
    "Traces and series are what was recorded; there is nothing to remark where that is nothing."
)
SILENCE: Final = "Who is no member gets no answer."
CONFIRMED: Final = (
    "A reset over chat says what it would do and asks; it is done when its code comes back from who asked."
)
NO_GUESS: Final = "Where not exactly one arm is meant, similar ones are named and nothing is recorded."
PULLS_ADD_UP: Final = "Observations are the pulls of all arms, added up."
READ_FIRST: Final = (
    "What a command is about is read before anything is written; where it can't be, nothing is tried."
)
NOTHING_OFFERED: Final = "Of nothing on offer nothing is chosen, whatever door it came by."
SEEDS_OFFERED: Final = (
    "A seed is listed once it was offered, and has a prior of its own only where one is sent."
)
FRACTIONS: Final = f"{WITHIN_0_1} The last word of a command is one where it reads like a number."
ANY_CASE: Final = "A command is understood in any case."
