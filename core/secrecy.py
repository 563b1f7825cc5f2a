r"""Secrets in a text: what looks like a key, a token or a password.

Promises: names kinds, never repeats a secret. A secret is found by its issuer (`core.issuers`), by the name before
its value in any spelling, by its place (an address, a header, a command line), or by its random letters. Time is
linear in the length of any text: a repeat without a bound ends its form, or holds nothing that a form begins with.

**Speed.** Many texts are scanned together: columns of letters for long runs, and windows of four letters for the
ends of names before a separator. Only texts with a sign are read with the forms.

**Unknown issuers.** A key whose issuer has no row is found by its letters alone: 20 capitals and digits, 24 letters
of three kinds, fewer after a short prefix or in the address of a webhook. Letters that form words are not random.

**False alarms.** A row that is held back by mistake costs a row. A key in training data can be extracted from the
model. So known forms are always reported. Random letters inside public keys, certificates, integrity hashes and
pictures are not reported. Nor are hexadecimal digits without a name or a prefix (digests, commits, UUIDs), ids of
calls and records (``call_…``, ``toolu_…``), words joined by hyphens or underscores, parts of paths, and more than 512
letters in a row.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from msgspec.structs import replace

from core.columns import Ints
from core.issuers import BEFORE, ISSUERS, IssuedKind
from core.records.transcript import Message, bounded

SecretKind = Literal[
    "private_key",
    IssuedKind,
    "json_web_token",
    "password",
    "password_in_address",
    "drawn_by_chance",
    "personal_number",
]
"""Kinds of secrets, in the order of reports."""
SECRET_KINDS: Final[tuple[SecretKind, ...]] = get_args(SecretKind)

_Span = tuple[int, int]
_SHORTEST_RUN: Final = 20
_SHORTEST_RANDOM: Final = 32
_LONGEST_RANDOM: Final = 512
_FEWEST_DIGITS: Final = 3
_SHORTEST_PART: Final = 16
_LEAST_MIXED: Final = 3.25
"""Least entropy of a letter where a prefix or the letters' kinds say more."""
_LEAST_BITS: Final = 4.25
"""Least entropy of a letter: 32 letters drawn from 62 have 4.6 on average and less than this once in thousands; names
of 32 letters in camel case have about 4."""

_API_KEY: Final = re.compile(rf"{BEFORE}sk-[A-Za-z0-9_-]{{20,}}")
_DOTTED: Final = re.compile(r"[A-Za-z0-9_.-]{36,}")
_WEB_TOKEN_BEGINS: Final = re.compile(rf"{BEFORE}eyJ[A-Za-z0-9_-]{{10}}")
_WEB_TOKEN_GOES_ON: Final = re.compile(r"eyJ[A-Za-z0-9_-]{10}")
_SHORTEST_SIGNATURE: Final = 10
_PRIVATE_KEY: Final = "PRIVATE KEY"
_PRIVATE_KEYS: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VALUE: Final = re.compile(
    r"""(?:\\{0,7}["'])?\s{0,8}(?P<sep>:=|=>|[:=>])\s{0,8}(?P<quote>\\{0,7}["'`])?(?P<value>[^\s"'`\\]{6,400})"""
)
_STRONG: Final = frozenset(
    ("password", "passwd", "pwd", "passphrase", "passcode", "pass", "secret", "secrets", "bearer", "credential",
     "credentials", "apikey", "accesskey", "secretkey", "privatekey", "authtoken", "accesstoken", "apitoken")
)  # fmt: skip
_WEAK: Final = frozenset(("token", "key", "auth", "cookie", "authkey", "authorization"))
_QUALIFIED: Final = frozenset(
    ("api", "access", "secret", "private", "auth", "master", "signing", "encryption", "client", "refresh", "admin",
     "account", "service", "deploy", "session", "bot", "license")
)  # fmt: skip
"""Words that make a secret of a key or a token after them."""
_OTHER_KEYS: Final = frozenset(
    ("public", "cache", "sort", "primary", "foreign", "partition", "idempotency", "row", "object", "index", "group",
     "shard", "next", "page", "cursor", "continuation", "sync", "pub", "hash", "dedupe", "route", "map", "press",
     "project", "translation", "i18n", "lookup", "first", "last", "previous", "start", "end", "sub")
)  # fmt: skip
"""Words that make no secret of a key or a token after them."""
_PLACEHOLDER: Final = re.compile(
    r"[*x.<>_-]+|[<${%].*|\(?(?:your|example|placeholder|redacted|changeme|change[_-]me|dummy|insert|enter|todo)"
    r"[a-z._ -]*\d{0,3}>?|(?:my|the|an?|some|test|foo|bar|fake|sample)[._-][a-z._-]*\d{0,3}"
    r"|(?:secret|passw(?:or)?d|none|null|nil|true|false|undefined|string|str|required|optional|hidden|masked|missing"
    r"|unset|empty|default|value|text)[,;.)}\]]*"
    r"|(?:os|process|self|this|config|settings|env|environ|secrets|args|options|params|request|req|data|credentials)"
    r"[.\[(].*|[A-Za-z_][A-Za-z0-9_.]*\(.*\)|(?:projects|secrets|arn:aws|vault|ssm|op)[:/].*",
    re.IGNORECASE,
)
_PROSE: Final = re.compile(r"[A-Za-z][a-z'’-]*[.,:!?)]*")
_CODE: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*(?:(?:\.|->|::)[A-Za-z_$][A-Za-z0-9_$]*)+[();,\]}]*")
_LONG_WORDS: Final = 12
"""Letters of a value without a digit that is no ordinary word."""
_RANDOM: Final = re.compile(r"[A-Za-z0-9+/_=.~-]{16,}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ADDRESS: Final = re.compile(
    r"://(?:[^\s/:@\"'\\<>]{0,64}:(?!\d{1,5}(?:/|\Z))(?P<value>[^\s@\"'\\<>]{3,128})|(?P<token>[A-Za-z0-9_-]{16,128}))@"
)
_LINK: Final = re.compile(r"://(?P<rest>[^\s\"'\\<>]{20,500})")
_HEADER: Final = re.compile(
    r"""authorization\\{0,7}["']?\s{0,8}[:=]\s{0,8}\\{0,7}["']?\s{0,8}(?:basic|bearer|token|digest|api-?key|key|splunk|ssws|geniekey|oauth|bot)\s{1,8}(?P<value>[^\s"'\\,;]{8,})""",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"[Bb]earer\s{1,8}(?P<value>[A-Za-z0-9._~+/=-]{20,})")
