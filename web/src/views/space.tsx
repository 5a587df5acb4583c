// SPDX-License-Identifier: Apache-2.0
// Where memory lies: mappings that the program made, strips of address space, what is at one address; source lines.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, costOf, download, fileStem, go, head, link, place, saveRows } from "../app.ts";
import { useAnswer } from "../api/client.ts";
import type { AddressAnswer, Head, MapsAnswer, Named, SourceAnswer, SpaceAnswer } from "../api/types.ts";
import { colours } from "../lib/colours.ts";
import { amount, bytes, count, csvCell, duration, exact, grouped, moment, plain, plural } from "../lib/format.ts";
import { saveBoxes } from "../lib/pictures.ts";
import { Store, useStore } from "../lib/store.ts";
import { COSTS } from "../lib/terms.ts";
import { Bar, Empty, Explained, Note, Shown, showTip, useSize } from "../parts/basics.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { Details, frameFacts } from "../parts/panel.tsx";
import type { ViewProps } from "./props.ts";

interface Stacked extends Head, Named {
	stacks: { key: string[]; frames: number[][] };
}
function names(answer: Stacked, stack: number): string[] {
	return (answer.stacks.frames[stack] ?? []).map((f) => plain(answer.frames.short[f]) || plain(answer.frames.name[f]));
}

