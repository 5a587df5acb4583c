/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - whether an object makes system calls by itself that may close pages of a stack: then no
 * hook sees it, and what the stepper found of a stack once does not hold.
 */
#include <fcntl.h>
#include <string.h>

#include "patch/patch.h"
#include "preload/patched.h"
#include "unwind/cfi.h"

/* larger objects are runtimes and compilers; what they do to their stacks goes through libc */
#define CODE_MOST (2u << 20)
#define FUNCTION_MOST 65536u

/*
 * mprotect, munmap, mremap, remap_file_pages, pkey_mprotect; a number that is not seen may be any.
 */
static int closes(long nr)
{
	return nr < 0 || nr == SYS_mprotect || nr == SYS_munmap || nr == SYS_mremap ||
	       nr == SYS_remap_file_pages || nr == SYS_pkey_mprotect;
}

/*
 * Whether the function at @from has its syscall instruction at @at, and one of those numbers for
 * it.
 */
static int function_closes(const uint8_t *from, const uint8_t *at)
{
	long nr = -1;
	while (from < at) {
		unsigned bytes = patch_length(from, (size_t)(at + 2 - from));
		if (!bytes)
			return 0;
		uint32_t value;
		if (from[0] == 0xb8 && bytes == 5) { /* mov $number, %eax */
			memcpy(&value, from + 1, 4);
			nr = (long)value;
		} else if (from[0] == 0x48 && from[1] == 0xc7 && from[2] == 0xc0) {
			memcpy(&value, from + 3, 4);
			nr = (long)value;
		} else if ((from[0] == 0x48 || from[0] == 0x4c) && from[1] == 0x89 &&
			   (from[2] & 0xc7) == 0xc0) {
			nr = -1; /* mov of another register to %rax */
		}
		from += bytes;
	}
	return from == at && closes(nr);
}

static int closes_at(const uint8_t *at, const struct unwind_module *m)
{
	const struct unwind_image image = { (const uint8_t *)(uintptr_t)m->readable_lo,
					    (const uint8_t *)(uintptr_t)m->readable_hi,
					    m->eh_frame_hdr, NULL };
	struct unwind_fde fde;
	if (at[0] != 0x0f || at[1] != 0x05) /* another file stands there by now */
		return 0;
	if (!m->eh_frame_hdr || !unwind_cfi_find(&image, (uint64_t)(uintptr_t)at, &fde))
		return 1; /* hand-written */
	if ((uint64_t)(uintptr_t)at - fde.lo > FUNCTION_MOST)
		return 0;
	return function_closes((const uint8_t *)(uintptr_t)fde.lo, at);
}

int calls_closing(const char *path, const struct frames_object *o, const struct unwind_module *m)
{
	/*
	 * from the file, whose pages need not be the program's for that; the caller's lock guards
	 * it
	 */
	static uint8_t piece[65536];
	int found = 0;
	long fd = -1;
	for (unsigned i = 0; i < o->phdr_count && !found; i++) {
		const ElfW(Phdr) *ph = &o->phdr[i];
		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X) || ph->p_filesz > CODE_MOST)
			continue;
		if (fd < 0)
			fd = sys4(SYS_openat, AT_FDCWD, path,
				  O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
		if (sys_failed(fd))
			return 0;
		for (uint64_t done = 0; done + 1 < ph->p_filesz && !found;) {
			uint64_t want = ph->p_filesz - done;
			long n = sys4(SYS_pread64, fd, piece,
				      want < sizeof(piece) ? want : sizeof(piece),
				      ph->p_offset + done);
			if (sys_failed(n) || n < 2)
				break;
			for (const uint8_t *at = piece;
			     !found && (at = memmem(at, (size_t)(piece + n - at), "\x0f\x05", 2));
			     at++)
				found = closes_at(
					(const uint8_t *)(uintptr_t)(o->bias + ph->p_vaddr + done) +
						(at - piece),
					m);
			done += (uint64_t)n - 1;
		}
	}
	if (fd >= 0)
		sys1(SYS_close, fd);
	return found;
}
