// SPDX-License-Identifier: Apache-2.0
// A row a function, module, file, line, stack or thread: every cost, its own and with what it calls.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, copy, costOf, go, head, link, offered, place, source } from "../app.ts";
import { ask, useAnswer } from "../api/client.ts";
import type { RowsAnswer } from "../api/types.ts";
import { colours, CATEGORY_LABELS } from "../lib/colours.ts";
import { amount, baseName, count, grouped, percent, plain, signed } from "../lib/format.ts";
import { Store, useStore } from "../lib/store.ts";
import { COLUMNS, COSTS, TERMS } from "../lib/terms.ts";
import type { Words } from "../lib/url.ts";
import { Bar, Explained, Menu, Shown } from "../parts/basics.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { fileKey, frameFacts, wordsOf } from "../parts/panel.tsx";
import { saveAll } from "../parts/saveall.ts";
import { addTransform, frameNames, NothingHere } from "../parts/selection.tsx";
import type { ViewProps } from "./props.ts";

const PAGE = 500;
/** A chosen row beyond the first page is looked for by so many at once, up to there. */
const FAR_PAGE = 5000;
const FAR_ROWS = 100_000;
export const COST_COLUMN: Record<string, string> = {
	peak: "peak_bytes", live: "live_bytes", allocated: "allocated_bytes", allocations: "allocations", temporary: "temporary_allocations", leaked: "leaked_bytes",
};

export interface TableRow {
	page: RowsAnswer;
	i: number;
	index: number;
}

function number(row: TableRow, column: string): number | null {
	const values = row.page.rows[column] as (number | null)[] | undefined;
	return values ? (values[row.i] ?? null) : null;
}

/**
 * useRows - a long list by pages, as the window comes to them. A cursor is the number of rows before it, so any page can be asked for
 * at once; one question is in flight, for the page that is looked at now.
 */
export function useRows(path: string | null, stamp: number): { answer: ReturnType<typeof useAnswer<RowsAnswer>>; row: (i: number) => TableRow | null; want: (from: number, to: number) => void; total: number } {
	const answer = useAnswer<RowsAnswer>(path, stamp);
	const pages = useRef(new Map<number, RowsAnswer>());
	const asking = useRef<{ page: number; control: AbortController } | null>(null);
	const of = useRef<RowsAnswer | null>(null);
	const [, again] = useState(0);
	if (of.current !== answer.data) {
		of.current = answer.data;
		asking.current?.control.abort();
		asking.current = null;
		pages.current = new Map(answer.data ? [[0, answer.data]] : []);
	}
	useEffect(() => {
		if (answer.data)
			head.set(answer.data);
		return () => asking.current?.control.abort();
	}, [answer.data]);
	const row = (index: number): TableRow | null => {
		const page = pages.current.get(Math.floor(index / PAGE));
		const i = index % PAGE;
		return page && i < ((Object.values(page.rows)[0] as unknown[] | undefined)?.length ?? 0) ? { page, i, index } : null;
	};
	const want = (from: number, to: number) => {
		const total = answer.data?.total_rows ?? 0;
		const first = Math.floor(from / PAGE);
		const last = Math.floor(Math.max(from, Math.min(to, total) - 1) / PAGE);
		const missing = [first, last].find((p) => !pages.current.has(p));
		if (missing === undefined || missing === asking.current?.page || !path)
			return;
		asking.current?.control.abort();
		const control = new AbortController();
		asking.current = { page: missing, control };
		ask<RowsAnswer>(`${path}&cursor=${missing * PAGE}`, control.signal).then(
			(page) => {
				asking.current = null;
				pages.current.set(missing, page);
				if (pages.current.size > 60)
					pages.current.delete([...pages.current.keys()].find((k) => k !== 0 && Math.abs(k - missing) > 2) ?? -1);
				again((n) => n + 1);
				want(from, to);
			},
			() => {
				if (asking.current?.control === control)
					asking.current = null;
			},
		);
	};
	return { answer, row, want, total: answer.data?.total_rows ?? 0 };
}

