/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_stacks.c - stacks of the kernel's numbers become frames in files, while the code is still
 * mapped; names come later.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "source/pageown_impl.h"

#define PLACES_MAX 65536u
#define NO_DEVICE UINT64_MAX
#define IMAGES_MAX 4096u
#define FRAMES_FEW 32768u
#define GIVE_BACK_NS 250000000ull
#define LEAVING_MAX 32768u
#define GIVEN_MAX 32768u

/* Doubles what @all points to where @count has reached @cap. */
static int grow(void *all, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return 0;
	size_t more = *cap ? *cap * 2 : 64;
	void *grown = reallocarray(*(void **)all, more, size);
	if (!grown)
		return -ENOMEM;
	*(void **)all = grown;
	*cap = more;
	return 0;
}

/* ---- whose files ----------------------------------------------------------------------------- */

/*
 * Names come from the file system that the process sees; it stays open, so that they do when the
 * process is gone.
 */
static struct sym *sym_of(struct pageown *p, pid_t pid)
{
	char path[64];
	struct stat own, its;
	struct err ignored = { 0 };
	uint32_t from = (uint32_t)pid;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	if (stat("/", &own) < 0 || stat(path, &its) < 0 ||
	    (own.st_dev == its.st_dev && own.st_ino == its.st_ino)) {
		its = own;
		from = 0;
	}
	for (size_t i = 0; i < p->root_count; i++)
		if (p->roots[i].dev == its.st_dev && p->roots[i].ino == its.st_ino)
			return p->roots[i].sym;
	struct pageown_root *grown = reallocarray(p->roots, p->root_count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	p->roots = grown;
	const struct sym_opt opt = { .pid = from, .no_debuginfod = 1 };
	struct sym *sym = sym_new(&opt, &ignored);
	if (sym)
		grown[p->root_count++] = (struct pageown_root){ its.st_dev, its.st_ino, sym };
	return sym;
}

static int is_deleted(const char *path)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(path);
	return len >= sizeof(mark) && strcmp(path + len - (sizeof(mark) - 1), mark) == 0;
}

/* A file without a name is reached through the process that has it mapped; of no other. */
static struct sym *sym_of_deleted(struct pageown *p, pid_t pid)
{
	struct err ignored = { 0 };
	for (size_t i = 0; i < p->root_count; i++)
		if (p->roots[i].dev == NO_DEVICE && p->roots[i].ino == (uint64_t)pid)
			return p->roots[i].sym;
	struct pageown_root *grown = reallocarray(p->roots, p->root_count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	p->roots = grown;
	const struct sym_opt opt = { .pid = (uint32_t)pid, .no_debuginfod = 1 };
	struct sym *sym = sym_new(&opt, &ignored);
	if (sym)
		grown[p->root_count++] = (struct pageown_root){ NO_DEVICE, (uint64_t)pid, sym };
	return sym;
}

static const struct pageown_module *module_of(struct pageown *p, struct sym *sym, const char *path,
					      const uint8_t *build_id, uint8_t len)
{
	uint32_t hash = (uint32_t)(hash_bytes(path, strlen(path), hash_seed()) ^
				   hash_bytes(build_id, len, (uintptr_t)sym));
	if (idtab_reserve(&p->module_tab) < 0 ||
	    grow(&p->modules, p->module_count, &p->module_cap, sizeof(*p->modules)) < 0)
		return NULL;
	uint32_t at = idtab_first(&p->module_tab, hash);
	for (; p->module_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&p->module_tab, at)) {
		const struct pageown_module *known = p->modules[p->module_tab.slots[at].id];
		if (p->module_tab.slots[at].hash == hash && known->sym == sym &&
		    !strcmp(known->module.path, path) && known->module.build_id_len == len &&
		    !memcmp(known->module.build_id, build_id, len))
			return known;
	}
	struct pageown_module *module = calloc(1, sizeof(*module));
	const char *kept = intern_str(&p->strings, path), *base = strrchr(path, '/');
	if (!module || !kept || len > sizeof(module->module.build_id)) {
		free(module);
		return NULL;
	}
	module->sym = sym;
	module->module.path = path[0] == '/' || path[0] == '[' ? kept : "";
	module->module.name = !path[0] ? "[jit]" : base ? kept + (base + 1 - path) : kept;
	memcpy(module->module.build_id, build_id, len);
	module->module.build_id_len = len;
	p->modules[p->module_count] = module;
	idtab_put(&p->module_tab, at, hash, (uint32_t)p->module_count++);
	return module;
}

