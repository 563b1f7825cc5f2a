r"""Secrets in a text: what looks like a key, a token or a password.

Promises: names kinds, never repeats a secret. Known forms of keys are found anywhere, also after an escape of JSON
(``\n``). Secrets without a known form are found by their random letters. Time is linear in the length of any text:
a repeat without a bound ends its form, or holds nothing that a form begins with.

**Speed.** Many texts are scanned together: columns of letters for long runs, and windows of four letters for the
names that begin secrets. Only texts with a sign are read with the forms.

**False alarms.** A row that is held back by mistake costs a row; a key in training data can be extracted from the
model. So known forms are always reported. Of letters that only look drawn by chance four kinds are not,
because agents' texts are full of them and people would learn to ignore the warning: hexadecimal ones (digests,
commits, UUIDs), ids that calls and answers go by (``call_…``, ``toolu_…``), words joined by hyphens or underscores,
and more than 512 letters in a row (a picture or a file, in base64). A secret of only hexadecimal digits is found
where a name before it says what it is (``api_key=…``).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from core.columns import Ints

SecretKind = Literal[
    "private_key",
    "aws_access_key",
    "api_key",
    "github_token",
    "gitlab_token",
    "slack_token",
    "google_api_key",
    "hugging_face_token",
    "stripe_key",
    "package_token",
    "json_web_token",
    "password",
    "password_in_address",
    "drawn_by_chance",
]
"""Kinds of secrets, in the order of reports."""
SECRET_KINDS: Final[tuple[SecretKind, ...]] = get_args(SecretKind)

_SHORTEST_RUN: Final = 20
_SHORTEST_RANDOM: Final = 32
_LONGEST_RANDOM: Final = 512
_FEWEST_DIGITS: Final = 3
_LEAST_BITS: Final = 4.25
"""Least entropy of a letter: 32 letters drawn from 62 have 4.6 on average and less than this once in thousands; names
of 32 letters
in camel case have about 4."""
_MOST_SHARE_OF_ONE_KIND: Final = 0.75

_BEFORE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4}))"
_Form = tuple[tuple[str, ...], re.Pattern[str]]
_FORMS: Final[dict[SecretKind, _Form]] = {
    "aws_access_key": (
        ("AKIA", "ASIA"),
        re.compile(r"(?:(?<![A-Z0-9])|(?<=\\u[0-9A-Fa-f]{4}))(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ),
    "github_token": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(rf"{_BEFORE}(?:gh[pousr]_[A-Za-z0-9]{{30,}}|github_pat_[A-Za-z0-9_]{{22,}})"),
    ),
    "gitlab_token": (("glpat-",), re.compile(rf"{_BEFORE}glpat-[A-Za-z0-9_-]{{20,}}")),
    "slack_token": (("xox",), re.compile(rf"{_BEFORE}xox[abeoprs]-[A-Za-z0-9-]{{15,}}")),
    "google_api_key": (("AIza",), re.compile(rf"{_BEFORE}AIza[A-Za-z0-9_-]{{35}}")),
    "hugging_face_token": (("hf_",), re.compile(rf"{_BEFORE}hf_[A-Za-z0-9]{{30,}}")),
    "stripe_key": (
        ("k_live_", "k_test_"),
        re.compile(rf"{_BEFORE}[rs]k_(?:live|test)_[A-Za-z0-9]{{16,}}"),
    ),
    "package_token": (
        ("npm_", "pypi-"),
        re.compile(rf"{_BEFORE}(?:npm_[A-Za-z0-9]{{36}}|pypi-[A-Za-z0-9_-]{{50,}})"),
    ),
}
"""Letters that each kind contains, for a quick test, and its form."""
_API_KEY: Final = re.compile(rf"{_BEFORE}sk-[A-Za-z0-9_-]{{20,}}")
_DOTTED: Final = re.compile(r"[A-Za-z0-9_.-]{36,}")
_WEB_TOKEN_BEGINS: Final = re.compile(rf"{_BEFORE}eyJ[A-Za-z0-9_-]{{10}}")
_WEB_TOKEN_GOES_ON: Final = re.compile(r"eyJ[A-Za-z0-9_-]{10}")
_SHORTEST_SIGNATURE: Final = 10
_PRIVATE_KEY: Final = "PRIVATE KEY"
_PRIVATE_KEYS: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_NAMED: Final = re.compile(
    r"(?a:passw(?:or)?d|passphrase|secret(?:[_-]?(?:access[_-]?)?key)?|api[_-]?key|access[_-]?token"
    r"|auth[_-]?token|client[_-]?secret|bearer)"
    r"""(?:\\{0,7}["'])?\s*(?:[:=]|(?<=bearer)\s)\s*(?:\\{0,7}["'])?(?P<value>[^\s"'\\,;)}\]]{8,})""",
    re.IGNORECASE,
)
_PLACEHOLDER: Final = re.compile(
    r"[*x.<>_-]+|[<${%].*|.*(?:your|example|placeholder|redacted|changeme|dummy|os\.|env|getenv|process|self\.|none|null"
    r"|true|false|\(|\[).*",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"://[^\s/:@\"'\\]{1,64}:(?P<value>[^\s/@\"'\\]{3,128})@")
_RUNS: Final = re.compile(r"[A-Za-z0-9_+-]{32,}")
_HEXADECIMAL: Final = re.compile(r"(?:0x)?[0-9a-f_-]+|(?:0X)?[0-9A-F_-]+")
_IDS: Final = re.compile(
    r"(?:call|toolu|srvtoolu|msg|resp|req|run|chatcmpl|fc|rs|thread|asst|file|item|step|cmpl|gen|ws|evt)[_-]"
)
_ESCAPE: Final = re.compile(r"\\(?:[nrtbf]|u[0-9A-Fa-f]{4})")
_FILE: Final = re.compile(rf"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{{{_LONGEST_RANDOM + 1},}}")
"""Longer than anything that is drawn; base64 has strokes, which paths have, too."""
_RUN_BIT: Final = 1 << 7
_WIDTHS: Final = (1, 2, 4, 8, 4)
"""Widths combined in turn: 2, 4, 8, 16 letters and in the end `_SHORTEST_RUN` of them."""
_NAMES: Final = (
    ("aA", "sS", "sS", "wWpP"),  # password, passphrase
    ("eE", "cC", "rR", "eE"),  # secret
    ("pPiI", "iI_-", "kK", "eE"),  # apikey, api_key
    ("sShH", "tT_-", "oOtT", "kKoO"),  # accesstoken, auth-token
    ("aA", "rR", "eE", "rR"),  # bearer
)
"""Four letters of every name that `_NAMED` knows, none of them frequent in prose."""
_HEAD: Final = ("T", "E", " ", "K")
_ADDRESS_SIGN: Final = (":", "/", "/", "".join(map(chr, range(256))))
_SIGNS: Final = (*_NAMES, _HEAD, _ADDRESS_SIGN)
_NAME_BITS: Final = (1 << len(_NAMES)) - 1
_HEAD_BIT: Final = 1 << len(_NAMES)
_ADDRESS_BIT: Final = _HEAD_BIT << 1
_AT_ONCE: Final = 1 << 16
"""Bytes scanned together: the intermediate arrays fit a processor's cache."""


