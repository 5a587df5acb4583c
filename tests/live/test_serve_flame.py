# SPDX-License-Identifier: Apache-2.0
"""What colours and edges of the flame are made of: ages, temporary shares, who counts as own, inlined frames, stacks that end early; and sources that
lie elsewhere on this disk."""
import json
import os
import subprocess
import urllib.parse

import pytest

from conftest import ROOT
from test_page import browser, in_browser  # noqa: F401  pylint: disable=unused-import
from test_serve import Server, value_fits

# old: a second before young. churns: all of it temporary. through_inline: allocates by a function that has no frame of its own. through_jit: called by
# code without a module, unwind data or frame pointer.
SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *keep[100];
static int n;
__attribute__((noinline)) void old(void) { for (int i = 0; i < 8; i++) keep[n++] = memset(malloc(1 << 20), 1, 1 << 20); }
__attribute__((noinline)) void young(void) { for (int i = 0; i < 4; i++) keep[n++] = memset(malloc(1 << 20), 1, 1 << 20); }
__attribute__((noinline)) void churns(void) { for (int i = 0; i < 400; i++) { void *volatile p = malloc(70000); free(p); } }
static inline __attribute__((always_inline)) void put_there(size_t size) { keep[n++] = memset(malloc(size), 1, size); }
__attribute__((noinline)) void through_inline(void) { put_there(2 << 20); keep[0] = keep[1]; }
__attribute__((noinline)) void from_jit(void) { keep[n++] = memset(malloc(3 << 20), 1, 3 << 20); }
int main(void)
{
	/* sub $8,%rsp; call *%rdi; add $8,%rsp; ret */
	static const unsigned char code[] = { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3 };
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(at, code, sizeof(code));
	mprotect(at, 4096, PROT_READ | PROT_EXEC);
	old();
	sleep(1);
	young();
	churns();
	through_inline();
	((void (*)(void (*)(void)))at)(from_jit);
	usleep(100000);
	return 0;
}
"""


@pytest.fixture(scope="module")
def flame(byteledger, installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("flame")
    (folder / "src").mkdir()
    (folder / "src" / "flame.c").write_text(SOURCE)
    subprocess.run([installed("gcc"), "-g", "-O2", "-fomit-frame-pointer", "-o", str(folder / "flame"), str(folder / "src" / "flame.c")], check=True, timeout=60)
    subprocess.run([byteledger, "run", "-q", "-o", str(folder / "flame.blt"), "--", str(folder / "flame")], check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def server(byteledger, flame):  # pylint: disable=redefined-outer-name
    with Server(byteledger, str(flame / "flame.blt")) as one:
        yield one


def nodes_of(tree, name):
    """Places of the function in the answer."""
    return [i for i, f in enumerate(tree["node"]["frame"]) if f >= 0 and tree["frames"]["name"][f] == name]


def fits(tree):
    with open(os.path.join(ROOT, "src", "api", "byteledger-openapi.json"), encoding="utf-8") as file:
        spec = json.load(file)
    value_fits(tree, spec["components"]["schemas"]["Tree"], spec, "Tree")


def test_the_share_that_was_temporary_adds_up_as_the_rows_say(server):  # pylint: disable=redefined-outer-name
    tree = server.get("tree", more="temporary", cost="allocated")
    fits(tree)
    rows = server.get("rows", by="function", limit=1000)
    of = dict(zip(rows["rows"]["key"], zip(rows["rows"]["inclusive_allocations"], rows["rows"]["inclusive_temporary_allocations"])))
    for name, least in (("old", 0), ("churns", 390)):
        place, = nodes_of(tree, name)
        told = tree["node"]["allocations"][place], tree["node"]["temporary"][place]
        assert told == of[tree["frames"]["key"][tree["node"]["frame"][place]]] and told[1] >= least, (name, told)
    assert tree["node"]["temporary"][0] >= 390 and tree["node"]["allocations"][0] == sum(rows["rows"]["allocations"])
    assert "allocations" not in server.get("tree")["node"]
    moment = server.get("tree", more="temporary", at="peak")
    assert {"word": "more=temporary", "why": "what lives at a moment is not temporary"} in moment["unapplied"] and "temporary" not in moment["node"]


@pytest.mark.parametrize("words", [{"cost": "leaked"}, {"cost": "peak"}, {"at": "90%"}, {"cost": "leaked", "min_size": "3M"}, {"at": "50%", "inverted": 1}])
def test_ages_are_those_of_the_single_blocks(server, words):  # pylint: disable=redefined-outer-name
    tree = server.get("tree", more="age", keys=1, **words)
    fits(tree)
    at = words.get("at", "peak" if words["cost"] == "peak" else None) if "at" not in words else words["at"]
    picked = {key: value for key, value in words.items() if key not in ("cost", "inverted", "at")}
    blocks = server.get("allocations", limit=10000, **picked, **({"at": at} if at else {"leaked": 1}))
    of, frames = {}, blocks["frames"]["name"]
    for time_ns, size, stack in zip(blocks["allocations"]["time_ns"], blocks["allocations"]["bytes"], blocks["allocations"]["stack"]):
        for name in {frames[f] for f in blocks["stacks"]["frames"][stack]} if stack >= 0 else ():
            of.setdefault(name, []).append((size, tree["age_at_ns"] - time_ns))
    seen = 0
    for name in ("old", "young", "through_inline", "from_jit"):
        for place in nodes_of(tree, name):
            if name not in of or (words.get("inverted") and tree["node"]["depth"][place] != 1):
                continue
            mean = sum(size * age for size, age in of[name]) / max(1, sum(size for size, _ in of[name]))
            assert abs(tree["node"]["age_ns"][place] - mean) <= tree["age_at_ns"] / 65535 + 1, (name, mean)
            seen += 1
    assert seen
    if words == {"cost": "leaked"}:
        first, second = (tree["node"]["age_ns"][nodes_of(tree, name)[0]] for name in ("old", "young"))
        assert 1e9 < first < 1e11 and second < first - 0.9e9


def test_an_age_of_what_does_not_live_is_refused_in_words_and_what_is_not_known_as_400(server):  # pylint: disable=redefined-outer-name
    assert server.get("tree", more="age", cost="allocations")["unapplied"][0]["word"] == "more=age"
    for question in ("tree?more=size", "tree?own=(", "rows?more=age", "source?file=0000000000000000&prefix=here"):
        assert server.ask(f"/api/v1/{question}")[0] == 400, question


def test_a_pattern_of_the_readers_widens_own_and_is_part_of_the_selection(server):  # pylint: disable=redefined-outer-name
    plain, wide = server.get("tree"), server.get("tree", own="libc\\.so|no such")
    at = {name: i for i, name in enumerate(plain["frames"]["name"]) if name}
    libc = at["__libc_start_main_impl"] if "__libc_start_main_impl" in at else at["__libc_start_call_main"]
    assert plain["frames"]["category"][libc] == 4 and wide["frames"]["category"][libc] == 0
    assert plain["frames"]["category"][at["old"]] == wide["frames"]["category"][at["old"]] == 0
    assert "own=" in wide["selection"] and wide["node"]["total"] == plain["node"]["total"]
    # the reason why stacks end is nobody's
    reasons = [i for i, name in enumerate(wide["frames"]["name"]) if name and name.startswith("[partial")]
    assert reasons and all(server.get("tree", own=".")["frames"]["category"][i] == 7 for i in reasons)


def test_frames_say_where_they_were_inlined_as_the_report_does(byteledger, server, flame):  # pylint: disable=redefined-outer-name
    tree = server.get("tree")
    fits(tree)
    told = dict(zip(tree["frames"]["name"], tree["frames"]["inlined"]))
    assert told["put_there"] is True and told["through_inline"] is False and told["main"] is False
    report = json.loads(subprocess.run([byteledger, "report", "--format", "json", str(flame / "flame.blt")], check=True, capture_output=True, timeout=60).stdout)
    ever = {}
    for row in report["rows"]:
        for frame in row["frames"]:
            ever.setdefault(frame["function"], []).append(frame["inlined"])
    for name, inlined in told.items():
        if name in ever:
            assert inlined == all(ever[name]), name


def file_key(server, name):  # pylint: disable=redefined-outer-name
    rows = server.get("rows", by="file", limit=1000)
    return next(key for key, frame in zip(rows["rows"]["key"], rows["rows"]["frame"]) if (rows["frames"]["file"][frame] >= 0) and
                rows["files"][rows["frames"]["file"][frame]].endswith(name))


def source(server, key, prefix=None):  # pylint: disable=redefined-outer-name
    status, _, body = server.ask(f"/api/v1/source?file={key}" + (f"&prefix={urllib.parse.quote(str(prefix))}" if prefix else ""))
    return status, json.loads(body)


def test_a_source_that_lies_elsewhere_is_found_below_the_folder_that_is_named(server, flame):  # pylint: disable=redefined-outer-name
    key = file_key(server, "flame.c")
    status, told = source(server, key)
    assert status == 200 and told["found"] == told["path"] == str(flame / "src" / "flame.c")
    (flame / "moved" / "deep").mkdir(parents=True)
    (flame / "src" / "flame.c").rename(flame / "moved" / "deep" / "flame.c")
    try:
        assert source(server, key)[0] == 404
        assert source(server, key, flame / "moved")[0] == 404, "no folder is searched through"
        status, told = source(server, key, flame / "moved" / "deep")
        assert status == 200 and told["text"][:2] == SOURCE.split("\n")[:2] and told["found"] == str(flame / "moved" / "deep" / "flame.c")
        assert told["path"] == str(flame / "src" / "flame.c") and sum(told["lines"]["self"]) > 0
        # as much of the recorded path as is there, before less of it
        (flame / "moved" / "deep" / "src").mkdir()
        (flame / "moved" / "deep" / "src" / "flame.c").write_text("the one with its folder\n")
        assert source(server, key, flame / "moved" / "deep")[1]["text"] == ["the one with its folder"]
        # a link below the prefix leads nowhere, whatever it points to; nor is anything but a file read
        (flame / "links").mkdir()
        (flame / "links" / "flame.c").symlink_to(flame / "moved" / "deep" / "flame.c")
        assert source(server, key, flame / "links")[0] == 404
        (flame / "folders" / "flame.c").mkdir(parents=True)
        assert source(server, key, flame / "folders")[0] == 404
    finally:
        (flame / "moved" / "deep" / "flame.c").rename(flame / "src" / "flame.c")


@pytest.mark.parametrize("named", ["/nowhere/../../secret", "/nowhere/x/../../../secret", "/nowhere/./../.././secret"])
def test_a_path_never_leads_out_of_the_folder_that_is_named(byteledger, installed, tmp_path, named):
    """Debug information that names a file above the folder it is looked for in."""
    (tmp_path / "p.c").write_text(f'#include <stdlib.h>\n#line 1 "{named}"\nvoid *kept; int main(void) {{ kept = malloc(100000); return 0; }}\n')
    subprocess.run([installed("gcc"), "-g", "-o", str(tmp_path / "p"), str(tmp_path / "p.c")], check=True, timeout=60)
    subprocess.run([byteledger, "run", "-q", "-o", str(tmp_path / "p.blt"), "--", str(tmp_path / "p")], check=True, timeout=60)
    (tmp_path / "a" / "b" / "nowhere" / "x").mkdir(parents=True)
    for above in (tmp_path / "secret", tmp_path / "a" / "secret"):
        above.write_text("not for you\n")
    with Server(byteledger, str(tmp_path / "p.blt")) as one:
        key = file_key(one, "secret")
        status, told = source(one, key, tmp_path / "a" / "b")
        assert status == 404 and "not on this disk" in told["error"] and "for you" not in json.dumps(told), told
        (tmp_path / "a" / "b" / "secret").write_text("of the project\n")
        status, told = source(one, key, tmp_path / "a" / "b")
        assert status == 200 and told["text"] == ["of the project"]


@pytest.mark.large
@pytest.mark.timeout(300)
def test_page_of_colours_and_edges(browser, byteledger, flame, tmp_path):  # noqa: F811  pylint: disable=redefined-outer-name
    in_browser("colours", browser, byteledger, tmp_path, str(flame / "flame.blt"))


def test_a_timeline_in_differences_is_the_same_and_shorter(server):  # pylint: disable=redefined-outer-name
    def whole(values):
        last, told = 0, []
        for value in values:
            told.append(None if value is None else (last := last + value))
        return told
    plain, delta = server.get("timeline"), server.get("timeline", encoding="delta")
    assert plain["encoding"] == "plain" and delta["encoding"] == "delta"
    assert whole(delta["time_ns"]) == plain["time_ns"] and delta["flags"] == plain["flags"]
    assert plain["series"].keys() == delta["series"].keys()
    for name, series in plain["series"].items():
        assert {kind: whole(values) for kind, values in delta["series"][name].items()} == series, name
    assert len(json.dumps(delta)) < len(json.dumps(plain))
    assert server.ask("/api/v1/timeline?encoding=gzip")[0] == 400
