"""Demo: a planted-truth world, seeded, in a database of its own, made through the real flows."""

from core.demo.build import DEFAULT_SEED, DemoAnswer, build
from core.demo.environments import ENVIRONMENTS, World
from core.demo.play import Played, play, play_on
from core.demo.world import END_MS, LEARNER, N_RUNS, START_MS, seed_of, truth
