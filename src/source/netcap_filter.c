/* SPDX-License-Identifier: Apache-2.0 */
#include "source/netcap_filter.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <linux/filter.h>
#include <linux/if_packet.h>

struct filter {
	struct sock_filter code[BPF_MAXINSNS];
	unsigned len;
};

static void emit(struct filter *f, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	if (f->len < BPF_MAXINSNS)
		f->code[f->len++] = (struct sock_filter){ code, jt, jf, k };
}

/* Return @value if the accumulator is @k. */
static void emit_if(struct filter *f, uint32_t k, uint32_t value)
{
	emit(f, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
	emit(f, BPF_RET | BPF_K, value, 0, 0);
}

static int attach(int fd, const struct filter *f)
{
	struct sock_fprog program = { .len = (unsigned short)f->len,
				      .filter = (struct sock_filter *)f->code };
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0 ? -errno
											   : 0;
}

#define ALL 0xffffffffu
#define LOAD(size) (BPF_LD | (size) | BPF_ABS)

int netcap_filter_tcp(int fd, const struct netcap_opt *opt, uint32_t loopback)
{
	struct filter f = { .len = 0 };
	emit(&f, LOAD(BPF_W), (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE), 0, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 4, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 2);
	emit(&f, LOAD(BPF_W), (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX), 0, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, loopback, 0, 1);
	emit(&f, BPF_RET | BPF_K, 0, 0, 0);
	/* IPv4: protocol, then the ports behind the header's length */
	emit(&f, LOAD(BPF_B), 0, 0, 0);
	emit(&f, BPF_ALU | BPF_AND | BPF_K, 0xf0, 0, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, 0x40, 0, 9);
	emit(&f, LOAD(BPF_B), 9, 0, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 1, 0);
	emit(&f, BPF_RET | BPF_K, 0, 0, 0);
	emit(&f, BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0);
	emit(&f, BPF_LD | BPF_H | BPF_IND, 0, 0, 0);
	emit(&f, BPF_ST, 0, 0, 0);
	emit(&f, BPF_LD | BPF_H | BPF_IND, 2, 0, 0);
	emit(&f, BPF_ST, 1, 0, 0);
	emit(&f, BPF_JMP | BPF_JA, 11, 0, 0);
	/* IPv6: with options before TCP it is kept unseen */
	emit(&f, LOAD(BPF_B), 6, 0, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 5, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_HOPOPTS, 2, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ROUTING, 1, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_DSTOPTS, 0, 1);
	emit(&f, BPF_RET | BPF_K, ALL, 0, 0);
	emit(&f, BPF_RET | BPF_K, 0, 0, 0);
	emit(&f, LOAD(BPF_H), 40, 0, 0);
	emit(&f, BPF_ST, 0, 0, 0);
	emit(&f, LOAD(BPF_H), 42, 0, 0);
	emit(&f, BPF_ST, 1, 0, 0);
	/*
	 * both: the kernel wants the two words stored on every way here, and takes a return for one
	 */
	for (uint32_t slot = 0; slot < 2; slot++) {
		emit(&f, BPF_LD | BPF_MEM, slot, 0, 0);
		for (size_t i = 0; i < opt->port_count; i++)
			emit_if(&f, opt->ports[i], ALL);
	}
	for (uint32_t slot = 0; slot < 2; slot++) {
		emit(&f, BPF_LD | BPF_MEM, slot, 0, 0);
		for (size_t i = 0; i < opt->skip_remote_port_count; i++)
			emit_if(&f, opt->skip_remote_ports[i], 0);
	}
	emit(&f, BPF_RET | BPF_K, ALL, 0, 0);
	return attach(fd, &f);
}

int netcap_filter_syn(int fd)
{
	struct filter f = { .len = 0 };
	emit(&f, LOAD(BPF_W), (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE), 0, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 1, 0);
	emit(&f, BPF_RET | BPF_K, 0, 0, 0);
	emit(&f, LOAD(BPF_B), 0, 0, 0);
	emit(&f, BPF_ALU | BPF_AND | BPF_K, 0xf0, 0, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, 0x40, 0, 5);
	emit(&f, LOAD(BPF_B), 9, 0, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 5);
	emit(&f, BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0);
	emit(&f, BPF_LD | BPF_B | BPF_IND, 13, 0, 0);
	emit(&f, BPF_JMP | BPF_JA, 4, 0, 0);
	emit(&f, LOAD(BPF_B), 6, 0, 0);
	emit(&f, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 1, 0);
	emit(&f, BPF_RET | BPF_K, 0, 0, 0);
	emit(&f, LOAD(BPF_B), 40 + 13, 0, 0);
	emit(&f, BPF_JMP | BPF_JSET | BPF_K, 2, 0, 1);
	emit(&f, BPF_RET | BPF_K, ALL, 0, 0);
	emit(&f, BPF_RET | BPF_K, 0, 0, 0);
	return attach(fd, &f);
}

int netcap_filter_nothing(int fd)
{
	struct filter f = { .len = 0 };
	emit(&f, BPF_RET | BPF_K, 0, 0, 0);
	return attach(fd, &f);
}
