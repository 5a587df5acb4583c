// SPDX-License-Identifier: Apache-2.0
// Keys, and the list of them.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { copy, costOf, go, offered, place, say, source } from "../app.ts";
import { findRegex } from "../lib/format.ts";
import { hotPath } from "../lib/layout.ts";
import { Store, useStore } from "../lib/store.ts";
import { COSTS } from "../lib/terms.ts";
import type { View } from "../lib/url.ts";
import type { Exposed } from "../views/props.ts";
import { flameDown } from "../views/flame.tsx";
import { isFrozen } from "../lib/moments.ts";
import { tip } from "./basics.tsx";
import { followNow, freeze } from "./header.tsx";
import { isLive } from "./live.ts";
import { fileKey, frameFacts, stackText } from "./panel.tsx";
import { addTransform } from "./selection.tsx";

export const GO: Record<string, View> = {
	o: "overview", f: "flame", e: "tree", t: "table", b: "blocks", w: "growth", k: "lifetimes", c: "compare",
	a: "maps", r: "regions", p: "pages", m: "messages", l: "logs", x: "losses", h: "threads", s: "space", n: "balance", y: "sampler", d: "connections",
};
const BYS = ["function", "module", "file", "line"];

function readSingles(): boolean {
	try {
		return localStorage.getItem("single-keys") !== "off";
	} catch {
		return true;
	}
}
export const singleKeys = new Store(readSingles());
singleKeys.watch(() => {
	try {
		localStorage.setItem("single-keys", singleKeys.get() ? "on" : "off");
	} catch {
		// nothing is kept here: it holds as long as the page
	}
});

function isText(e: KeyboardEvent): boolean {
	const el = e.target as HTMLElement | null;
	return !!el && (el.isContentEditable || /^(input|textarea|select)$/i.test(el.tagName));
}

/** focusThere - who came by keys goes on by keys: the list, the button or the place that the view begins with, once it is drawn. */
function focusThere(view: View, what = "[role=grid], [role=treegrid], [data-first]"): void {
	const until = performance.now() + 10000;
	const look = () => {
		const el = document.querySelector<HTMLElement>(`.page[data-view="${view}"] :is(${what})`);
		if (el)
			el.focus({ preventScroll: true });
		else if (performance.now() < until && place.get().view === view)
			requestAnimationFrame(look);
	};
	requestAnimationFrame(look);
}

/** Costs by a letter behind c. */
const COST_KEYS: Record<string, string> = { p: "peak", l: "live", a: "allocated", t: "temporary" };

export function useKeys(exposed: () => Exposed, help: () => void): void {
	const pending = useRef(-Infinity);
	const costPending = useRef(-Infinity);
	useEffect(() => {
		const onKey = (e: KeyboardEvent) => {
			if (e.key === "Escape") {
				tip.set(null);
				if (!isText(e) && place.get().words.s)
					go({ s: undefined }, undefined, true);
				return;
			}
			if (isText(e) || e.ctrlKey || e.metaKey || e.altKey || !singleKeys.get())
				return;
			const { words } = place.get();
			const { treed, panel } = exposed();
			const tree = treed?.tree ?? null;
			const node = treed?.selected ?? -1;
			const facts = tree && node >= 0 ? frameFacts(tree.answer, tree.frame[node]) : null;
			if (performance.now() - pending.current < 1200) {
				pending.current = -Infinity;
				const view = GO[e.key];
				if (e.key === "g") {
					help();
					e.preventDefault();
				} else if (view && offered(view, source())) {
					go({ s: undefined, sort: undefined, order: undefined, z: undefined }, view);
					focusThere(view);
					e.preventDefault();
				} else if (view) {
					say(`this recording has no ${view}`);
				}
				return;
			}
			const named = performance.now() - costPending.current < 1200 ? COST_KEYS[e.key] : undefined;
			costPending.current = -Infinity;
			if (named) {
				go({ cost: named, sort: undefined }, undefined, true);
				e.preventDefault();
				return;
			}
			const next = (list: string[], now: string) => list[(list.indexOf(now) + 1) % list.length];
			const step = (by: number) => {
				const found = treed?.search.data?.largest ?? [];
				if (!found.length || !treed)
					return say(words.find ? "nothing was found" : "/ finds, n walks by size");
				const at = words.s ? found.indexOf(words.s) : -1;
				const key = found[(at + by + found.length) % found.length];
				go({ s: key, ...(tree && tree.find(key) < 0 ? { n: key } : {}) }, undefined, true);
			};
			const actions: Record<string, () => void> = {
				g: () => (pending.current = performance.now()),
				"/": () => document.getElementById("find")?.focus(),
				"?": help,
				c: () => {
					costPending.current = performance.now();
					go({ cost: next(COSTS.map((c) => c.value), costOf(words)), sort: undefined });
				},
				m: () => go({ by: next(BYS, words.by ?? "function"), n: undefined, s: undefined }),
				i: () => go({ inverted: words.inverted ? undefined : "1", n: undefined, s: undefined }),
				v: () => flameDown.set(!flameDown.get()),
				p: () => go({ at: "peak", cost: undefined, from: undefined, to: undefined, base: undefined, n: undefined }, "flame"),
				d: () => {
					go({}, "compare");
					focusThere("compare", "[data-first]");
				},
				t: () => document.querySelector<HTMLButtonElement>(".selection [aria-haspopup]")?.click(),
				b: () => {
					const handle = document.querySelector<HTMLElement>("[data-brush]");
					if (handle)
						handle.focus();
					else {
						go({ from: "25%", to: "75%", at: "75%" });
						focusThere(place.get().view, "[data-brush]");
					}
				},
				r: () => addTransform("rec"),
				n: () => step(1),
				N: () => step(-1),
				h: () => {
					if (tree)
						go({ s: tree.key(hotPath(tree, node >= 0 ? node : 0).pop()!) }, undefined, true);
				},
				f: () => facts && addTransform(`focus:${facts.key}`),
				"-": () => facts && addTransform(`hide:${facts.key}`),
				u: () => {
					if (!tree || node < 0)
						return say("choose a box first: its source is shown");
					if (!facts?.file || !offered("source", source()))
						return say(`where ${facts?.short || facts?.name || "this"} stands in a source is not recorded`);
					go({ f: fileKey(tree.answer.files[tree.answer.frames.file[tree.frame[node]]]), s: undefined }, "source");
				},
				y: () => tree && node >= 0 && void copy(stackText(tree, node), "stack"),
				" ": () => {
					if (!isLive(source()))
						return say("this recording has ended: there is nothing to follow");
					if (isFrozen(words))
						followNow();
					else
						freeze();
				},
				"0": () => go({ n: undefined }),
				Backspace: () => treed?.out(),
				Enter: () => {
					if (words.find && node < 0 && treed)
						go({ find: undefined, "function-regex": findRegex(words.find), n: undefined, s: undefined });
					else if (treed && node >= 0)
						treed.zoom(node);
				},
			};
			// the range stands: on to what was made in it
			if (e.key === "Enter" && (e.target as HTMLElement)?.closest("[data-brush]")) {
				(e.target as HTMLElement).blur();
				e.preventDefault();
				const way = tree ? hotPath(tree, 0).reverse() : [];
				const known = way.find((i) => frameFacts(tree!.answer, tree!.frame[i])?.file) ?? way[0];
				if (tree && known !== undefined)
					go({ s: tree.key(known) }, undefined, true);
				return;
			}
			const action = actions[e.key];
			if (!action || (e.key === "Enter" && (e.target as HTMLElement)?.closest("button, a, [tabindex]") && !panel))
				return;
			if ((e.key === "Enter" || e.key === " ") && (e.target as HTMLElement)?.closest("button, a"))
				return;
			e.preventDefault();
			action();
		};
		addEventListener("keydown", onKey);
		return () => removeEventListener("keydown", onKey);
	}, []);
}

