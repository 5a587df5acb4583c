/* SPDX-License-Identifier: Apache-2.0 */
/* p2pio.h - every way in which a program may move bytes through a TCP socket, by name; for p2pnode.c. Errors end the program. */
#ifndef P2PIO_H
#define P2PIO_H

#include <stddef.h>

struct p2pio;
/** p2pio_new() - @way: write writev send sendto sendmsg sendmmsg sendfile splice uring, or read readv recv recvmsg recvmmsg peek splice uring. */
struct p2pio *p2pio_new(const char *way, int sending);
/** p2pio_send() - all of it, in pieces of at most @piece bytes a call (0 = as many as the way takes). */
void p2pio_send(struct p2pio *io, int fd, const void *bytes, size_t len, size_t piece);
/** p2pio_receive() - some bytes, 0 at the end of the stream. */
size_t p2pio_receive(struct p2pio *io, int fd, void *bytes, size_t cap);
void p2pio_free(struct p2pio *io);
/** p2pio_die() - print what failed with errno's text, exit with status 1. */
void p2pio_die(const char *what) __attribute__((noreturn));

#endif
