// SPDX-License-Identifier: Apache-2.0
// Where memory lies: mappings that the program made, strips of address space and the blocks of a cell, what is at one address.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { api, fileStem, go, head, link, offered, place, saveRows, source } from "../app.ts";
import { useAnswer } from "../api/client.ts";
import type { AddressAnswer, BlocksAnswer, MapsAnswer, SpaceAnswer } from "../api/types.ts";
import { colours } from "../lib/colours.ts";
import { bytes, count, duration, exact, grouped, moment, plain, plural } from "../lib/format.ts";
import { saveBoxes } from "../lib/pictures.ts";
import { useStore } from "../lib/store.ts";
import { Bar, Empty, Explained, Shown, showTip, useSize } from "../parts/basics.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { Details, StackList, stackLine, stackNames } from "../parts/panel.tsx";
import { ofBlocks, type Words } from "../lib/url.ts";
import type { ViewProps } from "./props.ts";

export function Maps(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const answer = useAnswer<MapsAnswer>(api("maps", ofBlocks(words)), props.stamp);
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
				{ key: "name", label: "what, made by", width: "minmax(220px, 1fr)", cell: (i) => <>{m.name[i] && <b>{plain(m.name[i])} </b>}{stackLine(answer.data!, m.stack[i])}</>, text: (i) => `${m.name[i] ?? ""} ${stackNames(answer.data!, m.stack[i]).join(";")}` },
			]
		: [];
	const chosen = at >= 0 ? order[at] : -1;
	props.expose({
		loaded: m ? `${grouped(m.address.length)} mappings` : "",
		json: answer.of ?? undefined,
		csv: m ? () => saveRows("maps", [["address", "bytes", "prot", "made_ns", "gone_ns", "thread", "name", "stack"], ...order.map((i) => [m.address[i], m.bytes[i], m.prot[i], m.made_ns[i], m.gone_ns[i], m.thread[i], m.name[i], stackNames(answer.data!, m.stack[i]).join(";")])]) : undefined,
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
					<StackList answer={answer.data!} stack={m.stack[chosen]} title="Made by, innermost first" />
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

type OneStrip = SpaceAnswer["strips"][number];

const hex = (n: bigint) => `0x${n.toString(16)}`;
/** cellRange - the addresses of cell @i, as the word `address` spells them. */
function cellRange(strip: OneStrip, i: number): string {
	const from = BigInt(strip.start) + BigInt(i) * BigInt(strip.cell_bytes);
	return `${hex(from)}-${hex(from + BigInt(strip.cell_bytes))}`;
}

function Strip(props: { strip: OneStrip; width: number; chosen: string | undefined; onCell: (range: string) => void }): JSX.Element {
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
			if (props.chosen && cellRange(strip, i) === props.chosen) {
				c.strokeStyle = theme.text;
				c.lineWidth = 2;
				c.strokeRect(x, y, 4, 6);
			}
		});
	}, [strip, props.width, props.chosen, theme]);
	const whole = strip.used.reduce((a, b) => a + b, 0);
	const span = Number(BigInt(strip.end) - BigInt(strip.start));
	const cellAt = (e: MouseEvent) => {
		const box = canvas.current!.getBoundingClientRect();
		const i = Math.floor((e.clientY - box.top) / 7) * per + Math.floor((e.clientX - box.left) / 5);
		return i >= 0 && i < strip.used.length ? i : -1;
	};
	return (
		<section class="strip">
			<h3>
				<span class="mono">{strip.start}</span> <span class="second">to</span> <span class="mono">{strip.end}</span>
				<span class="second">
					{" "}
					· {bytes(span)}, of it live {bytes(whole)} in {plural(strip.blocks, "block")} · a cell is {bytes(strip.cell_bytes)}
				</span>
			</h3>
			<canvas
				ref={canvas}
				role="img"
				aria-label={`${bytes(whole)} live of ${bytes(span)}`}
				style={{ width: `${props.width}px`, height: `${height}px`, cursor: "pointer" }}
				onMouseMove={(e) => {
					const i = cellAt(e);
					showTip(i < 0 ? null : { x: e.clientX, y: e.clientY, body: <><strong class="mono">{cellRange(strip, i)}</strong><p>{bytes(strip.used[i])} live of {bytes(strip.cell_bytes)}: click for the blocks that pin it.</p></> });
				}}
				onMouseLeave={() => showTip(null)}
				onClick={(e) => {
					const i = cellAt(e);
					if (i >= 0)
						props.onCell(cellRange(strip, i));
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
									<StackList answer={d} stack={a.stack[0]} title="Allocated by, innermost first" />
									{a.free_stack && a.free_stack[0] >= 0 && <StackList answer={d} stack={a.free_stack[0]} title="Freed by" />}
								</>
							)}
						</>
					);
				}}
			</Shown>
		</div>
	);
}

