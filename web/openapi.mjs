// SPDX-License-Identifier: Apache-2.0
// src/api/schema.ts: the types of /api/v1 out of the OpenAPI file that the server answers. Run by scripts/page.py before types are checked.
//
// usage: openapi.mjs OPENAPI.json OUT.ts
import { readFileSync, writeFileSync } from "node:fs";

const [from, to] = process.argv.slice(2);
const { schemas } = JSON.parse(readFileSync(from, "utf8")).components;
const word = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name));

function typeOf(s, indent) {
	const nullable = s.nullable ? " | null" : "";
	if (s.$ref)
		return s.$ref.replace("#/components/schemas/", "") + nullable;
	if (s.allOf || s.oneOf || s.anyOf)
		return `(${(s.allOf ?? s.oneOf ?? s.anyOf).map((p) => typeOf(p, indent)).join(s.allOf ? " & " : " | ")})${nullable}`;
	if (s.enum)
		return s.enum.map((v) => JSON.stringify(v)).join(" | ") + nullable;
	switch (s.type) {
	case "integer":
	case "number":
		return `number${nullable}`;
	case "boolean":
		return `boolean${nullable}`;
	case "string":
		return `string${nullable}`;
	case "array": {
		const item = s.items ? typeOf(s.items, indent) : "unknown";
		return `${/[|&\s]/.test(item) && !item.startsWith("{") ? `(${item})` : item}[]${nullable}`;
	}
	case "object": {
		const tab = "\t".repeat(indent + 1);
		const members = Object.entries(s.properties ?? {}).map(([name, p]) => `${tab}${word(name)}${s.required?.includes(name) ? "" : "?"}: ${typeOf(p, indent + 1)};\n`);
		if (s.additionalProperties)
			return members.length ? "Record<string, unknown>" : `Record<string, ${s.additionalProperties === true ? "unknown" : typeOf(s.additionalProperties, indent)}>${nullable}`;
		return members.length ? `{\n${members.join("")}${"\t".repeat(indent)}}${nullable}` : `Record<string, unknown>${nullable}`;
	}
	default:
		return "unknown";
	}
}

const text = ["// SPDX-License-Identifier: Apache-2.0", "// Made by openapi.mjs out of the server's OpenAPI file: change that one.", ""];
for (const [name, schema] of Object.entries(schemas))
	text.push(`export type ${name} = ${typeOf(schema, 0)};`);
writeFileSync(to, `${text.join("\n")}\n`);
