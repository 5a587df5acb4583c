/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of one message without a network: what a capture says goes to a node, through decoding, into its store; what is counted
 * is one table, and docs/counters.md is made of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <sodium.h>

#include "base/buf.h"
#include "model/message.h"
#include "net/seal.h"
#include "node/config.h"
#include "node/counters.h"
#include "node/node.h"
#include "node/privileges.h"
#include "node/replay.h"

#define CAPTURE "captures/octez-outgoing"
#define MESSAGES 109 /* of expected-initiator.json, handshake included */
#define CHUNKS_OUT 53
#define CHUNKS_IN 56

static char folder[64], identity[512], config_text[4096];

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/node-test-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static void ignore(void *ctx, const char *text)
{
	(void)ctx;
	(void)text;
}

/* ---- a node that is fed by hand ------------------------------------------------------------------------------------- */

struct world {
	struct nodes_config *config;
	struct node node;
};

static void copy_identity(void)
{
	char from[512], command[1200];
	snprintf(from, sizeof(from), "%s/identities/drone-1.json", getenv("TEZOS_VECTORS"));
	snprintf(command, sizeof(command), "cp '%s' '%s'", from, identity);
	assert_int_equal(system(command), 0);
}

static void begin(struct world *w)
{
	struct err err = { 0 };
	struct store *store = NULL;
	memset(w, 0, sizeof(*w));
	snprintf(identity, sizeof(identity), "%s/identity.json", folder);
	snprintf(config_text, sizeof(config_text),
		 "[[nodes]]\nname = \"one\"\ndb = \"%s/store\"\np2p = { port = 9732, identity = "
		 "\"%s\" }\n",
		 folder, identity);
	w->config =
		nodes_config_parse(config_text, strlen(config_text), "test", ignore, NULL, &err);
	if (!w->config)
		fail_msg("%s", err.msg);
	assert_int_equal(net_seal_init(&err), 0);
	if (store_open(w->config->nodes[0].db, NULL, &store, &err) < 0 ||
	    node_init(&w->node, &w->config->nodes[0], store, ignore, NULL, &err) < 0)
		fail_msg("%s", err.msg);
}

static void end(struct world *w)
{
	struct err err = { 0 };
	if (node_fini(&w->node, &err) < 0)
		fail_msg("%s", err.msg);
	nodes_config_free(w->config);
}

/* The recorded conversation as the capture of the initiator tells it. */
static void play(struct world *w)
{
	char path[512], *line = NULL;
	size_t cap = 0;
	struct err err = { 0 };
	struct netcap_conn conn = {
		.conn = 7, .time_ns = 1000, .node_port = 9732, .local_initiated = 1
	};
	snprintf(path, sizeof(path), "%s/" CAPTURE "/stream.jsonl", getenv("TEZOS_VECTORS"));
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(node_open(&w->node, &conn, &err), 0);
	assert_int_equal(node_has(&w->node, 7), 1);
	for (uint64_t n = 1; getline(&line, &cap, file) > 0; n++) {
		json_t *record = json_loads(line, 0, NULL);
		const char *hex = json_string_value(json_object_get(record, "hex")),
			   *from = json_string_value(json_object_get(record, "from"));
		size_t len = strlen(hex) / 2, got;
		uint8_t *bytes = malloc(len + 1);
		assert_int_equal(sodium_hex2bin(bytes, len, hex, len * 2, NULL, &got, NULL), 0);
		if (node_data(&w->node, 7, strcmp(from, "initiator") == 0, 1000 + n, bytes, len,
			      &err) < 0)
			fail_msg("%s", err.msg);
		free(bytes);
		json_decref(record);
	}
	free(line);
	fclose(file);
}

static void stored(struct world *w, struct store_stats *stats)
{
	struct err err = { 0 };
	struct store_reader *reader = NULL;
	if (node_writer_sync(w->node.writer, 20000, &err) < 0 ||
	    store_reader_open(w->config->nodes[0].db, &reader, &err) < 0 ||
	    store_reader_stats(reader, stats, &err) < 0)
		fail_msg("%s", err.msg);
	store_reader_close(reader);
}

