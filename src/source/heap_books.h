/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_books.h - what is known of blocks: which live, which were freed lately, and which frees are
 * owed or were taken early. Knows neither rings nor events. In order of use: heap_books_init(),
 * live_add() and live_remove() on @live, heap_note_free(); where a record contradicts them
 * heap_freed_lately(), heap_owe(), heap_settle_debt(); heap_debt_due() now and then;
 * heap_books_fini().
 */
#ifndef SOURCE_HEAP_BOOKS_H
#define SOURCE_HEAP_BOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "model/live.h"

/*
 * Frees that came too early or too late. Within a stamp's precision two threads may pass one
 * address back and forth; then the free of the second block at an address can be taken for that of
 * the first, and the first one's free finds nothing: it is owed to the next allocation of the
 * address, which takes it at once (debt). Likewise an allocation may find its predecessor alive
 * although everything was read: the predecessor is freed, and the next free of that address is not
 * another one (credit). The counts stay exact, the two blocks' lifetimes are exact to the stamps. A
 * debt that nobody claims is a free of a foreign block after all, such a credit a lost free.
 */
#define HEAP_RECENT 65536 /* half a megabyte: what busy threads free within a second */
#define HEAP_DEBTS 16384  /* named by 16 bits */
#define HEAP_DEBT_CHAINS 4096
#define HEAP_DEBT_NS NS_PER_S /* a thread may lose its processor for long between two records */
struct heap_recent {
	/* enough of it, see heap_recent_addr(); 0 = none */
	uint32_t addr;
	/* in units of 2^20 ns */
	uint32_t time;
};
struct heap_debt {
	uint64_t addr, ns;
	uint32_t thread, aux_stack;
	/* of the same chain: its index + 1; 0 = the last one */
	uint16_t next;
	bool credit;
};

struct heap_books {
	struct live live;
	uint64_t live_bytes;
	/* addresses freed lately, while there are several rings */
	struct heap_recent *recent;
	/* HEAP_DEBTS */
	struct heap_debt *debts;
	uint16_t debt_chains[HEAP_DEBT_CHAINS];
	/* entries; those of them that are credits */
	uint32_t debt_count, credit_count;
	/* lost frees that no reuse of an address has explained yet */
	uint64_t lost_frees_left;
	/* of the last block that was there when a free was lost; 0 = none was */
	uint64_t risk_order;
};

/**
 * heap_books_init() - empty. @seed: see live_init(). 0 or -ENOMEM; heap_books_fini() in any case.
 */
int heap_books_init(struct heap_books *books, uint64_t seed, struct err *err);
void heap_books_fini(struct heap_books *books);

/*
 * The two places of @addr: what was freed last stands in the first, and what stood there in the
 * second.
 */
static inline struct heap_recent *heap_recent_pair(const struct heap_books *books, uint64_t addr)
{
	/* threads have arenas of 64 MiB, which they use in the same way: each bit has its say */
	return &books->recent[((addr >> 4) * 0x9e3779b97f4a7c15ULL >> 40) % (HEAP_RECENT / 2) * 2];
}

/*
 * 2 TiB of addresses without a double; a stranger's free that looks like a recent one is owed for a
 * second.
 */
static inline uint32_t heap_recent_addr(uint64_t addr)
{
	return (uint32_t)(addr >> 4 << 1) | 1;
}

static inline uint32_t heap_recent_time(uint64_t ns)
{
	return (uint32_t)(ns >> 20);
}

static inline void heap_note_free(struct heap_books *books, uint64_t addr, uint64_t ns)
{
	struct heap_recent *pair = heap_recent_pair(books, addr);
	const struct heap_recent fresh = { heap_recent_addr(addr), heap_recent_time(ns) };
	if (pair[0].addr != fresh.addr)
		pair[1] = pair[0];
	pair[0] = fresh;
}

/** heap_debt_chain() - what @addr owes, or may: its first entry's index + 1. */
static inline uint16_t *heap_debt_chain(struct heap_books *books, uint64_t addr)
{
	return &books->debt_chains[(addr >> 4 ^ addr >> 14) % HEAP_DEBT_CHAINS];
}
/**
 * heap_freed_lately() - whether @addr was freed within HEAP_DEBT_NS before @now_ns, as far as is
 * remembered.
 */
bool heap_freed_lately(struct heap_books *books, uint64_t addr, uint64_t now_ns);
/**
 * heap_owe() - remember a free that is to be settled (@debt.credit: one that was taken early);
 * fewer than HEAP_DEBTS are there.
 */
void heap_owe(struct heap_books *books, struct heap_debt debt);
/**
 * heap_settle_debt() - forget the oldest debt (or credit) of @addr, which becomes *@debt; false:
 * there is none.
 */
bool heap_settle_debt(struct heap_books *books, uint64_t addr, bool credit, struct heap_debt *debt);
/**
 * heap_debt_due() - forget one that nobody claimed until @now_ns (UINT64_MAX: any); begin with *@at
 * = 0. False: there is none more.
 */
bool heap_debt_due(struct heap_books *books, uint64_t now_ns, uint32_t *at, struct heap_debt *debt);

#endif
