// SPDX-License-Identifier: Apache-2.0
// A tree's answer as arrays ready to draw: parents, places, keys. All sums are the server's; here is only where boxes go.
import type { TreeAnswer } from "../api/types.ts";
import { keyParse, keyText, mix, type Key } from "./keys.ts";

export interface Tree {
	answer: TreeAnswer;
	count: number;
	depth: Int32Array;
	frame: Int32Array;
	parent: Int32Array;
	/** One past the last node below. */
	end: Int32Array;
	total: Float64Array;
	self: Float64Array;
	rest: Float64Array;
	/** What the same node came to in what it is compared with. */
	base: Float64Array | null;
	/** Left edge and width, in units of what is drawn (with a base: the greater of both, so what is gone keeps its place). */
	x: Float64Array;
	width: Float64Array;
	/** Nodes of a depth from left to right. */
	rows: Int32Array[];
	/** How many rows from the root have one child that holds nearly all. */
	trunk: number;
	/** Nodes whose children are all there; of the others `rest` bytes are not. */
	kids: Int32Array;
	key: (node: number) => string;
	find: (key: string) => number;
}

/** What start-up and dispatch are: rows through which so much of the whole passes. */
const TRUNK_SHARE = 0.95;

export function treeOf(answer: TreeAnswer, zoomed: string | null): Tree {
	const n = answer.node;
	const count = n.frame.length;
	const depth = Int32Array.from(n.depth);
	const frame = Int32Array.from(n.frame);
	const total = Float64Array.from(n.total);
	const self = Float64Array.from(n.self);
	const rest = Float64Array.from(n.rest);
	const base = n.base ? Float64Array.from(n.base) : null;
	const parent = new Int32Array(count).fill(-1);
	const end = new Int32Array(count);
	const kids = new Int32Array(count);
	const first = count ? depth[0] : 0;
	let deepest = 0;
	const open: number[] = [];
	for (let i = 0; i < count; i++) {
		depth[i] -= first;
		while (open.length > depth[i])
			end[open.pop()!] = i;
		if (open.length) {
			parent[i] = open[open.length - 1];
			kids[parent[i]]++;
		}
		open.push(i);
		deepest = Math.max(deepest, depth[i]);
	}
	while (open.length)
		end[open.pop()!] = count;
	const width = new Float64Array(count);
	const below = new Float64Array(count);
	for (let i = count - 1; i >= 0; i--) {
		width[i] = base ? Math.max(total[i], base[i], below[i] + (base ? 0 : rest[i])) : total[i];
		if (parent[i] >= 0)
			below[parent[i]] += width[i];
	}
	const x = new Float64Array(count);
	const next = new Float64Array(count);
	const sizes = new Int32Array(deepest + 1);
	for (let i = 0; i < count; i++) {
		sizes[depth[i]]++;
		if (parent[i] >= 0) {
			x[i] = next[parent[i]];
			next[parent[i]] += width[i];
		}
		next[i] = x[i];
	}
	const rows = Array.from(sizes, (size) => new Int32Array(size));
	const filled = new Int32Array(deepest + 1);
	for (let i = 0; i < count; i++)
		rows[depth[i]][filled[depth[i]]++] = i;

	let trunk = 0;
	// children stand by cost: the way that nearly all goes is the first nodes
	for (let i = 0; count && kids[i] > 0 && width[i + 1] >= TRUNK_SHARE * width[0]; i++)
		trunk++;
	const hi = new Uint32Array(count);
	const lo = new Uint32Array(count);
	let keyed = false;
	let found: Map<string, number> | null = null;
	const make = () => {
		if (keyed)
			return;
		keyed = true;
		const frameKeys: Key[] = answer.frames.key.map(keyParse);
		for (let i = 0; i < count; i++) {
			let key: Key;
			if (n.key)
				key = keyParse(n.key[i]);
			else if (parent[i] < 0)
				key = zoomed ? keyParse(zoomed) : { hi: 0, lo: 0 };
			else
				key = mix({ hi: hi[parent[i]], lo: lo[parent[i]] }, frameKeys[frame[i]]);
			hi[i] = key.hi;
			lo[i] = key.lo;
		}
	};
	const key = (node: number) => {
		make();
		return keyText({ hi: hi[node], lo: lo[node] });
	};
	const find = (wanted: string) => {
		if (!found) {
			make();
			found = new Map();
			for (let i = 0; i < count; i++)
				found.set(key(i), i);
		}
		return found.get(wanted) ?? -1;
	};
	return { answer, count, depth, frame, parent, end, total, self, rest, base, x, width, rows, trunk, kids, key, find };
}

