/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bound.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* terabytes of a sanitizer's shadow count as ours */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOWED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SHADOWED 1
#endif
#endif
#ifndef SHADOWED
#define SHADOWED 0
#endif

static char hint[128];

int bound_memory(uint64_t bytes)
{
	struct rlimit limit;
	if (SHADOWED || bytes == UINT64_MAX || getrlimit(RLIMIT_DATA, &limit) < 0 ||
	    limit.rlim_cur <= bytes)
		return 0;
	limit.rlim_cur = bytes;
	if (setrlimit(RLIMIT_DATA, &limit) < 0)
		return 0;
	snprintf(hint, sizeof(hint),
		 "it takes more than %llu MiB: '--memory %lluG' or '--memory unlimited' lets it",
		 (unsigned long long)(bytes >> 20),
		 (unsigned long long)(bytes >> 30 ? (bytes >> 30) * 4 : 2));
	return 1;
}

const char *bound_hint(void)
{
	return hint[0] ? hint : NULL;
}

void bound_descriptors(uint64_t most)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max < most ? limit.rlim_max : most;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void bound_streams(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
		    open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC) < 0)
			return; /* no /dev/null here: as it was */
}

static void on_file_limit(int number)
{
	(void)number;
}

void bound_file_size(void)
{
	struct sigaction now, ours = { .sa_handler = on_file_limit, .sa_flags = SA_RESTART };
	if (sigaction(SIGXFSZ, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &ours, NULL);
}
