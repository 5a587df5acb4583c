/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * walk.c - the stack that the memo did not know: walk what is fresh, join the last stack where it
 * is proven, number the fresh frames from the outermost inwards, and note the words that prove them
 * the next time.
 *
 * Why a join is sound: a frame's state (ip, sp, and rbp where a frame further out hangs on it) and
 * the saved words further out decide the rest of the walk. The last stack is kept from the
 * outermost frame inwards with its words in the same order, so one scan finds how much of it still
 * stands, whichever frame the fresh ones meet.
 */
#include "unwind/call_x86_64.h"
#include "unwind/state.h"

/*
 * From here on there is no code of a program's. Not left to the rule caches: what they hold is told
 * by the bits above, and with any number there one may seem to hold it.
 */
#define NO_CODE (1ull << 47)

struct walk {
	/* addr - lo < span: a whole word is there */
	uint64_t lo, span;
	/* last page outside of that which the probe found readable, + 1 */
	uint64_t page;
	struct unwind_process *process;
};

static int load_outside(struct walk *w, uint64_t addr, uint64_t *out);

static UNWIND_INLINE int load(void *ctx, uint64_t addr, uint64_t *out)
{
	struct walk *w = ctx;
	if (unlikely(addr - w->lo >= w->span))
		return load_outside(w, addr, out);
	*out = word_at(addr);
	return 0;
}

#define UNWIND_LOAD(ctx, addr, out) load((ctx), (addr), (out))
#include "unwind/step.h"

static int page_readable(struct walk *w, uint64_t page)
{
	if (w->page == page + 1)
		return 1;
	if (!w->process->probe || !w->process->probe(w->process->ctx, page))
		return 0;
	w->page = page + 1;
	return 1;
}

static int load_outside(struct walk *w, uint64_t addr, uint64_t *out)
{
	if (addr > UINT64_MAX - 8 || !page_readable(w, addr & ~4095ull) ||
	    !page_readable(w, (addr + 7) & ~4095ull))
		return 1;
	*out = word_at(addr);
	return 0;
}

static int load_full(void *ctx, uint64_t addr, uint64_t *out)
{
	return load(ctx, addr, out);
}

/*
 * The stack from @sp, where code runs, up to @t->used_lo, or up to its end if @anew: which of it
 * can be read? A bound on pages, for who is traced waits meanwhile; what lies behind it is asked
 * for when it is read.
 */
#define VERIFY_PAGES_MAX 1024

static UNWIND_APART void verify(struct walk *w, struct unwind_thread *t, uint64_t sp, int anew)
{
	uint64_t page = ((sp - 1) | 4095) + 1, end = anew ? t->stack_hi : t->used_lo;

	t->verify = 0;
	if (anew)
		t->trust_hi = t->stack_hi;
	for (unsigned pages = 0; page < end; page += 4096) {
		if (pages++ == VERIFY_PAGES_MAX || t->keyed || !page_readable(w, page)) {
			t->trust_hi = page;
			break;
		}
	}
	t->used_lo = sp;
}

/*
 * Which words are there for a frame at @sp. @in_use: code runs there now, so the byte below sp is
 * mapped. What a signal frame says may be anything: below what was in use, a stack that could grow
 * to there need not have done so.
 */
static void known_words(struct walk *w, struct unwind_thread *t, uint64_t sp, int in_use)
{
	uint64_t hi = 0;

	if (sp >= t->stack_lo && sp < t->stack_hi) {
		if (in_use && (sp < t->used_lo || unlikely(sp >= t->trust_hi) || t->keyed)) {
			if (unlikely(t->verify | t->careful | t->keyed))
				verify(w, t, sp, t->verify | t->keyed || sp >= t->trust_hi);
			else
				t->used_lo = sp;
		}
		hi = sp >= t->used_lo ? t->trust_hi : 0;
		if (unlikely(hi > t->checked_hi))
			hi = t->checked_hi;
	} else if (in_use)
		hi = ((sp - 1) | 4095) + 1;
	w->lo = sp;
	w->span = hi > sp + 7 ? hi - sp - 7 : 0;
}

