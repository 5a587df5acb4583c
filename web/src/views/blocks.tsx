// SPDX-License-Identifier: Apache-2.0
// Single blocks in order, and how size and lifetime are spread.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, fileStem, go, head, place, saveRows } from "../app.ts";
import { ask, useAnswer } from "../api/client.ts";
import type { BlocksAnswer, HistogramAnswer } from "../api/types.ts";
import { colours } from "../lib/colours.ts";
import { bytes, count, duration, exact, grouped, moment, percent, plural } from "../lib/format.ts";
import { saveBoxes } from "../lib/pictures.ts";
import { useStore } from "../lib/store.ts";
import { ofBlocks } from "../lib/url.ts";
import { Empty, Explained, Note, Shown, showTip, useSize } from "../parts/basics.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { StackList, stackLine, stackNames } from "../parts/panel.tsx";
import { NothingHere } from "../parts/selection.tsx";
import { saveAll, type Cells } from "../parts/saveall.ts";
import { Form, Groups } from "./groups.tsx";
import type { ViewProps } from "./props.ts";

interface BlockRow {
	page: BlocksAnswer;
	i: number;
}

const ORDERS = [
	{ value: "time", label: "in order of time" },
	{ value: "-time", label: "latest first" },
	{ value: "-size", label: "largest first" },
	{ value: "size", label: "smallest first" },
	{ value: "-lifetime", label: "longest-lived first" },
	{ value: "lifetime", label: "shortest-lived first" },
];

function blockCells(page: BlocksAnswer): Cells[] {
	const a = page.allocations;
	return a.id.map((id, i) => [id, a.address[i], a.time_ns[i], a.bytes[i], a.freed_ns[i], a.lifetime_ns[i], a.thread[i], stackNames(page, a.stack[i]).join(";")]);
}

/** Single blocks, or a row for each call stack. */
export function Blocks(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	return words.group ? <Groups {...props} /> : <Single {...props} />;
}