static uint64_t all_messages(const struct node_counts *counts)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < NODE_TYPES; i++)
		sum += counts->messages[i];
	return sum;
}

static void a_captured_conversation_is_decoded_counted_and_stored(void **state)
{
	(void)state;
	struct world w;
	struct err err = { 0 };
	struct node_counts counts;
	struct store_stats stats;
	begin(&w);
	copy_identity();
	node_identities(&w.node);
	play(&w);
	assert_int_equal(node_close(&w.node, 7, 5000, "closed", &err), 0);
	node_live(&w.node, &counts);
	stored(&w, &stats);
	assert_int_equal(all_messages(&counts), MESSAGES);
	assert_int_equal(counts.undecodable, 0);
	assert_int_equal(counts.chunks[1], CHUNKS_OUT);
	assert_int_equal(counts.chunks[0], CHUNKS_IN);
	assert_int_equal(counts.chunks_sealed[0] + counts.chunks_sealed[1], 0);
	assert_int_equal(counts.connections_open, 0);
	assert_int_equal(counts.connections_opened, 1);
	assert_int_equal(counts.identities, 1);
	assert_int_equal(stats.messages, MESSAGES);
	assert_int_equal(stats.chunks, CHUNKS_OUT + CHUNKS_IN);
	assert_int_equal(stats.connections, 1);
	assert_int_equal(node_has(&w.node, 7), 0);
	end(&w);
}

/* ---- a capture as it stands in a file ---------------------------------------------------------------------------------- */

struct counted {
	struct message_sink sink;
	uint64_t messages, chunks, connections;
};

static int on_connection(struct message_sink *sink, const struct message_connection *connection,
			 struct err *err)
{
	(void)err;
	(void)connection;
	((struct counted *)sink)->connections++;
	return 0;
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	(void)chunk;
	(void)err;
	((struct counted *)sink)->chunks++;
	return 0;
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	(void)message;
	(void)err;
	((struct counted *)sink)->messages++;
	return 0;
}

