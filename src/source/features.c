/* SPDX-License-Identifier: Apache-2.0 */
#include "source/features.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>

#include "base/cleanup.h"
#include "base/fileio.h"
#include "source/bpfstack.h"
#include "source/mapnames.h"
#include "source/netcap_bpf.h"
#include "source/netcap_packet.h"
#include "source/pageown.h"
#include "source/threadfacts.h"

static struct feature_line lines[FEATURE_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const names[FEATURE_COUNT] = {
	[FEATURE_BPF_BIG_ARRAY] = "bpf-big-array", [FEATURE_BPF_STACK] = "bpf-stack",
	[FEATURE_MAP_EVENTS] = "map-events",       [FEATURE_MAP_NAMES] = "map-names",
	[FEATURE_THREADS] = "thread-stacks",       [FEATURE_NET_CAPTURE] = "net-capture",
	[FEATURE_NET_PACKET] = "net-packet",       [FEATURE_PAGES] = "page-owners",
};

static void yes(enum feature feature, const char *why)
{
	lines[feature].ok = 1;
	snprintf(lines[feature].why, sizeof(lines[feature].why), "%s", why);
}

static void no(enum feature feature, const char *what, int error, const char *hint)
{
	struct feature_line *line = &lines[feature];
	line->ok = 0;
	if (error)
		snprintf(line->why, sizeof(line->why), "%s: %s", what, strerror(error));
	else
		snprintf(line->why, sizeof(line->why), "%s", what);
	snprintf(line->hint, sizeof(line->hint), "%s", hint);
}

static uint64_t status_number(const char *key, int base)
{
	CLEANUP(fileio_fclosep) FILE *file = fopen("/proc/thread-self/status", "re");
	char line[256];
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, key, strlen(key)) == 0)
			return strtoull(line + strlen(key), NULL, base);
	return 0;
}

/* "0 0 4294967295" is the first user namespace's map. */
static int in_user_namespace(void)
{
	unsigned inside = 0, outside = 0, count = 0;
	CLEANUP(fileio_fclosep) FILE *file = fopen("/proc/self/uid_map", "re");
	return file && fscanf(file, "%u %u %u", &inside, &outside, &count) == 3 &&
	       (inside || outside || count != UINT32_MAX);
}

static const char *cap_names(uint64_t set, char *text, size_t bytes)
{
	static const struct {
		unsigned number;
		const char *name;
	} caps[] = { { CAP_SYS_ADMIN, "CAP_SYS_ADMIN" },
		     { CAP_BPF, "CAP_BPF" },
		     { CAP_PERFMON, "CAP_PERFMON" },
		     { CAP_NET_ADMIN, "CAP_NET_ADMIN" } };
	size_t len = 0;
	*text = '\0';
	for (size_t i = 0; i < ARRAY_LEN(caps); i++)
		if (set & 1ull << caps[i].number)
			len += (size_t)snprintf(text + len, bytes - len, "%s%s", len ? " and " : "",
						caps[i].name);
	return text;
}

const char *features_hint(int error, uint64_t wanted)
{
	static __thread char text[192];
	char names_text[96];
	if (error != EPERM && error != EACCES)
		return NULL;
	uint64_t lacks = wanted & ~status_number("CapEff:", 16);
	if (lacks)
		snprintf(text, sizeof(text), "run as root, or grant %s",
			 cap_names(lacks, names_text, sizeof(names_text)));
	else if (in_user_namespace())
		snprintf(text, sizeof(text),
			 "%s count for nothing here: run outside of this user namespace",
			 cap_names(wanted, names_text, sizeof(names_text)));
	else if (status_number("Seccomp:", 10))
		snprintf(text, sizeof(text),
			 "the capabilities are there, but a seccomp filter refuses the call: "
			 "the container's profile has to permit it");
	else
		snprintf(text, sizeof(text),
			 "the capabilities are there: a security module or a setting of the kernel "
			 "refuses");
	return text;
}

#define BPF_CAPS (1ull << CAP_BPF | 1ull << CAP_PERFMON)

static const char *permission_hint(int error, const char *otherwise)
{
	const char *hint = features_hint(error, BPF_CAPS);
	return hint ? hint : otherwise;
}

static void try_big_array(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, 4, (4 << 20) + 4096, 1, NULL);
	if (fd < 0) {
		no(FEATURE_BPF_BIG_ARRAY, "cannot make an array value of more than 4 MiB", errno,
		   permission_hint(
			   errno,
			   "needs Linux 6.0; unwind tables of large programs do not fit without"));
		return;
	}
	close(fd);
	yes(FEATURE_BPF_BIG_ARRAY, "an array value of more than 4 MiB could be made");
}

