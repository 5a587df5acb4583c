/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions found without the loader, against what the loader itself says. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

#include "preload/libc.h"
#include "preload_script.h"

#define COPIES 100

/* The real one of modules.c: whether a page can be read. */
static int readable_page(uint64_t addr)
{
	return sys4(SYS_rt_sigprocmask, -1L, addr, NULL, 8) != -EFAULT;
}

/* Copies have paths of their own: the loader takes each for another object. */
static void *load_copy(const char *folder, int number)
{
	char path[512], line[1200];
	snprintf(path, sizeof(path), "%s/p%d.so", folder, number);
	snprintf(line, sizeof(line), "cp '%s' '%s'", getenv("PLUGIN"), path);
	assert_int_equal(system(line), 0);
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fail_msg("%s", dlerror());
	unlink(path);
	return handle;
}

static uint64_t code_of(void *handle)
{
	uint64_t pc = (uint64_t)dlsym(handle, "plugin_call");
	assert_true(pc != 0);
	return pc;
}

static void what_came_with_glibc_2_35_is_found_though_nothing_asks_for_it_by_name(void **state)
{
	(void)state;
	libc_find_object_fn there;
	void *found = dlsym(RTLD_DEFAULT, "_dl_find_object");
	memcpy(&there, &found, sizeof(there));
	assert_ptr_equal(libc_find_object(), there);
}

static void what_is_found_is_what_the_loader_says(void **state)
{
	(void)state;
	char folder[] = "/tmp/byteledger-XXXXXX";
	assert_non_null(mkdtemp(folder));
	void *handle = load_copy(folder, 0);
	struct cxx_own spare;
	const struct cxx_own *own = next_cxx_of(code_of(handle), &spare);
	for (int i = 0; i < CXX_NEW_MAX; i++) {
		assert_non_null(own->cxx_new[i]);
		assert_ptr_equal(own->cxx_new[i], dlsym(handle, cxx_new_names[i]));
	}
	for (int i = 0; i < CXX_DELETE_MAX; i++)
		assert_ptr_equal(own->cxx_delete[i], dlsym(handle, cxx_delete_names[i]));
	assert_true((uint64_t)own->cxx_new[NEW] - own->code.lo < own->code.hi - own->code.lo);
	/* names that an object has, that only what it needs has, and that nobody has */
	struct next_wanted wanted[] = { { "plugin_call", 0 },
					{ "not_there", 0 },
					{ "malloc_usable_size", 0 } };
	static const char *const last[] = { NULL };
	uintptr_t lo;
	assert_true(next_find(next_object((void *)code_of(handle), &lo), wanted, 3, last));
	assert_int_equal(wanted[0].at, code_of(handle));
	assert_int_equal(wanted[1].at, 0);
	assert_int_equal(wanted[2].at, (uint64_t)dlsym(handle, "malloc_usable_size"));
	dlclose(handle);
	next_cxx_closed();
	rmdir(folder);
}

static void hundreds_of_objects_are_remembered_and_forgotten(void **state)
{
	(void)state;
	static void *handles[COPIES];
	char folder[] = "/tmp/byteledger-XXXXXX";
	assert_non_null(mkdtemp(folder));
	static uint64_t place[COPIES];
	unsigned reused = 0;
	struct cxx_own spare;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < COPIES; i++) {
			handles[i] = load_copy(folder, i);
			const struct cxx_own *own = next_cxx_of(code_of(handles[i]), &spare);
			assert_ptr_not_equal(own, &spare);
			assert_non_null(own->cxx_new[NEW]);
			assert_ptr_equal(next_cxx_of(code_of(handles[i]), &spare), own);
			/* whoever takes the next one at this place for this one finds nothing */
			((struct cxx_own *)own)->cxx_new[NEW] = NULL;
			reused += round > 0 && own->lo == place[i];
			place[i] = own->lo;
		}
		for (int i = 0; i < COPIES; i++)
			dlclose(handles[i]);
		next_cxx_closed();
	}
	assert_true(reused > 0);
	/* another object may lie where one lay: it is not taken for that */
	void *handle = load_copy(folder, 0);
	const struct cxx_own *own = next_cxx_of(code_of(handle), &spare);
	uintptr_t lo;
	assert_ptr_equal(own->map, next_object((void *)code_of(handle), &lo));
	dlclose(handle);
	rmdir(folder);
}

int main(void)
{
	/* as if it came with a plugin: nothing of it is in the global scope */
	if (!dlopen(getenv("RUNTIME"), RTLD_NOW | RTLD_LOCAL))
		return 1;
	probe = readable_page;
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(what_came_with_glibc_2_35_is_found_though_nothing_asks_for_it_by_name),
		CASE(what_is_found_is_what_the_loader_says),
		CASE(hundreds_of_objects_are_remembered_and_forgotten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
