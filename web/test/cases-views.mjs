// SPDX-License-Identifier: Apache-2.0
// Recordings that are finished: views, questions, links, agreement, hostile names, figures.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { act, axe, boxes, browser, bytes, byteledger, complaints, differing, figures, key, loadAxe, offences, open, out, report, settled, startServer, total, view } from "./harness.mjs";

/** Every cost, its own and with what it calls, can be a column; the reader's choice outlives the page and stands in no link. */
async function columnsOf(url) {
	const page = await open(url + "#/table");
	const heads = () => page.getByRole("columnheader").allInnerTexts().then((all) => all.map((t) => t.replace(/[▲▼\n]/g, "").trim()));
	const usual = await heads();
	const menu = page.getByRole("button", { name: "columns" });
	await menu.click();
	const boxes = page.getByRole("dialog").getByRole("checkbox");
	const count = await boxes.count();
	for (let i = 0; i < count; i++)
		if (await boxes.nth(i).isEnabled())
			await boxes.nth(i).check();
	await loadAxe(page);
	assert.deepEqual(await offences(page), []);
	const names = await boxes.evaluateAll((all) => all.map((b) => b.getAttribute("aria-label")));
	await page.keyboard.press("Escape");
	const { rows } = await page.evaluate(() => fetch("/api/v1/rows?by=function&sort=inclusive_peak_bytes&limit=1").then((r) => r.json()));
	const costs = Object.keys(rows).filter((c) => !["key", "frame"].includes(c));
	assert.equal(count, costs.length, names.join(", "));
	assert.ok(count >= 20);
	// besides them the name, the bar and the share
	assert.equal((await heads()).length, costs.length + 3);
	assert.doesNotMatch(page.url(), /columns/);
	const cells = await page.locator(".grid-body [role=row]").first().locator("[role=gridcell]").allInnerTexts();
	assert.ok(cells.includes(bytes(rows.allocated_bytes[0]).replace(/^0 B$/, "0")) && cells.includes(bytes(rows.inclusive_allocated_bytes[0])), cells.join(" | "));
	await page.reload();
	await settled(page);
	assert.equal((await heads()).length, costs.length + 3);
	await menu.click();
	await page.getByRole("button", { name: "The usual ones" }).click();
	assert.deepEqual(await heads(), usual);
	await page.context().close();
}

