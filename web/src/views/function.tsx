// SPDX-License-Identifier: Apache-2.0
// One function wherever it stands: its callers above, its callees below.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, fileStem, functionNames, go, head, place } from "../app.ts";
import { useAnswer } from "../api/client.ts";
import type { TreeAnswer } from "../api/types.ts";
import { amount, percent } from "../lib/format.ts";
import { treeOf, type Tree } from "../lib/layout.ts";
import { saveBoxes } from "../lib/pictures.ts";
import { useStore } from "../lib/store.ts";
import { Empty, Explained, Shown } from "../parts/basics.tsx";
import { Flame } from "../parts/flame.tsx";
import { frameFacts, NodePanel, NodeTip } from "../parts/panel.tsx";
import { frameNames } from "../parts/selection.tsx";
import { boxesOf } from "./flame.tsx";
import type { ViewProps } from "./props.ts";
import { saveTree } from "./tree.tsx";

export function FunctionView(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const asked = { ...words, limit: undefined, inverted: undefined };
	const ask = (side: string) => (words.f ? api("tree", asked, { function: words.f, side, nodes: 3000 }) : null);
	const callers = useAnswer<TreeAnswer>(ask("callers"), props.stamp);
	const callees = useAnswer<TreeAnswer>(ask("callees"), props.stamp);
	const above = useMemo(() => (callers.data ? treeOf(callers.data, null) : null), [callers.data]);
	const below = useMemo(() => (callees.data ? treeOf(callees.data, null) : null), [callees.data]);
	const [chosen, setChosen] = useState<{ tree: Tree; node: number } | null>(null);
	useEffect(() => {
		if (callees.data) {
			head.set(callees.data);
			callees.data.frames.key.forEach((key, i) => frameNames.set(key, callees.data!.frames.short[i]));
		}
		callers.data?.frames.key.forEach((key, i) => frameNames.set(key, callers.data!.frames.short[i]));
		setChosen(null);
	}, [callers.data, callees.data]);
	const unit = callees.data?.unit ?? "bytes";
	const facts = below ? frameFacts(below.answer, below.frame[0]) : null;
	if (facts)
		functionNames.set(facts.key, facts.name);
	const open = (tree: Tree, node: number) => {
		const key = tree.frame[node] >= 0 ? tree.answer.frames.key[tree.frame[node]] : null;
		if (key)
			go({ f: key });
	};
	const save = (kind: "svg" | "png") => {
		const most = Math.max(above!.width[0], below!.width[0]);
		const upper = boxesOf(above!, false, 1200, most);
		const lower = boxesOf(below!, true, 1200, most);
		saveBoxes(kind, "callers-callees", [...upper.boxes, ...lower.boxes.map((b) => ({ ...b, y: b.y + upper.height }))], 1200, upper.height + lower.height, [`byteledger · ${fileStem()}`, `${facts?.name || facts?.short}: callers above, callees below`]);
	};
	props.expose({
		loaded: above && below ? `${(above.count + below.count).toLocaleString("en")} boxes` : "",
		json: callees.of ?? undefined,
		svg: above && below ? () => save("svg") : undefined,
		png: above && below ? () => save("png") : undefined,
		csv: above && below ? () => (saveTree(below, "callees"), saveTree(above, "callers")) : undefined,
		panel: chosen ? <NodePanel tree={chosen.tree} node={chosen.node} unit={unit} onZoom={() => open(chosen.tree, chosen.node)} /> : null,
	});
	if (!words.f)
		return (
			<Empty>
				<b>No function is chosen.</b>
				<p>Choose one in the table, or “Callers, callees” of a box.</p>
			</Empty>
		);
	const half = (tree: Tree, down: boolean, label: string) => (
		<Flame
			tree={tree}
			unit={unit}
			down={down}
			hits={null}
			selected={chosen?.tree === tree ? chosen.node : -1}
			label={label}
			onSelect={(node) => setChosen({ tree, node })}
			onZoom={(node) => open(tree, node)}
			tip={(node) => <NodeTip tree={tree} node={node} unit={unit} />}
		/>
	);
	return (
		<div class="sandwich">
			<div class="sandwich-half" data-side="callers">
				<Shown answer={callers}>{() => (above ? half(above, false, "callers") : null)}</Shown>
			</div>
			<div class="sandwich-middle">
				<span class="second">callers above</span>
				<b title={facts?.name}>{facts ? facts.short || facts.name : ""}</b>
				{below && (
					<>
						<Explained term="everywhere" value={below.total[0]} unit={unit} focus>
							{amount(below.total[0], unit)}, {percent(below.total[0], below.answer.total)} of all
						</Explained>
						<Explained term="self" value={below.self[0]} unit={unit} focus>
							self {amount(below.self[0], unit)}
						</Explained>
					</>
				)}
				<span class="second">callees below</span>
			</div>
			<div class="sandwich-half" data-side="callees">
				<Shown answer={callees}>{() => (below ? half(below, true, "callees") : null)}</Shown>
			</div>
		</div>
	);
}
