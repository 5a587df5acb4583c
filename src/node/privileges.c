/* SPDX-License-Identifier: Apache-2.0 */
#include "node/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

static int foreign(const char *path)
{
	struct stat st;
	return stat(path, &st) < 0 || st.st_uid != geteuid();
}

static uint64_t needed(const struct nodes_config *c, const struct netcap *cap)
{
	uint64_t keep = 0;
	if (cap && netcap_backend(cap) == NETCAP_BPF)
		keep = 1ull << CAP_BPF; /* the ring's counters are read by bpf() */
	else if (cap)
		keep = 1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH; /* whose sockets are */
	if (c->token_file && foreign(c->token_file))
		keep |= 1ull << CAP_DAC_READ_SEARCH;
	if (c->http_v2 && c->http_v2 < 1024)
		keep |= 1ull << CAP_NET_BIND_SERVICE;
	for (size_t i = 0; i < c->node_count; i++) {
		const struct node_config *node = &c->nodes[i];
		if (node->http_v3 && node->http_v3 < 1024)
			keep |= 1ull << CAP_NET_BIND_SERVICE;
		if (foreign(node->db))
			keep |= 1ull << CAP_DAC_OVERRIDE;
		/* one that is not there yet may belong to anybody when it comes */
		for (size_t k = 0; k < node->identity_count; k++)
			keep |= foreign(node->identities[k]) ? 1ull << CAP_DAC_READ_SEARCH : 0;
	}
	return keep;
}

/* ---- whom it becomes ------------------------------------------------------------------------- */

struct user {
	uid_t uid;
	gid_t gid;
	/* "" = known by number only */
	char name[64];
};

static int take_user(struct user *user, const struct passwd *entry)
{
	if (!entry)
		return -ENOENT;
	user->uid = entry->pw_uid;
	user->gid = entry->pw_gid;
	snprintf(user->name, sizeof(user->name), "%s", entry->pw_name);
	return 0;
}

/*
 * A folder that this run made belongs to whom the recorder becomes; by its descriptor, for names
 * can be moved.
 */
static int give_folder(const char *path, const struct user *user, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int rc = fd < 0 || fchown(fd, user->uid, user->gid) < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return rc < 0 ? err_set(err, rc, "cannot give store '%s' to user '%s'", path, user->name)
		      : 0;
}

/* The one owner of all stores, unless that is us. */
static int owner_of_stores(const struct nodes_config *c, struct user *user)
{
	struct stat st, first = { 0 };
	for (size_t i = 0; i < c->node_count; i++) {
		if (stat(c->nodes[i].db, &st) < 0)
			return -ENOENT;
		if (i && st.st_uid != first.st_uid)
			return -ENOENT;
		first = i ? first : st;
	}
	if (!first.st_uid)
		return -ENOENT;
	if (take_user(user, getpwuid(first.st_uid)) < 0) {
		user->uid = first.st_uid;
		user->gid = first.st_gid;
		user->name[0] = '\0';
	}
	return 0;
}

/* 1 = @user is to be become; new stores are made, and are given to it. */
static int choose(const struct nodes_config *c, struct user *user, struct err *err)
{
	int named = c->user && geteuid() == 0;
	if (named && take_user(user, getpwnam(c->user)) < 0) {
		err_set(err, -ENOENT, "cannot become user '%s': there is none of that name",
			c->user);
		return err_hint(err, "'user' in the configuration is a name of this machine");
	}
	for (size_t i = 0; i < c->node_count; i++) {
		const char *db = c->nodes[i].db;
		if (mkdir(db, 0700) < 0) {
			if (errno == EEXIST)
				continue;
			return err_set(err, -errno, "cannot open store '%s'", db);
		}
		int rc = named ? give_folder(db, user, err) : 0;
		if (rc < 0)
			return rc;
	}
	return geteuid() != 0 ? 0 : named ? user->uid != 0 : owner_of_stores(c, user) == 0;
}

static int become(const struct user *user, struct err *err)
{
	/* capabilities outlive the change, those that are kept are chosen behind it */
	int rc = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : 0;
	if (rc == 0 && (user->name[0] ? initgroups(user->name, user->gid) : setgroups(0, NULL)) < 0)
		rc = -errno;
	if (rc == 0 && (setresgid(user->gid, user->gid, user->gid) < 0 ||
			setresuid(user->uid, user->uid, user->uid) < 0))
		rc = -errno;
	return rc < 0 ? err_set(err, rc, "cannot become user %u", (unsigned)user->uid) : 0;
}

/* ---- what it may ask of the kernel ----------------------------------------------------------- */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define NEVER(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), REFUSE
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