static void a_capture_is_replayed_into_a_sink_and_a_store(void **state)
{
	(void)state;
	char input[512], store[128];
	struct err err = { 0 };
	struct counted counted = { .sink = { on_connection, on_chunk, on_message } };
	struct capture_stats seen = { 0 };
	struct store_reader *reader = NULL;
	struct store_stats stats;
	snprintf(identity, sizeof(identity), "%s/identity.json", folder);
	copy_identity();
	snprintf(input, sizeof(input), "%s/" CAPTURE "/stream.jsonl", getenv("TEZOS_VECTORS"));
	snprintf(store, sizeof(store), "%s/replayed", folder);
	const char *const identities[] = { identity };
	const struct node_replay_opt opt = { .input = input,
					     .identity_paths = identities,
					     .identity_count = 1,
					     .role = NET_ROLE_INITIATOR,
					     .store_path = store,
					     .sink = &counted.sink };
	struct node_replay *replay = node_replay_new(&opt, &err);
	if (!replay || node_replay_run(replay, &seen, &err) < 0)
		fail_msg("%s", err.msg);
	node_replay_free(replay);
	assert_int_equal(counted.messages, MESSAGES);
	assert_int_equal(counted.chunks, CHUNKS_OUT + CHUNKS_IN);
	assert_true(counted.connections >= 1);
	if (store_reader_open(store, &reader, &err) < 0 ||
	    store_reader_stats(reader, &stats, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(stats.messages, MESSAGES);
	assert_int_equal(stats.chunks, CHUNKS_OUT + CHUNKS_IN);
	store_reader_close(reader);
}

static void what_cannot_be_replayed_is_refused_by_its_name(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct counted counted = { .sink = { on_connection, on_chunk, on_message } };
	const char *const identities[] = { "/nowhere/identity.json" };
	struct node_replay_opt opt = { .input = "/nowhere/stream.jsonl",
				       .identity_paths = identities,
				       .identity_count = 1,
				       .sink = &counted.sink };
	struct capture_stats seen = { 0 };
	assert_null(node_replay_new(&opt, &err));
	assert_non_null(strstr(err.msg, "/nowhere/identity.json"));
	opt.identity_count = 0;
	err_init(&err);
	struct node_replay *replay = node_replay_new(&opt, &err);
	assert_non_null(replay);
	assert_true(node_replay_run(replay, &seen, &err) < 0);
	assert_non_null(strstr(err.msg, "/nowhere/stream.jsonl"));
	node_replay_free(replay);
	assert_int_equal(counted.messages, 0);
}

static void what_was_sealed_is_decoded_once_the_identity_comes(void **state)
{
	(void)state;
	struct world w;
	struct err err = { 0 };
	struct node_counts counts;
	struct store_stats stats;
	begin(&w);
	node_identities(&w.node);
	play(&w);
	node_live(&w.node, &counts);
	assert_int_equal(counts.connections_sealed, 1);
	assert_true(counts.chunks_sealed[0] + counts.chunks_sealed[1] > 100);
	stored(&w, &stats);
	assert_true(stats.messages < 5);
	/* while the connection is open: it is taken over, and goes on decrypted */
	copy_identity();
	node_identities(&w.node);
	const struct timespec some = { .tv_nsec = 10000000 };
	for (int i = 0; i < 2000; i++) {
		node_reprocess(&w.node, 1);
		stored(&w, &stats);
		if (stats.messages == MESSAGES)
			break;
		nanosleep(&some, NULL);
	}
	assert_int_equal(stats.messages, MESSAGES);
	assert_int_equal(node_close(&w.node, 7, 5000, "closed", &err), 0);
	node_live(&w.node, &counts);
	assert_int_equal(all_messages(&counts), MESSAGES);
	assert_true(counts.reprocessed_chunks > 100);
	end(&w);
}

static void a_gap_is_counted_and_the_row_says_so(void **state)
{
	(void)state;
	struct world w;
	struct err err = { 0 };
	struct node_counts counts;
	struct netcap_conn conn = { .conn = 1, .time_ns = 10, .node_port = 9732 };
	begin(&w);
	assert_int_equal(node_open(&w.node, &conn, &err), 0);
	assert_int_equal(node_data(&w.node, 1, 0, 11, "\0\5hello", 7, &err), 0);
	assert_int_equal(node_gap(&w.node, 1, 0, 12, 500, &err), 0);
	assert_int_equal(node_gap(&w.node, 99, 0, 12, 500, &err), 0); /* nobody's */
	assert_int_equal(node_close(&w.node, 1, 13, "reset", &err), 0);
	node_live(&w.node, &counts);
	assert_int_equal(counts.gaps[0], 1);
	assert_int_equal(counts.gap_bytes[0], 500);
	assert_int_equal(counts.stream_bytes[0], 7);
	assert_int_equal(counts.stream_bytes[1], 0);
	end(&w);
}

/* ---- hostile peers -------------------------------------------------------------------------------------------------- */

#define STORMS 36
#define STORM_BYTES 65536

/* A peer that makes the decoder search again and again: as tests/prog/seekstorm.c. */
static void storm(struct world *w, uint64_t number)
{
	static const uint8_t nowhere[18] = { 0, 16 };
	static uint8_t all[STORM_BYTES + 64];
	struct err err = { 0 };
	struct netcap_conn info = { .conn = number, .time_ns = 1000, .node_port = 9732 };
	uint8_t secret[32], public[32], hello[2][92] = { { 0, 90 }, { 0, 90 } }, nonce[24],
					other[24];
	crypto_box_keypair(public, secret);
	memcpy(hello[0] + 4, net_identity_public_key(w->node.identities[0]), 32);
	memcpy(hello[1] + 4, public, 32);
	hello[0][91] = hello[1][91] = 1;
	struct net_key *key = net_key_new(w->node.identities[0], public);
	assert_non_null(key);
	/* the peer connected: its nonces are those of the initiator */
	net_start_nonces(hello[1], 92, hello[0], 92, nonce, other);
	size_t len = 0;
	while (len < STORM_BYTES) {
		memcpy(all + len, nowhere, sizeof(nowhere));
		len += sizeof(nowhere);
		net_nonce_add(nonce, 2498);
		all[len] = 0;
		all[len + 1] = 16;
		crypto_box_easy_afternm(all + len + 2, NULL, 0, nonce, net_key_peek(key));
		net_nonce_add(nonce, 1);
		len += 18;
	}
	net_key_free(key);
	assert_int_equal(node_open(&w->node, &info, &err), 0);
	assert_int_equal(node_data(&w->node, number, 0, 1001, hello[1], 92, &err), 0);
	assert_int_equal(node_data(&w->node, number, 1, 1001, hello[0], 92, &err), 0);
	for (size_t at = 0; at < len; at += 4096)
		assert_int_equal(node_data(&w->node, number, 0, 1002, all + at,
					   len - at < 4096 ? len - at : 4096, &err),
				 0);
}

static void peers_that_make_us_search_hold_nobody_else_up(void **state)
{
	(void)state;
	struct world w;
	struct err err = { 0 };
	struct node_counts counts;
	struct store_stats stats;
	uint64_t turn = 0, slices = 0;
	begin(&w);
	copy_identity();
	node_identities(&w.node);
	w.node.seek.turn = &turn;
	w.node.seek.burst = 20000000;
	for (uint64_t i = 0; i < STORMS; i++)
		storm(&w, 100 + i);
	for (uint64_t i = 0; i < STORMS; i += 2)
		assert_int_equal(node_close(&w.node, 100 + i, 1003, "closed", &err), 0);
	node_live(&w.node, &counts);
	assert_int_equal(counts.connections_open, STORMS);
	/* none of them had its turn yet, and the conversation is decoded as it comes */
	uint64_t before = all_messages(&counts);
	play(&w);
	node_live(&w.node, &counts);
	assert_int_equal(all_messages(&counts) - before, MESSAGES);
	assert_int_equal(node_close(&w.node, 7, 5000, "closed", &err), 0);
	/* their turns: what one of them takes is a slice, what all take a burst each */
	uint64_t spent = 0;
	for (int more = 1; more > 0; slices++) {
		turn = 10000000;
		more = node_work(&w.node, &err);
		assert_true(more >= 0);
		assert_true(10000000 - turn <= 2 * (w.node.seek.slice + 50000));
		spent += 10000000 - turn;
	}
	assert_true(slices >= STORMS);
	assert_true(spent > STORMS * 1000000ull);
	assert_true(spent <= STORMS * (w.node.seek.burst * 5 / 4 + 50000));
	node_live(&w.node, &counts);
	assert_int_equal(counts.connections_open, STORMS / 2);
	stored(&w, &stats);
	assert_int_equal(stats.connections, STORMS + 1);
	end(&w);
}

static uint64_t raw_bytes;
static int (*node_chunk)(struct message_sink *sink, const struct message_chunk *chunk,
			 struct err *err);

static int count_raw(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	raw_bytes += chunk->raw_len;
	return node_chunk(sink, chunk, err);
}

static void too_much_that_waits_for_a_search_ends_it_and_is_kept(void **state)
{
	(void)state;
	struct world w;
	struct err err = { 0 };
	struct node_counts counts;
	static uint8_t junk[65536];
	uint64_t turn = 0;
	begin(&w);
	copy_identity();
	node_identities(&w.node);
	w.node.seek.turn = &turn;
	node_chunk = w.node.sink.chunk;
	w.node.sink.chunk = count_raw;
	raw_bytes = 0;
	storm(&w, 1);
	for (int i = 0; i < 100; i++) {
		assert_true(w.node.queue_bytes <= NODE_INBOX_MAX + 4096);
		assert_int_equal(node_data(&w.node, 1, 0, 1002, junk, sizeof(junk), &err), 0);
	}
	assert_int_equal(node_close(&w.node, 1, 1003, "closed", &err), 0);
	for (int more = 1; more > 0;) {
		turn = 1000000;
		more = node_work(&w.node, &err);
	}
	assert_int_equal(w.node.queue_bytes, 0);
	node_live(&w.node, &counts);
	assert_int_equal(counts.connections_open, 0);
	assert_int_equal(raw_bytes, counts.stream_bytes[0] + counts.stream_bytes[1]);
	end(&w);
}

/* ---- its configuration ---------------------------------------------------------------------------------------------- */

static void what_makes_no_sense_in_a_configuration_names_its_line(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "[[nodes]]\ndb = 7\n", "line 2" },
		{ "[[nodes]]\nname = \"a\"\ndb = \"/x\"\np2p = 99999\n", "line 4" },
		{ "bind = \"nowhere\"\n[[nodes]]\nname = \"a\"\ndb = \"/x\"\n", "line 1" },
		{ "capture = \"magic\"\n[[nodes]]\nname = \"a\"\ndb = \"/x\"\n", "line 1" },
		{ "", "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = { 0 };
		struct nodes_config *c = nodes_config_parse(cases[i].text, strlen(cases[i].text),
							    "c.toml", ignore, NULL, &err);
		assert_null(c);
		assert_true(err.code < 0);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("'%s' does not say '%s'", err.msg, cases[i].says);
	}
}

/* ---- counters ------------------------------------------------------------------------------------------------------- */

static void sections_of_counters_stand_together_and_names_are_used_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < node_counter_count; i++) {
		const struct node_counter *a = &node_counters[i];
		assert_non_null(a->key);
		for (size_t k = i + 1; k < node_counter_count; k++) {
			const struct node_counter *b = &node_counters[k];
			int same =
				(!a->section && !b->section) ||
				(a->section && b->section && strcmp(a->section, b->section) == 0);
			if (same && strcmp(a->key, b->key) == 0)
				fail_msg("'%s' stands twice", a->key);
			if (a->family && b->family && strcmp(a->family, b->family) == 0)
				fail_msg("'%s' stands twice", a->family);
			/* an object of JSON is opened once */
			if (same && a->section && k > i + 1 && !node_counters[k - 1].section)
				fail_msg("'%s' is torn apart", a->section);
		}
	}
	/* status closes the last section behind the text that belongs to it */
	assert_string_equal(node_counters[node_counter_count - 1].section, "writer");
}

