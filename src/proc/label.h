/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.h - short names under which mappings are summed, so that a thousand numbered ones are one
 * row.
 */
#ifndef PROC_LABEL_H
#define PROC_LABEL_H

#include <stddef.h>

#define LABEL_MAX 256

/**
 * label_name() - trailing decimal and hexadecimal numbers of @name become "*": "TNC-17" and "TNC-0"
 * are "TNC-*".
 */
void label_name(char to[LABEL_MAX], const char *name);
/**
 * label_file() - the same for a path: folders that are numbers and numbered file names collapse,
 * the ending stays: "/var/db/000123.sst" is "/var/db/" "*.sst". " (deleted)" is left out. Paths too
 * long keep their end.
 */
void label_file(char to[LABEL_MAX], const char *path);
/**
 * label_base() - the file name alone, without " (deleted)"; nothing collapses (libraries carry
 * version numbers).
 */
void label_base(char to[LABEL_MAX], const char *path);

#endif
