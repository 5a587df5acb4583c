// SPDX-License-Identifier: Apache-2.0
// Lists that lead on: groups to their blocks, cells of the address space to what pins them, pictures as tables, files with all rows.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { act, boxes, bytes, complaints, figures, key, loadAxe, offences, open, settled, total, view } from "./harness.mjs";

const ask = (page, path) => page.evaluate((p) => fetch(`/api/v1/${p}`).then((r) => r.json()), path);
const rows = (page) => page.locator(".grid-body [role=row]");
async function csv(page) {
	const [file] = await Promise.all([page.waitForEvent("download"), page.locator(".footer").getByRole("button", { name: "CSV" }).click()]);
	return readFileSync(await file.path(), "utf8").trim().split("\r\n");
}

export const cases = {
	/** A group opens its blocks by Enter, by a second click and from its details; filters stay, one step goes back. */
	async groups({ url }) {
		const page = await open(url + "#/blocks?group=stack&min-size=64&sort=-count");
		const told = await ask(page, "allocations?group=stack&min-size=64&order=-count&limit=3");
		const opened = async (how) => {
			await page.goto(url + "#/blocks?group=stack&min-size=64&sort=-count");
			await settled(page);
			await act(page, () => rows(page).first().click());
			await act(page, how);
			const words = new URLSearchParams(page.url().split("?")[1]);
			assert.equal(words.get("stack"), String(told.rows.group[0]));
			assert.equal(words.get("min-size"), "64");
			assert.equal(words.get("group"), null);
			assert.match(await page.locator(".tools").innerText(), new RegExp(`^[^]*${told.rows.count[0].toLocaleString("en")} of `));
			assert.match(await page.locator(".selection-chips").innerText(), /of call stack/);
			// each of them was made there: a line begins behind the wrappers
			const names = told.stacks.frames[told.rows.stack[0]].map((f) => told.frames.short[f]);
			const asker = Math.max(0, names.findIndex((n) => !/^(operator new|std::|__gnu_cxx::)/.test(n)));
			assert.equal(await rows(page).first().locator("[role=gridcell]").last().innerText(), names.slice(asker, asker + 5).join(" ← "));
			await page.goBack();
			await settled(page);
			assert.match(page.url(), /group=stack/);
		};
		await opened(() => page.keyboard.press("Enter"));
		await opened(() => rows(page).first().click());
		await opened(() => page.locator(".panel .actions a").first().click());
		// a chosen row far down is known by its link
		const far = (await ask(page, "allocations?group=stack&order=-size&limit=10000")).rows;
		if (far.group.length > 600) {
			const grid = page.getByRole("grid", { name: "groups of blocks" });
			await page.goto(url + "#/blocks?group=stack");
			await settled(page);
			await grid.focus();
			await key(page, "End");
			await page.waitForFunction((n) => new URLSearchParams(location.hash.split("?")[1]).get("s") === n, String(far.group.at(-1)));
			for (const p of [page, await open(page.url())])
				assert.match(await p.locator(".panel").innerText(), new RegExp(`bytes\\s+${bytes(far.bytes.at(-1))}\\s+${bytes(far.all_bytes.at(-1))}`));
			// another order begins at its first row, where none is chosen that stands elsewhere in it
			await key(page, "Escape");
			await act(page, () => page.getByRole("columnheader", { name: "matched" }).getByRole("button").click());
			assert.equal(await grid.evaluate((g) => g.scrollTop), 0);
			await act(page, () => page.goto(url + "#/blocks?group=stack&min-size=64&sort=-count"));
			await act(page, () => rows(page).first().click());
		}
		// and the flame of one group has its bytes
		await act(page, () => page.locator(".panel .actions").getByText("Flame").click());
		assert.equal(await view(page), "flame");
		assert.equal(await total(page), bytes(told.rows.bytes[0]));
		// files have all rows, not those of the first question
		await page.goto(url + "#/blocks?group=stack");
		await settled(page);
		const all = await ask(page, "allocations?group=stack&limit=1");
		assert.equal((await csv(page)).length, all.total_rows + 1);
		await page.goto(url + "#/blocks?min-size=64");
		await settled(page);
		const blocks = await ask(page, "allocations?min-size=64&limit=1");
		assert.ok(blocks.matched > 200, "one question would do");
		const lines = await csv(page);
		assert.equal(lines.length, Math.min(blocks.matched, lines.length - 2 > 200000 ? lines.length - 2 : blocks.matched) + 1);
		// of an order that is known for the first ten thousand only, the file says so
		if (blocks.matched > 10000) {
			await page.goto(url + "#/blocks?min-size=64&sort=-size");
			await settled(page);
			const cut = await csv(page);
			assert.equal(cut.length, 10002);
			assert.match(cut.at(-1), /more rows are not in this file/);
			figures.cut = cut.at(-1);
		}
		await page.goto(url + "#/growth");
		await settled(page);
		const growth = await ask(page, "growth?by=function&limit=1");
		const grown = await csv(page);
		assert.equal(grown.length, growth.total_rows + 1);
		assert.match(grown[0], /live_at_\d+_ns/);
	},

	/** The questions that are asked by keys alone, to their answers; what nothing is left of says how much there was. */
	async keys({ url }) {
		const page = await open(url + "#/flame");
		const focus = () => page.evaluate(() => document.activeElement?.textContent ?? "");
		const words = () => new URLSearchParams(page.url().split("?")[1]);
		// 3: from the balance to one of its lines
		await key(page, "g", "o");
		await page.waitForFunction(() => /^Resident memory/.test(document.activeElement?.textContent ?? ""));
		await key(page, "Tab");
		assert.match(await focus(), /heap|%/);
		await key(page, "Enter");
		assert.notEqual(await view(page), "overview");
		// 4: a range, its ends by arrows, what was made in it
		await page.goto(url + "#/flame");
		await settled(page);
		await key(page, "b");
		await page.waitForFunction(() => document.activeElement?.hasAttribute("data-brush"));
		const before = words().get("from");
		await key(page, "ArrowRight", "ArrowRight");
		assert.notEqual(words().get("from"), before);
		await key(page, "Enter");
		assert.match(words().get("s") ?? "", /^[0-9a-f]{16}$/);
		await key(page, "u");
		// the file need not be on this disk, which the browser itself complains of
		complaints.splice(0, complaints.length, ...complaints.filter((c) => !/404.* at \S*#\/source/.test(c)));
		assert.ok((await view(page)) === "source" || /not recorded/.test(await page.locator(".toast").textContent()));
		// 5: what grows, then how long what was never freed there has lived, beside all of it
		await page.goto(url + "#/overview");
		await settled(page);
		await key(page, "g", "w");
		await page.waitForFunction(() => document.activeElement?.getAttribute("role") === "grid");
		await key(page, "Enter");
		assert.equal(await view(page), "blocks");
		assert.equal(words().get("group"), "stack");
		assert.equal(words().get("leaked"), "1");
		assert.ok(words().get("function-regex") ?? words().get("module")); // without a name: its module
		// 6: who churns
		await page.goto(url + "#/flame");
		await settled(page);
		await key(page, "c", "t", "i");
		assert.equal(words().get("cost"), "temporary");
		assert.equal(words().get("inverted"), "1");
		await page.goBack();
		await settled(page);
		assert.equal(words().get("inverted"), null);
		// 7: compared
		await page.goto(url + "#/flame");
		await settled(page);
		await key(page, "d");
		await page.waitForFunction(() => document.activeElement?.textContent.trim() === "Compare");
		await key(page, "Enter");
		assert.match(await page.locator(".compare-sums").innerText(), /before.*now.*change/s);
		// / finds from any view; Enter once more keeps only what was found
		const name = (await page.evaluate(() => fetch("/api/v1/rows?by=function&limit=300").then((r) => r.json()))).frames.name.find((n) => n && /^\w+$/.test(n));
		for (const of of ["overview", "growth", "blocks", "space", "flame"]) {
			await page.goto(`${url}#/${of}`);
			await settled(page);
			await key(page, "/");
			await page.keyboard.type(name);
			await key(page, "Enter");
			assert.equal(await view(page), "flame", of);
			assert.equal(words().get("find"), name);
			assert.match(await page.locator("main").innerText(), /matched/, of);
		}
		await key(page, "n");
		assert.match(words().get("s") ?? "", /^[0-9a-f]{16}$/);
		await key(page, "Escape", "Enter");
		assert.ok(new RegExp(words().get("function-regex") ?? "^$").test(name), page.url());
		assert.equal(words().get("find"), null);
		// empty: how much there is without the words
		const there = await page.evaluate(() => fetch("/api/v1/allocations?at=peak&limit=1").then((r) => r.json()));
		for (const of of ["flame", "tree", "treemap", "table", "lifetimes"]) {
			await page.goto(`${url}#/${of}?at=peak&min-size=1G`);
			await settled(page);
			assert.match(await page.locator("main .empty").innerText(), /blocks? then, none ≥ 1G/, of);
		}
		figures.live_then = there.matched;
	},

	/** A word that a view cannot read is struck through there, and nothing is refused for it. */
	async struck({ url }) {
		const page = await open(url + "#/flame?x=rec&base=@50%25&at=end");
		for (const [of, words] of Object.entries({ flame: [], table: [], blocks: ["compared with", "recursion"], "blocks?group=stack&": ["compared with", "recursion"], lifetimes: ["compared with", "recursion"], space: ["compared with", "recursion"], maps: ["compared with", "recursion"], growth: ["compared with"] })) {
			await page.goto(`${url}#/${of.includes("?") ? of : `${of}?`}x=rec&base=@50%25&at=end`);
			await settled(page);
			assert.equal(await page.locator(".note.bad").count(), 0, `${of}: ${await page.locator(".note.bad").allInnerTexts()}`);
			const struck = await page.locator(".chip.struck").evaluateAll((all) => all.map((c) => [c.innerText, c.title]));
			assert.equal(struck.length, words.length, `${of}: ${struck}`);
			words.forEach((w) => assert.ok(struck.some(([text, why]) => text.includes(w) && why), `${of}: ${struck}`));
		}
	},

	/** A cell opens all blocks that pin it, then the flame of these; the cells stand as a table, too, and levels of growth. */
	async cells({ url }) {
		const page = await open(url + "#/space?at=peak");
		await loadAxe(page);
		const space = await ask(page, "space?at=peak&width=2048");
		const strip = space.strips.reduce((a, b) => (b.blocks > a.blocks ? b : a));
		const partly = strip.used.filter((used) => used > 0 && used < strip.cell_bytes); // of more than one block, mostly
		const at = strip.used.indexOf(Math.max(...(partly.length ? partly : strip.used)));
		const from = BigInt(strip.start) + BigInt(at) * BigInt(strip.cell_bytes);
		const range = `0x${from.toString(16)}-0x${(from + BigInt(strip.cell_bytes)).toString(16)}`;
		const told = await ask(page, `allocations?at=peak&address=${range}&order=-size&limit=10000`);
		assert.ok(told.matched > 0);
		// what each of them has in the cell is what the cell has
		const inside = told.allocations.address.reduce((sum, a, i) => {
			const begin = BigInt(a) > from ? BigInt(a) : from;
			const end = BigInt(a) + BigInt(told.allocations.bytes[i]);
			const stop = from + BigInt(strip.cell_bytes);
			return sum + Number((end < stop ? end : stop) - begin);
		}, 0);
		assert.equal(inside, strip.used[at]);
		const canvas = page.locator(".strip", { hasText: strip.start }).locator("canvas");
		const box = await canvas.boundingBox();
		const per = Math.floor(box.width / 5);
		await act(page, () => page.mouse.click(box.x + (at % per) * 5 + 2, box.y + Math.floor(at / per) * 7 + 3));
		assert.ok(page.url().includes(`s=${range}`), page.url());
		const panel = page.locator(".panel");
		assert.match(await panel.innerText(), new RegExp(`${told.matched.toLocaleString("en")} blocks? lives? here`));
		const listed = await panel.locator(".cell-blocks li").allInnerTexts();
		assert.equal(listed.length, Math.min(100, told.matched));
		assert.match(listed[0], new RegExp(`^${told.allocations.address[0]}\\s[^]*\\S`));
		assert.deepEqual(await offences(page), []);
		// back from the list of all of them, then the flame of these
		await act(page, () => panel.getByText("As a list").click());
		assert.equal(await view(page), "blocks");
		assert.match(await page.locator(".tools").innerText(), new RegExp(`${told.matched.toLocaleString("en")} of `));
		await page.goBack();
		await settled(page);
		await act(page, () => panel.getByText("Flame of these").click());
		assert.equal(await view(page), "flame");
		assert.equal(await total(page), bytes(told.allocations.bytes.reduce((a, b) => a + b, 0)));
		assert.ok((await boxes(page)).length > 0);
		// as a table: every cell that holds anything, walked by keys
		await page.goto(url + "#/space?at=peak");
		await settled(page);
		await act(page, () => page.getByRole("button", { name: "cells as table" }).click());
		assert.match(page.url(), /z=table/);
		const grid = page.getByRole("grid", { name: "cells" });
		assert.equal(await grid.getAttribute("aria-rowcount"), String(space.strips.flatMap((s) => s.used).filter(Boolean).length + 1));
		await grid.focus();
		await key(page, "End");
		await page.locator(".panel .cell-blocks li").first().waitFor();
		assert.deepEqual(await offences(page), []);
		// a block that is chosen there is found
		await act(page, () => page.locator(".panel .cell-blocks a").first().click());
		assert.match(await panel.innerText(), /a live block/);
		// Growth: the same
		await page.goto(url + "#/growth");
		await settled(page);
		const growth = await ask(page, "growth?by=function&limit=3");
		assert.ok((await page.locator(".grid .spark").count()) > 0);
		await act(page, () => page.getByRole("button", { name: "levels as table" }).click());
		assert.equal(await page.locator(".grid .spark").count(), 0);
		const cellsOf = await rows(page).first().locator("[role=gridcell]").allInnerTexts();
		assert.deepEqual(cellsOf.slice(2, 2 + growth.time_ns.length), growth.rows.points[0].map(bytes));
		assert.deepEqual(await offences(page), []);
		figures.blocks_of_a_cell = told.matched;
	},
};
