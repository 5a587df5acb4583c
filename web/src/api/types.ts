// SPDX-License-Identifier: Apache-2.0
// The answers of /api/v1 as the page calls them: generated (schema.ts) out of the server's OpenAPI file; events have no schema there.
import type * as schema from "./schema.ts";

export type Source = schema.Source;
export type Lost = schema.Tree["lost"];
/** What every answer about a source begins with; those without a sum of one cost lack total, cost and unit. */
export type Head = Pick<schema.Summary, "source" | "generation" | "selection" | "exact" | "age_ns" | "lost" | "partial" | "sampled" | "culled" | "unapplied"> & Partial<Pick<schema.Tree, "total" | "cost" | "unit">>;
export type Summary = schema.Summary;
export type Series = schema.Series;
/** A loss has an end, too. */
export type Flag = schema.Timeline["flags"][number] & { end_ns?: number };
export type TimelineAnswer = Omit<schema.Timeline, "series" | "flags"> & { series: Record<string, Series>; flags: Flag[] };
export type Frames = schema.Frames;
export type Named = Pick<schema.Tree, "frames" | "modules" | "files">;
export type TreeAnswer = schema.Tree;
/** Rows of threads have no frames, others do; columns are looked up by name. */
export type RowsAnswer = Omit<schema.Rows, "rows" | "frames" | "modules" | "files"> & Named & { rows: Record<string, unknown[]> & Pick<schema.Rows["rows"], "key" | "frame"> };
export type SearchAnswer = schema.Search;
export type BlocksAnswer = schema.Allocations;
export type GroupsAnswer = schema.AllocationGroups;
export type HistogramAnswer = schema.Histogram;
export type MapsAnswer = schema.Maps;
export type SpaceAnswer = schema.Space;
export type AddressAnswer = schema.Address;
export type SourceAnswer = schema.SourceFile;
export type Alert = schema.Alert;

/** A sample of the stream of events: levels, once a second. */
export interface Sample {
	source: number;
	time_ns: number;
	age_ns: number;
	/** null, as what follows it: of a process that nothing records. */
	heap_bytes: number | null;
	rss_bytes: number;
	virtual_bytes: number;
	allocations: number | null;
	frees: number | null;
	peak_bytes: number | null;
	/** What the process does, where that can be told: it was stopped, it is gone. */
	process?: "running" | "stopped" | "gone";
}