function RowName(props: { row: TableRow; by: string }): JSX.Element {
	const theme = useStore(colours);
	const { page, i } = props.row;
	if (props.by === "thread")
		return (
			<span class="tree-name">
				<span class="name">{plain((page.rows.name as string[] | undefined)?.[i]) || "thread"}</span>
				<span class="where tid">tid {(page.rows.tid as number[] | undefined)?.[i]}</span>
			</span>
		);
	if (props.by === "stack") {
		const stack = (page.rows.stack as number[][] | undefined)?.[i] ?? [];
		const why = (page.rows.partial as (string | null)[] | undefined)?.[i];
		return (
			<span class="tree-name">
				<span class="dot" style={{ background: theme.boxes[page.frames.category[stack[0]] ?? 7] }} />
				<span class="name">
					{stack.slice(0, 6).map((f) => plain(page.frames.short[f])).join(" ← ") || "unknown stack"}
					{stack.length > 6 ? ` ← ${stack.length - 6} more` : ""}
				</span>
				{why && <span class="where">partial: {plain(why)}</span>}
			</span>
		);
	}
	const facts = frameFacts(page, page.rows.frame?.[i] ?? -1);
	return (
		<span class="tree-name" title={facts?.name}>
			<span class="dot" style={{ background: theme.boxes[facts?.category ?? 7] }} />
			<span class="name">{facts ? facts.short || facts.name : "everything"}</span>
			{facts && props.by === "function" && <span class="where">{[facts.module, facts.file ? `${baseName(facts.file)}${facts.line > 0 ? `:${facts.line}` : ""}` : ""].filter(Boolean).join(" · ")}</span>}
		</span>
	);
}

/** columnChoice - the reader's columns, by the names of the API; null: the usual ones. Kept by the browser, in no link. */
function keptColumns(): string[] | null {
	try {
		const kept: unknown = JSON.parse(localStorage.getItem("columns") ?? "null");
		return Array.isArray(kept) ? kept.filter((c): c is string => typeof c === "string") : null;
	} catch {
		return null;
	}
}
export const columnChoice = new Store<string[] | null>(keptColumns());
columnChoice.watch(() => {
	try {
		localStorage.setItem("columns", JSON.stringify(columnChoice.get()));
	} catch {
		// a browser that keeps nothing: the choice lasts as long as the page
	}
});

/** What can be a column: every cost, with what it calls and its own; `now` are those shown, `fixed` the one that the table is about. */
function ColumnMenu(props: { offered: (key: string) => boolean; inclusive: boolean; now: string[]; fixed: string }): JSX.Element {
	const box = (key: string, what: string) =>
		props.offered(key) ? (
			<input
				type="checkbox"
				aria-label={what}
				checked={props.now.includes(key)}
				disabled={key === props.fixed}
				onChange={(e) => columnChoice.set(e.currentTarget.checked ? [...props.now, key] : props.now.filter((k) => k !== key))}
			/>
		) : null;
	return (
		<Menu label="columns" title="which columns the table has" align="right">
			{(close) => (
				<>
					<table class="panel-table">
						<thead>
							<tr>
								<th scope="col" />
								{props.inclusive && <th scope="col">total</th>}
								<th scope="col">self</th>
							</tr>
						</thead>
						<tbody>
							{Object.entries(COLUMNS).map(([column, meta]) => (
								<tr key={column}>
									<th scope="row">{meta.label}</th>
									{props.inclusive && <td>{box(`inclusive_${column}`, `${meta.label}, total`)}</td>}
									<td>{box(column, `${meta.label}, self`)}</td>
								</tr>
							))}
						</tbody>
					</table>
					<button type="button" class="button" onClick={() => (columnChoice.set(null), close())}>
						The usual ones
					</button>
				</>
			)}
		</Menu>
	);
}

const WIDE = ["peak_bytes", "live_bytes", "allocated_bytes", "allocations", "temporary_allocations", "leaked_bytes"];