const CELL_BLOCKS = 100;

/** What lives in one cell, and so keeps its pages: block by block, then the flame of these. */
function CellCard(props: { range: string; stamp: number }): JSX.Element {
	const { words } = useStore(place);
	const asked: Words = { ...ofBlocks(words), address: props.range, at: words.at ?? "end" };
	const answer = useAnswer<BlocksAnswer>(api("allocations", asked, { order: "-size", limit: CELL_BLOCKS }), props.stamp);
	const there: Words = { address: props.range, at: words.at ?? "end", s: undefined, z: undefined, find: undefined };
	const views = (["flame", "blocks"] as const).filter((v) => offered(v, source()));
	return (
		<div class="panel-body">
			<h2 class="panel-name mono wrap">{props.range.replace("-", " - ")}</h2>
			<Shown answer={answer}>
				{(d) => (
					<>
						<p>
							<b>{plural(d.matched, "block")}</b> {d.matched === 1 ? "lives" : "live"} here at {words.at ? plain(words.at) : "the end"}
							{d.matched ? " and keep" + (d.matched === 1 ? "s" : "") + " these pages" : ""}.
						</p>
						{d.matched > 0 && (
							<div class="actions">
								{views.map((v) => (
									<a key={v} class="button" href={link({ ...there, ...(v === "flame" ? { cost: undefined } : { group: undefined, sort: undefined }) }, v)}>
										{v === "flame" ? "Flame of these" : "As a list"}
									</a>
								))}
							</div>
						)}
						<ul class="cell-blocks">
							{d.allocations.id.map((id, i) => (
								<li key={id}>
									<a class="mono" href={link({ find: d.allocations.address[i], s: undefined })}>{d.allocations.address[i]}</a> <b title={exact(d.allocations.bytes[i], "bytes")}>{bytes(d.allocations.bytes[i])}</b>
									<div class="second small-text" title={stackNames(d, d.allocations.stack[i]).join(" ← ")}>
										{stackLine(d, d.allocations.stack[i])}
									</div>
								</li>
							))}
						</ul>
						{d.matched > d.allocations.id.length && <p class="second">{grouped(d.matched - d.allocations.id.length)} smaller ones are in the list.</p>}
					</>
				)}
			</Shown>
		</div>
	);
}

interface CellRow {
	strip: OneStrip;
	i: number;
}

