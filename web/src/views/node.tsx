// SPDX-License-Identifier: Apache-2.0
// What a node said to its peers, to whom, and what it logged: rows of the network recorder, newest first, by cursor.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { copy, download, fileStem, go, place, source } from "../app.ts";
import { ask, Refused, useAnswer } from "../api/client.ts";
import { count, csvCell, duration, grouped, plain, plural, wall, wallDay } from "../lib/format.ts";
import { momentWord, realtimeNs, type Clock } from "../lib/moments.ts";
import { useStore } from "../lib/store.ts";
import { Empty, Note } from "../parts/basics.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { Details } from "../parts/panel.tsx";
import { generation } from "../parts/live.ts";
import { clockOf } from "../parts/timeline.tsx";
import type { ViewProps } from "./props.ts";

const PAGE = 200;

interface Row {
	id: number;
}
export interface MessageRow extends Row {
	timestamp: number;
	remote_addr: string;
	source_type: "local" | "remote";
	incoming: boolean;
	category: string;
	kind: string | null;
	message_preview: string | null;
}
export interface LogRow extends Row {
	level: string;
	timestamp: number;
	section: string;
	message: string;
}
interface Connection {
	initiator: "local" | "remote";
	remote_addr: string;
	peer_id: string;
	comments: string[];
	started_at?: number;
	closed_at?: number | null;
	close_reason?: string | null;
	chunks_local?: number;
	chunks_remote?: number;
	undecrypted_local?: number;
	undecrypted_remote?: number;
	gaps?: number;
	gap_bytes?: number;
	attached_late?: boolean;
}

interface Listing<R> {
	rows: R[];
	/** No older ones. */
	done: boolean;
	error: Refused | null;
	loading: boolean;
	more: () => void;
	again: () => void;
}

/** useListing - pages of @PAGE rows towards the past; each begins where the last one ended (that row comes again, and is left out). */
function useListing<R extends Row>(path: string): Listing<R> {
	const [state, setState] = useState<{ rows: R[]; done: boolean; error: Refused | null; loading: boolean }>({ rows: [], done: false, error: null, loading: true });
	const [round, setRound] = useState(0);
	const control = useRef<AbortController | null>(null);
	const fetchPage = (before: R[]) => {
		control.current?.abort();
		const mine = new AbortController();
		control.current = mine;
		setState((old) => ({ ...old, loading: true, error: null }));
		const last = before[before.length - 1];
		const url = `${path}${path.includes("?") ? "&" : "?"}limit=${PAGE}${last ? `&cursor=${last.id}` : ""}`;
		ask<R[]>(url, mine.signal, undefined, false).then(
			(rows) => {
				const fresh = last ? rows.filter((r) => r.id < last.id) : rows;
				if (!mine.signal.aborted)
					setState({ rows: [...before, ...fresh], done: rows.length < PAGE || !fresh.length, error: null, loading: false });
			},
			(error: unknown) => {
				if (!mine.signal.aborted)
					setState((old) => ({ ...old, loading: false, error: error instanceof Refused ? error : new Refused(0, String(error), null) }));
			},
		);
	};
	useEffect(() => {
		fetchPage([]);
		return () => control.current?.abort();
	}, [path, round]);
	return { ...state, more: () => !state.loading && !state.done && !state.error && fetchPage(state.rows), again: () => setRound((n) => n + 1) };
}

/** useFollow - asks again each @ms while somebody looks and follows. */
function useFollow(on: boolean, ms: number, again: () => void): void {
	const now = useRef(again);
	now.current = again;
	useEffect(() => {
		if (!on)
			return;
		const timer = setInterval(() => !document.hidden && now.current(), ms);
		return () => clearInterval(timer);
	}, [on, ms]);
}

