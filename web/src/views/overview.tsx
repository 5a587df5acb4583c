// SPDX-License-Identifier: Apache-2.0
// What is its memory right now, does it add up, and what holds most of it.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, costOf, head, known, link, offered, place, saveRows, source } from "../app.ts";
import { ask, useAnswer } from "../api/client.ts";
import type { RowsAnswer, Source, Summary } from "../api/types.ts";
import { CATEGORY_LABELS, colours } from "../lib/colours.ts";
import { amount, baseName, bytes, count, duration, exact, grouped, moment, percent, plain, plural, wallDay } from "../lib/format.ts";
import { momentNs } from "../lib/moments.ts";
import { useStore } from "../lib/store.ts";
import { shellWord } from "../lib/command.ts";
import { CLASSES, COSTS } from "../lib/terms.ts";
import { Bar, Empty, Explained, Note, Shown } from "../parts/basics.tsx";
import { loadSources } from "../parts/live.ts";
import { frameFacts } from "../parts/panel.tsx";
import { clockOf, valueAt } from "../parts/timeline.tsx";
import { Ago, classColour, SheetBar, Verdict, type Sheet } from "./balance.tsx";
import { COST_COLUMN } from "./table.tsx";
import type { ViewProps } from "./props.ts";

function Figure(props: { label: string; term: string; value: number | null | undefined; unit: string; more?: string; href?: string }): JSX.Element {
	const body = (
		<>
			<span class="key-label">
				<Explained term={props.term} value={props.value ?? null} unit={props.unit}>
					{props.label}
				</Explained>
			</span>
			<span class="key-value">{props.unit === "ns" ? duration(props.value) : amount(props.value, props.unit)}</span>
			{props.more && <span class="key-more">{props.more}</span>}
		</>
	);
	return props.href ? (
		<a class="key-figure" href={props.href}>
			{body}
		</a>
	) : (
		<div class="key-figure">{body}</div>
	);
}

/** how it ended, in words */
export function endOf(s: Summary): string {
	if (!s.ended)
		return "still being recorded";
	if (s.process.exit_status !== undefined && s.process.exit_status !== null)
		return `exited with ${s.process.exit_status} after ${duration(s.process.runtime_ns)}`;
	return s.process.complete ? `recorded to its end, ${duration(s.process.runtime_ns)}` : `broken off after ${duration(s.process.runtime_ns)}`;
}

function Balance(props: { timeline: ViewProps["timeline"]; summary: Summary }): JSX.Element | null {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const line = props.timeline.data;
	if (!line || !line.series.rss || !line.series.heap)
		return null;
	const clock = clockOf(line);
	const at = momentNs(words.at, clock) ?? clock.peak_ns ?? clock.length_ns;
	const rss = valueAt(line, "rss", at, true);
	const peak = line.flags.find((f) => f.kind === "peak");
	const heap = (words.at === "peak" || !words.at) && peak?.value ? peak.value : valueAt(line, "heap", at);
	if (!rss || heap === null)
		return null;
	const known = Math.min(heap, rss);
	const parts = [
		{ label: "heap live", value: known, colour: theme.boxes[0], term: "heap", href: link({ at: words.at ?? "peak", cost: "live" }, "flame") },
		{ label: "not broken down here", value: rss - known, colour: theme.run, term: "unexplained", href: undefined },
	];
	return (
		<section class="card wide">
			<h2 tabIndex={-1} data-first="">
				Resident memory at {moment(at, clock.length_ns)}
				{words.at ? "" : " (the heap's peak)"}: {bytes(rss)}
			</h2>
			<div class="balance" role="img" aria-label={parts.map((p) => `${p.label} ${bytes(p.value)}`).join(", ")}>
				{parts.map((p) => (
					<span key={p.label} style={{ flexGrow: Math.max(p.value, rss * 0.002), background: p.colour }} title={`${p.label}: ${exact(p.value, "bytes")}`} />
				))}
			</div>
			<div class="balance-lines">
				{parts.map((p) => (
					<a key={p.label} class="balance-line" href={p.href}>
						<span class="swatch" style={{ background: p.colour }} />
						<Explained term={p.term} value={p.value} unit="bytes">
							{p.label}
						</Explained>
						<b>{bytes(p.value)}</b>
						<span class="second">{percent(p.value, rss)}</span>
					</a>
				))}
			</div>
			{heap > rss && (
				<p class="second">
					{bytes(heap)} were asked for, more than is resident: memory that was never touched, or that is swapped out, needs no RAM.
				</p>
			)}
		</section>
	);
}

