# SPDX-License-Identifier: Apache-2.0
"""`byteledger explain FILE`: what older readers make of a SNAPSHOT, and what is told where one is damaged, hostile, or of a later layout."""
import json
import os
import re
import struct
import subprocess
import zlib

import pytest
from blt import INDEX, SNAPSHOT, Column, zstd

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "data", "sheet.blt")
HEADER = "<8sBBxxIIIQQII"
PAGES = 9


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def block(head, body):
    """A block's bytes with checksums that fit; @head as struct.unpack() tells it."""
    head = list(head)
    head[5], head[8] = len(body), zlib.crc32(body)
    packed = struct.pack(HEADER, *head)[:44]
    return packed + struct.pack("<I", zlib.crc32(packed)) + body


def blocks(data):
    at = 64
    while at < len(data):
        head = struct.unpack_from(HEADER, data, at)
        yield at, head, data[at + 48:at + 48 + head[5]]
        at += 48 + head[5]


def columns(body):
    directory = Column(body)
    listed = [[directory.byte(), directory.byte(), directory.varint(), directory.varint()] for _ in range(directory.byte())]
    return {number: zstd(part, length) if coding else part
            for number, coding, length, size in listed for part in [directory.take(size)]}


def with_columns(head, parts):
    body = bytes([len(parts)]) + b"".join(bytes([number, 0]) + varint(len(part)) * 2 for number, part in parts.items())
    head = list(head)
    head[4] = sum(map(len, parts.values()))
    return block(head, body + b"".join(parts.values()))


def numbers(part):
    column, values = Column(part), []
    while not column.done():
        values.append(column.varint())
    return values


def rewritten(path, change):
    """The golden recording in which @change(which snapshot, header, body) says what becomes of each SNAPSHOT; without its index."""
    with open(GOLDEN, "rb") as file:
        data = file.read()
    out, which = data[:64], 0
    for at, head, body in blocks(data):
        if head[1] == INDEX:
            break
        if head[1] == SNAPSHOT:
            out += change(which, head, body)
            which += 1
        else:
            out += data[at:at + 48 + len(body)]
    path.write_bytes(out)
    return which


def explain(byteledger, *argv):
    return subprocess.run([byteledger, "explain", *map(str, argv)], capture_output=True, text=True, timeout=60)


def sheet_of(byteledger, path):
    done = explain(byteledger, "--format", "json", "--by", "function", path)
    assert done.returncode == 0, done.stderr
    sheet = json.loads(done.stdout)
    assert sum(line["bytes"] for line in sheet["lines"]) + sheet["unexplained_bytes"] == sheet["rss_bytes"]
    return sheet


def test_a_reader_that_knows_no_snapshots_passes_them_by(byteledger, tmp_path):
    """Under a type that nobody has given yet: all else is told as before, to the byte."""
    with open(GOLDEN, "rb") as file:
        data = bytearray(file.read())
    changed = 0
    for at, head, _ in list(blocks(bytes(data))):
        if head[1] in (SNAPSHOT, PAGES):
            data[at + 8] = 77
            data[at + 44:at + 48] = struct.pack("<I", zlib.crc32(bytes(data[at:at + 44])))
            changed += 1
    assert changed >= 3
    path = tmp_path / "older.blt"
    path.write_bytes(data)

    def report(which):
        done = subprocess.run([byteledger, "report", "--format", "json", which], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    ours, theirs = report(GOLDEN), report(path)
    for name in ("process", "totals", "lost", "rows"):
        assert ours[name] == theirs[name], name
    done = explain(byteledger, path)
    assert done.returncode == 1 and "it has no snapshot" in done.stderr and "hint:" in done.stderr
    verified = subprocess.run([byteledger, "info", path], capture_output=True, text=True, timeout=60)
    assert verified.returncode == 0 and "damaged" not in verified.stdout, verified.stdout


def test_of_a_later_layout_is_told_that_it_cannot_be_read(byteledger, tmp_path):
    path = tmp_path / "later.blt"

    def later(which, head, body):
        parts = columns(body)
        parts[0] = varint(2) + parts[0][1:]
        return with_columns(head, parts)
    count = rewritten(path, later)
    done = explain(byteledger, path)
    assert done.returncode == 1 and "no snapshot that can be read" in done.stderr, done
    rewritten(path, lambda which, head, body: later(which, head, body) if which else block(head, body))
    assert sheet_of(byteledger, path)["unreadable_snapshots"] == count - 1


def test_beside_a_damaged_snapshot_the_others_are_told_and_it_is_said(byteledger, tmp_path):
    path = tmp_path / "damaged.blt"
    sizes = []
    rewritten(path, lambda which, head, body: sizes.append(numbers(columns(body)[0])[2]) or block(head, body))
    assert sheet_of(byteledger, path)["rss_bytes"] == max(sizes) and sheet_of(byteledger, path)["unreadable_snapshots"] == 0
    peak = max(range(len(sizes)), key=lambda which: (sizes[which], which))  # of equals the last

    def flip(which, head, body):
        whole = bytearray(block(head, body))
        if which == peak:
            whole[-5] ^= 4
        return bytes(whole)
    rewritten(path, flip)
    sheet = sheet_of(byteledger, path)
    assert sheet["unreadable_snapshots"] == 1
    assert sheet["rss_bytes"] == max(size for which, size in enumerate(sizes) if which != peak)
    text = " ".join(explain(byteledger, path).stdout.split())
    assert "1 place of the recording cannot be read: a snapshot with more memory may have stood there." in text, text


def overlap(parts):
    regions = numbers(parts[2])
    regions[11] = 2 ** 64 - 4096  # the second begins before the first ends
    return {2: b"".join(map(varint, regions))}


def huge(parts):
    regions = numbers(parts[2])
    regions[1], regions[2] = 2 ** 60, 2 ** 60
    return {2: b"".join(map(varint, regions))}


def disorder(parts):
    runs = numbers(parts[3])
    runs[0] = 2 ** 63
    return {3: b"".join(map(varint, runs))}


def many(parts):
    head = numbers(parts[0][:64])
    first = varint(1)
    assert head[0] == 1 and parts[0].startswith(first)
    values = numbers(parts[0])
    values[25:27] = [2 ** 40, 2 ** 40]  # units, pieces
    return {0: b"".join(map(varint, values[:31])) + parts[0][len(b"".join(map(varint, numbers(parts[0])[:31]))):]}


@pytest.mark.parametrize("lie", [overlap, huge, disorder, many])
def test_a_snapshot_that_contradicts_itself_is_refused_and_said(byteledger, tmp_path, lie):
    path = tmp_path / "hostile.blt"

    def lying(which, head, body):
        parts = columns(body)
        parts.update(lie(parts))
        return with_columns(head, parts)
    sizes = []
    rewritten(path, lambda which, head, body: sizes.append(numbers(columns(body)[0])[2]) or lying(which, head, body))
    done = subprocess.run([byteledger, "explain", path], capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_AS, (1 << 30, 1 << 30)))
    assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("byteledger: "), done
    peak = max(range(len(sizes)), key=lambda which: (sizes[which], which))  # of equals the last
    rewritten(path, lambda which, head, body: lying(which, head, body) if which == peak else block(head, body))
    sheet = sheet_of(byteledger, path)
    assert sheet["unreadable_snapshots"] == 1
    report = subprocess.run([byteledger, "report", path], capture_output=True, text=True, timeout=60)
    assert report.returncode == 0 and "Peak heap" in report.stdout, report


