# SPDX-License-Identifier: Apache-2.0
"""Exports open in the programs they are for, and say the same there; heaptrack's files come in with equal totals."""
import csv
import gzip
import json
import os
import re
import resource
import signal
import subprocess
import xml.etree.ElementTree as ET

import pytest

import blt
import formats

SCRIPT = """
create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i+1 from n where i<3000) insert into t select i, hex(i*i) from n;
create index ti on t(b);
select b, group_concat(a) from t group by substr(b,1,3) order by 1 limit 10;
"""


def totals(byteledger, path):
    return json.loads(formats.check([byteledger, "report", path, "--format", "json"]))["totals"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, installed):
    """A real recording of sqlite3 by heaptrack: (interpreted, raw)."""
    installed("heaptrack")
    folder = tmp_path_factory.mktemp("heaptrack")
    paths = []
    for options, name in (([], "plain.zst"), (["--raw"], "raw.raw.zst")):
        subprocess.run(["heaptrack", *options, "-o", str(folder / name.split(".")[0]), "sqlite3", ":memory:"],
                       input=SCRIPT, text=True, capture_output=True, timeout=120, check=True)
        paths.append(str(folder / name))
    return paths


@pytest.fixture(scope="module")
def own(tmp_path_factory, byteledger, preload, sqlite):
    """The same program, recorded by byteledger."""
    path = str(tmp_path_factory.mktemp("own") / "own.blt")
    subprocess.run([byteledger, "run", "-q", "--time-resolution", "1ns", "-o", path, "--", sqlite, ":memory:"], input=SCRIPT, text=True,
                   capture_output=True, timeout=120, check=True)
    return path


@pytest.fixture(params=["heaptrack's", "own"])
def source(request):
    """Each export is tried with both kinds of recordings."""
    if request.param == "own":
        return request.getfixturevalue("own")
    return request.getfixturevalue("recorded")[0]


