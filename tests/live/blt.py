# SPDX-License-Identifier: Apache-2.0
"""A second reader of `.blt` recordings, made from docs/format.md alone: what it could not tell was missing there."""
import ctypes
import os
import struct
import zlib
from collections import defaultdict

MASK = (1 << 64) - 1
DEFS, EVENTS, SUMMARY, INDEX, END, PENDING, FILE, SNAPSHOT = range(1, 9)
PROCESS, THREAD, MODULE, FRAME, STACK, SYMBOL, RULE = range(1, 8)
REGION = 5
ALLOC, FREE, FREE_FOREIGN, MAP, UNMAP, BRK, RSS, MARK, LOST, SWITCH, THREAD_END, FORKED, CULLED, FILTERED, RESIDENT = range(1, 16)
TEMPORARY, IMPLIED = 2, 8
COUNTERS = ("allocations", "allocated_bytes", "frees", "temporary_allocations", "leaked_allocations", "leaked_bytes",
            "peak_bytes", "uncertain_allocations", "uncertain_bytes")
TOTALS = COUNTERS + ("foreign_frees", "peak_time_ns", "runtime_ns", "peak_event", "peak_rss_bytes", "lost_events", "lost_bytes",
                     "culled_allocations", "culled_bytes", "threads", "stacks")


