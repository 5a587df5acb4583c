/* SPDX-License-Identifier: Apache-2.0 */
/* embed_rules.c - each promise of byteledger.h, tried; ends with 0 if all hold, else says which does not. */
#include <byteledger.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static int failures;

static void holds(int condition, const char *promise)
{
	if (!condition) {
		printf("does not hold: %s\n", promise);
		failures++;
	}
}

static char page_text[1 << 20];

static int shows(const char *text)
{
	ssize_t len = byteledger_breakdown_text(page_text, sizeof(page_text), 50);
	return len > 0 && strstr(page_text, text) != NULL;
}

static void *name_many(void *arg)
{
	char *at = arg;
	for (int i = 0; i < 200; i++) {
		char name[32];
		snprintf(name, sizeof(name), "racer-%d", i);
		byteledger_name(at + (size_t)(i % 16) * 4096, 4096, name);
	}
	return NULL;
}

static atomic_int stop;

static void *name_on(void *at)
{
	for (unsigned i = 0; !stop; i++)
		byteledger_name(at, 4096, i % 2 ? "odd" : "even");
	return NULL;
}

/* A child of a program whose other thread is just naming can name, too: it would wait for ever for a lock without an owner. */
static void forks_while_another_thread_names(char *at)
{
	pthread_t thread;
	pthread_create(&thread, NULL, name_on, at);
	for (int i = 0; i < 40; i++) {
		pid_t child = fork();
		if (child == 0) {
			alarm(20);
			_exit(byteledger_name(at, 4096, "child") != 0);
		}
		int status = -1;
		waitpid(child, &status, 0);
		if (status != 0) {
			holds(0, "a child forked while another thread names can name");
			break;
		}
	}
	stop = 1;
	pthread_join(thread, NULL);
}

static int socket_to(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* A port that nobody uses now. */
static int free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
	bind(fd, (struct sockaddr *)&at, len);
	getsockname(fd, (struct sockaddr *)&at, &len);
	close(fd);
	return ntohs(at.sin_port);
}

static int serve_on(int port)
{
	char address[32];
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	return byteledger_serve(address);
}

static int answers(int port)
{
	static const char request[] = "GET /debug/memory HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char answer[16] = "";
	int fd = socket_to(port);
	if (fd < 0 || send(fd, request, sizeof(request) - 1, 0) < 0 ||
	    recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL) < 12)
		return 0;
	close(fd);
	return strncmp(answer, "HTTP/1.1 200", 12) == 0;
}

static int sockets_open(void)
{
	int count = 0;
	DIR *dir = opendir("/proc/self/fd");
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		int type;
		socklen_t len = sizeof(type);
		count += getsockopt(atoi(entry->d_name), SOL_SOCKET, SO_TYPE, &type, &len) == 0;
	}
	closedir(dir);
	return count;
}

static void serves_across_fork(void)
{
	int port = free_port(), theirs = free_port(), before = sockets_open();
	holds(serve_on(port) == 0 && answers(port), "the parent serves");
	holds(serve_on(free_port()) == -EBUSY, "one responder a process");
	int caller = socket_to(port);
	/* the listener, both ends of this call, and nothing more of the last one */
	while (sockets_open() != before + 3)
		usleep(1000);
	pid_t child = fork();
	if (child == 0) {
		failures = 0;
		alarm(60);
		close(caller);
		holds(sockets_open() == before,
		      "the child has neither the listener nor a caller of its parent");
		holds(serve_on(theirs) == 0 && answers(theirs), "the child can serve");
		holds(answers(port), "the parent serves meanwhile");
		fflush(stdout);
		_exit(failures);
	}
	int status;
	waitpid(child, &status, 0);
	holds(WIFEXITED(status) && WEXITSTATUS(status) == 0, "serving in the child");
	holds(answers(port), "the parent still serves");
	close(caller);
}

