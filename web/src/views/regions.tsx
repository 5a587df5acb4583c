// SPDX-License-Identifier: Apache-2.0
// A running process by mapping, right now: rows that add up to its RSS, how each is known, how old the reading is.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { download, fileStem, go, link, offered, place, source } from "../app.ts";
import type { Alert } from "../api/types.ts";
import { colours } from "../lib/colours.ts";
import { bytes, count, csvCell, duration, exact, grouped, percent, plain, signed, wallDay } from "../lib/format.ts";
import { useStore } from "../lib/store.ts";
import { CLASSES } from "../lib/terms.ts";
import { Bar, Empty, Explained, Note } from "../parts/basics.tsx";
import { Failure, Following, usePolled } from "../parts/books.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { Spark } from "./growth.tsx";
import type { ViewProps } from "./props.ts";

interface Class {
	class: string;
	label: string;
	rss_bytes: number;
	pss_bytes?: number | null;
	virtual_bytes: number;
	swap_bytes: number;
	count: number;
	how: string;
}
interface Region {
	start: string | number;
	end: string | number;
	perms: string;
	rss_bytes: number;
	swap_bytes: number;
	name: string | null;
	class: string;
	label: string;
	owner?: string | null;
}
interface Allocator {
	allocator: string;
	live_bytes: number;
	free_page_bytes: number;
	hole_bytes: number;
	cache_bytes: number;
	metadata_bytes: number;
	consistency: number;
	reserved_bytes?: number;
	resident_bytes?: number;
	live_count?: number | null;
	exact?: boolean;
	how?: string;
}
interface Thread {
	tid: number;
	name: string;
	stack_start: number;
	stack_end: number;
	used_bytes: number | null;
	rss_bytes: number;
	how?: string;
}
interface Breakdown {
	pid: number;
	name?: string;
	time_ns: number;
	rss_bytes: number;
	pss_bytes?: number | null;
	virtual_bytes: number;
	swap_bytes: number;
	own_rss_bytes?: number;
	mappings?: number;
	classes: Class[];
	regions?: Region[];
	threads?: Thread[];
	allocators?: Allocator[];
	checks?: Record<string, number>;
	source?: string;
	age_ns?: number;
	stall_ns?: number;
	/** In plain words, where some allocator's books were read. */
	verdict_sentences?: string[];
}
interface Growth {
	verdict: string;
	bytes_per_hour: number;
	confidence: number;
	by_lows: boolean;
	points: number;
	span_ns: number;
	limit_in_ns: number | null;
}
interface Line {
	class: string | null;
	label: string | null;
	first_bytes: number;
	last_bytes: number;
	low_bytes: number;
	high_bytes: number;
	growth: Growth;
	points?: number[][];
}
interface History {
	pid: number;
	limit_bytes: number | null;
	runs: { time_ns: number; pid: number; comm: string }[];
	series: Line[];
}
const OWNER: [RegExp, number][] = [
	[/allocator|heap/, 3], [/anon|stack|named/, 0], [/runtime|jit/, 2], [/library/, 4], [/program|exe/, 1], [/kernel|vdso/, 5], [/file|shared|shmem/, 6],
];
function ownerOf(name: string): number {
	return OWNER.find(([pattern]) => pattern.test(name))?.[1] ?? 7;
}
const HISTORY = 300;
const address = (a: string | number) => (typeof a === "number" ? `0x${a.toString(16)}` : plain(a));

const FORMS = ["classes", "mappings", "allocators", "threads", "alerts"] as const;

/** says - a verdict in words: what it grows by, how sure that is, when the limit is met. */
function says(g: Growth | undefined, limit?: number | null): string {
	if (!g || g.verdict === "unknown")
		return "too short to tell";
	const rate = g.verdict === "steady" ? "" : ` ${signed(g.bytes_per_hour, "bytes")}/h`;
	return `${g.verdict}${rate}${g.confidence > 0 ? `, ${(g.confidence * 100).toFixed(1)} % sure` : ""} over ${duration(g.span_ns)}${g.limit_in_ns ? `; at its limit${limit ? ` of ${bytes(limit)}` : ""} in ${duration(g.limit_in_ns)}` : ""}`;
}

