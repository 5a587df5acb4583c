/* SPDX-License-Identifier: Apache-2.0 */
#include "api/serving.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/bh.h"
#include "api/books.h"
#include "api/net.h"
#include "api/page.h"
#include "api/shelf.h"
#include "api/tree_file.h"
#include "api/v1.h"
#include "base/cleanup.h"
#include "store/store.h"

#define ROUTES_MAX                                                                  \
	(PAGE_ROUTES_MAX + V1_ROUTES_MAX + BH_ROUTES_MAX + 2 * API_NET_ROUTES_MAX + \
	 SERVING_MORE_MAX + TREE_ROUTES)
#define STORES_MAX 32

struct serving {
	struct books *books;
	struct shelf *shelf;
	struct v1 *v1;
	/* resident pages that recordings have beside */
	struct tree_file *pages;
	struct http_server *server;
	struct http_route routes[ROUTES_MAX];
	size_t route_count;
	/* of stores; NULL: none was named */
	struct api_net *net;
	struct api_net_node stores[STORES_MAX];
	struct tallied {
		struct api_net *net;
		size_t node;
	} tallied[STORES_MAX];
	size_t store_count;
	/* those of the paths that are no stores; lent */
	const char **files;
	size_t file_count;
};

/** sort_paths() - which of them are stores of nodes, and which recordings? */
static int sort_paths(struct serving *s, const char *const *paths, size_t count, struct err *err)
{
	s->files = calloc(count + 1, sizeof(*s->files));
	if (!s->files)
		return err_set(err, -ENOMEM, "cannot serve");
	for (size_t i = 0; i < count; i++) {
		if (!store_is(paths[i])) {
			s->files[s->file_count++] = paths[i];
			continue;
		}
		if (s->store_count == STORES_MAX)
			return err_set(err, -E2BIG, "at most %d stores are served at once",
				       STORES_MAX);
		const char *slash = strrchr(paths[i], '/');
		s->stores[s->store_count++] =
			(struct api_net_node){ .name = slash && slash[1] ? slash + 1 : paths[i],
					       .store_path = paths[i] };
	}
	return 0;
}

static int tally(void *ctx, int logs, const uint64_t *edges, size_t count, uint64_t *rows,
		 struct err *err)
{
	const struct tallied *t = ctx;
	return api_net_tally(t->net, t->node, logs, edges, count, rows, err);
}

/**
 * put_stores() - the routes of the nodes' stores: /v2 of all, /v3 of the first, and each as a
 * source of the page.
 */
static int put_stores(struct serving *s, struct http_opt *http, struct err *err)
{
	static const char *const has[] = { "messages", "connections", "logs", NULL };
	const struct api_net_opt opt = { .nodes = s->stores,
					 .node_count = s->store_count,
					 .version = BYTELEDGER_VERSION };
	if (!s->store_count)
		return 0;
	s->net = api_net_new(&opt, err);
	if (!s->net)
		return err->code;
	for (size_t i = 0; i < s->store_count; i++) {
		const struct v1_live live = { .name = s->stores[i].name,
					      .kind = "node",
					      .has = has,
					      .tally = tally,
					      .ctx = &s->tallied[i] };
		s->tallied[i] = (struct tallied){ s->net, i };
		if (v1_add_live(s->v1, &live) < 0)
			return err_set(err, -E2BIG, "too many sources");
	}
	/* where both have one, that of the node comes first */
	http->route_count += api_net_v3_routes(s->net, 0, s->routes + http->route_count);
	struct http_route all[API_NET_ROUTES_MAX];
	size_t count = api_net_v2_routes(s->net, all);
	for (size_t i = 0; i < count; i++) {
		int there = 0;
		for (size_t k = 0; k < http->route_count && !there; k++)
			there = strcmp(s->routes[k].path, all[i].path) == 0;
		if (!there)
			s->routes[http->route_count++] = all[i];
	}
	return 0;
}

