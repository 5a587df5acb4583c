/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sqlshell.c - as much of sqlite3's shell as the tests use, over the library: where the shell has sqlite within itself (Debian sid) its
 * functions have no names.
 *
 * usage: sqlshell DATABASE [SQL]      without SQL: from stdin
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static int row(void *ctx, int count, char **values, char **names)
{
	(void)ctx, (void)names;
	for (int i = 0; i < count; i++)
		printf("%s%s", i ? "|" : "", values[i] ? values[i] : "");
	putchar('\n');
	return 0;
}

static char *read_all(FILE *from)
{
	size_t used = 0, room = 1 << 16, got;
	char *text = malloc(room);
	while (text && (got = fread(text + used, 1, room - used - 1, from)) > 0) {
		used += got;
		if (room - used == 1)
			text = realloc(text, room *= 2);
	}
	if (text)
		text[used] = '\0';
	return text;
}

int main(int argc, char **argv)
{
	sqlite3 *db = NULL;
	char *script = argc > 2 ? argv[2] : read_all(stdin), *error = NULL;
	int failed = argc < 2 || !script || sqlite3_open(argv[1], &db) != SQLITE_OK ||
		     sqlite3_exec(db, script, row, NULL, &error) != SQLITE_OK;
	if (failed)
		fprintf(stderr, "sqlshell: %s\n", error ? error : "cannot");
	sqlite3_free(error);
	sqlite3_close(db);
	if (argc < 3)
		free(script);
	return failed;
}