static void put_rows(struct buf *to, const char *object, const struct node_counter *rows,
		     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct node_counter *c = &rows[i];
		int parts = c->shape == NODE_COUNTER_TWO || c->shape == NODE_COUNTER_BY_TYPE;
		buf_printf(to, "| `%s%s%s%s` |", object, c->section ? c->section : "",
			   c->section ? "." : "", c->key);
		buf_printf(to, c->family ? " `%s` |" : " - |", c->family);
		buf_printf(to, " %s%s | %s | %s |\n", c->unit,
			   !parts                         ? ""
			   : c->shape == NODE_COUNTER_TWO ? ", by direction"
							  : ", by type",
			   c->help, c->loss ? c->loss : "-");
	}
}

static void the_page_of_counters_is_made_of_the_table(void **state)
{
	(void)state;
	CLEANUP(buf_fini) struct buf want = { 0 };
	char path[512];
	static char have[65536];
	buf_puts(&want,
		 "# What the network recorder counts\n\n"
		 "In `/v3/status` under each node, or under `capture`; in `/metrics` with the "
		 "label `node`. "
		 "The last column says what is\nmissing from the store where the number is not 0. "
		 "Made of "
		 "`src/node/counters.c`; a test compares.\n\n"
		 "| status | metric | unit | what | missing then |\n|---|---|---|---|---|\n");
	put_rows(&want, "capture.", capture_counters, capture_counter_count);
	put_rows(&want, "", node_counters, node_counter_count);
	snprintf(path, sizeof(path), "%s/docs/counters.md", getenv("SOURCE_ROOT"));
	FILE *file = fopen(path, getenv("BLESS") ? "w+e" : "re");
	assert_non_null(file);
	if (getenv("BLESS"))
		fwrite(want.data, 1, want.len, file);
	rewind(file);
	have[fread(have, 1, sizeof(have) - 1, file)] = '\0';
	fclose(file);
	if (strcmp(have, buf_cstr(&want)) != 0)
		fail_msg("docs/counters.md is not what src/node/counters.c says: BLESS=1 "
			 "SOURCE_ROOT=. "
			 "build/tests/unit/unit_node writes it anew");
}

