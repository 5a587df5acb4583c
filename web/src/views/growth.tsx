// SPDX-License-Identifier: Apache-2.0
// Leak, cache or start-up: what was live at sixteen moments, by group, with the verdict and its reason.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, go, link, offered, place, source } from "../app.ts";
import type { RowsAnswer } from "../api/types.ts";
import { CATEGORY_LABELS, colours } from "../lib/colours.ts";
import { bytes, exact, grouped, moment, plain, signed } from "../lib/format.ts";
import { useStore } from "../lib/store.ts";
import type { Words } from "../lib/url.ts";
import { Explained, Shown } from "../parts/basics.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { frameFacts, regexOf } from "../parts/panel.tsx";
import { NothingHere } from "../parts/selection.tsx";
import { saveAll } from "../parts/saveall.ts";
import { clockOf } from "../parts/timeline.tsx";
import type { ViewProps } from "./props.ts";
import { useRows, type TableRow } from "./table.tsx";

interface GrowthColumns {
	live_bytes: number[];
	bytes_per_hour: (number | null)[];
	confidence: (number | null)[];
	verdict: string[];
	why: string[];
	points: number[][];
	generations?: number[][];
}
const g = (r: TableRow): GrowthColumns => r.page.rows as unknown as GrowthColumns;

export function Spark(props: { points: number[]; width: number; height: number; colour: string }): JSX.Element {
	const { points, width, height } = props;
	if (points.length < 2)
		return <span class="spark" style={{ width: `${width}px`, height: `${height}px` }} />;
	const most = Math.max(1, ...points);
	const xy = points.map((v, i) => `${((i / Math.max(1, points.length - 1)) * (width - 4) + 2).toFixed(1)},${(height - 3 - (v / most) * (height - 6)).toFixed(1)}`);
	return (
		<svg class="spark" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={points.map((p) => bytes(p)).join(", ")}>
			<polyline points={`2,${height - 3} ${xy.join(" ")} ${width - 2},${height - 3}`} fill={props.colour} opacity="0.2" stroke="none" />
			<polyline points={xy.join(" ")} fill="none" stroke={props.colour} stroke-width="1.5" stroke-linejoin="round" />
		</svg>
	);
}

function verdictClass(verdict: string): string {
	return verdict === "growing" ? "grown" : verdict === "shrinking" ? "shrunk" : "second";
}

