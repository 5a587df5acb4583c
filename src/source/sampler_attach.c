/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_attach.c - probes on functions, and what a probe costs here by itself. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>

#include "base/clock.h"
#include "sample.skel.h"
#include "source/bpftables.h"
#include "source/features.h"
#include "source/sampler_impl.h"

/*
 * The part of union bpf_attr that makes a link of many probes; the headers of Debian 12 end before
 * it.
 */
struct multi_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, reserved;
};

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

struct sampler_link *sampler_new_link(struct sampler *s, struct err *err)
{
	if (s->link_count == s->link_cap) {
		uint32_t cap = s->link_cap ? s->link_cap * 2 : 32;
		struct sampler_link *grown = reallocarray(s->links, cap, sizeof(*grown));
		if (!grown) {
			err_set(err, -ENOMEM, "cannot list probes");
			return NULL;
		}
		s->links = grown;
		s->link_cap = cap;
	}
	struct sampler_link *link = &s->links[s->link_count++];
	*link = (struct sampler_link){ .fd = -1 };
	return link;
}

static void end_link(struct sampler_link *link)
{
	bpf_link__destroy(link->link);
	if (link->fd >= 0)
		close(link->fd);
	*link = (struct sampler_link){ .fd = -1 };
}

/*
 * While probes are in that shall be taken out soon we do not wait for a processor behind others:
 * the process that is probed pays for every moment. Where that is not permitted it costs what it
 * costs.
 */
static void hurry(int on)
{
	const struct sched_param param = { .sched_priority = on ? 1 : 0 };
	sched_setscheduler(0, on ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER, &param);
}

/* All links but the first @from. */
static void end_links(struct sampler *s, uint32_t from)
{
	while (s->link_count > from)
		end_link(&s->links[--s->link_count]);
}

/* Of functions that all processes count together each is taken to call as much as it runs. */
static int busiest_first(const void *a, const void *b)
{
	const struct sampler_link *x = a, *y = b;
	return (x->weight < y->weight) - (x->weight > y->weight);
}

/*
 * Each link waits for a grace period of the kernel when it goes, some 40 ms: what is called most
 * often goes first.
 */
static void sort_links(struct sampler *s)
{
	uint64_t hits[WIRE_SAMPLE_FUNCTIONS_MAX];
	struct err err = { 0 };
	if (s->link_count < 2 || sampler_hits(s, hits, &err) < 0)
		return;
	for (uint32_t i = 0; i < s->link_count; i++) {
		struct sampler_link *link = &s->links[i];
		uint64_t calls = hits[link->number & (WIRE_SAMPLE_FUNCTIONS_MAX - 1)];
		link->weight = (double)(link->used_ns + 1) * (double)calls;
	}
	qsort(s->links, s->link_count, sizeof(*s->links), busiest_first);
}

#define ENDERS_MAX 32u

enum { ALLOCS_ALONE = 1, FREES_ALONE = 2, ALL_LINKS = 3 };

/* Links that several threads end, each the next one. */
struct enders {
	struct sampler_link *links;
	uint32_t count, next;
	int which, hurries;
};

static int is_of(const struct sampler_link *link, int which)
{
	return ((link->is_free ? FREES_ALONE : ALLOCS_ALONE) & which) != 0;
}

static void *end_some(void *ctx)
{
	struct enders *e = ctx;
	uint32_t i;
	while ((i = __atomic_fetch_add(&e->next, 1, __ATOMIC_RELAXED)) < e->count)
		if (is_of(&e->links[i], e->which))
			end_link(&e->links[i]);
	return NULL;
}

/*
 * A thread that does not wait for a processor behind others even before it has begun: by then
 * probes cost. Where that is not permitted it is as patient as all are.
 */
static int start_ender(pthread_t *thread, struct enders *e)
{
	const struct sched_param first = { .sched_priority = 1 };
	pthread_attr_t attr;
	int rc = -1;
	if (e->hurries && pthread_attr_init(&attr) == 0) {
		if (pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED) == 0 &&
		    pthread_attr_setschedpolicy(&attr, SCHED_FIFO) == 0 &&
		    pthread_attr_setschedparam(&attr, &first) == 0)
			rc = pthread_create(thread, &attr, end_some, e);
		pthread_attr_destroy(&attr);
	}
	return rc ? pthread_create(thread, NULL, end_some, e) : 0;
}