static UNWIND_INLINE uint32_t rule_slot(const struct unwind_thread *t, uint64_t ip)
{
	return (uint32_t)((ip * 0x9e3779b97f4a7c15ULL) >> t->rule_shift);
}

static UNWIND_INLINE int is_reused(const struct unwind_thread *t, uint64_t ip)
{
	return ip - 1 - t->reused_lo < t->reused_bytes;
}

static uint32_t find_since(struct unwind_thread *t, uint64_t ip)
{
	struct unwind_process *p = t->process;

	t->module = (struct unwind_module){ 0 };
	if (p->find)
		p->find(p->ctx, ip - 1, &t->module);
	return t->module.since;
}

/*
 * The shared place of @ip. Code that lies together shares a page of places: a program that begins
 * touches few of them, and each first touch of a page costs what a hundred look-ups do.
 */
static struct shared_rule *shared_place(struct unwind_process *p, uint64_t ip)
{
	const unsigned low = UNWIND_SHARED_BITS - 8;
	uint64_t page = (ip >> 13) * 0x9e3779b97f4a7c15ULL >> (64 - low);
	uint64_t place = ip * 0x9e3779b97f4a7c15ULL >> 56;

	return &p->shared[page << 8 | place];
}

/* The recipe from the shared cache or its source; into the thread's cache where it may be kept. */
static UNWIND_APART uint64_t rule_miss(struct unwind_thread *t, uint64_t ip, uint32_t slot)
{
	struct unwind_process *p = t->process;
	uint64_t mix = ((uint64_t)t->seen_gen << 32 ^ t->seen_epoch >> EPOCH_CODE_SHIFT) *
		       0xd6e8feb86659fd93ULL;
	struct shared_rule *shared = shared_place(p, ip);
	uint64_t key = __atomic_load_n(&shared->key, __ATOMIC_RELAXED);
	uint64_t rule = __atomic_load_n(&shared->rule, __ATOMIC_RELAXED);
	int cacheable = 1;

	t->stats.rules++;
	if (ip >= NO_CODE)
		return RULE_NOT_CODE;
	if (!key || (key ^ rule ^ mix) != ip) {
		rule = unwind_find_rule(t, ip, &cacheable);
		if (!cacheable)
			return rule;
		__atomic_store_n(&shared->key, ip ^ rule ^ mix, __ATOMIC_RELAXED);
		__atomic_store_n(&shared->rule, rule, __ATOMIC_RELAXED);
	}
	t->rules[slot].ip = ip ^ t->salt;
	t->rules[slot].rule = rule;
	t->rule_since[slot] = is_reused(t, ip) ? find_since(t, ip) : 0;
	return rule;
}

/*
 * Where code has come and gone: the thread's cache knows of most addresses since when they have
 * meant what they do.
 */
static __attribute__((noinline)) uint32_t since_reused(struct unwind_thread *t, uint64_t ip)
{
	uint32_t slot = rule_slot(t, ip);

	if (t->rules[slot].ip == (ip ^ t->salt))
		return t->rule_since[slot];
	return find_since(t, ip);
}

/* The generation of a node at @ip. */
static UNWIND_INLINE uint32_t since_of(struct unwind_thread *t, uint64_t ip)
{
	return unlikely(is_reused(t, ip)) ? since_reused(t, ip) : 0;
}

/* What comes into the interrupted function's place: every register stands in the signal frame. */
static int full_signal(struct walk *w, struct unwind_full *full)
{
	uint64_t sp = full->reg[UNWIND_REG_SP];

	for (unsigned i = 0; i < UNWIND_REGS; i++) {
		if (load(w, sp + unwind_signal_at[i], &full->reg[i]))
			return WIRE_STOP_READ;
	}
	full->reg[UNWIND_REG_RA]++;
	full->known = (1u << UNWIND_REGS) - 1;
	return UNWIND_GO_ON;
}

