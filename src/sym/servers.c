/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/servers.h"

#include "sym/opener.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include <elfutils/debuginfod.h>

#include "base/clock.h"
#include "sym/sym.h"

#define GRACE_S 2           /* where the library does not see to it that its time is over */
#define PROGRESS_BYTES 1024 /* fewer are the client's count of its own rounds */

/**
 * struct client - the library, loaded only when asked for: it brings a whole HTTP client into the
 * process.
 */
struct client {
	__typeof__(&debuginfod_begin) begin;
	__typeof__(&debuginfod_end) end;
	__typeof__(&debuginfod_find_debuginfo) find;
	__typeof__(&debuginfod_set_progressfn) set_progress;
	__typeof__(&debuginfod_set_user_data) set_data;
	__typeof__(&debuginfod_get_user_data) data;
};

/** struct wait - for one file. */
struct wait {
	struct servers *servers;
	/* since the last byte */
	uint64_t since_ns, patience_ns;
	long bytes;
	int over;
};

static _Thread_local const struct client *current; /* of the call under way */

static int load(struct client *c)
{
	void *lib = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return -ENOSYS;
	c->begin = (__typeof__(c->begin))dlsym(lib, "debuginfod_begin");
	c->end = (__typeof__(c->end))dlsym(lib, "debuginfod_end");
	c->find = (__typeof__(c->find))dlsym(lib, "debuginfod_find_debuginfo");
	c->set_progress = (__typeof__(c->set_progress))dlsym(lib, "debuginfod_set_progressfn");
	c->set_data = (__typeof__(c->set_data))dlsym(lib, "debuginfod_set_user_data");
	c->data = (__typeof__(c->data))dlsym(lib, "debuginfod_get_user_data");
	/* never closed: the client library keeps process-wide state */
	return c->begin && c->end && c->find && c->set_progress && c->set_data && c->data ? 0
											  : -ENOSYS;
}

/* @done: bytes that came, or while none did, the client's rounds. Return: 1 to give up. */
static int look(debuginfod_client *client, long done, long total)
{
	struct wait *w = current->data(client);
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	(void)total;
	if (done - w->bytes >= PROGRESS_BYTES) {
		w->bytes = done;
		w->since_ns = now;
	}
	if (w->servers->tick)
		w->servers->tick(w->servers->tick_ctx);
	w->over = now - w->since_ns > w->patience_ns;
	return w->over;
}

int servers_named(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	return urls && *urls;
}

int servers_find(struct servers *servers, const uint8_t *build_id, uint8_t len, char **path)
{
	struct client c;
	int fd;
	*path = NULL;
	if (!servers_named() || !len || servers->failed)
		return -ENOENT;
	if (opener_ask(OPENER_SERVER, (const char *)build_id, len, 0, path, &fd)) {
		if (fd < 0 && fd != -ENOENT && fd != -EBADMSG)
			servers->failed = fd;
		return fd;
	}
	int rc = load(&c);
	debuginfod_client *client = rc == 0 ? c.begin() : NULL;
	if (rc < 0 || !client)
		return servers->failed = rc < 0 ? rc : -ENOMEM;
	/*
	 * the library has no other way to be told; its own end of waiting leaves no note that
	 * nobody has the file
	 */
	setenv("DEBUGINFOD_TIMEOUT", SERVERS_PATIENCE, 0);
	setenv("DEBUGINFOD_RETRY_LIMIT", "0", 0);
	unsigned long seconds = strtoul(getenv("DEBUGINFOD_TIMEOUT"), NULL, 10);
	seconds = !seconds || seconds > 86400 ? 86400 : seconds; /* 0 is for ever, to the library */
	struct wait wait = { .servers = servers,
			     .since_ns = clock_ns(CLOCK_MONOTONIC),
			     .patience_ns = (seconds + GRACE_S) * NS_PER_S };
	current = &c;
	c.set_data(client, &wait);
	c.set_progress(client, look);
	rc = c.find(client, build_id, len, path);
	c.end(client);
	current = NULL;
	if (rc == -ETIME || (rc < 0 && wait.over))
		rc = -ETIMEDOUT;
	if (rc < 0 && rc != -ENOENT)
		servers->failed = rc;
	return rc;
}

int sym_servers_try(struct err *err)
{
	if (!servers_named())
		return err_set(err, -ENOMSG, "DEBUGINFOD_URLS names no server");
	/* a new id each time: the client remembers which ids nobody had, and would not ask again */
	unsigned char id[20] = { 0x5a };
	if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		id[1] = (unsigned char)getpid();
	struct servers servers = { 0 };
	char *path;
	int fd = servers_find(&servers, id, sizeof(id), &path);
	free(path);
	if (fd >= 0) {
		close(fd);
		return err_set(err, -EBADMSG, "a server claims to have a file that cannot exist");
	}
	/* "no such file" is the answer of a server that works */
	return fd == -ENOENT ? 0 : err_set(err, fd, "cannot reach the debuginfod server");
}