/** The range in which rows are looked for: words of the recording beside them, or wall-clock times. */
interface Range {
	from?: string;
	to?: string;
	clock: Clock | null;
	/** A word that is no time: the field says so, the list is not narrowed by it. */
	wrong: string | null;
}
function useRange(props: ViewProps): Range {
	const { words } = useStore(place);
	const from = source();
	const clock = from?.has?.includes("heap") && from.start_realtime_ns ? clockOf(props.timeline.data) : null;
	const range: Range = { clock, wrong: null };
	for (const word of ["from", "to"] as const) {
		range[word] = realtimeNs(words[word], clock);
		if (words[word] && range[word] === undefined)
			range.wrong = words[word]!;
	}
	return range;
}

/** None - nothing in the range: what is nearest before and after it, to go there. */
function None(props: { path: string; what: string; range: Range; filtered: boolean }): JSX.Element {
	const { range, path } = props;
	const bare = path.replace(/([?&])(from|to)=[^&]*/g, "$1").replace(/[?&]+$/, "").replace(/\?&+/, "?").replace(/&&+/g, "&");
	const at = bare.includes("?") ? "&" : "?";
	const before = useAnswer<{ timestamp: number }[]>(range.from ? `${bare}${at}to=${range.from}&limit=1` : null, 0, false);
	const after = useAnswer<{ timestamp: number }[]>(range.to ? `${bare}${at}from=${range.to}&direction=forward&limit=1` : null, 0, false);
	const jump = (ns: number) => {
		if (range.clock) {
			const t = ns - range.clock.start_realtime_ns!;
			go({ from: momentWord(Math.max(0, t - 1e9)), to: momentWord(t + 1e9), at: undefined });
		} else {
			go({ from: new Date(ns / 1e6 - 1000).toISOString(), to: new Date(ns / 1e6 + 1000).toISOString() });
		}
	};
	const one = before.data?.[0];
	const next = after.data?.[0];
	return (
		<Empty>
			<b>No {props.what} here.</b>
			{one || next ? (
				<p>
					{one && (
						<>
							The last one before: <button type="button" class="link-button" onClick={() => jump(one.timestamp)}>{wallDay(one.timestamp / 1e6)}</button>{" "}
						</>
					)}
					{next && (
						<>
							The first one after: <button type="button" class="link-button" onClick={() => jump(next.timestamp)}>{wallDay(next.timestamp / 1e6)}</button>
						</>
					)}
				</p>
			) : (
				<p>{props.filtered ? "Take a filter away, or widen the range of time." : "Nothing was recorded yet."}</p>
			)}
		</Empty>
	);
}

/** Then - the memory of the recording beside it, at the moment of a row. */
function Then(props: { ns: number; clock: Clock | null }): JSX.Element | null {
	const t = props.clock ? props.ns - props.clock.start_realtime_ns! : -1;
	return t >= 0 && t <= (props.clock?.length_ns ?? 0) ? (
		<button type="button" class="button" title="which code held memory at this moment" onClick={() => go({ at: momentWord(t), from: undefined, to: undefined, base: undefined, s: undefined, n: undefined }, "flame")}>
			Memory then
		</button>
	) : null;
}

function Text(props: { word: "q" | "addr" | "from" | "to"; label: string; hint: string }): JSX.Element {
	const { words } = useStore(place);
	const [text, setText] = useState(words[props.word] ?? "");
	useEffect(() => setText(words[props.word] ?? ""), [words[props.word]]);
	return (
		<form
			class="inline-field"
			onSubmit={(e) => {
				e.preventDefault();
				go({ [props.word]: text.trim() || undefined });
			}}
		>
			<label>
				<span class="second">{props.label}</span>
				<input class="inline-input" type="search" value={text} placeholder={props.hint} spellcheck={false} onInput={(e) => setText(e.currentTarget.value)} onBlur={() => go({ [props.word]: text.trim() || undefined })} />
			</label>
		</form>
	);
}

function Toggles(props: { word: "types" | "level"; label: string; choices: { value: string; label: string }[] }): JSX.Element {
	const { words } = useStore(place);
	const on = (words[props.word] ?? "").split(",").filter(Boolean);
	const flip = (value: string) => {
		const parts = value.split(",");
		const is = parts.every((p) => on.includes(p));
		const next = is ? on.filter((p) => !parts.includes(p)) : [...on.filter((p) => !parts.includes(p)), ...parts];
		go({ [props.word]: next.join(",") || undefined });
	};
	return (
		<div class="toggles" role="group" aria-label={props.label}>
			{props.choices.map((c) => (
				<button key={c.value} type="button" class="small" aria-pressed={c.value.split(",").every((p) => on.includes(p))} onClick={() => flip(c.value)}>
					{c.label}
				</button>
			))}
		</div>
	);
}

