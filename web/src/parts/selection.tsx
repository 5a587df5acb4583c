// SPDX-License-Identifier: Apache-2.0
// The selection as chips: every view reads the same words.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, baseLabel, costOf, go, head, known, place } from "../app.ts";
import { useAnswer } from "../api/client.ts";
import type { TreeAnswer } from "../api/types.ts";
import { amount, percent, plain, plural, tail } from "../lib/format.ts";
import { COSTS, TERMS } from "../lib/terms.ts";
import { transforms, type View, type Word, type Words } from "../lib/url.ts";
import { useStore } from "../lib/store.ts";
import { Empty, Explained, Menu } from "./basics.tsx";
import { Icon } from "./icons.tsx";

/** Views without a cost: they count blocks, or bytes that are live. What is a row of them they say themselves, but Growth. */
const WITHOUT_COST = new Set(["growth", "blocks", "lifetimes", "maps", "space", "losses"]);
/** Words that a view cannot read and does not send: they are shown, struck through. */
const DEAF: Partial<Record<View, Word[]>> = { blocks: ["x", "base"], lifetimes: ["x", "base"], maps: ["x", "base"], space: ["x", "base"], growth: ["base"] };
const BYS = ["function", "module", "file", "line", "stack", "thread"];
const FILTERS: { word: Word; label: string; hint: string; chip: string }[] = [
	{ word: "function-regex", label: "stacks through a function", hint: "POSIX extended, on demangled names", chip: "function ~" },
	{ word: "min-size", label: "blocks of at least", hint: "64K, 1M", chip: "size ≥" },
	{ word: "max-size", label: "blocks of at most", hint: "64K, 1M", chip: "size ≤" },
	{ word: "lifetime-min", label: "that lived at least", hint: "10s, 250ms", chip: "lived ≥" },
	{ word: "lifetime-max", label: "that lived at most", hint: "10s, 250ms", chip: "lived ≤" },
	{ word: "from", label: "allocated from", hint: "10s, 50%, 14:03:22", chip: "from" },
	{ word: "to", label: "allocated before", hint: "10s, 50%, 14:03:22", chip: "to" },
	{ word: "thread", label: "of one thread (tid)", hint: "4242", chip: "thread" },
	{ word: "module", label: "through one module", hint: "libc.so.6", chip: "module" },
	{ word: "address", label: "that touch these addresses", hint: "0x7f10-0x7f20", chip: "at" },
	{ word: "own", label: "counts as own code", hint: "^libmine|/opt/me/", chip: "own code ~" },
];

/** names of frames that chips speak of, as views have met them: a key is never shown where its name is known */
export const frameNames = new Map<string, string>();

function transformLabel(text: string): string {
	const at = text.indexOf(":");
	const verb = at < 0 ? text : text.slice(0, at);
	const what = at < 0 ? "" : text.slice(at + 1);
	const name = frameNames.get(what) ?? what;
	const words: Record<string, string> = { hide: "hidden", fold: "folded", focus: "only through", drop: "without", rec: "recursion once", trunk: "trunks joined" };
	return what ? `${words[verb] ?? verb}: ${tail(plain(name), 32)}` : (words[verb] ?? verb);
}

export function addTransform(text: string): void {
	const now = transforms(place.get().words);
	if (!now.includes(text))
		go({ x: [...now, text].join(","), n: undefined, s: undefined });
}

function Field(props: { word: Word; label: string; hint: string; close: () => void }): JSX.Element {
	const [text, setText] = useState(place.get().words[props.word] ?? "");
	return (
		<form
			class="field"
			onSubmit={(e) => {
				e.preventDefault();
				go({ [props.word]: text.trim() || undefined } as Words);
				props.close();
			}}
		>
			<label>
				<span>{props.label}</span>
				<input type="text" name={props.word} value={text} placeholder={props.hint} spellcheck={false} autocomplete="off" onInput={(e) => setText(e.currentTarget.value)} />
			</label>
			<button type="submit" class="small">
				Set
			</button>
		</form>
	);
}

