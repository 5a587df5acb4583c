// SPDX-License-Identifier: Apache-2.0
// A list as a file: all of its rows, not those that were looked at.
import { saveRows, say } from "../app.ts";
import { ask } from "../api/client.ts";
import { grouped } from "../lib/format.ts";

export type Cells = (string | number | null | undefined)[];

/** A file has no more rows than that: a spreadsheet and this page hold them in memory. The file says what is missing. */
export const ROWS_MAX = 200_000;
const AT_ONCE = 10_000;

/** saveAll - every row of the list @path asks for, page by page; @total: how many there are. */
export async function saveAll<P extends { next: string | null }>(path: string, what: string, head: (page: P) => string[], rows: (page: P) => Cells[], total: (page: P) => number): Promise<void> {
	const base = path.replace(/([?&])limit=\d+/, `$1limit=${AT_ONCE}`).replace(/&(part|cursor)=\d+/g, "");
	const lines: Cells[] = [];
	const control = new AbortController();
	try {
		for (let cursor: string | null = ""; cursor !== null; ) {
			const page: P = await ask<P>(`${base}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`, control.signal);
			if (!lines.length)
				lines.push(head(page));
			lines.push(...rows(page));
			cursor = page.next;
			const missing = total(page) - (lines.length - 1);
			if ((cursor === null || lines.length > ROWS_MAX) && missing > 0) {
				lines.push([`${grouped(missing)} more rows are not in this file`, cursor ? `${base}&cursor=${cursor} goes on` : "in this order only the first are known"]);
				cursor = null;
			} else if (cursor) {
				say(`${grouped(lines.length - 1)} of ${grouped(total(page))} rows read`);
			}
		}
		saveRows(what, lines);
	} catch (error) {
		say(`${what}.csv: ${error instanceof Error ? error.message : String(error)}`);
	}
}
