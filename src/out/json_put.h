/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_put.h - what the report as JSON and the server's answers say in the same words.
 *
 * Each writes into an object that is open and takes nothing; errors stay in the writer until its
 * end.
 */
#ifndef BYTELEDGER_OUT_JSON_PUT_H
#define BYTELEDGER_OUT_JSON_PUT_H

#include "base/jsonw.h"
#include "model/prof.h"

/** json_totals() - the members of "totals"; @live and @live_bytes are what lives, leaked or not. */
void json_totals(struct jsonw *json, const struct prof *prof, const struct prof_totals *t,
		 uint64_t live, uint64_t live_bytes);

/** json_lost() - "lost": events and bytes, by reason. */
void json_lost(struct jsonw *json, const struct prof_totals *t);

/** json_partial() - stacks that end early, by reason, as a member @name. */
void json_partial(struct jsonw *json, const char *name, const struct prof_totals *t);

#endif
