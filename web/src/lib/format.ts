// SPDX-License-Identifier: Apache-2.0
// Numbers as the text report prints them (three digits, binary units), times, and foreign names made harmless to look at.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const COUNTS = ["", "k", "M", "G", "T", "P", "E"];

function threeDigits(v: number): string {
	return v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0);
}

/** bytes - `62.5 MiB`; `-` for what was not recorded. */
export function bytes(n: number | null | undefined): string {
	if (n === null || n === undefined)
		return "-";
	if (n < 0)
		return "−" + bytes(-n);
	if (n < 1024)
		return `${n.toFixed(0)} B`;
	let unit = 0;
	let v = n;
	while (v >= 1024 && unit + 1 < UNITS.length) {
		v /= 1024;
		unit++;
	}
	if (v >= 1023.5 && unit + 1 < UNITS.length) {
		v /= 1024;
		unit++;
	}
	return `${threeDigits(v)} ${UNITS[unit]}`;
}

/** count - `86.6 k`; exact below ten thousand. */
export function count(n: number | null | undefined): string {
	if (n === null || n === undefined)
		return "-";
	if (n < 0)
		return "−" + count(-n);
	if (n < 10000)
		return grouped(n);
	let unit = 0;
	let v = n;
	while (v >= (unit ? 999.5 : 1000) && unit + 1 < COUNTS.length) {
		v /= 1000;
		unit++;
	}
	return `${threeDigits(v)} ${COUNTS[unit]}`;
}

/** grouped - every digit: `1,234,567`. */
export function grouped(n: number | null | undefined): string {
	return n === null || n === undefined ? "-" : Math.round(n).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** exact - what hover and copies say. */
export function exact(n: number | null | undefined, unit: string): string {
	if (n === null || n === undefined)
		return "not recorded";
	return unit === "bytes" ? `${grouped(n)} bytes` : `${grouped(n)} ${n === 1 ? unit.replace(/s$/, "") : unit}`;
}

export function amount(n: number | null | undefined, unit: string): string {
	return unit === "bytes" ? bytes(n) : count(n);
}

/** signed - with its sign in front, as colour is never the only one. */
export function signed(n: number | null | undefined, unit: string): string {
	if (n === null || n === undefined)
		return "-";
	return n > 0 ? `+${amount(n, unit)}` : n < 0 ? `−${amount(-n, unit)}` : "same";
}

export function percent(part: number, whole: number): string {
	if (!whole)
		return "-";
	const p = (100 * part) / whole;
	if (part === 0)
		return "0 %";
	return Math.abs(p) < 0.1 ? "< 0.1 %" : `${p.toFixed(Math.abs(p) >= 99.95 ? 0 : 1)} %`;
}

/** duration - `7 s`, `3 min 4 s`, `812 ms`. */
export function duration(ns: number | null | undefined): string {
	if (ns === null || ns === undefined)
		return "-";
	const s = ns / 1e9;
	if (ns < 1e3)
		return `${ns} ns`;
	if (ns < 1e6)
		return `${threeDigits(ns / 1e3)} µs`;
	if (s < 0.9995)
		return `${threeDigits(ns / 1e6)} ms`;
	if (s < 59.95)
		return `${threeDigits(s)} s`;
	if (s < 3599.5)
		return `${Math.floor(Math.round(s) / 60)} min ${Math.round(s) % 60} s`;
	const minutes = Math.round(s / 60);
	return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** moment - a time from the start, as axes say it: `12.4 s`, `3:04`, `1:03:04`. */
export function moment(ns: number, span = 0): string {
	const s = ns / 1e9;
	if (s < 60)
		return span && span < 2e9 ? `${s.toFixed(3)} s` : span && span < 2e10 ? `${s.toFixed(2)} s` : `${Number(s.toFixed(1))} s`;
	const whole = Math.floor(s);
	const pad = (n: number) => n.toString().padStart(2, "0");
	const frac = span && span < 1e10 ? `.${Math.floor((s - whole) * 10)}` : "";
	return whole < 3600
		? `${Math.floor(whole / 60)}:${pad(whole % 60)}${frac}`
		: `${Math.floor(whole / 3600)}:${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}${frac}`;
}

/** wall - the clock time of a moment, `14:03:22.118`, in the reader's zone. */
export function wall(ms: number): string {
	const d = new Date(ms);
	const pad = (n: number, w = 2) => n.toString().padStart(w, "0");
	return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}.${pad(d.getMilliseconds(), 3)}`;
}

/** wallDay - `2026-11-24 14:03:22 +01:00`. */
export function wallDay(ms: number): string {
	const d = new Date(ms);
	const pad = (n: number) => n.toString().padStart(2, "0");
	const zone = -d.getTimezoneOffset();
	const sign = zone < 0 ? "−" : "+";
	return (
		`${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${wall(ms).slice(0, 8)} ` +
		`${sign}${pad(Math.floor(Math.abs(zone) / 60))}:${pad(Math.abs(zone) % 60)}`
	);
}

// Control characters and those that turn the direction of text would make a name look like another one.
const ODD = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const LONG = 4096;

/** plain - a foreign name as text to show: odd characters as escapes, at most 4096 characters. */
export function plain(text: string | null | undefined): string {
	if (!text)
		return "";
	const cut = text.length > LONG ? `${text.slice(0, LONG)}… (${grouped(text.length)} characters)` : text;
	return cut.replace(ODD, (c) => {
		const code = c.charCodeAt(0);
		return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
	});
}

/** tail - the end of a name, which tells most, in at most @max characters. */
export function tail(text: string, max: number): string {
	return text.length <= max ? text : `…${text.slice(text.length - max + 1)}`;
}

/** baseName - of a path. */
export function baseName(path: string | null | undefined): string {
	return path ? path.slice(path.lastIndexOf("/") + 1) : "";
}

/** plural - `1 block`, `2 blocks`. */
export function plural(n: number, word: string): string {
	return `${count(n)} ${word}${n === 1 ? "" : "s"}`;
}

/** csvCell - a cell of a CSV file; text that a spreadsheet would take for a formula gets an apostrophe. */
export function csvCell(value: string | number | null | undefined): string {
	if (value === null || value === undefined)
		return "";
	if (typeof value === "number")
		return String(value);
	const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
	return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** findRegex - what is looked for in names, as function-regex takes it: /…/ as it is, text as a substring, in any case unless it has a capital. */
export function findRegex(find: string): string {
	if (find.length > 2 && find.startsWith("/") && find.endsWith("/"))
		return find.slice(1, -1);
	const literal = find.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
	return /\p{Lu}/u.test(find) ? literal : literal.replace(/[a-z]/g, (c) => `[${c}${c.toUpperCase()}]`);
}
