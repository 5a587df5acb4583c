// SPDX-License-Identifier: Apache-2.0
// What the books beside the heap share: answers that are asked for again while they are live, and stacks as commands write them.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, Refused } from "../api/client.ts";
import { link, offered, source } from "../app.ts";
import { colours } from "../lib/colours.ts";
import { baseName, plain } from "../lib/format.ts";
import { useStore } from "../lib/store.ts";
import { Note } from "./basics.tsx";
import { regexOf } from "./panel.tsx";

export interface Polled<T> {
	data: T | null;
	error: Refused | null;
	held: boolean;
	hold: (on: boolean) => void;
}

/** usePolled - the answer to @path, again each @ms (0: once) while somebody looks and it is not held; what was there stays on an error. */
export function usePolled<T>(path: string | null, ms: number, each?: (data: T) => void): Polled<T> {
	const [data, setData] = useState<T | null>(null);
	const [error, setError] = useState<Refused | null>(null);
	const [held, setHeld] = useState(false);
	useEffect(() => {
		if (!path || held)
			return;
		const control = new AbortController();
		let timer = 0;
		const look = () => {
			if (document.hidden) {
				timer = window.setTimeout(look, 1000);
				return;
			}
			ask<T>(path, control.signal, undefined, false).then(
				(fresh) => {
					if (control.signal.aborted)
						return;
					setData(fresh);
					setError(null);
					each?.(fresh);
					if (ms)
						timer = window.setTimeout(look, ms);
				},
				(failure: unknown) => {
					if (control.signal.aborted)
						return;
					setError(failure instanceof Refused ? failure : new Refused(0, String(failure), null));
					timer = window.setTimeout(look, 3000);
				},
			);
		};
		look();
		return () => {
			control.abort();
			clearTimeout(timer);
		};
	}, [path, held, ms]);
	return { data, error, held, hold: setHeld };
}

export function Failure(props: { of: Polled<unknown> }): JSX.Element | null {
	const { error, data } = props.of;
	return error ? (
		<Note kind="bad">
			{error.message}
			{error.hint && <div class="second">{error.hint}</div>}
			{data !== null && <div class="second">What is shown is what came last; it is asked for again every three seconds.</div>}
		</Note>
	) : null;
}

export function Following(props: { of: Polled<unknown> }): JSX.Element {
	const { held, hold } = props.of;
	return (
		<button type="button" class="small" aria-pressed={!held} onClick={() => hold(!held)}>
			{held ? "follow" : "● following"}
		</button>
	);
}

/** A frame as the commands' JSON has it. */
export interface PlainFrame {
	function: string | null;
	module: string | null;
	offset?: number | null;
	file?: string | null;
	line?: number | null;
}

export function frameName(f: PlainFrame | undefined): string {
	if (!f)
		return "unknown";
	return plain(f.function) || (f.module ? `${plain(f.module)}+0x${(f.offset ?? 0).toString(16)}` : "unknown");
}

/** shortName - a function's name without arguments and template arguments: what a row has room for. */
export function shortName(name: string): string {
	if (!/[<(]/.test(name))
		return name;
	let depth = 0;
	let out = "";
	for (const c of name.replace(/\(anonymous namespace\)/g, "anon")) {
		if (c === "<")
			depth++;
		else if (c === ">" && depth)
			depth--;
		else if (c === "(" && !depth && out && !out.endsWith("operator"))
			break;
		else if (!depth)
			out += c;
	}
	return out.replace(/^.* (?=[^ ]+$)/, "") || name;
}

/** plainStack - as text, innermost first. */
export function plainStack(frames: PlainFrame[]): string {
	return frames.map((f) => `${frameName(f)}${f.module ? `  ${plain(f.module)}` : ""}${f.file ? `  ${plain(f.file)}${f.line ? `:${f.line}` : ""}` : ""}`).join("\n");
}

export function PlainFrames(props: { frames: PlainFrame[]; title: string; most?: number }): JSX.Element | null {
	const theme = useStore(colours);
	const [all, setAll] = useState(false);
	const shown = all ? props.frames : props.frames.slice(0, props.most ?? 12);
	const from = source();
	return props.frames.length ? (
		<div class="stack">
			<h3>{props.title}</h3>
			<ol>
				{shown.map((f, i) => (
					<li key={i} title={`${frameName(f)} ${plain(f.module)}${f.file ? ` ${plain(f.file)}:${f.line ?? ""}` : ""}`}>
						<span class="dot" style={{ background: theme.boxes[f.module ? 0 : 7] }} />
						<span>
							{f.function && offered("flame", from) ? <a href={link({ "function-regex": regexOf(f.function), s: undefined, by: undefined }, "flame")}>{shortName(frameName(f))}</a> : shortName(frameName(f))}{" "}
							<span class="second small-text">{f.file ? `${baseName(plain(f.file))}${f.line ? `:${f.line}` : ""}` : plain(f.module)}</span>
						</span>
					</li>
				))}
			</ol>
			{props.frames.length > shown.length && (
				<button type="button" class="link-button" onClick={() => setAll(true)}>
					{props.frames.length - shown.length} more
				</button>
			)}
		</div>
	) : null;
}
