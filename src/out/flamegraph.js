// SPDX-License-Identifier: Apache-2.0
// The script inside exported flame graphs: zoom, search, hover, flip, reset. Plain DOM; works from a file and embedded.
// Each frame is <g class="f" data-x data-v data-d data-s>: start, value, depth and own value, in units of the cost.
(function () {
	"use strict";
	var svg = document.currentScript ? document.currentScript.closest("svg") : document.documentElement;
	var side = 10, row = 17, letter = 6.7;
	var width = +svg.dataset.width - 2 * side, total = +svg.dataset.total;
	var top = +svg.dataset.top, depth = +svg.dataset.depth, unit = svg.dataset.unit;
	var frames = Array.prototype.map.call(svg.querySelectorAll("g.f"), function (g) {
		var title = g.querySelector("title").textContent;
		return {
			g: g, rect: g.querySelector("rect"), text: g.querySelector("text"), title: title,
			name: title.split("\n")[0], label: g.dataset.l || title.split("\n")[0], x: +g.dataset.x, v: +g.dataset.v, d: +g.dataset.d, s: +g.dataset.s
		};
	});
	var state = { zoom: frames[0], flipped: svg.dataset.flipped === "1", search: null };
	function part(name) { return svg.querySelector("." + name); }
	function amount(value) {
		if (unit !== "bytes")
			return value.toLocaleString("en-US") + " " + unit;
		var names = ["B", "KiB", "MiB", "GiB", "TiB"], i = 0;
		for (; value >= 1024 && i < 4; i++)
			value /= 1024;
		return (i ? value.toFixed(2) : value) + " " + names[i];
	}
	function percent(value) { return (100 * value / (total || 1)).toFixed(2) + " %"; }
	function y(d) { return top + row * (state.flipped ? d : depth - d); }
	function place(f, x, w, faded) {
		var px = side + x * width, pw = w * width;
		var shown = pw >= 0.3 || (w > 0 && state.zoom === frames[0]);
		f.g.style.display = shown ? "" : "none";
		if (!shown)
			return;
		f.g.classList.toggle("faded", faded);
		f.rect.setAttribute("x", px.toFixed(2));
		f.rect.setAttribute("width", Math.max(pw - 0.4, 0.3).toFixed(2));
		f.rect.setAttribute("y", y(f.d));
		var fits = Math.floor((pw - 6) / letter);
		if (fits < 3) {
			/* most boxes are narrow, and text is what costs a browser its time */
			if (f.text)
				f.text.remove();
			f.text = null;
			return;
		}
		if (!f.text)
			f.text = f.g.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "text"));
		f.text.setAttribute("x", (px + 3).toFixed(2));
		f.text.setAttribute("y", y(f.d) + 12);
		var label = f.label.length <= fits ? f.label : f.label.slice(0, fits - 2) + "..";
		if (f.text.textContent !== label)
			f.text.textContent = label;
	}
	function layout() {
		var z = state.zoom, zoomed = z !== frames[0];
		frames.forEach(function (f) {
			if (f.d < z.d) {
				/* who called the zoomed frame fills the row; all others there go */
				var above = f.x <= z.x && f.x + f.v >= z.x + z.v;
				place(f, 0, above ? 1 : 0, true);
			} else {
				var from = Math.max(f.x, z.x), to = Math.min(f.x + f.v, z.x + z.v);
				place(f, (from - z.x) / (z.v || 1), Math.max(to - from, 0) / (z.v || 1), false);
			}
		});
		part("reset").classList.toggle("off", !zoomed);
	}
	function find(words) {
		var expression = null;
		if (words) {
			try {
				expression = new RegExp(words, "i");
			} catch (error) {
				expression = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
			}
		}
		var end = -1, sum = 0;
		/* frames come callers first, left to right at each depth: a hit below a hit counts once */
		var hits = [];
		frames.forEach(function (f) {
			var hit = expression !== null && f !== frames[0] && expression.test(f.title);
			f.g.classList.toggle("hit", hit);
			if (hit)
				hits.push(f);
		});
		hits.sort(function (a, b) { return a.x - b.x || b.v - a.v; }).forEach(function (f) {
			if (f.x + f.v > end) {
				sum += f.x + f.v - Math.max(f.x, end);
				end = f.x + f.v;
			}
		});
		part("matched").textContent = expression === null ? "" :
			"Matched: " + percent(sum) + " (" + amount(sum) + ")";
	}
	function details(f) {
		part("details").textContent = f ? f.name + " - " + amount(f.v) + ", " + percent(f.v) +
			(f.s ? ", itself " + amount(f.s) : "") : "";
	}
	function frame_of(event) {
		var g = event.target.closest ? event.target.closest("g.f") : null;
		return g ? frames[Array.prototype.indexOf.call(svg.querySelectorAll("g.f"), g)] : null;
	}
	function ask() {
		var words = window.prompt("Search (regular expression)", state.search || "");
		if (words !== null) {
			state.search = words;
			find(words);
		}
	}
	svg.addEventListener("click", function (event) {
		var f = frame_of(event);
		if (f) {
			state.zoom = f;
			layout();
		} else if (event.target.closest(".reset")) {
			state.zoom = frames[0];
			layout();
		} else if (event.target.closest(".flip")) {
			state.flipped = !state.flipped;
			layout();
		} else if (event.target.closest(".search")) {
			ask();
		}
	});
	svg.addEventListener("mouseover", function (event) { details(frame_of(event)); });
	window.addEventListener("keydown", function (event) {
		if (event.key === "Escape") {
			state.zoom = frames[0];
			state.search = null;
			find("");
			layout();
		} else if (event.key === "/" || (event.key === "f" && (event.ctrlKey || event.metaKey))) {
			event.preventDefault();
			ask();
		}
	});
	svg.classList.add("live"); /* boxes stand where the file says: laid out again only when something changes */
})();