static int full_guess(struct walk *w, struct unwind_full *full)
{
	struct unwind_frame f = { full->reg[UNWIND_REG_RA], full->reg[UNWIND_REG_SP],
				  full->reg[UNWIND_REG_BP], 0 };
	int stop = full->known >> UNWIND_REG_BP & 1 ? unwind_guess(w, &f) : WIRE_STOP_GAP;

	if (stop == UNWIND_GO_ON) {
		full->reg[UNWIND_REG_RA] = f.ip;
		full->reg[UNWIND_REG_SP] = f.sp;
		full->reg[UNWIND_REG_BP] = f.bp;
		full->known = 1u << UNWIND_REG_RA | 1u << UNWIND_REG_SP | 1u << UNWIND_REG_BP;
	}
	return stop;
}

/*
 * A frame that no recipe word expresses, @n frames out from @regs: do those n steps again with all
 * registers, then this one. Slow (about a microsecond a frame) and rare. Return as unwind_step().
 */
static __attribute__((noinline)) int step_full(struct unwind_thread *t,
					       const struct unwind_regs *regs, uint32_t n,
					       struct unwind_frame *f)
{
	struct unwind_full full = { .known = 1u << UNWIND_REG_RA | 1u << UNWIND_REG_SP |
					     1u << UNWIND_REG_BP };
	struct walk w = { .process = t->process };
	int stop = UNWIND_GO_ON;

	full.reg[UNWIND_REG_RA] = regs->ip;
	full.reg[UNWIND_REG_SP] = regs->sp;
	full.reg[UNWIND_REG_BP] = regs->bp;
	full.reg[UNWIND_REG_BX] = regs->bx;
	full.known |= (uint32_t)(regs->bx != 0) << UNWIND_REG_BX;
	known_words(&w, t, regs->sp, 1);
	for (uint32_t i = 0; i <= n && stop == UNWIND_GO_ON; i++) {
		struct unwind_fde fde;
		const uint8_t *hi;
		int cacheable;
		uint64_t ip = full.reg[UNWIND_REG_RA];

		if (unwind_find_row(t, ip, &fde, &hi)) {
			stop = unwind_full_step(&fde, &t->work.row, hi, &full, load_full, &w);
			if (stop == UNWIND_GO_ON && fde.signal)
				known_words(&w, t, full.reg[UNWIND_REG_SP], 0);
		} else if (unwind_find_rule(t, ip, &cacheable) == WIRE_RULE_SIGNAL) {
			stop = full_signal(&w, &full);
			known_words(&w, t, full.reg[UNWIND_REG_SP], 0);
		} else {
			stop = i < n ? full_guess(&w, &full) : WIRE_STOP_UNSUPPORTED;
		}
	}
	if (stop == UNWIND_GO_ON) {
		f->ip = full.reg[UNWIND_REG_RA];
		f->sp = full.reg[UNWIND_REG_SP];
		f->bp = full.known >> UNWIND_REG_BP & 1 ? full.reg[UNWIND_REG_BP] : 0;
		f->bx = full.known >> UNWIND_REG_BX & 1 ? full.reg[UNWIND_REG_BX] : 0;
	}
	return stop;
}

/* The walk's place: the frame looked at, and how it went. */
struct place {
	struct walk w;
	struct unwind_frame f;
	/* of f; after a guess RULE_GUESS */
	uint64_t rule;
	/* frames before f */
	uint32_t n;
	/* cache entry of the frame before */
	uint32_t slot;
	uint32_t guessed;
	uint32_t descents;
	/* where the walk began, or last left the thread's own stack */
	uint64_t own_sp;
	int stop;
};

