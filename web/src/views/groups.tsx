// SPDX-License-Identifier: Apache-2.0
// Blocks by the stack that allocated them: what of each group matches, and the group as a whole.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, go, link, offered, place, source } from "../app.ts";
import { useAnswer } from "../api/client.ts";
import type { GroupsAnswer, RowsAnswer } from "../api/types.ts";
import { bytes, duration, exact, grouped, moment, plural } from "../lib/format.ts";
import { useStore } from "../lib/store.ts";
import { ofBlocks, type Words } from "../lib/url.ts";
import { Empty, Explained, Shown } from "../parts/basics.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { StackList, stackLine, stackNames } from "../parts/panel.tsx";
import { saveAll } from "../parts/saveall.ts";
import type { ViewProps } from "./props.ts";
import { useRows, type TableRow } from "./table.tsx";

type Columns = GroupsAnswer["rows"];
const g = (r: TableRow): Columns => r.page.rows as unknown as Columns;
const answerOf = (r: TableRow): GroupsAnswer => r.page as unknown as GroupsAnswer;

/** Words of `order`, by the columns that they sort. */
const SORTS: Record<string, keyof Columns> = {
	count: "count", size: "bytes", leaked: "leaked", lifetime: "lifetime_ns", time: "first_ns",
	"all.count": "all_count", "all.size": "all_bytes", "all.leaked": "all_leaked", "all.lifetime": "all_lifetime_ns",
};

/** Form - the switch between single blocks and groups. */
export function Form(): JSX.Element {
	const { words } = useStore(place);
	const to = (group?: string) => go({ group, sort: undefined, s: undefined });
	return (
		<span class="segments" role="group" aria-label="shown as">
			<button type="button" aria-pressed={!words.group} onClick={() => to()}>blocks</button>
			<button type="button" aria-pressed={!!words.group} title="a row for each call stack" onClick={() => to("stack")}>groups</button>
		</span>
	);
}

const namesOf = (r: TableRow): string[] => stackNames(answerOf(r), g(r).stack[r.i]);

/** Words that lead from a group to its blocks: those that match, as the filters stay. */
const blocksOf = (r: TableRow): Words => ({ stack: String(g(r).group[r.i]), group: undefined, sort: undefined, s: undefined });

function life(ns: number): string {
	return ns ? duration(ns) : "< 1 ms";
}

