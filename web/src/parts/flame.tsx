// SPDX-License-Identifier: Apache-2.0
// Boxes on a canvas as large as the window: rows by depth, x by binary search, neighbours under a pixel as one grey run.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { colours, type Colours } from "../lib/colours.ts";
import { amount, duration, percent, plain, signed } from "../lib/format.ts";
import { firstAt, nodeAt, type Tree } from "../lib/layout.ts";
import { useStore } from "../lib/store.ts";
import { settle } from "../api/client.ts";
import { showTip, useSize } from "./basics.tsx";

export interface FlameProps {
	tree: Tree;
	unit: string;
	/** Root at the top (icicle), or at the bottom (flame). */
	down: boolean;
	/** Frame keys that were found. */
	hits: Set<string> | null;
	selected: number;
	/** Rows above the root that stand for its callers: labels, outermost first. */
	ancestors?: { label: string; onOpen: () => void }[];
	/** Rows with one child and nothing of their own are one row, unless opened. */
	foldTrunk?: boolean;
	colouring?: "owner" | "change" | "module" | Scale;
	label: string;
	/** What the width of the window stands for, where that is more than the tree (two pictures to one scale). */
	full?: number;
	onSelect: (node: number) => void;
	onZoom: (node: number) => void;
	onOut?: () => void;
	onAll?: () => void;
	tip: (node: number) => JSX.Element;
}

const FONT = '12px system-ui, "DejaVu Sans", sans-serif';
const widths = new Map<string, number>();
let measuring: CanvasRenderingContext2D | null = null;

function charWidth(c: string): number {
	let w = widths.get(c);
	if (w === undefined) {
		measuring ??= document.createElement("canvas").getContext("2d")!;
		measuring.font = FONT;
		w = measuring.measureText(c).width;
		widths.set(c, w);
	}
	return w;
}

/** fit - the end of @text, which tells most, in @room pixels. */
export function fit(text: string, room: number): string {
	let used = 0;
	let at = text.length;
	for (; at > 0; at--) {
		used += charWidth(text[at - 1]);
		if (used > room)
			break;
	}
	if (at === 0)
		return text;
	used = charWidth("…");
	for (at = text.length; at > 0; at--) {
		used += charWidth(text[at - 1]);
		if (used > room)
			break;
	}
	return text.length - at < 3 ? "" : `…${text.slice(at)}`;
}
export function textWidth(text: string): number {
	let used = 0;
	for (const c of text)
		used += charWidth(c);
	return used;
}

export const MODULE_COLOURS = [0, 1, 2, 3, 6, 5, 4];

/** largestModules - the seven with most boxes by what passes through them; in that order they have the colours. */
export function largestModules(tree: Tree): number[] {
	const sums = new Map<number, number>();
	for (let i = 0; i < tree.count; i++)
		if (tree.frame[i] >= 0) {
			const m = tree.answer.frames.module[tree.frame[i]];
			sums.set(m, (sums.get(m) ?? 0) + tree.total[i]);
		}
	return [...sums].sort((a, b) => b[1] - a[1]).slice(0, MODULE_COLOURS.length).map(([m]) => m);
}

/** oneOwner - does nearly all that is shown belong to one owner? Then its colours tell nothing. */
export function oneOwner(tree: Tree): boolean {
	const sums = new Map<number, number>();
	let all = 0;
	for (let i = 0; i < tree.count; i++)
		if (tree.frame[i] >= 0) {
			const c = tree.answer.frames.category[tree.frame[i]];
			sums.set(c, (sums.get(c) ?? 0) + tree.total[i]);
			all += tree.total[i];
		}
	return Math.max(0, ...sums.values()) > 0.75 * all;
}

/** Scale - colours that tell how much of something there is. */
export type Scale = "age" | "temporary";
/** EDGES - where each colour of a scale begins: of all the time, or of the allocations. */
export const EDGES = [0, 0.01, 0.1, 0.25, 0.5, 0.75];

