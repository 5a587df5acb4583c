/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - addresses to listen on, as they are typed and shown. */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/err.h"

/**
 * address_host() - "host", "host:port", "[v6]:port": the host part in lower case without brackets;
 * -1 where the text is no such thing.
 */
int address_host(const char *text, char *host, size_t cap);
int address_is_ip(const char *host);
int address_is_loopback(const char *host);
/**
 * address_parse() - "ADDR:PORT", "[v6]:PORT", "ADDR", ":PORT", "PORT" or NULL into a socket
 * address; what is missing is 127.0.0.1 and @default_port. @loopback: only this machine reaches it.
 */
int address_parse(const char *text, unsigned default_port, struct sockaddr_storage *out,
		  socklen_t *len, int *loopback, struct err *err);
/** address_listen() - a socket that listens there, not blocking; negative errno with @err. */
int address_listen(const char *text, unsigned default_port, int backlog, int *loopback,
		   struct err *err);
/** address_text() - an IPv4 or IPv6 address and its port, as address_parse() reads them. */
void address_text(const struct sockaddr_storage *addr, char *to, size_t size);

#endif
