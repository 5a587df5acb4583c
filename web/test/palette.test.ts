// SPDX-License-Identifier: Apache-2.0
// The palette keeps what it promises: text on every box and role is readable, any two owners are told apart by all kinds of sight.
import assert from "node:assert/strict";
import test from "node:test";
import { DARK, LIGHT } from "../src/lib/palette.ts";

const linear = (v: number) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const rgb = (hex: string) => [1, 3, 5].map((i) => linear(parseInt(hex.slice(i, i + 2), 16) / 255));
const luminance = (hex: string) => rgb(hex).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
function contrast(a: string, b: string): number {
	const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
	return (x + 0.05) / (y + 0.05);
}

// Machado et al. 2009, severity 1.0, on linear RGB
const SIGHTS: Record<string, number[]> = {
	normal: [1, 0, 0, 0, 1, 0, 0, 0, 1],
	protan: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
	deutan: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
	tritan: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};
function lab(hex: string, m: number[]): [number, number, number] {
	const c = rgb(hex);
	const [r, g, b] = [0, 1, 2].map((i) => Math.min(1, Math.max(0, m[3 * i] * c[0] + m[3 * i + 1] * c[1] + m[3 * i + 2] * c[2])));
	const f = (t: number) => (t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116);
	const x = f((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047);
	const y = f(0.2126729 * r + 0.7151522 * g + 0.072175 * b);
	const z = f((0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883);
	return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
function ciede2000(p: [number, number, number], q: [number, number, number]): number {
	const rad = Math.PI / 180;
	const c = (Math.hypot(p[1], p[2]) + Math.hypot(q[1], q[2])) / 2;
	const g = 0.5 * (1 - Math.sqrt(c ** 7 / (c ** 7 + 25 ** 7)));
	const a1 = p[1] * (1 + g), a2 = q[1] * (1 + g);
	const c1 = Math.hypot(a1, p[2]), c2 = Math.hypot(a2, q[2]);
	const h1 = (Math.atan2(p[2], a1) / rad + 360) % 360, h2 = (Math.atan2(q[2], a2) / rad + 360) % 360;
	const dL = q[0] - p[0], dC = c2 - c1;
	let dh = h2 - h1;
	if (c1 * c2 === 0) dh = 0;
	else if (dh > 180) dh -= 360;
	else if (dh < -180) dh += 360;
	const dH = 2 * Math.sqrt(c1 * c2) * Math.sin((dh / 2) * rad);
	const L = (p[0] + q[0]) / 2, C = (c1 + c2) / 2;
	let H = h1 + h2;
	if (c1 * c2 !== 0) H = Math.abs(h1 - h2) <= 180 ? H / 2 : (H + (H < 360 ? 360 : -360)) / 2;
	const T = 1 - 0.17 * Math.cos((H - 30) * rad) + 0.24 * Math.cos(2 * H * rad) + 0.32 * Math.cos((3 * H + 6) * rad) - 0.2 * Math.cos((4 * H - 63) * rad);
	const sL = 1 + (0.015 * (L - 50) ** 2) / Math.sqrt(20 + (L - 50) ** 2), sC = 1 + 0.045 * C, sH = 1 + 0.015 * C * T;
	const rT = -2 * Math.sqrt(C ** 7 / (C ** 7 + 25 ** 7)) * Math.sin(60 * Math.exp(-(((H - 275) / 25) ** 2)) * rad);
	return Math.sqrt((dL / sL) ** 2 + (dC / sC) ** 2 + (dH / sH) ** 2 + rT * (dC / sC) * (dH / sH));
}

for (const [name, theme] of Object.entries({ light: LIGHT, dark: DARK })) {
	test(`text is readable on every box and role, ${name}`, () => {
		for (const box of [...theme.boxes, theme.grown, theme.same, theme.shrunk, ...theme.old, ...theme.brief])
			assert.ok(contrast(box, theme.boxText) >= 4.5, `${box}: ${contrast(box, theme.boxText).toFixed(2)}`);
		for (const role of [theme.text, theme.second, theme.link])
			for (const ground of [theme.bg, theme.panel])
				assert.ok(contrast(role, ground) >= 4.5, `${role} on ${ground}: ${contrast(role, ground).toFixed(2)}`);
	});
	test(`what is more is stronger, ${name}`, () => {
		for (const scale of [theme.old, theme.brief])
			for (let i = 1; i < scale.length; i++)
				assert.ok(contrast(scale[i], theme.bg) > contrast(scale[i - 1], theme.bg), `${scale[i - 1]}, ${scale[i]}`);
	});
	test(`any two owners are told apart by all kinds of sight, ${name}`, () => {
		for (const [sight, matrix] of Object.entries(SIGHTS)) {
			const labs = theme.boxes.map((hex) => lab(hex, matrix));
			for (let i = 0; i < labs.length; i++)
				for (let j = 0; j < i; j++)
					assert.ok(ciede2000(labs[i], labs[j]) >= 13, `${theme.boxes[i]} and ${theme.boxes[j]}, ${sight}: ${ciede2000(labs[i], labs[j]).toFixed(1)}`);
			assert.ok(ciede2000(lab(theme.grown, matrix), lab(theme.shrunk, matrix)) >= 35, `grown and shrunk, ${sight}`);
		}
	});
}
