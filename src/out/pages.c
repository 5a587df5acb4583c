/* SPDX-License-Identifier: Apache-2.0 */
#include "out/pages.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "out/name.h"

#define MISSING_ROWS 8
#define NAME_LEAST 16 /* columns of a function's name, whatever else the line has */

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_known(struct jsonw *json, const char *key, uint64_t value)
{
	if (value == PAGES_UNKNOWN)
		jsonw_null(json, key);
	else
		jsonw_u64(json, key, value);
}

static void put_frames(struct jsonw *json, const struct page_stack *stack)
{
	jsonw_array(json, "frames");
	for (uint16_t i = 0; stack && i < stack->count; i++) {
		const struct page_frame *frame = stack->frames[i];
		const struct symbol *symbols =
			atomic_load_explicit(&frame->symbols, memory_order_acquire);
		uint32_t count = symbols ? frame->symbol_count : 1;
		for (uint32_t k = 0; k < count; k++) {
			static const struct symbol none;
			const struct symbol *symbol = symbols ? &symbols[k] : &none;
			jsonw_object(json, NULL);
			jsonw_str(json, "function", symbol->function);
			jsonw_str(json, "module",
				  frame->module->path[0] ? frame->module->name : NULL);
			jsonw_u64(json, "offset", frame->offset);
			jsonw_str(json, "file", symbol->file);
			if (symbol->line)
				jsonw_u64(json, "line", symbol->line);
			else
				jsonw_null(json, "line");
			jsonw_bool(json, "inlined", symbol->inlined);
			jsonw_object_end(json);
		}
	}
	jsonw_array_end(json);
}

static void put_row(struct jsonw *json, const struct page_process *process,
		    const struct page_row *row)
{
	jsonw_object(json, NULL);
	jsonw_u64(json, "bytes", row->bytes);
	jsonw_str(json, "kind", pages_kind_name(row->kind));
	if (!row->stack) {
		jsonw_str(json, "reason", page_reason_name(row->reason));
	} else if (row->stack->stop) {
		jsonw_str(json, "partial", stack_stop_name(row->stack->stop));
	}
	jsonw_str(json, "label", row->label);
	if (row->stack && row->stack->pid != process->pid)
		jsonw_i64(json, "owner_pid", row->stack->pid);
	put_frames(json, row->stack);
	jsonw_object_end(json);
}

void out_pages_lost(struct jsonw *json, const struct page_shot *shot)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < PAGES_LOSSES; i++)
		sum += shot->lost[i];
	jsonw_object(json, "lost");
	jsonw_u64(json, "events", sum);
	jsonw_object(json, "by_reason");
	for (unsigned i = 0; i < PAGES_LOSSES; i++)
		if (shot->lost[i])
			jsonw_u64(json, page_loss_name(i), shot->lost[i]);
	jsonw_object_end(json);
	jsonw_object_end(json);
}

/* Resident bytes whose stack ends early, or was found by frame pointers: by why. */
static void put_partial(struct jsonw *json, const struct page_process *p)
{
	uint64_t by_reason[STACK_STOP_MAX] = { 0 }, sum = 0;
	for (size_t i = 0; i < p->row_count; i++) {
		const struct page_row *row = &p->rows[i];
		int in_rss = row->kind == PAGES_ANON || row->kind == PAGES_SHMEM ||
			     row->kind == PAGES_FILE;
		if (!in_rss || !row->stack || !row->stack->stop ||
		    row->stack->stop >= STACK_STOP_MAX)
			continue;
		by_reason[row->stack->stop] += row->bytes;
		sum += row->bytes;
	}
	jsonw_object(json, "partial_stacks");
	jsonw_u64(json, "bytes", sum);
	jsonw_object(json, "by_reason");
	for (unsigned i = 0; i < STACK_STOP_MAX; i++)
		if (by_reason[i])
			jsonw_u64(json, stack_stop_name(i), by_reason[i]);
	jsonw_object_end(json);
	jsonw_object_end(json);
}

