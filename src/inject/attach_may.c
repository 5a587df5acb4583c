/* SPDX-License-Identifier: Apache-2.0 */
/* attach_may.c - who is refused, and why. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fileio.h"
#include "inject/attach_impl.h"
#include "inject/carried.h"
#include "inject/steer.h"
#include "wire/heap_start.h"

#define AUX_MAX 64

struct status {
	char state;
	long tracer, seccomp, filters;
	int shadow_stack;
};

static long number(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	return at ? strtol(at + strlen(key), NULL, 10) : 0;
}

static void read_status(const char *text, struct status *to)
{
	const char *state = strstr(text, "\nState:\t"),
		   *features = strstr(text, "\nx86_Thread_features:");
	to->state = state ? state[8] : '?';
	to->tracer = number(text, "\nTracerPid:");
	to->seccomp = number(text, "\nSeccomp:");
	to->filters = number(text, "\nSeccomp_filters:");
	size_t len = features ? strcspn(features + 1, "\n") : 0;
	const char *shstk = features ? strstr(features, "shstk") : NULL;
	to->shadow_stack = shstk && shstk < features + len;
}

static long own_filters(void)
{
	char text[8192];
	CLEANUP(fileio_closep) int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = '\0';
	return number(text, "\nSeccomp_filters:");
}

static int refuse(const struct attach *a, const char *why, const char *hint, struct err *err)
{
	err_set(err, -EINVAL, "cannot come into process %d: %s", (int)a->pid, why);
	return hint ? err_hint(err, "%s", hint) : err->code;
}

#define BY_PROBES "'byteledger sample -p PID' sees by probes who allocates"
#define STARTED_SO "'byteledger heap -- PROGRAM', or " BY_PROBES

static int check_status(const struct attach *a, struct err *err)
{
	char text[8192], why[128], name[64] = "";
	struct status status;
	ssize_t len = target_text(&a->target, "status", text, sizeof(text));
	if (len < 0)
		return target_fail(&a->target, (int)len, "status", err);
	read_status(text, &status);
	if (status.tracer) {
		snprintf(why, sizeof(why), "/proc/%ld/comm", status.tracer);
		CLEANUP(fileio_closep) int fd = open(why, O_RDONLY | O_CLOEXEC);
		ssize_t got = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);
		name[got > 0 ? strcspn(name, "\n") : 0] = '\0';
		snprintf(why, sizeof(why), "process %ld%s%s traces it already", status.tracer,
			 *name ? ", " : "", name);
		return refuse(a, why, "a debugger or strace: end that first", err);
	}
	if (status.state == 'T' || status.state == 't')
		return refuse(a, "it is stopped", "let it go on: kill -CONT PID", err);
	if (status.seccomp == 1 || status.filters > own_filters())
		return refuse(a, "it has forbidden itself system calls (seccomp)", BY_PROBES, err);
	if (status.shadow_stack)
		return refuse(a, "its return addresses are guarded by a shadow stack", BY_PROBES,
			      err);
	return 0;
}

/* What gained privileges as it was started is not for others to change. */
static int check_secure(const struct attach *a, struct err *err)
{
	Elf64_auxv_t aux[AUX_MAX];
	CLEANUP(fileio_closep) int fd = target_file(&a->target, "auxv", err);
	if (fd < 0)
		return fd;
	ssize_t got = read(fd, aux, sizeof(aux));
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(aux[0]); i++)
		if (aux[i].a_type == AT_SECURE && aux[i].a_un.a_val)
			return refuse(a,
				      "it runs with other privileges than its user's (set-user-ID "
				      "or capabilities)",
				      "'byteledger explain -p PID' says what it holds", err);
	return 0;
}

static int check_elf(const struct attach *a, struct err *err)
{
	Elf64_Ehdr eh;
	CLEANUP(fileio_closep) int fd = target_file(&a->target, "exe", err);
	if (fd < 0)
		return fd;
	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_machine != EM_X86_64)
		return refuse(a, "it was built for another machine",
			      "byteledger and the program must have the same word size", err);
	return 0;
}

