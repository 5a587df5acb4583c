// SPDX-License-Identifier: Apache-2.0
// Recordings that are being written: followed once a second, frozen, stale, broken off; many tabs.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { act, boxes, browser, bytes, byteledger, complaints, figures, freshPage, key, open, out, report, settled, startServer, total, view } from "./harness.mjs";
import { cases as lists } from "./cases-lists.mjs";
import { cases as trust } from "./cases-trust.mjs";

/** Grows by 200 blocks each 20 ms, for two minutes at most. */
const GROWER = `
import time
keep = []
end = time.monotonic() + 120
while time.monotonic() < end:
    for i in range(200):
        keep.append(bytearray(700 + i % 50))
    time.sleep(0.02)
`;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
export async function until(what, ms, why) {
	const end = Date.now() + ms;
	for (;;) {
		const value = await what();
		if (value)
			return value;
		assert.ok(Date.now() < end, why);
		await pause(50);
	}
}

/** record - a growing program under a recorder of its own, and another process that serves the recording. */
export async function record(options = [], program = ["/usr/bin/python3", "-c", GROWER]) {
	const folder = mkdtempSync(join(tmpdir(), "byteledger-page-"));
	const file = join(folder, "live.blt");
	const recorder = spawn(byteledger, ["run", "-q", "-o", file, ...options, "--", ...program], { stdio: "ignore" });
	await until(() => existsSync(file), 10000, "no recording began");
	const server = await startServer([file]);
	const target = await until(() => childOf(recorder.pid), 5000, "the recorder has no child");
	return {
		...server, recorder, target, file,
		end() {
			for (const pid of [target, recorder.pid, server.child.pid])
				try {
					process.kill(pid, "SIGKILL");
				} catch {
					// it is gone already
				}
			rmSync(folder, { recursive: true, force: true });
		},
	};
}
function childOf(pid) {
	for (const task of readdirSync(`/proc/${pid}/task`)) {
		const text = readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").trim();
		if (text)
			return Number(text.split(" ")[0]);
	}
	return 0;
}
const state = (page) => page.locator(".state-text").innerText();
const heap = (page) => page.locator(".head-figure").last().innerText();

