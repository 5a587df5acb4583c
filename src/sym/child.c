/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/child.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "sym/confine.h"
#include "sym/opener.h"

#define ANSWER_MAX (64u << 20) /* bytes of one answer */
#define PATH_ROOM (2u * PATH_MAX)

enum say { SAY_LOOK_UP, SAY_LINES, SAY_REST, SAY_REST_ALL, SAY_OPEN, SAY_OPENED, SAY_ANSWER };

struct head {
	uint32_t what, bytes; /* enum say; of what follows */
};

struct ask {
	uint8_t build_id[64];
	uint32_t build_id_len, path_len, count;
};

struct open_ask {
	uint32_t kind, nth, len;
};

struct open_answer {
	int32_t rc;
	uint32_t found_len; /* UINT32_MAX: none */
};

struct answer_head {
	uint64_t held;
	uint32_t stale, lines, count;
};

struct symbol_head {
	uint32_t function_len, file_len; /* UINT32_MAX: none */
	uint32_t line;
	uint8_t inlined, language;
	uint16_t none;
};

struct child {
	pid_t pid;
	int fd;
	struct sym *sym;
	uint64_t base_bytes, file_bytes, held;
	struct buf buf;
};

/* ---- bytes ------------------------------------------------------------------------------------------------------------- */

static int send_all(int fd, const void *bytes, size_t len, int with_fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	const char *p = bytes;
	while (len) {
		struct iovec part = { (void *)p, len };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		if (with_fd >= 0) {
			memset(&control, 0, sizeof(control));
			message.msg_control = control.room;
			message.msg_controllen = sizeof(control.room);
			struct cmsghdr *c = CMSG_FIRSTHDR(&message);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(c), &with_fd, sizeof(int));
		}
		ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		with_fd = -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* @got_fd may be NULL: descriptors are not wanted then, and closed. */
static int receive_all(int fd, void *bytes, size_t len, int *got_fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char *p = bytes;
	while (len) {
		struct iovec part = { p, len };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		if (got_fd) {
			message.msg_control = control.room;
			message.msg_controllen = sizeof(control.room);
		}
		ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		struct cmsghdr *c = got_fd ? CMSG_FIRSTHDR(&message) : NULL;
		if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int)) && *got_fd < 0)
			memcpy(got_fd, CMSG_DATA(c), sizeof(int));
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int say(int fd, enum say what, const struct buf *buf)
{
	struct head head = { what, (uint32_t)buf->len };
	int rc = buf->failed || buf->len > UINT32_MAX ? -ENOMEM : 0;
	if (rc == 0)
		rc = send_all(fd, &head, sizeof(head), -1);
	return rc == 0 ? send_all(fd, buf->data, buf->len, -1) : rc;
}

static int hear(int fd, struct head *head, struct buf *buf, uint32_t most)
{
	int rc = receive_all(fd, head, sizeof(*head), NULL);
	if (rc < 0 || head->bytes > most)
		return rc < 0 ? rc : -EPIPE;
	buf_clear(buf);
	if (head->bytes && !buf_reserve(buf, head->bytes))
		return -EPIPE;
	rc = receive_all(fd, buf->data, head->bytes, NULL);
	buf->len = head->bytes;
	return rc;
}

/* ---- the child --------------------------------------------------------------------------------------------------------- */

/* All of it is single: one process, one sym. */
static struct {
	int fd;
	struct buf out, in;
	uint64_t held;
	uint32_t rests; /* how often all were given back */
} self;

static int ask_parent(void *ctx, enum opener_kind kind, const char *path, uint32_t len,
		      uint32_t nth, char **found)
{
	(void)ctx;
	struct open_ask ask = { kind, nth, len };
	struct open_answer answer;
	struct buf buf = { 0 };
	int fd = -1;
	buf_put(&buf, &ask, sizeof(ask));
	buf_put(&buf, path, len);
	int rc = say(self.fd, SAY_OPEN, &buf);
	buf_fini(&buf);
	if (rc < 0 || receive_all(self.fd, &answer, sizeof(answer), &fd) < 0)
		_exit(1);
	if (answer.found_len <= PATH_ROOM) {
		char *text = malloc(answer.found_len + 1u);
		if (!text || receive_all(self.fd, text, answer.found_len, NULL) < 0)
			_exit(1);
		text[answer.found_len] = '\0';
		*found = text;
	}
	return answer.rc < 0 ? answer.rc : fd >= 0 ? fd : -ENOENT;
}

