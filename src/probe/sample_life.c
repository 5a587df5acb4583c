/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sample_life.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "probe/sample_life_impl.h"
#include "proc/proc.h"
#include "recorder/sample_record.h"
#include "sym/sym.h"

#define LOOK_NS 100000000ull /* new code is looked for, ends are seen */
#define SOON_NS 10000000ull  /* what a program begins with loads most of its code */
#define BEGINS_NS (2 * NS_PER_S)
#define MARK_NS NS_PER_S
#define CODE_NS NS_PER_S  /* new files of one process */
#define EVERY_NS NS_PER_S /* at most one answer in so much */
#define HASTE -10
#define STARTED_BUDGET 0.05
#define STARTED_NS 1e9
#define FEW 4 /* processes, whose probes are each a perf event: each takes 0.1 s to close */

PRINTF(2, 3) static void say(const struct sample_life *l, const char *format, ...)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	va_list args;
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	l->opt.ears.say(buf_cstr(&text));
}

static void describe(struct sample_life *l, uint32_t pid, struct err *err)
{
	char exe[4096];
	if (proc_exe((pid_t)pid, exe, sizeof(exe)) < 0)
		exe[0] = '\0';
	struct sample_process *p = samples_add_process(l->samples, pid, exe);
	if (!p)
		err_set(err, -ENOMEM, "cannot keep samples");
	else
		snprintf(p->tier, sizeof(p->tier), "B");
	if (p) /* an id may come again */
		p->ended = 0;
}

static uint64_t process_cpu_ns(uint32_t pid)
{
	clockid_t clock;
	return clock_getcpuclockid((pid_t)pid, &clock) == 0 ? clock_ns(clock) : 0;
}

static void fini_target(struct sample_target *t)
{
	sym_free(t->sym);
	sampler_files_freep(&t->files);
	if (t->pidfd >= 0)
		close(t->pidfd);
}

static int is_gone(const struct sample_target *t)
{
	struct pollfd fd = { .fd = t->pidfd, .events = POLLIN };
	return t->pidfd >= 0 ? poll(&fd, 1, 0) > 0 : kill((pid_t)t->pid, 0) < 0 && errno == ESRCH;
}

/* Those that have ended make place, when what was taken of them is read. */
static void forget_ended(struct sample_life *l)
{
	struct sample_target ended[SAMPLE_PROCESSES_MAX];
	uint32_t pids[SAMPLE_PROCESSES_MAX];
	struct err err = { 0 };
	struct sym_opt opt = { 0 };
	size_t gone = 0;
	for (size_t i = 0; i < l->target_count; i++)
		gone += (size_t)l->targets[i].ended;
	if (!gone || sampler_read(l->sampler, l->samples, &err) < 0)
		return;
	gone = sample_places_free(l->targets, &l->target_count, ended);
	for (size_t i = 0; i < gone; i++) {
		pids[i] = ended[i].pid;
		l->forgotten_cpu_ns += ended[i].cpu_ns;
		fini_target(&ended[i]);
	}
	sampler_forget(l->sampler, pids, gone);
	if (!l->own)
		l->own = sym_new(&opt, &err);
}

/* A process whose stacks can be walked from now on. */
static struct sample_target *add_target(struct sample_life *l, uint32_t pid, struct err *err)
{
	for (size_t i = 0; i < l->target_count; i++)
		if (l->targets[i].pid == pid && !l->targets[i].ended)
			return NULL;
	if (l->target_count == SAMPLE_PROCESSES_MAX)
		forget_ended(l);
	if (l->target_count == SAMPLE_PROCESSES_MAX) {
		if (!l->full++)
			say(l, "more than %d processes at once: the others are left out",
			    SAMPLE_PROCESSES_MAX);
		return NULL;
	}
	if (sampler_add(l->sampler, pid, err) < 0) {
		if (err->code != -ESRCH)
			return NULL;
		err_init(err); /* in the words of all commands */
		err_set(err, -ESRCH, "cannot look at process %" PRIu32, pid);
		err_hint(err, "no process has that id; it may have ended");
		return NULL;
	}
	struct sample_target *t = &l->targets[l->target_count];
	*t = (struct sample_target){ .pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0) };
	t->cpu_first_ns = process_cpu_ns(pid);
	char path[64];
	struct stat mounts;
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/ns/mnt", pid);
	if (stat(path, &mounts) == 0)
		t->mounts = mounts.st_ino;
	describe(l, pid, err);
	l->target_count++;
	return t;
}