_COOKIE: Final = re.compile(
    r"""cookie\\{0,7}["']?\s{0,8}[:=]\s{0,8}\\{0,7}["']?\s{0,8}[^\s=;"']{1,64}=(?P<value>[A-Za-z0-9%._~+/-]{16,})""",
    re.IGNORECASE,
)
_FLAG: Final = re.compile(
    r"--?[A-Za-z-]{0,40}(?:passw(?:or)?d|passphrase|pwd|pass|secret|token|api-?key|access-?key|secret-?key|private-?key"
    r"|auth-?key|credentials?)(?:\s{1,8}|=)(?P<quote>[\"']?)(?P<value>[^\s\"'\\-][^\s\"'\\]{5,})",
    re.IGNORECASE,
)
_MYSQL: Final = re.compile(
    r"\b(?:mysql\w{0,16}|mariadb\w{0,16})\b[^\n|;&]{0,200}?\s-p[\"']?(?P<value>[^\s\"'\\-][^\s\"'\\]{3,})"
)
_CURL: Final = re.compile(
    r"\bcurl\b[^\n|;&]{0,300}?\s(?:-u|--user)[\s=]{0,8}[\"']?[^\s:\"'\\]{1,64}:(?P<value>[^\s\"'\\]{4,})"
)
_SSHPASS: Final = re.compile(r"\bsshpass\s{1,8}-p\s{0,8}[\"']?(?P<value>[^\s\"'\\]{4,})")
_NETRC: Final = re.compile(
    r"\b(?:machine\s{1,8}\S{1,256}|default)\s{1,8}(?:(?:login|account)\s{1,8}\S{1,256}\s{1,8}){1,2}password"
    r"\s{1,8}(?P<value>[^\s\"'\\]{4,})"
)
_LOGIN: Final = re.compile(
    r"\b(?:machine|login)\s{1,8}\S{1,256}\s{1,8}(?:account\s{1,8}\S{1,256}\s{1,8})?password\s{1,8}(?P<value>[^\s\"'\\]{4,})"
)
_REDIS: Final = re.compile(
    r"\bredis-cli\b[^\n|;&]{0,200}?\s(?:-a|--pass)\s{1,8}[\"']?(?P<value>[^\s\"'\\-][^\s\"'\\]{3,})"
)
_LDAP: Final = re.compile(r"\bbindpw\s{1,8}[\"']?(?P<value>[^\s\"'\\]{4,})")
_POWERSHELL: Final = re.compile(
    r"\bConvertTo-SecureString\s{1,8}(?:-String\s{1,8})?[\"'](?P<value>[^\s\"'\\]{4,})"
)
_PGPASS: Final = re.compile(r"pgpass\b[^\n]{0,80}?[\s:](?:[^\s:]{1,256}:){4}(?P<value>[^\s:\"']{4,})")
_SIGNATURE: Final = re.compile(r"[?&\s]sig=(?P<value>(?:[A-Za-z0-9]|%2[BbFf]){40,46}%3[Dd])")
_CRYPT: Final = re.compile(
    r"(?P<value>\$(?:apr1|1|5|6|y)\$(?:rounds=\d{1,9}\$)?[A-Za-z0-9./]{1,32}\$(?:[A-Za-z0-9./]{22,86}|[A-Za-z0-9./]{1,32}\$[A-Za-z0-9./]{43})"
    r"|\$2[abxy]\$\d{2}\$[A-Za-z0-9./]{53}|\$argon2(?:id|i|d)\$v=\d{1,3}\$m=\d{1,9},t=\d{1,9},p=\d{1,9}\$[A-Za-z0-9+/]{8,64}\$[A-Za-z0-9+/]{16,128})"
)
_PLACES: Final = (
    ("uthorization", _HEADER),
    ("UTHORIZATION", _HEADER),
    ("earer ", _BEARER),
    ("ookie", _COOKIE),
    ("mysql", _MYSQL),
    ("mariadb", _MYSQL),
    ("curl", _CURL),
    ("sshpass", _SSHPASS),
    ("password", _NETRC),
    ("password", _LOGIN),
    ("redis-cli", _REDIS),
    ("bindpw", _LDAP),
    ("SecureString", _POWERSHELL),
    ("pgpass", _PGPASS),
    ("sig=", _SIGNATURE),
    ("$", _CRYPT),
)
"""Letters of a place that holds secrets, for a quick test, and its form."""
_CERTAIN: Final = frozenset((_MYSQL, _CURL, _SSHPASS, _NETRC, _REDIS, _POWERSHELL, _PGPASS))
"""Places of nothing but a secret: any value there is one, a word as well."""
_PUBLIC: Final = re.compile(
    r"(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3}|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)\s{1,8}[A-Za-z0-9+/=]+"
    r"|-----BEGIN (?:CERTIFICATE|PUBLIC KEY|RSA PUBLIC KEY|PGP PUBLIC KEY BLOCK|CERTIFICATE REQUEST|X509 CRL"
    r"|PGP SIGNATURE)-----[^-]{0,20000}"
    r"|sha(?:1|224|256|384|512)[-:][A-Za-z0-9+/=]{20,}|(?i:h1):[A-Za-z0-9+/=]{43,}|data:[a-z]{1,16}/[a-z0-9.+-]{1,64};base64,[A-Za-z0-9+/=]+"
    r"|SHA256:[A-Za-z0-9+/]{43}|(?:[a-z]{1,16}[_-]){0,3}[0-7][0-9A-HJKMNP-TV-Z]{25}(?![A-Za-z0-9])"
    r"|(?i:(?:page|continuation|sync|public|pub)[_-]?(?:token|key|cursor)[\"']?\s{0,4}[:=]\s{0,4}[\"']?[A-Za-z0-9+/=_-]+)"
)
"""Public shapes, which may look random."""
_RUNS: Final = re.compile(r"[A-Za-z0-9_+/=-]{32,}")
_PREFIXED: Final = re.compile(
    r"(?<![A-Za-z0-9/._+-])(?P<head>[A-Za-z][A-Za-z0-9]{1,9}(?:[_-](?:[a-z0-9]{1,5}|secret|apikey)){0,2})[_-]"
    r"(?P<tail>[A-Za-z0-9]{20,128}|[A-Za-z0-9_-]{20,128})(?![A-Za-z0-9/.+=-])"
)
_DOTTED_PARTS: Final = re.compile(
    r"(?<![A-Za-z0-9/._+-])(?:[A-Za-z0-9]{2,8}\.)?(?P<one>[A-Za-z0-9_-]{14,40})\.(?:[A-Za-z0-9_-]{1,32}\.)?(?P<other>[A-Za-z0-9_-]{20,128})(?![A-Za-z0-9/.+=-])"
)
_UNPREFIXED: Final = re.compile(r"(?<![A-Za-z0-9/._+=-])[A-Za-z0-9_-]{20,31}(?![A-Za-z0-9/.+=-])")
_GLUED: Final = re.compile(
    r"(?<![A-Za-z0-9/._+=-])(?P<head>[A-Za-z]{1,7}[G-Zg-z])(?P<tail>[0-9a-f]{32,64})(?![A-Za-z0-9/.+=])"
)
_PUBLIC_HEADS: Final = frozenset(
    """
    call toolu srvtoolu msg resp req run chatcmpl fc rs thread asst file item step cmpl gen ws evt sha
    commit build index chunk main app vendor img image layer user usr sess session org proj project
    cus sub in price prod acct ch rev ref id uuid trace span job task node pod blob hash etag cache
    asset static doc page row web release deploy container docker git tree object bundle style styles
    runtime polyfills digest checksum md version snapshot backup test tmp temp worker event batch conv
    conversation message agent model dataset order invoice customer account ticket issue comment patch
    merge branch feature fix device client server host vol vpc subnet sg ami eni snap pub public seti
    pi pm src lib
    """.split()  # noqa: SIM905 - one word per line is a page
)
"""Words before random letters that are an id or a digest."""
_SHORTEST_HEX: Final = 32
_HEXADECIMAL: Final = re.compile(r"(?:0x)?[0-9a-f_-]+|(?:0X)?[0-9A-F_-]+")
_IDS: Final = re.compile(
    r"(?:call|toolu|srvtoolu|msg|resp|req|run|chatcmpl|fc|rs|thread|asst|file|item|step|cmpl|gen|ws|evt)[_-]"
)
_ESCAPE: Final = re.compile(r"\\{1,7}(?:[nrtbf]|u[0-9A-Fa-f]{4})")
_FILE: Final = re.compile(rf"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{{{_LONGEST_RANDOM + 1},}}")
"""Longer than anything that is drawn; base64 has strokes, which paths have, too."""
_RUN_BIT: Final = 1 << 7
_WIDTHS: Final = (1, 2, 4, 8, 4)
"""Widths combined in turn: 2, 4, 8, 16 letters and in the end `_SHORTEST_RUN` of them."""
_ENDS: Final = "=: \"'\\>"
_NAMES: Final = (
    ("kK", "eE", "yYnN", _ENDS),  # key, token
    ("oOpPsSaA", "rRwWsS", "dDsS", _ENDS),  # password, passwd, pwd, pass
    ("rRuU", "eEtT", "tThH", _ENDS),  # secret, auth
    ("kKiIaA", "iIaAlL", "eElLsS", _ENDS),  # cookie, credential, credentials
    ("aArR", "sSeE", "eErR", _ENDS),  # passphrase, bearer
)
"""Last three letters of every name of a secret, and what separates it from its value."""
_HEAD: Final = ("T", "E", " ", "K")
_ADDRESS_SIGN: Final = (":", "/", "/", "".join(map(chr, range(256))))
_SIGNS: Final = (*_NAMES, _HEAD, _ADDRESS_SIGN)
_NAME_BITS: Final = (1 << len(_NAMES)) - 1
_HEAD_BIT: Final = 1 << len(_NAMES)
_ADDRESS_BIT: Final = _HEAD_BIT << 1
_AT_ONCE: Final = 1 << 16
"""Bytes scanned together: the intermediate arrays fit a processor's cache."""