static void put_text(struct buf *out, const char *text, uint32_t len)
{
	if (text)
		buf_put(out, text, len);
}

static void put_answer(struct buf *out, const struct symbol *symbols, uint32_t count)
{
	/* too much for one answer: the rest has no names */
	if (out->len > ANSWER_MAX / 2)
		count = 0;
	buf_put(out, &count, sizeof(count));
	for (uint32_t i = 0; i < count; i++) {
		const struct symbol *s = &symbols[i];
		struct symbol_head head = { .function_len = UINT32_MAX,
					    .file_len = UINT32_MAX,
					    .line = s->line,
					    .inlined = s->inlined,
					    .language = s->language };
		if (s->function)
			head.function_len = (uint32_t)strnlen(s->function, TABLE_NAME_MAX);
		if (s->file)
			head.file_len = (uint32_t)strnlen(s->file, PATH_ROOM);
		buf_put(out, &head, sizeof(head));
		put_text(out, s->function, head.function_len);
		put_text(out, s->file, head.file_len);
	}
}

/* What was read of it, as flags: memory is counted where that changed. */
static int depth_read(const struct module *m)
{
	return !m ? 0
		  : m->opened | m->loaded << 1 | m->lines_tried << 2 | m->stubs_tried << 3 |
			       (m->lines != NULL) << 4;
}

/* The total is kept, not summed: files may be tens of thousands. */
static void count_held(struct module *module)
{
	if (module->rests == self.rests)
		self.held -= module->held;
	module->rests = self.rests;
	module->held = sym_module_held(module);
	self.held += module->held;
}

static struct module *asked_module(struct sym *sym, const struct ask *ask, const char *path)
{
	return sym_module(sym, path, ask->build_id, (uint8_t)ask->build_id_len);
}

static void answer(struct sym *sym, const struct head *head)
{
	static const struct symbol unknown = { 0 };
	struct ask ask;
	const char *p = self.in.data;
	memcpy(&ask, p, sizeof(ask));
	p += sizeof(ask);
	char path[PATH_ROOM + 1];
	memcpy(path, p, ask.path_len);
	path[ask.path_len] = '\0';
	p += ask.path_len;
	struct module *module = asked_module(sym, &ask, path);
	if (head->what == SAY_REST) {
		if (module) {
			sym_module_rest(module);
			count_held(module);
		}
		return;
	}
	int before = depth_read(module);
	buf_clear(&self.out);
	struct answer_head first = { .count = ask.count };
	buf_put(&self.out, &first, sizeof(first));
	for (uint32_t i = 0; i < ask.count; i++) {
		const struct symbol *symbols = NULL;
		uint64_t offset;
		memcpy(&offset, p + i * sizeof(offset), sizeof(offset));
		uint32_t count = !module ? 0
				 : head->what == SAY_LINES
					 ? sym_module_lines(sym, module, offset, &unknown, &symbols)
					 : sym_module_resolve(sym, module, offset, &symbols);
		put_answer(&self.out, symbols, count);
	}
	if (depth_read(module) != before)
		count_held(module);
	first.held = self.held;
	first.stale = module && module->stale;
	if (self.out.failed)
		_exit(1);
	memcpy(self.out.data, &first, sizeof(first));
	if (say(self.fd, SAY_ANSWER, &self.out) < 0)
		_exit(0);
}

