/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c - the slow half of writing a record: stamps, the ring's end, and what to do when it is
 * full.
 */
#include "preload/ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "preload/fork.h"
#include "preload/thread.h"

/*
 * Kept free behind every record but a realloc's end, so that this one always fits: END_BIG, and a
 * pad in front.
 */
#define RESERVE 64u
/* A stamp, the thread, its name, a switch, a notice of loss: what may come in front of a record. */
#define EXTRAS 72u
#define WAIT_YIELDS 8u
#define WAIT_SLEEP_NS 100000u
#define WAIT_SLEEP_MAX_NS 2000000u
/* A recorder whose heart has not beaten for so long is not waited for. */
#define BEAT_OLD_NS 1000000000u
/* At the program's end, for the recorder's last block, as long as the heart beats. */
#define EXIT_WAIT_NS 5000000000u
/* What stood as well is on its feet again by then, on a busy machine too. */
#define STOOD_GRACE_NS 200000000u
/*
 * Less than half of that at any counter's rate from 34 MHz on: only then is the clock asked what it
 * was.
 */
#define QUIET_CYCLES (1u << 24)
/*
 * A stamp is good for as many records as the thread wrote in about so many cycles (a few tenths of
 * a millisecond) last time, up to WIRE_STAMP_BYTES: who allocates seldom has a stamp on each, and
 * no time of its hangs on the recorder's beat.
 */
#define STAMP_CYCLES 500000u
/* Raw mode: disk space is asked for in such pieces, and asked for again after so many refusals. */
#define RAW_PIECE 65536u
#define RAW_RETRY 1024u
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/*
 * A critical section (rseq(2)) that no thread is ever in. The kernel takes a thread's mark of one
 * away when it has taken the processor from the thread: where ours is gone, time has passed that no
 * tick needs to tell of. In front of the abort address stands the signature that glibc registers.
 */
__asm__(".text\n"
	"own_rseq_never:\n"
	"	ud2\n"
	"	.long 0x53053053\n"
	"own_rseq_abort:\n"
	"	ud2\n"
	"	.section .data.rel.ro, \"aw\"\n"
	"	.balign 32\n"
	"	.globl own_rseq\n"
	"	.hidden own_rseq\n"
	"own_rseq:\n"
	"	.long 0, 0\n"
	"	.quad own_rseq_never, 1, own_rseq_abort\n"
	"	.text\n");

struct rseq_area {
	uint32_t cpu_id_start;
	/* negative: not registered */
	int32_t cpu_id;
	uint64_t rseq_cs;
};

/* Where the calling thread's mark stands; without such an area one that stays. */
static uint64_t *find_mark(void)
{
	static uint64_t stays;
	stays = (uint64_t)own_rseq;
	if (!process.rseq_offset)
		return &stays;
	char *self_at;
	__asm__("mov %%fs:0, %0" : "=r"(self_at));
	struct rseq_area *area = (struct rseq_area *)(self_at + process.rseq_offset);
	return area->cpu_id < 0 ? &stays : &area->rseq_cs;
}

static void put_raw(struct thread *t, uint64_t word)
{
	*(uint64_t *)(t->ring + (t->head & t->mask)) = word;
	t->head += 8;
}

/*
 * Raw mode: how far the ring has disk space. Nobody reads, so the ring ends once; and a store to a
 * page for which the disk has no room would end the program by SIGBUS, so each piece is made to
 * have room before. A piece that anything was written to has it, whichever thread asked.
 */
static COLD uint64_t raw_limit(struct thread *t, uint64_t need)
{
	uint64_t end = (t->head + RAW_PIECE - 1) & ~(uint64_t)(RAW_PIECE - 1);
	uint64_t piece = RAW_PIECE;
	if (t->mask + 1 < piece)
		piece = t->mask + 1;
	while (end < t->head + need && end < t->mask + 1) {
		if (no_calls() || t->lost % RAW_RETRY ||
		    sys_failed(sys3(SYS_madvise, t->ring + end, piece, MADV_POPULATE_WRITE)))
			break;
		end += piece;
	}
	t->limit = end < t->mask + 1 ? end : t->mask + 1;
	return t->limit;
}