_MOST_ROUNDS: Final = 4
"""Rounds of masking: a mark may end a form that hid another one."""
_MOST_OF_KEY: Final = 10_000
_BODY_OF_KEY: Final = re.compile(rf"[A-Za-z0-9+/=\s]{{0,{_MOST_OF_KEY}}}")
_END_OF_KEY: Final = re.compile(r"-----END [A-Z0-9 ]{1,60}-----")
_NAMED_VALUE: Final = re.compile(rf"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{{3,60}}(?={_VALUE.pattern})")

_CARD: Final = re.compile(
    r"(?<![\w.-])(?<!\d )[3-6]\d{3}[ -]?"
    r"(?:\d{4}[ -]?\d{4}[ -]?\d{1,4}(?:[ -]?\d{1,3})?|\d{6}[ -]?\d{4,5})(?![\w-]|\.\d)"
)
_IBAN: Final = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_SOCIAL: Final = re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")

_BESIDE_RUN: Final = 64
"""Letters before and after a run that the form of a key may need."""

_IS_START: Final = re.compile(r"[A-Za-z0-9]{2}.*")
_ROWS: Final = {
    fixed: [row for row in ISSUERS if fixed in row.fixed]
    for fixed in sorted(
        {fixed for row in ISSUERS for fixed in row.fixed if _IS_START.match(fixed)}, reverse=True
    )
}
"""Rows of the issuers by the fixed part that begins a key; longer ones first."""
_HEADS: Final = re.compile(r"(?<![A-Za-z0-9_.-])[A-Za-z0-9_.-][A-Za-z0-9_.+/=-]{19,23}")
"""First letters of what is long enough for a key."""
_STARTS: Final = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, _ROWS))})")
_INSIDE: Final = [(fixed, row) for row in ISSUERS for fixed in row.fixed if fixed not in _ROWS]

