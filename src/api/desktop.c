/* SPDX-License-Identifier: Apache-2.0 */
#include "api/desktop.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

/* In the background of a shell that ends at once: nobody here waits for a browser. */
#define SCRIPT \
	"command -v xdg-open >/dev/null || exit 127; xdg-open \"$1\" </dev/null >/dev/null 2>&1 &"

static int is_there(const char *variable)
{
	const char *value = getenv(variable);
	return value && *value;
}

static int not_here(const char *why, const char *url, struct err *err)
{
	err_set(err, -EINVAL, "cannot open a browser: %s", why);
	return err_hint(err, "the page: %s", url);
}

/** run() - the script, with no signal blocked or ignored: its status; negative errno. */
static int run(const char *url)
{
	char *const words[] = { "sh", "-c", SCRIPT, "sh", (char *)url, NULL };
	posix_spawnattr_t how;
	sigset_t none, all;
	pid_t pid;
	int status = 0;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&how);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
					       POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&how, &none);
	posix_spawnattr_setsigdefault(&how, &all);
	int rc = posix_spawn(&pid, "/bin/sh", NULL, &how, words, environ);
	posix_spawnattr_destroy(&how);
	if (rc)
		return -rc;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -ECANCELED;
}

int desktop_open(const char *url, struct err *err)
{
	if (!is_there("DISPLAY") && !is_there("WAYLAND_DISPLAY"))
		return not_here("there is no desktop (neither DISPLAY nor WAYLAND_DISPLAY is set)",
				url, err);
	int status = run(url);
	if (status < 0)
		return err_set(err, status, "cannot open a browser");
	return status ? not_here("'xdg-open' (package xdg-utils) is not there", url, err) : 0;
}
