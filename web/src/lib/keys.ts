// SPDX-License-Identifier: Apache-2.0
// Keys of frames and nodes: docs/api.md 2. The same in every recording and build, so a link finds its box again.

export interface Key {
	hi: number;
	lo: number;
}
export const ROOT: Key = { hi: 0, lo: 0 };

function fmix(h: number): number {
	h ^= h >>> 16;
	h = Math.imul(h, 0x85ebca6b);
	h ^= h >>> 13;
	h = Math.imul(h, 0xc2b2ae35);
	return (h ^ (h >>> 16)) >>> 0;
}

/** frameKey - of the bytes `module NUL function`. */
export function frameKey(bytes: Uint8Array): Key {
	let a = 0x811c9dc5;
	let c = 0x9e3779b9;
	for (const x of bytes) {
		a = Math.imul(a ^ x, 0x01000193);
		c = Math.imul(((c << 5) | (c >>> 27)) ^ x, 0x85ebca6b);
	}
	const hi = fmix(a ^ bytes.length);
	return { hi, lo: fmix(c ^ hi) };
}

/** mix - the key of a frame below the node @p. */
export function mix(p: Key, f: Key): Key {
	return {
		hi: fmix((Math.imul(p.hi ^ f.lo, 0x85ebca6b) + p.lo) | 0),
		lo: fmix((Math.imul(p.lo ^ f.hi, 0xc2b2ae35) + p.hi) | 0),
	};
}

export function keyText(key: Key): string {
	return key.hi.toString(16).padStart(8, "0") + key.lo.toString(16).padStart(8, "0");
}

export function keyParse(text: string): Key {
	return { hi: parseInt(text.slice(0, 8), 16) >>> 0, lo: parseInt(text.slice(8, 16), 16) >>> 0 };
}