export const cases = {
	/** Every view that there is, in each theme and width: console empty, nothing serious for axe, nothing asked elsewhere. */
	async views({ url }) {
		const page = await open(url);
		const list = await page.evaluate(() => [...document.querySelectorAll(".rail a.rail-item")].map((a) => a.getAttribute("href")));
		assert.ok(list.length >= 8, `only ${list}`);
		const bad = [];
		const sources = await page.evaluate(() => fetch("/api/v1/sources").then((r) => r.json()));
		const rows = await page.evaluate(() => fetch("/api/v1/rows?by=function&limit=3").then((r) => r.json()));
		list.push(`#/function?f=${rows.rows.key[2]}`, "#/compare?base=@50%25&at=end", "#/compare?base=@50%25&at=end&z=table", "#/blocks?group=stack&leaked=1", "#/flame?inverted=1&cost=allocations", "#/flame?at=50%25", "#/flame?from=25%25&to=75%25&at=75%25");
		for (const [theme, width, height] of [["light", 1440, 900], ["dark", 1440, 900], ["light", 900, 700], ["dark", 900, 700], ["light", 390, 844], ["dark", 390, 844]]) {
			const p = await open(url, { theme, width, height });
			await loadAxe(p);
			for (const href of list) {
				await act(p, () => p.evaluate((to) => void (location.hash = to), href));
				const label = `${href.replace(/^#\//, "").replace(/\W+/g, "-").slice(0, 40)}-${width}-${theme}`;
				await p.screenshot({ path: join(out, `${label}.png`) });
				bad.push(...(await offences(p)).map((f) => `${label}: ${f}`));
				const wider = await p.evaluate(() => document.documentElement.scrollWidth - innerWidth);
				if (wider > 0)
					bad.push(`${label}: the page is ${wider} px wider than its window`);
			}
			await p.context().close();
		}
		for (const s of sources.slice(1)) {
			const p = await open(`${url}#/overview?src=${s.id}`);
			for (const href of list.filter((h) => !h.includes("f=")))
				await act(p, () => p.evaluate((to) => (location.hash = to), `${href}${href.includes("?") ? "&" : "?"}src=${s.id}`));
			await p.context().close();
		}
		assert.deepEqual(bad, []);
	},

	/** The ten questions, as far as a recording answers them, by keys and by at most four clicks; answers are the command's. */
	async questions({ url, file }) {
		const json = report(file);
		const page = await open(url);
		assert.equal(await view(page), "overview");
		// 1, 3: memory, and does it add up
		assert.match(await page.locator(".card.wide h2").first().innerText(), /^Resident memory .*(lines \+ .* unexplained|[KM]iB)/);
		assert.ok((await page.locator(".balance-lines .balance-line").count()) > 1);
		assert.match(await page.locator(".key-figures").innerText(), new RegExp(bytes(json.totals.peak_bytes).replace(".", "\\.")));
		// 2: the peak
		await key(page, "p");
		assert.equal(await view(page), "flame");
		assert.equal(await total(page), bytes(json.totals.peak_bytes));
		const sum = (await boxes(page)).filter((b) => b.y <= 20);
		assert.ok(sum.length, "no box is drawn");
		// 4: where in memory the blocks of a box lie then
		const canvas = await page.locator(".flame-canvas").boundingBox();
		const wide = (await boxes(page)).filter((b) => b.w > 200 && /^\w+$/.test(b.label)).pop(); // one with a name
		await act(page, () => page.mouse.click(canvas.x + wide.x + wide.w / 2, canvas.y + wide.y + 8));
		await act(page, () => page.locator(".panel").getByText("Mapping", { exact: true }).click());
		assert.equal(await view(page), "space");
		assert.match(page.url(), /[?&]at=peak/);
		assert.ok(await page.locator(".strips").count() > 0, "the blocks of the box lie nowhere");
		await page.goto(url + "#/flame?at=peak");
		await settled(page);
		// single blocks, or a row a stack: the same figures as the server's, sorted by a head, in the address
		await page.goto(url + "#/blocks?min-size=64");
		await settled(page);
		await act(page, () => page.getByRole("button", { name: "groups", exact: true }).click());
		assert.match(page.url(), /[?&]group=stack/);
		await act(page, () => page.getByRole("columnheader", { name: "whole group" }).click());
		assert.match(page.url(), /sort=-all\.count/);
		const groups = await page.evaluate(() => fetch("/api/v1/allocations?group=stack&min-size=64&order=-all.count&limit=3").then((r) => r.json()));
		const shown = await page.locator(".grid-body [role=row]").first().locator("[role=gridcell]").allInnerTexts();
		assert.equal(shown[1].replace(/\D/g, ""), String(groups.rows.count[0]));
		assert.equal(shown[6].replace(/\D/g, ""), String(groups.rows.all_count[0]));
		assert.equal(shown[2], bytes(groups.rows.bytes[0]));
		await act(page, () => page.locator(".grid-body [role=row]").first().click());
		assert.match(await page.locator(".panel").innerText(), /whole group[^]*Allocated by/);
		await act(page, () => page.getByRole("button", { name: "blocks", exact: true }).click());
		assert.doesNotMatch(page.url(), /group=|sort=/);
		await page.goto(url + "#/flame?at=peak");
		await settled(page);
		// 6: who churns: cost, inverted
		await key(page, "c", "c", "c");
		assert.match(page.url(), /cost=temporary/);
		await key(page, "i");
		assert.match(page.url(), /inverted=1/);
		const temporary = await page.evaluate(() => fetch(`/api/v1/rows?by=function&cost=temporary&limit=1&sort=temporary_allocations`).then((r) => r.json()));
		assert.equal(temporary.total, json.totals.temporary_allocations);
		// 4: a jump: drag over the time axis
		await page.goto(url + "#/flame");
		await settled(page);
		const over = await page.locator(".u-over").boundingBox();
		await act(page, async () => {
			await page.mouse.move(over.x + over.width * 0.3, over.y + 30);
			await page.mouse.down();
			await page.mouse.move(over.x + over.width * 0.5, over.y + 30, { steps: 5 });
			await page.mouse.move(over.x + over.width * 0.7, over.y + 30, { steps: 5 });
			await page.mouse.up();
		});
		const words = new URL(page.url().replace("#/flame", "")).searchParams;
		assert.ok(words.get("from") && words.get("to") && words.get("at") === words.get("to"), page.url());
		const still = report(file, "--from", words.get("from"), "--to", words.get("to"), "--at", words.get("at"), "--cost", "live");
		const live = still.totals.leaked_bytes;
		assert.equal(await total(page), bytes(await page.evaluate((q) => fetch(`/api/v1/tree?${q}&nodes=1`).then((r) => r.json()).then((d) => d.total), `from=${words.get("from")}&to=${words.get("to")}&at=${words.get("at")}`)));
		figures.still_there = live;
		await act(page, () => page.getByRole("button", { name: "made here" }).click());
		assert.ok(!/[?&]at=/.test(page.url()), page.url());
		await act(page, () => page.getByRole("button", { name: "compare ends" }).click());
		assert.match(page.url(), /base=@/);
		// 5, 7, 8, 10: growth, comparison, trust
		await page.goto(url + "#/overview");
		await settled(page);
		await key(page, "g", "w");
		assert.equal(await view(page), "growth");
		assert.ok(await page.locator(".spark").count() > 0);
		await key(page, "d");
		assert.equal(await view(page), "compare");
		await act(page, () => page.getByRole("button", { name: "Compare", exact: true }).click());
		assert.match(await page.locator(".compare-sums").innerText(), /before.*now.*change/s);
		await key(page, "g", "x");
		assert.equal(await view(page), "losses");
		assert.match(await page.locator("main").innerText(), /Lost events/);
		const block = await page.evaluate(() => fetch("/api/v1/allocations?at=peak&limit=1&order=-size").then((r) => r.json()));
		await key(page, "/");
		await page.keyboard.type(block.allocations.address[0]);
		await key(page, "Enter");
		assert.match(await page.locator(".panel").innerText(), /block/);
	},

	/** A link, opened in a fresh profile, shows the same boxes, sums and selected row. */
	async links({ url }) {
		const page = await open(url + "#/flame");
		const some = (await boxes(page)).filter((b) => b.w > 40 && b.w < 700);
		const wanted = some[Math.floor(some.length / 2)];
		const canvas = await page.locator(".flame-canvas").boundingBox();
		await act(page, () => page.mouse.click(canvas.x + wanted.x + wanted.w / 2, canvas.y + wanted.y + 8));
		assert.match(page.url(), /[?&]s=[0-9a-f]{16}/);
		const selected = await page.locator(".panel-name").innerText();
		await key(page, "Enter");
		assert.match(page.url(), /[?&]n=[0-9a-f]{16}/);
		for (const hash of [new URL(page.url()).hash, "#/flame?cost=allocations&inverted=1", "#/flame?at=50%25&by=module", "#/flame?from=10%25&to=60%25", "#/compare?base=@25%25&at=75%25", "#/flame?x=rec"]) {
			const a = await open(url + hash);
			const first = { boxes: await boxes(a), sum: await total(a), row: await a.locator(".panel-name").allInnerTexts() };
			await a.context().close();
			const b = await open(url + hash);
			assert.deepEqual({ boxes: await boxes(b), sum: await total(b), row: await b.locator(".panel-name").allInnerTexts() }, first, hash);
			assert.ok(first.boxes.length > 0, hash);
			const one = await b.screenshot();
			await b.reload();
			await settled(b);
			const two = await b.screenshot();
			// rounded corners are not rasterised alike each time: one pixel of ten thousand may differ, no box or letter
			assert.ok((await differing(one, two)) < 130, `two shots of ${hash} differ`);
			await b.context().close();
		}
		const again = await open(page.url());
		assert.equal(await again.locator(".panel-name").innerText(), selected);
		// undo is one step
		await page.goBack();
		await settled(page);
		assert.doesNotMatch(page.url(), /[?&]n=/);
	},

	/** Transforms and selections: Flame, Tree, Table, CSV and the command agree to the byte. */
	async agreement({ url, file }) {
		const page = await open(url + "#/flame");
		let seed = 5;
		const random = (n) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
		const rows = await page.evaluate(() => fetch("/api/v1/rows?by=function&limit=40").then((r) => r.json()));
		const costs = ["peak", "live", "allocated", "allocations", "temporary", "leaked"];
		let compared = 0;
		for (let round = 0; round < Number(process.env.ROUNDS ?? 40); round++) {
			const words = new URLSearchParams();
			const options = [];
			const word = (name, value) => (words.set(name, value), options.push(`--${name}`, value));
			word("cost", costs[random(costs.length)]);
			if (random(2))
				word("min-size", String(2 ** random(12)));
			if (random(3) === 0) {
				const from = random(50);
				word("from", `${from}%`);
				word("to", `${from + 1 + random(50)}%`);
			}
			if (random(3) === 0)
				word("at", `${random(100)}%`);
			const x = [];
			for (let i = random(3); i > 0; i--)
				x.push([`hide:${rows.rows.key[random(40)]}`, `drop:${rows.rows.key[random(40)]}`, "rec"][random(3)]);
			if (x.length)
				words.set("x", x.join(","));
			const [tree, table, csv] = await page.evaluate(async (q) => {
				const get = async (path) => (await fetch(`/api/v1/${path}?${q}`)).json();
				const tree = await get("tree");
				const rows = await (await fetch(`/api/v1/rows?${q}&by=function&limit=10000`)).json();
				return [tree, rows, null];
			}, words.toString());
			const column = { peak: "peak_bytes", live: "live_bytes", allocated: "allocated_bytes", allocations: "allocations", temporary: "temporary_allocations", leaked: "leaked_bytes" }[words.get("cost")];
			if (tree.error || table.error) {
				assert.equal(Boolean(tree.error), Boolean(table.error), `${words}: ${tree.error} / ${table.error}`);
				continue;
			}
			const selves = tree.node.self.reduce((a, b) => a + b, 0) + tree.node.rest.reduce((a, b) => a + b, 0);
			assert.equal(selves, tree.shown, `boxes of ${words}`);
			if (table.rows[column])
				assert.equal(table.rows[column].reduce((a, b) => a + (b ?? 0), 0), tree.shown, `rows of ${words}`);
			if (!x.length && table.rows[column]) {
				const done = spawnSync(byteledger, ["report", "--format", "json", "--no-skip", ...options, file], { maxBuffer: 1 << 30, encoding: "utf8" });
				if (done.status === 0) {
					const json = JSON.parse(done.stdout);
					const key = column === "live_bytes" ? "leaked_bytes" : column;
					if (json.rows.length && json.rows[0][key] !== undefined) {
						compared++;
						assert.equal(json.rows.reduce((a, r) => a + r[key], 0), tree.total, `the command of ${words}`);
					}
				}
			}
		}
		figures.compared_with_the_command = compared;
		assert.ok(compared >= 5, `${compared} compared`);
	},

	/** Hostile names are text in every view, in SVG and in CSV; nothing is executed. */
	async hostile({ url }) {
		const page = await open(url + "#/overview");
		const list = await page.evaluate(() => [...document.querySelectorAll(".rail a.rail-item")].map((a) => a.getAttribute("href")));
		for (const href of [...list, "#/flame?find=img", "#/table?by=module", "#/table?by=file", "#/table?by=line", "#/table?by=stack", "#/flame?inverted=1"]) {
			const p = await open(url + href);
			const seen = await p.evaluate(() => ({ images: document.querySelectorAll("main img, main script, main iframe, header img").length, ran: window.__ran, text: document.body.innerText }));
			assert.equal(seen.images, 0, href);
			assert.equal(seen.ran, undefined, href);
			assert.doesNotMatch(seen.text, /[\u202a-\u202e\u2066-\u2069\u0000]/, href);
			await p.context().close();
		}
		const p = await open(url + "#/table");
		assert.match(await p.locator("main").innerText(), /\bimg\b/);
		const [csv] = await Promise.all([p.waitForEvent("download"), p.locator(".footer").getByRole("button", { name: "CSV" }).click()]);
		const text = readFileSync(await csv.path(), "utf8");
		assert.match(text, /<img src=x onerror=/);
		assert.match(text, /'=cmd/);
		assert.doesNotMatch(text, /(^|,)=cmd/m);
		const f = await open(url + "#/flame");
		const [svg] = await Promise.all([f.waitForEvent("download"), f.locator(".footer").getByRole("button", { name: "SVG" }).click()]);
		const markup = readFileSync(await svg.path(), "utf8");
		assert.doesNotMatch(markup, /<img|<script/);
		assert.match(markup, /&lt;img/);
	},

	/** A process whose threads, mapped file, arguments and folder have hostile names: text in every view, nothing is executed. */
	async named({ url }) {
		const page = await open(url);
		const list = await page.evaluate(() => [...document.querySelectorAll(".rail a.rail-item")].map((a) => a.getAttribute("href")));
		const texts = {};
		for (const href of [...list, "#/table?by=thread&cost=allocated"]) {
			await act(page, () => page.evaluate((to) => void (location.hash = to), href));
			const seen = await page.evaluate(() => ({ images: document.querySelectorAll("main img, main script, main b[onclick], header img").length, ran: window.__ran, text: document.body.innerText }));
			assert.equal(seen.images, 0, href);
			assert.equal(seen.ran, undefined, href);
			assert.doesNotMatch(seen.text, /[\u202a-\u202e\u2066-\u2069\u0000\u0007]/, href);
			texts[href.slice(2)] = seen.text;
		}
		assert.match(texts.threads, /<img src=x>/);
		assert.match(texts.overview, /<script>window\.__ran=4<\/script>/);
		const [csv] = await Promise.all([page.waitForEvent("download"), page.locator(".footer").getByRole("button", { name: "CSV" }).click()]);
		assert.match(readFileSync(await csv.path(), "utf8"), /<img src=x>/);
		figures.views = Object.keys(texts).length;
	},

	/** The server goes: said within four seconds, the picture stays; it comes back: found again. */
	async states({ url, child }) {
		// a recorder that serves has its recording a moment after its page: it is shown then, by itself
		const early = await (await browser.newContext()).newPage();
		let asked = 0;
		await early.route("**/api/v1/sources", (route) => (++asked < 3 ? route.fulfill({ json: [] }) : route.continue()));
		await early.goto(url);
		await early.waitForFunction(() => /sqlite3/.test(document.querySelector(".source")?.textContent ?? ""), null, { timeout: 4000 });
		await early.context().close();
		const page = await open(url + "#/flame", { quiet: true });
		const before = await boxes(page);
		child.removeAllListeners("exit");
		child.kill("SIGKILL");
		await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
		await page.waitForFunction(() => /connection lost/.test(document.querySelector(".state").innerText), null, { timeout: 4000 });
		assert.deepEqual(await boxes(page), before);
		// a question that finds nobody keeps the picture and can be asked again
		await page.keyboard.press("i");
		await page.waitForSelector(".note.bad", { timeout: 4000 });
		assert.match(await page.locator(".note.bad").first().innerText(), /connection lost[\s\S]*Try again/);
		assert.ok((await boxes(page)).length > 0);
		assert.match(page.url(), /inverted=1/);
	},

	/** Losses, files cut in the middle and estimates are said above the picture. */
	async trust({ url }) {
		const page = await open(url, { quiet: true });
		const sources = await page.evaluate(() => fetch("/api/v1/sources").then((r) => r.json()));
		let broken = 0;
		for (const s of sources) {
			const p = await open(`${url}#/overview?src=${s.id}`, { quiet: true });
			const text = await p.locator("body").innerText();
			if (/cut/.test(s.name)) {
				broken++;
				assert.match(text, /broken off|cut off|damaged|cannot be read|ends|incomplete/i, s.name);
			}
			await p.context().close();
		}
		assert.ok(broken, "no cut file was given");
	},

	/** Frames while panning and zooming the whole tree, 1x and 2x. */
	async frames({ url }) {
		for (const scale of [1, 2]) {
			const page = await open(url + "#/flame", { scale });
			const box = await page.locator(".flame-canvas").boundingBox();
			await page.mouse.move(box.x + box.width / 2, box.y + 200);
			const frames = async (name, moves) => {
				await page.evaluate(() => {
					window.__frames = [];
					let last = performance.now();
					const tick = (now) => (window.__frames.push(now - last), (last = now), (window.__tick = requestAnimationFrame(tick)));
					requestAnimationFrame(tick);
				});
				await moves();
				const times = await page.evaluate(() => (cancelAnimationFrame(window.__tick), window.__frames.slice(2)));
				times.sort((a, b) => a - b);
				figures[`${name}_p95_ms_${scale}x`] = Math.round(times[Math.floor(times.length * 0.95)] * 10) / 10;
				figures[`${name}_p50_ms_${scale}x`] = Math.round(times[Math.floor(times.length * 0.5)] * 10) / 10;
			};
			await frames("frame", async () => {
				await page.keyboard.down("Control");
				for (let i = 0; i < 40; i++)
					await page.mouse.wheel(0, i % 8 < 5 ? -100 : 100);
				await page.keyboard.up("Control");
				await page.keyboard.down("Shift");
				for (let i = 0; i < 60; i++)
					await page.mouse.wheel(0, i % 20 < 10 ? 120 : -120);
				await page.keyboard.up("Shift");
			});
			const axis = await page.locator(".timeline-canvas").boundingBox();
			await frames("brush", async () => {
				await page.mouse.move(axis.x + axis.width * 0.3, axis.y + axis.height / 2);
				await page.mouse.down();
				for (let i = 0; i < 80; i++)
					await page.mouse.move(axis.x + axis.width * (0.3 + 0.005 * (i % 60)), axis.y + axis.height / 2);
				await page.mouse.up();
			});
			figures[`boxes_${scale}x`] = (await boxes(page)).length;
			await page.context().close();
		}
		// two shared cores may be busy with others: the bound is three frames, the figures are kept
		assert.ok(figures.frame_p95_ms_1x <= 50 && figures.frame_p95_ms_2x <= 67, JSON.stringify(figures));
		assert.ok(figures.brush_p95_ms_1x <= 50 && figures.brush_p95_ms_2x <= 67, JSON.stringify(figures));
	},

	/** Five million rows: the first, the middle and the last by wheel, key and thumb. */
	async rows({ url }) {
		const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
		const page = await context.newPage();
		page.on("pageerror", (e) => complaints.push(e.message));
		const TOTAL = 5_000_000;
		await page.route(/\/api\/v1\/rows/, async (route) => {
			const q = new URL(route.request().url()).searchParams;
			const from = Number(q.get("cursor") ?? 0);
			const n = Math.min(Number(q.get("limit") ?? 200), TOTAL - from);
			const numbers = Array.from({ length: n }, (_, i) => TOTAL - from - i);
			await route.fulfill({
				contentType: "application/json",
				body: JSON.stringify({
					source: 0, generation: 1, selection: "", exact: true, age_ns: 0, total: TOTAL, unit: "bytes", lost: { events: 0, by_reason: {} }, partial: { events: 0, by_reason: {} }, sampled: null,
					culled: { allocations: 0, bytes: 0 }, unapplied: [], by: "function", total_rows: TOTAL, next: String(from + n),
					frames: { key: numbers.map((v) => v.toString(16).padStart(16, "0")), name: numbers.map((_, i) => `row${from + i}`), short: numbers.map((_, i) => `row${from + i}`), module: numbers.map(() => 0), category: numbers.map(() => 0), file: numbers.map(() => -1), line: numbers.map(() => -1), inlined: numbers.map(() => false) },
					modules: ["m"], files: [],
					rows: { key: numbers.map((v) => v.toString(16).padStart(16, "0")), frame: numbers.map((_, i) => i), peak_bytes: numbers, inclusive_peak_bytes: numbers },
				}),
			});
		});
		await page.goto(url + "#/table");
		await settled(page);
		const shows = (row) => page.getByText(row, { exact: true }).first().waitFor({ timeout: 10000 });
		await shows("row0");
		await page.locator(".grid").focus();
		await page.keyboard.press("End");
		await shows("row4999999");
		await page.keyboard.press("Home");
		await shows("row0");
		await page.mouse.move(700, 600);
		await page.mouse.wheel(0, 26 * 7);
		await shows("row28");
		assert.equal(await page.getByText("row1", { exact: true }).isVisible(), false);
		await page.locator(".grid").evaluate((el) => (el.scrollTop = (el.scrollHeight - el.clientHeight) / 2));
		await page.waitForFunction(() => [...document.querySelectorAll(".grid .name")].some((e) => /^row(2499|2500)\d{3}$/.test(e.textContent)), null, { timeout: 10000 });
		const elements = await page.evaluate(() => document.querySelectorAll(".grid *").length);
		assert.ok(elements < 1500, `${elements} elements`);
		await context.close();
		await columnsOf(url);
	},

	/** Questions 2 and 4 with nothing but what a screen reader has. */
	async unseen({ url, file }) {
		const json = report(file);
		const page = await open(url);
		await act(page, () => page.getByRole("button", { name: /^Peak/ }).press("Enter"));
		const tree = page.getByRole("treegrid", { name: "call tree" });
		await tree.focus();
		await key(page, "ArrowDown");
		await key(page, "ArrowDown");
		const active = await tree.getAttribute("aria-activedescendant");
		const spoken = await page.locator(`#${active}`).innerText();
		assert.match(spoken, /, [\d.]+ [KMG]?i?B, [\d.<% ]+ of all, \d+ callees?/);
		assert.equal(await total(page), bytes(json.totals.peak_bytes));
		await key(page, "b");
		const begin = page.getByRole("slider", { name: "begin of the range" });
		await begin.waitFor();
		const before = await begin.getAttribute("aria-valuetext");
		await begin.focus();
		await key(page, "ArrowRight");
		assert.notEqual(await begin.getAttribute("aria-valuetext"), before);
		assert.match(page.url(), /from=/);
	},

	/** The README's pictures (scripts/screenshots.py). */
	async pictures({ url }) {
		const shots = [
			["page-overview", "#/overview", "light"],
			["page-flame", "#/flame?at=peak", "dark"],
			["page-compare", "#/compare?base=@30%25&at=70%25", "light"],
			["page-lifetimes", "#/lifetimes", "light"],
			["page-balance", "#/balance", "light"],
		];
		for (const [title, hash, theme] of shots) {
			const page = await open(url + hash, { theme, width: 1120, height: 640 });
			await page.screenshot({ path: join(out, `${title}.png`) });
			await page.context().close();
		}
	},

	/** Policy, caching, size: what the server sends. */
	async wire({ url }) {
		const page = await open(url);
		const sizes = await page.evaluate(async () => {
			const answers = {};
			for (const path of ["/", ...[...document.querySelectorAll("script[src], link[rel=stylesheet]")].map((e) => e.src || e.href)]) {
				const r = await fetch(path);
				answers[new URL(path, location.href).pathname] = { policy: r.headers.get("content-security-policy"), cache: r.headers.get("cache-control"), etag: r.headers.get("etag") };
			}
			return { answers, moved: performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).filter((e) => !/api\/v1/.test(e.name)).reduce((a, e) => a + (e.encodedBodySize || 0), 0) };
		});
		const paths = Object.keys(sizes.answers);
		assert.ok(paths.length >= 3, String(paths));
		for (const [path, a] of Object.entries(sizes.answers)) {
			assert.ok(a.etag, path);
			assert.match(a.cache, path === "/" ? /no-cache/ : /immutable/, path);
		}
		for (const part of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"])
			assert.ok(sizes.answers["/"].policy.includes(part), part);
		const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
		figures.first_contentful_paint_ms = Math.round(paint);
		const first = await open(url + "#/flame");
		const t0 = Date.now();
		await first.reload();
		await settled(first);
		figures.flame_again_ms = Date.now() - t0;
	},
};
