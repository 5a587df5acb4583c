/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/gather.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/token.h"
#include "recorder/gathered.h"
#include "recorder/incoming.h"

/* Who has said no hello yet cannot keep others out: the oldest of them goes. */
#define TALKS_MAX (2 * GATHER_RECORDINGS_MAX)
#define HELLO_WAIT_NS (10 * NS_PER_S)
#define SILENCE_NS (4 * WIRE_SEND_ALIVE_S * NS_PER_S)
/* A recording whose sender is lost is awaited so long before readers are told that it ends. */
#define RETURN_NS (15 * NS_PER_S)
#define BACKLOG 64
#define LOOK_MS 500
#define NO_FILES_NS 50000000

struct talk {
	/* -1: free */
	int fd;
	struct incoming in;
	char from[80];
	/* NULL before the hello */
	struct gathered *file;
	uint64_t began_ns, heard_ns;
};

struct gather {
	struct gather_opt opt;
	char token[TOKEN_MAX], address[160];
	/* "": none */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int listens, folder;
	struct talk talks[TALKS_MAX];
	struct gathered files[TALKS_MAX];
	uint8_t bytes[WIRE_SEND_DATA_MAX];
};

PRINTF(2, 3) static void tell(const struct gather *g, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	g->opt.tell(text);
}

/* ---- one recording --------------------------------------------------------------------------- */