needs_pages = pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/sys/kernel/btf/vmlinux"),
                                 reason="BPF needs root and a kernel with BTF")

RAW = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
/* past libc: no hook sees these mappings */
static char *take(size_t bytes) {
    return (char *)syscall(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
__attribute__((noinline)) void fill_table(char *at, size_t n) { for (size_t i = 0; i < n; i += 4096) at[i] = 1; __asm__ volatile(""); }
__attribute__((noinline)) void fill_index(char *at, size_t n) { for (size_t i = 0; i < n; i += 4096) at[i] = 1; __asm__ volatile(""); }
int main(void) {
    char *table = take(24 << 20), *index = take(8 << 20);
    fill_table(table, 24 << 20);
    fill_index(index, 8 << 20);
    puts("ready"); fflush(stdout); getchar();
    return table[0] + index[0] == 7;
}
"""


@needs_pages
def test_memory_that_nobody_asked_for_has_the_stack_that_touched_it(byteledger, tmp_path):
    """With both books; with the heap's alone it is unexplained, and the sheet is whole all the same."""
    source, program = tmp_path / "raw.c", tmp_path / "raw"
    source.write_text(RAW)
    subprocess.run(["cc", "-O1", "-g", "-fno-omit-frame-pointer", "-o", program, source], check=True, timeout=60)
    path, alone = tmp_path / "both.blt", tmp_path / "alone.blt"
    done = subprocess.run([byteledger, "run", "-q", "-o", path, "--", program], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    sheet = sheet_of(byteledger, path)
    assert "pages_age_ns" in sheet
    touched = next(line for line in sheet["lines"] if "who touched it first" in line["how"])
    told = {stack["frames"][0]["function"]: stack["bytes"] for stack in touched["stacks"]}
    assert touched["class"] == "anonymous-mmap" and not touched["exact"]
    assert sum(stack["bytes"] for stack in touched["stacks"]) == touched["bytes"]
    assert told["fill_table"] == pytest.approx(24 << 20, rel=0.05) and told["fill_index"] == pytest.approx(8 << 20, rel=0.05)
    assert abs(sheet["unexplained_bytes"]) < 0.01 * sheet["rss_bytes"]
    text = " ".join(explain(byteledger, path).stdout.split())
    assert re.search(r"by who touched it first: fill_table [\d.]+, fill_index [\d.]+", text), text
    done = subprocess.run([byteledger, "run", "--no-pages", "-q", "-o", alone, "--", program], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    sheet = sheet_of(byteledger, alone)
    assert sheet["unexplained_bytes"] > 31 << 20 and "pages_age_ns" not in sheet


def test_a_peak_that_no_snapshot_saw_is_told(byteledger, installed, tmp_path):
    """A short program may have had its memory and given it back before the first one."""
    path = tmp_path / "short.blt"
    subprocess.run([byteledger, "run", "-q", "-o", str(path), "--", installed("perl"), "-e", "my $x = 'x' x 60_000_000; undef $x;"], check=True,
                   capture_output=True, timeout=60)
    sheet = sheet_of(byteledger, path)
    assert sheet["peak_rss_bytes"] > 60_000_000
    text = subprocess.run([byteledger, "explain", str(path)], capture_output=True, text=True, check=True, timeout=60).stdout
    seen = sheet["rss_bytes"] * 1.1 >= sheet["peak_rss_bytes"]
    assert ("Of that moment there is no snapshot" in text) != seen
    at_end = json.loads(explain(byteledger, "--format", "json", "--at", "end", path).stdout)
    assert at_end["peak_rss_bytes"] is None
