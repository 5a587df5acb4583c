// SPDX-License-Identifier: Apache-2.0
// A table of any length: only the rows of the window are in the document. Above 8 Mpx the scroll area is scaled, as browsers end
// theirs at 33 Mpx: wheel and keys move by exact rows, the thumb in proportion.
import type { ComponentChildren, JSX } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { copy } from "../app.ts";
import { useSize } from "./basics.tsx";

export interface Column<R> {
	key: string;
	label: ComponentChildren;
	/** CSS width; the one without takes what is left. */
	width?: string;
	right?: boolean;
	sortable?: boolean;
	cell: (row: R, index: number) => ComponentChildren;
	/** What a copy holds: exact numbers. */
	text?: (row: R) => string | number | null;
	title?: string;
}

const HEIGHT_MAX = 8_000_000;

export function Grid<R>(props: {
	columns: Column<R>[];
	total: number;
	row: (index: number) => R | null;
	rowKey?: (row: R) => string;
	selected?: number;
	sort?: string;
	order?: "asc" | "desc";
	rowHeight?: number;
	label: string;
	tree?: (row: R) => { level: number; expanded?: boolean; label: string; posinset?: number; setsize?: number };
	onSort?: (key: string) => void;
	onSelect?: (index: number, row: R) => void;
	onOpen?: (index: number, row: R) => void;
	onToggle?: (index: number, row: R, open: boolean | null) => void;
	onWindow?: (from: number, to: number) => void;
	onHover?: (row: R | null, e: MouseEvent) => void;
	rowClass?: (row: R) => string;
	foot?: ComponentChildren;
}): JSX.Element {
	const h = props.rowHeight ?? (matchMedia("(pointer: coarse)").matches ? 32 : 26);
	const [outer, size] = useSize<HTMLDivElement>();
	const [top, setTop] = useState(0);
	const focusRow = useRef(props.selected ?? 0);
	const awaited = useRef(-1);
	const full = props.total * h;
	const scaled = full > HEIGHT_MAX;
	const height = scaled ? HEIGHT_MAX : full;
	const shown = Math.max(1, Math.ceil((size.height || 400) / h));
	const lastTop = Math.max(0, props.total - Math.floor((size.height - h) / h));
	// exact position in rows: of a scaled table the scrollbar knows it only roughly
	const exactTop = useRef(0);
	const byUs = useRef(false);
	const first = Math.max(0, Math.min(Math.floor(scaled ? exactTop.current : top / h), Math.max(0, props.total - 1)));
	const from = Math.max(0, first - 3);
	const to = Math.min(props.total, first + shown + 4);

	useEffect(() => {
		props.onWindow?.(from, to);
	}, [from, to, props.total]);

	const scrollTo = useCallback(
		(row: number) => {
			const el = outer.current;
			if (!el)
				return;
			exactTop.current = Math.max(0, Math.min(row, lastTop));
			byUs.current = true;
			el.scrollTop = scaled ? (exactTop.current / Math.max(1, lastTop)) * (height - size.height + h) : exactTop.current * h;
			setTop(el.scrollTop + Math.random() * 1e-6);
		},
		[lastTop, scaled, height, size.height, h],
	);

	const onScroll = (e: Event) => {
		const el = e.currentTarget as HTMLDivElement;
		if (byUs.current) {
			byUs.current = false;
			return;
		}
		if (scaled)
			exactTop.current = (el.scrollTop / Math.max(1, height - size.height + h)) * lastTop;
		setTop(el.scrollTop);
	};
	useLayoutEffect(() => {
		const el = outer.current;
		if (!el || !scaled)
			return;
		const wheel = (e: WheelEvent) => {
			if (e.ctrlKey || e.shiftKey)
				return;
			e.preventDefault();
			scrollTo(exactTop.current + (e.deltaMode === 1 ? e.deltaY : e.deltaY / h));
		};
		el.addEventListener("wheel", wheel, { passive: false });
		return () => el.removeEventListener("wheel", wheel);
	}, [scaled, scrollTo]);

	const select = (index: number) => {
		const at = Math.max(0, Math.min(index, props.total - 1));
		const row = props.row(at);
		focusRow.current = at;
		const visible = Math.floor((size.height - h) / h) - 1;
		const current = scaled ? exactTop.current : (outer.current?.scrollTop ?? 0) / h;
		if (at < current)
			scrollTo(at);
		else if (at > current + visible)
			scrollTo(at - visible);
		awaited.current = row === null ? at : -1;
		if (row !== null)
			props.onSelect?.(at, row);
	};
	// a row that keys went to before it was read
	useEffect(() => {
		const row = awaited.current >= 0 ? props.row(awaited.current) : null;
		if (row === null)
			return;
		const at = awaited.current;
		awaited.current = -1;
		props.onSelect?.(at, row);
	});
	const onKey = (e: KeyboardEvent) => {
		if (!props.total || e.altKey)
			return;
		const at = props.selected ?? focusRow.current;
		const page = Math.max(1, Math.floor(size.height / h) - 2);
		const row = props.row(Math.max(0, at));
		if ((e.ctrlKey || e.metaKey) && e.key === "c" && row !== null && !String(getSelection() ?? "")) {
			const line = props.columns.map((c) => (c.text ? c.text(row) : "")).join("\t");
			void copy(line, "row");
			return;
		}
		if (e.ctrlKey || e.metaKey)
			return;
		const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: props.total - 1 };
		if (e.key in moves)
			select(moves[e.key]);
		else if (e.key === "Enter" && row !== null)
			props.onOpen?.(at, row);
		else if (e.key === "ArrowRight" && row !== null && props.onToggle)
			props.onToggle(at, row, true);
		else if (e.key === "ArrowLeft" && row !== null && props.onToggle)
			props.onToggle(at, row, false);
		else
			return;
		e.preventDefault();
		e.stopPropagation();
	};
	useEffect(() => {
		if (props.selected !== undefined && props.selected >= 0 && size.height) {
			const visible = Math.floor((size.height - h) / h);
			const current = scaled ? exactTop.current : (outer.current?.scrollTop ?? 0) / h;
			if (props.selected < current || props.selected >= current + visible)
				scrollTo(Math.max(0, props.selected - Math.floor(visible / 3)));
		}
	}, [props.selected, size.height > 0]);

	// another order has another first row, which is what was asked for
	const orderOf = `${props.sort} ${props.order}`;
	const ordered = useRef(orderOf);
	useEffect(() => {
		if (ordered.current !== orderOf)
			scrollTo(0);
		ordered.current = orderOf;
	}, [orderOf]);

	const template = props.columns.map((c) => c.width ?? "minmax(160px, 1fr)").join(" ");
	const rows: JSX.Element[] = [];
	for (let i = from; i < to; i++) {
		const row = props.row(i);
		const y = scaled ? (outer.current?.scrollTop ?? top) + (i - exactTop.current) * h : i * h;
		const is = i === props.selected;
		const tree = row !== null ? props.tree?.(row) : undefined;
		rows.push(
			<div
				key={i - from}
				id={`${props.label.replace(/\W+/g, "-")}-${i}`}
				role="row"
				aria-rowindex={i + 2}
				aria-selected={is}
				aria-level={tree ? tree.level : undefined}
				aria-expanded={tree ? tree.expanded : undefined}
				aria-setsize={tree ? tree.setsize : undefined}
				aria-posinset={tree ? tree.posinset : undefined}
				aria-label={tree ? tree.label : undefined}
				class={`grid-row ${is ? "selected" : ""} ${i % 2 ? "odd" : ""} ${row !== null && props.rowClass ? props.rowClass(row) : ""}`}
				style={{ transform: `translateY(${y}px)`, height: `${h}px`, gridTemplateColumns: template }}
				onClick={() => row !== null && (focusRow.current = i, awaited.current = -1, is && props.onOpen ? props.onOpen(i, row) : props.onSelect?.(i, row))}
				onMouseMove={(e) => row !== null && props.onHover?.(row, e)}
				onMouseLeave={(e) => props.onHover?.(null, e)}
			>
				{props.columns.map((c) => (
					<div key={c.key} role="gridcell" class={c.right ? "cell right" : "cell"}>
						{row !== null ? c.cell(row, i) : c.right ? "" : "…"}
					</div>
				))}
			</div>,
		);
	}
	const id = props.label.replace(/\W+/g, "-");
	return (
		<div
			class="grid"
			ref={outer}
			role={props.tree ? "treegrid" : "grid"}
			aria-label={props.label}
			aria-rowcount={props.total + 1}
			aria-activedescendant={props.selected !== undefined && props.selected >= from && props.selected < to ? `${id}-${props.selected}` : undefined}
			tabIndex={0}
			onScroll={onScroll}
			onKeyDown={onKey}
		>
			<div class="grid-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
				{props.columns.map((c) => (
					<div
						key={c.key}
						role="columnheader"
						class={c.right ? "cell right" : "cell"}
						aria-sort={props.sort === c.key ? (props.order === "asc" ? "ascending" : "descending") : undefined}
						title={c.title}
					>
						{c.sortable ? (
							<button type="button" tabIndex={-1} onClick={() => props.onSort?.(c.key)}>
								{c.label}
								<span class="sort" aria-hidden="true">
									{props.sort === c.key ? (props.order === "asc" ? "▲" : "▼") : ""}
								</span>
							</button>
						) : (
							c.label
						)}
					</div>
				))}
			</div>
			<div class="grid-body" role="rowgroup" style={{ height: `${height}px` }}>
				{rows}
			</div>
			{props.foot}
		</div>
	);
}
