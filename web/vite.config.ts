// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from "vite";

export default defineConfig({
	base: "./",
	esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
	build: {
		target: "es2022",
		outDir: "dist",
		assetsDir: "assets",
		emptyOutDir: true,
		modulePreload: false,
		cssCodeSplit: false,
		assetsInlineLimit: 0,
		reportCompressedSize: false,
		rollupOptions: {
			output: {
				inlineDynamicImports: true,
				entryFileNames: "assets/page-[hash].js",
				assetFileNames: "assets/page-[hash][extname]",
			},
		},
	},
});
