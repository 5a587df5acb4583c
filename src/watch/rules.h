/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h - can the rules of a watch (alert/alert.h) be met at all? Before anything is watched. */
#ifndef WATCH_RULES_H
#define WATCH_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "alert/alert.h"
#include "base/err.h"

/**
 * watch_rules_check() - -EINVAL with @err and a hint for the first rule that never would be: a
 * trend needs more looks than one every
 * @period_ns (0: the usual), or no memory is ever called as the rule says.
 */
int watch_rules_check(const struct alert_rule *rules, size_t count, uint64_t period_ns,
		      struct err *err);

#endif