static struct pageown_image *find_image(const struct pageown *p, pid_t pid, uint32_t epoch)
{
	for (size_t i = p->image_count; i-- > 0;)
		if (p->images[i]->pid == pid && p->images[i]->epoch == epoch)
			return p->images[i];
	return NULL;
}

static struct pageown_image *make_image(struct pageown *p, pid_t pid, uint32_t epoch)
{
	if (grow(&p->images, p->image_count, &p->image_cap, sizeof(*p->images)) < 0)
		return NULL;
	if (p->image_count == IMAGES_MAX) { /* their stacks are named already */
		free(p->images[0]->places);
		free(p->images[0]);
		memmove(p->images, p->images + 1, (IMAGES_MAX - 1) * sizeof(*p->images));
		p->image_count--;
		p->places_changed++;
	}
	struct pageown_image *image = calloc(1, sizeof(*image));
	if (!image)
		return NULL;
	image->pid = pid;
	image->epoch = epoch;
	p->images[p->image_count++] = image;
	return image;
}

struct pageown_image *pageown_image(struct pageown *p, pid_t pid, uint32_t epoch)
{
	struct pageown_image *image = find_image(p, pid, epoch);
	if (!image && (image = make_image(p, pid, epoch)))
		image->sym = sym_of(p, pid);
	return image;
}

struct pageown_image *pageown_image_fork(struct pageown *p, pid_t pid,
					 const struct pageown_image *like)
{
	struct pageown_image *image = find_image(p, pid, 0);
	if (image || !(image = make_image(p, pid, 0)))
		return image;
	image->sym = like->sym;
	image->program = like->program;
	image->places = calloc(like->count + 1, sizeof(*image->places));
	if (image->places && like->count) {
		memcpy(image->places, like->places, like->count * sizeof(*like->places));
		image->count = image->cap = like->count;
	}
	return image;
}

struct learning {
	struct pageown *p;
	struct pageown_image *image;
	struct pageown_place *fresh;
	size_t count, cap;
};

static int learn_place(void *ctx, const struct bpftables_spot *spot, uint64_t lo, uint64_t hi)
{
	struct learning *l = ctx;
	static const uint8_t none[1];
	struct sym *sym = l->image->sym;
	size_t modules = l->p->module_count;
	int deleted = spot->path && is_deleted(spot->path);
	if (deleted)
		sym = sym_of_deleted(l->p, l->image->pid);
	const struct pageown_module *module =
		module_of(l->p, sym, spot->path ? spot->path : "",
			  spot->build_id_len ? spot->build_id : none, spot->build_id_len);
	if (module && deleted && sym && modules < l->p->module_count) {
		/* opened while the process lives: nothing leads there afterwards */
		const struct symbol *unused = NULL;
		sym_resolve(sym, spot->path, module->module.build_id, module->module.build_id_len,
			    0, &unused);
	}
	if (!module || grow(&l->fresh, l->count, &l->cap, sizeof(*l->fresh)) < 0)
		return -ENOMEM;
	const struct pageown_place place = { .lo = lo,
					     .hi = hi,
					     .bias = spot->path ? spot->offset : UINT64_MAX,
					     .file_offset = spot->file_offset,
					     .module = module };
	for (size_t i = 0; i < l->image->count; i++)
		if (!memcmp(&l->image->places[i], &place, sizeof(place)))
			return 0;
	l->fresh[l->count++] = place;
	return 0;
}

