// SPDX-License-Identifier: Apache-2.0
// What is looked at, how fresh it is, whether it can be trusted; find, share, theme, help.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { commandHere, copy, fileStem, go, head, known, link, offered, place, say, source, sourceName, switchSource } from "../app.ts";
import { themeChoice } from "../lib/colours.ts";
import { baseName, bytes, count, duration, findRegex, moment, plain, wall } from "../lib/format.ts";
import { isFrozen, momentNs, momentWord, type Clock } from "../lib/moments.ts";
import { useStore } from "../lib/store.ts";
import type { View } from "../lib/url.ts";
import { Explained, Menu } from "./basics.tsx";
import { Icon } from "./icons.tsx";
import { clockOf, useTimeline, valueAt } from "./timeline.tsx";
import { heard, IDLE_MS, isLive, liveState, second, STALE_MS, type Live } from "./live.ts";
import type { Source } from "../api/types.ts";
import type { Exposed } from "../views/props.ts";

export function sourceLabel(s: { name: string; exe: string | null; pid: number | null }): string {
	return s.exe ? `${baseName(plain(s.exe))}${s.pid ? ` ${s.pid}` : ""}` : plain(s.name);
}

/** followNow - back to what is there now. */
export function followNow(): void {
	go({ at: undefined, from: undefined, to: undefined, base: undefined });
}
/** freeze - hold what is shown; the recording goes on. */
export function freeze(): void {
	const from = source();
	const now = from ? heard.get().get(from.id) : undefined;
	if (now)
		go({ at: momentWord(now.time_ns) });
}

interface State {
	dot: "live" | "stale" | "bad" | "ended" | "frozen";
	text: string;
	/** What a screen reader is told when it changes: no figure that ticks. */
	said: string;
	frozen?: boolean;
}

/** stateOf - how true is what is shown? */
function stateOf(from: Source | null, live: Live, clock: Clock): State {
	if (live.state === "lost")
		return { dot: "stale", text: `connection lost, next try in ${Math.max(1, Math.round(live.retry_in / 1000))} s`, said: "connection lost" };
	if (!from)
		return { dot: "stale", text: "nothing loaded", said: "" };
	if (!isLive(from))
		return from.complete === false ? { dot: "bad", text: "broken off", said: "" } : { dot: "ended", text: from.kind === "node" || from.kind === "process" ? "live" : from.book === "sample" ? "ended, sampled" : from.book === "pages" ? "ended, resident pages" : "ended", said: "" };
	const { words } = place.get();
	const last = heard.get().get(from.id);
	if (!last)
		return { dot: "live", text: "live", said: "live" };
	const age = last.age_ns + Math.max(0, Date.now() - last.at) * 1e6;
	if (last.process === "gone")
		return { dot: "stale", text: "the process is gone, its recording is not finished", said: "the process is gone" };
	if (age > STALE_MS * 1e6)
		return { dot: "stale", text: `no data for ${Math.round(age / 1e9)} s`, said: "no data comes" };
	if (isFrozen(words)) {
		const at = momentNs(words.at ?? words.to, clock);
		const behind = at === null ? "" : `, ${duration(Math.max(0, last.time_ns - at))} behind`;
		return { dot: "frozen", text: `frozen${at === null ? "" : ` at ${clock.start_realtime_ns ? wall((clock.start_realtime_ns + at) / 1e6).slice(0, 8) : moment(at)}`}${behind}`, said: "frozen", frozen: true };
	}
	if (last.process === "stopped")
		return { dot: "stale", text: "live, but the process is stopped", said: "the process is stopped" };
	const idle = last.allocations === null ? 0 : Date.now() - last.moved;
	return { dot: "live", text: idle > IDLE_MS ? `live, no call for ${Math.round(idle / 1000)} s` : `live, ${Math.max(1, Math.round(age / 1e9))} s old`, said: idle > IDLE_MS ? "live, no calls come" : "live" };
}

