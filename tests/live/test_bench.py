# SPDX-License-Identifier: Apache-2.0
"""
The benchmarks' judgement (scripts/bench/judge.py), held against series whose truth is known, and that a run is told whatever its
length. Nothing is measured here.
"""
import json
import math
import os
import random
import statistics
import subprocess
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, os.path.join(ROOT, "scripts", "bench"))
import judge  # noqa: E402


def noisy(seed, count, truth, slow=0.3, own=0.02):
    """Rounds in which the host's slowness, of @slow, is shared by the variants, and @own is each one's alone."""
    draw = random.Random(seed)
    rounds = []
    for _ in range(count):
        host = math.exp(draw.gauss(0, slow))
        rounds.append({v: t * host * math.exp(draw.gauss(0, own)) for v, t in truth.items()})
    return rounds


@pytest.fixture
def few_draws(monkeypatch):
    """Hundreds of series: a fifth of the drawings are enough to count how often the truth lies within."""
    monkeypatch.setattr(judge, "DRAWS", 400)


@pytest.mark.parametrize("count", [5, 9, 21])
def test_interval_holds_the_truth_as_often_as_it_says(count, few_draws):
    """Over 300 series the interval of 95 % must miss the known ratio rarely, and not never: an interval that is too wide is wrong too."""
    held = 0
    for seed in range(300):
        e = judge.estimate(noisy(seed, count, {"bare": 1.0, "ours": 1.04}), judge.over("ours", "bare"))
        held += e.low <= 1.04 <= e.high
    # a median of few rounds covers a little less than asked for; 0.90 and 0.99 are 3 standard deviations from 0.9375 and beyond
    assert 0.90 <= held / 300 <= 0.99, held


def test_interval_of_half_the_level_holds_the_truth_half_as_often(few_draws):
    held = 0
    for seed in range(300):
        e = judge.estimate(noisy(seed, 21, {"bare": 1.0, "ours": 1.04}), judge.over("ours", "bare"), level=0.5)
        held += e.low <= 1.04 <= e.high
    assert 0.38 <= held / 300 <= 0.65, held


def test_interval_narrows_with_the_root_of_the_rounds(few_draws):
    width = {}
    for count in (10, 160):
        found = [judge.estimate(noisy(seed, count, {"bare": 1.0, "ours": 1.1}), judge.over("ours", "bare")) for seed in range(30)]
        width[count] = statistics.fmean(e.high - e.low for e in found)
    assert 3 <= width[10] / width[160] <= 5.5, width  # 4 by the root of 16


def test_slow_minute_that_hits_a_whole_round_does_not_widen_a_ratio():
    rounds = noisy(3, 9, {"bare": 1.0, "ours": 1.04}, slow=1.0, own=0.0)
    assert max(r["bare"] for r in rounds) / min(r["bare"] for r in rounds) > 3
    e = judge.estimate(rounds, judge.over("ours", "bare"), bar=1.05)
    assert (round(e.low, 9), round(e.figure, 9), round(e.high, 9)) == (1.04, 1.04, 1.04)
    assert e.verdict == "met"


def test_what_is_added_is_compared_within_rounds():
    """Bare varies threefold, ours adds a tenth of what the peer adds in every round: nothing is left open."""
    rounds = noisy(4, 9, {"bare": 1.0, "ours": 1.1, "peer": 2.0}, slow=1.0, own=0.0)
    e = judge.estimate(rounds, judge.added_over("ours", "peer"), bar=0.25)
    assert (round(e.low, 9), round(e.figure, 9), round(e.high, 9)) == (0.1, 0.1, 0.1)
    # both halves from rounds of their own, as an unpaired comparison has them, would not know it
    mixed = [{**r, "ours": o["ours"]} for r, o in zip(rounds, rounds[1:] + rounds[:1])]
    loose = judge.estimate(mixed, judge.added_over("ours", "peer"), bar=0.25)
    assert loose.high - loose.low > 0.2 and loose.verdict == "not settled"


def test_interval_of_added_over_added_holds_the_truth(few_draws):
    held = 0
    for seed in range(300):
        rounds = noisy(seed, 11, {"bare": 1.0, "ours": 1.2, "peer": 2.0})
        e = judge.estimate(rounds, judge.added_over("ours", "peer"))
        held += e.low <= 0.2 <= e.high
    assert 0.90 <= held / 300 <= 0.99, held