static void try_map_events(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.mmap = 1,
		.mmap2 = 1,
		.sample_id_all = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0) {
		no(FEATURE_MAP_EVENTS, "cannot open an event for new mappings of all processes",
		   errno, "run as root, grant CAP_PERFMON, or set kernel.perf_event_paranoid to 0");
		return;
	}
	close(fd);
	yes(FEATURE_MAP_EVENTS, "perf tells of new executable mappings");
}

/* No assumption from the lines above: the very program is loaded, and thrown away. */
static void try_stack(void)
{
	struct err err;
	err_init(&err);
	CLEANUP(bpfstack_freep) struct bpfstack *stack = bpfstack_new(NULL, &err);
	if (stack && !bpfstack_load(stack, &err)) {
		yes(FEATURE_BPF_STACK, "the stack walker passed the verifier");
		return;
	}
	no(FEATURE_BPF_STACK, err.msg, 0, permission_hint(-err.code, "needs Linux 6.1 with BTF"));
}

static void try_map_names(void)
{
	struct err err;
	err_init(&err);
	CLEANUP(mapnames_freep) struct mapnames *names_probe = mapnames_new(&err);
	if (names_probe) {
		yes(FEATURE_MAP_NAMES, "the probe of mmap() and prctl() could be attached");
		return;
	}
	no(FEATURE_MAP_NAMES, err.msg, 0, permission_hint(-err.code, "needs Linux 6.1 with BTF"));
}

static void try_threads(void)
{
	struct thread_fact *facts;
	struct err err;
	size_t count;
	err_init(&err);
	if (threadfacts_read(getpid(), &facts, &count, &err) == 0 && count) {
		free(facts);
		yes(FEATURE_THREADS, "the own threads' stack pointers could be read");
		return;
	}
	no(FEATURE_THREADS, err.code ? err.msg : "no thread was found", 0,
	   permission_hint(-err.code,
			   "needs Linux 6.1 with BTF; waiting threads are not concerned"));
}

static void try_net_capture(void)
{
	struct netcap_opt opt = { .ring_bytes = 1 << 20 };
	struct err err;
	err_init(&err);
	CLEANUP(netcap_bpf_freep) struct netcap_bpf *bpf = NULL;
	int rc = netcap_bpf_load(&opt, &bpf, &err);
	/*
	 * loading does not ask for it, attaching to the control group does; that is not tried, for
	 * it would concern every process
	 */
	if (rc == 0 && (status_number("CapEff:", 16) & 1ull << CAP_NET_ADMIN) == 0) {
		no(FEATURE_NET_CAPTURE, "the programs load, but may not be attached", EPERM,
		   features_hint(EPERM, 1ull << CAP_NET_ADMIN));
		return;
	}
	if (rc == 0) {
		yes(FEATURE_NET_CAPTURE, "the network programs passed the verifier");
		return;
	}
	no(FEATURE_NET_CAPTURE, err.msg, 0,
	   features_hint(-err.code, BPF_CAPS | 1ull << CAP_NET_ADMIN)
		   ? features_hint(-err.code, BPF_CAPS | 1ull << CAP_NET_ADMIN)
		   : "needs Linux 6.1 with BTF and cgroups");
}

static void try_net_packet(void)
{
	struct err err;
	err_init(&err);
	if (netcap_packet_try(&err) == 0) {
		yes(FEATURE_NET_PACKET, "a packet socket with a ring could be opened");
		return;
	}
	no(FEATURE_NET_PACKET, err.msg, 0,
	   "run as root, or grant CAP_NET_RAW; it stands in where net-capture is not permitted");
}

static void try_pages(void)
{
	const struct pageown_opt opt = { .stacks_max = 1024, .windows_max = 1024, .cache_dir = "" };
	struct err err;
	err_init(&err);
	CLEANUP(pageown_freep) struct pageown *pages = pageown_new(&opt, &err);
	if (pages && !pageown_load(pages, &err)) {
		struct pageown_info info;
		err_init(&err);
		if (pageown_info(pages, &info, &err) == 0 && (!info.migration || !info.faults)) {
			yes(FEATURE_PAGES,
			    "they load; this kernel does not tell of all migrations and faults");
			return;
		}
		yes(FEATURE_PAGES,
		    "the page programs passed the verifier, page numbers could be read");
		return;
	}
	no(FEATURE_PAGES, err.msg, 0,
	   err.hint[0] ? err.hint
		       : permission_hint(-err.code, "needs Linux 6.1 with BTF on x86-64"));
}

static void probe(void)
{
	libbpf_print_fn_t talk =
		libbpf_set_print(NULL); /* a question may be answered no without a word on stderr */
	for (int i = 0; i < FEATURE_COUNT; i++)
		lines[i].name = names[i];
	try_big_array();
	try_stack();
	try_map_events();
	try_map_names();
	try_threads();
	try_net_capture();
	try_net_packet();
	try_pages();
	libbpf_set_print(talk);
}

const struct feature_line *features_get(void)
{
	pthread_once(&once, probe);
	return lines;
}