static void place_init(struct unwind_thread *t, struct place *p, const struct unwind_regs *regs)
{
	p->w = (struct walk){ .process = t->process };
	known_words(&p->w, t, regs->sp, 1);
	p->f = (struct unwind_frame){ regs->ip, regs->sp, regs->bp, regs->bx };
	p->n = 0;
	p->slot = rule_slot(t, regs->ip);
	p->guessed = 0;
	p->descents = 0;
	p->own_sp = regs->sp;
	p->stop = UNWIND_GO_ON;
}

/*
 * The caller's frame lies below the callee's: code went to a stack that lies higher, and rbp tells
 * where it came from. Garbage in rbp looks alike, and could lead in circles: so few times only.
 * Such a stack is walked each time, as put_frame() keeps no words below a frame. Return as
 * unwind_step().
 */
#define DESCENTS_MAX 8

static __attribute__((noinline)) int descend(struct unwind_thread *t, struct place *p)
{
	struct unwind_frame f = { p->f.ip, 0, p->f.bp, p->f.bx };
	uint64_t cfa = f.bp + (uint64_t)unwind_rule_cfa(p->rule);

	if (cfa % 8 || cfa == p->f.sp || ++p->descents > DESCENTS_MAX)
		return WIRE_STOP_NO_PROGRESS;
	known_words(&p->w, t, f.bp, 0);
	int stop = unwind_leave(&p->w, &f, p->rule, cfa, cfa);
	if (stop == UNWIND_GO_ON)
		p->f = f;
	known_words(&p->w, t, p->f.sp, 0);
	return stop;
}

/*
 * Its code is read once: a page of it, which is asked for by a system call, would take the stack's
 * place among what was asked.
 */
static int follows_call(struct unwind_thread *t, uint64_t ip)
{
	uint64_t *called = &t->called[ip % UNWIND_CALLED], before;
	struct walk code = { .process = t->process };

	if (*called == ip)
		return 1;
	if (ip < 4096 || ip >= NO_CODE || load(&code, ip - 8, &before) ||
	    !unwind_follows_call(before))
		return 0;
	*called = ip;
	return 1;
}

/*
 * The frame pointer of code without a recipe does not lead up this stack: a runtime that went to
 * another one keeps it, and so it tells where it came from (Go, which calls C on the thread's stack
 * and is called back on a goroutine's). What it names has to be a frame: a return address behind a
 * call, on this thread's own stack further out than any before. Such a stack is walked each time,
 * as put_frame() keeps words of one stack only. Return as unwind_guess().
 */
static __attribute__((noinline)) int guess_elsewhere(struct unwind_thread *t, struct place *p)
{
	uint64_t bp = p->f.bp, ip, next;

	if (p->f.sp >= t->stack_lo && p->f.sp < t->stack_hi)
		p->own_sp = p->f.sp;
	if (bp % 8 || bp < 4096 || bp >= NO_CODE || ++p->descents > DESCENTS_MAX ||
	    (bp >= t->stack_lo && bp < t->stack_hi && bp < p->own_sp))
		return WIRE_STOP_GAP;
	known_words(&p->w, t, bp, 0);
	if (load(&p->w, bp + 8, &ip) || load(&p->w, bp, &next) || !follows_call(t, ip)) {
		known_words(&p->w, t, p->f.sp, 0);
		return WIRE_STOP_GAP;
	}
	p->f = (struct unwind_frame){ ip, bp + 16, next, 0 };
	return UNWIND_GO_ON;
}

/*
 * Find the recipe of p->f. Each entry names the one that came next last time: no hash on the
 * critical path.
 */
static UNWIND_INLINE void place_rule(struct unwind_thread *t, struct place *p)
{
	struct cached_rule *before = &t->rules[p->slot];
	uint32_t slot = p->n ? (before->rule >> NEXT_SHIFT) & NEXT_MASK : p->slot;
	uint64_t key = p->f.ip ^ t->salt;

	if (unlikely(t->rules[slot].ip != key)) {
		slot = rule_slot(t, p->f.ip);
		if (unlikely(t->rules[slot].ip != key)) {
			p->rule = rule_miss(t, p->f.ip, slot);
			p->slot = slot;
			return;
		}
		if (p->n)
			before->rule = (before->rule & ~((uint64_t)NEXT_MASK << NEXT_SHIFT)) |
				       (uint64_t)slot << NEXT_SHIFT;
	}
	p->slot = slot;
	p->rule = t->rules[slot].rule;
}

