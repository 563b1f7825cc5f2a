"""Schemas of the tools' arguments; those of qortex and KAIROS are as their own servers list them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

from core.doors.qortex import TOOLS
from core.doors.verbs import Verbs, query_fields, verb
from core.formats.kairos_export import MAX_ADAPTERS
from core.records.run_query import side_words

Schema = dict[str, Any]
OBJECT: Final[Schema] = {"type": "object", "additionalProperties": True}
_STRING: Final[Schema] = {"type": "string"}
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_UUID: Final = "[0-9a-f-]{36}"
_SLUG: Final = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"

_LEARNER: Final[Schema] = {"learner": _STRING}

REWARD: Final[Schema] = {
    "$schema": _DRAFT,
    "type": "object",
    "properties": {
        "uri": _STRING | {"pattern": rf"^kairos:\/\/layer\/{_UUID}(?:\?execution_id={_UUID})?$"},
        "outcome": _STRING | {"enum": ["success", "failure"]},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "feedback": _STRING | {"minLength": 1},
        "rater": _STRING,
        "rubric_version": _STRING,
        "llm_model_id": _STRING,
    },
    "required": ["uri", "outcome"],
    "additionalProperties": False,
}
_URIS: Final = (
    rf"^kairos:\/\/adapter\/({_UUID}|{_SLUG})$",
    rf"^kairos:\/\/layer\/({_UUID})(?:\?execution_id=({_UUID}))?$",
    rf"^kairos:\/\/artifact\/({_UUID}|{_SLUG})$",
)
EXPORT: Final[Schema] = {
    "$schema": _DRAFT,
    "type": "object",
    "properties": {
        "uri": {"anyOf": [_STRING | {"pattern": pattern} for pattern in _URIS]},
        "adapters": {"maxItems": MAX_ADAPTERS, "type": "array", "items": _STRING | {"minLength": 1}},
        "all_adapters": {"type": "boolean"},
        "space_name": _STRING,
        "format": {
            "default": "skill_zip",
            "type": "string",
            "enum": [
                "markdown",
                "trace_jsonl",
                "reward_jsonl",
                "sft_jsonl",
                "preference_jsonl",
                "source",
                "skill_tree",
                "skill_zip",
            ],
        },
        "delivery": {"type": "string", "enum": ["download_ref", "inline_base64"]},
        "include_reward": {"default": True, "type": "boolean"},
    },
}

LISTS: Final[Mapping[str, str]] = {
    "arms": "arms",
    "posteriors": "posteriors",
    "runs": "runs",
    "sessions": "sessions",
    "ledger": "ledger",
    "acts": "acts",
    "evaluations": "evaluations",
    "episodes": "episode_list",
    "environments": "episodes",
}
"""Verbs of the lists that the tool rows reads, by the names of their routes."""

_OF_SESSION: Final = Verbs.session.fields


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}], "default": None}


def _integer(default: int) -> Schema:
    return {"default": default, "type": "integer"}


_CONTEXT: Final = _maybe({"additionalProperties": True, "type": "object"})
_ARMS: Final = _maybe({"items": _STRING, "type": "array"})
_QORTEX: Final[Mapping[str, Schema]] = {
    "select": _LEARNER
    | {
        "candidates": {"items": {"additionalProperties": True, "type": "object"}, "type": "array"},
        "context": _CONTEXT,
        "k": _integer(1),
        "token_budget": _integer(0),
        "min_pulls": _integer(0),
        "seed_arms": _ARMS,
        "seed_boost": _maybe({"type": "number"}),
    },
    "observe": _LEARNER
    | {
        "arm_id": _STRING,
        "outcome": {"default": "", "type": "string"},
        "reward": {"default": 0.0, "type": "number"},
        "context": _CONTEXT,
    },
    "posteriors": _LEARNER | {"context": _CONTEXT, "arm_ids": _ARMS},
    "metrics": _LEARNER | {"window": _maybe({"type": "integer"})},
    "session_start": _LEARNER | {"session_name": _STRING},
    "session_end": {"session_id": _STRING},
    "reset": _LEARNER | {"arm_ids": _ARMS, "context": _CONTEXT},
}


def qortex_schema(name: str) -> Schema:
    """Return the schema of one of qortex's tools."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": _QORTEX[name],
        "required": TOOLS[name].required,
    }


def _own(required: tuple[str, ...], **properties: Schema) -> Schema:
    learner = _STRING | {"description": "The learner; left out, the one that this server is for."}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {**properties, "learner": learner},
        "required": list(required),
    }


WHY: Final = _own(
    ("run",), run=_STRING | {"description": "The run's uid or number, as the tool runs lists it."}
)


CARRIED: Final = _own(
    (), limit=_integer(50) | {"minimum": 1, "maximum": 500, "description": "Number of items."}
)


RUNS: Final = _own(
    (),
    **Verbs.runs.fields
    | {
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1_000,
            "default": 10,
            "description": "How many.",
        }
    },
)
SEARCH: Final = _own(("words",), **Verbs.search.fields)
VERSIONS: Final = _own(("arm",), **Verbs.versions.fields)


def filters_of(name: str) -> list[str]:
    """Return the names of the filters of a list."""
    return list(chain.from_iterable(query_fields(verb(LISTS[name]).input)))


ROWS: Final = _own(
    ("list",),
    list=_STRING | {"enum": list(LISTS)},
    filters={
        "type": "object",
        "description": "; ".join(f"{name}: {', '.join(filters_of(name))}" for name in LISTS),
    },
    limit=_integer(10) | {"minimum": 1, "maximum": 1_000, "description": "How many."},
)
SESSION: Final = _own(
    ("session",),
    session=_OF_SESSION["name"],
    limit=_OF_SESSION["limit"] | {"default": 50},
    texts=_OF_SESSION["texts"],
)
SIDES: Final = _own(
    (),
    **Verbs.compare_sides.fields
    | {
        side: {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: {"description": words} for name, words in side_words().items()},
        }
        for side in ("a", "b")
    },
)
OUTCOME: Final = _own(("run", "value"), **Verbs.outcome.fields)
TRIAL_PLAN: Final = _own(("arm", "tasks"), **Verbs.plan_trial.fields)
TRIAL_READ: Final = _own(("results",), **Verbs.read_trial.fields)
EXPERIMENT_PLAN: Final = _own(("arm",), **Verbs.plan_experiment.fields)
EXPERIMENT_START: Final = _own(("arm",), **Verbs.start_experiment.fields)
EXPERIMENT_STOP: Final = _own(("experiment",), **Verbs.stop_experiment.fields)
EXPERIMENTS: Final = _own((), **Verbs.experiments.fields)
REPAIR: Final = _own(("arms", "since"), **Verbs.repair.fields)
UNDO: Final = _own(("id",), id=_STRING | {"description": "The act's id, such as evaluation-7."})
