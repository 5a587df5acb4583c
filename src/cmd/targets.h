/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h - the options that name processes: -p PID, -n NAME, --container NAME|ID, --cgroup PATH,
 * --follow-children.
 */
#ifndef CMD_TARGETS_H
#define CMD_TARGETS_H

#include <argp.h>

#include "watch/targets.h"

/**
 * targets_argp - a child parser whose input is a zero-initialised struct targets; texts are argv's.
 */
extern const struct argp targets_argp;

#endif
