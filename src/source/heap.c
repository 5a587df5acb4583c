/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap.c - the life of the shared file: make or adopt it, drain it, account for what is missing,
 * let go.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/huge.h"
#include "source/heap_internal.h"
#include "wire/heap_layout.h"
#include "wire/heap_start.h"

#define PAGE 4096u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define LAYOUT_BYTES_MAX (16ULL << 30)
#define SLOTS_MAX 65536u

/* ---- checking a layout that somebody else made ----------------------------------------------- */

static bool within(uint64_t off, uint64_t count, uint64_t size, uint64_t total)
{
	uint64_t bytes, end;
	return off % 8 == 0 && !__builtin_mul_overflow(count, size, &bytes) &&
	       !__builtin_add_overflow(off, bytes, &end) && end <= total;
}

/*
 * Whether all places lie within the file, and the tables in its first @table_bytes, which are in
 * memory.
 */
static const char *layout_trouble(const struct wire_heap_header *h, uint64_t file_bytes,
				  uint64_t table_bytes)
{
	if (h->magic != WIRE_HEAP_MAGIC)
		return "it does not begin with the right magic";
	if (h->version != WIRE_HEAP_VERSION || h->header_bytes != sizeof(*h))
		return "it was made by another version";
	if (h->total_bytes > file_bytes || h->total_bytes > LAYOUT_BYTES_MAX)
		return "its size does not fit its layout";
	if (h->slot_count == 0 || h->slot_count > SLOTS_MAX ||
	    !within(h->slots_off, h->slot_count, sizeof(struct wire_heap_slot), table_bytes) ||
	    h->slots_off < sizeof(*h))
		return "its slot table lies outside";
	if (h->module_max > 1u << 20 ||
	    !within(h->modules_off, h->module_max, sizeof(struct wire_module), table_bytes))
		return "its module table lies outside";
	if (!within(h->strings_off, h->string_bytes, 1, table_bytes))
		return "its strings lie outside";
	if (h->node_max < WIRE_STOP_MAX || h->node_max > WIRE_NODE_MAX ||
	    !within(h->nodes_off, h->node_max, sizeof(struct wire_node), table_bytes) ||
	    !within(h->index_off, h->index_entries, sizeof(uint32_t), table_bytes))
		return "its node table lies outside";
	if (h->sample_bytes > WIRE_SAMPLE_MAX)
		return "so few stacks are no sample";
	return NULL;
}

static int init_rings(struct source_heap *heap, struct err *err)
{
	const struct wire_heap_header *h = &heap->tables.layout;
	struct wire_heap_slot *slots = (struct wire_heap_slot *)(heap->tables.base + h->slots_off);
	heap->merge.raw = heap->tables.raw;
	heap->merge.books = &heap->books;
	heap->merge.free_by_realloc = heap_free_by_realloc;
	heap->merge.ctx = heap;
	if (heap_merge_init(&heap->merge, h->slot_count, err) < 0)
		return err->code;
	heap->batch = malloc(HEAP_BATCH * sizeof(*heap->batch));
	if (!heap->batch)
		return err_set(err, -ENOMEM, "cannot allocate the recorder's tables");
	for (uint32_t i = 0; i < h->slot_count; i++) {
		struct heap_ring *ring = &heap->merge.rings[i];
		uint32_t bytes = slots[i].ring_bytes;
		uint64_t off = slots[i].ring_off;
		if (bytes < PAGE || (bytes & (bytes - 1)) != 0 || off % PAGE != 0 ||
		    !within(off, bytes, 1, h->total_bytes))
			return err_set(err, -EBADMSG,
				       "cannot use the shared file: ring %u lies outside", i);
		ring->slot = &slots[i];
		ring->mask = bytes - 1;
		ring->base = heap->tables.raw ? NULL : heap->tables.base + off;
		ring->raw_off = off;
		ring->thread = HEAP_NO_THREAD;
	}
	return 0;
}