void out_pages_process(struct jsonw *json, const char *key, const struct page_shot *shot,
		       const struct page_process *p, uint64_t now_ns)
{
	jsonw_object(json, key);
	jsonw_i64(json, "pid", p->pid);
	jsonw_str(json, "exe", p->exe);
	jsonw_bool(json, "ended", p->ended);
	jsonw_u64(json, "rss_bytes", p->rss_bytes);
	jsonw_u64(json, "attributed_bytes", p->attributed_bytes);
	jsonw_object(json, "unattributed");
	for (unsigned i = 0; i < PAGES_REASONS; i++)
		if (p->unattributed[i])
			jsonw_u64(json, page_reason_name(i), p->unattributed[i]);
	jsonw_object_end(json);
	jsonw_object(json, "kinds");
	for (unsigned i = 0; i < PAGES_KINDS; i++)
		jsonw_u64(json, pages_kind_name(i), p->kinds[i]);
	jsonw_object_end(json);
	jsonw_array(json, "rows");
	for (size_t i = 0; i < p->row_count; i++)
		put_row(json, p, &p->rows[i]);
	jsonw_array_end(json);
	jsonw_object(json, "checks");
	put_known(json, "smaps_rss_bytes", p->smaps_rss_bytes);
	put_known(json, "status_rss_bytes", p->status_rss_bytes);
	put_known(json, "rss_anon_bytes", p->rss_anon_bytes);
	put_known(json, "rss_file_bytes", p->rss_file_bytes);
	put_known(json, "rss_shmem_bytes", p->rss_shmem_bytes);
	put_known(json, "swap_bytes", p->swap_bytes);
	put_known(json, "hugetlb_bytes", p->hugetlb_bytes);
	if (p->smaps_rss_bytes != PAGES_UNKNOWN)
		jsonw_i64(json, "residual_bytes",
			  (int64_t)p->smaps_rss_bytes - (int64_t)p->rss_bytes);
	jsonw_object_end(json);
	put_partial(json, p);
	out_pages_lost(json, shot);
	jsonw_u64(json, "age_ns", now_ns > p->time_ns ? now_ns - p->time_ns : 0);
	jsonw_u64(json, "time_ns", p->time_ns);
	jsonw_u64(json, "walk_ns", p->walk_ns);
	jsonw_object_end(json);
}

void out_pages_json(struct jsonw *json, const struct page_shot *shot, uint64_t now_ns)
{
	jsonw_object(json, NULL);
	jsonw_u64(json, "version", 1);
	jsonw_array(json, "processes");
	for (size_t i = 0; i < shot->count; i++)
		out_pages_process(json, NULL, shot, shot->processes[i], now_ns);
	jsonw_array_end(json);
	jsonw_object(json, "kernel");
	jsonw_u64(json, "table_bytes", shot->kernel_bytes);
	jsonw_u64(json, "stacks", shot->stacks);
	jsonw_u64(json, "stacks_max", shot->stacks_max);
	jsonw_u64(json, "moved_pages", shot->moved_pages);
	jsonw_u64(json, "stale_pages", shot->stale_pages);
	jsonw_object_end(json);
	jsonw_object_end(json);
}

/* ---- text ------------------------------------------------------------------------------------ */

struct printing {
	struct buf *to;
	const struct out_pages_opt *opt;
	uint64_t whole;
	size_t lines, left_out;
	int width;
};

/* Ends a line that began at @start, cut to the width. */
static void end_line(struct printing *p, size_t start)
{
	const char *line = buf_cstr(p->to) + start;
	if ((int)text_columns(line) > p->width)
		p->to->len = start + text_fit(line, (size_t)p->width - 1);
	buf_putc(p->to, '\n');
	p->lines++;
}

static void put_bytes(struct printing *p, const char *what, uint64_t bytes)
{
	char text[TEXT_NUMBER_MAX];
	buf_printf(p->to, "  %s %s", what, text_bytes(text, bytes));
}

