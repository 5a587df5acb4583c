/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fileio.h"
#include "inject/hold.h"
#include "sym/program.h"
#include "wire/heap_start.h"

#define SCRIPTS_MAX 4
#define SCRIPT_LINE 256 /* as the kernel reads it */

extern char **environ;

static void free_listp(char ***list)
{
	for (char **item = *list; item && *item; item++)
		free(*item);
	free(*list);
	*list = NULL;
}

void launch_fini(struct launch *launch)
{
	free(launch->path);
	free(launch->library);
	free_listp(&launch->argv);
	free_listp(&launch->env);
}

static size_t list_len(char **list)
{
	size_t len = 0;
	while (list[len])
		len++;
	return len;
}

/* A copy of @list with @extra strings' room in front, which the caller fills. */
static char **list_dup(char **list, size_t front)
{
	size_t len = list_len(list);
	char **copy = calloc(front + len + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < len; i++)
		copy[front + i] = strdup(list[i]);
	return copy;
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool is_program(const char *path, int *why)
{
	struct stat st;
	if (stat(path, &st) < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			*why = errno;
		return false;
	}
	if (S_ISREG(st.st_mode) && access(path, X_OK) == 0)
		return true;
	*why = S_ISREG(st.st_mode) ? errno : EACCES;
	return false;
}

/* The file that execvp() would take; NULL with *@why (ENOENT: there is none). */
static char *find_program(const char *name, int *why)
{
	*why = ENOENT;
	if (strchr(name, '/'))
		return is_program(name, why) ? strdup(name) : NULL;
	const char *path = getenv("PATH");
	char candidate[PATH_MAX];
	for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; *name;) {
		size_t len = strcspn(at, ":");
		int size =
			len ? snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)len, at, name)
			    : snprintf(candidate, sizeof(candidate), "./%s", name);
		if (size > 0 && (size_t)size < sizeof(candidate) && is_program(candidate, why))
			return strdup(candidate);
		if (!at[len])
			break;
		at += len + 1;
	}
	return NULL;
}

static int cannot_start(struct launch *launch, const char *name, int why, struct err *err)
{
	launch->exit_status = why == ENOENT ? 127 : 126;
	err_set(err, -why, "cannot run '%s'", name);
	if (why == ENOENT)
		return err_hint(err, strchr(name, '/') ? "a name without '/' is looked for in PATH"
						       : "it is in no folder of PATH");
	return err_hint(err, why == EACCES ? "it has to be a file that you may execute"
					   : "does it run without byteledger?");
}

int launch_plain(struct launch *launch, char **argv, struct err *err)
{
	int why;
	launch->exit_status = 1;
	launch->argv = list_dup(argv, 0);
	if (!launch->argv)
		return err_set(err, -ENOMEM, "cannot allocate arguments");
	launch->path = find_program(argv[0], &why);
	return launch->path ? 0 : cannot_start(launch, argv[0], why, err);
}

/* ---- what LD_PRELOAD reaches ----------------------------------------------------------------- */

static int refuse(struct launch *launch, struct err *err, const char *path, const char *why,
		  const char *hint)
{
	launch->exit_status = 1;
	err_set(err, -EINVAL, "cannot trace '%s': %s", path, why);
	return err_hint(err, "%s", hint);
}

