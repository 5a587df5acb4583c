/* SPDX-License-Identifier: Apache-2.0 */
/* v1.h - /api/v1: recordings for the page and for scripts. docs/api.md is normative; the OpenAPI file is served beside it. */
#ifndef API_V1_H
#define API_V1_H

#include "api/http.h"
#include "api/shelf.h"

struct v1;

/** v1_new() - the shelf is lent. NULL with @err. */
struct v1 *v1_new(struct shelf *shelf, struct err *err);
/** v1_free() - after every server that has its routes was stopped. */
void v1_free(struct v1 *v1);

#define V1_ROUTES_MAX 32
/** v1_routes() - valid as long as @v1; returns their number. */
size_t v1_routes(struct v1 *v1, struct http_route routes[V1_ROUTES_MAX]);

#endif
