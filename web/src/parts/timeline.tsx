// SPDX-License-Identifier: Apache-2.0
// The time axis above every view: levels and rates, flags, the moment and the range that all views share.
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, go, known, place, saveRows, source } from "../app.ts";
import { useAnswer } from "../api/client.ts";
import type { TimelineAnswer } from "../api/types.ts";
import { colours } from "../lib/colours.ts";
import { bytes, count, duration, moment, plain, wallDay } from "../lib/format.ts";
import { momentNs, momentWord, selectionMode, type Clock } from "../lib/moments.ts";
import { useStore } from "../lib/store.ts";
import { Explained, Menu, Shown, useSize } from "./basics.tsx";
import { plotTimeline, type Line, type Plot } from "./plot.ts";

export const SERIES: Record<string, { label: string; rate: boolean; term: string }> = {
	heap: { label: "heap live", rate: false, term: "heap" },
	rss: { label: "RSS", rate: false, term: "rss" },
	anon: { label: "anon", rate: false, term: "anon" },
	file: { label: "file", rate: false, term: "file" },
	shmem: { label: "shmem", rate: false, term: "shmem" },
	swap: { label: "swap", rate: false, term: "swap" },
	virtual: { label: "virtual", rate: false, term: "virtual" },
	allocations: { label: "allocations/s", rate: true, term: "allocations" },
	frees: { label: "frees/s", rate: true, term: "frees" },
	messages: { label: "messages/s", rate: true, term: "messages" },
	logs: { label: "log lines/s", rate: true, term: "log_lines" },
};
const ROWS = ["messages", "logs"];
const FIRST = "heap,rss,allocations";

export function useTimeline(stamp: number): ReturnType<typeof useAnswer<TimelineAnswer>> {
	const { words } = useStore(place);
	const from = source();
	const there = from?.has?.includes("heap") || from?.has?.includes("rss");
	return useAnswer<TimelineAnswer>(there ? api("timeline", { src: words.src }, { points: 1440 }) : null, stamp);
}

type Flag = TimelineAnswer["flags"][number];

/** marksOf - when each name was marked for the first time. */
export function marksOf(flags: Flag[] | undefined): Map<string, number> {
	const marks = new Map<string, number>();
	for (const f of flags ?? [])
		if (f.kind === "mark" && !marks.has(String(f.value)))
			marks.set(String(f.value), f.time_ns);
	return marks;
}

/** flagWord - the moment that a flag stands for, as a word that goes on meaning it in another recording. */
function flagWord(f: Flag, clock: Clock): string {
	if (f.kind === "peak")
		return "peak";
	return f.kind === "mark" && clock.marks?.get(String(f.value)) === f.time_ns ? `mark:${f.value}` : momentWord(f.time_ns);
}

/** flagText - what a flag says; only sizes have a value that is one of bytes. */
function flagText(f: Flag, span: number): string {
	const sized = f.value && f.kind !== "mark" && f.kind !== "alert";
	return `${plain(f.label)}${sized ? `: ${bytes(f.value)}` : ""} at ${moment(f.time_ns, span)}`;
}

/** bundle - flags of one kind that would lie upon each other, as one; losses have a length and stay apart. */
function bundle(flags: Flag[], xOf: (ns: number) => number): Flag[][] {
	const bundles: Flag[][] = [];
	for (const f of flags) {
		const last = f.kind === "lost" ? undefined : bundles.filter((b) => b[0].kind === f.kind).pop();
		if (last && xOf(f.time_ns) - xOf(last[0].time_ns) < 10)
			last.push(f);
		else
			bundles.push([f]);
	}
	return bundles;
}

function bundleText(all: Flag[], span: number): string {
	const shown = all.slice(0, 8).map((f) => flagText(f, span));
	return shown.join(", ") + (all.length > shown.length ? ` and ${all.length - shown.length} more` : "");
}

export function clockOf(answer: TimelineAnswer | null): Clock {
	const from = source();
	const times = answer?.time_ns ?? [];
	return {
		length_ns: times.length ? times[times.length - 1] : (from?.length_ns ?? 0),
		start_realtime_ns: from?.start_realtime_ns ?? null,
		peak_ns: answer?.flags?.find((f) => f.kind === "peak")?.time_ns ?? null,
		marks: marksOf(answer?.flags),
	};
}

