// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";
import { bytes, count, csvCell, duration, findRegex, grouped, moment, percent, plain, signed, tail } from "../src/lib/format.ts";
import { shellWord } from "../src/lib/command.ts";
import { svgText } from "../src/lib/svgtext.ts";

test("what is looked for filters as it was found: text in any case unless it has a capital, expressions as they are", () => {
	for (const [find, name, found] of [["vec", "std::Vector", true], ["Vec", "std::vector", false], ["a+b", "x::a+b", true], ["a+b", "aab", false], ["/^ma.n$/", "main", true], ["/^ma.n$/", "domain", false]] as const)
		assert.equal(new RegExp(findRegex(find)).test(name), found, `${find} in ${name}`);
	assert.equal(findRegex("é1"), "é1");
});

test("bytes are printed as the text report prints them", () => {
	const cases: [number, string][] = [
		[0, "0 B"], [1023, "1023 B"], [1024, "1.00 KiB"], [1048063, "1023 KiB"], [1048064, "1.00 MiB"], [65536000, "62.5 MiB"],
		[641728512, "612 MiB"], [1256277409, "1.17 GiB"], [-2048, "−2.00 KiB"],
	];
	for (const [n, text] of cases)
		assert.equal(bytes(n), text);
	assert.equal(bytes(null), "-");
});

test("counts keep all digits below ten thousand", () => {
	assert.equal(count(9999), "9,999");
	assert.equal(count(10000), "10.0 k");
	assert.equal(count(86600), "86.6 k");
	assert.equal(count(999500), "1.00 M");
	assert.equal(grouped(1234567), "1,234,567");
});

test("a share too small to see is said to be small, not zero", () => {
	assert.equal(percent(1, 1e6), "< 0.1 %");
	assert.equal(percent(0, 10), "0 %");
	assert.equal(percent(1, 3), "33.3 %");
	assert.equal(percent(3, 3), "100 %");
	assert.equal(percent(3, 0), "-");
});

test("a change carries its sign in front", () => {
	assert.equal(signed(2048, "bytes"), "+2.00 KiB");
	assert.equal(signed(-5, "blocks"), "−5");
	assert.equal(signed(0, "bytes"), "same");
});

test("times are as long as they need to be", () => {
	assert.equal(duration(812e6), "812 ms");
	assert.equal(duration(7.25e9), "7.25 s");
	assert.equal(duration(184e9), "3 min 4 s");
	assert.equal(moment(12.4e9), "12.4 s");
	assert.equal(moment(3784e9), "1:03:04");
});

test("foreign names show what they are made of", () => {
	assert.equal(plain("<img onerror=alert(1)>"), "<img onerror=alert(1)>");
	assert.equal(plain("a\u202eb\u0000c\nd"), "a\\u202eb\\x00c\\x0ad");
	assert.ok(plain("x".repeat(1 << 20)).length < 4200);
	assert.equal(tail("std::vector<int>::grow", 8), "…>::grow");
});

test("cells of a CSV file are never formulas", () => {
	assert.equal(csvCell("=1+1"), "'=1+1");
	assert.equal(csvCell("@SUM(A1)"), "'@SUM(A1)");
	assert.equal(csvCell("-x"), "'-x");
	assert.equal(csvCell(-5), "-5");
	assert.equal(csvCell('a"b,c'), '"a""b,c"');
});

test("names are text in SVG and in a shell", () => {
	assert.equal(svgText("<script>&\u0000\ud800"), "&lt;script&gt;&amp;\ufffd\ufffd");
	assert.equal(shellWord("a'b; rm -rf"), "'a'\\''b; rm -rf'");
	assert.equal(shellWord("sqlite3.blt@10s"), "sqlite3.blt@10s");
});
