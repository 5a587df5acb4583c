/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - commands and web hooks, started and not waited for. Values travel as environment or JSON,
 * never as shell text.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "alert/alert.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/jsonw.h"
#include "base/late.h"

#define JOBS_MAX 4
#define POST_SECONDS 5L
#define END_SECONDS 10

extern char **environ;

struct job {
	enum { FREE, COMMAND, POST, POSTED } state;
	pid_t pid;
	pthread_t thread;
	struct alert_runner *runner;
	char *url, *body;
	char failure[256];
};

struct alert_runner {
	pthread_mutex_t lock;
	struct job jobs[JOBS_MAX];
	char failure[256];
};

struct alert_runner *alert_runner_new(void)
{
	struct alert_runner *runner = calloc(1, sizeof(*runner));
	if (!runner)
		return NULL;
	pthread_mutex_init(&runner->lock, NULL);
	return runner;
}

/* Under either name that Debian gives it, the functions and their types are the header's. */
static struct {
	__typeof__(&curl_global_init) global_init;
	__typeof__(&curl_easy_init) easy_init;
	CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
	__typeof__(&curl_easy_perform) easy_perform;
	CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
	__typeof__(&curl_easy_cleanup) easy_cleanup;
	__typeof__(&curl_easy_strerror) easy_strerror;
	__typeof__(&curl_slist_append) slist_append;
	__typeof__(&curl_slist_free_all) slist_free_all;
} web;

static CURLcode web_started;

static void start_web(void)
{
	web_started = web.global_init(CURL_GLOBAL_DEFAULT);
}

/* 0 once libcurl is there and has started. */
static int get_web(struct err *err)
{
	static const char *const files[] = { "libcurl-gnutls.so.4", "libcurl.so.4", NULL };
	static const struct late_function functions[] = {
		LATE_FUNCTION(web, curl_, global_init),    LATE_FUNCTION(web, curl_, easy_init),
		LATE_FUNCTION(web, curl_, easy_setopt),    LATE_FUNCTION(web, curl_, easy_perform),
		LATE_FUNCTION(web, curl_, easy_getinfo),   LATE_FUNCTION(web, curl_, easy_cleanup),
		LATE_FUNCTION(web, curl_, easy_strerror),  LATE_FUNCTION(web, curl_, slist_append),
		LATE_FUNCTION(web, curl_, slist_free_all),
	};
	static struct late late = { .files = files,
				    .package = "libcurl3-gnutls",
				    .functions = functions,
				    .count = ARRAY_LEN(functions),
				    .lock = PTHREAD_MUTEX_INITIALIZER };
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int rc = late_get(&late, err);
	if (rc == 0)
		pthread_once(&once, start_web);
	return rc < 0 || web_started == CURLE_OK ? rc
						 : err_set(err, -ENOMEM, "cannot start libcurl: %s",
							   web.easy_strerror(web_started));
}

/* ---- commands -------------------------------------------------------------------------------- */

static void add(struct buf *env, const char *name, const char *fmt, ...) PRINTF(3, 4);
static void add(struct buf *env, const char *name, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	buf_printf(env, "BYTELEDGER_ALERT_%s=", name);
	buf_vprintf(env, fmt, args);
	buf_putc(env, '\0');
	va_end(args);
}

/*
 * Like a program started by hand: no signal blocked or ignored by us; what it prints is no result
 * of ours.
 */
static int spawn(pid_t *pid, char *const *argv, char *const *env)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, usual;
	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	int rc = posix_spawn_file_actions_init(&files);
	if (rc)
		return rc;
	rc = posix_spawnattr_init(&attr);
	if (!rc) {
		posix_spawnattr_setsigmask(&attr, &none);
		posix_spawnattr_setsigdefault(&attr, &usual);
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
		rc = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
		if (!rc)
			rc = posix_spawn(pid, argv[0], &files, &attr, argv, env);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&files);
	return rc;
}

