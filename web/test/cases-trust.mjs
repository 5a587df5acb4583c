// SPDX-License-Identifier: Apache-2.0
// What must be said, and what must hold across recordings and views: losses, estimates, the balance sheet, links after recording anew.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { act, boxes, browser, bytes, byteledger, complaints, figures, freshPage, open, out, settled, startServer, total, view } from "./harness.mjs";

/** csv - a downloaded table as rows of cells. */
export function csv(text) {
	const rows = [[]];
	let cell = "";
	let quoted = false;
	for (let i = 0; i < text.length; i++) {
		const c = text[i];
		if (quoted) {
			if (c === '"' && text[i + 1] === '"')
				cell += text[++i];
			else if (c === '"')
				quoted = false;
			else
				cell += c;
		} else if (c === '"') {
			quoted = true;
		} else if (c === "," || c === "\n") {
			rows[rows.length - 1].push(cell.replace(/\r$/, ""));
			cell = "";
			if (c === "\n")
				rows.push([]);
		} else {
			cell += c;
		}
	}
	return rows.filter((r) => r.length);
}
export async function download(page, name, encoding = "utf8") {
	const [file] = await Promise.all([page.waitForEvent("download"), page.locator(".footer").getByText(name, { exact: true }).click()]);
	return readFileSync(await file.path(), encoding);
}

