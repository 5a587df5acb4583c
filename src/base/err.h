/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h - errors that travel: a negative errno, one line of text, and a hint the reader can act on.
 *
 * Rooms never print. A failing function fills the caller's struct err and returns its (negative)
 * code; each caller that knows more prepends it; cmd/ prints once:
 *     byteledger: MESSAGE
 *     hint: HINT
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/cleanup.h"

/** struct err - sits on the caller's stack; zero-initialised (or err_init()) means "no error". */
struct err {
	/* negative errno, 0 = none */
	int code;
	char msg[1024];
	char hint[512];
};

/** err_init() - forget whatever @err held. */
void err_init(struct err *err);

/**
 * err_set() - state a failure: lower case, failure first, subject quoted, no full stop.
 * @err: may be NULL. @code: negative errno; for one that stems from a system call ": strerror" is
 *   appended
 * when @code is not -EINVAL, -ENOMSG or -EBADMSG (those describe data, not a call).
 * Return: @code, so that `return err_set(...)` works. Clears any hint.
 */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF(3, 4);

/** err_wrap() - prepend "text: " to the message; returns err's code (or -EIO for NULL). */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF(2, 3);

/** err_usual_hint() - what mostly helps against the negative errno @code; NULL: nobody knows. */
const char *err_usual_hint(int code);
/** err_hint() - set the hint line; returns err's code (or -EIO for NULL). */
int err_hint(struct err *err, const char *fmt, ...) PRINTF(2, 3);

#endif
