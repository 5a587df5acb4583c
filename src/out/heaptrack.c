/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heaptrack.c - the interpreted heaptrack format, version 3 (text, a letter and hexadecimal fields
 * a line).
 *
 * The format names a block by its allocation class, a (size, trace) pair, and its reader takes a
 * free for temporary when the last line of a block was an allocation of the same class. Two blocks
 * of one class would then be mixed up, so each class can have a twin of equal size and trace: where
 * a free that is not temporary would look so, the allocation before it is written as the twin's,
 * which is why an allocation waits for the next line.
 *
 * heaptrack_gui writes beyond its table (and dies) unless the allocations bring new classes in the
 * order of their numbers, from 0 on. So a class is written when its first allocation is, never for
 * a free alone, and class 0 is one like the others, although the readers also mean "none" by it:
 * only the first block of all has it, and its free waits until it follows another's allocation.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/intern.h"
#include "out/out.h"
#include "out/stream.h"

/*
 * Memory of the class table must not grow with the number of events: beyond this only those stay
 * that have live blocks; what comes again has another number then.
 */
#define CLASSES_MAX (4u << 20)
#define PAGE_BYTES 4096 /* R counts in pages of the size that I names */
#define WRITER 0x10400  /* addresses are return address - 1 since this one */
#define NONE 0xffffffffu
#define BEHIND_MAX 4096

struct class
{
	uint64_t bytes, live;
	/* stack: row; both numbers: NONE until an allocation has it */
	uint32_t stack, number, twin;
};

struct text_row {
	/* by address: the prof interns */
	const char *text;
	uint32_t number;
};

/*
 * A free that waits for the rest of its run: for 100 ms at most, so that curves over time stay what
 * they are.
 */
struct pending {
	uint64_t bytes;
	struct stack_id stack;
	int temporary;
};
#define PENDING_MAX (64 * 1024)
#define CLOCK_MS 100
#define CLOCK_ZERO_MS 1000 /* while the free of class 0 may be among them */

struct waiting {
	/* NONE: nothing waits */
	uint32_t number;
	uint64_t bytes;
};

struct heaptrack_out {
	struct out_stream stream;
	/* by row; 0 = not written yet */
	uint32_t *stack_number, *frame_number, *module_text;
	uint32_t stack_cap, frame_cap, module_cap;
	struct idtab text_tab, class_tab;
	struct text_row *texts;
	uint32_t text_count, text_cap;
	struct class *classes;
	uint32_t class_count, class_cap;
	/* stack rows to be written */
	uint32_t *chain;
	uint32_t chain_cap;
	uint32_t strings_written, frames_written, stacks_written, classes_written;
	uint32_t stop_frame[STACK_STOP_MAX];
	uint64_t culled, culled_bytes;
	/* an allocation that waits for the next line of a block: its class; else NONE */
	uint32_t held;
	/* lines that follow it */
	struct buf behind;
	/* of the preceding line of a block, if that was an allocation; else NONE */
	uint32_t last_number;
	/* as the lines say */
	uint64_t live_bytes, peak_bytes;
	/* frees that would look temporary where they belong: of class 0, of another */
	struct waiting waiting[2];
	/* the only block of class 0 lives; what it is of (stack: row) */
	int zero_lives;
	uint64_t zero_bytes;
	uint32_t zero_stack;
	/* classes, before the table is gone through */
	uint32_t classes_most;
	uint64_t time_ms, peak_rss_bytes, rss_bytes;
	int begun;
	uint32_t pending_count;
	struct pending pending[PENDING_MAX];
};

static void put_hex(FILE *to, uint64_t value, char behind)
{
	char digits[18];
	char *at = digits + sizeof(digits);
	*--at = behind;
	do {
		*--at = "0123456789abcdef"[value & 15];
	} while (value >>= 4);
	fwrite_unlocked(at, 1, (size_t)(digits + sizeof(digits) - at), to);
}

