// SPDX-License-Identifier: Apache-2.0
// Small things used everywhere: explained numbers, menus, notes, the states that all views share.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Store, useStore } from "../lib/store.ts";
import { TERMS } from "../lib/terms.ts";
import { exact } from "../lib/format.ts";
import type { Answer } from "../api/client.ts";
import { Icon } from "./icons.tsx";

export interface Tip {
	x: number;
	y: number;
	body: JSX.Element;
}
export const tip = new Store<Tip | null>(null);
let tipTimer = 0;
/** showTip - after 120 ms at rest; at once where one is shown already. */
export function showTip(next: Tip | null): void {
	clearTimeout(tipTimer);
	if (!next || tip.get())
		tip.set(next);
	else
		tipTimer = window.setTimeout(() => tip.set(next), 120);
}

export function TipLayer(): JSX.Element | null {
	const now = useStore(tip);
	const box = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const el = box.current;
		if (!el || !now)
			return;
		const { width, height } = el.getBoundingClientRect();
		const left = Math.max(8, Math.min(now.x + 14, innerWidth - width - 8));
		const below = now.y + 18;
		el.style.left = `${left}px`;
		el.style.top = `${Math.max(8, below + height > innerHeight - 8 ? now.y - height - 12 : below)}px`;
	});
	return now ? (
		<div class="tip" ref={box} role="tooltip">
			{now.body}
		</div>
	) : null;
}

/** Explained - a number or word that says what it is on hover and focus. */
export function Explained(props: { term: string; value?: number | null; unit?: string; more?: string; children: ComponentChildren; class?: string; focus?: boolean }): JSX.Element {
	const body = () => (
		<>
			{props.value !== undefined && <strong>{exact(props.value, props.unit ?? "blocks")}</strong>}
			{TERMS[props.term] && <p>{TERMS[props.term]}</p>}
			{props.more && <p>{props.more}</p>}
		</>
	);
	return (
		<span
			class={`explained ${props.class ?? ""}`}
			data-term={props.term}
			tabIndex={props.focus ? 0 : undefined}
			onMouseMove={(e) => showTip({ x: e.clientX, y: e.clientY, body: body() })}
			onMouseLeave={() => showTip(null)}
			onFocus={(e) => {
				const r = (e.currentTarget as HTMLElement).getBoundingClientRect();
				showTip({ x: r.left, y: r.bottom, body: body() });
			}}
			onBlur={() => showTip(null)}
		>
			{props.children}
		</span>
	);
}

/** Menu - a button with a panel below it; closes by Escape and by a click elsewhere. */
export function Menu(props: {
	label: ComponentChildren;
	title: string;
	class?: string;
	align?: "left" | "right";
	children: (close: () => void) => ComponentChildren;
}): JSX.Element {
	const [open, setOpen] = useState(false);
	const root = useRef<HTMLDivElement>(null);
	useEffect(() => {
		if (!open)
			return;
		const away = (e: PointerEvent) => {
			if (!root.current?.contains(e.target as Node))
				setOpen(false);
		};
		const key = (e: KeyboardEvent) => {
			if (e.key === "Escape") {
				e.stopPropagation();
				setOpen(false);
				root.current?.querySelector("button")?.focus();
			}
		};
		document.addEventListener("pointerdown", away, true);
		document.addEventListener("keydown", key, true);
		const first = root.current?.querySelector<HTMLElement>(".menu-panel input, .menu-panel select, .menu-panel button, .menu-panel a");
		first?.focus();
		return () => {
			document.removeEventListener("pointerdown", away, true);
			document.removeEventListener("keydown", key, true);
		};
	}, [open]);
	return (
		<div class={`menu ${props.class ?? ""}`} ref={root}>
			<button type="button" class="chip" aria-haspopup="dialog" aria-expanded={open} title={props.title} onClick={() => setOpen(!open)}>
				{props.label}
			</button>
			{open && (
				<div class={`menu-panel ${props.align === "right" ? "right" : ""}`} role="dialog" aria-label={props.title}>
					{props.children(() => setOpen(false))}
				</div>
			)}
		</div>
	);
}

/** Note - a line above a picture: what was lost, what does not apply. */
export function Note(props: { kind: "warn" | "bad" | "info"; children: ComponentChildren }): JSX.Element {
	return (
		<div class={`note ${props.kind}`} role={props.kind === "bad" ? "alert" : undefined}>
			{props.kind !== "info" && <Icon name="losses" size={14} />}
			<div>{props.children}</div>
		</div>
	);
}

/** Empty - why there is nothing, never a bare blank. */
export function Empty(props: { children: ComponentChildren }): JSX.Element {
	return <div class="empty">{props.children}</div>;
}

/** Shown - the states of an answer: the old picture stays, a bar after 150 ms, percent and Stop after a second. */
export function Shown<T>(props: { answer: Answer<T>; children: (data: T) => ComponentChildren }): JSX.Element {
	const { answer } = props;
	const [age, setAge] = useState(0);
	useEffect(() => {
		setAge(0);
		if (!answer.loading)
			return;
		const soon = setTimeout(() => setAge(1), 150);
		const later = setTimeout(() => setAge(2), 1000);
		return () => {
			clearTimeout(soon);
			clearTimeout(later);
		};
	}, [answer.loading]);
	return (
		<div class="shown" aria-busy={answer.loading}>
			{answer.loading && age > 0 && (
				<div class="loading" role="status">
					<div class="loading-bar" style={{ width: answer.progress ? `${Math.max(2, answer.progress * 100)}%` : "100%" }} data-known={answer.progress ? "" : undefined} />
					{age > 1 && (
						<div class="loading-text">
							{answer.progress ? `${Math.round(answer.progress * 100)} % read` : "reading…"}{" "}
							<button type="button" class="small" onClick={answer.stop}>
								Stop
							</button>
						</div>
					)}
				</div>
			)}
			{answer.error && (
				<Note kind="bad">
					{answer.error.message}
					{answer.error.hint && <div class="second">{answer.error.hint}</div>}{" "}
					<button type="button" class="small" onClick={answer.again}>
						Try again
					</button>
				</Note>
			)}
			{answer.data !== null ? props.children(answer.data) : answer.loading ? <div class="placeholder" /> : null}
		</div>
	);
}

/** useSize - of an element, kept up to date from when it is there. */
export function useSize<E extends HTMLElement>(): [{ current: E | null } & ((el: E | null) => void), { width: number; height: number }] {
	const [size, setSize] = useState({ width: 0, height: 0 });
	const [ref] = useState(() => {
		let watcher: ResizeObserver | null = null;
		const set = (el: E | null) => {
			watcher?.disconnect();
			set.current = el;
			if (!el)
				return;
			const measure = () => {
				const width = el.clientWidth;
				const height = el.clientHeight;
				setSize((old) => (old.width === width && old.height === height ? old : { width, height }));
			};
			measure();
			watcher = new ResizeObserver(measure);
			watcher.observe(el);
		};
		set.current = null as E | null;
		return set;
	});
	return [ref, size];
}

/** Bar - a share as a short bar, beside its figure. */
export function Bar(props: { part: number; whole: number; colour?: string }): JSX.Element {
	const share = props.whole > 0 ? Math.max(0, Math.min(1, props.part / props.whole)) : 0;
	return (
		<span class="bar" aria-hidden="true">
			<span style={{ width: `${share * 100}%`, background: props.colour ?? "var(--accent)" }} />
		</span>
	);
}