static uint64_t look_at_tail(struct thread *t, uint64_t need)
{
	if (unlikely(process.raw))
		return raw_limit(t, need);
	uint64_t tail = __atomic_load_n(&t->slot->tail, __ATOMIC_ACQUIRE);
	/* a recorder that runs ahead of us is broken: then nothing is free */
	if (tail > t->head)
		tail = t->head > t->mask ? t->head - t->mask - 1 : 0;
	t->limit = tail + t->mask + 1;
	return t->limit;
}

/*
 * @n * @times / @by; in whole numbers, for floating point would leave its flags in the program's,
 * or trap.
 */
static uint64_t share(uint64_t n, uint64_t times, uint64_t by)
{
	unsigned __int128 value = (unsigned __int128)n * times / by;
	return value < UINT64_MAX ? (uint64_t)value : UINT64_MAX;
}

/*
 * How long to sleep until @missing more bytes are free, @freed of them having become so in
 * @elapsed_ns. Each waking costs the program some 10 us and the cold caches that it finds, so a
 * good guess is worth more than being early.
 */
static uint64_t sleep_for(uint64_t missing, uint64_t freed, uint64_t elapsed_ns, uint64_t last_ns)
{
	uint64_t sleep = freed ? share(missing, elapsed_ns, freed) : 2 * last_ns;
	if (sleep < WAIT_SLEEP_NS)
		return WAIT_SLEEP_NS;
	return sleep < WAIT_SLEEP_MAX_NS ? sleep : WAIT_SLEEP_MAX_NS;
}

/*
 * Whether waiting is out of the question. To be asked before the clock, which faults under strict
 * seccomp.
 */
static int never_waits(const struct thread *t)
{
	const struct wire_heap_header *heap = process.heap;
	return heap->on_full == WIRE_FULL_DROP || no_calls() || process.raw || t->slot->closed ||
	       heap->detach;
}

/* How long this call may wait for the recorder, from @began on; 0: not any more in this second. */
static uint64_t may_wait_ns(struct thread *t, uint64_t began)
{
	if (process.heap->on_full != WIRE_FULL_LIMIT)
		return UINT64_MAX;
	if (began - t->second_began_ns >= 1000000000u) {
		t->second_began_ns = began;
		t->second_waited_ns = 0;
	}
	uint64_t left = t->second_waited_ns < 100000000u ? 100000000u - t->second_waited_ns : 0;
	return left < 5000000u ? left : 5000000u;
}

/*
 * Whether the heart's beat is too old for its recorder to be waited for; @beat: which one that is.
 */
static int beat_is_old(const struct thread *t, uint64_t now, uint64_t *beat)
{
	*beat = __atomic_load_n(&process.heap->heartbeat_ns, __ATOMIC_RELAXED);
	if (!*beat)
		*beat = process.heap->start_ns;
	if (*beat == t->stood_beat)
		return now > t->stood_ns + STOOD_GRACE_NS;
	return now > *beat && now - *beat > BEAT_OLD_NS;
}

/* Whether it is there to wait for. */
static int recorder_works(const struct thread *t, uint64_t now)
{
	uint64_t beat;
	return !beat_is_old(t, now, &beat) && !process.heap->detach && !t->slot->closed;
}

/*
 * Who stops the program mostly stops the recorder with it (Ctrl-Z, a container that is paused), and
 * the program may be the first to go on: then the heart's beat is old, and nothing is wrong. A beat
 * that grew old while this thread did nothing for @quiet_ns either tells nothing for a moment from
 * now on; once, for a recorder that is dead is not to be waited for.
 */
static void forgive_beat(struct thread *t, uint64_t now, uint64_t quiet_ns)
{
	uint64_t beat;
	if (quiet_ns < BEAT_OLD_NS / 2 || !beat_is_old(t, now, &beat) || beat == t->stood_beat)
		return;
	t->stood_beat = beat;
	t->stood_ns = now;
}

/*
 * The same where @cycles have gone by since the last stamp of this ring. @now_cycles: the counter.
 */
static COLD void forgive_beat_after(struct thread *t, uint64_t cycles, uint64_t now_cycles)
{
	const struct wire_heap_header *heap = process.heap;
	if (no_calls() || now_cycles <= heap->start_cycles || cycles > now_cycles)
		return;
	uint64_t now = now_ns();
	if (now <= heap->start_ns)
		return;
	forgive_beat(t, now, share(cycles, now - heap->start_ns, now_cycles - heap->start_cycles));
}

