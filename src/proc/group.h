/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - the same mappings added up otherwise: by file, or by module. */
#ifndef PROC_GROUP_H
#define PROC_GROUP_H

#include "proc/breakdown.h"
#include "proc/text.h"

enum regions_group {
	GROUP_LABEL,
	GROUP_VMA,
	GROUP_FILE,
	GROUP_MODULE,
	GROUP_THREAD,
	GROUP_PROCESS
};

/**
 * breakdown_group() - sums by the file behind each mapping (GROUP_FILE; bss belongs to its module's
 * file) or by program and library (GROUP_MODULE); what has neither is summed by class,
 * "(anonymous)". Rows add up to the whole, come in order of
 * @sort, and lend their text from @b. Only where every mapping was kept. Return: malloc'd; NULL
 * without memory.
 */
struct class_row *breakdown_group(const struct breakdown *b, enum regions_group by,
				  enum regions_sort sort, size_t *count);

/** regions_text_groups() - the table of such rows, at most @opt->top unless @opt->all. */
void regions_text_groups(struct buf *to, const struct breakdown *b, const struct class_row *rows,
			 size_t count, const struct regions_text_opt *opt);

#endif