/*
 * A link takes its probes out at once and then waits, some 40 ms. One after the other, a family of
 * processes would be rid of its last probe after seconds and pay for it until then; so they wait
 * side by side. Without threads it takes the longer time. A perf event waits while it holds a lock
 * of all tracing (event_mutex), so side by side is no faster for those: 0.1 s each.
 */
static void end_side_by_side(struct sampler_link *links, uint32_t of, int which, int hurries)
{
	struct enders e = { .links = links, .count = of, .which = which, .hurries = hurries };
	pthread_t threads[ENDERS_MAX];
	uint32_t wanted = 0, count = 0;
	for (uint32_t i = 0; i < of; i++)
		wanted += is_of(&links[i], which) != 0;
	while (count < ENDERS_MAX && count + 1 < wanted && start_ender(&threads[count], &e) == 0)
		count++;
	end_some(&e);
	while (count)
		pthread_join(threads[--count], NULL);
}

/* Those of allocations first: a block whose free is not seen any more shall not have been taken. */
void sampler_pause(struct sampler *s)
{
	sort_links(s);
	end_side_by_side(s->links, s->link_count, ALLOCS_ALONE, s->hurries);
	end_side_by_side(s->links, s->link_count, FREES_ALONE, s->hurries);
	s->link_count = 0;
	s->held = 1;
	if (s->hurries)
		hurry(0);
	s->hurries = 0;
}

static void *reap(void *ctx)
{
	struct sampler_reaped *r = ctx;
	end_side_by_side(r->links, r->count, ALL_LINKS, 0);
	return NULL;
}

static void join_reaper(struct sampler *s)
{
	if (s->reaped.is_running)
		pthread_join(s->reaped.thread, NULL);
	free(s->reaped.links);
	s->reaped = (struct sampler_reaped){ 0 };
}

static int is_listed(uint32_t pid, const uint32_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return 1;
	return 0;
}

/*
 * Probes of who has ended cost nobody anything, but taking each out the kernel looks at every
 * process that maps the file, for a tenth of a second on a busy machine: a thread does that.
 */
static void reap_links(struct sampler *s, const uint32_t *pids, size_t count)
{
	uint32_t kept = 0;
	join_reaper(s);
	struct sampler_reaped *r = &s->reaped;
	r->links = calloc(s->link_count + 1, sizeof(*r->links));
	for (uint32_t i = 0; i < s->link_count && r->links; i++) {
		if (s->links[i].pid && is_listed(s->links[i].pid, pids, count))
			r->links[r->count++] = s->links[i];
		else
			s->links[kept++] = s->links[i];
	}
	if (!r->links)
		return; /* they stay until the end */
	s->link_count = kept;
	r->is_running = r->count && pthread_create(&r->thread, NULL, reap, r) == 0;
	if (!r->is_running)
		reap(r);
}

void sampler_forget(struct sampler *s, const uint32_t *pids, size_t count)
{
	size_t kept = 0;
	reap_links(s, pids, count);
	for (size_t i = 0; i < s->set_count; i++) {
		if (s->sets[i].pid && is_listed(s->sets[i].pid, pids, count))
			sampler_functions_fini(&s->sets[i].functions);
		else
			s->sets[kept++] = s->sets[i];
	}
	s->set_count = kept;
	for (size_t i = 0; i < count; i++)
		bpftables_remove(s->tables, pids[i]);
}

void sampler_detach(struct sampler *s)
{
	sampler_pause(s);
	join_reaper(s);
	for (size_t i = 0; i < s->set_count; i++)
		sampler_functions_fini(&s->sets[i].functions);
	s->set_count = 0;
}

static int number_of(struct sampler *s, struct sampler_function *f, struct err *err)
{
	for (uint32_t i = 0; i < s->numbered_count; i++) {
		if (s->numbered[i].vaddr == f->vaddr && !strcmp(s->numbered[i].module, f->module)) {
			f->number = i;
			return 0;
		}
	}
	if (s->numbered_count == WIRE_SAMPLE_FUNCTIONS_MAX)
		return err_set(err, -E2BIG, "cannot probe more than %d functions",
			       WIRE_SAMPLE_FUNCTIONS_MAX);
	char *module = strdup(f->module);
	if (!module)
		return err_set(err, -ENOMEM, "cannot number functions");
	s->numbered[s->numbered_count].module = module;
	s->numbered[s->numbered_count].vaddr = f->vaddr;
	const struct wire_sample_behind behind = { { f->leads_to[0], f->leads_to[1] } };
	/* without it a bit of the probes' time is taken for the program's own */
	bpf_map_update_elem(bpf_map__fd(s->skeleton->maps.sample_behinds), &s->numbered_count,
			    &behind, BPF_ANY);
	f->number = s->numbered_count++;
	return 0;
}

