// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";
import { commandOf } from "../src/lib/command.ts";
import { momentNs, momentWord, selectionMode } from "../src/lib/moments.ts";
import { ASKED, placeParse, placeText, queryText, transforms, VIEWS, type Words } from "../src/lib/url.ts";

test("an address is read back as it was written", () => {
	const place = {
		view: "flame" as const,
		words: { cost: "live", at: "10.5s", "function-regex": "^std::vector<.*>::grow & more=1$", x: "hide:d9f9938b8f0d5e0c,fold:libc.so.6", n: "d9f9938b8f0d5e0c", find: "a+b c" },
	};
	assert.deepEqual(placeParse(placeText(place)), place);
});

test("random words survive the way through the address", () => {
	let seed = 7;
	const random = (n: number) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
	const alphabet = "abc 09+&=#?%/:,@<>'\"\\é☃";
	for (let round = 0; round < 300; round++) {
		const words: Record<string, string> = {};
		for (const word of ASKED)
			if (random(3) === 0 && word !== "src" && word !== "by")
				words[word] = Array.from({ length: 1 + random(12) }, () => [...alphabet][random([...alphabet].length)]).join("");
		const view = VIEWS[random(VIEWS.length)];
		assert.deepEqual(placeParse(placeText({ view, words })), { view, words });
	}
});

test("defaults are left out, unknown words and views are dropped, known addresses open", () => {
	assert.equal(placeText({ view: "table", words: { src: "0", by: "function" } }), "#/table");
	assert.deepEqual(placeParse("#/nonsense?evil=1&cost=live"), { view: "overview", words: { cost: "live" } });
	assert.equal(placeParse("#/resources/memory").view, "pages");
	assert.equal(placeParse("#/network").view, "messages");
	assert.equal(placeParse("#/logs").view, "logs");
	assert.equal(placeParse("").view, "overview");
});

test("the question's words have one order, so that equal questions are equal", () => {
	assert.equal(queryText({ to: "2s", cost: "live", from: "1s" }), "cost=live&from=1s&to=2s");
	assert.deepEqual(transforms({ x: "rec,,hide:1" }), ["rec", "hide:1"]);
});

test("moments are words that the server reads, to the millisecond", () => {
	assert.equal(momentWord(12_345_678_901), "12.346s");
	assert.equal(momentWord(-5), "0s");
	const clock = { length_ns: 100e9, start_realtime_ns: null, peak_ns: 42e9 };
	assert.equal(momentNs("50%", clock), 50e9);
	assert.equal(momentNs("-10s", clock), 90e9);
	assert.equal(momentNs("1m30s", clock), 90e9);
	assert.equal(momentNs("peak", clock), 42e9);
	assert.equal(momentNs("end", clock), 100e9);
	assert.equal(momentNs("14:03", clock), null);
});

test("a range means what the buttons say", () => {
	assert.equal(selectionMode({ from: "1s", to: "2s" }), "made");
	assert.equal(selectionMode({ from: "1s", to: "2s", at: "2s" }), "still");
	assert.equal(selectionMode({ base: "@1s", at: "2s" }), "ends");
	assert.equal(selectionMode({ at: "2s" }), "at");
});

test("the command line says the same, and tells apart what no command can say", () => {
	const c = commandOf({ view: "table", words: { cost: "live", at: "10s", "min-size": "64K", x: "rec" } }, "a b.blt");
	assert.equal(c.text, "byteledger report --by function --cost live --at 10s --min-size 64K 'a b.blt'");
	assert.deepEqual(c.beyond, ["x=rec"]);
	assert.equal(commandOf({ view: "compare", words: { base: "@10s", at: "end" } }, "f.blt").text, "byteledger diff f.blt@10s f.blt@end");
	assert.equal(commandOf({ view: "compare", words: { src: "1", base: "0" } }, "f.blt", { pid: 1, base: "e.blt" }).text, "byteledger diff e.blt f.blt");
	assert.equal(commandOf({ view: "compare", words: { src: "1", base: "0@10s" } }, "f.blt", { pid: 1, base: "e.blt" }).text, "byteledger diff e.blt@10s f.blt");
	assert.equal(commandOf({ view: "compare", words: { src: "1", base: "0", at: "50%" } }, "f.blt", { pid: 1, base: "e.blt" }).text, "byteledger diff --at 50% e.blt f.blt");
	assert.equal(commandOf({ view: "blocks", words: { group: "stack", stack: "7" } }, "f.blt").text, "byteledger report --by stack --cost allocated f.blt");
	assert.deepEqual(commandOf({ view: "blocks", words: { group: "stack", stack: "7" } }, "f.blt").beyond, ["stack=7"]);
	assert.deepEqual(commandOf({ view: "flame", words: { by: "module" } }, "f.blt").beyond, ["by=module"]);
	assert.equal(commandOf({ view: "maps", words: {} }, "f.blt").text, "");
	const of = (view: Parameters<typeof commandOf>[0]["view"]) => commandOf({ view, words: { "min-size": "1K" } }, "f.blt", { pid: 7 }).text;
	assert.equal(of("threads"), "byteledger report --by thread --min-size 1K f.blt");
	assert.equal(of("blocks"), "byteledger export --to jsonl --min-size 1K f.blt");
	assert.equal(commandOf({ view: "blocks", words: { group: "stack", leaked: "1" } }, "f.blt").text, "byteledger report --by stack --leaked f.blt");
	assert.equal(of("losses"), "byteledger report --min-size 1K f.blt");
	assert.equal(of("growth"), "byteledger top f.blt");
	assert.equal(of("sampler"), "byteledger sample -p 7");
	assert.equal(of("lifetimes"), ""); // no command counts by size and lifetime
	assert.equal(of("compare"), ""); // with nothing
	for (const view of ["overview", "balance"] as const)
		assert.equal(commandOf({ view, words: {} }, "python3", { pid: 7, process: true }).text, "byteledger explain -p 7");
	// a function's callers and callees: the stacks through it, at the program's peak
	const through = (words: Words, name?: string) => commandOf({ view: "function", words: { f: "00", ...words } }, "f.blt", { name }).text;
	assert.equal(through({}, "a::b(c*)"), "byteledger report --by stack --at peak --function-regex '^a::b\\(c\\*\\)$' f.blt");
	assert.equal(through({ cost: "allocated", "min-size": "1K" }, "main"), "byteledger report --by stack --cost allocated --function-regex '^main$' --min-size 1K f.blt");
	assert.equal(through({ "min-size": "1K" }, "main"), ""); // those blocks have a peak of their own
	assert.equal(through({}), ""); // without a name
});
