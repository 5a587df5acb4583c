// SPDX-License-Identifier: Apache-2.0
// Flame, as icicle or flame; its boxes and those of Compare.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { download, fileStem, go, place } from "../app.ts";
import { colours, CATEGORY_LABELS } from "../lib/colours.ts";
import { amount, duration, findRegex, percent, plain, count } from "../lib/format.ts";
import type { Tree } from "../lib/layout.ts";
import { svgOf, savePng, type Box } from "../lib/pictures.ts";
import { Store, useStore } from "../lib/store.ts";
import type { Words } from "../lib/url.ts";
import { Shown } from "../parts/basics.tsx";
import { Flame, colourer, edgeOf, EDGES, fit, largestModules, MODULE_COLOURS, nameOf, oneOwner, type Scale } from "../parts/flame.tsx";
import { frameFacts, NodePanel, NodeTip } from "../parts/panel.tsx";
import { useTree, type Treed } from "../parts/usetree.ts";
import { NothingHere } from "../parts/selection.tsx";
import type { ViewProps } from "./props.ts";
import { saveTree } from "./tree.tsx";

export const flameDown = new Store(true);
export type Colouring = "owner" | "module" | Scale;
const COLOURINGS: { value: Colouring; label: string }[] = [
	{ value: "owner", label: "owner" }, { value: "module", label: "module" }, { value: "age", label: "age" }, { value: "temporary", label: "temporary share" },
];
/** colouringOf - what the reader chose; else by owner, by module where one owner has nearly everything. */
export function colouringOf(tree: Tree | null, words: Words, scales = true): Colouring {
	const chosen = COLOURINGS.find((c) => c.value === words.colour)?.value;
	if (chosen && (scales || chosen === "owner" || chosen === "module"))
		return chosen;
	return tree && oneOwner(tree) ? "module" : "owner";
}

/** steps - what the colours of a scale stand for. */
function steps(scale: Scale, tree: Tree | null): string[] {
	const whole = tree?.answer.age_at_ns ?? 0;
	const text = (edge: number) => (scale === "age" ? duration(edge * whole) : percent(edge, 1));
	return EDGES.map((edge, i) => (i + 1 < EDGES.length ? `under ${text(EDGES[i + 1])}` : `${text(edge)} and more`));
}

export function Legend(props: { treed: Treed; change?: boolean; still?: boolean; scales?: boolean }): JSX.Element {
	const theme = useStore(colours);
	const tree = props.treed.tree;
	const chosen = props.treed.words.colour;
	const how = useMemo(() => colouringOf(tree, props.treed.words, props.scales), [tree, chosen, props.scales]);
	const modules = useMemo(() => (tree && how === "module" ? largestModules(tree) : []), [tree, how]);
	const there = useMemo(() => {
		const seen = new Set<number>();
		if (tree)
			for (let i = 0; i < tree.count; i++)
				if (tree.frame[i] >= 0)
					seen.add(tree.answer.frames.category[tree.frame[i]]);
		return seen;
	}, [tree]);
	const search = props.treed.search;
	const words = props.treed.words;
	return (
		<div class="legend-row">
			{props.change ? (
				<>
					<span class="key"><span class="swatch" style={{ background: theme.grown }} />+ grown or new</span>
					<span class="key"><span class="swatch" style={{ background: theme.same }} />same</span>
					<span class="key"><span class="swatch" style={{ background: theme.shrunk }} />− shrunk or gone</span>
				</>
			) : how === "age" || how === "temporary" ? (
				<>
					<span class="key">{how === "age" ? "age" : "temporary"}</span>
					{steps(how, tree).map((label, i) => (
						<span class="key" key={label}>
							<span class="swatch" style={{ background: (how === "age" ? theme.old : theme.brief)[i] }} />
							{label}
						</span>
					))}
					<span class="key"><span class="swatch" style={{ background: theme.same }} />not known</span>
				</>
			) : how === "owner" ? (
				CATEGORY_LABELS.map((label, i) =>
					there.has(i) ? (
						<span class="key" key={label}>
							<span class="swatch" style={{ background: theme.boxes[i] }} />
							{label}
						</span>
					) : null,
				)
			) : (
				<>
					{modules.map((m, i) => (
						<span class="key" key={m}>
							<span class="swatch" style={{ background: theme.boxes[MODULE_COLOURS[i]] }} />
							{plain(tree!.answer.modules[m]) || "no module"}
						</span>
					))}
					<span class="key">
						<span class="swatch" style={{ background: theme.boxes[7] }} />
						others
					</span>
				</>
			)}
			{words.find && search.data && (
				<span class="found" role="status">
					matched {amount(search.data.matched, search.data.unit)}, {percent(search.data.matched, search.data.total)}, {count(search.data.boxes)} of {count(search.data.of)} boxes
				</span>
			)}
			{words.find && search.data && search.data.boxes > 0 && (
				<button type="button" class="small" title="only stacks through a function whose name has it (Enter again)" onClick={() => go({ find: undefined, "function-regex": findRegex(words.find!), n: undefined, s: undefined })}>
					only these
				</button>
			)}
			<span class="grow" />
			{!props.change && (
				<label class="chip select" title="what the colours of boxes tell">
					<span class="second">colour</span>
					<select aria-label="colour by" value={how} onChange={(e) => go({ colour: e.currentTarget.value }, undefined, true)}>
						{COLOURINGS.filter((c) => props.scales || c.value === "owner" || c.value === "module").map((c) => (
							<option key={c.value} value={c.value}>
								{c.label}
							</option>
						))}
					</select>
				</label>
			)}
			{!props.still && (
				<button type="button" class="small" onClick={() => flameDown.set(!flameDown.get())} title="root above or below (v)">
					{flameDown.get() ? "icicle" : "flame"}
				</button>
			)}
		</div>
	);
}