static bool gains_privileges(int fd)
{
	struct stat st;
	char caps[64];
	if (fstat(fd, &st) < 0)
		return false;
	if ((st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	    (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getegid()))
		return true;
	return geteuid() != 0 && fgetxattr(fd, "security.capability", caps, sizeof(caps)) > 0;
}

static int check_elf(struct launch *launch, int fd, struct err *err)
{
	const char *base = strrchr(launch->path, '/');
	base = base ? base + 1 : launch->path;
	switch (sym_program(fd)) {
	case SYM_PROGRAM_STATIC:
		if (strncmp(base, "ld-linux", 8) == 0 || strncmp(base, "ld.so", 5) == 0)
			break; /* the loader itself, with a program as its argument */
		return refuse(
			launch, err, launch->path,
			"it is statically linked, so no library can be preloaded",
			"link it dynamically; or 'byteledger sample' sees by probes who allocates, "
			"and 'byteledger explain -p PID' what it holds");
	case SYM_PROGRAM_FOREIGN:
		return refuse(launch, err, launch->path, "it was built for another machine",
			      "byteledger and the program must have the same word size");
	case SYM_PROGRAM_ASAN:
		return refuse(launch, err, launch->path,
			      "it is built with AddressSanitizer, which must come before any "
			      "other library and has an allocator of its own",
			      "build it without -fsanitize=address");
	case SYM_PROGRAM_OTHER_LIBC:
		return refuse(
			launch, err, launch->path,
			"its C library is not glibc, which the recording library needs",
			"build it for glibc; or 'byteledger sample' sees by probes who allocates, "
			"and 'byteledger explain -p PID' what it holds");
	default:
		break;
	}
	if (gains_privileges(fd))
		return refuse(launch, err, launch->path,
			      "it runs with other privileges than yours (set-user-ID or "
			      "capabilities), where the loader ignores LD_PRELOAD",
			      "run byteledger as the user that the program becomes");
	return 0;
}

/* ---- scripts --------------------------------------------------------------------------------- */

/* "INTERPRETER [ARG]" of a first line; *@arg is NULL where there is none. False: not a script. */
static bool script_line(int fd, char *line, char **interpreter, char **arg)
{
	ssize_t got = pread(fd, line, SCRIPT_LINE - 1, 0);
	if (got < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[got] = '\0';
	line[strcspn(line, "\n")] = '\0';
	char *at = line + 2 + strspn(line + 2, " \t");
	*interpreter = at;
	at += strcspn(at, " \t");
	*arg = NULL;
	if (*at) {
		*at++ = '\0';
		at += strspn(at, " \t");
		size_t len = strlen(at);
		while (len && (at[len - 1] == ' ' || at[len - 1] == '\t'))
			at[--len] = '\0';
		*arg = *at ? at : NULL;
	}
	return **interpreter != '\0';
}

/*
 * The words that come in front of the script: INTERPRETER [ARG], and what env(1) would make of
 * them, so that not env is traced but what it becomes. Quotes, variables and settings are left to
 * env.
 */
static size_t script_words(char *interpreter, char *arg, char *words[SCRIPT_LINE])
{
	const char *base = strrchr(interpreter, '/');
	bool env = base && strcmp(base, "/env") == 0 && arg;
	bool split = env && strncmp(arg, "-S", 2) == 0;
	char *at = split ? arg + 2 + strspn(arg + 2, " \t") : arg, *rest;
	size_t count = 0;
	if (env && *at && *at != '-' && !memchr(at, '=', strcspn(at, " \t")) &&
	    !strpbrk(at, split ? "\\\"'$#" : " \t")) {
		for (; (words[count] = strtok_r(at, " \t", &rest)); at = NULL)
			count++;
		return count;
	}
	words[count++] = interpreter;
	if (arg)
		words[count++] = arg;
	return count;
}

/* argv becomes INTERPRETER [ARG] SCRIPT REST..., as the kernel does it. */
static int become_script(struct launch *launch, char *interpreter, char *arg, struct err *err)
{
	int why;
	char *words[SCRIPT_LINE];
	size_t front = script_words(interpreter, arg, words);
	char *program = find_program(words[0], &why);
	if (!program)
		return cannot_start(launch, words[0], why, err);
	char **argv = list_dup(launch->argv, front);
	if (!argv) {
		free(program);
		return err_set(err, -ENOMEM, "cannot allocate arguments");
	}
	for (size_t i = 0; i < front; i++)
		argv[i] = strdup(words[i]);
	free(argv[front]); /* the script's own argv[0] is replaced by its path */
	argv[front] = launch->path;
	free_listp(&launch->argv);
	launch->argv = argv;
	launch->path = program;
	return 0;
}

int launch_resolve(struct launch *launch, char **argv, struct err *err)
{
	int rc = launch_plain(launch, argv, err);
	if (rc < 0)
		return rc;
	for (int depth = 0; depth < SCRIPTS_MAX; depth++) {
		char line[SCRIPT_LINE], *interpreter, *arg;
		CLEANUP(fileio_closep) int fd = open(launch->path, O_RDONLY | O_CLOEXEC);
		if (fd < 0) /* executable but not readable: the kernel may still run it */
			return 0;
		if (!script_line(fd, line, &interpreter, &arg))
			return check_elf(launch, fd, err);
		rc = become_script(launch, interpreter, arg, err);
		if (rc < 0)
			return rc;
	}
	return cannot_start(launch, argv[0], ELOOP, err);
}

/* ---- what is preloaded already --------------------------------------------------------------- */

#define KEPT "BYTELEDGER_PROGRAM_PRELOAD"

static char *entry_of(const char *name, const char *value)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	buf_printf(&text, "%s=%s", name, value);
	return buf_take(&text);
}

/* Where @name stands in @env; -1: nowhere. */
static ssize_t place_of(char *const *env, const char *name)
{
	size_t len = strlen(name);
	for (ssize_t i = 0; env && env[i]; i++)
		if (strncmp(env[i], name, len) == 0 && env[i][len] == '=')
			return i;
	return -1;
}

/* In its place: a program's environment has an order. */
static int rename_variable(const char *from, const char *to)
{
	ssize_t at = place_of(environ, from);
	char *entry = at < 0 ? NULL : entry_of(to, environ[at] + strlen(from) + 1);
	if (!entry)
		return -1;
	environ[at] = entry; /* for good */
	return 0;
}

void launch_without_preloads(char **argv)
{
	char own[PATH_MAX];
	const char *preload = getenv("LD_PRELOAD");
	/*
	 * what valgrind preloads is meant for this program, and starting it again would leave
	 * valgrind
	 */
	if (!getenv(KEPT) && preload && *preload && !strstr(preload, "/vgpreload_")) {
		ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
		if (len < 0 || rename_variable("LD_PRELOAD", KEPT) < 0)
			return;
		own[len] = '\0';
		execv(own, argv);
	}
	rename_variable(KEPT, "LD_PRELOAD");
}

/* ---- the library ----------------------------------------------------------------------------- */

int launch_library(struct launch *launch, struct err *err)
{
	char own[PATH_MAX], candidate[PATH_MAX + 64];
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
	if (len < 0)
		return err_set(err, -errno, "cannot find byteledger's own folder");
	own[len] = '\0';
	const char *folder = dirname(own), *below = BYTELEDGER_LIBDIR;
	for (const char *at = below; (at = strstr(at, "/lib")); at++)
		below = at; /* "/lib/x86_64-linux-gnu": an installed tree may have been moved */
	for (int i = 0; i < 4 && !launch->library; i++) {
		if (i == 0)
			snprintf(candidate, sizeof(candidate), "%s/" WIRE_PRELOAD_NAME, folder);
		else if (i == 1)
			snprintf(candidate, sizeof(candidate), "%s/../lib/" WIRE_PRELOAD_NAME,
				 folder);
		else if (i == 2)
			snprintf(candidate, sizeof(candidate), "%s/..%s/%s", folder, below,
				 WIRE_PRELOAD_NAME);
		else
			snprintf(candidate, sizeof(candidate), "%s/%s", BYTELEDGER_LIBDIR,
				 WIRE_PRELOAD_NAME);
		launch->library = realpath(candidate, NULL);
	}
	if (!launch->library) {
		err_set(err, -ENOENT, "cannot find " WIRE_PRELOAD_NAME);
		return err_hint(err, "it belongs beside byteledger, in ../lib, or in '%s'",
				BYTELEDGER_LIBDIR);
	}
	if (strpbrk(launch->library, ": ")) {
		err_set(err, -EINVAL, "cannot preload '%s'", launch->library);
		return err_hint(err, "LD_PRELOAD cannot name a path with a space or a colon");
	}
	return 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* At the end, whatever stands there already. */
static int add_variable(char ***env, const char *name, const char *value)
{
	size_t count = list_len(*env);
	char *entry = entry_of(name, value);
	if (!entry)
		return -ENOMEM;
	char **grown = realloc(*env, (count + 2) * sizeof(**env));
	if (!grown) {
		free(entry);
		return -ENOMEM;
	}
	grown[count] = entry;
	grown[count + 1] = NULL;
	*env = grown;
	return 0;
}

static int set_variable(char ***env, const char *name, const char *value)
{
	ssize_t at = place_of(*env, name);
	if (at < 0)
		return add_variable(env, name, value);
	char *entry = entry_of(name, value);
	if (!entry)
		return -ENOMEM;
	free((*env)[at]);
	(*env)[at] = entry;
	return 0;
}

static int make_env(struct launch *launch, const struct launch_env *want)
{
	char number[16];
	launch->env = list_dup(environ, 0);
	if (!launch->env)
		return -ENOMEM;
	const char *before = getenv("LD_PRELOAD");
	CLEANUP(buf_fini) struct buf preload = { 0 };
	/* first, so that an allocator that is preloaded as well is our next definition */
	buf_puts(&preload, launch->library);
	if (before && *before)
		buf_printf(&preload, ":%s", before);
	snprintf(number, sizeof(number), "%d", want->shm_fd);
	int rc = buf_failed(&preload) ? -ENOMEM : 0;
	/*
	 * The loader obeys the last LD_PRELOAD: what stood there stays as it was, and the library
	 * takes out its own. What it takes out comes in pairs. Children that are followed find the
	 * library in the only one.
	 */
	if (rc == 0 && !want->follow_children)
		rc = add_variable(&launch->env, "LD_PRELOAD", buf_cstr(&preload));
	else if (rc == 0)
		rc = set_variable(&launch->env, "LD_PRELOAD", buf_cstr(&preload));
	if (rc == 0)
		rc = set_variable(&launch->env, WIRE_ENV_SHM, number);
	if (rc == 0 && !want->follow_children && want->next)
		rc = set_variable(&launch->env, WIRE_ENV_NEXT, want->next);
	if (rc == 0 && (want->follow_children || want->next))
		rc = set_variable(&launch->env, WIRE_ENV_PAD, "");
	/*
	 * the program itself finds everything in the shared memory; what follows is for its
	 * children
	 */
	if (rc < 0 || !want->follow_children)
		return rc;
	char budget[24] = "", family[24] = "";
	if (want->family)
		snprintf(family, sizeof(family), "%llu", (unsigned long long)want->family);
	if (want->budget_bytes)
		snprintf(budget, sizeof(budget), "%llu", (unsigned long long)want->budget_bytes);
	const char *const variables[][2] = {
		{ WIRE_ENV_FOLLOW, "1" },
		{ WIRE_ENV_OUTPUT, want->output ? want->output : "" },
		{ "BYTELEDGER_ON_FULL", want->on_full ? want->on_full : "wait" },
		{ "BYTELEDGER_BUDGET", budget },
		{ WIRE_ENV_FAMILY, family },
		{ "BYTELEDGER_FREE_STACKS", want->free_stacks ? "1" : "" },
		{ "BYTELEDGER_STAMP_EVERY_EVENT", want->stamp_every_event ? "1" : "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(variables) && rc == 0; i++)
		if (*variables[i][1])
			rc = set_variable(&launch->env, variables[i][0], variables[i][1]);
	return rc;
}

/* Whether a file that the kernel does not know is one for the shell: text, or empty. */
static bool is_for_shell(const char *path)
{
	char head[128];
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, head, sizeof(head));
	return got >= 0 && !memchr(head, '\0', (size_t)got);
}

/* A script without "#!": the kernel refuses it, execvp() and shells hand it to /bin/sh. */
static void run_shell(const struct launch *launch)
{
	char **argv = list_dup(launch->argv, 1);
	if (!argv || !argv[1])
		return;
	argv[0] = (char *)"/bin/sh";
	argv[1] = launch->path;
	execve(argv[0], argv, launch->env);
}

/*
 * What we were started with, for the program: with children ignored, waitpid() would not tell how
 * it ended.
 */
static int take_children(void)
{
	struct sigaction now;
	int ignored = sigaction(SIGCHLD, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
	if (ignored)
		signal(SIGCHLD, SIG_DFL);
	return ignored;
}

static void run_child(const struct launch *launch, const sigset_t *mask, int ignored, int shm_fd,
		      int tell)
{
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (ignored)
		signal(SIGCHLD, SIG_IGN);
	if (shm_fd >= 0)
		fcntl(shm_fd, F_SETFD, 0);
	int none = 0; /* it will not wait, and runs all the same */
	if (launch->holds && hold_ask() < 0 && write(tell, &none, sizeof(none)) < 0)
		_exit(126);
	execve(launch->path, launch->argv, launch->env ? launch->env : environ);
	int why = errno;
	if (why == ENOEXEC && is_for_shell(launch->path))
		run_shell(launch);
	if (write(tell, &why, sizeof(why)) < 0)
		_exit(126);
	_exit(127);
}

/* Being held would change what it may do. */
static bool loses_privileges(const char *path)
{
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (hold_keeps_privileges())
		return false;
	/* who cannot read a program may run it: then nobody says what it gains */
	return fd >= 0 ? gains_privileges(fd)
		       : stat(path, &st) < 0 || st.st_mode & (S_ISUID | S_ISGID);
}

pid_t launch_start(struct launch *launch, const struct launch_env *env, const sigset_t *mask,
		   struct err *err)
{
	int pipes[2], why = 0;
	launch->exit_status = 1;
	if (env && make_env(launch, env) < 0)
		return err_set(err, -ENOMEM, "cannot allocate the program's environment");
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot make a pipe");
	CLEANUP(fileio_closep) int from = pipes[0];
	launch->holds = launch->holds && !loses_privileges(launch->path);
	int ignored = take_children();
	pid_t pid = fork();
	if (pid < 0) {
		close(pipes[1]);
		return err_set(err, -errno, "cannot start a process");
	}
	if (pid == 0)
		run_child(launch, mask, ignored, env ? env->shm_fd : -1, pipes[1]);
	close(pipes[1]);
	ssize_t got;
	do {
		got = read(from, &why, sizeof(why));
		if (got == sizeof(why) && !why)
			launch->holds = 0;
	} while ((got < 0 && errno == EINTR) || (got == sizeof(why) && !why));
	if (got == sizeof(why)) {
		waitpid(pid, NULL, 0);
		return cannot_start(launch, launch->path, why, err);
	}
	launch->holds = launch->holds && hold_at_entry(pid) == 0;
	return pid;
}