static int init_common(struct source_heap *heap, struct err *err)
{
	uint64_t seed;
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = heap_cycles() * 0x9e3779b97f4a7c15ULL;
	int rc = heap_books_init(&heap->books, seed, err);
	if (rc == 0)
		rc = init_rings(heap, err);
	if (rc == 0)
		rc = heap_names_init(&heap->names, &heap->tables, &heap->out, err);
	heap_clock_init(&heap->clock, heap->tables.layout.start_cycles,
			heap->tables.layout.start_ns);
	heap->told_mask = UINT64_MAX;
	if (!heap->tables.raw && !heap->tables.layout.stamp_every_event) {
		heap->told_mask = ~(uint64_t)(HEAP_TOLD_STEP_NS - 1);
		heap->told_keep_ns = HEAP_TOLD_NS;
	}
	return rc;
}

static int map_shared(struct source_heap *heap, uint64_t bytes, struct err *err)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, heap->fd, 0);
	if (base == MAP_FAILED)
		return err_set(err, -errno, "cannot map the shared file");
	heap->tables.base = base;
	heap->tables.base_bytes = bytes;
	heap->tables.header = base;
	return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

#define SPACE_SHARE 8

static int create(struct source_heap *heap, const struct source_heap_opt *opt, struct err *err)
{
	struct wire_heap_header h = { 0 };
	struct rlimit limit;
	wire_heap_layout(&h, opt->budget_bytes ? opt->budget_bytes : WIRE_HEAP_BUDGET_DEFAULT);
	/* the program inherits the limit, and is to have most of it, as preload/helper.c has it */
	if (getrlimit(RLIMIT_AS, &limit) == 0 && h.total_bytes > limit.rlim_cur / SPACE_SHARE)
		wire_heap_layout(&h, WIRE_HEAP_BUDGET_TIGHT);
	if (getrlimit(RLIMIT_AS, &limit) == 0 && h.total_bytes > limit.rlim_cur / SPACE_SHARE) {
		err_set(err, -ENOMEM, "cannot record within an address space of %" PRIu64 " bytes",
			(uint64_t)limit.rlim_cur);
		return err_hint(err, "raise the limit: ulimit -v unlimited");
	}
	h.on_full = (uint32_t)opt->on_full;
	h.free_stacks = opt->free_stacks != 0;
	h.stamp_every_event = opt->stamp_every_event != 0;
	h.sample_bytes = opt->sample_bytes;
	h.name_threads = opt->name_threads != 0;
	h.served_port = opt->served_port;
	h.enabled_wanted = 1;
	/* beyond it the kernel kills, for a memfd too */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && h.total_bytes > limit.rlim_cur) {
		err_set(err, -EFBIG,
			"cannot create the shared file: its %" PRIu64
			" bytes exceed the file size limit of %" PRIu64,
			h.total_bytes, (uint64_t)limit.rlim_cur);
		return err_hint(err, "raise the limit: ulimit -f unlimited");
	}
	heap->fd = memfd_create(WIRE_MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (heap->fd < 0)
		return err_set(err, -errno, "cannot create the shared file");
	if (ftruncate(heap->fd, (off_t)h.total_bytes) < 0 ||
	    fcntl(heap->fd, F_ADD_SEALS, SEALS) < 0)
		return err_set(err, -errno, "cannot size the shared file");
	int rc = map_shared(heap, h.total_bytes, err);
	if (rc < 0)
		return rc;
	h.start_cycles = heap_cycles();
	h.start_ns = clock_ns(CLOCK_MONOTONIC);
	h.heartbeat_ns = h.start_ns;
	h.recorder_pid = (uint32_t)getpid();
	*heap->tables.header = h;
	wire_heap_layout_slots(heap->tables.base);
	heap->tables.layout = h;
	return init_common(heap, err);
}

