"""Numbers → words: one way to write every number, name, date and foreign string.

The same words feed pages, alternative texts and charts. `literal` and `plot_literal` are the only doors by
which foreign text (ids, labels, reasons) reaches Markdown and Plotly; both show it as plain text.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast
from urllib.parse import urlencode

from core.records.arm import ARM_TYPES, BANDS, MICRO, ArmType, Band, arm_type
from core.records.currency import money_decimals, money_words
from core.records.evidence import ArmState
from core.records.times import DAY_MS, instant

if TYPE_CHECKING:

    class Markdown(str):
        """Text for Markdown: what is foreign in it has passed `literal`."""

    class PlotText(str):
        """Text for Plotly: what is foreign in it has passed `plot_literal`."""

    class Words(Markdown, PlotText):
        """Our own words and numbers alone."""

else:
    Markdown = PlotText = Words = str

Text = TypeVar("Text", str, Markdown, Words)
Rendered = TypeVar("Rendered", Markdown, Words)

type_of: Final = arm_type

MISSING: Final = Words("–")
MINUS: Final = "−"
NAME_CHARS: Final = 30
_NO_CATEGORY: Final = "other:"
"""Category of tools whose source names none."""

_MARKDOWN_SPECIALS: Final = frozenset(string.punctuation)
_JOINER: Final = "\u2060"
_LATE: Final = re.compile(r"[:@]|www(?=\.)|[-<>~](?=[-=>])", re.IGNORECASE)
_PLOTLY_ENTITIES: Final = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "{": "&#123;",
    "}": "&#125;",
    "$": "&#36;",
}
_HARMLESS: Final = re.compile(r"[^\W_]+(-[^\W_]+)*")
_SPOKEN: Final = re.compile(r"[^\W_]+")
_WHITE: Final = re.compile(r"\s+")
_DIRECTIONAL: Final = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C))
_WORDS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

BASELINE: Final = Words("as many arms as fit")
"""What a baseline run has in its prompt: the one definition of all pages."""

_NEAR_DAYS: Final = 60
"""Days within which a day is clear without its year."""

BAND_DOTS: Final[dict[Band, str]] = {
    band: "●" * filled + "○" * (4 - filled) for filled, band in enumerate(BANDS)
}
BAND_WORDS: Final[dict[Band, str]] = {band: band.replace("_", " ") for band in BANDS}
BAND_PULLS: Final[dict[Band, str]] = {
    "none": "0 pulls",
    "low": "1–4",
    "medium": "5–19",
    "high": "20–49",
    "very_high": "50 and more",
}
TYPE_PLURALS: Final[dict[ArmType, str]] = {kind: f"{kind}s" for kind in ARM_TYPES} | {"memory": "memories"}


# Foreign text


def literal(text: str) -> Markdown:
    r"""Foreign text for Markdown: shown character by character, nothing interpreted.

    A backslash takes the meaning from ASCII punctuation while Markdown is parsed, and ``<`` and ``&`` become
    entities. That is not enough: emoji and icon codes (``:key:``, ``:material/x:``), bare addresses and
    typographic arrows are recognised later, in the finished text, where no backslash is left. A word joiner,
    which takes no room, breaks them up. Direction marks are dropped, white space is folded.

    >>> literal("a_b <i>"), literal("tool:key:x") == "tool\\:\u2060key\\:\u2060x"
    ('a\\_b &lt;i\\>', True)
    """
    folded = _WHITE.sub(" ", text.translate(_DIRECTIONAL)).strip()
    if _HARMLESS.fullmatch(folded):  # an act's id: buttons are called by it
        return cast("Markdown", _isolated(folded))
    broken = _LATE.sub(lambda match: f"{match.group()}{_JOINER}", folded)
    return cast("Markdown", _isolated("".join(_markdown_char(char) for char in broken)))


def of_guide(text: str) -> Markdown:
    """Return Markdown that the guide has written: it comes with the product."""
    return cast("Markdown", text)


def _isolated(text: str) -> str:
    """Return text with right-to-left letters between isolates, so that it can't reorder the words around it."""
    turns = any(unicodedata.bidirectional(char) in {"R", "AL", "AN"} for char in text)
    return f"\u2068{text}\u2069" if turns else text


def _markdown_char(char: str) -> str:
    if char == "<":
        return "&lt;"
    if char == "&":
        return "&amp;"
    return f"\\{char}" if char in _MARKDOWN_SPECIALS else char


