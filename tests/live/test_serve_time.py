# SPDX-License-Identifier: Apache-2.0
"""`serve`: what stands on the time axis besides the heap."""
import os
import subprocess

import pytest

from conftest import ROOT
from test_serve import Server

GOLDEN = os.path.join(ROOT, "tests", "golden", "data", "sheet.blt")
PARTS = ("anon", "file", "shmem", "swap")
KINDS = r"""
import mmap, sys, time
own = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
own[:] = b"x" * len(own)
time.sleep(0.4)
shared = mmap.mmap(-1, 24 << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
shared[:] = b"x" * len(shared)
time.sleep(0.4)
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum(mapped[::4096])
time.sleep(0.4)
own.close()
time.sleep(0.4)
"""


@pytest.fixture(scope="module")
def kinds(byteledger, installed, tmp_path_factory):
    """A program that takes 32 MiB of its own, then 24 shared, then 16 of a file, and gives its own back."""
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "data").write_bytes(os.urandom(1 << 20) * 16)
    subprocess.run([byteledger, "run", "-q", "-o", folder / "x.blt", "--", installed("python3"), "-c", KINDS, folder / "data"],
                   check=True, timeout=60)
    return folder / "x.blt"


def most(series):
    return max(filter(None, series["max"]), default=0)


def test_what_rss_consists_of_is_on_the_time_axis(byteledger, kinds):
    mib = 1 << 20
    with Server(byteledger, kinds) as server:
        line = server.get("timeline", series="rss,anon,file,shmem,swap")["series"]
        assert set(line) == {"rss", *PARTS}
        for at, rss in enumerate(line["rss"]["last"]):
            told = [line[name]["last"][at] for name in PARTS[:3]]
            assert told == [None] * 3 if rss is None else sum(told) == rss, at
        begun = {name: next(filter(None, line[name]["last"]), 0) for name in PARTS}
        steps = {name: most(line[name]) - begun[name] for name in PARTS}
        assert steps["anon"] > 31 * mib and steps["shmem"] > 23 * mib and steps["file"] > 15 * mib and steps["swap"] < mib
        assert line["anon"]["last"][-1] < most(line["anon"]) - 31 * mib  # given back
        # in this order, and each but the last until the end
        first = {name: next(i for i, high in enumerate(line[name]["max"]) if (high or 0) > begun[name] + (10 << 20)) for name in PARTS[:3]}
        assert first["anon"] < first["shmem"] < first["file"]
        all_there_are = server.get("timeline")["series"]
        assert set(PARTS) < set(all_there_are)
        assert server.get("timeline", points=3, series="anon")["series"]["anon"]["max"] == \
            [max(filter(None, part)) for part in thirds(line["anon"]["max"])]


def thirds(values):
    """As the server puts points together."""
    parts = [[], [], []]
    for i, value in enumerate(values):
        parts[i * 3 // len(values)].append(value)
    return parts


def test_recordings_of_before_say_so(byteledger):
    with Server(byteledger, GOLDEN) as server:
        line = server.get("timeline", series="rss,anon,swap")
        assert set(line["series"]) == {"rss"} and any(line["series"]["rss"]["last"])
        assert line["unapplied"] == [{"word": "series=anon,file,shmem,swap", "why": "this recording does not say what RSS consists of"}]
        assert not set(PARTS) & set(server.get("timeline")["series"])