static void put_head(struct printing *p, const struct page_shot *shot,
		     const struct page_process *process)
{
	char text[TEXT_NUMBER_MAX], more[TEXT_NUMBER_MAX];
	size_t start = p->to->len;
	text_escape(p->to, process->comm, p->opt->ascii);
	buf_printf(p->to, "  pid %d   RSS %s", (int)process->pid,
		   text_bytes(text, process->rss_bytes));
	buf_printf(p->to, "   with a stack %s",
		   text_percent(more, process->attributed_bytes, process->rss_bytes));
	uint64_t until = p->opt->ended_ns ? p->opt->ended_ns : p->opt->now_ns;
	uint64_t age = until > process->time_ns ? until - process->time_ns : 0;
	if (process->ended || p->opt->ended_ns)
		buf_printf(p->to, "   ended %s later", text_duration(text, age));
	else
		buf_printf(p->to, "   counted in %s", text_duration(text, process->walk_ns));
	end_line(p, start);
	start = p->to->len;
	put_bytes(p, "anon", process->kinds[PAGES_ANON]);
	put_bytes(p, "file", process->kinds[PAGES_FILE]);
	put_bytes(p, "shmem", process->kinds[PAGES_SHMEM]);
	int beside = 0;
	for (unsigned kind = PAGES_SWAP; kind < PAGES_KINDS; kind++)
		beside |= process->kinds[kind] > 0;
	if (beside) { /* a line of its own: together they are wider than most terminals */
		end_line(p, start);
		start = p->to->len;
		buf_puts(p->to, "  beside RSS:");
	}
	for (unsigned kind = PAGES_SWAP; kind < PAGES_KINDS; kind++)
		if (process->kinds[kind])
			put_bytes(p, pages_kind_name(kind), process->kinds[kind]);
	end_line(p, start);
	for (unsigned reason = 1; reason < PAGES_REASONS; reason++) {
		if (!process->unattributed[reason])
			continue;
		start = p->to->len;
		buf_printf(p->to, "  no stack: %s %s",
			   text_bytes(text, process->unattributed[reason]),
			   page_reason_text(reason));
		const struct page_row *largest = NULL;
		for (size_t i = 0; i < process->row_count; i++) {
			const struct page_row *row = &process->rows[i];
			if (!row->stack && row->reason == reason && row->label &&
			    row->kind < PAGES_SWAP && (!largest || row->bytes > largest->bytes))
				largest = row;
		}
		if (largest) {
			buf_puts(p->to, ", most in ");
			text_escape(p->to, largest->label, p->opt->ascii);
		}
		end_line(p, start);
	}
	if (process->smaps_rss_bytes != PAGES_UNKNOWN &&
	    process->smaps_rss_bytes != process->rss_bytes) {
		int more_there = process->smaps_rss_bytes > process->rss_bytes;
		start = p->to->len;
		buf_printf(p->to, "  the kernel, asked right after, counts %s %s (smaps)",
			   text_bytes(text,
				      more_there ? process->smaps_rss_bytes - process->rss_bytes
						 : process->rss_bytes - process->smaps_rss_bytes),
			   more_there ? "more" : "less");
		end_line(p, start);
	}
	for (unsigned i = 0; i < PAGES_LOSSES; i++) {
		if (!shot->lost[i] || i == PAGES_LOST_MISSED)
			continue;
		start = p->to->len;
		buf_printf(p->to, "  lost: %llu %s", (unsigned long long)shot->lost[i],
			   page_loss_name(i));
		end_line(p, start);
	}
}

static void put_node(struct printing *p, const struct pages_node *node, int indent)
{
	if (p->opt->lines && p->lines >= p->opt->lines) {
		p->left_out++;
		return;
	}
	char text[TEXT_NUMBER_MAX], share[TEXT_NUMBER_MAX];
	size_t start = p->to->len;
	buf_printf(p->to, "%10s %7s  %*s", text_bytes(text, node->bytes),
		   text_percent(share, node->bytes, p->whole), indent < 40 ? indent : 40, "");
	CLEANUP(buf_fini) struct buf where = { 0 };
	buf_puts(&where, "  ");
	text_escape(&where, node->frame->module->name, p->opt->ascii);
	size_t used = text_columns(buf_cstr(p->to) + start) + text_columns(buf_cstr(&where));
	size_t room = (size_t)p->width > used + NAME_LEAST ? (size_t)p->width - used : NAME_LEAST;
	if (node->symbol)
		text_name_within(p->to, node->symbol->function, room, p->opt->ascii);
	else
		buf_printf(p->to, "0x%llx", (unsigned long long)node->frame->offset);
	buf_puts(p->to, buf_cstr(&where));
	end_line(p, start);
}

