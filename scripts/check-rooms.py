#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold src/ against the rooms table of docs/rooms.md. Prints TAP, one case per rule and room.

usage: check-rooms.py [SOURCE-ROOT]
"""
import os
import re
import sys

# What a word in "sole user of" stands for: headers (with < >) or identifiers.
WORDS = {
    "zstd": ["<zstd.h>", "<zstd_errors.h>", "<zdict.h>"],
    "zlib": ["<zlib.h>"],
    "bpf_helpers.h": ["<bpf/bpf_helpers.h>", "<bpf/bpf_core_read.h>", "<bpf/bpf_tracing.h>"],
    "RTLD_NEXT": ["RTLD_NEXT"],
    "ptrace": ["<sys/ptrace.h>", "<linux/ptrace.h>"],
    "SQLite": ["<sqlite3.h>"],
    "elfutils": ["<libelf.h>", "<gelf.h>", "<dwarf.h>", "<elfutils/*>"],
    "Zydis": ["<Zydis/*>"],
    "libiberty": ["<libiberty/*>", "<demangle.h>"],
    "libsodium": ["<sodium.h>", "<sodium/*>"],
    "libbpf": ["<bpf/libbpf.h>", "<bpf/bpf.h>", "<bpf/btf.h>"],
    "libpcap": ["<pcap.h>", "<pcap/*>"],
    "protobuf-c": ["<protobuf-c/*>"],
    "Lua": ["<lua.h>", "<lauxlib.h>", "<lualib.h>"],
    "libmicrohttpd": ["<microhttpd.h>"],
    "libcurl": ["<curl/*>"],
    "ncurses": ["<curses.h>", "<ncurses.h>", "<ncursesw/*>"],
    "argp": ["<argp.h>"],
}
# Nobody's, and why.
# What nobody may call in src/, and what to take instead.
BANNED = {"process_vm_readv": "pins pages, and pinning copies what fork shares: pread() of /proc/PID/mem does not",
          "gets|strcat|strncat|sprintf|vsprintf|stpcpy": "does not know how much room there is: snprintf(), struct buf",
          "strncpy": "cuts in silence and may leave no end: snprintf()",
          "atoi|atol|atof": "takes anything for a number: strtoull() and a look at what is left",
          "strtok|asctime|ctime|gmtime|localtime": "has one memory for all threads: the one whose name ends with _r",
          "rand|srand|random": "repeats itself: getrandom()",
          "tmpnam|tempnam|mktemp": "somebody may be quicker: mkostemp()",
          "system": "runs a shell: posix_spawn()"}
# cmd alone parses a command line, prints and exits. What names such a thing elsewhere has a reason.
MANNERS = {
    "prints": r"\b(?:v?d?printf|puts|putchar|perror|stderr|stdout|STDERR_FILENO|STDOUT_FILENO)\b",
    "exits": r"\b(?:exit|_exit|_Exit|abort|quick_exit|errx?)\s*\(",
    "takes a command line": r"\bargv\b|\bgetopt\w*|\bargp\w*",
}
MANNERS_REASONS = {
    "src/script/machine.c": "the child that a script runs in",
    "src/recorder/helper.c": "its own stderr becomes that of the program",
    "src/sym/reader.c": "a process of its own, which ends there",
    "src/source/sampler_attach.c": "a child of its own that is looked at",
    "src/tui/paint.c": "the terminal is its job",
    "src/alert/run.c": "the child that --on-alert exec: becomes",
    "src/base/cleanup.h": "an attribute's word",
    "src/inject/keep.c": "a child of its own that ends there",
    "src/inject/probe.c": "a child of its own that is looked at",
    "src/preload/helper.c": "the recorder that it becomes",
    "src/preload/hooks_process.c": "the program's own exec and exit",
    "src/recorder/launch.c": "the program that is started, and the child that becomes it",
    "src/recorder/launch.h": "the program that is started",
    "src/recorder/recorder.c": "the program that is started",
    "src/recorder/recorder.h": "the program that is started",
    "src/recorder/started.c": "the program that is started",
    "src/recorder/started.h": "the program that is started",
}
DUAL = "GPL-2.0-only OR BSD-2-Clause"
DUAL_ROOMS = ("bpf", "unwind", "wire")
MAX_LINES = 800
INCLUDE = re.compile(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', re.M)
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


class Room:
    def __init__(self, floor, name, may, sole):
        self.floor, self.name, self.may, self.sole = floor, name, may, sole


def read_table(path):
    rooms, floors = {}, []
    for line in open(path, encoding="utf-8"):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) != 5 or cells[0] in ("floor", "---"):
            continue
        floor, name = cells[0], cells[1].strip("`")
        if floor not in floors:
            floors.append(floor)
        rooms[name] = Room(floors.index(floor), name, cells[3],
                           [w for w in re.split(r",\s*", cells[4]) if w != "-"])
    for room in rooms.values():
        if room.may.startswith("all but "):
            room.may = set(rooms) - set(room.may[8:].split()) - {room.name}
        else:
            room.may = set(room.may.split()) - {"-"}
    return rooms


def matches(header, pattern):
    if pattern.endswith("/*>"):
        return header.startswith(pattern[:-2])
    return header == pattern


def sources(root, room):
    base = os.path.join(root, "src", room)
    for folder, _, names in os.walk(base):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".S")):
                yield os.path.join(folder, name)


def check_table(rooms):
    faults = []
    for room in rooms.values():
        for other in room.may:
            if other not in rooms:
                faults.append(f"'{room.name}' may include '{other}', which is no room")
            elif rooms[other].floor > room.floor:
                faults.append(f"'{room.name}' may include '{other}' of a higher floor")
        for word in room.sole:
            if word not in WORDS:
                faults.append(f"'{room.name}' is sole user of '{word}', which check-rooms.py does not know")
    return faults


def check_includes(rooms, room, path, text):
    faults = []
    for header in INCLUDE.findall(text):
        if header[0] != '"':
            continue
        first = header.strip('"').split("/")[0]
        if "/" not in header:
            # a generated or sibling header must be written "room/file.h"; skeletons come from the build folder
            if not header.endswith((".skel.h\"", ".pb-c.h\"")):
                faults.append(f"{path}: {header} does not name its room")
        elif first not in rooms:
            faults.append(f"{path}: {header} is in no room")
        elif first != room.name and first not in room.may:
            faults.append(f"{path}: '{room.name}' may not include '{first}' ({header})")
    return faults


def check_sole(rooms, room, path, text):
    faults = []
    headers = INCLUDE.findall(text)
    code = COMMENT.sub(" ", text)
    for owner in rooms.values():
        if owner.name == room.name:
            continue
        for word in owner.sole:
            for pattern in WORDS[word]:
                if pattern[0] == "<":
                    used = any(matches(h, pattern) for h in headers)
                else:
                    used = re.search(rf"\b{pattern}\b", code)
                if used:
                    faults.append(f"{path}: {pattern} belongs to '{owner.name}' alone")
    return faults


def check_manners(path, text):
    if path.replace(os.sep, "/") in MANNERS_REASONS:
        return []
    code = COMMENT.sub(" ", text)
    return [f"{path}: {what}, which is for cmd" for what, pattern in MANNERS.items() if re.search(pattern, code)]


def check_house(room, path, text):
    faults = []
    want = DUAL if room in DUAL_ROOMS else "Apache-2.0"
    found = re.search(r"SPDX-License-Identifier: (.*?)\s*(?:\*/)?\n", text[:400])
    if not found or found.group(1).strip("() ") != want:
        faults.append(f"{path}: licence line is {found.group(1) if found else 'missing'}, want {want}")
    code = COMMENT.sub(" ", text)
    faults += [f"{path}: {found.group(1)}() {why}" for words, why in BANNED.items()
               if (found := re.search(rf"(?<![\w.>\"])({words})\(", code))]
    lines = text.count("\n")
    if lines > MAX_LINES:
        faults.append(f"{path}: {lines} lines, more than {MAX_LINES}: divide it")
    return faults


def circles(root, room):
    """Files of @room that use each other in a circle: [[name without ending]]. Headers that several files share have no file of their own."""
    base, uses = os.path.join(root, "src"), {}
    paths = [os.path.relpath(p, base) for p in sources(root, room)]
    for path in paths:
        if os.path.splitext(path)[0] + ".c" in paths:
            text = open(os.path.join(base, path), encoding="utf-8").read()
            uses.setdefault(os.path.splitext(path)[0], set()).update(os.path.splitext(h.strip('"'))[0] for h in INCLUDE.findall(text))
    reached = {name: set() for name in uses}
    for name in uses:
        todo = [name]
        while todo:
            for other in uses[todo.pop()] & set(uses):
                if other not in reached[name]:
                    reached[name].add(other)
                    todo.append(other)
    return sorted({tuple(sorted(o for o in uses if o in reached[n] and n in reached[o])) for n in uses if n in reached[n]} - {(n,) for n in uses})


def check_circles(root, room):
    faults = []
    for circle in circles(root, room):
        headers = [os.path.join(root, "src", name + ".h") for name in circle]
        if not any("circle of files:" in open(h, encoding="utf-8").read() for h in headers if os.path.exists(h)):
            faults.append(f"{', '.join(circle)} use each other: untie them, or let a header say why (\"A circle of files: ...\")")
    return faults


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    rooms = read_table(os.path.join(root, "docs", "rooms.md"))
    present = sorted(d for d in os.listdir(os.path.join(root, "src"))
                     if os.path.isdir(os.path.join(root, "src", d)))
    stale = [f"{p} has a reason and is not there" for p in MANNERS_REASONS if not os.path.exists(os.path.join(root, p))]
    cases = [("reasons are of files that are there", stale), ("the table is consistent", check_table(rooms)),
             ("every folder of src is a room", [f"src/{d} is not in the table" for d in present if d not in rooms])]
    for name in present:
        if name not in rooms:
            continue
        room, includes, sole, house, manners = rooms[name], [], [], [], []
        for path in sources(root, name):
            text = open(path, encoding="utf-8").read()
            shown = os.path.relpath(path, root)
            includes += check_includes(rooms, room, shown, text)
            sole += check_sole(rooms, room, shown, text)
            house += check_house(name, shown, text)
            manners += check_manners(shown, text) if name != "cmd" else []
        cases.append((f"files of {name} use each other in no circle, or a header says why", check_circles(root, name)))
        cases.append((f"{name} includes only rooms it may", includes))
        cases.append((f"{name} uses no header that belongs to another room", sole))
        if name != "cmd":
            cases.append((f"{name} neither prints nor exits nor parses a command line", manners))
        cases.append((f"{name} files name their licence and stay below {MAX_LINES} lines", house))
    print(f"1..{len(cases)}")
    failed = 0
    for number, (title, faults) in enumerate(cases, 1):
        print(f"{'not ok' if faults else 'ok'} {number} - {title}")
        for fault in faults:
            print(f"# {fault}")
        failed += bool(faults)
    return 1 if failed else 0


sys.exit(main())