export const cases = {
	/** A wrapper that execs the program: the page shows the program, without being told, also where it was open before. */
	async wrapped() {
		const folder = mkdtempSync(join(tmpdir(), "byteledger-page-"));
		const go = join(folder, "go");
		const recorder = spawn(byteledger, ["run", "--serve", "127.0.0.1:0", "-o", join(folder, "live.blt"), "--", "/bin/sh", "-c",
			`until [ -e ${go} ]; do sleep 0.1; done; exec /usr/bin/python3 -c "$0"`, GROWER], { stdio: ["ignore", "ignore", "pipe"] });
		let said = "";
		recorder.stderr.on("data", (text) => (said += text));
		try {
			const url = await until(() => /serving (http:\S+)/.exec(said)?.[1], 20000, "no address");
			const page = await open(`${url}#/overview`);
			const shown = () => page.evaluate(() => document.querySelector("#source")?.selectedOptions[0].textContent ?? document.querySelector(".source")?.textContent);
			// the recording may begin a moment after its server: the page shows it then, by itself
			await until(async () => /^(da)?sh \d+/.test(await shown()), 5000, "it does not show the wrapper");
			writeFileSync(go, "");
			await until(async () => /^python3/.test(await shown()), 20000, "it still shows the wrapper");
			await until(async () => /MiB/.test(await heap(page)), 20000, "its heap is not shown");
			assert.match(await shown(), /· after exec$/);
			assert.ok(!page.url().includes("src="));
			await act(page, () => page.evaluate(() => void (location.hash = "#/flame")));
			assert.ok((await boxes(page)).length > 0);
			await page.screenshot({ path: join(out, "wrapped.png") });
		} finally {
			for (const who of [() => childOf(recorder.pid), () => recorder.pid])
				try {
					const pid = who();
					if (pid > 0)
						process.kill(pid, "SIGKILL");
				} catch {
					// it is gone already
				}
			rmSync(folder, { recursive: true, force: true });
		}
	},

	/** The ten questions of a recording that is being written, by mouse and by keys; what was at a moment is what the command says. */
	async following() {
		const r = await record(["--snapshot", "1s"]);
		try {
			const sources = () => fetch(`${r.url}api/v1/sources`).then((a) => a.json());
			// what it has is known once somebody asked for it
			await until(async () => (await fetch(`${r.url}api/v1/summary`), (await sources())[0].has?.includes("explain")), 30000, "it has no balance");
			await until(async () => (await fetch(`${r.url}api/v1/summary`).then((a) => a.json())).process.runtime_ns > 6e9, 60000, "it does not go on");
			await trust.ten({ url: r.url, file: r.file });
			await lists.keys({ url: r.url });
			for (const words of [["--at", "2s"], ["--at", "4s"], ["--from", "1s", "--to", "3s", "--at", "3s"]]) {
				const query = words.join("=").replace(/=?--/g, "&").slice(1);
				const page = await open(`${r.url}#/flame?${query}`);
				assert.equal(await total(page), bytes(report(r.file, ...words).totals.live_bytes), query);
				await page.context().close();
			}
			assert.ok((await sources())[0].live, "it has ended: nothing was live");
		} finally {
			r.end();
		}
	},

	/** A live recording: followed at 1 Hz, frozen by key and brush, idle and killed said within four seconds. */
	async live() {
		const r = await record();
		try {
			const page = await open(`${r.url}#/flame`);
			await until(async () => /^live/.test(await state(page)), 5000, "it is not live");
			const seen = [];
			const from = Date.now();
			while (Date.now() - from < 6000) {
				const now = await heap(page);
				if (seen[seen.length - 1]?.text !== now)
					seen.push({ text: now, at: Date.now() });
				await pause(50);
			}
			figures.heap_figures_in_6_s = seen.length;
			assert.ok(seen.length >= 4 && seen.length <= 9, JSON.stringify(seen));
			assert.ok((await boxes(page)).length > 0);
			await page.screenshot({ path: join(out, "live.png") });
			// marked from outside: a flag on the time axis, without a reload
			const flags = page.locator(".flag.mark button");
			assert.equal(await flags.count(), 0);
			assert.equal(spawnSync(byteledger, ["heap", "-p", String(r.target), "--mark", "7"]).status, 0);
			const marked = Date.now();
			await until(async () => (await flags.count()) === 1, 2000, "the mark is not on the time axis");
			figures.mark_shown_after_ms = Date.now() - marked;
			assert.match(await flags.first().getAttribute("aria-label"), /^mark 7 /);
			await page.screenshot({ path: join(out, "live-mark.png") });
			// frozen by a key: the picture stays while the recording goes on
			await key(page, " ");
			assert.match(await state(page), /^frozen at .* behind$/);
			assert.match(page.url(), /[?&]at=/);
			const before = await boxes(page);
			await pause(2500);
			assert.deepEqual(await boxes(page), before);
			await page.screenshot({ path: join(out, "frozen.png") });
			await act(page, () => page.getByRole("button", { name: "Follow" }).click());
			await until(async () => /^live/.test(await state(page)), 3000, "it does not follow");
			// stopped: said within four seconds, the picture stays
			process.kill(r.target, "SIGSTOP");
			let t0 = Date.now();
			await until(async () => /no call for|stopped|no data for/.test(await state(page)), 8000, "a stopped target is not told");
			figures.stopped_said_after_ms = Date.now() - t0;
			assert.ok((await boxes(page)).length > 0);
			process.kill(r.target, "SIGCONT");
			await until(async () => /^live, \d+ s old$/.test(await state(page)), 6000, `going on is not told: ${await state(page)}`);
			// the recorder is killed: said, the picture stays
			r.recorder.kill("SIGKILL");
			t0 = Date.now();
			await until(async () => /no data for|gone|broken off/.test(await state(page)), 8000, "a killed recorder is not told");
			figures.killed_said_after_ms = Date.now() - t0;
			assert.ok((await boxes(page)).length > 0);
			await page.screenshot({ path: join(out, "killed.png") });
			assert.ok(figures.stopped_said_after_ms <= 4000 && figures.killed_said_after_ms <= 4000, JSON.stringify(figures));
			assert.deepEqual(complaints.splice(0), []);
		} finally {
			r.end();
		}
	},
};
