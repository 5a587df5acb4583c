// SPDX-License-Identifier: Apache-2.0
// Every resident page by the stack for which the kernel handed it out (`pages`), and what probes sampled (`sample`): as told live.
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { copy, download, fileStem, go, head, place, source } from "../app.ts";
import { colours } from "../lib/colours.ts";
import { bytes, count, csvCell, duration, exact, grouped, percent, plain } from "../lib/format.ts";
import { useStore } from "../lib/store.ts";
import { KINDS, REASONS } from "../lib/terms.ts";
import { Bar, Empty, Explained, Note } from "../parts/basics.tsx";
import { Failure, Following, frameName, PlainFrames, plainStack, shortName, usePolled, type PlainFrame } from "../parts/books.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { isLive } from "../parts/live.ts";
import { Details } from "../parts/panel.tsx";
import type { ViewProps } from "./props.ts";

interface PageRow {
	bytes: number;
	kind: string;
	reason?: string | null;
	label?: string | null;
	partial?: string | null;
	frames: PlainFrame[];
}
interface PagedProcess {
	pid: number;
	exe: string | null;
	ended?: boolean;
	rss_bytes: number;
	attributed_bytes: number;
	unattributed: Record<string, number>;
	kinds: Record<string, number>;
	rows: PageRow[];
	checks?: Record<string, number>;
	lost?: { events: number; by_reason: Record<string, number> };
	/** Of RSS: what lies on stacks that were not walked to their end. */
	partial_stacks?: { bytes: number; by_reason: Record<string, number> };
	age_ns: number;
	walk_ns?: number;
}

const KIND_COLOUR: Record<string, number> = { anon: 0, shmem: 3, file: 6, swap: 7, hugetlb: 5, cache: 1, kernel: 4, held: 2 };
/** What RSS is made of; the other kinds stand beside it. */
const IN_RSS = ["anon", "shmem", "file"];

function rowName(r: PageRow): string {
	return r.frames.length ? shortName(frameName(r.frames[0])) : r.label ? plain(r.label) : (REASONS[r.reason ?? ""]?.label ?? plain(r.reason ?? "") ?? "unknown");
}

/** keyed - a row's name in the address: its stack does not change from reading to reading. */
function keyOf(r: PageRow): string {
	let h = 0x811c9dc5;
	for (const c of `${r.kind}|${r.reason ?? ""}|${r.label ?? ""}|${r.frames.map((f) => `${f.module}+${f.offset}${f.function}`).join(";")}`)
		h = Math.imul(h ^ c.charCodeAt(0), 0x01000193);
	return (h >>> 0).toString(16).padStart(8, "0");
}

