/* SPDX-License-Identifier: Apache-2.0 */
#include "out/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "out/out.h"

int out_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot export");
}

int out_live_add(uint64_t *live, uint64_t bytes, struct err *err)
{
	if (!__builtin_add_overflow(*live, bytes, live))
		return 0;
	return err_set(err, -EBADMSG, "bad recording: more bytes live than have addresses");
}

const char *out_symbol_label(const struct prof *names, const struct prof_frame *frame,
			     const struct symbol *symbol, struct out_label *label)
{
	if (symbol && symbol->function)
		return symbol->function;
	const struct prof_module *module =
		frame->module.v ? prof_module(names, frame->module) : NULL;
	if (module && module->name[0])
		snprintf(label->text, sizeof(label->text), "%.400s+0x%llx", module->name,
			 (unsigned long long)frame->offset);
	else
		snprintf(label->text, sizeof(label->text), "0x%llx",
			 (unsigned long long)frame->offset);
	return label->text;
}

void out_clean_utf8(struct buf *to, const char *text)
{
	for (size_t len = strlen(text), step; len; text += step, len -= step) {
		step = utf8_len(text, len);
		if (!step) {
			buf_puts(to, "\xef\xbf\xbd");
			step = 1;
		} else if ((unsigned char)*text < ' ' || *text == 0x7f) {
			buf_putc(to, ' ');
		} else {
			buf_put(to, text, step);
		}
	}
}

void out_walk_init(struct out_walk *walk, const struct prof *prof, struct stack_id stack)
{
	*walk = (struct out_walk){ .prof = prof, .stack = stack.v, .inner = 1 };
}

int out_walk_next(struct out_walk *walk, struct out_step *step)
{
	while (walk->stack) {
		const struct prof_stack *stack =
			prof_stack(walk->prof, (struct stack_id){ walk->stack });
		if (stack->stop) {
			*step = (struct out_step){ .stop = stack->stop };
			walk->stack = stack->parent.v;
			return 1;
		}
		const struct prof_frame *frame = prof_frame(walk->prof, stack->frame);
		*step = (struct out_step){ .frame = stack->frame, .symbol = walk->symbol };
		const char *function = walk->symbol < frame->symbol_count
					       ? frame->symbols[walk->symbol].function
					       : NULL;
		if (++walk->symbol >= frame->symbol_count) {
			walk->stack = stack->parent.v;
			walk->symbol = 0;
		}
		if (walk->inner && function && view_is_wrapper(function))
			continue;
		walk->inner = 0;
		return 1;
	}
	return 0;
}

char *out_command_line(const struct prof *names)
{
	const struct prof_process *process = prof_process(names);
	struct buf text = { 0 };
	size_t len = process && process->cmdline ? process->cmdline_bytes : 0;
	for (size_t i = 0; i < len; i++) {
		if (!process->cmdline[i] && i && !process->cmdline[i - 1])
			buf_puts(&text, "''");
		if (i + 1 < len || process->cmdline[i])
			buf_putc(&text, process->cmdline[i]);
	}
	if (!len && process && process->exe)
		buf_puts(&text, process->exe);
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			text.data[i] = ' ';
	return buf_take(&text);
}

struct sink *out_stream_sink(struct out_stream *stream)
{
	return &stream->sink;
}

int out_stream_finish(struct out_stream *stream, struct err *err)
{
	if (!stream)
		return 0;
	int rc = stream->finish(stream, err);
	if (rc == 0 && (fflush(stream->to) != 0 || ferror(stream->to)))
		rc = err_set(err, errno ? -errno : -EIO, "cannot write the export");
	out_stream_free(stream);
	return rc;
}

void out_stream_free(struct out_stream *stream)
{
	if (!stream)
		return;
	stream->fini(stream);
	free(stream);
}