_WORD: Final = re.compile(r"(?:\A|[_-])[A-Za-z][a-z]{3,99}(?:[_-]|\Z)")
_NEIGHBOURS: Final = re.compile(r"[a-z](?=[a-z])")
_COMMON: Final = re.compile(
    "|".join(
        f"{pairs[0]}(?=[{pairs[1:]}])"
        for pairs in """
    abcdgilmnprsty bae caehklot daeis eacdeflmnprstvwx feio ge haeio icdeglmnorst ke laeilosu maeiops nacdegiost
    odklmnoprstuw paeilor radeimnostu sacehiostu taehiorst uemnrst vaei waei
    """.split()  # noqa: SIM905 - one word per line is a page
    )
)
"""Common neighbours in English words and in names of programs: the first letter, and those that follow it."""
_CHANGE: Final = re.compile(r"a(?=[A0])|A(?=[a0])|0(?=[aA])")
_KIND_OF: Final = str.maketrans(string.ascii_letters + string.digits, "a" * 26 + "A" * 26 + "0" * 10)
_CHANGES_OF_RANDOM: Final = 0.4
"""Changes between small letters, capitals and digits, per letter: names in camel case have fewer."""

_ENDS_OF_VALUE: Final = ",;)}]>"

_FEWEST_JUMBLED: Final = 8
_CHANGES_OF_JUMBLED: Final = 2

