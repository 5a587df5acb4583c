// SPDX-License-Identifier: Apache-2.0
// The balance sheet: RSS as lines that add up to the byte, each with its stacks, what lies beside it, and what would help.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, copy, download, fileStem, go, head, place, source } from "../app.ts";
import { useAnswer } from "../api/client.ts";
import { colours, type Colours } from "../lib/colours.ts";
import { bytes, csvCell, duration, exact, grouped, moment, percent, plain, plural, signed } from "../lib/format.ts";
import { svgOf, savePng } from "../lib/pictures.ts";
import { useStore } from "../lib/store.ts";
import { CLASSES } from "../lib/terms.ts";
import { Bar, Explained, Shown, showTip } from "../parts/basics.tsx";
import { second } from "../parts/live.ts";
import { frameName, PlainFrames, plainStack, shortName, type PlainFrame } from "../parts/books.tsx";
import type { ViewProps } from "./props.ts";

export interface SheetStack {
	frames: PlainFrame[];
	name?: string;
	bytes: number;
	blocks?: number;
	live_bytes?: number;
	unit_bytes?: number;
	alone_bytes?: number;
	age_ns?: number[];
}
export interface SheetLine {
	class: string;
	label: string;
	bytes: number;
	exact?: boolean;
	how?: string;
	private_bytes?: number;
	shared_bytes?: number;
	stacks: SheetStack[];
	folded_stacks?: number;
	folded_bytes?: number;
}
export interface Sheet {
	pid: number;
	comm?: string;
	time_ns: number;
	snapshot_age_ns?: number;
	/** Since it was read, when it was answered. */
	age_ns?: number;
	rss_bytes: number;
	pss_bytes?: number | null;
	recorded?: boolean;
	lines: SheetLine[];
	unexplained_bytes: number;
	instant?: { mode: string; window_ns?: number; stall_ns?: number };
	beside?: SheetLine[];
	occupancy?: { from: number; to: number; bytes: number; units: number }[];
	top_pins?: { arena: number; frames: PlainFrame[]; age_ns?: number; free_below_bytes?: number; top_bytes?: number }[];
	advice?: { id: string; saves_bytes: number | null; bound: string; text: string; command?: string | null; evidence?: string | null }[];
	not_advised?: { id: string; why: string }[];
	verdict?: string[];
	contradictions?: { blocks: number; share: number; unrecorded_bytes: number };
	checks?: { name: string; bytes: number; difference_bytes: number }[];
}

/** Which of the eight colours a class has: used, its rounding, what is free in the allocator, others by owner. */
export function classColour(theme: Colours, name: string): string {
	const at: Record<string, number> = {
		"heap-live": 0, "heap-waste": 4, "allocator-free-pages": 2, "allocator-holes": 5, "allocator-caches": 2, "allocator-metadata": 3, "runtime-heap": 1, "anonymous-mmap": 6,
		"named-regions": 6, "thread-stacks": 4, "program-and-library-data": 1, "file-mappings": 6, "shared-memory": 3, "huge-pages": 5, "kernel-instrumentation": 5, byteledger: 7,
	};
	return theme.boxes[at[name] ?? 7];
}

function keyOf(l: SheetLine): string {
	return `${l.class}|${l.label}`;
}

/** classesOf - lines by class, in the order of the sheet. */
function classesOf(lines: SheetLine[]): { name: string; bytes: number; lines: SheetLine[] }[] {
	const out: { name: string; bytes: number; lines: SheetLine[] }[] = [];
	for (const l of lines) {
		let c = out.find((o) => o.name === l.class);
		if (!c)
			out.push((c = { name: l.class, bytes: 0, lines: [] }));
		c.bytes += l.bytes;
		c.lines.push(l);
	}
	return out;
}

/** Ago - how long ago a running process was read: a sheet is kept for some seconds, while its memory goes on. */
export function Ago(props: { sheet: Sheet }): JSX.Element {
	useStore(second);
	const came = useMemo(() => Date.now(), [props.sheet]);
	const age = Math.round(((props.sheet.age_ns ?? 0) / 1e6 + Date.now() - came) / 1000);
	return <>{age < 2 ? "now" : `${age} s ago`}</>;
}

