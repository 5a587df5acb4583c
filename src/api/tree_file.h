/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_file.h - /v1/tree of a recording: the readings of resident pages that `run` took along. Any
 * thread.
 */
#ifndef API_TREE_FILE_H
#define API_TREE_FILE_H

#include "api/tree.h"
#include "base/err.h"

struct tree_file;

/** tree_file_new() - of no recording yet: every answer is empty. NULL with @err. */
struct tree_file *tree_file_new(struct err *err);
/**
 * tree_file_add() - one more recording, which may still be written; the last added that has
 * readings is served. 0 or -ENOMEM.
 */
int tree_file_add(struct tree_file *file, const char *path);
void tree_file_free(struct tree_file *file);
/** tree_file_source() - for tree_route(); "now" is the last reading. Lent. */
struct tree_source *tree_file_source(struct tree_file *file);

#endif