_WORDS_BEFORE: Final = re.compile(r"(?:[a-z]{2,10}[_-]){1,4}(?=[A-Za-z0-9+/=_-]{32})")


def _bits_at(index: int) -> bytes:
    """Return for each byte the signs that may have it at an index, a bit each; at index 0 runs have a bit, too."""
    signs = [sum(1 << n for n, sign in enumerate(_SIGNS) if chr(byte) in sign[index]) for byte in range(256)]
    in_run = [chr(byte) in "_+-" or (byte < 128 and chr(byte).isalnum()) for byte in range(256)]
    return bytes(
        sign | (_RUN_BIT if index == 0 and runs else 0) for sign, runs in zip(signs, in_run, strict=True)
    )


_BITS: Final = tuple(_bits_at(index) for index in range(len(_HEAD)))


def secrets_in(text: str, *, personal: bool = False) -> tuple[SecretKind, ...]:
    """Return the kinds of secrets that a text seems to hold, each once.

    >>> secrets_in("The key is AKIAIOSFODNN7EXAMPLE."), secrets_in("commit 9fceb02d0ae598e95dc970b74767f19372d61af8")
    (('aws_access_key',), ())
    >>> secrets_in("postgresql://app:hunter2@db/app"), secrets_in('{"password": "correct-horse-9"}')
    (('password_in_address',), ('password',))
    """
    (result,) = secrets_in_all([text], personal=personal)
    return result


def secrets_in_all(texts: Sequence[str], *, personal: bool = False) -> list[tuple[SecretKind, ...]]:
    """Return `secrets_in` of each of many texts, faster: most need only the first scan.

    With ``personal``, numbers of payment cards, bank accounts (IBAN) and US social security are reported, too.

    >>> secrets_in_all(["nothing", "the key is AKIAIOSFODNN7EXAMPLE", ""])
    [(), ('aws_access_key',), ()]
    """
    found = list(chain.from_iterable(map(_of_group, _groups(texts))))
    if not personal:
        return found
    return [
        (*kinds, "personal_number") if _is_personal(text) else kinds
        for text, kinds in zip(texts, found, strict=True)
    ]


def masked(text: str) -> str:
    """Return a text with a mark in the place of each secret.

    >>> masked("The key is AKIAIOSFODNN7EXAMPLE."), masked("export DB_PASSWORD='correct-horse-9'")
    ('The key is <aws_access_key>.', "export DB_PASSWORD='<password>'")
    """
    for _ in range(_MOST_ROUNDS):
        kinds = secrets_in(text)
        if not kinds:
            return text
        pieces, at = [], 0
        spans = [*_spans(text)] or _random(_PUBLIC.sub(_blank, text))
        for (begin, end), kind in sorted((span, kind) for kind, span in spans):
            if begin >= at:
                pieces += [text[at:begin], f"<{kind}>"]
            at = max(at, end)
        text = "".join([*pieces, text[at:]])
    return " ".join(f"<{kind}>" for kind in kinds)


def masked_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages as they may be stored: masked first, and then bounded."""
    kinds = secrets_in_all([text for one in messages for text in (one.text, one.result or "")])
    secret = {place // 2 for place, some in enumerate(kinds) if some}
    return bounded(_masked(one) if place in secret else one for place, one in enumerate(messages))


def _masked(one: Message) -> Message:
    return replace(one, text=masked(one.text), result=None if one.result is None else masked(one.result))


def _spans(text: str) -> Iterator[tuple[SecretKind, _Span]]:
    """Yield the secrets with a form, a name or a place."""
    rest, at = _ESCAPE.sub(_blank, text), 0
    for result in _PRIVATE_KEYS.finditer(text):
        if result.start() >= at:
            end = _END_OF_KEY.search(text, result.end(), result.end() + _MOST_OF_KEY)
            at = (end or _BODY_OF_KEY.match(rest, result.end()) or result).end()
            yield "private_key", (result.start(), at)
    yield from _issued(rest, rest)
    yield from _tokens(text)
    for result in _NAMED_VALUE.finditer(rest):
        if _names_a_secret(result[0], rest[result.end() : result.end() + 420]):
            yield "password", result.span("value")
    yield from (("password", span) for span in _placed(text))
    yield from (("password_in_address", span) for span in _in_addresses(text))


def _is_personal(text: str) -> bool:
    """Return whether a text has a number that names a person's card, account or insurance."""
    return (
        any(_is_card(result[0]) for result in _CARD.finditer(text))
        or any(_is_iban(result[0]) for result in _IBAN.finditer(text))
        or _SOCIAL.search(text) is not None
    )