static void put_extra(struct printing *p, uint64_t bytes, int indent, const char *what)
{
	char text[TEXT_NUMBER_MAX], share[TEXT_NUMBER_MAX];
	if (!bytes || (p->opt->lines && p->lines >= p->opt->lines))
		return;
	size_t start = p->to->len;
	buf_printf(p->to, "%10s %7s  %*s", text_bytes(text, bytes),
		   text_percent(share, bytes, p->whole), indent < 40 ? indent : 40, "");
	text_escape(p->to, what, p->opt->ascii);
	end_line(p, start);
}

/*
 * A caller that has all of what stands above it stays in its column: only where paths part, the
 * text moves to the right.
 */
static void put_tree(struct printing *p, const struct pages_node *node, int indent)
{
	for (uint32_t i = 0; i < node->count; i++) {
		const struct pages_node *child = node->children[i];
		int alone = node->frame && child->bytes == node->bytes;
		put_node(p, child, alone ? indent : indent + 1);
		put_tree(p, child, alone ? indent : indent + 1);
	}
	if (node->frame || node->under_bytes)
		put_extra(p, node->count || !node->frame ? node->under_bytes : 0, indent + 1,
			  "(smaller ones)");
}

/* What has no stack, by mapping: the largest. */
static void put_missing(struct printing *p, const struct page_process *process)
{
	char what[600];
	uint32_t kinds = p->opt->tree.kinds ? p->opt->tree.kinds : PAGES_TREE_KINDS;
	unsigned shown = 0;
	for (size_t i = 0; i < process->row_count && shown < MISSING_ROWS; i++) {
		const struct page_row *row = &process->rows[i];
		if (row->stack || !row->label || !(kinds >> row->kind & 1) ||
		    row->bytes < p->opt->tree.threshold_bytes)
			continue;
		snprintf(what, sizeof(what), "%s, %s pages", row->label,
			 pages_kind_name(row->kind));
		put_extra(p, row->bytes, 1, what);
		shown++;
	}
}

static void put_since(struct printing *p)
{
	char text[TEXT_NUMBER_MAX], age[TEXT_NUMBER_MAX];
	size_t start = p->to->len;
	if (!p->opt->since_ns)
		buf_puts(p->to, "  since: no earlier reading to compare with yet");
	else if (!p->whole)
		buf_printf(p->to, "  since %s before: nothing came",
			   text_duration(age, p->opt->since_ns));
	else
		buf_printf(p->to, "  since %s before: %s more, below; what went is left out",
			   text_duration(age, p->opt->since_ns), text_bytes(text, p->whole));
	end_line(p, start);
}

int out_pages_text(struct buf *to, const struct page_shot *shot, const struct page_process *process,
		   const struct out_pages_opt *opt, struct err *err)
{
	struct page_process *growth = NULL;
	if (opt->since) {
		growth = pages_growth(process, opt->since_ns ? opt->then : process);
		if (!growth)
			return err_set(err, -ENOMEM, "cannot compare pages");
	}
	struct pages_tree *tree = pages_tree_new(growth ? growth : process, &opt->tree, err);
	if (!tree) {
		page_process_put(growth);
		return err->code;
	}
	const struct pages_node *root = pages_tree_root(tree);
	struct printing p = { .to = to,
			      .opt = opt,
			      .whole = root->bytes,
			      .width = opt->width > 0 ? opt->width : 100 };
	put_head(&p, shot, process);
	if (growth)
		put_since(&p);
	size_t start = to->len;
	buf_printf(to, "%10s %7s  %s", growth ? "more" : "bytes", "share",
		   opt->tree.reverse ? "function, callees below" : "function, callers below");
	if (!growth || root->bytes)
		end_line(&p, start);
	else
		to->len = start;
	put_tree(&p, root, -1);
	put_extra(&p, root->unknown_bytes, 0, "(no stack)");
	put_missing(&p, growth ? growth : process);
	if (p.left_out)
		buf_printf(to, "%10s %zu lines more\n", "...", p.left_out);
	pages_tree_free(tree);
	page_process_put(growth);
	return 0;
}