static void answer(const struct talk *t, enum wire_send_status status)
{
	struct wire_send_answer answer = { .status = htole32(status),
					   .held = htole64(t->file ? t->file->bytes : 0) };
	memcpy(answer.magic, WIRE_SEND_MAGIC, sizeof(answer.magic));
	/* a sender that reads none of it misses nothing that it could use */
	(void)!send(t->fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void hang_up(struct talk *t)
{
	/* its file waits for a while: the sender may come back */
	if (t->file)
		t->file->alone_ns = clock_ns(CLOCK_MONOTONIC);
	close(t->fd);
	*t = (struct talk){ .fd = -1 };
}

static void refuse(const struct gather *g, struct talk *t, enum wire_send_status status,
		   const char *why)
{
	char text[512];
	snprintf(text, sizeof(text), "refused %s: %s", t->from, why);
	g->opt.trouble(text);
	answer(t, status);
	hang_up(t);
}

static void cut_short(const struct gather *g, struct gathered *file)
{
	tell(g, "%s is cut short at %llu bytes: its sender is gone", file->name,
	     (unsigned long long)file->bytes);
	gathered_close(file);
}

/* That of @header: the one that is received already, by a talk that has not noticed its end. */
static struct gathered *find_file(struct gather *g, const uint8_t *header)
{
	struct gathered *unused = NULL;
	for (size_t i = 0; i < TALKS_MAX; i++) {
		struct gathered *file = &g->files[i];
		if (file->fd < 0)
			unused = file;
		else if (memcmp(file->header, header, sizeof(file->header)) == 0)
			return file;
	}
	return unused;
}

static size_t count_received(const struct gather *g)
{
	size_t count = 0;
	for (size_t i = 0; i < TALKS_MAX; i++)
		count += g->talks[i].fd >= 0 && g->talks[i].file;
	return count;
}

static void greet(struct gather *g, struct talk *t, const struct wire_send_hello *hello)
{
	char name[INCOMING_NAME];
	struct err err = { 0 };
	if (g->token[0] && !token_same(hello->token, g->token)) {
		refuse(g, t, WIRE_SEND_TOKEN,
		       hello->token[0] ? "its token is another one" : "it shows no token");
		return;
	}
	struct gathered *file = find_file(g, hello->header);
	for (size_t i = 0; i < TALKS_MAX && file && file->fd >= 0; i++)
		if (g->talks[i].fd >= 0 && g->talks[i].file == file)
			hang_up(&g->talks[i]);
	if (!file || count_received(g) >= GATHER_RECORDINGS_MAX) {
		refuse(g, t, WIRE_SEND_BUSY, "as many recordings as can be are received");
		return;
	}
	if (!gathered_has_room(g->folder)) {
		refuse(g, t, WIRE_SEND_FULL, "no room on the disk");
		return;
	}
	incoming_name(hello->name, name);
	if (file->fd < 0 && gathered_open(file, g->folder, hello->header, name, &err) < 0) {
		refuse(g, t, err.code == -ENOSPC ? WIRE_SEND_FULL : WIRE_SEND_REFUSED, err.msg);
		return;
	}
	if (file->bytes > WIRE_SEND_HEADER)
		tell(g, "%s goes on at %llu bytes: process %u at %s", file->name,
		     (unsigned long long)file->bytes, le32toh(hello->pid), t->from);
	else
		tell(g, "%s begins: process %u at %s", file->name, le32toh(hello->pid), t->from);
	t->file = file;
	file->alone_ns = 0;
	answer(t, WIRE_SEND_OK);
}

static void store(struct gather *g, struct talk *t, const struct incoming_item *item)
{
	if (item->at != t->file->bytes) {
		refuse(g, t, WIRE_SEND_REFUSED, "bytes are missing");
		return;
	}
	int rc = gathered_put(t->file, item->bytes, item->count);
	if (rc == -ENOSPC || rc == -EDQUOT)
		refuse(g, t, WIRE_SEND_FULL, "no room on the disk");
	else if (rc < 0)
		refuse(g, t, WIRE_SEND_REFUSED, strerror(-rc));
}

static void end(struct gather *g, struct talk *t, const struct incoming_item *item)
{
	struct gathered *file = t->file;
	if (item->kind == INCOMING_END && item->at != file->bytes) {
		refuse(g, t, WIRE_SEND_REFUSED, "its end is elsewhere");
		return;
	}
	/* only what this receiver has made: whoever knows a header must not remove older ones */
	if (item->kind == INCOMING_DROP && file->created && unlinkat(g->folder, file->name, 0) == 0)
		tell(g, "%s is removed: it held nothing, or another tells all of it", file->name);
	else
		tell(g, "%s ends: %llu bytes", file->name, (unsigned long long)file->bytes);
	gathered_close(file); /* before the answer: who got that finds it ended */
	answer(t, WIRE_SEND_OK);
	t->file = NULL;
	hang_up(t);
}

static void hear(struct gather *g, struct talk *t)
{
	ssize_t count = recv(t->fd, g->bytes, sizeof(g->bytes), MSG_DONTWAIT);
	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (count <= 0) {
		hang_up(t);
		return;
	}
	const uint8_t *at = g->bytes;
	size_t left = (size_t)count;
	struct incoming_item item;
	int rc;
	t->heard_ns = clock_ns(CLOCK_MONOTONIC);
	while (t->fd >= 0 && (rc = incoming_take(&t->in, &at, &left, &item)) != 0) {
		if (rc == -EPROTO)
			refuse(g, t, WIRE_SEND_VERSIONS, "it is of another version of byteledger");
		else if (rc < 0)
			refuse(g, t, WIRE_SEND_REFUSED, "what it says is no recording");
		else if (item.kind == INCOMING_HELLO)
			greet(g, t, item.hello);
		else if (item.kind == INCOMING_DATA)
			store(g, t, &item);
		else if (item.kind != INCOMING_ALIVE)
			end(g, t, &item);
	}
}

/* ---- many ------------------------------------------------------------------------------------ */

static void welcome(struct gather *g)
{
	struct sockaddr_storage addr = { 0 };
	socklen_t len = sizeof(addr);
	struct talk *t = NULL, *oldest = NULL;
	int fd = accept4(g->listens, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		/* without descriptors it would be asked again at once */
		const struct timespec pause = { .tv_nsec = NO_FILES_NS };
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			nanosleep(&pause, NULL);
		return;
	}
	for (size_t i = 0; i < TALKS_MAX && !t; i++) {
		struct talk *at = &g->talks[i];
		if (at->fd < 0)
			t = at;
		else if (!at->file && (!oldest || at->began_ns < oldest->began_ns))
			oldest = at;
	}
	if (!t) {
		t = oldest; /* at most half of them are received */
		hang_up(t);
	}
	*t = (struct talk){ .fd = fd };
	t->began_ns = t->heard_ns = clock_ns(CLOCK_MONOTONIC);
	if (g->path[0])
		strcpy(t->from, "this machine");
	else
		address_text(&addr, t->from, sizeof(t->from));
}

static void expire(struct gather *g)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < TALKS_MAX; i++) {
		struct talk *t = &g->talks[i];
		struct gathered *file = &g->files[i];
		if (t->fd >= 0 && now - t->heard_ns > (t->file ? SILENCE_NS : HELLO_WAIT_NS))
			hang_up(t);
		if (t->fd >= 0 && !t->file && now - t->began_ns > HELLO_WAIT_NS)
			hang_up(t);
		if (file->fd >= 0 && file->alone_ns && now - file->alone_ns > RETURN_NS)
			cut_short(g, file);
	}
}

static int is_at_work(const struct gather *g)
{
	for (size_t i = 0; i < TALKS_MAX; i++)
		if (g->talks[i].fd >= 0 || g->files[i].fd >= 0)
			return 1;
	return 0;
}

