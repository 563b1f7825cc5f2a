"""Inclusion: each arm's chance to be in the next prompt, and its break-even mean."""

from core.maths.statistics.inclusion.chances import STANDARD_ERROR, Chance, Chances, inclusion_chances