static void look_for_pause(struct thread *t)
{
	uint64_t cycles = stamp();
	if (t->stamped && cycles - t->stamped > QUIET_CYCLES)
		forgive_beat_after(t, cycles - t->stamped, cycles);
}

static void waited(struct thread *t, uint64_t ns)
{
	__atomic_store_n(&t->slot->waits, t->slot->waits + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&t->slot->wait_ns, t->slot->wait_ns + ns, __ATOMIC_RELAXED);
	t->second_waited_ns += ns;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = { 0, (long)ns };
	sys4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, 0);
}

COLD int ring_wait_nodes(struct thread *t)
{
	const struct wire_heap_header *heap = process.heap;
	if (never_waits(t))
		return 0;
	uint64_t began = now_ns(), now = began, may_wait = may_wait_ns(t, began);
	int room = 0;
	if (!may_wait)
		return 0;
	look_for_pause(t);
	/* a quarter of it, so that the next ones need not wait for each */
	while (!room && recorder_works(t, now) &&
	       (may_wait == UINT64_MAX || now - began + WAIT_SLEEP_NS <= may_wait)) {
		uint64_t slept = now;
		sleep_ns(WAIT_SLEEP_NS);
		now = now_ns();
		forgive_beat(t, now, now - slept);
		uint32_t count = __atomic_load_n(&heap->node_count, __ATOMIC_RELAXED);
		if (count >= WIRE_NODE_NUMBERS)
			break; /* for good */
		room = count - __atomic_load_n(&heap->node_tail, __ATOMIC_RELAXED) <
		       heap->node_max / 4 * 3;
	}
	waited(t, now - began);
	return room;
}

/* Wait until the ring has room for @need more bytes. Return: 1 there is room, 0 drop. */
static COLD int wait_for_room(struct thread *t, uint64_t need)
{
	if (never_waits(t))
		return 0;
	uint64_t began = now_ns(), now = began, may_wait = may_wait_ns(t, began);
	if (!may_wait)
		return 0;
	look_for_pause(t);
	uint64_t limit = look_at_tail(t, need), before = limit;
	uint64_t sleep = WAIT_SLEEP_NS / 2, spare = 0;
	int room = 0;
	for (unsigned round = 0; !room; round++) {
		if (!recorder_works(t, now))
			break;
		if (round < WAIT_YIELDS) {
			sys0(SYS_sched_yield);
		} else {
			/*
			 * The recorder is behind for good: sleeping until half the ring is free
			 * costs a hundredth of being woken for each record, and the ring never runs
			 * empty.
			 */
			spare = (t->mask + 1) / 2;
			sleep = sleep_for(t->head + need + spare - limit, limit - before,
					  now - began, sleep);
			/*
			 * time looked at before a sleep, so that a sleep never exceeds what is
			 * allowed
			 */
			if (may_wait != UINT64_MAX &&
			    now - began + sleep + WAIT_SLEEP_NS > may_wait)
				sleep = WAIT_SLEEP_NS;
			sleep_ns(sleep);
		}
		uint64_t looked = now;
		now = now_ns();
		forgive_beat(t, now, now - looked);
		limit = look_at_tail(t, need);
		int last = may_wait != UINT64_MAX && now - began + 2 * WAIT_SLEEP_NS > may_wait;
		room = t->head + need + (last ? 0 : spare) <= limit;
		if (last)
			break;
	}
	waited(t, now - began);
	return room;
}

/* Fill up to the ring's end where fewer than @bytes are left before it: no record is ever split. */
static void pad_end(struct thread *t, unsigned bytes)
{
	uint64_t left = t->mask + 1 - (t->head & t->mask);
	if (left >= bytes)
		return;
	for (; left; left -= 8)
		put_raw(t, WIRE_PAD);
}

/* Raw mode: what is written stays in the file; the program's RSS need not carry it. */
static COLD void let_go(struct thread *t)
{
	uint64_t at = t->head & t->mask, done = at & ~(uint64_t)0xfffff;
	if (at - done < 4096 && done && !no_calls())
		sys3(SYS_madvise, t->ring + done - 0x100000, 0x100000, MADV_DONTNEED);
}

/*
 * Filters may be about names, and one that is read from outside is another by then. @again: whether
 * it has changed or not.
 */