export function SheetBar(props: { sheet: Sheet }): JSX.Element {
	const { sheet } = props;
	const theme = useStore(colours);
	const classes = classesOf(sheet.lines);
	return (
		<div class="balance" role="img" aria-label={classes.map((c) => `${CLASSES[c.name]?.label ?? c.name} ${bytes(c.bytes)}`).join(", ")}>
			{classes.map((c) =>
				c.bytes > 0 ? (
					<span
						key={c.name}
						style={{ flexGrow: Math.max(c.bytes, sheet.rss_bytes * 0.002), background: classColour(theme, c.name) }}
						onMouseMove={(e) =>
							showTip({
								x: e.clientX, y: e.clientY,
								body: (
									<>
										<strong>
											{CLASSES[c.name]?.label ?? c.name}: {bytes(c.bytes)}, {percent(c.bytes, sheet.rss_bytes)}
										</strong>
										<p>{CLASSES[c.name]?.text}</p>
									</>
								),
							})
						}
						onMouseLeave={() => showTip(null)}
						onClick={() => go({ s: keyOf(c.lines[0]) }, "balance", true)}
					/>
				) : null,
			)}
		</div>
	);
}

/** The sheet in plain words, as the command says them: what is used, what is free and kept, of how much nothing is known. */
export function Verdict(props: { sheet: Sheet; children?: ComponentChildren }): JSX.Element | null {
	const { verdict } = props.sheet;
	return verdict?.length ? (
		<p class="verdict">
			{verdict.map((v) => plain(v)).join(" ")} {props.children}
		</p>
	) : null;
}

export function BalanceView(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const answer = useAnswer<Sheet>(api("explain", { src: words.src, at: words.at, by: words.by }), props.stamp);
	useEffect(() => head.set(null), []);
	const sheet = answer.data;
	const all = sheet ? [...sheet.lines, ...(sheet.beside ?? [])] : [];
	const chosen = words.s ? all.find((l) => keyOf(l) === words.s) : undefined;
	const csv = () => {
		const rows = [["class", "label", "bytes", "exact", "private_bytes", "shared_bytes", "how"], ...sheet!.lines.map((l) => [l.class, l.label, l.bytes, String(l.exact ?? ""), l.private_bytes ?? null, l.shared_bytes ?? null, l.how ?? ""]), ["unexplained", "", sheet!.unexplained_bytes, "", null, null, ""]];
		download(`${fileStem()}-balance.csv`, rows.map((r) => r.map(csvCell).join(",")).join("\r\n") + "\r\n", "text/csv");
	};
	const picture = (kind: "svg" | "png") => {
		let x = 8;
		const W = 1184;
		const classes = classesOf(sheet!.lines).filter((c) => c.bytes > 0);
		const boxes = classes.map((c) => {
			const w = (c.bytes / sheet!.rss_bytes) * W;
			const box = { x, y: 0, w: Math.max(0.5, w - 0.6), h: 40, colour: classColour(theme, c.name), label: "", title: `${CLASSES[c.name]?.label ?? c.name}: ${bytes(c.bytes)}` };
			x += w;
			return box;
		});
		const rows = classes.map((c, i) => ({ x: 8, y: 52 + i * 22, w: 14, h: 14, colour: classColour(theme, c.name), label: `      ${CLASSES[c.name]?.label ?? c.name}   ${bytes(c.bytes)}   ${percent(c.bytes, sheet!.rss_bytes)}`, title: c.name }));
		const svg = svgOf([...boxes, ...rows], 1200, 64 + classes.length * 22, [`byteledger · ${fileStem()}`, `resident: ${bytes(sheet!.rss_bytes)} at ${moment(sheet!.time_ns, 1e9)}, unexplained ${bytes(sheet!.unexplained_bytes)}`], theme.text, theme.bg);
		if (kind === "svg")
			download(`${fileStem()}-balance.svg`, svg, "image/svg+xml");
		else
			void savePng(svg, `${fileStem()}-balance.png`, 1200, 64 + classes.length * 22 + 52);
	};
	props.expose({
		loaded: sheet ? `${sheet.lines.length} lines` : "",
		json: answer.of ?? undefined,
		csv: sheet ? csv : undefined,
		svg: sheet ? () => picture("svg") : undefined,
		png: sheet ? () => picture("png") : undefined,
		panel: chosen ? <LinePanel line={chosen} rss={sheet!.rss_bytes} stacks={chosen.stacks.length ? chosen.stacks : []} /> : null,
	});
	return <Shown answer={answer}>{(s) => <SheetBody sheet={s} />}</Shown>;
}