def spoken(text: str) -> Markdown:
    """Foreign text for a label that only a screen reader reads: its words, without a character of markup.

    A label is read aloud as it is written, with the backslashes of `literal`.

    >>> spoken("tool:fs:Read"), spoken("skill:$x^2$:![i](http://a.b/c)")
    ('tool fs Read', 'skill x 2 i http a b c')
    """
    return cast("Markdown", " ".join(_SPOKEN.findall(text.translate(_DIRECTIONAL))))


def plot_literal(text: str) -> PlotText:
    """Foreign text for Plotly: no tags, no entities, no ``%{}`` templates, no TeX.

    >>> plot_literal("<i>%{x} & $co$")
    '&lt;i&gt;%&#123;x&#125; &amp; &#36;co&#36;'
    """
    folded = _WHITE.sub(" ", text.translate(_DIRECTIONAL)).strip()
    return cast("PlotText", _isolated("".join(_PLOTLY_ENTITIES.get(char, char) for char in folded)))


def query(parameters: Mapping[str, str | Sequence[str]]) -> Markdown:
    """Return the query of an address for a link in Markdown; encoded, nothing in it is markup.

    >>> query({"judged": "Too early", "model": ["a)", "b"]})
    '?judged=Too+early&model=a%29&model=b'
    """
    return cast("Markdown", f"?{urlencode(parameters, doseq=True)}")


def plain(text: str) -> str:
    r"""Foreign text for plain-text places (table cells, `st.text`): only what could turn the line is dropped.

    >>> plain("a\u202eb")
    'ab'
    """
    return text.translate(_DIRECTIONAL)


# Names of arms


def short_name(key: str) -> str:
    """Return an arm's name beside its type chip: without what the chip says, cut in the middle beyond 30 characters.

    >>> short_name("skill:code-review:main"), short_name("file:workspace:src/a.py")
    ('code-review', 'src/a.py')
    >>> short_name("file:workspace:tests/fixtures/imports/legacy_customers.csv")
    'tests/fi…/legacy_customers.csv'
    >>> short_name("memory:lesson:migrations-need-a-lock-timeout-of-5s")
    'lesson:migra…ock-timeout-of-5s'
    """
    name = plain(full_name(key))
    is_path = key.startswith("file:") and "/" in name
    return _cut_path(name) if is_path else cut_middle(name)


def full_name(key: str) -> str:
    """Return an arm's name without what its chip says and without the category that says nothing, uncut.

    >>> full_name("tool:fs:Read"), full_name("file:docs:x.md")
    ('fs:Read', 'docs:x.md')
    >>> full_name("tool:other:get_order"), full_name("tool:other:fs:Read"), full_name("tool:other:")
    ('get_order', 'other:fs:Read', 'other:')
    """
    if key.startswith("skill:") and key.endswith(":main"):
        return key[len("skill:") : -len(":main")]
    if key.startswith("file:workspace:"):
        return key[len("file:workspace:") :]
    name = key.split(":", 1)[-1]
    bare = name.removeprefix(_NO_CATEGORY)
    return bare if bare and ":" not in bare else name  # or it would look like one of that category


def last_name(key: str) -> str:
    """Return the shortest name for a title: what follows the last colon or slash, cut in the middle.

    >>> last_name("tool:exec:Bash"), last_name("file:workspace:tests/x/legacy.csv")
    ('Bash', 'legacy.csv')
    """
    name = full_name(key)
    tail = name.rstrip("/:").rsplit("/", 1)[-1] if key.startswith("file:") else name.split(":", 1)[-1]
    return cut_middle(plain(tail or name))


def short(text: str, room: int = 40) -> Markdown:
    """Foreign text for Markdown, the middle left out where it is long.

    >>> short("0123456789", 5)
    '01…89'
    """
    return literal(cut_middle(plain(text), room))


def cut_middle(name: str, room: int = NAME_CHARS) -> str:
    if len(name) <= room:
        return name
    front = round((room - 1) * 0.4)
    return f"{name[:front]}…{name[-(room - 1 - front) :]}"


def _cut_path(name: str) -> str:
    if len(name) <= NAME_CHARS:
        return name
    tail = "/" + name.rsplit("/", 1)[-1]
    front = max(NAME_CHARS - 1 - len(tail), 0)
    return f"{name[:front]}…{tail}" if front >= 4 else cut_middle(name)


def chip(key_type: ArmType, colour: Words) -> Words:
    """Return the type as a chip in Markdown; both parts are our own words.

    >>> chip("tool", "blue")
    ':blue-badge[tool]'
    """
    return f":{colour}-badge[{key_type}]"


# Numbers


