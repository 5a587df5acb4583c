// SPDX-License-Identifier: Apache-2.0
// Stretches of a time axis in which nothing was noted for long: a line that slopes through one would tell of growth that never was.

export interface Drawn {
	rate: boolean;
	last: (number | null)[];
	max?: (number | null)[];
	min?: (number | null)[];
}

/** A stretch longer than this part of the axis is a gap. */
export const GAP_SHARE = 1 / 100;

/**
 * withGaps - two more points in each gap: a level holds until just before what came next, a rate is that of the whole stretch. @times are
 * the ends of stretches, in ns.
 */
export function withGaps<L extends Drawn>(times: number[], lines: L[]): { times: number[]; lines: L[] } {
	const span = times.length ? times[times.length - 1] : 0;
	const gaps = times.map((t, i) => i > 0 && t - times[i - 1] > span * GAP_SHARE);
	if (!gaps.includes(true))
		return { times, lines };
	const spread = <T,>(values: T[], filler: (i: number) => [T, T]): T[] => values.flatMap((v, i) => (gaps[i] ? [...filler(i), v] : [v]));
	const held = (values: (number | null)[], last: (number | null)[]) => spread(values, (i) => [last[i - 1], last[i - 1]]);
	const even = (values: (number | null)[]) => spread(values, (i) => [values[i], values[i]]);
	return {
		times: spread(times, (i) => [times[i - 1] + 1, times[i] - 1]),
		lines: lines.map((l) => ({
			...l,
			last: l.rate ? even(l.last) : held(l.last, l.last),
			max: l.max && (l.rate ? even(l.max) : held(l.max, l.last)),
			min: l.min && (l.rate ? even(l.min) : held(l.min, l.last)),
		})),
	};
}
