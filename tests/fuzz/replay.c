/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - feed every file of a corpus folder to a fuzz target; TAP, one case a file. Without libFuzzer, any compiler. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int plain_file(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* An exact-size heap copy, so that a sanitizer sees a read past the end. */
static uint8_t *read_all(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	if (!file)
		return NULL;
	uint8_t *data = NULL;
	long end = -1;
	if (fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) >= 0 &&
	    fseek(file, 0, SEEK_SET) == 0)
		data = malloc(end ? (size_t)end : 1);
	if (data && fread(data, 1, (size_t)end, file) != (size_t)end) {
		free(data);
		data = NULL;
	}
	fclose(file);
	*size = data ? (size_t)end : 0;
	return data;
}

int main(int argc, char **argv)
{
	struct dirent **names = NULL;
	int count = argc == 2 ? scandir(argv[1], &names, plain_file, alphasort) : -1;
	if (count <= 0) {
		printf("Bail out! no corpus in '%s'\n", argc == 2 ? argv[1] : "(none given)");
		return 1;
	}
	int failed = 0;
	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		char path[4096];
		size_t size = 0;
		snprintf(path, sizeof(path), "%s/%s", argv[1], names[i]->d_name);
		uint8_t *data = read_all(path, &size);
		/* a crash ends the program before its line: TAP's plan then shows the case as missing */
		if (data)
			LLVMFuzzerTestOneInput(data, size);
		printf("%s %d - %s\n", data ? "ok" : "not ok", i + 1, names[i]->d_name);
		fflush(stdout);
		failed += !data;
		free(data);
		free(names[i]);
	}
	free(names);
	return failed != 0;
}