def test_peer_that_adds_nothing_leaves_the_figure_open():
    """heaptrack lost in the noise of xz is no bar to hold anything against, whatever the drawings say that have it above zero."""
    rounds = [{"bare": 1.0, "ours": 1.001, "peer": p} for p in (0.99, 1.01, 0.98, 1.02, 0.995, 1.3, 0.97)]
    e = judge.estimate(rounds, judge.added_over("ours", "peer"), bar=0.25)
    assert e.figure is None and e.verdict == "not settled"
    said = json.loads(json.dumps(e.json(), allow_nan=False))
    assert said["interval"] == [None, None] and said["verdict"] == "not settled"


@pytest.mark.parametrize("low,high,count,said", [
    (1.00, 1.04, 5, "met"), (1.00, 1.05, 5, "met"), (1.00, 1.06, 5, "not settled"), (1.05, 1.06, 5, "not settled"),
    (1.051, 1.06, 5, "not met"), (1.00, 1.04, 4, "no verdict: fewer than 5 rounds"), (1.10, 1.20, 4, "no verdict: fewer than 5 rounds")])
def test_verdict_follows_the_interval(low, high, count, said):
    assert judge.verdict(low, high, 1.05, count) == said


def test_ends_leave_out_as_many_drawings_as_the_level_says():
    drawn = random.Random(1).sample(range(2000), 2000)
    assert judge.ends(drawn) == (50, 1949)
    assert judge.ends(drawn, 0.5) == (500, 1499)
    assert judge.ends(drawn[:1900] + [None] * 100, 0.95)[0] == -math.inf
    assert judge.ends([5.0] * 1990 + [None] * 10) == (5.0, 5.0)


def test_geometric_mean_draws_each_program_apart():
    """Programs measured one after the other share no minute: their errors partly cancel, as the same drawing for all would not show."""
    one = noisy(7, 15, {"bare": 1.0, "ours": 1.2, "peer": 2.0})
    alone = judge.geomean([one], judge.added_over("ours", "peer"), 0.25)
    four = judge.geomean([one] * 4, judge.added_over("ours", "peer"), 0.25)
    assert math.isclose(alone.figure, four.figure)
    assert 0.3 <= (four.high - four.low) / (alone.high - alone.low) <= 0.75  # 0.5 by the root of 4
    assert judge.geomean([one, [{"bare": 1.0, "ours": 1.2, "peer": 0.9}] * 9], judge.added_over("ours", "peer"), 0.25).verdict == "not settled"


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def play(plan, clock, settled, seconds=1.0):
    seen = []
    for number in plan.numbers(settled):
        seen.append(number)
        clock.now += seconds
    return seen


def test_rounds_are_as_many_as_asked_for_when_nothing_else_is_said():
    clock = Clock()
    plan = judge.Plan(5, clock=clock)
    assert play(plan, clock, lambda level: pytest.fail("nobody is to look")) == [0, 1, 2, 3, 4, 5]
    assert plan.level == 0.95


def test_more_rounds_until_settled_at_a_level_that_pays_for_every_look():
    clock, levels = Clock(), []
    plan = judge.Plan(5, 10, clock)
    seen = play(plan, clock, lambda level: levels.append(level) or len(levels) == 3)
    assert seen == list(range(41))  # looks at 10, 20 and 40
    assert levels == [0.975, 0.9875, 0.99375] and plan.level == levels[-1]
    assert sum(1 - level for level in levels) <= 0.05


def test_more_rounds_end_with_the_time():
    clock = Clock()
    plan = judge.Plan(10, 1, clock)
    assert play(plan, clock, lambda level: False, seconds=4) == list(range(15))  # 15 times 4 s; the first look was at 10
    assert plan.level == 0.9875


def test_run_that_goes_on_from_an_earlier_one_pays_for_its_looks():
    clock, levels = Clock(), []
    plan = judge.Plan(10, 10, clock, earlier=25, looks=2)
    seen = play(plan, clock, lambda level: levels.append(level) or True)
    assert seen == [0, *range(26, 41)]  # a look at the next doubling of 10 beyond 25
    assert levels == [1 - 0.05 / 8] and plan.looks == 3