static void put_line(FILE *to, char letter, uint64_t value)
{
	putc_unlocked(letter, to);
	putc_unlocked(' ', to);
	put_hex(to, value, '\n');
}

/* Row arrays follow the prof, which may have grown since. */
static int row_room(uint32_t **array, uint32_t *cap, uint32_t row)
{
	if (row < *cap)
		return 0;
	uint32_t want = row < 1u << 30 ? (row + 64) * 2 : UINT32_MAX;
	uint32_t *grown = realloc(*array, (size_t)want * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + *cap, 0, (size_t)(want - *cap) * sizeof(*grown));
	*array = grown;
	*cap = want;
	return 0;
}

static int grow(void **array, size_t item, uint32_t count, uint32_t *cap)
{
	if (count < *cap)
		return 0;
	uint32_t want = *cap ? *cap * 2 : 256;
	void *grown = realloc(*array, (size_t)want * item);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*cap = want;
	return 0;
}

/* A line holds the string: line ends inside become spaces. */
static uint32_t write_string(struct heaptrack_out *out, const char *text)
{
	FILE *to = out->stream.to;
	size_t len = strlen(text);
	fputs("s ", to);
	put_hex(to, len, ' ');
	for (size_t i = 0; i < len; i++)
		putc_unlocked((unsigned char)text[i] < ' ' ? ' ' : text[i], to);
	putc_unlocked('\n', to);
	return ++out->strings_written;
}

/* Returns the number of a string lent from the prof, 0 for NULL; negative errno. */
static int64_t string_number(struct heaptrack_out *out, const char *text)
{
	if (!text)
		return 0;
	if (idtab_reserve(&out->text_tab) < 0 ||
	    grow((void **)&out->texts, sizeof(*out->texts), out->text_count, &out->text_cap) < 0)
		return -ENOMEM;
	uint32_t hash = (uint32_t)hash_u64((uintptr_t)text, 0, hash_seed());
	uint32_t at = idtab_first(&out->text_tab, hash);
	for (; out->text_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&out->text_tab, at)) {
		const struct text_row *row = &out->texts[out->text_tab.slots[at].id];
		if (row->text == text)
			return row->number;
	}
	idtab_put(&out->text_tab, at, hash, out->text_count);
	out->texts[out->text_count++] =
		(struct text_row){ .text = text, .number = write_string(out, text) };
	return out->strings_written;
}

static void begin(struct heaptrack_out *out)
{
	if (out->begun)
		return;
	out->begun = 1;
	FILE *to = out->stream.to;
	char *cmdline = out_command_line(out->stream.names);
	fprintf(to, "v %x 3\nX %s\nI %x 0\n", WRITER, cmdline && *cmdline ? cmdline : "unknown",
		PAGE_BYTES);
	free(cmdline);
	for (uint32_t i = 0; i < prof_rule_count(out->stream.names); i++)
		fprintf(to, "S leak:%s\n", prof_rule(out->stream.names, i));
}

/* i IP MODULE [FUNC FILE LINE {FUNC FILE LINE}..], innermost function first */
static int write_frame(struct heaptrack_out *out, uint32_t row)
{
	const struct prof *names = out->stream.names;
	const struct prof_frame *frame = prof_frame(names, (struct frame_id){ row });
	const struct prof_module *module = prof_module(names, frame->module);
	if (row_room(&out->module_text, &out->module_cap, frame->module.v) < 0)
		return -ENOMEM;
	uint32_t *module_text = &out->module_text[frame->module.v];
	if (!*module_text && frame->module.v)
		*module_text = write_string(out, module->path);
	/* strings before the line that uses them */
	for (uint32_t i = 0; i < frame->symbol_count; i++)
		if (string_number(out, frame->symbols[i].function) < 0 ||
		    string_number(out, frame->symbols[i].file) < 0)
			return -ENOMEM;
	FILE *to = out->stream.to;
	int known = frame->symbol_count && frame->symbols[0].function;
	fputs("i ", to);
	put_hex(to, module->bias + frame->offset, ' ');
	put_hex(to, *module_text, known ? ' ' : '\n');
	for (uint32_t i = 0; known && i < frame->symbol_count; i++) {
		const struct symbol *symbol = &frame->symbols[i];
		put_hex(to, (uint64_t)string_number(out, symbol->function), ' ');
		put_hex(to, (uint64_t)string_number(out, symbol->file), ' ');
		put_hex(to, symbol->line, i + 1 < frame->symbol_count ? ' ' : '\n');
	}
	out->frame_number[row] = ++out->frames_written;
	return 0;
}

