// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";
import type { TreeAnswer } from "../src/api/types.ts";
import { everywhere, graft, hotPath, nodeAt, treeOf } from "../src/lib/layout.ts";
import { frameKey, keyText, mix, ROOT } from "../src/lib/keys.ts";
import { squarify } from "../src/lib/treemap.ts";

const keyOf = (name: string) => keyText(frameKey(new TextEncoder().encode(`m\0${name}`)));

function answer(nodes: [string | null, number, number, number, number?, number?][]): TreeAnswer {
	const names = [...new Set(nodes.map((n) => n[0]).filter((n): n is string => n !== null))];
	return {
		source: 0, generation: 1, selection: "", exact: true, age_ns: 0, total: nodes[0][2], unit: "bytes", lost: { events: 0, by_reason: {} },
		partial: { events: 0, by_reason: {} }, sampled: null, culled: { allocations: 0, bytes: 0 }, unapplied: [], shown: nodes[0][2], base_total: null,
		nodes_total: nodes.length, inverted: false, key: "0000000000000000",
		frames: { key: names.map(keyOf), name: names, short: names, module: names.map(() => 0), category: names.map(() => 0), file: names.map(() => -1), line: names.map(() => -1), inlined: names.map(() => false) },
		modules: ["m"], files: [],
		node: {
			frame: nodes.map((n) => (n[0] === null ? -1 : names.indexOf(n[0]))), depth: nodes.map((n) => n[1]), total: nodes.map((n) => n[2]), self: nodes.map((n) => n[3]),
			rest: nodes.map((n) => n[4] ?? 0), blocks: nodes.map(() => null), children: nodes.map(() => 0), ...(nodes.some((n) => n[5] !== undefined) ? { base: nodes.map((n) => n[5] ?? 0) } : {}),
		},
	};
}

const small = answer([[null, 0, 100, 0], ["main", 1, 100, 10], ["a", 2, 60, 20], ["b", 3, 40, 40], ["c", 2, 30, 0, 30]]);

test("boxes lie under their callers, in order, and none overlaps its neighbour", () => {
	const tree = treeOf(small, null);
	assert.deepEqual(Array.from(tree.parent), [-1, 0, 1, 2, 1]);
	assert.deepEqual(Array.from(tree.end), [5, 5, 4, 4, 5]);
	assert.deepEqual(Array.from(tree.x), [0, 0, 0, 0, 60]);
	for (let i = 1; i < tree.count; i++) {
		const p = tree.parent[i];
		assert.ok(tree.x[i] >= tree.x[p] && tree.x[i] + tree.width[i] <= tree.x[p] + tree.width[p] + 1e-9);
	}
	assert.equal(tree.trunk, 1);
});

test("the box under the pointer is found by its depth and place", () => {
	const tree = treeOf(small, null);
	assert.equal(nodeAt(tree, 2, 59.9), 2);
	assert.equal(nodeAt(tree, 2, 60), 4);
	assert.equal(nodeAt(tree, 2, 95), -1);
	assert.equal(nodeAt(tree, 9, 1), -1);
});

test("a node's key is its path, and finds it again", () => {
	const tree = treeOf(small, null);
	const f = (name: string) => frameKey(new TextEncoder().encode(`m\0${name}`));
	const b = keyText(mix(mix(mix(ROOT, f("main")), f("a")), f("b")));
	assert.equal(tree.key(3), b);
	assert.equal(tree.find(b), 3);
	assert.equal(tree.find("0123456789abcdef"), -1);
	assert.equal(tree.key(0), "0000000000000000");
});

test("what is gone keeps its place in a comparison", () => {
	const tree = treeOf(answer([[null, 0, 10, 0, 0, 50], ["gone", 1, 0, 0, 0, 40], ["new", 1, 10, 10, 0, 0]]), null);
	assert.deepEqual(Array.from(tree.width), [50, 40, 10]);
	assert.deepEqual(Array.from(tree.x), [0, 0, 40]);
});

test("what was loaded later stands where it belongs", () => {
	const tree = treeOf(small, null);
	const at = tree.find(tree.key(4));
	const more = answer([["c", 0, 30, 5], ["d", 1, 25, 25]]);
	const grown = graft(tree, at, { ...more, key: tree.key(4) }, small.key);
	assert.equal(grown.count, 6);
	assert.deepEqual(Array.from(grown.depth), [0, 1, 2, 3, 2, 3]);
	assert.equal(grown.rest[4], 0);
	assert.equal(grown.x[5], 60);
	assert.equal(grown.answer.frames.name[grown.frame[5]], "d");
	assert.equal(grown.key(3), tree.key(3));
});

test("recursion counts a block once everywhere, and the hot path follows what costs most", () => {
	const tree = treeOf(answer([[null, 0, 100, 0], ["f", 1, 100, 0], ["f", 2, 70, 70], ["g", 2, 30, 30]]), null);
	assert.deepEqual(everywhere(tree, 2), { places: 2, total: 100 });
	assert.deepEqual(hotPath(tree, 0), [0, 1, 2]);
});

test("tiles have areas in proportion and stay in their box", () => {
	const sizes = [600, 300, 60, 30, 9, 1, 0];
	const tiles = squarify(sizes, { x: 10, y: 20, w: 400, h: 250 });
	tiles.forEach((t, i) => {
		assert.ok(Math.abs(t.w * t.h - sizes[i] * 100) < 1, `${t.w * t.h} for ${sizes[i]}`);
		assert.ok(t.x >= 9.99 && t.y >= 19.99 && t.x + t.w <= 410.01 && t.y + t.h <= 270.01);
	});
});
