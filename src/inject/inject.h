/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject.h - put the preload library into a running process and take it out again; so far: may this
 * user do so at all?
 */
#ifndef INJECT_INJECT_H
#define INJECT_INJECT_H

#include "base/err.h"

/**
 * inject_probe() - try to attach to an own process that is no descendant, as a target that is
 * already running would be. It starts such a process, seizes, stops and releases it, and ends it;
 * some milliseconds. Return: 0, or a negative errno with @err (Yama, a container's seccomp filter,
 * another tracer).
 */
int inject_probe(struct err *err);

#endif