function Single(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const order = words.sort ?? (words.at || words.leaked ? "-size" : "time");
	const path = api("allocations", ofBlocks(words), { order, limit: 200, part: 1 });
	const answer = useAnswer<BlocksAnswer>(path, props.stamp);
	const pages = useRef<BlocksAnswer[]>([]);
	const asking = useRef<AbortController | null>(null);
	const [, again] = useState(0);
	useEffect(() => {
		asking.current?.abort();
		asking.current = null;
		pages.current = answer.data ? [answer.data] : [];
		if (answer.data)
			head.set(answer.data);
		again((n) => n + 1);
	}, [answer.data]);
	const list = pages.current;
	const flat = useMemo(() => list.flatMap((page) => page.allocations.id.map((_, i): BlockRow => ({ page, i }))), [list, list.length]);
	const last = list[list.length - 1];
	const more = () => {
		if (!last?.next || asking.current)
			return;
		const control = new AbortController();
		asking.current = control;
		ask<BlocksAnswer>(`${path.replace(/limit=200/, "limit=1000")}&cursor=${encodeURIComponent(last.next)}`, control.signal).then(
			(page) => {
				asking.current = null;
				pages.current = [...list, page];
				again((n) => n + 1);
			},
			() => (asking.current = null),
		);
	};
	const a = (r: BlockRow) => r.page.allocations;
	const at = words.s ? flat.findIndex((r) => String(a(r).id[r.i]) === words.s) : -1;
	const chosen = at >= 0 ? flat[at] : null;
	const columns: Column<BlockRow>[] = [
		{ key: "time", label: "allocated", width: "96px", right: true, cell: (r) => moment(a(r).time_ns[r.i], 1e9), text: (r) => a(r).time_ns[r.i] },
		{ key: "bytes", label: <Explained term="size">bytes</Explained>, width: "90px", right: true, cell: (r) => <b title={exact(a(r).bytes[r.i], "bytes")}>{bytes(a(r).bytes[r.i])}</b>, text: (r) => a(r).bytes[r.i] },
		{ key: "life", label: <Explained term="lifetime">lived</Explained>, width: "110px", right: true, cell: (r) => (a(r).freed_ns[r.i] === null ? <span class="grown">never freed</span> : a(r).lifetime_ns[r.i] ? duration(a(r).lifetime_ns[r.i]) : "< 1 ms"), text: (r) => a(r).lifetime_ns[r.i] },
		{ key: "addr", label: "address", width: "136px", cell: (r) => <span class="mono">{a(r).address[r.i]}</span>, text: (r) => a(r).address[r.i] },
		{ key: "thread", label: "thread", width: "80px", right: true, cell: (r) => String(a(r).thread[r.i]), text: (r) => a(r).thread[r.i] },
		{ key: "kind", label: "", width: "90px", cell: (r) => <span class="second">{[a(r).temporary[r.i] ? "temporary" : "", a(r).realloc[r.i] ? "realloc" : ""].filter(Boolean).join(", ")}</span> },
		{ key: "stack", label: "allocated by", cell: (r) => <span title={stackNames(r.page, a(r).stack[r.i]).join(" ← ")}>{stackLine(r.page, a(r).stack[r.i])}</span>, text: (r) => stackNames(r.page, a(r).stack[r.i]).join(";") },
	];
	props.expose({
		loaded: answer.data ? `${grouped(answer.data.matched)} blocks match${answer.data.progress < 1 ? " so far" : ""}` : "",
		json: answer.of ?? undefined,
		csv: flat.length ? () => void saveAll<BlocksAnswer>(path, "blocks", () => ["id", "address", "time_ns", "bytes", "freed_ns", "lifetime_ns", "thread", "stack"], blockCells, (page) => page.matched) : undefined,
		panel: chosen ? <BlockPanel row={chosen} /> : null,
	});
	const culled = answer.data?.culled?.allocations ?? 0;
	return (
		<>
			<div class="tools">
				<Form />
				<label class="chip select">
					<span class="second">order</span>
					<select aria-label="order" value={order} onChange={(e) => go({ sort: e.currentTarget.value })}>
						{ORDERS.map((o) => (
							<option key={o.value} value={o.value}>
								{o.label}
							</option>
						))}
					</select>
				</label>
				{answer.data?.first_only !== undefined && <span class="second">the first {grouped(answer.data.first_only)} in this order</span>}
				<span class="grow" />
				{answer.data && (
					<span class="second">
						{grouped(answer.data.matched)} of {grouped(answer.data.scanned)} blocks{answer.data.progress < 1 ? " so far" : ""}
					</span>
				)}
			</div>
			{answer.data?.kept && (
				<Note kind="warn">
					Only {grouped(answer.data.kept.blocks)} of {grouped(answer.data.kept.of)} blocks found room in the server's folder for temporary files: those that were freed until{" "}
					{moment(answer.data.kept.freed_until_ns)}. Another TMPDIR of `serve` shows all.
				</Note>
			)}
			{culled > 0 && <Note kind="info">{count(culled)} short-lived blocks were kept as sums only and are not in this list.</Note>}
			<Shown answer={answer}>
				{() =>
					flat.length ? (
						<Grid
							columns={columns}
							total={flat.length}
							row={(i) => flat[i] ?? null}
							selected={at}
							label="blocks"
							onSelect={(_i, r) => go({ s: String(a(r).id[r.i]) }, undefined, true)}
							onWindow={(_f, to) => to >= flat.length - 50 && more()}
						/>
					) : (
						<Empty>
							<b>{culled ? "Sums only: short-lived blocks were culled." : answer.data?.scanned ? `${plural(answer.data.scanned, "block")} were made, none is in this selection.` : "No block in this selection."}</b>
							<p>Take a filter away above, or choose another moment.</p>
						</Empty>
					)
				}
			</Shown>
		</>
	);
}

function BlockPanel(props: { row: BlockRow }): JSX.Element {
	const { page, i } = props.row;
	const a = page.allocations;
	return (
		<div class="panel-body">
			<h2 class="panel-name mono">{a.address[i]}</h2>
			<dl class="facts">
				<dt>
					<Explained term="size" focus>bytes</Explained>
				</dt>
				<dd>
					{bytes(a.bytes[i])} <span class="second">({grouped(a.bytes[i])})</span>
				</dd>
				<dt>allocated</dt>
				<dd>{moment(a.time_ns[i], 1e9)}, thread {a.thread[i]}</dd>
				<dt>freed</dt>
				<dd>{a.freed_ns[i] === null ? "never" : `${moment(a.freed_ns[i]!, 1e9)}${a.free_thread?.[i] ? `, thread ${a.free_thread[i]}` : ""}`}</dd>
				<dt>
					<Explained term="lifetime" focus>lived</Explained>
				</dt>
				<dd>{a.lifetime_ns[i] ? duration(a.lifetime_ns[i]) : "< 1 ms"}</dd>
			</dl>
			<StackList answer={page} stack={a.stack[i]} title="Allocated by, innermost first" />
			{a.free_stack && a.free_stack[i] >= 0 && <StackList answer={page} stack={a.free_stack[i]} title="Freed by" />}
		</div>
	);
}