static COLD void put_name(struct thread *t, int again)
{
	uint64_t name[2] = { 0 };
	if (no_calls() || sys_failed(sys2(SYS_prctl, PR_GET_NAME, name)))
		return;
	if (!again && name[0] == t->name[0] && name[1] == t->name[1])
		return;
	t->name[0] = name[0];
	t->name[1] = name[1];
	put_raw(t, (uint64_t)t->tid << 8 | WIRE_NAME);
	put_raw(t, name[0]);
	put_raw(t, name[1]);
}

COLD void ring_wake(void)
{
	struct wire_heap_header *heap = process.heap;
	if (!heap || no_calls() || !__atomic_exchange_n(&heap->asleep, 0, __ATOMIC_SEQ_CST))
		return;
	sys4(SYS_futex, &heap->asleep, FUTEX_WAKE, 1, NULL);
}

/* How many bytes the stamp that is made at @cycles is good for. */
static uint64_t stamp_allowance(struct thread *t, uint64_t cycles)
{
	uint64_t took = cycles - t->stamped, wrote = t->head - t->stamped_at;
	uint64_t bytes = t->allowance;
	if (!t->stamped || cycles < t->stamped || took > STAMP_CYCLES)
		bytes = t->stamped && took >> 32 == 0 ? wrote * STAMP_CYCLES / took : 0;
	else if (wrote + 24 > bytes) /* used up, and the next record did not fit */
		bytes = bytes * 4 + 64;
	t->allowance = bytes < WIRE_STAMP_BYTES ? (uint32_t)bytes : WIRE_STAMP_BYTES;
	return t->allowance;
}

uint64_t *ring_room_slow(struct thread *t, unsigned bytes, int kept)
{
	if (kept) {
		pad_end(t, bytes);
		return (uint64_t *)(t->ring + (t->head & t->mask));
	}
	int saved_errno = errno;
	uint64_t need = EXTRAS + bytes + EXTRAS /* pad */ + RESERVE;
	/*
	 * nobody reads it any more; none in a child that a signal handler forked just before the
	 * hook said that it is one
	 */
	if (unlikely(!t->slot || t->slot->closed)) {
		t->soft = 0;
		errno = saved_errno;
		return NULL;
	}
	if (t->head + need > t->limit && t->head + need > look_at_tail(t, need) &&
	    !wait_for_room(t, need)) {
		t->soft = 0; /* look again next time */
		errno = saved_errno;
		return NULL;
	}
	pad_end(t, EXTRAS + bytes);
	if (unlikely(process.raw))
		let_go(t);
	if (unlikely(process.starter))
		fork_settle();
	t->tick = __atomic_load_n(&process.heap->tick, __ATOMIC_ACQUIRE);
	if (unlikely(__atomic_load_n(&process.heap->asleep, __ATOMIC_RELAXED)))
		ring_wake();
	__atomic_store_n(t->mark, (uint64_t)own_rseq, __ATOMIC_RELAXED);
	barrier(); /* behind it: what is lost from here on is noticed */
	uint64_t cycles = stamp();
	uint64_t allowance = stamp_allowance(t, cycles);
	if (unlikely(!process.raw && t->stamped && cycles - t->stamped > QUIET_CYCLES))
		forgive_beat_after(t, cycles - t->stamped, cycles);
	int stamped = 0;
	if (!process.raw || !t->stamped || cycles - t->stamped >= WIRE_RAW_STAMP_CYCLES ||
	    t->head - t->stamped_at >= WIRE_STAMP_BYTES) {
		put_raw(t, cycles << 8 | WIRE_TIME);
		t->stamped = cycles;
		t->stamped_at = t->head;
		stamped = 1;
	}
	if (t->walker && unlikely(t->more || unwind_crowded(t->walker)))
		thread_memory(t);
	int unnamed = t->unnamed;
	if (unnamed) {
		put_raw(t, (uint64_t)t->tid << 8 | WIRE_THREAD);
		put_raw(t, cycles);
		t->unnamed = 0;
	}
	if (unlikely(process.heap->name_threads) && (stamped || unnamed))
		put_name(t, unnamed);
	if (t->switched) {
		put_raw(t, (uint64_t)(t->switched - 1) << 8 | WIRE_SWITCH);
		t->switched = 0;
	}
	if (t->lost) {
		uint64_t frees = t->lost_frees, allocations = t->lost - frees;
		if (frees > WIRE_LOST_EACH_MAX)
			frees = WIRE_LOST_EACH_MAX;
		if (allocations > WIRE_LOST_EACH_MAX)
			allocations = WIRE_LOST_EACH_MAX;
		put_raw(t, (frees << WIRE_LOST_BITS | allocations) << 8 | WIRE_LOST);
		put_raw(t, t->lost_bytes);
		t->lost = t->lost_frees = t->lost_bytes = 0;
	}
	/* the recorder's wishes are looked at on the slow way in: send everybody there */
	uint32_t mode = proc.word & MODE_MASK;
	if (unlikely(process.heap->detach ||
		     (process.heap->enabled_wanted != 0) != (mode == MODE_ON)))
		__atomic_fetch_add((uint32_t *)&proc.word, MODE_EPOCH, __ATOMIC_RELAXED);
	/* how far the fast path may go: the next stamp, the ring's end, the ring's limit */
	uint64_t soft = t->head + allowance;
	uint64_t end = t->head - (t->head & t->mask) + t->mask + 1;
	if (soft > end)
		soft = end;
	if (soft + RESERVE > t->limit)
		soft = t->limit - RESERVE;
	t->soft = process.raw || process.heap->stamp_every_event || process.heap->stamp_closely
			  ? 0
			  : soft;
	errno = saved_errno;
	return (uint64_t *)(t->ring + (t->head & t->mask));
}

