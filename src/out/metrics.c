/* SPDX-License-Identifier: Apache-2.0 */
#include "out/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

void metric_family(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metric_begin(struct buf *out, const char *name)
{
	buf_puts(out, name);
}

void metric_label(struct buf *out, const char *key, const char *value)
{
	/* the first label opens the braces: a name ends in a letter, a label in a quote */
	buf_putc(out, out->len && out->data[out->len - 1] == '"' ? ',' : '{');
	buf_printf(out, "%s=\"", key);
	/*
	 * Names are bytes, the format is UTF-8: one odd byte would cost the whole scrape. Spelled
	 * as on terminals, so that two such names stay two series.
	 */
	for (size_t left = strlen(value), step; left; value += step, left -= step) {
		step = utf8_len(value, left);
		if (!step) {
			buf_printf(out, "\\\\x%02x", (unsigned char)*value);
			step = 1;
		} else if (*value == '\n') {
			buf_puts(out, "\\n");
		} else {
			if (*value == '\\' || *value == '"')
				buf_putc(out, '\\');
			buf_put(out, value, step);
		}
	}
	buf_putc(out, '"');
}

static void end_labels(struct buf *out)
{
	if (out->len && out->data[out->len - 1] == '"')
		buf_putc(out, '}');
	buf_putc(out, ' ');
}

void metric_u64(struct buf *out, uint64_t value)
{
	end_labels(out);
	buf_printf(out, "%" PRIu64 "\n", value);
}

void metric_double(struct buf *out, double value)
{
	end_labels(out);
	buf_printf(out, "%.9g\n", value);
}