export function TableView(props: ViewProps & { fixedBy?: string }): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const by = props.fixedBy ?? words.by ?? "function";
	const asked: Words = { ...words, by, limit: undefined };
	const cost = costOf(words);
	const main = COST_COLUMN[cost] ?? "peak_bytes";
	const inclusive = by !== "stack" && by !== "thread";
	const sort = words.sort ?? (inclusive ? `inclusive_${main}` : main);
	const order = words.order === "asc" ? "asc" : "desc";
	const path = api("rows", asked, { sort, order, limit: PAGE });
	const rows = useRows(path, props.stamp);
	const { answer, row, want } = rows;
	const total = Math.min(rows.total, /^\d+$/.test(words.limit ?? "") ? Number(words.limit) : rows.total);
	useEffect(() => {
		answer.data?.frames?.key.forEach((key, i) => frameNames.set(key, answer.data!.frames.short[i]));
	}, [answer.data]);
	const [selected, setSelected] = useState(-1);
	useEffect(() => {
		const key = words.s;
		const first = answer.data;
		if (!key || !first)
			return setSelected(-1);
		const at = (first.rows.key ?? []).indexOf(key);
		const now = selected >= 0 ? row(selected) : null;
		// one that was chosen far down is known already
		if (at < 0 && now?.page.rows.key?.[now.i] === key)
			return;
		setSelected(at);
		if (at >= 0 || first.total_rows <= PAGE || !first.rows.key)
			return;
		// a link to a row of a later page: looked for from there on
		const control = new AbortController();
		const look = async () => {
			for (let from = PAGE; from < Math.min(first.total_rows, FAR_ROWS); from += FAR_PAGE) {
				const page = await ask<RowsAnswer>(`${api("rows", asked, { sort, order, limit: FAR_PAGE })}&cursor=${from}`, control.signal);
				const i = (page.rows.key ?? []).indexOf(key);
				if (i >= 0)
					return setSelected(from + i);
			}
		};
		look().catch(() => undefined);
		return () => control.abort();
	}, [words.s, answer.data]);
	const unit = COSTS.find((c) => c.value === cost)?.unit ?? "bytes";
	const has = (column: string) => answer.data?.rows[column] !== undefined;
	const choice = useStore(columnChoice);
	const mainKey = inclusive ? `inclusive_${main}` : main;
	const shown = useMemo(() => {
		const all = Object.keys(COLUMNS).flatMap((c) => (inclusive ? [`inclusive_${c}`, c] : [c]));
		const usual = [main, ...WIDE.filter((c) => !(c === "live_bytes" && cost === "peak" && !words.at)).map((c) => (inclusive ? `inclusive_${c}` : c))];
		return all.filter((c) => c === mainKey || (choice ?? usual).includes(c));
	}, [choice, main, mainKey, inclusive, cost, words.at]);
	const columns: Column<TableRow>[] = useMemo(() => {
		const list: Column<TableRow>[] = [{ key: "name", label: by, width: "minmax(240px, 1fr)", cell: (r) => <RowName row={r} by={by} />, text: (r) => rowText(r, by) }];
		const add = (key: string, column: string, own: boolean, strong: boolean) => {
			const meta = COLUMNS[column];
			list.push({
				key, right: true, sortable: true, width: "104px",
				label: <Explained term={own ? "self" : "total"} more={TERMS[meta.term]}>{own ? `self ${meta.label}` : meta.label}</Explained>,
				text: (r) => number(r, key),
				cell: (r) => {
					const v = number(r, key);
					return strong ? <b>{amount(v, meta.unit)}</b> : v === 0 ? <span class="faint">0</span> : amount(v, meta.unit);
				},
			});
		};
		if (has(mainKey)) {
			add(mainKey, main, false, true);
			list.push({ key: "bar", label: "", width: "80px", cell: (r) => <Bar part={number(r, mainKey) ?? 0} whole={r.page.total} colour={r.page.rows.frame ? theme.boxes[r.page.frames.category[r.page.rows.frame[r.i]] ?? 7] : undefined} /> });
			list.push({ key: "share", label: <Explained term="of_all">of all</Explained>, width: "80px", right: true, text: (r) => percent(number(r, mainKey) ?? 0, r.page.total), cell: (r) => percent(number(r, mainKey) ?? 0, r.page.total) });
		}
		if (inclusive && has(main) && shown.includes(main))
			add(main, main, true, false);
		if (words.base && has("base")) {
			const baseKey = inclusive && has("base_inclusive") ? "base_inclusive" : "base";
			list.push({
				key: "delta", label: <Explained term="delta">change</Explained>, width: "124px", right: true, sortable: true,
				text: (r) => (number(r, mainKey) ?? 0) - (number(r, baseKey) ?? 0),
				cell: (r) => {
					const d = (number(r, mainKey) ?? 0) - (number(r, baseKey) ?? 0);
					const word = !number(r, baseKey) ? "new" : !number(r, mainKey) ? "gone" : d > 0 ? "grown" : d < 0 ? "shrunk" : "same";
					return <span class={d > 0 ? "grown" : d < 0 ? "shrunk" : "faint"} title={word}>{signed(d, unit)}{word === "new" || word === "gone" ? ` ${word}` : ""}</span>;
				},
			});
		}
		// in the order that has been usual, then what the reader added
		for (const key of [...new Set([...WIDE.map((c) => (inclusive ? `inclusive_${c}` : c)), ...shown])]) {
			const own = !key.startsWith("inclusive_");
			const column = own ? key : key.slice("inclusive_".length);
			if (column !== main && shown.includes(key) && has(key))
				add(key, column, own && inclusive, false);
		}
		return list;
	}, [answer.data, by, main, words.base, theme, shown]);
	const chosen = selected >= 0 ? row(selected) : null;
	const openRow = (r: TableRow) => {
		const key = r.page.rows.key?.[r.i];
		if (by === "thread")
			go({ thread: String((r.page.rows.tid as number[])[r.i]) }, "flame");
		else if (by === "function" && key)
			go({ f: key, n: undefined, s: undefined }, "function");
		else if (by === "stack" && key)
			go({ n: undefined, s: key, by: undefined }, "flame");
		else if (by === "module" && r.page.rows.frame)
			go({ module: frameFacts(r.page, r.page.rows.frame[r.i])?.module || undefined, by: undefined, s: undefined }, "table");
		else if (key)
			addTransform(`focus:${key}`);
	};
	props.expose({
		loaded: answer.data ? `${grouped(total)} rows` : "",
		json: answer.of ?? undefined,
		csv: answer.data ? () => void saveCsv(path, by) : undefined,
		panel: chosen ? <RowPanel row={chosen} by={by} onOpen={() => openRow(chosen)} /> : null,
	});
	return (
		<Shown answer={answer}>
			{() =>
				total ? (
					<>
					<div class="table-bar">
						<ColumnMenu offered={has} inclusive={inclusive} now={shown} fixed={mainKey} />
					</div>
					<Grid
						columns={columns}
						total={total}
						row={row}
						selected={selected}
						sort={sort}
						order={order}
						label={`by ${by}`}
						onWindow={want}
						onSort={(key) => go({ sort: key, order: sort === key && order === "desc" ? "asc" : undefined })}
						onSelect={(i, r) => {
							setSelected(i);
							const key = r.page.rows.key?.[r.i];
							if (key)
								go({ s: key }, undefined, true);
						}}
						onOpen={(_i, r) => openRow(r)}
					/>
					</>
				) : (
					<NothingHere />
				)
			}
		</Shown>
	);
}