struct source_heap *source_heap_new(const struct source_heap_opt *opt, struct err *err)
{
	CLEANUP(source_heap_freep) struct source_heap *heap = calloc(1, sizeof(*heap));
	if (!heap) {
		err_set(err, -ENOMEM, "cannot allocate a heap source");
		return NULL;
	}
	heap->fd = -1;
	if (create(heap, opt, err) < 0)
		return NULL;
	return STEAL(heap);
}

static int adopt(struct source_heap *heap, struct err *err)
{
	struct stat st;
	int seals = fcntl(heap->fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return err_set(err, -EBADMSG, "cannot use descriptor %d: not a sealed shared file",
			       heap->fd);
	if (fstat(heap->fd, &st) < 0)
		return err_set(err, -errno, "cannot look at the shared file");
	if (st.st_size < (off_t)sizeof(heap->tables.layout))
		return err_set(err, -EBADMSG, "cannot use the shared file: too short");
	int rc = map_shared(heap, (uint64_t)st.st_size, err);
	if (rc < 0)
		return rc;
	heap->tables.layout =
		*heap->tables
			 .header; /* one copy; whatever the target does to its own is its affair */
	const char *trouble =
		layout_trouble(&heap->tables.layout, (uint64_t)st.st_size, (uint64_t)st.st_size);
	if (trouble)
		return err_set(err, -EBADMSG, "cannot use the shared file: %s", trouble);
	rc = init_common(heap, err);
	if (rc < 0)
		return rc;
	source_heap_beat(heap);
	__atomic_store_n(&heap->tables.header->recorder_pid, (uint32_t)getpid(), __ATOMIC_RELEASE);
	return 0;
}

struct source_heap *source_heap_adopt(int fd, struct err *err)
{
	CLEANUP(source_heap_freep) struct source_heap *heap = calloc(1, sizeof(*heap));
	if (!heap) {
		close(fd);
		err_set(err, -ENOMEM, "cannot allocate a heap source");
		return NULL;
	}
	heap->fd = fd;
	if (adopt(heap, err) < 0)
		return NULL;
	return STEAL(heap);
}

int heap_raw_init(struct source_heap *heap, uint64_t file_bytes, struct err *err)
{
	const char *trouble =
		layout_trouble(&heap->tables.layout, file_bytes, heap->tables.base_bytes);
	if (trouble)
		return err_set(err, -EBADMSG, "%s", trouble);
	return init_common(heap, err);
}

void source_heap_free(struct source_heap *heap)
{
	if (!heap)
		return;
	if (heap->tables.raw) {
		for (uint32_t i = 0; heap->merge.rings && i < heap->tables.layout.slot_count; i++)
			free((char *)heap->merge.rings[i].base);
		free(heap->tables.base);
	} else if (heap->tables.base) {
		munmap(heap->tables.base, heap->tables.base_bytes);
	}
	if (heap->fd >= 0)
		close(heap->fd);
	heap_names_fini(&heap->names);
	huge_free(heap->names.copies, (size_t)heap->names.copy_cap * sizeof(*heap->names.copies));
	heap_fork_fini(heap);
	heap_books_fini(&heap->books);
	heap_merge_fini(&heap->merge);
	free(heap->batch);
	free(heap);
}

void source_heap_freep(struct source_heap **heap)
{
	source_heap_free(*heap);
	*heap = NULL;
}

/* ---- small questions ------------------------------------------------------------------------- */

int source_heap_fd(const struct source_heap *heap)
{
	return heap->fd;
}

/* How large it was as it ended; all 0: not known. */
static struct proc_resident end_of(const struct wire_heap_header *h)
{
	const struct proc_resident end = {
		.memory.rss_bytes = __atomic_load_n(&h->end_rss_bytes, __ATOMIC_RELAXED),
		.memory.virtual_bytes = __atomic_load_n(&h->end_virtual_bytes, __ATOMIC_RELAXED),
		.anon_bytes = __atomic_load_n(&h->end_anon_bytes, __ATOMIC_RELAXED),
		.file_bytes = __atomic_load_n(&h->end_file_bytes, __ATOMIC_RELAXED),
		.shmem_bytes = __atomic_load_n(&h->end_shmem_bytes, __ATOMIC_RELAXED),
		.swap_bytes = __atomic_load_n(&h->end_swap_bytes, __ATOMIC_RELAXED),
	};
	return end;
}

void source_heap_state(const struct source_heap *heap, struct source_heap_state *state)
{
	const struct wire_heap_header *h = heap->tables.header;
	uint32_t exec_called = __atomic_load_n(&h->exec_called, __ATOMIC_ACQUIRE);
	*state = (struct source_heap_state){
		.target_pid = __atomic_load_n(&h->target_pid, __ATOMIC_RELAXED),
		.parent_pid = __atomic_load_n(&h->parent_pid, __ATOMIC_RELAXED),
		.attached = __atomic_load_n(&h->attached, __ATOMIC_ACQUIRE) != 0,
		.exiting = __atomic_load_n(&h->exiting, __ATOMIC_ACQUIRE) != 0,
		.exec_called = exec_called != 0,
		.exec_entered = exec_called == WIRE_EXEC_ENTERED,
		.peak_rss_bytes = __atomic_load_n(&h->peak_rss_bytes, __ATOMIC_RELAXED),
		.end = end_of(h),
		.modules_nameless = __atomic_load_n(&h->modules_nameless, __ATOMIC_RELAXED),
		.stamp_every_event = h->stamp_every_event != 0,
		.start_realtime_ns = h->start_realtime_ns,
		.sample_bytes = heap->tables.layout.sample_bytes,
	};
	for (unsigned i = 0; i < ARRAY_LEN(h->own_ranges); i++) {
		uint64_t lo = h->own_ranges[i][0], hi = h->own_ranges[i][1];
		if (hi > lo)
			state->own_bytes += hi - lo;
	}
	state->unrecorded_children = __atomic_load_n(&h->unrecorded_children, __ATOMIC_RELAXED);
	_Static_assert(sizeof(state->own_allocators) == sizeof(h->own_allocators), "copied");
	memcpy(state->own_allocators, h->own_allocators, sizeof(state->own_allocators) - 1);
	for (char *c = state->own_allocators; *c; c++) /* the program can write there */
		*c = *c >= ' ' && *c <= '~' ? *c : '?';
}

int source_heap_exe(const struct source_heap *heap, char *path, size_t size)
{
	char copy[WIRE_EXE_BYTES];
	memcpy(copy, heap->tables.header->exe, sizeof(copy));
	size_t len = strnlen(copy, sizeof(copy));
	path[0] = '\0';
	if (len == 0 || len == sizeof(copy) || len >= size)
		return 0;
	memcpy(path, copy, len + 1);
	return 1;
}

char *source_heap_cmdline(const struct source_heap *heap, size_t *bytes)
{
	uint32_t off = heap->tables.header->cmdline_off, len = heap->tables.header->cmdline_bytes,
		 end;
	char *text = NULL;
	*bytes = 0;
	if (len && len <= WIRE_CMDLINE_BYTES && !__builtin_add_overflow(off, len, &end) &&
	    end <= heap->tables.layout.string_bytes && (text = malloc(len))) {
		memcpy(text, heap->tables.base + heap->tables.layout.strings_off + off, len);
		text[len - 1] = '\0';
		*bytes = len;
	}
	return text;
}

const char *source_heap_filter(const struct source_heap *heap)
{
	return heap->tables.layout.filter;
}

void source_heap_detach(struct source_heap *heap)
{
	if (heap->tables.raw)
		return;
	__atomic_store_n(&heap->tables.header->detach, 1, __ATOMIC_RELEASE);
	/* hooks look at it when the tick has changed, and there may be no further beat */
	__atomic_fetch_add(&heap->tables.header->tick, 1, __ATOMIC_RELEASE);
}

void source_heap_set_pid(struct source_heap *heap, pid_t pid)
{
	heap->names.pid = pid;
}

uint64_t source_heap_now_ns(const struct source_heap *heap)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	return now > heap->tables.layout.start_ns ? now - heap->tables.layout.start_ns : 0;
}

