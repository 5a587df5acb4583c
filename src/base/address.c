/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int address_host(const char *text, char *host, size_t cap)
{
	const char *end;
	if (text[0] == '[') {
		text++;
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return -1;
	} else {
		end = strchr(text, ':');
		if (!end)
			end = text + strlen(text);
	}
	size_t len = (size_t)(end - text);
	if (!len || len >= cap)
		return -1;
	for (size_t i = 0; i < len; i++)
		host[i] = (char)tolower((unsigned char)text[i]);
	host[len] = '\0';
	return 0;
}

int address_is_ip(const char *host)
{
	uint8_t ip[16];
	return inet_pton(AF_INET, host, ip) == 1 || inet_pton(AF_INET6, host, ip) == 1;
}

int address_is_loopback(const char *host)
{
	uint8_t ip[16];
	if (strcmp(host, "localhost") == 0)
		return 1;
	if (inet_pton(AF_INET, host, ip) == 1)
		return ip[0] == 127;
	return inet_pton(AF_INET6, host, ip) == 1 && memcmp(ip, &in6addr_loopback, 16) == 0;
}

int address_parse(const char *text, unsigned default_port, struct sockaddr_storage *out,
		  socklen_t *len, int *loopback, struct err *err)
{
	char host[256] = "127.0.0.1";
	const char *port_text = text ? strrchr(text, ':') : NULL;
	unsigned long port = default_port;
	memset(out, 0, sizeof(*out));
	if (text && text[0]) {
		char *end = NULL;
		int only_port = strspn(text, "0123456789") == strlen(text);
		if (port_text && port_text != text && address_host(text, host, sizeof(host)) < 0)
			return err_set(err, -EINVAL, "cannot listen on '%s': not ADDR:PORT", text);
		if (!port_text && !only_port) {
			if (strlen(text) >= sizeof(host))
				return err_set(err, -EINVAL, "cannot listen on '%s': not ADDR:PORT",
					       text);
			strcpy(host, text);
		} else {
			const char *number = only_port ? text : port_text + 1;
			port = strtoul(number, &end, 10);
			if (!number[0] || *end || port > 65535)
				return err_set(err, -EINVAL,
					       "cannot listen on '%s': '%s' is no port", text,
					       number);
		}
	}
	if (strcmp(host, "localhost") == 0)
		strcpy(host, "127.0.0.1");
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		*len = sizeof(*v4);
	} else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		*len = sizeof(*v6);
	} else {
		return err_set(err, -EINVAL, "cannot listen on '%s': '%s' is no IP address", text,
			       host);
	}
	*loopback = address_is_loopback(host);
	return 0;
}

int address_listen(const char *text, unsigned default_port, int backlog, int *loopback,
		   struct err *err)
{
	struct sockaddr_storage addr;
	socklen_t len = 0;
	int rc = address_parse(text, default_port, &addr, &len, loopback, err);
	if (rc < 0)
		return rc;
	int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	if (fd < 0)
		return err_set(err, -errno, "cannot open a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&addr, len) == 0 && listen(fd, backlog) == 0)
		return fd;
	rc = text ? err_set(err, -errno, "cannot listen on '%s'", text)
		  : err_set(err, -errno, "cannot listen on '127.0.0.1:%u'", default_port);
	if (rc == -EADDRINUSE)
		err_hint(err, "another program has that port: choose one, or 0 for any free one");
	close(fd);
	return rc;
}

void address_text(const struct sockaddr_storage *addr, char *to, size_t size)
{
	char ip[INET6_ADDRSTRLEN] = "?";
	int v6 = addr->ss_family == AF_INET6;
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	inet_ntop(addr->ss_family,
		  v6 ? (const void *)&in6->sin6_addr : (const void *)&in4->sin_addr, ip,
		  sizeof(ip));
	snprintf(to, size, v6 ? "[%s]:%u" : "%s:%u", ip,
		 ntohs(v6 ? in6->sin6_port : in4->sin_port));
}
