// SPDX-License-Identifier: Apache-2.0
// The call tree as rows that open and close.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { saveRows } from "../app.ts";
import { colours } from "../lib/colours.ts";
import { amount, percent, signed } from "../lib/format.ts";
import { hotPath, type Tree } from "../lib/layout.ts";
import { useStore } from "../lib/store.ts";
import { Bar, Explained, Shown, showTip } from "../parts/basics.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { nameOf } from "../parts/flame.tsx";
import { frameFacts, NodePanel, NodeTip } from "../parts/panel.tsx";
import { useTree } from "../parts/usetree.ts";
import { NothingHere } from "../parts/selection.tsx";
import type { ViewProps } from "./props.ts";

export function childrenOf(tree: Tree, node: number): number[] {
	const list: number[] = [];
	for (let child = node + 1; child < tree.end[node]; child = tree.end[child])
		list.push(child);
	return list;
}

/** saveTree - all boxes that are loaded, depth first. */
export function saveTree(tree: Tree, what = "tree"): void {
	const rows: (string | number | null)[][] = [["depth", "function", "module", "file", "line", "total", "self", "blocks", ...(tree.base ? ["before"] : [])]];
	for (let n = 0; n < tree.count; n++) {
		const f = frameFacts(tree.answer, tree.frame[n]);
		rows.push([tree.depth[n], f?.name || f?.short || "", f?.module ?? "", f?.file ?? "", f && f.line > 0 ? f.line : "", tree.total[n], tree.self[n], tree.answer.node.blocks?.[n] ?? "", ...(tree.base ? [tree.base[n]] : [])]);
	}
	saveRows(what, rows);
}

/** visibleRows - depth first, only what is open. */
export function visibleRows(tree: Tree, open: Set<string>): number[] {
	const list: number[] = [];
	const walk = (node: number) => {
		list.push(node);
		if (open.has(tree.key(node)))
			for (let child = node + 1; child < tree.end[node]; child = tree.end[child])
				walk(child);
	};
	if (tree.count)
		walk(0);
	return list;
}