/** shareOf - where on the scale a box stands, 0 to 1; null: that is not known of it. */
export function shareOf(tree: Tree, node: number, scale: Scale): number | null {
	const n = tree.answer.node;
	if (scale === "temporary")
		return n.temporary && n.allocations?.[node] ? n.temporary[node] / n.allocations[node] : null;
	const age = n.age_ns?.[node];
	return age !== undefined && age !== null && tree.answer.age_at_ns ? age / tree.answer.age_at_ns : null;
}

/** scaleText - what the box's colour says, as text. */
export function scaleText(tree: Tree, node: number, scale: Scale): string {
	if (scale === "age") {
		const age = tree.answer.node.age_ns?.[node];
		return age === undefined || age === null ? "" : duration(age);
	}
	const n = tree.answer.node;
	return n.temporary && n.allocations?.[node] ? percent(n.temporary[node], n.allocations[node]) : "";
}

export function colourer(tree: Tree, theme: Colours, how: FlameProps["colouring"]): (node: number) => string {
	const { frames } = tree.answer;
	if (how === "change" && tree.base) {
		const base = tree.base;
		return (n) => (tree.total[n] > base[n] ? theme.grown : tree.total[n] < base[n] ? theme.shrunk : theme.same);
	}
	if (how === "age" || how === "temporary") {
		const steps = how === "age" ? theme.old : theme.brief;
		return (n) => {
			const share = shareOf(tree, n, how);
			return share === null ? theme.same : steps[EDGES.filter((edge) => share >= edge).length - 1];
		};
	}
	if (how === "module") {
		const colour = new Map(largestModules(tree).map((m, i) => [m, theme.boxes[MODULE_COLOURS[i]]]));
		return (n) => (tree.frame[n] < 0 ? theme.same : (colour.get(frames.module[tree.frame[n]]) ?? theme.boxes[7]));
	}
	return (n) => (tree.frame[n] < 0 ? theme.same : (theme.boxes[frames.category[tree.frame[n]]] ?? theme.boxes[7]));
}

export function nameOf(tree: Tree, node: number): string {
	const frame = tree.frame[node];
	if (frame < 0)
		return "everything";
	return plain(tree.answer.frames.short[frame]) || plain(tree.answer.frames.name[frame]) || "?";
}

/** isPartial - does the box stand for the reason why its stacks end there? */
function isPartial(tree: Tree, node: number): boolean {
	return tree.answer.frames.name[tree.frame[node]]?.startsWith("[partial") ?? false;
}
/** isInlined - is it part of its caller's code, wherever it was met? */
function isInlined(tree: Tree, node: number): boolean {
	return tree.answer.frames.inlined[tree.frame[node]] ?? false;
}
/** edgeOf - what the edge of a box tells, where it is @w wide. */
export function edgeOf(tree: Tree, node: number, w: number): "" | "inlined" | "partial" {
	return w <= 8 || tree.frame[node] < 0 ? "" : isPartial(tree, node) ? "partial" : isInlined(tree, node) ? "inlined" : "";
}
/** dot - a dotted left edge: the box has no frame of its own. */
function dot(c: CanvasRenderingContext2D, left: number, y: number, h: number): void {
	for (let at = 2; at + 2 <= h; at += 4)
		c.fillRect(left + 1, y + at, 2, 2);
}

/** tear - a zigzag edge at the right end of a box: what is beyond it was not recorded. */
function tear(c: CanvasRenderingContext2D, right: number, y: number, h: number): void {
	const teeth = 3;
	c.beginPath();
	c.moveTo(right, y);
	for (let i = 0; i < teeth; i++) {
		c.lineTo(right - 5, y + ((i + 0.5) * h) / teeth);
		c.lineTo(right, y + ((i + 1) * h) / teeth);
	}
	c.fill();
}

/** the places of what was drawn last, for tests: the same picture has the same boxes */
interface Drawn {
	rows: number;
	boxes: { x: number; y: number; w: number; label: string; node: number; colour: string; edge: "" | "inlined" | "partial" }[];
}
declare global {
	interface Window {
		__boxes?: () => Drawn["boxes"];
	}
}