/*
 * A recorder reads, writes its stores and answers. What starts programs, looks into others or
 * changes the machine fails.
 */
static void refuse_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		REFUSE,
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
		NEVER(execve),
		NEVER(execveat),
		NEVER(ptrace),
		NEVER(process_vm_readv),
		NEVER(process_vm_writev),
		NEVER(mount),
		NEVER(umount2),
		NEVER(pivot_root),
		NEVER(chroot),
		NEVER(setns),
		NEVER(unshare),
		NEVER(init_module),
		NEVER(finit_module),
		NEVER(delete_module),
		NEVER(kexec_load),
		NEVER(kexec_file_load),
		NEVER(reboot),
		NEVER(swapon),
		NEVER(swapoff),
		NEVER(add_key),
		NEVER(request_key),
		NEVER(keyctl),
		NEVER(open_by_handle_at),
		NEVER(userfaultfd),
		NEVER(perf_event_open),
		NEVER(settimeofday),
		NEVER(clock_settime),
		NEVER(sethostname),
		NEVER(setuid),
		NEVER(setresuid),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = (unsigned short)ARRAY_LEN(filter), .filter = filter };
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* ---- what it may reach of the file system ---------------------------------------------------- */

#define LOOK (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define KEEP                                                                  \
	(LOOK | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define HANDLED                                                              \
	(KEEP | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_CHAR |        \
	 LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |      \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* All below @path, which is a folder. What is not there needs no way to it. */
static int allow(int rules, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr below = { .allowed_access = access };
	int rc = 0;

	below.parent_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (below.parent_fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) < 0)
		rc = -errno;
	close(below.parent_fd);
	return rc;
}

/*
 * The folder that @path lies in, and the one it leads to: a file that is replaced, or comes later,
 * is found there.
 */
static int allow_around(int rules, const char *path)
{
	char *ways[] = { path ? strdup(path) : NULL, path ? realpath(path, NULL) : NULL };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		char *slash = ways[i] ? strrchr(ways[i], '/') : NULL;
		if (slash)
			slash[slash == ways[i]] = '\0';
		if (ways[i] && rc == 0)
			rc = allow(rules, slash ? ways[i] : ".", LOOK);
		free(ways[i]);
	}
	return rc;
}

/*
 * Stores are written, folders of identities and of the token read, and /proc, where what it takes
 * itself stands. By packet sockets it looks into others' descriptors to tell whose a connection is,
 * which the kernel refuses to who is confined so: then nothing is. Kernels without it say so.
 */
static int refuse_paths(const struct nodes_config *c, const struct netcap *cap)
{
	const struct landlock_ruleset_attr all = { .handled_access_fs = HANDLED };
	int rules, rc = 0;

	if (cap && netcap_backend(cap) != NETCAP_BPF)
		return 0;
	rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0);
	if (rules < 0)
		return 0;
	rc = allow(rules, "/proc", LOOK);
	if (rc == 0) /* how many numbers a counter of the kernel's has */
		rc = allow(rules, "/sys/devices/system/cpu", LOOK);
	if (rc == 0 && c->token_file)
		rc = allow_around(rules, c->token_file);
	for (size_t i = 0; rc == 0 && i < c->node_count; i++) {
		const struct node_config *node = &c->nodes[i];
		rc = allow(rules, node->db, KEEP);
		for (size_t k = 0; rc == 0 && k < node->identity_count; k++)
			rc = allow_around(rules, node->identities[k]);
	}
	if (rc == 0 && syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		rc = -errno;
	close(rules);
	return rc;
}

int nodes_privileges_drop(const struct nodes_config *config, const struct netcap *cap,
			  struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	struct rlimit none = { 0, 0 };
	struct user user;
	int rc = choose(config, &user, err);
	/* while we may still say so: what is not there cannot come back by running a file either */
	for (unsigned long number = 0; rc >= 0 && number < 64; number++)
		prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
	if (rc > 0)
		rc = become(&user, err);
	if (rc < 0)
		return rc;
	uint64_t keep = needed(config, cap);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* keys are in this memory: no core file, no other process of the same user that reads it */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	memset(data, 0, sizeof(data));
	if (syscall(SYS_capget, &head, data) == 0) {
		for (int i = 0; i < 2; i++) {
			uint32_t part = (uint32_t)(keep >> (32 * i));
			data[i].permitted &= part;
			data[i].effective = data[i].permitted;
			data[i].inheritable = 0;
		}
		/* fewer are always granted */
		syscall(SYS_capset, &head, data);
	}
	rc = refuse_paths(config, cap);
	if (rc < 0)
		return err_set(err, rc, "cannot give up the file system beside the stores");
	refuse_calls();
	return 0;
}