def _is_card(number: str) -> bool:
    """Return whether the check digit of a card is right (Luhn)."""
    digits = [int(digit) for digit in number if digit.isdigit()][::-1]
    total = sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return 13 <= len(digits) <= 19 and total % 10 == 0


def _is_iban(number: str) -> bool:
    """Return whether the check digits of a bank account are right (ISO 7064, mod 97)."""
    letters = number.replace(" ", "")
    return (
        15 <= len(letters) <= 34
        and int("".join(str(int(one, 36)) for one in letters[4:] + letters[:4])) % 97 == 1
    )


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
    data = "\n".join(texts).encode(errors="replace")
    signs = _signs_in(data)
    placed = {index: span for index, text in enumerate(texts) if (span := next(_placed(text), None))}
    if not any(map(len, signs)) and not placed:
        return result
    ends = np.cumsum([len(text.encode(errors="replace")) + 1 for text in texts])
    heads, addresses = (
        set(np.searchsorted(ends, places, side="right").tolist()) for places in (signs.heads, signs.addresses)
    )
    named = _named(data, signs.names, ends)
    runs = _around_runs(data, signs.runs, ends)
    for index in runs.keys() | heads | addresses | named | placed.keys():
        text = texts[index]
        kinds = set(_formed(text, runs[index])) if index in runs else set()
        if index in heads and _PRIVATE_KEY in text and _PRIVATE_KEYS.search(text) is not None:
            kinds.add("private_key")
        if index in named or index in placed:
            kinds.add("password")
        if index in addresses and next(_in_addresses(text), None):
            kinds.add("password_in_address")
        result[index] = tuple(kind for kind in SECRET_KINDS if kind in kinds)
    return result


def _placed(text: str) -> Iterator[_Span]:
    """Yield the secrets in headers and command lines, also where their spaces are escaped."""
    if "\\" in text:
        text = _ESCAPE.sub(_blank, text)
    if " -" in text:
        for result in _FLAG.finditer(text):
            if _is_secret(result["value"], is_strong=True, is_assigned=True):
                yield result.span("value")
    for letters, form in _PLACES:
        for result in form.finditer(text) if letters in text else ():
            value = result["value"]
            if form in (_SIGNATURE, _CRYPT):
                is_one = True
            elif form in _CERTAIN:
                is_one = not _is_placeholder(value)
            elif form in (_BEARER, _COOKIE):
                is_one = _is_random(value)
            else:
                is_one = _is_secret(value, is_strong=True, is_assigned=True, least=4)
            if is_one:
                yield result.span("value")


def _around_runs(data: bytes, places: Ints, ends: Ints) -> dict[int, str]:
    """Return the long runs of letters of each text, with the letters around them, and line ends between."""
    if not len(places):
        return {}
    breaks = np.flatnonzero(np.diff(places) > _BESIDE_RUN)
    first = np.maximum(places[np.concatenate(([0], breaks + 1))] - _BESIDE_RUN, 0)
    last = places[np.concatenate((breaks, [len(places) - 1]))] + _SHORTEST_RUN + _BESIDE_RUN
    begins = np.searchsorted(ends, first, side="right").tolist()
    parts: dict[int, list[str]] = {}
    for begin, end, index in zip(first.tolist(), last.tolist(), begins, strict=True):
        at = index
        while at < len(ends):  # a stretch may reach over the end of a text
            low, high = int(ends[at - 1]) if at else 0, int(ends[at]) - 1
            if low >= end:
                break
            parts.setdefault(at, []).append(data[max(begin, low) : min(end, high)].decode(errors="replace"))
            at += 1
    return {index: "\n".join(found) for index, found in parts.items()}


def _named(data: bytes, places: Ints, ends: Ints) -> set[int]:
    """Return the texts in which a name of a secret has a value. Only the letters around each sign are read."""
    found: set[int] = set()
    for place, index in zip(
        places.tolist(), np.searchsorted(ends, places, side="right").tolist(), strict=True
    ):
        if index in found:
            continue
        begin = int(ends[index - 1]) if index else 0
        end = min(int(ends[index]), place + 420)
        before = data[max(begin, place - 60) : place + 3].decode(errors="ignore")
        if _names_a_secret(before, data[place + 3 : end].decode(errors="ignore")):
            found.add(index)
    return found


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


def _formed(text: str, runs: str) -> Iterator[SecretKind]:
    """Yield the known forms in a text, or else what looks random; ``runs`` are its long runs."""
    has_form = False
    runs = _ESCAPE.sub(" ", runs) if "\\" in runs else runs
    for kind, _ in chain(_issued(text, runs), _tokens(text)):
        has_form = True
        yield kind
    looks = None if has_form else next(_random(runs), None)
    if looks is not None and next(_random(_PUBLIC.sub(" ", text)), None) is not None:
        yield looks[0]