/* The file that its loader finds at that path. */
static int check_path(const struct attach *a, const char *library, struct err *err)
{
	char path[64 + 4096], why[256];
	struct stat ours, its;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)a->pid, library);
	if (stat(library, &ours) < 0)
		return err_set(err, -errno, "cannot open '%s'", library);
	if (stat(path, &its) == 0 && its.st_ino == ours.st_ino && its.st_dev == ours.st_dev)
		return 0;
	snprintf(why, sizeof(why), "'%s' is not there for it (a container, or another root)",
		 library);
	return refuse(a, why, "run byteledger inside of the container, or " BY_PROBES, err);
}

#define START_NS 1000000000u
#define START_PAUSE_NS 5000000

int attach_objects(struct attach *a, struct err *err)
{
	const struct timespec pause = { .tv_nsec = START_PAUSE_NS };
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + START_NS;
	int rc;
	for (;;) {
		rc = objects_read(&a->objects, &a->target, err);
		/* the loader may not have come to it */
		int whole = rc != -EAGAIN && (rc < 0 || objects_named(&a->objects, "libc.so.6"));
		if (whole || clock_ns(CLOCK_MONOTONIC) > until)
			break;
		nanosleep(&pause, NULL);
	}
	if (rc == -EAGAIN) {
		err_set(err, -EINVAL, "cannot come into process %d: it is being started",
			(int)a->pid);
		rc = err_hint(err, "once more, in a moment");
	} else if (rc == 0) {
		err_init(err);
	}
	return rc;
}

/* Then what the program carries has been led to the library since it began. */
static int was_preloaded(const struct objects *objects)
{
	const struct object *own = objects_named(objects, WIRE_PRELOAD_NAME);
	return own && own < objects_named(objects, "libc.so.6");
}

static int check_objects(struct attach *a, struct err *err)
{
	int rc = attach_objects(a, err);
	if (rc == -ENOEXEC)
		return refuse(a, "it is statically linked, so no library can come in",
			      BY_PROBES ", and 'byteledger explain -p PID' what it holds", err);
	if (rc < 0)
		return rc;
	if (!objects_named(&a->objects, "libc.so.6"))
		return refuse(a, "its C library is not glibc, which the recording library needs",
			      BY_PROBES ", and 'byteledger explain -p PID' what it holds", err);
	for (size_t i = 0; i < a->objects.count; i++) {
		const char *name = a->objects.list[i].name;
		if (strstr(name, "/libasan.so") || strstr(name, "/libtsan.so") ||
		    strstr(name, "/libmsan.so"))
			return refuse(a, "a sanitizer keeps its memory", NULL, err);
	}
	if (object_find(&a->objects, &a->objects.list[0], "malloc") &&
	    object_find(&a->objects, &a->objects.list[0], "free"))
		return refuse(a,
			      "it brings an allocator of its own, whose calls from within are seen "
			      "only where it is started so",
			      STARTED_SO, err);
	const char *carried = was_preloaded(&a->objects) ? NULL : carried_find(&a->objects);
	if (!carried)
		return 0;
	char why[160];
	snprintf(why, sizeof(why),
		 "it has an allocator of its own, %s(), whose calls are seen only where it is "
		 "started so",
		 carried);
	return refuse(a, why, STARTED_SO, err);
}

int attach_may(struct attach *a, const struct attach_opt *opt, struct err *err)
{
	uint32_t recorder = 0;
	if (opt->pid == getpid())
		return err_set(err, -EINVAL, "cannot come into process %d: that is this byteledger",
			       (int)opt->pid);
	int rc = target_open(&a->target, opt->pid, err);
	if (rc == 0)
		rc = check_status(a, err);
	if (rc == 0)
		rc = check_secure(a, err);
	if (rc == 0)
		rc = check_elf(a, err);
	if (rc == 0)
		rc = check_objects(a, err);
	if (rc == 0)
		rc = check_path(a, opt->library, err);
	if (rc == 0 && steer_recorded(&a->target, &recorder)) {
		err_set(err, -EINVAL, "process %d is recorded already, by process %u",
			(int)opt->pid, recorder);
		return err_hint(err, "--mark, --start, --stop and --sync steer that recording");
	}
	return rc;
}