function rateOf(answer: TimelineAnswer, values: (number | null)[]): (number | null)[] {
	return values.map((v, i) => {
		const stretch = answer.time_ns[i] - (i ? answer.time_ns[i - 1] : 0);
		return v === null || stretch <= 0 ? (v === null ? null : 0) : (v * 1e9) / stretch;
	});
}

/** valueAt - what held at the end of the stretch that @ns is in; @highest: the highest within. */
export function valueAt(answer: TimelineAnswer, name: string, ns: number, highest = false): number | null {
	const series = answer.series[name];
	if (!series || !answer.time_ns.length)
		return null;
	let low = 0;
	let high = answer.time_ns.length - 1;
	while (low < high) {
		const mid = (low + high) >> 1;
		if (answer.time_ns[mid] < ns)
			low = mid + 1;
		else
			high = mid;
	}
	return (highest ? series.max?.[low] : null) ?? series.last[low];
}

/** useLosses - when events were lost: asked only of a recording that lost some, and by itself, as it takes a replay. */
function useLosses(data: TimelineAnswer | null): TimelineAnswer["flags"] {
	const { words } = useStore(place);
	const lost = (data?.lost.events ?? 0) > 0;
	return useAnswer<TimelineAnswer>(lost ? api("timeline", { src: words.src }, { points: 1, series: "lost" }) : null, data?.generation ?? 0).data?.flags.filter((f) => f.kind === "lost") ?? [];
}

/**
 * useNodeRates - messages and log lines of the nodes whose stores are served beside the recording: asked only while they are shown, and while
 * the recording grows not with every reading, as they are counted anew each time.
 */
function useNodeRates(data: TimelineAnswer | null, wanted: string[]): TimelineAnswer | null {
	const { words } = useStore(place);
	const asked = useRef({ generation: 0, ms: -Infinity });
	if (data && data.generation !== asked.current.generation && performance.now() - asked.current.ms > 5000)
		asked.current = { generation: data.generation, ms: performance.now() };
	const asks = data !== null && wanted.length > 0;
	return useAnswer<TimelineAnswer>(asks ? api("timeline", { src: words.src }, { points: 1440, series: wanted.join(",") }) : null, asked.current.generation).data;
}

/** withRows - @rows put to the stretches of @data, which may know more by now: to the one that a stretch of theirs ends in. */
export function withRows(data: TimelineAnswer, rows: TimelineAnswer | null, names: string[]): TimelineAnswer {
	const series = { ...data.series };
	for (const name of names) {
		const last: number[] = new Array(data.time_ns.length).fill(0);
		let at = 0;
		rows?.time_ns.forEach((t, i) => {
			while (at < last.length - 1 && data.time_ns[at] < t)
				at++;
			if (last.length)
				last[at] += rows.series[name as keyof typeof series]?.last[i] ?? 0;
		});
		series[name as keyof typeof series] = { last };
	}
	return { ...data, series };
}

