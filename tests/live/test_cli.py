# SPDX-License-Identifier: Apache-2.0
"""The command line itself."""
import subprocess


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


def test_help_goes_to_stdout_and_succeeds(byteledger):
    done = run(byteledger, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: byteledger COMMAND")
    assert done.stderr == ""


def test_no_command_is_a_usage_error_on_stderr(byteledger):
    done = run(byteledger)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage:" in done.stderr


def test_an_unknown_command_is_refused_with_status_2_and_a_hint(byteledger):
    done = run(byteledger, "frobnicate")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "byteledger: unknown command 'frobnicate'"
    assert done.stderr.splitlines()[1].startswith("hint: ")


def test_commands_of_later_versions_do_not_exist_yet(byteledger):
    listed = run(byteledger, "--help").stdout
    for name in ("serve", "pages", "sample", "explain", "gather"):
        assert f"\n  {name} " not in listed
        assert run(byteledger, name, "--help").returncode == 2
