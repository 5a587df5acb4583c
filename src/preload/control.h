/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - switching from inside the program.
 *
 * Exported, for programs that look them up with dlsym(): byteledger_heap_start(), _stop(), _sync()
 * and _set_marker(uint32_t); 0 or a negative errno (-ENOTCONN: nothing records). _sync() returns
 * when the recorder has taken everything that was written before. The names memory_profiler_* do
 * the same and return nothing.
 */
#ifndef PRELOAD_CONTROL_H
#define PRELOAD_CONTROL_H

#include "preload/sys.h"

/**
 * control_signals() - install the toggle where it was asked for and nothing else handles the
 * signal.
 */
void control_signals(int usr1, int usr2) HIDDEN;

#endif
