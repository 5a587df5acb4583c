// SPDX-License-Identifier: Apache-2.0
// Pictures of what is shown, to keep: SVG and PNG with title, selection and losses.
import { download, fileStem } from "../app.ts";
import { colours } from "./colours.ts";
import { svgText } from "./svgtext.ts";

export interface Box {
	x: number;
	y: number;
	w: number;
	h: number;
	colour: string;
	label: string;
	title: string;
	/** Its label stands at the top, not in the middle: other boxes lie within. */
	top?: boolean;
	/** Its code is part of its caller's: dots at the left; its stacks end there, unrecorded beyond: torn at the right. */
	edge?: "" | "inlined" | "partial";
}

function edge(b: Box, y: number, text: string, bg: string): string {
	const left = b.x + 2;
	const right = b.x + b.w;
	if (b.edge === "inlined")
		return `<line class="inlined" x1="${left.toFixed(1)}" y1="${(y + 2).toFixed(1)}" x2="${left.toFixed(1)}" y2="${(y + b.h).toFixed(1)}" stroke="${text}" stroke-width="2" stroke-dasharray="2 2"/>`;
	const tooth = b.h / 3;
	const teeth = [0, 1, 2].map((i) => `L${(right - 5).toFixed(1)} ${(y + (i + 0.5) * tooth).toFixed(1)}L${right.toFixed(1)} ${(y + (i + 1) * tooth).toFixed(1)}`);
	return `<path class="partial" d="M${right.toFixed(1)} ${y.toFixed(1)}${teeth.join("")}Z" fill="${bg}"/>`;
}

export function svgOf(boxes: Box[], width: number, height: number, lines: string[], text: string, bg: string): string {
	const head = 20 * lines.length + 12;
	const out = [
		`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height + head}" viewBox="0 0 ${width} ${height + head}" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="12">`,
		`<rect width="100%" height="100%" fill="${bg}"/>`,
	];
	lines.forEach((line, i) => out.push(`<text x="8" y="${20 + 20 * i}" fill="${text}"${i ? "" : ' font-size="15" font-weight="600"'}>${svgText(line)}</text>`));
	for (const b of boxes) {
		out.push(`<g><title>${svgText(b.title)}</title><rect x="${b.x.toFixed(1)}" y="${(b.y + head).toFixed(1)}" width="${Math.max(0.3, b.w).toFixed(1)}" height="${b.h}" fill="${b.colour}"/>`);
		if (b.edge)
			out.push(edge(b, b.y + head, text, bg));
		if (b.label)
			out.push(`<text x="${(b.x + 4).toFixed(1)}" y="${(b.y + head + (b.top ? 14 : b.h / 2 + 4)).toFixed(1)}" fill="${text}">${svgText(b.label)}</text>`);
		out.push("</g>");
	}
	out.push("</svg>\n");
	return out.join("\n");
}

/** pngOf - the same, twice as fine; drawn by the browser from a blob of our own. */
export async function savePng(svg: string, name: string, width: number, height: number): Promise<void> {
	const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
	try {
		const image = new Image();
		await new Promise<void>((done, fail) => {
			image.onload = () => done();
			image.onerror = () => fail(new Error("the picture could not be drawn"));
			image.src = url;
		});
		const canvas = document.createElement("canvas");
		canvas.width = Math.min(8192, width * 2);
		canvas.height = Math.min(8192, height * 2);
		const c = canvas.getContext("2d")!;
		c.scale(2, 2);
		c.drawImage(image, 0, 0);
		const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
		if (blob)
			download(name, blob, "image/png");
	} finally {
		URL.revokeObjectURL(url);
	}
}

/** saveBoxes - boxes @width wide under their title lines, as SVG, or as PNG twice as fine. */
export function saveBoxes(kind: "svg" | "png", what: string, boxes: Box[], width: number, height: number, lines: string[]): void {
	const theme = colours.get();
	const svg = svgOf(boxes, width, height, lines, theme.dark ? theme.boxText : theme.text, theme.bg);
	if (kind === "svg")
		download(`${fileStem()}-${what}.svg`, svg, "image/svg+xml");
	else
		void savePng(svg, `${fileStem()}-${what}.png`, width, height + 20 * lines.length + 12);
}
