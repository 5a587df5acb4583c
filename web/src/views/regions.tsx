// SPDX-License-Identifier: Apache-2.0
// A running process by mapping, right now: rows that add up to its RSS, how each is known, how old the reading is.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { download, fileStem, go, place } from "../app.ts";
import { ask, Refused } from "../api/client.ts";
import { colours } from "../lib/colours.ts";
import { bytes, count, csvCell, duration, exact, grouped, percent, plain } from "../lib/format.ts";
import { useStore } from "../lib/store.ts";
import { Bar, Explained, Note } from "../parts/basics.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { Spark } from "./growth.tsx";
import type { ViewProps } from "./props.ts";

interface Class {
	class: string;
	label: string;
	rss_bytes: number;
	virtual_bytes: number;
	swap_bytes: number;
	count: number;
	how: string;
}
interface Region {
	start: string | number;
	end: string | number;
	perms: string;
	rss_bytes: number;
	swap_bytes: number;
	name: string | null;
	class: string;
	label: string;
}
interface Breakdown {
	pid: number;
	name?: string;
	time_ns: number;
	rss_bytes: number;
	virtual_bytes: number;
	swap_bytes: number;
	own_rss_bytes?: number;
	mappings?: number;
	classes: Class[];
	regions?: Region[];
	age_ns?: number;
	stall_ns?: number;
}

const OWNER: [RegExp, number][] = [
	[/allocator|heap/, 3], [/anon|stack|named/, 0], [/runtime|jit/, 2], [/library/, 4], [/program|exe/, 1], [/kernel|vdso/, 5], [/file|shared|shmem/, 6],
];
function ownerOf(name: string): number {
	return OWNER.find(([pattern]) => pattern.test(name))?.[1] ?? 7;
}
const HISTORY = 300;
const address = (a: string | number) => (typeof a === "number" ? `0x${a.toString(16)}` : plain(a));

