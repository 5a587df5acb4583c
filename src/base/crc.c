/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc.h"

#include <zlib.h>

uint32_t crc_32(uint32_t seed, const void *bytes, size_t len)
{
	return (uint32_t)crc32_z(seed, bytes, len);
}
