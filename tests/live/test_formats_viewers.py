# SPDX-License-Identifier: Apache-2.0
"""Exports in the viewers that people open them in: pprof, a browser, DHAT's page, speedscope."""
import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading

import pytest

import formats
from test_formats import export, own, recorded, source, totals # noqa: F401


@pytest.mark.large
def test_go_tool_pprof_shows_equal_totals(byteledger, source, export, installed):
    go = installed("go")
    ours = totals(byteledger, source)
    out = export(source, "pprof")
    for kind, key in (("alloc_objects", "allocations"), ("alloc_space", "allocated_bytes"),
                      ("inuse_objects", "leaked_allocations"), ("inuse_space", "leaked_bytes"),
                      ("peak_space", "peak_bytes"), ("temporary_objects", "temporary_allocations")):
        text = formats.check([go, "tool", "pprof", f"-sample_index={kind}", "-unit=B", "-traces", out])
        assert f"Type: {kind}" in text
        raw = formats.check([go, "tool", "pprof", f"-sample_index={kind}", "-raw", out])
        column = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_space",
                  "temporary_objects").index(kind)
        samples = raw.split("Samples:\n", 1)[1].split("Locations", 1)[0].splitlines()[1:]
        values = [line.split(":")[0].split() for line in samples if ":" in line and line.split(":")[0].strip()]
        assert sum(int(v[column]) for v in values if len(v) == 6) == ours[key], kind
    assert "sqlite3 :memory:" in formats.check([go, "tool", "pprof", "-top", out])