def count(number: float | None) -> Words:
    """Return a count with thousands separated; None is unknown.

    >>> count(3012), count(-4), count(0), count(None)
    ('3,012', '−4', '0', '–')
    """
    return MISSING if number is None else signed_minus(f"{number:,.0f}")


def number_word(number: int) -> Words:
    """Return small counts as words, for sentences.

    >>> number_word(3), number_word(12)
    ('three', '12')
    """
    return Words(_WORDS[number] if 0 <= number < len(_WORDS) else count(number))


def capital(text: Rendered) -> Rendered:
    """Return the text with a capital first letter, the rest as it is.

    >>> capital("three have")
    'Three have'
    """
    raised: Any = text[:1].upper() + text[1:]
    return cast("Rendered", raised)


def without_stop(text: Rendered) -> Rendered:
    """Return a sentence without its full stop, to go on with it.

    >>> without_stop("It saves 21%.")
    'It saves 21%'
    """
    shorter: Any = text.removesuffix(".")
    return cast("Rendered", shorter)


def things(number: int, one: Words, many: Words | None = None) -> Words:
    """Return a count with its noun.

    >>> things(1, "arm"), things(3012, "run"), things(2, "memory", "memories")
    ('1 arm', '3,012 runs', '2 memories')
    """
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def exact(micro: int, sign: Literal["", "+"] = "") -> Words:
    """Return millionths as an exact decimal, on request with its sign.

    >>> exact(333_333), exact(12_500_000), exact(1_500_000, "+"), exact(-2_000_000, "+"), exact(1, "+")
    ('0.333333', '12.5', '+1.5', '−2', '+0.000001')
    """
    return signed_minus(Words(f"{Decimal(micro) / MICRO:{sign},f}"))


