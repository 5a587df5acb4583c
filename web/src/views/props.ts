// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";
import type { Treed } from "../parts/usetree.ts";
import type { useTimeline } from "../parts/timeline.tsx";

/** What a view gives the frame around it: its details, what can be taken away, what keys act on. */
export interface Exposed {
	loaded?: string;
	panel?: JSX.Element | null;
	svg?: () => void;
	png?: () => void;
	csv?: () => void;
	json?: string;
	treed?: Treed;
}
export interface ViewProps {
	/** Changes when the recording grew. */
	stamp: number;
	timeline: ReturnType<typeof useTimeline>;
	expose: (what: Exposed) => void;
}
