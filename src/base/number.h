/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - numbers and durations as people write them, at the beginning of a text: what stands
 * behind is the caller's. Any thread; no locale, no floating point.
 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdint.h>

/**
 * number_take() - digits with an optional fraction, kept as whole and thousand-millionths, so that
 * no precision is lost until a unit is known. Return: the place behind it, NULL where there is no
 * number or it is too large.
 */
const char *number_take(const char *at, uint64_t *whole, uint64_t *nanoths);
/** number_scale() - times @unit. 0, or 1 where that does not fit. */
int number_scale(uint64_t whole, uint64_t nanoths, uint64_t unit, uint64_t *value);
/**
 * duration_take() - "10s", "1h30m", "1.5s", "250ms", "5us", "7ns", "2d": one or more pairs as long
 * as each has a smaller unit than the one before. Return: the place behind the last of them, NULL
 * where there is none or it does not fit.
 */
const char *duration_take(const char *at, uint64_t *ns);

#endif
