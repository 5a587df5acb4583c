# SPDX-License-Identifier: Apache-2.0
"""What a series of rounds says: a figure, the interval in which it can be trusted, and the verdict against a bar.

A round holds one run of every variant, close together. Rounds are drawn again as wholes, so that a slow minute, which hits all
variants of its round, cannot widen a ratio; the interval is the middle 95 % of the figure over such drawings. It leaves a bar on
one side, or the figure is not settled. docs/decisions/0003 says why the spread of the bare program does not decide.
"""
import math
import random
import statistics
import time

DRAWS = 2000
LEVEL = 0.95
ROUNDS_MIN = 5
LOOK_MIN = 10  # of fewer rounds the widest interval there is, least to greatest, holds the truth too seldom to be looked at twice


def rows(series):
    """{variant: [value of round 1, ...]} -> [{variant: value}, ...], a round each."""
    return [dict(zip(series, values)) for values in zip(*series.values())]


def over(a, b):
    """The figure "a over b": the median of the rounds' own ratios."""
    return lambda rounds: statistics.median(r[a] / r[b] for r in rounds)


def added_over(ours, peer, bare="bare"):
    """The figure "what ours adds over what the peer adds", medians of differences within a round; None where the peer adds nothing."""
    def figure(rounds):
        theirs = statistics.median(r[peer] - r[bare] for r in rounds)
        return statistics.median(r[ours] - r[bare] for r in rounds) / theirs if theirs > 0 else None
    return figure


def draws(rounds, figure, seed=1):
    """The figure of DRAWS resamplings of the rounds."""
    draw = random.Random(seed)
    return [figure(draw.choices(rounds, k=len(rounds))) for _ in range(DRAWS)]


def ends(drawn, level=LEVEL):
    """Both ends of the middle of @drawn. What is undefined in a drawing could be anything: it lies beyond both ends."""
    skip = math.floor(len(drawn) * (1 - level) / 2 + 1e-9)
    low = sorted(-math.inf if d is None else d for d in drawn)[skip]
    high = sorted(math.inf if d is None else d for d in drawn)[len(drawn) - 1 - skip]
    return low, high


def verdict(low, high, bar, count):
    if count < ROUNDS_MIN:
        return f"no verdict: fewer than {ROUNDS_MIN} rounds"
    return "met" if high <= bar else "not met" if low > bar else "not settled"


def remark(spread):
    """What stands beside a verdict where the bare program of the same run was not calm; the interval has taken it into account."""
    return "; not judged: bare varies by more than 20 %" if spread > 0.2 else ""


class Estimate:
    """A figure with its interval, and the verdict where there is a bar."""

    def __init__(self, figure, drawn, count, bar=None, level=LEVEL):
        self.figure, self.count, self.bar, self.level = figure, count, bar, level
        self.low, self.high = ends(drawn, level)
        self.verdict = verdict(self.low, self.high, bar, count) if bar is not None else None

    def settled(self):
        return self.verdict in ("met", "not met")

    def json(self):
        finite = lambda x: x if x is not None and math.isfinite(x) else None
        return {"figure": self.figure, "interval": [finite(self.low), finite(self.high)], "level": self.level, "rounds": self.count,
                "bar": self.bar, "verdict": self.verdict}

    def text(self, digits=3):
        show = lambda x: f"{x:.{digits}f}" if x is not None and math.isfinite(x) else "-"
        return f"{show(self.figure)} ({show(self.low)} to {show(self.high)})"


def estimate(rounds, figure, bar=None, level=LEVEL):
    return Estimate(figure(rounds), draws(rounds, figure), len(rounds), bar, level)


def geomean(groups, figure, bar, level=LEVEL):
    """The geometric mean of one figure over programs, each with rounds of its own, drawn apart. At least 0.001 each: a logarithm."""
    def mean(values):
        return None if None in values else math.exp(statistics.fmean(math.log(max(v, 1e-3)) for v in values))
    drawn = [draws(rounds, figure, seed) for seed, rounds in enumerate(groups, 1)]
    return Estimate(mean([figure(rounds) for rounds in groups]), [mean(values) for values in zip(*drawn)], min(map(len, groups)), bar, level)


class Plan:
    """How many rounds: as many as asked for; or, with @minutes, more of them until the figure is settled or time is up.

    Who looks often enough sees what he likes at last. So a look happens only when the rounds have doubled, and the looks share
    the 5 % of error between them: a half, a quarter, an eighth. `level` is the one that the last look has to use. @earlier: rounds
    of a run that this one goes on from; its looks have taken their part.
    """

    def __init__(self, rounds, minutes=None, clock=time.monotonic, earlier=0, looks=0):
        self.minutes, self.clock, self.level = minutes, clock, LEVEL
        self.rounds = max(rounds, LOOK_MIN) if minutes else rounds
        self.earlier, self.looks = earlier, looks

    def numbers(self, settled):
        """0, the round that warms up and does not count, then 1, 2, ...; settled(level) is asked at each look."""
        target, number, late = self.rounds, self.earlier, False
        while target <= number:
            target *= 2
        end = self.clock() + 60 * (self.minutes or 0)
        yield 0
        while True:
            while number < target and not late:
                number += 1
                yield number
                late = bool(self.minutes) and self.clock() >= end
            if not self.minutes:
                return
            self.looks += 1
            self.level = 1 - (1 - LEVEL) / 2 ** self.looks
            if late or settled(self.level):
                return
            target *= 2


def alternate(variants, number):
    """The variants as listed, then backwards, so that neighbours stay neighbours and a drift cancels out of two rounds."""
    return list(variants) if number % 2 else list(variants)[::-1]
