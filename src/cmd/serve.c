/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - `byteledger serve FILE...`: the web page and the API over recordings. */
#include "api/http.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/page.h"
#include "api/shelf.h"
#include "api/v1.h"
#include "cmd/books.h"
#include "cmd/cmd.h"
#include "recorder/started.h"

#define HOSTS_MAX 16
#define ROUTES_MAX (PAGE_ROUTES_MAX + V1_ROUTES_MAX)

enum { OPT_LISTEN = 'l', OPT_TOKEN = 256, OPT_NO_AUTH, OPT_HOST, OPT_CORS };

struct serve {
	struct http_opt http;
	const char *hosts[HOSTS_MAX + 1];
	size_t host_count;
	const char **files;
	size_t file_count;
	int quiet;
};

static const struct argp_option options[] = {
	{ "listen", OPT_LISTEN, "ADDR:PORT", 0,
	  "Where to listen (default 127.0.0.1:17832; port 0: any free one)", 1 },
	{ "token-file", OPT_TOKEN, "FILE", 0, "Ask clients for the token in FILE", 1 },
	{ "no-auth", OPT_NO_AUTH, NULL, 0, "Serve an address beyond loopback without a token", 1 },
	{ "host", OPT_HOST, "NAME", 0, "A name that clients may use for this host (repeatable)",
	  1 },
	{ "cors", OPT_CORS, "ORIGIN", 0, "Another web origin that may read what is served, or '*'",
	  1 },
	{ "quiet", 'q', NULL, 0, "Say nothing but errors", 1 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct serve *s = state->input;
	switch (key) {
	case OPT_LISTEN:
		s->http.address = arg;
		return 0;
	case OPT_TOKEN:
		s->http.token_file = arg;
		return 0;
	case OPT_NO_AUTH:
		s->http.no_auth = 1;
		return 0;
	case OPT_HOST:
		if (s->host_count == HOSTS_MAX)
			cmd_usage("at most %d host names", HOSTS_MAX);
		s->hosts[s->host_count++] = arg;
		return 0;
	case OPT_CORS:
		s->http.cors = arg;
		return 0;
	case 'q':
		s->quiet = 1;
		return 0;
	case ARGP_KEY_ARG:
		s->files[s->file_count++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!s->file_count)
			cmd_usage("which recording, or which folder of them?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/** wait_for_signal() - until somebody ends the command. */
static void wait_for_signal(int signals)
{
	struct pollfd fd = { .fd = signals, .events = POLLIN };
	for (;;)
		if (poll(&fd, 1, -1) > 0 && started_signals(signals, 0))
			return;
}

static int serve(struct serve *s, struct books *books, struct err *err)
{
	struct http_route routes[ROUTES_MAX];
	struct http_server *server = NULL;
	int signals = signals_open(0); /* first: blocked in every thread that comes */
	if (signals < 0)
		return err_set(err, signals, "cannot take signals");
	struct shelf *shelf = shelf_new(books_items(books), books_count(books), err);
	struct v1 *v1 = shelf ? v1_new(shelf, err) : NULL;
	int rc = v1 ? 0 : err->code;
	if (rc == 0) {
		signal(SIGPIPE, SIG_IGN);
		size_t count = page_routes(routes);
		count += v1_routes(v1, routes + count);
		s->http.routes = routes;
		s->http.route_count = count;
		s->http.hosts = s->hosts;
		rc = http_server_start(&s->http, &server, err);
	}
	if (rc == 0) {
		const char *note = http_server_note(server);
		if (!s->quiet) {
			printf("%s\n", http_server_url(server));
			fflush(stdout);
		}
		if (note && !s->quiet)
			cmd_say("%s", note);
		wait_for_signal(signals);
	}
	http_server_stop(server);
	v1_free(v1);
	shelf_free(shelf);
	close(signals);
	return rc;
}

int cmd_serve(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE...",
		.doc = "Serve recordings to the web browser, and to scripts as JSON.\v"
		       "FILE is a recording of any kind that 'report' reads, or a folder, whose "
		       "recordings are listed. The address is printed on stdout; Ctrl-C ends it.",
	};
	struct serve s = { .files = calloc((size_t)argc + 1, sizeof(*s.files)) };
	struct err err = { 0 };
	struct books *books = NULL;
	int status = CMD_USAGE;
	if (s.files && cmd_parse(&argp, argc, argv, NULL, &s) == 0) {
		books = books_new(s.files, s.file_count, &err);
		status = books && serve(&s, books, &err) == 0 ? CMD_OK : cmd_fail(&err);
	}
	books_free(books);
	free(s.files);
	return status;
}