def _bits_at(index: int) -> bytes:
    """Return for each byte the signs that may have it at an index, a bit each; at index 0 runs have a bit, too."""
    signs = [sum(1 << n for n, sign in enumerate(_SIGNS) if chr(byte) in sign[index]) for byte in range(256)]
    in_run = [chr(byte) in "_+-" or (byte < 128 and chr(byte).isalnum()) for byte in range(256)]
    return bytes(
        sign | (_RUN_BIT if index == 0 and runs else 0) for sign, runs in zip(signs, in_run, strict=True)
    )


_BITS: Final = tuple(_bits_at(index) for index in range(len(_HEAD)))


def secrets_in(text: str) -> tuple[SecretKind, ...]:
    """Return the kinds of secrets that a text seems to hold, each once.

    >>> secrets_in("The key is AKIAIOSFODNN7EXAMPLE."), secrets_in("commit 9fceb02d0ae598e95dc970b74767f19372d61af8")
    (('aws_access_key',), ())
    >>> secrets_in("postgresql://app:hunter2@db/app"), secrets_in('{"password": "correct-horse-9"}')
    (('password_in_address',), ('password',))
    """
    (result,) = secrets_in_all([text])
    return result


def secrets_in_all(texts: Sequence[str]) -> list[tuple[SecretKind, ...]]:
    """Return `secrets_in` of each of many texts, faster: most need only the first scan.

    >>> secrets_in_all(["nothing", "the key is AKIAIOSFODNN7EXAMPLE", ""])
    [(), ('aws_access_key',), ()]
    """
    return list(chain.from_iterable(map(_of_group, _groups(texts))))


