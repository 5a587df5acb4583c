// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { frameKey, keyParse, keyText, mix } from "../src/lib/keys.ts";

interface Vectors {
	frames: { module: string; function: string | null; offset: number | null; key: string }[];
	bytes?: { hex: string; key: string }[];
	nodes?: { parent: string; frame: string; key: string }[];
	[key: string]: unknown;
}
const path = join(process.env.WEB_TEST!, "..", "..", "tests", "vectors", "keys.json");
const vectors = existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Vectors) : null;

test("keys of frames are those of the server's vectors", { skip: vectors ? false : "tests/vectors/keys.json is not there" }, () => {
	assert.ok(vectors!.frames.length >= 4);
	for (const f of vectors!.frames) {
		const text = `${f.module}\0${f.function ?? (f.offset === null ? "" : `+0x${f.offset.toString(16)}`)}`;
		assert.equal(keyText(frameKey(new TextEncoder().encode(text))), f.key, JSON.stringify(f));
	}
});

test("keys of nodes are those of the server's vectors", { skip: vectors?.nodes ? false : "the vectors have no nodes" }, () => {
	assert.ok(vectors!.nodes!.length >= 2);
	for (const n of vectors!.nodes!)
		assert.equal(keyText(mix(keyParse(n.parent), keyParse(n.frame))), n.key, JSON.stringify(n));
});

test("a key's text and its two lanes are the same thing", () => {
	for (const text of ["0000000000000000", "ffffffffffffffff", "00000001fedcba98", "d9f9938b8f0d5e0c"])
		assert.equal(keyText(keyParse(text)), text);
});
