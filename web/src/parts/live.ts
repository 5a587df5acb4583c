// SPDX-License-Identifier: Apache-2.0
// Is what we show still true? One stream of events tells (docs/api.md, Live); where none can be had, sources are asked for now and then.
import { known, sourceId } from "../app.ts";
import { ask, busy, forget, Refused } from "../api/client.ts";
import type { Sample, Source } from "../api/types.ts";
import { Store } from "../lib/store.ts";

export interface Live {
	state: "ok" | "lost";
	/** Milliseconds until the next try. */
	retry_in: number;
}
export const liveState = new Store<Live>({ state: "ok", retry_in: 0 });
/** Grows when the shown recording grew. */
export const generation = new Store(0);
/** The newest sample of each source that is being written, and when it came. */
export interface Heard extends Sample {
	at: number;
	/** When the number of calls last changed. */
	moved: number;
}
export const heard = new Store<ReadonlyMap<number, Heard>>(new Map());
/** Grows while something is live: what ages by itself is drawn anew. */
export const second = new Store(0);

/** How long silence lasts before it is said, and before it counts as a lost connection. */
export const STALE_MS = 3000;
export const LOST_MS = 15000;
/** How long nothing is called before that is said: the program waits, or was stopped. */
export const IDLE_MS = 2000;
const TICK_MS = 250;

let timer = 0;
let failures = 0;
let waiting = false;
let touched = 0;

function shown(sources: Source[] | null): Source | undefined {
	return sources?.find((s) => s.id === sourceId(sources));
}
export function isLive(s: Source | null | undefined): boolean {
	return !!s && !s.error && s.ended === false;
}

/** bump - views ask again, one question at a time; a table that somebody is in stays as it is until keys and pointer rest. */
function bump(): void {
	if (waiting)
		return;
	const go = () => {
		const resting = performance.now() - touched > 3000;
		if (document.hidden || busy.get() > 0 || !resting) {
			waiting = true;
			setTimeout(go, 100);
			return;
		}
		waiting = false;
		forget();
		generation.set(generation.get() + 1);
	};
	go();
}
const touch = (e: Event) => {
	if ((e.target as HTMLElement | null)?.closest?.(".grid"))
		touched = performance.now();
};
for (const name of ["pointermove", "pointerdown", "keydown", "wheel"])
	addEventListener(name, touch, { capture: true, passive: true });

export async function loadSources(): Promise<void> {
	clearTimeout(timer);
	try {
		const sources = await ask<Source[]>("/api/v1/sources", AbortSignal.timeout(LOST_MS), undefined, false);
		const before = shown(known.get().sources);
		const after = shown(sources);
		const again = liveState.get().state === "lost";
		failures = 0;
		if (JSON.stringify(sources) !== JSON.stringify(known.get().sources) || known.get().error)
			known.set({ sources, error: null });
		if ((before && after && (before.id !== after.id || before.generation !== after.generation)) || again)
			bump();
		liveState.set({ state: "ok", retry_in: 0 });
	} catch (error) {
		failures++;
		const refused = error instanceof Refused ? error : new Refused(0, String(error), null);
		if (!known.get().sources)
			known.set({ sources: null, error: refused });
		if (refused.status === 0)
			liveState.set({ state: "lost", retry_in: delay() });
	}
	plan();
	stream();
}

function delay(): number {
	return Math.min(15000, 1000 * 2 ** Math.min(4, failures));
}

function plan(): void {
	clearTimeout(timer);
	const sources = known.get().sources;
	// what is shown is read while it is asked about; then its facts are known
	const unread = !!shown(sources) && !shown(sources)!.error && shown(sources)!.length_ns === null;
	const polled = !told && !!sources?.some(isLive);
	// a recorder that serves has its recording a moment later; who looks at once must not wait for the next look
	const none = sources?.length === 0;
	const wait = failures ? delay() : none ? 500 : unread || polled ? 1000 : 10000;
	timer = window.setTimeout(() => {
		if (document.hidden)
			plan();
		else
			void loadSources();
	}, wait);
}