export function Groups(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const given = words.sort && SORTS[words.sort.replace(/^-/, "")] ? words.sort : "-size";
	const sort = given.replace(/^-/, "");
	const order = given.startsWith("-") ? "desc" : "asc";
	const path = api("allocations", ofBlocks(words), { group: "stack", order: given, limit: 500 });
	const { answer, row, want, total } = useRows(path, props.stamp);
	const first = answer.data as unknown as GroupsAnswer | null;
	// by its number in the address it is found wherever it stands; the row itself, once it was seen
	const [at, setAt] = useState(-1);
	useEffect(() => setAt(first && words.s ? first.rows.group.indexOf(Number(words.s)) : -1), [first]);
	const asked = words.s && /^\d+$/.test(words.s) ? words.s : undefined;
	const one = useAnswer<RowsAnswer>(asked ? api("allocations", { ...ofBlocks(words), stack: asked }, { group: "stack", limit: 1 }) : null, props.stamp).data;
	const chosen: TableRow | null = one && (one as unknown as GroupsAnswer).rows.group[0] === Number(asked) ? { page: one, i: 0, index: at } : null;
	const column = (key: string, label: JSX.Element | string, cell: (r: TableRow) => JSX.Element | string, width: string, title?: string): Column<TableRow> =>
		({ key, label, width, right: true, sortable: true, cell, title, text: (r) => g(r)[SORTS[key]][r.i] });
	const columns: Column<TableRow>[] = [
		{ key: "stack", label: "allocated by", width: "minmax(220px, 1fr)", cell: (r) => <span title={namesOf(r).join(" ← ")}>{stackLine(answerOf(r), g(r).stack[r.i])}</span>, text: (r) => namesOf(r).join(";") },
		column("count", <Explained term="blocks">matched</Explained>, (r) => grouped(g(r).count[r.i]), "86px"),
		column("size", <Explained term="size">bytes</Explained>, (r) => <b title={exact(g(r).bytes[r.i], "bytes")}>{bytes(g(r).bytes[r.i])}</b>, "90px"),
		column("leaked", <Explained term="leaked">leaked</Explained>, (r) => grouped(g(r).leaked[r.i]), "80px"),
		column("lifetime", <Explained term="lifetime">lived</Explained>, (r) => life(g(r).lifetime_ns[r.i]), "90px", "mean of those that match"),
		column("time", "first", (r) => moment(g(r).first_ns[r.i], 1e9), "86px"),
		column("all.count", "whole group", (r) => grouped(g(r).all_count[r.i]), "104px", "all blocks of the stack, whatever the filters"),
		column("all.size", "its bytes", (r) => <span title={exact(g(r).all_bytes[r.i], "bytes")}>{bytes(g(r).all_bytes[r.i])}</span>, "90px", "bytes of the whole group"),
		column("all.leaked", "its leaked", (r) => grouped(g(r).all_leaked[r.i]), "90px", "never freed, of the whole group"),
		column("all.lifetime", "it lived", (r) => life(g(r).all_lifetime_ns[r.i]), "90px", "mean of the whole group"),
	];
	props.expose({
		loaded: first ? `${grouped(total)} groups, ${grouped(first.matched)} blocks match` : "",
		json: answer.of ?? undefined,
		csv: first
			? () => {
					const keys = Object.keys(first.rows).filter((k) => k !== "stack") as (keyof Columns)[];
					const rowsOf = (page: GroupsAnswer) => page.rows.group.map((_, i) => [...keys.map((k) => page.rows[k][i]), stackNames(page, page.rows.stack[i]).join(";")]);
					void saveAll<GroupsAnswer>(path, "groups", () => [...keys, "stack"], rowsOf, (page) => page.total_rows);
				}
			: undefined,
		panel: chosen ? <GroupPanel row={chosen} /> : null,
	});
	return (
		<>
			<div class="tools">
				<Form />
				<span class="grow" />
				{first && (
					<span class="second">
						{plural(total, "group")}, {grouped(first.matched)} of {grouped(first.scanned)} blocks
					</span>
				)}
			</div>
			<Shown answer={answer}>
				{() =>
					total ? (
						<Grid
							columns={columns}
							total={total}
							row={row}
							selected={asked ? at : -1}
							sort={sort}
							order={order}
							label="groups of blocks"
							onWindow={want}
							onSort={(key) => go({ sort: key === sort && order === "desc" ? key : `-${key}` })}
							onOpen={(_i, r) => go(blocksOf(r), "blocks")}
							onSelect={(i, r) => (setAt(i), go({ s: String(g(r).group[r.i]) }, undefined, true))}
						/>
					) : (
						<Empty>
							<b>{first?.scanned ? `${plural(first.scanned, "block")} were made, none is in this selection.` : "No block in this selection."}</b>
							<p>Take a filter away above, or choose another moment.</p>
						</Empty>
					)
				}
			</Shown>
		</>
	);
}

function GroupPanel(props: { row: TableRow }): JSX.Element {
	const a = g(props.row);
	const { i } = props.row;
	const line = (what: string, matched: string, whole: string) => (
		<tr>
			<th scope="row">{what}</th>
			<td>{matched}</td>
			<td>{whole}</td>
		</tr>
	);
	return (
		<div class="panel-body">
			<h2 class="panel-name">{namesOf(props.row)[0] || "unknown stack"}</h2>
			<table class="panel-table">
				<thead>
					<tr>
						<th scope="col">
							<span class="second">blocks</span>
						</th>
						<th scope="col">matched</th>
						<th scope="col">whole group</th>
					</tr>
				</thead>
				<tbody>
					{line("blocks", grouped(a.count[i]), grouped(a.all_count[i]))}
					{line("bytes", bytes(a.bytes[i]), bytes(a.all_bytes[i]))}
					{line("smallest", bytes(a.min_bytes[i]), bytes(a.all_min_bytes[i]))}
					{line("largest", bytes(a.max_bytes[i]), bytes(a.all_max_bytes[i]))}
					{line("leaked", grouped(a.leaked[i]), grouped(a.all_leaked[i]))}
					{line("lived, mean", life(a.lifetime_ns[i]), life(a.all_lifetime_ns[i]))}
					{line("first", moment(a.first_ns[i], 1e9), moment(a.all_first_ns[i], 1e9))}
					{line("last", moment(a.last_ns[i], 1e9), moment(a.all_last_ns[i], 1e9))}
					{line("most at once", "", `${bytes(a.all_most_bytes[i])} at ${moment(a.all_most_ns[i], 1e9)}`)}
				</tbody>
			</table>
			<div class="actions">
				<a class="button" href={link(blocksOf(props.row), "blocks")}>
					{plural(a.count[i], "block")}
				</a>
				{offered("flame", source()) && (
					<a class="button" href={link({ ...blocksOf(props.row), cost: "allocated" }, "flame")}>
						Flame
					</a>
				)}
			</div>
			<StackList answer={answerOf(props.row)} stack={a.stack[i]} title="Allocated by, innermost first" />
		</div>
	);
}
