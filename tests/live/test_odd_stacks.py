# SPDX-License-Identifier: Apache-2.0
"""Odd stacks: pages that are closed while something further in allocates, where no read of ours may fault; large frames."""
import resource

import pytest

WAYS = ["mprotect", "syscall", "raw", "other", "pkey", "guard", "fixed", "unmapped"]


@pytest.mark.parametrize("where", [[], ["thread"]], ids=["main", "thread"])
@pytest.mark.parametrize("how", WAYS)
def test_a_closed_page_of_outer_frames_ends_the_stack_and_not_the_program(record, prog, tmp_path, how, where):
    done = record([prog("closed"), how, *where])
    if done.returncode == 77:
        pytest.skip(f"this kernel or processor has no {how}")
    assert (done.returncode, done.stdout) == (0, b"alive\n"), done.stderr
    report = done.report()
    # its own 111 calls, and what libc allocates for threads
    assert 111 <= report["totals"]["allocations"] <= 114 and report["totals"]["frees"] == 111, report["totals"]
    assert report["lost"]["events"] == 0
    partial = report["partial_stacks"]
    if [how, where] != ["unmapped", []]: # the kernel grows the main stack into the gap: zeros, which end a stack
        # what was allocated while the page was closed, and nothing else
        assert partial == {"events": 45, "by_reason": {"unreadable": 45}}, partial


def test_frames_of_a_megabyte_cost_no_more_than_small_ones(record, prog):
    def spent(name):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = record([prog(name), "300000"])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = done.report()
        assert {row["allocated_bytes"]: [f["function"] for f in row["frames"] if (f["file"] or "").endswith("bigframe.c")] for row in report["rows"]} == {
            30000000: ["pairs", "main"],
            60000000: ["pairs", "inner", "main"]}
        assert report["partial_stacks"]["events"] == 0
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    big, small = (min(spent(name) for _ in range(3)) for name in ("bigframe", "smallframe"))
    # where the frame's size does not fit into a recipe, nothing of such a stack is remembered: fifty times as much
    assert big < 4 * small, (big, small)