/* The outermost frame of a partial stack says why it is one. */
static uint32_t stop_frame(struct heaptrack_out *out, unsigned stop)
{
	if (!out->stop_frame[stop]) {
		uint32_t text = write_string(out, view_stop_label(stop));
		fprintf(out->stream.to, "i 0 0 %x 0 0\n", text);
		out->stop_frame[stop] = ++out->frames_written;
	}
	return out->stop_frame[stop];
}

/* Write what is missing of a stack, callers first. Returns its trace number, negative errno. */
static int64_t trace_number(struct heaptrack_out *out, uint32_t row)
{
	const struct prof *names = out->stream.names;
	if (row_room(&out->stack_number, &out->stack_cap, prof_stack_count(names)) < 0 ||
	    row_room(&out->frame_number, &out->frame_cap, prof_frame_count(names)) < 0)
		return -ENOMEM;
	uint32_t missing = 0;
	for (uint32_t at = row; at && !out->stack_number[at];
	     at = prof_stack(names, (struct stack_id){ at })->parent.v) {
		if (grow((void **)&out->chain, sizeof(*out->chain), missing, &out->chain_cap) < 0)
			return -ENOMEM;
		out->chain[missing++] = at;
	}
	while (missing) {
		uint32_t node = out->chain[--missing];
		const struct prof_stack *stack = prof_stack(names, (struct stack_id){ node });
		uint32_t frame;
		if (stack->stop) {
			frame = stop_frame(out, stack->stop);
		} else {
			if (!out->frame_number[stack->frame.v] &&
			    write_frame(out, stack->frame.v) < 0)
				return -ENOMEM;
			frame = out->frame_number[stack->frame.v];
		}
		FILE *to = out->stream.to;
		fputs("t ", to);
		put_hex(to, frame, ' ');
		put_hex(to, stack->parent.v ? out->stack_number[stack->parent.v] : 0, '\n');
		out->stack_number[node] = ++out->stacks_written;
	}
	return row ? out->stack_number[row] : 0;
}

/** write_class() - its number: the allocation that has it follows. */
static uint32_t write_class(struct heaptrack_out *out, const struct class *class)
{
	FILE *to = out->stream.to;
	fputs("a ", to);
	put_hex(to, class->bytes, ' ');
	put_hex(to, class->stack ? out->stack_number[class->stack] : 0, '\n');
	return out->classes_written++;
}

/** drop_classes() - those without live blocks. 0 or -ENOMEM. */
static int drop_classes(struct heaptrack_out *out)
{
	uint32_t kept = 0;
	idtab_fini(&out->class_tab);
	out->class_tab = (struct idtab){ 0 };
	for (uint32_t i = 0; i < out->class_count; i++) {
		const struct class class = out->classes[i];
		if (i == out->held)
			out->held = kept;
		else if (!class.live)
			continue;
		if (idtab_reserve(&out->class_tab) < 0)
			return -ENOMEM;
		uint32_t hash = (uint32_t)hash_u64(class.bytes, class.stack, hash_seed());
		uint32_t at = idtab_first(&out->class_tab, hash);
		while (out->class_tab.slots[at].id != IDTAB_NONE)
			at = idtab_next(&out->class_tab, at);
		idtab_put(&out->class_tab, at, hash, kept);
		out->classes[kept++] = class;
	}
	out->class_count = kept;
	out->classes_most = kept > CLASSES_MAX / 2 ? 2 * kept : CLASSES_MAX;
	return 0;
}

