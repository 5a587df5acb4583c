/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/rules.h"

#include <errno.h>

#include "base/text.h"
#include "proc/classes.h"
#include "source/watch.h"

/* A rule that never can be met would look like a process that does not grow. */
static int check_period(const struct alert_rule *rule, uint64_t period_ns, struct err *err)
{
	char period[TEXT_NUMBER_MAX], most[TEXT_NUMBER_MAX];
	if (period_ns <= alert_longest_period_ns(rule))
		return 0;
	err_set(err, -EINVAL,
		"the alert rule '%s' would never be met: a trend takes more looks than one every "
		"%s",
		rule->text, text_duration(period, period_ns));
	return err_hint(err, "look every %s or more often (--watch), or give it a longer time",
			text_duration(most, alert_longest_period_ns(rule)));
}

/* A name that no memory ever has would look like memory that does not grow. */
static int check_name(const struct alert_rule *rule, struct err *err)
{
	const char *name = rule->select, *nearest;
	if (!name[0] || classes_know(name, &nearest))
		return 0;
	err_set(err, -EINVAL, "no memory is ever called '%s', as in the alert rule '%s'%s%s%s",
		name, rule->text, nearest ? "; did you mean '" : "", nearest ? nearest : "",
		nearest ? "'?" : "");
	return err_hint(err,
			"'byteledger regions --classes' lists the names; one that the program "
			"gives is written as 'named/%s'",
			name);
}

int watch_rules_check(const struct alert_rule *rules, size_t count, uint64_t period_ns,
		      struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = check_period(&rules[i], period_ns ? period_ns : WATCH_PERIOD_NS, err);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = check_name(&rules[i], err);
	return rc;
}