export function Flame(props: FlameProps): JSX.Element {
	const { tree } = props;
	const theme = useStore(colours);
	const [outer, size] = useSize<HTMLDivElement>();
	const canvas = useRef<HTMLCanvasElement>(null);
	const [scroll, setScroll] = useState(0);
	const [open, setOpen] = useState(false);
	const [part, setPart] = useState<[number, number]>([0, 1]);
	const hovered = useRef(-1);
	const drawn = useRef<Drawn>({ rows: 0, boxes: [] });
	const touch = matchMedia("(pointer: coarse)").matches;
	const h = touch ? 28 : 20;
	const ancestors = props.ancestors ?? [];
	// the last rows of the trunk stay: they say where one is; a selected box is never hidden
	const trunk = Math.max(0, tree.trunk - 2);
	const folded = props.foldTrunk && !open && trunk > 2 && !(props.selected >= 0 && props.selected < tree.count && tree.depth[props.selected] < trunk) ? trunk : 0;
	const question = `${tree.answer.selection}|${tree.answer.key}|${tree.answer.source}`;
	const head = ancestors.length + (folded ? 1 : 0);
	const depths = tree.rows.length - folded;
	const rows = head + depths;
	const tall = rows * h;
	const full = Math.max(tree.width[0] || 0, props.full ?? 0, 1e-9);
	const paint = useMemo(() => colourer(tree, theme, props.colouring), [tree, theme, props.colouring]);
	useEffect(() => {
		setPart([0, 1]);
		setOpen(false);
	}, [question]);

	const rowY = (row: number) => (props.down ? row * h : Math.max(tall, size.height) - (row + 1) * h);
	const [a, b] = part;
	const x0 = a * full;
	const scale = size.width / ((b - a) * full);

	const figureOf = (node: number) => (props.colouring === "age" || props.colouring === "temporary" ? scaleText(tree, node, props.colouring) : "");
	const draw = () => {
		const el = canvas.current;
		if (!el || !size.width || !size.height)
			return;
		const r = devicePixelRatio || 1;
		const W = Math.round(size.width * r);
		const H = Math.round(size.height * r);
		if (el.width !== W || el.height !== H) {
			el.width = W;
			el.height = H;
		}
		const c = el.getContext("2d", { alpha: false })!;
		c.setTransform(r, 0, 0, r, 0, 0);
		c.fillStyle = theme.bg;
		c.fillRect(0, 0, size.width, size.height);
		c.font = FONT;
		c.textBaseline = "middle";
		const boxes: Drawn["boxes"] = [];
		const labels: { x: number; y: number; w: number; text: string; right: string; faded: boolean; hit: boolean }[] = [];
		const top = scroll;
		for (let i = 0; i < head; i++) {
			const y = rowY(i) - top;
			if (y + h < 0 || y > size.height)
				continue;
			c.fillStyle = theme.same;
			c.globalAlpha = 0.7;
			c.fillRect(0, y, size.width, h - 1);
			c.globalAlpha = 1;
			const isTrunk = i === ancestors.length;
			const text = isTrunk ? `▸ ${folded} frames: ${nameOf(tree, Math.min(1, tree.count - 1))} … ${nameOf(tree, folded - 1)}${tree.total[0] > tree.total[folded] ? ` (and ${amount(tree.total[0] - tree.total[folded], props.unit)} beside)` : ""}` : ancestors[i].label;
			labels.push({ x: 0, y, w: size.width, text, right: isTrunk ? amount(tree.total[0], props.unit) : "", faded: true, hit: false });
		}
		let last = "";
		const hits = props.hits;
		const keys = tree.answer.frames.key;
		for (let d = 0; d < depths; d++) {
			const y = rowY(head + d) - top;
			if (y + h < 0 || y > size.height)
				continue;
			const row = tree.rows[d + folded];
			let run = 0;
			let runX = -1;
			const flush = () => {
				if (run > 0.3) {
					if (last !== theme.run)
						c.fillStyle = last = theme.run;
					c.fillRect(runX, y, Math.max(run, 0.5), h - 1);
				}
				run = 0;
				runX = -1;
			};
			for (let i = firstAt(tree, row, x0); i < row.length; i++) {
				const node = row[i];
				const left = (tree.x[node] - x0) * scale;
				if (left > size.width)
					break;
				const w = tree.width[node] * scale;
				if (w < 1) {
					if (runX < 0)
						runX = left;
					else if (left - (runX + run) > 1) {
						flush();
						runX = left;
					}
					run = left + w - runX;
					continue;
				}
				flush();
				const from = Math.max(0, left);
				const to = Math.min(size.width, left + w);
				const colour = paint(node);
				if (last !== colour)
					c.fillStyle = last = colour;
				const hit = !!hits && tree.frame[node] >= 0 && hits.has(keys[tree.frame[node]]);
				if (hits && !hit)
					c.globalAlpha = 0.45;
				c.fillRect(from, y, Math.max(to - from - (w > 3 ? 1 : 0), 0.5), h - 1);
				c.globalAlpha = 1;
				const told = edgeOf(tree, node, w);
				const edge = told === "inlined" && left < 0 ? "" : told;
				if (edge === "inlined") {
					c.fillStyle = last = theme.boxText;
					dot(c, from, y, h - 1);
				}
				if (edge === "partial") {
					c.fillStyle = last = theme.bg;
					tear(c, to - (w > 3 ? 1 : 0), y, h - 1);
				}
				if (node === props.selected) {
					labels.push({ x: from, y, w: to - from, text: "\u0000", right: "", faded: false, hit: false });
				}
				if (boxes.length < 20000)
					boxes.push({ x: Math.round(from * 10) / 10, y: Math.round((y + top) * 10) / 10, w: Math.round((to - from) * 10) / 10, label: "", node, colour, edge });
				if (to - from > 22) {
					const change = tree.base && props.colouring === "change" ? signed(tree.total[node] - tree.base[node], props.unit) : "";
					labels.push({
						x: from, y, w: to - from - 1, hit, faded: false,
						text: nameOf(tree, node),
						right: change || figureOf(node) || amount(tree.total[node], props.unit),
					});
				}
			}
			flush();
			// what is below a box and was not loaded
			if (d + 1 <= depths) {
				const above = d + folded - 1 >= 0 ? tree.rows[d + folded - 1] : null;
				if (above)
					for (let i = firstAt(tree, above, x0); i < above.length; i++) {
						const node = above[i];
						const left = (tree.x[node] - x0) * scale;
						if (left > size.width)
							break;
						if (!(tree.rest[node] > 0))
							continue;
						const w = tree.rest[node] * scale;
						if (w < 1)
							continue;
						let used = 0;
						for (let child = node + 1; child < tree.end[node]; child = tree.end[child])
							used += tree.width[child];
						const x = left + used * scale;
						const from = Math.max(0, x);
						const to = Math.min(size.width, x + w);
						if (to <= from)
							continue;
						c.fillStyle = last = theme.run;
						c.globalAlpha = 0.6;
						c.fillRect(from, y, to - from - 0.5, h - 1);
						c.globalAlpha = 1;
					}
			}
		}
		for (const l of labels) {
			if (l.text === "\u0000") {
				c.strokeStyle = theme.text;
				c.lineWidth = 2;
				c.strokeRect(l.x + 1, l.y + 1, Math.max(2, l.w - 3), h - 3);
				continue;
			}
			c.fillStyle = l.faded ? theme.second : theme.boxText;
			if (!l.faded && theme.dark && props.colouring === "change")
				c.fillStyle = theme.text;
			const right = l.right && l.w > textWidth(l.right) + 90 ? l.right : "";
			const room = l.w - 8 - (right ? textWidth(right) + 12 : 0);
			const text = fit(l.hit ? `● ${l.text}` : l.text, room);
			if (text)
				c.fillText(text, l.x + 5, l.y + h / 2);
			if (right) {
				c.globalAlpha = 0.85;
				c.fillText(right, l.x + l.w - textWidth(right) - 6, l.y + h / 2);
				c.globalAlpha = 1;
			}
		}
		if (hovered.current >= 0 && hovered.current < tree.count) {
			const n = hovered.current;
			const left = (tree.x[n] - x0) * scale;
			const w = tree.width[n] * scale;
			c.strokeStyle = theme.text;
			c.lineWidth = 1;
			c.strokeRect(Math.max(0, left) + 0.5, rowY(head + tree.depth[n] - folded) - top + 0.5, Math.min(size.width, left + w) - Math.max(0, left) - 1.5, h - 2);
		}
		drawn.current = { rows, boxes };
	};
	const pending = useRef(0);
	const drawRef = useRef(draw);
	drawRef.current = draw;
	const later = () => {
		if (pending.current)
			return;
		settle(1);
		pending.current = requestAnimationFrame(() => {
			pending.current = 0;
			settle(-1);
			drawRef.current();
		});
	};
	useLayoutEffect(draw);
	useEffect(() => {
		const mine = () => drawn.current.boxes.map((box) => ({ ...box, label: nameOf(tree, box.node), node: box.node }));
		window.__boxes = mine;
		return () => {
			if (window.__boxes === mine)
				delete window.__boxes; // another view has none
		};
	}, [tree]);
	useEffect(
		() => () => {
			if (pending.current) {
				cancelAnimationFrame(pending.current);
				settle(-1);
			}
			showTip(null);
		},
		[],
	);
	// a new tree of another height: the root is where one looks first
	useLayoutEffect(() => {
		const el = outer.current;
		if (el)
			el.scrollTop = props.down ? 0 : el.scrollHeight;
	}, [question, props.down, size.height > 0]);

	const at = (e: MouseEvent): { row: number; node: number } => {
		const box = canvas.current!.getBoundingClientRect();
		const y = e.clientY - box.top + scroll;
		const row = props.down ? Math.floor(y / h) : Math.floor((Math.max(tall, size.height) - y) / h);
		if (row < head)
			return { row, node: -1 };
		return { row, node: nodeAt(tree, row - head + folded, x0 + (e.clientX - box.left) / scale) };
	};
	const zoomBy = (factor: number, centre: number) => {
		const span = Math.min(1, Math.max(1e-7, (b - a) * factor));
		const mid = a + (b - a) * centre;
		const from = Math.max(0, Math.min(1 - span, mid - span * centre));
		setPart([from, from + span]);
	};
	useLayoutEffect(() => {
		const el = outer.current;
		if (!el)
			return;
		const wheel = (e: WheelEvent) => {
			if (e.ctrlKey) {
				e.preventDefault();
				const box = el.getBoundingClientRect();
				zoomBy(e.deltaY > 0 ? 1.25 : 0.8, (e.clientX - box.left) / box.width);
			} else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
				if (b - a >= 1)
					return;
				e.preventDefault();
				const by = ((e.shiftKey ? e.deltaY : e.deltaX) / size.width) * (b - a);
				const from = Math.max(0, Math.min(1 - (b - a), a + by));
				setPart([from, from + b - a]);
			}
		};
		el.addEventListener("wheel", wheel, { passive: false });
		return () => el.removeEventListener("wheel", wheel);
	});
	const first = folded;
	const move = (from: number, key: string): number => {
		const parent = tree.parent[from];
		const down = props.down ? "ArrowDown" : "ArrowUp";
		const up = props.down ? "ArrowUp" : "ArrowDown";
		if (key === down)
			return tree.kids[from] ? from + 1 : from;
		if (key === up)
			return parent >= first ? parent : from;
		if (parent < 0)
			return from;
		if (key === "ArrowRight")
			return tree.end[from] < tree.end[parent] ? tree.end[from] : from;
		let before = -1;
		for (let child = parent + 1; child < from; child = tree.end[child])
			before = child;
		return before >= 0 ? before : from;
	};
	const onKey = (e: KeyboardEvent) => {
		if (e.ctrlKey || e.metaKey || e.altKey)
			return;
		const now = props.selected >= 0 ? props.selected : first;
		if (e.key.startsWith("Arrow"))
			props.onSelect(props.selected < 0 ? now : move(now, e.key));
		else if (e.key === "Enter")
			props.onZoom(now);
		else if (e.key === "Backspace")
			props.onOut?.();
		else if (e.key === "0") {
			setPart([0, 1]);
			props.onAll?.();
		} else if (e.key === "+" || e.key === "=")
			zoomBy(0.7, 0.5);
		else if (e.key === "-" && b - a < 1)
			zoomBy(1.4, 0.5);
		else
			return;
		e.preventDefault();
		e.stopPropagation();
	};
	const spoken = (n: number) =>
		`${nameOf(tree, n)}, ${amount(tree.total[n], props.unit)}, ${percent(tree.total[n], tree.answer.total)} of all, ${tree.kids[n]} ${tree.kids[n] === 1 ? "callee" : "callees"}`;
	const pathOf = (n: number) => {
		const path: number[] = [];
		for (let i = n; i >= 0; i = tree.parent[i])
			path.unshift(i);
		return path;
	};
	const spokenRows = useMemo(() => {
		const centre = props.selected >= 0 && props.selected < tree.count ? props.selected : 0;
		const list = pathOf(centre);
		for (let child = centre + 1, n = 0; child < tree.end[centre] && n < 40; child = tree.end[child], n++)
			list.push(child);
		const parent = tree.parent[centre];
		if (parent >= 0)
			for (let child = parent + 1, n = 0; child < tree.end[parent] && n < 40; child = tree.end[child], n++)
				if (child !== centre)
					list.push(child);
		return list.sort((p, q) => p - q);
	}, [tree, props.selected]);
	const id = props.label.replace(/\W+/g, "-");
	return (
		<div class="flame">
			{b - a < 0.25 && (
				<div class="minimap" aria-hidden="true" onPointerDown={(e) => {
					const box = (e.currentTarget as HTMLElement).getBoundingClientRect();
					const mid = (e.clientX - box.left) / box.width;
					const from = Math.max(0, Math.min(1 - (b - a), mid - (b - a) / 2));
					setPart([from, from + b - a]);
				}}>
					<span style={{ left: `${a * 100}%`, width: `${Math.max(0.5, (b - a) * 100)}%` }} />
				</div>
			)}
			<div
				class="flame-scroll"
				ref={outer}
				tabIndex={0}
				role="treegrid"
				aria-label={props.label}
				aria-activedescendant={props.selected >= 0 ? `${id}-${props.selected}` : undefined}
				onKeyDown={onKey}
				onScroll={(e) => setScroll((e.currentTarget as HTMLElement).scrollTop)}
				onMouseMove={(e) => {
					const { node, row } = at(e);
					if (node !== hovered.current) {
						hovered.current = node;
						later();
					}
					(e.currentTarget as HTMLElement).style.cursor = node >= 0 || row < head ? "pointer" : "";
					showTip(node >= 0 ? { x: e.clientX, y: e.clientY, body: props.tip(node) } : null);
				}}
				onMouseLeave={() => {
					hovered.current = -1;
					showTip(null);
					later();
				}}
				onClick={(e) => {
					const { node, row } = at(e);
					if (row < ancestors.length)
						ancestors[row].onOpen();
					else if (row < head)
						setOpen(true);
					else if (node >= 0)
						(node === props.selected ? props.onZoom : props.onSelect)(node);
				}}
				onDblClick={(e) => {
					const { node } = at(e);
					if (node >= 0)
						props.onZoom(node);
				}}
			>
				<canvas ref={canvas} class="flame-canvas" aria-hidden="true" style={{ width: `${size.width}px`, height: `${size.height}px` }} />
				<div style={{ height: `${Math.max(0, tall - size.height)}px` }} />
				<div class="unseen">
					{spokenRows.map((n) => (
						<div key={n} id={`${id}-${n}`} role="row" aria-level={tree.depth[n] + 1} aria-selected={n === props.selected} aria-expanded={tree.kids[n] ? n !== props.selected || undefined : undefined}>
							<span role="gridcell">{spoken(n)}</span>
						</div>
					))}
				</div>
			</div>
		</div>
	);
}