/** Sheet - the balance sheet of the moment, where the recording has one. */
function SheetCard(props: { stamp: number; now?: boolean }): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const answer = useAnswer<Sheet>(api("explain", { src: words.src, at: words.at }), props.stamp);
	return (
		<section class="card wide">
			<Shown answer={answer}>
				{(sheet) => {
					const sums = new Map<string, number>();
					for (const l of sheet.lines)
						sums.set(l.class, (sums.get(l.class) ?? 0) + l.bytes);
					const list = [...sums].filter(([, v]) => v > 0.004 * sheet.rss_bytes).sort((a, b) => b[1] - a[1]);
					return (
						<>
							<h2 tabIndex={-1} data-first="">
								Resident memory {props.now ? <Ago sheet={sheet} /> : `${moment(sheet.time_ns)} after the start`}: {bytes(sheet.rss_bytes)}
								<span class="second">
									{" "}
									= {sheet.lines.length} lines + {bytes(sheet.unexplained_bytes)} unexplained
								</span>
							</h2>
							<SheetBar sheet={sheet} />
							<div class="balance-lines">
								{list.map(([name, v]) => (
									<a key={name} class="balance-line" href={link({ s: `${name}|${sheet.lines.find((l) => l.class === name)!.label}` }, "balance")}>
										<span class="swatch" style={{ background: classColour(theme, name) }} />
										<Explained term="" more={CLASSES[name]?.text} value={v} unit="bytes">
											{CLASSES[name]?.label ?? plain(name)}
										</Explained>
										<b>{bytes(v)}</b>
										<span class="second">{percent(v, sheet.rss_bytes)}</span>
									</a>
								))}
							</div>
							<Verdict sheet={sheet}>
								<a href={link({}, "balance")}>The whole sheet</a>
							</Verdict>
						</>
					);
				}}
			</Shown>
		</section>
	);
}

function Command(props: { text: string }): JSX.Element {
	const [all, setAll] = useState(false);
	const long = props.text.length > 240;
	return (
		<>
			{long && !all ? `${props.text.slice(0, 200)}…` : props.text}{" "}
			{long && (
				<button type="button" class="link-button plain-font" aria-expanded={all} onClick={() => setAll(!all)}>
					{all ? "less" : "all of it"}
				</button>
			)}
		</>
	);
}

