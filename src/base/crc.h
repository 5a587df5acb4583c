/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc.h - CRC-32 (the polynomial of zlib and gzip), for data that must be told from damaged data.
 */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/** crc_32() - checksum of @len bytes, continuing from @seed (0 to begin); some 1 GB/s. */
uint32_t crc_32(uint32_t seed, const void *bytes, size_t len);

#endif
