/* SPDX-License-Identifier: Apache-2.0 */
/* zonce.h - a whole body of bytes compressed at once, little effort, as HTTP takes it. */
#ifndef BASE_ZONCE_H
#define BASE_ZONCE_H

#include "base/buf.h"

/**
 * zonce_gzip(), zonce_zstd() - append one member, or frame, of @len bytes to @to, level 1. 0,
 * -ENOMEM.
 */
int zonce_gzip(struct buf *to, const void *from, size_t len);
int zonce_zstd(struct buf *to, const void *from, size_t len);

#endif
