# SPDX-License-Identifier: Apache-2.0
"""The command line itself."""
import json
import os
import re
import subprocess

from conftest import ROOT


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


def test_help_before_a_command_is_its_help(byteledger):
    for name in ("run", "net"):
        assert run(byteledger, "help", name).stdout == run(byteledger, name, "--help").stdout != ""
    assert run(byteledger, "help", "nonsense").returncode == 2


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
    for name in ("pages", "sample", "explain", "top", "gather", "strip", "merge", "extract", "postprocess"):
        assert (f"\n  {name} " in listed) == (run(byteledger, name, "--help").returncode == 0), name


def test_what_cannot_be_done_comes_with_a_hint(byteledger, tmp_path):
    (tmp_path / "text").write_text("words")
    subprocess.run([byteledger, "run", "-q", "-o", str(tmp_path / "a.blt"), "--", "true"], check=True, timeout=60)
    for status, *argv in (127, "run", "--", "no-such-program"), (127, "heap", "--", "/no/such/program"), \
            (126, "run", "--", str(tmp_path / "text")), (126, "run", "--", str(tmp_path)), \
            (1, "import", str(tmp_path / "a.blt"), "-o", str(tmp_path / "b.blt")), (2, "report", "--limit", "0", "a.blt"):
        done = run(byteledger, *argv)
        first, second = done.stderr.splitlines()
        assert (done.returncode, first[:12], second[:6]) == (status, "byteledger: ", "hint: "), argv