function edge(kind: "size" | "lifetime", value: number | null | undefined): string {
	return value === null || value === undefined ? "never freed" : kind === "size" ? bytes(value) : duration(value);
}

/** mixed - @share of @b over @a, both `#rrggbb`: what color-mix says, for pictures that other programs read. */
function mixed(a: string, b: string, share: number): string {
	const part = (at: number) => Math.round(parseInt(a.slice(at, at + 2), 16) * (1 - share) + parseInt(b.slice(at, at + 2), 16) * share).toString(16).padStart(2, "0");
	return `#${part(1)}${part(3)}${part(5)}`;
}

export function Lifetimes(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const [ref, size] = useSize<HTMLDivElement>();
	const what = words.z === "bytes" ? "bytes" : "blocks";
	const asked = ofBlocks(words);
	const answer = useAnswer<HistogramAnswer>(api("histogram", asked, { x: "lifetime", y: "size" }), props.stamp);
	useEffect(() => {
		if (answer.data)
			head.set(answer.data);
	}, [answer.data]);
	const data = answer.data;
	const cells = useMemo(() => {
		if (!data)
			return null;
		const xs = data.x;
		const ys = data.y ?? [];
		// one column of sizes comes as plain numbers
		const raw = what === "bytes" ? data.bytes : data.blocks;
		const at = (x: number, y: number): number => {
			const column = raw[x];
			return typeof column === "number" ? column : (column?.[y] ?? 0);
		};
		const nx = xs.length;
		const ny = ys.length;
		let most = 0;
		let sum = 0;
		const byX = new Array<number>(nx).fill(0);
		const byY = new Array<number>(ny).fill(0);
		for (let x = 0; x < nx; x++)
			for (let y = 0; y < ny; y++) {
				const v = at(x, y);
				most = Math.max(most, v);
				sum += v;
				byX[x] += v;
				byY[y] += v;
			}
		// sizes and lifetimes that no block has, at the ends, are left out; what was never freed keeps its column
		const y0 = Math.max(0, byY.findIndex((v) => v > 0));
		const never = nx > 0 && xs[nx - 1] === null;
		let x1 = (never ? nx - 1 : nx) - 1;
		while (x1 > 0 && !byX[x1])
			x1--;
		const columns = [...Array.from({ length: x1 + 1 }, (_, i) => i), ...(never ? [nx - 1] : [])];
		return { xs, ys, nx, ny, y0, columns, at, most, sum, byX, byY };
	}, [data, what]);
	const save = (kind: "svg" | "png") => {
		const w = Math.min(60, 1100 / cells!.columns.length);
		const boxes = cells!.columns.flatMap((x, i) =>
			Array.from({ length: cells!.ny - cells!.y0 }, (_, k) => cells!.ny - 1 - k)
				.map((y, row) => ({ v: cells!.at(x, y), x: 90 + i * w, y: row * 24, title: `${edge("size", cells!.ys[y])}, ${edge("lifetime", cells!.xs[x])}: ${value(cells!.at(x, y))}` }))
				.filter((c) => c.v > 0)
				.map((c) => ({ x: c.x, y: c.y, w: w - 2, h: 22, colour: mixed(theme.bg, theme.link, 0.12 + 0.88 * (Math.log1p(c.v) / Math.log1p(cells!.most))), label: "", title: c.title })),
		);
		const names = Array.from({ length: cells!.ny - cells!.y0 }, (_, row) => ({ x: 0, y: row * 24, w: 0.3, h: 22, colour: theme.bg, label: edge("size", cells!.ys[cells!.ny - 1 - row]), title: "" }));
		const below = cells!.columns.map((x, i) => ({ x: 88 + i * w, y: names.length * 24, w: 0.3, h: 22, colour: theme.bg, label: i % 3 === 0 ? edge("lifetime", cells!.xs[x]) : "", title: "" }));
		saveBoxes(kind, "lifetimes", [...boxes, ...names, ...below], 1200, names.length * 24 + 30, [`byteledger · ${fileStem()}`, `${what} by size (up) and lifetime (right) · ${data!.selection || "whole recording"} · ${value(cells!.sum)}`]);
	};
	props.expose({
		json: answer.of ?? undefined,
		csv: cells ? () => saveRows("lifetimes", [["size_from", "lifetime_from_ns", what], ...cells.columns.flatMap((x) => Array.from({ length: cells.ny }, (_, y) => [cells.ys[y], cells.xs[x] ?? "never freed", cells.at(x, y)] as (string | number | null)[]).filter((r) => r[2]))]) : undefined,
		svg: cells ? () => save("svg") : undefined,
		png: cells ? () => save("png") : undefined,
	});
	const value = (n: number) => (what === "bytes" ? bytes(n) : count(n));
	const choose = (x: number, y: number) => {
		if (!cells)
			return;
		const low = cells.xs[x];
		const high = cells.xs[x + 1];
		const never = low === null;
		const ns = (n: number | null | undefined) => (n === null || n === undefined ? undefined : `${Number(n)}ns`);
		go(
			{
				"lifetime-min": never ? undefined : ns(low), "lifetime-max": never ? undefined : ns(typeof high === "number" ? high - 1 : undefined), leaked: never ? "1" : undefined,
				"min-size": String(cells.ys[y] ?? 0), "max-size": typeof cells.ys[y + 1] === "number" ? String(Number(cells.ys[y + 1]) - 1) : undefined, z: undefined, s: undefined,
			},
			"blocks",
		);
	};
	return (
		<>
			<div class="tools">
				<span class="segments" role="group" aria-label="counted in">
					<button type="button" aria-pressed={what === "blocks"} onClick={() => go({ z: undefined })}>blocks</button>
					<button type="button" aria-pressed={what === "bytes"} onClick={() => go({ z: "bytes" })}>bytes</button>
				</span>
				<span class="second">
					<Explained term="lifetime">lifetime</Explained> to the right, <Explained term="size">size</Explained> upwards; a cell opens its blocks
				</span>
			</div>
			<Shown answer={answer}>
				{() =>
					cells && cells.sum > 0 ? (
						<div class="heat-frame" ref={ref}>
							<div class="heat" role="table" aria-label={`${what} by size and lifetime`} style={{ gridTemplateColumns: `84px repeat(${cells.columns.length}, minmax(${size.width < 700 ? 18 : 26}px, 1fr)) 90px` }}>
								{Array.from({ length: cells.ny - cells.y0 }, (_, k) => cells.ny - 1 - k).map((y) => (
									<div role="row" class="heat-row" key={y}>
										<div role="rowheader" class="heat-label">{edge("size", cells.ys[y])}</div>
										{cells.columns.map((x) => {
											const v = cells.at(x, y);
											const strength = v ? 0.12 + 0.88 * (Math.log1p(v) / Math.log1p(cells.most)) : 0;
											const title = `${value(v)} ${what === "blocks" ? "blocks" : ""} of ${edge("size", cells.ys[y])} and more that lived ${edge("lifetime", cells.xs[x])}${cells.xs[x] === null ? "" : " and longer"}`;
											return (
												<div role="cell" key={x} class="heat-cell">
													{v > 0 && (
														<button
															type="button"
															aria-label={title}
															style={{ background: `color-mix(in oklab, ${theme.link} ${Math.round(strength * 100)}%, ${theme.bg})` }}
															onClick={() => choose(x, y)}
															onMouseMove={(e) => showTip({ x: e.clientX, y: e.clientY, body: <><strong>{value(v)}</strong><p>{title}, {percent(v, cells.sum)} of these.</p></> })}
															onMouseLeave={() => showTip(null)}
														/>
													)}
												</div>
											);
										})}
										<div role="cell" class="heat-sum">{cells.byY[y] ? value(cells.byY[y]) : ""}</div>
									</div>
								))}
								<div role="row" class="heat-row">
									<div role="rowheader" class="heat-label second">all sizes</div>
									{cells.columns.map((x) => [cells.byX[x], x]).map(([v, x]) => (
										<div role="cell" key={x} class="heat-margin" title={value(v)}>
											<span style={{ height: `${v ? 4 + 40 * (Math.log1p(v) / Math.log1p(Math.max(...cells.byX))) : 0}px`, background: theme.link }} />
										</div>
									))}
									<div role="cell" class="heat-sum"><b>{value(cells.sum)}</b></div>
								</div>
								<div role="row" class="heat-row">
									<div role="cell" />
									{cells.columns.map((c) => cells.xs[c]).map((x, i) => (
										<div role="columnheader" key={i} class="heat-x">{i % (size.width < 900 ? 4 : 2) === 0 || i === cells.columns.length - 1 ? edge("lifetime", x) : ""}</div>
									))}
									<div role="cell" />
								</div>
							</div>
						</div>
					) : (
						(data?.culled?.allocations ?? 0) > 0 ? <Empty><b>Sums only: short-lived blocks were culled.</b></Empty> : <NothingHere />
					)
				}
			</Shown>
		</>
	);
}
