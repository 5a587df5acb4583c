// SPDX-License-Identifier: Apache-2.0
// Unit tests under node:test: each test/*.test.ts becomes one module (esbuild comes with Vite), then `node --test` runs them.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const { build } = await import("esbuild").catch(() => {
	console.log("1..0 # SKIP web/node_modules is not there: the page came built");
	process.exit(0);
});

const here = dirname(fileURLToPath(import.meta.url));
const out = mkdtempSync(join(tmpdir(), "byteledger-page-"));
try {
	await build({
		entryPoints: readdirSync(here).filter((name) => name.endsWith(".test.ts")).map((name) => join(here, name)),
		outdir: out,
		outExtension: { ".js": ".mjs" },
		bundle: true,
		platform: "node",
		format: "esm",
		target: "node18",
		jsx: "automatic",
		jsxImportSource: "preact",
		logLevel: "warning",
		define: { "process.env.WEB_TEST": JSON.stringify(here) },
	});
	const files = readdirSync(out).map((name) => join(out, name));
	const done = spawnSync(process.execPath, ["--test", ...process.argv.slice(2), ...files], { stdio: "inherit" });
	process.exitCode = done.status ?? 1;
} finally {
	rmSync(out, { recursive: true, force: true });
}
