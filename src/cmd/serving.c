/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/serving.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/bh.h"
#include "api/page.h"
#include "api/shelf.h"
#include "api/v1.h"
#include "base/cleanup.h"
#include "cmd/books.h"
#include "cmd/cmd.h"

#define ROUTES_MAX (PAGE_ROUTES_MAX + V1_ROUTES_MAX + BH_ROUTES_MAX)

struct serving {
	struct books *books;
	struct shelf *shelf;
	struct v1 *v1;
	struct http_server *server;
	struct http_route routes[ROUTES_MAX];
};

/* ---- options ------------------------------------------------------------------------------------------------------------ */

enum { OPT_SERVE = 0x2000, OPT_TOKEN, OPT_NO_AUTH, OPT_HOST, OPT_CORS };

static const struct argp_option guard_options[] = {
	{ "token-file", OPT_TOKEN, "FILE", 0, "Ask clients for the token in FILE", 5 },
	{ "no-auth", OPT_NO_AUTH, NULL, 0, "Serve an address beyond loopback without a token", 5 },
	{ "host", OPT_HOST, "NAME", 0, "A name that clients may use for this host (repeatable)",
	  5 },
	{ "cors", OPT_CORS, "ORIGIN", 0, "Another web origin that may read what is served, or '*'",
	  5 },
	{ 0 },
};
static const struct argp_option serve_option[] = {
	{ "serve", OPT_SERVE, "ADDR:PORT", OPTION_ARG_OPTIONAL,
	  "Show the recording in the web browser while it is made (default 127.0.0.1:17832)", 5 },
	{ 0 },
};

static error_t parse_guard(int key, char *arg, struct argp_state *state)
{
	struct serving_opt *opt = state->input;
	switch (key) {
	case OPT_TOKEN:
		opt->http.token_file = arg;
		return 0;
	case OPT_NO_AUTH:
		opt->http.no_auth = 1;
		return 0;
	case OPT_HOST:
		if (opt->host_count == SERVING_HOSTS_MAX)
			cmd_usage("at most %d host names", SERVING_HOSTS_MAX);
		opt->hosts[opt->host_count++] = arg;
		return 0;
	case OPT_CORS:
		opt->http.cors = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_serve(int key, char *arg, struct argp_state *state)
{
	struct serving_opt *opt = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = opt;
		return 0;
	case OPT_SERVE:
		opt->wanted = 1;
		opt->http.address = arg;
		return 0;
	case ARGP_KEY_END:
		if (!opt->wanted && (opt->http.token_file || opt->http.no_auth || opt->host_count ||
				     opt->http.cors))
			cmd_usage("--token-file, --no-auth, --host and --cors belong to --serve");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp serving_guard_argp = { .options = guard_options, .parser = parse_guard };
static const struct argp_child children[] = { { &serving_guard_argp, 0, NULL, 0 }, { 0 } };
const struct argp serving_argp = { .options = serve_option,
				   .parser = parse_serve,
				   .children = children };

int serving_takes(struct serving_opt *opt, const char *word)
{
	if (!opt->wanted || opt->http.address ||
	    (!strchr(word, ':') && strspn(word, "0123456789") != strlen(word)) || strchr(word, '/'))
		return 0;
	opt->http.address = word;
	return 1;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

static int start(struct serving *s, const struct serving_opt *opt, const char *const *paths,
		 size_t count, struct err *err)
{
	s->books = books_new(paths, count, err);
	s->shelf = s->books ? shelf_new(books_items(s->books), books_count(s->books), err) : NULL;
	s->v1 = s->shelf ? v1_new(s->shelf, err) : NULL;
	if (!s->v1)
		return err->code;
	struct http_opt http = opt->http;
	http.hosts = opt->hosts;
	http.routes = s->routes;
	http.route_count = page_routes(s->routes);
	http.route_count += v1_routes(s->v1, s->routes + http.route_count);
	http.route_count += bh_routes(s->shelf, s->routes + http.route_count);
	return http_server_start(&http, &s->server, err);
}

struct serving *serving_new(const struct serving_opt *opt, const char *const *paths, size_t count,
			    struct err *err)
{
	struct serving *s = calloc(1, sizeof(*s));
	sigset_t all, before;
	if (!s) {
		err_set(err, -ENOMEM, "cannot serve");
		return NULL;
	}
	signal(SIGPIPE, SIG_IGN);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* for the threads that come */
	int rc = start(s, opt, paths, count, err);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc < 0) {
		serving_freep(&s);
		return NULL;
	}
	if (http_server_note(s->server) && !opt->quiet)
		cmd_say("%s", http_server_note(s->server));
	return s;
}

const char *serving_url(const struct serving *s)
{
	return http_server_url(s->server);
}

int serving_add(struct serving *s, const char *path, struct err *err)
{
	const struct shelf_item *item = books_add(s->books, path, err);
	return item ? shelf_add(s->shelf, item, err) : err->code;
}

void serving_freep(struct serving **serving)
{
	struct serving *s = *serving;
	*serving = NULL;
	if (!s)
		return;
	http_server_stop(s->server);
	v1_free(s->v1);
	shelf_free(s->shelf);
	books_free(s->books);
	free(s);
}