export function PagesView(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const from = source();
	const path = "/api/v1/pages"; // of all that the command counts: it takes no word
	const polled = usePolled<{ processes: PagedProcess[] }>(path, isLive(from) ? 2000 : 0);
	useEffect(() => head.set(null), []);
	const list = polled.data?.processes ?? [];
	const now = list.find((p) => String(p.pid) === words.pid) ?? list[0];
	const kinds = (words.types ?? "").split(",").filter(Boolean);
	const rows = useMemo(() => (now?.rows ?? []).filter((r) => (kinds.length ? kinds.includes(r.kind) : IN_RSS.includes(r.kind) || r.kind === "cache")), [now, words.types]);
	const at = words.s ? rows.findIndex((r) => keyOf(r) === words.s) : -1;
	const chosen = at >= 0 ? rows[at] : null;
	const columns: Column<PageRow>[] = now
		? [
				{ key: "bytes", label: <Explained term="rss">bytes</Explained>, width: "96px", right: true, cell: (r) => <b title={exact(r.bytes, "bytes")}>{bytes(r.bytes)}</b>, text: (r) => r.bytes },
				{ key: "bar", label: "", width: "90px", cell: (r) => <Bar part={r.bytes} whole={now.rss_bytes} colour={theme.boxes[KIND_COLOUR[r.kind] ?? 7]} /> },
				{ key: "share", label: "of RSS", width: "76px", right: true, cell: (r) => (IN_RSS.includes(r.kind) ? percent(r.bytes, now.rss_bytes) : <span class="faint">beside</span>), text: (r) => percent(r.bytes, now.rss_bytes) },
				{ key: "kind", label: "kind", width: "84px", cell: (r) => <Explained term="" more={KINDS[r.kind]?.text}>{KINDS[r.kind]?.label ?? plain(r.kind)}</Explained>, text: (r) => r.kind },
				{
					key: "who", label: "who touched it first",
					text: (r) => r.frames.map(frameName).join(";") || rowName(r),
					cell: (r) => (
						<span class="tree-name">
							<span class="dot" style={{ background: theme.boxes[KIND_COLOUR[r.kind] ?? 7] }} />
							<span class="name">{r.frames.length ? r.frames.slice(0, 5).map((f) => shortName(frameName(f))).join(" ← ") : rowName(r)}</span>
							{!r.frames.length && r.reason && <span class="where">{REASONS[r.reason]?.label ?? plain(r.reason)}</span>}
							{r.partial && <span class="where">partial: {plain(r.partial)}</span>}
						</span>
					),
				},
			]
		: [];
	props.expose({
		loaded: now ? `${grouped(rows.length)} rows` : "",
		json: path,
		csv: now ? () => download(`${fileStem()}-pages.csv`, [["bytes", "kind", "reason", "label", "stack"], ...now.rows.map((r) => [r.bytes, r.kind, r.reason ?? "", r.label ?? "", r.frames.map(frameName).join(";")])].map((r) => r.map(csvCell).join(",")).join("\r\n") + "\r\n", "text/csv") : undefined,
		panel: chosen ? (
			<Details of={`${words.s} ${chosen.bytes}`} show={() => (
				<>
					<h2 class="panel-name">{rowName(chosen)}</h2>
					<p>
						<b>{bytes(chosen.bytes)}</b> <span class="second">({grouped(chosen.bytes)} bytes, {percent(chosen.bytes, now!.rss_bytes)} of RSS) · {KINDS[chosen.kind]?.label ?? plain(chosen.kind)}</span>
					</p>
					<p class="second">{KINDS[chosen.kind]?.text}</p>
					{chosen.reason && <p>{REASONS[chosen.reason]?.text ?? plain(chosen.reason)}</p>}
					{chosen.partial && <p class="second">The stack ends early ({plain(chosen.partial).replace(/_/g, " ")}): it is shown as far as it goes.</p>}
					<PlainFrames frames={chosen.frames} title="Touched by, innermost first" most={40} />
					{chosen.frames.length > 0 && (
						<div class="actions">
							<button type="button" class="button" onClick={() => void copy(plainStack(chosen.frames), "stack")}>Copy stack</button>
						</div>
					)}
				</>
			)} />
		) : null,
	});
	if (!now)
		return (
			<>
				<Failure of={polled} />
				{!polled.error && (polled.data ? <Empty><b>No process is counted here.</b></Empty> : <div class="placeholder" />)}
			</>
		);
	const none = Object.entries(now.unattributed).filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]);
	const present = Object.entries(now.kinds).filter(([, v]) => v > 0);
	const inRss = present.filter(([k]) => IN_RSS.includes(k));
	const odd = (now.checks?.residual_bytes ?? 0) !== 0;
	return (
		<>
			<Failure of={polled} />
			{!!now.lost?.events && <Note kind="bad">{count(now.lost.events)} events are lost ({Object.entries(now.lost.by_reason).map(([r, n]) => `${plain(r).replace(/_/g, " ")} ${count(n)}`).join(", ")}).</Note>}
			{now.ended && <Note kind="info">The process has ended: what is shown is the last count.</Note>}
			<div class="regions-head">
				<div>
					<h2>
						{plain(now.exe?.replace(/^.*\//, "") ?? "")} {now.pid}: {bytes(now.rss_bytes)} resident, {percent(now.attributed_bytes, now.rss_bytes)} with a stack
					</h2>
					<p class="second">
						<Explained term="attributed" value={now.attributed_bytes} unit="bytes">{bytes(now.attributed_bytes)} attributed</Explained> · counted {duration(now.age_ns)} ago{now.walk_ns ? `, in ${duration(now.walk_ns)}` : ""} ·{" "}
						{odd ? `differs from the kernel's RSS by ${bytes(Math.abs(now.checks!.residual_bytes))}` : "adds up to the kernel's RSS to the byte"}
						{!!now.partial_stacks?.bytes && (
							<>
								{" · "}
								<Explained term="partial" value={now.partial_stacks.bytes} unit="bytes" more={Object.entries(now.partial_stacks.by_reason).map(([r, n]) => `${plain(r).replace(/_/g, " ")}: ${bytes(n)}`).join(", ")}>{bytes(now.partial_stacks.bytes)} on stacks that end early</Explained>
							</>
						)}
					</p>
				</div>
				<span class="grow" />
				{list.length > 1 && (
					<select class="inline-input" aria-label="process" value={String(now.pid)} onChange={(e) => go({ pid: e.currentTarget.value, s: undefined })}>
						{list.map((p) => (
							<option key={p.pid} value={String(p.pid)}>
								{plain(p.exe?.replace(/^.*\//, "") ?? "")} {p.pid}
							</option>
						))}
					</select>
				)}
				<Following of={polled} />
			</div>
			<div class="regions-bar">
				<div class="balance" role="img" aria-label={inRss.map(([k, v]) => `${KINDS[k]?.label ?? k} ${bytes(v)}`).join(", ")}>
					{inRss.map(([k, v]) => (
						<span key={k} style={{ flexGrow: Math.max(v, now.rss_bytes * 0.002), background: theme.boxes[KIND_COLOUR[k] ?? 7] }} title={`${k}: ${exact(v, "bytes")}`} />
					))}
				</div>
				<div class="balance-lines">
					{present.map(([k, v]) => (
						<button
							key={k}
							type="button"
							class="balance-line line-button"
							aria-pressed={kinds.includes(k)}
							title="only this kind"
							onClick={() => go({ types: (kinds.includes(k) ? kinds.filter((o) => o !== k) : [...kinds, k]).join(",") || undefined, s: undefined })}
						>
							<span class="swatch" style={{ background: theme.boxes[KIND_COLOUR[k] ?? 7] }} />
							<Explained term="" more={KINDS[k]?.text}>{KINDS[k]?.label ?? plain(k)}</Explained> <b>{bytes(v)}</b> <span class="second">{IN_RSS.includes(k) ? percent(v, now.rss_bytes) : "beside RSS"}</span>
						</button>
					))}
				</div>
				{none.length > 0 && (
					<p class="second">
						Without a stack:{" "}
						{none.map(([r, v], i) => (
							<span key={r}>
								{i ? ", " : ""}
								<Explained term="" more={REASONS[r]?.text}>{REASONS[r]?.label ?? plain(r)}</Explained> {bytes(v)}
							</span>
						))}
					</p>
				)}
			</div>
			<Grid columns={columns} total={rows.length} row={(i) => rows[i] ?? null} selected={at} label="resident pages" onSelect={(_i, r) => go({ s: keyOf(r) }, undefined, true)} />
		</>
	);
}

interface SampledRow {
	count: number;
	bytes: number;
	live_count: number | null;
	live_bytes: number | null;
	error_bytes: number | null;
	histogram: { from: number; to: number | null; count: number }[];
	verdict: string | null;
	frames: PlainFrame[];
}
interface SampledProcess {
	pid: number;
	exe?: string | null;
	tier?: string;
	functions?: { module: string; function: string; offset: number; site?: string }[];
	samples: number;
	estimated_allocations: number;
	estimated_bytes: number;
	rows: SampledRow[];
	cost?: { ns_per_hit: number; hits_per_second: number; cpu_fraction: number; budget?: number | null };
	lost?: { events: number; by_reason: Record<string, number> };
}

function sampledKey(r: SampledRow): string {
	return keyOf({ bytes: 0, kind: "s", frames: r.frames });
}

function Sizes(props: { row: SampledRow; height: number; width: number }): JSX.Element {
	const theme = useStore(colours);
	const h = props.row.histogram;
	const most = Math.max(1, ...h.map((b) => b.count));
	const w = Math.max(3, Math.min(14, props.width / Math.max(1, h.length)));
	return (
		<svg width={props.width} height={props.height} role="img" aria-label={h.map((b) => `${bytes(b.from)}: ${count(b.count)}`).join(", ")}>
			{h.map((b, i) => (
				<rect key={i} x={i * w} y={props.height - (b.count / most) * props.height} width={w - 1} height={(b.count / most) * props.height} fill={theme.link}>
					<title>{`${bytes(b.from)} and more: ${count(b.count)}`}</title>
				</rect>
			))}
		</svg>
	);
}

export function SamplerView(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const from = source();
	const path = "/api/v1/sample";
	const polled = usePolled<{ processes: SampledProcess[] }>(path, isLive(from) ? 2000 : 0);
	useEffect(() => head.set(null), []);
	const list = polled.data?.processes ?? [];
	const now = list.find((p) => String(p.pid) === words.pid) ?? list[0];
	const sort = words.sort ?? "bytes";
	const rows = useMemo(() => [...(now?.rows ?? [])].sort((a, b) => (Number(b[sort as "bytes"]) || 0) - (Number(a[sort as "bytes"]) || 0)), [now, sort]);
	const at = words.s ? rows.findIndex((r) => sampledKey(r) === words.s) : -1;
	const chosen = at >= 0 ? rows[at] : null;
	const columns: Column<SampledRow>[] = now
		? [
				{ key: "bytes", label: <Explained term="estimate">bytes</Explained>, width: "96px", right: true, sortable: true, cell: (r) => <b title={exact(r.bytes, "bytes")}>{bytes(r.bytes)}</b>, text: (r) => r.bytes },
				{ key: "error", label: "±", width: "84px", right: true, cell: (r) => <span class="second">{r.error_bytes ? bytes(r.error_bytes) : "-"}</span>, text: (r) => r.error_bytes },
				{ key: "bar", label: "", width: "80px", cell: (r) => <Bar part={r.bytes} whole={now.estimated_bytes} colour={theme.boxes[0]} /> },
				{ key: "count", label: "allocations", width: "96px", right: true, sortable: true, cell: (r) => count(r.count), text: (r) => r.count },
				{ key: "live_bytes", label: <Explained term="live">outstanding</Explained>, width: "100px", right: true, sortable: true, cell: (r) => (r.live_bytes === null || r.live_bytes === undefined ? "-" : bytes(r.live_bytes)), text: (r) => r.live_bytes },
				{ key: "sizes", label: "sizes", width: "110px", cell: (r) => <Sizes row={r} width={96} height={18} /> },
				{ key: "verdict", label: "verdict", width: "96px", cell: (r) => (r.verdict ? <span class={r.verdict === "growing" ? "grown" : "second"}>{plain(r.verdict)}</span> : ""), text: (r) => r.verdict },
				{ key: "who", label: "allocated by", cell: (r) => r.frames.slice(0, 5).map((f) => shortName(frameName(f))).join(" ← ") || "unknown", text: (r) => r.frames.map(frameName).join(";") },
			]
		: [];
	props.expose({
		loaded: now ? `${grouped(rows.length)} stacks` : "",
		json: path,
		csv: now ? () => download(`${fileStem()}-sample.csv`, [["count", "bytes", "error_bytes", "live_count", "live_bytes", "verdict", "stack"], ...rows.map((r) => [r.count, r.bytes, r.error_bytes, r.live_count, r.live_bytes, r.verdict, r.frames.map(frameName).join(";")])].map((r) => r.map(csvCell).join(",")).join("\r\n") + "\r\n", "text/csv") : undefined,
		panel: chosen ? (
			<Details of={`${words.s} ${chosen.bytes} ${chosen.count}`} show={() => (
				<>
					<h2 class="panel-name">{shortName(frameName(chosen.frames[0]))}</h2>
					<p>
						<b>{bytes(chosen.bytes)}</b>{chosen.error_bytes ? ` ± ${bytes(chosen.error_bytes)}` : ""} <span class="second">in {count(chosen.count)} allocations</span>
					</p>
					<Sizes row={chosen} width={320} height={70} />
					<PlainFrames frames={chosen.frames} title="Allocated by, innermost first" most={40} />
				</>
			)} />
		) : null,
	});
	if (!now)
		return (
			<>
				<Failure of={polled} />
				{!polled.error && (polled.data ? <Empty><b>Nothing is sampled here.</b></Empty> : <div class="placeholder" />)}
			</>
		);
	return (
		<>
			<Failure of={polled} />
			<div class="regions-head">
				<div>
					<h2>
						{plain(now.exe?.replace(/^.*\//, "") ?? "")} {now.pid}: {bytes(now.estimated_bytes)} in {count(now.estimated_allocations)} allocations, estimated
					</h2>
					<p class="second">
						{count(now.samples)} samples · {count(now.functions?.length ?? 0)} functions probed
						{now.cost ? ` · ${duration(now.cost.ns_per_hit)} a call, ${count(now.cost.hits_per_second)} calls/s, ${percent(now.cost.cpu_fraction, 1)} of a CPU` : ""}
					</p>
				</div>
				<span class="grow" />
				<Following of={polled} />
			</div>
			<Grid columns={columns} total={rows.length} row={(i) => rows[i] ?? null} selected={at} sort={sort} order="desc" label="samples" onSort={(key) => go({ sort: key === "bytes" ? undefined : key })} onSelect={(_i, r) => go({ s: sampledKey(r) }, undefined, true)} />
		</>
	);
}