static void __attribute__((noreturn)) live(struct sym *sym, int fd)
{
	struct head head;
	self.fd = fd;
	prctl(PR_SET_NAME, "names", 0, 0, 0);
	if (confine_self(fd) < 0)
		_exit(1);
	opener_set(ask_parent, NULL);
	/* what the parent read by itself is none of ours */
	sym->child = NULL;
	sym->in_process = 1;
	while (hear(fd, &head, &self.in, UINT32_MAX) == 0) {
		if (head.what == SAY_REST_ALL) {
			sym_rest(sym, 0);
			self.held = 0;
			self.rests++;
		} else
			answer(sym, &head);
	}
	_exit(0);
}

/* ---- its parent -------------------------------------------------------------------------------------------------------- */

static uint64_t own_bytes(void)
{
	unsigned long long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file || fscanf(file, "%llu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Address sanitizers reserve terabytes of addresses: their limit is none of address space. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ADDRESSES_TELL 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define ADDRESSES_TELL 0
#endif
#endif
#ifndef ADDRESSES_TELL
#define ADDRESSES_TELL 1
#endif

/* A file may grow when it is read, but not without bounds: the soft limit, which the child cannot move. */
static void set_limit(const struct child *child)
{
	uint64_t bytes = child->base_bytes + CHILD_BYTES + CHILD_FILE_GROWS * child->file_bytes;
	struct rlimit limit;
	if (!ADDRESSES_TELL || !child->base_bytes ||
	    prlimit(child->pid, RLIMIT_AS, NULL, &limit) < 0)
		return;
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	prlimit(child->pid, RLIMIT_AS, &limit, NULL);
}

struct child *child_start(struct sym *sym)
{
	int ends[2];
	sigset_t all, before;
	struct child *child = calloc(1, sizeof(*child));
	if (!child || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		free(child);
		return NULL;
	}
	child->sym = sym;
	child->base_bytes = own_bytes();
	/* Ctrl-C is the program's and ours: the child ends when we do */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	child->pid = fork();
	if (child->pid == 0)
		live(sym, ends[1]);
	int code = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	child->fd = ends[0];
	if (child->pid < 0) {
		close(ends[0]);
		free(child);
		errno = code;
		return NULL;
	}
	set_limit(child);
	return child;
}

void child_free(struct child *child)
{
	if (!child)
		return;
	close(child->fd);
	kill(child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	buf_fini(&child->buf);
	free(child);
}

int child_pid(const struct child *child)
{
	return child->pid;
}

uint64_t child_held(const struct child *child)
{
	return child->held;
}

/* Only what is an ELF file is handed over, and its size is what memory is granted for. */
static int is_elf(struct child *child, int fd)
{
	char magic[4];
	struct stat st;
	if (pread(fd, magic, 4, 0) != 4 || memcmp(magic, "\177ELF", 4) != 0 || fstat(fd, &st) < 0)
		return 0;
	child->file_bytes += (uint64_t)st.st_size;
	set_limit(child);
	return 1;
}

static int serve_open(struct child *child)
{
	struct open_ask ask;
	struct open_answer answer = { 0, UINT32_MAX };
	struct buf *buf = &child->buf;
	char *found = NULL;
	if (buf->len < sizeof(ask))
		return -EPIPE;
	memcpy(&ask, buf->data, sizeof(ask));
	if (ask.len > PATH_ROOM || ask.len != buf->len - sizeof(ask))
		return -EPIPE;
	buf_putc(buf, '\0');
	if (buf_failed(buf))
		return -EPIPE;
	const char *path = buf->data + sizeof(ask);
	int fd = ask.kind == OPENER_SERVER
			 ? sym_open_served(child->sym, (const uint8_t *)path, ask.len, &found)
			 : image_open_path(&child->sym->root, (enum opener_kind)ask.kind, path,
					   ask.nth);
	if (fd >= 0 && !is_elf(child, fd)) {
		close(fd);
		fd = -EBADMSG;
	}
	answer.rc = fd < 0 ? fd : 0;
	if (found)
		answer.found_len = (uint32_t)strnlen(found, PATH_ROOM);
	int rc = send_all(child->fd, &answer, sizeof(answer), fd);
	if (rc == 0 && found)
		rc = send_all(child->fd, found, answer.found_len, -1);
	if (fd >= 0)
		close(fd);
	free(found);
	return rc;
}

struct reading {
	const char *p;
	size_t left;
};

static const void *take(struct reading *r, size_t len)
{
	const char *p = r->p;
	if (len > r->left)
		return NULL;
	r->p += len;
	r->left -= len;
	return p;
}

static int take_text(struct reading *r, struct pool *pool, uint32_t len, const char **text)
{
	*text = NULL;
	if (len == UINT32_MAX)
		return 0;
	const char *p = take(r, len);
	if (!p)
		return -EPIPE;
	*text = pool_string(pool, p, len);
	return 0;
}

static int take_symbols(struct child *child, struct reading *r, const struct symbol **out,
			uint32_t *count)
{
	struct pool *pool = &child->sym->pool;
	const void *p = take(r, sizeof(*count));
	*out = NULL;
	if (!p)
		return -EPIPE;
	memcpy(count, p, sizeof(*count));
	if (*count > LINES_DEPTH_MAX)
		return -EPIPE;
	struct symbol *symbols = *count ? pool_alloc(pool, *count * sizeof(*symbols)) : NULL;
	if (!symbols)
		*count = 0;
	for (uint32_t i = 0; i < *count; i++) {
		struct symbol_head head;
		if (!(p = take(r, sizeof(head))))
			return -EPIPE;
		memcpy(&head, p, sizeof(head));
		struct symbol *s = &symbols[i];
		s->line = head.line;
		s->inlined = head.inlined != 0;
		s->language = head.language;
		if (take_text(r, pool, head.function_len, &s->function) < 0 ||
		    take_text(r, pool, head.file_len, &s->file) < 0)
			return -EPIPE;
	}
	*out = symbols;
	return 0;
}

static int put_ask(struct child *child, enum say what, const struct module *module,
		   const uint64_t *offsets, uint32_t count)
{
	struct ask ask = { .build_id_len = module->build_id_len, .count = count };
	memcpy(ask.build_id, module->build_id, module->build_id_len);
	ask.path_len = (uint32_t)strnlen(module->path, PATH_ROOM);
	buf_clear(&child->buf);
	buf_put(&child->buf, &ask, sizeof(ask));
	buf_put(&child->buf, module->path, ask.path_len);
	if (count)
		buf_put(&child->buf, offsets, count * sizeof(*offsets));
	return say(child->fd, what, &child->buf);
}

int child_look_up(struct child *child, struct module *module, int lines, const uint64_t *offsets,
		  uint32_t count, child_fn fn, void *ctx)
{
	struct head head;
	struct answer_head first;
	int rc = put_ask(child, lines ? SAY_LINES : SAY_LOOK_UP, module, offsets, count);
	while (rc == 0 && (rc = hear(child->fd, &head, &child->buf, ANSWER_MAX)) == 0 &&
	       head.what == SAY_OPEN)
		rc = serve_open(child);
	struct reading r = { child->buf.data, child->buf.len };
	const void *p = rc == 0 && head.what == SAY_ANSWER ? take(&r, sizeof(first)) : NULL;
	if (!p)
		return -EPIPE;
	memcpy(&first, p, sizeof(first));
	child->held = first.held;
	module->stale |= first.stale != 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct symbol *symbols;
		uint32_t symbol_count;
		if (take_symbols(child, &r, &symbols, &symbol_count) < 0)
			return -EPIPE;
		fn(ctx, i, symbols, symbol_count);
	}
	return 0;
}

void child_rest(struct child *child, const struct module *module)
{
	/* one that does not hear it is found to be dead when it is asked next */
	if (module) {
		put_ask(child, SAY_REST, module, NULL, 0);
	} else {
		buf_clear(&child->buf);
		say(child->fd, SAY_REST_ALL, &child->buf);
	}
	child->file_bytes = 0;
	child->held = 0;
}
