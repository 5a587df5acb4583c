// SPDX-License-Identifier: Apache-2.0
// Asking the server: one question in flight a place, progress of slow ones, the old picture until the new one is there.
import { useEffect, useRef, useState } from "preact/hooks";
import { Store } from "../lib/store.ts";

export class Refused extends Error {
	constructor(
		readonly status: number,
		message: string,
		readonly hint: string | null,
	) {
		super(message);
	}
}

/** Requests that are under way: data-settled on the root says when there are none (tests wait for it, never for a time). */
export const busy = new Store(0);
let frames = 0;
let painted = 0;
declare global {
	interface Window {
		__painted?: () => number;
	}
}
window.__painted = () => painted;
export function settle(change: number): void {
	busy.set(busy.get() + change);
	const number = ++frames;
	document.documentElement.removeAttribute("data-settled");
	const seen = (left: number) => {
		if (number !== frames || busy.get() > 0)
			return;
		// when the last answer was drawn: one frame after nothing was under way any more (measured by tests)
		if (left === 2)
			painted = performance.now();
		if (left)
			requestAnimationFrame(() => seen(left - 1));
		else
			document.documentElement.setAttribute("data-settled", "");
	};
	requestAnimationFrame(() => seen(3));
}

async function refusal(response: Response): Promise<Refused> {
	let text = `the server answered ${response.status}`;
	let hint: string | null = null;
	try {
		const body = (await response.json()) as { error?: string; hint?: string };
		text = body.error ?? text;
		hint = body.hint ?? null;
	} catch {
		// no JSON: the status has to do
	}
	if (response.status === 401)
		hint = "open the address with ?token=… once, as the server printed it";
	return new Refused(response.status, text, hint);
}

const pause = (ms: number, signal: AbortSignal) =>
	new Promise<void>((done, fail) => {
		const timer = setTimeout(done, ms);
		signal.addEventListener("abort", () => {
			clearTimeout(timer);
			fail(new DOMException("stopped", "AbortError"));
		});
	});

/**
 * rest - of the time until the next question. The server waits, too: mostly the next one goes out at once, and who stops hangs up on the
 * server, which ends the work. Who stops in between says so, or the work went on until the server had waited in vain.
 */
const rest = async (ms: number, since: number, url: string, signal: AbortSignal) => {
	const left = Math.min(ms, 1000) - (performance.now() - since);
	try {
		if (left > 0)
			await pause(left, signal);
		else
			signal.throwIfAborted();
	} catch (stopped) {
		void fetch(`${url}&stop=1`, { credentials: "same-origin", keepalive: true }).catch(() => undefined);
		throw stopped;
	}
};

/** ask - one question to its end; @progress is told how far a slow one is, @part gets answers about what was read so far. */
export async function ask<T>(path: string, signal: AbortSignal, progress?: (part: number) => void, waits = true, part?: (data: T) => void): Promise<T> {
	const url = waits ? `${path}${path.includes("?") ? "&" : "?"}wait=250` : path;
	settle(1);
	try {
		for (;;) {
			const asked = performance.now();
			const response = await fetch(url, { signal, credentials: "same-origin", headers: { Accept: "application/json" } });
			if (response.status === 202) {
				const body = (await response.json()) as { progress?: number; retry_ms?: number };
				progress?.(body.progress ?? 0);
				await rest(body.retry_ms ?? 100, asked, url, signal);
				continue;
			}
			if (!response.ok)
				throw await refusal(response);
			const body = (await response.json()) as T & { progress?: number; retry_ms?: number };
			if (body.retry_ms === undefined)
				return body;
			progress?.(body.progress ?? 0);
			part?.(body);
			await rest(body.retry_ms, asked, url, signal);
		}
	} catch (error) {
		if (error instanceof TypeError)
			throw new Refused(0, "connection lost", "is byteledger still running?");
		throw error;
	} finally {
		settle(-1);
	}
}

export interface Answer<T> {
	/** The newest answer that came, also while the next one is under way. */
	data: T | null;
	/** What @data answers; differs from what is asked while a new question is under way. */
	of: string | null;
	error: Refused | null;
	loading: boolean;
	progress: number;
	stop: () => void;
	again: () => void;
}

const kept = new Map<string, unknown>();
const KEPT_MAX = 24;

function keep(path: string, value: unknown): void {
	kept.delete(path);
	kept.set(path, value);
	if (kept.size > KEPT_MAX)
		kept.delete(kept.keys().next().value!);
}
/** forget - live data moved on. */
export function forget(): void {
	kept.clear();
}

interface Held<T> {
	data: T | null;
	of: string | null;
	error: Refused | null;
	loading: boolean;
	progress: number;
}

/** useAnswer - the answer to @path (null: nothing is asked); @stamp: asked again when it changes. */
export function useAnswer<T>(path: string | null, stamp: string | number = 0, waits = true): Answer<T> {
	const [state, setState] = useState<Held<T>>(() => ({
		data: path ? ((kept.get(`${path}#${stamp}`) as T | undefined) ?? null) : null,
		of: path,
		error: null,
		loading: false,
		progress: 0,
	}));
	const [round, setRound] = useState(0);
	const control = useRef<AbortController | null>(null);
	useEffect(() => {
		if (!path) {
			setState({ data: null, of: null, error: null, loading: false, progress: 0 });
			return;
		}
		const id = `${path}#${stamp}`;
		const have = kept.get(id) as T | undefined;
		if (have !== undefined && round === 0) {
			setState({ data: have, of: path, error: null, loading: false, progress: 0 });
			return;
		}
		const mine = new AbortController();
		control.current = mine;
		setState((old) => ({ ...old, error: null, loading: true, progress: 0 }));
		ask<T>(path, mine.signal, (progress) => setState((old) => ({ ...old, progress })), waits, (data) => !mine.signal.aborted && setState((old) => ({ ...old, data, of: path }))).then(
			(data) => {
				if (mine.signal.aborted)
					return;
				keep(id, data);
				setState({ data, of: path, error: null, loading: false, progress: 1 });
			},
			(error: unknown) => {
				if (mine.signal.aborted)
					return;
				const refused = error instanceof Refused ? error : new Refused(0, String(error), null);
				setState((old) => ({ ...old, error: refused, loading: false }));
			},
		);
		return () => mine.abort();
	}, [path, stamp, round, waits]);
	return {
		...state,
		loading: state.loading || (path !== null && path !== state.of && !state.error),
		stop: () => {
			control.current?.abort();
			setState((old) => ({ ...old, of: path, loading: false, error: new Refused(0, "stopped", null) }));
		},
		again: () => setRound((n) => n + 1),
	};
}