def test_looking_again_and_again_does_not_raise_the_errors_above_the_level(monkeypatch):
    """The truth lies on the bar: a verdict "met" or "not met" is wrong either way, and may happen in 5 of 100 series."""
    monkeypatch.setattr(judge, "DRAWS", 800)
    wrong = 0
    for seed in range(120):
        rounds = noisy(seed, 64, {"bare": 1.0, "ours": 1.05})
        clock, seen = Clock(), []
        plan = judge.Plan(5, 1, clock)
        look = lambda level: judge.estimate(seen, judge.over("ours", "bare"), 1.05, level)
        for number in plan.numbers(lambda level: look(level).settled()):
            if number:
                seen.append(rounds[number - 1])
            clock.now += 60 / 64 if number else 0
        wrong += look(plan.level).settled()
    assert wrong / 120 <= 0.09, wrong


def test_neighbours_stay_neighbours_in_both_orders():
    assert judge.alternate({"ours": 1, "bare": 2, "peer": 3}, 1) == ["ours", "bare", "peer"]
    assert judge.alternate({"ours": 1, "bare": 2, "peer": 3}, 2) == ["peer", "bare", "ours"]


# In a process of its own: a run ends when its process has no children left.
SHORT = """
import os, sys
import measure
exe = os.path.realpath("/bin/true")
for _ in range(60):
    run = measure.run(["/bin/true"], exe=exe)
    assert run.status == 0 and run.traced > 0 and run.cpu_all > 0, vars(run)
"""


def test_a_program_that_ends_at_once_is_told_as_well():
    done = subprocess.run([sys.executable, "-c", SHORT], cwd=os.path.join(ROOT, "scripts", "bench"), capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr


AT_ONCE = """
import os
import measure, together, tools

class Work:
    goes_on = False
    def __init__(self, script):
        self.script = script
    def __call__(self):
        assert os.sched_getaffinity(0) == {max(everywhere)}, os.sched_getaffinity(0)
        return measure.run(["/bin/sh", "-c", "l() { i=0; while [ $i -lt $1 ]; do i=$((i+1)); done; }; " + self.script],
                           exe=os.path.realpath("/bin/sh"))

class Load(Work):
    goes_on, runs = True, 0
    def __call__(self):
        with open("%s", "a") as f:
            f.write("x")
        return super().__call__()

def broken():
    raise RuntimeError("no such tool")
broken.goes_on = False

def missing():
    raise tools.Missing("not installed")
missing.goes_on = False

everywhere = os.sched_getaffinity(0)
found = together.at_once({"much": Work("l 600000"), "orphan": Work("(l 600000) & exit 3"), "none": broken, "load": Load("l 20000")})
assert found["none"] == {}, found
assert (found["much"]["status"], found["orphan"]["status"]) == (0, 3), found
# what a command leaves behind is its own, and no other's
much, orphan = found["much"], found["orphan"]
assert orphan["traced"] < much["traced"] / 3 and orphan["all"] > much["traced"] / 3, found
assert much["traced"] <= much["all"] < much["traced"] * 1.3 + 0.05, found
try:
    together.at_once({"missing": missing})
except tools.Missing as why:
    assert str(why) == "not installed"
else:
    raise AssertionError("nothing is missing")
assert os.sched_getaffinity(0) == everywhere
"""


def test_variants_at_once_are_counted_apart(tmp_path):
    done = subprocess.run([sys.executable, "-c", AT_ONCE % (tmp_path / "runs")], cwd=os.path.join(ROOT, "scripts", "bench"),
                          capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "RuntimeError: no such tool\n")
    assert len((tmp_path / "runs").read_text()) > 3  # the load runs again until the others have ended


def test_the_list_of_what_is_to_be_shown_says_how_it_is_used():
    script = os.path.join(ROOT, "scripts", "acceptance.py")
    asked = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, timeout=60)
    assert asked.returncode == 0 and "usage: acceptance.py" in asked.stdout and not asked.stderr, asked.stderr
    wrong = subprocess.run([sys.executable, script, "--hlep"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2 and wrong.stderr == "acceptance.py: unknown option '--hlep'\nhint: acceptance.py --help\n"