function SheetBody(props: { sheet: Sheet }): JSX.Element {
	const { sheet } = props;
	const { words } = useStore(place);
	const theme = useStore(colours);
	const [open, setOpen] = useState<Set<string>>(new Set());
	const classes = classesOf(sheet.lines);
	const R = sheet.rss_bytes;
	const wrong = (sheet.checks ?? []).filter((c) => c.name !== "walk_live" && c.difference_bytes !== 0);
	return (
		<div class="overview sheet">
			<section class="card">
				<div class="sheet-head">
					<div>
						<h2>
							{bytes(R)} resident, {percent(R - Math.abs(sheet.unexplained_bytes), R)} explained
						</h2>
						<p class="second">
							{plain(sheet.comm ?? "")} {sheet.pid}, {source()?.kind === "process" ? <>as it runs, read <Ago sheet={sheet} /></> : `${moment(sheet.time_ns, 1e9)} after its start`}
							{sheet.snapshot_age_ns ? ` · taken ${duration(sheet.snapshot_age_ns)} from the moment asked for` : ""}
							{sheet.instant ? ` · read ${sheet.instant.mode === "frozen" ? "while it stood still" : "while it ran"}${sheet.instant.window_ns ? `, within ${duration(sheet.instant.window_ns)}` : ""}` : ""}
						</p>
					</div>
					<span class="grow" />
					<label class="chip select" title="by what the stacks of a line are put together">
						<span class="second">stacks by</span>
						<select aria-label="stacks by" value={words.by ?? "function"} onChange={(e) => go({ by: e.currentTarget.value, s: undefined })}>
							{["function", "stack", "module", "file", "line"].map((b) => (
								<option key={b} value={b}>
									{b}
								</option>
							))}
						</select>
					</label>
				</div>
				<Verdict sheet={sheet} />
				<SheetBar sheet={sheet} />
				<table class="ledger">
					<thead>
						<tr>
							<th scope="col">line</th>
							<th scope="col" class="num">bytes</th>
							<th scope="col" class="num">of RSS</th>
							<th scope="col" class="wide-cell" />
							<th scope="col" class="wide-cell">known by</th>
						</tr>
					</thead>
					<tbody>
						{classes.map((c) => {
							const many = c.lines.length > 1;
							const is = open.has(c.name);
							const first = c.lines[0];
							const meta = CLASSES[c.name];
							const row = (l: SheetLine, sub: boolean) => (
								<tr key={keyOf(l)} class={`${sub ? "sub" : ""} ${words.s === keyOf(l) ? "selected" : ""}`}>
									<th scope="row">
										<button type="button" class="line-name" onClick={() => go({ s: keyOf(l) }, undefined, true)}>
											{plain(l.label)}
										</button>
									</th>
									<td class="num" title={exact(l.bytes, "bytes")}>{bytes(l.bytes)}</td>
									<td class="num second">{percent(l.bytes, R)}</td>
									<td class="wide-cell"><Bar part={l.bytes} whole={R} colour={classColour(theme, c.name)} /></td>
									<td class="second wide-cell">{l.exact === false ? "≈ " : ""}{plain(l.how ?? "")}</td>
								</tr>
							);
							return (
								<>
									<tr key={c.name} class={`class ${words.s === keyOf(first) && !many ? "selected" : ""}`}>
										<th scope="row">
											<div class="line">
											{many ? (
												<button
													type="button"
													class={`twisty ${is ? "open" : ""}`}
													aria-expanded={is}
													aria-label={`${is ? "close" : "open"} ${meta?.label ?? c.name}`}
													onClick={() => setOpen(new Set(is ? [...open].filter((o) => o !== c.name) : [...open, c.name]))}
												/>
											) : (
												<span class="twisty none" />
											)}
											<span class="dot" style={{ background: classColour(theme, c.name) }} />
											<button type="button" class="line-name" onClick={() => go({ s: keyOf(first) }, undefined, true)}>
												<Explained term="" more={meta?.text}>{meta?.label ?? plain(c.name)}</Explained>
											</button>
											{!many && meta?.label !== first.label && <span class="where"> {plain(first.label)}</span>}
											{first.stacks.length > 0 && <span class="second small-text"> {plural(first.stacks.length + (first.folded_stacks ?? 0), words.by ?? "function")}</span>}
											</div>
										</th>
										<td class="num" title={exact(c.bytes, "bytes")}>
											<b>{bytes(c.bytes)}</b>
										</td>
										<td class="num">{percent(c.bytes, R)}</td>
										<td class="wide-cell"><Bar part={c.bytes} whole={R} colour={classColour(theme, c.name)} /></td>
										<td class="second wide-cell">{many ? `${c.lines.length} lines` : `${first.exact === false ? "≈ " : ""}${plain(first.how ?? "")}`}</td>
									</tr>
									{many && is && c.lines.map((l) => row(l, true))}
								</>
							);
						})}
						<tr class="class">
							<th scope="row">
								<div class="line">
									<span class="twisty none" />
									<span class="dot" style={{ background: "transparent", border: "1px solid var(--second)" }} />
									<Explained term="unexplained_line">unexplained</Explained>
								</div>
							</th>
							<td class="num" title={exact(sheet.unexplained_bytes, "bytes")}>
								<b>{sheet.unexplained_bytes < 0 ? signed(sheet.unexplained_bytes, "bytes") : bytes(sheet.unexplained_bytes)}</b>
							</td>
							<td class="num">{percent(Math.abs(sheet.unexplained_bytes), R)}</td>
							<td class="wide-cell" />
							<td class="second wide-cell">no evidence, and what moved while it was read</td>
						</tr>
					</tbody>
					<tfoot>
						<tr>
							<th scope="row">RSS, the kernel's own figure</th>
							<td class="num" title={exact(R, "bytes")}>
								<b>{bytes(R)}</b>
							</td>
							<td class="num">100 %</td>
							<td class="wide-cell" />
							<td class="second wide-cell">{wrong.length ? wrong.map((c) => `${c.name.replace(/_/g, " ")} differs by ${signed(c.difference_bytes, "bytes")}`).join(", ") : `Σ = ${grouped(R)} bytes, to the byte`}</td>
						</tr>
					</tfoot>
				</table>
			</section>
			<div class="cards">
				{!!sheet.advice?.length && (
					<section class="card">
						<h2>What would help</h2>
						<ol class="advice">
							{sheet.advice.map((a) => (
								<li key={a.id}>
									<p>
										<b>{plain(a.text)}</b>
									</p>
									{a.saves_bytes !== null && (
										<p>
											saves {a.bound === "exact" ? "" : a.bound === "at-most" ? "at most " : "perhaps "}
											<b title={exact(a.saves_bytes, "bytes")}>{bytes(a.saves_bytes)}</b> <span class="second">({percent(a.saves_bytes, R)} of RSS)</span>
										</p>
									)}
									{a.command && (
										<p class="advice-command">
											<code>{plain(a.command)}</code>
											<button type="button" class="link-button" onClick={() => void copy(a.command!, "command")}>copy</button>
										</p>
									)}
									{a.evidence && <p class="second small-text">{plain(a.evidence)}</p>}
								</li>
							))}
						</ol>
						{!!sheet.not_advised?.length && <p class="second small-text">Of no use here: {sheet.not_advised.map((n) => `${plain(n.id)} (${plain(n.why)})`).join(", ")}.</p>}
					</section>
				)}
				{!!sheet.beside?.some((b) => b.bytes) && (
					<section class="card">
						<h2>
							Beside RSS <span class="second">(not part of the sum)</span>
						</h2>
						<table class="panel-table">
							<tbody>
								{sheet.beside.filter((b) => b.bytes).map((b) => (
									<tr key={keyOf(b)}>
										<th scope="row">
											<button type="button" class="link-button" onClick={() => go({ s: keyOf(b) }, undefined, true)}>{plain(b.label)}</button>
										</th>
										<td title={exact(b.bytes, "bytes")}>{bytes(b.bytes)}</td>
									</tr>
								))}
							</tbody>
						</table>
					</section>
				)}
				{!!sheet.occupancy?.some((o) => o.bytes) && (
					<section class="card">
						<h2>
							<Explained term="occupancy">How full are the pages with live blocks?</Explained>
						</h2>
						<div class="occupancy">
							{sheet.occupancy.map((o) => {
								const most = Math.max(...sheet.occupancy!.map((q) => q.bytes), 1);
								return (
									<div key={o.from} class="occupancy-row">
										<span class="second">{Math.round(o.from * 100)}-{Math.round(o.to * 100)} %</span>
										<Bar part={o.bytes} whole={most} colour={o.to <= 0.3 ? theme.boxes[5] : theme.boxes[0]} />
										<span class="num">{o.bytes ? bytes(o.bytes) : <span class="faint">0</span>}</span>
									</div>
								);
							})}
						</div>
					</section>
				)}
				{!!sheet.top_pins?.length && (
					<section class="card">
						<h2>What holds the heap's top</h2>
						<ol class="advice">
							{sheet.top_pins.slice(0, 3).map((p, i) => (
								<li key={i}>
									<b>{shortName(frameName(p.frames[0]))}</b> <span class="second">arena {p.arena}{p.age_ns ? `, ${duration(p.age_ns)} old` : ""}</span>
									{p.free_below_bytes !== undefined && <p class="second">{bytes(p.free_below_bytes)} lie free below it{p.top_bytes ? `, ${bytes(p.top_bytes)} above` : ""}</p>}
								</li>
							))}
						</ol>
					</section>
				)}
			</div>
		</div>
	);
}

