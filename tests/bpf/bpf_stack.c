/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf_stack.c - drives source/bpfstack.c for tests and benchmarks; prints one JSON object.
 *
 *   bpf_stack load                                    what the verifier and the kernel say of the program
 *   bpf_stack compare EVERY DOUBLE.so -- PROGRAM...   every n-th malloc: kernel = unwind/capture = libunwind?
 *   bpf_stack watch SECONDS PATH SYMBOL [no-cache] [count-only] [stats] [block=BYTES] -- PROGRAM... | -p PID
 *   bpf_stack peer SECONDS PATH SYMBOL stack|nothing -- PROGRAM...      bpf_get_stack(), or nothing, in its place
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "double.h"
#include "peer.skel.h"
#include "source/bpfstack.h"
#include "wire/heap.h"

static struct bpfstack_opt opt;

static void fail(const struct err *err)
{
	fprintf(stderr, "bpf_stack: %s\n", err->msg);
	exit(1);
}

static double seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void print_common(struct bpfstack *stack)
{
	struct err err;
	struct bpfstack_info info;
	uint64_t c[WIRE_STACK_COUNTERS], stops = 0;
	if (bpfstack_info(stack, &info, &err) < 0 || bpfstack_counts(stack, c, &err) < 0)
		fail(&err);
	printf("\"verified_instructions\": %u, \"program_bytes\": %u, \"stack_bytes\": %u, ",
	       info.verified_instructions, info.program_bytes, info.stack_bytes);
	printf("\"table_bytes\": %u, \"table_room\": %u, \"modules\": %u, "
	       "\"modules_without_table\": %u, "
	       "\"places\": %u, ",
	       info.table_bytes, info.table_room, info.modules, info.modules_without_table,
	       info.places);
	printf("\"runs\": %lu, \"run_ns\": %lu, ", info.runs, info.run_ns);
	printf("\"captures\": %lu, \"busy\": %lu, \"untracked\": %lu, \"ring_full\": %lu, "
	       "\"frames\": %lu, "
	       "\"reads\": %lu, \"reads_failed\": %lu, \"guessed\": %lu, \"missed\": %lu, "
	       "\"stops\": {",
	       c[WIRE_STACK_CAPTURES], c[WIRE_STACK_BUSY], c[WIRE_STACK_UNTRACKED],
	       c[WIRE_STACK_RING_FULL], c[WIRE_STACK_FRAMES], c[WIRE_STACK_READS],
	       c[WIRE_STACK_READS_FAILED], c[WIRE_STACK_GUESSED], c[WIRE_STACK_MISSED]);
	const char *comma = "";
	for (unsigned i = 0; i < WIRE_STOP_MAX; i++) {
		stops += c[WIRE_STACK_STOPS + i];
		if (c[WIRE_STACK_STOPS + i]) {
			printf("%s\"%u\": %lu", comma, i, c[WIRE_STACK_STOPS + i]);
			comma = ", ";
		}
	}
	printf("}, \"stops_sum\": %lu", stops);
}

static int load(void)
{
	struct err err;
	double start = seconds();
	struct bpfstack *stack = bpfstack_new(&opt, &err);
	if (!stack || bpfstack_add(stack, (uint32_t)getpid(), &err) < 0 ||
	    bpfstack_load(stack, &err) < 0)
		fail(&err);
	printf("{");
	print_common(stack);
	printf(", \"seconds\": %.3f}\n", seconds() - start);
	bpfstack_free(stack);
	return 0;
}

/* ---- compare ---- */

struct comparison {
	struct double_file *file;
	struct bpfstack *stack;
	uint64_t seen, equal_ours, equal_theirs, frames, deep, shown;
};

static int equal(const uint64_t *a, uint32_t an, const uint64_t *b, uint32_t bn, int at_limit)
{
	if (at_limit) /* the kernel's walk is shorter by design there: what it has must be right */
		bn = an < bn ? an : bn;
	return an == bn && !memcmp(a, b, an * sizeof(*a));
}

static void show(const char *whose, const struct wire_stack *r, const uint64_t *frames, uint32_t n)
{
	fprintf(stderr, "record %lu differs from %s; kernel stop %u, %u frames, %u guessed\n",
		r->arg, whose, r->stop, r->count, r->guessed);
	for (uint32_t i = 0; i + 3 < r->count || i < n; i++)
		fprintf(stderr, "  %3u kernel %16lx  %s %16lx\n", i,
			i + 3 < r->count ? r->frame[i + 3] : 0, whose, i < n ? frames[i] : 0);
}