uint64_t source_heap_start_ns(const struct source_heap *heap)
{
	return heap->tables.layout.start_ns;
}

uint64_t source_heap_raw_length_ns(const struct source_heap *heap)
{
	const struct wire_heap_header *h = &heap->tables.layout;
	uint64_t to_exit = h->end_ns > h->start_ns ? h->end_ns - h->start_ns : 0;
	return heap->last_ns > to_exit ? heap->last_ns : to_exit;
}

uint64_t source_heap_raw_bound_ns(const struct source_heap *heap)
{
	return heap_clock_ns(&heap->clock,
			     heap->tables.layout.start_cycles + WIRE_RAW_STAMP_CYCLES);
}

void source_heap_stats(const struct source_heap *heap, struct source_heap_stats *stats)
{
	*stats = heap->stats;
	stats->stacks = heap->names.stack_count;
	stats->modules = heap->names.modules_told;
	stats->threads = heap->names.threads_told;
	stats->live_bytes = heap->books.live_bytes;
	stats->live_blocks = heap->books.live.count;
	for (uint32_t i = 0; i < heap->tables.layout.slot_count; i++) {
		const struct wire_heap_slot *slot = heap->merge.rings[i].slot;
		stats->producer_waits += __atomic_load_n(&slot->waits, __ATOMIC_RELAXED);
		stats->producer_wait_ns += __atomic_load_n(&slot->wait_ns, __ATOMIC_RELAXED);
	}
}

