/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bh.h - /list and /data/<id>/...: heap recordings as the older tracer's REST serves them, so that
 * its clients and its published page work unchanged. docs/bytehound.md says which fields are known,
 * derived, or constant.
 */
#ifndef API_BH_H
#define API_BH_H

#include "api/http.h"
#include "api/shelf.h"

#define BH_ROUTES_MAX 2
/** bh_routes() - valid as long as @shelf; returns their number. */
size_t bh_routes(struct shelf *shelf, struct http_route routes[BH_ROUTES_MAX]);

#endif
