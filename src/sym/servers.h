/* SPDX-License-Identifier: Apache-2.0 */
/*
 * servers.h - the debuginfod servers of DEBUGINFOD_URLS. The client library waits 90 seconds for
 * each file, three times, and a report asks for dozens: so a server that says nothing is given up
 * after SERVERS_PATIENCE, and with it all others.
 */
#ifndef SYM_SERVERS_H
#define SYM_SERVERS_H

#include <stdint.h>

#define SERVERS_PATIENCE "10" /* seconds with hardly a byte; DEBUGINFOD_TIMEOUT says otherwise */

struct servers {
	/* negative errno: one did not answer, none is asked any more */
	int failed;
	/* called some times a second while one is waited for; may be NULL */
	void (*tick)(void *ctx);
	void *tick_ctx;
};

/** servers_named() - 1 if DEBUGINFOD_URLS names any. */
int servers_named(void);
/**
 * servers_find() - ask for the debug file with that build id. Blocks: see above. Not thread-safe.
 * Return: a descriptor, *@path malloc'd where it is kept; -ENOENT: nobody has it, or none is named;
 * other negative errno: nobody answered.
 */
int servers_find(struct servers *servers, const uint8_t *build_id, uint8_t len, char **path);

#endif
