// SPDX-License-Identifier: Apache-2.0
// Two moments, or two recordings, by symbol: what is new, gone, grown, shrunk.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { costOf, go, known, place, source } from "../app.ts";
import { amount, count, plain, signed } from "../lib/format.ts";
import { useStore } from "../lib/store.ts";
import { Empty, Explained, Shown } from "../parts/basics.tsx";
import { Flame } from "../parts/flame.tsx";
import { NodePanel, NodeTip } from "../parts/panel.tsx";
import { useTree } from "../parts/usetree.ts";
import { EmptyTree, flameDown, Legend, savePicture } from "./flame.tsx";
import type { ViewProps } from "./props.ts";
import { TableView } from "./table.tsx";

function Choice(): JSX.Element {
	const { words } = useStore(place);
	const { sources } = useStore(known);
	const from = source();
	const [text, setText] = useState(words.base?.startsWith("@") ? words.base.slice(1) : "50%");
	const others = (sources ?? []).filter((s) => s.id !== from?.id && s.has?.includes("heap"));
	return (
		<div class="compare-choice">
			<form
				class="field"
				onSubmit={(e) => {
					e.preventDefault();
					go({ base: `@${text.trim()}`, at: words.at ?? "end", n: undefined });
				}}
			>
				<label>
					<span>this recording at</span>
					<input type="text" value={text} placeholder="10s, 50%, peak" spellcheck={false} onInput={(e) => setText(e.currentTarget.value)} />
				</label>
				<button type="submit" class="small">
					Compare
				</button>
			</form>
			{others.length > 0 && (
				<label class="field">
					<span>another recording</span>
					<select value={words.base && /^\d/.test(words.base) ? words.base.split("@")[0] : ""} onChange={(e) => go({ base: e.currentTarget.value || undefined, n: undefined })}>
						<option value="">choose…</option>
						{others.map((s) => (
							<option key={s.id} value={String(s.id)}>
								{plain(s.name)}
							</option>
						))}
					</select>
				</label>
			)}
			{words.base && (
				<button type="button" class="small" onClick={() => go({ base: undefined })}>
					no comparison
				</button>
			)}
		</div>
	);
}

function Diff(props: ViewProps): JSX.Element {
	const treed = useTree(props.stamp);
	const down = useStore(flameDown);
	const { tree } = treed;
	const unit = treed.answer.data?.unit ?? "bytes";
	const sums = useMemo(() => {
		const out = { new: 0, gone: 0, grown: 0, shrunk: 0, counts: { new: 0, gone: 0, grown: 0, shrunk: 0 } };
		if (!tree?.base)
			return out;
		const selves = tree.answer.node.base_self;
		for (let i = 0; i < tree.count; i++) {
			const now = tree.self[i];
			const then = selves ? selves[i] : 0;
			if (!selves || now === then)
				continue;
			const kind = !tree.base[i] ? "new" : !tree.total[i] ? "gone" : now > then ? "grown" : "shrunk";
			out[kind] += now - then;
			out.counts[kind]++;
		}
		return out;
	}, [tree]);
	props.expose({
		loaded: tree ? `${tree.count.toLocaleString("en")} boxes` : "",
		svg: tree ? () => savePicture(treed, "svg") : undefined,
		png: tree ? () => savePicture(treed, "png") : undefined,
		json: treed.answer.of ?? undefined,
		panel: tree && treed.selected >= 0 ? <NodePanel tree={tree} node={treed.selected} unit={unit} onZoom={() => treed.zoom(treed.selected)} /> : null,
		treed,
	});
	return (
		<Shown answer={treed.answer}>
			{(answer) => {
				const before = answer.base_total ?? 0;
				if (!tree || (!answer.total && !before))
					return <EmptyTree treed={treed} />;
				return (
					<>
						<div class="compare-sums" role="status">
							<Explained term="base" value={before} unit={unit}>
								before <b>{amount(before, unit)}</b>
							</Explained>
							<span>
								now <b>{amount(answer.total, unit)}</b>
							</span>
							<Explained term="delta" value={answer.total - before} unit={unit}>
								change <b class={answer.total > before ? "grown" : "shrunk"}>{answer.total === before ? "the same to the byte" : signed(answer.total - before, unit)}</b>
							</Explained>
							<span class="grow" />
							{(["new", "grown", "shrunk", "gone"] as const).map((kind) =>
								sums.counts[kind] ? (
									<span key={kind} class="second">
										{kind} {signed(sums[kind], unit)} in {count(sums.counts[kind])}
									</span>
								) : null,
							)}
						</div>
						<Legend treed={treed} change />
						<Flame
							tree={tree}
							unit={unit}
							down={down}
							hits={treed.hits}
							selected={treed.selected}
							foldTrunk
							colouring="change"
							label="change"
							onSelect={treed.select}
							onZoom={treed.zoom}
							onOut={treed.out}
							onAll={treed.all}
							tip={(node) => <NodeTip tree={tree} node={node} unit={unit} />}
						/>
					</>
				);
			}}
		</Shown>
	);
}

const FORMS = ["difference", "table"] as const;

export function CompareView(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const form = words.z === "table" ? "table" : "difference";
	if (!words.base) {
		props.expose({});
		return (
			<div class="compare">
				<Choice />
				<Empty>
					<b>Compare with what?</b>
					<p>
						A moment of this recording, another recording, or drag a range over the timeline and choose “compare ends”. Code is matched by its names, so a program that was built
						anew can be compared, too.
					</p>
				</Empty>
			</div>
		);
	}
	return (
		<div class="compare">
			<div class="compare-head">
				<Choice />
				<span class="segments" role="group" aria-label="shown as">
					{FORMS.map((f) => (
						<button key={f} type="button" aria-pressed={form === f} onClick={() => go({ z: f === "table" ? "table" : undefined, sort: f === "table" ? "delta" : undefined })}>
							{f}
						</button>
					))}
				</span>
				<span class="second">
					{costOf(words)} at {words.at ?? "its own moment"} against {plain(words.base)}
				</span>
			</div>
			{form === "table" ? <TableView {...props} /> : <Diff {...props} />}
		</div>
	);
}
