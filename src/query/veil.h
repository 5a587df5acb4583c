/* SPDX-License-Identifier: Apache-2.0 */
/* veil.h - definitions on their way into a recording that is given to somebody else. */
#ifndef QUERY_VEIL_H
#define QUERY_VEIL_H

#include <stdint.h>

#include "model/event.h"

/**
 * enum veil_how - VEIL_PARTLY: of paths the last part, of the command line its first word.
 * VEIL_FULLY: for the program, its libraries, source files, functions and threads there stand
 * "program", "lib_1", "src_1", "fn_1", "thread_1", the same for the same name, and nothing by which
 * a file could be known again: no build id, process id or wall clock. With either no rules go on.
 */
enum veil_how { VEIL_NOTHING, VEIL_PARTLY, VEIL_FULLY };

/** struct veil - a sink before @to. Events go on as they are. Memory: each name once. */
struct veil;
struct veil *veil_new(enum veil_how how, struct sink *to, struct err *err);
struct sink *veil_sink(struct veil *veil);
void veil_freep(struct veil **veil);

#endif