static uint64_t cookie_of(const struct sampler_function *f)
{
	return f->cookie | (uint64_t)f->number << 32 |
	       (f->file_at & 0xfff) << WIRE_SAMPLE_PLACE_SHIFT;
}

static int refused(const struct sampler_function *f, int error, struct err *err)
{
	err_set(err, -error, "cannot probe '%s' in '%s'", f->name, f->module);
	if (error == EPERM || error == EACCES)
		err_hint(err, "%s", features_hint(error, 1ull << CAP_SYS_ADMIN));
	return -error;
}

static int attach_one(struct sampler *s, struct bpf_program *program, uint32_t pid,
		      const struct sampler_function *f, int at_return, struct err *err)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = cookie_of(f), .retprobe = at_return,
		    .ref_ctr_offset = f->semaphore_at);
	struct sampler_link *link = sampler_new_link(s, err);
	if (!link)
		return err->code;
	link->pid = pid;
	link->used_ns = s->used_ns;
	link->is_free = (uint8_t)f->is_free;
	link->number = f->number;
	link->link = bpf_program__attach_uprobe_opts(program, pid ? (pid_t)pid : -1, f->attach,
						     f->file_at, &opts);
	if (link->link)
		return 0;
	int error = errno;
	s->link_count--;
	return refused(f, error, err);
}

/* A static probe: by a link of its own, which sets its semaphore. */
static int attach_usdt(struct sampler *s, uint32_t pid, const struct sampler_function *f,
		       struct err *err)
{
	if (bpf_map_update_elem(bpf_map__fd(s->skeleton->maps.sample_usdts), &f->number, &f->usdt,
				BPF_ANY) < 0)
		return err_set(err, -errno, "cannot describe the probe '%s'", f->name);
	return attach_one(s, s->skeleton->progs.sample_usdt, pid, f, 0, err);
}

static int is_refused_with(const struct multi_attr *attr, int error)
{
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, attr, sizeof(*attr));
	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == error;
}

int sampler_links_many(struct sampler *s)
{
	uint64_t offset = 0;
	struct bpf_program *program = s->session ? s->skeleton->progs.sample_session
						 : s->skeleton->progs.sample_call_multi;
	struct multi_attr attr = {
		.prog_fd = (uint32_t)bpf_program__fd(program),
		.attach_type = s->session ? SAMPLER_ATTACH_SESSION : SAMPLER_ATTACH_MULTI,
		.path = (uint64_t)(uintptr_t) "/",
		.offsets = (uint64_t)(uintptr_t)&offset,
		.count = 1,
	};
	/* a folder is no file to probe; who does not know the link at all says something else */
	if (!is_refused_with(&attr, EBADF))
		return 0;
	/* before 6.10 one thread alone would be probed, which sees no harm in this number */
	attr.pid = (uint32_t)-1;
	return is_refused_with(&attr, EINVAL);
}

static int is_alike(const struct sampler_function *a, const struct sampler_function *b)
{
	return !a->is_usdt && !a->is_free == !b->is_free && !strcmp(a->attach, b->attach);
}

