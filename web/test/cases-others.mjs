// SPDX-License-Identifier: Apache-2.0
// What is not a heap recording: nodes with messages, connections and logs; processes by mapping, by page.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { act, boxes, complaints, figures, key, loadAxe, offences, open, out, settled, total, view } from "./harness.mjs";

const SIZES = [["light", 1440, 900], ["dark", 1440, 900], ["light", 900, 700], ["dark", 390, 844]];

/** everywhere - each address in four windows: nothing serious for axe, nothing wider than its window, a picture of each. */
async function everywhere(url, list, each = async () => undefined) {
	const bad = [];
	for (const [theme, width, height] of SIZES) {
		const page = await open(url, { theme, width, height });
		await loadAxe(page);
		for (const href of list) {
			await act(page, () => page.evaluate((to) => void (location.hash = to), href));
			await each(page, href);
			const label = `${href.replace(/^#\//, "").replace(/\W+/g, "-").slice(0, 40)}-${width}-${theme}`;
			await page.screenshot({ path: join(out, `${label}.png`) });
			bad.push(...(await offences(page)).map((f) => `${label}: ${f}`));
			const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
			if (wider > 0)
				bad.push(`${label}: the page is ${wider} px wider than its window`);
		}
		await page.context().close();
	}
	assert.deepEqual(bad, []);
}
const rows = (page) => page.locator(".grid-body .grid-row").allInnerTexts();
const counted = async (page) => Number((await page.locator(".tools .second").last().innerText()).replace(/,/g, "").match(/^\d+/)[0]);

