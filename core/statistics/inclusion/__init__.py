"""Inclusion: each arm's chance to be in the next prompt, and what it would have to be worth."""

from core.statistics.inclusion.chances import STANDARD_ERROR, Chance, Chances, inclusion_chances
