/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pageown_impl.h - the inside of struct pageown: pageown.c loads, pageown_follow.c knows processes,
 * pageown_stacks.c names, pageown_walk.c and pageown_rows.c count.
 */
#ifndef SOURCE_PAGEOWN_IMPL_H
#define SOURCE_PAGEOWN_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include <bpf/libbpf.h>

#include "base/intern.h"
#include "proc/target.h"
#include "source/bpfstack_events.h"
#include "source/bpftables.h"
#include "source/pageown.h"
#include "sym/sym.h"
#include "wire/pages.h"

struct pages_bpf;

/** A file with code, and who knows its names: the file system that the process sees. */
struct pageown_module {
	struct page_module module;
	struct sym *sym;
};

/** Code of one image of a process, all that it ever had mapped; later ones in front. */
struct pageown_place {
	uint64_t lo, hi, bias, file_offset;
	const struct pageown_module *module;
};
struct pageown_image {
	pid_t pid;
	uint32_t epoch;
	struct sym *sym;
	const struct pageown_module *program;
	struct pageown_place *places;
	size_t count, cap;
};

/** Where an address of an image led to: most of a stack's frames are those of the stack before. */
struct pageown_known {
	/* its highest bit: an exact one */
	uint64_t addr;
	uint64_t changed;
	const struct pageown_image *image;
	const struct page_frame *frame;
};
#define PAGEOWN_KNOWN 4096

/** A file system root, told apart by device and inode. */
struct pageown_root {
	uint64_t dev, ino;
	struct sym *sym;
};

/** Which stack each page had at the last walk, by virtual address: 2 MiB at a time. */
struct sticky_block {
	/* address >> 21 */
	uint64_t number;
	uint32_t stack[512];
};
struct sticky {
	struct idtab tab;
	struct sticky_block **blocks;
	size_t count, cap;
};
#define STICKY_BASELINE 0xffffffffu

#define ANCESTORS_MAX 4
struct followed {
	pid_t pid;
	/* whose memory it got by fork, the nearest first */
	pid_t ancestors[ANCESTORS_MAX];
	size_t ancestor_count;
	uint32_t epoch;
	int children, late, ended, first_walk_done;
	/* late, but as its image began: no page of a file was there */
	int at_exec;
	struct target target;
	int pagemap;
	/* the current one */
	struct pageown_image *image;
	struct sticky *sticky;
	struct page_process *last;
};

enum { STACK_USED, STACK_LEAVING, STACK_GIVEN };
struct given {
	uint32_t id;
	/* head.first_ns of the stack before */
	uint64_t ns;
};

struct pageown {
	struct pageown_opt opt;
	char *take_name, *cache_dir;
	struct pages_bpf *skeleton;
	struct bpf_link *links[32];
	uint32_t link_count;
	struct bpftables *tables;
	struct bpfstack_events *announcements;
	struct ring_buffer *ring;
	/* at all mappings */
	uint64_t looked_ns;
	int epoll;
	int migration, faults, each_rss_change;

	/* mapped */
	uint32_t *owner;
	uint64_t owner_words, owner_part_words, owner_stride_words, owner_bytes;
	struct wire_pages_stack_head *heads;
	struct wire_pages_live *live;
	uint64_t *pool;
	uint64_t heads_bytes, live_bytes, pool_bytes, kernel_bytes;
	uint32_t stacks_max;
	uint64_t pool_words;

	struct followed *followed;
	size_t followed_count, followed_cap;
	struct pageown_image **images;
	size_t image_count, image_cap;
	struct pageown_root *roots;
	size_t root_count;

	struct pageown_module **modules;
	struct idtab module_tab;
	size_t module_count, module_cap;
	struct intern strings;
	struct page_frame **frames;
	struct pageown_known known[PAGEOWN_KNOWN];
	/* a count */
	uint64_t places_changed;
	struct idtab frame_tab;
	size_t frame_count, frame_cap, frames_sweep_at;
	uint32_t frame_numbers;
	/* by the kernel's number */
	struct page_stack **stacks;
	/* numbers below were looked at */
	uint32_t stacks_seen;
	uint32_t stack_numbers;
	/* of each number: STACK_* */
	uint8_t *state;
	/* whose hash is forgotten since a moment */
	uint32_t *leaving;
	/* that wait in the kernel side's rings */
	struct given *given;
	size_t leaving_count, given_count;
	uint64_t gave_back_ns;

