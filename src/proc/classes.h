/* SPDX-License-Identifier: Apache-2.0 */
/*
 * classes.h - the words by which memory is called: every class with what it means, and the labels
 * that are not the program's own names.
 */
#ifndef PROC_CLASSES_H
#define PROC_CLASSES_H

#include <stddef.h>

#include "proc/region.h"

#define CLASS_BESIDE \
	REGION_CLASS_COUNT /* what is no part of RSS: watches, histories and rules know it */
#define CLASS_BESIDE_WORD "beside"

/** struct class_label - @label of @class, always written like this. */
struct class_label {
	unsigned class;
	const char *label, *about;
};
extern const struct class_label class_labels[];
extern const size_t class_label_count;

/** class_about() - one line on what memory of @class is. */
const char *class_about(unsigned class);
/**
 * class_is_open() - labels of it may be any name: of files, of modules, or those that programs
 * give.
 */
int class_is_open(unsigned class);
/**
 * classes_know() - whether memory may be called @name: a class, a label of the table,
 * "CLASS/LABEL", the path of a file, or the file name of a library. *@nearest: the known word that
 * resembles it most, or NULL.
 */
int classes_know(const char *name, const char **nearest);

#endif