static int a_samples_by_bytes(const struct sample_life *l)
{
	return !l->opt.sampler.sample_every;
}

/* Where nothing else can be probed: tried on a function of our own before. */
static int may_probe_nop5(struct sample_life *l, const char *name, struct err *err)
{
	if (l->opt.want.allow_nop5)
		return 0;
	if (!l->nop5_tried++)
		l->nop5_safe = sampler_nop5_is_safe(l->sampler);
	if (l->nop5_safe == 1)
		return 0;
	if (l->nop5_safe < 0)
		return err_set(err, l->nop5_safe,
			       "'%s' can be probed at a nop of 5 bytes only, and whether that is "
			       "safe cannot be tried",
			       name);
	err_set(err, -ENOTSUP,
		"'%s' can be probed at a nop of 5 bytes only, of which forked children die on "
		"this kernel (tried)",
		name);
	return err_hint(err, "probe another function with -f, or --allow-nop5 where the program "
			     "forks no children");
}

static void note_tier(struct sample_life *l, uint32_t pid,
		      const struct sampler_functions *functions, int is_first)
{
	int hooks = 0, calls = 0;
	for (size_t i = 0; i < functions->count; i++)
		*(functions->all[i].is_hook ? &hooks : &calls) += 1;
	struct sample_process *p = samples_process(l->samples, pid);
	if (p && !is_first) {
		hooks += p->tier[0] == 'A';
		calls += strchr(p->tier, 'B') != NULL;
	}
	if (p)
		snprintf(p->tier, sizeof(p->tier), "%s",
			 hooks && calls ? "A+B"
			 : hooks        ? "A"
					: "B");
}

/* Probe what was found in a process, or in the file that is meant wherever it is mapped. */
static int attach_found(struct sample_life *l, uint32_t pid, struct sampler_functions *functions,
			int is_first, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < functions->count && !rc; i++)
		if (functions->all[i].kind == SAMPLER_NOP5)
			rc = may_probe_nop5(l, functions->all[i].name, err);
	if (!rc && functions->hook_bytes && a_samples_by_bytes(l)) {
		l->samples->sample_bytes = functions->hook_bytes;
		l->governor.of_hook = l->of_hook = 1;
		rc = sampler_set_bytes(l->sampler, functions->hook_bytes, err);
	}
	note_tier(l, pid, functions, is_first);
	if (!rc)
		rc = sampler_attach(l->sampler, pid, functions, err);
	return rc ? rc : sampler_note_functions(l->sampler, l->samples, err);
}

static int attach_everywhere(struct sample_life *l, struct err *err)
{
	struct sampler_functions functions;
	int rc = sampler_find(0, &l->opt.want, &functions, err);
	if (rc < 0)
		return rc;
	rc = attach_found(l, 0, &functions, 1, err);
	sampler_functions_fini(&functions);
	return rc;
}

/* A process is called by what it runs by now. */
static void name_again(struct sample_life *l, uint32_t pid)
{
	char exe[4096];
	if (proc_exe((pid_t)pid, exe, sizeof(exe)) >= 0)
		samples_rename_process(l->samples, pid, exe);
}

/* What @t has mapped since it was looked at the last time. */
static int attach(struct sample_life *l, struct sample_target *t, struct err *err)
{
	struct sampler_functions functions;
	int is_first = !t->files;
	int rc = sampler_find_more(t->pid, &l->opt.want, &t->files, &functions, err);
	if (rc < 0)
		return rc;
	if (!is_first)
		name_again(l, t->pid);
	if (functions.count)
		rc = attach_found(l, t->pid, &functions, is_first, err);
	sampler_functions_fini(&functions);
	/* what was loaded while probes went in is announced to nobody */
	t->has_mapped |= is_first;
	t->look_due_ns = clock_ns(CLOCK_MONOTONIC) + CODE_NS;
	return rc;
}

