// SPDX-License-Identifier: Apache-2.0
// Line drawings of 16 units, in the colour of the text beside them.
import type { JSX } from "preact";

const PATHS: Record<string, string> = {
	overview: "M2 2h5v6H2zM9 2h5v3H9zM9 7h5v7H9zM2 10h5v4H2z",
	flame: "M2 3h12M2 6.5h8M2 10h6M2 13.5h3M12 6.5h2M10 10h2",
	tree: "M3 2v11h4M3 7.5h4M9 7.5h5M9 13h5M6 2h8",
	table: "M2 3h12v10H2zM2 6.5h12M2 9.8h12M7 3v10",
	treemap: "M2 2h12v12H2zM8.5 2v12M8.5 8H14M2 10h6.5",
	growth: "M2 13 6 9l3 2 5-7M10.5 4H14v3.5",
	blocks: "M2 3h4v4H2zM10 3h4v4h-4zM2 10h4v4H2zM6 10h8v4H6z",
	lifetimes: "M2 14h12M3.5 14V9M6.5 14V4M9.5 14V7M12.5 14v-3",
	compare: "M2 4h7M2 7h4M2 10h5M2 13h3M11 3v10M11 13l-2-2M11 13l2-2",
	threads: "M4 2v12M8 2v12M12 2v12M4 6h4M8 10h4",
	balance: "M8 2v12M4 14h8M3 5h10M3 5 1.5 9h3zM13 5l-1.500 4h3z",
	maps: "M2 3h12v2.500H2zM2 7h9v2H2zM2 10.500h12V13H2z",
	space: "M2 3h3v3H2zM6.500 3h3v3h-3zM11 3h3v3h-3zM2 8h3v3H2zM11 8h3v3h-3z",
	regions: "M2 2h12v12H2zM2 6h12M2 11h12",
	pages: "M4 2h6l3 3v9H4zM10 2v3h3",
	sampler: "M2 8h2l2-5 3 10 2-5h3",
	messages: "M2 3h12v8H7l-3 3v-3H2z",
	connections: "M3 5h8l-2-2M13 11H5l2 2",
	logs: "M2 3h12M2 6.500h12M2 10h8M2 13.500h5",
	losses: "M8 2 14.500 13.500h-13zM8 6.500v3.500M8 11.600v.4",
	source: "M6 4 2.500 8 6 12M10 4l3.500 4L10 12",
	function: "M10 3c-2 0-2.500 1-2.500 3v7c0 1-.500 1.500-2 1.500M5 7h5",
	search: "M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9zM10.500 10.500 14 14",
	theme: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
	help: "M8 14.500a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM6 6.200c0-1.200.900-2 2-2s2 .800 2 1.800c0 1.400-2 1.600-2 3M8 11.300v.5",
	undo: "M6 3 2.500 6.500 6 10M2.500 6.500H10a3.500 3.500 0 0 1 0 7H6",
	more: "M3 8h.5M8 8h.5M13 8h.5",
	close: "M4 4l8 8M12 4l-8 8",
	flip: "M5 2v11M5 13l-2-2M5 13l2-2M11 14V3M11 3 9 5M11 3l2 2",
	share: "M11 5.500 5.500 8 11 10.500M12.500 3.200a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3zM12.500 9.800a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3zM3.800 6.500a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3z",
	plus: "M8 3v10M3 8h10",
	up: "M8 13V3M4 7l4-4 4 4",
};

export function Icon({ name, size = 16 }: { name: string; size?: number }): JSX.Element {
	return (
		<svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
			<path d={PATHS[name] ?? PATHS.more} />
		</svg>
	);
}