export function SelectionBar(): JSX.Element {
	const { words, view } = useStore(place);
	const answer = useStore(head);
	useStore(known);
	const [open, setOpen] = useState(false);
	const cost = costOf(words);
	const costs = !WITHOUT_COST.has(view);
	const merges = view === "growth" ? BYS.slice(0, 4) : costs && view !== "threads" ? BYS : [];
	const whole = view === "space" ? "end" : !costs ? "any time" : cost === "live" ? "end" : cost === "peak" ? "peak" : "any time";
	const unapplied = new Map((answer?.unapplied ?? []).map((u) => [u.word.split("=")[0], u.why]));
	for (const word of DEAF[view] ?? [])
		unapplied.set(word, word === "base" ? "this view does not compare" : "single blocks and mappings stand in no tree that it could change");
	const chip = (word: Word, text: string): JSX.Element => (
		<span key={word} class={`chip set ${unapplied.has(word) ? "struck" : ""}`} title={unapplied.get(word)}>
			<span>{text}</span>
			<button type="button" aria-label={`remove: ${text}`} onClick={() => go({ [word]: undefined } as Words)}>
				×
			</button>
		</span>
	);
	// a stack is chosen in the groups: nobody knows its number by heart
	const filters = [...FILTERS, { word: "stack" as Word, chip: "of call stack" }].filter((f) => words[f.word] !== undefined);
	const xs = transforms(words);
	const set = filters.length + xs.length + (words.leaked ? 1 : 0) + (words.base ? 1 : 0);
	const shown = answer as (typeof answer & { shown?: number }) | null;
	const node = view === "source" || view === "messages" || view === "connections" || view === "logs" || view === "regions" || view === "balance" || view === "pages";
	if (node)
		return <div class="selection" data-quiet="" />;
	return (
		<div class={`selection ${open ? "open" : ""}`} role="toolbar" aria-label="selection">
			<button type="button" class="selection-sum" aria-expanded={open} onClick={() => setOpen(!open)}>
				{costs ? `${COSTS.find((c) => c.value === cost)?.label ?? cost} · ` : ""}
				{words.at ?? (whole === "peak" ? "at the peak" : whole === "end" ? "at the end" : "whole run")}
				{set ? ` · ${set} filter${set === 1 ? "" : "s"}` : ""} <span aria-hidden="true">▾</span>
			</button>
			<div class="selection-chips">
				{costs && <label class="chip select" title={TERMS[COSTS.find((c) => c.value === cost)?.term ?? "live"]}>
					<span class="second">cost</span>
					<select id="cost" aria-label="cost" value={cost} onChange={(e) => go({ cost: e.currentTarget.value, sort: undefined })}>
						{COSTS.map((c) => (
							<option key={c.value} value={c.value}>
								{c.label}
							</option>
						))}
					</select>
				</label>}
				<Menu
					title="the moment"
					label={
						<>
							<span class="second">at</span> {words.at ? plain(words.at) : whole} <span aria-hidden="true">▾</span>
						</>
					}
				>
					{(close) => (
						<>
							<Field word="at" label="what lives at" hint="10s, -5m, 50%, peak, end, 14:03" close={close} />
							<div class="row">
								{["peak", "50%", "end"].map((w) => (
									<button key={w} type="button" class="small" onClick={() => (go({ at: w, from: undefined, to: undefined }), close())}>
										{w}
									</button>
								))}
								<button type="button" class="small" onClick={() => (go({ at: undefined, from: undefined, to: undefined, base: undefined }), close())}>
									any time
								</button>
							</div>
						</>
					)}
				</Menu>
				{merges.length > 0 && <label class="chip select" title="what is one row or box">
					<span class="second">by</span>
					<select id="by" aria-label="merged by" value={words.by ?? "function"} onChange={(e) => go({ by: e.currentTarget.value, n: undefined, s: undefined, sort: undefined, cursor: undefined })}>
						{merges.map((b) => (
							<option key={b} value={b}>
								{b}
							</option>
						))}
					</select>
				</label>}
				{costs && view !== "threads" && <button type="button" class="chip" aria-pressed={!!words.inverted} title="from main inwards, or from the allocating function outwards (i)" onClick={() => go({ inverted: words.inverted ? undefined : "1", n: undefined, s: undefined })}>
					<Icon name="flip" size={14} /> {words.inverted ? "callees on top" : "callers on top"}
				</button>}
				{words.leaked && chip("leaked", "never freed")}
				{words.base && chip("base", `compared with ${baseLabel(words.base)}`)}
				{filters.map((f) => chip(f.word, `${f.chip} ${tail(plain(words[f.word]), 40)}`))}
				{xs.map((x, i) => (
					<span key={x + i} class={`chip set ${unapplied.has("x") ? "struck" : ""}`} title={unapplied.get("x")}>
						<span>{transformLabel(x)}</span>
						<button type="button" aria-label={`remove: ${transformLabel(x)}`} onClick={() => go({ x: xs.filter((_, k) => k !== i).join(",") || undefined, n: undefined })}>
							×
						</button>
					</span>
				))}
				<Menu
					title="add a filter"
					label={
						<>
							<Icon name="plus" size={12} /> filter
						</>
					}
				>
					{(close) => (
						<div class="filters">
							{FILTERS.map((f) => (
								<Field key={f.word} word={f.word} label={f.label} hint={f.hint} close={close} />
							))}
							<div class="row">
								<button type="button" class="small" onClick={() => (go({ leaked: words.leaked ? undefined : "1" }), close())}>
									{words.leaked ? "freed ones, too" : "only never freed"}
								</button>
								<button type="button" class="small" onClick={() => (addTransform("rec"), close())}>
									recursion once
								</button>
							</div>
						</div>
					)}
				</Menu>
			</div>
			<span class="selection-end">
				{answer?.total !== undefined && (
					<Explained term={COSTS.find((c) => c.value === cost)?.term ?? "live"} value={answer.total} unit={answer.unit} more={shown?.shown !== undefined && shown.shown !== answer.total ? `Shown here: ${amount(shown.shown, answer.unit ?? "bytes")}.` : undefined}>
						{amount(answer.total, answer.unit ?? "bytes")}
						{shown?.shown !== undefined && shown.shown !== answer.total ? `: ${percent(shown.shown, answer.total)}` : ""}
					</Explained>
				)}
				<button type="button" class="chip icon-only" title="one step back" aria-label="undo: one step back" onClick={() => history.back()}>
					<Icon name="undo" size={14} />
				</button>
			</span>
		</div>
	);
}