def _issued(text: str, runs: str) -> Iterator[tuple[SecretKind, _Span]]:
    """Yield the keys of known issuers in the long runs of a text."""
    heads = " ".join(_HEADS.findall(runs))
    started = {row for start in set(_STARTS.findall(heads)) for row in _ROWS[start]}
    for issuer in [*started, *(row for fixed, row in _INSIDE if fixed in runs)]:
        if issuer.near is None or issuer.near in text:
            for result in issuer.form.finditer(runs):
                yield issuer.kind, result.span()


def _tokens(text: str) -> Iterator[tuple[SecretKind, _Span]]:
    """Yield API keys and web tokens. Hyphenated words may begin like a key, but a key has digits."""
    if "sk-" in text:
        for result in _API_KEY.finditer(text):
            if any(map(str.isdigit, result[0])):
                yield "api_key", result.span()
    if ".eyJ" in text:
        for result in _DOTTED.finditer(text):
            if _is_web_token(text, result):
                yield "json_web_token", result.span()


def _random(text: str) -> Iterator[tuple[SecretKind, _Span]]:
    """Yield random letters, and what they seem to be."""
    rest = _FILE.sub(_blank, _ESCAPE.sub(_blank, text) if "\\" in text else text)
    for result in chain(_PREFIXED.finditer(rest), _GLUED.finditer(rest)):
        if _is_prefixed(result["head"], result["tail"]):
            yield "issued_token", result.span()
    for result in _DOTTED_PARTS.finditer(rest) if "." in rest else ():
        if _is_mixed(result["one"]) and (_is_mixed(result["other"]) or _is_hexadecimal(result["other"])):
            yield "issued_token", result.span()
    for form, looks in ((_RUNS, _looks_random), (_UNPREFIXED, _looks_short)):
        for result in form.finditer(rest):
            if looks(result[0]):
                yield "drawn_by_chance", result.span()


def _blank(result: re.Match[str]) -> str:
    return " " * len(result[0])


def _is_prefixed(head: str, tail: str) -> bool:
    """Return whether random letters follow a short prefix that is no word of an id or a digest."""
    if _is_public(head) or _UUID.fullmatch(tail):
        return False
    return _is_hexadecimal(tail.partition("_")[0]) or _is_mixed(tail)


def _is_public(head: str) -> bool:
    """Return whether a prefix begins with a word of an id or a digest."""
    return re.split(r"[_-]|(?<=[a-z])(?=[0-9])", head.lower())[0] in _PUBLIC_HEADS


def _looks_short(run: str) -> bool:
    """Return whether fewer letters look random: capitals and digits, or of three kinds and more of them."""
    n_digits = sum(map(str.isdigit, run))
    least = 24 if any(map(str.islower, run)) else _SHORTEST_RUN
    return len(run) >= least and 2 * n_digits <= len(run) and _is_mixed(run) and not _is_public(run)


def _is_hexadecimal(text: str) -> bool:
    """Return whether a text is a number of 128 bits or more in hexadecimal digits."""
    return (
        len(text) >= _SHORTEST_HEX
        and _HEXADECIMAL.fullmatch(text) is not None
        and any(map(str.isdigit, text))
        and any(map(str.isalpha, text))
    )


def _is_mixed(text: str) -> bool:
    """Return whether letters and digits look drawn: they form no words, and their kinds change often."""
    kinds = text.translate(_KIND_OF)
    if "a" not in kinds or "A" not in kinds:
        text = max(re.split("[_-]", text), key=len)
        kinds = text.translate(_KIND_OF)
        is_mixed = len(text) >= _SHORTEST_PART and _FEWEST_DIGITS <= kinds.count("0") < len(text)
        if not is_mixed or _HEXADECIMAL.fullmatch(text):
            return False
    elif kinds.count("0") < 2 and len(_CHANGE.findall(kinds)) < _CHANGES_OF_RANDOM * len(text):
        return False
    return not _is_of_words(text) and _bits(text) >= _LEAST_MIXED


def _is_of_words(text: str) -> bool:
    """Return whether a part is a word, or most neighbours are common in words: of words five in six, else one."""
    if _WORD.search(text):
        return True
    lower = text.lower()
    return len(_COMMON.findall(lower)) > len(_NEIGHBOURS.findall(lower)) / 2 + 1


def _is_web_token(text: str, dotted: re.Match[str]) -> bool:
    parts = dotted[0].split(".")
    begins = accumulate((len(part) + 1 for part in parts), initial=dotted.start())
    return any(
        _WEB_TOKEN_GOES_ON.match(second) is not None
        and len(third) >= _SHORTEST_SIGNATURE
        and _WEB_TOKEN_BEGINS.search(text, begin, begin + len(first)) is not None
        for begin, first, second, third in zip(begins, parts, parts[1:], parts[2:], strict=False)
    )


