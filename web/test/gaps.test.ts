// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";
import { withGaps } from "../src/lib/gaps.ts";

test("in a long silence a level holds, and a rate is that of the whole stretch", () => {
	const { times, lines } = withGaps([10, 20, 1000], [
		{ rate: false, last: [1, 2, 9], max: [1, 5, 9] },
		{ rate: true, last: [100, 100, 3] },
	]);
	assert.deepEqual(times, [10, 20, 21, 999, 1000]);
	assert.deepEqual(lines[0].last, [1, 2, 2, 2, 9]);
	assert.deepEqual(lines[0].max, [1, 5, 2, 2, 9]); // not the highest: that was before
	assert.deepEqual(lines[1].last, [100, 100, 3, 3, 3]);
});

test("without a silence everything stays", () => {
	const times = Array.from({ length: 200 }, (_, i) => i + 1);
	const line = { rate: false, last: times.map(() => 1) };
	const same = withGaps(times, [line]);
	assert.equal(same.times, times);
	assert.equal(same.lines[0], line);
});
