// SPDX-License-Identifier: Apache-2.0
// The state that all parts share: where we are, what there is, what the pointer is at.
import { commandOf, type Command } from "./lib/command.ts";
import { baseName, csvCell, plain } from "./lib/format.ts";
import { Store } from "./lib/store.ts";
import { ASKED, placeParse, placeText, queryText, type Place, type View, type Word, type Words } from "./lib/url.ts";
import type { Head, Source } from "./api/types.ts";
import type { Refused } from "./api/client.ts";

export const place = new Store<Place>(placeParse(location.hash));
addEventListener("popstate", () => place.set(placeParse(location.hash)));
addEventListener("hashchange", () => place.set(placeParse(location.hash)));

/** go - change words (undefined: leave one out) and perhaps the view: one entry in the history. */
export function go(change: Words, view?: View, replace = false): void {
	const old = place.get();
	const words: Words = { ...old.words };
	for (const key of Object.keys(change) as Word[])
		if (change[key] === undefined || change[key] === "")
			delete words[key];
		else
			words[key] = change[key];
	const next = placeText({ view: view ?? old.view, words });
	if (next === placeText(old))
		return;
	if (replace)
		history.replaceState(null, "", next);
	else
		history.pushState(null, "", next);
	place.set(placeParse(next));
}
/** link - where that would go. */
export function link(change: Words, view?: View): string {
	const old = place.get();
	return placeText({ view: view ?? old.view, words: { ...old.words, ...change } });
}

export interface Known {
	sources: Source[] | null;
	error: Refused | null;
}
export const known = new Store<Known>({ sources: null, error: null });
/** What the newest answer of the current view said about itself: losses and words that could not apply are shown once, above. */
export const head = new Store<Head | null>(null);

/** newestImage - what the first source's program is now: a wrapper that execs another one is a recording of its own, which is over then. */
function newestImage(sources: Source[]): number {
	const first = sources[0];
	const images = first.live ? sources.filter((s) => s.live && s.pid === first.pid && s.book === first.book) : [];
	return Math.max(first.id, ...images.map((s) => s.id));
}

/** sourceId - the one that is looked at: the word's, else the first of all, where its program was replaced by exec what it is now. */
export function sourceId(sources: Source[] | null): number {
	const word = place.get().words.src;
	return word !== undefined ? Number(word) : sources?.length ? newestImage(sources) : 0;
}

/** sourceName - of the file; one that is put in its place in the end has no name worth reading. */
export function sourceName(s: Source): string {
	return /^\.byteledger_.*-next/.test(s.name) ? "after exec" : s.name;
}
export function source(): Source | null {
	const sources = known.get().sources;
	const wanted = sourceId(sources);
	return sources?.find((s) => s.id === wanted) ?? null;
}

/** api - a path of /api/v1 with the words of the selection that it takes. */
export function api(route: string, words: Words, extra: Record<string, string | number | undefined> = {}, which: readonly Word[] = ASKED): string {
	const more = new URLSearchParams();
	for (const [key, value] of Object.entries(extra))
		if (value !== undefined && value !== "")
			more.set(key, String(value));
	// without a word the server takes source 0; a server of one process has none
	const id = words.src === undefined ? sourceId(known.get().sources) : 0;
	const text = [queryText(id ? { ...words, src: String(id) } : words, which), more.toString()].filter(Boolean).join("&");
	return `/api/v1/${route}${text ? `?${text}` : ""}`;
}

/** cost - the one that is asked for, or what the server takes without a word. */
export function costOf(words: Words): string {
	return words.cost ?? (words.at || words.leaked ? (words.leaked && !words.at ? "leaked" : "live") : "peak");
}

/** baseSource - the recording that is compared with, where it is another one. */
export function baseSource(base: string | undefined): Source | null {
	const id = /^\d+/.exec(base ?? "");
	return (id && known.get().sources?.find((s) => s.id === Number(id[0]))) || null;
}
/** baseLabel - what is compared with, as one says it: the name of a recording, its moment. */
export function baseLabel(base: string): string {
	const from = baseSource(base);
	return from ? `${baseName(plain(from.name))}${base.replace(/^\d+/, "")}` : plain(base);
}
/** Names in full of the functions whose callers were looked at, by their keys. */
export const functionNames = new Map<string, string>();

/** commandHere - the question as it stands, as a command line. */
export function commandHere(): Command {
	const from = source();
	const at = place.get();
	const base = baseSource(at.words.base);
	return commandOf(at, from ? baseName(from.name) || "FILE" : "FILE", {
		pid: from?.pid, base: base ? baseName(base.name) : null, process: from?.kind === "process", name: functionNames.get(at.words.f ?? ""),
	});
}

export const NEEDS: Partial<Record<View, string>> = {
	overview: "", losses: "heap",
	flame: "heap", tree: "heap", table: "heap", treemap: "heap", compare: "heap", threads: "heap", function: "heap",
	growth: "growth", blocks: "allocations", lifetimes: "histogram", maps: "maps", space: "space", source: "source",
	balance: "explain", regions: "regions", pages: "pages", sampler: "sample",
	messages: "messages", connections: "connections", logs: "logs",
};

/** ofNode - what a network recorder stored, served beside a recording: it is looked at in the same range of time. */
const OF_NODE = new Set<View>(["messages", "connections", "logs"]);
export function nodeSource(from: Source | null): Source | null {
	return from?.has?.includes("messages") ? from : (known.get().sources?.find((s) => s.has?.includes("messages")) ?? null);
}

/** offered - does the source have what @view shows? */
export function offered(view: View, from: Source | null): boolean {
	const need = NEEDS[view];
	return need === "" || (need !== undefined && !!(OF_NODE.has(view) ? nodeSource(from) : from)?.has?.includes(need));
}

/** words that each recording understands; what another one's numbers and addresses meant does not follow a change of source. */
export function switchSource(id: number): void {
	const keep = place.get().words;
	go({ src: String(id), n: undefined, s: undefined, stack: undefined, address: undefined, base: keep.base && /^@/.test(keep.base) ? keep.base : undefined, cursor: undefined });
}

let toastTimer = 0;
export const toast = new Store<string>("");
export function say(text: string): void {
	toast.set(text);
	clearTimeout(toastTimer);
	toastTimer = window.setTimeout(() => toast.set(""), 4000);
}

/** copy - to the clipboard; on plain http beyond loopback there is none, then the text is offered selected. */
export const offer = new Store<string | null>(null);
export async function copy(text: string, what: string): Promise<void> {
	try {
		await navigator.clipboard.writeText(text);
		say(`${what} copied`);
	} catch {
		offer.set(text);
	}
}

export function download(name: string, data: BlobPart, type: string): void {
	const url = URL.createObjectURL(new Blob([data], { type }));
	const a = document.createElement("a");
	a.href = url;
	a.download = name;
	a.click();
	setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function fileStem(): string {
	const from = source();
	return (from?.name ?? "byteledger").replace(/^.*\//, "").replace(/\.blt$/, "").replace(/[^\w.-]+/g, "_");
}

/** saveRows - rows with their head, as a spreadsheet takes them; text that would be a formula there gets an apostrophe. */
export function saveRows(what: string, rows: (string | number | null | undefined)[][]): void {
	download(`${fileStem()}-${what}.csv`, rows.map((r) => r.map(csvCell).join(",")).join("\r\n") + "\r\n", "text/csv");
}
