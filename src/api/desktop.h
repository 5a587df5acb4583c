/* SPDX-License-Identifier: Apache-2.0 */
/* desktop.h - the reader's own browser, where there is a desktop to show it on. */
#ifndef API_DESKTOP_H
#define API_DESKTOP_H

#include "base/err.h"

/**
 * desktop_open() - show @url in the browser that the desktop prefers; it outlives this process.
 * Returns when the browser was asked to start. -EINVAL with a hint: no desktop, or nothing that
 * knows its browser.
 */
int desktop_open(const char *url, struct err *err);

#endif