/* ---- handing over ---------------------------------------------------------------------------- */

void heap_settle(struct source_heap *heap, uint64_t until_ns)
{
	struct heap_ring *ring = heap->stretch;
	uint32_t from = heap->stretch_from;
	heap->stretch_from = heap->batched;
	/* files without a recorder have no ticks, and a stamp on each event is its time */
	if (!ring || heap->tables.raw || heap->tables.layout.stamp_every_event)
		return;
	/* the record behind a stamp was written with it */
	if (ring->exact && from < heap->batched) {
		ring->exact = false;
		from++;
	}
	if (until_ns > heap->limit_ns)
		until_ns = heap->limit_ns;
	uint64_t beat_ns = heap_beat_after(heap, ring->now_ns);
	if (until_ns > beat_ns)
		until_ns = beat_ns;
	if (from == heap->batched || until_ns <= heap->batch[from].time_ns + SOURCE_HEAP_BOUND_NS)
		return;
	uint64_t likely = ring->now_ns & heap->told_mask;
	if (until_ns > likely + SOURCE_HEAP_BOUND_NS) {
		/*
		 * a beat that came late says little: soon after the stamp is likelier than long
		 * after it
		 */
		uint64_t since_ns = likely, off = (until_ns - since_ns) / 2;
		if (off > SOURCE_HEAP_BEAT_NS / 2)
			off = SOURCE_HEAP_BEAT_NS / 2;
		likely = (since_ns + off + HEAP_TOLD_STEP_NS / 2) & heap->told_mask;
		uint64_t before = likely - since_ns, behind = until_ns - likely,
			 most = before > behind ? before : behind;
		if (most > heap->worst_ns)
			heap->worst_ns = most;
	}
	for (uint32_t i = from; i < heap->batched; i++)
		if (heap->batch[i].time_ns < likely)
			heap->batch[i].time_ns = likely;
	if (likely > heap->last_ns)
		heap->last_ns = likely;
	if (likely > heap->told_ns)
		heap->told_ns = likely;
}

int heap_flush(struct source_heap *heap)
{
	if (heap->stretch)
		heap_settle(heap, heap_next_stamp(heap, heap->stretch));
	uint32_t count = heap->batched;
	heap->batched = heap->stretch_from = 0;
	if (!count)
		return 0;
	heap->stats.events += count;
	int rc = heap->out.sink->put(heap->out.sink, heap->batch, count, heap->out.err);
	/* a long reading is not to leave the program without room for stacks */
	return rc < 0 ? rc : heap_take_nodes(&heap->names);
}

