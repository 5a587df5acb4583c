/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cfi_eval.c - full evaluation of a row: DWARF expressions and all registers, for the few frames
 * that need it.
 */
#include <stddef.h>

#include "unwind/bytes.h"
#include "unwind/cfi.h"
#include "wire/heap.h"

#define VALUES 32
#define OPS_MAX 256
#define GO_ON (-1)

struct machine {
	uint64_t v[VALUES];
	unsigned n;
	int bad;
	const struct unwind_full *full;
	unwind_load_fn load;
	void *ctx;
};

static void push(struct machine *m, uint64_t value)
{
	if (m->n < VALUES)
		m->v[m->n++] = value;
	else
		m->bad = 1;
}

static uint64_t pop(struct machine *m)
{
	if (m->n)
		return m->v[--m->n];
	m->bad = 1;
	return 0;
}

static uint64_t pick(struct machine *m, uint64_t depth)
{
	if (depth < m->n)
		return m->v[m->n - 1 - depth];
	m->bad = 1;
	return 0;
}

static uint64_t reg(struct machine *m, uint64_t number)
{
	if (number < UNWIND_REGS && (m->full->known >> number & 1))
		/* the ip is kept as "the address after": see step.h */
		return m->full->reg[number] - (number == UNWIND_REG_RA);
	m->bad = 1;
	return 0;
}

static uint64_t fetch(struct machine *m, uint64_t addr)
{
	uint64_t v = 0;
	if (!m->bad && m->load(m->ctx, addr, &v))
		m->bad = 1;
	return v;
}

static void binary(struct machine *m, uint8_t op)
{
	uint64_t b = pop(m), a = pop(m);
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case 0x1a:
		return push(m, a & b);
	case 0x1b:
		if (!sb || (sb == -1 && sa == INT64_MIN))
			m->bad = 1;
		else
			push(m, (uint64_t)(sa / sb));
		return;
	case 0x1c:
		return push(m, a - b);
	case 0x1d:
		if (!b)
			m->bad = 1;
		else
			push(m, a % b);
		return;
	case 0x1e:
		return push(m, a * b);
	case 0x21:
		return push(m, a | b);
	case 0x22:
		return push(m, a + b);
	case 0x24:
		return push(m, b < 64 ? a << b : 0);
	case 0x25:
		return push(m, b < 64 ? a >> b : 0);
	case 0x26:
		return push(m, (uint64_t)(sa >> (b < 63 ? b : 63)));
	case 0x27:
		return push(m, a ^ b);
	case 0x29:
		return push(m, sa == sb);
	case 0x2a:
		return push(m, sa >= sb);
	case 0x2b:
		return push(m, sa > sb);
	case 0x2c:
		return push(m, sa <= sb);
	case 0x2d:
		return push(m, sa < sb);
	default:
		return push(m, sa != sb);
	}
}

static void constant(struct machine *m, struct unwind_bytes *b, uint8_t op)
{
	switch (op) {
	case 0x03:
	case 0x0e:
	case 0x0f:
		return push(m, unwind_u64(b));
	case 0x08:
		return push(m, unwind_u8(b));
	case 0x09:
		return push(m, (uint64_t)(int64_t)(int8_t)unwind_u8(b));
	case 0x0a:
		return push(m, unwind_u16(b));
	case 0x0b:
		return push(m, (uint64_t)(int64_t)(int16_t)unwind_u16(b));
	case 0x0c:
		return push(m, unwind_u32(b));
	case 0x0d:
		return push(m, (uint64_t)(int64_t)(int32_t)unwind_u32(b));
	case 0x10:
		return push(m, unwind_uleb(b));
	default:
		return push(m, (uint64_t)unwind_sleb(b));
	}
}

static void jump(struct machine *m, struct unwind_bytes *b, const uint8_t *start, int taken)
{
	int64_t by = (int16_t)unwind_u16(b);
	if (!taken || b->bad)
		return;
	if (by < start - b->at || by > b->end - b->at)
		m->bad = 1;
	else
		b->at += by;
}