static int start_command(struct job *job, const char *command, const struct alert_event *e,
			 struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	char shell[] = "/bin/sh", flag[] = "-c",
	     *argv[] = { shell, flag, (char *)(uintptr_t)command, NULL };
	size_t count = 0, at = 0, own = 0;
	add(&text, "RULE", "%s", e->rule->text);
	/* scripts compute with them: whole numbers, never 2.14748e+09 */
	add(&text, "VALUE", "%.0f", e->value);
	add(&text, "THRESHOLD", "%.0f", e->threshold);
	add(&text, "PID", "%d", (int)e->pid);
	add(&text, "COMM", "%s", e->comm);
	add(&text, "LABEL", "%s", e->label);
	add(&text, "RSS_BYTES", "%llu", (unsigned long long)e->rss_bytes);
	add(&text, "TIME_NS", "%llu", (unsigned long long)e->time_ns);
	add(&text, "MESSAGE", "%s", e->words);
	while (environ[count])
		count++;
	char **env = calloc(count + 10, sizeof(*env));
	if (!env || buf_failed(&text)) {
		free(env);
		return err_set(err, -ENOMEM, "cannot run '%.100s'", command);
	}
	for (size_t i = 0; i < count; i++) {
		if (strncmp(environ[i], "BYTELEDGER_ALERT_", 17) != 0)
			env[own++] = environ[i];
	}
	for (; at < text.len; at += strlen(text.data + at) + 1)
		env[own++] = text.data + at;
	int rc = spawn(&job->pid, argv, env);
	free(env);
	if (rc)
		return err_set(err, -rc, "cannot run '%.100s'", command);
	job->state = COMMAND;
	return 0;
}

/* ---- web hooks ------------------------------------------------------------------------------- */

static size_t swallow(char *bytes, size_t size, size_t count, void *ctx)
{
	(void)bytes, (void)ctx;
	return size * count;
}

static void *post(void *ctx)
{
	struct job *job = ctx;
	CURL *curl = web.easy_init();
	struct curl_slist *headers = web.slist_append(NULL, "Content-Type: application/json");
	CURLcode rc = CURLE_OUT_OF_MEMORY;
	long status = 0;
	if (curl && headers) {
		web.easy_setopt(curl, CURLOPT_URL, job->url);
		web.easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
		web.easy_setopt(curl, CURLOPT_POSTFIELDS, job->body);
		web.easy_setopt(curl, CURLOPT_TIMEOUT, POST_SECONDS);
		web.easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
		web.easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
		web.easy_setopt(curl, CURLOPT_WRITEFUNCTION, swallow);
		web.easy_setopt(curl, CURLOPT_USERAGENT, "byteledger/" BYTELEDGER_VERSION);
		rc = web.easy_perform(curl);
		web.easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	}
	if (rc != CURLE_OK)
		snprintf(job->failure, sizeof(job->failure),
			 "cannot post the alert to '%.100s': %s", job->url, web.easy_strerror(rc));
	else if (status >= 300)
		snprintf(job->failure, sizeof(job->failure),
			 "'%.100s' answered the alert with status %ld", job->url, status);
	web.slist_free_all(headers);
	web.easy_cleanup(curl);
	pthread_mutex_lock(&job->runner->lock);
	job->state = POSTED;
	pthread_mutex_unlock(&job->runner->lock);
	return NULL;
}