/* ---- losses ---------------------------------------------------------------------------------- */

static int report_counts(struct source_heap *heap, const struct heap_ring *ring,
			 const struct wire_lost_count *now, struct wire_lost_count *known)
{
	for (unsigned reason = 0; reason < WIRE_LOST_MAX; reason++) {
		struct wire_lost_count at = {
			.allocations = __atomic_load_n(&now[reason].allocations, __ATOMIC_RELAXED),
			.bytes = __atomic_load_n(&now[reason].bytes, __ATOMIC_RELAXED),
			.frees = __atomic_load_n(&now[reason].frees, __ATOMIC_RELAXED),
		};
		uint64_t allocations = at.allocations - known[reason].allocations;
		uint64_t bytes = at.bytes - known[reason].bytes;
		uint64_t frees = at.frees - known[reason].frees;
		if (!allocations && !bytes && !frees)
			continue;
		if (at.allocations < known[reason].allocations || at.bytes < known[reason].bytes ||
		    at.frees < known[reason].frees)
			continue; /* a counter that runs backwards tells nothing */
		known[reason] = at;
		if (reason != WIRE_LOST_EARLY &&
		    frees) { /* those can be of no block that is known */
			heap->books.lost_frees_left += frees;
			heap->books.risk_order = heap->books.live.order;
		}
		struct event *ev = heap_next_event(heap, ring);
		if (!ev)
			return heap->out.err && heap->out.err->code ? heap->out.err->code : -EIO;
		ev->kind = EVENT_LOST;
		ev->value = reason;
		ev->addr = allocations;
		ev->bytes = bytes;
		ev->block.v = frees < UINT32_MAX ? (uint32_t)frees : UINT32_MAX;
		heap->stats.lost_allocations += allocations;
		heap->stats.lost_bytes += bytes;
		heap->stats.lost_frees += frees;
	}
	return 0;
}

int heap_place_lost(struct source_heap *heap, struct heap_ring *ring)
{
	struct event *ev = heap_next_event(heap, ring);
	if (!ev)
		return heap->out.err && heap->out.err->code ? heap->out.err->code : -EIO;
	ev->kind = EVENT_LOST;
	ev->value = LOSS_RING_FULL;
	ev->block.v = 0;
	heap->books.risk_order = heap->books.live.order;
	return 0;
}

/*
 * Frees that a full ring refused and behind which nothing was written any more: they were lost up
 * to here.
 */
static int place_last(struct source_heap *heap)
{
	int open = 0;
	for (uint32_t i = 0; i < heap->tables.layout.slot_count; i++) {
		const struct heap_ring *ring = &heap->merge.rings[i];
		uint64_t frees =
			ring->lost[WIRE_LOST_RING_FULL].frees + ring->lost[WIRE_LOST_SECCOMP].frees;
		open |= frees != ring->placed_frees;
	}
	return open ? heap_place_lost(heap, NULL) : 0;
}

int heap_report_lost(struct source_heap *heap, struct heap_ring *ring)
{
	if (ring)
		return report_counts(heap, ring, ring->slot->lost, ring->lost);
	int closed = heap_report_closed(heap);
	if (closed < 0)
		return closed;
	for (uint32_t i = 0; i < heap->tables.layout.slot_count; i++) {
		int rc = report_counts(heap, NULL, heap->merge.rings[i].slot->lost,
				       heap->merge.rings[i].lost);
		if (rc < 0)
			return rc;
	}
	return report_counts(heap, NULL, heap->tables.header->lost, heap->lost);
}

/* ---- draining -------------------------------------------------------------------------------- */

ssize_t source_heap_drain(struct source_heap *heap, struct sink *sink, struct err *err)
{
	struct err local;
	heap->out.sink = sink;
	heap->out.err = err ? err : &local;
	err_init(heap->out.err);
	return heap_merge_rings(heap, false);
}

