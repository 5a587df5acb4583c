/* SPDX-License-Identifier: Apache-2.0 */
/* page_none.c - the table of a build without the page. */
#include "api/page.h"

const struct page_asset page_assets[1] = { { 0 } };
const size_t page_asset_count = 0;
