// SPDX-License-Identifier: Apache-2.0
// Two levels of area: what is shown, and within each the next one. A long trunk is passed over.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { fileStem, saveRows } from "../app.ts";
import { colours } from "../lib/colours.ts";
import { amount, percent } from "../lib/format.ts";
import { saveBoxes } from "../lib/pictures.ts";
import { squarify, type Rect } from "../lib/treemap.ts";
import { useStore } from "../lib/store.ts";
import { Shown, showTip, useSize } from "../parts/basics.tsx";
import { colourer, fit, nameOf } from "../parts/flame.tsx";
import { NodePanel, NodeTip } from "../parts/panel.tsx";
import { useTree } from "../parts/usetree.ts";
import { colouringOf, Legend, pictureLines } from "./flame.tsx";
import { childrenOf } from "./tree.tsx";
import { NothingHere } from "../parts/selection.tsx";
import type { ViewProps } from "./props.ts";

interface Tile extends Rect {
	node: number;
	level: number;
	rest: number;
}

export function TreemapView(props: ViewProps): JSX.Element {
	const treed = useTree(props.stamp);
	const theme = useStore(colours);
	const [ref, size] = useSize<HTMLDivElement>();
	const { tree } = treed;
	const paint = useMemo(() => (tree ? colourer(tree, theme, colouringOf(tree, treed.words, false)) : () => theme.same), [tree, theme, treed.words.colour]);
	const unit = treed.answer.data?.unit ?? "bytes";
	const tiles = useMemo(() => {
		const list: Tile[] = [];
		if (!tree || !size.width)
			return list;
		// a way without branches tells nothing by its area: what stands at its end is shown
		const fork = (node: number): number => {
			for (;;) {
				let largest = -1;
				for (let child = node + 1; child < tree.end[node]; child = tree.end[child])
					if (largest < 0 || tree.total[child] > tree.total[largest])
						largest = child;
				if (largest < 0 || tree.total[largest] < 0.97 * tree.total[node])
					return node;
				node = largest;
			}
		};
		const root = fork(0);
		const lay = (node: number, box: Rect, level: number) => {
			const kids = childrenOf(tree, node).filter((k) => tree.total[k] > 0);
			const parts = kids.map((k) => ({ node: k, size: tree.total[k], rest: 0 }));
			if (tree.self[node] > 0)
				parts.push({ node, size: tree.self[node], rest: -1 });
			if (tree.rest[node] > 0)
				parts.push({ node, size: tree.rest[node], rest: tree.rest[node] });
			parts.sort((p, q) => q.size - p.size);
			squarify(parts.map((p) => p.size), box).forEach((r, i) => {
				if (r.w < 2 || r.h < 2)
					return;
				list.push({ ...r, node: parts[i].rest === 0 ? fork(parts[i].node) : parts[i].node, level, rest: parts[i].rest });
				if (level === 1 && parts[i].rest === 0 && r.w > 60 && r.h > 50)
					lay(fork(parts[i].node), { x: r.x + 3, y: r.y + 21, w: r.w - 6, h: r.h - 24 }, 2);
			});
		};
		lay(root, { x: 0, y: 0, w: size.width, h: size.height }, 1);
		return list;
	}, [tree, size.width, size.height]);
	const save = (kind: "svg" | "png") => {
		const boxes = tiles.map((t) => ({ x: t.x, y: t.y, w: Math.max(1, t.w - 1), h: Math.max(1, t.h - 1), colour: t.rest > 0 ? theme.run : paint(t.node), label: t.w > 46 && t.h > 18 ? fit(`${nameOf(tree!, t.node)}${t.rest === -1 ? ", self" : ""}`, t.w - 8) : "", title: `${nameOf(tree!, t.node)} · ${amount(t.rest > 0 ? t.rest : t.rest === -1 ? tree!.self[t.node] : tree!.total[t.node], unit)}`, top: t.level === 1 && t.rest === 0 }));
		saveBoxes(kind, "treemap", boxes, Math.round(size.width), Math.round(size.height), pictureLines(treed, `byteledger · ${fileStem()}`));
	};
	props.expose({
		loaded: tree ? `${tiles.length} tiles` : "",
		json: treed.answer.of ?? undefined,
		csv: tree ? () => saveRows("treemap", [["name", "module", "level", "bytes", "what"], ...tiles.map((t) => [nameOf(tree, t.node), tree.frame[t.node] >= 0 ? (tree.answer.modules[tree.answer.frames.module[tree.frame[t.node]]] ?? "") : "", t.level, t.rest > 0 ? t.rest : t.rest === -1 ? tree.self[t.node] : tree.total[t.node], t.rest > 0 ? "not loaded" : t.rest === -1 ? "self" : "total"])]) : undefined,
		svg: tree ? () => save("svg") : undefined,
		png: tree ? () => save("png") : undefined,
		panel: tree && treed.selected >= 0 ? <NodePanel tree={tree} node={treed.selected} unit={unit} onZoom={() => treed.zoom(treed.selected)} /> : null,
		treed,
	});
	return (
		<Shown answer={treed.answer}>
			{(answer) => (
				<>
					{tree && answer.total > 0 ? <Legend treed={treed} still /> : <NothingHere />}
					<div class="treemap" ref={ref} role="group" aria-label="treemap">
						{tree &&
							tiles.map((t, i) => {
								const own = t.rest === -1;
								const name = t.rest > 0 ? "not loaded" : own ? `${nameOf(tree, t.node)}, self` : nameOf(tree, t.node);
								const value = t.rest > 0 ? t.rest : own ? tree.self[t.node] : tree.total[t.node];
								return (
									<button
										key={i}
										type="button"
										class={`tile level-${t.level} ${t.node === treed.selected && !own ? "selected" : ""}`}
										style={{ left: `${t.x}px`, top: `${t.y}px`, width: `${Math.max(1, t.w - 1)}px`, height: `${Math.max(1, t.h - 1)}px`, padding: t.w < 16 || t.h < 8 ? 0 : undefined, background: t.rest > 0 ? theme.run : paint(t.node), color: theme.boxText }}
										aria-label={t.w > 46 && t.h > 18 ? undefined : `${name} ${amount(value, unit)}, ${percent(value, answer.total)} of all`}
										onClick={() => (t.node === treed.selected ? treed.zoom(t.node) : treed.select(t.node))}
										onMouseMove={(e) => showTip({ x: e.clientX, y: e.clientY, body: <NodeTip tree={tree} node={t.node} unit={unit} /> })}
										onMouseLeave={() => showTip(null)}
									>
										{t.w > 46 && t.h > 18 && (
											<span class="tile-text">
												{name}
												{t.level === 1 || t.h > 34 ? <small>{amount(value, unit)}</small> : <span class="unseen">{amount(value, unit)}</span>}
												<span class="unseen">, {percent(value, answer.total)} of all</span>
											</span>
										)}
									</button>
								);
							})}
					</div>
				</>
			)}
		</Shown>
	);
}
