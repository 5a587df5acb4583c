// SPDX-License-Identifier: Apache-2.0
// What is known of the selected box: a sentence for each figure, and what can be done with it.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { copy, costOf, go, link, offered, place, source } from "../app.ts";
import type { Named } from "../api/types.ts";
import { colours, CATEGORY_LABELS } from "../lib/colours.ts";
import { amount, baseName, count, exact, percent, plain, signed } from "../lib/format.ts";
import { exactly } from "../lib/command.ts";
import { frameKey, keyText } from "../lib/keys.ts";
import { everywhere, type Tree } from "../lib/layout.ts";
import { STOPS, TERMS } from "../lib/terms.ts";
import { useStore } from "../lib/store.ts";
import type { Words } from "../lib/url.ts";
import { Bar, Explained } from "./basics.tsx";
import { Icon } from "./icons.tsx";
import { nameOf, scaleText } from "./flame.tsx";
import { addTransform } from "./selection.tsx";

/** An answer whose rows name stacks. */
export type Stacked = Named & { stacks: { key: string[]; frames: number[][] } };

export interface FrameFacts {
	key: string;
	name: string;
	short: string;
	module: string;
	file: string;
	line: number;
	category: number;
}

export function frameFacts(answer: Pick<Tree["answer"], "frames" | "modules" | "files">, frame: number): FrameFacts | null {
	if (frame < 0)
		return null;
	const f = answer.frames;
	return {
		key: f.key[frame],
		name: plain(f.name[frame]),
		short: plain(f.short[frame]),
		module: plain(answer.modules[f.module[frame]]),
		file: plain(answer.files[f.file[frame]]),
		line: f.line[frame],
		category: f.category[frame],
	};
}

/** stackNames - innermost first. */
export function stackNames(answer: Stacked, stack: number): string[] {
	return (answer.stacks.frames[stack] ?? []).map((f) => plain(answer.frames.short[f]) || plain(answer.frames.name[f]));
}

/** Wrappers of the allocator and the standard library's insides: no answer to who asked, as in reports. */
const WRAPPER = /^(operator new|std::|__gnu_cxx::)/;
/** stackLine - the first five functions that are not wrappers; all are where nothing else is. */
export function stackLine(answer: Stacked, stack: number): string {
	const names = stackNames(answer, stack);
	const at = names.findIndex((n) => !WRAPPER.test(n));
	return names.slice(Math.max(0, at)).slice(0, 5).join(" ← ") || "unknown stack";
}

/** A stack of an answer, a function a line. */
export function StackList(props: { answer: Stacked; stack: number; title: string }): JSX.Element | null {
	const theme = useStore(colours);
	const frames = props.answer.stacks.frames[props.stack];
	return frames?.length ? (
		<div class="stack">
			<h3>{props.title}</h3>
			<ol>
				{frames.map((f, i) => {
					const facts = frameFacts(props.answer, f)!;
					return (
						<li key={i}>
							<span class="dot" style={{ background: theme.boxes[facts.category] }} />
							<a href={link({ f: facts.key, s: undefined, sort: undefined, find: undefined }, "function")} title={facts.name}>
								{facts.short || facts.name}
							</a>
						</li>
					);
				})}
			</ol>
		</div>
	) : null;
}

/** stackText - from the box outwards to main, as one copies it. */
export function stackText(tree: Tree, node: number): string {
	const lines: string[] = [];
	for (let i = node; i >= 0 && tree.frame[i] >= 0; i = tree.parent[i]) {
		const f = frameFacts(tree.answer, tree.frame[i])!;
		lines.push(`${f.name || f.short}${f.module ? `  ${f.module}` : ""}${f.file ? `  ${f.file}${f.line > 0 ? `:${f.line}` : ""}` : ""}`);
	}
	const way = tree.frame[0] >= 0 ? (tree.answer.path?.frame ?? []) : [];
	for (const frame of [...way].reverse()) {
		const f = frameFacts(tree.answer, frame)!;
		lines.push(`${f.name || f.short}${f.module ? `  ${f.module}` : ""}`);
	}
	return lines.join("\n");
}

