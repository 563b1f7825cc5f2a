"""tau-bench results: records ``{task_id, trial, reward, info, traj}``, in one array or one a line.

``traj`` holds OpenAI chat messages. The file lists no tools and names no model unless a record does; times
and usage are unknown. The reward is the episode's.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from core.formats.chat import Message, Record, read
from core.formats.reading import Format, Head
from core.formats.strict import named
from core.records.limits import Label

NAME: Final = "tau-bench"


class _Episode(msgspec.Struct):
    traj: list[Message]
    reward: float | msgspec.UnsetType | None = msgspec.UNSET
    model: Label | None = None
    task_id: msgspec.Raw = msgspec.Raw(b"null")


_EPISODE: Final = msgspec.json.Decoder(_Episode)


def _claims(head: Head) -> bool:
    return "traj" in head.keys or any("traj" in line for line in head.lines)


def _decode(raw: bytes) -> Record:
    episode = _EPISODE.decode(raw)
    return Record(
        messages=episode.traj,
        model=episode.model,
        reward=episode.reward if isinstance(episode.reward, float) else None,
        environment=None if episode.reward is msgspec.UNSET else NAME,
        task=named(episode.task_id),
    )


_READ: Final = partial(read, NAME, decode=_decode)
FORMAT: Final = Format(name=NAME, units=("episode", "turn"), claims=_claims, read=_READ, takes_nan=True)