/** The cells that hold anything, as rows. */
function CellTable(props: { cells: CellRow[]; chosen: string | undefined; onCell: (range: string) => void }): JSX.Element {
	const theme = useStore(colours);
	const { cells } = props;
	const used = (r: CellRow) => r.strip.used[r.i];
	const columns: Column<CellRow>[] = [
		{ key: "range", label: "addresses", width: "270px", cell: (r) => <span class="mono">{cellRange(r.strip, r.i)}</span>, text: (r) => cellRange(r.strip, r.i) },
		{ key: "used", label: <Explained term="live">live</Explained>, width: "90px", right: true, cell: (r) => <b title={exact(used(r), "bytes")}>{bytes(used(r))}</b>, text: used },
		{ key: "of", label: "of", width: "80px", right: true, cell: (r) => bytes(r.strip.cell_bytes), text: (r) => r.strip.cell_bytes },
		{ key: "share", label: "", width: "minmax(80px, 1fr)", cell: (r) => <Bar part={used(r)} whole={r.strip.cell_bytes} colour={theme.link} /> },
	];
	const at = props.chosen ? cells.findIndex((r) => cellRange(r.strip, r.i) === props.chosen) : -1;
	return <Grid columns={columns} total={cells.length} row={(i) => cells[i] ?? null} selected={at} label="cells" onSelect={(_i, r) => props.onCell(cellRange(r.strip, r.i))} />;
}

export function Space(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const [ref, size] = useSize<HTMLDivElement>();
	const answer = useAnswer<SpaceAnswer>(api("space", ofBlocks(words), { width: 2048 }), props.stamp);
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
				{ x: 8, y: top - 22, w: 0.3, h: 20, colour: theme.bg, label: `${strip.start} to ${strip.end}, ${plural(strip.blocks, "block")}, a cell is ${bytes(strip.cell_bytes)}`, title: strip.start },
				...strip.used.flatMap((used, i) => (used ? [{ x: 8 + (i % per) * 5.9, y: top + Math.floor(i / per) * 9, w: 5, h: 8, colour: used > 0.66 * strip.cell_bytes ? theme.link : used > 0.33 * strip.cell_bytes ? theme.shrunk : theme.run, label: "", title: `${bytes(used)} live` }] : [])),
			];
		});
		saveBoxes(kind, "space", boxes, 1200, y, [`byteledger · ${fileStem()}`, `where live blocks lie at ${words.at ? plain(words.at) : "the end"}`]);
	};
	const there = !!answer.data?.strips.length;
	const cell = /^0x[0-9a-f]+-0x[0-9a-f]+$/i.test(words.s ?? "") ? words.s : undefined;
	const choose = (range: string) => go({ s: range, find: undefined }, undefined, true);
	const table = words.z === "table";
	const cells = useMemo(() => (answer.data?.strips ?? []).flatMap((strip) => strip.used.flatMap((used, i): CellRow[] => (used ? [{ strip, i }] : []))), [answer.data]);
	props.expose({
		json: answer.of ?? undefined,
		loaded: answer.data ? plural(answer.data.strips_total, "strip") : "",
		svg: there ? () => save("svg") : undefined,
		png: there ? () => save("png") : undefined,
		csv: there ? () => saveRows("space", [["strip_start", "cell", "address", "cell_bytes", "used_bytes"], ...cells.map((r) => [r.strip.start, r.i, cellRange(r.strip, r.i).split("-")[0], r.strip.cell_bytes, r.strip.used[r.i]])]) : undefined,
		panel: cell ? <CellCard range={cell} stamp={props.stamp} /> : address ? <AddressCard address={address} stamp={props.stamp} /> : null,
	});
	return (
		<>
			<div class="tools">
				<span class="second">Where live blocks lie at {words.at ? plain(words.at) : "the end"}: the fuller a cell, the stronger its colour. A gap of more than 30 MiB begins a new strip.</span>
				<span class="grow" />
				<button type="button" class={`small ${table ? "on" : ""}`} aria-pressed={table} aria-label="cells as table" title="the cells that hold anything, as rows" onClick={() => go({ z: table ? undefined : "table" })}>
					as table
				</button>
			</div>
			<Shown answer={answer}>
				{(data) =>
					table && cells.length ? (
						<CellTable cells={cells} chosen={cell} onCell={choose} />
					) : data.strips.length ? (
						<div class="strips" ref={ref}>
							{size.width > 0 && data.strips.map((strip) => <Strip key={strip.start} strip={strip} width={Math.max(200, size.width - 36)} chosen={cell} onCell={choose} />)}
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