	/* of a walk */
	int kpageflags;
	uint64_t zero_pfn, huge_zero_pfn;
	/* a bit a page */
	uint64_t *seen;

	/*
	 * What changes with processes and mappings is done by a thread of its own, at once: until
	 * code is described, stacks in it are short. All public functions but the resolving ones
	 * hold the lock.
	 */
	pthread_mutex_t lock;
	pthread_t thread;
	int running, consuming;
	/* a count of what was news: events, stacks, mappings */
	uint64_t took;
	/* privileges: to be done by the thread itself; that it is to end */
	atomic_int drop, stopping;
	/* eventfds: to whoever polls, to the thread */
	int told, wake;
	struct pageown_event *events;
	size_t event_count, event_cap;
	char log[16 << 10];
};

/* pageown.c */
int pageown_map_process(struct pageown *p, pid_t pid, const struct wire_pages_process *process);
void pageown_unmap_process(struct pageown *p, pid_t pid);
int pageown_window(struct pageown *p, pid_t pid, uint64_t window, struct wire_pages_window *out);
uint32_t pageown_next(const struct pageown *p);
/**
 * pageown_sleep() - 1: from now on the next stack that is new is told, through the ring; 0: no
 * more.
 */
void pageown_sleep(struct pageown *p, int asleep);
void pageown_moved(const struct pageown *p, uint64_t *moved, uint64_t *stale);
void pageown_lost(struct pageown *p, uint64_t lost[PAGES_LOSSES]);

static inline uint32_t pageown_owner_of(const struct pageown *p, uint64_t pfn)
{
	uint64_t part = pfn >> WIRE_PAGES_PART_SHIFT,
		 at = pfn & ((1ull << WIRE_PAGES_PART_SHIFT) - 1);
	if (pfn >= p->owner_words || at >= p->owner_part_words)
		return 0;
	return __atomic_load_n(&p->owner[part * p->owner_stride_words + at], __ATOMIC_RELAXED);
}

/** pageown_drop_own() - of the calling thread. */
int pageown_drop_own(struct err *err);

uint64_t pageown_pool_used(const struct pageown *p);
void pageown_forget_hash(struct pageown *p, uint64_t hash);
/**
 * pageown_put_ring() - give number @id, which has room for @frames, to the kernel side; -ENOSPC:
 * that ring is full.
 */
int pageown_put_ring(struct pageown *p, uint32_t frames, uint32_t id);

/* pageown_follow.c */
/** pageown_take() - what the ring and the announcements say; with the lock held. */
int pageown_take(struct pageown *p, struct err *err);
/** pageown_consume() - the ring alone; not from a callback of it. */
int pageown_consume(struct pageown *p);
struct followed *pageown_find(const struct pageown *p, pid_t pid);
void pageown_followed_fini(struct followed *f);
int pageown_on_event(struct pageown *p, const struct wire_pages_event *event);
/** pageown_open() - its files in /proc, unless they are; pageown_close() after an exec. */
int pageown_open(struct followed *f, struct err *err);
void pageown_close(struct followed *f);

/* pageown_stacks.c */
/**
 * pageown_image() - the image of @pid after @epoch execs; made where it is new. NULL without
 * memory.
 */
struct pageown_image *pageown_image(struct pageown *p, pid_t pid, uint32_t epoch);
/** pageown_image_fork() - that of @pid, which was forked from whose is @like: what it was then. */
struct pageown_image *pageown_image_fork(struct pageown *p, pid_t pid,
					 const struct pageown_image *like);
/** pageown_image_learn() - take over what the tables know of @pid's code. */
void pageown_image_learn(struct pageown *p, struct pageown_image *image);
/**
 * pageown_take_stacks() - name the frames of all stacks that the kernel side has numbered
 * meanwhile, while their code is mapped; @all: events, too, have all been taken.
 */
void pageown_take_stacks(struct pageown *p, int all);
/** pageown_stack() - the stack of the kernel's number @id; NULL for those that are none. */
const struct page_stack *pageown_stack(struct pageown *p, uint32_t id);
/**
 * pageown_give_back() - make room in the tables of stacks, once they are half full; at most four
 * times a second.
 */
void pageown_give_back(struct pageown *p);
void pageown_sweep_frames(struct pageown *p);
void pageown_stacks_fini(struct pageown *p);

/* pageown_walk.c */
int pageown_walk_init(struct pageown *p);
void sticky_free(struct sticky *sticky);

#endif
