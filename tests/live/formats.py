# SPDX-License-Identifier: Apache-2.0
"""Readers of foreign formats, for test_formats.py: the consumers' own programs where there are any."""
import gzip
import html
import os
import re
import shutil
import subprocess
import tempfile

DH_VIEW = "/usr/libexec/valgrind"


def check(argv, **options):
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=240, **options)
    assert done.returncode == 0, f"{argv}: {done.stderr[-2000:]}"
    return done.stdout


def heaptrack_print(path):
    """What heaptrack_print says about a file; leaked is the list's sum, exact, with the suppressed ones."""
    out = check(["heaptrack_print", "-p0", "-a0", "-T0", "-l0", "--disable-builtin-suppressions",
                 "--disable-embedded-suppressions", path])
    number = r"([\d.]+[A-Za-z]*)"

    def find(text):
        return re.search(text + r": " + number, out).group(1)
    return {"allocations": int(find("calls to allocation functions")),
            "temporary": int(find("temporary memory allocations")),
            "peak": find("peak heap memory consumption"),
            "peak_rss": find(r"peak RSS \(including heaptrack overhead\)"),
            "leaked": find("total memory leaked"),
            "runtime": float(find("total runtime").rstrip("s"))}


def heaptrack_bytes(value):
    """Bytes as heaptrack_print writes them: decimal units, two digits."""
    if value < 1000:
        return f"{value}B"
    for unit in "KMGT":
        value /= 1000
        if value < 1000:
            break
    return f"{value:.2f}{unit}"


def folded_cost(path, cost):
    """Sum of what heaptrack_print writes as collapsed stacks: exact numbers."""
    with tempfile.NamedTemporaryFile() as file:
        check(["heaptrack_print", "-p0", "-a0", "-T0", "-F", file.name, "--flamegraph-cost-type", cost, path])
        return sum(int(line.rsplit(" ", 1)[1]) for line in open(file.name, errors="replace"))


def pprof_sums(path):
    """The sums of a profile.proto over all samples, by type: the wire format of protobuf, no more of it than there is in one."""
    def varint(data, at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7f) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                return value, at

    def fields(data):
        at = 0
        while at < len(data):
            key, at = varint(data, at)
            value, at = varint(data, at)
            if key & 7 == 2:
                at, value = at + value, data[at:at + value]
            yield key >> 3, value

    def packed(data):
        at = 0
        while at < len(data):
            value, at = varint(data, at)
            yield value
    with gzip.open(path) as file:
        top = list(fields(file.read()))
    strings = [value.decode() for number, value in top if number == 6]
    types = [strings[dict(fields(value))[1]] for number, value in top if number == 1]
    sums = [0] * len(types)
    for number, value in top:
        if number == 2:
            for i, v in enumerate(packed(dict(fields(value))[2])):
                sums[i] += v
    return dict(zip(types, sums))


def chromium(url, *options):
    """The DOM of a page after its scripts ran, by the installed browser."""
    profile = tempfile.mkdtemp(prefix="byteledger-chromium-")
    try:
        return check(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                      "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--virtual-time-budget=10000",
                      *options, "--dump-dom", url])
    finally:
        shutil.rmtree(profile, ignore_errors=True)


def dh_view_page(folder, dhat_path):
    """A page that loads a file into Valgrind's own viewer as its Load button does; the totals become the title."""
    for name in os.listdir(DH_VIEW):
        if name.startswith("dh_view."):
            shutil.copy(os.path.join(DH_VIEW, name), folder)
    with open(dhat_path, encoding="utf-8") as file:
        data = html.escape(file.read(), quote=True)
    page = os.path.join(folder, "page.html")
    with open(page, "w", encoding="utf-8") as to:
        to.write('<!DOCTYPE html><html><head><meta charset="UTF-8"><script src="dh_view.js"></script></head>'
                 '<body onload="onLoad(); tryFunc(function () { gData = JSON.parse(document.getElementById(\'d\').title);'
                 ' buildTree(); displayTree(1, 1, 1); document.title = [gRoot._totalBytes, gRoot._totalBlocks,'
                 f' gRoot._atTGmaxBytes, gRoot._atTEndBytes].join(); }});"><p id="d" title="{data}"></p></body></html>')
    return page


class Massif:
    """A massif file: snapshots with their figures, the peak with its tree."""

    def __init__(self, path):
        text = open(path, encoding="utf-8", errors="replace").read()
        self.snapshots = [{"time": int(t), "bytes": int(b), "kind": k} for t, b, k in re.findall(
            r"^time=(\d+)\nmem_heap_B=(\d+)\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=(\w+)$", text, re.M)]
        peak = text.split("heap_tree=peak\n", 1)
        self.tree = peak[1].split("#-----------")[0].splitlines() if len(peak) > 1 else []

    def tree_is_sound(self):
        """Every node announces its children; they stand one space deeper and sum up to at most their parent."""
        def node(at, depth):
            head = re.match(rf"^ {{{depth}}}n(\d+): (\d+) ", self.tree[at])
            assert head, self.tree[at]
            children, total, below = int(head.group(1)), int(head.group(2)), 0
            at += 1
            for _ in range(children):
                at, part = node(at, depth + 1)
                below += part
            assert below <= total
            return at, total
        end, total = node(0, 0)
        assert end == len(self.tree)
        return total