/* ---- what it gives up --------------------------------------------------------------------------------------------------- */

/* 0, or what open() says. */
static int opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);
	int rc = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

static void put_file(const char *path)
{
	assert_int_equal(opens(path, O_CREAT | O_WRONLY), 0);
	chmod(path, 0644);
}

/* In a process of its own, as there is no way back; bits of what was otherwise than it should be. */
static int confined(const struct nodes_config *config, const char *at)
{
	struct err err = { 0 };
	char path[256];
	int bad = nodes_privileges_drop(config, NULL, &err) < 0;

	snprintf(path, sizeof(path), "%s/outside", at);
	bad |= (opens(path, O_RDONLY) != EACCES) << 1;
	bad |= (opens("/etc/passwd", O_RDONLY) != EACCES) << 2;
	snprintf(path, sizeof(path), "%s/new", at);
	bad |= (opens(path, O_CREAT | O_WRONLY) != EACCES) << 3;
	snprintf(path, sizeof(path), "%s/db/segment", at);
	bad |= (opens(path, O_CREAT | O_RDWR | O_TRUNC) != 0 || unlink(path) < 0) << 4;
	snprintf(path, sizeof(path), "%s/keys/identity.json", at);
	bad |= (opens(path, O_RDONLY) != 0) << 5;
	bad |= (opens(path, O_RDWR) != EACCES) << 6;
	bad |= (opens("/proc/self/status", O_RDONLY) != 0) << 7;
	return bad;
}

