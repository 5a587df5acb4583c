/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_kernel.c - the kernel's own allocations: programs on its tracepoints, and what its stacks
 * are called.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "sample.skel.h"
#include "source/sampler_impl.h"

#define TRACING_MAX 8 /* frames that are the tracing's own, at most */

const char *const sampler_kernel_functions[WIRE_SAMPLE_KERNEL_MAX] = {
	"kmalloc", "kmem_cache_alloc", "mm_page_alloc", "percpu_alloc",
	"kfree",   "kmem_cache_free",  "mm_page_free",  "percpu_free",
};

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

static int add_pids(struct sampler *s, const uint32_t *pids, size_t count, struct err *err)
{
	int fd = bpf_map__fd(s->skeleton->maps.sample_kernel_pids);
	uint32_t one = 1;
	for (size_t i = 0; i < count; i++)
		if (bpf_map_update_elem(fd, &pids[i], &one, BPF_ANY) < 0)
			return err_set(err, -errno, "cannot name process %u", pids[i]);
	return 0;
}

int sampler_kernel_attach(struct sampler *s, const uint32_t *pids, size_t count, struct err *err)
{
	struct sample_bpf *k = s->skeleton;
	/* frees first: a block whose free is not seen shall not have been taken */
	struct {
		struct bpf_program *program;
		const char *what;
		int is_free;
	} all[] = {
		{ k->progs.kernel_kfree, "kfree", 1 },
		{ k->progs.kernel_cache_free, "kmem_cache_free", 1 },
		{ k->progs.kernel_page_free, "mm_page_free", 1 },
		{ k->progs.kernel_percpu_free, "percpu_free_percpu", 1 },
		{ k->progs.kernel_kmalloc, "kmalloc", 0 },
		{ k->progs.kernel_cache_alloc, "kmem_cache_alloc", 0 },
		{ k->progs.kernel_page_alloc, "mm_page_alloc", 0 },
		{ k->progs.kernel_percpu_alloc, "percpu_alloc_percpu", 0 },
	};
	int rc = add_pids(s, pids, count, err);
	libbpf_print_fn_t talk = libbpf_set_print(quiet);
	for (size_t i = 0; !rc && i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].is_free && !s->opt.track)
			continue;
		struct bpf_link *link = bpf_program__attach(all[i].program);
		int error = errno;
		struct sampler_link *kept = link ? sampler_new_link(s, err) : NULL;
		if (!link) {
			rc = err_set(err, -error, "cannot watch the kernel's tracepoint '%s'",
				     all[i].what);
			err_hint(err, "needs CAP_BPF and CAP_PERFMON; 'byteledger check' lists "
				      "what is missing");
		} else if (!kept) {
			bpf_link__destroy(link);
			rc = err->code;
		} else {
			kept->link = link;
			kept->is_free = (uint8_t)all[i].is_free;
		}
	}
	libbpf_set_print(talk);
	if (rc)
		sampler_detach(s);
	return rc;
}

/* The tracepoint's own frames, and those of the program on it, stand before the kernel's. */
static size_t tracing_frames(const struct sampler *s, const struct wire_sample_stack *stack)
{
	size_t skip = 0;
	for (size_t i = WIRE_SAMPLE_KERNEL_FRAMES;
	     i < stack->count && i < WIRE_SAMPLE_KERNEL_FRAMES + TRACING_MAX; i++) {
		const char *name = kernel_names_find(s->kernel_names, stack->frame[i] - 1, NULL);
		if (name &&
		    (!strncmp(name, "__traceiter_", 12) || !strncmp(name, "bpf_trace_run", 13) ||
		     !strncmp(name, "__bpf_trace_", 12) || !strncmp(name, "bpf_prog_", 9)))
			skip = i + 1 - WIRE_SAMPLE_KERNEL_FRAMES;
	}
	return skip;
}

void sampler_kernel_trim(const struct sampler *s, struct wire_sample_stack *stack)
{
	size_t skip = s->opt.kernel ? tracing_frames(s, stack) : 0;
	if (!skip)
		return;
	stack->count -= (uint16_t)skip;
	memmove(stack->frame + WIRE_SAMPLE_KERNEL_FRAMES,
		stack->frame + WIRE_SAMPLE_KERNEL_FRAMES + skip,
		(stack->count - WIRE_SAMPLE_KERNEL_FRAMES) * sizeof(stack->frame[0]));
}

const char *sampler_kernel_name(struct sampler *s, uint64_t what, char *text, size_t bytes)
{
	static const char *const kinds[] = { "[kmalloc]", "[slab]", "[pages]", "[per-CPU memory]" };
	struct wire_sample_cache cache;
	const char *module = "", *name;
	if (what < sizeof(kinds) / sizeof(kinds[0]))
		return kinds[what];
	if (bpf_map_lookup_elem(bpf_map__fd(s->skeleton->maps.sample_caches), &what, &cache) == 0) {
		cache.name[sizeof(cache.name) - 1] = '\0';
		snprintf(text, bytes, "[slab %s]", cache.name);
		return text;
	}
	name = kernel_names_find(s->kernel_names, what, &module);
	if (name && *module) {
		snprintf(text, bytes, "%s [%s]", name, module);
		return text;
	}
	return name;
}