function Top(props: { stamp: number }): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const cost = costOf(words);
	const meta = COSTS.find((c) => c.value === cost)!;
	const column = COST_COLUMN[cost];
	const answer = useAnswer<RowsAnswer>(api("rows", { ...words, by: "function", limit: undefined }, { limit: 6, sort: column }), props.stamp);
	useEffect(() => {
		if (answer.data)
			head.set(answer.data);
	}, [answer.data]);
	return (
		<section class="card">
			<h2>
				Who asked for it <span class="second">({meta.label}, by the function that called the allocator)</span>
			</h2>
			<Shown answer={answer}>
				{(data) => (
					<ol class="top-list">
						{(data.rows.frame ?? []).map((f, i) => {
							const facts = frameFacts(data, f);
							const value = (data.rows[column] as number[])[i];
							const blocks = (data.rows[cost === "live" ? "live_allocations" : "allocations"] as number[] | undefined)?.[i];
							return value > 0 ? (
								<li key={data.rows.key?.[i]}>
									<a href={link({ f: facts?.key, n: undefined, s: undefined }, "function")} title={facts?.name}>
										<span class="dot" style={{ background: theme.boxes[facts?.category ?? 7] }} />
										<span class="name">{facts?.short || facts?.name || "?"}</span>
										<span class="where">{facts?.module}</span>
									</a>
									<b title={exact(value, meta.unit)}>{amount(value, meta.unit)}</b>
									<span class="second">{percent(value, data.total)}</span>
									<Bar part={value} whole={data.total} colour={theme.boxes[facts?.category ?? 7]} />
									<span class="second small-text">
										{CATEGORY_LABELS[facts?.category ?? 7]}
										{blocks ? ` · ${plural(blocks, cost === "live" ? "live block" : "allocation")}` : ""}
									</span>
								</li>
							) : null;
						})}
					</ol>
				)}
			</Shown>
			<p>
				<a href={link({ sort: column, by: undefined }, "table")}>All in the table</a> · <a href={link({}, "flame")}>as a flame</a>
			</p>
		</section>
	);
}

/** familyOf - the recordings of one family, parents before their children; null where @from is alone. */
export function familyOf(sources: Source[], from: Source): { source: Source; depth: number }[] | null {
	const at = new Map(sources.map((s) => [s.id, s]));
	const kids = new Map<number | null, Source[]>();
	for (const s of sources) {
		const parent = s.parent !== null && s.parent !== s.id && at.has(s.parent) ? s.parent : null;
		kids.set(parent, [...(kids.get(parent) ?? []), s]);
	}
	let root = from;
	for (let steps = 0; root.parent !== null && at.has(root.parent) && steps < sources.length; steps++)
		root = at.get(root.parent)!;
	const list: { source: Source; depth: number }[] = [];
	const walk = (s: Source, depth: number) => {
		if (list.length < 2000 && !list.some((l) => l.source === s)) {
			list.push({ source: s, depth });
			(kids.get(s.id) ?? []).sort((a, b) => (a.start_realtime_ns ?? 0) - (b.start_realtime_ns ?? 0)).forEach((k) => walk(k, depth + 1));
		}
	};
	walk(root, 0);
	return list.length > 1 ? list : null;
}

/** MoreData - views that are absent here, and the command that would have recorded, or shows, what they show. */
function MoreData(props: { from: Source }): JSX.Element | null {
	const { from } = props;
	const running = from.ended === false;
	const pid = running && from.pid ? String(from.pid) : "PID";
	const program = baseName(plain(from.exe ?? "")) || "PROGRAM";
	const list: [boolean, string, string][] = [
		[offered("balance", from), "Balance: RSS as lines that add up", running ? `byteledger explain -p ${pid}` : `byteledger run -- ${program} …`],
		[offered("regions", from), "Regions: a running process by mapping", `byteledger serve -p ${pid}`],
		[offered("pages", from), "Pages: who touched each resident page", `byteledger pages --serve -p ${pid}`],
		[offered("sampler", from), "Sampler: a running process without a restart", `byteledger sample --serve -p ${pid}`],
		[offered("messages", from), "Messages, Connections, Logs of a node, on this time axis", `byteledger serve ${baseName(plain(from.name)) || "FILE"} STORE`],
	];
	const absent = list.filter(([there]) => !there);
	return absent.length ? (
		<details class="more-data">
			<summary>More data: what would record it</summary>
			<dl>
				{absent.map(([, what, command]) => (
					<>
						<dt key={what}>{what}</dt>
						<dd>
							<code>{command}</code>
						</dd>
					</>
				))}
			</dl>
		</details>
	) : null;
}

const READ_MAX = 200;

