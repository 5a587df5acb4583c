// SPDX-License-Identifier: Apache-2.0
// The tree that Flame, Tree, Treemap and Compare share: one question, one selected node.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, go, head, place, say } from "../app.ts";
import { ask, useAnswer, type Answer } from "../api/client.ts";
import type { SearchAnswer, TreeAnswer } from "../api/types.ts";
import { graft, treeOf, type Tree } from "../lib/layout.ts";
import type { Words } from "../lib/url.ts";
import { useStore } from "../lib/store.ts";
import { frameNames } from "./selection.tsx";

export interface Treed {
	answer: Answer<TreeAnswer>;
	tree: Tree | null;
	words: Words;
	selected: number;
	select: (node: number) => void;
	zoom: (node: number) => void;
	out: () => void;
	all: () => void;
	/** Load what is below @node. */
	more: (node: number) => Promise<void>;
	hits: Set<string> | null;
	search: Answer<SearchAnswer>;
	loaded: string;
}

const NODES = 6000;
const WHOLE = "0000000000000000";

export function useTree(stamp: number, extra: Record<string, string | number | undefined> = {}): Treed {
	const { words } = useStore(place);
	const asked: Words = { ...words };
	delete asked.limit;
	const answer = useAnswer<TreeAnswer>(api("tree", asked, { n: words.n, nodes: NODES, ...extra }), stamp);
	const [grafted, setGrafted] = useState<{ of: TreeAnswer; tree: Tree } | null>(null);
	const plainTree = useMemo(() => {
		if (!answer.data)
			return null;
		answer.data.frames.key.forEach((key, i) => frameNames.set(key, answer.data!.frames.short[i]));
		return treeOf(answer.data, answer.data.key);
	}, [answer.data]);
	const tree = grafted && grafted.of === answer.data ? grafted.tree : plainTree;
	const current = useRef(tree);
	current.current = tree;
	useEffect(() => {
		if (answer.data)
			head.set(answer.data);
	}, [answer.data]);
	// an unknown node, after a change of what is asked: the whole is shown instead of nothing, and it is said
	useEffect(() => {
		if (answer.error?.status === 404 && words.n) {
			say("the zoomed box is not in this selection: all is shown");
			go({ n: undefined, s: undefined }, undefined, true);
		}
	}, [answer.error]);
	const selected = tree && words.s ? tree.find(words.s) : -1;
	const search = useAnswer<SearchAnswer>(words.find && !/^0x/i.test(words.find) ? api("search", asked, { find: words.find, n: undefined }) : null, stamp);
	const hits = useMemo(() => (search.data && words.find ? new Set(search.data.frames) : null), [search.data, words.find]);
	const zoomTo = (node: number) => {
		if (!tree || node < 0)
			return;
		const key = tree.key(node);
		go({ n: key === WHOLE ? undefined : key, s: key });
	};
	return {
		answer, tree, words, selected, hits, search,
		select: (node) => tree && go({ s: node < 0 ? undefined : tree.key(node) }, undefined, true),
		zoom: (node) => zoomTo(node),
		out: () => {
			const path = answer.data?.path?.key ?? [];
			const above = path[path.length - 1];
			go({ n: above === WHOLE ? undefined : above });
		},
		all: () => go({ n: undefined }),
		more: async (node) => {
			if (!tree || !answer.data || !(tree.rest[node] > 0))
				return;
			const key = tree.key(node);
			const of = answer.data;
			const fresh = await ask<TreeAnswer>(api("tree", asked, { n: key, nodes: 2000, ...extra }), new AbortController().signal);
			const now = current.current;
			const at = now ? now.find(key) : -1;
			if (now && at >= 0) {
				const grown = graft(now, at, fresh, of.key);
				setGrafted({ of, tree: grown });
			}
		},
		loaded: tree ? `${tree.count.toLocaleString("en")} boxes loaded` : "",
	};
}
