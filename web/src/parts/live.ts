// SPDX-License-Identifier: Apache-2.0
// Is what we show still true? Sources are asked for again while one of them is being written, and when the connection was lost.
import { known, place } from "../app.ts";
import { ask, forget, Refused } from "../api/client.ts";
import type { Source } from "../api/types.ts";
import { Store } from "../lib/store.ts";

export interface Live {
	state: "ok" | "lost";
	/** How old the newest answer is. */
	age_ns: number;
	retry_in: number;
}
export const liveState = new Store<Live>({ state: "ok", age_ns: 0, retry_in: 0 });
/** Grows when the shown recording grew. */
export const generation = new Store(0);

let last = Date.now();
let timer = 0;
let failures = 0;

function shown(sources: Source[] | null): Source | undefined {
	return sources?.find((s) => s.id === Number(place.get().words.src ?? 0));
}

export async function loadSources(): Promise<void> {
	clearTimeout(timer);
	try {
		const sources = await ask<Source[]>("/api/v1/sources", new AbortController().signal, undefined, false);
		const before = shown(known.get().sources);
		const after = shown(sources);
		failures = 0;
		last = Date.now();
		if (JSON.stringify(sources) !== JSON.stringify(known.get().sources) || known.get().error)
			known.set({ sources, error: null });
		if (before && after && before.generation !== after.generation) {
			forget();
			generation.set(generation.get() + 1);
		}
		liveState.set({ state: "ok", age_ns: 0, retry_in: 0 });
	} catch (error) {
		failures++;
		const refused = error instanceof Refused ? error : new Refused(0, String(error), null);
		if (!known.get().sources)
			known.set({ sources: null, error: refused });
		if (refused.status === 0)
			liveState.set({ state: "lost", age_ns: (Date.now() - last) * 1e6, retry_in: delay() });
	}
	plan();
}

function delay(): number {
	return Math.min(15000, 1000 * 2 ** Math.min(4, failures));
}

function plan(): void {
	clearTimeout(timer);
	const sources = known.get().sources;
	// what is shown is read while it is asked about; then its facts are known
	const unread = !!shown(sources) && !shown(sources)!.error && shown(sources)!.length_ns === null;
	const growing = sources?.some((s) => s.ended === false);
	// a finished recording does not change; whether its server is there is asked now and then, when somebody looks
	const wait = failures ? delay() : growing || unread ? 1000 : 10000;
	timer = window.setTimeout(() => {
		if (document.hidden)
			plan();
		else
			void loadSources();
	}, wait);
}

document.addEventListener("visibilitychange", () => {
	if (!document.hidden)
		void loadSources();
});
setInterval(() => {
	const now = liveState.get();
	if (document.hidden)
		return;
	if (now.state === "lost")
		liveState.update({ retry_in: Math.max(0, now.retry_in - 1000), age_ns: (Date.now() - last) * 1e6 });
}, 1000);
