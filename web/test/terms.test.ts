// SPDX-License-Identifier: Apache-2.0
// What the page says a number means must not differ from what the manual says.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { COLUMNS, COSTS, TERMS } from "../src/lib/terms.ts";

const source = join(process.env.WEB_TEST!, "..", "src");
function files(folder: string): string[] {
	return readdirSync(folder, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? files(join(folder, e.name)) : [join(folder, e.name)]));
}

test("the words that define a number are there, in the report's own terms", () => {
	const must: Record<string, RegExp[]> = {
		allocation: [/outermost/, /size that was asked for/],
		temporary: [/same thread/, /realloc counts/, /belong to who allocated/],
		leaked: [/never freed when the recording ended/],
		uncertain: [/a free was lost/],
		peak: [/first moment/, /sum of all live requested bytes/],
		peak_rss: [/VmHWM/],
		foreign_frees: [/never saw made/],
		stacks: [/Distinct/],
		lifetime: [/never freed lives to the end/],
		everywhere: [/counts once/],
	};
	for (const [term, words] of Object.entries(must))
		for (const word of words)
			assert.match(TERMS[term], word, term);
});

test("every explained number of the page has its sentence", () => {
	let seen = 0;
	for (const path of files(source))
		for (const hit of readFileSync(path, "utf8").matchAll(/term="([a-z_]+)"|term: "([a-z_]+)"/g)) {
			seen++;
			assert.ok(TERMS[hit[1] ?? hit[2]], `${path}: ${hit[1] ?? hit[2]}`);
		}
	assert.ok(seen > 30);
	for (const c of [...Object.values(COLUMNS), ...COSTS])
		assert.ok(TERMS[c.term], c.label);
});

test("no code of the page makes markup out of text, or asks another host", () => {
	for (const path of files(source)) {
		const text = readFileSync(path, "utf8");
		assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|document\.write|\beval\(|new Function/, path);
		for (const hit of text.matchAll(/https?:\/\/[^"'\s`]+/g))
			assert.equal(hit[0], "http://www.w3.org/2000/svg", path);
	}
});