@pytest.mark.large
def test_the_flame_graph_works_in_a_browser(byteledger, source, export, installed, tmp_path):
    """Zoom, search, flip and reset, on the very script that is in the file."""
    installed("chromium")
    svg = open(export(source, "flamegraph", "out.svg")).read().split("?>", 1)[1]
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{svg}<pre id=log></pre><script>" + """
        const log = text => document.getElementById("log").textContent += text + "\\n";
        const frames = [...document.querySelectorAll("g.f")];
        const shown = () => frames.filter(g => g.style.display !== "none").length;
        const width = g => +g.querySelector("rect").getAttribute("width");
        const top_of = g => +g.querySelector("rect").getAttribute("y");
        const click = node => node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        const before = shown(), full = width(frames[0]);
        const target = frames.filter(g => +g.dataset.d > 3).sort((a, b) => b.dataset.d - a.dataset.d ||
            width(b) - width(a))[0];
        click(target.querySelector("rect"));
        log("zoomed " + (Math.abs(width(target) - full) < 1) + " fewer " + (shown() < before));
        click(document.querySelector(".reset"));
        log("reset " + (shown() === before));
        const upright = top_of(frames[0]) > top_of(target);
        click(document.querySelector(".flip"));
        log("flipped " + (upright && top_of(frames[0]) < top_of(target)));
        window.prompt = () => "sqlite3_step|sqlite3_prepare";
        window.dispatchEvent(new KeyboardEvent("keydown", { key: "/" }));
        log("hits " + document.querySelectorAll(".hit").length + " " + document.querySelector(".matched").textContent);
        window.prompt = () => "((";
        click(document.querySelector(".search"));
        log("bad expression " + document.querySelectorAll(".hit").length);
        window.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
        log("escaped [" + document.querySelector(".matched").textContent + "]");
        target.querySelector("rect").dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
        log("details " + document.querySelector(".details").textContent.startsWith(
            target.querySelector("title").textContent.split("\\n")[0]));
        </script>""")
    dom = formats.chromium(f"file://{page}")
    log = dom.split('<pre id="log">', 1)[1].split("</pre>", 1)[0].splitlines()
    assert log[0] == "zoomed true fewer true"
    assert log[1] == "reset true"
    assert log[2] == "flipped true"
    assert log[3].startswith("hits ") and int(log[3].split()[1]) >= 2 and "Matched: " in log[3]
    assert log[4] == "bad expression 0"
    assert log[5] == "escaped []"
    assert log[6] == "details true"


TWO_LINES = """#include <pthread.h>
#include <stdlib.h>
static void *chosen(int i) {
\tif (i % 2) return malloc(3000);
\treturn malloc(1000);
}
static void deep(int n, int i) { if (n) deep(n - 1, i); else free(i < 0 ? chosen(i) : 0), (void)!chosen(i); }
static void *work(void *p) { for (int i = 0; i < 200; i++) deep(20, i); return p; }
int main(void) {
\tpthread_t t;
\tif (pthread_create(&t, 0, work, 0) || pthread_join(t, 0)) return 1;
\tfor (int i = 0; i < 100; i++) deep(3, i);
}
"""


@pytest.mark.large
def test_a_flame_graph_fits_windows_of_360_to_2560_pixels_and_keeps_its_state_in_the_address(byteledger, export, installed, tmp_path):
    """The very file in frames of a page, each as wide as a window: nothing stands out of it, what is pointed at is told with its
    calls and line, the frames above main are folded, and an address brings back what was zoomed, searched and flipped."""
    installed("chromium")
    (tmp_path / "twolines.c").write_text(TWO_LINES)
    subprocess.run(["gcc", "-g", "-O0", "-o", str(tmp_path / "twolines"), str(tmp_path / "twolines.c"), "-lpthread"], check=True)
    subprocess.run([byteledger, "run", "-q", "-o", str(tmp_path / "a.blt"), "--", str(tmp_path / "twolines"), "word " * 100], check=True, timeout=60)
    shutil.copy(export(str(tmp_path / "a.blt"), "flamegraph", "out.svg"), tmp_path / "flame.svg")
    (tmp_path / "page.html").write_text("""<!DOCTYPE html><meta charset=utf-8><body><pre id=log></pre><script>
        const widths = [360, 361, 480, 768, 1200, 1920, 2560];
        const log = text => document.getElementById("log").textContent += JSON.stringify(text) + "\\n";
        const open = (width, hash) => new Promise(done => {
            const frame = document.body.appendChild(document.createElement("iframe"));
            frame.style = `border:0;width:${width}px;height:2000px`;
            frame.onload = () => done(frame);
            frame.src = "flame.svg" + hash;
        });
        const click = node => node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        (async () => {
            for (const width of widths) {
                const frame = await open(width, ""), svg = frame.contentDocument.documentElement;
                const frames = [...svg.querySelectorAll("g.f")], out = [];
                const shows = node => node.style.display !== "none" && node.getBBox().width > 0;
                const inside = () => [...svg.querySelectorAll("text, g.f rect")].filter(n => shows(n) && shows(n.closest("g.f") || n)).forEach(
                    n => { const b = n.getBBox(); if (b.x < 0 || b.x + b.width > width + 0.5) out.push([n.textContent, b.x, b.width]); });
                inside();
                const target = frames.find(g => g.querySelector("title").textContent.startsWith("chosen\\n"));
                target.querySelector("rect").dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
                inside();
                const facts = svg.querySelector(".facts").textContent;
                click(target.querySelector("rect"));
                frame.contentWindow.prompt = () => "deep";
                click(svg.querySelector(".search"));
                click(svg.querySelector(".flip"));
                inside();
                const hash = frame.contentWindow.location.hash, bar = g => [...g.querySelector("rect").attributes].map(a => a.value).join();
                const again = (await open(width, hash)).contentDocument.documentElement;
                const same = frames.every((g, i) => { const h = again.querySelectorAll("g.f")[i];
                    return g.style.display === h.style.display && (g.style.display === "none" || bar(g) === bar(h)) &&
                        g.classList.contains("hit") === h.classList.contains("hit"); });
                const other = (await open(width, "#zoom=99999999&search=%E0%A4&flip=x&=")).contentDocument.documentElement;
                log({ width, is: svg.clientWidth, scrolls: svg.scrollWidth > width, full: +frames[0].querySelector("rect").getAttribute("width"), out,
                      facts, hash, same, hits: again.querySelectorAll(".hit").length, matched: again.querySelector(".matched").textContent,
                      odd: other.querySelectorAll("g.f").length === frames.length && other.querySelectorAll(".hit").length === 0,
                      folded: svg.querySelector(".note").textContent, starts: frames.filter(g => /^(_start|__libc_start)/.test(
                          g.querySelector("title").textContent)).length });
            }
            log("end");
        })().catch(error => log("" + error));
        </script>""", encoding="utf-8")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        dom = formats.chromium(f"http://127.0.0.1:{server.server_address[1]}/page.html")
        server.shutdown()
    told = [json.loads(html.unescape(line)) for line in dom.split('<pre id="log">', 1)[1].split("</pre>", 1)[0].splitlines()]
    assert told[-1] == "end", told
    assert [seen["width"] for seen in told[:-1]] == [360, 361, 480, 768, 1200, 1920, 2560]
    for seen in told[:-1]:
        assert not seen["out"] and not seen["scrolls"], seen
        assert abs(seen["full"] - (seen["width"] - 20.4)) < 0.1, seen
        assert re.search(r"ines\.c:[45] and other lines$", seen["facts"]), seen
        assert " 200 allocations," in seen["facts"] or "\u2026" in seen["facts"], seen
        assert re.fullmatch(r"#zoom=[0-9]+&search=deep&flip=1", seen["hash"]), seen
        assert seen["same"] and seen["hits"] and "%" in seen["matched"] and seen["odd"], seen
        assert seen["starts"] == 0 and ("folded" in seen["folded"] or "\u2026" in seen["folded"]), seen


@pytest.mark.large
def test_dh_view_shows_equal_totals(byteledger, source, export, installed, tmp_path):
    installed("chromium")
    ours = totals(byteledger, source)
    page = formats.dh_view_page(str(tmp_path), export(source, "dhat"))
    dom = formats.chromium(f"file://{page}")
    title = dom.split("<title>", 1)[1].split("<", 1)[0]
    assert title == ",".join(str(ours[k]) for k in ("allocated_bytes", "allocations", "peak_bytes", "leaked_bytes"))


@pytest.mark.large
def test_speedscope_itself_opens_the_file(byteledger, source, export, installed, tmp_path):
    """The released page of speedscope in a browser, loading the file over HTTP from this machine."""
    installed("chromium")
    npm = installed("npm")
    done = subprocess.run([npm, "pack", "--silent", "speedscope@1.25.0"], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("npm's registry is out of reach: " + (done.stderr.strip().splitlines() or ["no reason given"])[-1])
    subprocess.run(["tar", "xzf", done.stdout.strip()], cwd=tmp_path, check=True)
    release = tmp_path / "package" / "dist" / "release"
    shutil.copy(export(source, "speedscope"), release / "profile.json")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(release)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        dom = formats.chromium(f"{base}/index.html#profileURL={base}/profile.json")
    finally:
        server.shutdown()
    assert "bytes live at the peak" in dom and "(1/5)" in dom
