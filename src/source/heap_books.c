/* SPDX-License-Identifier: Apache-2.0 */
#include "source/heap_books.h"

#include <errno.h>
#include <stdlib.h>

int heap_books_init(struct heap_books *books, uint64_t seed, struct err *err)
{
	books->recent = calloc(HEAP_RECENT, sizeof(*books->recent));
	books->debts = calloc(HEAP_DEBTS, sizeof(*books->debts));
	if (!books->recent || !books->debts)
		return err_set(err, -ENOMEM, "cannot allocate the recorder's tables");
	return live_init(&books->live, seed, err);
}

void heap_books_fini(struct heap_books *books)
{
	live_fini(&books->live);
	free(books->recent);
	free(books->debts);
}

bool heap_freed_lately(struct heap_books *books, uint64_t addr, uint64_t now_ns)
{
	const struct heap_recent *recent = heap_recent_pair(books, addr);
	recent += recent->addr != heap_recent_addr(addr);
	return recent->addr == heap_recent_addr(addr) &&
	       heap_recent_time(now_ns) - recent->time <= heap_recent_time(HEAP_DEBT_NS);
}

/* Where the chain names entry @at: its index + 1; with HEAP_DEBTS the chain's end. */
static uint16_t *debt_link(struct heap_books *books, uint64_t addr, uint32_t at)
{
	uint16_t *link = heap_debt_chain(books, addr);
	while (*link && *link != at + 1)
		link = &books->debts[*link - 1].next;
	return link;
}

/* The last entry takes the place of entry @at, which goes. */
static void debt_remove(struct heap_books *books, uint32_t at)
{
	struct heap_debt *debts = books->debts;
	*debt_link(books, debts[at].addr, at) = debts[at].next;
	books->credit_count -= debts[at].credit;
	uint32_t last = --books->debt_count;
	if (at != last) {
		*debt_link(books, debts[last].addr, last) = (uint16_t)(at + 1);
		debts[at] = debts[last];
	}
}

void heap_owe(struct heap_books *books, struct heap_debt debt)
{
	debt.next = 0;
	*debt_link(books, debt.addr, HEAP_DEBTS) = (uint16_t)(books->debt_count + 1);
	books->debts[books->debt_count++] = debt;
	books->credit_count += debt.credit;
}

bool heap_settle_debt(struct heap_books *books, uint64_t addr, bool credit, struct heap_debt *debt)
{
	for (uint32_t i = *heap_debt_chain(books, addr); i; i = books->debts[i - 1].next) {
		if (books->debts[i - 1].addr != addr || books->debts[i - 1].credit != credit)
			continue;
		*debt = books->debts[i - 1];
		debt_remove(books, i - 1);
		return true;
	}
	return false;
}

bool heap_debt_due(struct heap_books *books, uint64_t now_ns, uint32_t *at, struct heap_debt *debt)
{
	for (; *at < books->debt_count; ++*at) {
		*debt = books->debts[*at];
		if (now_ns == UINT64_MAX || debt->ns + HEAP_DEBT_NS <= now_ns) {
			debt_remove(books, *at);
			return true;
		}
	}
	return false;
}