function Family(props: { from: Source; stamp: number }): JSX.Element | null {
	const { sources } = useStore(known);
	const [peaks, setPeaks] = useState<ReadonlyMap<number, number>>(new Map());
	const list = familyOf(sources ?? [], props.from);
	// who forked whom is known of what was read: each is read once, while this view is looked at
	const unread = (sources ?? []).filter((s) => s.length_ns === null && !s.error && (s.kind === null || s.kind === "recording")).length;
	useEffect(() => {
		const control = new AbortController();
		void (async () => {
			const rest = (known.get().sources ?? []).filter((s) => s.length_ns === null && !s.error).slice(0, READ_MAX);
			for (const s of rest)
				await ask<Summary>(api("summary", { src: String(s.id) }), control.signal).catch(() => null);
			if (rest.length && !control.signal.aborted)
				void loadSources();
		})();
		return () => control.abort();
	}, [unread > 0]);
	useEffect(() => {
		const control = new AbortController();
		void (async () => {
			// the largest are what one looks for: a summary each, one after the other, 40 at most
			for (const { source: s } of (list ?? []).slice(0, 40)) {
				const summary = await ask<Summary>(api("summary", { src: String(s.id) }), control.signal).catch(() => null);
				if (control.signal.aborted)
					return;
				if (summary)
					setPeaks((old) => new Map([...old, [s.id, summary.totals.peak_bytes]]));
			}
		})();
		return () => control.abort();
	}, [list?.length, props.stamp]);
	if (!list)
		return null;
	const most = Math.max(1, ...peaks.values());
	return (
		<section class="card">
			<h2>
				The family <span class="second">({count(list.length)} processes that were recorded)</span>
			</h2>
			<ol class="family">
				{list.map(({ source: s, depth }) => (
					<li key={s.id} style={{ paddingLeft: `${Math.min(depth, 12) * 16}px` }} aria-current={s.id === props.from.id ? "true" : undefined}>
						<a href={link({ src: String(s.id), n: undefined, s: undefined }, "overview")}>
							{depth ? "└ " : ""}
							<b>{baseName(plain(s.exe ?? s.name))}</b> <span class="second">{s.pid}{s.length_ns ? `, ${duration(s.length_ns)}` : ""}</span>
						</a>
						{peaks.has(s.id) && (
							<>
								<Explained term="peak" value={peaks.get(s.id)} unit="bytes">
									{bytes(peaks.get(s.id)!)}
								</Explained>
								<Bar part={peaks.get(s.id)!} whole={most} />
							</>
						)}
					</li>
				))}
			</ol>
		</section>
	);
}

/** Watched - a running process that nothing records: what is resident of it, as of the last look, and since it is watched. */
function Watched(props: { from: Source; timeline: ViewProps["timeline"]; stamp: number }): JSX.Element {
	const { from } = props;
	return (
		<Shown answer={props.timeline}>
			{(line) => {
				const last = (name: string) => line.series[name]?.last.at(-1);
				return (
					<div class="overview">
						<div class="key-figures">
							<Figure label="RSS" term="rss" value={last("rss")} unit="bytes" more={`highest since it is watched: ${bytes(Math.max(0, ...(line.series.rss?.max ?? []).map((v) => v ?? 0)))}`} href={link({}, "regions")} />
							{["anon", "file", "shmem", "swap", "virtual"].map((name) => (
								<Figure key={name} label={name} term={name} value={last(name)} unit="bytes" />
							))}
							<Figure label="watched for" term="" value={line.length_ns} unit="ns" />
						</div>
						<div class="cards facing">
							{offered("balance", from) && from.ended === false ? <SheetCard stamp={Math.floor(props.stamp / 10)} now /> : null}
							<section class="card">
								<h2>The program</h2>
								<dl class="facts">
									<dt>process</dt>
									<dd>{plain(from.name)} {from.pid}{from.ended ? ", ended" : ""}</dd>
									{from.start_realtime_ns ? (
										<>
											<dt>watched since</dt>
											<dd>{wallDay(from.start_realtime_ns / 1e6)}</dd>
										</>
									) : null}
									<dt>allocations</dt>
									<dd class="wrap">not recorded: <code>byteledger heap -p {from.pid}</code> records them from then on</dd>
								</dl>
								<MoreData from={from} />
							</section>
						</div>
					</div>
				);
			}}
		</Shown>
	);
}

