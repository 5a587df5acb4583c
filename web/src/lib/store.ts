// SPDX-License-Identifier: Apache-2.0
// A value that components watch.
import { useEffect, useReducer } from "preact/hooks";

export class Store<T> {
	private watchers = new Set<() => void>();
	constructor(private value: T) {}
	get(): T {
		return this.value;
	}
	set(value: T): void {
		if (Object.is(value, this.value))
			return;
		this.value = value;
		for (const watcher of [...this.watchers])
			watcher();
	}
	update(change: Partial<T>): void {
		this.set({ ...this.value, ...change });
	}
	watch(watcher: () => void): () => void {
		this.watchers.add(watcher);
		return () => this.watchers.delete(watcher);
	}
}

export function useStore<T>(store: Store<T>): T {
	const [, again] = useReducer((n: number) => n + 1, 0);
	useEffect(() => store.watch(() => again(0)), [store]);
	return store.get();
}
