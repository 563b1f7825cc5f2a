"""Steps of an adapter that an agent executes.

KAIROS names them by URIs. Ids compare in lower case and are returned as they were sent.

The quality of a layer is what evaluations made of it.
"""

from __future__ import annotations

import re
import uuid
from typing import Final, Literal

import msgspec
from msgspec.structs import force_setattr

from core.errors import InvalidEvaluation
from core.records.javascript import WHITE_SPACE
from core.records.limits import (
    MAX_COUNT,
    MAX_LABEL_CHARS,
    flag,
    one,
    shown,
    text,
    texts,
    whole,
)

MAX_URI_CHARS: Final = 512
MAX_SLUG_CHARS: Final = 200
MAX_TAGS: Final = 100
NAMESPACE: Final = uuid.UUID("7c1a3f0e-5b1d-5c39-9a53-0e0f4b6a2d11")
"""Namespace of our own uids (UUID version 5)."""
_NO_SLUG: Final = re.compile(r"[^a-z0-9]+")

_ID: Final = "[0-9a-f-]{36}"
_CASELESS: Final = re.IGNORECASE | re.ASCII  # JavaScript folds no letter outside ASCII into one of it
_LAYER: Final = re.compile(rf"kairos://layer/({_ID})(?:\?execution_id=({_ID}))?", _CASELESS)
_OLDER_LAYER: Final = re.compile(rf"kairos://mem/((?i:{_ID}))(?:[/?].*)?", re.ASCII | re.DOTALL)
_NAMED: Final = re.compile(r"kairos://(adapter|artifact)/([^/?#]+)", _CASELESS)
_UUID: Final = re.compile(_ID, _CASELESS)
_SLUG: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)


def adapter_uri(learner: str) -> str:
    """Return the adapter that a learner's own executions follow: the learner.

    >>> adapter_uri("Support (EU)"), adapter_uri("обзор")
    ('kairos://adapter/support-eu', 'kairos://adapter/learner')
    """
    slug = _NO_SLUG.sub("-", learner.lower())[:MAX_SLUG_CHARS].strip("-")
    return f"kairos://adapter/{slug or 'learner'}"


def layer_uid(adapter: str) -> str:
    """Return the uid of the one layer of such an adapter.

    >>> len(layer_uid("kairos://adapter/default"))
    36
    """
    return str(uuid.uuid5(NAMESPACE, f"layer/{adapter}"))


class LayerUri(msgspec.Struct, frozen=True, kw_only=True):
    """A layer, and the execution of it that is meant; ids as they were sent, ``raw`` without white space around it.

    >>> given = LayerUri.parse("KAIROS://layer/AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee")
    >>> given.uri, given.key, given.execution
    ('kairos://layer/AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee', 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee', None)
    """

    uid: str
    execution: str | None = None
    raw: str

    @classmethod
    def parse(cls, value: str) -> LayerUri:
        """The layer that a URI names. Raises `InvalidEvaluation` for one of an adapter or artifact, or none at all.

        >>> LayerUri.parse("kairos://adapter/review")
        Traceback (most recent call last):
        core.errors.InvalidEvaluation: reward requires a layer URI, got 'kairos://adapter/review'. Send \
kairos://layer/{uuid}, or that with ?execution_id={uuid}.
        """
        uri = parse_uri(value)
        if not isinstance(uri, LayerUri):
            raise InvalidEvaluation(
                f"reward requires a layer URI, got {shown(value)}.",
                next_step="Send kairos://layer/{uuid}, or that with ?execution_id={uuid}.",
            )
        return uri

    @property
    def key(self) -> str:
        """The layer's key for comparison."""
        return self.uid.lower()

    @property
    def execution_key(self) -> str | None:
        """The execution's key for comparison."""
        return None if self.execution is None else self.execution.lower()

    @property
    def uri(self) -> str:
        """The layer alone, as training exports name it."""
        return f"kairos://layer/{self.uid}"


