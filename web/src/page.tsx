// SPDX-License-Identifier: Apache-2.0
// The frame around every view: header, selection, timeline, rail, panel, the question as a command line.
import type { ComponentType, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { commandHere, copy, go, head, known, link, offer, offered, place, source, toast } from "./app.ts";
import { settle } from "./api/client.ts";
import { baseName, count, plain } from "./lib/format.ts";
import { useStore } from "./lib/store.ts";
import { isFrozen } from "./lib/moments.ts";
import type { View } from "./lib/url.ts";
import { Empty, Note, TipLayer } from "./parts/basics.tsx";
import { Header } from "./parts/header.tsx";
import { Help, useKeys } from "./parts/help.tsx";
import { Icon } from "./parts/icons.tsx";
import { generation, loadSources } from "./parts/live.ts";
import { PanelShell } from "./parts/panel.tsx";
import { SelectionBar } from "./parts/selection.tsx";
import { Timeline, useTimeline } from "./parts/timeline.tsx";
import type { Exposed, ViewProps } from "./views/props.ts";
import { BalanceView } from "./views/balance.tsx";
import { Blocks, Lifetimes } from "./views/blocks.tsx";
import { CompareView } from "./views/compare.tsx";
import { FlameView } from "./views/flame.tsx";
import { FunctionView } from "./views/function.tsx";
import { Growth } from "./views/growth.tsx";
import { Connections, Logs, Messages } from "./views/node.tsx";
import { Losses, Overview } from "./views/overview.tsx";
import { SourceView } from "./views/source.tsx";
import { Maps, Space } from "./views/space.tsx";
import { PagesView, SamplerView } from "./views/pages.tsx";
import { Regions } from "./views/regions.tsx";
import { TableView } from "./views/table.tsx";
import { TreeView } from "./views/tree.tsx";
import { TreemapView } from "./views/treemap.tsx";

interface Entry {
	view: View;
	label: string;
	show: ComponentType<ViewProps>;
	group: 0 | 1 | 2 | 3;
	/** Reads the selection and the time axis. */
	selects: boolean;
	/** Reads the time axis alone. */
	axis?: true;
	key?: string;
	narrow?: false;
}

export const ENTRIES: Entry[] = [
	{ view: "overview", label: "Overview", show: Overview, group: 0, selects: true, key: "o" },
	{ view: "flame", label: "Flame", show: FlameView, group: 0, selects: true, key: "f" },
	{ view: "tree", label: "Tree", show: TreeView, group: 0, selects: true, key: "e" },
	{ view: "table", label: "Table", show: TableView, group: 0, selects: true, key: "t" },
	{ view: "treemap", label: "Treemap", show: TreemapView, group: 0, selects: true, narrow: false },
	{ view: "function", label: "Callers", show: FunctionView, group: 0, selects: true },
	{ view: "threads", label: "Threads", show: (p) => <TableView {...p} fixedBy="thread" />, group: 0, selects: true },
	{ view: "growth", label: "Growth", show: Growth, group: 0, selects: true, key: "w" },
	{ view: "blocks", label: "Blocks", show: Blocks, group: 0, selects: true, key: "b" },
	{ view: "lifetimes", label: "Lifetimes", show: Lifetimes, group: 0, selects: true, key: "k" },
	{ view: "compare", label: "Compare", show: CompareView, group: 0, selects: true, key: "c" },
	{ view: "source", label: "Source", show: SourceView, group: 0, selects: true },
	{ view: "balance", label: "Balance", show: BalanceView, group: 1, selects: true, key: "n" },
	{ view: "maps", label: "Maps", show: Maps, group: 1, selects: true, key: "a" },
	{ view: "space", label: "Space", show: Space, group: 1, selects: true, key: "s", narrow: false },
	{ view: "regions", label: "Regions", show: Regions, group: 1, selects: false, axis: true, key: "r" },
	{ view: "pages", label: "Pages", show: PagesView, group: 1, selects: false, key: "p" },
	{ view: "sampler", label: "Sampler", show: SamplerView, group: 1, selects: false, key: "y" },
	{ view: "messages", label: "Messages", show: Messages, group: 2, selects: false, axis: true, key: "m" },
	{ view: "connections", label: "Connections", show: Connections, group: 2, selects: false, axis: true, key: "d" },
	{ view: "logs", label: "Logs", show: Logs, group: 2, selects: false, axis: true, key: "l" },
	{ view: "losses", label: "Losses", show: Losses, group: 3, selects: false, key: "x" },
];
const GROUPS = ["Heap", "Process", "Node", ""];

function Rail(props: { views: Entry[] }): JSX.Element {
	const { view } = useStore(place);
	const answer = useStore(head);
	const groups = [0, 1, 2, 3].map((g) => props.views.filter((e) => e.group === g)).filter((g) => g.length);
	// what can be read at that width comes first
	const bar = ["tree", "overview", "flame", "table"].flatMap((v) => props.views.filter((e) => e.view === v));
	const [more, setMore] = useState(false);
	useEffect(() => setMore(false), [view]);
	const item = (e: Entry) => (
		<a key={e.view} class={`rail-item ${e.view === view ? "on" : ""}`} href={link({ s: undefined, sort: undefined, order: undefined, z: undefined, cursor: undefined }, e.view)} aria-current={e.view === view ? "page" : undefined} title={`${e.label}${e.key ? ` (g ${e.key})` : ""}`}>
			<Icon name={e.view} />
			<span>{e.label}</span>
			{e.view === "losses" && !!answer?.lost?.events && <span class="badge">{count(answer.lost.events)}</span>}
		</a>
	);
	return (
		<>
			<nav class="rail" aria-label="views">
				{groups.map((g) => (
					<div key={g[0].group} class="rail-group">
						{groups.length > 2 && GROUPS[g[0].group] && <h2>{GROUPS[g[0].group]}</h2>}
						{g.map(item)}
					</div>
				))}
			</nav>
			<nav class="bottom-bar" aria-label="views, short">
				{bar.map(item)}
				<button type="button" class="rail-item" aria-expanded={more} onClick={() => setMore(!more)}>
					<Icon name="more" />
					<span>More</span>
				</button>
				{more && <div class="bottom-more">{props.views.filter((e) => !bar.includes(e) && e.narrow !== false).map(item)}</div>}
			</nav>
		</>
	);
}

function Footer(props: { loaded?: string; exposed: Exposed }): JSX.Element {
	useStore(place);
	const command = commandHere();
	return (
		<footer class="footer">
			{props.loaded && <span class="second">{props.loaded}</span>}
			{command.text && (
				<>
					<code class="command" title="the same question as a command line">
						{plain(command.text)}
					</code>
					<button type="button" class="link-button" onClick={() => void copy(command.text, "command")}>
						copy
					</button>
				</>
			)}
			{command.beyond.length > 0 && <span class="second">and, here only: {command.beyond.map(plain).join(", ")}</span>}
			<span class="grow" />
			{props.exposed.svg && (
				<button type="button" class="link-button" onClick={props.exposed.svg}>
					SVG
				</button>
			)}
			{props.exposed.png && (
				<button type="button" class="link-button" onClick={props.exposed.png}>
					PNG
				</button>
			)}
			{props.exposed.csv && (
				<button type="button" class="link-button" onClick={props.exposed.csv}>
					CSV
				</button>
			)}
			{props.exposed.json && (
				<a class="link-button" href={props.exposed.json} download="byteledger.json">
					JSON
				</a>
			)}
		</footer>
	);
}

/** Trust - what is missing from every figure below, said above the picture. */
function Trust(props: { view: View }): JSX.Element | null {
	const answer = useStore(head);
	const from = source();
	if (!answer || props.view === "losses")
		return from?.warning ? <Note kind="warn">{plain(from.warning)}</Note> : null;
	const reasons = Object.entries(answer.lost?.by_reason ?? {}).filter(([, n]) => n > 0);
	return (
		<>
			{answer.lost?.events > 0 && (
				<Note kind="bad">
					{count(answer.lost.events)} events are lost ({reasons.map(([r, n]) => `${plain(r).replace(/_/g, " ")} ${count(n)}`).join(", ")}): figures are too low by these. <a href={link({}, "losses")}>What that changes</a>
				</Note>
			)}
			{answer.sampled && <Note kind="warn">Estimates: a stack for each {answer.sampled.every_bytes.toLocaleString("en")} bytes.</Note>}
			{answer.unapplied?.length > 0 && (
				<Note kind="warn">
					{answer.unapplied.map((u) => (
						<div key={u.word}>
							<s>{plain(u.word)}</s> does not apply here: {plain(u.why)}
						</div>
					))}
				</Note>
			)}
		</>
	);
}

/** same - do two panels show the same? Functions are new each time and mean the same; data is compared where it is small. */
function same(a: unknown, b: unknown, depth: number): boolean {
	if (Object.is(a, b) || (typeof a === "function" && typeof b === "function" && depth > 0))
		return true;
	if (!depth || typeof a !== "object" || typeof b !== "object" || !a || !b)
		return false;
	const p = a as Record<string, unknown>;
	const q = b as Record<string, unknown>;
	const keys = Object.keys(p).filter((k) => !k.startsWith("_"));
	if (keys.length > 40 || keys.length !== Object.keys(q).filter((k) => !k.startsWith("_")).length)
		return false;
	return keys.every((k) => k in q && same(p[k], q[k], depth - 1));
}

function Offer(): JSX.Element | null {
	const text = useStore(offer);
	const box = useRef<HTMLTextAreaElement>(null);
	useEffect(() => box.current?.select(), [text]);
	return text === null ? null : (
		<div class="dialog" role="dialog" aria-label="text to copy" onKeyDown={(e) => e.key === "Escape" && offer.set(null)}>
			<p>This page has no clipboard on plain http: copy the text.</p>
			<textarea ref={box} readOnly rows={6} value={text} />
			<button type="button" class="button" onClick={() => offer.set(null)}>
				Close
			</button>
		</div>
	);
}

place.watch(() => settle(0));

export function Page(): JSX.Element {
	const at = useStore(place);
	const now = useStore(known);
	const message = useStore(toast);
	const grown = useStore(generation);
	// what is frozen is asked for once; the time axis goes on
	const held = useRef(grown);
	if (!isFrozen(at.words))
		held.current = grown;
	const stamp = held.current;
	const [exposed, setExposed] = useState<Exposed>({});
	const latest = useRef<Exposed>({});
	const [help, setHelp] = useState(false);
	const [wide, setWide] = useState(true);
	useEffect(() => {
		void loadSources();
		settle(0);
	}, []);
	const from = source();
	const views = useMemo(() => ENTRIES.filter((e) => offered(e.view, from) && (e.view !== "overview" || !from || !!from.error || !!from.has?.includes("heap") || !!from.has?.includes("rss")) && (!["function", "source"].includes(e.view) || at.view === e.view)), [from, now.sources, at.view]);
	const entry = ENTRIES.find((e) => e.view === at.view) ?? ENTRIES[0];
	const there = offered(entry.view, from);
	const timeline = useTimeline(grown);
	useEffect(() => {
		document.title = `${from ? `${baseName(plain(from.exe ?? from.name))} · ` : ""}${entry.label} · byteledger`;
		latest.current = {};
		setExposed({});
	}, [entry.view, from?.name]);
	const expose = (what: Exposed) => {
		const old = latest.current;
		latest.current = what;
		// functions and elements are new each time: what is shown of them decides whether the frame is drawn again
		if (old.loaded !== what.loaded || old.json !== what.json || !old.svg !== !what.svg || !old.csv !== !what.csv || !same(old.panel?.type, what.panel?.type, 0) || !same(old.panel?.props, what.panel?.props, 4))
			queueMicrotask(() => setExposed(latest.current));
	};
	useKeys(() => latest.current, () => setHelp((h) => !h));
	// what a source has is known once it was read for the first time, which the time axis asks for
	const unread = !!from && !from.error && from.length_ns === null && from.kind === null;
	useEffect(() => {
		if (!unread)
			return;
		settle(1);
		return () => settle(-1);
	}, [unread]);
	useEffect(() => {
		if (unread && timeline.data)
			void loadSources();
	}, [unread, timeline.data]);
	// a source of which nothing is known over time opens at the first view that it has
	useEffect(() => {
		if (at.view === "overview" && from?.has && !from.has.includes("heap") && !from.has.includes("rss") && !from.error) {
			const first = ENTRIES.find((e) => e.view !== "overview" && offered(e.view, from));
			if (first)
				go({}, first.view, true);
		}
	}, [at.view, from]);
	const Show = entry.show;
	const calls: Exposed = {
		...exposed,
		svg: exposed.svg && (() => latest.current.svg?.()),
		png: exposed.png && (() => latest.current.png?.()),
		csv: exposed.csv && (() => latest.current.csv?.()),
	};
	const time = (entry.selects || entry.axis) && (from?.has?.includes("heap") || from?.has?.includes("rss"));
	return (
		<div class={`page view-${entry.view}`} data-view={entry.view}>
			<a class="skip" href="#view" onClick={(e) => (e.preventDefault(), document.querySelector<HTMLElement>("#view [tabindex='0'], #view a, #view button")?.focus())}>
				To the view
			</a>
			<Header timeline={timeline} exposed={calls} onHelp={() => setHelp(true)} />
			{entry.selects && there && from?.kind !== "process" ? <SelectionBar /> : <div class="selection" data-quiet="" />}
			{time ? <Timeline answer={timeline} /> : null}
			<div class="middle">
				<Rail views={views} />
				<main class="view" id="view">
					{now.error && !now.sources && (
						<Note kind="bad">
							{now.error.message}
							{now.error.hint && <div class="second">{now.error.hint}</div>}{" "}
							<button type="button" class="small" onClick={() => void loadSources()}>
								Try again
							</button>
						</Note>
					)}
					{now.sources && from && there && <Trust view={entry.view} />}
					{now.sources ? (
						there && (from || entry.view === "overview") ? (
							<Show key={entry.view} stamp={stamp} timeline={timeline} expose={expose} />
						) : unread ? (
							<div class="placeholder" />
						) : (
							<Empty>
								<b>{from ? `${entry.label} has no data in ${plain(from.name)}.` : "There is no such recording here."}</b>
								<p>
									<a href={link({ src: undefined }, "overview")}>To the overview</a>
								</p>
							</Empty>
						)
					) : null}
				</main>
				{wide && (
					<PanelShell onClose={() => (go({ s: undefined }, undefined, true), setWide(true), latest.current = { ...latest.current, panel: null }, setExposed({ ...exposed, panel: null }))}>
						{exposed.panel ?? null}
					</PanelShell>
				)}
			</div>
			<Footer loaded={exposed.loaded} exposed={calls} />
			<TipLayer />
			<div class={`toast ${message ? "on" : ""}`} role="status" aria-live="polite">
				{message}
			</div>
			<Offer />
			{help && <Help views={views} onClose={() => setHelp(false)} />}
		</div>
	);
}
