/* SPDX-License-Identifier: Apache-2.0 */
/* regions.h - a breakdown for machines: JSON, CSV. */
#ifndef OUT_REGIONS_H
#define OUT_REGIONS_H

#include <stdio.h>

#include "base/err.h"
#include "base/jsonw.h"
#include "proc/breakdown.h"
#include "proc/group.h"
#include "proc/ledger.h"
#include "proc/text.h"

struct out_regions_opt {
	/* mappings in the result; 0 = none */
	size_t top;
	/* every mapping */
	int all;
	enum regions_sort sort;
	/* of each row of classes, bytes since some time: `growth_bytes`; NULL: not asked for */
	const int64_t *growth;
	/* HTTP's addresses=off: addresses are 0, ASLR stays worth something */
	int no_addresses;
};

/**
 * out_regions_json() - one object as a value of @json (@key NULL at the top or in an array).
 * Figures that a quick reading does not have are null. @age_ns: time since the reading.
 */
int out_regions_json(struct jsonw *json, const char *key, const struct breakdown *b,
		     const struct out_regions_opt *opt, uint64_t age_ns, struct err *err);
/**
 * out_regions_file() - all of it as JSON in a file of its own here, byteledger_COMM_PID.json; what
 * exists is kept: ".1", ".2" ... is appended. *@made: its name, malloc'd.
 */
int out_regions_file(const struct breakdown *b, const char *comm, char **made, struct err *err);
/** out_ledger_json() - several processes as one: @title, processes, classes by PSS, the cgroup. */
int out_ledger_json(struct jsonw *json, const struct ledger *ledger, const char *title,
		    struct err *err);
/** out_regions_csv() - one line a mapping, RFC 4180, with a header line if @header. */
int out_regions_csv(FILE *to, const struct breakdown *b, const struct out_regions_opt *opt,
		    int header, struct err *err);

/** out_regions_groups() - the page of `regions` with another middle: by @group. */
void out_regions_groups(struct buf *text, const struct breakdown *b, enum regions_group group,
			struct regions_text_opt *opt);
/** out_classes_text() - the words by which memory is called, which alert rules may name. */
void out_classes_text(FILE *to);

#endif
