// SPDX-License-Identifier: Apache-2.0
// A source file with its figures by line; it may lie elsewhere than where it was built.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, costOf, go, head, place, saveRows } from "../app.ts";
import { useAnswer } from "../api/client.ts";
import type { SourceAnswer } from "../api/types.ts";
import { colours } from "../lib/colours.ts";
import { amount, count, plain } from "../lib/format.ts";
import { Store, useStore } from "../lib/store.ts";
import { COSTS } from "../lib/terms.ts";
import { Bar, Empty, Explained, Note, Shown } from "../parts/basics.tsx";
import { Grid } from "../parts/grid.tsx";
import type { ViewProps } from "./props.ts";

function rememberedPrefix(): string {
	try {
		return localStorage.getItem("source-prefix") ?? "";
	} catch {
		return "";
	}
}
/** Where on this disk the sources lie that were built elsewhere: the reader's own, in no link. */
const sourcePrefix = new Store<string>(rememberedPrefix());
sourcePrefix.watch(() => {
	try {
		localStorage.setItem("source-prefix", sourcePrefix.get());
	} catch {
		// a browser that keeps nothing: it lasts as long as the page
	}
});

function PrefixField(): JSX.Element {
	const [text, setText] = useState(sourcePrefix.get());
	return (
		<form
			class="field tools"
			onSubmit={(e) => {
				e.preventDefault();
				sourcePrefix.set(text.trim().replace(/(.)\/+$/, "$1"));
			}}
		>
			<label>
				<span>where the sources lie on the server's disk</span>
				<input type="text" name="prefix" value={text} placeholder="/home/me/project" spellcheck={false} autocomplete="off" onInput={(e) => setText(e.currentTarget.value)} />
			</label>
			<button type="submit" class="small">
				Look there
			</button>
		</form>
	);
}

export function SourceView(props: ViewProps): JSX.Element {
	const { words } = useStore(place);
	const theme = useStore(colours);
	const unit = COSTS.find((c) => c.value === costOf(words))?.unit ?? "bytes";
	const prefix = useStore(sourcePrefix);
	const answer = useAnswer<SourceAnswer>(words.f ? api("source", { ...words, by: undefined, inverted: undefined, base: undefined, limit: undefined, x: undefined }, { file: words.f, prefix: prefix || undefined }) : null, props.stamp);
	useEffect(() => {
		if (answer.data)
			head.set(answer.data);
	}, [answer.data]);
	const at = useMemo(() => new Map((answer.data?.lines.line ?? []).map((line, i) => [line, i])), [answer.data]);
	const first = useMemo(() => {
		const l = answer.data?.lines;
		if (!l?.line.length)
			return 0;
		return l.line[l.total.indexOf(Math.max(...l.total))] - 1;
	}, [answer.data]);
	props.expose({
		json: answer.of ?? undefined,
		loaded: answer.data ? plain(answer.data.path) : "",
		csv: answer.data ? () => saveRows("source", [["line", "self", "total", "text"], ...answer.data!.text.map((text, i) => [i + 1, at.has(i + 1) ? answer.data!.lines.self[at.get(i + 1)!] : 0, at.has(i + 1) ? answer.data!.lines.total[at.get(i + 1)!] : 0, text])]) : undefined,
	});
	if (!words.f)
		return (
			<Empty>
				<b>No file is chosen.</b>
				<p>Choose “Source” of a function whose file is known.</p>
			</Empty>
		);
	const figure = (which: "self" | "total") => (n: number) => {
		const i = at.get(n + 1);
		const v = i === undefined ? 0 : answer.data!.lines[which][i];
		return v ? amount(v, unit) : "";
	};
	return (
		<>
			{answer.error?.status === 404 && (
				<>
					<Note kind="warn">Only files that are on this disk, as the recording's symbols name them, can be shown.</Note>
					<PrefixField />
				</>
			)}
			<Shown answer={answer}>
				{(data) => (
					<>
						<div class="tools">
							<b class="mono wrap">{plain(data.found)}</b>
							{data.found !== data.path && <span class="second mono wrap">recorded as {plain(data.path)}</span>}
							{data.found !== data.path && (
								<button type="button" class="small" onClick={() => sourcePrefix.set("")}>
									Look no longer below {plain(prefix)}
								</button>
							)}
							<span class="second">{count(data.text.length)} lines, figures at {count(data.lines.line.length)}</span>
						</div>
						<Grid
							label="source"
							rowHeight={20}
							total={data.text.length}
							row={(i) => i}
							selected={words.s ? Number(words.s) : first}
							onSelect={(i) => go({ s: String(i) }, undefined, true)}
							rowClass={(n) => (at.has(n + 1) ? "has-cost" : "")}
							columns={[
								{ key: "self", label: <Explained term="self">self</Explained>, width: "84px", right: true, cell: figure("self") },
								{ key: "total", label: <Explained term="total">total</Explained>, width: "84px", right: true, cell: figure("total") },
								{ key: "bar", label: "", width: "60px", cell: (n) => { const i = at.get(n + 1); return i === undefined ? null : <Bar part={data.lines.total[i]} whole={data.total} colour={theme.link} />; } },
								{ key: "line", label: "line", width: "60px", right: true, cell: (n) => <span class="second">{n + 1}</span> },
								{ key: "text", label: "", cell: (n) => <code class="code-line">{plain(data.text[n]).replace(/\\x09/g, "    ")}</code> },
							]}
						/>
					</>
				)}
			</Shown>
		</>
	);
}