/** partialWhy - why stacks end at such a box, in words: its name says the reason. */
export function partialWhy(name: string): string {
	const reason = /^\[partial: (\w+)\]$/.exec(name)?.[1] ?? "";
	return STOPS[reason] ?? "";
}

export function NodeTip(props: { tree: Tree; node: number; unit: string }): JSX.Element {
	const { tree, node, unit } = props;
	const facts = frameFacts(tree.answer, tree.frame[node]);
	const parent = tree.parent[node];
	const blocks = tree.answer.node.blocks?.[node];
	const rows: [string, string, string][] = [
		["total", amount(tree.total[node], unit), TERMS.total],
		["self", amount(tree.self[node], unit), TERMS.self],
	];
	if (blocks !== null && blocks !== undefined && unit === "bytes")
		rows.push(["blocks", count(blocks), TERMS.blocks]);
	rows.push(["of all", percent(tree.total[node], tree.answer.total), TERMS.of_all]);
	if (tree.answer.shown !== tree.answer.total)
		rows.push(["of shown", percent(tree.total[node], tree.answer.shown), TERMS.of_shown]);
	if (parent >= 0)
		rows.push(["of parent", percent(tree.total[node], tree.total[parent]), TERMS.of_parent]);
	for (const scale of ["age", "temporary"] as const)
		if (scaleText(tree, node, scale))
			rows.push([scale, scaleText(tree, node, scale), TERMS[scale === "age" ? "age" : "temporary_share"]]);
	if (tree.base) {
		rows.push(["before", amount(tree.base[node], unit), TERMS.base]);
		rows.push(["change", signed(tree.total[node] - tree.base[node], unit), TERMS.delta]);
	}
	return (
		<>
			<strong class="tip-name">{facts ? facts.name || facts.short : "everything selected"}</strong>
			{facts && (
				<div class="second">
					{facts.module}
					{facts.file ? ` · ${baseName(facts.file)}${facts.line > 0 ? `:${facts.line}` : ""}` : ""}
				</div>
			)}
			<dl class="tip-figures">
				{rows.map(([label, value, term]) => (
					<>
						<dt key={label}>{label}</dt>
						<dd>{value}</dd>
						<dd class="second">{term}</dd>
					</>
				))}
			</dl>
			{facts?.name.startsWith("[partial") && <p>{partialWhy(facts.name)} {TERMS.partial}</p>}
			{facts && tree.answer.frames.inlined[tree.frame[node]] && <p>{TERMS.inlined}</p>}
		</>
	);
}

