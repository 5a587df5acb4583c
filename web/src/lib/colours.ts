// SPDX-License-Identifier: Apache-2.0
// Boxes are coloured by who owns the code, never at random and never by size; eight colours that all kinds of sight tell apart.
import { DARK, LIGHT, type Colours } from "./palette.ts";
import { Store } from "./store.ts";

export type { Colours } from "./palette.ts";

export const CATEGORIES = ["own", "project", "runtime", "allocator", "system", "kernel", "file", "unknown"] as const;
export const CATEGORY_LABELS = [
	"own executable", "project's libraries", "language runtime", "allocator", "system library", "kernel", "file, page cache", "unknown",
];

export type ThemeChoice = "system" | "light" | "dark";
const system = matchMedia("(prefers-color-scheme: dark)");

function remembered(): ThemeChoice {
	try {
		const value = localStorage.getItem("theme");
		return value === "light" || value === "dark" ? value : "system";
	} catch {
		return "system";
	}
}
export const themeChoice = new Store<ThemeChoice>(remembered());
export const colours = new Store<Colours>(LIGHT);

function apply(): void {
	const choice = themeChoice.get();
	const dark = choice === "dark" || (choice === "system" && system.matches);
	document.documentElement.dataset.theme = dark ? "dark" : "light";
	colours.set(dark ? DARK : LIGHT);
}
system.addEventListener("change", apply);
themeChoice.watch(() => {
	try {
		localStorage.setItem("theme", themeChoice.get());
	} catch {
		// a browser that keeps nothing: the choice lasts as long as the page
	}
	apply();
});
apply();
