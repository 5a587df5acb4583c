/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p2pnode.c - a pseudo-node: plays one side of the Tezos peer-to-peer protocol over a real socket, with real crypto straight
 * from libsodium (none of byteledger's own code), and prints what it sent and received as the truth for live tests.
 *
 * One line of JSON at the end: {"sent":N,"received":N,"sent_sha256":H,"received_sha256":H,"peer_id":...,"cpu_ns":C,
 * "elapsed_ns":E,"bad_chunks":B,"lost_chunks":L}; hashes are over the peer messages (length, tag, body) in order. CPU and time are those of the
 * messages, without the handshake.
 */
#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "p2pbody.h"
#include "p2pio.h"

#define CHUNK_PLAIN_MAX 65517
#define SEEK_MAX 64 /* chunks that the peer may have left out */

static struct {
	const char *identity, *connect, *send_way, *receive_way, *kind, *then;
	int listen, listen_v6;
	unsigned long count, expect, size, rate, pack, piece, cut, connections;
	long corrupt, skip, pause_after[2];
	unsigned pauses;
	unsigned long seed, burst;
	int empty_chunks, first_speaker_waits, half_chunk, nack, linger, end_last;
} opt = { .listen = -1,
	  .send_way = "write",
	  .receive_way = "read",
	  .kind = "operation",
	  .then = "",
	  .size = 128,
	  .pack = 1,
	  .connections = 1,
	  .corrupt = -1,
	  .skip = -1,
	  .expect = ~0ul };

static uint8_t public_key[32], secret_key[32], stamp[24];

/* ---- a connection ------------------------------------------------------------------------------------------------- */

struct peer {
	int fd;
	struct p2pio *out, *in;
	uint8_t key[32], nonce_out[24], nonce_in[24];
	/* received, not yet cut */
	struct bytes got;
	/* message stream, not yet cut */
	struct bytes plain;
	unsigned long received, bad_chunks, lost_chunks;
	crypto_hash_sha256_state sent_hash, received_hash;
	/* sent so far, the connection chunk included */
	unsigned long chunk_out;
	int ended;
};

static void bump(uint8_t nonce[24])
{
	for (int i = 23; i >= 0 && ++nonce[i] == 0; i--)
		;
}

static void start_nonce(uint8_t nonce[24], const struct bytes *i, const struct bytes *r,
			const char *label)
{
	uint8_t hash[32];
	crypto_generichash_state state;
	crypto_generichash_init(&state, NULL, 0, 32);
	crypto_generichash_update(&state, i->at, i->len);
	crypto_generichash_update(&state, r->at, r->len);
	crypto_generichash_update(&state, (const uint8_t *)label, strlen(label));
	crypto_generichash_final(&state, hash, 32);
	memcpy(nonce, hash, 24);
}

static void send_chunk(struct peer *peer, const uint8_t *plain, size_t len)
{
	uint8_t chunk[2 + 16 + CHUNK_PLAIN_MAX];
	unsigned long number = peer->chunk_out++;
	chunk[0] = (uint8_t)((len + 16) >> 8);
	chunk[1] = (uint8_t)(len + 16);
	if (crypto_box_easy_afternm(chunk + 2, plain, len, peer->nonce_out, peer->key) != 0)
		p2pio_die("crypto_box_easy_afternm");
	bump(peer->nonce_out);
	if (opt.corrupt >= 0 && number == (unsigned long)opt.corrupt)
		chunk[2 + 16] ^= 1;
	if (opt.skip >= 0 && number == (unsigned long)opt.skip)
		return;
	p2pio_send(peer->out, peer->fd, chunk, 2 + 16 + len, opt.piece);
}

static size_t fill(struct peer *peer)
{
	uint8_t buffer[65536];
	size_t n = p2pio_receive(peer->in, peer->fd, buffer, sizeof(buffer));
	put(&peer->got, buffer, n);
	if (!n)
		peer->ended = 1;
	return n;
}

/* The next whole chunk at the front of what came; 0 = the stream ended. */
static size_t next_chunk(struct peer *peer)
{
	for (;;) {
		if (peer->got.len >= 2) {
			size_t len = 2 + ((size_t)peer->got.at[0] << 8 | peer->got.at[1]);
			if (peer->got.len >= len)
				return len;
		}
		if (!fill(peer))
			return 0;
	}
}

static void drop(struct bytes *b, size_t n)
{
	memmove(b->at, b->at + n, b->len - n);
	b->len -= n;
}

/* Plaintext of the next chunk into @plain; -1 = the stream ended. A chunk that does not open is passed over. */
static ssize_t receive_chunk(struct peer *peer, uint8_t plain[65536])
{
	for (;;) {
		size_t len = next_chunk(peer);
		if (!len)
			return -1;
		uint8_t nonce[24];
		memcpy(nonce, peer->nonce_in, 24);
		for (int n = 0; n < SEEK_MAX && len >= 18; n++) {
			int bad = crypto_box_open_easy_afternm(plain, peer->got.at + 2, len - 2,
							       nonce, peer->key);
			bump(nonce);
			if (bad)
				continue;
			memcpy(peer->nonce_in, nonce, 24);
			peer->lost_chunks += (unsigned long)n;
			drop(&peer->got, len);
			return (ssize_t)(len - 18);
		}
		peer->bad_chunks++;
		bump(peer->nonce_in);
		drop(&peer->got, len);
	}
}

static void hello(struct bytes *b)
{
	static const char chain[] = "TEZOS_PSEUDONODE";
	uint8_t nonce[24];
	randombytes_buf(nonce, sizeof(nonce));
	put_int(b, 0, 2);
	put_int(b, opt.listen > 0 ? (uint64_t)opt.listen : 0, 2);
	put(b, public_key, 32);
	put(b, stamp, 24);
	put(b, nonce, 24);
	put_text(b, chain);
	put_int(b, 2, 2);
	put_int(b, 1, 2);
	b->at[0] = (uint8_t)((b->len - 2) >> 8);
	b->at[1] = (uint8_t)(b->len - 2);
}

static void handshake(struct peer *peer, int initiator)
{
	struct bytes ours = { 0 }, theirs = { 0 };
	uint8_t plain[65536], metadata[2] = { 0, 0 }, ack = opt.nack ? 0xff : 0;
	hello(&ours);
	if (!opt.first_speaker_waits) {
		p2pio_send(peer->out, peer->fd, ours.at, ours.len, opt.piece);
		peer->chunk_out++;
	}
	size_t len = next_chunk(peer);
	if (len < 92) {
		fprintf(stderr, "p2pnode: no connection message\n");
		exit(1);
	}
	put(&theirs, peer->got.at, len);
	drop(&peer->got, len);
	if (opt.first_speaker_waits) {
		p2pio_send(peer->out, peer->fd, ours.at, ours.len, opt.piece);
		peer->chunk_out++;
	}
	if (crypto_box_beforenm(peer->key, theirs.at + 4, secret_key) != 0)
		p2pio_die("crypto_box_beforenm");
	const struct bytes *i = initiator ? &ours : &theirs, *r = initiator ? &theirs : &ours;
	start_nonce(initiator ? peer->nonce_out : peer->nonce_in, i, r, "Resp -> Init");
	start_nonce(initiator ? peer->nonce_in : peer->nonce_out, i, r, "Init -> Resp");
	send_chunk(peer, metadata, 2);
	receive_chunk(peer, plain);
	send_chunk(peer, &ack, 1);
	receive_chunk(peer, plain);
	free(ours.at);
	free(theirs.at);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *receiver(void *arg)
{
	struct peer *peer = arg;
	static __thread uint8_t plain[65536];
	while (peer->received < opt.expect) {
		ssize_t n = receive_chunk(peer, plain);
		if (n < 0)
			break;
		put(&peer->plain, plain, (size_t)n);
		size_t at = 0;
		while (peer->plain.len - at >= 4) {
			uint32_t len;
			memcpy(&len, peer->plain.at + at, 4);
			len = ntohl(len);
			if (len > 100u << 20 || peer->plain.len - at - 4 < len)
				break;
			crypto_hash_sha256_update(&peer->received_hash, peer->plain.at + at,
						  4 + len);
			peer->received++;
			at += 4 + len;
		}
		if (at)
			drop(&peer->plain, at);
	}
	return NULL;
}

/* Wait until message @n is due. */
static void pace(uint64_t began, unsigned long n)
{
	uint64_t due = began + (uint64_t)((double)n * 1e9 / (double)opt.rate);
	struct timespec t = { (time_t)(due / 1000000000u), (long)(due % 1000000000u) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void flush_chunks(struct peer *peer, struct bytes *stream)
{
	size_t most = opt.cut && opt.cut < CHUNK_PLAIN_MAX ? opt.cut : CHUNK_PLAIN_MAX;
	for (size_t at = 0; at < stream->len; at += most)
		send_chunk(peer, stream->at + at,
			   stream->len - at < most ? stream->len - at : most);
	stream->len = 0;
}

static int pauses_at(unsigned long n)
{
	for (unsigned i = 0; i < opt.pauses; i++) {
		if (n == (unsigned long)opt.pause_after[i])
			return 1;
	}
	return 0;
}

static void send_messages(struct peer *peer)
{
	struct bytes stream = { 0 };
	uint64_t began = now_ns(CLOCK_MONOTONIC);
	for (unsigned long n = 0; n < opt.count; n++) {
		size_t at = stream.len;
		uint16_t tag = strcmp(opt.kind, "all") == 0 ? p2p_tags[n % P2P_TAGS] : 0x31;
		if (pauses_at(n)) {
			char line[16];
			flush_chunks(peer, &stream);
			at = 0;
			printf("paused\n");
			fflush(stdout);
			if (!fgets(line, sizeof(line), stdin))
				exit(1);
			began = now_ns(CLOCK_MONOTONIC) -
				(opt.rate ? n * 1000000000u / opt.rate : 0);
		}
		if (opt.rate && n % opt.burst == 0)
			pace(began, n);
		put_int(&stream, 0, 4);
		put_int(&stream, tag, 2);
		put_body(&stream, tag);
		uint32_t len = htonl((uint32_t)(stream.len - at - 4));
		memcpy(stream.at + at, &len, 4);
		crypto_hash_sha256_update(&peer->sent_hash, stream.at + at, stream.len - at);
		if ((n + 1) % opt.pack == 0 || n + 1 == opt.count)
			flush_chunks(peer, &stream);
		if (opt.empty_chunks && n % 10 == 0)
			send_chunk(peer, (const uint8_t *)"", 0);
	}
	free(stream.at);
}

static void print_hash(const char *key, crypto_hash_sha256_state *state)
{
	uint8_t digest[32];
	char hex[65];
	crypto_hash_sha256_final(state, digest);
	printf(",\"%s\":\"%s\"", key, sodium_bin2hex(hex, sizeof(hex), digest, 32));
}

static void converse(int fd, int initiator)
{
	struct peer peer = { .fd = fd };
	pthread_t thread;
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	peer.out = p2pio_new(opt.send_way, 1);
	peer.in = p2pio_new(opt.receive_way, 0);
	crypto_hash_sha256_init(&peer.sent_hash);
	crypto_hash_sha256_init(&peer.received_hash);
	handshake(&peer, initiator);
	uint64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID), began = now_ns(CLOCK_MONOTONIC);
	if (opt.nack)
		opt.count = 0;
	if (pthread_create(&thread, NULL, receiver, &peer) != 0)
		p2pio_die("pthread_create");
	send_messages(&peer);
	if (opt.half_chunk)
		p2pio_send(peer.out, fd, "\x10\x00half a chunk", 14, 0);
	uint64_t sent_ns = now_ns(CLOCK_MONOTONIC) - began;
	if (!opt.linger && !opt.end_last)
		shutdown(fd, SHUT_WR);
	pthread_join(thread, NULL);
	cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	if (opt.linger) {
		struct linger reset = { .l_onoff = 1, .l_linger = 0 };
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	close(fd);
	printf("{\"sent\":%lu,\"received\":%lu", opt.count, peer.received);
	print_hash("sent_sha256", &peer.sent_hash);
	print_hash("received_sha256", &peer.received_hash);
	printf(",\"pid\":%d,\"cpu_ns\":%llu,\"elapsed_ns\":%llu,\"bad_chunks\":%lu,\"lost_chunks\":"
	       "%lu}\n",
	       (int)getpid(), (unsigned long long)cpu, (unsigned long long)sent_ns, peer.bad_chunks,
	       peer.lost_chunks);
	fflush(stdout);
	p2pio_free(peer.out);
	p2pio_free(peer.in);
	free(peer.got.at);
	free(peer.plain.at);
}

/* ---- sockets ------------------------------------------------------------------------------------------------------ */

static int listen_on(int port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr *addr = opt.listen_v6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
	socklen_t len = opt.listen_v6 ? sizeof(six) : sizeof(four);
	int fd = socket(opt.listen_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0), on = 1;
	six.sin6_addr = in6addr_any; /* v4-mapped peers too */
	four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, addr, len) < 0 || listen(fd, 1024) < 0)
		p2pio_die("listen");
	printf("listening\n");
	fflush(stdout);
	return fd;
}

static int connect_to(const char *where)
{
	char host[64];
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *info;
	snprintf(host, sizeof(host), "%s", where);
	char *colon = strrchr(host, ':');
	if (!colon || (*colon = '\0', getaddrinfo(host, colon + 1, &hints, &info)) != 0) {
		fprintf(stderr, "p2pnode: bad address '%s'\n", where);
		exit(2);
	}
	int fd = socket(info->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, info->ai_addr, info->ai_addrlen) < 0)
		p2pio_die("connect");
	freeaddrinfo(info);
	return fd;
}

/* Hand @fd to a child that does not have it otherwise, and wait for its end; the child comes back with it. */
static int hand_over(int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	char byte = 0;
	struct iovec io = { &byte, 1 };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	int pair[2], status, got;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		p2pio_die("socketpair");
	fflush(stdout);
	pid_t child = fork();
	if (child < 0)
		p2pio_die("fork");
	if (child > 0) {
		control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
						 .cmsg_level = SOL_SOCKET,
						 .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		if (sendmsg(pair[0], &message, 0) != 1)
			p2pio_die("sendmsg of a descriptor");
		close(fd);
		waitpid(child, &status, 0);
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	close(fd);
	if (recvmsg(pair[1], &message, 0) != 1 || control.head.cmsg_type != SCM_RIGHTS)
		p2pio_die("recvmsg of a descriptor");
	memcpy(&got, CMSG_DATA(&control.head), sizeof(got));
	return got;
}

/* What may happen to a descriptor between accept and use: none of it changes what a recorder sees. */
static int pass_on(int fd)
{
	if (strcmp(opt.then, "dup") == 0) {
		int copy = dup(fd);
		close(fd);
		return copy;
	}
	if (strcmp(opt.then, "fork") == 0) {
		fflush(stdout);
		pid_t child = fork();
		if (child < 0)
			p2pio_die("fork");
		if (child > 0) {
			int status;
			close(fd);
			waitpid(child, &status, 0);
			exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
		}
	}
	if (strcmp(opt.then, "pass") == 0)
		return hand_over(fd);
	if (strcmp(opt.then, "exec") == 0) {
		char number[16];
		snprintf(number, sizeof(number), "%d", fd);
		setenv("P2PNODE_FD", number, 1);
		setenv("P2PNODE_ROLE", opt.connect ? "initiator" : "responder", 1);
		extern char **environ;
		extern char **p2pnode_argv;
		execve("/proc/self/exe", p2pnode_argv, environ);
		p2pio_die("execve");
	}
	return fd;
}

char **p2pnode_argv;

/* ---- options ------------------------------------------------------------------------------------------------------ */

static void hex_of(const char *json, const char *key, uint8_t *out, size_t len)
{
	char want[40];
	snprintf(want, sizeof(want), "\"%s\"", key);
	const char *at = strstr(json, want);
	at = at ? strchr(at + strlen(want), '"') : NULL;
	if (!at || sodium_hex2bin(out, len, at + 1, len * 2, NULL, NULL, NULL) != 0) {
		fprintf(stderr, "p2pnode: no '%s' in the identity\n", key);
		exit(2);
	}
}

static void load_identity(void)
{
	char json[4096] = "";
	FILE *file = opt.identity ? fopen(opt.identity, "r") : NULL;
	if (!file) {
		crypto_box_keypair(public_key, secret_key);
		randombytes_buf(stamp, sizeof(stamp));
		return;
	}
	if (!fread(json, 1, sizeof(json) - 1, file))
		p2pio_die(opt.identity);
	fclose(file);
	hex_of(json, "public_key", public_key, 32);
	hex_of(json, "secret_key", secret_key, 32);
	hex_of(json, "proof_of_work_stamp", stamp, 24);
}

enum {
	SEND = 256,
	RECEIVE,
	KIND,
	COUNT,
	EXPECT,
	SIZE,
	RATE,
	PACK,
	PIECE,
	CUT,
	CORRUPT,
	SKIP,
	PAUSE,
	SEED,
	EMPTY,
	WAITS,
	HALF,
	NACK,
	THEN,
	CONNECTIONS,
	V6,
	RESET,
	LAST,
	BURST
};

static const struct argp_option options[] = {
	{ "listen", 'l', "PORT", 0, "listen on loopback and accept", 0 },
	{ "connect", 'c', "ADDR:PORT", 0, "connect (also with --listen, which comes first)", 0 },
	{ "v6", V6, NULL, 0, "listen on ::, for IPv4 too", 0 },
	{ "identity", 'i', "FILE", 0, "identity.json; else a fresh one", 0 },
	{ "send", SEND, "WAY", 0, "write writev send sendto sendmsg sendmmsg sendfile splice uring",
	  0 },
	{ "receive", RECEIVE, "WAY", 0, "read readv recv recvmsg recvmmsg peek splice uring", 0 },
	{ "kind", KIND, "operation|all", 0, "which messages", 0 },
	{ "count", COUNT, "N", 0, "messages to send", 0 },
	{ "expect", EXPECT, "N", 0, "messages to wait for (default: until the peer ends)", 0 },
	{ "size", SIZE, "BYTES", 0, "of an operation's data", 0 },
	{ "rate", RATE, "N", 0, "messages a second (default: flat out)", 0 },
	{ "burst", BURST, "N", 0, "messages sent at a time when paced", 0 },
	{ "pack", PACK, "N", 0, "messages a chunk", 0 },
	{ "piece", PIECE, "BYTES", 0, "bytes a call", 0 },
	{ "cut", CUT, "BYTES", 0, "plaintext bytes a chunk", 0 },
	{ "corrupt", CORRUPT, "CHUNK", 0, "flip a bit in this chunk", 0 },
	{ "skip", SKIP, "CHUNK", 0, "do not send this chunk", 0 },
	{ "pause-after", PAUSE, "N", 0,
	  "print 'paused' there and wait for a line; may be given twice", 0 },
	{ "seed", SEED, "N", 0, "of the messages' content", 0 },
	{ "empty-chunks", EMPTY, NULL, 0, "an empty chunk now and then", 0 },
	{ "wait-for-hello", WAITS, NULL, 0, "let the peer speak first", 0 },
	{ "half-chunk", HALF, NULL, 0, "end inside a chunk", 0 },
	{ "nack", NACK, NULL, 0, "refuse the peer", 0 },
	{ "reset", RESET, NULL, 0, "end by a reset", 0 },
	{ "end-last", LAST, NULL, 0, "end only after the peer did", 0 },
	{ "then", THEN, "dup|fork|exec|pass", 0, "what happens to the descriptor first", 0 },
	{ "connections", CONNECTIONS, "N", 0, "one after the other", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	unsigned long number = arg ? strtoul(arg, NULL, 10) : 0;
	switch (key) {
	case 'l':
		opt.listen = (int)number;
		return 0;
	case 'c':
		opt.connect = arg;
		return 0;
	case 'i':
		opt.identity = arg;
		return 0;
	case V6:
		opt.listen_v6 = 1;
		return 0;
	case SEND:
		opt.send_way = arg;
		return 0;
	case RECEIVE:
		opt.receive_way = arg;
		return 0;
	case KIND:
		opt.kind = arg;
		return 0;
	case COUNT:
		opt.count = number;
		return 0;
	case EXPECT:
		opt.expect = number;
		return 0;
	case SIZE:
		opt.size = number;
		return 0;
	case RATE:
		opt.rate = number;
		return 0;
	case BURST:
		opt.burst = number;
		return 0;
	case PACK:
		opt.pack = number ? number : 1;
		return 0;
	case PIECE:
		opt.piece = number;
		return 0;
	case CUT:
		opt.cut = number;
		return 0;
	case CORRUPT:
		opt.corrupt = (long)number;
		return 0;
	case SKIP:
		opt.skip = (long)number;
		return 0;
	case PAUSE:
		opt.pause_after[opt.pauses++ % 2] = (long)number;
		return 0;
	case SEED:
		opt.seed = number;
		return 0;
	case EMPTY:
		opt.empty_chunks = 1;
		return 0;
	case WAITS:
		opt.first_speaker_waits = 1;
		return 0;
	case HALF:
		opt.half_chunk = 1;
		return 0;
	case NACK:
		opt.nack = 1;
		return 0;
	case RESET:
		opt.linger = 1;
		return 0;
	case LAST:
		opt.end_last = 1;
		return 0;
	case THEN:
		opt.then = arg;
		return 0;
	case CONNECTIONS:
		opt.connections = number;
		return 0;
	case ARGP_KEY_END:
		if (opt.listen < 0 && !opt.connect)
			argp_error(state, "--listen or --connect");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp argp = { options, parse, NULL, "A pseudo-node for tests.",
					  NULL,    NULL,  NULL };
	p2pnode_argv = argv;
	if (argp_parse(&argp, argc, argv, 0, NULL, NULL) != 0 || sodium_init() < 0)
		return 2;
	p2p_noise_start(opt.seed, opt.size);
	if (!opt.burst)
		opt.burst = 1;
	load_identity();
	if (getenv("P2PNODE_FD")) {
		converse(atoi(getenv("P2PNODE_FD")),
			 strcmp(getenv("P2PNODE_ROLE"), "initiator") == 0);
		return 0;
	}
	int listener = opt.listen >= 0 ? listen_on(opt.listen) : -1;
	if (opt.connect && listener >= 0) {
		/* a node listens before it connects; whoever tests says when */
		char line[16];
		if (!fgets(line, sizeof(line), stdin))
			return 1;
	}
	for (unsigned long n = 0; n < opt.connections; n++) {
		int fd = opt.connect ? connect_to(opt.connect) : accept(listener, NULL, NULL);
		if (fd < 0)
			p2pio_die("accept");
		converse(pass_on(fd), opt.connect != NULL);
	}
	return 0;
}
