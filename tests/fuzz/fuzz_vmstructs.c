/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile JVMs: the table of its fields, and the texts that it names them with. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_allocator.h"
#include "heaps/files.h"

#define JVM 0x7f0000100000ull
#define TABLE (JVM + 0x4000)
#define FAKE_META (JVM + 0x1000000)
#define SPACES (FAKE_HEAP + 0x30000)

static struct fake *own;

static void variables(const struct target *target, const char *path, const char *const names[],
		      size_t count, uint64_t at[])
{
	(void)target, (void)path, (void)names;
	for (size_t i = 0; i < count; i++)
		at[i] = 0x3000;
}

/* The library's file is its image; whoever asked closes it. */
static int open_file(const struct target *target, const char *path)
{
	(void)target, (void)path;
	int fd = memfd_create("library", MFD_CLOEXEC);
	if (fd >= 0 &&
	    write(fd, own->parts[0].data, own->parts[0].bytes) != (ssize_t)own->parts[0].bytes) {
		close(fd);
		return -EIO;
	}
	return fd;
}

static void field(struct fake *f, unsigned number, const char *type, const char *name,
		  uint64_t is_static, uint64_t place)
{
	uint64_t text = JVM + 0x100 + number * 128ull, entry = TABLE + number * 48ull;
	fake_put_bytes(f, text, type, strlen(type) + 1);
	fake_put_bytes(f, text + 64, name, strlen(name) + 1);
	fake_put(f, entry, text);
	fake_put(f, entry + 8, text + 64);
	fake_put(f, entry + 24, is_static);
	fake_put(f, entry + (is_static ? 40 : 32), place);
}

static void build(struct fake *f)
{
	fake_map(f, JVM, 0x8000, REGION_LIBRARY_DATA, "/jdk/libjvm.so");
	fake_map(f, FAKE_HEAP, 0x40000, REGION_ANONYMOUS, "");
	fake_put(f, JVM + 0x3000, TABLE);
	field(f, 0, "Universe", "_collectedHeap", 1, JVM + 0x3100);
	field(f, 1, "CollectedHeap", "_reserved", 0, 0x20);
	field(f, 2, "CodeCache", "_low_bound", 1, JVM + 0x3200);
	field(f, 3, "CodeCache", "_high_bound", 1, JVM + 0x3208);
	/* one loader with two classes, whose constants lie in the second mapping */
	field(f, 4, "ClassLoaderDataGraph", "_head", 1, JVM + 0x3400);
	field(f, 5, "ClassLoaderData", "_next", 0, 8);
	field(f, 6, "ClassLoaderData", "_klasses", 0, 16);
	field(f, 7, "Klass", "_next_link", 0, 8);
	field(f, 8, "InstanceKlass", "_constants", 0, 16);
	field(f, 9, "ConstantPool", "_pool_holder", 0, 24);
	fake_put(f, JVM + 0x3400, JVM + 0x3500);
	fake_put(f, JVM + 0x3510, JVM + 0x3600);
	fake_put(f, JVM + 0x3608, JVM + 0x3700);
	fake_put(f, JVM + 0x3610, FAKE_META);
	fake_put(f, JVM + 0x3710, FAKE_META + 0x800);
	fake_map(f, FAKE_META, 0x10000, REGION_ANONYMOUS, "");
	fake_put(f, FAKE_META + 24, JVM + 0x3600);
	fake_put(f, FAKE_META + 0x818, JVM + 0x3700);
	fake_touch(f, FAKE_META, 0x1000);
	fake_put(f, JVM + 0x3100, JVM + 0x3300);
	fake_put(f, JVM + 0x3320, FAKE_HEAP);
	fake_put(f, JVM + 0x3328, 0x20000 / 8);
	fake_put(f, JVM + 0x3200, FAKE_HEAP + 0x20000);
	fake_put(f, JVM + 0x3208, FAKE_HEAP + 0x40000);
	/* a static, its context, the list, the node: 64 MiB around the constants */
	fake_put(f, JVM + 0x3800, SPACES);
	fake_put(f, SPACES, JVM + 0x100);
	fake_put(f, SPACES + 8, SPACES + 0x100);
	fake_put(f, SPACES + 16, SPACES + 0x200);
	fake_put(f, SPACES + 0x200, SPACES + 0x100);
	fake_put(f, SPACES + 0x100, JVM + 0x100);
	fake_put(f, SPACES + 0x108, JVM + 0x100);
	fake_put(f, SPACES + 0x110, SPACES + 0x300);
	fake_put(f, SPACES + 0x308, FAKE_META & ~0x3fffffull);
	fake_put(f, SPACES + 0x310, 64ull << 20);
	fake_put(f, SPACES + 0x348, FAKE_META & ~0x3fffffull);
	fake_put(f, SPACES + 0x350, 8ull << 20);
	fake_touch(f, JVM, 0x8000);
	fake_touch(f, FAKE_HEAP, 0x40000);
}

static int read_all(struct breakdown *b, const struct memory *memory, struct err *err)
{
	static const struct heap_files files = { variables, open_file };
	struct hotspot_places places;
	own = memory->ctx;
	b->files = &files;
	(void)err;
	int rc = hotspot_places(b, memory, &places);
	return rc < 0 || hotspot_claim(b, &places) < 0 ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = { JVM + 0x100,  JVM + 0x3000, JVM + 0x3200,
					   JVM + 0x3300, JVM + 0x3500, FAKE_META,
					   TABLE,        SPACES,       JVM + 0x3800 };
	return fuzz_allocator(data, size, build, places, sizeof(places) / sizeof(places[0]),
			      read_all);
}