class NamedUri(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter or an artifact, by its id or by a name (lower case) of letters, digits and single hyphens."""

    kind: Literal["adapter", "artifact"]
    id: str
    id_kind: Literal["uuid", "slug"]
    raw: str


def parse_uri(value: str) -> LayerUri | NamedUri:
    """Return the parts of a KAIROS URI; raises `InvalidEvaluation` for another text.

    An id has 36 characters, hexadecimal digits or hyphens. ``kairos://mem/{uuid}`` (in lower case) is the older form
    for a layer; anything after its id is ignored.

    >>> parse_uri("kairos://adapter/My-Review").id
    'my-review'
    >>> parse_uri("kairos://layer/7")
    Traceback (most recent call last):
    core.errors.InvalidEvaluation: A KAIROS URI must name a layer, an adapter or an artifact, got \
'kairos://layer/7'. Send kairos://layer/{uuid}, or that with ?execution_id={uuid}.
    """
    raw = value.strip(WHITE_SPACE)
    layer = _LAYER.fullmatch(raw)
    if layer is not None:
        return LayerUri(uid=layer[1], execution=layer[2], raw=raw)
    older = _OLDER_LAYER.fullmatch(raw)
    if older is not None:
        return LayerUri(uid=older[1], raw=raw)
    named = _NAMED.fullmatch(raw)
    uri = None if named is None else _named(named[1], named[2], raw)
    if uri is None:
        raise InvalidEvaluation(
            f"A KAIROS URI must name a layer, an adapter or an artifact, got {shown(value)}.",
            next_step="Send kairos://layer/{uuid}, or that with ?execution_id={uuid}.",
        )
    return uri


def _named(kind: str, name: str, raw: str) -> NamedUri | None:
    is_adapter = kind.lower() == "adapter"
    slug = name.strip(WHITE_SPACE).lower()
    if _UUID.fullmatch(name) is not None:
        return NamedUri(kind="adapter" if is_adapter else "artifact", id=name, id_kind="uuid", raw=raw)
    if len(slug) > MAX_SLUG_CHARS or _SLUG.fullmatch(slug) is None:
        return None
    return NamedUri(kind="adapter" if is_adapter else "artifact", id=slug, id_kind="slug", raw=raw)


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that owns layers. ``uri`` is as it was sent; ``name`` and ``version`` "" = unknown.

    >>> Adapter(uri="kairos://adapter/review").name
    ''
    """

    uri: str
    name: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "uri", text("adapter.uri", self.uri, MAX_URI_CHARS, lowest=1))
        _check_labels(self, "adapter", ("name", "version"))


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an adapter. ``index`` 1 is its head, None = unknown; texts "" = unknown.

    ``bare`` = known from an evaluation only.

    >>> Layer(uid="aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", index=1).is_head
    True
    """

    uid: str
    adapter: Adapter | None = None
    index: int | None = None
    label: str = ""
    task: str = ""
    type: str = ""
    domain: str = ""
    tags: tuple[str, ...] = ()
    bare: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "uid", text("layer.uid", self.uid, MAX_LABEL_CHARS, lowest=1))
        if self.adapter is not None:
            one("layer.adapter", self.adapter, Adapter)
        if self.index is not None:
            force_setattr(self, "index", whole("layer.index", self.index, MAX_COUNT))
        _check_labels(self, "layer", ("label", "task", "type", "domain"))
        force_setattr(self, "tags", texts("layer.tags", self.tags, MAX_LABEL_CHARS))
        whole("The number of layer.tags", len(self.tags), MAX_TAGS)
        flag("layer.bare", self.bare)

    @property
    def key(self) -> str:
        """Key of the layer for comparison."""
        return self.uid.lower()

    @property
    def is_head(self) -> bool:
        """True if it also gains what its adapter's other layers gain."""
        return self.index == 1


def _check_labels(record: msgspec.Struct, where: str, names: tuple[str, ...]) -> None:
    for name in names:
        force_setattr(record, name, text(f"{where}.{name}", getattr(record, name), MAX_LABEL_CHARS))


class JudgedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that was judged, or the head of an adapter one of whose layers was.

    ``quality`` is what evaluations added up to (`core.maths.quality`), ``n_judged`` from how many; a head's are those
    of all layers of its adapter. ``index`` 0 = unknown, 1 = it is the head; ``head`` None where its adapter has none.
    ``rated_ms`` (UTC milliseconds) and ``rater`` are of the last one.
    """

    uid: str
    adapter: str | None
    adapter_name: str | None
    index: int
    label: str | None
    bare: bool
    head: str | None
    n_judged: int
    successes: int
    failures: int
    quality: float
    rated_ms: int | None
    rater: str | None

    @property
    def is_head(self) -> bool:
        return self.head == self.uid


class BareLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer of which only the name is known, and its number of evaluations."""

    uid: str
    n_judged: int