/* All of one file's allocations, or frees, by one link, if that of @first is the first of them. */
static int attach_many(struct sampler *s, struct bpf_program *program, uint32_t type, uint32_t pid,
		       const struct sampler_functions *all, size_t first, struct err *err)
{
	uint64_t *offsets = calloc(all->count, sizeof(*offsets));
	uint64_t *cookies = calloc(all->count, sizeof(*cookies));
	const struct sampler_function *example = &all->all[first];
	uint32_t count = 0, busiest = example->number;
	int rc = offsets && cookies ? 0 : err_set(err, -ENOMEM, "cannot list probes");
	for (size_t i = 0; !rc && i < all->count; i++) {
		const struct sampler_function *f = &all->all[i];
		if (!is_alike(f, example))
			continue;
		if (i < first)
			break; /* its link has this one, too */
		if (s->hits[f->number] > s->hits[busiest])
			busiest = f->number;
		offsets[count] = f->file_at;
		cookies[count++] = cookie_of(f);
	}
	struct sampler_link *link = !rc && count ? sampler_new_link(s, err) : NULL;
	if (link) {
		struct multi_attr attr = {
			.prog_fd = (uint32_t)bpf_program__fd(program),
			.attach_type = type,
			.path = (uint64_t)(uintptr_t)example->attach,
			.offsets = (uint64_t)(uintptr_t)offsets,
			.cookies = (uint64_t)(uintptr_t)cookies,
			.count = count,
			.pid = pid,
		};
		link->pid = pid;
		link->used_ns = s->used_ns;
		link->is_free = (uint8_t)example->is_free;
		link->number = busiest;
		link->fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
		if (link->fd < 0) {
			int error = errno;
			s->link_count--;
			rc = refused(example, error, err);
		}
	} else if (!rc && count) {
		rc = err->code;
	}
	free(offsets);
	free(cookies);
	return rc;
}

static int attach_all(struct sampler *s, uint32_t pid, struct sampler_functions *all,
		      struct err *err)
{
	struct sample_bpf *k = s->skeleton;
	int rc = 0;
	for (size_t i = 0; !rc && i < all->count; i++)
		rc = number_of(s, &all->all[i], err);
	/* frees before what they end */
	for (size_t i = 0; !rc && i < all->count; i++)
		if (all->all[i].is_usdt && all->all[i].is_free && s->opt.track)
			rc = attach_usdt(s, pid, &all->all[i], err);
		else if (all->all[i].is_free && s->session && s->opt.family)
			rc = attach_many(s, k->progs.sample_free, SAMPLER_ATTACH_MULTI, pid, all, i,
					 err);
		else if (all->all[i].is_free && s->opt.track)
			rc = attach_one(s, k->progs.sample_free, pid, &all->all[i], 0, err);
	for (size_t i = 0; !rc && i < all->count; i++) {
		const struct sampler_function *f = &all->all[i];
		if (f->is_free)
			continue;
		if (f->is_usdt)
			rc = attach_usdt(s, pid, f, err);
		else if (!s->opt.track && !(s->multi && (s->windows || s->opt.family))) {
			rc = attach_one(s, k->progs.sample_call, pid, f, 0, err);
		} else if (!s->opt.track) {
			rc = attach_many(s, k->progs.sample_call_multi, SAMPLER_ATTACH_MULTI, pid,
					 all, i, err);
		} else if (s->session) {
			rc = attach_many(s, k->progs.sample_session, SAMPLER_ATTACH_SESSION, pid,
					 all, i, err);
		} else {
			rc = attach_one(s, k->progs.sample_begin, pid, f, 0, err);
			if (!rc)
				rc = attach_one(s, k->progs.sample_end, pid, f, 1, err);
		}
	}
	return rc;
}

static int attach_or_none(struct sampler *s, uint32_t pid, struct sampler_functions *functions,
			  struct err *err)
{
	libbpf_print_fn_t talk = libbpf_set_print(quiet);
	uint32_t before = s->link_count;
	int rc = attach_all(s, pid, functions, err);
	if (rc < 0)
		end_links(s, before);
	libbpf_set_print(talk);
	return rc;
}

/* What is held is put in by sampler_resume(): a try would cost what calls meanwhile do. */
static int number_all(struct sampler *s, const struct sampler_functions *functions, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < functions->count; i++)
		rc = number_of(s, &functions->all[i], err);
	return rc;
}

static uint64_t cpu_of_process(uint32_t pid)
{
	clockid_t clock;
	return pid && clock_getcpuclockid((pid_t)pid, &clock) == 0 ? clock_ns(clock) : 0;
}

int sampler_attach(struct sampler *s, uint32_t pid, struct sampler_functions *functions,
		   struct err *err)
{
	struct sampler_set *grown = reallocarray(s->sets, s->set_count + 1, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "cannot list probes");
	s->sets = grown;
	/*
	 * one that was met while it was being started has mapped its libraries since, before
	 * anybody announced it to us
	 */
	struct err gone = { 0 };
	if (pid)
		bpftables_refresh(s->tables, pid, &gone);
	int rc = s->held ? number_all(s, functions, err) : attach_or_none(s, pid, functions, err);
	if (rc < 0)
		return rc;
	s->sets[s->set_count++] = (struct sampler_set){ .pid = pid,
							.cpu_ns = cpu_of_process(pid),
							.functions = *functions };
	*functions = (struct sampler_functions){ 0 };
	return 0;
}

