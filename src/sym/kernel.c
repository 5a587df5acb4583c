/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fileio.h"
#include "base/intern.h"

#define KERNEL_HALF 0x8000000000000000ull
#define FUNCTION_MAX \
	(1u << 20) /* no function is longer: what lies behind the last one has no name */

struct entry {
	uint64_t addr;
	const char *name, *module;
};

struct kernel_names {
	struct entry *all;
	size_t count, cap;
	struct intern texts;
};

static int by_addr(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

static int take(struct kernel_names *names, const char *line)
{
	char type, name[256], module[64] = "";
	uint64_t addr;
	if (sscanf(line, "%" SCNx64 " %c %255s [%63[^]]]", &addr, &type, name, module) < 3 ||
	    !strchr("tTwW", type) || addr < KERNEL_HALF)
		return 0;
	if (names->count == names->cap) {
		size_t cap = names->cap ? names->cap * 2 : 65536;
		struct entry *grown = reallocarray(names->all, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		names->all = grown;
		names->cap = cap;
	}
	struct entry *e = &names->all[names->count];
	*e = (struct entry){ addr, intern_str(&names->texts, name),
			     intern_str(&names->texts, module) };
	if (!e->name || !e->module)
		return -ENOMEM;
	names->count++;
	return 0;
}

struct kernel_names *kernel_names_new(struct err *err)
{
	CLEANUP(fileio_fclosep) FILE *file = fopen("/proc/kallsyms", "re");
	struct kernel_names *names = file ? calloc(1, sizeof(*names)) : NULL;
	char line[512];
	int rc = 0;
	if (!names) {
		err_set(err, file ? -ENOMEM : -errno, "cannot read '/proc/kallsyms'");
		return NULL;
	}
	while (!rc && fgets(line, sizeof(line), file))
		rc = take(names, line);
	if (!rc && !names->count) {
		rc = err_set(err, -EPERM, "the kernel hides the addresses of its functions");
		err_hint(err, "run as root, with kernel.kptr_restrict at 0 or 1");
	} else if (rc) {
		err_set(err, rc, "cannot keep the kernel's names");
	}
	if (rc) {
		kernel_names_free(names);
		return NULL;
	}
	qsort(names->all, names->count, sizeof(*names->all), by_addr);
	return names;
}

void kernel_names_free(struct kernel_names *names)
{
	if (!names)
		return;
	intern_fini(&names->texts);
	free(names->all);
	free(names);
}

const char *kernel_names_find(const struct kernel_names *names, uint64_t addr, const char **module)
{
	size_t lo = 0, hi = names ? names->count : 0;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (names->all[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || addr - names->all[lo - 1].addr > FUNCTION_MAX)
		return NULL;
	if (module)
		*module = names->all[lo - 1].module;
	return names->all[lo - 1].name;
}
