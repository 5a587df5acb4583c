/* SPDX-License-Identifier: Apache-2.0 */
#include "out/wrap.h"

#include <string.h>

#include "base/text.h"

void out_wrap(FILE *to, size_t width, size_t at, size_t indent, const char *text)
{
	while (*text) {
		const char *word = text + strspn(text, " ");
		size_t len = strcspn(word, " "), columns;
		char keep[512];
		snprintf(keep, sizeof(keep), "%.*s", (int)(len < 511 ? len : 511), word);
		columns = text_columns(keep);
		if (!len)
			break;
		if (at > indent && at + 1 + columns > width) {
			fprintf(to, "\n%*s", (int)indent, "");
			at = indent;
		} else if (word != text || at > indent) {
			if (at > indent) {
				fputc(' ', to);
				at++;
			}
		}
		for (char *hard = keep;
		     (hard = strstr(hard, "\xc2\xa0"));) { /* keeps words together */
			*hard = ' ';
			memmove(hard + 1, hard + 2, strlen(hard + 2) + 1);
		}
		fputs(keep, to);
		at += columns;
		text = word + len;
	}
	fputc('\n', to);
}

void out_wrap_beside(FILE *to, size_t width, size_t indent, const char *text, const char *right)
{
	/* two blanks between, or it reads like one line */
	size_t room = width - indent - strlen(right) - 2, fits = strlen(text);
	if (text_columns(text) > room) {
		/* the last blank before the room ends */
		fits = text_fit(text, room);
		while (fits && text[fits] != ' ')
			fits--;
		fits = fits ? fits : text_fit(text, room);
	}
	char line[512];
	snprintf(line, sizeof(line), "%.*s", (int)(fits < 511 ? fits : 511), text);
	fprintf(to, "%s%*s\n", line, (int)(width - indent - text_columns(line)), right);
	text += fits + strspn(text + fits, " ");
	if (!*text)
		return;
	fprintf(to, "%*s", (int)indent, "");
	out_wrap(to, width - strlen(right) - 2, indent, indent, text);
}
