// SPDX-License-Identifier: Apache-2.0
// The one file that knows uPlot.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes, count, moment } from "../lib/format.ts";
import type { Colours } from "../lib/colours.ts";
import { withGaps } from "../lib/gaps.ts";

export interface Line {
	name: string;
	label: string;
	rate: boolean;
	/** A rate that has a scale of its own: a hundred messages beside a hundred thousand allocations. */
	own?: boolean;
	last: (number | null)[];
	max?: (number | null)[];
	min?: (number | null)[];
	colour: string;
}

export interface Plot {
	u: uPlot;
	destroy: () => void;
}

function alpha(colour: string, a: string): string {
	return colour + a;
}

/** plotTimeline - bytes left, rates right; each line is the highest of its pixel, filled down to the lowest. */
export function plotTimeline(
	el: HTMLElement,
	times: number[],
	lines: Line[],
	colours: Colours,
	size: { width: number; height: number },
	zoom: [number, number] | null,
	on: {
		brush: (from: number, to: number) => void;
		moment: (at: number) => void;
		zoom: (from: number, to: number) => void;
		all: () => void;
		hover: (at: number | null, x: number) => void;
		drawn: (u: uPlot) => void;
	},
): Plot {
	const whole = withGaps(times, lines);
	const seconds = whole.times.map((t) => t / 1e9);
	const data: (number | null)[][] = [seconds];
	const series: uPlot.Series[] = [{}];
	const bands: uPlot.Band[] = [];
	for (const line of whole.lines) {
		const scale = line.own ? "n" : line.rate ? "r" : "b";
		const max = line.max ?? line.last;
		data.push(max);
		series.push({ label: line.label, scale, stroke: line.rate && !line.own ? alpha(line.colour, "88") : line.colour, width: line.rate && !line.own ? 1 : 1.5, points: { show: false }, fill: line.name === "heap" ? alpha(line.colour, "22") : undefined });
		if (line.min && line.max) {
			data.push(line.min);
			series.push({ label: `${line.label}, lowest`, scale, stroke: "transparent", width: 0, points: { show: false } });
			bands.push({ series: [data.length - 2, data.length - 1], fill: alpha(line.colour, "44") });
		}
	}
	const rates = lines.some((l) => l.rate && !l.own);
	const own = lines.filter((l) => l.own);
	const levels = lines.some((l) => !l.rate);
	const span = times.length ? times[times.length - 1] : 1;
	let altDown = false;
	const axis = (scale: string, side: number, values: (n: number) => string, stroke = colours.second): uPlot.Axis => ({
		scale,
		side,
		stroke,
		grid: side === 3 ? { stroke: colours.line, width: 1, dash: [2, 4] } : { show: false },
		ticks: { show: false },
		font: '11px system-ui, "DejaVu Sans", sans-serif',
		size: 62,
		gap: 4,
		space: 20,
		values: (_u, at) => at.map((v) => (v === null ? "" : values(v))),
		incrs: scale === "b" ? Array.from({ length: 52 }, (_, i) => 2 ** i) : undefined,
	});
	const u = new uPlot(
		{
			width: size.width,
			height: size.height,
			padding: [6, rates || own.length ? 0 : 12, 0, 0],
			legend: { show: false },
			cursor: {
				y: false,
				points: { show: false },
				drag: { x: true, y: false, setScale: false, dist: 4 },
				bind: {
					mousedown: (_u, _t, handler) => (e: MouseEvent) => {
						altDown = e.altKey;
						return handler(e);
					},
					dblclick: () => () => {
						on.all();
						return null;
					},
				},
			},
			select: { show: true, left: 0, top: 0, width: 0, height: 0 },
			scales: {
				x: { time: false, range: () => zoom ? [zoom[0] / 1e9, zoom[1] / 1e9] : [0, Math.max(span / 1e9, 1e-6)] },
				b: { range: (_u, _min, max) => [0, Math.max(1, max * 1.08)] },
				r: { range: (_u, _min, max) => [0, Math.max(1, max * 1.08)] },
				n: { range: (_u, _min, max) => [0, Math.max(1, max * 1.08)] },
			},
			axes: [
				{
					stroke: colours.second,
					grid: { show: false },
					ticks: { stroke: colours.line, size: 4 },
					font: '11px system-ui, "DejaVu Sans", sans-serif',
					size: 22,
					gap: 2,
					space: 90,
					values: (_u, at) => at.map((v) => moment(v * 1e9, zoom ? zoom[1] - zoom[0] : span)),
				},
				...(levels ? [axis("b", 3, (v) => bytes(v))] : []),
				...(rates ? [axis("r", 1, (v) => `${count(v)}/s`)] : []),
				// in the colour of its line: whose figures these are
				...(own.length ? [axis("n", 1, (v) => `${count(v)}/s`, own.length === 1 ? own[0].colour : colours.second)] : []),
			],
			series,
			bands,
			hooks: {
				setSelect: [
					(plot) => {
						const { left, width } = plot.select;
						if (width < 4)
							return;
						const from = plot.posToVal(left, "x") * 1e9;
						const to = plot.posToVal(left + width, "x") * 1e9;
						plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
						(altDown ? on.zoom : on.brush)(Math.max(0, from), Math.min(span, to));
					},
				],
				setCursor: [
					(plot) => {
						const { left } = plot.cursor;
						on.hover(left === undefined || left === null || left < 0 ? null : plot.posToVal(left, "x") * 1e9, left ?? 0);
					},
				],
				draw: [(plot) => on.drawn(plot)],
			},
		},
		data as uPlot.AlignedData,
		el,
	);
	let down: { x: number; y: number } | null = null;
	const press = (e: PointerEvent) => (down = { x: e.clientX, y: e.clientY });
	const click = (e: MouseEvent) => {
		if (!down || Math.abs(e.clientX - down.x) > 3 || Math.abs(e.clientY - down.y) > 3 || e.detail > 1)
			return;
		const box = u.over.getBoundingClientRect();
		on.moment(Math.max(0, Math.min(span, u.posToVal(e.clientX - box.left, "x") * 1e9)));
	};
	const wheel = (e: WheelEvent) => {
		if (!e.ctrlKey)
			return;
		e.preventDefault();
		const box = u.over.getBoundingClientRect();
		const at = u.posToVal(e.clientX - box.left, "x") * 1e9;
		const [a, b] = zoom ?? [0, span];
		const f = e.deltaY > 0 ? 1.4 : 1 / 1.4;
		on.zoom(Math.max(0, at - (at - a) * f), Math.min(span, at + (b - at) * f));
	};
	u.over.addEventListener("pointerdown", press);
	u.over.addEventListener("click", click);
	u.over.addEventListener("wheel", wheel, { passive: false });
	return { u, destroy: () => u.destroy() };
}
