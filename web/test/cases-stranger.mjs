// SPDX-License-Identifier: Apache-2.0
// What somebody meets who was told nothing: ranges dragged one after another, links to far rows, the commands below the views.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { dirname, resolve } from "node:path";
import { act, boxes, byteledger, complaints, figures, open, settled, view } from "./harness.mjs";

const words = (page) => new URLSearchParams(page.url().split("?")[1]);
const ask = (page, path) => page.evaluate((p) => fetch(`/api/v1/${p}`).then((r) => r.json()), path);

/** shellWords - a command line as a shell divides it. */
function shellWords(text) {
	const done = spawnSync("sh", ["-c", `for w in ${text}; do printf '%s\\0' "$w"; done`], { encoding: "utf8" });
	return done.stdout.split("\0").slice(0, -1);
}

export const cases = {
	/** The time axis stays where it is under the pointer, so that a second range can be dragged, at every width. */
	async ranges({ url }) {
		for (const width of [1440, 1100, 800]) {
			const page = await open(`${url}#/flame`, { width });
			const over = () => page.locator(".u-over").boundingBox();
			const drag = async (a, b) => {
				const box = await over();
				await act(page, async () => {
					await page.mouse.move(box.x + box.width * a, box.y + 30);
					await page.mouse.down();
					for (const part of [0.4, 0.8, 1])
						await page.mouse.move(box.x + box.width * (a + (b - a) * part), box.y + 30);
					assert.deepEqual(await over(), box, `${width}: the axis moves while a range is dragged`);
					await page.mouse.up();
				});
				return [words(page).get("from"), words(page).get("to")].map(parseFloat);
			};
			const one = await drag(0.3, 0.7);
			const two = await drag(0.8, 0.9);
			assert.ok(two[0] > one[1], `${width}: ${one}, then ${two}`);
			const three = await drag(0.1, 0.2);
			assert.ok(three[1] < one[0], `${width}: ${three}`);
			await page.context().close();
		}
		// nor does a pointer that only looks move it, in a window of any width
		const page = await open(`${url}#/flame?from=20%25&to=60%25&at=60%25`);
		for (let width = 1480; width >= 720; width -= 40) {
			await act(page, () => page.setViewportSize({ width, height: 800 }));
			await page.mouse.move(width / 2, 700);
			const box = await page.locator(".u-over").boundingBox();
			await page.mouse.move(box.x + box.width / 2, box.y + 20);
			await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
			assert.deepEqual(await page.locator(".u-over").boundingBox(), box, `${width}: the axis moves under the pointer`);
			assert.match(await page.locator(".timeline-values").innerText(), /\d s[^]*heap live[^]*RSS/);
		}
		await page.mouse.move(400, 600);
		assert.equal(await page.locator(".timeline-values").count(), 0);
	},

	/** A row far down, chosen by keys, is chosen again where its link is opened; a box leads to its own blocks, whatever was chosen before. */
	async far({ url }) {
		const page = await open(`${url}#/table?by=stack`);
		const { total_rows: count } = await ask(page, "rows?by=stack&limit=1");
		assert.ok(count > 520, `${count} rows: all of them on the first page`);
		await page.locator(".grid").focus();
		await act(page, () => page.keyboard.press("End"));
		await page.waitForFunction(() => /[?&]s=/.test(location.hash));
		const shown = await page.locator(".panel").innerText();
		assert.match(shown, new RegExp(`row ${count.toLocaleString("en")}`));
		const again = await open(page.url());
		await again.locator(".grid-row.selected").waitFor({ timeout: 10000 });
		assert.equal(await again.locator(".panel").innerText(), shown);
		await again.context().close();

		await page.goto(`${url}#/flame?cost=allocated&function-regex=.`);
		await settled(page);
		const canvas = await page.locator(".flame-canvas").boundingBox();
		const box = (await boxes(page)).filter((b) => b.w > 80 && b.y > 40 && /^\w+$/.test(b.label)).pop();
		await act(page, () => page.mouse.click(canvas.x + box.x + box.w / 2, canvas.y + box.y + 8));
		const name = await page.locator(".panel-name").innerText();
		await act(page, () => page.locator(".panel .actions").getByText("Blocks", { exact: true }).click());
		assert.equal(words(page).get("function-regex"), `^${name}$`);
	},

	/** On a phone: names of the call tree stay readable however deep, threads of one name are told apart. */
	async narrow({ url }) {
		const page = await open(`${url}#/tree`, { width: 390, height: 844 });
		assert.match(await page.locator(".bottom-bar .rail-item").first().innerText(), /Tree/);
		const names = await page.locator(".tree-name").evaluateAll((all) => all.map((e) => ({ depth: Number(e.closest("[role=row]").getAttribute("aria-level")), width: e.querySelector(".name").getBoundingClientRect().width, full: e.querySelector(".name").scrollWidth })));
		assert.ok(Math.max(...names.map((n) => n.depth)) > 9, "no deep row is shown");
		for (const n of names)
			assert.ok(n.width >= Math.min(n.full, 80), `a name of depth ${n.depth} has ${n.width} px of ${n.full}`);
		await act(page, () => page.evaluate(() => void (location.hash = "#/threads")));
		const threads = await page.locator(".grid-body .tree-name").evaluateAll((all) => all.map((e) => e.innerText.replace(/\s+/g, " ")));
		assert.ok(threads.length > 1 && new Set(threads).size === threads.length, `${threads}`);
	},

	/** The command below each view, run by a shell: it ends with 0, and its sum is the view's. */
	async commands({ url, file }) {
		const page = await open(url);
		const functions = await ask(page, "rows?by=function&limit=60");
		const named = functions.rows.key.filter((_, i) => functions.frames.name[functions.rows.frame[i]]);
		const list = (await page.evaluate(() => [...document.querySelectorAll(".rail a.rail-item")].map((a) => a.getAttribute("href"))));
		const range = ["from=20%25&to=70%25", "from=20%25&to=70%25&at=70%25"];
		for (const of of ["flame", "table", "tree"])
			list.push(...["cost=live", "cost=allocated", "cost=allocations", "cost=temporary", "cost=leaked", "at=50%25", "at=peak", "leaked=1", "min-size=64&max-size=4K", "lifetime-min=1ms&cost=allocated", "function-regex=^main$", ...range].map((w) => `#/${of}?${w}`));
		list.push(...["module", "file", "line", "stack", "thread"].map((by) => `#/table?by=${by}&cost=allocated`), "#/flame?inverted=1&cost=allocated");
		list.push(...["min-size=1K", "at=50%25", "leaked=1", ...range, "group=stack", "group=stack&at=50%25", "group=stack&leaked=1"].map((w) => `#/blocks?${w}`));
		list.push("#/compare?base=@25%25&at=75%25", "#/compare?base=@25%25", "#/compare?base=@25%25&at=end&z=table", "#/compare?base=1", "#/compare?base=1&at=50%25", "#/compare?base=1@25%25&at=50%25");
		for (const key of named.slice(0, 3))
			list.push(...["", "&cost=allocated", "&at=50%25", "&cost=live", "&from=10%25&to=80%25&cost=allocated"].map((w) => `#/function?f=${key}${w}`));
		list.push(`#/threads?cost=allocated`, "#/function", "#/compare");
		let ran = 0;
		let without = 0;
		const wrong = [];
		for (const href of list) {
			await act(page, () => page.evaluate((to) => void (location.hash = to), href));
			const code = page.locator(".footer .command");
			if (!(await code.count())) {
				without++;
				continue;
			}
			const line = await code.innerText();
			const argv = shellWords(line);
			assert.equal(argv[0], "byteledger", line);
			if (argv[1] === "top") {
				// asks for a terminal; its views are another test's
				without++;
				continue;
			}
			const json = { report: ["--format", "json"], diff: ["--format", "json"], explain: ["--format", "json"], export: [] }[argv[1]];
			assert.ok(json, line);
			const done = spawnSync(resolve(byteledger), [...argv.slice(1), ...json], { cwd: dirname(file), maxBuffer: 1 << 30, encoding: "utf8" });
			if (done.status !== 0) {
				wrong.push(`${href}: ${line}: status ${done.status}: ${done.stderr}`);
				continue;
			}
			ran++;
			const q = new URLSearchParams(href.split("?")[1] ?? "");
			const same = (what, of, shown) => of === shown || wrong.push(`${href}: ${line}: ${what}: the command says ${of}, the page ${shown}`);
			const of = q.get("group") ? "groups" : await view(page);
			q.delete("group");
			q.delete("z");
			if (of === "balance") {
				same("RSS", JSON.parse(done.stdout).rss_bytes, (await ask(page, `explain?${q}`)).rss_bytes);
				continue;
			}
			if (of === "blocks") {
				same("blocks", done.stdout.match(/^\{"event":"alloc"/gm)?.length ?? 0, (await ask(page, `allocations?${q}&limit=1`)).matched);
				continue;
			}
			if (of === "groups") {
				const { totals } = JSON.parse(done.stdout);
				const groups = await ask(page, `allocations?${q}&group=stack&limit=10000`);
				same("bytes", argv.includes("--cost") ? totals.allocated_bytes : totals.leaked_bytes, groups.rows.bytes.reduce((x, y) => x + y, 0));
				continue;
			}
			if (of === "function") {
				q.set("function", q.get("f"));
				q.set("side", "callees");
			}
			q.delete("f");
			const tree = await ask(page, `tree?${q}&nodes=1`);
			if (tree.error) {
				wrong.push(`${href}: ${tree.error}`);
				continue;
			}
			const shown = of === "function" ? tree.node.total[0] : tree.total;
			if (argv[1] === "diff") {
				const told = JSON.parse(done.stdout);
				same("before", told.total_before, tree.node.base[0]);
				same("now", told.total_after, shown);
			} else if (argv[1] === "export") {
				same("sum", Number(/ data-total="(\d+)"/.exec(done.stdout)[1]), shown);
			} else {
				const { totals } = JSON.parse(done.stdout);
				const cost = argv.includes("--cost") ? argv[argv.indexOf("--cost") + 1] : argv.includes("--at") || argv.includes("--leaked") ? "live" : "peak";
				same(cost, totals[{ peak: "peak_bytes", live: "leaked_bytes", allocated: "allocated_bytes", allocations: "allocations", temporary: "temporary_allocations", leaked: "leaked_bytes" }[cost]], shown);
			}
		}
		assert.ok(ran > 70, `${ran} commands`);
		figures.ran = ran;
		figures.without = without;
		assert.deepEqual(wrong, []);
		complaints.splice(0, complaints.length, ...complaints.filter((c) => !/status of 404/.test(c)));
	},
};