void pageown_image_learn(struct pageown *p, struct pageown_image *image)
{
	struct learning l = { .p = p, .image = image };
	if (bpftables_each(p->tables, (uint32_t)image->pid, learn_place, &l) == 0 && l.count &&
	    l.count + image->count <= PLACES_MAX &&
	    (l.fresh = reallocarray(l.fresh, l.count + image->count, sizeof(*l.fresh)))) {
		if (image->count) /* none: there is no array */
			memcpy(l.fresh + l.count, image->places,
			       image->count * sizeof(*image->places));
		free(image->places);
		image->places = STEAL(l.fresh);
		image->count += l.count;
		p->places_changed++;
	}
	free(l.fresh);
	if (image->program)
		return;
	char exe[4096], link[64];
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)image->pid);
	ssize_t n = readlink(link, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	for (size_t i = 0; n > 0 && i < image->count; i++)
		if (!strcmp(image->places[i].module->module.path, exe))
			image->program = image->places[i].module;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static const struct symbol nothing[1];

static uint32_t frame_hash(const struct page_module *module, uint64_t offset)
{
	return (uint32_t)hash_u64((uintptr_t)module, offset, hash_seed());
}

static const struct page_frame *frame_of(struct pageown *p, const struct page_module *module,
					 uint64_t offset, uint64_t file_offset)
{
	uint32_t hash = frame_hash(module, offset);
	if (idtab_reserve(&p->frame_tab) < 0 ||
	    grow(&p->frames, p->frame_count, &p->frame_cap, sizeof(*p->frames)) < 0)
		return NULL;
	uint32_t at = idtab_first(&p->frame_tab, hash);
	for (; p->frame_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&p->frame_tab, at)) {
		const struct page_frame *known = p->frames[p->frame_tab.slots[at].id];
		if (p->frame_tab.slots[at].hash == hash && known->module == module &&
		    known->offset == offset && known->file_offset == file_offset)
			return known;
	}
	struct page_frame *frame = calloc(1, sizeof(*frame));
	if (!frame)
		return NULL;
	frame->module = module;
	frame->offset = offset;
	frame->file_offset = file_offset;
	if (module->path[0]) {
		frame->number = p->frame_numbers++;
	} else { /* no name to be asked for */
		atomic_init(&frame->symbols, nothing);
		atomic_init(&frame->symbol_count, 1);
	}
	p->frames[p->frame_count] = frame;
	idtab_put(&p->frame_tab, at, hash, (uint32_t)p->frame_count++);
	return frame;
}

static const struct page_frame *look_up(struct pageown *p, const struct pageown_image *image,
					uint64_t addr, int exact)
{
	uint64_t pc = addr - 1;
	for (size_t i = 0; image && i < image->count; i++) {
		const struct pageown_place *place = &image->places[i];
		if (pc < place->lo || pc >= place->hi)
			continue;
		if (place->bias == UINT64_MAX)
			break;
		return frame_of(p, &place->module->module, pc - place->bias,
				(exact ? pc : addr) - place->lo + place->file_offset);
	}
	static const uint8_t none[1];
	const struct pageown_module *nowhere = module_of(p, image ? image->sym : NULL, "", none, 0);
	return nowhere ? frame_of(p, &nowhere->module, pc, exact ? pc : addr) : NULL;
}

/* The frame at @addr, which is an "address after"; @exact: one more than the exact one. */
static const struct page_frame *locate(struct pageown *p, const struct pageown_image *image,
				       uint64_t addr, int exact)
{
	uint64_t key = addr | (uint64_t) !!exact << 63;
	struct pageown_known *known =
		&p->known[hash_u64(addr, (uintptr_t)image, 7) % PAGEOWN_KNOWN];
	if (known->addr != key || known->image != image || known->changed != p->places_changed ||
	    !known->frame)
		*known = (struct pageown_known){ key, p->places_changed, image,
						 look_up(p, image, addr, exact) };
	return known->frame;
}

static struct page_stack *make_stack(struct pageown *p, const struct wire_pages_stack_head *head)
{
	uint64_t at = head->at;
	uint16_t count = head->count <= WIRE_STACK_FRAMES_MAX ? head->count : WIRE_STACK_FRAMES_MAX;
	if (at + count > p->pool_words)
		return NULL;
	struct page_stack *stack = calloc(1, sizeof(*stack) + count * sizeof(stack->frames[0]));
	if (!stack)
		return NULL;
	const struct pageown_image *image = pageown_image(p, (pid_t)head->tgid, head->epoch);
	atomic_init(&stack->refs, 1);
	stack->pid = (pid_t)head->tgid;
	stack->epoch = head->epoch;
	stack->first_ns = head->first_ns;
	stack->stop = head->stop;
	stack->known_at = p->places_changed;
	stack->program = image && image->program ? &image->program->module : NULL;
	for (uint16_t i = 0; i < count; i++) {
		const struct page_frame *frame = locate(p, image, p->pool[at + i],
							i == 0 && (head->flags & WIRE_PAGES_EXACT));
		/*
		 * the kernel's walk takes any word for a frame pointer: what leads to no file's
		 * code was none
		 */
		if (!frame || (i && head->flags & WIRE_PAGES_UNTABLED && !frame->module->path[0]))
			break;
		stack->frames[stack->count++] = frame;
	}
	for (uint16_t i = 0; i < stack->count; i++)
		atomic_fetch_add(&((struct page_frame *)stack->frames[i])->held, 1);
	stack->counts = 1;
	stack->number = p->stack_numbers++;
	return stack;
}

