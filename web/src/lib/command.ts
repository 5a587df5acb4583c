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

/** Words that say which blocks count. */
const CHOOSE: (keyof Words)[] = ["from", "to", "function-regex", "min-size", "max-size", "lifetime-min", "lifetime-max", "leaked", "thread", "module", "stack", "address"];

/** exactly - the expression that matches @name and nothing else. */
export function exactly(name: string): string {
	return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}

export interface About {
	pid?: number | null;
	/** The name of the recording that it is compared with, where that is another one. */
	base?: string | null;
	/** A running process that nothing records: there is no file. */
	process?: boolean;
	/** Name of the function whose callers and callees are shown, where it has one. */
	name?: string;
}

/** commandOf - the question of @place about @file; no text where no command answers it. */
export function commandOf(place: Place, file: string, about: About = {}): Command {
	const words = place.words;
	const { pid = null, base = null } = about;
	const none: Command = { text: "", beyond: [] };
	if (about.process && (place.view === "overview" || place.view === "balance"))
		return { text: `byteledger explain -p ${pid ?? "PID"}`, beyond: [] };
	if (place.view === "compare" && words.base === undefined)
		return none;
	if (place.view === "function") {
		// its stacks, with their sum. The peak is the program's; a choice of blocks has one of its own, which no command looks at by name
		const peak = !words.cost || words.cost === "peak";
		if (!words.f || !about.name || words["function-regex"] || words.base !== undefined || words.x || (peak && !words.at && CHOOSE.some((w) => words[w])))
			return none;
		return commandOf({ view: "table", words: { ...words, f: undefined, by: "stack", cost: peak ? undefined : words.cost, at: peak && !words.at ? "peak" : words.at, "function-regex": exactly(about.name), inverted: undefined } }, file, about);
	}
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
		return none;
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
