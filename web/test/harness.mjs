// SPDX-License-Identifier: Apache-2.0
// What the cases in Chromium share: a server, a page that complains, waiting, axe, comparing pictures.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const [name, byteledger, out, ...recordings] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
export const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const figures = {};

export function startServer(files, ...options) {
	const child = spawn(byteledger, ["serve", "-l", "127.0.0.1:0", ...options, ...files], { stdio: ["ignore", "pipe", "ignore"] });
	return new Promise((done, fail) => {
		let text = "";
		child.stdout.on("data", (data) => {
			text += data;
			const hit = /http:\/\/\S+/.exec(text);
			if (hit)
				done({ child, url: hit[0] });
		});
		child.once("exit", (code) => fail(new Error(`serve ended with ${code}: ${text}`)));
	});
}

export const report = (file, ...options) => JSON.parse(spawnSync(byteledger, ["report", "--format", "json", ...options, file], { maxBuffer: 1 << 30, encoding: "utf8" }).stdout);

export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-background-networking"] });
export const complaints = [];

/** `says`: a selector; what it finds and when, in ms of the page's own clock since it was asked for, is window.__said afterwards. */
export async function open(url, { width = 1440, height = 900, theme = "light", quiet = false, scale = 1, says = null } = {}) {
	const context = await browser.newContext({ viewport: { width, height }, deviceScaleFactor: scale, colorScheme: theme, reducedMotion: "reduce", timezoneId: "UTC", locale: "en-GB" });
	const page = await context.newPage();
	const origin = new URL(url).origin;
	if (!quiet) {
		page.on("console", (m) => complaints.push(`${m.type()}: ${m.text()} at ${page.url()}`));
		page.on("pageerror", (e) => complaints.push(`error: ${e.message} at ${page.url()}`));
		page.on("request", (r) => !r.url().startsWith(origin) && !/^(data|blob):/.test(r.url()) && complaints.push(`asks elsewhere: ${r.url()}`));
		page.on("dialog", (d) => (complaints.push(`a dialog opened: ${d.message()}`), d.dismiss()));
	}
	await freshPage(context);
	if (says)
		await page.addInitScript((selector) => {
			const watch = new MutationObserver(() => {
				const found = document.querySelector(selector);
				if (!found)
					return;
				window.__said = { text: found.innerText, after_ms: Math.round(performance.now()) };
				watch.disconnect();
			});
			watch.observe(document, { childList: true, subtree: true });
		}, says);
	await page.goto(url);
	await settled(page);
	return page;
}
/** PAGE_DIST=web/dist: the page as it was built last, over the one in the binary (its headers stay): no relinking while working on it. */
export async function freshPage(context) {
	const dist = process.env.PAGE_DIST;
	if (!dist)
		return;
	await context.route((u) => u.pathname === "/" || u.pathname.startsWith("/assets/"), async (route) => {
		const path = new URL(route.request().url()).pathname;
		const headers = { "content-type": path === "/" ? "text/html; charset=utf-8" : path.endsWith(".css") ? "text/css" : "text/javascript" };
		if (path === "/")
			headers["content-security-policy"] = (await route.fetch()).headers()["content-security-policy"];
		await route.fulfill({ headers, body: readFileSync(join(dist, path === "/" ? "index.html" : path)) });
	});
}
export const settled = (page) => page.waitForSelector("html[data-settled]", { timeout: Number(process.env.SETTLE_MS ?? 60000), state: "attached" });
export async function act(page, what) {
	await page.evaluate(() => document.documentElement.removeAttribute("data-settled"));
	await what();
	await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
	await settled(page);
}
export const key = (page, ...keys) => act(page, async () => {
	for (const k of keys)
		await page.keyboard.press(k);
});
export const view = (page) => page.evaluate(() => document.querySelector(".page").dataset.view);
export const boxes = (page) => page.evaluate(() => window.__boxes?.() ?? []);
export const total = (page) => page.locator(".selection-end .explained").innerText();

/** axe runs beside the page, like an extension would: no inline script is allowed in it */
export const loadAxe = (page) => page.evaluate(`(() => { ${axe} })(); window.axe = window.axe || axe;`);
export async function offences(page) {
	const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
	return result.violations
		.filter((v) => v.impact === "serious" || v.impact === "critical")
		.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(" | ")}`);
}

/** how many pixels of two screenshots differ */
export async function differing(one, two) {
	if (one.equals(two))
		return 0;
	const context = await browser.newContext();
	const page = await context.newPage();
	const count = await page.evaluate(async (urls) => {
		const pixels = [];
		for (const url of urls) {
			const image = new Image();
			image.src = url;
			await image.decode();
			const canvas = new OffscreenCanvas(image.width, image.height);
			const c = canvas.getContext("2d");
			c.drawImage(image, 0, 0);
			pixels.push(new Uint32Array(c.getImageData(0, 0, image.width, image.height).data.buffer));
		}
		return pixels[0].reduce((n, v, i) => n + (v !== pixels[1][i] ? 1 : 0), 0);
	}, [one, two].map((b) => `data:image/png;base64,${b.toString("base64")}`));
	await context.close();
	return count;
}

export const bytes = (n) => {
	const units = ["B", "KiB", "MiB", "GiB"];
	let u = 0;
	let v = n;
	while (v >= 1023.5 && u < 3) {
		v /= 1024;
		u++;
	}
	return u ? `${v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0)} ${units[u]}` : `${n} B`;
};