const KINDS = [
	{ value: "connection_message", label: "Connection" },
	{ value: "metadata", label: "Meta" },
	{ value: "ack_message", label: "Ack" },
	{ value: "bootstrap", label: "Bootstrap" },
	{ value: "advertise", label: "Advertise" },
	{ value: "swap_request,swap_ack", label: "Swap" },
	{ value: "deactivate", label: "Deactivate" },
	{ value: "get_current_head,current_head", label: "Head" },
	{ value: "get_current_branch,current_branch", label: "Branch" },
	{ value: "get_operations,operation", label: "Operation" },
	{ value: "get_protocols,protocol", label: "Protocol" },
	{ value: "get_block_headers,block_header", label: "Block header" },
	{ value: "get_operations_for_blocks,operations_for_blocks", label: "Block operations" },
	{ value: "get_operation_hashes_for_blocks,operation_hashes_for_blocks", label: "Operation hashes" },
];
const LEVELS = ["Trace", "Debug", "Info", "Notice", "Warning", "Error", "Fatal"];

function query(parts: Record<string, string | undefined>): string {
	const q = new URLSearchParams();
	for (const [key, value] of Object.entries(parts))
		if (value)
			q.set(key, value);
	return q.toString();
}

function When(props: { ns: number }): JSX.Element {
	return <span title={wallDay(props.ns / 1e6)}>{wall(props.ns / 1e6)}</span>;
}

function Frame<R extends Row>(props: { list: Listing<R>; path: string; range: Range; filtered: boolean; what: string; children: JSX.Element; tools: JSX.Element }): JSX.Element {
	const { list } = props;
	return (
		<>
			<div class="tools">{props.tools}</div>
			{props.range.wrong && (
				<Note kind="warn">
					{plain(props.range.wrong)} is no time here: 2026-11-24T14:03:22Z, seconds or ns since 1970{props.range.clock ? ", or a moment of the recording as 10s, 50%" : ""}.
				</Note>
			)}
			{list.error && (
				<Note kind="bad">
					{list.error.message}{" "}
					<button type="button" class="small" onClick={list.again}>
						Try again
					</button>
				</Note>
			)}
			{list.rows.length ? (
				props.children
			) : list.loading ? (
				<div class="placeholder" />
			) : list.error ? null : (
				<None path={props.path} what={props.what} range={props.range} filtered={props.filtered} />
			)}
		</>
	);
}

function Following(props: { on: boolean; set: (on: boolean) => void; rows: number; done: boolean }): JSX.Element {
	return (
		<>
			<span class="grow" />
			<span class="second">
				{grouped(props.rows)}
				{props.done ? "" : "+"} rows
			</span>
			<button type="button" class="small" aria-pressed={props.on} onClick={() => props.set(!props.on)} title="new rows come by themselves (Space)">
				{props.on ? "● following" : "follow"}
			</button>
		</>
	);
}

function useSelectedRow<R extends Row>(rows: R[]): [number, R | null] {
	const { words } = useStore(place);
	const at = words.s ? rows.findIndex((r) => String(r.id) === words.s) : -1;
	return [at, at >= 0 ? rows[at] : null];
}

function listCsv(name: string, columns: string[], rows: (string | number | null)[][]): void {
	download(`${fileStem()}-${name}.csv`, [columns, ...rows].map((r) => r.map(csvCell).join(",")).join("\r\n") + "\r\n", "text/csv");
}