static struct class *find_class(struct heaptrack_out *out, uint64_t bytes, struct stack_id stack)
{
	uint32_t row = prof_stack_row(out->stream.names, stack).v;
	if (out->class_count >= out->classes_most && drop_classes(out) < 0)
		return NULL;
	if (idtab_reserve(&out->class_tab) < 0 ||
	    grow((void **)&out->classes, sizeof(*out->classes), out->class_count, &out->class_cap) <
		    0)
		return NULL;
	uint32_t hash = (uint32_t)hash_u64(bytes, row, hash_seed());
	uint32_t at = idtab_first(&out->class_tab, hash);
	for (; out->class_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&out->class_tab, at)) {
		struct class *known = &out->classes[out->class_tab.slots[at].id];
		if (known->bytes == bytes && known->stack == row)
			return known;
	}
	if (trace_number(out, row) < 0)
		return NULL;
	struct class *fresh = &out->classes[out->class_count];
	idtab_put(&out->class_tab, at, hash, out->class_count++);
	*fresh = (struct class){ .bytes = bytes, .stack = row, .number = NONE, .twin = NONE };
	return fresh;
}

static void put_held(struct heaptrack_out *out, int apart);

/** put_text() - whole lines that are of no block: behind the allocation that waits. */
static void put_text(struct heaptrack_out *out, const char *lines)
{
	if (out->behind.len > BEHIND_MAX)
		put_held(out, 0);
	if (out->held == NONE)
		fputs(lines, out->stream.to);
	else
		buf_puts(&out->behind, lines);
}

static void put_fact(struct heaptrack_out *out, char letter, uint64_t value)
{
	char line[24];
	snprintf(line, sizeof(line), "%c %" PRIx64 "\n", letter, value);
	put_text(out, line);
}

static void put_time(struct heaptrack_out *out, uint64_t time_ns)
{
	uint64_t ms = time_ns / 1000000;
	if (ms <= out->time_ms)
		return;
	out->time_ms = ms;
	put_fact(out, 'c', ms);
}

static void write_free(struct heaptrack_out *out, uint32_t number, uint64_t bytes)
{
	put_line(out->stream.to, '-', number);
	out->last_number = NONE;
	out->live_bytes -= bytes;
}

/** looks_temporary() - would a free of @number here? */
static int looks_temporary(const struct heaptrack_out *out, uint32_t number)
{
	return number ? number == out->last_number : out->last_number == NONE || !out->last_number;
}

/** put_waiting() - the frees that wait, as far as they look right here; @all: in any case. */
static void put_waiting(struct heaptrack_out *out, int all)
{
	for (size_t i = 0; i < ARRAY_LEN(out->waiting); i++) {
		struct waiting *w = &out->waiting[i];
		if (w->number == NONE || (!all && looks_temporary(out, w->number)))
			continue;
		write_free(out, w->number, w->bytes);
		w->number = NONE;
	}
}

static uint64_t waiting_bytes(const struct heaptrack_out *out)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < ARRAY_LEN(out->waiting); i++)
		bytes += out->waiting[i].number == NONE ? 0 : out->waiting[i].bytes;
	return bytes;
}

/** put_held() - the allocation that waits. @apart: under another number than the class has. */
static void put_held(struct heaptrack_out *out, int apart)
{
	if (out->held == NONE)
		return;
	struct class *class = &out->classes[out->held];
	uint32_t *number = &class->number;
	out->held = NONE;
	/* the peak is to be right, rather than what is temporary */
	if (waiting_bytes(out) && out->live_bytes + class->bytes > out->peak_bytes)
		put_waiting(out, 1);
	if (*number != NONE && (apart || !*number)) {
		out->zero_lives &= *number != 0;
		number = &class->twin;
	}
	if (*number == NONE)
		*number = write_class(out, class);
	if (!*number) {
		out->zero_lives = 1;
		out->zero_bytes = class->bytes;
		out->zero_stack = class->stack;
	}
	put_line(out->stream.to, '+', *number);
	out->last_number = *number;
	out->live_bytes += class->bytes;
	if (out->live_bytes > out->peak_bytes)
		out->peak_bytes = out->live_bytes;
	if (out->behind.len)
		fwrite_unlocked(out->behind.data, 1, out->behind.len, out->stream.to);
	out->behind.len = 0;
}