/*
 * One stream for all tabs: a browser opens six connections to a host, and a stream holds one. The tab that has the lock listens and
 * tells the others; a tab that nobody looks at gives it away. Where there are no locks (plain http beyond loopback) each visible tab
 * listens for itself.
 */
let events: EventSource | null = null;
let release: (() => void) | null = null;
let asking: AbortController | null = null;
let notBefore = 0;
/** Events come, from the stream or from the tab that has it. */
let told = false;
const others = "BroadcastChannel" in window ? new BroadcastChannel("byteledger-events") : null;

const TOPICS = ["hello", "sample", "generation", "lost", "mark", "alert", "ended"] as const;
type Topic = (typeof TOPICS)[number] | "gone";

function hear(topic: Topic, data: unknown): void {
	told = topic !== "gone";
	const about = (data as { source?: number } | null)?.source;
	if (topic === "sample") {
		const sample = data as Sample;
		const before = heard.get().get(sample.source);
		const now = Date.now();
		const next = new Map(heard.get());
		next.set(sample.source, { ...sample, at: now, moved: before && before.allocations === sample.allocations && before.frees === sample.frees ? before.moved : now });
		heard.set(next);
		if (liveState.get().state === "lost")
			void loadSources();
	} else if (topic === "generation" || topic === "lost" || topic === "mark") {
		if (about === undefined || about === sourceId(known.get().sources))
			bump();
	} else if (topic === "ended" || topic === "hello" || topic === "gone") {
		void loadSources();
		if (topic === "ended")
			bump();
	}
}
if (others)
	others.onmessage = (e: MessageEvent<{ topic: Topic; data: unknown }>) => hear(e.data.topic, e.data.data);

function close(): void {
	events?.close();
	events = null;
	release?.();
	release = null;
	asking?.abort();
	asking = null;
}

function listen(done: () => void): void {
	const tell = (topic: Topic, data: unknown) => {
		others?.postMessage({ topic, data });
		hear(topic, data);
	};
	events = new EventSource("/api/v1/events");
	release = done;
	for (const topic of TOPICS)
		events.addEventListener(topic, (e) => {
			try {
				tell(topic, JSON.parse((e as MessageEvent<string>).data));
			} catch {
				// half an event of a server that went: the next one tells
			}
		});
	let greeted = false;
	events.addEventListener("hello", () => (greeted = true));
	events.onerror = () => {
		// refused (too many listen already), not broken off: asked for again after a while, polled until then
		if (!greeted)
			notBefore = Date.now() + LOST_MS;
		close();
		tell("gone", null);
	};
}

function stream(): void {
	const there = known.get().sources?.some((s) => s.has?.includes("heap") || s.has?.includes("events") || isLive(s) && s.kind === "recording");
	if (!there || document.hidden || events || asking || failures || Date.now() < notBefore || typeof EventSource === "undefined")
		return;
	if (!navigator.locks) {
		listen(() => undefined);
		return;
	}
	const mine = (asking = new AbortController());
	navigator.locks
		.request("byteledger-events", { signal: mine.signal }, () => new Promise<void>((done) => (mine.signal.aborted ? done() : listen(done))))
		.catch(() => undefined);
}

document.addEventListener("visibilitychange", () => {
	if (document.hidden)
		close();
	else
		void loadSources();
});
addEventListener("pagehide", close);
addEventListener("pageshow", (e) => e.persisted && void loadSources());
setInterval(() => {
	if (document.hidden)
		return;
	const now = liveState.get();
	if (now.state === "lost")
		liveState.update({ retry_in: Math.max(0, now.retry_in - TICK_MS) });
	if (isLive(shown(known.get().sources))) {
		second.set(second.get() + 1);
		// a stream that says nothing is asked for anew: the server may have been stopped, or the network may be gone
		const last = heard.get().get(sourceId(known.get().sources));
		if (events && last && Date.now() - last.at > LOST_MS) {
			close();
			void loadSources();
		}
	}
}, TICK_MS);