export function Messages(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const [follow, setFollow] = useState(false);
	const range = useRange(props);
	const path = `/v3/messages?${query({ types: words.types, remote_addr: words.addr, source_type: words.level === "local" || words.level === "remote" ? words.level : undefined, incoming: words.order === "in" ? "true" : words.order === "out" ? "false" : undefined, from: range.from, to: range.to })}`;
	const list = useListing<MessageRow>(path);
	useFollow(follow, 5000, list.again);
	const [at, chosen] = useSelectedRow(list.rows);
	const columns: Column<MessageRow>[] = [
		{ key: "time", label: "time", width: "112px", cell: (r) => <When ns={r.timestamp} />, text: (r) => r.timestamp },
		{
			key: "addr", label: "peer", width: "178px", text: (r) => r.remote_addr,
			cell: (r) => (
				<button type="button" tabIndex={-1} class="link-button" title="only this peer" onClick={(e) => (e.stopPropagation(), go({ addr: r.remote_addr }))}>
					{plain(r.remote_addr)}
				</button>
			),
		},
		{
			key: "way", label: "way, opened by", width: "150px", text: (r) => `${r.source_type} ${r.incoming ? "in" : "out"}`,
			cell: (r) => (
				<span title={`${r.source_type === "local" ? "we" : "the peer"} opened the connection; the message was ${r.incoming ? "received" : "sent"}`}>
					{r.incoming ? "← received" : "→ sent"} <span class="second">{r.source_type}</span>
				</span>
			),
		},
		{ key: "kind", label: "type", width: "210px", text: (r) => `${r.category} ${r.kind ?? ""}`, cell: (r) => <span>{r.kind ? plain(r.kind).replace(/_/g, " ") : <b>{plain(r.category)}</b>}</span> },
		{ key: "preview", label: "message", cell: (r) => <span class="mono">{r.message_preview ? plain(r.message_preview) : <span class="faint">undecoded</span>}</span>, text: (r) => r.message_preview },
	];
	props.expose({
		loaded: `${plural(list.rows.length, "message")} loaded`,
		json: path,
		csv: list.rows.length ? () => listCsv("messages", ["id", "time_ns", "peer", "opened_by", "incoming", "category", "kind", "preview"], list.rows.map((r) => [r.id, r.timestamp, r.remote_addr, r.source_type, String(r.incoming), r.category, r.kind, r.message_preview])) : undefined,
		panel: chosen ? <MessagePanel key={chosen.id} row={chosen} clock={range.clock} /> : null,
	});
	return (
		<Frame
			list={list}
			path={path}
			range={range}
			what="message"
			filtered={!!(words.types || words.addr || words.level || words.order || words.from || words.to)}
			tools={
				<>
					<Toggles word="types" label="types of messages" choices={KINDS} />
					<div class="toggles" role="group" aria-label="who opened the connection">
						{(["local", "remote"] as const).map((side) => (
							<button key={side} type="button" class="small" aria-pressed={words.level === side} onClick={() => go({ level: words.level === side ? undefined : side })}>
								opened by {side === "local" ? "us" : "the peer"}
							</button>
						))}
					</div>
					<div class="toggles" role="group" aria-label="direction">
						{(["in", "out"] as const).map((way) => (
							<button key={way} type="button" class="small" aria-pressed={words.order === way} onClick={() => go({ order: words.order === way ? undefined : way })}>
								{way === "in" ? "← received" : "→ sent"}
							</button>
						))}
					</div>
					<Text word="addr" label="peer" hint="203.0.113.7:9732" />
					<Text word="from" label="from" hint="14:03, 2026-11-24T14:03Z" />
					<Text word="to" label="to" hint="14:03, 2026-11-24T14:03Z" />
					<Following on={follow} set={setFollow} rows={list.rows.length} done={list.done} />
				</>
			}
		>
			<Grid
				columns={columns}
				total={list.rows.length}
				row={(i) => list.rows[i] ?? null}
				selected={at}
				label="messages"
				onSelect={(_i, r) => go({ s: String(r.id) }, undefined, true)}
				onWindow={(_f, to) => to >= list.rows.length - 20 && list.more()}
			/>
		</Frame>
	);
}

interface MessageDetails {
	id: number;
	message: unknown;
	original_bytes: string[];
	decrypted_bytes: string[];
	error: string | null;
}