export function Overview(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const from = source();
	const has = from?.has?.includes("heap");
	const answer = useAnswer<Summary>(has ? api("summary", { src: words.src }) : null, props.stamp);
	props.expose({ json: answer.of ?? undefined, csv: answer.data ? () => saveRows("summary", [["figure", "value"], ...Object.entries(answer.data!.totals).map(([k, v]) => [k, Number(v)])]) : undefined });
	if (!from)
		return (
			<Empty>
				<b>There is nothing to show yet.</b>
			</Empty>
		);
	if (from.error)
		return (
			<Empty>
				<b>{plain(from.name)} cannot be read.</b>
				<p>{plain(from.error)}</p>
			</Empty>
		);
	if (!has && from.has?.includes("rss"))
		return <Watched from={from} timeline={props.timeline} stamp={props.stamp} />;
	if (!has)
		return (
			<Empty>
				<b>{plain(from.name)} holds no heap recording.</b>
				<p>The views at the left show what there is.</p>
			</Empty>
		);
	return (
		<Shown answer={answer}>
			{(s) => {
				const t = s.totals;
				const start = from.start_realtime_ns;
				return (
					<div class="overview">
						{s.warning && <Note kind="warn">{plain(s.warning)}</Note>}
						{!t.allocations && <Empty><b>Nothing yet: no call was made.</b></Empty>}
						<div class="key-figures">
							<Figure label="heap peak" term="peak" value={t.peak_bytes} unit="bytes" more={`after ${duration(t.peak_time_ns)}`} href={link({ at: "peak", cost: undefined }, "flame")} />
							{t.peak_rss_bytes ? <Figure label="peak RSS" term="peak_rss" value={t.peak_rss_bytes} unit="bytes" more="the kernel's own figure" /> : null}
							<Figure label="allocations" term="allocations" value={t.allocations} unit="blocks" more={`${bytes(t.allocated_bytes)} in all`} href={link({ cost: "allocations", at: undefined }, "flame")} />
							<Figure label="temporary" term="temporary" value={t.temporary_allocations} unit="blocks" more={percent(t.temporary_allocations, t.allocations)} href={link({ cost: "temporary", at: undefined, inverted: "1" }, "flame")} />
							<Figure label={s.ended ? "leaked" : "live now"} term="leaked" value={t.leaked_bytes} unit="bytes" more={plural(t.leaked_allocations, "block")} href={link({ cost: "leaked", at: undefined }, "flame")} />
							<Figure label="runtime" term="runtime" value={s.process.runtime_ns} unit="ns" more={`${count(t.threads)} ${t.threads === 1 ? "thread" : "threads"}, ${count(t.stacks)} stacks`} />
						</div>
						<div class="cards facing">
							{offered("balance", from) ? <SheetCard stamp={props.stamp} /> : <Balance timeline={props.timeline} summary={s} />}
							<Top stamp={props.stamp} />
							<div class="column">
							<Family from={from} stamp={props.stamp} />
							<section class="card">
								<h2>The program</h2>
								<dl class="facts">
									<dt>command</dt>
									<dd class="mono wrap"><Command text={s.process.cmdline?.length ? s.process.cmdline.map((w) => shellWord(plain(w))).join(" ") : plain(s.process.exe)} /></dd>
									<dt>executable</dt>
									<dd class="mono wrap">{plain(s.process.exe)}</dd>
									<dt>process</dt>
									<dd>{s.process.pid}</dd>
									{start ? (
										<>
											<dt>started</dt>
											<dd>{wallDay(start / 1e6)}</dd>
										</>
									) : null}
									<dt>end</dt>
									<dd>{endOf(s)}</dd>
									<dt>
										<Explained term="frees" focus>
											frees
										</Explained>
									</dt>
									<dd title={grouped(t.frees)}>
										{count(t.frees)}
										{t.foreign_frees ? `, and ${count(t.foreign_frees)} of blocks never seen made` : ""}
									</dd>
									<dt>
										<Explained term="lost" focus>
											lost
										</Explained>
									</dt>
									<dd>
										{s.lost.events ? <a href={link({}, "losses")}>{count(s.lost.events)} events</a> : "nothing"}
										{s.partial.events ? (
											<>
												{" · "}
												<a href={link({}, "losses")}>{count(s.partial.events)} partial stacks</a>
											</>
										) : null}
									</dd>
									<dt>file</dt>
									<dd class="wrap">{plain(from.name)}</dd>
								</dl>
								<MoreData from={from} />
							</section>
							</div>
						</div>
					</div>
				);
			}}
		</Shown>
	);
}