export function NodePanel(props: { tree: Tree; node: number; unit: string; onZoom: () => void }): JSX.Element {
	const { tree, node, unit } = props;
	const { words } = useStore(place);
	const theme = useStore(colours);
	const from = source();
	const [full, setFull] = useState(false);
	const all = useMemo(() => everywhere(tree, node), [tree, node]);
	const facts = frameFacts(tree.answer, tree.frame[node]);
	const parent = tree.parent[node];
	const blocks = tree.answer.node.blocks?.[node];
	const whole = tree.answer.total;
	const figure = (label: string, value: number, term: string, more?: JSX.Element | string) => (
		<div class="figure">
			<dt>
				<Explained term={term} value={value} unit={unit} focus>
					{label}
				</Explained>
			</dt>
			<dd>
				<b>{amount(value, unit)}</b> {more && <span class="second">{more}</span>}
			</dd>
		</div>
	);
	const name = facts ? (full ? facts.name || facts.short : facts.short || facts.name) : "everything selected";
	return (
		<div class="panel-body">
			<h2 class="panel-name" title={facts?.name}>
				<span class="dot" style={{ background: theme.boxes[facts?.category ?? 7] }} />
				{name}
			</h2>
			{facts && facts.name && facts.name !== facts.short && (
				<button type="button" class="link-button" aria-expanded={full} onClick={() => setFull(!full)}>
					{full ? "short name" : "full name"}
				</button>
			)}
			{facts && (
				<p class="second mono panel-where">
					{facts.module || "no module"}
					{facts.file ? (
						<>
							{" · "}
							{facts.file}
							{facts.line > 0 ? `:${facts.line}` : ""}
						</>
					) : null}
					<br />
					<span class="plain-font">{facts.name.startsWith("[partial") ? partialWhy(facts.name) : (CATEGORY_LABELS[facts.category] ?? "unknown")}</span>
					{tree.answer.frames.inlined[tree.frame[node]] && <span class="plain-font"> · inlined into its caller</span>}
				</p>
			)}
			<dl class="figures">
				{figure("total", tree.total[node], "total", `${percent(tree.total[node], whole)} of all`)}
				<Bar part={tree.total[node]} whole={whole} colour={theme.boxes[facts?.category ?? 7]} />
				{figure("self", tree.self[node], "self", `${percent(tree.self[node], whole)} of all`)}
				{blocks !== null && blocks !== undefined && unit === "bytes" && (
					<div class="figure">
						<dt>
							<Explained term="blocks" value={blocks} unit="blocks" focus>
								blocks
							</Explained>
						</dt>
						<dd>
							<b>{count(blocks)}</b> {blocks > 0 && <span class="second">{amount(tree.total[node] / blocks, "bytes")} each on average</span>}
						</dd>
					</div>
				)}
				{tree.answer.shown !== whole && figure("of shown", tree.total[node], "of_shown", percent(tree.total[node], tree.answer.shown))}
				{parent >= 0 && (
					<div class="figure">
						<dt>
							<Explained term="of_parent" focus>
								of parent
							</Explained>
						</dt>
						<dd>
							<b>{percent(tree.total[node], tree.total[parent])}</b> <span class="second">of {nameOf(tree, parent)}</span>
						</dd>
					</div>
				)}
				{tree.base && figure("before", tree.base[node], "base")}
				{tree.base && (
					<div class="figure">
						<dt>
							<Explained term="delta" focus>
								change
							</Explained>
						</dt>
						<dd>
							<b class={tree.total[node] > tree.base[node] ? "grown" : "shrunk"}>{signed(tree.total[node] - tree.base[node], unit)}</b>
						</dd>
					</div>
				)}
				{facts && all.places > 1 && figure("everywhere", all.total, "everywhere", `${all.places} places${tree.rest[0] > 0 ? " that are loaded" : ""}`)}
			</dl>
			<div class="actions">
				<button type="button" class="button" onClick={props.onZoom} title="show only what is below (Enter)">
					Zoom
				</button>
				{facts && (
					<>
						<a class="button" href={link({ f: facts.key, n: undefined, s: undefined }, "function")} title="callers above, callees below this function, wherever it stands">
							Callers, callees
						</a>
						<button type="button" class="button" onClick={() => addTransform(`focus:${facts.key}`)} title="only stacks through this function, rooted here (f)">
							Focus
						</button>
						<button type="button" class="button" onClick={() => addTransform(`hide:${facts.key}`)} title="leave this frame out, its caller takes its place (-)">
							Hide
						</button>
						<button type="button" class="button" onClick={() => addTransform(`drop:${facts.key}`)} title="only stacks without this function">
							Drop
						</button>
						{facts.module && (
							<button type="button" class="button" onClick={() => addTransform(`fold:${(tree.answer.modules[tree.answer.frames.module[tree.frame[node]]] ?? "").replace(/,/g, "%2C")}`)} title="neighbours of this module become one box">
								Fold module
							</button>
						)}
						{offered("blocks", from) && (
							<a class="button" href={link(wordsOf(facts), "blocks")} title={`the single blocks of stacks through this ${facts.name ? "function" : "module"}`}>
								Blocks
							</a>
						)}
						{offered("space", from) && facts.name && (
							<a class="button" href={link({ "function-regex": regexOf(facts.name), at: words.at ?? (costOf(words) === "peak" ? "peak" : undefined), s: undefined }, "space")} title="where in memory the live blocks of stacks through this function lie">
								Mapping
							</a>
						)}
						{offered("source", from) && facts.file && (
							<a class="button" href={link({ f: fileKey(tree.answer.files[tree.answer.frames.file[tree.frame[node]]]), s: undefined }, "source")} title="the file, with figures beside each line (u)">
								Source
							</a>
						)}
						<button type="button" class="button" onClick={() => void copy(stackText(tree, node), "stack")} title="the stack as text (y)">
							Copy stack
						</button>
					</>
				)}
			</div>
			{facts && <Stack tree={tree} node={node} />}
			<p class="second small-text">{exact(tree.total[node], unit)}</p>
		</div>
	);
}