export const cases = {
	/** A node's messages, connections and logs: filters of the recorder, pages by cursor, details, ranges, every row once. */
	async node({ url }) {
		const page = await open(`${url}#/messages`);
		assert.equal(await view(page), "messages");
		const all = await page.evaluate(() => fetch("/v3/messages?limit=1000").then((r) => r.json()));
		figures.messages = all.length;
		assert.ok(all.length > 200, `${all.length} messages: too few for a second page`);
		// pages by cursor: the last row is reached, each row comes once
		await page.locator(".grid").focus();
		for (let i = 0; i < 12 && (await counted(page)) < all.length; i++)
			await key(page, "End");
		assert.equal(await counted(page), all.length);
		// a filter by type: only these rows
		await page.evaluate(() => document.querySelector(".grid").scrollTo(0, 0));
		await act(page, () => page.getByRole("button", { name: "Meta", exact: true }).click());
		assert.match(page.url(), /types=metadata/);
		const meta = all.filter((m) => m.category === "meta" || m.kind === "metadata").length;
		assert.ok(meta > 0 && meta < all.length, `${meta} of ${JSON.stringify([...new Set(all.map((m) => `${m.category}|${m.kind}`))])}`);
		assert.equal(await counted(page), meta);
		await act(page, () => page.getByRole("button", { name: "Meta", exact: true }).click());
		// by direction
		await act(page, () => page.getByRole("button", { name: "← received" }).click());
		for (let i = 0; i < 12 && (await counted(page)) < all.filter((m) => m.incoming).length; i++) {
			await page.locator(".grid").focus();
			await key(page, "End");
		}
		assert.equal(await counted(page), all.filter((m) => m.incoming).length);
		await act(page, () => page.getByRole("button", { name: "← received" }).click());
		// by peer: a click on it
		const link = page.locator(".grid-row .link-button").first();
		const peer = await link.innerText();
		await act(page, () => link.click());
		assert.match(page.url(), /addr=/);
		const some = await rows(page);
		assert.ok(some.length > 0 && some.every((r) => r.includes(peer)), some[0]);
		// details: JSON, then bytes
		await act(page, () => page.locator(".grid-row").first().click());
		await page.locator(".panel pre").waitFor();
		assert.match(await page.locator(".panel").innerText(), /bytes sent/);
		await act(page, () => page.getByRole("button", { name: "plain bytes" }).click());
		assert.match(await page.locator(".panel pre").innerText(), /^000000 {2}[0-9a-f]{2} /);
		await page.screenshot({ path: join(out, "message.png") });
		// a range with nothing in it says what is nearest, and goes there
		await page.goto(`${url}#/messages?to=1000000000`);
		await settled(page);
		await page.getByText("No message here.").waitFor();
		await act(page, () => page.locator(".empty .link-button").last().click());
		assert.ok((await counted(page)) > 0);
		// logs: level and text
		await act(page, () => page.evaluate(() => void (location.hash = "#/logs")));
		const lines = await page.evaluate(() => fetch("/v3/logs?limit=1000").then((r) => r.json()));
		figures.lines = lines.length;
		assert.ok(lines.length > 0);
		await act(page, () => page.getByRole("button", { name: "Error", exact: true }).click());
		assert.equal(await counted(page), lines.filter((l) => l.level.toLowerCase() === "error").length);
		// connections
		await act(page, () => page.evaluate(() => void (location.hash = "#/connections")));
		const connections = await page.evaluate(() => fetch("/v3/connections?limit=1000").then((r) => r.json()));
		assert.equal(await counted(page), connections.length);
		await act(page, () => page.locator(".grid-row").first().click());
		await act(page, () => page.getByRole("button", { name: "Its messages" }).click());
		assert.equal(await view(page), "messages");
		await everywhere(url, ["#/messages", "#/connections", "#/logs", "#/messages?types=metadata", "#/logs?level=error,fatal"]);
	},

	/** Question 9: a range of a recording's time axis, and what the node beside it said then; from a row back to the memory of its moment. */
	async axis({ url }) {
		const page = await open(`${url}#/flame`);
		const sources = await page.evaluate(() => fetch("/api/v1/sources").then((r) => r.json()));
		const start = BigInt(sources[0].start_realtime_ns);
		const all = await page.evaluate(() => fetch("/v3/messages?limit=1000").then((r) => r.json()));
		assert.ok(all.length > 20, `${all.length} messages`);
		// what the node said is a line on the same axis, once it is asked for
		const legend = page.locator(".legend", { hasText: "messages/s" });
		assert.equal(await legend.getAttribute("aria-pressed"), "false");
		await act(page, () => legend.click());
		assert.equal(await legend.getAttribute("aria-pressed"), "true");
		await page.screenshot({ path: join(out, "axis-messages.png") });
		// of a recording that has ended they are counted once, however long one looks
		let again = 0;
		page.on("request", (r) => /series=messages/.test(r.url()) && again++);
		await page.evaluate(() => {
			const now = performance.now.bind(performance);
			performance.now = () => now() + 60000;
		});
		const axis = await page.locator(".u-over").boundingBox();
		for (const x of [0.2, 0.4, 0.6])
			await page.mouse.move(axis.x + axis.width * x, axis.y + 20);
		await settled(page);
		assert.equal(again, 0);
		await act(page, () => page.getByRole("button", { name: "as table" }).click());
		const column = await page.evaluate(() => {
			const table = [...document.querySelectorAll("table")].find((t) => t.caption?.textContent === "Highest of each stretch");
			const at = [...table.tHead.rows[0].cells].findIndex((c) => c.textContent === "messages/s");
			return [...table.tBodies[0].rows].map((r) => r.cells[at].textContent);
		});
		assert.ok(column.some((text) => /^[1-9]/.test(text)), column.join(" "));
		await page.keyboard.press("Escape");
		await act(page, () => legend.click());
		const t0 = Date.now();
		const over = await page.locator(".u-over").boundingBox();
		await act(page, async () => {
			await page.mouse.move(over.x + over.width * 0.4, over.y + 30);
			await page.mouse.down();
			await page.mouse.move(over.x + over.width * 0.5, over.y + 30, { steps: 5 });
			await page.mouse.move(over.x + over.width * 0.6, over.y + 30, { steps: 5 });
			await page.mouse.up();
		});
		await act(page, () => page.locator(".rail").getByText("Messages").click());
		assert.equal(await view(page), "messages");
		await page.locator(".grid-row").first().waitFor();
		const words = new URL(page.url().replace("#/messages", "")).searchParams;
		const ns = (word) => start + BigInt(Math.round(Number(/^([\d.]+)s$/.exec(word)[1]) * 1e9));
		const inside = all.filter((m) => BigInt(m.timestamp) >= ns(words.get("from")) && BigInt(m.timestamp) <= ns(words.get("to")));
		assert.ok(inside.length > 0 && inside.length < all.length, `${inside.length} of ${all.length} messages in the range`);
		const shown = await counted(page);
		assert.ok(Math.abs(shown - inside.length) <= 1, `${shown} rows, ${inside.length} messages`); // numbers of JSON are exact to 256 ns
		await act(page, () => page.locator(".grid-row").first().click());
		await page.locator(".panel pre").waitFor();
		figures.question_9_ms = Date.now() - t0;
		figures.messages_in_range = shown;
		await page.screenshot({ path: join(out, "axis.png") });
		await act(page, () => page.getByRole("button", { name: "Memory then" }).click());
		assert.equal(await view(page), "flame");
		assert.match(page.url(), /[?&]at=[\d.]+s/);
	},

	/** Marks of the program: flags with their names, by keyboard, in the table, and as moments that a link keeps. */
	async marks({ url }) {
		const page = await open(`${url}#/flame`);
		const flags = page.locator(".flag.mark button");
		const names = await flags.evaluateAll((all) => all.map((b) => b.getAttribute("aria-label")));
		assert.deepEqual(names.map((n) => n.replace(/ at .*/, "")), ["mark 7", "mark 8", "mark 7", "mark 9"]);
		assert.deepEqual(await flags.evaluateAll((all) => all.map((b) => b.title)), names);
		await flags.nth(1).focus();
		await act(page, () => page.keyboard.press("Enter"));
		assert.match(page.url(), /[?&]at=mark:8(&|$)/);
		const held = await total(page);
		assert.equal(await page.locator(".now").count(), 1); // where it is stands on the axis
		await act(page, () => flags.nth(2).click());
		assert.match(page.url(), /[?&]at=[\d.]+s/); // not the first of its number: a time
		await act(page, () => page.getByRole("button", { name: "as table" }).click());
		const row = page.locator("tr", { hasText: "mark 8" });
		await act(page, () => row.getByRole("button").click());
		assert.match(page.url(), /[?&]at=mark:8(&|$)/);
		assert.equal(await total(page), held);
		// growth from mark to mark: what was made in between and is still there
		const growth = await open(`${url}#/growth?sort=live_bytes`);
		await act(growth, () => growth.getByRole("button", { name: "between marks" }).click());
		assert.match(growth.url(), /[?&]marks=7,8,9(&|$)/);
		const heads = await growth.getByRole("columnheader").allInnerTexts();
		assert.deepEqual(heads.filter((h) => h.includes("mark")), ["mark 7 to 8", "mark 8 to 9", "since mark 9"]);
		await growth.screenshot({ path: join(out, "marks-growth.png") });
		// an address with another order has the same columns
		const turned = await open(`${url}#/growth?sort=live_bytes&marks=9,7,8`);
		assert.deepEqual((await turned.getByRole("columnheader").allInnerTexts()).filter((h) => h.includes("mark")), ["mark 7 to 8", "mark 8 to 9", "since mark 9"]);
		for (const [width, theme] of [[1440, "light"], [1440, "dark"], [390, "light"]]) {
			const other = await open(`${url}#/flame?at=mark:8&series=rss,anon,file,heap`, { width, theme });
			assert.equal(await total(other), held);
			await loadAxe(other);
			assert.deepEqual(await offences(other), []);
			await other.screenshot({ path: join(out, `marks-${width}-${theme}.png`) });
		}
	},

	/** A recording of 10^8 events: openings, 300 interactions on aggregates, a block filter, Stop, the server's memory. */
	async large({ url, child }) {
		const cpu = () => readFileSync(`/proc/${child.pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ").slice(11, 13).reduce((a, n) => a + Number(n), 0) * 10;
		// from the start of the navigation to the drawn flame, by the page's own clock: the browser's start is not the page's
		let t0 = 0;
		let page = await open(`${url}#/flame`);
		figures.first_opening_ms = Math.round(await page.evaluate(() => window.__painted()));
		assert.ok((await boxes(page)).length > 0);
		await page.context().close();
		page = await open(`${url}#/flame`);
		figures.second_opening_ms = Math.round(await page.evaluate(() => window.__painted()));
		const summary = await page.evaluate(() => fetch("/api/v1/summary").then((r) => r.json()));
		figures.stacks = summary.totals.stacks;
		figures.allocations = summary.totals.allocations;
		const { rows: { key: names }, tree } = await page.evaluate(async () => ({ ...(await (await fetch("/api/v1/rows?by=function&limit=200")).json()), tree: await (await fetch("/api/v1/tree?nodes=3000&keys=1")).json() }));
		// what is asked of sums: costs, groups, zoom, transforms, search, tables, the moments of the axis
		let seed = 11;
		const random = (n) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
		const costs = ["peak", "allocated", "allocations", "temporary", "leaked"];
		const some = [
			() => `#/flame?cost=${costs[random(5)]}`,
			() => `#/flame?n=${tree.node.key[1 + random(tree.node.key.length - 1)]}`,
			() => `#/flame?cost=${costs[random(5)]}&inverted=1`,
			() => `#/table?cost=${costs[random(5)]}&by=${["function", "module", "stack"][random(3)]}`,
			() => `#/tree?cost=${costs[random(5)]}`,
			() => `#/treemap?cost=${costs[random(5)]}`,
			() => `#/flame?x=focus:${names[random(names.length)]}`,
			() => `#/flame?x=hide:${names[random(names.length)]}`,
			() => `#/function?f=${names[random(names.length)]}`,
			() => `#/flame?find=${["a", "e", "main", "alloc", "f1"][random(5)]}`,
			() => "#/overview",
			() => "#/losses",
		];
		const slow = [];
		/** From a change of the address until what it asks for is drawn, `count` times. */
		const timed = async (kinds, count) => {
			const times = [];
			for (let i = 0; i < count; i++) {
				const hash = kinds[random(kinds.length)]();
				const ms = await page.evaluate(
					(to) =>
						new Promise((done) => {
							if (location.hash === to)
								return done(0);
							const root = document.documentElement;
							const from = performance.now();
							root.removeAttribute("data-settled");
							location.hash = to;
							const watch = new MutationObserver(() => {
								if (root.hasAttribute("data-settled")) {
									watch.disconnect();
									done(window.__painted() - from);
								}
							});
							watch.observe(root, { attributes: true });
						}),
					hash,
				);
				if (ms)
					times.push(ms);
				if (ms > 200)
					slow.push(`${Math.round(ms)} ${hash}`);
			}
			times.sort((a, b) => a - b);
			return { count: times.length, p50_ms: Math.round(times[times.length >> 1]), p95_ms: Math.round(times[Math.floor(times.length * 0.95)]), max_ms: Math.round(times[times.length - 1]) };
		};
		const all = await timed(some, 300);
		figures.interactions = all.count;
		figures.p50_ms = all.p50_ms;
		figures.p95_ms = all.p95_ms;
		figures.max_ms = all.max_ms;
		figures.slow = slow.length;
		// any moment and range: nothing of them is kept, each is added up anew. The index has to be there, which is made behind the first opening
		await page.evaluate(() => fetch("/api/v1/tree?nodes=600&at=1%25"));
		const seconds = summary.process.runtime_ns / 1e9;
		const moment = () => (random(1e6) / 1e6) * seconds;
		const range = () => [moment(), moment()].sort((a, b) => a - b).map((t) => `${t.toFixed(3)}s`);
		figures.moments = await timed([() => `#/flame?cost=live&at=${moment().toFixed(3)}s`], 40);
		figures.made_in_ranges = await timed([() => ((r) => `#/flame?cost=allocated&from=${r[0]}&to=${r[1]}`)(range())], 40);
		figures.still_there = await timed([() => ((r) => `#/flame?cost=live&from=${r[0]}&to=${r[1]}&at=${r[1]}`)(range())], 40);
		figures.tables_of_ranges = await timed([() => ((r) => `#/table?cost=peak&from=${r[0]}&to=${r[1]}`)(range())], 40);
		writeFileSync(join(out, "slow.txt"), slow.join("\n"));
		// Stop: the server's work ends with the question
		await page.evaluate(() => void (location.hash = "#/blocks?min-size=63"));
		const stop = page.getByRole("button", { name: "Stop" });
		await stop.waitFor({ timeout: 20000 });
		await stop.click();
		await new Promise((done) => setTimeout(done, 100));
		const before = cpu();
		await new Promise((done) => setTimeout(done, 3000));
		figures.cpu_in_3_s_after_stop_ms = cpu() - before;
		// single blocks that match a filter: the first rows
		await act(page, () => page.evaluate(() => void (location.hash = "#/overview")));
		t0 = Date.now();
		await act(page, async () => {
			// by the page's own clock: from the change of the address until rows are drawn, be the rest still on its way
			figures.block_filter_first_rows_ms = Math.round(
				await page.evaluate(
					() =>
						new Promise((done) => {
							const from = performance.now();
							const look = () => (document.querySelector(".grid-row") ? requestAnimationFrame(() => done(performance.now() - from)) : requestAnimationFrame(look));
							location.hash = "#/blocks?min-size=64";
							look();
						}),
				),
			);
		});
		figures.block_filter_all_ms = Date.now() - t0;
		figures.server_peak_mib = Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))[1]) / 1024);
		await page.context().close();
		// a random function may have nothing of a random cost: the server says 404, which a browser writes down
		complaints.splice(0, complaints.length, ...complaints.filter((c) => !/status of 404/.test(c)));
	},

	/** A running process by mapping: its classes add up to RSS, the verdict, allocators, threads; the figures go on by themselves. */
	async regions({ url }) {
		const page = await open(`${url}#/regions`);
		const json = () => page.evaluate(() => fetch("/debug/memory?format=json&top=500").then((r) => r.json()));
		const now = await json();
		assert.equal(now.classes.reduce((a, c) => a + c.rss_bytes, 0), now.rss_bytes);
		assert.match(await page.locator(".regions-head h2").innerText(), new RegExp(`${now.pid}: .* resident`));
		const first = await page.locator(".regions-head").innerText();
		await page.waitForFunction((t) => document.querySelector(".regions-head").innerText !== t, first, { timeout: 5000 });
		// what `regions` says first, in the same words: what the program uses, what became of the rest
		const said = await page.locator(".verdict").innerText();
		assert.match(said, /^The program (uses|is known to use) .* of it\. .*free/);
		const words = (text) => text.replace(/[\d.]+ .?i?B/g, "#").trim();
		assert.equal(words(said.replace("Who holds it", "")), words((await json()).verdict_sentences.join(" ")));
		for (const form of ["largest mappings", "allocators", "threads", "classes"]) {
			await act(page, () => page.getByRole("button", { name: form, exact: true }).click());
			if (form === "allocators")
				await page.locator(".card h2").first().waitFor();
			await page.screenshot({ path: join(out, `regions-${form.replace(" ", "-")}.png`) });
		}
		await act(page, () => page.locator(".grid-row").first().click());
		await page.locator(".panel .spark").waitFor();
		await everywhere(url, ["#/regions", "#/regions?z=allocators", "#/regions?z=threads", "#/regions?z=mappings"]);
	},

	/** A running process that nothing records: its past since it is watched stands above every view, goes on, and can be zoomed into. */
	async watched({ url }) {
		const page = await open(url);
		await page.locator(".timeline-canvas canvas").waitFor();
		assert.match(page.url(), /#\/(overview|)$|\/$/);
		const figure = () => page.locator(".key-figure").last().innerText();
		const first = await figure();
		await page.waitForFunction((t) => [...document.querySelectorAll(".key-figure")].at(-1).innerText !== t, first, { timeout: 10000 });
		assert.deepEqual(await page.locator(".legend").allInnerTexts(), ["RSS", "anon", "file", "shmem", "swap", "virtual"]);
		// of blocks nothing is known, so nothing can be chosen of them; a sheet that is some seconds old says so
		assert.equal(await page.locator(".selection-chips, #cost").count(), 0);
		const { pid } = (await page.evaluate(() => fetch("/api/v1/sources").then((r) => r.json())))[0];
		assert.equal(await page.locator(".footer .command").innerText(), `byteledger explain -p ${pid}`);
		await page.waitForFunction(() => /^Resident memory \d+ s ago/.test(document.querySelector(".card.wide h2").innerText), null, { timeout: 20000 });
		assert.match(await page.locator(".state-text").innerText(), /^live, \d+ s old$/);
		await act(page, () => page.locator("nav a", { hasText: "Regions" }).click());
		await page.locator(".timeline-canvas canvas").waitFor();
		const box = await page.locator(".timeline-plot").boundingBox();
		await page.mouse.move(box.x + box.width * 0.3, box.y + box.height / 2);
		await page.mouse.down();
		await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2, { steps: 4 });
		await page.mouse.up();
		await page.waitForFunction(() => /[?&]zoom=\d+-\d+/.test(location.hash));
		assert.doesNotMatch(page.url(), /[?&](at|from|to)=/);
		await page.screenshot({ path: join(out, "watched.png") });
		await everywhere(url, ["#/overview", "#/regions", "#/balance"]);
	},

	/** What `pages --serve` counts: rows of RSS add up to it, by kind, a row's stack, its place in the address, a table to take away. */
	async pages({ url }) {
		const page = await open(`${url}#/pages`);
		const json = () => page.evaluate(() => fetch("/api/v1/pages").then((r) => r.json()));
		const [now] = (await json()).processes;
		const sum = (kinds) => now.rows.filter((r) => kinds.includes(r.kind)).reduce((a, r) => a + r.bytes, 0);
		assert.equal(sum(["anon", "shmem", "file"]), now.rss_bytes);
		for (const [kind, bytes] of Object.entries(now.kinds))
			assert.equal(sum([kind]), bytes, kind);
		await page.locator(".grid-row").first().waitFor();
		assert.match(await page.locator(".regions-head h2").innerText(), new RegExp(`${now.pid}: .* resident, .* with a stack`));
		const of = () => page.evaluate(() => Number(document.querySelector("[role=grid],[role=treegrid]").getAttribute("aria-rowcount")));
		const all = await of();
		await act(page, () => page.locator(".balance-line").filter({ hasText: "anonymous" }).first().click());
		assert.match(page.url(), /[?&]types=anon/);
		const anon = await of();
		assert.ok(anon > 0 && anon < all, `${anon} of ${all} rows are anonymous`);
		// the largest row is the program's own: its stack stands in the panel, and the link finds it again
		await act(page, () => page.locator(".grid-row").first().click());
		await page.locator(".panel .panel-name").waitFor();
		const name = await page.locator(".panel .panel-name").innerText();
		assert.match(await page.locator(".panel").innerText(), /of RSS/);
		assert.match(page.url(), /[?&]s=[0-9a-f]{8}/);
		const again = await open(page.url());
		await again.locator(".panel .panel-name").waitFor();
		assert.equal(await again.locator(".panel .panel-name").innerText(), name);
		await again.context().close();
		await page.screenshot({ path: join(out, "pages.png") });
		figures.rows = all;
		await everywhere(url, ["#/pages", "#/pages?types=anon"]);
	},

	/** What `sample --serve` found so far: estimates by stack, their histogram, and they go on. */
	async sampler({ url }) {
		const page = await open(`${url}#/sampler`);
		await page.locator(".grid-row").first().waitFor();
		const head = () => page.locator(".regions-head h2").innerText();
		assert.match(await head(), /in .* allocations, estimated/);
		const first = await head();
		await page.waitForFunction((t) => document.querySelector(".regions-head h2").innerText !== t, first, { timeout: 30000 });
		await act(page, () => page.locator(".grid-row").first().click());
		await page.locator(".panel svg[role=img]").waitFor();
		assert.match(await page.locator(".panel").innerText(), /allocations/);
		await page.screenshot({ path: join(out, "sampler.png") });
		await everywhere(url, ["#/sampler"]);
	},
};