export function Regions(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const [now, setNow] = useState<Breakdown | null>(null);
	const [error, setError] = useState<Refused | null>(null);
	const [history, setHistory] = useState<number[]>([]);
	const [held, setHeld] = useState(false);
	const form = words.z === "mappings" ? "mappings" : "classes";
	const path = `/debug/memory?format=json&top=500${/^\d+$/.test(words.pid ?? "") ? `&pid=${words.pid}` : ""}`;
	useEffect(() => {
		const control = new AbortController();
		let timer = 0;
		const look = () => {
			if (document.hidden) {
				timer = window.setTimeout(look, 1000);
				return;
			}
			ask<Breakdown>(path, control.signal, undefined, false).then(
				(fresh) => {
					setNow(fresh);
					setError(null);
					setHistory((old) => [...old, fresh.rss_bytes].slice(-HISTORY));
					timer = window.setTimeout(look, 1000);
				},
				(failure: unknown) => {
					if (control.signal.aborted)
						return;
					setError(failure instanceof Refused ? failure : new Refused(0, String(failure), null));
					timer = window.setTimeout(look, 3000);
				},
			);
		};
		if (!held)
			look();
		return () => {
			control.abort();
			clearTimeout(timer);
		};
	}, [path, held]);
	const groups = useMemo(() => {
		const sums = new Map<string, number>();
		for (const c of now?.classes ?? [])
			sums.set(c.class, (sums.get(c.class) ?? 0) + c.rss_bytes);
		return [...sums].filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]);
	}, [now]);
	props.expose({
		loaded: now ? `${count(now.mappings ?? 0)} mappings` : "",
		json: path,
		csv: now ? () => download(`${fileStem()}-regions.csv`, [["class", "label", "rss_bytes", "virtual_bytes", "swap_bytes", "count", "how"], ...now.classes.map((c) => [c.class, c.label, c.rss_bytes, c.virtual_bytes, c.swap_bytes, c.count, c.how])].map((r) => r.map(csvCell).join(",")).join("\r\n") + "\r\n", "text/csv") : undefined,
	});
	const whole = now?.rss_bytes ?? 0;
	const figures = <R extends { rss_bytes: number; swap_bytes: number; class: string }>(): Column<R>[] => [
		{ key: "rss", label: <Explained term="rss">resident</Explained>, width: "96px", right: true, cell: (r) => <b title={exact(r.rss_bytes, "bytes")}>{bytes(r.rss_bytes)}</b>, text: (r) => r.rss_bytes },
		{ key: "bar", label: "", width: "90px", cell: (r) => <Bar part={r.rss_bytes} whole={whole} colour={theme.boxes[ownerOf(r.class)]} /> },
		{ key: "share", label: "of RSS", width: "84px", right: true, cell: (r) => percent(r.rss_bytes, whole), text: (r) => percent(r.rss_bytes, whole) },
		{ key: "swap", label: "swapped", width: "80px", right: true, cell: (r) => (r.swap_bytes ? bytes(r.swap_bytes) : <span class="faint">0</span>), text: (r) => r.swap_bytes },
	];
	const name = (label: string, kind: string) => (
		<span class="tree-name">
			<span class="dot" style={{ background: theme.boxes[ownerOf(kind)] }} />
			<span class="name">{plain(label)}</span>
			<span class="where">{plain(kind)}</span>
		</span>
	);
	return (
		<>
			{error && (
				<Note kind="bad">
					{error.message}
					{error.hint && <div class="second">{error.hint}</div>}
				</Note>
			)}
			{now ? (
				<>
					<div class="regions-head">
						<div>
							<h2>
								{plain(now.name ?? "")} {now.pid}: {bytes(now.rss_bytes)} resident
							</h2>
							<p class="second">
								{bytes(now.virtual_bytes)} virtual · {bytes(now.swap_bytes)} swapped · {count(now.mappings ?? 0)} mappings
								{now.own_rss_bytes ? ` · ${bytes(now.own_rss_bytes)} of byteledger's own` : ""}
								{now.age_ns !== undefined ? ` · read ${duration(now.age_ns)} ago` : ""}
							</p>
						</div>
						<Spark points={history} width={220} height={40} colour={theme.link} />
						<span class="grow" />
						<span class="segments" role="group" aria-label="shown as">
							<button type="button" aria-pressed={form === "classes"} onClick={() => go({ z: undefined })}>classes</button>
							<button type="button" aria-pressed={form === "mappings"} onClick={() => go({ z: "mappings" })}>largest mappings</button>
						</span>
						<button type="button" class="small" aria-pressed={!held} onClick={() => setHeld(!held)}>
							{held ? "follow" : "● following"}
						</button>
					</div>
					<div class="regions-bar">
						<div class="balance" role="img" aria-label={groups.map(([g, v]) => `${g} ${bytes(v)}`).join(", ")}>
							{groups.map(([g, v]) => (
								<span key={g} style={{ flexGrow: Math.max(v, whole * 0.002), background: theme.boxes[ownerOf(g)] }} title={`${g}: ${grouped(v)} bytes`} />
							))}
						</div>
						<div class="balance-lines">
							{groups.slice(0, 8).map(([g, v]) => (
								<span key={g} class="balance-line">
									<span class="swatch" style={{ background: theme.boxes[ownerOf(g)] }} />
									{plain(g)} <b>{bytes(v)}</b> <span class="second">{percent(v, whole)}</span>
								</span>
							))}
						</div>
					</div>
					{form === "classes" ? (
						<Grid<Class>
							label="classes"
							total={now.classes.length}
							row={(i) => now.classes[i] ?? null}
							columns={[
								{ key: "label", label: "what", cell: (c) => name(c.label, c.class), text: (c) => `${c.class} ${c.label}` },
								...figures<Class>(),
								{ key: "virtual", label: "virtual", width: "96px", right: true, cell: (c) => bytes(c.virtual_bytes), text: (c) => c.virtual_bytes },
								{ key: "count", label: "mappings", width: "86px", right: true, cell: (c) => count(c.count), text: (c) => c.count },
								{ key: "how", label: "known by", width: "220px", cell: (c) => <span class="second">{plain(c.how)}</span>, text: (c) => c.how },
							]}
						/>
					) : (
						<Grid<Region>
							label="mappings"
							total={now.regions?.length ?? 0}
							row={(i) => now.regions?.[i] ?? null}
							columns={[
								{ key: "label", label: "what", cell: (r) => name(r.label || r.name || "anonymous", r.class), text: (r) => r.label },
								...figures<Region>(),
								{ key: "addr", label: "address", width: "260px", cell: (r) => <span class="mono">{address(r.start)}-{address(r.end).replace(/^0x/, "")}</span>, text: (r) => address(r.start) },
								{ key: "perms", label: "access", width: "70px", cell: (r) => <span class="mono">{plain(r.perms)}</span>, text: (r) => r.perms },
							]}
						/>
					)}
				</>
			) : (
				!error && <div class="placeholder" />
			)}
		</>
	);
}