export function Growth(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const by = words.by === "stack" || words.by === "thread" ? words.by : (words.by ?? "function");
	const sort = words.sort === "live_bytes" ? "live_bytes" : "bytes_per_hour";
	const order = words.order === "asc" ? "asc" : "desc";
	const path = api("growth", { ...words, by, limit: undefined, at: undefined, cost: undefined, inverted: undefined, base: undefined }, { sort, order, limit: 500, marks: words.marks });
	const known = clockOf(props.timeline.data).marks;
	const marks = [...(known?.keys() ?? [])].slice(0, 15);
	// the columns are in their order in time, whatever the order in the address
	const between = words.marks ? words.marks.split(",").sort((a, b) => (known?.get(a) ?? 0) - (known?.get(b) ?? 0)) : [];
	const { answer, row, want, total } = useRows(path, props.stamp);
	const [selected, setSelected] = useState(-1);
	useEffect(() => setSelected(words.s && answer.data ? (answer.data.rows.key ?? []).indexOf(words.s) : -1), [words.s, answer.data]);
	const chosen = selected >= 0 ? row(selected) : null;
	const times = (answer.data as (RowsAnswer & { time_ns?: number[] }) | null)?.time_ns ?? [];
	const nameOf = (r: TableRow) => {
		if (by === "thread")
			return plain((r.page.rows.name as string[] | undefined)?.[r.i]) || "thread";
		if (by === "stack")
			return ((r.page.rows.stack as number[][] | undefined)?.[r.i] ?? []).slice(0, 5).map((f) => plain(r.page.frames.short[f])).join(" ← ");
		const facts = frameFacts(r.page, r.page.rows.frame?.[r.i] ?? -1);
		return facts ? facts.short || facts.name : "everything";
	};
	const table = words.z === "table";
	const levels: Column<TableRow>[] = table
		? times.map((t, i) => ({ key: `at-${i}`, label: <span title={`live at ${moment(t, 1e9)}`}>{moment(t, times[times.length - 1])}</span>, width: "86px", right: true, text: (r) => g(r).points[r.i][i], cell: (r) => <span title={exact(g(r).points[r.i][i], "bytes")}>{bytes(g(r).points[r.i][i])}</span> }))
		: [{ key: "points", label: "live, over the range", width: "150px", text: (r) => g(r).points[r.i].join(" "), cell: (r) => <Spark points={g(r).points[r.i]} width={120} height={22} colour={g(r).verdict[r.i] === "growing" ? theme.grown : theme.link} /> }];
	const columns: Column<TableRow>[] = [
		{
			key: "name", label: by, width: "minmax(220px, 1fr)", text: nameOf,
			cell: (r) => {
				const facts = frameFacts(r.page, r.page.rows.frame?.[r.i] ?? -1);
				return (
					<span class="tree-name" title={facts?.name}>
						<span class="dot" style={{ background: theme.boxes[facts?.category ?? 7] }} />
						<span class="name">{nameOf(r)}</span>
						{facts && by === "function" && <span class="where">{facts.module}</span>}
					</span>
				);
			},
		},
		{ key: "bytes_per_hour", label: <Explained term="growth">per hour</Explained>, width: "116px", right: true, sortable: true, text: (r) => g(r).bytes_per_hour[r.i], cell: (r) => <b class={verdictClass(g(r).verdict[r.i])}>{g(r).bytes_per_hour[r.i] === null ? "-" : signed(Math.round(g(r).bytes_per_hour[r.i]!), "bytes")}</b> },
		...levels,
		{ key: "live_bytes", label: <Explained term="live">live at its end</Explained>, width: "116px", right: true, sortable: true, text: (r) => g(r).live_bytes[r.i], cell: (r) => bytes(g(r).live_bytes[r.i]) },
		...between.map((name, i): Column<TableRow> => ({
			key: `since-${name}`, width: "116px", right: true,
			label: <span title="made in between, and live at the end">{i + 1 < between.length ? `mark ${name} to ${between[i + 1]}` : `since mark ${name}`}</span>,
			text: (r) => g(r).generations?.[r.i]?.[i] ?? "", cell: (r) => bytes(g(r).generations?.[r.i]?.[i] ?? null),
		})),
		{ key: "verdict", label: "verdict", width: "90px", text: (r) => g(r).verdict[r.i], cell: (r) => <span class={verdictClass(g(r).verdict[r.i])}>{plain(g(r).verdict[r.i])}</span> },
		{ key: "why", label: "because", width: "minmax(200px, 1.1fr)", text: (r) => g(r).why[r.i], cell: (r) => <span class="second" title={plain(g(r).why[r.i])}>{plain(g(r).why[r.i])}</span> },
	];
	// leak or cache: how long what was never freed has lived, beside all that was made there
	const open = (r: TableRow) => {
		const name = frameFacts(r.page, r.page.rows.frame?.[r.i] ?? -1);
		const only: Words = by === "function" && name?.name ? { "function-regex": regexOf(name.name) } : by === "module" || by === "function" ? { module: name?.module } : {};
		if (Object.values(only).some(Boolean) && offered("blocks", source()))
			go({ ...only, group: "stack", leaked: "1", s: undefined, sort: undefined, order: undefined, z: undefined, by: undefined }, "blocks");
	};
	props.expose({
		loaded: answer.data ? `${grouped(total)} rows` : "",
		json: answer.of ?? undefined,
		csv: answer.data
			? () => {
					const at = times.map((t) => `live_at_${t}_ns`);
					const since = between.map((name) => `since_mark_${name}`);
					const rowsOf = (page: RowsAnswer) =>
						(page.rows.live_bytes as number[]).map((_, i) => {
							const r = { page, i, index: i };
							return [nameOf(r), g(r).bytes_per_hour[i], g(r).confidence[i], g(r).verdict[i], g(r).why[i], g(r).live_bytes[i], ...g(r).points[i], ...(g(r).generations?.[i] ?? [])];
						});
					void saveAll<RowsAnswer>(path, "growth", () => [by, "bytes_per_hour", "confidence", "verdict", "why", "live_bytes", ...at, ...since], rowsOf, (page) => page.total_rows);
				}
			: undefined,
		panel: chosen ? <GrowthPanel row={chosen} name={nameOf(chosen)} times={times} by={by} /> : null,
	});
	return (
		<Shown answer={answer}>
			{() => (
				<>
					<div class="legend-row">
						<button type="button" class={`small ${table ? "on" : ""}`} aria-pressed={table} aria-label="levels as table" title="the levels as figures" onClick={() => go({ z: table ? undefined : "table" })}>
							as table
						</button>
						{marks.length > 0 && (
							<button type="button" class={`small ${words.marks ? "on" : ""}`} aria-pressed={!!words.marks} title="what was made from each mark of the program to the next, and lives at the end" onClick={() => go({ marks: words.marks ? undefined : marks.join(",") })}>
								between marks
							</button>
						)}
					</div>
					{total ? (
					<Grid
						columns={columns}
						total={total}
						row={row}
						selected={selected}
						sort={sort}
						order={order}
						label="growth"
						onWindow={want}
						onSort={(key) => go({ sort: key, order: sort === key && order === "desc" ? "asc" : undefined })}
						onSelect={(i, r) => (setSelected(i), go({ s: r.page.rows.key?.[r.i] }, undefined, true))}
						onOpen={(_i, r) => open(r)}
					/>
				) : (
					<NothingHere />
					)}
				</>
			)}
		</Shown>
	);
}