/*
 * Code of no file lies elsewhere with each exec: frames in it that no stack holds any more are
 * forgotten. Nobody else keeps them: they have no name that would be asked for later.
 */
void pageown_sweep_frames(struct pageown *p)
{
	if (p->frame_count < p->frames_sweep_at || p->frame_count < FRAMES_FEW)
		return;
	size_t kept = 0;
	struct idtab tab = { 0 };
	memset(p->known, 0, sizeof(p->known));
	for (size_t i = 0; i < p->frame_count; i++) {
		struct page_frame *frame = p->frames[i];
		if (!frame->module->path[0] && !atomic_load(&frame->held)) {
			free(frame);
			continue;
		}
		p->frames[kept] = frame;
		/* one that finds no room is made a second time when it comes again */
		if (idtab_reserve(&tab) == 0) {
			uint32_t hash = frame_hash(frame->module, frame->offset);
			uint32_t at = idtab_first(&tab, hash);
			while (tab.slots[at].id != IDTAB_NONE)
				at = idtab_next(&tab, at);
			idtab_put(&tab, at, hash, (uint32_t)kept);
		}
		kept++;
	}
	idtab_fini(&p->frame_tab);
	p->frame_tab = tab;
	p->frame_count = kept;
	p->frames_sweep_at = 2 * kept;
}

/* Of a process, or an image of it, that was not told yet: its code is looked at when it is. */
static int is_early(const struct pageown *p, const struct wire_pages_stack_head *head)
{
	const struct followed *f = pageown_find(p, (pid_t)head->tgid);
	if (f)
		return head->epoch > f->epoch;
	for (size_t i = p->image_count; i-- > 0;)
		if (p->images[i]->pid == (pid_t)head->tgid && p->images[i]->epoch == head->epoch)
			return 0;
	return 1;
}

/* Numbers that were given back and have been taken again. */
static void take_again(struct pageown *p)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->given_count; i++) {
		struct given given = p->given[i];
		const struct wire_pages_stack_head *head = &p->heads[given.id];
		uint64_t first_ns = __atomic_load_n(&head->first_ns, __ATOMIC_ACQUIRE);
		if (!first_ns || first_ns == given.ns || is_early(p, head)) {
			p->given[kept++] = given;
			continue;
		}
		p->stacks[given.id] = make_stack(p, head);
		p->state[given.id] = STACK_USED;
		p->took++;
	}
	p->given_count = kept;
}

/* Whether the process whose stack that is, or one that was forked from it, is there. */
static int is_needed(const struct pageown *p, uint32_t tgid)
{
	for (size_t i = 0; i < p->followed_count; i++) {
		const struct followed *f = &p->followed[i];
		if (f->ended)
			continue;
		if (f->pid == (pid_t)tgid)
			return 1;
		for (size_t k = 0; k < f->ancestor_count; k++)
			if (f->ancestors[k] == (pid_t)tgid)
				return 1;
	}
	return 0;
}

static int has_pages(const struct pageown *p, uint32_t id)
{
	const struct wire_pages_live *live = &p->live[id];
	return live->anon || live->cache || live->kernel;
}

/*
 * Stacks of processes that have ended, and of which no page is left, make room for others. First
 * their hash is forgotten, so that no program finds the number any more; those that did a moment
 * before have a quarter of a second to be done with it.
 */
void pageown_give_back(struct pageown *p)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint32_t next = p->stacks_seen;
	if (now - p->gave_back_ns < GIVE_BACK_NS || !p->state ||
	    (next < p->stacks_max / 2 && pageown_pool_used(p) < p->pool_words / 2))
		return;
	p->gave_back_ns = now;
	size_t kept = 0;
	for (size_t i = 0; i < p->leaving_count; i++) {
		uint32_t id = p->leaving[i];
		const struct wire_pages_stack_head *head = &p->heads[id];
		p->took++; /* in a moment more of them can be */
		if (has_pages(p, id) || pageown_put_ring(p, head->count, id) < 0) {
			p->leaving[kept++] = id;
			continue;
		}
		page_stack_put(p->stacks[id]);
		p->stacks[id] = NULL;
		p->state[id] = STACK_GIVEN;
		p->given[p->given_count++] = (struct given){ id, head->first_ns };
	}
	p->leaving_count = kept;
	uint32_t last = 0;
	int needed = 1;
	for (uint32_t id = WIRE_PAGES_FIRST;
	     id < next && p->leaving_count < LEAVING_MAX && p->given_count < GIVEN_MAX; id++) {
		if (p->state[id] != STACK_USED || has_pages(p, id))
			continue;
		if (p->heads[id].tgid != last || id == WIRE_PAGES_FIRST)
			needed = is_needed(p, p->heads[id].tgid);
		last = p->heads[id].tgid;
		if (needed)
			continue;
		pageown_forget_hash(p, p->heads[id].hash);
		p->state[id] = STACK_LEAVING;
		p->leaving[p->leaving_count++] = id;
	}
}