void sampler_hold(struct sampler *s)
{
	s->held = s->windows = 1;
}

static int idlest_first(const void *a, const void *b)
{
	const struct sampler_set *x = a, *y = b;
	return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

/*
 * Putting in the probes of one process takes milliseconds, and of a family some tens, in which
 * those that have theirs pay: the busiest comes last.
 */
static void sort_sets(struct sampler *s)
{
	for (size_t i = 0; i < s->set_count; i++) {
		uint64_t cpu_ns = cpu_of_process(s->sets[i].pid);
		s->sets[i].used_ns = cpu_ns > s->sets[i].cpu_ns ? cpu_ns - s->sets[i].cpu_ns : 0;
		s->sets[i].cpu_ns = cpu_ns;
	}
	qsort(s->sets, s->set_count, sizeof(*s->sets), idlest_first);
}

/* One that has ended and is not taken note of yet has a number, but no files. */
static int has_ended(uint32_t pid)
{
	char path[32], exe[2];
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", pid);
	return pid && readlink(path, exe, sizeof(exe)) < 0 && errno == ENOENT;
}

static int attach_sets(struct sampler *s, struct err *err)
{
	struct err unknown = { 0 }, first = { 0 };
	size_t attached = 0;
	int rc = 0;
	sort_sets(s);
	sampler_hits(s, s->hits, &unknown);
	for (size_t i = 0; i < s->set_count; i++) {
		struct err gone = { 0 };
		s->used_ns = s->sets[i].used_ns;
		/* one that has ended meanwhile is no reason to leave the others */
		int one = attach_or_none(s, s->sets[i].pid, &s->sets[i].functions, &gone);
		attached += one == 0;
		if (one < 0 && !first.code && !has_ended(s->sets[i].pid))
			first = gone;
		if (one < 0 && one != -ESRCH && one != -ENOENT && !rc)
			rc = err_set(err, one, "%s", gone.msg);
	}
	/* files that cannot be reached, though who has mapped them is there */
	if (!rc && !attached && first.code == -ENOENT) {
		*err = first;
		rc = first.code;
	}
	return rc;
}

int sampler_resume(struct sampler *s, int lasting, struct err *err)
{
	s->windows = s->hurries = !lasting;
	s->held = 0;
	if (s->hurries)
		hurry(1);
	return attach_sets(s, err);
}

static int has_usdt(const struct sampler *s)
{
	for (size_t i = 0; i < s->set_count; i++)
		for (size_t k = 0; k < s->sets[i].functions.count; k++)
			if (s->sets[i].functions.all[k].is_usdt)
				return 1;
	return 0;
}

static void let_wait(struct sampler *s, uint32_t which)
{
	__atomic_store_n(&s->skeleton->bss->sample_waits, which, __ATOMIC_SEQ_CST);
}

/* New ones take the place of those that are there. */
static int exchange_links(struct sampler *s)
{
	struct err err = { 0 };
	uint32_t old = s->link_count, added;
	let_wait(s, WIRE_SAMPLE_CALL_WAITS);
	s->windows = 0;
	int rc = attach_sets(s, &err);
	added = s->link_count - old;
	struct sampler_link *kept = rc < 0 ? NULL : calloc(added ? added : 1, sizeof(*kept));
	if (!kept) {
		end_links(s, old);
		s->windows = 1;
		let_wait(s, 0);
		return rc < 0 ? rc : -ENOMEM;
	}
	let_wait(s, WIRE_SAMPLE_MULTI_WAITS);
	memcpy(kept, s->links + old, added * sizeof(*kept));
	s->link_count = old;
	end_side_by_side(s->links, s->link_count, ALLOCS_ALONE, s->hurries);
	memcpy(s->links, kept, added * sizeof(*kept));
	s->link_count = added;
	free(kept);
	let_wait(s, 0);
	return 0;
}

int sampler_keep(struct sampler *s)
{
	if (s->held || !s->windows || s->opt.track || has_usdt(s))
		return -ENOTSUP;
	int rc = s->multi && !s->opt.family ? exchange_links(s) : 0;
	if (rc < 0)
		return rc;
	if (s->hurries)
		hurry(0);
	s->windows = s->hurries = 0;
	return 0;
}

int sampler_functions_each(const struct sampler *s,
			   int (*fn)(void *ctx, uint32_t pid,
				     const struct sampler_function *function),
			   void *ctx)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < s->set_count; i++)
		for (size_t k = 0; !rc && k < s->sets[i].functions.count; k++)
			rc = fn(ctx, s->sets[i].pid, &s->sets[i].functions.all[k]);
	return rc;
}