def zstd(data, size, like=b""):
    """One or more frames, together exactly @size bytes; they may refer to @like."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_createDCtx.restype = ctypes.c_void_p
    library.ZSTD_decompress_usingDict.restype = ctypes.c_size_t
    to, context = ctypes.create_string_buffer(size), ctypes.c_void_p(library.ZSTD_createDCtx())
    got = library.ZSTD_decompress_usingDict(context, to, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)),
                                            like, ctypes.c_size_t(len(like)))
    library.ZSTD_freeDCtx(context)
    assert got == size
    return to.raw


class Flow:
    """A column that goes on from block to block: a zstd frame without an end."""

    class Buffer(ctypes.Structure):
        _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t)]

    def __init__(self):
        self.library = ctypes.CDLL("libzstd.so.1")
        self.library.ZSTD_createDStream.restype = ctypes.c_void_p
        self.library.ZSTD_decompressStream.restype = ctypes.c_size_t
        self.context = ctypes.c_void_p(self.library.ZSTD_createDStream())

    def __del__(self):
        self.library.ZSTD_freeDStream(self.context)

    def take(self, data, size):
        to, from_ = ctypes.create_string_buffer(size), ctypes.create_string_buffer(data, len(data))
        out, in_ = self.Buffer(ctypes.addressof(to), size, 0), self.Buffer(ctypes.addressof(from_), len(data), 0)
        while True:
            before = out.pos, in_.pos
            code = self.library.ZSTD_decompressStream(self.context, ctypes.byref(out), ctypes.byref(in_))
            assert not self.library.ZSTD_isError(ctypes.c_size_t(code))
            if (out.pos, in_.pos) == before:
                assert (out.pos, in_.pos) == (size, len(data))
                return to.raw


class Column:
    """The bytes of a column, and how far they are read."""

    def __init__(self, data=b""):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def take(self, count):
        assert self.at + count <= len(self.data)
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                assert value <= MASK and shift <= 70
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def string(self):
        length = self.varint()
        return self.take(length - 1) if length else None

    def done(self):
        return self.at == len(self.data)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def file_header(data):
    assert data[:8] == b"\x89BLT\r\n\x1a\n" and struct.unpack_from("<I", data, 60)[0] == zlib.crc32(data[:60])
    names = ("version", "machine", "pointer_bytes", "flags", "boot_id", "realtime_ns", "monotonic_ns")
    return dict(zip(names, struct.unpack_from("<IHBB16sQQ", data, 8)))


def blocks(data):
    """(header, columns) of every block of an undamaged file; all that the columns hold has to be read."""
    at, whole, flows, version = 64, {}, {}, struct.unpack_from("<I", data, 8)[0]
    while at < len(data):
        marker, kind, flags, rows, raw, stored, before, time, crc, own = struct.unpack_from("<8sBBxxIIIQQII", data, at)
        body = data[at + 48:at + 48 + stored]
        assert marker == bytes.fromhex("8f4c54426c6f636b") and own == zlib.crc32(data[at:at + 44])
        assert len(body) == stored and crc == zlib.crc32(body)
        columns, directory = defaultdict(Column), Column(body)
        listed = [[directory.byte(), directory.byte(), directory.varint(), directory.varint()]
                  for _ in range(directory.byte() if stored else 0)]
        if flags & 1 and kind == EVENTS:
            flows = {}
        for column, coding, length, size in listed:
            part = directory.take(size)
            if coding == 3:
                assert version > 1 and kind == EVENTS
                columns[column] = Column(flows.setdefault(column, Flow()).take(part, length))
                continue
            assert column < 32 and column not in columns and coding < (3 if kind == SNAPSHOT and before else 2)
            like = whole[before][column] if coding == 2 else b""
            columns[column] = Column(zstd(part, length, like) if coding else part)
            assert len(columns[column].data) == length
        assert directory.done() and raw == sum(length for _, _, length, _ in listed)
        if kind == SNAPSHOT and not before:
            whole[at] = {column: content.data for column, content in columns.items()}
        yield {"type": kind, "flags": flags, "rows": rows, "before": before, "time": time, "at": at}, columns
        left = [column for column, content in columns.items() if not content.done()]
        assert not left, f"columns {left} of a block of type {kind} hold more than was described"
        at += 48 + stored


def runs(column):
    """What runs of (number, value) say of each event: the value, and whether it is the first of its run."""
    while not column.done():
        count, value = column.varint(), column.varint()
        assert count >= 1
        for i in range(count):
            yield value, i == 0


def size_class(size):
    u = 2 if size <= 24 else (size + 8 + 15) // 16
    log = u.bit_length() - 1
    return u if u < 1024 else 1024 + 8 * log + (u >> (log - 3) & 7)


def unzigzag(code):
    return code >> 1 ^ -(code & 1)


class Dead:
    """A dead list: places with (address, slot), or None where one was taken out from amid the others (5.2)."""

    def __init__(self):
        self.places, self.empty, self.last = [], 0, 0

    def trim(self):
        while self.empty and self.places and not self.places[-1]:
            self.places.pop()
            self.empty -= 1
        while self.empty and self.places and not self.places[0]:
            self.places.pop(0)
            self.empty, self.last = self.empty - 1, self.last - 1

    def pop(self, place):
        entry = self.places.pop(place)
        self.trim()
        return entry

    def oldest(self):
        self.last -= 1
        return self.pop(0)

    def take(self, place):
        assert place >= 0
        entry, self.places[place], self.last = self.places[place], None, place
        self.empty += 1
        self.trim()
        return entry

    def push(self, entry):
        if self.empty > len(self.places) // 2:
            self.last = sum(bool(kept) for kept in self.places[:max(self.last, 0)])
            self.places, self.empty = [kept for kept in self.places if kept], 0
        self.places.append(entry)


class Model:
    """What writer and reader both know (5.2)."""

    def __init__(self, version):
        self.near_max, self.far = 7 if version > 1 else 0, version > 2
        self.slots = []  # None, or [address, size, stack, seq]

    def reset(self, column):
        if not column.data:  # the writer lost events itself: no block is spoken of any more
            self.slots, column = [], Column(b"\0")
        count, live = column.varint(), []
        while len(live) < count:
            live += [True] * column.varint()
            live += [False] * (column.varint() if len(live) < count else 0)
        self.slots += [None] * (count - len(self.slots))
        assert [slot is not None for slot in self.slots] == live
        self.slots = [slot and slot[:3] + [0] for slot in self.slots]
        self.spare = [i for i in reversed(range(count)) if not live[i]]
        self.dead, self.near, self.ring, self.seq, self.last_stack = defaultdict(Dead), defaultdict(list), {}, 0, 0
        self.context = [{"last": 0, "before": 0, "freed_seq": 0, "addr": 0, "bump": 0, "cut": 0, "made": None} for _ in range(64)]
        self.guesses = defaultdict(lambda: {"size": 0, "stack": 0, "age": 0, "aux": 0, "alloc": 0, "free": 0})
        self.others = defaultdict(lambda: [0] * 4)

    def guess(self, context):
        h = (context["last"] * 0x9e3779b97f4a7c15 ^ context["before"] * 0xc2b2ae3d27d4eb4f) & MASK
        return self.guesses[((h ^ h >> 29) * 0xbf58476d1ce4e5b9 & MASK) >> 52]

    def alloc(self, op, thread, columns):
        where, what, odd = op >> 3, op >> 1 & 3, op & 1
        context = self.context[thread % 64]
        guess = self.guess(context)
        size = columns[5].varint() if what & 1 else guess["size"]
        stack = guess["stack"]
        if what & 2:
            stack = self.last_stack = self.last_stack + columns[4].zigzag()
        flags = columns[10].byte() if odd else guess["alloc"]
        dead, near = self.lists(thread, size)
        seen = list(reversed(near)) + list(reversed(dead.places[-12:]))
        depth = {0: lambda: 0, 2: lambda: columns[7].byte()}.get(where, lambda: None)()
        number = None
        if where in (1, 4):
            addr = context["bump" if where == 1 else "cut"]
            depth = next((i for i, entry in enumerate(seen) if entry and entry[0] == addr), None) if self.near_max else None
        elif where == 3:
            folded = columns[6].zigzag()
            addr = context["addr"] + (folded >> 1 if folded & 1 else folded * 8) & MASK
        elif where == 5:
            addr, number = dead.take(dead.last + unzigzag(columns[16].byte()))
        elif where == 6:
            addr, number = dead.take(len(dead.places) - columns[17].varint())
        if depth is not None:
            addr, number = seen[depth]
            if depth < len(near):
                near.pop(-1 - depth)
            else:
                dead.pop(len(dead.places) - 1 - (depth - len(near)))
                while self.near_max and not depth and size_class(size) < 9 and len(near) < 7 and dead.places:
                    near.append(dead.pop(len(dead.places) - 1))
        elif number is None:
            if dead.places:
                number = (dead.oldest() if self.near_max else dead.pop(len(dead.places) - min(len(dead.places), 12)))[1]
            elif near:
                number = near.pop(0)[1]
            elif self.spare:
                number = self.spare.pop()
            else:
                number = len(self.slots)
                self.slots.append(None)
        assert self.slots[number] is None
        self.slots[number] = [addr, size, stack, self.seq]
        self.ring[self.seq % (1 << 20)] = number
        self.seq += 1
        guess.update(size=size, stack=stack, alloc=flags)
        context.update(addr=addr, made=number, last=2 * stack, before=context["last"],
                       bump=addr + (32 if size <= 24 else size + 23 & ~15) & MASK)
        if where not in (0, 2):
            context["cut"] = context["bump"]
        return {"kind": ALLOC, "flags": flags, "addr": addr, "bytes": size, "stack": stack, "aux": 0, "block": number}

    def lists(self, thread, size):
        kind = size_class(size)
        return self.dead[kind], self.near[thread % 64, kind] if self.near_max and kind < 66 else []

    def free(self, op, thread, columns):
        which, aux_given, odd = op >> 2, op >> 1 & 1, op & 1
        context = self.context[thread % 64]
        guess = self.guess(context)
        if which == 3:
            number, age = columns[9].varint(), 0
        else:
            age = (guess["age"], self.seq - context["freed_seq"] - 1, None)[which]
            if which == 2:
                apart = self.far and context["last"] & 1
                age = self.seq - context["freed_seq"] - columns[15].zigzag() if apart else columns[8].varint()
            number = self.ring[(self.seq - age) % (1 << 20)]
            assert self.slots[number][3] == self.seq - age
        aux = columns[11].varint() if aux_given else guess["aux"]
        made = context["made"] == number
        flags = columns[10].byte() if odd else guess["free"] & ~TEMPORARY | (TEMPORARY if made else 0)
        addr, size, stack, seq = self.slots[number]
        self.slots[number] = None
        guess.update(age=age, aux=aux, free=flags)
        context.update(freed_seq=seq, last=2 * stack + 1, before=context["last"], made=None if made else context["made"])
        dead, near = self.lists(thread, size)
        (near.append if self.near_max and size_class(size) < 66 and len(near) < 7 else dead.push)((addr, number))
        return {"kind": FREE, "flags": flags, "addr": addr, "bytes": size, "stack": stack, "aux": aux, "block": number}

    def other(self, columns):
        kind = columns[12].byte()
        last = self.others[kind & 15] = [(old + columns[13].zigzag()) & MASK for old in self.others[kind & 15]]
        aux, block = columns[13].varint(), (columns[13].varint() - 1) % (1 << 32)
        return {"kind": kind & 15, "flags": kind >> 4, "stack": last[0], "addr": last[1], "bytes": last[2], "value": last[3],
                "aux": aux, "block": block}


class Recording:
    """Everything that a whole recording says."""

    def __init__(self, path):
        data, beside = contents(path), contents(f"{path}.pending") if os.path.exists(f"{path}.pending") else b""
        self.header, self.model, self.process, self.summary, self.index = file_header(data), None, None, None, None
        self.model = Model(self.header["version"])
        self.threads, self.modules, self.frames, self.stacks, self.symbols, self.files = {}, {}, {}, {}, {}, {}
        self.events, self.blocks, self.definitions, self.sums = [], [], 0, [0] * 7
        take = {DEFS: self.take_defs, EVENTS: self.take_events, SUMMARY: self.take_summary, INDEX: self.take_index,
                FILE: self.take_file, END: self.take_end, SNAPSHOT: self.skip}
        late = next(blocks(beside))[1][0].varint() if beside and beside[:64] == data[:64] else MASK
        for head, columns in blocks(data):
            if head["type"] != EVENTS or head["at"] < late:
                take.get(head["type"], self.skip)(head, columns)  # unknown ones are passed over, as readers do
                self.blocks.append(head)
        made = []  # the allocations of the file beside
        for head, columns in blocks(beside) if late <= len(data) else []:
            assert head["type"] == PENDING and columns[0].varint() == late
            self.take_pending(head, columns, made)

    def skip(self, head, columns):
        """What readers of events pass over; `explain` reads it."""
        for column in columns.values():
            column.take(len(column.data))

    def take_defs(self, head, columns):
        assert head["before"] == self.definitions
        self.definitions += head["rows"]
        last, offset, frame, column = defaultdict(int), 0, 0, columns[4]
        for _ in range(head["rows"]):
            kind, stop = columns[0].byte() & 15, columns[0].data[columns[0].at - 1] >> 4
            number = last[kind] + columns[1].zigzag()
            last[kind] = number + 1
            if kind == PROCESS:
                names = ("pid", "exe", "cmdline", "source", "realtime_ns", "monotonic_ns", "bound_ns", "flags", "exit_status",
                         "runtime_ns", "peak_rss_bytes")
                self.process = {name: column.string() if name in ("exe", "cmdline", "source") else
                                column.zigzag() if name == "exit_status" else column.varint() for name in names}
                self.process["sample_bytes"] = column.varint() if self.process["flags"] >> 34 & 1 else 0
                self.process["family"], self.process["parent_pid"] = (
                    [column.varint(), column.varint()] if self.process["flags"] >> 35 & 1 else (0, 0))
            elif kind == THREAD:
                self.threads[number] = (column.varint(), column.string())
            elif kind == MODULE:
                self.modules[number] = (column.string(), column.take(column.byte()), [column.varint() for _ in range(3)])
            elif kind == FRAME:
                module, offset = columns[2].varint(), offset + columns[2].zigzag() & MASK
                self.frames[number] = (module, offset)
            elif kind == STACK:
                parent = number - columns[3].varint()
                frame += columns[3].zigzag() if not stop else 0
                assert 0 <= parent < number and not (stop and parent)
                self.stacks[number] = (parent, frame, stop)
            elif kind == RULE:
                assert column.string()
            else:
                assert kind == SYMBOL
                self.symbols[number] = [(column.string(), column.string(), column.varint()) for _ in range(column.varint())]

    def take_events(self, head, columns):
        assert head["before"] == len(self.events) and [columns[0].varint() for _ in range(7)] == self.sums
        if head["flags"] & 1:
            self.model.reset(columns[14])
        time, times, threads = head["time"], runs(columns[2]), runs(columns[3])
        for _ in range(head["rows"]):
            later, first = next(times)
            time += later if first else 0
            thread, op = next(threads)[0], columns[1].byte()
            assert op <= 48 or self.model.far and 64 <= op < 88
            event = (self.model.alloc(op - (32 if op >= 64 else 0), thread, columns) if op < 32 or op >= 64 else
                     self.model.free(op - 32, thread, columns) if op < 48 else self.model.other(columns))
            event.update(time=time, thread=thread)
            self.events.append(event)
            if event["kind"] == ALLOC:
                self.add(0, 1, event["bytes"], 0)
            self.sums[2] += event["kind"] in (FREE, FREE_FOREIGN)
            self.sums[3] += event["kind"] == FREE and event["flags"] >> 3
            if event["kind"] == LOST and event["value"] != REGION:
                self.add(4, event["addr"], event["bytes"], event["block"])
            elif event["kind"] == CULLED:
                self.add(4, event["addr"], event["bytes"], event["addr"])
        assert next(times, None) is next(threads, None) is None

    def add(self, place, *more):
        for i, number in enumerate(more):
            self.sums[place + i] = self.sums[place + i] + number & MASK

    def take_pending(self, head, columns, made):
        time, stack, addr = 0, 0, 0
        for _ in range(head["rows"]):
            kind = columns[1].byte()
            time += columns[2].varint()
            event = {"kind": kind & 15, "flags": kind >> 4, "time": time, "thread": columns[3].varint()}
            if event["kind"] != FREE:
                stack, addr = stack + columns[4].zigzag(), addr + columns[5].zigzag() & MASK
                event.update(stack=stack, addr=addr, bytes=columns[6].varint())
            if event["kind"] not in (ALLOC, FREE):
                event["value"] = columns[7].varint()
            event["aux"] = columns[8].varint() if event["kind"] != ALLOC else 0
            block = columns[9].varint() if event["kind"] != ALLOC else 0
            if event["kind"] == ALLOC:
                made.append([addr, event["bytes"], stack])
            elif event["kind"] == FREE:
                event.update(zip(("addr", "bytes", "stack"), (made if block & 1 else self.model.slots)[block >> 1]))
            else:
                event["block"] = (block - 1) % (1 << 32)
            self.events.append(event)

    def take_summary(self, head, columns):
        column = columns[0]
        totals = {name: column.varint() for name in TOTALS}
        for name, count in (("lost", 16), ("loss_reports", 16), ("partial", 16), ("forked", 4), ("filtered", 3),
                            ("filtered_inherited", 2)):
            totals[name] = [0 if column.done() else column.varint() for _ in range(count)]
        if not column.done():
            totals["peak_allocations"] = column.varint()
        self.summary = {"totals": totals, "stacks": {}, "threads": {}, "timeline": []}
        number = -1
        for _ in range(head["rows"]):
            number += 1 + columns[1].varint()
            self.summary["stacks"][number] = {name: columns[2 + i].varint() for i, name in enumerate(COUNTERS)}
            if not columns[11].done():
                self.summary["stacks"][number]["peak_allocations"] = columns[11].varint()
        number, column = -1, columns[16]
        while not column.done():
            number += 1 + column.varint()
            self.summary["threads"][number] = {name: column.varint() for name in COUNTERS + ("events",)}
            if not columns[18].done():
                self.summary["threads"][number]["peak_allocations"] = columns[18].varint()
        point, column = [0] * 8, columns[17]
        while not column.done():
            more = [column.varint()] + [column.zigzag() for _ in range(7)]
            point = [more[i] if i in (4, 5) else point[i] + more[i] for i in range(8)]
            self.summary["timeline"].append(point)
        part, column = [0] * 8, columns[20]
        while not column.done():  # anonymous, file, shared memory, swapped: each with the highest of its stretch
            for k in range(0, 8, 2):
                part[k] += column.zigzag()
                part[k + 1] = part[k] + column.varint()
            self.summary.setdefault("parts", []).append(list(part))
        column, last = columns[21], 0
        self.summary["marks"] = column.varint(), []
        while not column.done():
            last += column.varint()
            self.summary["marks"][1].append((last, column.varint()))
        column = columns[19]
        if not column.done():
            self.summary["mapped"] = {"kinds": [[column.varint() for _ in range(7)] for _ in range(4)], "lost": column.varint(), "rows": []}
        while not column.done():
            self.summary["mapped"]["rows"].append([column.varint() for _ in range(7)])

    def take_file(self, _head, columns):
        column = columns[0]
        path = column.take(column.varint())
        self.files[path] = [column.varint() for _ in range(3)] + [columns[1].take(len(columns[1].data))]

    def take_index(self, head, columns):
        column, entries, last = columns[0], [], [0, 0]
        assert [column.varint() for _ in range(5)] == [len(self.events), *self.sums[:3], len(self.blocks)]
        for _ in range(column.varint()):
            kind, last = column.varint(), [last[0] + column.varint(), last[1] + column.zigzag()]
            entries.append((kind, *last))
        assert len(entries) == head["rows"] and [column.varint() for _ in range(4)] == self.sums[3:] and column.done()
        assert set(entries) <= {(b["type"] << 8 | b["flags"], b["at"], b["time"]) for b in self.blocks}
        self.index = entries

    def take_end(self, head, _columns):
        assert head["before"] == self.blocks[-1]["at"] and self.blocks[-1]["type"] == INDEX

    def places(self, stack):
        """((base name of the module or None, offset) ...), innermost first; and why the stack ends early (0: it doesn't)."""
        places = []
        while stack:
            stack, frame, stop = self.stacks[stack]
            if stop:
                return tuple(places), stop
            module, offset = self.frames[frame]
            places.append((self.modules[module][0].decode().rsplit("/", 1)[-1] if module else None, offset))
        return tuple(places), 0
