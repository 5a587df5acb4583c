// SPDX-License-Identifier: Apache-2.0
// The answers of /api/v1 (docs/api.md); a test compares these with the OpenAPI file.

export interface Source {
	id: number;
	name: string;
	path?: string;
	kind: string | null;
	pid: number | null;
	exe: string | null;
	cmdline?: string[] | null;
	start_realtime_ns: number | null;
	length_ns: number | null;
	generation: number;
	complete: boolean | null;
	ended: boolean | null;
	live?: boolean;
	has?: string[];
	error?: string | null;
	warning?: string | null;
}

/** A sample of the stream of events: levels, once a second. */
export interface Sample {
	source: number;
	time_ns: number;
	age_ns: number;
	heap_bytes: number;
	rss_bytes: number;
	virtual_bytes: number;
	allocations: number;
	frees: number;
	peak_bytes: number;
	/** What the process does, where that can be told: it was stopped, it is gone. */
	process?: "running" | "stopped" | "gone";
}

export interface Lost {
	events: number;
	by_reason: Record<string, number>;
}

export interface Head {
	source: number;
	generation: number;
	selection: string;
	exact: boolean;
	age_ns: number;
	total: number;
	cost?: string;
	unit: "bytes" | "blocks";
	lost: Lost;
	partial: Lost;
	sampled: { every_bytes: number } | null;
	culled: { allocations: number; bytes: number };
	unapplied: { word: string; why: string }[];
}

export interface Summary extends Head {
	process: { pid: number; exe: string; cmdline: string[]; runtime_ns: number; complete: boolean };
	totals: Record<string, number>;
	ended: boolean;
	exit_status?: number | null;
	warning?: string | null;
	categories: string[];
}

export interface Series {
	last: (number | null)[];
	max?: (number | null)[];
	min?: (number | null)[];
}
export interface Flag {
	time_ns: number;
	kind: string;
	value?: number | null;
	label: string;
	end_ns?: number;
}
export interface TimelineAnswer extends Head {
	time_ns: number[];
	series: Record<string, Series>;
	flags: Flag[];
}

export interface Frames {
	key: string[];
	name: (string | null)[];
	short: string[];
	module: number[];
	category: number[];
	file: number[];
	line: number[];
}
export interface Named {
	frames: Frames;
	modules: string[];
	files: string[];
}
export interface TreeAnswer extends Head, Named {
	shown: number;
	base_total: number | null;
	nodes_total: number;
	inverted: boolean;
	key: string;
	path?: { key: string[]; frame: number[] } | null;
	node: {
		frame: number[];
		depth: number[];
		total: number[];
		self: number[];
		blocks?: (number | null)[];
		rest: number[];
		children?: (number | null)[];
		base?: number[];
		base_self?: number[];
		key?: string[];
		trunk?: number[];
	};
}

export interface RowsAnswer extends Head, Named {
	by: string;
	total_rows: number;
	next: string | null;
	rows: Record<string, unknown[]> & { key?: string[]; frame?: number[] };
	too_short?: string | null;
}

export interface SearchAnswer extends Head {
	frames: string[];
	frames_total: number;
	matched: number;
	boxes: number;
	of: number;
	largest: string[];
}
