"""An arm: one prompt component that is included or left out; and its posterior, as the doors return it.

Its id reads ``type:category:name``. Everything after the second colon belongs to the name. An id is data, never a
path, HTML or Markdown.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, Literal, get_args

import msgspec
from msgspec.structs import force_setattr

from core.errors import InvalidArm
from core.records.limits import MAX_TOKENS, Tokens, one, shown, storable, text, whole
from core.records.times import Moment

ArmType = Literal["tool", "skill", "file", "memory", "section"]
ARM_TYPES: Final[tuple[ArmType, ...]] = get_args(ArmType)
MICRO: Final = 1_000_000
"""One whole pseudo-count, in the integers that everything inside is kept in."""
MAX_KEY_CHARS: Final = 512
MAX_VERSION_CHARS: Final = 64
_MAX_PRIOR_MICRO: Final = 10**15
"""More would, with what is observed, pass the 64 bits of a column."""
_TOOL_CATEGORIES: Final = (
    (("bash", "exec", "shell", "run"), "exec"),
    (("read", "write", "edit", "glob", "grep"), "fs"),
    (("memory", "remember", "recall"), "memory"),
    (("web", "fetch", "browse", "search"), "web"),
    (("send", "reply", "message"), "messaging"),
)
ESTIMATE_ERROR: Final = (
    "Against four tokenisers the sum of 76 tool definitions was 1% too low to 10% too high, "
    "a single one 26% too low to 29% too high."
)
"""Measured error of `quarter_up`, by ``python -m tests.bench.carried --estimate``."""
Band = Literal["none", "low", "medium", "high", "very_high"]
BANDS: Final[tuple[Band, ...]] = get_args(Band)
BAND_FLOORS: Final = (0, 1, 5, 20, 50)
"""Fewest pulls of each band."""


class Prior(msgspec.Struct, frozen=True, kw_only=True):
    """A Beta prior in millionths of a pseudo-count; both parts above zero, at most 10^9 pseudo-counts.

    >>> Prior(alpha_micro=3_000_000, beta_micro=1_000_000).mean
    0.75
    """

    alpha_micro: int
    beta_micro: int

    def __post_init__(self) -> None:
        if type(self.alpha_micro) is not int or type(self.beta_micro) is not int:
            for part in ("alpha_micro", "beta_micro"):
                value = whole(part, getattr(self, part), _MAX_PRIOR_MICRO, lowest=1, error=InvalidArm)
                force_setattr(self, part, value)
        if not (0 < self.alpha_micro <= _MAX_PRIOR_MICRO and 0 < self.beta_micro <= _MAX_PRIOR_MICRO):
            raise InvalidArm(
                f"A Beta prior's parts must be above 0 and at most 10^9, got {self.alpha_micro / MICRO:g} and "
                f"{self.beta_micro / MICRO:g}.",
                next_step="Use two positive numbers, for example 3 and 1.",
            )

    @property
    def alpha(self) -> float:
        return self.alpha_micro / MICRO

    @property
    def beta(self) -> float:
        return self.beta_micro / MICRO

    @property
    def mean(self) -> float:
        return self.alpha_micro / (self.alpha_micro + self.beta_micro)


UNIFORM: Final = Prior(alpha_micro=MICRO, beta_micro=MICRO)


CURATED: Final = Prior(alpha_micro=3 * MICRO, beta_micro=MICRO)


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """A declared arm: its id, what it costs, and the content a memory is recognised by.

    ``token_cost`` is in tokens, None = unknown. ``content`` is read for detection and never stored.
    ``prior`` None = the learner's prior for the type. ``version`` is a digest or name of its definition's text.

    >>> arm = Arm(key="file:workspace:docs/a:b.md", token_cost=120)
    >>> arm.type, arm.category, arm.name
    ('file', 'workspace', 'docs/a:b.md')
    """

    key: str
    label: str | None = None
    token_cost: Tokens | None = None
    content: str | None = None
    prior: Prior | None = None
    version: str | None = None

    def labelled(self, label: str) -> Arm:
        """Return the arm with another label, if it has one."""
        return self if label == (self.label or "") else msgspec.structs.replace(self, label=label)

    def __post_init__(self) -> None:
        if check_key(self.key) is not self.key:
            force_setattr(self, "key", check_key(self.key))
        cost = self.token_cost
        if cost is not None and (type(cost) is not int or not 0 <= cost <= MAX_TOKENS):
            where = f" (arm {shown(self.key)})"
            force_setattr(
                self, "token_cost", whole("token_cost", cost, MAX_TOKENS, where=where, error=InvalidArm)
            )
        if (self.label, self.content, self.prior, self.version) != (None, None, None, None):
            self._check_texts(f" (arm {shown(self.key)})")

    def _check_texts(self, where: str) -> None:
        for name in ("label", "content"):
            value = getattr(self, name)
            if value is not None and type(value) is not str:
                force_setattr(self, name, text(name, value, where=where, error=InvalidArm))
        if self.label is not None:
            storable("label", self.label, where=where, error=InvalidArm)
        if self.version is not None:
            text("version", self.version, MAX_VERSION_CHARS, lowest=1, where=where, error=InvalidArm)
            storable("version", self.version, where=where, error=InvalidArm)
        if self.prior is not None:
            one("prior", self.prior, Prior, where=where)

    @property
    def type(self) -> ArmType:
        return arm_type(self.key)

    @property
    def category(self) -> str:
        return self.key.split(":", 2)[1]

    @property
    def name(self) -> str:
        return self.key.split(":", 2)[2]


def check_key(key: str) -> str:
    """Return ``key`` if it is a well-formed arm id, else raise `InvalidArm`.

    >>> check_key("tool:fs:Read")
    'tool:fs:Read'
    """
    if type(key) is not str:
        key = text("An arm id", key, error=InvalidArm)
    parts = key.split(":", 2)
    if len(parts) != 3 or not parts[1] or not parts[2] or parts[0] not in ARM_TYPES:
        raise InvalidArm(
            f"An arm id must read type:category:name with type one of {', '.join(ARM_TYPES)}, "
            f"got {shown(key)}.",
            next_step="Write it like tool:fs:Read.",
        )
    if len(key) > MAX_KEY_CHARS:
        raise InvalidArm(
            f"An arm id may have 1 to {MAX_KEY_CHARS} characters, got {len(key)} ({shown(key)}).",
            next_step="Shorten the name.",
        )
    if not key.isprintable() and any(_is_control(char) for char in key):
        raise InvalidArm(
            f"An arm id may not hold control characters or lone surrogates, got {shown(key)}.",
            next_step="Remove them from the name.",
        )
    return key


def arm_type(key: str) -> ArmType:
    """Type of a well-formed arm id."""
    head = key.split(":", 1)[0]
    for known in ARM_TYPES:
        if head == known:
            return known
    raise InvalidArm(
        f"An arm's type must be one of {', '.join(ARM_TYPES)}, got {shown(head)}.",
        next_step="Write the id like tool:fs:Read.",
    )


def tool_key(name: str) -> str:
    """Arm id of a tool whose source names no category: by the start of its name, any case.

    >>> tool_key("Bash"), tool_key("search_direct_flight"), tool_key("think")
    ('tool:exec:Bash', 'tool:web:search_direct_flight', 'tool:other:think')
    """
    lowered = name.lower()
    for starts, category in _TOOL_CATEGORIES:
        if lowered.startswith(starts):
            return check_key(f"tool:{category}:{name}")
    return check_key(f"tool:other:{name}")


def skill_key(name: str) -> str:
    """Arm id of a skill.

    >>> skill_key("coding")
    'skill:coding:main'
    """
    return check_key(f"skill:{name}:main")


def skill_name(key: str) -> str:
    """Name of a skill from its arm id, which reads ``skill:<name>:main``; else what follows the category.

    >>> skill_name("skill:coding:main"), skill_name("skill:team:coding")
    ('coding', 'coding')
    """
    rest = key.split(":", 1)[1]
    return rest.removesuffix(":main") if rest.endswith(":main") else key.split(":", 2)[2]


def known_key(key_of: Callable[[str], str], name: str) -> str | None:
    """Arm id of a name by `tool_key`, `skill_key` or `file_key`; None if it can be no arm's.

    >>> known_key(skill_key, "coding"), known_key(skill_key, "")
    ('skill:coding:main', None)
    """
    try:
        return key_of(name)
    except InvalidArm:
        return None


def file_key(path: str) -> str:
    """Arm id of a workspace file.

    >>> file_key("README.md")
    'file:workspace:README.md'
    """
    return check_key(f"file:workspace:{path}")


def token_cost_of(text: str) -> int:
    """Cost of a schema or content that names none: a quarter of its characters, rounded up.

    >>> token_cost_of("abcde")
    2
    """
    return quarter_up(len(text))


def definition_version(text: str) -> str:
    """Return the version of a definition: a digest of its text.

    >>> definition_version('{"name":"search"}')
    'a234a46f8e785953'
    """
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def quarter_up(n_chars: int) -> int:
    """Tokens of so many characters; `ESTIMATE_ERROR` says how far that is off.

    >>> quarter_up(0), quarter_up(1), quarter_up(4)
    (0, 1, 1)
    """
    return -(-n_chars // 4)


def _is_control(char: str) -> bool:
    point = ord(char)
    return point < 0x20 or 0x7F <= point < 0xA0 or 0xD800 <= point < 0xE000


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Interval that holds a rate with probability ``prob``; ``effective``: by effective pulls, without the prior."""

    lower: float
    upper: float
    method: Literal["exact", "highest-density", "effective"] = "exact"
    prob: float = 0.95


class NormalInterval(msgspec.Struct, frozen=True, kw_only=True):
    lower: float
    upper: float


class BetaPair(msgspec.Struct, frozen=True, kw_only=True):
    alpha: float
    beta: float


class Posterior(msgspec.Struct, frozen=True, kw_only=True):
    """One arm's belief; ``alpha`` and ``beta`` include the prior.

    ``epoch`` is the revision of the reset that began it (0 = the first). ``last_updated`` is the time of its newest
    counted observation (ISO 8601, UTC). An observation of weight below 1 adds its weight to the pulls. ``pulls`` is a
    whole number; ``pulls_exact`` is the sum, None where it is whole.
    """

    arm: str
    type: ArmType
    alpha: float
    beta: float
    mean: float
    variance: float
    pulls: int
    pulls_exact: float | None
    inclusions: int
    confidence: Band
    interval: Interval
    normal: NormalInterval
    prior: BetaPair
    epoch: int
    last_updated: Moment | None
