// SPDX-License-Identifier: Apache-2.0
// What colours and edges of boxes tell: owner, module, age, temporary share; inlined frames, stacks that end early; a source that lies elsewhere.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { act, boxes, complaints, figures, loadAxe, offences, open, out } from "./harness.mjs";

const named = async (page, name) => (await boxes(page)).find((b) => b.label === name);
const place = (b) => [b.x, b.y, b.w, b.label, b.colour, b.edge].join(" ");

/** pixels of the canvas at the box's left and right edges, as drawn */
const edgeColours = (page, box, at) => page.evaluate(([b, x]) => {
	const canvas = document.querySelector(".flame-canvas");
	const data = canvas.getContext("2d").getImageData(Math.round(x), Math.round(b.y), 1, 18).data;
	const seen = new Set();
	for (let i = 0; i < data.length; i += 4)
		seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
	return seen.size;
}, [box, at]);

export const cases = {
	async colours({ url, file }) {
		for (const [theme, width] of [["light", 1440], ["dark", 1440], ["light", 390]]) {
			const page = await open(`${url}#/flame?cost=leaked`, { theme, width, height: 900 });
			await loadAxe(page);
			const legend = () => page.locator(".legend-row").innerText();
			const wide = width > 700;
			// as drawn at first: by owner or module, an inlined frame is dotted, a stack that ends early is torn
			const inlined = await named(page, "put_there");
			const partial = (await boxes(page)).find((b) => b.label.startsWith("[partial"));
			assert.equal(inlined?.edge, "inlined");
			assert.equal(partial?.edge, "partial");
			assert.equal((await named(page, "old"))?.edge, "");
			if (wide) {
				assert.ok((await edgeColours(page, inlined, inlined.x + 1)) > 1, "dots at the left edge");
				assert.ok((await edgeColours(page, partial, partial.x + partial.w - 3)) > 1, "a torn right edge");
				const canvas = await page.locator(".flame-canvas").boundingBox();
				await page.mouse.move(canvas.x + partial.x + 10, canvas.y + partial.y + 8);
				await page.getByText("counted, their outer callers are missing").waitFor();
				assert.match(await page.locator(".tip").innerText(), /partial: \w+/);
				await act(page, () => page.mouse.click(canvas.x + partial.x + 10, canvas.y + partial.y + 8));
				assert.match(await page.locator(".panel-where").innerText(), /\.$/m, "the reason as a sentence");
				await act(page, () => page.keyboard.press("Escape"));
			}
			await page.screenshot({ path: join(out, `owner-${width}-${theme}.png`) });

			if (wide) {
				// a kept picture has these edges, too
				const [svg] = await Promise.all([page.waitForEvent("download"), page.locator(".footer").getByRole("button", { name: "SVG" }).click()]);
				const markup = readFileSync(await svg.path(), "utf8");
				assert.match(markup, /<title>put_there[^<]*<\/title><rect[^>]*>\s*<line class="inlined"/);
				assert.match(markup, /<title>\[partial[^<]*<\/title><rect[^>]*>\s*<path class="partial"/);
			}

			// by age: what came a second later has another colour; the figure stands in the box, the steps in the legend
			const select = page.getByLabel("colour by");
			await act(page, () => select.selectOption("age"));
			const old = await named(page, "old");
			const young = await named(page, "young");
			assert.ok(old && young && old.colour !== young.colour, `${old?.colour} ${young?.colour}`);
			assert.match(await legend(), /age\s+under [\s\S]* and more/);
			assert.deepEqual(await offences(page), []);
			await page.screenshot({ path: join(out, `age-${width}-${theme}.png`) });
			// a link shows the same
			const again = await open(page.url(), { theme, width, height: 900 });
			assert.deepEqual((await boxes(again)).map(place), (await boxes(page)).map(place));
			await again.context().close();

			await act(page, () => page.evaluate(() => void (location.hash = "#/flame?cost=allocated&colour=temporary")));
			const churns = await named(page, "churns");
			const kept = await named(page, "old");
			assert.ok(churns && kept && churns.colour !== kept.colour, `${churns?.colour} ${kept?.colour}`);
			if (wide) {
				const canvas = await page.locator(".flame-canvas").boundingBox();
				await page.mouse.move(canvas.x + churns.x + 10, canvas.y + churns.y + 8);
				await page.getByText("those that were temporary").waitFor();
			}
			await page.screenshot({ path: join(out, `temporary-${width}-${theme}.png`) });
			// of a moment nothing is temporary: said, and the boxes are as of what is not known
			await act(page, () => page.evaluate(() => void (location.hash = "#/flame?at=peak&colour=temporary")));
			await page.getByText("what lives at a moment is not temporary").first().waitFor();
			assert.equal(new Set((await boxes(page)).map((b) => b.colour)).size, 1);
			await page.context().close();
		}

		// own: a pattern as a chip, in the address, and the boxes of the library change to the program's colour
		const page = await open(`${url}#/flame?cost=leaked&colour=owner`);
		const main = await named(page, "main");
		const libc = (await boxes(page)).find((b) => /libc_start/.test(b.label) && b.colour !== main.colour);
		figures.widened = libc?.label ?? "folded into the trunk";
		await act(page, () => page.evaluate(() => void (location.hash = "#/flame?cost=leaked&colour=owner&own=libc%5C.so")));
		await page.getByText("own code ~ libc").waitFor();
		assert.ok((await boxes(page)).filter((b) => /libc_start/.test(b.label)).every((b) => b.colour === main.colour));
		const other = await open(page.url());
		assert.deepEqual((await boxes(other)).map(place), (await boxes(page)).map(place));
		await other.context().close();

		// found, and once more Enter: only these are left, as a filter that is seen and can be taken back
		await act(page, () => page.evaluate(() => void (location.hash = "#/flame?cost=leaked")));
		await page.locator("#find").fill("YOUNG".toLowerCase());
		await act(page, () => page.locator("#find").press("Enter"));
		await page.getByText(/matched 4.00 MiB/).waitFor();
		assert.ok(await named(page, "old"));
		await act(page, () => page.locator("#find").press("Enter"));
		await page.getByText(/function ~/).waitFor();
		assert.ok((await named(page, "young")) && !(await named(page, "old")));
		await act(page, () => page.evaluate(() => history.back()));
		await act(page, () => page.getByRole("button", { name: "only these" }).click());
		assert.ok((await named(page, "young")) && !(await named(page, "old")));
		await act(page, () => page.evaluate(() => void (location.hash = "#/flame?cost=leaked")));

		// a source that was moved: the field finds it, and remembers where
		const source = join(dirname(file), "src", "flame.c");
		const folder = mkdtempSync(join(dirname(file), "elsewhere-"));
		mkdirSync(join(folder, "src"));
		renameSync(source, join(folder, "src", "flame.c"));
		try {
			const box = await named(page, "old");
			const canvas = await page.locator(".flame-canvas").boundingBox();
			await act(page, () => page.mouse.click(canvas.x + box.x + 20, canvas.y + box.y + 8));
			await act(page, () => page.getByRole("link", { name: "Source", exact: true }).click());
			await page.getByText("not on this disk").first().waitFor();
			await page.screenshot({ path: join(out, "source-missing.png") });
			await page.getByLabel("where the sources lie on the server's disk").fill(folder);
			await act(page, () => page.getByRole("button", { name: "Look there" }).click());
			await page.getByText("recorded as").waitFor();
			assert.ok((await page.locator(".grid-body .grid-row.has-cost").count()) > 0);
			await page.screenshot({ path: join(out, "source-found.png") });
			await act(page, () => page.getByRole("button", { name: /Look no longer below/ }).click());
			await page.getByText("not on this disk").first().waitFor();
		} finally {
			renameSync(join(folder, "src", "flame.c"), source);
			rmSync(folder, { recursive: true });
		}
		// this test's own looks at pixels, and the two answers 404 that it asked for
		const expected = complaints.filter((c) => /willReadFrequently/.test(c) || (/status of 404/.test(c) && /#\/source\?/.test(c)));
		assert.equal(expected.filter((c) => /404/.test(c)).length, 2);
		complaints.splice(0, complaints.length, ...complaints.filter((c) => !expected.includes(c)));
	},
};
