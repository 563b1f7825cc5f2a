r"""Text → what in it looks like a secret: a key, a token, a password.

Promises: names kinds, never repeats what it found. Known forms of keys are found wherever they stand, also after an
escape of JSON (``\n``); what has no known form is found by its chance-like letters.

**False alarms.** A row that is held back by mistake costs a row; a key that goes into training data can be had from
the model by anybody. So known forms are always told. Of letters that only look drawn by chance four kinds are not,
because agents' texts are full of them and people would learn to ignore the warning: hexadecimal ones (digests,
commits, UUIDs), ids that calls and answers go by (``call_…``, ``toolu_…``), words joined by hyphens or underscores,
and more than 512 letters in a row (a picture or a file, in base64). A secret of only hexadecimal digits is found
where a name before it says what it is (``api_key=…``).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final, Literal, get_args

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
"""What a text may hold, in the order in which it is told."""
SECRET_KINDS: Final[tuple[SecretKind, ...]] = get_args(SecretKind)

_SHORTEST_RUN: Final = 20
_SHORTEST_DRAWN: Final = 32
_LONGEST_DRAWN: Final = 512
_FEWEST_DIGITS: Final = 3
_LEAST_BITS: Final = 4.25
"""Of a letter: 32 letters drawn from 62 have 4.6 on average and less than this once in thousands; names of 32 letters
in camel case have about 4."""
_MOST_SHARE_OF_ONE_KIND: Final = 0.75

_BEFORE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf]))"
_FORMS: Final[dict[SecretKind, re.Pattern[str]]] = {
    "aws_access_key": re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "api_key": re.compile(rf"{_BEFORE}sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{{20,}}"),
    "github_token": re.compile(rf"{_BEFORE}(?:gh[pousr]_[A-Za-z0-9]{{30,}}|github_pat_[A-Za-z0-9_]{{22,}})"),
    "gitlab_token": re.compile(rf"{_BEFORE}glpat-[A-Za-z0-9_-]{{20,}}"),
    "slack_token": re.compile(rf"{_BEFORE}xox[abeoprs]-[A-Za-z0-9-]{{15,}}"),
    "google_api_key": re.compile(rf"{_BEFORE}AIza[A-Za-z0-9_-]{{35}}"),
    "hugging_face_token": re.compile(rf"{_BEFORE}hf_[A-Za-z0-9]{{30,}}"),
    "stripe_key": re.compile(rf"{_BEFORE}[rs]k_(?:live|test)_[A-Za-z0-9]{{16,}}"),
    "package_token": re.compile(rf"{_BEFORE}(?:npm_[A-Za-z0-9]{{36}}|pypi-[A-Za-z0-9_-]{{50,}})"),
    "json_web_token": re.compile(
        rf"{_BEFORE}eyJ[A-Za-z0-9_-]{{10,}}\.eyJ[A-Za-z0-9_-]{{10,}}\.[A-Za-z0-9_-]{{10,}}"
    ),
}
_PRIVATE_KEY: Final = "PRIVATE KEY"
_PRIVATE_KEYS: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_NAMED: Final = re.compile(
    r"(?:passw(?:or)?d|passphrase|secret(?:[_-]?(?:access[_-]?)?key)?|api[_-]?key|access[_-]?token|auth[_-]?token"
    r"|client[_-]?secret|bearer)"
    r"""(?:\\?["'])?\s*(?:[:=]|(?<=bearer)\s)\s*(?:\\?["'])?(?P<value>[^\s"'\\,;)}\]]{8,})""",
    re.IGNORECASE,
)
_FIRST_LOOK: Final = (b"passw", b"passphr", b"secret", b"api", b"token", b"bearer ")
"""What one of those names is recognised by at a glance, in small letters."""
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
_ESCAPE: Final = re.compile(r"\\[nrtbf]")
_LETTER: Final = ord("a")
_AS_RUNS: Final = bytes(
    _LETTER if chr(byte) in "_+-" or (byte < 128 and chr(byte).isalnum()) else 0 for byte in range(256)
)
_RUN: Final = bytes([_LETTER]) * _SHORTEST_RUN


def secrets_in(text: str) -> tuple[SecretKind, ...]:
    """The kinds of secrets that a text seems to hold, each once.

    Takes time for the text's length; most texts are done with at a glance.

    >>> secrets_in("The key is AKIAIOSFODNN7EXAMPLE."), secrets_in("commit 9fceb02d0ae598e95dc970b74767f19372d61af8")
    (('aws_access_key',), ())
    >>> secrets_in("postgresql://app:hunter2@db/app"), secrets_in('{"password": "correct-horse-9"}')
    (('password_in_address',), ('password',))
    """
    found: set[SecretKind] = set()
    told = text.encode(errors="replace")
    if _RUN in told.translate(_AS_RUNS):
        found.update(kind for kind, form in _FORMS.items() if form.search(text) is not None)
        if not found and any(_is_drawn(run) for run in _RUNS.findall(_ESCAPE.sub(" ", text))):
            found.add("drawn_by_chance")
    if _PRIVATE_KEY in text and _PRIVATE_KEYS.search(text) is not None:
        found.add("private_key")
    lowered = told.lower()
    for name in _FIRST_LOOK:
        if name in lowered:
            if _names_a_secret(text):
                found.add("password")
            break
    if "://" in text and _has_password(text):
        found.add("password_in_address")
    return tuple(kind for kind in SECRET_KINDS if kind in found) if found else ()


def _names_a_secret(text: str) -> bool:
    """Whether a name is given a value that could be one, and not a variable or a word in its place."""
    return any(
        _PLACEHOLDER.fullmatch(found["value"]) is None and any(map(str.isdigit, found["value"]))
        for found in _NAMED.finditer(text)
    )


def _has_password(text: str) -> bool:
    return any(_PLACEHOLDER.fullmatch(found["value"]) is None for found in _ADDRESS.finditer(text))


def _is_drawn(run: str) -> bool:
    """Whether letters look drawn by chance: of three kinds, none of them most, and few that come again."""
    if not _SHORTEST_DRAWN <= len(run) <= _LONGEST_DRAWN or _HEXADECIMAL.fullmatch(run) or _IDS.match(run):
        return False
    kinds = [sum(map(is_kind, run)) for is_kind in (str.islower, str.isupper, str.isdigit)]
    if min(kinds) < _FEWEST_DIGITS or max(kinds) > _MOST_SHARE_OF_ONE_KIND * len(run):
        return False
    return _bits(run) >= _LEAST_BITS


def _bits(run: str) -> float:
    """Shannon's entropy of a letter."""
    return -sum(n / len(run) * math.log2(n / len(run)) for n in Counter(run).values())
