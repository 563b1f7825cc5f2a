"""Tool outputs of an environment, `{blocks, reward?, finished, metadata?}` → the stored part of a step.

A missing reward is none, not 0. A reward that is no number is none either, and the step notes it. Stored are the
lengths of blocks, a digest of metadata and arguments, and the names of unknown members.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from core.formats.entries import Entry, Progress, Rejected
from core.formats.reading import Piece, Reading
from core.formats.stream import Damage
from core.formats.strict import UNDECODABLE, digest_of, named
from core.records.episode import MAX_MEMBERS, StepNote
from core.records.limits import MAX_LABEL_CHARS

_KNOWN: Final = frozenset(("blocks", "reward", "finished", "metadata"))
_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Paid(NamedTuple):
    """A reward as it was sent: a finite number or None, and why it is None where something was sent."""

    reward: float | None
    note: StepNote | None


class Output(NamedTuple):
    """The stored part of a tool output; the text of its blocks only where texts are stored."""

    paid: Paid
    finished: bool
    text: str
    extra: tuple[str, ...]
    meta_digest: str | None


def paid_of(value: object) -> Paid:
    """A reward as it was sent; text and truth values are none.

    >>> paid_of(0), paid_of(None), paid_of(float("nan")).note, paid_of(10**400).note, paid_of("1.0").note
    (Paid(reward=0.0, note=None), Paid(reward=None, note=None), 'nan', 'infinite', 'not_a_number')
    """
    if value is None:
        return Paid(None, None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Paid(None, "not_a_number")
    try:
        reward = float(value)
    except OverflowError:
        return Paid(None, "infinite")
    if math.isnan(reward):
        return Paid(None, "nan")
    return Paid(None, "infinite") if math.isinf(reward) else Paid(reward, None)


def read_output(value: Mapping[str, Any]) -> Output:
    """Return the stored part of a tool output; ``finished`` is False where it is missing or no boolean."""
    blocks = value.get("blocks")
    metadata = value.get("metadata")
    finished = value.get("finished") is True
    return Output(
        paid=paid_of(value.get("reward")),
        finished=finished,
        text="".join(map(_text, blocks)) if isinstance(blocks, list) else "",
        extra=tuple(sorted({storable(name) for name in value if name not in _KNOWN}))[:20],
        meta_digest=None if metadata is None else digest_of_metadata(metadata, ends=finished),
    )


def storable(name: object) -> str:
    r"""Return a foreign name in a storable form; "" for another type.

    >>> storable("a\0b"), storable("\ud800"), storable(None)
    ('ab', '?', '')
    """
    if not isinstance(name, str):
        return ""
    return name[:MAX_LABEL_CHARS].replace("\0", "").encode("utf-8", "replace").decode()


def _text(block: object) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


def digest_of_value(value: object) -> str:
    """Return a digest that is equal for equal JSON in any notation.

    >>> digest_of_value({"a": 1, "b": 2}) == digest_of_value({"b": 2, "a": 1})
    True
    """
    try:
        return digest_of(_CANONICAL.encode(value))
    except UnicodeEncodeError:  # half of a pair of surrogates, which JSON can escape
        return digest_of(json.dumps(value, sort_keys=True).encode())
    except RecursionError:
        return digest_of(b"nested too deeply")


def digest_of_metadata(metadata: object, *, ends: bool = True) -> str:
    """Return the digest of metadata. Where it ends an episode and has several members, one of each follows."""
    whole = digest_of_value(metadata)
    if not ends or not isinstance(metadata, Mapping) or not 1 < len(metadata) <= MAX_MEMBERS:
        return whole
    names = sorted(metadata, key=str)
    members = (digest_of_value(name)[:8] + digest_of_value([name, metadata[name]])[:24] for name in names)
    return " ".join([whole, *members])


def task_of(spec: object, index: object) -> str | None:
    """Return a task's name: the id in its specification, else its number, else a digest of the specification."""
    name = named(spec.get("id")) if isinstance(spec, Mapping) else None
    if name is None:
        name = named(index)
    return digest_of_value(spec) if name is None and spec is not None else name


def _first_of(pieces: Iterator[Piece]) -> tuple[frozenset[str], Iterator[Piece]]:
    """The members of the first record, where it is one, and all pieces from it on."""
    first = next(pieces, None)
    if first is None:
        return frozenset(), iter(())
    try:
        members = frozenset() if isinstance(first[1], Damage) else frozenset(_MEMBERS.decode(first[1]))
    except UNDECODABLE:
        members = frozenset()
    return members, chain([first], pieces)


def recorded(
    reading: Reading,
    progress: Progress | None,
    name: str,
    document: Callable[[bytes], Iterator[Entry]],
    pieces_of: Callable[[Iterator[Piece]], Iterator[Entry]],
) -> Iterator[Entry]:
    """Yield the entries of a file: of its pieces, or of a document that holds recordings under a name."""
    is_lines = reading.shape != "object"
    members, pieces = _first_of(
        reading.pieces(progress) if is_lines else reading.document(name, progress).parts()
    )
    if name not in members:
        yield from pieces_of(pieces)
        return
    for number, piece in pieces:
        checked = reading.checked(number, piece)
        yield from [checked] if isinstance(checked, Rejected) else document(checked)


def lenient(text: str) -> Any:  # noqa: ANN401 - JSON
    """JSON as servers write it, with NaN, Infinity and numbers beyond a double; raises `ValueError` for what is none.

    >>> lenient('{"reward": 1e400}')
    {'reward': inf}
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