export const cases = {
	/** A full ring: the loss stands above the picture with its reason, in the header, under Losses and on the time axis. */
	async lossy({ url, file }) {
		const json = JSON.parse(spawnSync(byteledger, ["report", "--format", "json", file], { maxBuffer: 1 << 30, encoding: "utf8" }).stdout);
		assert.ok(json.lost.events > 0, "nothing was lost: the test means nothing");
		// it is said long before all of the page is drawn, of which the time axis with its spans is the last
		const page = await open(`${url}#/flame`, { says: ".note.bad" });
		const { text: note, after_ms } = await page.evaluate(() => window.__said);
		assert.equal(await page.locator(".note.bad").first().innerText(), note);
		figures.lost_said_after_ms = after_ms;
		figures.lost_events = json.lost.events;
		const reason = Object.keys(json.lost.by_reason)[0].replace(/_/g, " ");
		assert.match(note, new RegExp(`events are lost \\(${reason}`));
		assert.match(await page.locator(".trust").innerText(), /^lost/);
		assert.ok((await boxes(page)).length > 0);
		await page.locator(".flag.lost").first().waitFor({ state: "attached" });
		figures.flags_of_loss = await page.locator(".flag.lost").count();
		const flags = await page.evaluate(() => fetch("/api/v1/timeline?series=lost&points=1").then((r) => r.json()));
		figures.spans_of_loss = await page.locator(".flag.lost .hatch").count();
		assert.equal(flags.flags.filter((f) => f.kind === "lost").reduce((a, f) => a + f.events, 0), json.lost.events);
		await page.screenshot({ path: join(out, "lossy.png") });
		await act(page, () => page.locator(".trust").click());
		assert.match(await page.locator("main").innerText(), new RegExp(`${reason}`));
		assert.ok(figures.lost_said_after_ms < 4000, JSON.stringify(figures));
	},

	/** A sampled recording: its figures are told as estimates in every view. */
	async sampled({ url }) {
		const page = await open(`${url}#/flame?cost=allocated`, { says: ".note.warn" });
		const { text: note, after_ms } = await page.evaluate(() => window.__said);
		assert.match(note, /Estimates: a stack for each/);
		assert.equal(await page.locator(".note.warn").first().innerText(), note);
		figures.sampled_said_after_ms = after_ms;
		assert.match(await page.locator(".trust").innerText(), /sampled/);
		await page.screenshot({ path: join(out, "sampled.png") });
		for (const view of ["table", "tree", "overview"]) {
			await act(page, () => page.evaluate((to) => void (location.hash = to), `#/${view}?cost=allocated`));
			assert.match(await page.locator(".trust").innerText(), /sampled/, view);
		}
		assert.ok(figures.sampled_said_after_ms < 4000, JSON.stringify(figures));
	},

	/** The balance sheet: its lines are the command's, add up to RSS to the byte, and a line opens its stacks. */
	async balance({ url, file }) {
		const sheet = JSON.parse(spawnSync(byteledger, ["explain", "--format", "json", "--by", "function", file], { maxBuffer: 1 << 30, encoding: "utf8" }).stdout);
		assert.equal(sheet.lines.reduce((a, l) => a + l.bytes, 0) + sheet.unexplained_bytes, sheet.rss_bytes);
		const page = await open(`${url}#/balance`);
		// in plain words, of how much it is not known what is in use, too: the command's own sentences
		assert.ok(sheet.verdict.length > 0 && /^The program (uses|is known to use) /.test(sheet.verdict[0]), JSON.stringify(sheet.verdict));
		assert.equal((await page.locator(".verdict").innerText()).trim(), sheet.verdict.join(" "));
		const text = await download(page, "CSV");
		const rows = csv(text).slice(1);
		assert.deepEqual(rows.map((r) => [r[0], r[1], Number(r[2])]), [...sheet.lines.map((l) => [l.class, l.label, l.bytes]), ["unexplained", "", sheet.unexplained_bytes]]);
		const shown = await page.locator(".ledger tbody tr.class td:nth-child(2)").evaluateAll((cells) => cells.map((c) => Number(c.title.replace(/[^\d-]/g, ""))));
		assert.equal(shown.reduce((a, b) => a + b, 0), sheet.rss_bytes, "the sheet's rows do not add up to RSS");
		const live = sheet.lines.find((l) => l.class === "heap-live");
		assert.ok(live.stacks.length > 0);
		await act(page, () => page.locator(".ledger .line-name").first().click());
		assert.match(await page.locator(".panel .stack-list li").first().innerText(), new RegExp(bytes(live.stacks[0].bytes).replace(".", "\\.")));
		assert.match(page.url(), /[?&]s=heap-live/);
		await page.screenshot({ path: join(out, "balance.png") });
		// the overview has the same sheet: question 1 without a click, question 3 in one
		await act(page, () => page.evaluate(() => void (location.hash = "#/overview")));
		assert.match(await page.locator(".card.wide h2").first().innerText(), new RegExp(bytes(sheet.rss_bytes).replace(".", "\\.")));
		// what is absent names the command that would show it; what is there does not
		await page.locator(".more-data summary").click();
		const more = await page.locator(".more-data").innerText();
		assert.match(more, /byteledger serve -p PID/);
		assert.match(more, /byteledger serve \S+\.blt STORE/);
		assert.doesNotMatch(more, /Balance/);
		await act(page, () => page.locator(".balance-line").first().click());
		assert.match(page.url(), /#\/balance\?s=/);
		figures.rss_bytes = sheet.rss_bytes;
		figures.lines = sheet.lines.length;
	},

	/** After recording the program anew the zoomed and the selected box are found by name: the same link, another recording. */
	async again({ url }) {
		const [, other] = await (await fetch(`${url}api/v1/sources`)).json();
		assert.ok(other, "two recordings are needed");
		const page = await open(`${url}#/flame?cost=allocated`);
		const some = (await boxes(page)).filter((b) => b.w > 60 && b.w < 900);
		let found = 0;
		for (const box of [some[0], some[Math.floor(some.length / 2)], some[some.length - 1]]) {
			const canvas = await page.locator(".flame-canvas").boundingBox();
			await act(page, () => page.mouse.click(canvas.x + box.x + box.w / 2, canvas.y + box.y + 8));
			const name = await page.locator(".panel-name").innerText();
			await act(page, () => page.keyboard.press("Enter"));
			const hash = new URL(page.url()).hash;
			assert.match(hash, /[?&]n=[0-9a-f]{16}/);
			const anew = await open(`${url}${hash.replace("?", "?src=1&")}`);
			assert.equal(await anew.locator(".panel-name").innerText(), name, `${hash} in the other recording`);
			assert.match(anew.url(), /[?&]n=[0-9a-f]{16}/, "the zoomed box was not found");
			await anew.context().close();
			await act(page, () => page.goBack());
			found++;
		}
		figures.found_again = found;
	},

	/** Flame, Tree, Table, Treemap and the downloaded tables of one selection show one sum: some of ours, and some at random. */
	async oneSum({ url }) {
		const page = await open(`${url}#/flame`);
		const key = await page.evaluate(() => fetch("/api/v1/rows?by=function&limit=9").then((r) => r.json()).then((r) => r.rows.key));
		let compared = 0;
		let seed = 11;
		const random = (n) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
		const columns = { allocated: "allocated_bytes", leaked: "leaked_bytes", live: "live_bytes", allocations: "allocations", peak: "peak_bytes", temporary: "temporary_allocations" };
		const anyOne = () => {
			const words = [`cost=${Object.keys(columns)[random(6)]}`];
			const from = random(50);
			if (random(2))
				words.push(`min-size=${2 ** random(12)}`);
			if (random(3) === 0)
				words.push(`from=${from}%25`, `to=${from + 1 + random(50)}%25`);
			if (random(3) === 0)
				words.push(`at=${random(100)}%25`);
			const x = Array.from({ length: random(3) }, () => [`hide:${key[random(9)]}`, `drop:${key[random(9)]}`, "rec"][random(3)]);
			return [...words, ...(x.length ? [`x=${x.join(",")}`] : [])].join("&");
		};
		const selections = ["cost=allocated", "cost=leaked", "at=50%25", "cost=allocations&min-size=64", `cost=allocated&x=hide:${key[3]}`, `cost=allocated&x=drop:${key[6]},rec`, "from=20%25&to=80%25&at=80%25"];
		for (let i = 0; i < Number(process.env.ROUNDS ?? 12); i++)
			selections.push(anyOne());
		for (const words of selections) {
			const there = await page.evaluate((q) => fetch(`/api/v1/tree?${q}`).then((r) => r.json()), words);
			if (there.error || !there.shown)
				continue; // nothing to be shown, and told so by each view
			await act(page, () => page.evaluate((to) => void (location.hash = to), `#/tree?${words}`));
			const answer = await page.evaluate((q) => fetch(`/api/v1/tree?${q}&nodes=200000`).then((r) => r.json()), words);
			const sum = await total(page);
			const tree = csv(await download(page, "CSV"));
			const top = tree.slice(1).find((r) => r[0] === "0");
			assert.equal(Number(top[5]), answer.shown, `Tree's table of ${words}`);
			for (const view of ["flame", "treemap", "table"]) {
				await act(page, () => page.evaluate((to) => void (location.hash = to), `#/${view}?${words}`));
				assert.equal((await total(page)).split(":")[0], sum.split(":")[0], `${view} of ${words}`);
			}
			const table = csv(await download(page, "CSV"));
			const cost = /cost=(\w+)/.exec(words)?.[1] ?? "live";
			const column = table[0].indexOf(columns[cost]);
			assert.ok(column > 0, table[0].join());
			assert.equal(table.slice(1).reduce((a, r) => a + Number(r[column]), 0), answer.shown, `the table's file of ${words}`);
			compared++;
		}
		figures.selections = compared;
		assert.ok(compared > selections.length / 3, `${compared} of ${selections.length}`);
	},

	/** Every view gives away what it shows: JSON and CSV everywhere, pictures of what is a picture. */
	async downloads({ url }) {
		const page = await open(url);
		const list = await page.evaluate(() => [...document.querySelectorAll(".rail a.rail-item")].map((a) => a.getAttribute("href")));
		const key = await page.evaluate(() => fetch("/api/v1/rows?by=function&limit=3").then((r) => r.json()).then((r) => r.rows.key[1]));
		const blank = await (await browser.newContext()).newPage(); // markup may not be parsed under the page's policy
		const pictures = ["flame", "treemap", "lifetimes", "space", "compare", "function", "balance"];
		let files = 0;
		for (const href of [...list.filter((h) => !h.includes("compare")), `#/function?f=${key}`, "#/compare?base=@50%25&at=end", "#/compare?base=@50%25&at=end&z=sides", "#/space?at=peak"]) {
			await act(page, () => page.evaluate((to) => void (location.hash = to), href));
			const name = await view(page);
			if (await page.locator("main .empty").count())
				continue;
			const names = await page.locator(".footer .link-button:visible").allInnerTexts();
			for (const wanted of ["JSON", "CSV", ...(pictures.includes(name) ? ["SVG", "PNG"] : [])])
				assert.ok(names.includes(wanted), `${href} has no ${wanted}, but ${names}`);
			assert.ok(csv(await download(page, "CSV")).length > (name === "losses" ? 0 : 1), `${href}: an empty table`);
			files++;
			if (!names.includes("SVG"))
				continue;
			const svg = await download(page, "SVG");
			const parsed = await blank.evaluate((text) => {
				const doc = new DOMParser().parseFromString(text, "image/svg+xml");
				return doc.querySelector("parsererror") ? -1 : doc.querySelectorAll("rect").length;
			}, svg);
			assert.ok(parsed > 2, `${href}: ${parsed} boxes in its picture`);
			const png = await download(page, "PNG", "latin1");
			assert.ok(png.slice(1, 4) === "PNG" && png.length > 2000, `${href}: no picture`);
			files += 2;
		}
		figures.files = files;
	},

	/** The ten questions as a new user asks them with the mouse: clicks and seconds each, from the page's address to the answer on the screen. */
	async ten({ url, file }) {
		const sources = await (await fetch(`${url}api/v1/sources`)).json();
		const node = sources.find((s) => s.has?.includes("messages"));
		const page = await open(url);
		const took = {};
		const links = [];
		// a panel that has just opened leaves less room: two frames later all is laid out
		const shownBy = async (p) => (await act(p, async () => undefined), { boxes: await boxes(p), sum: await p.locator(".selection-end .explained").allInnerTexts(), row: await p.locator(".panel .panel-name").allInnerTexts() });
		async function question(number, from, steps, answer) {
			await page.goto(`${url}${from}`);
			await settled(page);
			let clicks = 0;
			const t0 = Date.now();
			for (const step of steps) {
				await act(page, () => step(page));
				clicks++;
			}
			assert.match(await page.locator("body").innerText(), answer, `question ${number}`);
			took[number] = { clicks, seconds: Math.round((Date.now() - t0) / 100) / 10 };
			assert.ok(clicks <= 4, `question ${number}: ${clicks} clicks`);
			links.push({ url: page.url(), ...(await shownBy(page)) });
		}
		const click = (selector) => (p) => p.locator(selector).first().click();
		const named = (name) => (p) => p.getByRole("button", { name, exact: true }).first().click();
		const rail = (name) => (p) => p.locator(".rail").getByText(name, { exact: true }).click();
		const drag = async (p) => {
			const over = await p.locator(".u-over").boundingBox();
			await p.mouse.move(over.x + over.width * 0.3, over.y + 30);
			await p.mouse.down();
			await p.mouse.move(over.x + over.width * 0.5, over.y + 30, { steps: 4 });
			await p.mouse.move(over.x + over.width * 0.7, over.y + 30, { steps: 4 });
			await p.mouse.up();
		};
		const box = async (p) => {
			const [first] = (await boxes(p)).filter((b) => b.y >= 20 && b.w > 60);
			const canvas = await p.locator(".flame-canvas").boundingBox();
			await p.mouse.click(canvas.x + first.x + first.w / 2, canvas.y + first.y + 8);
		};
		await question(1, "", [], /Resident memory[\s\S]*unexplained/);
		await question(2, "", [click("#peak")], /Peak|live/);
		await question(3, "", [click(".balance-line"), click(".stack-list button, .ledger .line-name")], /known by/);
		await question(4, "#/flame", [drag, box], /Called from|total/);
		await question(5, "", [rail("Growth"), click(".grid-row")], /growing|steady|shrinking|unknown/);
		await question(6, "", [(p) => p.locator("#cost").selectOption("temporary"), rail("Flame"), (p) => p.getByRole("button", { name: /callers on top/ }).click()], /callees on top/);
		await question(7, "", [rail("Compare"), named("Compare")], /before[\s\S]*change/);
		const block = await page.evaluate(() => fetch("/api/v1/allocations?at=peak&limit=1&order=-size").then((r) => r.json()));
		await question(8, "", [async (p) => (await p.locator("#find").fill(block.allocations.address[0]), await p.keyboard.press("Enter"))], /block[\s\S]*Allocated by/);
		if (node)
			await question(9, "#/flame", [drag, rail("Messages"), click(".grid-row")], /bytes sent/);
		await question(10, "", [rail("Losses")], /Lost events/);
		// the link of each answer, in a fresh profile: the same boxes, sums and row; what goes on has other figures by then
		for (const { url: link, ...before } of sources.some((s) => s.live) ? [] : links) {
			const fresh = await open(link);
			assert.deepEqual(await shownBy(fresh), before, link);
			await fresh.context().close();
		}
		figures.links = links.length;
		for (const [number, t] of Object.entries(took))
			figures[`question_${number}`] = `${t.clicks} clicks, ${t.seconds} s`;
	},

	/** A folder of one family: a tree of processes with their peaks, and a click goes to one. */
	async family({ url }) {
		const page = await open(url);
		await page.locator(".family li").nth(3).waitFor({ timeout: 20000 });
		const rows = await page.locator(".family li").evaluateAll((list) => list.map((l) => ({ name: l.querySelector("b").innerText, depth: parseInt(l.style.paddingLeft, 10) / 16 })));
		assert.deepEqual(rows.map((r) => `${r.depth} ${r.name}`), ["0 dash", "1 perl", "1 gawk", "2 dash", "3 sort"], "who started whom, in the order of their start");
		await page.screenshot({ path: join(out, "family.png") });
		await act(page, () => page.locator(".family a").last().click());
		assert.match(page.url(), /src=\d+/);
		figures.family = rows.map((r) => `${r.depth} ${r.name}`).join(", ");
	},

	/** Eight tabs of one browser load and follow, over one stream. */
	async tabs() {
		const { record } = await import("./cases-live.mjs");
		const r = await record();
		try {
			const context = await browser.newContext({ viewport: { width: 900, height: 600 }, reducedMotion: "reduce" });
			await freshPage(context);
			const pages = [];
			let streams = 0;
			for (let i = 0; i < 8; i++) {
				const page = await context.newPage();
				page.on("request", (q) => /api\/v1\/events/.test(q.url()) && streams++);
				page.on("pageerror", (e) => complaints.push(e.message));
				const t0 = Date.now();
				await page.goto(`${r.url}#/flame`);
				await settled(page);
				figures[`tab_${i + 1}_ms`] = Date.now() - t0;
				pages.push(page);
			}
			const heap = (page) => page.locator("header").innerText();
			const before = await Promise.all(pages.map(heap));
			await new Promise((done) => setTimeout(done, 3500));
			const after = await Promise.all(pages.map(heap));
			after.forEach((text, i) => assert.notEqual(text, before[i], `tab ${i + 1} does not follow`));
			figures.streams = streams;
			// the tab that listens goes: another one takes over
			await pages[0].close();
			const then = await Promise.all(pages.slice(1).map(heap));
			await new Promise((done) => setTimeout(done, 4500));
			(await Promise.all(pages.slice(1).map(heap))).forEach((text, i) => assert.notEqual(text, then[i], `tab ${i + 2} does not follow`));
			assert.ok(streams <= 3, `${streams} streams for eight tabs`);
		} finally {
			r.end();
		}
	},
};