/** fileKey - the key of a file as a group, which the source route asks for. */
export function fileKey(file: string): string {
	return keyText(frameKey(new TextEncoder().encode(`\0\0${file}`)));
}

/** wordsOf - that choose the stacks through it, whatever was chosen before: its function, without a name its module. */
export function wordsOf(of: { name: string; module: string }): Words {
	return of.name ? { "function-regex": exactly(of.name) } : { module: of.module || undefined };
}

export function regexOf(name: string): string | undefined {
	return name ? exactly(name) : undefined;
}

function Stack(props: { tree: Tree; node: number }): JSX.Element {
	const { tree } = props;
	const theme = useStore(colours);
	const [all, setAll] = useState(false);
	const path: number[] = [];
	for (let i = tree.parent[props.node]; i >= 0 && tree.frame[i] >= 0; i = tree.parent[i])
		path.push(i);
	// above what is zoomed to, the answer has the way there
	const above = tree.frame[0] >= 0 ? (tree.answer.path?.frame ?? []).map((f, i) => ({ f, key: tree.answer.path!.key[i] })).reverse() : [];
	const rows = [...path.map((i) => ({ f: tree.frame[i], key: tree.key(i), zoom: false })), ...above.map((a) => ({ ...a, zoom: true }))];
	const shown = all ? rows : rows.slice(0, 8);
	if (!rows.length)
		return <></>;
	return (
		<div class="stack">
			<h3>Called from</h3>
			<ol>
				{shown.map((r) => (
					<li key={r.key}>
						<button type="button" onClick={() => go(r.zoom ? { n: r.key, s: r.key } : { s: r.key }, undefined, !r.zoom)} title={frameFacts(tree.answer, r.f)?.name}>
							<span class="dot" style={{ background: theme.boxes[tree.answer.frames.category[r.f]] }} />
							{plain(tree.answer.frames.short[r.f]) || plain(tree.answer.frames.name[r.f])}
						</button>
					</li>
				))}
			</ol>
			{rows.length > shown.length && (
				<button type="button" class="link-button" onClick={() => setAll(true)}>
					{rows.length - shown.length} more
				</button>
			)}
		</div>
	);
}

/** Details - a panel drawn in place; @of names what it shows, and is drawn anew when that changes. */
export function Details(props: { of: string; show: () => JSX.Element }): JSX.Element {
	return <div class="panel-body">{props.show()}</div>;
}

export function PanelShell(props: { children: JSX.Element | null; onClose: () => void }): JSX.Element | null {
	return props.children ? (
		<aside class="panel" aria-label="details">
			<button type="button" class="panel-close chip icon-only" aria-label="close the details" title="close (Esc)" onClick={props.onClose}>
				<Icon name="close" size={14} />
			</button>
			{props.children}
		</aside>
	) : null;
}