int ring_wait_drained(uint64_t limit_ns)
{
	struct wire_heap_header *heap = process.heap;
	uint64_t began = now_ns(), now = began;
	if (process.raw)
		return 1;
	ring_wake();
	for (uint32_t i = 0; i < heap->slot_count; i++) {
		struct wire_heap_slot *slot = &process.slots[i];
		uint64_t head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);
		while (__atomic_load_n(&slot->tail, __ATOMIC_ACQUIRE) < head && !slot->closed) {
			uint64_t beat = __atomic_load_n(&heap->heartbeat_ns, __ATOMIC_RELAXED);
			if (beat < began) /* it may have slept until now */
				beat = began;
			if (no_calls() || now - began > limit_ns ||
			    (now > beat && now - beat > 1000000000u))
				return 0;
			struct timespec ts = { 0, 200000 };
			sys4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, 0);
			now = now_ns();
		}
	}
	return 1;
}

void ring_wait_last_block(void)
{
	struct wire_heap_header *heap = process.heap;
	const struct timespec pause = { 0, 5000000 };
	if (no_calls() || process.raw || heap->on_full == WIRE_FULL_DROP || heap->detach ||
	    !__atomic_load_n(&heap->recorder_pid, __ATOMIC_RELAXED))
		return;
	uint64_t began = now_ns(), now = began, beat = began;
	__atomic_store_n(&heap->exit_waits, 1, __ATOMIC_SEQ_CST);
	ring_wake();
	while (!__atomic_load_n(&heap->last_block, __ATOMIC_ACQUIRE) && !heap->detach &&
	       now - beat < BEAT_OLD_NS && now - began < EXIT_WAIT_NS) {
		sys4(SYS_futex, &heap->last_block, FUTEX_WAIT, 0, &pause);
		now = now_ns();
		uint64_t last = __atomic_load_n(&heap->heartbeat_ns, __ATOMIC_RELAXED);
		if (last > beat && last <= now)
			beat = last;
	}
}

void ring_dropped(struct thread *t, uint64_t allocations, uint64_t bytes, uint64_t frees)
{
	t->lost += allocations + frees;
	t->lost_frees += frees;
	t->lost_bytes += bytes;
	count_lost(t, no_calls() ? WIRE_LOST_SECCOMP : WIRE_LOST_RING_FULL, allocations, bytes,
		   frees);
}

void ring_attach(struct thread *t, struct wire_heap_slot *slot)
{
	t->slot = slot;
	t->ring = (char *)process.heap + slot->ring_off;
	t->mask = slot->ring_bytes - 1;
	t->head = __atomic_load_n(&slot->head, __ATOMIC_RELAXED);
	t->limit = 0;
	t->soft = 0;
	t->stamped = 0;
	t->mark = find_mark();
	t->allowance = 0;
	t->unnamed = 1;
	t->lost = t->lost_frees = t->lost_bytes = 0;
}
