/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threadfacts.h - stack pointers of running threads, which /proc does not tell: a BPF program goes
 * over a process's threads. Nobody is stopped.
 */
#ifndef SOURCE_THREADFACTS_H
#define SOURCE_THREADFACTS_H

#include "proc/threads.h"

/**
 * threadfacts_read() - of process @pid's threads; malloc'd, at most THREADS_MAX. The first call
 * loads the program, which stays (some 16 ms of CPU); later ones cost little more than a look at
 * each thread. Any thread. -EPERM or -EACCES where BPF is not permitted,
 * -EOPNOTSUPP before Linux 6.1 and on other machines than x86-64; what was refused once is refused
 * at once ever after.
 */
int threadfacts_read(pid_t pid, struct thread_fact **facts, size_t *count, struct err *err);

#endif