def test_no_error_is_without_a_hint(byteledger, tmp_path):
    subprocess.run([byteledger, "run", "-q", "-o", str(tmp_path / "a.blt"), "--", "ls"], check=True, timeout=60, capture_output=True)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    good = (tmp_path / "a.blt").read_bytes()
    (tmp_path / "newer").write_bytes(good[:8] + b"\xff" * 8 + good[16:])
    (tmp_path / "head").write_bytes(good[:20])
    bad = ["none", "empty", "folder", "loop", "newer", "head", "a.blt/b", "x" * 300]
    reads = [["report"], ["report", "--format", "json"], ["export", "--to", "folded"], ["export", "--to", "dhat"], ["info"],
             ["info", "--files"], ["import", "-o", "out"]]
    tried = [[*command, name] for command in reads for name in bad]
    tried += [["export", "--to", "json", "-o", to, "a.blt"] for to in ("none/out", "folder", "a.blt", "loop/out", "/proc/out", "x" * 300)]
    tried += [["report", "--store-symbols", "none"], ["regions", "-p", "999999999"], ["regions", "-p", "1", "--diff", "none"],
              ["run", "-o", "-", "--", "true"], ["heap", "-o", "/dev/null", "--", "true"], ["heap", "-o", "folder/none/", "--", "true"], ["run", "-o", "none/x", "--", "true"],
              ["import", "a.blt", "-o", "none/x"]]
    failed = 0
    for argv in tried:
        done = subprocess.run([byteledger, *argv], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        lines = [line for line in done.stderr.splitlines() if line]
        if done.returncode == 0 and argv[0] not in ("run", "heap"):
            continue
        failed += 1
        at = next((i for i, line in enumerate(lines) if line.startswith("byteledger: ")), None)
        assert at is not None and lines[at + 1:at + 2] and lines[at + 1].startswith("hint: ") and len(lines[at + 1]) > 15, (argv, done.stderr)
    assert failed > 50


def test_one_file_is_asked_for_and_two_are_refused(byteledger):
    for command in (["report"], ["export", "--to", "json"], ["info"], ["import", "-o", "x"]):
        assert "which file?" in run(byteledger, *command).stderr
        done = run(byteledger, *command, "a", "b")
        assert done.returncode == 2
        assert "not 'a' and 'b'" in done.stderr


def test_no_message_sends_what_a_name_holds_to_the_terminal(byteledger, tmp_path):
    def told(*argv, status=0):
        done = subprocess.run([byteledger, *argv], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == status and "\x1b" not in done.stderr, done.stderr
        return [line for line in done.stderr.splitlines() if "\\x1b[31m" in line]
    # above it stands a report on stderr
    assert told("run", "-o", "r\x1b[31m.blt", "--", "ls") == ["byteledger: recorded into 'r\\x1b[31m.blt'"]
    (tmp_path / "cut\x1b[31m.blt").write_bytes((tmp_path / "r\x1b[31m.blt").read_bytes()[:-60])
    for command in (["report"], ["export", "--to", "folded"]):
        assert told(*command, "cut\x1b[31m.blt") == ["byteledger: 'cut\\x1b[31m.blt' ends early: read up to its last whole block"]
        assert told(*command, "cut\x1b[31m.blt", "more", status=2) == \
            ["byteledger: one file at a time, not 'cut\\x1b[31m.blt' and 'more'"]
    told("export", "--to", "heaptrack", "-o", "h\x1b[31m", "r\x1b[31m.blt")
    (tmp_path / "h\x1b[31m").write_bytes((tmp_path / "h\x1b[31m").read_bytes()[:-1])
    assert told("import", "h\x1b[31m", "-o", "h.blt")[0].startswith("byteledger: 'h\\x1b[31m': last line")
    assert told("import", "h\x1b[31m", "-o", "r\x1b[31m.blt")[1:] == ["byteledger: written to 'r\\x1b[31m.blt.1'"]
    assert told("info", "h\x1b[31m")
    (tmp_path / "e\x1b[31m").symlink_to("/bin/true")
    assert told("run", "-o", "e.blt", "--format", "json", "--", "./e\x1b[31m") == \
        ["byteledger: no allocation of './e\\x1b[31m' was seen"]
    assert told("\x1b[31m", status=2) == ["byteledger: unknown command '\\x1b[31m'"]


def test_behind_the_dashes_stand_arguments(byteledger, tmp_path):
    recording = tmp_path / "-a.blt"
    subprocess.run([byteledger, "heap", "-q", "-o", str(recording), "--", "perl", "-e", "exit 3"], check=False)
    for command in ("report", "info"):
        done = subprocess.run([byteledger, command, "--format", "json", "--", "-a.blt"], cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["process"]["exit_status"] == 3
        done = run(byteledger, command, str(recording), "--", "extra")
        assert done.returncode == 2 and "one file at a time" in done.stderr


def test_a_signal_is_told_as_shells_do(byteledger, tmp_path):
    recording = tmp_path / "a.blt"
    done = run(byteledger, "heap", "-q", "-o", str(recording), "--", "perl", "-e", "kill 15, $$; sleep 9")
    assert done.returncode == 143
    for command in ("report", "info"):
        assert json.loads(run(byteledger, command, "--format", "json", str(recording)).stdout)["process"]["exit_status"] == 143


def test_a_full_disk_is_called_by_its_name(byteledger, tmp_path):
    recording = tmp_path / "a.blt"
    subprocess.run([byteledger, "heap", "-q", "-o", str(recording), "--", "perl", "-e", "1"], check=True)
    for command in (["report"], ["report", "--format", "json"], ["report", "--format", "csv"], ["info"],
                    ["export", "--to", "folded"], ["export", "--to", "jsonl"], ["check"],
                    ["regions", "--format", "json"], ["regions", "--format", "csv"], ["explain", "--format", "json"], ["explain"]):
        of = {"check": [], "regions": ["-p", str(os.getpid())], "explain": ["-p", str(os.getpid())]}.get(command[0], [str(recording)])
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([byteledger, *command, *of], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1, command
        assert done.stderr.startswith("byteledger: cannot write ") and done.stderr.count("No space left") == 1, command


def test_who_reads_no_further_ends_a_watch_in_silence(byteledger):
    watch = subprocess.Popen([byteledger, "regions", "--watch", "0.1", "--jsonl", "-p", str(os.getpid())], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch.stdout.readline()
    watch.stdout.close()
    assert b"cannot" not in watch.communicate(timeout=60)[1]
    assert watch.returncode == 0


def test_nothing_is_printed_into_a_file_that_has_the_number_of_a_closed_stream(byteledger, tmp_path):
    def closed(*argv, streams=(1, 2)):
        return subprocess.run([byteledger, *argv], timeout=60, preexec_fn=lambda: [os.close(fd) for fd in streams]).returncode

    history, recording, out = (str(tmp_path / name) for name in ("history", "recording.blt", "out"))
    for _ in range(2):
        closed("regions", "-p", str(os.getpid()), "--history", history, "--duration", "1s")
    assert run(byteledger, "regions", "--history", history).returncode == 0
    # a program that we start finds them closed, too
    script = "for n in 0 1 2; do test -e /proc/$$/fd/$n && exit 1; done; exit 7"
    assert closed("run", "-q", "-o", recording, "--", "sh", "-c", script, streams=range(3)) == 7
    with open(recording, "rb") as file:
        whole = file.read()
    cut = str(tmp_path / "cut.blt")
    with open(cut, "wb") as file: # of which something is to be said
        file.write(whole[:whole.rindex(b"\x8fLTBlock", 0, whole.rindex(b"\x8fLTBlock"))])
    closed("export", cut, "--to", "folded", "-o", out)
    with open(out, encoding="utf-8") as file:
        assert all(re.fullmatch("[^;]+(;[^;]+)* [0-9]+", line.rstrip("\n")) for line in file)


def test_the_manual_explains_every_reason_for_what_is_missing_and_no_other():
    with open(os.path.join(ROOT, "src", "model", "event.c"), encoding="utf-8") as f:
        stops, losses = (re.findall(r'\] = "(\w+)"', part) for part in f.read().split("const char *stack_stop_name")[1].split(
            "const char *loss_reason_name"))
    with open(os.path.join(ROOT, "man", "byteledger-report.1"), encoding="utf-8") as f:
        part = f.read().split(".SH WHAT IS MISSING")[1].split(".SH ")[0]
    lost, partial = (re.findall(r"^\.TP\n\.B (\w+)$", text, re.M) for text in part.split(".SS PARTIAL STACKS"))
    assert len(stops) > 5 and len(losses) > 5
    assert sorted(lost) == sorted(losses)
    assert sorted(partial) == sorted(stops)


def test_the_manual_names_the_variables_that_the_library_reads_and_no_others():
    with open(os.path.join(ROOT, "src", "preload", "options.c"), encoding="utf-8") as f:
        source = f.read()
    with open(os.path.join(ROOT, "src", "recorder", "settings.c"), encoding="utf-8") as f:
        source += f.read() # what the recorder reads, whoever started it
    read = set(re.findall(r'(?:look\(env|(?:setting\(|limit\(to, )entries, bare), "([A-Z_0-9]+)"\)', source))
    with open(os.path.join(ROOT, "man", "byteledger-preload.7"), encoding="utf-8") as f:
        tags = re.findall(r"^\.TP\n(\.B .*)$", f.read(), re.M)
    named = set(re.findall(r"BYTELEDGER_([A-Z_0-9]+)", " ".join(tags)))
    assert len(read) > 10
    assert named == read


def completed(byteledger, folder, *words):
    """What bash offers for the last of these words; it cuts --option=value into three."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _byteledger; printf "%s\\n" "${COMPREPLY[@]}"')
    done = run("bash", "-c", f'cd "{folder}"; {script}', "bash", os.path.join(ROOT, "completions", "byteledger.bash"), byteledger, *words)
    assert done.stderr == ""
    return done.stdout.split()


def test_the_shell_completes_commands_options_words_and_files(byteledger, tmp_path):
    (tmp_path / "stack.blt").touch()
    (tmp_path / "json").touch()
    assert {"run", "regions", "--help"} <= set(completed(byteledger, tmp_path, ""))
    assert completed(byteledger, tmp_path, "report", "--by", "st") == ["stack"]
    assert completed(byteledger, tmp_path, "report", "--by", "=", "") == ["stack", "function", "module", "file", "line", "thread"]
    assert completed(byteledger, tmp_path, "report", "st") == ["stack.blt"]
    assert completed(byteledger, tmp_path, "report", "--store-symbols", "st") == ["stack.blt"]
    assert completed(byteledger, tmp_path, "run", "-o", "st") == ["stack.blt"]
    assert completed(byteledger, tmp_path, "report", "--limit", "") == [] # a number is no file
    assert completed(byteledger, tmp_path, "help", "rep") == ["report"]
    assert str(os.getpid()) in completed(byteledger, tmp_path, "regions", "-p", "")


def test_the_words_that_the_shell_offers_are_those_of_the_help(byteledger, tmp_path):
    takes_words = 0
    for command in completed(byteledger, tmp_path, "help", ""):
        told = run(byteledger, command, "--help").stdout
        for option, values in re.findall(r"^ .*(--[a-z-]+)=(WORD|FORMAT\S*|[a-z]+(?:\|[a-z]+)+)", told, re.M):
            takes_words += 1
            words = completed(byteledger, tmp_path, command, option, "")
            explained = re.split(r"\n +(?:-\w, )?--(?=[a-z])", told.split(option + "=" + values)[1])[0]
            assert words and all(re.search(rf"\b{word}\b", f"{explained} {values}") for word in words), (command, option, words, explained)
            if "|" in values and values.islower():
                assert words == values.split("|")
    assert takes_words >= 14