const KEYS: [string, string][] = [
	["/", "find a function, module or file; n and N walk the hits by size, Enter once more keeps only these"],
	["p", "the peak: which code held it"],
	["c", "next cost; c then p, l, a, t: peak, live, allocated, temporary"],
	["m", "next way to merge: function, module, file, line"],
	["i", "inverted: from the allocating function outwards"],
	["v", "icicle or flame"],
	["h", "the hot path"],
	["arrows", "walk the boxes or rows; Enter zooms or opens, Backspace one out, 0 all"],
	["f  -  r", "focus, hide the selected function; recursion once"],
	["b", "the range on the time axis; arrows move its ends"],
	["t", "the moment"],
	["d", "compare"],
	["u  y", "source, copy the stack"],
	["Space", "hold a live recording where it is, follow it again"],
	["Esc", "close the details"],
	["Ctrl+wheel", "zoom the picture or the time axis; Shift+wheel pans"],
];

export function Help(props: { views: { view: View; label: string; key?: string }[]; onClose: () => void }): JSX.Element {
	const box = useRef<HTMLDivElement>(null);
	const singles = useStore(singleKeys);
	useEffect(() => {
		const before = document.activeElement as HTMLElement | null;
		box.current?.focus();
		return () => before?.focus();
	}, []);
	return (
		<div class="shade" onClick={(e) => e.target === e.currentTarget && props.onClose()}>
			<div
				class="dialog help"
				role="dialog"
				aria-modal="true"
				aria-label="keys and words"
				tabIndex={-1}
				ref={box}
				onKeyDown={(e) => {
					e.stopPropagation();
					if (e.key === "Escape" || e.key === "?")
						props.onClose();
				}}
			>
				<h2>Keys</h2>
				<table class="keys">
					<tbody>
						{KEYS.map(([key, what]) => (
							<tr key={key}>
								<th scope="row">
									<kbd>{key}</kbd>
								</th>
								<td>{what}</td>
							</tr>
						))}
						<tr>
							<th scope="row">
								<kbd>g</kbd> then
							</th>
							<td>
								{props.views
									.filter((v) => v.key)
									.map((v) => `${v.key} ${v.label}`)
									.join(" · ")}
							</td>
						</tr>
					</tbody>
				</table>
				<label class="check">
					<input type="checkbox" checked={singles} onChange={(e) => singleKeys.set(e.currentTarget.checked)} /> single letters are keys
				</label>
				<p class="second">Every number says what it is when the pointer rests on it. A link to what you see is in the address: a moment, a range, a filter, the chosen box.</p>
				<button type="button" class="button" onClick={props.onClose}>
					Close
				</button>
			</div>
		</div>
	);
}