static void has_mapped(void *ctx, uint32_t pid)
{
	struct sample_life *l = ctx;
	for (size_t i = 0; i < l->target_count; i++)
		if (l->targets[i].pid == pid && !l->targets[i].ended) {
			l->targets[i].has_mapped = 1;
			name_again(l, pid); /* it may end before its code is looked into */
		}
}

/* Modules that were loaded meanwhile, and the allocators in them. */
static void look_into_new_code(struct sample_life *l, uint64_t now)
{
	for (size_t i = 0; i < l->target_count; i++) {
		struct sample_target *t = &l->targets[i];
		struct err its = { 0 };
		if (!t->has_mapped || t->ended || !t->files || now < t->look_due_ns)
			continue;
		t->has_mapped = 0;
		if (attach(l, t, &its) < 0 && its.code != -ESRCH && !is_gone(t))
			say(l, "%s", its.msg);
	}
}

/*
 * Processes that have mapped the file already: their stacks can be walked from the first sample on.
 */
static void add_mappers(struct sample_life *l, const char *path)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	char real[4096];
	const char *name = realpath(path, real) ? real : path;
	while (dir && (entry = readdir(dir)) != NULL) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		struct err gone = { 0 };
		if (pid > 0 && pid != getpid() && proc_maps_has(pid, name, 0) == 1)
			add_target(l, (uint32_t)pid, &gone);
	}
	if (dir)
		closedir(dir);
}

/* Of one that has ended, too, until its parent has taken note. */
static uint64_t target_cpu_ns(struct sample_target *t)
{
	uint64_t now = t->ended ? 0 : process_cpu_ns(t->pid);
	if (now > t->cpu_first_ns)
		t->cpu_ns = now - t->cpu_first_ns;
	return t->cpu_ns;
}

/* What all of them have used since it counts, or since they were met. */
static uint64_t used_cpu_ns(void *ctx)
{
	struct sample_life *l = ctx;
	uint64_t sum = l->forgotten_cpu_ns;
	for (size_t i = 0; i < l->target_count; i++)
		sum += target_cpu_ns(&l->targets[i]);
	return sum;
}

/* Everything is attached, or held: from here on it counts. */
static int start(struct sample_life *l, struct err *err)
{
	const struct sample_life_opt *a = &l->opt;
	for (size_t i = 0; i < l->target_count; i++)
		l->targets[i].cpu_first_ns = process_cpu_ns(l->targets[i].pid);
	l->samples->start_ns = l->samples->now_ns = clock_ns(CLOCK_MONOTONIC);
	l->samples->start_realtime_ns = clock_ns(CLOCK_REALTIME);
	l->governor = (struct sampler_governor){ .sampler = l->sampler,
						 .samples = l->samples,
						 .budget = a->budget,
						 .only_measure = a->leaks || a->output || a->kernel,
						 .of_kernel = a->kernel,
						 .is_started = a->program > 0,
						 .given_ns = l->samples->given_ns,
						 .tick_ns = l->tick_ns,
						 .cpu_ns = used_cpu_ns,
						 .cpu_ctx = l,
						 .sample_bytes = l->samples->sample_bytes,
						 .of_hook = l->of_hook };
	return sampler_governor_init(&l->governor, l->samples->start_ns, err);
}

/* The kernel's tracepoints; with targets, what their system calls ask for. */
static int begin_kernel(struct sample_life *l, const struct target_list *list, struct err *err)
{
	const struct sample_life_opt *a = &l->opt;
	uint32_t *pids = calloc(list->count + 1, sizeof(*pids));
	if (!pids)
		return err_set(err, -ENOMEM, "cannot keep samples");
	for (size_t i = 0; i < list->count; i++)
		pids[i] = (uint32_t)list->pids[i];
	int rc = sampler_kernel_attach(l->sampler, pids, list->count, err);
	free(pids);
	struct sample_process *p = samples_add_process(l->samples, 0, "[kernel]");
	if (!rc && !p)
		rc = err_set(err, -ENOMEM, "cannot keep samples");
	if (!rc && l->opt.ears.ready)
		rc = a->ears.ready(a->ears.ctx, err);
	if (rc < 0)
		return rc;
	snprintf(p->tier, sizeof(p->tier), "kernel");
	rc = sampler_note_functions(l->sampler, l->samples, err);
	if (rc < 0)
		return rc;
	if (list->count)
		say(l, "sampling the kernel's allocations for %zu process%s; Ctrl-C ends it",
		    list->count, list->count == 1 ? "" : "es");
	else
		say(l, "sampling the kernel's allocations; Ctrl-C ends it");
	l->samples->emulated_ns = l->samples->stepped_ns = 0;
	return start(l, err);
}