export function TreeView(props: ViewProps): JSX.Element {
	const treed = useTree(props.stamp);
	const theme = useStore(colours);
	const { tree } = treed;
	const unit = treed.answer.data?.unit ?? "bytes";
	const [open, setOpen] = useState<Set<string>>(new Set());
	// what is open at first: the hot path; later: whatever the reader opened, and the way to what is selected
	useEffect(() => {
		if (!tree)
			return;
		setOpen((old) => {
			const next = new Set(old);
			if (!old.size || !old.has(tree.key(0)))
				for (const node of hotPath(tree, 0))
					next.add(tree.key(node));
			if (treed.selected >= 0)
				for (let i = tree.parent[treed.selected]; i >= 0; i = tree.parent[i])
					next.add(tree.key(i));
			return next;
		});
	}, [treed.answer.data, treed.selected]);
	const rows = useMemo(() => (tree ? visibleRows(tree, open) : []), [tree, open]);
	const selected = treed.selected >= 0 ? rows.indexOf(treed.selected) : -1;
	const hits = treed.hits;
	const toggle = (node: number, want: boolean | null) => {
		if (!tree)
			return;
		const key = tree.key(node);
		const has = tree.kids[node] > 0 || tree.rest[node] > 0;
		const is = open.has(key);
		if (want === false && (!is || !has)) {
			if (tree.parent[node] >= 0)
				treed.select(tree.parent[node]);
			return;
		}
		if (want === true && is && tree.kids[node]) {
			treed.select(node + 1);
			return;
		}
		if (!has)
			return;
		const next = new Set(open);
		if (is && want !== true)
			next.delete(key);
		else {
			next.add(key);
			if (tree.rest[node] > 0 && tree.kids[node] === 0)
				void treed.more(node);
		}
		setOpen(next);
	};
	const columns: Column<number>[] = tree
		? [
				{
					key: "name", label: "function", width: "minmax(220px, 1fr)",
					text: (n) => nameOf(tree, n),
					cell: (n) => {
						const facts = frameFacts(tree.answer, tree.frame[n]);
						const has = tree.kids[n] > 0 || tree.rest[n] > 0;
						const hit = !!facts && !!hits?.has(facts.key);
						return (
							<span class="tree-name" style={{ paddingLeft: `calc(${Math.min(tree.depth[n], 40)} * var(--step))` }}>
								<button
									type="button"
									tabIndex={-1}
									class={`twisty ${open.has(tree.key(n)) ? "open" : ""}`}
									aria-hidden="true"
									style={{ visibility: has ? "visible" : "hidden" }}
									onClick={(e) => {
										e.stopPropagation();
										toggle(n, null);
									}}
								/>
								<span class="dot" style={{ background: facts ? theme.boxes[facts.category] : theme.same }} />
								<span class={`name ${hit ? "hit" : ""}`}>
									{hit ? "● " : ""}
									{nameOf(tree, n)}
								</span>
								{facts && <span class="where">{facts.module}</span>}
								{tree.rest[n] > 0 && open.has(tree.key(n)) && (
									<button type="button" tabIndex={-1} class="link-button" onClick={(e) => (e.stopPropagation(), void treed.more(n))}>
										{amount(tree.rest[n], unit)} more below
									</button>
								)}
							</span>
						);
					},
				},
				{ key: "total", label: <Explained term="total">total</Explained>, width: "92px", right: true, text: (n) => tree.total[n], cell: (n) => amount(tree.total[n], unit) },
				{ key: "bar", label: "", width: "90px", cell: (n) => <Bar part={tree.total[n]} whole={tree.answer.total} colour={tree.frame[n] >= 0 ? theme.boxes[tree.answer.frames.category[tree.frame[n]]] : undefined} /> },
				{ key: "share", label: <Explained term="of_all">of all</Explained>, width: "80px", right: true, text: (n) => percent(tree.total[n], tree.answer.total), cell: (n) => percent(tree.total[n], tree.answer.total) },
				{ key: "self", label: <Explained term="self">self</Explained>, width: "92px", right: true, text: (n) => tree.self[n], cell: (n) => (tree.self[n] ? amount(tree.self[n], unit) : <span class="faint">0</span>) },
				...(tree.base
					? [{ key: "delta", label: <Explained term="delta">change</Explained>, width: "104px", right: true, text: (n: number) => tree.total[n] - tree.base![n], cell: (n: number) => <span class={tree.total[n] > tree.base![n] ? "grown" : tree.total[n] < tree.base![n] ? "shrunk" : "faint"}>{signed(tree.total[n] - tree.base![n], unit)}</span> }]
					: []),
			]
		: [];
	props.expose({
		loaded: tree ? `${tree.count.toLocaleString("en")} boxes` : "",
		json: treed.answer.of ?? undefined,
		csv: tree ? () => saveTree(tree) : undefined,
		panel: tree && treed.selected >= 0 ? <NodePanel tree={tree} node={treed.selected} unit={unit} onZoom={() => treed.zoom(treed.selected)} /> : null,
		treed,
	});
	return (
		<Shown answer={treed.answer}>
			{(answer) =>
				tree && answer.total > 0 ? (
					<Grid
						columns={columns}
						total={rows.length}
						row={(i) => rows[i] ?? null}
						selected={selected}
						label="call tree"
						tree={(n) => ({
							level: tree.depth[n] + 1,
							expanded: tree.kids[n] || tree.rest[n] > 0 ? open.has(tree.key(n)) : undefined,
							label: `${nameOf(tree, n)}, ${amount(tree.total[n], unit)}, ${percent(tree.total[n], answer.total)} of all, ${tree.answer.node.children?.[n] ?? tree.kids[n]} callees`,
						})}
						onSelect={(_i, n) => treed.select(n)}
						onOpen={(_i, n) => toggle(n, null)}
						onToggle={(_i, n, want) => toggle(n, want)}
						onHover={(n, e) => showTip(n === null ? null : { x: e.clientX, y: e.clientY, body: <NodeTip tree={tree} node={n} unit={unit} /> })}
					/>
				) : (
					<NothingHere />
				)
			}
		</Shown>
	);
}