export function Frames(props: { answer: Stacked; stack: number; title: string }): JSX.Element | null {
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

export function Maps(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const answer = useAnswer<MapsAnswer>(api("maps", { src: words.src, at: words.at, from: words.from, to: words.to, "min-size": words["min-size"], "max-size": words["max-size"] }), props.stamp);
	useEffect(() => {
		if (answer.data)
			head.set(answer.data);
	}, [answer.data]);
	const order = useMemo(() => {
		const m = answer.data?.maps;
		if (!m)
			return [];
		const list = m.address.map((_, i) => i);
		return words.sort === "bytes" ? list.sort((p, q) => m.bytes[q] - m.bytes[p]) : list;
	}, [answer.data, words.sort]);
	const m = answer.data?.maps;
	const end = Math.max(1, props.timeline.data?.time_ns[props.timeline.data.time_ns.length - 1] ?? 1);
	const at = words.s ? order.findIndex((i) => `${m!.address[i]}-${m!.made_ns[i]}` === words.s) : -1;
	const columns: Column<number>[] = m
		? [
				{ key: "addr", label: "address", width: "150px", cell: (i) => <span class="mono">{m.address[i]}</span>, text: (i) => m.address[i] },
				{ key: "bytes", label: <Explained term="mapping">bytes</Explained>, width: "90px", right: true, sortable: true, cell: (i) => <b title={exact(m.bytes[i], "bytes")}>{bytes(m.bytes[i])}</b>, text: (i) => m.bytes[i] },
				{ key: "prot", label: "access", width: "64px", cell: (i) => <span class="mono">{plain(m.prot[i])}</span>, text: (i) => m.prot[i] },
				{
					key: "life", label: "from made to gone", width: "minmax(160px, 0.7fr)",
					cell: (i) => {
						const from = m.made_ns[i] / end;
						const to = (m.gone_ns[i] ?? end) / end;
						return (
							<span class="lifeline" title={`made at ${moment(m.made_ns[i], 1e10)}, ${m.gone_ns[i] === null ? "there to the end" : `gone at ${moment(m.gone_ns[i]!, 1e10)}`}`}>
								<span style={{ left: `${from * 100}%`, width: `${Math.max(0.6, (to - from) * 100)}%`, background: m.gone_ns[i] === null ? theme.link : theme.run }} />
							</span>
						);
					},
				},
				{ key: "made", label: "made", width: "84px", right: true, cell: (i) => moment(m.made_ns[i], 1e10), text: (i) => m.made_ns[i] },
				{ key: "gone", label: "gone", width: "84px", right: true, cell: (i) => (m.gone_ns[i] === null ? <span class="second">there</span> : moment(m.gone_ns[i]!, 1e10)), text: (i) => m.gone_ns[i] },
				{ key: "name", label: "what, made by", width: "minmax(220px, 1fr)", cell: (i) => <>{m.name[i] && <b>{plain(m.name[i])} </b>}{names(answer.data!, m.stack[i]).slice(0, 5).join(" ← ")}</>, text: (i) => `${m.name[i] ?? ""} ${names(answer.data!, m.stack[i]).join(";")}` },
			]
		: [];
	const chosen = at >= 0 ? order[at] : -1;
	props.expose({
		loaded: m ? `${grouped(m.address.length)} mappings` : "",
		json: answer.of ?? undefined,
		csv: m ? () => download(`${fileStem()}-maps.csv`, [["address", "bytes", "prot", "made_ns", "gone_ns", "thread", "name", "stack"], ...order.map((i) => [m.address[i], m.bytes[i], m.prot[i], m.made_ns[i], m.gone_ns[i], m.thread[i], m.name[i], names(answer.data!, m.stack[i]).join(";")])].map((r) => r.map(csvCell).join(",")).join("\r\n") + "\r\n", "text/csv") : undefined,
		panel:
			m && chosen >= 0 ? (
				<Details of={`${answer.of} ${chosen}`} show={() => (
				<>
					<h2 class="panel-name mono">{m.address[chosen]}</h2>
					<dl class="facts">
						<dt>bytes</dt>
						<dd>{bytes(m.bytes[chosen])} <span class="second">({grouped(m.bytes[chosen])})</span></dd>
						<dt>access</dt>
						<dd class="mono">{plain(m.prot[chosen])}</dd>
						<dt>made</dt>
						<dd>{moment(m.made_ns[chosen], 1e9)}, thread {m.thread[chosen]}</dd>
						<dt>gone</dt>
						<dd>{m.gone_ns[chosen] === null ? "there to the end" : `${moment(m.gone_ns[chosen]!, 1e9)}, after ${duration(m.gone_ns[chosen]! - m.made_ns[chosen])}`}</dd>
						{m.name[chosen] && (
							<>
								<dt>name</dt>
								<dd class="wrap">{plain(m.name[chosen])}</dd>
							</>
						)}
					</dl>
					<Frames answer={answer.data!} stack={m.stack[chosen]} title="Made by, innermost first" />
				</>
				)} />
			) : null,
	});
	return (
		<Shown answer={answer}>
			{() =>
				order.length ? (
					<Grid columns={columns} total={order.length} row={(i) => order[i] ?? null} selected={at} sort={words.sort === "bytes" ? "bytes" : undefined} order="desc" label="mappings" onSort={() => go({ sort: words.sort === "bytes" ? undefined : "bytes" })} onSelect={(_i, i) => go({ s: `${m!.address[i]}-${m!.made_ns[i]}` }, undefined, true)} />
				) : (
					<Empty>
						<b>No mappings recorded{words.at ? ` that were there at ${plain(words.at)}` : ""}.</b>
						<p>Mappings that the program itself makes (mmap, brk) are listed here; this one made none in this selection.</p>
					</Empty>
				)
			}
		</Shown>
	);
}

function Strip(props: { strip: SpaceAnswer["strips"][number]; width: number; onCell: (address: string) => void }): JSX.Element {
	const { strip } = props;
	const theme = useStore(colours);
	const canvas = useRef<HTMLCanvasElement>(null);
	const per = Math.max(1, Math.floor(props.width / 5));
	const rows = Math.ceil(strip.used.length / per);
	const height = rows * 7;
	useEffect(() => {
		const el = canvas.current;
		if (!el)
			return;
		const r = devicePixelRatio || 1;
		el.width = props.width * r;
		el.height = height * r;
		const c = el.getContext("2d")!;
		c.setTransform(r, 0, 0, r, 0, 0);
		strip.used.forEach((used, i) => {
			const x = (i % per) * 5;
			const y = Math.floor(i / per) * 7;
			c.fillStyle = theme.panel;
			c.fillRect(x, y, 4, 6);
			if (used) {
				c.globalAlpha = 0.2 + 0.8 * Math.min(1, used / strip.cell_bytes);
				c.fillStyle = theme.link;
				c.fillRect(x, y, 4, 6);
				c.globalAlpha = 1;
			}
		});
	}, [strip, props.width, theme]);
	const whole = strip.used.reduce((a, b) => a + b, 0);
	const span = Number(BigInt(strip.end) - BigInt(strip.start));
	const cellAt = (e: MouseEvent) => {
		const box = canvas.current!.getBoundingClientRect();
		const i = Math.floor((e.clientY - box.top) / 7) * per + Math.floor((e.clientX - box.left) / 5);
		return i >= 0 && i < strip.used.length ? i : -1;
	};
	const address = (i: number) => `0x${(BigInt(strip.start) + BigInt(i) * BigInt(strip.cell_bytes)).toString(16)}`;
	return (
		<section class="strip">
			<h3>
				<span class="mono">{strip.start}</span> <span class="second">to</span> <span class="mono">{strip.end}</span>
				<span class="second">
					{" "}
					· {bytes(span)}, of it live {bytes(whole)} in {count(strip.blocks)} blocks · a cell is {bytes(strip.cell_bytes)}
				</span>
			</h3>
			<canvas
				ref={canvas}
				role="img"
				aria-label={`${bytes(whole)} live of ${bytes(span)}`}
				style={{ width: `${props.width}px`, height: `${height}px`, cursor: "pointer" }}
				onMouseMove={(e) => {
					const i = cellAt(e);
					showTip(i < 0 ? null : { x: e.clientX, y: e.clientY, body: <><strong class="mono">{address(i)}</strong><p>{bytes(strip.used[i])} live of {bytes(strip.cell_bytes)}: click for what is there.</p></> });
				}}
				onMouseLeave={() => showTip(null)}
				onClick={(e) => {
					const i = cellAt(e);
					if (i >= 0)
						props.onCell(address(i));
				}}
			/>
		</section>
	);
}

function AddressCard(props: { address: string; stamp: number }): JSX.Element {
	const { words } = useStore(place);
	const answer = useAnswer<AddressAnswer>(api(`address/${encodeURIComponent(props.address)}`, { src: words.src, at: words.at }), props.stamp);
	const WHAT: Record<string, string> = { block: "a live block", freed_block: "a block that was freed", code: "code", nothing: "nothing that was recorded" };
	return (
		<div class="panel-body">
			<h2 class="panel-name mono">{plain(props.address)}</h2>
			<Shown answer={answer}>
				{(d) => {
					const a = d.allocations;
					return (
						<>
							<p>
								<b>{WHAT[d.what] ?? plain(d.what)}</b>
								{d.in_module ? ` in ${plain(d.in_module.name)} + 0x${d.in_module.offset.toString(16)}` : ""}
							</p>
							{a && a.address.length > 0 && (
								<>
									<dl class="facts">
										<dt>begins</dt>
										<dd class="mono">{a.address[0]}</dd>
										<dt>bytes</dt>
										<dd>{bytes(a.bytes[0])}</dd>
										<dt>allocated</dt>
										<dd>{moment(a.time_ns[0], 1e9)}, thread {a.thread[0]}</dd>
										<dt>freed</dt>
										<dd>{a.freed_ns[0] === null ? "never" : moment(a.freed_ns[0]!, 1e9)}</dd>
									</dl>
									<Frames answer={d} stack={a.stack[0]} title="Allocated by, innermost first" />
									{a.free_stack && a.free_stack[0] >= 0 && <Frames answer={d} stack={a.free_stack[0]} title="Freed by" />}
								</>
							)}
						</>
					);
				}}
			</Shown>
		</div>
	);
}

export function Space(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const [ref, size] = useSize<HTMLDivElement>();
	const answer = useAnswer<SpaceAnswer>(api("space", { ...words, by: undefined, cost: undefined, inverted: undefined, base: undefined, limit: undefined, x: undefined }, { width: 2048 }), props.stamp);
	useEffect(() => {
		if (answer.data)
			head.set(answer.data);
	}, [answer.data]);
	const address = /^0x[0-9a-f]{1,16}$/i.test(words.find ?? "") ? words.find! : null;
	const save = (kind: "svg" | "png") => {
		const theme = colours.get();
		let y = 0;
		const boxes = answer.data!.strips.flatMap((strip) => {
			const per = 200;
			const top = y + 24;
			y = top + Math.ceil(strip.used.length / per) * 9 + 12;
			return [
				{ x: 8, y: top - 22, w: 0.3, h: 20, colour: theme.bg, label: `${strip.start} to ${strip.end}, ${count(strip.blocks)} blocks, a cell is ${bytes(strip.cell_bytes)}`, title: strip.start },
				...strip.used.flatMap((used, i) => (used ? [{ x: 8 + (i % per) * 5.9, y: top + Math.floor(i / per) * 9, w: 5, h: 8, colour: used > 0.66 * strip.cell_bytes ? theme.link : used > 0.33 * strip.cell_bytes ? theme.shrunk : theme.run, label: "", title: `${bytes(used)} live` }] : [])),
			];
		});
		saveBoxes(kind, "space", boxes, 1200, y, [`byteledger · ${fileStem()}`, `where live blocks lie at ${words.at ? plain(words.at) : "the end"}`]);
	};
	const there = !!answer.data?.strips.length;
	props.expose({
		json: answer.of ?? undefined,
		loaded: answer.data ? plural(answer.data.strips_total, "strip") : "",
		svg: there ? () => save("svg") : undefined,
		png: there ? () => save("png") : undefined,
		csv: there ? () => saveRows("space", [["strip_start", "cell", "address", "cell_bytes", "used_bytes"], ...answer.data!.strips.flatMap((s) => s.used.map((used, i) => [s.start, i, `0x${(BigInt(s.start) + BigInt(i) * BigInt(s.cell_bytes)).toString(16)}`, s.cell_bytes, used]).filter((r) => r[4]))]) : undefined,
		panel: address ? <AddressCard address={address} stamp={props.stamp} /> : null,
	});
	return (
		<>
			<div class="tools">
				<span class="second">Where live blocks lie at {words.at ? plain(words.at) : "the end"}: the fuller a cell, the stronger its colour. A gap of more than 30 MiB begins a new strip.</span>
			</div>
			<Shown answer={answer}>
				{(data) =>
					data.strips.length ? (
						<div class="strips" ref={ref}>
							{size.width > 0 && data.strips.map((strip) => <Strip key={strip.start} strip={strip} width={Math.max(200, size.width - 36)} onCell={(a) => go({ find: a }, undefined, true)} />)}
							{data.strips_total > data.strips.length && <p class="second">{count(data.strips_total - data.strips.length)} smaller strips are not shown.</p>}
						</div>
					) : (
						<Empty>
							<b>No block{words["function-regex"] || words.module || words.thread || words["min-size"] || words["max-size"] ? " of this selection" : ""} is live at {words.at ? plain(words.at) : "the end"}.</b>
							<p>
								<button type="button" class="small" onClick={() => go({ at: "peak" })}>
									At the peak
								</button>
							</p>
						</Empty>
					)
				}
			</Shown>
		</>
	);
}

function rememberedPrefix(): string {
	try {
		return localStorage.getItem("source-prefix") ?? "";
	} catch {
		return "";
	}
}
/** Where on this disk the sources lie that were built elsewhere: the reader's own, in no link. */
const sourcePrefix = new Store<string>(rememberedPrefix());
sourcePrefix.watch(() => {
	try {
		localStorage.setItem("source-prefix", sourcePrefix.get());
	} catch {
		// a browser that keeps nothing: it lasts as long as the page
	}
});

function PrefixField(): JSX.Element {
	const [text, setText] = useState(sourcePrefix.get());
	return (
		<form
			class="field tools"
			onSubmit={(e) => {
				e.preventDefault();
				sourcePrefix.set(text.trim().replace(/(.)\/+$/, "$1"));
			}}
		>
			<label>
				<span>where the sources lie on the server's disk</span>
				<input type="text" name="prefix" value={text} placeholder="/home/me/project" spellcheck={false} autocomplete="off" onInput={(e) => setText(e.currentTarget.value)} />
			</label>
			<button type="submit" class="small">
				Look there
			</button>
		</form>
	);
}

export function SourceView(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const unit = COSTS.find((c) => c.value === costOf(words))?.unit ?? "bytes";
	const prefix = useStore(sourcePrefix);
	const answer = useAnswer<SourceAnswer>(words.f ? api("source", { ...words, by: undefined, inverted: undefined, base: undefined, limit: undefined, x: undefined }, { file: words.f, prefix: prefix || undefined }) : null, props.stamp);
	useEffect(() => {
		if (answer.data)
			head.set(answer.data);
	}, [answer.data]);
	const at = useMemo(() => new Map((answer.data?.lines.line ?? []).map((line, i) => [line, i])), [answer.data]);
	const first = useMemo(() => {
		const l = answer.data?.lines;
		if (!l?.line.length)
			return 0;
		return l.line[l.total.indexOf(Math.max(...l.total))] - 1;
	}, [answer.data]);
	props.expose({
		json: answer.of ?? undefined,
		loaded: answer.data ? plain(answer.data.path) : "",
		csv: answer.data ? () => saveRows("source", [["line", "self", "total", "text"], ...answer.data!.text.map((text, i) => [i + 1, at.has(i + 1) ? answer.data!.lines.self[at.get(i + 1)!] : 0, at.has(i + 1) ? answer.data!.lines.total[at.get(i + 1)!] : 0, text])]) : undefined,
	});
	if (!words.f)
		return (
			<Empty>
				<b>No file is chosen.</b>
				<p>Choose “Source” of a function whose file is known.</p>
			</Empty>
		);
	const figure = (which: "self" | "total") => (n: number) => {
		const i = at.get(n + 1);
		const v = i === undefined ? 0 : answer.data!.lines[which][i];
		return v ? amount(v, unit) : "";
	};
	return (
		<>
			{answer.error?.status === 404 && (
				<>
					<Note kind="warn">Only files that are on this disk, as the recording's symbols name them, can be shown.</Note>
					<PrefixField />
				</>
			)}
			<Shown answer={answer}>
				{(data) => (
					<>
						<div class="tools">
							<b class="mono wrap">{plain(data.found)}</b>
							{data.found !== data.path && <span class="second mono wrap">recorded as {plain(data.path)}</span>}
							{data.found !== data.path && (
								<button type="button" class="small" onClick={() => sourcePrefix.set("")}>
									Look no longer below {plain(prefix)}
								</button>
							)}
							<span class="second">{count(data.text.length)} lines, figures at {count(data.lines.line.length)}</span>
						</div>
						<Grid
							label="source"
							rowHeight={20}
							total={data.text.length}
							row={(i) => i}
							selected={words.s ? Number(words.s) : first}
							onSelect={(i) => go({ s: String(i) }, undefined, true)}
							rowClass={(n) => (at.has(n + 1) ? "has-cost" : "")}
							columns={[
								{ key: "self", label: <Explained term="self">self</Explained>, width: "84px", right: true, cell: figure("self") },
								{ key: "total", label: <Explained term="total">total</Explained>, width: "84px", right: true, cell: figure("total") },
								{ key: "bar", label: "", width: "60px", cell: (n) => { const i = at.get(n + 1); return i === undefined ? null : <Bar part={data.lines.total[i]} whole={data.total} colour={theme.link} />; } },
								{ key: "line", label: "line", width: "60px", right: true, cell: (n) => <span class="second">{n + 1}</span> },
								{ key: "text", label: "", cell: (n) => <code class="code-line">{plain(data.text[n]).replace(/\\x09/g, "    ")}</code> },
							]}
						/>
					</>
				)}
			</Shown>
		</>
	);
}