int gather_run(struct gather *g, int stop, struct err *err)
{
	struct pollfd fds[TALKS_MAX + 2] = { { .fd = stop, .events = POLLIN },
					     { .fd = g->listens, .events = POLLIN } };
	for (;;) {
		for (size_t i = 0; i < TALKS_MAX; i++)
			fds[i + 2] = (struct pollfd){ .fd = g->talks[i].fd, .events = POLLIN };
		int ready = poll(fds, TALKS_MAX + 2, is_at_work(g) ? LOOK_MS : -1);
		if (ready < 0 && errno != EINTR)
			return err_set(err, -errno, "cannot wait for recordings");
		if (ready > 0 && fds[0].revents)
			break;
		for (size_t i = 0; i < TALKS_MAX && ready > 0; i++)
			/* one that was refused meanwhile may have made way for another */
			if (fds[i + 2].revents && g->talks[i].fd == fds[i + 2].fd)
				hear(g, &g->talks[i]);
		if (ready > 0 && fds[1].revents)
			welcome(g);
		expire(g);
	}
	for (size_t i = 0; i < TALKS_MAX; i++)
		if (g->files[i].fd >= 0)
			tell(g, "%s is cut short at %llu bytes: gather ends", g->files[i].name,
			     (unsigned long long)g->files[i].bytes);
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A socket that nobody listens on any more is taken away; only its owner may connect. */
static int listen_at_path(struct gather *g, const char *path, struct err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	if (!*path || strlen(path) >= sizeof(addr.sun_path))
		return err_set(err, -EINVAL, "cannot listen on 'unix:%s': a path of 1 to %zu bytes",
			       path, sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "cannot open a socket");
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno == ECONNREFUSED)
		unlink(path);
	mode_t before = umask(0177);
	int rc = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	umask(before);
	if (rc == 0 && listen(fd, BACKLOG) < 0)
		rc = -errno;
	if (rc < 0) {
		close(fd);
		return err_set(err, rc, "cannot listen on 'unix:%s'", path);
	}
	strcpy(g->path, path);
	snprintf(g->address, sizeof(g->address), "unix:%s", path);
	return fd;
}

static int listen_on(struct gather *g, struct err *err)
{
	const char *text = g->opt.address;
	struct sockaddr_storage addr = { 0 };
	socklen_t len = sizeof(addr);
	int loopback = 1;
	if (text && strncmp(text, "unix:", 5) == 0)
		return listen_at_path(g, text + (strncmp(text, "unix://", 7) == 0 ? 7 : 5), err);
	g->listens = address_listen(text, WIRE_SEND_PORT, BACKLOG, &loopback, err);
	if (g->listens < 0)
		return g->listens;
	if (!loopback && !g->token[0] && !g->opt.no_auth) {
		err_set(err, -EACCES, "cannot gather on '%s' beyond this machine without a token",
			text);
		return err_hint(err, "give --token-file FILE, or --no-auth if everybody there may "
				     "send");
	}
	getsockname(g->listens, (struct sockaddr *)&addr, &len);
	address_text(&addr, g->address, sizeof(g->address));
	return g->listens;
}

struct gather *gather_open(const struct gather_opt *opt, struct err *err)
{
	CLEANUP(gather_freep) struct gather *g = calloc(1, sizeof(*g));
	if (!g) {
		err_set(err, -ENOMEM, "cannot gather");
		return NULL;
	}
	g->opt = *opt;
	g->listens = g->folder = -1;
	for (size_t i = 0; i < TALKS_MAX; i++)
		g->talks[i].fd = g->files[i].fd = -1;
	if (opt->token_file && token_load(opt->token_file, g->token, err) < 0)
		return NULL;
	const char *folder = opt->folder ? opt->folder : ".";
	g->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (g->folder < 0) {
		err_set(err, -errno, "cannot open the folder '%s'", folder);
		return NULL;
	}
	g->listens = listen_on(g, err);
	if (g->listens < 0)
		return NULL;
	tell(g, "%s", g->address);
	return STEAL(g);
}

void gather_freep(struct gather **gather)
{
	struct gather *g = *gather;
	*gather = NULL;
	if (!g)
		return;
	for (size_t i = 0; i < TALKS_MAX; i++) {
		if (g->talks[i].fd >= 0)
			close(g->talks[i].fd);
		gathered_close(&g->files[i]);
	}
	if (g->listens >= 0)
		close(g->listens);
	if (g->folder >= 0)
		close(g->folder);
	if (g->path[0])
		unlink(g->path);
	free(g);
}