/*
 * One step outwards from p->f, whose recipe is known. Return 1: p->f is the caller. 0: the walk
 * ends, p->stop says why; *is_frame tells whether p->f counts as a frame.
 */
static UNWIND_INLINE int place_step(struct unwind_thread *t, struct place *p,
				    const struct unwind_regs *regs, int *is_frame)
{
	uint32_t kind = unwind_rule_kind(p->rule);

	*is_frame = 1;
	if (likely(kind >= WIRE_RULE_SP && kind <= WIRE_RULE_DRAP)) {
		p->stop = unwind_step(&p->w, &p->f, p->rule);
		if (unlikely(kind == WIRE_RULE_SIGNAL))
			known_words(&p->w, t, p->f.sp, 0);
		else if (unlikely(p->stop == WIRE_STOP_NO_PROGRESS && kind == WIRE_RULE_BP))
			p->stop = descend(t, p);
	} else if (kind == WIRE_RULE_END) {
		p->stop = WIRE_STOP_END;
	} else if (kind == WIRE_RULE_EVAL) {
		p->stop = step_full(t, regs, p->n, &p->f);
		known_words(&p->w, t, p->f.sp, 0);
	} else if (kind == RULE_NOT_CODE) {
		*is_frame = 0;
		p->stop = WIRE_STOP_NO_MODULE;
	} else {
		struct unwind_frame before = p->f;
		p->stop = unwind_guess(&p->w, &p->f);
		if (unlikely(p->stop == WIRE_STOP_GAP))
			p->stop = guess_elsewhere(t, p);
		if (p->stop == UNWIND_GO_ON && p->f.ip) {
			/* a guess has to lead to code */
			uint32_t slot = rule_slot(t, p->f.ip);
			uint64_t rule = t->rules[slot].ip == (p->f.ip ^ t->salt)
						? t->rules[slot].rule
						: rule_miss(t, p->f.ip, slot);
			if (unwind_rule_kind(rule) == RULE_NOT_CODE) {
				p->f = before;
				p->stop = WIRE_STOP_GAP;
			}
		}
		if (p->stop == UNWIND_GO_ON) {
			p->guessed++;
			p->rule = RULE_GUESS;
		} else if (p->stop != WIRE_STOP_END && kind == RULE_CODE) {
			p->stop = WIRE_STOP_NO_MODULE;
		}
	}
	return p->stop == UNWIND_GO_ON;
}

/*
 * How far the last stack's words still stand, counted from the outermost; compared at most once a
 * capture.
 */
struct proof {
	/* words [0, equal) are; those from limit on need not be tried */
	uint32_t equal, limit;
};

static int proven(struct unwind_thread *t, struct proof *proof, uint32_t words)
{
	if (words <= proof->equal)
		return 1;
	if (words > proof->limit)
		return 0;
	for (uint32_t i = proof->equal; i < words; i++) {
		if (word_at(t->base + t->word_off[i]) != t->word[i]) {
			proof->equal = i;
			proof->limit = i;
			return 0;
		}
	}
	proof->equal = words;
	return 1;
}

static int joins(struct unwind_thread *t, const struct place *p, const struct last_frame *with,
		 struct proof *proof)
{
	if (with->ip != p->f.ip || (with->words & FRAME_TAINTED))
		return 0;
	if ((with->words & FRAME_NEEDS_BP) && with->bp != p->f.bp)
		return 0;
	/* frames inside a guess hang below WIRE_STOP_GUESSED, others do not */
	if (p->guessed ? t->last_root == WIRE_STOP_END
		       : t->last_root == WIRE_STOP_GUESSED && with < &t->frame[t->guess_at])
		return 0;
	/* its words are read below: they have to be in memory that is there for this frame */
	if (p->f.sp < t->stack_lo || p->f.sp >= t->stack_hi)
		return 0;
	return proven(t, proof, with->words & FRAME_WORDS);
}