const SHOWN_BYTES = 16384;
function hexLines(bytes: string[]): string {
	const lines: string[] = [];
	for (let i = 0; i < Math.min(bytes.length, SHOWN_BYTES); i += 16) {
		const part = bytes.slice(i, i + 16);
		const text = part.map((b) => (b >= "20" && b < "7f" ? String.fromCharCode(parseInt(b, 16)) : ".")).join("");
		lines.push(`${i.toString(16).padStart(6, "0")}  ${part.join(" ").padEnd(47)}  ${text}`);
	}
	if (bytes.length > SHOWN_BYTES)
		lines.push(`… ${grouped(bytes.length - SHOWN_BYTES)} bytes more`);
	return lines.join("\n");
}

function MessagePanel(props: { row: MessageRow; clock: Clock | null }): JSX.Element {
	const answer = useAnswer<MessageDetails | null>(`/v3/message/${props.row.id}`, 0, false);
	const [tab, setTab] = useState<"json" | "plain" | "wire">("json");
	const details = answer.data;
	const text = useMemo(() => {
		if (!details)
			return "";
		return tab === "json" ? (details.message === null ? "" : JSON.stringify(details.message, null, 2)) : hexLines(tab === "wire" ? details.original_bytes : details.decrypted_bytes);
	}, [details, tab]);
	const { row } = props;
	return (
		<div class="panel-body">
			<h2 class="panel-name">{plain(row.kind ?? row.category).replace(/_/g, " ")}</h2>
			<p class="second">
				{row.incoming ? "from" : "to"} {plain(row.remote_addr) || "the peer"} · {wallDay(row.timestamp / 1e6)} · id {row.id}
			</p>
			<div class="segments" role="group" aria-label="shown as">
				<button type="button" aria-pressed={tab === "json"} onClick={() => setTab("json")}>JSON</button>
				<button type="button" aria-pressed={tab === "plain"} onClick={() => setTab("plain")}>plain bytes</button>
				<button type="button" aria-pressed={tab === "wire"} onClick={() => setTab("wire")}>as sent</button>
			</div>
			{answer.error && <Note kind="bad">{answer.error.message}</Note>}
			{details?.error && <Note kind="warn">{plain(details.error)}</Note>}
			{details && (
				<>
					<pre class="raw" tabIndex={0}>{text.split("\n").map((l) => plain(l)).join("\n") || "nothing was decoded"}</pre>
					<div class="actions">
						<button type="button" class="button" onClick={() => void copy(text, "message")}>Copy</button>
						{row.remote_addr && <button type="button" class="button" onClick={() => go({ addr: row.remote_addr, s: undefined })}>Only this peer</button>}
						<Then ns={row.timestamp} clock={props.clock} />
					</div>
					<p class="second small-text">{grouped(details.original_bytes.length)} bytes sent, {grouped(details.decrypted_bytes.length)} plain</p>
				</>
			)}
		</div>
	);
}

