/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/sockets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fileio.h"

static int add(struct proc_sockets *sockets, const struct proc_socket *row)
{
	if (sockets->count == sockets->cap) {
		size_t cap = sockets->cap ? sockets->cap * 2 : 256;
		struct proc_socket *rows = realloc(sockets->rows, cap * sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		sockets->rows = rows;
		sockets->cap = cap;
	}
	sockets->rows[sockets->count++] = *row;
	return 0;
}

/*
 * "0100007F:1F90" or 32 digits: words of 32 bits as this machine reads them, memory being in
 * network order.
 */
static int address(const char *text, uint8_t ip[16], uint16_t *port)
{
	const char *colon = strchr(text, ':');
	size_t digits = colon ? (size_t)(colon - text) : 0, words = digits / 8;
	if ((digits != 8 && digits != 32) || sscanf(colon + 1, "%4" SCNx16, port) != 1)
		return -EBADMSG;
	memset(ip, 0, 16);
	if (words == 1)
		ip[10] = ip[11] = 0xff;
	for (size_t i = 0; i < words; i++) {
		char word[9] = "";
		char *end;
		memcpy(word, text + i * 8, 8);
		uint32_t value = (uint32_t)strtoul(word, &end, 16);
		if (*end)
			return -EBADMSG;
		memcpy(ip + (words == 1 ? 12 : i * 4), &value, 4);
	}
	return 0;
}

int proc_sockets_parse(struct proc_sockets *sockets, const char *text)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		char local[48], remote[48];
		struct proc_socket row;
		unsigned state;
		line += *line == '\n';
		memset(&row, 0, sizeof(row));
		if (sscanf(line, " %*u: %47s %47s %x %*s %*s %*s %*u %*u %" SCNu64, local, remote,
			   &state, &row.inode) != 4)
			continue;
		row.state = (uint8_t)state;
		if (address(local, row.local_ip, &row.local_port) < 0 ||
		    address(remote, row.remote_ip, &row.remote_port) < 0)
			continue;
		if (add(sockets, &row) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* The kernel fills whole lines into each read of a page or more. */
static int read_table(struct proc_sockets *sockets, const char *path, struct err *err)
{
	size_t len = 0, cap = 1 << 16;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(err, -errno, "cannot open '%s'", path);
	char *text = malloc(cap);
	int rc = text ? 0 : -ENOMEM;
	while (rc == 0) {
		if (cap - len < 1 << 15) {
			char *more = realloc(text, cap *= 2);
			if (!more) {
				rc = -ENOMEM;
				break;
			}
			text = more;
		}
		ssize_t n = read(fd, text + len, cap - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = -errno;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	close(fd);
	if (rc == 0) {
		text[len] = '\0';
		rc = proc_sockets_parse(sockets, text);
	}
	free(text);
	return rc < 0 ? err_set(err, rc, "cannot read '%s'", path) : 0;
}

int proc_sockets_read(struct proc_sockets *sockets, struct err *err)
{
	sockets->count = 0;
	int rc = read_table(sockets, "/proc/self/net/tcp", err);
	return rc < 0 ? rc : read_table(sockets, "/proc/self/net/tcp6", err);
}

void proc_sockets_fini(struct proc_sockets *sockets)
{
	free(sockets->rows);
	memset(sockets, 0, sizeof(*sockets));
}

int proc_socket_inodes(uint32_t pid, void (*each)(void *ctx, uint64_t inode), void *ctx)
{
	char path[40], target[64];
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/fd", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return -errno;
	int rc = 0;
	for (const struct dirent *entry; (entry = readdir(dir));) {
		uint64_t inode;
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		if (n < 0) {
			if (errno == EACCES || errno == EPERM)
				rc = -errno;
			continue; /* "." and "..", or closed meanwhile */
		}
		target[n] = '\0';
		if (sscanf(target, "socket:[%" SCNu64 "]", &inode) == 1)
			each(ctx, inode);
	}
	closedir(dir);
	return rc;
}

int proc_each(void (*each)(void *ctx, uint32_t pid, uint32_t parent, uint64_t start), void *ctx)
{
	DIR *dir = opendir("/proc");
	if (!dir)
		return -errno;
	for (const struct dirent *entry; (entry = readdir(dir));) {
		char *end, path[300], text[1024];
		unsigned long pid = strtoul(entry->d_name, &end, 10);
		if (*end || end == entry->d_name)
			continue;
		snprintf(path, sizeof(path), "%s/stat", entry->d_name);
		if (fileio_text(dirfd(dir), path, text, sizeof(text)) <= 0)
			continue; /* ended meanwhile */
		/*
		 * the name between the parentheses may hold any character, the last ')' is the
		 * kernel's
		 */
		const char *behind = strrchr(text, ')');
		unsigned parent;
		uint64_t start;
		/* fields 3, 4 and 22 */
		if (behind && sscanf(behind + 1,
				     " %*c %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
				     "%*s %*s %*s %*s %" SCNu64,
				     &parent, &start) == 2)
			each(ctx, (uint32_t)pid, parent, start);
	}
	closedir(dir);
	return 0;
}
