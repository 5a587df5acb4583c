/* SPDX-License-Identifier: Apache-2.0 */
/*
 * classify_names.h - what the names of mappings mean: pseudo names, VMA names and who sets them,
 * special files.
 */
#ifndef PROC_CLASSIFY_NAMES_H
#define PROC_CLASSIFY_NAMES_H

#include "proc/label.h"
#include "proc/region.h"

struct name_rule {
	enum region_class class;
	enum region_how how;
	int main_stack;
	/* in the names of thread stacks; 0 = none */
	long tid;
};

/**
 * name_is_special() - a name that begins with '/' but is no ordinary file: memfd, SysV and POSIX
 * shm, devices.
 */
int name_is_special(const char *name);
/**
 * name_rule() - class, label and owner ("" = unknown) of a mapping with that name. 0 where no rule
 * knows it; ordinary files are not asked about here.
 */
int name_rule(const char *name, struct name_rule *rule, char label[LABEL_MAX],
	      char owner[LABEL_MAX]);

#endif