function LinePanel(props: { line: SheetLine; rss: number; stacks: SheetStack[] }): JSX.Element {
	const { line } = props;
	const [most, setMost] = useState(20);
	const [chosen, setChosen] = useState(0);
	const from = source();
	const meta = CLASSES[line.class];
	const held = line.class === "allocator-holes";
	return (
		<div class="panel-body">
			<h2 class="panel-name">{plain(line.label)}</h2>
			<p class="second">
				{meta?.label ?? plain(line.class)}: {meta?.text}
			</p>
			<dl class="facts">
				<dt>bytes</dt>
				<dd>
					{bytes(line.bytes)} <span class="second">({grouped(line.bytes)}, {percent(line.bytes, props.rss)} of RSS)</span>
				</dd>
				{line.how && (
					<>
						<dt>known by</dt>
						<dd>{plain(line.how)}{line.exact === false ? " (an estimate)" : ""}</dd>
					</>
				)}
				{line.shared_bytes ? (
					<>
						<dt>shared</dt>
						<dd>{bytes(line.shared_bytes)}, private {bytes(line.private_bytes ?? line.bytes - line.shared_bytes)}</dd>
					</>
				) : null}
			</dl>
			{props.stacks.length > 0 ? (
				<>
					<h3>{held ? "Held by blocks of" : line.class === "anonymous-mmap" ? "Mapped by" : "Asked for by"}</h3>
					<ol class="stack-list">
						{props.stacks.slice(0, most).map((s, i) => (
							<li key={i} class={i === chosen ? "on" : ""}>
								<button type="button" aria-pressed={i === chosen} onClick={() => setChosen(i)}>
									<b title={exact(s.bytes, "bytes")}>{bytes(s.bytes)}</b>
									<span class="name">{s.frames.length ? s.frames.slice(0, 3).map((f) => shortName(frameName(f))).join(" ← ") : plain(s.name ?? "unknown")}</span>
									<span class="second small-text">
										{s.blocks ? plural(s.blocks, "block") : ""}
										{s.alone_bytes ? ` · alone on ${bytes(s.alone_bytes)}` : ""}
										{s.age_ns?.[1] ? ` · half younger than ${duration(s.age_ns[1])}` : ""}
									</span>
								</button>
							</li>
						))}
					</ol>
					{props.stacks.length > most && (
						<button type="button" class="link-button" onClick={() => setMost(most + 100)}>
							{grouped(props.stacks.length - most)} more
						</button>
					)}
					{props.stacks.length <= most && line.folded_stacks ? (
						<p class="second small-text">{grouped(line.folded_stacks)} smaller ones with {bytes(line.folded_bytes ?? 0)} are not listed here.</p>
					) : null}
					{props.stacks[chosen] && (
						<>
							<PlainFrames frames={props.stacks[chosen].frames} title={props.stacks[chosen].frames.length > 1 ? "Stack, innermost first" : "Where"} />
							<div class="actions">
								<button type="button" class="button" onClick={() => void copy(plainStack(props.stacks[chosen].frames), "stack")}>Copy stack</button>
							</div>
						</>
					)}
				</>
			) : (
				from && <p class="second small-text">This line has no stacks: it is not memory that some code of the program asked for by itself.</p>
			)}
		</div>
	);
}