static int put_free(struct heaptrack_out *out, const struct pending *free)
{
	struct class *class = find_class(out, free->bytes, free->stack);
	if (!class)
		return -ENOMEM;
	uint32_t index = (uint32_t)(class - out->classes), last;
	int follows = index == out->held && free->temporary;
	put_held(out, index == out->held && !free->temporary);
	if (!class->live)
		return 0; /* of no allocation: the format has no word for it */
	class->live--;
	if (!follows)
		put_waiting(out, 0);
	last = out->last_number;
	uint32_t number = class->number;
	if (follows)
		number = last;
	else if (class->twin != NONE && (!number || number == last) && class->twin != last)
		number = class->twin;
	if (!follows && looks_temporary(out, number))
		put_waiting(out, 0);
	if (!follows && looks_temporary(out, number)) {
		struct waiting *w = &out->waiting[number != 0];
		if (w->number != NONE) /* there is room for one */
			write_free(out, w->number, w->bytes);
		*w = (struct waiting){ number, class->bytes };
		out->zero_lives &= number != 0;
		return 0;
	}
	out->zero_lives &= number != 0;
	write_free(out, number, class->bytes);
	return 0;
}

/*
 * Frees without an allocation among them may stand in any order: nothing but the temporary count
 * depends on it. The one that is temporary comes first, so that it follows its allocation as
 * heaptrack_print wants it; else that of class 0, which must follow one.
 */
static int put_pending(struct heaptrack_out *out)
{
	uint32_t first = 0;
	while (first < out->pending_count && !out->pending[first].temporary)
		first++;
	for (uint32_t i = 0; first == out->pending_count && out->zero_lives && i < first; i++)
		if (out->pending[i].bytes == out->zero_bytes &&
		    prof_stack_row(out->stream.names, out->pending[i].stack).v == out->zero_stack)
			first = i;
	if (first && first < out->pending_count) {
		struct pending swap = out->pending[0];
		out->pending[0] = out->pending[first];
		out->pending[first] = swap;
	}
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < out->pending_count; i++)
		rc = put_free(out, &out->pending[i]);
	out->pending_count = 0;
	return rc;
}

static int put_alloc(struct heaptrack_out *out, const struct event *event)
{
	if (put_pending(out) < 0)
		return -ENOMEM;
	put_held(out, 0);
	put_waiting(out, 0);
	put_time(out, event->time_ns);
	struct class *class = find_class(out, event->bytes, event->stack);
	if (!class)
		return -ENOMEM;
	class->live++;
	out->held = (uint32_t)(class - out->classes);
	return 0;
}

/*
 * Move on to an event that is no allocation: frees may wait a little longer, and the clock with
 * them.
 */
static int move_on(struct heaptrack_out *out, uint64_t time_ns)
{
	int rc = 0;
	uint64_t most_ms = out->zero_lives ? CLOCK_ZERO_MS : CLOCK_MS;
	if (out->pending_count == PENDING_MAX ||
	    (out->pending_count && time_ns / 1000000 - out->time_ms >= most_ms))
		rc = put_pending(out);
	if (!out->pending_count)
		put_time(out, time_ns);
	return rc;
}

static int hold_free(struct heaptrack_out *out, const struct event *event)
{
	int rc = move_on(out, event->time_ns);
	out->pending[out->pending_count++] =
		(struct pending){ .bytes = event->bytes,
				  .stack = event->stack,
				  .temporary = event->flags & EVENT_F_TEMPORARY };
	return rc;
}

