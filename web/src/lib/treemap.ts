// SPDX-License-Identifier: Apache-2.0
// Squarified rectangles: areas in proportion, sides as equal as they can be.

export interface Rect {
	x: number;
	y: number;
	w: number;
	h: number;
}

/** squarify - one rectangle for each of @sizes (descending) inside @box; nothing for sizes of zero. */
export function squarify(sizes: number[], box: Rect): Rect[] {
	const out: Rect[] = sizes.map(() => ({ x: box.x, y: box.y, w: 0, h: 0 }));
	const sum = sizes.reduce((a, s) => a + Math.max(0, s), 0);
	if (sum <= 0 || box.w <= 0 || box.h <= 0)
		return out;
	const scale = (box.w * box.h) / sum;
	let { x, y, w, h } = box;
	let at = 0;
	const worst = (row: number, least: number, most: number, side: number) => Math.max((side * side * most) / (row * row), (row * row) / (side * side * least));
	while (at < sizes.length && sizes[at] > 0) {
		const side = Math.min(w, h);
		let row = 0;
		let end = at;
		let least = Infinity;
		let most = 0;
		while (end < sizes.length && sizes[end] > 0) {
			const area = sizes[end] * scale;
			const next = row + area;
			if (row > 0 && worst(next, Math.min(least, area), Math.max(most, area), side) > worst(row, least, most, side))
				break;
			row = next;
			least = Math.min(least, area);
			most = Math.max(most, area);
			end++;
		}
		const thick = side > 0 ? row / side : 0;
		let along = 0;
		for (; at < end; at++) {
			const length = (sizes[at] * scale) / Math.max(thick, 1e-9);
			out[at] = w >= h ? { x, y: y + along, w: thick, h: length } : { x: x + along, y, w: length, h: thick };
			along += length;
		}
		if (w >= h) {
			x += thick;
			w -= thick;
		} else {
			y += thick;
			h -= thick;
		}
	}
	return out;
}