export function Regions(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const from = source();
	const [history, setHistory] = useState<number[]>([]);
	const pid = words.pid ?? (from?.pid ? String(from.pid) : "");
	const who = /^\d+$/.test(pid) ? `&pid=${pid}` : "";
	const path = `/debug/memory?format=json&top=500${who}`;
	const polled = usePolled<Breakdown>(path, 1000, (fresh) => setHistory((old) => [...old, fresh.rss_bytes].slice(-HISTORY)));
	const long = usePolled<History>(`/debug/memory/history?from=-6h${who}`, 5000);
	const past = usePolled<History>(`/debug/memory/history?points=1&from=-1h${who}`, 0);
	const alerted = usePolled<Alert[]>(from?.has?.includes("alerts") ? "/api/v1/alerts" : null, 2000);
	const now = polled.data;
	const form = (FORMS as readonly string[]).includes(words.z ?? "") ? (words.z as (typeof FORMS)[number]) : "classes";
	const lines = useMemo(() => new Map((long.data?.series ?? []).map((l) => [`${l.class ?? ""}|${l.label ?? ""}`, l])), [long.data]);
	const whole = now?.rss_bytes ?? 0;
	const total = lines.get("|");
	const before = useMemo(() => past.data?.series.find((l) => l.class === null)?.points?.map((p) => p[1]) ?? [], [past.data]);
	const curve = useMemo(() => thinned([...before, ...history], 220), [before, history]);
	const groups = useMemo(() => {
		const sums = new Map<string, number>();
		for (const c of now?.classes ?? [])
			sums.set(c.class, (sums.get(c.class) ?? 0) + c.rss_bytes);
		return [...sums].filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]);
	}, [now]);
	const there = (f: (typeof FORMS)[number]) => f === "classes" || (f === "mappings" && !!now?.regions?.length) || f === "allocators" || (f === "threads" && !!now?.threads?.length) || (f === "alerts" && !!alerted.data);
	const chosen = form === "classes" && words.s ? now?.classes.find((c) => `${c.class}|${c.label}` === words.s) : undefined;
	const at = chosen ? now!.classes.indexOf(chosen) : -1;
	const rows: Partial<Record<(typeof FORMS)[number], () => (string | number | null)[][]>> = {
		classes: () => [["class", "label", "rss_bytes", "pss_bytes", "virtual_bytes", "swap_bytes", "count", "how", "verdict", "bytes_per_hour"], ...now!.classes.map((c) => [c.class, c.label, c.rss_bytes, c.pss_bytes ?? null, c.virtual_bytes, c.swap_bytes, c.count, c.how, lines.get(`${c.class}|${c.label}`)?.growth.verdict ?? null, lines.get(`${c.class}|${c.label}`)?.growth.bytes_per_hour ?? null])],
		mappings: () => [["start", "end", "perms", "rss_bytes", "swap_bytes", "class", "label", "name"], ...(now!.regions ?? []).map((r) => [address(r.start), address(r.end), r.perms, r.rss_bytes, r.swap_bytes, r.class, r.label, r.name])],
		allocators: () => [["allocator", ...PARTS.map((p) => p.key), "resident_bytes", "live_count", "consistency"], ...(now!.allocators ?? []).map((a) => [a.allocator, ...PARTS.map((p) => Number(a[p.key] ?? 0)), a.resident_bytes ?? null, a.live_count ?? null, a.consistency])],
		threads: () => [["tid", "name", "used_bytes", "rss_bytes", "stack_start", "stack_end"], ...(now!.threads ?? []).map((t) => [t.tid, t.name, t.used_bytes, t.rss_bytes, address(t.stack_start), address(t.stack_end)])],
		alerts: () => [["time_realtime_ns", "pid", "name", "rule", "text"], ...(alerted.data ?? []).map((a) => [a.time_realtime_ns, a.pid, a.name, a.rule, a.text])],
	};
	props.expose({
		loaded: now ? `${count(now.mappings ?? 0)} mappings` : "",
		json: path,
		csv: now && rows[form] ? () => download(`${fileStem()}-${form}.csv`, rows[form]!().map((r) => r.map(csvCell).join(",")).join("\r\n") + "\r\n", "text/csv") : undefined,
		panel: chosen ? <ClassPanel of={chosen} line={lines.get(`${chosen.class}|${chosen.label}`)} who={who} /> : null,
	});
	const figures = <R extends { rss_bytes: number; swap_bytes: number; class: string }>(): Column<R>[] => [
		{ key: "rss", label: <Explained term="rss">resident</Explained>, width: "96px", right: true, cell: (r) => <b title={exact(r.rss_bytes, "bytes")}>{bytes(r.rss_bytes)}</b>, text: (r) => r.rss_bytes },
		{ key: "bar", label: "", width: "90px", cell: (r) => <Bar part={r.rss_bytes} whole={whole} colour={theme.boxes[ownerOf(r.class)]} /> },
		{ key: "share", label: "of RSS", width: "84px", right: true, cell: (r) => percent(r.rss_bytes, whole), text: (r) => percent(r.rss_bytes, whole) },
		{ key: "swap", label: "swapped", width: "80px", right: true, cell: (r) => (r.swap_bytes ? bytes(r.swap_bytes) : <span class="faint">0</span>), text: (r) => r.swap_bytes },
	];
	const name = (label: string, kind: string) => (
		<span class="tree-name">
			<span class="dot" style={{ background: theme.boxes[ownerOf(kind)] }} />
			<span class="name">{plain(label)}</span>
			<span class="where">{plain(kind)}</span>
		</span>
	);
	const met = alerted.data ?? [];
	const wrong = !!now?.checks?.smaps_rss_bytes && !!now.checks.status_rss_bytes && now.checks.smaps_rss_bytes !== now.checks.status_rss_bytes;
	return (
		<>
			<Failure of={polled} />
			{met.slice(-2).map((a) => (
				<Note kind="bad" key={a.rule + a.time_realtime_ns}>
					{plain(a.text)} <span class="second">({plain(a.rule)}, {wallDay(a.time_realtime_ns / 1e6)})</span>
				</Note>
			))}
			{now ? (
				<>
					<div class="regions-head">
						<div>
							<h2>
								{plain(now.name ?? "")} {now.pid}: {bytes(now.rss_bytes)} resident
							</h2>
							<p class={total?.growth.verdict === "growing" ? "grown" : "second"}>
								<Explained term="growth" more="From the history of the last six hours; a verdict needs six points.">{says(total?.growth, long.data?.limit_bytes)}</Explained>
							</p>
							<p class="second">
								{bytes(now.virtual_bytes)} virtual · {bytes(now.swap_bytes)} swapped{now.pss_bytes ? ` · ${bytes(now.pss_bytes)} PSS` : ""} · {count(now.mappings ?? 0)} mappings
								{now.own_rss_bytes ? ` · ${bytes(now.own_rss_bytes)} of byteledger's own` : ""}
								{now.age_ns !== undefined ? ` · read ${duration(now.age_ns)} ago` : ""}
								{wrong ? ` · mappings and the kernel's sum differ by ${bytes(Math.abs(now.checks!.smaps_rss_bytes - now.checks!.status_rss_bytes))}` : ""}
							</p>
						</div>
						<Spark points={curve} width={220} height={44} colour={theme.link} />
						<span class="grow" />
						<span class="segments" role="group" aria-label="shown as">
							{FORMS.filter(there).map((f) => (
								<button key={f} type="button" aria-pressed={form === f} onClick={() => go({ z: f === "classes" ? undefined : f, s: undefined })}>
									{f === "mappings" ? "largest mappings" : f === "alerts" && met.length ? `alerts (${met.length})` : f}
								</button>
							))}
						</span>
						<Following of={polled} />
					</div>
					{!!now.verdict_sentences?.length && (
						<p class="verdict">
							{now.verdict_sentences.map((v) => plain(v)).join(" ")} {offered("balance", from) && <a href={link({ s: undefined, z: undefined }, "balance")}>Who holds it</a>}
						</p>
					)}
					<div class="regions-bar">
						<div class="balance" role="img" aria-label={groups.map(([g, v]) => `${g} ${bytes(v)}`).join(", ")}>
							{groups.map(([g, v]) => (
								<span key={g} style={{ flexGrow: Math.max(v, whole * 0.002), background: theme.boxes[ownerOf(g)] }} title={`${g}: ${grouped(v)} bytes`} />
							))}
						</div>
						<div class="balance-lines">
							{groups.slice(0, 8).map(([g, v]) => (
								<span key={g} class="balance-line">
									<span class="swatch" style={{ background: theme.boxes[ownerOf(g)] }} />
									{plain(g)} <b>{bytes(v)}</b> <span class="second">{percent(v, whole)}</span>
								</span>
							))}
						</div>
					</div>
					{form === "classes" ? (
						<Grid<Class>
							label="classes"
							total={now.classes.length}
							row={(i) => now.classes[i] ?? null}
							selected={at}
							onSelect={(_i, c) => go({ s: `${c.class}|${c.label}` }, undefined, true)}
							columns={[
								{ key: "label", label: "what", cell: (c) => name(c.label, c.class), text: (c) => `${c.class} ${c.label}` },
								...figures<Class>(),
								{
									key: "growth", label: <Explained term="growth">per hour</Explained>, width: "110px", right: true,
									cell: (c) => {
										const g = lines.get(`${c.class}|${c.label}`)?.growth;
										return !g || g.verdict === "unknown" || g.verdict === "steady" ? <span class="faint">{g?.verdict === "steady" ? "steady" : "-"}</span> : <span class={g.bytes_per_hour > 0 ? "grown" : "shrunk"} title={says(g)}>{signed(g.bytes_per_hour, "bytes")}</span>;
									},
									text: (c) => lines.get(`${c.class}|${c.label}`)?.growth.bytes_per_hour ?? null,
								},
								{ key: "virtual", label: "virtual", width: "96px", right: true, cell: (c) => bytes(c.virtual_bytes), text: (c) => c.virtual_bytes },
								{ key: "count", label: "mappings", width: "86px", right: true, cell: (c) => count(c.count), text: (c) => c.count },
								{ key: "how", label: "known by", width: "200px", cell: (c) => <span class="second">{plain(c.how)}</span>, text: (c) => c.how },
							]}
						/>
					) : form === "mappings" ? (
						<Grid<Region>
							label="mappings"
							total={now.regions?.length ?? 0}
							row={(i) => now.regions?.[i] ?? null}
							columns={[
								{ key: "label", label: "what", cell: (r) => name(r.label || r.name || "anonymous", r.class), text: (r) => r.label },
								...figures<Region>(),
								{ key: "addr", label: "address", width: "260px", cell: (r) => <span class="mono">{address(r.start)}-{address(r.end).replace(/^0x/, "")}</span>, text: (r) => address(r.start) },
								{ key: "perms", label: "access", width: "70px", cell: (r) => <span class="mono">{plain(r.perms)}</span>, text: (r) => r.perms },
							]}
						/>
					) : form === "allocators" ? (
						<Allocators path={`${path.replace("top=500", "top=0")}&full=1`} />
					) : form === "threads" ? (
						<Grid<Thread>
							label="threads"
							total={now.threads?.length ?? 0}
							row={(i) => now.threads?.[i] ?? null}
							columns={[
								{ key: "name", label: "thread", cell: (t) => <span class="tree-name"><span class="name">{plain(t.name) || "thread"}</span><span class="where">tid {t.tid}</span></span>, text: (t) => t.name },
								{ key: "rss", label: "stack, resident", width: "130px", right: true, cell: (t) => <b title={exact(t.rss_bytes, "bytes")}>{bytes(t.rss_bytes)}</b>, text: (t) => t.rss_bytes },
								{ key: "used", label: "in use", width: "100px", right: true, cell: (t) => bytes(t.used_bytes), text: (t) => t.used_bytes },
								{ key: "size", label: "size", width: "100px", right: true, cell: (t) => bytes(t.stack_end - t.stack_start), text: (t) => t.stack_end - t.stack_start },
								{ key: "addr", label: "address", width: "260px", cell: (t) => <span class="mono">{address(t.stack_start)}-{address(t.stack_end).replace(/^0x/, "")}</span>, text: (t) => address(t.stack_start) },
								{ key: "how", label: "known by", width: "200px", cell: (t) => <span class="second">{plain(t.how ?? "")}</span>, text: (t) => t.how ?? "" },
							]}
						/>
					) : alerted.data?.length ? (
						<Grid<Alert>
							label="alerts"
							total={alerted.data.length}
							row={(i) => alerted.data![alerted.data!.length - 1 - i] ?? null}
							columns={[
								{ key: "time", label: "time", width: "220px", cell: (a) => wallDay(a.time_realtime_ns / 1e6), text: (a) => a.time_realtime_ns },
								{ key: "rule", label: "rule", width: "240px", cell: (a) => <code>{plain(a.rule)}</code>, text: (a) => a.rule },
								{ key: "text", label: "what", cell: (a) => plain(a.text), text: (a) => a.text },
							]}
						/>
					) : (
						<Empty>
							<b>No rule was met yet.</b>
						</Empty>
					)}
				</>
			) : (
				!polled.error && <div class="placeholder" />
			)}
		</>
	);
}