static int take(void *ctx, const struct wire_stack *r)
{
	struct comparison *c = ctx;
	if (r->arg >= DOUBLE_RECORDS || r->count < 3)
		return 0;
	const struct double_record *d = &c->file->record[r->arg];
	/* the first three are stack_here(), capture() and the double's malloc() */
	const uint64_t *frames = r->frame + 3;
	uint32_t n = r->count - 3u;
	int at_limit = r->stop == WIRE_STOP_TOO_DEEP;
	int ours = equal(frames, n, d->our_frame, d->ours, at_limit) &&
		   (at_limit || r->stop == d->root);
	int theirs = equal(frames, n, d->their_frame, d->theirs, at_limit);
	c->seen++;
	c->frames += n;
	c->deep += (uint64_t)at_limit;
	c->equal_ours += (uint64_t)ours;
	c->equal_theirs += (uint64_t)theirs;
	if (!ours && c->shown++ < 3)
		show("user space", r, d->our_frame, d->ours);
	else if (!theirs && c->shown++ < 3)
		show("libunwind", r, d->their_frame, d->theirs);
	return 0;
}

static pid_t spawn(char **argv, const char *preload, const char *path)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	int null = open("/dev/null", O_WRONLY);
	dup2(null, 1);
	dup2(null, 2);
	if (preload) {
		setenv("LD_PRELOAD", preload, 1);
		setenv("STACKDOUBLE_FILE", path, 1);
	}
	execvp(argv[0], argv);
	_exit(127);
}

static int compare(int every, const char *preload, char **argv)
{
	struct err err;
	char path[] = "/tmp/byteledger-double-XXXXXX";
	int fd = mkstemp(path), status = 0;
	struct comparison c = { 0 };
	if (fd < 0 || ftruncate(fd, sizeof(*c.file)) < 0)
		return 1;
	c.file = mmap(NULL, sizeof(*c.file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	c.file->every = (uint32_t)every;
	c.stack = bpfstack_new(&opt, &err);
	pid_t pid = spawn(argv, preload, path);
	while (!__atomic_load_n(&c.file->pid, __ATOMIC_SEQ_CST)) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			fprintf(stderr, "bpf_stack: the program ended before it began\n");
			return 1;
		}
		usleep(1000);
	}
	/* the process that has the double may be a child (a shell's, a driver's) */
	uint32_t target = c.file->pid;
	unlink(path);
	if (!c.stack || bpfstack_add(c.stack, target, &err) < 0 ||
	    bpfstack_load(c.stack, &err) < 0 ||
	    bpfstack_attach(c.stack, target, preload, "stack_here", 0, &err) < 0) {
		kill(pid, SIGKILL);
		fail(&err);
	}
	__atomic_store_n(&c.file->go, 1, __ATOMIC_SEQ_CST);
	for (int ended = 0; !ended;) {
		ended = waitpid(pid, &status, WNOHANG) == pid;
		uint32_t wanted = __atomic_load_n(&c.file->wanted, __ATOMIC_SEQ_CST);
		if (wanted != c.file->done) {
			bpfstack_refresh(c.stack, target, &err);
			__atomic_store_n(&c.file->done, wanted, __ATOMIC_SEQ_CST);
		}
		if (bpfstack_drain(c.stack, ended ? 0 : 1, take, &c, &err) < 0)
			fail(&err);
		if (c.seen >= DOUBLE_RECORDS &&
		    !ended) { /* enough; servers do not end by themselves */
			kill(pid, SIGTERM);
			waitpid(pid, &status, 0);
			ended = 1;
		}
	}
	uint32_t taken = c.file->count;
	printf("{\"taken\": %u, \"compared\": %lu, \"equal_to_user_space\": %lu, "
	       "\"equal_to_libunwind\": %lu, "
	       "\"mean_depth\": %.1f, \"at_the_frame_limit\": %lu, \"mallocs\": %lu, \"dlopens\": "
	       "%u, "
	       "\"status\": %d, ",
	       taken, c.seen, c.equal_ours, c.equal_theirs,
	       c.seen ? (double)c.frames / (double)c.seen : 0, c.deep, c.file->mallocs,
	       c.file->wanted, status);
	print_common(c.stack);
	printf("}\n");
	bpfstack_free(c.stack);
	return 0;
}

/* ---- watch ---- */

static int count_only(void *ctx, const struct wire_stack *r)
{
	uint64_t *received = ctx;
	(void)r;
	++*received;
	return 0;
}