export function Timeline(props: { answer: ReturnType<typeof useTimeline> }): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const [ref, size] = useSize<HTMLDivElement>();
	const over = useRef<HTMLDivElement>(null);
	const plot = useRef<Plot | null>(null);
	const [box, setBox] = useState<{ left: number; top: number; width: number; height: number } | null>(null);
	const [hover, setHover] = useState<{ at: number; x: number } | null>(null);
	const base = props.answer.data;
	const losses = useLosses(base);
	// a running process has one moment, which is now: its past can be looked at, not asked about
	const looked = source()?.kind === "process";
	const nodes = (useStore(known).sources ?? []).some((s) => s.kind === "node");
	const counted = nodes ? ROWS : [];
	const shown = counted.filter((name) => (words.series ?? FIRST).split(",").includes(name));
	const rows = useNodeRates(base, shown);
	const data = useMemo(() => (base ? withRows(base, rows, counted) : null), [base, rows, nodes]);
	const clock = useMemo(() => clockOf(data), [data]);
	const span = clock.length_ns || 1;
	const zoom = useMemo((): [number, number] | null => {
		const hit = /^(\d+)-(\d+)$/.exec(words.zoom ?? "");
		return hit && Number(hit[2]) > Number(hit[1]) ? [Number(hit[1]), Math.min(Number(hit[2]), span)] : null;
	}, [words.zoom, span]);
	const on = (words.series ?? FIRST).split(",");
	const lines: Line[] = useMemo(() => {
		if (!data)
			return [];
		return Object.entries(SERIES)
			.filter(([name]) => on.includes(name) && data.series[name])
			.sort(([, p], [, q]) => Number(q.rate) - Number(p.rate))
			.map(([name, s]) => {
				const values = data.series[name];
				return {
					name,
					label: s.label,
					rate: s.rate,
					own: ROWS.includes(name),
					last: s.rate ? rateOf(data, values.last) : values.last,
					max: s.rate ? undefined : values.max,
					min: s.rate ? undefined : values.min,
					colour: theme.series[name] ?? theme.second,
				};
			});
	}, [data, words.series, theme]);
	useLayoutEffect(() => {
		const el = over.current;
		if (!el || !data || !size.width)
			return;
		plot.current = plotTimeline(el, data.time_ns, lines, theme, size, zoom, {
			brush: (from, to) => looked ? go({ zoom: `${Math.round(from)}-${Math.round(to)}` }, undefined, true) : go({ from: momentWord(from), to: momentWord(to), at: momentWord(to), base: undefined }),
			moment: (at) => looked ? undefined : go({ at: momentWord(at), from: undefined, to: undefined, base: undefined }),
			zoom: (from, to) => go({ zoom: from <= 0 && to >= span ? undefined : `${Math.round(from)}-${Math.round(to)}` }, undefined, true),
			all: () => go({ zoom: undefined, from: undefined, to: undefined }),
			hover: (at, x) => setHover(at === null ? null : { at, x }),
			drawn: (u) => {
				const r = devicePixelRatio || 1;
				const next = { left: u.bbox.left / r, top: u.bbox.top / r, width: u.bbox.width / r, height: u.bbox.height / r };
				setBox((old) => (old && old.left === next.left && old.width === next.width && old.height === next.height ? old : next));
			},
		});
		return () => plot.current?.destroy();
	}, [data, lines, size.width, size.height, zoom, theme]);

	const mode = selectionMode(words);
	const [a, b] = zoom ?? [0, span];
	const xOf = (ns: number) => (box ? box.left + ((ns - a) / Math.max(1, b - a)) * box.width : 0);
	const inside = (ns: number) => ns >= a && ns <= b;
	const at = momentNs(words.at, clock);
	const from = mode === "ends" ? momentNs(words.base!.slice(1), clock) : momentNs(words.from, clock);
	const to = mode === "ends" ? at : momentNs(words.to, clock);
	const range = from !== null && to !== null && box ? { left: xOf(Math.max(a, from)), right: xOf(Math.min(b, to)) } : null;
	const moveEnd = (which: "from" | "to", ns: number) => {
		const word = momentWord(Math.max(0, Math.min(span, ns)));
		if (mode === "ends")
			go(which === "from" ? { base: `@${word}` } : { at: word }, undefined, true);
		else
			go({ [which]: word, ...(which === "to" && mode === "still" ? { at: word } : {}) }, undefined, true);
	};
	const setMode = (next: "made" | "still" | "ends") => {
		if (from === null || to === null)
			return;
		const words_ = { from: momentWord(from), to: momentWord(to) };
		go(
			next === "made" ? { ...words_, at: undefined, base: undefined }
			: next === "still" ? { ...words_, at: words_.to, base: undefined }
			: { from: undefined, to: undefined, at: words_.to, base: `@${words_.from}` },
		);
	};
	const drag = (which: "from" | "to") => (e: PointerEvent) => {
		e.preventDefault();
		const target = e.currentTarget as HTMLElement;
		target.setPointerCapture(e.pointerId);
		const frame = ref.current!.getBoundingClientRect();
		let last = 0;
		const move = (m: PointerEvent) => {
			const ns = a + ((m.clientX - frame.left - box!.left) / box!.width) * (b - a);
			// a question each 60 ms at most: a brush that asks at every mouse move is an hour of replay
			if (m.timeStamp - last > 60 || m.type === "pointerup") {
				last = m.timeStamp;
				moveEnd(which, ns);
			}
		};
		const up = (m: PointerEvent) => {
			move(m);
			target.removeEventListener("pointermove", move);
			target.removeEventListener("pointerup", up);
		};
		target.addEventListener("pointermove", move);
		target.addEventListener("pointerup", up);
	};
	const handle = (which: "from" | "to", ns: number): JSX.Element => (
		<div
			class={`brush-end ${which}`}
			role="slider"
			tabIndex={0}
			aria-label={which === "from" ? "begin of the range" : "end of the range"}
			aria-valuemin={0}
			aria-valuemax={span}
			aria-valuenow={ns}
			aria-valuetext={`${moment(ns, span)} from the start`}
			data-brush={which}
			style={{ left: `${xOf(ns)}px` }}
			onPointerDown={drag(which)}
			onKeyDown={(e) => {
				const step = (e.shiftKey ? 10 : 1) * ((b - a) / 200);
				if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
					moveEnd(which, ns + (e.key === "ArrowLeft" ? -step : step));
					e.preventDefault();
					e.stopPropagation();
				}
			}}
		/>
	);
	const hovered = hover && data ? hover : null;
	const wallStart = clock.start_realtime_ns;
	return (
		<section class="timeline" aria-label="timeline">
			<div class="timeline-legend">
				{data &&
					Object.entries(SERIES)
						.filter(([name]) => data.series[name])
						.map(([name, s]) => (
							<button
								key={name}
								type="button"
								class={`legend ${on.includes(name) ? "on" : ""}`}
								aria-pressed={on.includes(name)}
								onClick={() => {
									const next = on.includes(name) ? on.filter((n) => n !== name) : [...on, name];
									go({ series: next.join(",") === FIRST ? undefined : next.join(",") || "none" }, undefined, true);
								}}
							>
								<span class="swatch" style={{ background: on.includes(name) ? (theme.series[name] ?? theme.second) : "transparent", borderColor: theme.series[name] ?? theme.second }} />
								<Explained term={s.term}>{s.label}</Explained>
							</button>
						))}
				<span class="timeline-time">
					{range && from !== null && to !== null
						? `${moment(from, span)} – ${moment(to, span)} (${duration(to - from)})`
						: at !== null
							? `at ${moment(at, span)}`
							: looked ? "drag: zoom · double click: all" : "drag: a range · click: a moment · double click: all"}
				</span>
				{(mode === "made" || mode === "still" || mode === "ends") && (
					<span class="segments" role="group" aria-label="what the range means">
						<button type="button" aria-pressed={mode === "made"} title="allocated in the range, whenever freed" onClick={() => setMode("made")}>made here</button>
						<button type="button" aria-pressed={mode === "still"} title="allocated in the range and live at its end" onClick={() => setMode("still")}>still there</button>
						<button type="button" aria-pressed={mode === "ends"} title="live at the end, compared with live at the begin" onClick={() => setMode("ends")}>compare ends</button>
						<button type="button" title="no range" aria-label="no range" onClick={() => go({ from: undefined, to: undefined, at: undefined, base: undefined })}>×</button>
					</span>
				)}
				{data && (
					<Menu label="as table" title="the timeline as a table" class="quiet" align="right">
						{() => <TimelineTable answer={data} flags={[...data.flags, ...losses]} clock={clock} />}
					</Menu>
				)}
			</div>
			<div class="timeline-plot" ref={ref}>
				<Shown answer={props.answer}>{() => <div class="timeline-canvas" ref={over} aria-hidden="true" />}</Shown>
				{box && range && (
					<>
						<div class="brush" style={{ left: `${range.left}px`, width: `${Math.max(1, range.right - range.left)}px`, top: `${box.top}px`, height: `${box.height}px` }} />
						{from !== null && inside(from) && handle("from", from)}
						{to !== null && inside(to) && handle("to", to)}
					</>
				)}
				{box && hovered && data && (
					// over the plot: figures that come and go in the line above would move the plot away from under the pointer
					<div class="timeline-values" aria-hidden="true" style={hovered.x > box.width / 2 ? { right: `calc(100% - ${box.left + hovered.x - 8}px)`, top: `${box.top}px` } : { left: `${box.left + hovered.x + 8}px`, top: `${box.top}px` }}>
						<b>{moment(hovered.at, span)}</b>
						{wallStart ? <span class="second">{wallDay((wallStart + hovered.at) / 1e6)}</span> : null}
						{Object.entries(SERIES)
							.filter(([name]) => data.series[name] && on.includes(name))
							.map(([name, s]) => (
								<span key={name}>
									<span class="swatch" style={{ background: theme.series[name] ?? theme.second }} /> {s.label}{" "}
									<b>{s.rate ? `${count(valueAt({ ...data, series: { [name]: { last: rateOf(data, data.series[name].last) } } }, name, hovered.at))}/s` : bytes(valueAt(data, name, hovered.at))}</b>
								</span>
							))}
					</div>
				)}
				{box && at !== null && !range && inside(at) && <div class="now" style={{ left: `${xOf(at)}px`, top: `${box.top}px`, height: `${box.height}px` }} />}
				{box &&
					bundle([...(data?.flags ?? []), ...losses].filter((f) => inside(f.time_ns)), xOf)
						.map((all, i) => {
							const f = all[0];
							return (
							<div key={i} class={`flag ${f.kind}`} style={{ left: `${xOf(f.time_ns)}px` }}>
								{f.end_ns !== undefined && f.end_ns > f.time_ns && <span class="hatch" style={{ width: `${xOf(Math.min(b, f.end_ns)) - xOf(f.time_ns)}px`, height: `${box.height}px` }} />}
								<button
									type="button"
									title={bundleText(all, span)}
									aria-label={bundleText(all, span)}
									onClick={() => go({ at: flagWord(f, clock), from: undefined, to: undefined, base: undefined })}
								/>
							</div>
							);
						})}
			</div>
		</section>
	);
}