export function Logs(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const [follow, setFollow] = useState(false);
	const levels = (words.level ?? "").split(",").filter((l) => LEVELS.some((k) => k.toLowerCase() === l)).join(",");
	const range = useRange(props);
	const path = `/v3/logs?${query({ log_level: levels, query_no_quotes: words.q ? "true" : undefined, query: words.q, from: range.from, to: range.to })}`;
	const list = useListing<LogRow>(path);
	useFollow(follow, 2000, list.again);
	const [at, chosen] = useSelectedRow(list.rows);
	const columns: Column<LogRow>[] = [
		{ key: "time", label: "time", width: "112px", cell: (r) => <When ns={r.timestamp} />, text: (r) => r.timestamp },
		{ key: "level", label: "level", width: "86px", cell: (r) => <span class={`level ${r.level.toLowerCase()}`}>{plain(r.level)}</span>, text: (r) => r.level },
		{ key: "section", label: "section", width: "150px", cell: (r) => <span class="second">{plain(r.section)}</span>, text: (r) => r.section },
		{ key: "text", label: "message", cell: (r) => <span>{plain(r.message)}</span>, text: (r) => r.message },
	];
	props.expose({
		loaded: `${plural(list.rows.length, "line")} loaded`,
		json: path,
		csv: list.rows.length ? () => listCsv("logs", ["id", "time_ns", "level", "section", "message"], list.rows.map((r) => [r.id, r.timestamp, r.level, r.section, r.message])) : undefined,
		panel: chosen ? (
			<Details of={String(chosen.id)} show={() => (
			<>
				<h2 class="panel-name">{plain(chosen.level)}</h2>
				<p class="second">
					{wallDay(chosen.timestamp / 1e6)} · {plain(chosen.section)} · id {chosen.id}
				</p>
				<pre class="raw wrap-text" tabIndex={0}>{chosen.message.split("\n").map((l) => plain(l)).join("\n")}</pre>
				<div class="actions">
					<button type="button" class="button" onClick={() => void copy(chosen.message, "line")}>Copy</button>
					<Then ns={chosen.timestamp} clock={range.clock} />
				</div>
			</>
			)} />
		) : null,
	});
	return (
		<Frame
			list={list}
			path={path}
			range={range}
			what="line"
			filtered={!!(levels || words.q || words.from || words.to)}
			tools={
				<>
					<Toggles word="level" label="levels" choices={LEVELS.map((l) => ({ value: l.toLowerCase(), label: l }))} />
					<Text word="q" label="text" hint="words" />
					<Text word="from" label="from" hint="14:03, 2026-11-24T14:03Z" />
					<Text word="to" label="to" hint="14:03, 2026-11-24T14:03Z" />
					<Following on={follow} set={setFollow} rows={list.rows.length} done={list.done} />
				</>
			}
		>
			<Grid
				columns={columns}
				total={list.rows.length}
				row={(i) => list.rows[i] ?? null}
				selected={at}
				label="log lines"
				onSelect={(_i, r) => go({ s: String(r.id) }, undefined, true)}
				onWindow={(_f, to) => to >= list.rows.length - 20 && list.more()}
			/>
		</Frame>
	);
}

