#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renew golden files after looking at the difference. usage: bless.py NAME... (folders of tests/golden)"""
import os
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
if len(sys.argv) < 2:
    sys.exit(__doc__)
for name in sys.argv[1:]:
    case = os.path.join(ROOT, "tests", "golden", name)
    if not os.path.isdir(case):
        sys.exit(f"bless: no golden case '{name}'")
    if not os.path.exists(os.path.join(ROOT, "build", "byteledger")):
        sys.exit("bless: build/byteledger is not built")
    subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "golden.py"),
                    os.path.join(ROOT, "build", "byteledger"), case, "--bless"], check=True)