export function Losses(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const answer = useAnswer<Summary>(api("summary", { src: words.src }), props.stamp);
	useEffect(() => {
		if (answer.data)
			head.set(answer.data);
	}, [answer.data]);
	props.expose({
		json: answer.of ?? undefined,
		csv: answer.data ? () => saveRows("losses", [["what", "reason", "events"], ...Object.entries(answer.data!.lost.by_reason).map(([r, n]) => ["lost", r, n]), ...Object.entries(answer.data!.partial.by_reason).map(([r, n]) => ["partial", r, n])]) : undefined,
	});
	const reasons = (of: Record<string, number>) =>
		Object.entries(of)
			.filter(([, n]) => n > 0)
			.sort((a, b) => b[1] - a[1]);
	const table = (title: string, term: string, events: number, of: Record<string, number>, changes: string, none: string) => (
		<section class="card">
			<h2>
				<Explained term={term} focus>
					{title}
				</Explained>
				: {events ? count(events) : "none"}
			</h2>
			{events ? (
				<>
					<table class="panel-table">
						<tbody>
							{reasons(of).map(([reason, n]) => (
								<tr key={reason}>
									<th scope="row">{plain(reason).replace(/_/g, " ")}</th>
									<td title={grouped(n)}>{count(n)}</td>
									<td>{percent(n, events)}</td>
								</tr>
							))}
						</tbody>
					</table>
					<p class="second">{changes}</p>
				</>
			) : (
				<p class="second">{none}</p>
			)}
		</section>
	);
	return (
		<Shown answer={answer}>
			{(s) => (
				<div class="overview">
					<div class="cards">
						{table("Lost events", "lost", s.lost.events, s.lost.by_reason, "Totals lack these; blocks live when a free was lost count as uncertain, not as leaked.", "Every call that the hooks saw is in the recording.")}
						{table("Partial stacks", "partial", s.partial.events, s.partial.by_reason, `${percent(s.partial.events, s.totals.allocations)} of the allocations. They are counted in full; who called them is not known beyond the point where the walk stopped.`, "Every stack was walked to its end.")}
						<section class="card">
							<h2>
								<Explained term="culled" focus>
									Kept as sums only
								</Explained>
								: {s.culled.allocations ? count(s.culled.allocations) : "none"}
							</h2>
							<p class="second">{s.culled.allocations ? `${bytes(s.culled.bytes)} of short-lived blocks: in all totals, not in lists of single blocks.` : "Every block is in the recording by itself."}</p>
						</section>
						<section class="card">
							<h2>
								<Explained term="sampled" focus>
									Sampled
								</Explained>
								: {s.sampled ? "yes" : "no"}
							</h2>
							<p class="second">{s.sampled ? `A stack for each ${bytes(s.sampled.every_bytes)}: figures are estimates.` : "Figures are exact."}</p>
						</section>
						<section class="card">
							<h2>Its end: {s.process.complete ? "complete" : s.ended ? "broken off" : "still running"}</h2>
							<p class="second">{endOf(s)}.</p>
							{s.warning && <p>{plain(s.warning)}</p>}
						</section>
					</div>
				</div>
			)}
		</Shown>
	);
}