def mean(value: float | None, decimals: int = 2) -> Words:
    """Return a posterior mean, which is never quite 0 or 1; None is unknown.

    >>> mean(0.5166), mean(0.9987), mean(0.9987, 3), mean(0.001)
    ('0.52', '> 0.99', '0.999', '< 0.01')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    step = 10.0**-decimals
    written = f"{value:.{decimals}f}"
    if float(written) >= 1:
        return f"> {1 - step:.{decimals}f}"
    return f"< {step:.{decimals}f}" if float(written) <= 0 else written


def means(before: float, after: float) -> tuple[Words, Words]:
    """Return two means to compare: two decimals, three or four where two would make them look the same.

    >>> means(0.52, 0.5), means(0.5234, 0.5226), means(0.5, 0.5)
    (('0.52', '0.50'), ('0.5234', '0.5226'), ('0.50', '0.50'))
    """
    for decimals in (2, 3, 4):
        written = mean(before, decimals), mean(after, decimals)
        if written[0] != written[1]:
            return written
    return mean(before), mean(after)


def interval(lower: float | None, upper: float | None, decimals: int = 2) -> Words:
    """Return limits of a probability, rounded outwards; None is unknown.

    >>> interval(0.3267, 0.7241), interval(0.292, 0.9921)
    ('0.32–0.73', '0.29–1.00')
    """
    if lower is None or upper is None or not (math.isfinite(lower) and math.isfinite(upper)):
        return MISSING
    low, high = outwards(lower, upper, decimals)
    return f"{max(low, 0.0):.{decimals}f}–{min(high, 1.0):.{decimals}f}"


def outwards(lower: float, upper: float, decimals: int) -> tuple[float, float]:
    """Return limits rounded away from each other; a hair of tolerance keeps 0.3 from becoming 0.29.

    >>> outwards(0.3, 0.7, 2), outwards(-16.01, -7.49, 1)
    ((0.3, 0.7), (-16.1, -7.4))
    """
    scale, hair = 10.0**decimals, 1e-9
    low = math.floor(lower * scale + hair) / scale
    high = math.ceil(upper * scale - hair) / scale
    return low + 0.0, high + 0.0


def percent(share: float | None, decimals: int = 1) -> Words:
    """Return a share as per cent, without a space; None is unknown.

    >>> percent(0.3519), percent(0.1, 0), percent(-0.118), percent(None)
    ('35.2%', '10%', '−11.8%', '–')
    """
    return MISSING if share is None else signed_minus(f"{share * 100:.{decimals}f}%")


def percent_interval(lower_percent: float, upper_percent: float, decimals: int = 1) -> Words:
    """Return limits in per cent, rounded outwards; the unit is repeated where a sign needs it.

    >>> percent_interval(31.74, 38.46), percent_interval(-16.0, -7.41)
    ('31.7–38.5%', '−16.0% to −7.4%')
    """
    low, high = outwards(lower_percent, upper_percent, decimals)
    if low >= 0:
        return Words(f"{low:.{decimals}f}–{high:.{decimals}f}%")
    return signed_minus(f"{low:.{decimals}f}% to {high:.{decimals}f}%")


def count_interval(lower: float, upper: float) -> Words:
    """Return limits of an amount, rounded outwards to whole ones.

    >>> count_interval(5_540.2, 7_429.6), count_interval(-3.2, 10)
    ('5,540 to 7,430', '−4 to 10')
    """
    return f"{count(math.floor(lower))} to {count(math.ceil(upper))}"


def money(amount: float, currency: str, decimals: int | None = None) -> str:
    """Return an amount of money as plain text; a user chooses the currency, so it is foreign text.

    >>> money(1234.5, "$"), money(0.02134, "€"), money(-12, "EUR")
    ('$1,234.50', '€0.021', '−EUR 12.00')
    """
    return money_words(amount, currency, decimals, minus=MINUS)


def draw(number: float | None, reason: str | None) -> str:
    """Return a random draw for a cell, but not that of a seed: a seed is in without it.

    >>> draw(0.25, "selected"), draw(0.25, "seed"), draw(None, None)
    ('0.250', '–', '–')
    """
    return MISSING if number is None or reason == "seed" else f"{number:.3f}"


def money_interval(lower: float, upper: float, currency: str) -> str:
    """Return limits of an amount of money, rounded outwards.

    >>> money_interval(130.221, 175.099, "$"), money_interval(-0.0111, 0.0199, "$")
    ('$130.22 to $175.10', '−$0.012 to $0.020')
    """
    decimals = money_decimals(max(abs(lower), abs(upper)))
    low, high = outwards(lower, upper, decimals)
    return f"{money(low, currency, decimals)} to {money(high, currency, decimals)}"


def signed_minus(text: Words) -> Words:
    """Return hyphens before digits become real minus signs; a rounded zero loses its sign.

    >>> signed_minus("-3"), signed_minus("-0.0%")
    ('−3', '0.0%')
    """
    unsigned = re.sub(r"-(?=0(\.0+)?(?![\d.]))", "", text)
    return cast("Words", re.sub(r"-(?=[\d.])", MINUS, unsigned))


def change(delta: float | None, decimals: int = 0, unit: Literal["", "%"] = "") -> Words:
    """Return a change with its sign; no change is 0, None is unknown.

    >>> change(118), change(-0.02, 2), change(0.0, 2), change(-4.1, 1, "%")
    ('+118', '−0.02', '0', '−4.1%')
    """
    if delta is None:
        return MISSING
    written = f"{abs(delta):,.{decimals}f}"
    if float(written.replace(",", "")) == 0:
        return f"0{unit}"
    return f"{'+' if delta > 0 else MINUS}{written}{unit}"


def small_change(delta: float) -> Words:
    """Return a change of a mean: three decimals, more where they would hide it, "0" only for none.

    >>> small_change(0.0123), small_change(-0.0004), small_change(1e-7), small_change(0)
    ('+0.012', '−0.0004', 'under 0.0001', '0')
    """
    if delta == 0:
        return Words("0")
    if abs(delta) < 0.00005:
        return Words("under 0.0001")
    return change(delta, 3 if abs(delta) >= 0.0005 else 4)


def beta(alpha: float, beta_: float) -> Words:
    """Return a Beta distribution's parameters.

    >>> beta(1.0, 1.0), beta(2.5, 1.25)
    ('Beta(1, 1)', 'Beta(2.5, 1.25)')
    """
    return f"Beta({alpha:g}, {beta_:g})"


def state(name: ArmState) -> Words:
    """Return how an arm was in a prompt, with its mark.

    >>> state("by name")
    'by name'
    """
    return Words({"in full": "✓ in", "by name": "by name", "out": "× out"}[name])


def band(name: Band) -> Words:
    """Return a confidence band as dots and word.

    >>> band("medium")
    '●●○○ medium'
    """
    return f"{BAND_DOTS[name]} {BAND_WORDS[name]}"


def size(n_bytes: int) -> Words:
    """Return a file's size.

    >>> size(812), size(1_240_000)
    ('812 bytes', '1.2 MB')
    """
    if n_bytes < 1_000:
        return things(n_bytes, "byte")
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= scale:
            return f"{n_bytes / scale:,.1f} {unit}"
    return f"{n_bytes / 1e3:,.1f} kB"


def reward(value: float) -> Words:
    """Return a reward with its mark: filled for 1, a cross for 0, a diamond for anything between.

    >>> reward(1.0), reward(0.0), reward(0.5)
    ('● 1.0', '× 0.0', '◆ 0.5')
    """
    mark = "●" if value == 1 else "×" if value == 0 else "◆"
    return f"{mark} {value:.1f}" if round(value, 1) == value else f"{mark} {value:g}"


def paid(value: float) -> Words:
    """Return an environment's payment or sum: two decimals, more where needed, six at most.

    >>> paid(1.0), paid(-0.05), paid(0.6714285714), paid(2_140_000), paid(1e-9), paid(0.0)
    ('1.00', '−0.05', '0.671429', '2,140,000.00', '1e−09', '0.00')
    """
    if value and not 1e-6 <= abs(value) < 1e9:
        return signed_minus(f"{value:.4g}").replace("e-", f"e{MINUS}")
    written = f"{value:,.6f}"
    return signed_minus(written[:-6] + written[-6:].rstrip("0").ljust(2, "0"))


# Time


def minute(at_ms: int | None, *, year_of_ms: int | None = None) -> Words:
    """Return day and minute in UTC, with the year where it differs. A header names the zone once.

    >>> minute(1_763_630_000_000), minute(None)
    ('20 Nov 2025 09:13', '–')
    >>> minute(1_763_630_000_000, year_of_ms=1_763_000_000_000)
    '20 Nov 09:13'
    """
    if at_ms is None or at_ms < 0:
        return MISSING
    at = instant(at_ms)
    return f"{day(at_ms, year_of_ms=year_of_ms)} {at:%H:%M}"


def written_minute(at: str | None, *, year_of_ms: int | None = None) -> Words:
    """Return the same of a time in ISO 8601, as answers have it.

    >>> written_minute("2025-11-20T09:13:20.000Z"), written_minute(None)
    ('20 Nov 2025 09:13', '–')
    """
    at_ms = None if at is None else round(datetime.fromisoformat(at).timestamp() * 1000)
    return minute(at_ms, year_of_ms=year_of_ms)


def day(at_ms: int | None, *, year_of_ms: int | None = None) -> Words:
    """Return a day in UTC.

    >>> day(1_763_630_000_000, year_of_ms=1_763_000_000_000)
    '20 Nov'
    """
    if at_ms is None or at_ms < 0:
        return MISSING
    at = instant(at_ms)
    written = f"{at.day} {at:%b}"
    same_year = year_of_ms is not None and instant(year_of_ms).year == at.year
    return written if same_year else f"{written} {at.year}"


def month(at_ms: int) -> Words:
    """Return the name of a month, UTC.

    >>> month(1_763_630_000_000)
    'November'
    """
    return Words(f"{instant(at_ms):%B}")


def day_near(at_ms: int, now_ms: int) -> Words:
    """Return a day in UTC, with its year if it is 60 days or more away.

    >>> day_near(1_763_630_000_000, 1_764_000_000_000), day_near(1_763_630_000_000, 1_769_000_000_000)
    ('20 Nov', '20 Nov 2025')
    """
    is_near = abs(now_ms - at_ms) < _NEAR_DAYS * DAY_MS
    return day(at_ms, year_of_ms=at_ms if is_near else None)


def ago(at_ms: int, now_ms: int) -> Words:
    """Return how long ago a time was; after some hours its day and minute.

    >>> now = 1_763_630_000_000
    >>> [ago(now - seconds * 1000, now) for seconds in (3, 70, 600, 7_200, 100_000)]
    ['just now', 'a minute ago', '10 minutes ago', '2 hours ago', 'on 19 Nov 05:26 UTC']
    """
    minutes = max(now_ms - at_ms, 0) // 60_000
    if minutes < 1:
        return Words("just now")
    if minutes < 60:
        return Words("a minute ago" if minutes == 1 else f"{minutes} minutes ago")
    if minutes < 12 * 60:
        return Words("an hour ago" if minutes < 120 else f"{minutes // 60} hours ago")
    return f"on {minute(at_ms, year_of_ms=now_ms)} UTC"


def since(at_ms: int, *, year_of_ms: int | None = None) -> Words:
    """Return the time from which something holds: a day where it began with one, else with its minute.

    >>> since(1_763_596_800_000, year_of_ms=0), since(1_763_632_800_000, year_of_ms=1_763_000_000_000)
    ('20 Nov 2025', '20 Nov 10:00')
    """
    words = minute if at_ms % DAY_MS else day
    return words(at_ms, year_of_ms=year_of_ms)


# Lists


def listed(names: Sequence[Text]) -> Text:
    """Return names joined as in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