/** thinned - at most @most points, the highest of each stretch: a mean would hide the peak. */
function thinned(points: number[], most: number): number[] {
	const step = points.length / most;
	return step <= 1 ? points : Array.from({ length: most }, (_, i) => Math.max(...points.slice(Math.floor(i * step), Math.max(Math.floor(i * step) + 1, Math.floor((i + 1) * step)))));
}

const PARTS: { key: keyof Allocator; label: string; term: string; colour: number }[] = [
	{ key: "live_bytes", label: "live", term: "heap-live", colour: 0 },
	{ key: "free_page_bytes", label: "free pages", term: "allocator-free-pages", colour: 2 },
	{ key: "hole_bytes", label: "holes", term: "allocator-holes", colour: 5 },
	{ key: "cache_bytes", label: "caches", term: "allocator-caches", colour: 6 },
	{ key: "metadata_bytes", label: "own tables", term: "allocator-metadata", colour: 3 },
];

/** The allocators' own books: read from outside with a full reading, which the server takes at most once in ten seconds. */
function Allocators(props: { path: string }): JSX.Element {
	const theme = useStore(colours);
	const polled = usePolled<Breakdown>(props.path, 15000);
	const list = polled.data?.allocators ?? [];
	return (
		<div class="overview" tabIndex={0} role="region" aria-label="allocators">
			<Failure of={polled} />
			{polled.data ? (
				<p class="second reading">
					{list.length ? `Read ${duration(polled.data.age_ns ?? 0)} ago${polled.data.stall_ns ? `; the process could wait ${duration(polled.data.stall_ns)} for its mappings meanwhile` : ""}.` : "No allocator whose books are known was found in this process."}
				</p>
			) : (
				!polled.error && <div class="placeholder" />
			)}
			<div class="cards">
				{list.map((a) => {
					const sum = PARTS.reduce((n, p) => n + (Number(a[p.key]) || 0), 0);
					return (
						<section class="card" key={a.allocator}>
							<h2>
								{plain(a.allocator)}: {bytes(a.live_bytes)} live, {bytes(a.resident_bytes ?? sum)} resident
							</h2>
							<div class="balance" role="img" aria-label={PARTS.map((p) => `${p.label} ${bytes(Number(a[p.key]))}`).join(", ")}>
								{PARTS.filter((p) => Number(a[p.key]) > 0).map((p) => (
									<span key={p.key} style={{ flexGrow: Math.max(Number(a[p.key]), sum * 0.002), background: theme.boxes[p.colour] }} title={`${p.label}: ${exact(Number(a[p.key]), "bytes")}`} />
								))}
							</div>
							<table class="panel-table">
								<tbody>
									{PARTS.map((p) => (
										<tr key={p.key}>
											<th scope="row">
												<span class="dot" style={{ background: theme.boxes[p.colour] }} /> <Explained term="" more={CLASSES[p.term].text}>{p.label}</Explained>
											</th>
											<td title={exact(Number(a[p.key]), "bytes")}>{bytes(Number(a[p.key]))}</td>
											<td class="second">{percent(Number(a[p.key]), sum)}</td>
										</tr>
									))}
								</tbody>
							</table>
							<p class="second small-text">
								{a.live_count ? `${count(a.live_count)} live blocks · ` : ""}
								{a.consistency} % of what was read agrees with itself{a.how ? ` · ${plain(a.how)}` : ""}
							</p>
						</section>
					);
				})}
			</div>
		</div>
	);
}