function rowText(r: TableRow, by: string): string {
	if (by === "thread")
		return plain((r.page.rows.name as string[] | undefined)?.[r.i]);
	if (by === "stack")
		return ((r.page.rows.stack as number[][] | undefined)?.[r.i] ?? []).map((f) => plain(r.page.frames.name[f]) || plain(r.page.frames.short[f])).join(";");
	const facts = frameFacts(r.page, r.page.rows.frame?.[r.i] ?? -1);
	return facts?.name || facts?.short || "";
}

function saveCsv(path: string, by: string): Promise<void> {
	const columnsOf = (page: RowsAnswer) => Object.keys(page.rows).filter((c) => !["key", "frame", "stack", "partial", "name", "tid"].includes(c));
	const rowsOf = (page: RowsAnswer) =>
		(Object.values(page.rows)[0] as unknown[]).map((_, i) => {
			const r = { page, i, index: i };
			const facts = page.rows.frame ? frameFacts(page, page.rows.frame[i]) : null;
			return [rowText(r, by), facts?.module ?? "", facts?.file ?? "", facts && facts.line > 0 ? facts.line : "", ...columnsOf(page).map((c) => number(r, c))];
		});
	return saveAll<RowsAnswer>(path, by, (page) => [by, "module", "file", "line", ...columnsOf(page)], rowsOf, (page) => page.total_rows);
}

