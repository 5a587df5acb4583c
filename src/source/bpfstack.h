/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpfstack.h - stacks walked in the kernel by the stepper's own source: the loader of
 * bpf/stack.bpf.c.
 *
 * Calls in order of use: new, add (each process), load, attach, then drain and refresh as long as
 * wanted, counts, free. One thread at a time. Needs CAP_BPF, CAP_PERFMON and (for processes of
 * others) CAP_SYS_PTRACE until everything is attached; bpfstack_drop_privileges() gives them up
 * then.
 */
#ifndef SOURCE_BPFSTACK_H
#define SOURCE_BPFSTACK_H

#include <stdint.h>

#include "base/err.h"
#include "wire/stack.h"

struct bpfstack;

struct bpfstack_opt {
	/* room for unwind tables; 0 = twice what the processes added before load need, >= 4 MiB */
	uint32_t table_bytes;
	/* 0 = 4 MiB */
	uint32_t ring_bytes;
	/* 0 = WIRE_STACK_FRAMES_MAX */
	uint32_t frames_max;
	/* of stack read at once, 8 to 4096; 0 = 4096 */
	uint32_t block_bytes;
	uint8_t no_rule_cache;
	/* nothing is sent; the counters go on */
	uint8_t count_only;
	/* see bpfstack_attach_extents(): nothing else can be attached then */
	uint8_t extents;
	/* of tables, as unwind_rows_new() */
	const char *cache_dir;
};

/** bpfstack_new() - @opt NULL: defaults. Opens nothing yet. */
struct bpfstack *bpfstack_new(const struct bpfstack_opt *opt, struct err *err);
void bpfstack_free(struct bpfstack *stack);
void bpfstack_freep(struct bpfstack **stack);

/**
 * bpfstack_add() - follow process @pid: read its mappings, make or fetch their tables (seconds for
 * gigabytes of code that was never seen before). -ESRCH when it is gone. Also after load.
 */
int bpfstack_add(struct bpfstack *stack, uint32_t pid, struct err *err);

/**
 * bpfstack_load() - size the maps, pass the verifier. The kernel's reason is in @err when it
 * refuses.
 */
int bpfstack_load(struct bpfstack *stack, struct err *err);

/**
 * bpfstack_attach() - probe @symbol of the file at @path (or, with @symbol NULL, file offset
 * @offset) in @pid; 0 = in every process, of which those that were not added are counted as
 * untracked. Several attachments are fine.
 */
int bpfstack_attach(struct bpfstack *stack, uint32_t pid, const char *path, const char *symbol,
		    uint64_t offset, struct err *err);

/**
 * bpfstack_attach_extents() - from now on the kernel keeps what the processes that were added map
 * anonymously, each with the hash of the stack that asked for it (records of bpfstack_drain(), arg
 * = hash, each stack once), and the names that prctl(PR_SET_VMA) was refused. Every system call of
 * the machine takes some 0.1 us longer meanwhile.
 */
int bpfstack_attach_extents(struct bpfstack *stack, struct err *err);
/**
 * bpfstack_extents_fd(), bpfstack_names_fd() - the kernel's tables: struct wire_extent_key to
 * wire_extent, wire_extent_name.
 */
int bpfstack_extents_fd(const struct bpfstack *stack);
int bpfstack_names_fd(const struct bpfstack *stack);

/**
 * struct bpfstack_spot - a place in code, as sym_resolve() wants it; lent until the next add,
 * refresh or drain.
 */
struct bpfstack_spot {
	const char *path;
	const uint8_t *build_id;
	uint8_t build_id_len;
	/* ELF virtual address */
	uint64_t offset;
};
/** bpfstack_locate() - where @addr of process @pid is; -ENOENT where no file's code is mapped. */
int bpfstack_locate(const struct bpfstack *stack, uint32_t pid, uint64_t addr,
		    struct bpfstack_spot *spot);

/**
 * bpfstack_refresh() - look whether @pid has mapped new code, and publish it. Return: 1 changed, 0
 * not, or negative. Cost: one reading of /proc/PID/maps, and tables for what is new.
 */
int bpfstack_refresh(struct bpfstack *stack, uint32_t pid, struct err *err);

/**
 * bpfstack_drain() - hand over what came, waiting up to @timeout_ms (0: not at all) for the first.
 * New mappings that the kernel announced meanwhile are published first. @stack_cb may return
 * non-zero to stop; lent data. Return: number of stacks, or negative errno.
 */
int bpfstack_drain(struct bpfstack *stack, int timeout_ms,
		   int (*stack_cb)(void *ctx, const struct wire_stack *record), void *ctx,
		   struct err *err);

/**
 * bpfstack_detach() - end all probes; what was captured until then can still be drained, and
 * nothing comes after it.
 */
void bpfstack_detach(struct bpfstack *stack);

/** bpfstack_counts() - by enum wire_stack_counter, all CPUs since load. */
int bpfstack_counts(struct bpfstack *stack, uint64_t counts[WIRE_STACK_COUNTERS], struct err *err);

/** What the loaded program took; for tests, benchmarks and `check`. */
struct bpfstack_info {
	/* 0 where the kernel does not tell (before 5.16) */
	uint32_t verified_instructions;
	/* of machine code */
	uint32_t program_bytes;
	/* of BPF stack, deepest chain; 0 where not asked for */
	uint32_t stack_bytes;
	uint32_t table_bytes, table_room;
	uint32_t modules, places, modules_without_table;
	/* while kernel.bpf_stats_enabled is set */
	uint64_t runs, run_ns;
};
int bpfstack_info(struct bpfstack *stack, struct bpfstack_info *info, struct err *err);

/**
 * bpfstack_drop_privileges() - clear this thread's capabilities; draining and publishing need none.
 */
int bpfstack_drop_privileges(struct err *err);

#endif
