/* SPDX-License-Identifier: Apache-2.0 */
/* heapfiles.h - heaps/files.h by the names of ELF files, opened below the process's root. */
#ifndef SOURCE_HEAPFILES_H
#define SOURCE_HEAPFILES_H

#include "heaps/files.h"

/** heapfiles - lent for ever; any thread. A name costs a pass over the file's symbols. */
extern const struct heap_files heapfiles;

#endif