void pageown_take_stacks(struct pageown *p, int all)
{
	uint32_t next = pageown_next(p);
	if (!p->state)
		p->state = calloc(p->stacks_max, sizeof(*p->state));
	if (!p->leaving)
		p->leaving = calloc(LEAVING_MAX, sizeof(*p->leaving));
	if (!p->given)
		p->given = calloc(GIVEN_MAX + LEAVING_MAX, sizeof(*p->given));
	if (!p->state || !p->leaving || !p->given)
		return;
	if (!p->stacks && !(p->stacks = calloc(p->stacks_max, sizeof(struct page_stack *))))
		return;
	if (p->stacks_seen < WIRE_PAGES_FIRST)
		p->stacks_seen = WIRE_PAGES_FIRST;
	for (int asked = 0; p->stacks_seen < next;) {
		const struct wire_pages_stack_head *head = &p->heads[p->stacks_seen];
		/* being written at this moment: next time */
		if (!__atomic_load_n(&head->first_ns, __ATOMIC_ACQUIRE))
			break;
		if (is_early(p, head)) {
			if (!all)
				break;
			/* what tells of it was in the ring before it: look again, once */
			if (!asked++ && !p->consuming) {
				pageown_consume(p);
				continue;
			}
		}
		p->stacks[p->stacks_seen] = make_stack(p, head);
		p->stacks_seen++;
		p->took++;
	}
	if (p->given_count)
		take_again(p);
}

/* Some of it is in no file that is known, or was left out for that. */
static int lacks_files(const struct pageown *p, const struct page_stack *stack, uint32_t id)
{
	for (uint16_t i = 0; i < stack->count; i++)
		if (!stack->frames[i]->module->path[0])
			return 1;
	return stack->count < p->heads[id].count;
}

/*
 * A library's code runs some milliseconds before anybody has told of its mapping: what was taken
 * for code made at run time is looked up again where more is known since.
 */
static void look_again(struct pageown *p, uint32_t id)
{
	struct page_stack *old = p->stacks[id];
	if (!old || old->known_at == p->places_changed || p->state[id] != STACK_USED ||
	    !lacks_files(p, old, id) || !find_image(p, old->pid, old->epoch))
		return;
	struct page_stack *stack = make_stack(p, &p->heads[id]);
	if (!stack)
		return;
	p->stack_numbers--;
	stack->number = old->number;
	page_stack_put(old);
	p->stacks[id] = stack;
}

const struct page_stack *pageown_stack(struct pageown *p, uint32_t id)
{
	if (id >= p->stacks_seen || (id < p->stacks_max && p->state && p->state[id] == STACK_GIVEN))
		pageown_take_stacks(p, 1);
	if (!p->stacks || id < WIRE_PAGES_FIRST || id >= p->stacks_seen)
		return NULL;
	look_again(p, id);
	return p->stacks[id];
}

/* ---- names ----------------------------------------------------------------------------------- */

static void resolve(struct page_frame *frame)
{
	const struct pageown_module *module = (const struct pageown_module *)frame->module;
	const struct symbol *symbols = NULL;
	if (atomic_load_explicit(&frame->symbols, memory_order_relaxed))
		return;
	uint32_t count = 0;
	if (module->sym && module->module.path[0] == '/')
		count = sym_resolve(module->sym, module->module.path, module->module.build_id,
				    module->module.build_id_len, frame->offset, &symbols);
	/* asked, and nothing known, is one symbol without a name */
	atomic_store_explicit(&frame->symbol_count, count ? count : 1, memory_order_relaxed);
	atomic_store_explicit(&frame->symbols, count ? symbols : nothing, memory_order_release);
}

