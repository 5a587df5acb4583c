// SPDX-License-Identifier: Apache-2.0
// Moments as words: what the page writes, and where a word stands on the time axis. The server's reading is the one that counts.

/** momentWord - `12.345s`; event times are exact to a millisecond, so are words. */
export function momentWord(ns: number): string {
	return `${Number((Math.max(0, ns) / 1e9).toFixed(3))}s`;
}

const UNIT_NS: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 60e9, min: 60e9, h: 3600e9, d: 86400e9 };

function durationNs(text: string): number | null {
	if (/^\d+(\.\d+)?$/.test(text))
		return Number(text) * 1e9;
	let ns = 0;
	let rest = text;
	while (rest) {
		const hit = /^(\d+(?:\.\d+)?)(ns|us|ms|s|min|m|h|d)/.exec(rest);
		if (!hit)
			return null;
		ns += Number(hit[1]) * UNIT_NS[hit[2]];
		rest = rest.slice(hit[0].length);
	}
	return text ? ns : null;
}

export interface Clock {
	length_ns: number;
	start_realtime_ns: number | null;
	peak_ns: number | null;
	/** the first mark of each name */
	marks?: Map<string, number>;
}

/** momentNs - ns from the start; null where only the server can tell. */
export function momentNs(word: string | undefined, clock: Clock): number | null {
	if (!word)
		return null;
	if (word === "end")
		return clock.length_ns;
	if (word === "peak")
		return clock.peak_ns;
	if (word.startsWith("mark:"))
		return clock.marks?.get(word.slice(5)) ?? null;
	const share = /^(\d+(?:\.\d+)?)%$/.exec(word);
	if (share)
		return (clock.length_ns * Number(share[1])) / 100;
	if (word.startsWith("-")) {
		const back = durationNs(word.slice(1));
		return back === null ? null : Math.max(0, clock.length_ns - back);
	}
	const forward = durationNs(word);
	if (forward !== null)
		return forward;
	if (clock.start_realtime_ns && /^\d{4}-/.test(word)) {
		const ms = Date.parse(word.replace(" ", "T"));
		return Number.isNaN(ms) ? null : Math.max(0, ms * 1e6 - clock.start_realtime_ns);
	}
	return null;
}

/** selectionMode - what a range in the words means. */
export function selectionMode(words: { from?: string; to?: string; at?: string; base?: string }): "none" | "at" | "made" | "still" | "ends" {
	if (words.base?.startsWith("@") && words.at)
		return "ends";
	if (words.from || words.to)
		return words.at ? "still" : "made";
	return words.at ? "at" : "none";
}

/** isFrozen - do the words name a moment or a range that a growing recording does not move? */
export function isFrozen(words: { from?: string; to?: string; at?: string; base?: string }): boolean {
	return !!(words.from || words.to || (words.at && words.at !== "end" && words.at !== "peak"));
}

/**
 * realtimeNs - a moment as ns since 1970: RFC 3339, a number of seconds, milliseconds or nanoseconds since 1970, or (with a recording's
 * @clock) any word that names a moment of it. Undefined for what is neither.
 */
export function realtimeNs(word: string | undefined, clock: Clock | null): string | undefined {
	if (!word)
		return undefined;
	if (/^\d{9,}(\.\d+)?$/.test(word)) {
		// whole ns do not fit a number: text stays text
		if (word.length >= 18 && !word.includes("."))
			return word;
		return word.split(".")[0].length >= 12 ? `${word.split(".")[0]}000000` : String(BigInt(Math.round(Number(word) * 1e3)) * 1000000n);
	}
	if (/^\d{4}-\d\d-\d\d/.test(word)) {
		const ms = Date.parse(word.replace(" ", "T"));
		return Number.isNaN(ms) ? undefined : `${ms}000000`;
	}
	const hour = /^(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?$/.exec(word);
	if (hour) {
		// the day of the recording beside it, else today
		const day = new Date(clock?.start_realtime_ns ? clock.start_realtime_ns / 1e6 : Date.now());
		day.setHours(Number(hour[1]), Number(hour[2]), 0, Math.round(Number(hour[3] ?? 0) * 1000));
		return `${day.getTime()}000000`;
	}
	if (!clock?.start_realtime_ns)
		return undefined;
	const ns = momentNs(word, clock);
	return ns === null ? undefined : String(BigInt(clock.start_realtime_ns) + BigInt(Math.round(ns)));
}