static int put_more(struct serving *s, const struct serving_more *more, struct http_opt *http,
		    struct err *err)
{
	for (size_t i = 0; more && i < more->live_count; i++)
		if (v1_add_live(s->v1, &more->lives[i]) < 0)
			return err_set(err, -E2BIG, "too many processes to show");
	for (size_t i = 0; more && i < more->route_count; i++)
		s->routes[http->route_count++] = more->routes[i];
	return 0;
}

static int more_has(const struct serving_more *more, const char *path)
{
	for (size_t i = 0; more && i < more->route_count; i++)
		if (strcmp(more->routes[i].path, path) == 0)
			return 1;
	return 0;
}

static int start(struct serving *s, const struct serving_opt *opt, const char *const *paths,
		 size_t count, struct err *err)
{
	if (sort_paths(s, paths, count, err) < 0)
		return err->code;
	s->books = books_new(s->files, s->file_count, err);
	s->shelf = s->books ? shelf_new(books_items(s->books), books_count(s->books), err) : NULL;
	s->v1 = s->shelf ? v1_new(s->shelf, err) : NULL;
	s->pages = s->v1 ? tree_file_new(err) : NULL;
	if (!s->pages)
		return err->code;
	for (size_t i = books_count(s->books); i-- > 0;) /* the first one given is asked first */
		if (tree_file_add(s->pages, books_items(s->books)[i].path) < 0)
			return err_set(err, -ENOMEM, "cannot serve");
	struct http_opt http = opt->http;
	http.hosts = opt->hosts;
	http.routes = s->routes;
	http.route_count = page_routes(s->routes);
	http.route_count += v1_routes(s->v1, s->routes + http.route_count);
	http.route_count += bh_routes(s->shelf, s->routes + http.route_count);
	int rc = put_stores(s, &http, err);
	if (rc == 0)
		rc = put_more(s, opt->more, &http, err);
	if (!more_has(opt->more, "/v1/tree"))
		http.route_count +=
			tree_routes(tree_file_source(s->pages), s->routes + http.route_count);
	s->route_count = http.route_count;
	return rc < 0 || opt->unheard ? rc : http_server_start(&http, &s->server, err);
}

int serving_given(const struct serving_opt *opt)
{
	return opt->http.token_file || opt->http.no_auth || opt->host_count || opt->http.cors;
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
	/*
	 * Answers need large arrays for a moment, on a thread for each client. malloc keeps such
	 * arrays in its heaps once it has seen one freed, and has heaps for 8 threads a processor:
	 * between what stays they are never given back.
	 */
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	mallopt(M_ARENA_MAX, 4);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* for the threads that come */
	int rc = start(s, opt, paths, count, err);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc < 0) {
		serving_freep(&s);
		return NULL;
	}
	return s;
}

int serving_ask(const struct serving *s, const char *what, const atomic_int *stop, struct buf *to)
{
	return http_local_ask(s->routes, s->route_count, what, stop, to);
}

const char *serving_url(const struct serving *s)
{
	return http_server_url(s->server);
}

const char *serving_note(const struct serving *s)
{
	return http_server_note(s->server);
}

uint16_t serving_open_port(const struct serving *s)
{
	static const char local[] = "http://127.0.0.1:";
	const char *url = serving_note(s) ? serving_url(s) : "";
	return strncmp(url, local, sizeof(local) - 1) == 0
		       ? (uint16_t)strtoul(url + sizeof(local) - 1, NULL, 10)
		       : 0;
}

int serving_add(struct serving *s, const char *path, struct err *err)
{
	const struct shelf_item *item = books_add(s->books, path, err);
	if (item && tree_file_add(s->pages, path) < 0)
		return err_set(err, -ENOMEM, "cannot serve '%s'", path);
	return item ? shelf_add(s->shelf, item, err) : err->code;
}

void serving_tell(struct serving *s, const struct v1_alert *alert)
{
	v1_tell(s->v1, alert);
}

void serving_freep(struct serving **serving)
{
	struct serving *s = *serving;
	*serving = NULL;
	if (!s)
		return;
	api_net_stop(s->net);
	http_server_stop(s->server);
	api_net_free(s->net);
	free(s->files);
	v1_free(s->v1);
	tree_file_free(s->pages);
	shelf_free(s->shelf);
	books_free(s->books);
	free(s);
}