/* steps in their order, each may refuse */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity) */
int sample_life_begin(struct sample_life *l, struct err *err)
{
	const struct sample_life_opt *a = &l->opt;
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	int everywhere = (a->file || a->kernel) && !targets_given(a->targets);
	int rc = 0;
	if (!everywhere)
		rc = targets_find(a->targets, l->end_ns, &list, err);
	if (rc < 0)
		return rc;
	l->samples = samples_new(err);
	l->opt.sampler.kernel_pids = list.count;
	l->opt.sampler.windows = a->budget > 0 && !a->leaks && !a->output && !a->kernel;
	l->opt.sampler.family = targets_follow(a->targets) || list.count > FEW;
	l->sampler = l->samples ? sampler_new(&a->sampler, err) : NULL;
	if (!l->sampler)
		return err->code;
	for (size_t i = 0; i < list.count && !a->kernel; i++) {
		struct err gone = { 0 };
		if (!add_target(l, (uint32_t)list.pids[i], &gone) && gone.code &&
		    (list.count == 1 || gone.code != -ESRCH)) {
			*err = gone;
			return gone.code;
		}
	}
	if (everywhere && !a->kernel)
		add_mappers(l, a->file);
	rc = sampler_load(l->sampler, err);
	if (rc < 0)
		return rc;
	l->samples->tracked = a->leaks;
	l->samples->keep_blocks = a->keep_blocks;
	l->samples->older_ns = a->older_ns;
	l->samples->sample_bytes =
		a->sampler.sample_bytes ? a->sampler.sample_bytes : SAMPLER_BYTES;
	l->samples->sample_every = a->sampler.sample_every;
	l->samples->budget = a->budget;
	if (a->program && !a->budget_given && a->budget > 0)
		l->samples->given_ns = STARTED_NS;
	struct sampler_prices prices;
	struct err cheap = { 0 };
	if (sampler_calibrate(l->sampler, &prices, &cheap) == 0) {
		l->samples->emulated_ns = prices.emulated_ns;
		l->samples->stepped_ns = prices.stepped_ns;
		l->tick_ns = prices.tick_ns;
	}
	if (a->kernel)
		return begin_kernel(l, &list, err);
	int is_governed = a->budget > 0 && !a->leaks && !a->output;
	if (is_governed)
		sampler_hold(l->sampler); /* what a call costs is found out first */
	if (everywhere)
		rc = attach_everywhere(l, err);
	if (rc < 0)
		return rc;
	size_t attached = 0;
	for (size_t i = 0; i < l->target_count && !everywhere; i++) {
		struct err its = { 0 };
		if (attach(l, &l->targets[i], &its) == 0) {
			attached++;
			continue;
		}
		*err = its;
		if (l->target_count == 1)
			return its.code;
		if (!targets_follow(a->targets) || !is_gone(&l->targets[i]))
			say(l, "%s", its.msg);
	}
	if (!everywhere && !attached)
		return err->code ? err->code : err_set(err, -ESRCH, "no process to sample");
	err_init(err);
	if (a->ears.ready && a->ears.ready(a->ears.ctx, err) < 0)
		return err->code;
	/*
	 * on a busy machine, too, probes shall go in time; looking for functions may take its own
	 */
	if (is_governed)
		setpriority(PRIO_PROCESS, 0, HASTE);
	if (everywhere)
		say(l, "sampling every process that maps '%s'; Ctrl-C ends it", a->file);
	else
		say(l, "sampling %zu process%s by %zu function%s; Ctrl-C ends it", l->target_count,
		    l->target_count == 1 ? "" : "es", l->samples->function_count,
		    l->samples->function_count == 1 ? "" : "s");
	if (start(l, err) < 0)
		return err->code;
	if (a->output && l->samples->process_count > 1)
		return err_set(err, -EINVAL, "a recording is of one process, and these are %zu",
			       l->samples->process_count);
	if (a->output) {
		l->record = sample_record_new(l->sampler, l->samples, a->output, err);
		rc = l->record ? 0 : err->code;
	}
	return rc;
}