function GrowthPanel(props: { row: TableRow; name: string; times: number[]; by: string }): JSX.Element {
	const { row, by } = props;
	const theme = useStore(colours);
	const from = source();
	const facts = frameFacts(row.page, row.page.rows.frame?.[row.i] ?? -1);
	const c = g(row);
	const points = c.points[row.i];
	const span = props.times.length ? props.times[props.times.length - 1] - props.times[0] : 0;
	const regex = facts ? regexOf(facts.name) : undefined;
	return (
		<div class="panel-body">
			<h2 class="panel-name" title={facts?.name}>
				{props.name}
			</h2>
			{facts && (
				<p class="second mono panel-where">
					{facts.module}
					<br />
					<span class="plain-font">{CATEGORY_LABELS[facts.category]}</span>
				</p>
			)}
			<p>
				<b class={verdictClass(c.verdict[row.i])}>{plain(c.verdict[row.i])}</b>
				<br />
				{plain(c.why[row.i])}
			</p>
			<Spark points={points} width={280} height={90} colour={theme.link} />
			<p class="second small-text">
				{moment(props.times[0] ?? 0)} to {moment(props.times[props.times.length - 1] ?? 0, span)}: from {bytes(points[0])} to {bytes(points[points.length - 1])}
			</p>
			<p class="second small-text">A cache that fills looks the same as a leak until it is full: look at what its blocks' lifetimes say.</p>
			<div class="actions">
				{by === "function" && facts && (
					<a class="button" href={link({ f: facts.key, s: undefined, sort: undefined, order: undefined }, "function")}>
						Callers, callees
					</a>
				)}
				{offered("lifetimes", from) && regex && (
					<a class="button" href={link({ "function-regex": regex, s: undefined, sort: undefined, order: undefined }, "lifetimes")}>
						Lifetimes
					</a>
				)}
				{offered("blocks", from) && regex && (
					<a class="button" href={link({ "function-regex": regex, leaked: "1", group: "stack", s: undefined, sort: undefined, order: undefined, z: undefined }, "blocks")}>
						Never freed, by stack
					</a>
				)}
			</div>
		</div>
	);
}