/** Views that mark what is found; from the others it is looked at in the flame. */
const WITH_HITS = new Set<View>(["flame", "tree", "treemap", "compare"]);

export function Header(props: { timeline: ReturnType<typeof useTimeline>; exposed: Exposed; onHelp: () => void }): JSX.Element {
	const { view, words } = useStore(place);
	const { sources } = useStore(known);
	const answer = useStore(head);
	const theme = useStore(themeChoice);
	const live = useStore(liveState);
	useStore(heard);
	useStore(second);
	const from = source();
	const line = props.timeline.data;
	const clock = clockOf(line);
	const at = momentNs(words.at, clock) ?? clock.length_ns;
	const fresh = from && isLive(from) && !isFrozen(words) ? heard.get().get(from.id) : undefined;
	const rss = fresh?.rss_bytes || (line ? valueAt(line, "rss", at) : null);
	const heap = fresh ? fresh.heap_bytes : line ? valueAt(line, "heap", at) : null;
	const peak = line?.flags?.find((f) => f.kind === "peak");
	const lost = answer?.lost?.events ?? 0;
	const partial = answer?.partial?.events ?? 0;
	const [find, setFind] = useState(words.find ?? "");
	const box = useRef<HTMLInputElement>(null);
	useEffect(() => setFind(words.find ?? ""), [words.find]);
	const state = stateOf(from, live, clock);
	return (
		<header class="header">
			<a class="brand" href={link({ n: undefined, s: undefined }, "overview")} title="Overview">
				<svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
					<rect x="1" y="2" width="18" height="4" rx="1" class="b0" />
					<rect x="1" y="8" width="11" height="4" rx="1" class="b1" />
					<rect x="13" y="8" width="6" height="4" rx="1" class="b2" />
					<rect x="1" y="14" width="6" height="4" rx="1" class="b3" />
				</svg>
				<span>byteledger</span>
			</a>
			{sources && sources.length > 1 ? (
				<label class="chip select source">
					<select id="source" aria-label="recording" value={from ? String(from.id) : ""} onChange={(e) => switchSource(Number(e.currentTarget.value))}>
						{sources.map((s) => (
							<option key={s.id} value={String(s.id)}>
								{s.parent !== null && s.parent !== undefined ? "└ " : ""}{s.exe ? `${sourceLabel(s)} · ` : ""}{baseName(plain(sourceName(s)))}
							</option>
						))}
					</select>
				</label>
			) : (
				<span class="source" title={from ? plain(from.name) : ""}>
					{from ? sourceLabel(from) : ""}
				</span>
			)}
			<span class={`state ${state.dot}`}>
				<span class="state-dot" aria-hidden="true" />
				<span class="state-text">{state.text}</span>
				{state.frozen && (
					<button type="button" class="small follow" title="show what is there now, and go on (Space)" onClick={followNow}>
						Follow
					</button>
				)}
				<span class="unseen" role="status" aria-live="polite">
					{state.dot === "ended" ? "" : state.said}
				</span>
			</span>
			{rss !== null && (
				<Explained term="rss" value={rss} unit="bytes" class="head-figure">
					<span class="second">RSS</span> {bytes(rss)}
				</Explained>
			)}
			{heap !== null && (
				<Explained term="heap" value={heap} unit="bytes" class="head-figure">
					<span class="second">heap</span> {bytes(heap)}
				</Explained>
			)}
			{peak && (
				<button type="button" class="chip" id="peak" aria-pressed={words.at === "peak"} title="which code held it at the peak (p)" onClick={() => go({ at: "peak", cost: undefined, from: undefined, to: undefined, base: undefined, n: undefined }, "flame")}>
					Peak {bytes(peak.value)}
				</button>
			)}
			<span class="grow" />
			{(lost > 0 || partial > 0 || answer?.sampled || answer?.exact === false) && (
				<a class={`chip trust ${lost ? "bad" : "warn"}`} href={link({}, "losses")} title="what is missing from these figures">
					<Icon name="losses" size={13} />
					<span class="trust-text">
						{[lost ? `lost ${count(lost)}` : "", partial ? `partial ${count(partial)}` : "", answer?.sampled ? "sampled" : answer?.exact === false ? "estimated" : ""].filter(Boolean).join(" · ")}
					</span>
				</a>
			)}
			{from && !from.has?.includes("heap") ? null : <form
				class="find"
				role="search"
				onSubmit={(e) => {
					e.preventDefault();
					const text = find.trim();
					if (/^0x[0-9a-f]+$/i.test(text) && offered("space", from) && from?.has?.includes("address"))
						go({ find: text }, "space");
					else if (text && !WITH_HITS.has(view) && offered("flame", from))
						go({ find: text, s: undefined, z: undefined, sort: undefined, order: undefined }, "flame");
					else
						go(text && text === words.find ? { find: undefined, "function-regex": findRegex(text), n: undefined, s: undefined } : { find: text || undefined, s: undefined });
					// n and N are keys again; Enter once more keeps only these
					if (text)
						box.current?.blur();
				}}
			>
				<Icon name="search" size={14} />
				<input
					ref={box}
					id="find"
					type="search"
					value={find}
					aria-label="find a function, module, file or address"
					placeholder="find, /regex/ or 0x…"
					spellcheck={false}
					autocomplete="off"
					onInput={(e) => setFind(e.currentTarget.value)}
					onKeyDown={(e) => {
						if (e.key === "Escape") {
							setFind("");
							go({ find: undefined });
							box.current?.blur();
						}
					}}
				/>
				<kbd aria-hidden="true">/</kbd>
			</form>}
			<Menu
				title="share and download"
				align="right"
				label={
					<>
						<Icon name="share" size={14} /> <span class="wide-only">Share</span>
					</>
				}
			>
				{(close) => (
					<ul class="menu-list">
						<li>
							<button type="button" onClick={() => (void copy(location.href, "link"), close())}>
								Copy link
							</button>
						</li>
						<li>
							<button type="button" onClick={() => (void copy(commandHere().text, "command"), close())}>
								Copy command
							</button>
						</li>
						{props.exposed.svg && (
							<li>
								<button type="button" onClick={() => (props.exposed.svg!(), close())}>
									Picture, SVG
								</button>
							</li>
						)}
						{props.exposed.png && (
							<li>
								<button type="button" onClick={() => (props.exposed.png!(), close())}>
									Picture, PNG
								</button>
							</li>
						)}
						{props.exposed.csv && (
							<li>
								<button type="button" onClick={() => (props.exposed.csv!(), say("collecting rows…"), close())}>
									Table, CSV
								</button>
							</li>
						)}
						{props.exposed.json && (
							<li>
								<a href={props.exposed.json} download={`${fileStem()}.json`} onClick={close}>
									Data, JSON
								</a>
							</li>
						)}
						{from?.has?.includes("export") &&
							["folded", "flamegraph", "pprof", "speedscope", "heaptrack", "massif", "dhat"].map((to) => (
								<li key={to}>
									<a href={`/api/v1/export?to=${to}${from.id ? `&src=${from.id}` : ""}`} download="" onClick={close}>
										Export, {to}
									</a>
								</li>
							))}
					</ul>
				)}
			</Menu>
			<button
				type="button"
				class="chip icon-only"
				title={`theme: ${theme}`}
				aria-label={`theme: ${theme}; change`}
				id="theme"
				onClick={() => themeChoice.set(theme === "system" ? (document.documentElement.dataset.theme === "dark" ? "light" : "dark") : theme === "dark" ? "light" : "dark")}
			>
				<Icon name="theme" />
			</button>
			<button type="button" class="chip icon-only" title="keys and words (?)" aria-label="help: keys and words" onClick={props.onHelp}>
				<Icon name="help" />
			</button>
		</header>
	);
}