export function RowPanel(props: { row: TableRow; by: string; onOpen: () => void }): JSX.Element {
	const { row, by } = props;
	const theme = useStore(colours);
	const from = source();
	const facts = row.page.rows.frame ? frameFacts(row.page, row.page.rows.frame[row.i]) : null;
	const stack = by === "stack" ? ((row.page.rows.stack as number[][])[row.i] ?? []) : null;
	const open: Record<string, string> = { function: "Callers, callees", thread: "Its flame", stack: "In the flame", module: "Its functions", file: "Focus", line: "Focus" };
	return (
		<div class="panel-body">
			<h2 class="panel-name" title={facts?.name}>
				{facts && <span class="dot" style={{ background: theme.boxes[facts.category] }} />}
				{facts ? facts.short || facts.name : by === "thread" ? plain((row.page.rows.name as string[])[row.i]) || "thread" : "call stack"}
			</h2>
			{facts && (
				<p class="second mono panel-where">
					{facts.module || "no module"}
					{facts.file ? ` · ${facts.file}${facts.line > 0 ? `:${facts.line}` : ""}` : ""}
					<br />
					<span class="plain-font">{CATEGORY_LABELS[facts.category]}</span>
				</p>
			)}
			{facts && facts.name && facts.name !== facts.short && <p class="second small-text wrap">{facts.name}</p>}
			<table class="panel-table">
				<thead>
					<tr>
						<th scope="col" />
						<th scope="col">
							<Explained term="self">self</Explained>
						</th>
						{row.page.rows.inclusive_peak_bytes && (
							<th scope="col">
								<Explained term="total">total</Explained>
							</th>
						)}
					</tr>
				</thead>
				<tbody>
					{Object.entries(COLUMNS)
						.filter(([c]) => row.page.rows[c] !== undefined)
						.map(([c, meta]) => (
							<tr key={c}>
								<th scope="row">
									<Explained term={meta.term} value={number(row, c)} unit={meta.unit} focus>
										{meta.label}
									</Explained>
								</th>
								<td>{amount(number(row, c), meta.unit)}</td>
								{row.page.rows.inclusive_peak_bytes && <td>{row.page.rows[`inclusive_${c}`] ? amount(number(row, `inclusive_${c}`), meta.unit) : ""}</td>}
							</tr>
						))}
				</tbody>
			</table>
			<div class="actions">
				<button type="button" class="button" onClick={props.onOpen}>
					{open[by] ?? "Open"}
				</button>
				{facts && by === "function" && (
					<>
						<button type="button" class="button" onClick={() => (addTransform(`focus:${facts.key}`), go({}, "flame"))}>
							Focus in the flame
						</button>
						<button type="button" class="button" onClick={() => addTransform(`hide:${facts.key}`)}>
							Hide
						</button>
						<button type="button" class="button" onClick={() => addTransform(`drop:${facts.key}`)}>
							Drop
						</button>
						{offered("blocks", from) && (
							<a class="button" href={link(wordsOf(facts), "blocks")}>
								Blocks
							</a>
						)}
					</>
				)}
				{offered("source", from) && facts?.file && (
					<a class="button" href={link({ f: fileKey(row.page.files[row.page.frames.file[row.page.rows.frame![row.i]]]), s: undefined, sort: undefined }, "source")}>
						Source
					</a>
				)}
				<button type="button" class="button" onClick={() => void copy(rowText(row, by).replace(/;/g, "\n"), "name")}>
					Copy
				</button>
			</div>
			{stack && (
				<div class="stack">
					<h3>Stack, innermost first</h3>
					<ol>
						{stack.map((f, i) => (
							<li key={i}>
								<span class="dot" style={{ background: theme.boxes[row.page.frames.category[f]] }} />
								<span title={plain(row.page.frames.name[f])}>{plain(row.page.frames.short[f])}</span>
							</li>
						))}
					</ol>
				</div>
			)}
			<p class="second small-text">row {count(row.index + 1)}</p>
		</div>
	);
}