int source_heap_housekeep(struct source_heap *heap, struct sink *sink, int all, struct err *err)
{
	struct err local;
	heap->out.sink = sink;
	heap->out.err = err ? err : &local;
	err_init(heap->out.err);
	int rc = heap_report_lost(heap, NULL);
	if (rc == 0)
		rc = heap_rename_threads(&heap->names, source_heap_now_ns(heap), all != 0);
	return rc < 0 ? rc : heap_flush(heap);
}

int source_heap_rss(struct source_heap *heap, struct sink *sink,
		    const struct proc_resident *resident, struct err *err)
{
	heap->out.sink = sink;
	heap->out.err = err;
	/*
	 * not now: what was written since the rings were read last would come out later than it was
	 */
	if (heap->limit_ns > heap->last_ns)
		heap->last_ns = heap->limit_ns;
	struct event *ev = heap_next_event(heap, NULL);
	if (!ev)
		return err && err->code ? err->code : -EIO;
	ev->kind = EVENT_RSS;
	ev->bytes = resident->memory.rss_bytes;
	ev->addr = resident->memory.virtual_bytes;
	ev->value = resident->peak_bytes;
	if (resident->anon_bytes || resident->file_bytes) {
		ev = heap_next_event(heap, NULL);
		if (!ev)
			return err && err->code ? err->code : -EIO;
		ev->kind = EVENT_RESIDENT;
		ev->addr = resident->file_bytes;
		ev->bytes = resident->shmem_bytes;
		ev->value = resident->swap_bytes;
	}
	return heap_flush(heap);
}

int source_heap_put_mark(struct source_heap *heap, struct sink *sink, struct err *err)
{
	const struct wire_heap_header *header = heap->tables.header;
	uint64_t asked = __atomic_load_n(&header->steer_ns, __ATOMIC_RELAXED);
	uint64_t since = asked > header->start_ns ? asked - header->start_ns : 0;
	heap->out.sink = sink;
	heap->out.err = err;
	/* anybody can write there: never before what was told, nor in the future */
	if (since > heap->limit_ns)
		since = heap->limit_ns;
	if (since > heap->last_ns)
		heap->last_ns = since;
	struct event *ev = heap_next_event(heap, NULL);
	if (!ev)
		return err && err->code ? err->code : -EIO;
	ev->kind = EVENT_MARK;
	ev->value = __atomic_load_n(&header->steer_mark, __ATOMIC_RELAXED);
	return heap_flush(heap);
}

int source_heap_finish(struct source_heap *heap, struct sink *sink, int detach, struct err *err)
{
	struct err local;
	heap->out.sink = sink;
	heap->out.err = err ? err : &local;
	err_init(heap->out.err);
	if (detach && !heap->tables.raw) {
		/* hooks that are under way finish their record; later ones see the mark */
		const struct timespec grace = { .tv_nsec = 2000000 };
		source_heap_detach(heap);
		nanosleep(&grace, NULL);
	}
	ssize_t got = heap_merge_rings(heap, true);
	int rc = got < 0 ? (int)got : heap_report_lost(heap, NULL);
	/* some tell the names of their code when they end */
	if (rc == 0 && heap_name_rest(&heap->names) == HEAP_RUN_FAILED)
		rc = heap->out.err->code ? heap->out.err->code : -EIO;
	if (rc == 0)
		rc = place_last(heap);
	return rc < 0 ? rc : heap_flush(heap);
}

void source_heap_look_last(struct source_heap *heap)
{
	if (heap->tables.header)
		__atomic_store_n(&heap->tables.header->look_last, 1, __ATOMIC_RELEASE);
}

void source_heap_looked(struct source_heap *heap)
{
	if (heap->tables.header)
		__atomic_store_n(&heap->tables.header->looked_last, 1, __ATOMIC_RELEASE);
}
