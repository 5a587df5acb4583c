/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_latency.c - a client of a redis-server: PORT CONNECTIONS RATE SECONDS KEYS. GETs of random keys, key:0 to key:KEYS-1, on each
 * connection one at a time; RATE 0: as fast as answers come, else so many a second on all connections, timed from when each was due.
 * Then reads lines "FROM TO" (ns of CLOCK_MONOTONIC) from stdin and says as JSON how long answers took, in microseconds, of requests
 * begun in one of these windows, of all others, and of the same windows put elsewhere at random, 200 times.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
#define PLACES 200
#define WINDOWS_MAX 4096

struct sample {
	uint64_t began;
	float us;
};
struct connection {
	int fd, busy, timer;
	uint64_t began, due;
	char text[4096];
	size_t have;
};
struct window {
	uint64_t from, to;
};

static struct connection connections[CONNECTIONS_MAX];
static struct sample *samples;
static size_t count, room;
static uint64_t seed = 88172645463325252ull;

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void ask(struct connection *c, uint64_t began, unsigned long keys)
{
	char key[32], text[96];
	int len = snprintf(key, sizeof(key), "key:%lu", (unsigned long)(next_random() % keys));
	int all = snprintf(text, sizeof(text), "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len, key);
	c->began = began;
	c->busy = 1;
	c->have = 0;
	if (write(c->fd, text, (size_t)all) != all)
		die("write");
}

/* Whether the answer is whole: "$LENGTH\r\n...\r\n". */
static int is_whole(struct connection *c)
{
	char bulk[65536];
	ssize_t got =
		read(c->fd, c->have < sizeof(c->text) - 1 ? c->text + c->have : bulk,
		     c->have < sizeof(c->text) - 1 ? sizeof(c->text) - 1 - c->have : sizeof(bulk));
	if (got <= 0)
		die("read");
	if (c->have < sizeof(c->text) - 1)
		c->text[c->have + (size_t)got] = '\0';
	c->have += (size_t)got;
	if (c->text[0] != '$' || c->text[1] == '-') {
		fprintf(stderr, "no such key, or no redis: %.60s\n", c->text);
		exit(1);
	}
	char *line = strchr(c->text, '\n');
	return line && c->have >= (size_t)(line + 1 - c->text) + strtoul(c->text + 1, NULL, 10) + 2;
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return x < y ? -1 : x > y;
}

static int by_time(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	return x->began < y->began ? -1 : x->began > y->began;
}

static size_t first_at(uint64_t t)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (samples[mid].began < t)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* What was begun in the windows moved by @shift, around in a circle of @span from @start. */
static size_t take(const struct window *w, size_t windows, uint64_t start, uint64_t span,
		   uint64_t shift, float *to)
{
	size_t n = 0;
	for (size_t i = 0; i < windows; i++) {
		uint64_t from = start + (w[i].from - start + shift) % span,
			 len = w[i].to - w[i].from;
		for (size_t k = first_at(from), end = first_at(from + len); k < end; k++)
			to[n++] = samples[k].us;
	}
	return n;
}

static float at(const float *sorted, size_t n, double part)
{
	return n ? sorted[(size_t)((double)(n - 1) * part)] : 0;
}

static void say(const char *name, float *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	printf("\"%s\":{\"count\":%zu,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":"
	       "%.1f}",
	       name, n, (double)at(values, n, 0.5), (double)at(values, n, 0.9),
	       (double)at(values, n, 0.99), (double)at(values, n, 0.999), (double)at(values, n, 1));
}

static void tell(void)
{
	static struct window w[WINDOWS_MAX];
	size_t windows = 0, n = 0, m = 0;
	unsigned long long from, to;
	qsort(samples, count, sizeof(*samples), by_time);
	uint64_t start = samples[0].began, end = samples[count - 1].began, span = end - start;
	while (windows < WINDOWS_MAX && scanf("%llu %llu", &from, &to) == 2)
		if (from >= start && to <= end && from < to)
			w[windows++] = (struct window){ from, to };
	float *in = malloc((count + 1) * sizeof(*in)), *out = malloc((count + 1) * sizeof(*out));
	if (!in || !out)
		die("malloc");
	for (size_t i = 0, k = 0; i < count; i++) {
		while (k < windows && w[k].to <= samples[i].began)
			k++;
		if (k < windows && w[k].from <= samples[i].began)
			in[n++] = samples[i].us;
		else
			out[m++] = samples[i].us;
	}
	printf("{\"windows\":%zu,\"per_second\":%.0f,", windows,
	       (double)count * 1e9 / (double)span);
	say("inside", in, n);
	printf(",");
	say("outside", out, m);
	float p50[PLACES], p99[PLACES], p999[PLACES], max[PLACES];
	for (unsigned i = 0; i < PLACES && windows; i++) {
		n = take(w, windows, start, span, next_random() % span, in);
		qsort(in, n, sizeof(*in), by_value);
		p50[i] = at(in, n, 0.5);
		p99[i] = at(in, n, 0.99);
		p999[i] = at(in, n, 0.999);
		max[i] = at(in, n, 1);
	}
	if (windows) {
		const char *names[] = { "p50", "p99", "p999", "max" };
		float *all[] = { p50, p99, p999, max };
		printf(",\"elsewhere\":{");
		for (unsigned i = 0; i < 4; i++) {
			qsort(all[i], PLACES, sizeof(float), by_value);
			printf("%s\"%s\":[%.1f,%.1f,%.1f]", i ? "," : "", names[i],
			       (double)at(all[i], PLACES, 0.05), (double)at(all[i], PLACES, 0.5),
			       (double)at(all[i], PLACES, 0.95));
		}
		printf("}");
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[1])) };
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	unsigned n = (unsigned)atoi(argv[2]);
	double rate = atof(argv[3]), seconds = atof(argv[4]);
	unsigned long keys = strtoul(argv[5], NULL, 10);
	uint64_t step = rate > 0 ? (uint64_t)(1e9 * n / rate) : 0;
	int epoll = epoll_create1(0);
	if (!n || n > CONNECTIONS_MAX || !keys || epoll < 0)
		return 2;
	for (unsigned i = 0; i < n; i++) {
		int one = 1;
		struct connection *c = &connections[i];
		c->fd = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
			die("connect");
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
		epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
	}
	uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), tick = step;
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	if (step) {
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = CONNECTIONS_MAX };
		epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
		tick = step / n;
		struct itimerspec every = { .it_interval.tv_nsec = (long)tick,
					    .it_value.tv_nsec = (long)tick };
		timerfd_settime(timer, 0, &every, NULL);
	}
	for (unsigned i = 0; i < n; i++) {
		connections[i].due = start + tick * i;
		if (!step)
			ask(&connections[i], now_ns(), keys);
	}
	struct epoll_event events[64];
	for (uint64_t now = start; now < end;) {
		int got = epoll_wait(epoll, events, 64, 1000);
		now = now_ns();
		for (int i = 0; i < got; i++) {
			if (events[i].data.u32 == CONNECTIONS_MAX) {
				uint64_t times;
				if (read(timer, &times, sizeof(times)) < 0 && errno != EAGAIN)
					die("timer");
				continue;
			}
			struct connection *c = &connections[events[i].data.u32];
			if (!is_whole(c))
				continue;
			now = now_ns();
			if (count == room) {
				room = room ? room * 2 : 1 << 20;
				samples = realloc(samples, room * sizeof(*samples));
				if (!samples)
					die("realloc");
			}
			samples[count++] =
				(struct sample){ c->began, (float)(now - c->began) / 1000 };
			c->busy = 0;
			if (!step)
				ask(c, now, keys);
		}
		for (unsigned i = 0; step && i < n; i++) {
			struct connection *c = &connections[i];
			if (!c->busy && c->due <= now) {
				ask(c, c->due, keys);
				c->due += step;
			}
		}
	}
	if (count < 1000)
		return 1;
	tell();
	return 0;
}