static UNWIND_HOT int put_word(struct unwind_thread *t, uint32_t *count, uint64_t frame_sp,
			       uint64_t addr, uint64_t value)
{
	if (*count >= t->word_max || addr < frame_sp || addr < t->stack_lo ||
	    addr - t->base > UINT32_MAX - 7 || frame_sp < t->stack_lo || addr + 8 > t->trust_hi)
		return 0;
	t->word_off[*count] = (uint32_t)(addr - t->base);
	t->word[*count] = value;
	if (addr + 8 > t->words_hi)
		t->words_hi = addr + 8;
	++*count;
	return 1;
}

/*
 * Put the words that the step from @in to its caller (ip, sp, bp) hung on. @needs: the caller hangs
 * on its rbp. Return the frame's flags, with FRAME_TAINTED where the words cannot be kept.
 */
static uint32_t put_frame(struct unwind_thread *t, uint32_t *count, const struct last_frame *in,
			  uint64_t ip, uint64_t sp, uint64_t bp, uint32_t needs)
{
	uint64_t rule = in->rule, slot = 0;
	uint32_t kind = unwind_rule_kind(rule);
	int kept;

	switch (kind) {
	case WIRE_RULE_SP:
	case WIRE_RULE_BP:
	case WIRE_RULE_PLT:
		if (unwind_rule_bp(rule))
			slot = sp + (uint64_t)unwind_rule_bp(rule);
		break;
	case WIRE_RULE_DRAP:
	case RULE_GUESS:
		slot = in->bp;
		break;
	default:
		return FRAME_TAINTED;
	}
	kept = put_word(t, count, in->sp, sp - 8, ip);
	if (kind == WIRE_RULE_DRAP)
		kept &= put_word(t, count, in->sp, in->bp + (uint64_t)unwind_rule_cfa(rule), sp);
	if (slot) {
		if (needs)
			kept &= put_word(t, count, in->sp, slot, bp);
		needs = 0;
	}
	if (kind == WIRE_RULE_BP || kind == WIRE_RULE_DRAP || kind == RULE_GUESS)
		needs = FRAME_NEEDS_BP;
	return kept ? needs : FRAME_TAINTED;
}

/* Numbering from the outermost frame inwards. */
struct path {
	uint32_t node;
	struct unwind_nodes_taken taken;
};
#define TAKEN_MAX 64 /* what a signal handler that leaves by longjmp takes along */

/* @more frames will follow. */
static UNWIND_INLINE void path_add(struct unwind_thread *t, struct path *path, uint64_t pc,
				   uint32_t more)
{
	if (unlikely(path->node == WIRE_STOP_NODES_FULL))
		return;
	path->node = unwind_node_get(&t->process->nodes, pc, path->node, since_of(t, pc),
				     more < TAKEN_MAX ? more : TAKEN_MAX, &path->taken);
	if (unlikely(path->node == UNWIND_NODE_NONE))
		path->node = WIRE_STOP_NODES_FULL;
}

/* Number the placed frames from @base on. */
static uint32_t number_fresh(struct unwind_thread *t, uint32_t base)
{
	struct path path = { .node = base ? t->frame[base - 1].node : t->last_root };

	for (uint32_t i = base; i < t->frame_count; i++) {
		path_add(t, &path, t->frame[i].ip, t->frame_count - 1 - i);
		t->frame[i].node = path.node;
	}
	unwind_node_return(&t->process->nodes, &path.taken);
	return path.node;
}

/*
 * The walk met the last stack at frame @base - 1 (0: it did not); put the @n waiting frames on top
 * of it.
 */
