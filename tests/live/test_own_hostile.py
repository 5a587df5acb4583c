# SPDX-License-Identifier: Apache-2.0
"""Programs with an allocator of their own that rely on what no calling convention grants, or hide what leads into its functions."""
import pytest

from test_own import grown, hooked # noqa: F401 (a fixture)


def test_registers_that_an_own_allocator_leaves_alone_are_left_alone(hooked, prog):
    seen, truth, _ = grown(hooked, lambda n: [prog("ownregs"), str(n)], 1, 20001)
    assert seen == truth
