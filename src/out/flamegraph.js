// SPDX-License-Identifier: Apache-2.0
// The script inside exported flame graphs: zoom, search, hover, flip, reset. Plain DOM; works from a file and embedded. As wide as
// the window (or what it is embedded in); what is zoomed, searched and flipped stands in the address of a file opened by itself.
// Each frame is <g class="f" data-x data-v data-d data-s>: start, value, depth and own value, in units of the cost.
(function () {
	"use strict";
	var svg = document.currentScript ? document.currentScript.closest("svg") : document.documentElement;
	var side = 10, row = 17, letter = 6.7, alone = document.documentElement === svg;
	var width = +svg.dataset.width - 2 * side, total = +svg.dataset.total, height = +svg.getAttribute("height");
	var top = +svg.dataset.top, depth = +svg.dataset.depth, unit = svg.dataset.unit;
	var frames = Array.prototype.map.call(svg.querySelectorAll("g.f"), function (g) {
		var title = g.querySelector("title").textContent;
		return {
			g: g, rect: g.querySelector("rect"), text: g.querySelector("text"), title: title,
			name: title.split("\n")[0], label: g.dataset.l || title.split("\n")[0], x: +g.dataset.x, v: +g.dataset.v, d: +g.dataset.d, s: +g.dataset.s
		};
	});
	var upright = svg.dataset.flipped !== "1";
	var state = { zoom: frames[0], flipped: !upright, search: null };
	function part(name) { return svg.querySelector("." + name); }
	var heads = [part("title"), part("note")].map(function (text) { return { text: text, words: text.textContent }; });
	/* @words in @text, cut to the window's width; @middle: what goes is in the middle. Returns how many letters that was. */
	function fit(text, words, middle) {
		var room = width - (+text.getAttribute("x") - side), keep = words.length;
		text.textContent = words;
		for (var long = text.getComputedTextLength(); long > room && keep > 4; long = text.getComputedTextLength()) {
			keep = Math.min(keep - 1, Math.floor(keep * room / long));
			var head = middle ? Math.ceil(keep / 2) : keep - 1;
			text.textContent = words.slice(0, head) + "\u2026" + (middle ? words.slice(words.length - (keep - 1 - head)) : "");
		}
	}
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
	/* As wide as the window from 360 to 2,560 pixels; without a script the file's own width. */
	function resize() {
		var box = alone ? document.documentElement : svg.parentNode;
		var wide = Math.max(360, Math.min(2560, box.clientWidth || window.innerWidth || 1200));
		if (wide - 2 * side !== width) {
			width = wide - 2 * side;
			svg.setAttribute("width", wide);
			svg.setAttribute("viewBox", "0 0 " + wide + " " + height);
			layout();
		}
		heads.forEach(function (head) { fit(head.text, head.words, false); });
	}
	function remember() {
		if (!alone)
			return;
		var words = [];
		if (state.zoom !== frames[0])
			words.push("zoom=" + frames.indexOf(state.zoom));
		if (state.search)
			words.push("search=" + encodeURIComponent(state.search));
		if (state.flipped === upright)
			words.push("flip=1");
		try {
			window.history.replaceState(null, "", words.length ? "#" + words.join("&") : window.location.pathname + window.location.search);
		} catch (error) {
			/* a viewer without a history: nothing is remembered */
		}
	}
	function recall() {
		var said = {};
		if (alone)
			window.location.hash.slice(1).split("&").forEach(function (word) {
				var at = word.indexOf("=");
				try {
					said[word.slice(0, at)] = decodeURIComponent(word.slice(at + 1));
				} catch (error) {
					/* no address of ours */
				}
			});
		state.zoom = frames[/^\d+$/.test(said.zoom) ? +said.zoom : 0] || frames[0];
		state.flipped = (said.flip === "1") === upright;
		state.search = said.search || null;
		find(state.search);
		layout();
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
		fit(part("matched"), expression === null ? "" :
			(width < 480 ? "" : "Matched: ") + percent(sum) + " (" + amount(sum) + ")", false);
	}
	/* What its title says on two lines: the name; figures, calls and the line of the source. */
	function details(f) {
		var lines = f ? f.title.split("\n") : [""];
		fit(part("details"), lines[0], true);
		fit(part("facts"), lines.slice(1).map(function (line) {
			return line.replace(/^.*\/(?=[^\/]*:\d+)/, "");
		}).join(", "), true);
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
			remember();
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
		remember();
	});
	svg.addEventListener("mouseover", function (event) { details(frame_of(event)); });
	window.addEventListener("keydown", function (event) {
		if (event.key === "Escape") {
			state.zoom = frames[0];
			state.search = null;
			find("");
			layout();
			remember();
		} else if (event.key === "/" || (event.key === "f" && (event.ctrlKey || event.metaKey))) {
			event.preventDefault();
			ask();
		}
	});
	svg.classList.add("live"); /* boxes stand where the file says: laid out again only when something changes */
	window.addEventListener("resize", resize);
	window.addEventListener("hashchange", recall);
	if (alone && window.location.hash)
		recall();
	resize();
})();