static int by_module(const void *a, const void *b)
{
	const struct page_frame *x = *(const struct page_frame *const *)a,
				*y = *(const struct page_frame *const *)b;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Who reads files is another process: a file's frames are asked for in one question. */
static void prepare(const struct page_frame *const *frames, size_t count)
{
	const struct pageown_module *module = (const struct pageown_module *)frames[0]->module;
	uint64_t *offsets = calloc(count, sizeof(*offsets));
	size_t n = 0;
	for (size_t i = 0; offsets && i < count; i++)
		if (!n || offsets[n - 1] != frames[i]->offset)
			offsets[n++] = frames[i]->offset;
	if (n && module->sym && module->module.path[0] == '/')
		sym_prepare(module->sym, module->module.path, module->module.build_id,
			    module->module.build_id_len, offsets, n);
	free(offsets);
}

/* Frames without a name, each once as far as @seen reaches: a bit a number. */
struct unnamed {
	const struct page_frame **frames;
	size_t count, cap;
	uint8_t *seen;
	size_t seen_bytes;
};

static void want(struct unnamed *u, const struct page_frame *frame)
{
	size_t at = frame->number / 8;
	if (atomic_load_explicit(&frame->symbols, memory_order_relaxed))
		return;
	if (at >= u->seen_bytes) {
		size_t bytes = at * 2 + 4096;
		uint8_t *grown = realloc(u->seen, bytes);
		if (grown) {
			memset(grown + u->seen_bytes, 0, bytes - u->seen_bytes);
			u->seen = grown;
			u->seen_bytes = bytes;
		}
	}
	if (at < u->seen_bytes) {
		if (u->seen[at] >> (frame->number % 8) & 1)
			return;
		u->seen[at] |= (uint8_t)(1u << frame->number % 8);
	}
	/* without memory it is asked for alone */
	if (grow(&u->frames, u->count, &u->cap, sizeof(*u->frames)) < 0)
		resolve((struct page_frame *)frame);
	else
		u->frames[u->count++] = frame;
}

static void want_stack(struct unnamed *u, const struct page_stack *stack)
{
	for (uint16_t i = 0; stack && i < stack->count; i++)
		want(u, stack->frames[i]);
}

static void name_all(struct unnamed *u)
{
	if (u->count)
		qsort(u->frames, u->count, sizeof(*u->frames), by_module);
	for (size_t at = 0, end; at < u->count; at = end) {
		for (end = at + 1;
		     end < u->count && u->frames[end]->module == u->frames[at]->module;)
			end++;
		prepare(u->frames + at, end - at);
	}
	for (size_t i = 0; i < u->count; i++)
		resolve((struct page_frame *)u->frames[i]);
	free(u->frames);
	free(u->seen);
}

void pageown_name(struct pageown *p, const struct page_frame *const *frames, size_t count)
{
	struct unnamed u = { 0 };
	(void)p;
	for (size_t i = 0; i < count; i++)
		want(&u, frames[i]);
	name_all(&u);
}

void pageown_resolve(struct pageown *p, const struct page_shot *shot, int live)
{
	struct unnamed u = { 0 };
	(void)p;
	/* its group's rows are those of its processes */
	for (size_t i = 0; i < shot->count; i++) {
		const struct page_process *process = shot->processes[i];
		for (size_t k = 0; k < process->row_count; k++)
			want_stack(&u, process->rows[k].stack);
		for (size_t k = 0; live && k < process->live_count; k++)
			want_stack(&u, process->live[k].stack);
	}
	name_all(&u);
}

void pageown_resolve_all(struct pageown *p)
{
	struct unnamed u = { 0 };
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->frame_count; i++)
		want(&u, p->frames[i]);
	pthread_mutex_unlock(&p->lock);
	name_all(&u);
}

void pageown_stacks_fini(struct pageown *p)
{
	for (uint32_t i = 0; p->stacks && i < p->stacks_seen; i++)
		page_stack_put(p->stacks[i]);
	free(p->stacks);
	free(p->state);
	free(p->leaving);
	free(p->given);
	for (size_t i = 0; i < p->frame_count; i++)
		free(p->frames[i]);
	free(p->frames);
	idtab_fini(&p->frame_tab);
	for (size_t i = 0; i < p->module_count; i++)
		free(p->modules[i]);
	free(p->modules);
	idtab_fini(&p->module_tab);
	for (size_t i = 0; i < p->image_count; i++) {
		free(p->images[i]->places);
		free(p->images[i]);
	}
	free(p->images);
	for (size_t i = 0; i < p->root_count; i++)
		sym_free(p->roots[i].sym);
	free(p->roots);
	intern_fini(&p->strings);
}
