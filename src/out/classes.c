/* SPDX-License-Identifier: Apache-2.0 */
/* classes.c - the words by which memory is called, and a breakdown by some of them. */
#include <stdlib.h>

#include "out/regions.h"
#include "proc/classes.h"

void out_regions_groups(struct buf *text, const struct breakdown *b, enum regions_group group,
			struct regions_text_opt *opt)
{
	regions_text_head(text, b, opt);
	if (group == GROUP_VMA) {
		regions_text_mappings(text, b, opt);
	} else if (group == GROUP_THREAD) {
		opt->all = 1;
		regions_text_threads(text, b, opt);
	} else {
		size_t count;
		struct class_row *rows = breakdown_group(b, group, opt->sort, &count);
		if (rows)
			regions_text_groups(text, b, rows, count, opt);
		else
			text->failed = 1;
		free(rows);
	}
}

void out_classes_text(FILE *to)
{
	for (unsigned class = 0; class < REGION_CLASS_COUNT; class ++) {
		fprintf(to, "%-18s %s\n", region_class_name(class), class_about(class));
		for (size_t i = 0; i < class_label_count; i++)
			if (class_labels[i].class == class)
				fprintf(to, "  %-22s %s\n", class_labels[i].label,
					class_labels[i].about);
	}
	fprintf(to, "%-18s %s\n", CLASS_BESIDE_WORD,
		"no part of RSS; in watches, histories and rules");
	for (size_t i = 0; i < class_label_count; i++)
		if (class_labels[i].class == CLASS_BESIDE)
			fprintf(to, "  %-22s %s\n", class_labels[i].label, class_labels[i].about);
	fprintf(to, "\nA rule names a class (rss:runtime>1G), a label (rss:Go heap>1G), or both "
		    "(rss:named/MY NAME>1G),\na file by its path and a library by its file "
		    "name.\n");
}