function ClassPanel(props: { of: Class; line: Line | undefined; who: string }): JSX.Element {
	const theme = useStore(colours);
	const { of, line } = props;
	const polled = usePolled<History>(`/debug/memory/history?points=1&from=-6h&class=${encodeURIComponent(of.class)}&label=${encodeURIComponent(of.label)}${props.who}`, 5000);
	const points = thinned((polled.data?.series[0]?.points ?? []).map((p) => p[1]), 260);
	return (
		<div class="panel-body">
			<h2 class="panel-name">{plain(of.label)}</h2>
			<p class="second">{plain(of.class)}, known by {plain(of.how)}</p>
			<p class={line?.growth.verdict === "growing" ? "grown" : "second"}>{says(line?.growth)}</p>
			<Spark points={points} width={280} height={90} colour={theme.link} />
			<dl class="facts">
				<dt>resident</dt>
				<dd title={exact(of.rss_bytes, "bytes")}>{bytes(of.rss_bytes)}</dd>
				{line && (
					<>
						<dt>lowest, highest</dt>
						<dd>{bytes(line.low_bytes)}, {bytes(line.high_bytes)}</dd>
						<dt>at first</dt>
						<dd>{bytes(line.first_bytes)}</dd>
					</>
				)}
				<dt>virtual</dt>
				<dd>{bytes(of.virtual_bytes)}</dd>
				<dt>mappings</dt>
				<dd>{count(of.count)}</dd>
			</dl>
		</div>
	);
}