static uint32_t place_fresh(struct unwind_thread *t, const struct place *p, uint32_t base,
			    uint32_t n)
{
	uint32_t words = 0, flags = 0, first = base;
	uint64_t ip = p->f.ip, sp = p->f.sp, bp = p->f.bp;
	int led_on = p->stop == UNWIND_GO_ON; /* the outermost fresh frame has a caller */

	if (base) {
		const struct last_frame *outer = &t->frame[base - 1];
		words = outer->words & FRAME_WORDS;
		flags = outer->words & ~FRAME_WORDS;
	} else {
		uint32_t root = p->stop == UNWIND_GO_ON ? WIRE_STOP_END : (uint32_t)p->stop;
		if (root == WIRE_STOP_END && p->guessed)
			root = WIRE_STOP_GUESSED;
		/*
		 * what made the walk stop is not among the words, but for a caller of 0 and a
		 * recipe that says so
		 */
		if (root != WIRE_STOP_END && root != WIRE_STOP_GUESSED)
			flags = FRAME_TAINTED;
		t->last_root = root;
	}
	unwind_node_expect(&t->process->nodes, base ? t->frame[base - 1].node : t->last_root);
	if (base <= t->guess_at)
		t->guess_at = UINT32_MAX;
	if (base < t->outer_frames)
		t->outer_frames = 0;
	for (uint32_t i = n; i-- > 0;) {
		struct last_frame in = t->frame[t->frame_max - 1 - i];
		if (led_on)
			flags = flags & FRAME_TAINTED
					? flags
					: put_frame(t, &words, &in, ip, sp, bp, flags);
		else if (unwind_rule_kind(in.rule) != WIRE_RULE_END)
			flags |= FRAME_NEEDS_BP; /* a failed guess looked at rbp */
		if (unwind_rule_kind(in.rule) == RULE_GUESS && base < t->guess_at)
			t->guess_at = base;
		t->frame[base++] =
			(struct last_frame){ in.ip,        in.sp, in.bp, 0, WIRE_STOP_NODES_FULL,
					     words | flags };
		ip = in.ip;
		sp = in.sp;
		bp = in.bp;
		led_on = 1;
	}
	t->frame_count = base;
	return number_fresh(t, first);
}

/*
 * A stack deeper than the frame array can grow: walk it once for its length, noting the walk's
 * place now and then, then number it piece by piece from the outermost end, walking each piece
 * again. Uses the memory of all that is remembered, which holds twice the places of
 * UNWIND_FRAMES_MAX frames where a thread has the least, 32 KiB.
 */
static __attribute__((noinline)) uint32_t walk_deep(struct unwind_thread *t,
						    const struct unwind_regs *regs)
{
	uint64_t bytes =
		(uint64_t)(t->area + (uint64_t)t->area_units * AREA_UNIT - (uint8_t *)t->frame);
	uint64_t *ip = (uint64_t *)t->frame;
	uint32_t piece = (uint32_t)(bytes / 2 / sizeof(*ip)), total, root;
	struct place *mark = (struct place *)(ip + piece);
	uint32_t marks = (uint32_t)(bytes / 2 / sizeof(*mark)), every = piece;
	struct place p;
	struct path path;
	int is_frame, go_on;

	unwind_forget(t);
	t->stats.deep++;
	place_init(t, &p, regs);
	do {
		if (p.n % every == 0 && p.n / every < marks)
			mark[p.n / every] = p;
		place_rule(t, &p);
		go_on = place_step(t, &p, regs, &is_frame);
		p.n += (uint32_t)is_frame;
		if (go_on && p.f.ip - 1 >= NO_CODE - 1) {
			p.stop = p.f.ip ? WIRE_STOP_NO_MODULE : WIRE_STOP_END;
			go_on = 0;
		} else if (go_on && p.n == UNWIND_FRAMES_MAX) {
			p.stop = WIRE_STOP_TOO_DEEP;
			go_on = 0;
		}
	} while (go_on);

	total = p.n;
	root = p.stop == WIRE_STOP_END && p.guessed ? WIRE_STOP_GUESSED : (uint32_t)p.stop;
	path = (struct path){ .node = root };
	for (uint32_t from = (total - 1) / every * every; total; from -= every) {
		uint32_t count = total - from;
		p = mark[from / every];
		for (uint32_t i = 0; i < count; i++) {
			ip[i] = p.f.ip;
			place_rule(t, &p);
			place_step(t, &p, regs, &is_frame);
			p.n++;
		}
		for (uint32_t i = count; i-- > 0;)
			path_add(t, &path, ip[i], i);
		total = from;
	}
	unwind_node_return(&t->process->nodes, &path.taken);
	t->frame_count = 0;
	return path.node;
}