/* --- prices --- */

/*
 * Two functions of our own: one begins with what the kernel emulates, the other with what it steps
 * over.
 */
void sampler_pushed(void);
void sampler_stepped(void);
void sampler_nop5(void);
__asm__(".text\n"
	".p2align 4\n.globl sampler_pushed\n.hidden sampler_pushed\n.type "
	"sampler_pushed,@function\n"
	"sampler_pushed: push %rbx\n pop %rbx\n ret\n.size sampler_pushed, .-sampler_pushed\n"
	".p2align 4\n.globl sampler_stepped\n.hidden sampler_stepped\n.type "
	"sampler_stepped,@function\n"
	"sampler_stepped: xor %eax, %eax\n ret\n.size sampler_stepped, .-sampler_stepped\n"
	".p2align 4\n.globl sampler_nop5\n.hidden sampler_nop5\n.type sampler_nop5,@function\n"
	"sampler_nop5: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n ret\n"
	".size sampler_nop5, .-sampler_nop5\n");

/* Where in our own file an address of ours is. */
static int64_t own_offset(const void *address)
{
	char *line = NULL;
	size_t cap = 0;
	int64_t found = -ENOENT;
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && found < 0 && getline(&line, &cap, maps) > 0) {
		uint64_t lo, hi, offset;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &lo, &hi, &offset) == 3 &&
		    (uintptr_t)address >= lo && (uintptr_t)address < hi)
			found = (int64_t)((uintptr_t)address - lo + offset);
	}
	free(line);
	if (maps)
		fclose(maps);
	return found;
}

static struct bpf_link *probe_own(struct sampler *s, void (*function)(void))
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = 0);
	int64_t offset = own_offset((const void *)(uintptr_t)function);
	return offset < 0
		       ? NULL
		       : bpf_program__attach_uprobe_opts(s->skeleton->progs.sample_nothing, 0,
							 "/proc/self/exe", (size_t)offset, &opts);
}

int sampler_nop5_is_safe(struct sampler *s)
{
	libbpf_print_fn_t talk = libbpf_set_print(quiet);
	struct bpf_link *link = probe_own(s, sampler_nop5);
	int status = -1, rc = link ? 0 : -errno;
	for (int i = 0; !rc && i < 1000; i++) /* the kernel rewrites it after the first hit */
		sampler_nop5();
	pid_t child = rc ? -1 : fork();
	if (child == 0) {
		const struct rlimit no_core = { 0 };
		setrlimit(RLIMIT_CORE, &no_core);
		sampler_nop5();
		_exit(0);
	}
	if (!rc && (child < 0 || waitpid(child, &status, 0) < 0))
		rc = -errno;
	bpf_link__destroy(link);
	libbpf_set_print(talk);
	return rc ? rc : WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static double price_of(struct sampler *s, void (*function)(void), unsigned calls)
{
	struct bpf_link *link = probe_own(s, function);
	if (!link)
		return 0;
	double best = 0;
	for (int round = 0; round < 5; round++) {
		struct timespec from, to;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		for (unsigned i = 0; i < calls; i++)
			function();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
		double ns = ((double)(to.tv_sec - from.tv_sec) * 1e9 +
			     (double)(to.tv_nsec - from.tv_nsec)) /
			    calls;
		if (!round || ns < best)
			best = ns;
	}
	bpf_link__destroy(link);
	return best;
}

int sampler_calibrate(struct sampler *s, struct sampler_prices *prices, struct err *err)
{
	libbpf_print_fn_t talk = libbpf_set_print(quiet);
	prices->emulated_ns = price_of(s, sampler_pushed, 2000);
	prices->stepped_ns = price_of(s, sampler_stepped, 200);
	prices->tick_ns = s->opt.windows ? sampler_ticks_price(s) : 0;
	libbpf_set_print(talk);
	return prices->emulated_ns > 0 && prices->stepped_ns > 0
		       ? 0
		       : err_set(err, -ENOMSG, "cannot measure what a probe costs here");
}
