/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snap.h - readings that stand still while a recording goes on, and the place where its writer
 * leaves the newest one.
 *
 * One thread feeds a prof; from time to time it takes a snap and publishes it. Any number of
 * threads get the newest one, read it without a lock for as long as they like, and let go of it. A
 * snap is consistent: the sums of its rows are its totals, losses included, and nothing that comes
 * later changes it. The writer waits for nobody.
 *
 * 	writer:  snap = snap_take(prof, &err); snap_publish(place, snap);
 * 	readers: CLEANUP(snap_unrefp) struct snap *snap = snap_get(place);
 * 	         view_table_new(snap_prof(snap), ...);
 */
#ifndef MODEL_SNAP_H
#define MODEL_SNAP_H

#include <stdint.h>

#include "base/err.h"

struct prof;
struct snap;

/**
 * snap_take() - @prof as it is now; on the thread that feeds it. Cost as prof_freeze() states it.
 * Return: a snap with one reference; NULL with @err.
 */
struct snap *snap_take(const struct prof *prof, struct err *err);
/** snap_ref() - one more reference to @snap, which is returned; any thread. */
struct snap *snap_ref(struct snap *snap);
/** snap_unref() - one less; with the last it is gone. NULL is fine. Any thread. */
void snap_unref(struct snap *snap);
void snap_unrefp(struct snap **snap);

/**
 * snap_prof() - the reading, for accessors and views; lent while the reference is held. Takes
 * neither events nor symbols.
 */
const struct prof *snap_prof(const struct snap *snap);
/**
 * snap_number() - 1 for the first that was published in its place, then 2 ...; 0: not published.
 */
uint64_t snap_number(const struct snap *snap);
/** snap_time_ns() - CLOCK_MONOTONIC when it was taken. */
uint64_t snap_time_ns(const struct snap *snap);

struct snap_place;
struct snap_place *snap_place_new(struct err *err);
void snap_place_freep(struct snap_place **place);
/** snap_publish() - @snap, whose reference is taken, is the newest from here on. One thread. */
void snap_publish(struct snap_place *place, struct snap *snap);
/** snap_get() - a reference to the newest; NULL before the first. Any thread; O(1). */
struct snap *snap_get(struct snap_place *place);
/**
 * snap_wait() - a reference to the first that is newer than number @after, waited for @timeout_ns
 * at most; NULL: none came, or snap_place_close() was called. Any thread.
 */
struct snap *snap_wait(struct snap_place *place, uint64_t after, uint64_t timeout_ns);
/**
 * snap_place_close() - no more come: whoever waits goes on. What is there can still be had. Any
 * thread.
 */
void snap_place_close(struct snap_place *place);

#endif
