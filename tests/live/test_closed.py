# SPDX-License-Identifier: Apache-2.0
"""Pages of a stack that are closed while something further in allocates: no read of the stepper may fault in the program."""
import pytest

WAYS = ["mprotect", "syscall", "other", "pkey", "guard", "fixed", "unmapped"]


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
