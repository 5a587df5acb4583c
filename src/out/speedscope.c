/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope.c - speedscope's file format: shared frames, and one "sampled" profile for each cost,
 * the asked one first. Frames carry no line: speedscope takes frames of one function for one only
 * where all their fields are equal.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/jsonw.h"
#include "out/out.h"
#include "out/stream.h"

struct speedscope {
	struct jsonw json;
	const struct prof *prof;
	enum view_cost cost;
	int inverted;
	int failed;
	/* by frame row: 1 + that of its innermost function; 0 = not listed */
	uint32_t *number;
	/* frame rows in order of their numbers */
	uint32_t *listed;
	uint32_t listed_count, next;
	/* 1 + number */
	uint32_t stop_number[STACK_STOP_MAX];
	/* numbers of one stack, innermost first */
	uint32_t *path;
	uint32_t path_cap;
	uint64_t *weights;
	size_t weight_count, weight_cap;
	uint64_t total;
};

static uint32_t symbols_of(const struct prof_frame *frame)
{
	return frame->symbol_count ? frame->symbol_count : 1;
}

static int add(struct speedscope *s, uint32_t *count, uint32_t number)
{
	if (*count == s->path_cap) {
		uint32_t cap = s->path_cap ? s->path_cap * 2 : 256;
		uint32_t *grown = realloc(s->path, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->path = grown;
		s->path_cap = cap;
	}
	s->path[(*count)++] = number;
	return 0;
}

/* A negative number marks a reason: those are listed behind the frames, when all are known. */
static int collect(struct speedscope *s, struct stack_id stack, uint32_t *count)
{
	struct out_walk walk;
	struct out_step step;
	out_walk_init(&walk, s->prof, stack);
	*count = 0;
	while (out_walk_next(&walk, &step)) {
		uint32_t number;
		if (step.stop) {
			if (!s->stop_number[step.stop])
				s->stop_number[step.stop] = ++s->next;
			number = s->stop_number[step.stop] - 1;
			if (add(s, count, number) < 0)
				return -ENOMEM;
			continue;
		}
		if (!s->number[step.frame.v]) {
			s->number[step.frame.v] = s->next + 1;
			s->next += symbols_of(prof_frame(s->prof, step.frame));
			s->listed[s->listed_count++] = step.frame.v;
		}
		if (add(s, count, s->number[step.frame.v] - 1 + step.symbol) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int write_sample(void *ctx, const struct view_row *row)
{
	struct speedscope *s = ctx;
	uint64_t weight = view_cost_of(&row->cost, s->cost);
	if (!weight)
		return 0;
	if (s->weight_count == s->weight_cap) {
		size_t cap = s->weight_cap ? s->weight_cap * 2 : 1024;
		uint64_t *grown = realloc(s->weights, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->weights = grown;
		s->weight_cap = cap;
	}
	uint32_t count;
	if (collect(s, row->stack, &count) < 0)
		return -ENOMEM;
	s->weights[s->weight_count++] = weight;
	s->total += weight;
	jsonw_array(&s->json, NULL);
	for (uint32_t i = 0; i < count; i++)
		jsonw_u64(&s->json, NULL, s->path[s->inverted ? i : count - 1 - i]);
	jsonw_array_end(&s->json);
	return 0;
}

static int write_profile(struct speedscope *s, const struct out_opt *opt, struct err *err)
{
	const char *const names[] = {
		[VIEW_COST_PEAK] = "bytes live at the peak",
		[VIEW_COST_ALLOCATIONS] = "allocations",
		[VIEW_COST_ALLOCATED] = "bytes allocated",
		[VIEW_COST_TEMPORARY] = "temporary allocations",
		[VIEW_COST_LEAKED] = "bytes never freed",
		[VIEW_COST_LIVE] = opt->moment ? "bytes live" : "bytes live at the end",
	};
	int counts = s->cost == VIEW_COST_ALLOCATIONS || s->cost == VIEW_COST_TEMPORARY;
	struct jsonw *json = &s->json;
	jsonw_line(json);
	jsonw_object(json, NULL);
	jsonw_str(json, "type", "sampled");
	jsonw_str(json, "name", names[s->cost]);
	jsonw_str(json, "unit", counts ? "none" : "bytes");
	s->weight_count = 0;
	s->total = 0;
	jsonw_array(json, "samples");
	const struct view_opt view = { .cost = s->cost, .limit = opt->limit };
	int rc = view_each(s->prof, &view, write_sample, s, err);
	jsonw_array_end(json);
	if (rc == -ENOMEM)
		return out_no_memory(err);
	if (rc < 0)
		return rc;
	jsonw_array(json, "weights");
	for (size_t i = 0; i < s->weight_count; i++)
		jsonw_u64(json, NULL, s->weights[i]);
	jsonw_array_end(json);
	jsonw_u64(json, "startValue", 0);
	jsonw_u64(json, "endValue", s->total);
	jsonw_object_end(json);
	return 0;
}

static void write_frame(struct speedscope *s, const struct prof_frame *frame,
			const struct symbol *symbol)
{
	struct out_label label;
	const struct prof_module *module = prof_module(s->prof, frame->module);
	jsonw_line(&s->json);
	jsonw_object(&s->json, NULL);
	jsonw_str(&s->json, "name", out_symbol_label(s->prof, frame, symbol, &label));
	if (symbol && symbol->file)
		jsonw_str(&s->json, "file", symbol->file);
	else if (frame->module.v)
		jsonw_str(&s->json, "file", module->path);
	jsonw_object_end(&s->json);
}

/* Numbers of frames and reasons were given out as they came: this writes them in that order. */
static void write_frames(struct speedscope *s)
{
	uint32_t number = 0, listed = 0;
	jsonw_object(&s->json, "shared");
	jsonw_array(&s->json, "frames");
	while (number < s->next) {
		unsigned stop = 0;
		while (stop < STACK_STOP_MAX && s->stop_number[stop] != number + 1)
			stop++;
		if (stop < STACK_STOP_MAX) {
			jsonw_object(&s->json, NULL);
			jsonw_str(&s->json, "name", view_stop_label(stop));
			jsonw_object_end(&s->json);
			number++;
			continue;
		}
		const struct prof_frame *frame =
			prof_frame(s->prof, (struct frame_id){ s->listed[listed++] });
		for (uint32_t i = 0; i < frame->symbol_count; i++)
			write_frame(s, frame, &frame->symbols[i]);
		if (!frame->symbol_count)
			write_frame(s, frame, NULL);
		number += symbols_of(frame);
	}
	jsonw_array_end(&s->json);
	jsonw_object_end(&s->json);
}

int out_speedscope(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	static const enum view_cost all[] = { VIEW_COST_PEAK, VIEW_COST_ALLOCATED, VIEW_COST_LIVE,
					      VIEW_COST_ALLOCATIONS, VIEW_COST_TEMPORARY };
	struct speedscope s = { .prof = prof, .inverted = opt->inverted };
	uint32_t frames = prof_frame_count(prof);
	s.number = calloc(frames + 1, sizeof(*s.number));
	s.listed = calloc(frames + 1, sizeof(*s.listed));
	char *cmdline = out_command_line(prof);
	int rc = 0;
	if (!s.number || !s.listed || !cmdline)
		rc = out_no_memory(err);
	jsonw_init(&s.json, to);
	if (rc == 0) {
		jsonw_object(&s.json, NULL);
		jsonw_str(&s.json, "$schema", "https://www.speedscope.app/file-format-schema.json");
		jsonw_str(&s.json, "exporter", "byteledger " BYTELEDGER_VERSION);
		jsonw_str(&s.json, "name", cmdline);
		jsonw_u64(&s.json, "activeProfileIndex", 0);
		jsonw_array(&s.json, "profiles");
		s.cost = opt->cost;
		rc = write_profile(&s, opt, err);
		for (size_t i = 0; rc == 0 && i < ARRAY_LEN(all); i++) {
			s.cost = all[i];
			if (all[i] != opt->cost)
				rc = write_profile(&s, opt, err);
		}
	}
	if (rc == 0) {
		jsonw_array_end(&s.json);
		write_frames(&s);
		jsonw_object_end(&s.json);
		jsonw_line(&s.json);
	}
	free(s.number);
	free(s.listed);
	free(s.path);
	free(s.weights);
	free(cmdline);
	return rc;
}