uint32_t unwind_walk(struct unwind_thread *t, const struct unwind_regs *regs)
{
	struct proof proof = { 0, UINT32_MAX };
	struct place p;
	uint32_t joined = 0, place = AREA_NONE, node, n;

	t->busy = 1;
	__asm__ volatile(
		"" ::
			: "memory"); /* a signal handler that leaves by longjmp finds the mark */
	t->stats.misses++;
	unwind_node_expect_new(&t->process->nodes);
	if (unlikely(t->area_end >= AREA_END_MAX))
		unwind_forget(t);
	else if (unlikely(t->link_full > t->link_patience))
		unwind_forget_links(t);
	place_init(t, &p, regs);
	if (unlikely(t->keyed))
		t->frame_count = 0; /* its words would be read to prove it */
	for (uint32_t next = t->frame_count;;) {
		struct last_frame *here;
		int is_frame, go_on;

		/* the last stack's frames lie from high to low addresses */
		while (next && t->frame[next - 1].sp < p.f.sp)
			next--;
		if (next && t->frame[next - 1].sp == p.f.sp &&
		    joins(t, &p, &t->frame[next - 1], &proof)) {
			joined = next;
			break;
		}
		if (unlikely(p.n == t->frame_max)) {
			if (unwind_deepen(t)) {
				proof = (struct proof){ 0, UINT32_MAX };
				place_init(t, &p, regs);
				next = 0;
				continue;
			}
			node = walk_deep(t, regs);
			t->busy = 0;
			return node;
		}
		place_rule(t, &p);
		here = &t->frame[t->frame_max - 1 - p.n];
		if (unlikely(here < t->frame + t->frame_count)) { /* both ends meet */
			t->frame_count--;
			if (next > t->frame_count)
				next = t->frame_count;
		}
		*here = (struct last_frame){ p.f.ip, p.f.sp, p.f.bp, p.rule, 0, 0 };
		go_on = place_step(t, &p, regs, &is_frame);
		here->rule = p.rule; /* a guess is known as one only now */
		p.n += (uint32_t)is_frame;
		if (unlikely(!go_on))
			break;
		if (unlikely(p.f.ip - 1 >= NO_CODE - 1)) {
			/* after 0 stop stays GO_ON: the word that held it proves this end */
			if (p.f.ip)
				p.stop = WIRE_STOP_NO_MODULE;
			break;
		}
	}
	n = p.n;
	t->stats.fresh_frames += n;
	t->stats.joins += joined != 0;
	node = place_fresh(t, &p, joined, n);
	/* there will be room again: nothing that hangs on the missing number is to stay */
	if (unlikely(node == WIRE_STOP_NODES_FULL) &&
	    __atomic_load_n(t->process->nodes.copier, __ATOMIC_RELAXED))
		t->frame_count = 0;
	if (t->frame_count && !(t->frame[t->frame_count - 1].words & FRAME_TAINTED))
		place = unwind_remember(t, regs, joined);
	unwind_follows(t, place < t->area_end ? place : AREA_NONE, FOLLOWS_WALKED);
	if (place >= t->area_end)
		t->expected = t->other = place; /* there for those that come in a row */
	__asm__ volatile("" ::: "memory");
	t->busy = 0;
	return node;
}