static int watch(double limit, const char *path, const char *symbol, pid_t pid, char **argv)
{
	struct err err;
	uint64_t received = 0;
	int status = 0, ended = 0, attached = 0;
	pid_t child = 0;
	if (argv) {
		child = pid = spawn(argv, NULL, NULL);
		usleep(20000); /* exec and the loader; what is mapped later is announced */
	}
	struct bpfstack *stack = bpfstack_new(&opt, &err);
	if (!stack || bpfstack_add(stack, (uint32_t)pid, &err) < 0 ||
	    bpfstack_load(stack, &err) < 0 ||
	    bpfstack_attach(stack, (uint32_t)pid, path, symbol, 0, &err) < 0)
		fail(&err);
	attached = 1;
	if (bpfstack_drop_privileges(&err) < 0)
		fail(&err);
	double start = seconds();
	while (!ended && seconds() - start < limit) {
		ended = child && waitpid(child, &status, WNOHANG) == child;
		if (bpfstack_drain(stack, ended ? 0 : 10, count_only, &received, &err) < 0)
			fail(&err);
	}
	double took = seconds() - start;
	/* the program may go on: captures and records are only equal once nothing can come any more */
	bpfstack_detach(stack);
	if (bpfstack_drain(stack, 0, count_only, &received, &err) < 0)
		fail(&err);
	printf("{\"received\": %lu, \"seconds\": %.3f, \"attached\": %d, \"ended\": %d, "
	       "\"status\": %d, ",
	       received, took, attached, ended, status);
	print_common(stack);
	printf("}\n");
	bpfstack_free(stack);
	if (child && !ended) {
		kill(child, SIGTERM);
		waitpid(child, &status, 0);
	}
	return 0;
}

static int peer(double limit, const char *path, const char *symbol, int walks, char **argv)
{
	struct peer_bpf *p = peer_bpf__open_and_load();
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME), status, cpus = libbpf_num_possible_cpus();
	pid_t child = spawn(argv, NULL, NULL);
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .func_name = symbol);
	if (!p || stats < 0)
		return 1;
	usleep(20000);
	struct bpf_program *program = walks ? p->progs.peer_stack : p->progs.peer_nothing;
	struct bpf_link *link = bpf_program__attach_uprobe_opts(program, child, path, 0, &opts);
	if (!link)
		return 1;
	usleep((useconds_t)(limit * 1e6));
	bpf_link__destroy(link);
	kill(child, SIGTERM);
	waitpid(child, &status, 0);
	struct bpf_prog_info info = { 0 };
	uint32_t bytes = sizeof(info), zero = 0;
	bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes);
	struct peer_value {
		uint64_t captures, frames, failed, frame[256];
	} *all = calloc((size_t)cpus, sizeof(*all)), sum = { 0 };
	bpf_map_lookup_elem(bpf_map__fd(p->maps.peer_scratch), &zero, all);
	for (int i = 0; i < cpus; i++) {
		sum.captures += all[i].captures;
		sum.frames += all[i].frames;
		sum.failed += all[i].failed;
	}
	printf("{\"runs\": %lu, \"run_ns\": %lu, \"captures\": %lu, \"frames\": %lu, \"failed\": "
	       "%lu}\n",
	       (unsigned long)info.run_cnt, (unsigned long)info.run_time_ns, sum.captures,
	       sum.frames, sum.failed);
	free(all);
	close(stats);
	peer_bpf__destroy(p);
	return 0;
}

int main(int argc, char **argv)
{
	opt.cache_dir = "";
	if (argc == 2 && !strcmp(argv[1], "load"))
		return load();
	if (argc > 5 && !strcmp(argv[1], "compare") && !strcmp(argv[4], "--"))
		return compare(atoi(argv[2]), argv[3], argv + 5);
	if (argc > 6 && !strcmp(argv[1], "watch")) {
		int i = 5;
		for (; i < argc && strcmp(argv[i], "--") && strcmp(argv[i], "-p"); i++) {
			opt.no_rule_cache |= !strcmp(argv[i], "no-cache");
			opt.count_only |= !strcmp(argv[i], "count-only");
			if (!strncmp(argv[i], "block=", 6))
				opt.block_bytes = (uint32_t)atoi(argv[i] + 6);
			/* held to the end; the kernel counts while somebody holds it */
			if (!strcmp(argv[i], "stats") && bpf_enable_stats(BPF_STATS_RUN_TIME) < 0)
				return 1;
		}
		if (i + 1 < argc && !strcmp(argv[i], "-p"))
			return watch(atof(argv[2]), argv[3], argv[4], atoi(argv[i + 1]), NULL);
		if (i + 1 < argc)
			return watch(atof(argv[2]), argv[3], argv[4], 0, argv + i + 1);
	}
	if (argc > 7 && !strcmp(argv[1], "peer") && !strcmp(argv[6], "--"))
		return peer(atof(argv[2]), argv[3], argv[4], !strcmp(argv[5], "stack"), argv + 7);
	fprintf(stderr, "usage: see the head of bpf_stack.c\n");
	return 2;
}