/* One expression; @cfa is pushed first where @has_cfa. Return 1 and the top of the stack. */
static int evaluate(struct machine *m, const uint8_t *at, const uint8_t *hi, int has_cfa,
		    uint64_t cfa, uint64_t *out)
{
	struct unwind_bytes b = unwind_block(at, hi);
	const uint8_t *start = b.at;
	uint64_t x, y, z;

	m->n = 0;
	m->bad = 0;
	if (has_cfa)
		push(m, cfa);
	for (unsigned ops = 0; !b.bad && !m->bad && b.at < b.end; ops++) {
		uint8_t op = (uint8_t)unwind_u8(&b);
		if (ops == OPS_MAX)
			return 0;
		if (op >= 0x30 && op < 0x50) {
			push(m, op - 0x30);
		} else if (op >= 0x70 && op < 0x90) {
			x = reg(m, op - 0x70);
			push(m, x + (uint64_t)unwind_sleb(&b));
		} else if (op == 0x03 || (op >= 0x08 && op <= 0x11)) {
			constant(m, &b, op);
		} else if ((op >= 0x1a && op <= 0x1e) || op == 0x21 || op == 0x22 ||
			   (op >= 0x24 && op <= 0x27) || (op >= 0x29 && op <= 0x2e)) {
			binary(m, op);
		} else {
			switch (op) {
			case 0x06: /* deref */
				push(m, fetch(m, pop(m)));
				break;
			case 0x12: /* dup */
				push(m, pick(m, 0));
				break;
			case 0x13: /* drop */
				pop(m);
				break;
			case 0x14: /* over */
				push(m, pick(m, 1));
				break;
			case 0x15: /* pick */
				push(m, pick(m, unwind_u8(&b)));
				break;
			case 0x16: /* swap */
				x = pop(m);
				y = pop(m);
				push(m, x);
				push(m, y);
				break;
			case 0x17: /* rot */
				x = pop(m);
				y = pop(m);
				z = pop(m);
				push(m, x);
				push(m, z);
				push(m, y);
				break;
			case 0x19: /* abs */
				x = pop(m);
				push(m, (int64_t)x < 0 ? 0 - x : x);
				break;
			case 0x1f: /* neg */
				push(m, 0 - pop(m));
				break;
			case 0x20: /* not */
				push(m, ~pop(m));
				break;
			case 0x23: /* plus_uconst */
				x = pop(m);
				push(m, x + unwind_uleb(&b));
				break;
			case 0x28: /* bra */
				jump(m, &b, start, pop(m) != 0);
				break;
			case 0x2f: /* skip */
				jump(m, &b, start, 1);
				break;
			case 0x92: /* bregx */
				x = reg(m, unwind_uleb(&b));
				push(m, x + (uint64_t)unwind_sleb(&b));
				break;
			case 0x94: /* deref_size */
				y = unwind_u8(&b);
				if (y != 1 && y != 2 && y != 4 && y != 8)
					return 0;
				x = fetch(m, pop(m));
				push(m, y == 8 ? x : x & ((1ULL << 8 * y) - 1));
				break;
			case 0x96: /* nop */
				break;
			default:
				return 0;
			}
		}
	}
	if (b.bad || m->bad || !m->n)
		return 0;
	*out = pop(m);
	return 1;
}

int unwind_full_step(const struct unwind_fde *fde, const struct unwind_row *row, const uint8_t *hi,
		     struct unwind_full *full, unwind_load_fn load, void *ctx)
{
	struct machine m = { .full = full, .load = load, .ctx = ctx };
	struct unwind_full next = { .known = 0 };
	uint64_t cfa, at;

	if (fde->ra >= UNWIND_REGS)
		return WIRE_STOP_UNSUPPORTED;
	if (row->reg[fde->ra].how == UNWIND_UNDEFINED)
		return WIRE_STOP_END;
	if (row->cfa_expr) {
		if (!evaluate(&m, row->cfa_expr, hi, 0, 0, &cfa))
			return WIRE_STOP_UNSUPPORTED;
	} else {
		if (row->cfa_reg >= UNWIND_REGS || !(full->known >> row->cfa_reg & 1))
			return WIRE_STOP_UNSUPPORTED;
		cfa = full->reg[row->cfa_reg] + (uint64_t)row->cfa_off;
	}
	if (!fde->signal && cfa <= full->reg[UNWIND_REG_SP])
		return WIRE_STOP_NO_PROGRESS;

	for (unsigned i = 0; i < UNWIND_REGS; i++) {
		const struct unwind_reg_rule *r = &row->reg[i];
		int known = 1;
		uint64_t value = 0;

		switch (r->how) {
		case UNWIND_UNSPECIFIED:
		case UNWIND_SAME:
			value = full->reg[i];
			known = (full->known >> i & 1) &&
				((UNWIND_CALLEE_SAVED >> i & 1) || r->how == UNWIND_SAME);
			if (i == UNWIND_REG_SP) {
				value = cfa;
				known = 1;
			}
			break;
		case UNWIND_UNDEFINED:
			known = 0;
			break;
		case UNWIND_AT_CFA:
			if (load(ctx, cfa + (uint64_t)r->value, &value))
				return WIRE_STOP_READ;
			break;
		case UNWIND_VALUE_CFA:
			value = cfa + (uint64_t)r->value;
			break;
		case UNWIND_REGISTER:
			known = (uint64_t)r->value < UNWIND_REGS &&
				(full->known >> (r->value & 31) & 1);
			value = known ? full->reg[r->value] : 0;
			break;
		case UNWIND_AT_EXPR:
			known = evaluate(&m, (const uint8_t *)(uintptr_t)r->value, hi, 1, cfa, &at);
			if (known && load(ctx, at, &value))
				return WIRE_STOP_READ;
			break;
		default:
			known = evaluate(&m, (const uint8_t *)(uintptr_t)r->value, hi, 1, cfa,
					 &value);
		}
		next.reg[i] = known ? value : 0;
		next.known |= (uint32_t)known << i;
	}
	if (!(next.known >> fde->ra & 1) || !(next.known >> UNWIND_REG_SP & 1))
		return WIRE_STOP_UNSUPPORTED;
	next.reg[UNWIND_REG_RA] = next.reg[fde->ra] + fde->signal;
	next.known |= 1u << UNWIND_REG_RA;
	*full = next;
	return GO_ON;
}