/** graft - the tree with node @at's own answer in its place: what was not loaded is there now. */
export function graft(tree: Tree, at: number, more: TreeAnswer, zoomed: string | null): Tree {
	const old = tree.answer;
	const frames = {
		key: [...old.frames.key], name: [...old.frames.name], short: [...old.frames.short], module: [...old.frames.module],
		category: [...old.frames.category], file: [...old.frames.file], line: [...old.frames.line], inlined: [...old.frames.inlined],
	};
	const modules = [...old.modules];
	const files = [...old.files];
	const moduleAt = new Map(modules.map((name, i) => [name, i]));
	const fileAt = new Map(files.map((name, i) => [name, i]));
	const place = (list: string[], index: Map<string, number>, name: string | undefined) => {
		if (name === undefined)
			return -1;
		let i = index.get(name);
		if (i === undefined) {
			i = list.push(name) - 1;
			index.set(name, i);
		}
		return i;
	};
	const frameAt = new Map(frames.key.map((key, i) => [key, i]));
	const moved = more.frames.key.map((key, i) => {
		let to = frameAt.get(key);
		if (to === undefined) {
			to = frames.key.push(key) - 1;
			frames.name.push(more.frames.name[i]);
			frames.short.push(more.frames.short[i]);
			frames.module.push(place(modules, moduleAt, more.modules[more.frames.module[i]]));
			frames.category.push(more.frames.category[i]);
			frames.file.push(place(files, fileAt, more.files[more.frames.file[i]]));
			frames.line.push(more.frames.line[i]);
			frames.inlined.push(more.frames.inlined[i]);
			frameAt.set(key, to);
		}
		return to;
	});
	const from = at;
	const to = tree.end[at];
	const shift = tree.depth[at] - (more.node.depth[0] ?? 0);
	const splice = <V>(list: V[], fresh: V[]): V[] => [...list.slice(0, from), ...fresh, ...list.slice(to)];
	const freshFrames = more.node.frame.map((f) => (f < 0 ? f : moved[f]));
	freshFrames[0] = tree.frame[at];
	const depth = splice(Array.from(tree.depth), more.node.depth.map((d) => d + shift));
	const node: TreeAnswer["node"] = {
		frame: splice(Array.from(tree.frame), freshFrames),
		depth,
		total: splice(old.node.total, more.node.total),
		self: splice(old.node.self, more.node.self),
		rest: splice(old.node.rest, more.node.rest),
		blocks: splice(old.node.blocks, more.node.blocks),
		children: splice(old.node.children, more.node.children),
	};
	if (old.node.base && more.node.base)
		node.base = splice(old.node.base, more.node.base);
	for (const column of ["allocations", "temporary"] as const)
		if (old.node[column] && more.node[column])
			node[column] = splice(old.node[column], more.node[column]);
	if (old.node.age_ns && more.node.age_ns)
		node.age_ns = splice(old.node.age_ns, more.node.age_ns);
	if (old.node.key && more.node.key)
		node.key = splice(old.node.key, more.node.key);
	return treeOf({ ...old, frames, modules, files, node }, zoomed);
}

/** firstAt - the first of @row whose right edge is past @x. */
export function firstAt(tree: Tree, row: Int32Array, x: number): number {
	let low = 0;
	let high = row.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (tree.x[row[middle]] + tree.width[row[middle]] > x)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/** nodeAt - the box of @depth under @x; -1 where there is none. */
export function nodeAt(tree: Tree, depth: number, x: number): number {
	const row = tree.rows[depth];
	if (!row)
		return -1;
	const i = firstAt(tree, row, x);
	return i < row.length && tree.x[row[i]] <= x ? row[i] : -1;
}

/** hotPath - from @node always to the costliest child. */
export function hotPath(tree: Tree, node: number): number[] {
	const path = [node];
	for (let at = node; tree.kids[at] > 0;) {
		let best = at + 1;
		for (let child = at + 1; child < tree.end[at]; child = tree.end[child])
			if (tree.total[child] > tree.total[best])
				best = child;
		if (tree.total[best] < tree.total[at] / 2)
			break;
		path.push(best);
		at = best;
	}
	return path;
}

/** everywhere - all places of @node's frame that are loaded, a block counted once however often it recurs. */
export function everywhere(tree: Tree, node: number): { places: number; total: number } {
	const wanted = tree.frame[node];
	let places = 0;
	let total = 0;
	for (let i = 0; i < tree.count; i++)
		if (tree.frame[i] === wanted) {
			places++;
			total += tree.total[i];
			for (let below = i + 1; below < tree.end[i]; below++)
				if (tree.frame[below] === wanted)
					places++;
			i = tree.end[i] - 1;
		}
	return { places, total };
}
