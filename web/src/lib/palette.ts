// SPDX-License-Identifier: Apache-2.0
// The colours of both themes: searched for, and held by a test (test/palette.test.ts).

export interface Colours {
	dark: boolean;
	boxes: string[];
	boxText: string;
	grown: string;
	same: string;
	shrunk: string;
	/** From little to much: how old, and how much of it temporary. */
	old: string[];
	brief: string[];
	bg: string;
	panel: string;
	line: string;
	text: string;
	second: string;
	link: string;
	warn: string;
	bad: string;
	good: string;
	run: string;
	series: Record<string, string>;
}

export const LIGHT: Colours = {
	dark: false,
	boxes: ["#7dc3fc", "#3e996e", "#fdc408", "#9b62fd", "#7b8396", "#ec4a09", "#cbecb6", "#b6b6b6"],
	boxText: "#14181f", grown: "#f08a4b", same: "#e6e8ec", shrunk: "#5aa0e6",
	old: ["#e4eefa", "#c6dcf5", "#a4c9f0", "#7fb2e8", "#5a9adf", "#4a8cd6"],
	brief: ["#fbeee4", "#fadac3", "#f7c19b", "#f3a671", "#ee8c4b", "#e07a3c"],
	bg: "#ffffff", panel: "#f5f6f8", line: "#d5d9e0", text: "#14181f", second: "#4b5361", link: "#0b57c4",
	warn: "#7a4b00", bad: "#a8200d", good: "#1a6b3c", run: "#c9ced7",
	series: { heap: "#0b57c4", rss: "#14181f", anon: "#a3126e", file: "#0b7280", shmem: "#7a6200", swap: "#a8200d", virtual: "#8a5cd6", allocations: "#1a6b3c", frees: "#c2570c", messages: "#5a4fcf", logs: "#7a4b00" },
};
export const DARK: Colours = {
	dark: true,
	boxes: ["#5362e2", "#265340", "#8a5c00", "#531f9b", "#3d4052", "#6a2f00", "#4b7a53", "#6d6f72"],
	boxText: "#f4f6fa", grown: "#a8470f", same: "#343a45", shrunk: "#1f5fa8",
	old: ["#343a45", "#31435a", "#2c4c70", "#265688", "#2160a2", "#1c69b8"],
	brief: ["#3c3836", "#543b31", "#6b3f2c", "#824223", "#96451a", "#a8470f"],
	bg: "#12151a", panel: "#1a1e25", line: "#353c48", text: "#e8ebf1", second: "#a5adba", link: "#7db4ff",
	warn: "#ffce73", bad: "#ff9b8a", good: "#7fd3a0", run: "#4a515e",
	series: { heap: "#7db4ff", rss: "#e8ebf1", anon: "#ff8ad0", file: "#5fd0d8", shmem: "#d8c25a", swap: "#ff9b8a", virtual: "#b99bff", allocations: "#7fd3a0", frees: "#ffb073", messages: "#a9a2ff", logs: "#ffce73" },
};
