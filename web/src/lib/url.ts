// SPDX-License-Identifier: Apache-2.0
// What is looked at stands in the address: /#/VIEW?words, the words spelt as on the command line (page state in the same list).

export const VIEWS = [
	"overview", "flame", "tree", "table", "treemap", "growth", "blocks", "lifetimes", "compare",
	"threads", "balance", "maps", "space", "regions", "pages", "sampler",
	"messages", "connections", "logs", "losses", "source", "function",
] as const;
export type View = (typeof VIEWS)[number];

/** Words of the selection that the server knows, in canonical order. */
export const ASKED = [
	"src", "cost", "by", "at", "from", "to", "function-regex", "min-size", "max-size", "lifetime-min", "lifetime-max",
	"leaked", "inverted", "limit", "thread", "module", "stack", "address", "base", "own", "x",
] as const;
/** Words that only this page knows: zoomed node, selected node, what is looked for, order of a table, a function's key, what colours tell, blocks by what, more. */
export const OWN = ["n", "s", "find", "sort", "order", "f", "series", "types", "level", "addr", "q", "cursor", "zoom", "pid", "z", "colour", "marks", "group"] as const;

export type Word = (typeof ASKED)[number] | (typeof OWN)[number];
export type Words = Partial<Record<Word, string>>;

export interface Place {
	view: View;
	words: Words;
}

const KNOWN = new Set<string>([...ASKED, ...OWN]);
const ALIASES: Record<string, View> = { "resources/memory": "pages", network: "messages", memory: "overview", "": "overview" };

/** placeParse - from a location's fragment; what it does not know is left out, a wrong view is the overview. */
export function placeParse(hash: string): Place {
	const text = hash.replace(/^#\/?/, "");
	const at = text.indexOf("?");
	const name = (at < 0 ? text : text.slice(0, at)).replace(/\/$/, "");
	const view = ALIASES[name] ?? ((VIEWS as readonly string[]).includes(name) ? (name as View) : "overview");
	const words: Words = {};
	if (at >= 0)
		for (const [key, value] of new URLSearchParams(text.slice(at + 1)))
			if (KNOWN.has(key) && value.length <= 8192)
				words[key as Word] = value;
	return { view, words: withoutDefaults(words) };
}

function withoutDefaults(words: Words): Words {
	const kept: Words = {};
	for (const word of [...ASKED, ...OWN]) {
		const value = words[word];
		if (value === undefined || value === "")
			continue;
		if ((word === "src" && value === "0") || (word === "by" && value === "function"))
			continue;
		kept[word] = value;
	}
	return kept;
}

function encode(value: string): string {
	// Readable where the fragment allows it: a link is looked at by people, too.
	return encodeURIComponent(value).replace(/%(2C|3A|2F|40|5B|5D|24|3B)/g, (c) => decodeURIComponent(c)).replace(/%20/g, "+");
}

/** queryText - `a=1&b=2` in canonical order. */
export function queryText(words: Words, which: readonly Word[] = [...ASKED, ...OWN]): string {
	return which
		.filter((word) => words[word] !== undefined && words[word] !== "")
		.map((word) => `${word}=${encode(words[word]!)}`)
		.join("&");
}

export function placeText(place: Place): string {
	const query = queryText(withoutDefaults(place.words));
	return `#/${place.view}${query ? `?${query}` : ""}`;
}

/** transforms - the list of x=. */
export function transforms(words: Words): string[] {
	return words.x ? words.x.split(",").filter(Boolean) : [];
}

/** ofBlocks - the words that mean something of single blocks and mappings. */
export function ofBlocks(words: Words): Words {
	return { ...words, by: undefined, cost: undefined, inverted: undefined, base: undefined, limit: undefined, x: undefined };
}
