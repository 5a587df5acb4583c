/* SPDX-License-Identifier: Apache-2.0 */
/* paged_impl.h - what both sides of PAGES blocks agree on. */
#ifndef TRACE_PAGED_IMPL_H
#define TRACE_PAGED_IMPL_H

#define PAGED_VERSION 1
enum { PAGED_READING = 0, PAGED_NAMES = 1 };
#define PAGED_SYMBOLS_MAX 1024u
#define NAMES_ROWS_MAX 65536u
#define NAMES_BYTES (8u << 20) /* of one block of names; more go into the next */

#endif