function TimelineTable(props: { answer: TimelineAnswer; flags: Flag[]; clock: Clock }): JSX.Element {
	const { answer, flags, clock } = props;
	const names = Object.keys(answer.series).filter((n) => SERIES[n]);
	const step = Math.max(1, Math.ceil(answer.time_ns.length / 60));
	const rows = answer.time_ns.map((t, i) => ({ t, i })).filter(({ i }) => i % step === step - 1 || i === answer.time_ns.length - 1);
	return (
		<div class="plain-table scroll" tabIndex={0} role="region" aria-label="the timeline as a table">
			<button type="button" class="small" onClick={() => saveRows("timeline", [["until_ns", ...names.flatMap((n) => (answer.series[n].max ? [`${n}_last`, `${n}_max`] : [n]))], ...answer.time_ns.map((t, i) => [t, ...names.flatMap((n) => (answer.series[n].max ? [answer.series[n].last[i], answer.series[n].max![i]] : [answer.series[n].last[i]]))])])}>
				All of it, CSV
			</button>
			{flags.length > 0 && (
				<table>
					<caption>Moments</caption>
					<thead>
						<tr>
							<th scope="col">at</th>
							<th scope="col">what</th>
							<th scope="col">kind</th>
						</tr>
					</thead>
					<tbody>
						{flags.map((f, i) => (
							<tr key={i}>
								<td>
									<button type="button" class="small" onClick={() => go({ at: flagWord(f, clock), from: undefined, to: undefined, base: undefined })}>
										{moment(f.time_ns, clock.length_ns)}
									</button>
								</td>
								<td>{plain(f.label)}</td>
								<td>{f.kind}</td>
							</tr>
						))}
					</tbody>
				</table>
			)}
			<table>
				<caption>Highest of each stretch</caption>
				<thead>
					<tr>
						<th scope="col">up to</th>
						{names.map((n) => (
							<th scope="col" key={n}>
								{SERIES[n].label}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					{rows.map(({ t, i }, k) => {
						const begin = k ? rows[k - 1].i + 1 : 0;
						return (
							<tr key={i}>
								<td>{moment(t)}</td>
								{names.map((n) => {
									const s = answer.series[n];
									const part = (SERIES[n].rate ? rateOf(answer, s.last) : (s.max ?? s.last)).slice(begin, i + 1).filter((v): v is number => v !== null);
									return <td key={n}>{part.length ? (SERIES[n].rate ? `${count(Math.max(...part))}/s` : bytes(Math.max(...part))) : "-"}</td>;
								})}
							</tr>
						);
					})}
				</tbody>
			</table>
		</div>
	);
}
