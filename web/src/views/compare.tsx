// SPDX-License-Identifier: Apache-2.0
// Two moments, or two recordings, by symbol: what is new, gone, grown, shrunk.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, baseLabel, costOf, download, fileStem, go, head, known, place, source } from "../app.ts";
import { useAnswer, type Answer } from "../api/client.ts";
import type { TreeAnswer } from "../api/types.ts";
import { colours } from "../lib/colours.ts";
import { amount, count, grouped, plain, signed } from "../lib/format.ts";
import { treeOf, type Tree } from "../lib/layout.ts";
import { savePng, svgOf } from "../lib/pictures.ts";
import { useStore } from "../lib/store.ts";
import type { Words } from "../lib/url.ts";
import { Empty, Explained, Shown } from "../parts/basics.tsx";
import { Flame } from "../parts/flame.tsx";
import { NodePanel, NodeTip } from "../parts/panel.tsx";
import { useTree } from "../parts/usetree.ts";
import { boxesOf, colouringOf, flameDown, Legend, savePicture } from "./flame.tsx";
import { NothingHere } from "../parts/selection.tsx";
import type { ViewProps } from "./props.ts";
import { TableView } from "./table.tsx";
import { saveTree } from "./tree.tsx";

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
				<button type="submit" class="small" data-first="">
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
		csv: tree ? () => saveTree(tree, "compare") : undefined,
		json: treed.answer.of ?? undefined,
		panel: tree && treed.selected >= 0 ? <NodePanel tree={tree} node={treed.selected} unit={unit} onZoom={() => treed.zoom(treed.selected)} /> : null,
		treed,
	});
	return (
		<Shown answer={treed.answer}>
			{(answer) => {
				const before = answer.base_total ?? 0;
				if (!tree || (!answer.total && !before))
					return <NothingHere />;
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

/** baseWords - what it is compared with, as words of its own: `SRC`, `SRC@TIME`, `@TIME`. */
export function baseWords(words: Words): Words {
	const hit = /^(\d*)(?:@(.*))?$/.exec(words.base ?? "");
	const other = !!hit?.[1];
	return { ...words, base: undefined, src: other ? hit![1] : words.src, at: hit?.[2] ?? (other ? words.at : undefined), n: undefined, limit: undefined };
}

/** Both, to one scale, one selected place: what is in one of them alone has no box beside it. */
function Sides(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const down = useStore(flameDown);
	const then = useAnswer<TreeAnswer>(api("tree", baseWords(words), { nodes: 6000 }), props.stamp);
	const now = useAnswer<TreeAnswer>(api("tree", { ...words, base: undefined, limit: undefined }, { nodes: 6000 }), props.stamp);
	const left = useMemo(() => (then.data ? treeOf(then.data, then.data.key) : null), [then.data]);
	const right = useMemo(() => (now.data ? treeOf(now.data, now.data.key) : null), [now.data]);
	useEffect(() => {
		if (now.data)
			head.set(now.data);
	}, [now.data]);
	const unit = now.data?.unit ?? then.data?.unit ?? "bytes";
	const most = Math.max(left?.width[0] ?? 0, right?.width[0] ?? 0);
	const at = (tree: Tree | null) => (tree && words.s ? tree.find(words.s) : -1);
	const shown = at(right) >= 0 ? right : at(left) >= 0 ? left : null;
	const select = (tree: Tree, node: number) => go({ s: tree.key(node) }, undefined, true);
	const save = (kind: "svg" | "png") => {
		if (!left || !right)
			return;
		const theme = colours.get();
		const boxes = [...boxesOf(left, down, 590, most).boxes, ...boxesOf(right, down, 590, most).boxes.map((b) => ({ ...b, x: b.x + 610 }))];
		const height = Math.max(left.rows.length, right.rows.length) * 20;
		const lines = [`byteledger · ${fileStem()}`, `before (${words.base}): ${amount(then.data!.total, unit)} · now: ${amount(now.data!.total, unit)}`];
		const svg = svgOf(boxes, 1200, height, lines, theme.boxText, theme.bg);
		if (kind === "svg")
			download(`${fileStem()}-compare.svg`, svg, "image/svg+xml");
		else
			void savePng(svg, `${fileStem()}-compare.png`, 1200, height + 52);
	};
	props.expose({
		loaded: left && right ? `${grouped(left.count)} and ${grouped(right.count)} boxes` : "",
		svg: left && right ? () => save("svg") : undefined,
		png: left && right ? () => save("png") : undefined,
		csv: right ? () => saveTree(right, "now") : undefined,
		json: now.of ?? undefined,
		panel: shown ? <SidesPanel left={left} right={right} shown={shown} unit={unit} s={words.s!} /> : null,
	});
	const side = (answer: Answer<TreeAnswer>, tree: Tree | null, title: string) => (
		<div class="side">
			<div class="side-head">
				<b>{title}</b> {tree && <span>{amount(tree.answer.total, unit)}</span>}
			</div>
			<Shown answer={answer}>
				{() =>
					tree && tree.answer.total > 0 ? (
						<Flame
							tree={tree}
							unit={unit}
							down={down}
							hits={null}
							full={most}
							selected={at(tree)}
							colouring={colouringOf(right ?? tree, words, false)}
							label={title}
							onSelect={(node) => select(tree, node)}
							onZoom={(node) => go({ f: tree.frame[node] >= 0 ? tree.answer.frames.key[tree.frame[node]] : undefined, s: undefined }, tree.frame[node] >= 0 ? "function" : undefined)}
							tip={(node) => <NodeTip tree={tree} node={node} unit={unit} />}
						/>
					) : (
						<Empty>
							<b>Nothing was there then.</b>
						</Empty>
					)
				}
			</Shown>
		</div>
	);
	return (
		<div class="sides">
			{side(then, left, `before, ${baseLabel(words.base!)}`)}
			{side(now, right, `now, ${plain(words.at ?? "at its own moment")}`)}
		</div>
	);
}

function SidesPanel(props: { left: Tree | null; right: Tree | null; shown: Tree; unit: string; s: string }): JSX.Element {
	const { left, right, unit } = props;
	const l = left?.find(props.s) ?? -1;
	const r = right?.find(props.s) ?? -1;
	const before = l >= 0 ? left!.total[l] : 0;
	const after = r >= 0 ? right!.total[r] : 0;
	const node = props.shown === right ? r : l;
	return (
		<>
			<div class="panel-body sides-sum">
				<dl class="facts">
					<dt>
						<Explained term="base" value={before} unit={unit}>before</Explained>
					</dt>
					<dd>{l >= 0 ? amount(before, unit) : "not there, or not loaded"}</dd>
					<dt>now</dt>
					<dd>{r >= 0 ? amount(after, unit) : "not there, or not loaded"}</dd>
					<dt>
						<Explained term="delta" value={after - before} unit={unit}>change</Explained>
					</dt>
					<dd>
						<b class={after > before ? "grown" : "shrunk"}>{signed(after - before, unit)}</b>
					</dd>
				</dl>
			</div>
			<NodePanel tree={props.shown} node={node} unit={unit} onZoom={() => go({ n: props.s }, "flame")} />
		</>
	);
}

const FORMS = ["difference", "side by side", "table"] as const;
const FORM_WORD: Record<(typeof FORMS)[number], string | undefined> = { difference: undefined, "side by side": "sides", table: "table" };

export function CompareView(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const form = FORMS.find((f) => FORM_WORD[f] === words.z) ?? "difference";
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
						<button key={f} type="button" aria-pressed={form === f} onClick={() => go({ z: FORM_WORD[f], sort: f === "table" ? "delta" : undefined, s: undefined })}>
							{f}
						</button>
					))}
				</span>
				<span class="second">
					{costOf(words)} at {words.at ?? "its own moment"} against {baseLabel(words.base)}
				</span>
			</div>
			{form === "table" ? <TableView {...props} /> : form === "side by side" ? <Sides {...props} /> : <Diff {...props} />}
		</div>
	);
}