export function Connections(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const stamp = useStore(generation);
	const answer = useAnswer<[string, Connection][]>("/v3/connections?limit=10000", stamp, false);
	const range = useRange(props);
	const wanted = words.addr ?? "";
	const rows = useMemo(() => {
		const from = range.from ? Number(range.from) : -Infinity;
		const to = range.to ? Number(range.to) : Infinity;
		const start = ([id, c]: [string, Connection]) => c.started_at ?? Number(id.split(".")[0]) * 1e9;
		return (answer.data ?? [])
			.filter((r) => (!wanted || r[1].remote_addr.includes(wanted) || r[1].peer_id.includes(wanted)) && start(r) <= to && (r[1].closed_at ?? Infinity) >= from)
			.filter((r) => !words.level || r[1].initiator === words.level)
			.filter((r) => words.types !== "open" || !r[1].closed_at)
			.reverse();
	}, [answer.data, wanted, range.from, range.to, words.level, words.types]);
	const at = words.s ? rows.findIndex(([id]) => id === words.s) : -1;
	const chosen = at >= 0 ? rows[at] : null;
	type R = [string, Connection];
	const columns: Column<R>[] = [
		{ key: "start", label: "opened", width: "112px", cell: ([id, c]) => <When ns={c.started_at ?? Number(id.split(".")[0]) * 1e9} />, text: ([id]) => id },
		{ key: "addr", label: "peer", width: "190px", cell: ([, c]) => plain(c.remote_addr), text: ([, c]) => c.remote_addr },
		{ key: "by", label: "opened by", width: "90px", cell: ([, c]) => (c.initiator === "local" ? "us" : "the peer"), text: ([, c]) => c.initiator },
		{ key: "peer", label: "peer id", cell: ([, c]) => <span class="mono">{plain(c.peer_id)}</span>, text: ([, c]) => c.peer_id },
		{ key: "sent", label: "chunks sent", width: "100px", right: true, cell: ([, c]) => count(c.chunks_local), text: ([, c]) => c.chunks_local ?? null },
		{ key: "got", label: "received", width: "90px", right: true, cell: ([, c]) => count(c.chunks_remote), text: ([, c]) => c.chunks_remote ?? null },
		{ key: "bad", label: "undecrypted", width: "100px", right: true, cell: ([, c]) => ((c.undecrypted_local ?? 0) + (c.undecrypted_remote ?? 0) ? <span class="grown">{count((c.undecrypted_local ?? 0) + (c.undecrypted_remote ?? 0))}</span> : <span class="faint">0</span>) },
		{ key: "gaps", label: "gaps", width: "70px", right: true, cell: ([, c]) => (c.gaps ? <span class="grown">{count(c.gaps)}</span> : <span class="faint">0</span>), text: ([, c]) => c.gaps ?? null },
		{ key: "end", label: "closed", width: "140px", cell: ([, c]) => (c.closed_at ? `${duration(c.closed_at - (c.started_at ?? c.closed_at))}${c.close_reason ? `, ${plain(c.close_reason)}` : ""}` : "open") },
	];
	props.expose({
		loaded: plural(rows.length, "connection"),
		json: answer.of ?? undefined,
		csv: rows.length ? () => listCsv("connections", ["id", "peer", "opened_by", "peer_id", "chunks_sent", "chunks_received", "gaps"], rows.map(([id, c]) => [id, c.remote_addr, c.initiator, c.peer_id, c.chunks_local ?? null, c.chunks_remote ?? null, c.gaps ?? null])) : undefined,
		panel: chosen ? (
			<Details of={`${chosen[0]} ${JSON.stringify(chosen[1])}`} show={() => (
			<>
				<h2 class="panel-name">{plain(chosen[1].remote_addr)}</h2>
				<dl class="facts">
					{Object.entries(chosen[1]).map(([key, value]) => (
						<>
							<dt key={key}>{key.replace(/_/g, " ")}</dt>
							<dd class="wrap">{value === null ? "-" : Array.isArray(value) ? value.map((v) => plain(String(v))).join("; ") || "-" : /_at$/.test(key) ? wallDay(Number(value) / 1e6) : plain(String(value))}</dd>
						</>
					))}
				</dl>
				<div class="actions">
					<button type="button" class="button" onClick={() => go({ addr: chosen[1].remote_addr, s: undefined }, "messages")}>
						Its messages
					</button>
				</div>
			</>
			)} />
		) : null,
	});
	return (
		<>
			<div class="tools">
				<div class="toggles" role="group" aria-label="who opened the connection">
					{(["local", "remote"] as const).map((side) => (
						<button key={side} type="button" class="small" aria-pressed={words.level === side} onClick={() => go({ level: words.level === side ? undefined : side })}>
							opened by {side === "local" ? "us" : "the peer"}
						</button>
					))}
					<button type="button" class="small" aria-pressed={words.types === "open"} onClick={() => go({ types: words.types === "open" ? undefined : "open" })}>
						open now
					</button>
				</div>
				<Text word="addr" label="peer" hint="address or peer id" />
				<Text word="from" label="from" hint="14:03, 2026-11-24T14:03Z" />
				<Text word="to" label="to" hint="14:03, 2026-11-24T14:03Z" />
				<span class="grow" />
				<span class="second">
					{grouped(rows.length)} of {grouped(answer.data?.length ?? 0)}
				</span>
			</div>
			{answer.error && <Note kind="bad">{answer.error.message}</Note>}
			{rows.length ? (
				<Grid columns={columns} total={rows.length} row={(i) => rows[i] ?? null} selected={at} label="connections" onSelect={(_i, r) => go({ s: r[0] }, undefined, true)} onOpen={(_i, r) => go({ addr: r[1].remote_addr, s: undefined }, "messages")} />
			) : answer.loading ? (
				<div class="placeholder" />
			) : (
				<Empty>
					<b>{answer.data?.length ? "No connection in this selection." : "No connection was seen yet."}</b>
				</Empty>
			)}
		</>
	);
}
