/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.h - the answers of the page's API for a face in the same process: of recordings, stores and
 * one process, without a port, or of a server that runs already. Any thread, one question at a
 * time.
 */
#ifndef API_REACH_H
#define API_REACH_H

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct reach;
/**
 * reach_file() - a recording, a store of a recorded node, or a folder of recordings. Nothing is
 * read before it is asked for. NULL with @err.
 */
struct reach *reach_file(const char *path, struct err *err);
/**
 * reach_process() - one that is looked at from now on, by a thread of its own, and its recording
 * where it is being recorded. NULL with @err.
 */
struct reach *reach_process(pid_t pid, struct err *err);
/** reach_is_server() - is @text the address of a server, "http://..."? */
int reach_is_server(const char *text);
/**
 * reach_server() - one that was told by `--serve`: "http://127.0.0.1:17832/", with "?token=T" where
 * it asks for one. NULL with @err.
 */
struct reach *reach_server(const char *url, struct err *err);
/**
 * reach_ask() - what a GET of @what ("/api/v1/summary?src=0") is answered, into @to. @stop: not 0
 * from another thread, and the question is given up soon. Return: the status; negative errno with
 * @err where there is no answer.
 */
int reach_ask(struct reach *reach, const char *what, const atomic_int *stop, struct buf *to,
	      struct err *err);
void reach_free(struct reach *reach);

/**
 * Private, and the fuzzer's: reach_read() - @answer, all that a server sent, its body into @to.
 * Return: its status; -EBADMSG: that is no answer.
 */
int reach_read(struct buf *answer, struct buf *to);

#endif
