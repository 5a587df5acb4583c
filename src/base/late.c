/* SPDX-License-Identifier: Apache-2.0 */
#include "base/late.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static int load(struct late *late, struct err *err)
{
	void *library = NULL;
	for (size_t i = 0; late->files[i] && !library; i++)
		library = dlopen(late->files[i], RTLD_NOW | RTLD_LOCAL);
	int whole = library != NULL;
	for (size_t i = 0; i < late->count && whole; i++) {
		void *found = dlsym(library, late->functions[i].name);
		memcpy(late->functions[i].to, &found, sizeof(found));
		whole = found != NULL;
	}
	if (!whole) {
		const char *why = dlerror();
		err_set(err, -ENOENT, "cannot load '%s': %.160s", late->files[0],
			why ? why : "it lacks a function");
		return err_hint(err, "install the package %s", late->package);
	}
	late->ready = 1;
	return 0;
}

int late_get(struct late *late, struct err *err)
{
	pthread_mutex_lock(&late->lock);
	int rc = late->ready ? 0 : load(late, err);
	pthread_mutex_unlock(&late->lock);
	return rc;
}
