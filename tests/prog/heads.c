/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heads.c - what the preload library thinks of machine code, for comparison with a disassembler.
 *
 *	heads lengths < OUTPUT     of objdump -dwz: every instruction whose length is another one there; then how many there were
 *	heads FILE < FUNCTIONS     lines "offset size name", in hex: how many bytes of each must move, and how many they become
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "patch/patch.h"

#define LONGEST 15
#define LINE 400

struct count {
	unsigned long compared, bad;
};

/* " addr:\thex bytes \ttext". Return: how many bytes stand there; 0: it is another kind of line. */
static unsigned read_line(char *line, uint8_t *code, char **text)
{
	char *at = strchr(line, ':');
	unsigned bytes = 0;
	if (line[0] != ' ' || !at || at[1] != '\t')
		return 0;
	for (at += 2; bytes < 2 * LONGEST && isxdigit((unsigned char)at[0]); at += 3)
		code[bytes++] = (uint8_t)strtoul(at, NULL, 16);
	at = strchr(at, '\t');
	*text = at ? at + 1 : line + strlen(line);
	return bytes;
}

/* What is no instruction there may be anything here. */
static void judge(const char *text, const uint8_t *code, unsigned bytes, unsigned left,
		  struct count *all)
{
	if (strstr(text, "(bad)")) {
		all->bad++;
		return;
	}
	/* objdump makes one of a wait and what waits; and says by itself that prefixes belong to nothing */
	unsigned skip = code[0] == 0x9b && bytes > 1;
	unsigned ours = patch_length(code + skip, left - skip);
	all->compared++;
	if (ours + skip == bytes)
		return;
	printf("%u instead of %u:", ours, bytes);
	for (unsigned i = 0; i < bytes; i++)
		printf(" %02x", code[i]);
	printf("\t%s\n", text);
}

static int lengths(void)
{
	struct count all = { 0 };
	static uint8_t code[1 << 16];
	static char line[LINE], texts[256][LINE];
	unsigned begin[257], lines = 0, end = 0;
	for (int more = 1; more;) {
		more = fgets(line, sizeof(line), stdin) != NULL;
		line[strcspn(line, "\n")] = 0;
		char *text = line;
		unsigned bytes = more ? read_line(line, code + end, &text) : 0;
		if (bytes) {
			begin[lines] = end;
			strcpy(texts[lines++], text);
			end += bytes;
		}
		if (bytes && lines < 256)
			continue;
		if (!more && lines)
			end = begin
				[--lines]; /* where the reading was told to stop, maybe in its midst */
		/* the last lines of a piece are judged with what there is, the others with more behind them */
		unsigned keep = bytes ? 16 : 0;
		begin[lines] = end;
		for (unsigned i = 0; i + keep < lines; i++)
			judge(texts[i], code + begin[i], begin[i + 1] - begin[i], end - begin[i],
			      &all);
		unsigned first = lines > keep ? lines - keep : 0;
		memmove(code, code + begin[first], end - begin[first]);
		end -= begin[first];
		for (unsigned i = first, base = begin[first]; i < lines; i++) {
			strcpy(texts[i - first], texts[i]);
			begin[i - first] = begin[i] - base;
		}
		lines -= first;
	}
	printf("compared %lu, bad %lu\n", all.compared, all.bad);
	return 0;
}

static int heads(const char *path)
{
	FILE *file = fopen(path, "rb");
	char line[LINE], name[LINE];
	unsigned long offset, size;
	if (!file)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		uint8_t *code = NULL;
		if (sscanf(line, "%lx %lx %399s", &offset, &size, name) != 3 ||
		    !(code = malloc(size + PATCH_MOVED_MAX)) ||
		    fseek(file, (long)offset, SEEK_SET) || fread(code, 1, size, file) != size)
			return 1;
		unsigned head = patch_head(code, size);
		printf("%s %u %u\n", name, head, head ? patch_move(code + size, code, head) : 0);
		free(code);
	}
	fclose(file);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	return strcmp(argv[1], "lengths") ? heads(argv[1]) : lengths();
}
