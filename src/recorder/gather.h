/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.h - recordings that other processes send while they write them (wire/send.h), into files
 * of a folder. While one grows it is a recording that is being written, to every reader; at its end
 * it is the sender's, byte by byte. One thread; nothing is printed.
 */
#ifndef RECORDER_GATHER_H
#define RECORDER_GATHER_H

#include "base/err.h"

struct gather;

#define GATHER_RECORDINGS_MAX 64

struct gather_opt {
	/* "ADDR:PORT" and what address_parse() takes, or "unix:PATH"; NULL: 127.0.0.1:17833 */
	const char *address;
	/* NULL: none is asked for, which an address beyond loopback permits only with @no_auth */
	const char *token_file;
	int no_auth;
	/* where files go; NULL: here */
	const char *folder;
	/* what begins and ends, and what was refused: one line each */
	void (*tell)(const char *text);
	void (*trouble)(const char *text);
};

/** gather_open() - listen, and tell where, as a sender names it; NULL with @err. */
struct gather *gather_open(const struct gather_opt *opt, struct err *err);
/**
 * gather_run() - receive until @stop is readable. What had not ended by then can be read up to
 * there, and goes on where its sender finds another receiver for the folder.
 */
int gather_run(struct gather *gather, int stop, struct err *err);
void gather_freep(struct gather **gather);

#endif