def _groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield texts that are short enough to be scanned together, and long ones by themselves."""
    first = n_letters = 0
    for index, text in enumerate(texts):
        if n_letters + len(text) > _AT_ONCE and index > first:
            yield texts[first:index]
            first, n_letters = index, 0
        n_letters += len(text)
    if first < len(texts):
        yield texts[first:]


def _of_group(texts: Sequence[str]) -> list[tuple[SecretKind, ...]]:
    result: list[tuple[SecretKind, ...]] = [()] * len(texts)
    signs = _signs_in("\n".join(texts).encode(errors="replace"))
    if not any(map(len, signs)):
        return result
    ends = np.cumsum([len(text.encode(errors="replace")) + 1 for text in texts])
    runs, names, heads, addresses = (
        set(np.searchsorted(ends, places, side="right").tolist()) for places in signs
    )
    for index in runs | names | heads | addresses:
        text = texts[index]
        kinds = set(_formed(text)) if index in runs else set()
        if index in heads and _PRIVATE_KEY in text and _PRIVATE_KEYS.search(text) is not None:
            kinds.add("private_key")
        if index in names and _names_a_secret(text):
            kinds.add("password")
        if index in addresses and _has_password(text):
            kinds.add("password_in_address")
        result[index] = tuple(kind for kind in SECRET_KINDS if kind in kinds)
    return result


class _Signs(NamedTuple):
    """Positions of long runs of letters, of possible names, of heads of private keys, and of addresses."""

    runs: Ints
    names: Ints
    heads: Ints
    addresses: Ints


def _signs_in(data: bytes) -> _Signs:
    """Return all signs of secrets in the data, with some false ones."""
    starts = range(0, len(data) or 1, _AT_ONCE)
    parts = [_signs_at(data[start : start + _AT_ONCE + _SHORTEST_RUN], start) for start in starts]
    return _Signs(*(np.concatenate(result) for result in zip(*parts, strict=True)))


def _signs_at(part: bytes, start: int) -> _Signs:
    """Return the signs in one part. Bits of four consecutive letters are combined: what is left is a sign. For runs
    two letters are combined, then four, and so on.
    """
    first, *others = (np.frombuffer(part.translate(bits), dtype=np.uint8) for bits in _BITS)
    runs = first & _RUN_BIT
    for width in _WIDTHS:
        runs = runs[:-width] & runs[width:]
    n = max(len(part) - len(others), 0)
    signs = first[:n]
    for shift, other in enumerate(others, start=1):
        signs = signs & other[shift : n + shift]
    is_sign = signs.any()
    return _Signs(
        np.flatnonzero(runs) + start,
        *(
            np.flatnonzero(signs & bits if is_sign else signs[:0]) + start
            for bits in (_NAME_BITS, _HEAD_BIT, _ADDRESS_BIT)
        ),
    )


def _formed(text: str) -> Iterator[SecretKind]:
    """Yield the known forms in a text, or else what looks random."""
    has_form = False
    for kind, (stems, form) in _FORMS.items():
        if any(stem in text for stem in stems) and form.search(text) is not None:
            has_form = True
            yield kind
    for kind, is_there in (("api_key", _has_api_key), ("json_web_token", _has_web_token)):
        if is_there(text):
            has_form = True
            yield kind
    if not has_form and any(
        _looks_random(run) for run in _RUNS.findall(_FILE.sub(" ", _ESCAPE.sub(" ", text)))
    ):
        yield "drawn_by_chance"


def _has_api_key(text: str) -> bool:
    """Return whether a text holds an API key. Hyphenated words may begin like one, but a key has digits."""
    return "sk-" in text and any(any(map(str.isdigit, result[0])) for result in _API_KEY.finditer(text))


def _has_web_token(text: str) -> bool:
    """Return whether a text holds a web token: three parts with dots between, the first possibly after other
    letters.
    """
    return ".eyJ" in text and any(_is_web_token(text, result) for result in _DOTTED.finditer(text))


def _is_web_token(text: str, dotted: re.Match[str]) -> bool:
    parts = dotted[0].split(".")
    begins = accumulate((len(part) + 1 for part in parts), initial=dotted.start())
    return any(
        _WEB_TOKEN_GOES_ON.match(second) is not None
        and len(third) >= _SHORTEST_SIGNATURE
        and _WEB_TOKEN_BEGINS.search(text, begin, begin + len(first)) is not None
        for begin, first, second, third in zip(begins, parts, parts[1:], parts[2:], strict=False)
    )


def _names_a_secret(text: str) -> bool:
    """Return whether a name is followed by a value that is not a variable or a placeholder."""
    return any(
        _PLACEHOLDER.fullmatch(result["value"]) is None and any(map(str.isdigit, result["value"]))
        for result in _NAMED.finditer(text)
    )


def _has_password(text: str) -> bool:
    return any(_PLACEHOLDER.fullmatch(result["value"]) is None for result in _ADDRESS.finditer(text))


def _looks_random(run: str) -> bool:
    """Return whether letters look random: of three kinds, none of them most, and few that repeat."""
    if not _SHORTEST_RANDOM <= len(run) <= _LONGEST_RANDOM or _HEXADECIMAL.fullmatch(run) or _IDS.match(run):
        return False
    kinds = [sum(map(is_kind, run)) for is_kind in (str.islower, str.isupper, str.isdigit)]
    if min(kinds) < _FEWEST_DIGITS or max(kinds) > _MOST_SHARE_OF_ONE_KIND * len(run):
        return False
    return _bits(run) >= _LEAST_BITS


def _bits(run: str) -> float:
    """Return Shannon's entropy of a letter."""
    return -sum(n / len(run) * math.log2(n / len(run)) for n in Counter(run).values())