/** What each word leaves, as one says it behind "none". */
const NONE: Partial<Record<Word, (value: string) => string>> = {
	"function-regex": (v) => `through ${v}`, "min-size": (v) => `≥ ${v}`, "max-size": (v) => `≤ ${v}`, "lifetime-min": (v) => `that lived ≥ ${v}`, "lifetime-max": (v) => `that lived ≤ ${v}`,
	leaked: () => "that was never freed", thread: (v) => `of thread ${v}`, module: (v) => `through ${v}`, stack: () => "of this call stack", address: (v) => `at ${v}`,
};

/** NothingHere - how much there is without the words that left nothing of it, and those words, to take away. */
export function NothingHere(): JSX.Element {
	const { words } = useStore(place);
	const filters = (Object.keys(NONE) as Word[]).filter((w) => words[w] !== undefined);
	const others = (["x", "at", "from", "to", "base", "inverted"] as Word[]).filter((w) => words[w] !== undefined);
	const then: Words = { src: words.src, at: words.at, from: words.from, to: words.to, cost: words.at ? "live" : "allocations" };
	const all = useAnswer<TreeAnswer>(filters.length ? api("tree", then, { nodes: 1 }) : null).data?.node.blocks?.[0];
	return (
		<Empty>
			<b>{all ? `${plural(all, "block")}${words.at ? " then" : ""}, none ${filters.map((w) => NONE[w]!(plain(words[w]))).join(", ")}.` : `Nothing of this selection is ${costOf(words) === "leaked" ? "leaked" : "there"}.`}</b>
			{filters.length + others.length ? (
				<p>
					The words that narrow it: {[...filters, ...others].map((w) => `${w}=${plain(words[w])}`).join(", ")}.{" "}
					<button type="button" class="small" onClick={() => go(Object.fromEntries([...filters, ...others].map((w) => [w, undefined])))}>
						Show all
					</button>
				</p>
			) : (
				<p>No call was recorded that counts under this cost.</p>
			)}
		</Empty>
	);
}
