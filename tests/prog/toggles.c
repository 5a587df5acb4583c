/* SPDX-License-Identifier: Apache-2.0 */
/* toggles HOW N - switch recording from inside: HOW = call, alias, signal. Counts only what is allocated while it is on. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "truth.h"

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 10, by_signal = strcmp(argv[1], "signal") == 0;
	int alias = strcmp(argv[1], "alias") == 0;
	void (*start)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, alias ? "memory_profiler_start"
									: "byteledger_heap_start");
	void (*stop)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, alias ? "memory_profiler_stop"
								       : "byteledger_heap_stop");
	int (*sync_)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "byteledger_heap_sync");
	int (*mark)(uint32_t) =
		(int (*)(uint32_t))dlsym(RTLD_DEFAULT, "byteledger_heap_set_marker");
	if (!start || !stop || !sync_ || !mark)
		return 3;
	void (*override)(uint64_t) =
		(void (*)(uint64_t))dlsym(RTLD_DEFAULT, "memory_profiler_override_next_timestamp");
	if (!override)
		return 6;
	override(1);
	override(2);
	for (int i = 0; i < n; i++) {
		by_signal ? (void)raise(SIGUSR1) : start();
		void *p = took(malloc(100), 100);
		if (!by_signal && mark((uint32_t)i) != 0)
			return 4;
		by_signal ? (void)raise(SIGUSR1) : stop();
		void *q = malloc(200); /* unseen */
		gave(p);
		free(p); /* seen: it was recorded */
		by_signal ? (void)raise(SIGUSR1) : start();
		by_signal ? (void)raise(SIGUSR1) : stop();
		(void)q; /* kept: its free would be one of a block never seen */
	}
	if (!by_signal) {
		start();
		if (sync_() != 0)
			return 5;
	}
	truth_print();
	return 0;
}
