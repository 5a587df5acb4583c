// SPDX-License-Identifier: Apache-2.0
// The same question as a command line, to copy; what no command can say is told apart.
import type { Place, Words } from "./url.ts";

/** shellWord - quoted for a shell where it must be. */
export function shellWord(text: string): string {
	return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

const OPTIONS: (keyof Words)[] = [
	"by", "cost", "at", "from", "to", "function-regex", "min-size", "max-size", "lifetime-min", "lifetime-max", "limit",
];

export interface Command {
	text: string;
	/** Words of the page that no command has. */
	beyond: string[];
}

/** commandOf - @base: the name of the recording that it is compared with, where that is another one. */
export function commandOf(place: Place, file: string, pid: number | null = null, base: string | null = null): Command {
	const words = place.words;
	if (place.view === "balance")
		return { text: ["byteledger explain", ...(words.at ? ["--at", shellWord(words.at)] : []), ...(words.by ? ["--by", shellWord(words.by)] : []), shellWord(file)].join(" "), beyond: [] };
	if (place.view === "pages")
		return { text: `byteledger pages -p ${pid ?? "PID"}`, beyond: [] };
	if (place.view === "regions")
		return { text: `byteledger regions -p ${pid ?? "PID"}`, beyond: [] };
	if (place.view === "sampler")
		return { text: `byteledger sample -p ${pid ?? "PID"}`, beyond: [] };
	if (place.view === "growth")
		return { text: `byteledger top ${shellWord(file)}`, beyond: [] };
	if (["messages", "connections", "logs", "lifetimes", "space", "maps"].includes(place.view))
		return { text: "", beyond: [] };
	const flame = place.view === "flame" || place.view === "treemap" || place.view === "tree";
	const groups = place.view === "blocks" && words.group !== undefined;
	const blocks = place.view === "blocks" && !groups;
	// views of one kind of rows, or of none
	const fixed: Partial<Record<string, string>> = { threads: "thread", source: "line", losses: "" };
	const by = groups ? "stack" : fixed[place.view] ?? words.by ?? "function";
	const parts = ["byteledger"];
	const beyond: string[] = [];
	if (words.base !== undefined) {
		const hit = /^(\d*)(?:@(.*))?$/.exec(words.base);
		const moment = hit?.[2];
		const other = hit && !hit[1] ? file : (base ?? "BASE");
		// without a moment of its own the other one is looked at in the same
		if (moment)
			parts.push("diff", shellWord(`${other}@${moment}`), shellWord(words.at ? `${file}@${words.at}` : file));
		else
			parts.push("diff", ...(words.at ? ["--at", shellWord(words.at)] : []), shellWord(other), shellWord(file));
	} else {
		parts.push(...(flame ? ["export", "--to", "flamegraph"] : blocks ? ["export", "--to", "jsonl"] : ["report"]));
	}
	for (const word of OPTIONS) {
		const value = word === "by" && !flame ? by : words[word];
		if (!value || (words.base !== undefined && (word === "at" || word === "by")))
			continue;
		if ((flame || blocks) && (word === "by" || word === "limit" || (blocks && word === "cost")))
			continue;
		parts.push(`--${word}`, shellWord(value));
	}
	// groups count what was allocated, where no moment and no leak is asked for
	if (groups && !words.cost && !words.at && !words.leaked)
		parts.push("--cost", "allocated");
	if (words.leaked)
		parts.push("--leaked");
	if (words.inverted && !blocks)
		parts.push("--inverted");
	if (words.base === undefined)
		parts.push(shellWord(file));
	for (const word of ["x", "module", "thread", "stack", "address", "own"] as const)
		if (words[word])
			beyond.push(`${word}=${words[word]}`);
	if (flame && words.by && words.base === undefined)
		beyond.push(`by=${words.by}`);
	return { text: parts.join(" "), beyond };
}
