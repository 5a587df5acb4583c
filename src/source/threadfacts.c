/* SPDX-License-Identifier: Apache-2.0 */
#include "source/threadfacts.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"
#include "threads.skel.h"
#include "wire/threads.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct threads_bpf *program;
static int refusal; /* of loading it; 0: not tried, or loaded */

static int load(void)
{
#ifdef __x86_64__
	libbpf_print_fn_t talk = libbpf_set_print(NULL); /* the caller says what there is to say */
	program = threads_bpf__open_and_load();
	refusal = program ? 0 : -errno;
	libbpf_set_print(talk);
#else
	refusal = -EOPNOTSUPP;
#endif
	return refusal;
}

/* What the iterator wrote, up to its end or THREADS_MAX of them. */
static int collect(int fd, struct thread_fact **facts, size_t *count)
{
	struct wire_thread some[256];
	size_t have = 0;
	ssize_t got;
	while ((got = read(fd, (char *)some + have, sizeof(some) - have)) != 0) {
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got < 0)
			return -errno;
		have += (size_t)got;
		size_t whole = have / sizeof(some[0]);
		whole = whole < THREADS_MAX - *count ? whole : THREADS_MAX - *count;
		if (!whole)
			continue;
		struct thread_fact *grown =
			realloc(*facts, (*count + whole) * sizeof(struct thread_fact));
		if (!grown)
			return -ENOMEM;
		*facts = grown;
		for (size_t i = 0; i < whole; i++)
			grown[(*count)++] =
				(struct thread_fact){ .tid = (pid_t)some[i].tid,
						      .stack_pointer = some[i].stack_pointer };
		if (*count == THREADS_MAX)
			break;
		/* records are written whole, and read in pieces of whole records */
		have = 0;
	}
	return 0;
}

static int read_locked(pid_t pid, struct thread_fact **facts, size_t *count)
{
	union bpf_iter_link_info info = { .task.pid = (uint32_t)pid };
	DECLARE_LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info,
			    .link_info_len = sizeof(info));
	int rc = program ? 0 : refusal ? refusal : load();
	if (rc < 0)
		return rc;
	struct bpf_link *link = bpf_program__attach_iter(program->progs.threads_list, &opts);
	if (!link)
		return -errno;
	int fd = bpf_iter_create(bpf_link__fd(link));
	rc = fd < 0 ? -errno : collect(fd, facts, count);
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return rc;
}

int threadfacts_read(pid_t pid, struct thread_fact **facts, size_t *count, struct err *err)
{
	*facts = NULL;
	*count = 0;
	pthread_mutex_lock(&lock);
	int rc = read_locked(pid, facts, count);
	pthread_mutex_unlock(&lock);
	if (rc == 0)
		return 0;
	free(*facts);
	*facts = NULL;
	*count = 0;
	return err_set(err, rc, "cannot read the stack pointers of process %d", (int)pid);
}
