"""Writes golden.json: Beta quantities to 60 digits, by means that share nothing with the code under test.

    python tests/posterior/make_golden.py

The distribution function is summed from its positive series at 60 digits (mpmath's own `betainc` is not
relied on at the extremes). Two things are checked before a number is written:

* the series for (alpha, beta, x) and for (beta, alpha, 1 - x), summed separately, add up to 1;
* a quantile is bracketed: the function lies below the target just left of it and above just right of it.

Where mpmath's `betainc` is dependable (moderate parameters) it must agree as well.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

from mpmath import mp, mpf  # type: ignore[import-untyped]  # it ships no types
from scipy.special import betaincinv

mp.dps = 60
DIGITS: Final = 25
TINY: Final = mpf(10) ** -45
EXTREMES: Final = (
    (1.0, 1.0),
    (3.0, 1.0),
    (1.0, 3.0),
    (2.0, 2.0),
    (2.0, 5.0),
    (0.5, 0.5),
    (0.2, 0.7),
    (0.9, 40.0),
    (53.0, 1.0),
    (50.0, 50.0),
    (100.25, 3.75),
    (0.01, 5.0),
    (5.0, 0.01),
    (0.01, 0.01),
    (0.005, 1.0),
    (0.001, 2.0),
    (0.001, 1000.0),
    (1e-6, 1.0),
    (1.0, 1e-6),
    (1e-6, 1e-6),
    (1e-6, 1e7),
    (1e7, 1e-6),
    (0.01, 1e7),
    (1e7, 0.01),
    (1.000001, 1.0),
    (1.0, 1.000001),
    (1.000001, 50.0),
    (50.0, 1.000001),
    (1.001, 1.001),
    (1.5, 1e4),
    (1000.0, 1.0),
    (999.999, 1000.001),
    (1.0, 1e7),
    (1e7, 1.0),
    (3.0, 1e7),
    (1e7, 2.5),
    (1e5, 1e7),
    (123456.789, 7654321.0),
    (1e7, 9.99e6),
    (1e7, 1e7),
    # Where SciPy is off the most: whole numbers far apart, a limit on the flat stretch between the ends.
    (1000.0, 341703.0),
    (1000.0, 2448385.0),
    (2448385.0, 1000.0),
    (2e-6, 7.8e-5),
)
POINTS: Final = (0.0, 1e-300, 1e-9, 0.025, 0.5, 0.9, 0.999999, 1.0)


def pairs() -> list[tuple[float, float]]:
    """The extremes, and 60 pairs in millionths spread evenly over the logarithms."""
    chance = random.Random(20261120)
    drawn = [
        (round(10 ** chance.uniform(-3, 5), 6), round(10 ** chance.uniform(-3, 5), 6)) for _ in range(60)
    ]
    return [*EXTREMES, *drawn]


def log_beta(a: mpf, b: mpf) -> mpf:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def log_density(a: mpf, b: mpf, log_x: mpf, log_y: mpf) -> mpf:
    return (a - 1) * log_x + (b - 1) * log_y - log_beta(a, b)


def series(a: mpf, b: mpf, log_x: mpf, log_y: mpf) -> mpf:
    """I_x(a, b), every term positive, so that nothing cancels."""
    x = mp.exp(log_x)
    term = total = mpf(1)
    n = 0
    while term > total * mpf(10) ** -62 or (a + b + n) * x >= a + 1 + n:
        term *= (a + b + n) * x / (a + 1 + n)
        total += term
        n += 1
    return mp.exp(a * log_x + b * log_y - mp.log(a) - log_beta(a, b)) * total


def n_terms(a: mpf, b: mpf, x: mpf) -> mpf:
    """Roughly how many terms the series takes: up to its largest term, and down again."""
    rise = max(mpf(0), ((a + b) * x - a - 1) / (1 - x))
    return 2 * rise - 140 / mp.log(x)


def below(a: mpf, b: mpf, log_x: mpf) -> mpf:
    """I_x(a, b), by whichever series is the shorter."""
    x = mp.exp(log_x)
    log_y = mp.log1p(-x)
    if log_x < -100 or n_terms(a, b, x) <= n_terms(b, a, 1 - x):
        return series(a, b, log_x, log_y)
    return 1 - series(b, a, log_y, log_x)


def check_sides(a: mpf, b: mpf, log_x: mpf) -> None:
    """Both series add up to 1 (only where neither takes millions of terms)."""
    x = mp.exp(log_x)
    if not mpf("1e-3") < x < 1 - mpf("1e-3") or a + b > 3000:
        return
    log_y = mp.log1p(-x)
    assert abs(series(a, b, log_x, log_y) + series(b, a, log_y, log_x) - 1) < TINY
    if a > mpf("0.05") and b > mpf("0.05"):
        assert abs(mp.betainc(a, b, 0, x, regularized=True) - below(a, b, log_x)) < TINY


def log_quantile(a: mpf, b: mpf, p: mpf) -> mpf:
    """log x with I_x(a, b) = p, for a quantile at or below about one half; bracketed before it is trusted."""
    start = float(betaincinv(float(a), float(b), float(p)))
    log_x = mp.log(mpf(start)) if start > 1e-290 else (mp.log(p) + mp.log(a) + log_beta(a, b)) / a
    for _ in range(60):
        mass = below(a, b, log_x)
        slope = mp.exp(log_density(a, b, log_x, mp.log1p(-mp.exp(log_x))) + log_x) / mass
        step = (mp.log(mass) - mp.log(p)) / slope
        log_x -= step
        if abs(step) < mpf(10) ** -50 * max(1, abs(log_x)):
            break
    width = mpf(10) ** -40 * max(1, abs(log_x))
    assert below(a, b, log_x - width) < p < below(a, b, log_x + width), (a, b, p)
    check_sides(a, b, log_x)
    return log_x


def quantile(a: mpf, b: mpf, p: mpf) -> mpf:
    """x with I_x(a, b) = p, measured from the nearer end so that nothing cancels."""
    if a <= b or betaincinv(float(a), float(b), float(p)) < 0.5:
        middle = below(a, b, mp.log(mpf("0.5")))
        if p <= middle:
            return mp.exp(log_quantile(a, b, p))
        return 1 - mp.exp(log_quantile(b, a, 1 - p))
    return 1 - quantile(b, a, 1 - p)


def text(value: mpf | None) -> str | None:
    return None if value is None else mp.nstr(value, DIGITS, min_fixed=0, max_fixed=0)


def density_text(a: mpf, b: mpf, point: float) -> str | None:
    """The log of the density, None where it is not finite."""
    x = mpf(point)
    if x in (0, 1):
        return None
    return text(log_density(a, b, mp.log(x), mp.log1p(-x)))


def case(alpha: float, beta: float) -> dict[str, Any]:
    a, b = mpf(alpha), mpf(beta)
    limits = {str(p): text(quantile(a, b, mpf(p))) for p in (0.025, 0.975)}
    near = [float(mpf(value)) for value in limits.values() if value is not None]
    points = [*POINTS, *(point for point in near if 0 < point < 1)]
    return {
        "alpha": alpha,
        "beta": beta,
        "mean": text(a / (a + b)),
        "variance": text(a * b / ((a + b) ** 2 * (a + b + 1))),
        "lower": limits["0.025"],
        "upper": limits["0.975"],
        "log_density": [[point, density_text(a, b, point)] for point in points],
    }


def main() -> None:
    cases = [case(alpha, beta) for alpha, beta in pairs()]
    target = Path(__file__).with_name("golden.json")
    target.write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
