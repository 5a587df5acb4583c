/* SPDX-License-Identifier: Apache-2.0 */
/*
 * injected.c - the library in a process that ran before it came: byteledger leads one of its
 * threads here, and then the words through which objects call what is hooked to the hooks. See
 * inject/attach.h for the other side.
 */
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "preload/next.h"
#include "preload/options.h"
#include "preload/patched.h"
#include "preload/process.h"
#include "preload/start.h"
#include "preload/thread.h"
#include "wire/heap_layout.h"
#include "wire/inject.h"

#define EXPORT __attribute__((visibility("default")))

int byteledger_heap_inject(struct wire_inject *inject);
extern EXPORT int64_t byteledger_heap_sync_at;
int64_t byteledger_heap_sync_at;

_Static_assert(SYNC_NEXT == WIRE_INJECT_SYNC_NEXT && SYNC_OWN == WIRE_INJECT_SYNC_OWN, "as told");

struct table {
	struct wire_inject *to;
	uintptr_t bias;
};

/* What a program looks up, and what runs once, before main(). */
static int is_hook(const char *name)
{
	static const char *const others[] = { "byteledger_", "memory_profiler_", "__libc_start_" };
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strncmp(name, others[i], strlen(others[i])) == 0)
			return 0;
	return 1;
}

static void enter(void *ctx, const ElfW(Sym) * sym, const char *name)
{
	struct table *table = ctx;
	struct wire_inject *to = table->to;
	if (sym->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(sym->st_info) != STT_FUNC ||
	    !is_hook(name) || to->hook_count == WIRE_INJECT_HOOKS)
		return;
	uintptr_t original = (uintptr_t)next_first(name);
	if (!original || original - own_code.lo < own_code.hi - own_code.lo)
		return;
	to->hooks[to->hook_count++] = (struct wire_inject_hook){
		.hook = table->bias + sym->st_value,
		.original = original,
		.name = (uint64_t)name,
	};
}

/* What the library does not show, or programs would take it for that allocator. */
static void enter_led(void *ctx, uintptr_t hook, uintptr_t original, const char *name)
{
	struct wire_inject *to = ctx;
	if (to->hook_count == WIRE_INJECT_HOOKS)
		return;
	to->hooks[to->hook_count++] = (struct wire_inject_hook){
		.hook = hook,
		.original = original,
		.name = (uint64_t)name,
	};
}

/* No object goes away while the loader shows them. */
static int fill_hooks(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t lo;
	struct table table = { .to = arg };
	const struct link_map *own = next_object((const void *)fill_hooks, &lo);
	(void)info;
	(void)size;
	if (own) {
		table.bias = own->l_addr;
		next_symbols(own, enter, &table);
	}
	own_lead(enter_led, arg);
	return 1;
}

static int run(struct wire_inject *inject)
{
	const struct options asked = {
		.fd = -1,
		.free_stacks = (int)inject->free_stacks,
		.stamp_every_event = (int)inject->stamp_every_event,
		.on_full = inject->on_full,
		.budget = inject->budget_bytes ? inject->budget_bytes : WIRE_HEAP_BUDGET_DEFAULT,
		.sample_bytes = inject->sample_bytes,
		.filter = "",
		.output = "",
	};
	uint32_t pid = process.pid, before = proc.word;
	if (getauxval(AT_SECURE))
		return -EPERM;
	int rc = start_injected(&asked, &inject->fd);
	if (rc < 0)
		return rc;
	process.heap->name_threads = inject->name_threads;
	if (!process.injected)
		inject->preloaded = 1;
	else
		dl_iterate_phdr(fill_hooks, inject);
	/* no thread's word is equal to it: in the child of a fork they are of another count */
	uint32_t on = (proc.word & ~0xffu) + MODE_EPOCH + MODE_ON;
	if (pid && pid != process.pid)
		on = ((before ^ (uint32_t)cycles() << 8) & ~0xffu) | MODE_ON;
	if (allocator_is_libc && !process.free_stacks)
		on |= MODE_PLAIN;
	char *thread_pointer;
	__asm__("mov %%fs:0, %0" : "=r"(thread_pointer));
	byteledger_heap_sync_at = (char *)&self.sync - thread_pointer;
	inject->word_at = (uint64_t)&proc.word;
	inject->word_on = on;
	inject->allocator_lo = allocator_lo;
	inject->allocator_hi = allocator_hi;
	inject->closes_at = (uint64_t)&process.closed;
	return 0;
}

/* Not under the hooks' guard alone: what is looked up may allocate, which is ours. */
EXPORT int byteledger_heap_inject(struct wire_inject *inject)
{
	struct thread *t = &self;
	uint8_t own = t->own;
	if (inject->magic != WIRE_INJECT_MAGIC)
		return -EPROTO;
	int saved_errno = errno;
	inject->fd = -1;
	inject->hook_count = inject->preloaded = 0;
	t->own = 1;
	int rc = run(inject);
	t->own = own;
	errno = saved_errno;
	return rc < 0 ? rc : WIRE_INJECT_DONE;
}
