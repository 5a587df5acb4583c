// SPDX-License-Identifier: Apache-2.0
// The page in a real Chromium (Debian's), on recordings of real programs. One case a run; tests/live/test_page.py runs them all.
//
// usage: browser.mjs CASE BYTELEDGER OUT RECORDING... | ADDRESS      OUT gets screenshots and figures.json
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { browser, complaints, figures, name, out, recordings, startServer } from "./harness.mjs";
import { cases as views } from "./cases-views.mjs";
import { cases as live } from "./cases-live.mjs";
import { cases as others } from "./cases-others.mjs";
import { cases as trust } from "./cases-trust.mjs";
import { cases as colours } from "./cases-colours.mjs";
import { cases as lists } from "./cases-lists.mjs";
import { cases as stranger } from "./cases-stranger.mjs";

const cases = { ...views, ...live, ...trust, ...others, ...colours, ...lists, ...stranger };
const run = cases[name];
if (!run) {
	console.log(Object.keys(cases).join("\n"));
	process.exit(name ? 2 : 0);
}
// an address instead of recordings: a server that the test runs itself
const server = /^http:/.test(recordings[0] ?? "") ? { url: recordings[0] } : recordings.length ? await startServer(recordings) : null;
let failed = null;
try {
	await run({ ...server, file: recordings[0] });
	assert.deepEqual(complaints, []);
} catch (error) {
	failed = error;
}
writeFileSync(join(out, `${name}.json`), JSON.stringify(figures, null, 1));
server?.child?.removeAllListeners("exit");
server?.child?.kill("SIGTERM");
await browser.close();
if (failed) {
	console.log(failed.stack);
	process.exit(1);
}
console.log(`${name}: as it should be ${JSON.stringify(figures)}`);
