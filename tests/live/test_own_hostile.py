# SPDX-License-Identifier: Apache-2.0
"""Programs with an allocator of their own that rely on what no calling convention grants, or hide what leads into its functions."""
import pytest

from test_own import grown, hooked, says # noqa: F401 (a fixture)


def test_registers_that_an_own_allocator_leaves_alone_are_left_alone(hooked, prog):
    seen, truth, _ = grown(hooked, lambda n: [prog("ownregs"), str(n)], 1, 20001)
    assert seen == truth


def test_a_function_that_begins_anew_needs_no_more_stack(hooked, prog):
    seen, truth, done = grown(hooked, lambda n: [prog("ownloops"), str(n)], 1, 21)
    assert seen == truth and says(done, "malloc of the executable is hooked, 4 functions")


def test_a_function_whose_other_part_leads_into_its_head_is_left_alone(hooked, prog):
    done = hooked([prog("owncold"), "100", "0"])
    assert done.truth[0] == 100 and done.seen["allocs"] == 0
    assert says(done, "malloc of the executable cannot be hooked: .*")