/** boxesOf - the picture as it stands, for SVG and PNG: all rows, @W wide; @full: what that width stands for. */
export function boxesOf(tree: Tree, down: boolean, W = 1200, full = tree.width[0] || 1): { boxes: Box[]; height: number } {
	const theme = colours.get();
	const boxes: Box[] = [];
	const tall = tree.rows.length * 20;
	const paint = colourer(tree, theme, tree.base ? "change" : colouringOf(tree, place.get().words));
	for (let i = 0; i < tree.count; i++) {
		const w = (tree.width[i] / full) * W;
		if (w < 0.3)
			continue;
		const facts = frameFacts(tree.answer, tree.frame[i]);
		const y = down ? tree.depth[i] * 20 : tall - (tree.depth[i] + 1) * 20;
		boxes.push({
			x: (tree.x[i] / full) * W, y, w: w - (w > 2 ? 0.6 : 0), h: 19,
			colour: paint(i),
			edge: edgeOf(tree, i, w),
			label: w > 26 ? fit(nameOf(tree, i), w - 8) : "",
			title: `${facts?.name || nameOf(tree, i)} · ${amount(tree.total[i], tree.answer.unit)}, ${percent(tree.total[i], tree.answer.total)} of all${facts?.module ? ` · ${facts.module}` : ""}`,
		});
	}
	return { boxes, height: tall };
}

export function pictureLines(treed: Treed, title: string): string[] {
	const answer = treed.answer.data!;
	const lines = [title, `${answer.selection || "whole recording"} · ${amount(answer.total, answer.unit)}`];
	if (answer.lost.events)
		lines.push(`${count(answer.lost.events)} events lost: ${Object.entries(answer.lost.by_reason).map(([r, n]) => `${plain(r)} ${count(n)}`).join(", ")}`);
	return lines;
}

export function savePicture(treed: Treed, kind: "svg" | "png"): void {
	const { boxes, height } = boxesOf(treed.tree!, flameDown.get());
	const theme = colours.get();
	const lines = pictureLines(treed, `byteledger · ${fileStem()}`);
	const svg = svgOf(boxes, 1200, height, lines, theme.boxText, theme.bg);
	if (kind === "svg")
		download(`${fileStem()}-flame.svg`, svg, "image/svg+xml");
	else
		void savePng(svg, `${fileStem()}-flame.png`, 1200, height + 20 * lines.length + 12);
}

export function FlameView(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const scale = words.colour === "age" || words.colour === "temporary" ? words.colour : undefined;
	const treed = useTree(props.stamp, { more: scale });
	const down = useStore(flameDown);
	const tree = treed.tree;
	const how = useMemo(() => colouringOf(tree, words), [tree, words.colour]);
	const unit = treed.answer.data?.unit ?? "bytes";
	const path = treed.answer.data?.path;
	const [allAncestors, setAllAncestors] = useState("");
	const ancestors = useMemo(() => {
		const answer = treed.answer.data;
		if (!answer || !path || answer.node.frame[0] < 0)
			return [];
		const rows = [
			{ label: `everything · ${amount(answer.total, unit)}`, onOpen: () => go({ n: undefined }) },
			...path.key.map((key, i) => ({ label: plain(answer.frames.short[path.frame[i]]), onOpen: () => go({ n: key }) })),
		];
		// the way to a deep box would fill the window: its middle is one row until it is asked for
		if (rows.length <= 7 || allAncestors === answer.key)
			return rows;
		const hidden = rows.slice(1, rows.length - 4);
		return [rows[0], { label: `▸ ${hidden.length} frames: ${hidden[0].label} … ${hidden[hidden.length - 1].label}`, onOpen: () => setAllAncestors(answer.key) }, ...rows.slice(-4)];
	}, [treed.answer.data, allAncestors]);
	props.expose({
		loaded: tree ? `${tree.count.toLocaleString("en")} boxes` : "",
		svg: tree ? () => savePicture(treed, "svg") : undefined,
		png: tree ? () => savePicture(treed, "png") : undefined,
		csv: tree ? () => saveTree(tree, "flame") : undefined,
		json: treed.answer.of ?? undefined,
		panel: tree && treed.selected >= 0 ? <NodePanel tree={tree} node={treed.selected} unit={unit} onZoom={() => treed.zoom(treed.selected)} /> : null,
		treed,
	});
	return (
		<Shown answer={treed.answer}>
			{(answer) =>
				tree && answer.total > 0 ? (
					<>
						<Legend treed={treed} scales />
						<Flame
							tree={tree}
							unit={unit}
							down={down}
							hits={treed.hits}
							selected={treed.selected}
							ancestors={ancestors}
							foldTrunk={!ancestors.length}
							colouring={how}
							label="call tree"
							onSelect={treed.select}
							onZoom={treed.zoom}
							onOut={treed.out}
							onAll={treed.all}
							tip={(node) => <NodeTip tree={tree} node={node} unit={unit} />}
						/>
					</>
				) : (
					<NothingHere />
				)
			}
		</Shown>
	);
}