int main(void)
{
	char *at = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(at, 1, 16 * MIB);
	errno = 77;
	holds(byteledger_name(at, MIB, "fine name.1") == 0, "a name is taken");
	holds(errno == 77, "errno survives");
	holds(shows("fine name.*"), "and shown");
	holds(byteledger_name(at + 1, MIB, "x") == -EADDRNOTAVAIL,
	      "not the beginning of a page is refused, and said");
	int ends[2];
	char brief[1024] = "";
	unsigned long long rss = 0;
	errno = 78;
	holds(pipe(ends) == 0 && byteledger_breakdown_signal(ends[1]) == 0 && errno == 78,
	      "a handler can ask, too");
	holds(read(ends[0], brief, sizeof(brief) - 1) > 50 &&
		      sscanf(brief, "RSS %llu KiB", &rss) == 1 && rss > 16 * 1024 &&
		      strstr(brief, "libraries") && strstr(brief, "anonymous"),
	      "and is told what there is");
	holds(byteledger_breakdown_signal(-1) == -EBADF, "or why not");
	close(ends[0]);
	close(ends[1]);
	holds(byteledger_serve_token("127.0.0.1:1", "short") == -EINVAL &&
		      byteledger_serve_token("127.0.0.1:1", "with a blank in it") == -EINVAL &&
		      byteledger_serve_token("127.0.0.1:1", NULL) == -EINVAL,
	      "a token that is none is refused");
	holds(byteledger_name(at, 0, "x") == -EINVAL, "no bytes are refused");
	holds(byteledger_name(at, (size_t)-4096, "x") == -EINVAL, "wrapping around is refused");
	holds(byteledger_name(at, MIB, "") == -EINVAL, "an empty name is refused");
	holds(byteledger_name(at, MIB, "a]b") == -EINVAL, "a bracket is refused");
	holds(byteledger_name(at, MIB, "a\nb") == -EINVAL, "a line end is refused");
	char longest[BYTELEDGER_NAME_MAX + 2];
	memset(longest, 'q', sizeof(longest));
	longest[BYTELEDGER_NAME_MAX + 1] = '\0';
	holds(byteledger_name(at, MIB, longest) == -EINVAL, "80 characters are refused");
	longest[BYTELEDGER_NAME_MAX] = '\0';
	holds(byteledger_name(at, MIB, longest) == 0 && shows("qqqqqqqq"), "79 are taken");
	holds(!shows("fine name"), "naming again replaces");
	holds(byteledger_name(at, 16 * MIB, "whole") == 0, "a larger range replaces a smaller");
	holds(byteledger_name(at + 4 * MIB, MIB, "middle") == 0 && shows("middle") &&
		      shows("whole"),
	      "a smaller one leaves the rest");
	holds(byteledger_name(at, 16 * MIB, NULL) == 0 && !shows("middle") && !shows("whole"),
	      "NULL takes names away");
	char *gone = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(gone, 4096);
	holds(byteledger_name(gone, 4096, "nothing") == -ENOMEM,
	      "where nothing is mapped there is no name");
	int full = 0;
	char *many = mmap(NULL, 8100 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 8100 && !full; i++)
		full = byteledger_name(many + (size_t)i * 4096, 4096, "many");
	holds(full == 0 || full == -ENOSPC, "a full table says so");
	holds(byteledger_name(many, 8100 * 4096, NULL) == 0, "and can be emptied");
	holds(byteledger_name(at, MIB, "again") == 0 && shows("again"), "and used again");

	holds(byteledger_breakdown(1, -1) == -EINVAL && byteledger_breakdown(1, 1001) == -EINVAL,
	      "top is checked");
	holds(byteledger_breakdown(-1, 5) == -EBADF, "write()'s error is returned");
	char small[16];
	ssize_t len = byteledger_breakdown_text(small, sizeof(small), 0);
	holds(len > 100 && strlen(small) == 15,
	      "a small buffer is filled, terminated, and the length told");
	holds(byteledger_breakdown_text(NULL, 0, 0) > 100, "no buffer: only the length");

	/* the child of fork() has the names of its parent, and its own from then on */
	holds(byteledger_name(at, MIB, "before fork") == 0, "named before fork()");
	pid_t child = fork();
	if (child == 0) {
		failures = 0;
		holds(shows("before fork"), "the child has its parent's names");
		holds(byteledger_name(at, MIB, "of the child") == 0 && shows("of the child"),
		      "and can change them");
		_exit(failures);
	}
	int status;
	waitpid(child, &status, 0);
	holds(WIFEXITED(status) && WEXITSTATUS(status) == 0, "names in the child");
	holds(shows("before fork") && !shows("of the child"), "the parent's names stay");

	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, name_many, at + (size_t)i * MIB);
	for (int i = 0; i < 20; i++)
		holds(shows("sum of all mappings"), "threads may name while another looks");
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);

	/* nothing stays behind */
	int before = open("/dev/null", 0);
	close(before);
	for (int i = 0; i < 50; i++)
		byteledger_breakdown_text(page_text, sizeof(page_text), 20);
	int after = open("/dev/null", 0);
	holds(before == after, "no descriptor stays open");
	forks_while_another_thread_names(at);
	serves_across_fork();
	return failures != 0;
}