@pytest.fixture
def export(byteledger, tmp_path):
    """export(file, format, suffix, options...) -> path of the result"""
    def run(path, form, name="out", *options):
        out = str(tmp_path / name)
        done = subprocess.run([byteledger, "export", path, "--to", form, "-o", out, *options],
                              capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return out
    return run


def looks_temporary_and_is_not(path):
    """
    (least, most) frees that heaptrack_print takes for temporaries though the recording knows better: the only block of class 0 where no
    allocation stands before its free; and one that is freed right behind the allocation that brings its class, which has no second number to
    be freed by, where waiting any longer would make the next allocation's peak too large. Of the latter some may be temporary indeed.
    """
    last, brings, known, sizes, live, peak, least, most, waits = "", False, 0, [], 0, 0, 0, 0, 0
    for line in formats.check([{".zst": "zstdcat", ".gz": "zcat"}.get(path[path.rfind("."):], "cat"), path]).splitlines():
        if line.startswith("a "):
            sizes.append(int(line.split()[1], 16))
        if line[:2] not in ("+ ", "- "):
            continue
        number = int(line[2:], 16)
        if line[0] == "+":
            most += waits > 0 and live + waits + sizes[number] > peak
            live, waits, brings = live + sizes[number], 0, number == known
            peak, known = max(peak, live), known + brings
        else:
            odd = line == "- 0" and last.startswith("- ")
            least, most = least + odd, most + odd
            live -= sizes[number]
            waits = sizes[number] if brings and last == f"+ {line[2:]}" else 0
            brings = False
        last = line
    return least, most


def same_as_heaptrack(ours, theirs, exact_temporary=False, more=(0, 0)):
    assert ours["allocations"] == theirs["allocations"]
    # heaptrack_print takes class 0 for "none" too, and finds at most one temporary more that way
    least, most = more if exact_temporary else (0, 1)
    assert least <= theirs["temporary"] - ours["temporary_allocations"] <= most
    assert formats.heaptrack_bytes(ours["peak_bytes"]) == theirs["peak"]
    assert formats.heaptrack_bytes(ours["leaked_bytes"]) == theirs["leaked"]
    assert formats.heaptrack_bytes(ours["peak_rss_bytes"]) == theirs["peak_rss"]


def test_a_heaptrack_file_has_the_totals_of_heaptrack_print(byteledger, recorded):
    theirs = formats.heaptrack_print(recorded[0])
    ours = totals(byteledger, recorded[0])
    assert ours["allocations"] > 1000
    same_as_heaptrack(ours, theirs)
    assert ours["peak_bytes"] == formats.folded_cost(recorded[0], "peak")
    assert ours["allocations"] == formats.folded_cost(recorded[0], "allocations")


def test_a_raw_heaptrack_file_equals_its_interpretation(byteledger, recorded, tmp_path):
    """But for temporaries, which heaptrack judges by class once the addresses are gone."""
    interpret = "/usr/lib/heaptrack/libexec/heaptrack_interpret"
    plain = str(tmp_path / "interpreted")
    raw = formats.check(["zstd", "-dc", recorded[1]]).encode("utf-8", "surrogateescape")
    with open(plain, "wb") as to:
        subprocess.run([interpret], input=raw, stdout=to, stderr=subprocess.DEVNULL, check=True, timeout=120)
    ours, theirs = totals(byteledger, recorded[1]), totals(byteledger, plain)
    for key in ("allocations", "allocated_bytes", "frees", "peak_bytes", "leaked_bytes", "leaked_allocations",
                "peak_rss_bytes", "stacks"):
        assert ours[key] == theirs[key], key


def test_import_keeps_totals_and_symbols(byteledger, recorded, tmp_path):
    blt = str(tmp_path / "in.blt")
    formats.check([byteledger, "import", recorded[0], "-o", blt])
    with open(blt, "rb") as file:
        assert file.read(4) != b"\x28\xb5\x2f\xfd"
    direct = formats.check([byteledger, "report", recorded[0], "--format", "json"])
    assert formats.check([byteledger, "report", blt, "--format", "json"]) == direct
    functions = {f["function"] for row in json.loads(direct)["rows"] for f in row["frames"]}
    assert "__libc_start_call_main" in functions


def test_import_never_overwrites_and_refuses_strangers(byteledger, recorded, tmp_path):
    blt = tmp_path / "in.blt"
    blt.write_bytes(b"mine")
    done = subprocess.run([byteledger, "import", recorded[0], "-o", str(blt)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == ""
    assert blt.read_bytes() == b"mine"
    assert (tmp_path / "in.blt.1").exists() and "in.blt.1" in done.stderr
    for bad, why in ((tmp_path / "in.blt", "neither"), (tmp_path / "in.blt.1", "is a recording already"),
                     (tmp_path / "none", "No such file")):
        done = subprocess.run([byteledger, "import", str(bad), "-o", str(tmp_path / "x")], capture_output=True, text=True)
        assert done.returncode == 1 and why in done.stderr, done.stderr
        assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("suffix", ["", ".zst", ".gz"])
def test_a_heaptrack_export_says_the_same_in_heaptrack_print(byteledger, source, export, suffix):
    ours = totals(byteledger, source)
    out = export(source, "heaptrack", "out" + suffix)
    theirs = formats.heaptrack_print(out)
    more = looks_temporary_and_is_not(out)[0]
    same_as_heaptrack(ours, theirs, exact_temporary=True, more=(more, more))
    assert formats.folded_cost(out, "peak") == ours["peak_bytes"]
    assert formats.folded_cost(out, "temporary") == ours["temporary_allocations"] + more
    runtime = json.loads(formats.check([byteledger, "report", source, "--format", "json"]))["process"]["runtime_ns"]
    assert abs(theirs["runtime"] - runtime / 1e9) < 0.002
    again = totals(byteledger, out)
    # the format has no finer clock, no thread that only frees, and RSS in pages
    loose = ("peak_time_ns", "stacks", "threads", "foreign_frees")
    assert {k: again[k] for k in ours if k not in loose} == {k: ours[k] for k in ours if k not in loose}


def test_heaptrack_takes_no_temporaries_that_are_none(byteledger, export, tmp_path):
    """Raw: two blocks of one class, the older one is freed right after the younger one came."""
    raw = tmp_path / "raw"
    raw.write_text("v 10400 3\nx 2 /a\nX a\nI 1000 1\nm 1 -\nm 1 x 1000 0 1000\nt 1010 0\n"
                   "+ 40 1 1000\n+ 40 1 2000\n- 1000\n+ 40 1 1000\n- 1000\n- 2000\n+ 40 1 3000\n")
    ours = totals(byteledger, str(raw))
    assert (ours["temporary_allocations"], ours["frees"], ours["leaked_allocations"]) == (1, 3, 1)
    theirs = formats.heaptrack_print(export(str(raw), "heaptrack"))
    assert theirs["temporary"] == 1
    assert theirs["leaked"] == "64B"


def classes_in_order(path):
    """Allocations bring a new class in the order of the numbers, from 0 on: heaptrack_gui writes beyond its table otherwise."""
    known = classes = 0
    for line in formats.check(["cat", path]).splitlines():
        classes += line.startswith("a ")
        if line.startswith("+ "):
            number = int(line[2:], 16)
            assert number <= known and number < classes, f"{line!r} after {known} classes of {classes}"
            known += number == known
        if line.startswith("- "):
            assert int(line[2:], 16) < known, f"{line!r} after {known} classes"
    assert known == classes > 0
    return known


def test_heaptrack_gui_meets_each_class_in_its_order(byteledger, source, export):
    classes_in_order(export(source, "heaptrack"))


@pytest.mark.parametrize("lines, temporary", [
    # the first block of all is freed alone: behind another's allocation, at the very end, where nothing follows
    ("+ 40 1 1000\n+ 50 1 2000\n- 2000\n- 1000\n+ 30 1 3000\n", 1),
    ("+ 40 1 1000\n+ 50 1 2000\n- 1000\n", 0),
    # where keeping it would move the peak
    ("+ 40 1 1000\n+ 50 1 2000\n- 2000\n- 1000\n+ 80 1 3000\n", 2),
    # a class of three blocks, freed in the order in which they came, a moment in between
    ("+ 8 1 4000\n+ 40 1 1000\n+ 40 1 2000\n- 1000\nc 5\n+ 40 1 3000\nc 9\nR 4\n- 2000\n- 3000\n", 0),
    # of two blocks of equal size the elder is freed, the younger at once
    ("+ 40 1 1000\n+ 40 1 2000\n- 1000\n+ 40 1 1000\n- 1000\n- 2000\n", 1),
])
def test_heaptrack_classes_are_in_order_whatever_is_freed(byteledger, export, tmp_path, lines, temporary):
    raw = tmp_path / "raw"
    raw.write_text("v 10400 3\nx 2 /a\nX a\nI 1000 1\nm 1 -\nm 1 x 1000 0 1000\nt 1010 0\n" + lines)
    ours, out = totals(byteledger, str(raw)), export(str(raw), "heaptrack")
    classes_in_order(out)
    theirs = formats.heaptrack_print(out)
    assert theirs["temporary"] == temporary
    ours["temporary_allocations"] = temporary
    same_as_heaptrack(ours, theirs)


@pytest.fixture(scope="module")
def middle(byteledger, own):
    """The time of the middle allocation: half of the runtime may be spent before the first one, where loading is slow."""
    lines = formats.check([byteledger, "export", own, "--to", "jsonl"]).splitlines()
    times = [e["time_ns"] for e in map(json.loads, lines) if e["event"] == "alloc"]
    assert times == sorted(times) and times[0] < times[len(times) // 2] < times[-1]
    return f"{times[len(times) // 2]}ns"


@pytest.mark.parametrize("words", [["--min-size", "100"], ["--from", "MIDDLE"], ["--leaked"], ["--lifetime-max", "1ms"],
                                   ["--function-regex", "sqlite3Malloc"], ["--at", "MIDDLE"], ["--at", "peak"]])
def test_selections_reach_the_formats_that_take_events(byteledger, own, export, middle, words):
    words = [middle if w == "MIDDLE" else w for w in words]
    ours = json.loads(formats.check([byteledger, "report", own, "--format", "json", *words]))["totals"]
    assert 0 < ours["allocations"] < totals(byteledger, own)["allocations"]
    out = export(own, "heaptrack", "out", *words)
    same_as_heaptrack(ours, formats.heaptrack_print(out), exact_temporary=True, more=looks_temporary_and_is_not(out))
    massif = formats.Massif(export(own, "massif", "out", *words))
    assert [s["bytes"] for s in massif.snapshots if s["kind"] == "peak"] == [ours["peak_bytes"]]
    points = json.load(open(export(own, "dhat", "out", *words)))["pps"]
    for key, total in (("tb", "allocated_bytes"), ("tbk", "allocations"), ("gb", "peak_bytes"), ("eb", "leaked_bytes")):
        assert sum(p[key] for p in points) == ours[total], key


def test_several_threads_lose_only_temporaries_in_heaptrack(byteledger, preload, prog, export, tmp_path):
    """heaptrack_print judges temporaries by the preceding line, whichever thread it came from."""
    path = str(tmp_path / "threads.blt")
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", prog("threads")], capture_output=True, timeout=120)
    ours = totals(byteledger, path)
    assert ours["threads"] > 1
    theirs = formats.heaptrack_print(export(path, "heaptrack"))
    assert theirs["temporary"] <= ours["temporary_allocations"]
    ours["temporary_allocations"] = theirs["temporary"]
    same_as_heaptrack(ours, theirs)


def test_massif_opens_in_ms_print_and_shows_the_peak(byteledger, source, export, installed):
    installed("ms_print")
    ours = totals(byteledger, source)
    out = export(source, "massif")
    text = formats.check(["ms_print", out])
    assert f"{ours['peak_bytes']:,}" in text and "(peak)" in text
    massif = formats.Massif(out)
    assert 50 <= len(massif.snapshots) <= 110
    assert [s["bytes"] for s in massif.snapshots if s["kind"] == "peak"] == [ours["peak_bytes"]]
    assert max(s["bytes"] for s in massif.snapshots) == ours["peak_bytes"]
    assert massif.snapshots[-1]["bytes"] == ours["leaked_bytes"]
    times = [s["time"] for s in massif.snapshots]
    assert times == sorted(times)
    assert massif.tree_is_sound() == ours["peak_bytes"]
    # readers know these lines by their words
    rests = [line.split(" in ", 1)[1] for line in massif.tree if line.endswith(" below massif's threshold (1.00%)")]
    assert rests and all(re.match(r"(1 place,|([2-9]|[1-9]\d+) places, all) below massif's threshold", rest) for rest in rests)
    assert any("places" in rest for rest in rests)


def test_dhat_has_all_fields_and_sums(byteledger, source, export):
    ours = totals(byteledger, source)
    data = json.load(open(export(source, "dhat")))
    assert (data["dhatFileVersion"], data["mode"], data["bklt"], data["bkacc"]) == (2, "heap", True, False)
    points = data["pps"]

    def total(key):
        return sum(p[key] for p in points)
    assert (total("tb"), total("tbk")) == (ours["allocated_bytes"], ours["allocations"])
    assert (total("gb"), total("eb"), total("ebk")) == (ours["peak_bytes"], ours["leaked_bytes"],
                                                        ours["leaked_allocations"])
    assert all(p["gb"] <= p["mb"] <= p["tb"] for p in points)
    born, lived = {}, 0
    for line in formats.check([byteledger, "export", source, "--to", "jsonl"]).splitlines():
        event = json.loads(line)
        if event["event"] == "alloc":
            born[event["block"]] = event["time_ns"] // 1000
        elif event["event"] == "free":
            lived += event["time_ns"] // 1000 - born.pop(event["block"])
    assert total("tl") == lived + sum(data["te"] - at for at in born.values())
    assert all(0 < f < len(data["ftbl"]) for p in points for f in p["fs"])
    assert len({tuple(p["fs"]) for p in points}) == len(points)


def test_folded_and_its_inversion_sum_up(byteledger, source, export):
    ours = totals(byteledger, source)
    for cost, key in (("peak", "peak_bytes"), ("allocations", "allocations"), ("allocated", "allocated_bytes"),
                      ("temporary", "temporary_allocations"), ("leaked", "leaked_bytes")):
        for options in ((), ("--inverted",)):
            lines = open(export(source, "folded", "out", "--cost", cost, *options)).read().splitlines()
            assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == ours[key], (cost, options)
    one = open(export(source, "folded", "out", "--limit", "1")).read().splitlines()
    assert len(one) == 1 and one[0].split(";")[0] != one[0]


def test_flame_graph_boxes_have_short_names_and_tall_graphs_begin_with_main(byteledger, tmp_path):
    names = ["void ns::f<int>(char)", "main"]
    for depth, flipped in ((10, "0"), (60, "1")):
        lines = ["v 10400 3", "X demo", "s 4 demo", *(f"s {len(n):x} {n}" for n in names)]
        lines += ["i 1000 1 2", "i 2000 1 3", "t 2 0"] + [f"t 1 {parent:x}" for parent in range(1, depth)]
        path = tmp_path / f"{depth}.heaptrack"
        path.write_text("\n".join(lines + [f"a 40 {depth:x}", "+ 0", "c 1"]) + "\n")
        out = subprocess.run([byteledger, "export", "--to", "flamegraph", str(path)], capture_output=True, text=True, check=True)
        svg = ET.fromstring(out.stdout)
        assert svg.get("data-flipped") == flipped
        boxes = [g for g in svg.iter("{http://www.w3.org/2000/svg}g") if "ns::f" in "".join(g.itertext())]
        assert len(boxes) == depth - 1
        assert {g.get("data-l") for g in boxes} == {"ns::f<\u2026>"}
        assert all("void ns::f<int>(char)" in "".join(g.itertext()) for g in boxes)


@pytest.mark.parametrize("depth, wide, drawn", [(12000, 0, 999), (5, 12000, 10000)])
def test_a_flame_graph_of_more_frames_than_it_draws_shows_some_of_those_of_equal_width(byteledger, tmp_path, depth, wide, drawn):
    """A recursion whose frames are all as wide as the whole, and a root with many callees of one width."""
    lines = ["v 10400 3", "X demo", "s 4 demo"]
    for i in range(depth + wide):
        lines += [f"s 6 f{i:05d}", f"i {4096 + i:x} 1 {i + 2:x}", f"t {i + 1:x} {min(i, depth):x}"]
    lines += [f"a 40 {i:x}" for i in ([depth] if not wide else range(depth + 1, depth + wide + 1))]
    path = tmp_path / "deep.heaptrack"
    path.write_text("\n".join(lines + [f"+ {i:x}" for i in range(max(1, wide))] + ["c 1"]) + "\n")
    out = subprocess.run([byteledger, "export", "--to", "flamegraph", str(path)], capture_output=True, text=True, check=True)
    boxes = [g for g in ET.fromstring(out.stdout).iter("{http://www.w3.org/2000/svg}g") if g.get("class") == "f"]
    assert len(boxes) == drawn + 1 # and the root
    assert f"; {depth + wide - drawn} of {depth + wide + 1} frames" in out.stdout


def test_the_flame_graph_is_sound_xml_with_the_right_total(byteledger, source, export):
    ours = totals(byteledger, source)
    root = ET.parse(export(source, "flamegraph", "out.svg", "--cost", "allocations")).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert int(root.get("data-total")) == ours["allocations"]
    boxes = [(int(g.get("data-d")), int(g.get("data-x")), int(g.get("data-v"))) for g in root.iter(space + "g")]
    rows = {}
    for depth, start, value in boxes:
        rows.setdefault(depth, []).append((start, start + value))
    for depth, spans in rows.items():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:])), f"boxes overlap at depth {depth}"
        for start, end in spans:
            assert depth == 0 or any(a <= start and end <= b for a, b in rows[depth - 1])


def test_hostile_names_are_text_everywhere(byteledger, export, tmp_path):
    name = "evil</title><script>alert(1)</script>;\"&]]>'"
    path = tmp_path / "hostile"
    path.write_bytes(b"v 10400 3\nX <b>&\x01 \xff\ns 3 <m>\ns " + f"{len(name):x} ".encode() + name.encode() +
                     b"\ns 4 \xff\x1b\x02x\ns 5 /m\x1b;y\ni 1 1 2\ni 2 1 3\ni 3 4\nt 1 0\nt 2 1\nt 3 2\na 40 3\n+ 0\n")
    svg = ET.parse(export(str(path), "flamegraph")).getroot()
    texts = [t.text or "" for t in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert any(text.startswith(name) for text in texts)
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}script"))) == 1
    folded = open(export(str(path), "folded"), "rb").read()
    assert folded.count(b"\n") == 1 and folded.count(b";") == 2 and b"\x1b" not in folded
    row = list(csv.DictReader(open(export(str(path), "csv"), newline="", encoding="utf-8")))
    assert len(row) == 1 and row[0]["stack"].split(";")[2] == name.replace(";", ":") and row[0]["stack"].count(";") == 2
    massif = open(export(str(path), "massif"), "rb").read()
    assert name.encode() in massif and not set(massif) & (set(range(32)) - {9, 10}), "ms_print prints what it reads"
    for form in ("speedscope", "dhat", "json"):
        json.loads(open(export(str(path), form), "rb").read().decode("utf-8"))
    for line in open(export(str(path), "jsonl"), "rb").read().decode("utf-8").splitlines():
        json.loads(line)
    exported = export(str(path), "heaptrack")
    assert b"\x1b" not in open(exported, "rb").read()
    assert formats.heaptrack_print(exported)["allocations"] == 1


def test_speedscope_profiles_refer_to_frames_and_sum_up(byteledger, source, export):
    ours = totals(byteledger, source)
    data = json.load(open(export(source, "speedscope", "out", "--cost", "allocated")))
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert data["profiles"][0]["name"] == "bytes allocated"
    by_name = {p["name"]: p for p in data["profiles"]}
    for name, key in (("bytes live at the peak", "peak_bytes"), ("bytes allocated", "allocated_bytes"),
                      ("bytes live at the end", "leaked_bytes"), ("allocations", "allocations"),
                      ("temporary allocations", "temporary_allocations")):
        profile = by_name[name]
        assert sum(profile["weights"]) == profile["endValue"] == ours[key], name
        assert len(profile["weights"]) == len(profile["samples"])
        assert all(0 <= f < len(data["shared"]["frames"]) for s in profile["samples"] for f in s)


def test_blocks_that_a_lost_free_may_have_freed_live_in_the_exports(byteledger, export, tmp_path):
    path = str(tmp_path / "damaged.heaptrack")
    with open(path, "w", encoding="ascii") as file:
        file.write("v 10400 3\nX a\ns 1 a\ni 10 0 1\nt 1 0\na 40 1\na 50 1\n+ 0\n- z\n+ 1\nc 1\n")
    ours = totals(byteledger, path)
    assert (ours["leaked_bytes"], ours["uncertain_bytes"], ours["peak_bytes"]) == (80, 64, 144)
    for words in (), ("--at", "end"):
        sums = formats.pprof_sums(export(path, "pprof", "out", *words))
        assert (sums["inuse_space"], sums["inuse_objects"], sums["peak_space"]) == (144, 2, 144)
        profiles = json.load(open(export(path, "speedscope", "out", *words)))["profiles"]
        live = "bytes live" if words else "bytes live at the end"
        assert [p["endValue"] for p in profiles if p["name"] == live] == [144]
        assert profiles[0]["name"] == (live if words else "bytes live at the peak")
    first = json.load(open(export(path, "speedscope", "out", "--cost", "leaked")))["profiles"][0]
    assert (first["name"], first["endValue"]) == ("bytes never freed", 80)
    assert sum(p["eb"] for p in json.load(open(export(path, "dhat")))["pps"]) == 144


def test_pprof_is_a_gzip_member_of_a_profile_with_equal_totals(byteledger, source, export):
    out = export(source, "pprof")
    packed = gzip.decompress(open(out, "rb").read())
    assert b"__libc_start_call_main" in packed
    ours, sums = totals(byteledger, source), formats.pprof_sums(out)
    assert sums == {"alloc_objects": ours["allocations"], "alloc_space": ours["allocated_bytes"], "peak_space": ours["peak_bytes"],
                    "inuse_objects": ours["leaked_allocations"], "inuse_space": ours["leaked_bytes"],
                    "temporary_objects": ours["temporary_allocations"]}


def test_jsonl_tells_every_event_and_defines_stacks_first(byteledger, source, export):
    ours = totals(byteledger, source)
    known, live, peak, count = {0}, 0, 0, {"alloc": 0, "free": 0, "temporary": 0}
    with open(export(source, "jsonl")) as file:
        lines = [json.loads(line) for line in file]
    assert lines[0]["event"] == "process" and lines[-1]["event"] == "end"
    for line in lines:
        if line["event"] == "stack":
            assert line["parent"] in known
            known.add(line["stack"])
        elif line["event"] in ("alloc", "free"):
            assert line["stack"] in known
            live += line["bytes"] if line["event"] == "alloc" else -line["bytes"]
            peak = max(peak, live)
            count[line["event"]] += 1
            count["temporary"] += line.get("temporary", False)
    assert (count["alloc"], count["free"], peak, live) == (ours["allocations"], ours["frees"], ours["peak_bytes"],
                                                           ours["leaked_bytes"])
    assert count["temporary"] == ours["temporary_allocations"]


def test_words_a_format_cannot_follow_are_refused(byteledger, source):
    for words in (["--to", "heaptrack", "--cost", "peak"], ["--to", "pprof", "--inverted"],
                  ["--to", "folded", "--by", "file"], ["--to", "folded", "--to", "csv"], ["--to", "nonsense"], []):
        done = subprocess.run([byteledger, "export", source, *words], capture_output=True, text=True)
        assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("byteledger: "), words


def test_formats_with_no_place_for_losses_have_them_told_beside(byteledger, own, tmp_path):
    whole = open(own, "rb").read()
    cut = tmp_path / "cut.blt" # its recorder died: nobody knows how much is missing
    blocks = [m.start() for m in re.finditer(b"\x8fLTBlock", whole) if whole[m.start() + 8] == blt.EVENTS]
    cut.write_bytes(whole[:blocks[-2:][0]]) # a fast program's events fit into one
    asked = [["export", "--to", form] for form in ("folded", "flamegraph", "pprof", "speedscope", "csv", "heaptrack", "massif", "dhat")]
    for words in asked + [["report", "--format", "csv"]]:
        told = []
        for path in own, str(cut):
            done = subprocess.run([byteledger, *words, path], capture_output=True, timeout=120)
            assert done.returncode == 0, (words, done.stderr)
            told.append(done.stderr.decode())
        assert told[0] == "" and "LOST: an unknown number of events (recorder_died)" in told[1], (words, told)
    for words in ["export", "--to", "json"], ["export", "--to", "jsonl"], ["report", "--format", "json"]:
        done = subprocess.run([byteledger, *words, str(cut)], capture_output=True, timeout=120)
        assert b"recorder_died" in done.stdout and b"LOST" not in done.stderr, words


def test_a_programs_own_suppressions_come_in_and_go_out(byteledger, tmp_path):
    source, blt, back = tmp_path / "own.heaptrack", tmp_path / "own.blt", tmp_path / "back.heaptrack"
    rules = ["S leak:^known$", "S leak:libother*.so"]
    source.write_text("\n".join(["v 10400 3", "X a", "I 1000 1", *rules, "S race:nonsense", "s 1 a", "s 5 known", "s 5 fresh", "i 10 1 2",
                                 "i 20 1 3", "t 1 0", "t 2 0", "a 40 1", "a 50 2", "+ 0", "+ 1", "c 1", ""]))
    for from_, to in (source, blt), (blt, back):
        words = ["import", from_, "-o", to] if to == blt else ["export", from_, "--to", "heaptrack", "-o", to]
        subprocess.run([byteledger, *words], check=True, timeout=60)
    assert [line for line in back.read_text().splitlines() if line.startswith("S ")] == rules
    for path in source, blt, back:
        def said(*words):
            return subprocess.run([byteledger, "report", path, *words], capture_output=True, text=True, check=True, timeout=60).stdout
        assert "suppressed: 64 B in 1 block: ^known$" in said() and "fresh" in said()
        assert "suppressed" not in said("--no-suppress")
        machine = json.loads(said("--format", "json"))
        assert machine["suppressed"]["bytes"] == 64 and machine["totals"]["leaked_bytes"] == 144


FORMATS = ("folded", "flamegraph", "pprof", "speedscope", "heaptrack", "massif", "dhat", "csv", "json", "jsonl", "prometheus")


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_of_nothing_says_so_and_is_none_that_failed(byteledger, form, tmp_path):
    path, bare = tmp_path / "one.heaptrack", tmp_path / "none.heaptrack"
    head = "v 10400 3\nX a\ns 1 a\ni 10 0 1\nt 1 0\na 40 1\n"
    path.write_text(head + "c 1\n+ 0\n")
    bare.write_text(head + "c 1\n")

    def said(source, *words):
        done = subprocess.run([byteledger, "export", str(source), "--to", form, "-o", str(tmp_path / "out"), *words],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0
        return done.stderr
    assert said(path) == ""
    for words in ("--min-size", "1K"), ("--to", "0s"), ("--at", "0s"):
        assert said(path, *words) == f"byteledger: no allocation of '{path}' fits the selection: the export is empty\n", words
    assert said(bare) == f"byteledger: no allocation is in '{bare}': the export is empty\n"
    if form in ("folded", "flamegraph", "pprof", "speedscope"):
        assert said(path, "--cost", "temporary") == \
            f"byteledger: no allocation of '{path}' has the cost 'temporary': the export shows none\n"
    elif form in ("csv", "json"):
        assert said(path, "--cost", "temporary") == ""


def test_a_stream_of_damaged_events_is_not_told_by_the_summary_of_all(byteledger, export, record, prog, tmp_path):
    """The summary at the end is whole, and counts what cannot be read any more: every reading is of what is left, and says so."""
    done = record([prog("temporaries"), "50000"])
    whole = bytearray(open(done.path, "rb").read())
    events = [m.start() for m in re.finditer(b"\x8fLTBlock", whole) if whole[m.start() + 8] == blt.EVENTS]
    assert len(events) >= 3
    at = events[len(events) // 2]
    whole[at + 48 + int.from_bytes(whole[at + 20:at + 24], "little") // 2] ^= 4
    path = tmp_path / "damaged.blt"
    path.write_bytes(whole)
    summary, left = totals(byteledger, done.path), totals(byteledger, str(path))
    assert left["allocations"] < summary["allocations"]
    for form in ("heaptrack", "massif", "dhat", "jsonl"):
        said = subprocess.run([byteledger, "export", str(path), "--to", form, "-o", str(tmp_path / form)], capture_output=True, text=True)
        assert said.returncode == 0 and f"'{path}' is damaged: 1 blocks" in said.stderr, (form, said.stderr)
        assert form == "jsonl" or ("LOST: " in said.stderr and "(file_damaged)" in said.stderr), form
    lines = [json.loads(line) for line in open(tmp_path / "jsonl")]
    seen = sum(line["event"] == "alloc" for line in lines)
    lost = sum(line["allocations"] for line in lines if line["event"] == "lost")
    assert 0 < seen == left["allocations"] and summary["allocations"] == seen + lost and lines[-1]["lost_events"] >= lost
    # the moment of the peak is one of what could be read
    peaks = [s["bytes"] for s in formats.Massif(str(tmp_path / "massif")).snapshots if s["kind"] == "peak"]
    assert len(peaks) == 1 and sum(p["gb"] for p in json.load(open(tmp_path / "dhat"))["pps"]) == peaks[0]
    told = json.loads(formats.check([byteledger, "report", str(path), "--format", "json", "--at", "peak"]))["totals"]
    assert told["peak_bytes"] == peaks[0]


def test_an_export_does_not_replace_what_it_reads(byteledger, record, prog, tmp_path):
    done = record([prog("manners"), "blocks", "3"])
    before = open(done.path, "rb").read()
    os.symlink(done.path, tmp_path / "link")
    for out in (done.path, str(tmp_path / "link")):
        refused = subprocess.run([byteledger, "export", done.path, "--to", "folded", "-o", out], capture_output=True, text=True)
        assert refused.returncode == 1 and "it is what is read\nhint: " in refused.stderr
    assert open(done.path, "rb").read() == before


def test_nothing_replaces_a_recording(byteledger, record, prog, preload, tmp_path):
    """What other tools wrote is replaced, as they would; a run cannot be run again."""
    done = record([prog("manners"), "blocks", "3"])
    other = tmp_path / "other"
    other.write_bytes(open(done.path, "rb").read())
    subprocess.run([prog("manners"), "blocks", "3"], check=True, timeout=60,
                   env={**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(tmp_path / "x"), "BYTELEDGER_HELPER": "/nonexistent"})
    for old in other, tmp_path / "x.raw":
        before = old.read_bytes()
        for words in (["export", done.path, "--to", "folded", "-o", old], ["run", "--report", old, "-o", tmp_path / "new", "--", "touch", tmp_path / "ran"]):
            refused = subprocess.run([byteledger, *map(str, words)], capture_output=True, text=True, timeout=60)
            assert refused.returncode == 1 and f"cannot write '{old}': it is a recording\nhint: " in refused.stderr, refused.stderr
        assert old.read_bytes() == before
    assert not (tmp_path / "ran").exists() and not (tmp_path / "new").exists()
    (tmp_path / "text").write_text("old")
    subprocess.run([byteledger, "export", done.path, "--to", "folded", "-o", str(tmp_path / "text")], check=True, timeout=60)
    assert (tmp_path / "text").read_text() != "old"


def test_a_failed_export_leaves_the_old_file(byteledger, tmp_path):
    out = tmp_path / "out"
    out.write_text("old")
    bad = tmp_path / "bad"
    bad.write_text("not a recording")
    done = subprocess.run([byteledger, "export", str(bad), "--to", "folded", "-o", str(out)], capture_output=True)
    assert done.returncode == 1
    assert out.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["bad", "out"]


def test_an_interrupted_export_takes_its_unfinished_file_along(byteledger, tmp_path):
    """The file is there from the start; its end is far away."""
    many, folder = tmp_path / "many.heaptrack", tmp_path / "out"
    many.write_text("v 10400 3\nX a\ns 1 m\ni 1 1\nt 1 0\na 8 1\n" + "+ 0\n- 0\n" * 2_000_000)
    folder.mkdir()
    for number in (signal.SIGTERM, signal.SIGINT):
        # a shell's background jobs inherit that SIGINT is ignored, and then it is
        export = subprocess.Popen([byteledger, "export", str(many), "--to", "jsonl", "-o", str(folder / "x")],
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while not os.listdir(folder):
            assert export.poll() is None
        export.send_signal(number)
        assert export.wait() == -number
        assert os.listdir(folder) == []


def test_a_limit_on_file_sizes_is_an_error(byteledger, source, tmp_path):
    (tmp_path / "x").write_text("old")
    done = subprocess.run([byteledger, "export", source, "--to", "jsonl", "-o", str(tmp_path / "x")], text=True,
                          capture_output=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
    assert (done.returncode, done.stderr) == (1, "byteledger: cannot write the export: File too large\n"
                                               "hint: 'ulimit -f' is the limit on the size of files\n")
    assert os.listdir(tmp_path) == ["x"] and (tmp_path / "x").read_text() == "old"


def test_a_full_disk_is_an_error(byteledger, source):
    for form in ("folded", "pprof", "heaptrack", "jsonl", "massif", "dhat", "json", "speedscope", "flamegraph"):
        with open("/dev/full", "w") as full:
            done = subprocess.run([byteledger, "export", source, "--to", form], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1 and "cannot write" in done.stderr, (form, done.stderr)


def test_cut_and_flipped_files_end_in_an_error_or_a_warning(byteledger, recorded, tmp_path):
    whole = open(recorded[0], "rb").read()
    path = tmp_path / "cut.zst"
    step = max(1, len(whole) // 12)
    variants = [whole[:n] for n in range(0, len(whole), step)]
    variants += [whole[:n] + bytes([whole[n] ^ 0x10]) + whole[n + 1:] for n in range(7, len(whole), step)]
    for data in variants:
        path.write_bytes(data)
        done = subprocess.run([byteledger, "report", str(path), "--format", "json"], capture_output=True, text=True)
        assert done.returncode in (0, 1)
        assert done.stderr.startswith("byteledger: ")
        if done.returncode == 0:
            assert json.loads(done.stdout)["process"]["complete"] is False