def _names_a_secret(before: str, after: str) -> bool:
    """Return whether the letters before end with the name of a secret, and those after begin with its value."""
    name, value = _NAME.search(_ESCAPE.sub(" ", before)), _VALUE.match(after)
    if name is None or value is None:
        return False
    words = [word.lower() for word in _WORDS.findall(name[0])]
    if not words:
        return False
    last, other = words[-1], words[-2] if len(words) > 1 else ""
    is_strong = (
        last in _STRONG or other + last in _STRONG or (last in {"key", "token"} and other in _QUALIFIED)
    )
    if not is_strong and (last not in _WEAK or other in _OTHER_KEYS):
        return False
    if value["sep"] == ">":  # an element: only a name that says it, as keys of documents are elements too
        is_element = is_strong and before[: name.start()].endswith("<") and "</" in value["value"]
        return is_element and _is_secret(value["value"].split("<")[0], is_strong=True, is_assigned=True)
    is_assigned = value["sep"] != ":" or value["quote"] is not None
    bare = value["value"].split("&")[0]
    if is_assigned and last == "token" and name[0].isupper() and _UUID.match(bare):
        return True  # of a variable of the environment
    return _is_secret(bare, is_strong=is_strong, is_assigned=is_assigned)


def _is_secret(value: str, *, is_strong: bool, is_assigned: bool, least: int = 6) -> bool:
    """Return whether a value is a secret, and no variable, placeholder or word.

    ``is_strong``: its name says that it is one. ``is_assigned``: it is quoted, or follows an equals sign.
    """
    bare = value.rstrip(_ENDS_OF_VALUE)
    if len(bare) < least or _is_placeholder(value) or _CODE.fullmatch(bare):
        return False
    if not is_strong:
        return _is_random(bare.rpartition("=")[2] or bare)
    if any(map(str.isdigit, bare)):
        return True
    if _is_jumbled(bare):
        return True
    if _PROSE.fullmatch(bare) and not (is_assigned and len(bare) >= _LONG_WORDS):
        return False
    return (
        is_assigned
        and (len(bare) >= _LONG_WORDS or not bare.isalpha())
        and "_" not in bare
        and "/" not in bare[:1]
    )


def _is_placeholder(value: str) -> bool:
    """Return whether a value, with or without the marks at its end, only holds the place of one."""
    return any(_PLACEHOLDER.fullmatch(one) for one in (value, value.rstrip(_ENDS_OF_VALUE)))


def _is_jumbled(value: str) -> bool:
    """Return whether letters change between small and capital, and form no words."""
    return (
        value.isascii()
        and value.isalpha()
        and len(value) >= _FEWEST_JUMBLED
        and len(_CHANGE.findall(value.translate(_KIND_OF))) >= _CHANGES_OF_JUMBLED
        and not _is_of_words(value)
    )


def _is_random(value: str) -> bool:
    """Return whether a value has digits and letters in no order that a word, a path or a UUID has."""
    if _RANDOM.fullmatch(value) is None or _UUID.fullmatch(value) or _CODE.fullmatch(value):
        return False
    if value[0] == "/" and value[-1] != "=":
        return False
    n_digits = sum(map(str.isdigit, value))
    return n_digits >= 2 and any(map(str.isalpha, value)) and _bits(value) >= 3


def _in_addresses(text: str) -> Iterator[_Span]:
    """Yield the passwords in addresses, tokens in the place of a user, and the keys of webhooks."""
    for result in _LINK.finditer(text) if "hook" in text else ():
        key = result["rest"].rpartition("/")[2]
        if "hook" in result["rest"] and _is_random(key):
            yield result.end() - len(key), result.end()
    for result in _ADDRESS.finditer(text):
        value, token = result["value"], result["token"]
        if value is not None and _PLACEHOLDER.fullmatch(value) is None:
            yield result.span("value")
        elif token is not None and _is_random(token):
            yield result.span("token")


def _looks_random(run: str) -> bool:
    """Return whether letters look random: of three kinds, none of them most, and few that repeat."""
    run = run.strip("=")
    head = _WORDS_BEFORE.match(run)
    if head is not None and not _is_public(head[0]):
        run = run[head.end() :]
    if "/" in run or "=" in run:
        parts = [part for part in re.split("[/=]", run) if part]
        is_path = any(part.isalpha() and part.islower() and len(part) > 2 for part in parts)
        if is_path or run[0] == "/" or len(parts) > len(run) // 6:
            return False
        run = "".join(parts)
    if not _SHORTEST_RANDOM <= len(run) <= _LONGEST_RANDOM or _HEXADECIMAL.fullmatch(run) or _IDS.match(run):
        return False
    return {"a", "A", "0"} <= {*run.translate(_KIND_OF)} and _bits(run) >= _LEAST_BITS and _is_mixed(run)


def _bits(run: str) -> float:
    """Return Shannon's entropy of a letter."""
    return -sum(n / len(run) * math.log2(n / len(run)) for n in Counter(run).values())