static void it_reaches_no_files_but_its_own(void **state)
{
	char text[512], path[128];
	struct err err = { 0 };
	int status;
	(void)state;

	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 0)
		skip();
	chmod(folder, 0755);
	snprintf(path, sizeof(path), "%s/keys", folder);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/keys/identity.json", folder);
	put_file(path);
	snprintf(path, sizeof(path), "%s/outside", folder);
	put_file(path);
	snprintf(text, sizeof(text),
		 "[[nodes]]\nname = \"one\"\ndb = \"%s/db\"\np2p = { port = 9732, identity = "
		 "\"%s/keys/identity.json\" }\n",
		 folder, folder);
	struct nodes_config *config =
		nodes_config_parse(text, strlen(text), "test", ignore, NULL, &err);
	if (!config)
		fail_msg("%s", err.msg);
	pid_t pid = fork();
	if (pid == 0)
		_exit(confined(config, folder));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	nodes_config_free(config);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_reaches_no_files_but_its_own, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_captured_conversation_is_decoded_counted_and_stored, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_capture_is_replayed_into_a_sink_and_a_store,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_cannot_be_replayed_is_refused_by_its_name,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_was_sealed_is_decoded_once_the_identity_comes,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_gap_is_counted_and_the_row_says_so, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(peers_that_make_us_search_hold_nobody_else_up,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			too_much_that_waits_for_a_search_ends_it_and_is_kept, set_up, tear_down),
		cmocka_unit_test(what_makes_no_sense_in_a_configuration_names_its_line),
		cmocka_unit_test(sections_of_counters_stand_together_and_names_are_used_once),
		cmocka_unit_test(the_page_of_counters_is_made_of_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
