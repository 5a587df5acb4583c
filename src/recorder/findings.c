/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/findings.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "sym/program.h"

PRINTF(2, 3) static void say(const struct findings_opt *opt, const char *format, ...)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	va_list args;
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	opt->say(buf_cstr(&text));
}

static void hint(const struct findings_opt *opt, const char *text)
{
	opt->hint(text);
}

void recorder_findings_children(const struct recorder_result *result,
				const struct findings_opt *opt)
{
	char x[TEXT_NUMBER_MAX];
	const char *base = strrchr(result->child_exe, '/');
	base = base ? base + 1 : result->child_exe;
	if (opt->follow_children || !result->children)
		return;
	if (opt->is_explained)
		say(opt,
		    "not explained: %u child%s%s%s%s: 'byteledger run --follow-children', then "
		    "'byteledger "
		    "explain FILE' of each",
		    result->children,
		    result->children == 1 ? ", its peak RSS " : "ren, the largest ",
		    text_bytes(x, result->child_peak_bytes), *base ? ", " : "", base);
	if (opt->is_quiet)
		return;
	say(opt, "not recorded: %u child%s%s%s%s: --follow-children", result->children,
	    result->children == 1 ? ", its peak RSS " : "ren, the largest ",
	    text_bytes(x, result->child_peak_bytes), *base ? ", " : "", base);
}

/* What takes a program's place by exec is recorded, but for these. */
static void tell_why_lost(const struct findings_opt *opt, const struct recorder_result *result)
{
	int fd = result->replaced_by[0] ? open(result->replaced_by, O_RDONLY | O_CLOEXEC) : -1;
	enum sym_program kind = fd < 0 ? SYM_PROGRAM_DYNAMIC : sym_program(fd);
	if (fd >= 0)
		close(fd);
	if (kind == SYM_PROGRAM_STATIC)
		hint(opt, "that one is statically linked, so no library can be preloaded; "
			  "'byteledger "
			  "pages' and 'byteledger regions' see such programs");
	else if (kind == SYM_PROGRAM_DYNAMIC)
		hint(opt, "name that program: it was started past the C library, without its "
			  "environment, or where it cannot open this library: under another root, "
			  "as another user");
	else
		hint(opt, "that one cannot be recorded: another C library, another machine, or "
			  "AddressSanitizer");
}

void recorder_findings(const struct recorder_result *result, const struct findings_opt *opt,
		       const char *program)
{
	const char *by = result->replaced_by[0] ? result->replaced_by : "another program";
	program = program ? program : "the process";
	if (result->replaced && opt->follow_children && result->unfollowed) {
		say(opt,
		    "'%s' replaced itself by %s, which was started without the recording "
		    "library; the recording ends there",
		    program, by);
		hint(opt, "its environment was cleared of LD_PRELOAD (env -i, sudo): name that "
			  "program; or it cannot open this library: under another root, as "
			  "another user");
	} else if (result->replaced && opt->follow_children) {
		if (!opt->is_quiet) /* nothing is missing */
			say(opt,
			    "'%s' replaced itself by %s, which is followed: it gets a "
			    "recording of its own, or a line that says why not, unless its "
			    "environment was cleared, or it is static or set-user-ID or cannot "
			    "open this library (another root, another user)",
			    program, by);
	} else if (result->replaced) {
		say(opt, "'%s' replaced itself by %s; the recording ends there", program, by);
		if (result->came)
			hint(opt, "'byteledger heap -p' again records that one");
		else
			tell_why_lost(opt, result);
	} else if (!result->attached) {
		say(opt, "'%s' never loaded the recording library, so nothing was recorded",
		    program);
		hint(opt, "does the program clear LD_PRELOAD, or run in a sandbox?");
	}
	if (!opt->is_quiet && result->before[0])
		say(opt, "before it, in the same process and not recorded further: %s",
		    result->before);
	if (!opt->is_quiet && result->own_allocators[0])
		say(opt, "also recorded: %s, which '%s' brings along", result->own_allocators,
		    program);
	if (!opt->is_quiet && opt->pages && result->no_pages[0])
		say(opt, "without resident pages by stack: %s (--no-pages does not ask for them)",
		    result->no_pages);
	/* the text report says that itself */
	if (!opt->is_quiet && opt->is_json && result->attached && !result->replaced &&
	    !result->allocations && !result->lost_allocations)
		say(opt, "no allocation of '%s' was seen", program);
}
