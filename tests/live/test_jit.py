# SPDX-License-Identifier: Apache-2.0
"""Code made at run time: stacks go on through it, and frames have the names that the runtime tells."""
import json
import os
import subprocess

import pytest

SCRIPT = """function makeBuffers(n) {
  const out = [];
  for (let i = 0; i < n; i++) out.push(Buffer.allocUnsafeSlow(20000).fill(1));
  return out;
}
function hot(k) { let s = 0; for (let i = 0; i < k; i++) s += makeBuffers(3).length; return s; }
const keep = makeBuffers(500); hot(2000);
"""
JAVA = """import java.util.zip.*;
public class L {
  static byte[] squeeze(byte[] in) { Deflater d = new Deflater(); d.setInput(in); d.finish(); byte[] out = new byte[in.length + 100]; d.deflate(out); d.end(); return out; }
  public static void main(String[] a) { byte[] in = new byte[10000]; int s = 0; for (int i = 0; i < 2000; i++) s += squeeze(in).length; }
}
"""


def recorded(byteledger, folder, *command, **options):
    done = subprocess.run([byteledger, "run", "-q", "-o", folder / "x.blt", *command], capture_output=True, text=True, timeout=120, cwd=folder,
                          **options)
    assert done.returncode == 0, done.stderr
    return json.loads(subprocess.run([byteledger, "report", "--format", "json", folder / "x.blt"], capture_output=True, timeout=60).stdout)


def below(page):
    """Allocations below code that lies in no file, and those of them that have a name for some of it."""
    made = [(row, [f for f in row["frames"] if f["module"] in (None, "[made at run time]")]) for row in page["rows"]]
    return (sum(row["allocations"] for row, frames in made if frames),
            sum(row["allocations"] for row, frames in made if any(f["function"] for f in frames)))


@pytest.mark.parametrize("flag", ["--perf-basic-prof", "--perf-prof"])
def test_javascript_has_its_functions_files_and_lines(byteledger, installed, tmp_path, flag):
    (tmp_path / "t.js").write_text(SCRIPT)
    page = recorded(byteledger, tmp_path, installed("node"), flag, "--interpreted-frames-native-stack", "t.js")
    all_of_it, named = below(page)
    assert all_of_it > 5000 and named > 0.999 * all_of_it
    place = str(tmp_path / "t.js")
    chains = [[(f["function"], f["file"], f["line"]) for f in row["frames"]] for row in page["rows"] if row["allocated_bytes"] > 1 << 20]
    through = [chain for chain in chains if ("makeBuffers", place, 1) in chain]
    assert through, chains[:2]
    assert any(("hot", place, 6) in chain for chain in through)
    for chain in through:  # from the program's function on to the top level, and out of the runtime
        at = chain.index(("makeBuffers", place, 1))
        assert ("(anonymous)", place, 1) in chain[at:] and any("node::Start" in (f[0] or "") for f in chain[at:])


def test_java_has_the_names_that_it_tells_when_it_ends(byteledger, installed, tmp_path):
    (tmp_path / "L.java").write_text(JAVA)
    subprocess.run([installed("javac"), "L.java"], cwd=tmp_path, check=True, timeout=60)
    page = recorded(byteledger, tmp_path, installed("java"), "-XX:+UnlockDiagnosticVMOptions", "-XX:+PreserveFramePointer",
                    "-XX:+DumpPerfMapAtExit", "-cp", ".", "L")
    all_of_it, named = below(page)
    assert all_of_it > 5000 and named > 0.99 * all_of_it
    names = {f["function"] for row in page["rows"] for f in row["frames"]}
    assert any("L.squeeze" in (name or "") for name in names) and any("Deflater" in (name or "") for name in names)


ERLANG = """-module(t).
-export([main/0]).
main() -> {ok, Code} = file:read_file("other.beam"), io:format("~p~n", [lists:sum([load(Code) || _ <- lists:seq(1, 20)])]), halt().
load(Code) -> {module, other} = erlang:load_module(other, Code), true = erlang:delete_module(other), true = erlang:purge_module(other), 1.
"""


def test_erlang_is_told_to_the_process_that_it_ran_in(byteledger, installed, tmp_path):
    """BEAM runs C on the thread's stack and its own code on a process's heap; with +JPperf both keep frame pointers."""
    (tmp_path / "t.erl").write_text(ERLANG)
    (tmp_path / "other.erl").write_text("-module(other).\n-export([f/1]).\nf(X) -> [X | lists:seq(1, X)].\n")
    subprocess.run([installed("erlc"), "t.erl", "other.erl"], cwd=tmp_path, check=True, timeout=60)
    page = recorded(byteledger, tmp_path, installed("erl"), "+JPperf", "true", "-noshell", "-s", "t", "main")
    all_of_it, named = below(page)
    assert all_of_it > 5000 and named > 0.999 * all_of_it
    mine = [[f["function"] or "" for f in row["frames"]] for row in page["rows"] if any("t:load/1" in (f["function"] or "") for f in row["frames"])]
    assert len(mine) > 10
    for names in mine:  # the loader in C++, this module, what called it, and the process's first function
        at = max(i for i, name in enumerate(names) if "t:load/1" in name)
        assert any("prepare_loading" in name or "finish_loading" in name for name in names[:at]), names
        assert any("t:main/0" in name for name in names[at + 1:]) and any("init:" in name for name in names[at + 2:]), names


def test_a_map_of_another_user_is_not_believed(byteledger, installed, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can make another's file")
    (tmp_path / "t.js").write_text("const fs = require('fs'); const p = `/tmp/perf-${process.pid}.map`;\n"
                                   "fs.writeFileSync(p + '.new', '0 7fffffffffff lie\\n'); fs.chownSync(p + '.new', 1234, 1234);\n"
                                   "fs.renameSync(p + '.new', p);\n" + SCRIPT)
    page = recorded(byteledger, tmp_path, installed("node"), "--interpreted-frames-native-stack", "t.js")
    assert page["totals"]["allocations"] > 5000
    assert not any(f["function"] == "lie" for row in page["rows"] for f in row["frames"])
