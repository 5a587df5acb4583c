/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - the parent's side of a script: its child, what comes out of the pipe, and its end. */
#include "script/script.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "script/machine.h"

#define CPU_SECONDS 20
#define WALL_SECONDS 60
#define MEMORY_BYTES ((size_t)256 << 20)
#define STACK_BYTES ((size_t)4 << 20) /* the interpreter recurses: 200 levels of C at most */
#define LOOK_MS 100                   /* how often we look whether somebody still waits */
#define MESSAGE_MAX (SCRIPT_PICTURES_MAX + 65536)

/* ---- the child ------------------------------------------------------------------------------- */

static void bound(int what, rlim_t soft, rlim_t hard)
{
	const struct rlimit limit = { soft, hard };
	setrlimit((__rlimit_resource_t)what, &limit);
}

/** close_all_but() - @keep, ascending; no descriptor of the server's is the script's. */
static void close_all_but(const int *keep, size_t count)
{
	unsigned from = 0;
	for (size_t i = 0; i < count; i++) {
		if ((unsigned)keep[i] > from)
			syscall(SYS_close_range, from, (unsigned)keep[i] - 1, 0);
		from = (unsigned)keep[i] + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void be_child(int out, const struct script_data *data, const struct script_opt *opt,
		     const char *source, size_t len) __attribute__((noreturn));
static void be_child(int out, const struct script_data *data, const struct script_opt *opt,
		     const char *source, size_t len)
{
	struct machine m = { .data = data,
			     .opt = opt,
			     .out = out,
			     .most = opt->memory_bytes,
			     .cwd = "/",
			     .rows = blocks_count(data->blocks) };
	int keep[3] = { out, -1, -1 };
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	blocks_descriptors(data->blocks, keep + 1);
	qsort(keep, ARRAY_LEN(keep), sizeof(*keep), by_number);
	size_t none = 0;
	while (none < ARRAY_LEN(keep) && keep[none] < 0)
		none++;
	close_all_but(keep + none, ARRAY_LEN(keep) - none);
	for (int i = 1; i < NSIG;
	     i++) /* nothing that the server does on a signal is this child's to do */
		signal(i, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	bound(RLIMIT_CORE, 0, 0);
	bound(RLIMIT_FSIZE, 0, 0);
	bound(RLIMIT_NOFILE, 0, 0);
	/* where the hook does not come: one call that works on and on */
	bound(RLIMIT_CPU, opt->cpu_seconds + 1, opt->cpu_seconds + 2);
	machine_main(&m, source, len);
}

/* ---- what comes out -------------------------------------------------------------------------- */

static char *text_of(const char *from, size_t len)
{
	char *text = malloc(len + 1);
	if (text) {
		memcpy(text, from, len);
		text[len] = '\0';
	}
	return text;
}

static int add_output(struct script_result *r, const char *a, size_t a_len, const char *b,
		      size_t b_len, int is_picture)
{
	if (r->count == r->room) {
		size_t room = r->room ? 2 * r->room : 64;
		struct script_output *grown = realloc(r->outputs, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		r->outputs = grown;
		r->room = room;
	}
	struct script_output *o = &r->outputs[r->count];
	*o = (struct script_output){ .text = is_picture ? text_of(b, b_len) : text_of(a, a_len),
				     .len = is_picture ? b_len : a_len,
				     .path = is_picture ? text_of(a, a_len) : NULL };
	if (!o->text || (is_picture && !o->path)) {
		free(o->text);
		free(o->path);
		return -ENOMEM;
	}
	r->count++;
	return 0;
}

static void set_message(struct script_result *r, const char *text, size_t len)
{
	static const char where[] = "script:";
	free(r->message);
	r->message = NULL;
	if (len > sizeof(where) - 1 && memcmp(text, where, sizeof(where) - 1) == 0) {
		char *copy = text_of(text, len), *end = NULL;
		unsigned long line = copy ? strtoul(copy + sizeof(where) - 1, &end, 10) : 0;
		if (copy && *end == ':') {
			size_t skip = (size_t)(end - copy) + 1;
			skip += text[skip] == ' ';
			r->line = (unsigned)line;
			text += skip;
			len -= skip;
		}
		free(copy);
	}
	r->message = text_of(text, len);
}

/**
 * take_messages() - those that are whole; what is left stands at the beginning. -E2BIG: it says too
 * much.
 */
static int take_messages(struct script_result *r, struct buf *in)
{
	size_t at = 0;
	int rc = 0;
	while (rc == 0 && !r->has_ended && in->len - at >= 9) {
		uint32_t len[2];
		memcpy(len, in->data + at + 1, sizeof(len));
		if ((size_t)len[0] + len[1] > MESSAGE_MAX)
			return -E2BIG;
		if (in->len - at - 9 < (size_t)len[0] + len[1])
			break;
		const char *a = in->data + at + 9, *b = a + len[0];
		switch (in->data[at]) {
		case MESSAGE_LINE:
			r->text_bytes += len[0];
			rc = add_output(r, a, len[0], NULL, 0, 0);
			break;
		case MESSAGE_PICTURE:
			r->picture_bytes += len[1];
			rc = add_output(r, a, len[0], b, len[1], 1);
			break;
		case MESSAGE_ERROR:
			set_message(r, a, len[0]);
			r->has_ended = 1;
			break;
		case MESSAGE_DONE:
			r->ok = r->has_ended = 1;
			break;
		default:
			return -EBADMSG;
		}
		if (r->count > SCRIPT_OUTPUTS_MAX || r->text_bytes > SCRIPT_TEXT_MAX ||
		    r->picture_bytes > SCRIPT_PICTURES_MAX)
			return -E2BIG;
		at += 9 + (size_t)len[0] + len[1];
	}
	memmove(in->data, in->data + at, in->len - at);
	in->len -= at;
	return rc;
}

/** end_with() - what is said where the child could not say it. */
static void end_with(struct script_result *r, const char *fmt, unsigned number)
{
	char text[160];
	int len = snprintf(text, sizeof(text), "%s", fmt);
	if (number)
		len += snprintf(text + len, sizeof(text) - (size_t)len, " %u s", number);
	r->ok = 0;
	r->has_ended = 1;
	set_message(r, text, (size_t)len);
}

static int read_child(int in, const struct script_opt *opt, struct script_result *r,
		      struct err *err)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	CLEANUP(buf_fini) struct buf got = { 0 };
	while (!r->has_ended) {
		struct pollfd fd = { .fd = in, .events = POLLIN };
		if (opt->gone && opt->gone(opt->ctx))
			return err_set(err, -ECANCELED, "nobody waits for the script any more");
		if (clock_ns(CLOCK_MONOTONIC) - begin > opt->wall_seconds * NS_PER_S) {
			end_with(r, "it took longer than", opt->wall_seconds);
			break;
		}
		if (poll(&fd, 1, LOOK_MS) <= 0)
			continue;
		char *to = buf_reserve(&got, 65536);
		ssize_t n = to ? read(in, to, 65536) : -1;
		if (n < 0 && to && errno == EINTR)
			continue;
		if (n <= 0)
			break; /* it is gone: its status says why */
		got.len += (size_t)n;
		int rc = take_messages(r, &got);
		if (rc == -E2BIG)
			end_with(r, "it printed or drew more than is kept", 0);
		else if (rc < 0)
			return err_set(err, rc, "cannot take what the script says");
	}
	return 0;
}

/* ---- a run ----------------------------------------------------------------------------------- */

struct run {
	const char *source;
	size_t len;
	const struct script_data *data;
	struct script_opt opt;
	struct script_result *result;
	struct err *err;
	int rc;
};

static void *run_thread(void *arg)
{
	struct run *run = arg;
	struct script_result *r = run->result;
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	int pipes[2], status = 0;
	if (pipe2(pipes, O_CLOEXEC) < 0) {
		run->rc = err_set(run->err, -errno, "cannot run a script");
		return NULL;
	}
	pid_t child = fork();
	if (child == 0)
		be_child(pipes[1], run->data, &run->opt, run->source, run->len);
	close(pipes[1]);
	if (child < 0) {
		run->rc = err_set(run->err, -errno, "cannot run a script");
		close(pipes[0]);
		return NULL;
	}
	run->rc = read_child(pipes[0], &run->opt, r, run->err);
	close(pipes[0]);
	kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (run->rc == 0 && !r->has_ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		end_with(r, "one call took more CPU time than", run->opt.cpu_seconds);
	else if (run->rc == 0 && !r->has_ended)
		end_with(r, "the interpreter ended", 0);
	r->elapsed_seconds = (double)(clock_ns(CLOCK_MONOTONIC) - begin) / 1e9;
	return NULL;
}

int script_run(const char *source, size_t len, const struct script_data *data,
	       const struct script_opt *opt, struct script_result *result, struct err *err)
{
	struct run run = { .source = source,
			   .len = len,
			   .data = data,
			   .opt = *opt,
			   .result = result,
			   .err = err };
	pthread_t thread;
	pthread_attr_t attr;
	*result = (struct script_result){ 0 };
	int rc = lua_library_get(err);
	if (rc < 0)
		return rc;
	run.opt.cpu_seconds = opt->cpu_seconds ? opt->cpu_seconds : CPU_SECONDS;
	run.opt.wall_seconds = opt->wall_seconds ? opt->wall_seconds : WALL_SECONDS;
	run.opt.memory_bytes = opt->memory_bytes ? opt->memory_bytes : MEMORY_BYTES;
	/* a thread of its own for its stack: the child goes on where its thread stands */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = pthread_create(&thread, &attr, run_thread, &run);
	pthread_attr_destroy(&attr);
	if (rc)
		return err_set(err, -rc, "cannot run a script");
	pthread_join(thread, NULL);
	if (run.rc < 0)
		script_result_fini(result);
	return run.rc;
}

void script_result_fini(struct script_result *r)
{
	for (size_t i = 0; i < r->count; i++) {
		free(r->outputs[i].text);
		free(r->outputs[i].path);
	}
	free(r->outputs);
	free(r->message);
	*r = (struct script_result){ 0 };
}

uint8_t *script_bits_new(uint64_t count)
{
	void *bits = mmap(NULL, (size_t)(count / 8) + 1, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return bits == MAP_FAILED ? NULL : bits;
}

void script_bits_free(uint8_t *bits, uint64_t count)
{
	if (bits)
		munmap(bits, (size_t)(count / 8) + 1);
}
