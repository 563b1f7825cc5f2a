"""Parameters that several verbs share: their types, with limits and words, and the defaults of keyword records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict, get_args, get_type_hints

from msgspec import Meta

from core.records.observation import RewardOutcome

ArmKey: TypeAlias = Annotated[str, Meta(description="The arm's id, type:category:name.")]
ExperimentName: TypeAlias = Annotated[
    str,
    Meta(description="The experiment: its id, such as experiment-3, its number, or its arm (the latest)."),
]
ActId: TypeAlias = Annotated[
    str | None,
    Meta(description="Its id, like reward-12, rewards-12 (all of its batch), reset-3, import-1, note-1."),
]
RequestKey: TypeAlias = Annotated[
    str | None, Meta(description="Idempotency key: the same act sent again counts once.")
]
Preview: TypeAlias = Annotated[bool, Meta(description="Answer what would be recorded, and record nothing.")]
RewardValue: TypeAlias = Annotated[float | None, Meta(description="0 to 1; wins over the outcome.")]
RewardOutcomeName: TypeAlias = Annotated[RewardOutcome | None, Meta(description="1, 0.5 or 0.")]
Reason: TypeAlias = Annotated[str | None, Meta(description="Why.")]
MemberName: TypeAlias = Annotated[str, Meta(description="The member's id or name.")]

ExportFormat = Literal["jsonl", "json", "csv", "parquet"]
"""armscope's own lines; JSON and CSV in the shape of OpenClaw's export; the lines as a table."""
ChosenExportFormat: TypeAlias = Annotated[
    ExportFormat,
    Meta(
        description="jsonl: armscope's own lines; parquet: the same as a table; json, csv: OpenClaw's shape."
    ),
]
EXPORT_FORMATS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)
Compared = Literal["reward", "success"]
"""Quantity by which models are compared."""


@cache
def defaults_of(options: type) -> Mapping[str, Any]:
    """Return the default of each key of a keyword record (a `TypedDict`): ``extra`` of its `Meta`, else None.

    >>> from core.records.episode import EpisodeOptions
    >>> defaults_of(EpisodeOptions)["format"], defaults_of(EpisodeOptions)["task"]
    ('armscope', None)
    """
    defaults: dict[str, Any] = {}
    for name, hint in get_type_hints(options, include_extras=True).items():
        metas = (one.extra for one in get_args(hint) if isinstance(one, Meta) and one.extra)
        defaults[name] = next((extra["default"] for extra in metas), None)
    return MappingProxyType(defaults)


def completed(options: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a keyword record with the defaults of its missing keys; raises `TypeError` for an unknown key."""
    defaults = defaults_of(options)
    for name in values.keys() - defaults.keys():
        raise TypeError(f"{options.__name__} has no key {name!r}")
    return {**defaults, **values}


class TakingOptions(TypedDict, total=False):
    """Options of an import that say which of several records count."""

    each_event: Annotated[
        bool,
        Meta(
            description="Count every rollout event, also where several repeat the reward of one message.",
            extra={"default": False},
        ),
    ]
    replace: Annotated[
        bool,
        Meta(
            description="Take the files' records where others are known under their ids and none is later.",
            extra={"default": False},
        ),
    ]