static char *describe(const struct alert_event *e)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	if (!to)
		return NULL;
	struct jsonw w;
	jsonw_init(&w, to);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "rule", e->rule->text);
	jsonw_str(&w, "message", e->words);
	jsonw_double(&w, "value", e->value);
	jsonw_double(&w, "threshold", e->threshold);
	jsonw_i64(&w, "pid", e->pid);
	jsonw_str(&w, "comm", e->comm);
	jsonw_str(&w, "label", e->label);
	jsonw_u64(&w, "rss_bytes", e->rss_bytes);
	jsonw_u64(&w, "time_ns", e->time_ns);
	jsonw_object_end(&w);
	if (fclose(to) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static int start_post(struct job *job, const char *url, const struct alert_event *e,
		      struct err *err)
{
	int ready = get_web(err);
	if (ready < 0)
		return ready;
	job->url = strdup(url);
	job->body = describe(e);
	job->failure[0] = '\0';
	job->state = POST;
	int rc = job->url && job->body ? pthread_create(&job->thread, NULL, post, job) : ENOMEM;
	if (!rc)
		return 0;
	free(job->url);
	free(job->body);
	job->state = FREE;
	return err_set(err, -rc, "cannot post to '%.100s'", url);
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Take back what has ended; called with the lock held. */
static void reap(struct alert_runner *runner)
{
	for (int i = 0; i < JOBS_MAX; i++) {
		struct job *job = &runner->jobs[i];
		int status = 0;
		if (job->state == COMMAND && waitpid(job->pid, &status, WNOHANG) != 0) {
			job->state = FREE;
			/* where whoever started us ignores SIGCHLD, there is no status to be had */
			if (!WIFEXITED(status) || WEXITSTATUS(status))
				snprintf(runner->failure, sizeof(runner->failure),
					 "the alert's command ended with status %d",
					 WIFEXITED(status) ? WEXITSTATUS(status)
							   : 128 + WTERMSIG(status));
		} else if (job->state == POSTED) {
			pthread_join(job->thread, NULL);
			if (job->failure[0])
				memcpy(runner->failure, job->failure, sizeof(runner->failure));
			free(job->url);
			free(job->body);
			job->state = FREE;
		}
	}
}

int alert_run(struct alert_runner *runner, const struct alert_action *action,
	      const struct alert_event *event, struct err *err)
{
	if (action->kind != ALERT_EXEC && action->kind != ALERT_POST)
		return err_set(err, -EINVAL, "not an action that runs something");
	pthread_mutex_lock(&runner->lock);
	reap(runner);
	struct job *job = NULL;
	for (int i = 0; i < JOBS_MAX && !job; i++)
		job = runner->jobs[i].state == FREE ? &runner->jobs[i] : NULL;
	if (job)
		job->runner = runner;
	int rc = !job ? err_set(err, -EBUSY, "an alert's action was left out")
		 : action->kind == ALERT_EXEC ? start_command(job, action->argument, event, err)
					      : start_post(job, action->argument, event, err);
	if (rc == -EBUSY)
		err_hint(err, "%d earlier ones have not ended yet", JOBS_MAX);
	pthread_mutex_unlock(&runner->lock);
	return rc;
}

int alert_runner_failed(struct alert_runner *runner, char *text, size_t size)
{
	pthread_mutex_lock(&runner->lock);
	reap(runner);
	int failed = runner->failure[0] != 0;
	snprintf(text, size, "%s", runner->failure);
	runner->failure[0] = '\0';
	pthread_mutex_unlock(&runner->lock);
	return failed;
}

static int busy(const struct alert_runner *runner, int *posting)
{
	int count = 0;
	*posting = 0;
	for (int i = 0; i < JOBS_MAX; i++) {
		count += runner->jobs[i].state != FREE;
		*posting += runner->jobs[i].state == POST || runner->jobs[i].state == POSTED;
	}
	return count;
}

void alert_runner_free(struct alert_runner *runner)
{
	if (!runner)
		return;
	int posting = 0;
	for (int tenths = 0; tenths < END_SECONDS * 10; tenths++) {
		pthread_mutex_lock(&runner->lock);
		reap(runner);
		int left = busy(runner, &posting);
		pthread_mutex_unlock(&runner->lock);
		if (!left)
			break;
		struct timespec pause = { .tv_nsec = 100000000 };
		nanosleep(&pause, NULL);
	}
	/*
	 * commands that still run are init's from now on; a thread that is stuck looking up a name
	 * still needs its job
	 */
	if (posting)
		return;
	pthread_mutex_destroy(&runner->lock);
	free(runner);
}