static void put_rss(struct heaptrack_out *out, uint64_t bytes, uint64_t peak)
{
	/* a peak between two readings is the kernel's word: it gets its line, then the reading */
	if (peak > out->peak_rss_bytes && peak > bytes)
		put_fact(out, 'R', peak / PAGE_BYTES);
	put_fact(out, 'R', bytes / PAGE_BYTES);
	out->rss_bytes = bytes;
	peak = peak > bytes ? peak : bytes;
	out->peak_rss_bytes = peak > out->peak_rss_bytes ? peak : out->peak_rss_bytes;
}

static void put_loss(struct heaptrack_out *out, const struct event *event)
{
	const char *reason = loss_reason_name((unsigned)event->value);
	char line[128];
	snprintf(line, sizeof(line), "# lost: %s, %" PRIu64 " allocations, %u frees\n",
		 reason ? reason : "unknown", event->addr, event->block.v);
	put_text(out, line);
}

static int heaptrack_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink;
	(void)def;
	(void)err;
	return 0; /* definitions are taken from the prof when they are needed */
}

static int heaptrack_put(struct sink *sink, const struct event *events, size_t count,
			 struct err *err)
{
	struct heaptrack_out *out = (struct heaptrack_out *)sink;
	begin(out);
	for (size_t i = 0; i < count; i++) {
		const struct event *event = &events[i];
		int rc = 0;
		switch (event->kind) {
		case EVENT_ALLOC:
			rc = put_alloc(out, event);
			break;
		case EVENT_FREE:
			rc = hold_free(out, event);
			break;
		case EVENT_RSS:
			rc = move_on(out, event->time_ns);
			put_rss(out, event->bytes, event->value);
			break;
		case EVENT_LOST:
			if (event->addr || event->block.v || event->bytes)
				put_loss(out, event);
			break;
		case EVENT_CULLED:
			sum_add(&out->culled, event->addr);
			sum_add(&out->culled_bytes, event->bytes);
			break;
		default: /* the format has no word for it */
			break;
		}
		if (rc < 0)
			return out_no_memory(err);
	}
	if (out->behind.failed)
		return out_no_memory(err);
	if (ferror(out->stream.to))
		return err_set(err, errno ? -errno : -EIO, "cannot write the export");
	return 0;
}

static int heaptrack_finish(struct out_stream *stream, struct err *err)
{
	struct heaptrack_out *out = (struct heaptrack_out *)stream;
	begin(out);
	if (put_pending(out) < 0)
		return out_no_memory(err);
	put_held(out, 0);
	put_waiting(out, 0);
	put_waiting(out, 1);
	if (out->culled)
		fprintf(stream->to, "# culled: %" PRIu64 " allocations, %" PRIu64 " bytes\n",
			out->culled, out->culled_bytes);
	struct prof_totals totals;
	prof_totals(stream->names, &totals);
	if (totals.peak_rss_bytes > out->peak_rss_bytes)
		put_rss(out, out->rss_bytes ? out->rss_bytes : totals.peak_rss_bytes,
			totals.peak_rss_bytes);
	put_time(out, totals.runtime_ns);
	return 0;
}

static void heaptrack_fini(struct out_stream *stream)
{
	struct heaptrack_out *out = (struct heaptrack_out *)stream;
	free(out->stack_number);
	free(out->frame_number);
	free(out->module_text);
	idtab_fini(&out->text_tab);
	idtab_fini(&out->class_tab);
	free(out->texts);
	free(out->classes);
	free(out->chain);
	buf_fini(&out->behind);
}

struct out_stream *out_heaptrack_new(FILE *to, const struct prof *names, struct err *err)
{
	struct heaptrack_out *out = calloc(1, sizeof(*out));
	if (!out) {
		out_no_memory(err);
		return NULL;
	}
	out->stream = (struct out_stream){ .sink = { heaptrack_define, heaptrack_put },
					   .to = to,
					   .names = names,
					   .finish = heaptrack_finish,
					   .fini = heaptrack_fini };
	out->held = out->last_number = NONE;
	out->waiting[0].number = out->waiting[1].number = NONE;
	out->classes_most = CLASSES_MAX;
	return &out->stream;
}