static int open_dump_signal(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Processes that map the file and were met by a probe. */
static void add_strangers(struct sample_life *l)
{
	uint32_t strangers[64];
	size_t count = sampler_strangers(l->sampler, strangers, 64);
	for (size_t i = 0; i < count; i++) {
		struct err gone = { 0 };
		add_target(l, strangers[i], &gone);
	}
}

/* Who came: others of a name, children, processes that map the file. */
static void look_for_more(struct sample_life *l)
{
	const struct sample_life_opt *a = &l->opt;
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	l->more_due_ns = targets_more_due(0);
	if (targets_follow(a->targets)) {
		CLEANUP(target_list_fini) struct target_list list = { 0 };
		struct err err = { 0 };
		for (size_t i = 0; i < l->target_count; i++)
			if (!l->targets[i].ended)
				target_list_add(&list, (pid_t)l->targets[i].pid, &err);
		size_t known = list.count;
		targets_more(a->targets, &list, &err);
		/* looking is what recurs; who was found is probed once */
		l->more_due_ns = targets_more_due(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
		uint64_t until = clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
		for (size_t i = known; i < list.count; i++) {
			struct err its = { 0 };
			struct sample_target *t = add_target(l, (uint32_t)list.pids[i], &its);
			if (t && attach(l, t, &its) < 0 && its.code != -ESRCH && !is_gone(t))
				say(l, "%s", its.msg);
			/* the budget is seen to in between */
			if (t && clock_ns(CLOCK_MONOTONIC) > until) {
				l->more_due_ns = 0;
				break;
			}
		}
	}
}

/* Return: how many of the targets still run. */
static size_t see_ends(struct sample_life *l)
{
	size_t alive = 0;
	for (size_t i = 0; i < l->target_count; i++) {
		struct sample_target *t = &l->targets[i];
		if (t->ended)
			continue;
		int over = t->pid == (uint32_t)l->opt.program && l->opt.program
				   ? started_has_ended((pid_t)t->pid)
				   : is_gone(t);
		if (!over) {
			alive++;
			continue;
		}
		target_cpu_ns(t);
		t->ended = 1;
		struct sample_process *p = samples_process(l->samples, t->pid);
		if (p)
			p->ended = 1;
	}
	return alive;
}

/* A second has passed, or an interval. */
static int mark(struct sample_life *l, uint64_t now, struct err *err)
{
	int rc = sampler_read(l->sampler, l->samples, err);
	if (rc == 0)
		samples_mark(l->samples, now);
	return rc;
}

/*
 * Frees cannot be thinned out: a budget that was asked for is kept by leaving. Return: 1 to leave.
 */
static int is_too_dear(struct sample_life *l)
{
	const struct sample_life_opt *a = &l->opt;
	if (!(a->leaks || a->kernel) || !a->budget_given || a->budget <= 0)
		return 0;
	l->over = l->governor.fraction > a->budget ? l->over + 1 : 0;
	if (l->over < 3)
		return 0;
	snprintf(l->samples->governed, sizeof(l->samples->governed),
		 "ended early: following frees cost %.3g %% of a CPU, more than the budget",
		 100 * l->governor.fraction);
	return 1;
}

static int answer(struct sample_life *l, uint64_t asked, struct err *err)
{
	int rc = l->opt.ears.answer ? l->opt.ears.answer(l->opt.ears.ctx, err) : 0;
	if (rc < 0)
		return rc;
	desk_answer(&l->desk, asked);
	l->answer_due_ns = clock_ns(CLOCK_MONOTONIC) + EVERY_NS;
	return 0;
}

/* What recurs: ends, new code, others that came, marks and reports. Return: nonzero ends it. */
enum { BY_US = 1, BY_THEM = 2 };
/* What may have happened, case by case. */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity) */
static int see_to_all(struct sample_life *l, uint64_t now, struct err *err)
{
	const struct sample_life_opt *a = &l->opt;
	int everywhere = a->kernel || (a->file && !targets_given(a->targets));
	sampler_poll(l->sampler, has_mapped, l);
	if (!everywhere)
		look_into_new_code(l, now);
	size_t alive = see_ends(l);
	if (!alive && !everywhere && !a->targets->name)
		return BY_THEM;
	if (a->program && started_has_ended(a->program))
		return BY_THEM;
	if (everywhere && !a->kernel)
		add_strangers(l);
	if (l->record && sample_record_drain(l->record, now, err) < 0)
		return err->code;
	if (now >= l->more_due_ns && !a->kernel)
		look_for_more(l);
	if (now >= l->mark_due_ns) {
		if (mark(l, now, err) < 0)
			return err->code;
		if (a->ears.marked && a->ears.marked(a->ears.ctx, err) < 0)
			return err->code;
		if (is_too_dear(l))
			return BY_US;
		l->mark_due_ns += l->mark_ns;
		if (l->mark_due_ns < now)
			l->mark_due_ns = now + l->mark_ns;
	}
	if (l->interval_ns && now >= l->next_ns) {
		l->next_ns += l->interval_ns;
		if (l->next_ns <= now) /* what came late is not told again at once */
			l->next_ns = now + l->interval_ns;
		if (a->ears.show(a->ears.ctx, err) < 0)
			return err->code;
		if (++l->shown >= a->count && a->count)
			return BY_US;
	}
	return l->end_ns && now >= l->end_ns ? BY_US : 0;
}

/* When things are looked at again that announce themselves to nobody. */
static uint64_t next_look(const struct sample_life *l, uint64_t now)
{
	int begins = l->opt.program && now - l->samples->start_ns < BEGINS_NS;
	return now + (begins ? SOON_NS : LOOK_NS);
}

/*
 * Until a signal, the end of the time or of the processes. Return: 0 the user or the clock ended
 * it, 1 the processes did.
 */
static int watch(struct sample_life *l, struct err *err)
{
	const struct sample_life_opt *a = &l->opt;
	int has_ended = 0;
	l->mark_ns = l->interval_ns && l->interval_ns < MARK_NS ? l->interval_ns : MARK_NS;
	l->mark_due_ns = l->samples->start_ns + l->mark_ns;
	l->next_ns = l->samples->start_ns + l->interval_ns;
	for (;;) {
		/* before all else, which takes its time: probes may be in that are to go now */
		if (sampler_govern(&l->governor, clock_ns(CLOCK_MONOTONIC), err) < 0)
			return err->code;
		uint64_t now = clock_ns(CLOCK_MONOTONIC), next = next_look(l, now);
		int hurries = !has_ended && sampler_governor_hurries(&l->governor, now);
		int rc = hurries ? 0 : see_to_all(l, now, err);
		if (rc)
			return rc < 0 ? rc : rc == BY_THEM;
		uint64_t asked = desk_asked(&l->desk);
		uint64_t asked_ns =
			desk_waits(&l->desk) && !hurries ? l->answer_due_ns : UINT64_MAX;
		if (asked_ns <= now && answer(l, asked, err) < 0)
			return err->code;
		next = asked_ns > now && asked_ns < next ? asked_ns : next;
		next = l->governor.until_ns < next ? l->governor.until_ns : next;
		if (!hurries) {
			next = l->end_ns && l->end_ns < next ? l->end_ns : next;
			next = l->interval_ns && l->next_ns < next ? l->next_ns : next;
		}
		now = clock_ns(CLOCK_MONOTONIC);
		uint64_t left = next > now ? next - now : 0;
		struct timespec time = clock_time(left);
		int one = l->target_count == 1 && !l->targets[0].ended ? l->targets[0].pidfd : -1;
		struct pollfd fds[5] = { { .fd = l->signals, .events = POLLIN },
					 { .fd = l->dump_signal, .events = POLLIN },
					 { .fd = sampler_wake_fd(l->sampler), .events = POLLIN },
					 { .fd = hurries ? -1 : desk_fd(&l->desk),
					   .events = POLLIN },
					 { .fd = one, .events = POLLIN } };
		has_ended = 0;
		if (ppoll(fds, 5, &time, NULL) <= 0)
			continue;
		has_ended = fds[4].revents != 0;
		if (fds[0].revents && started_signals(l->signals, a->program))
			return 0;
		struct signalfd_siginfo info;
		if (fds[1].revents && read(l->dump_signal, &info, sizeof(info)) > 0 &&
		    a->ears.show(a->ears.ctx, err) < 0)
			return err->code;
	}
}

int sample_life_run(struct sample_life *l, struct err *err)
{
	if (l->opt.duration_ns) /* it counts from where something is seen */
		l->end_ns = clock_ns(CLOCK_MONOTONIC) + l->opt.duration_ns;
	return watch(l, err);
}

int sample_life_end(struct sample_life *l, int ended, struct err *err)
{
	uint64_t ended_ns = clock_ns(CLOCK_MONOTONIC);
	int rc = ended < 0 ? ended : sampler_governor_end(&l->governor, ended, ended_ns, err);
	if (!ended)
		ended_ns = clock_ns(CLOCK_MONOTONIC);
	if (l->governor.last_ns) /* taking probes out takes its time */
		ended_ns = l->governor.last_ns;
	if (rc == 0)
		sampler_governor_cost(&l->governor, ended_ns);
	if (l->sampler)
		sampler_detach(l->sampler);
	l->ended_ns = ended_ns;
	return rc;
}

const char *sample_life_record(struct sample_life *l, struct err *err)
{
	return l->record && sample_record_finish(l->record, sample_life_resolve, l, err) == 0
		       ? sample_record_path(l->record)
		       : NULL;
}

struct samples *sample_life_samples(struct sample_life *l)
{
	return l->samples;
}

uint64_t sample_life_shown(const struct sample_life *l)
{
	return l->shown;
}

struct desk *sample_life_desk(struct sample_life *l)
{
	return &l->desk;
}

struct sample_life *sample_life_new(const struct sample_life_opt *opt, struct err *err)
{
	struct sample_life *l = calloc(1, sizeof(*l));
	if (!l) {
		err_set(err, -ENOMEM, "cannot sample");
		return NULL;
	}
	if (desk_init(&l->desk, err) < 0) {
		free(l);
		return NULL;
	}
	l->opt = *opt;
	/* neither frees nor calls of which none may be missed can be thinned out */
	if ((opt->leaks || opt->kernel || opt->sampler.sample_bytes == 1) && !opt->budget_given)
		l->opt.budget = 0;
	/* what is started to be looked at may be slower than what serves others */
	if (opt->program && !opt->budget_given && l->opt.budget > 0)
		l->opt.budget = STARTED_BUDGET;
	/* bytes are all that jemalloc's own events tell */
	if (opt->sampler.sample_every || opt->sampler.sample_bytes == 1 || opt->sampler.bytes_min ||
	    opt->sampler.bytes_max)
		l->opt.want.calls_only = 1;
	l->opt.sampler.track = l->opt.want.track = opt->leaks;
	l->dump_signal = open_dump_signal();
	l->signals = opt->program ? opt->signals : signals_open(0);
	if (opt->duration_ns)
		l->end_ns = clock_ns(CLOCK_MONOTONIC) + opt->duration_ns;
	l->interval_ns = opt->interval_ns;
	return l;
}

void sample_life_free(struct sample_life *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->target_count; i++)
		fini_target(&l->targets[i]);
	sym_free(l->own);
	sample_record_free(l->record);
	sampler_governor_fini(&l->governor);
	sampler_free(l->sampler);
	samples_free(l->samples);
	if (l->dump_signal >= 0)
		close(l->dump_signal);
	if (!l->opt.program && l->signals >= 0)
		close(l->signals);
	desk_fini(&l->desk);
	free(l);
}
