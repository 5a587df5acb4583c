/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/target.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fileio.h"
#include "proc/proc.h"

#define PIECES_MAX 64
#define PROCESS_FLAG_KERNEL_THREAD 0x00200000u /* PF_KTHREAD */

#define OWN_PATH_MAX 96

/* "/proc/TID/NAME" where no folder is held: to open one costs more than these few paths do. */
static const char *path_of(const struct target *target, const char *name, char *path)
{
	if (target->dir >= 0)
		return name;
	snprintf(path, OWN_PATH_MAX, "/proc/%d/%s", (int)target->tid, name);
	return path;
}

int target_openat(const struct target *target, const char *name, int flags)
{
	char path[OWN_PATH_MAX];
	return openat(target->dir, path_of(target, name, path), flags);
}

ssize_t target_text(const struct target *target, const char *name, char *text, size_t size)
{
	char path[OWN_PATH_MAX];
	return fileio_text(target->dir, path_of(target, name, path), text, size);
}

/** field() - the number behind "\nNAME:" in status; -1 where there is none. */
static long long field(const char *status, const char *name)
{
	const char *at = strstr(status, name);
	return at ? strtoll(at + strlen(name), NULL, 0) : -1;
}

/** state() - the letter of "State:" in status. */
static char state(const char *status)
{
	const char *at = strstr(status, "\nState:");
	if (!at)
		return '?';
	at += 7;
	while (*at == ' ' || *at == '\t')
		at++;
	return *at;
}

/**
 * is_kernel_thread() - by its flags: a process that is just ending has no memory left either, and
 * is no zombie yet.
 */
static int is_kernel_thread(const struct target *target)
{
	char text[1024];
	unsigned flags = 0;
	const char *at =
		target_text(target, "stat", text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
	return at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       flags & PROCESS_FLAG_KERNEL_THREAD;
}

/* Its mode lets nobody else read it, whoever may trace the process. */
static int is_owners_alone(const struct target *target, const char *file)
{
	struct stat about;
	return fstatat(target->dir, file, &about, 0) == 0 && !(about.st_mode & S_IROTH);
}

int target_fail(const struct target *target, int code, const char *what, struct err *err)
{
	char status[4096];
	ssize_t got = target_text(target, "status", status, sizeof(status));
	if (code == -ESRCH || code == -ENOENT || got <= 0 || state(status) == 'Z' ||
	    state(status) == 'X') {
		err_set(err, -ESRCH, "cannot read the %s of process %d ('%s')", what,
			(int)target->pid, target->comm);
		return err_hint(err, "it ended meanwhile");
	}
	err_set(err, code, "cannot read the %s of process %d ('%s')", what, (int)target->pid,
		target->comm);
	if (code == -EACCES || code == -EPERM) {
		struct stat about;
		uid_t uid = fstat(target->dir, &about) == 0 ? about.st_uid : (uid_t)-1;
		if (uid != geteuid() && uid != (uid_t)-1)
			return err_hint(err,
					"it belongs to user %u; run as that user, as root, or with "
					"CAP_SYS_PTRACE%s",
					(unsigned)uid,
					is_owners_alone(target, what) ? " and CAP_DAC_READ_SEARCH"
								      : "");
		return err_hint(err, "run as root or with CAP_SYS_PTRACE: the process is protected "
				     "(not dumpable, or in another user namespace)");
	}
	return code;
}

static void look_at_exe(struct target *target)
{
	ssize_t len = readlinkat(target->dir, "exe", target->exe, sizeof(target->exe) - 1);
	target->exe[len > 0 ? len : 0] = '\0';
	struct stat exe;
	if (fstatat(target->dir, "exe", &exe, 0) == 0) {
		target->exe_inode = exe.st_ino;
		target->exe_device = exe.st_dev;
	}
}

static struct target own;

static void look_once(void)
{
	own.dir = open("/proc/thread-self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (own.dir < 0)
		return;
	look_at_exe(&own);
	close(own.dir);
}

/** look_at_own_exe() - a process keeps its executable until exec() replaces all of this. */
static void look_at_own_exe(struct target *target)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, look_once);
	strcpy(target->exe, own.exe);
	target->exe_inode = own.exe_inode;
	target->exe_device = own.exe_device;
}

/*
 * Read from now on by a thread that outlived the main one. Its own folder in /proc has all that the
 * process's has; the main thread's number is nobody else's before all have ended.
 */
static int take_thread(struct target *target, char *status, size_t size)
{
	char path[64];
	pid_t tid = proc_living_thread(target->pid);
	snprintf(path, sizeof(path), "/proc/%d", (int)tid);
	int dir = tid ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (dir < 0)
		return 0;
	struct target thread = { .pid = target->pid, .tid = tid, .dir = dir };
	if (target_text(&thread, "status", status, size) <= 0 ||
	    field(status, "\nTgid:") != target->pid || field(status, "\nVmSize:") < 0) {
		close(dir);
		return 0;
	}
	close(target->dir);
	if (target->mem > 0)
		close(target->mem);
	target->mem = 0;
	target->dir = dir;
	target->tid = tid;
	return 1;
}

int target_again(struct target *target)
{
	char status[4096];
	ino_t inode = target->exe_inode;
	if (!take_thread(target, status, sizeof(status)))
		return 0;
	look_at_exe(target);
	return target->exe_inode == inode;
}

void target_renew(struct target *target)
{
	char comm[sizeof(target->comm)];
	ssize_t len = target_text(target, "comm", comm, sizeof(comm));
	/* what is open is the memory of the program that is gone */
	if (target->mem > 0)
		close(target->mem);
	target->mem = 0;
	look_at_exe(target);
	if (len <= 0)
		return;
	comm[strcspn(comm, "\n")] = '\0';
	memcpy(target->comm, comm, sizeof(comm));
}

int target_open(struct target *target, pid_t pid, struct err *err)
{
	memset(target, 0, sizeof(*target));
	target->dir = -1;
	target->pid = pid ? pid : getpid();
	target->tid = pid ? pid : gettid(); /* the main thread may have ended */
	if (pid ==
	    /* the caller lives: asking for its status costs as much as reading a small smaps */
	    0) {
		prctl(PR_GET_NAME, target->comm);
		look_at_own_exe(target);
		return 0;
	}
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d", (int)target->tid);
	int dir = pid < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		int code = pid < 0 ? -ESRCH : -errno;
		if (code != -ENOENT && code != -ESRCH)
			return err_set(err, code, "cannot look at process %d", (int)target->pid);
		err_set(err, -ESRCH, "cannot look at process %d", (int)target->pid);
		return err_hint(err, access("/proc/self/stat", R_OK) == 0
					     ? "no process has that id; it may have ended"
					     : "/proc is not mounted here");
	}
	target->dir = dir;
	char status[4096];
	ssize_t got = target_text(target, "status", status, sizeof(status));
	if (got > 0)
		sscanf(status, "Name:\t%31[^\n]", target->comm);
	if (got < 0) {
		int rc = target_fail(target, (int)got, "status", err);
		target_close(target);
		return rc;
	}
	/* A zombie and a kernel thread have no address space: "VmSize" is missing in both. */
	if ((state(status) == 'Z' || state(status) == 'X') &&
	    !take_thread(target, status, sizeof(status))) {
		target_close(target);
		err_set(err, -ESRCH, "cannot look at process %d ('%s')", (int)target->pid,
			target->comm);
		return err_hint(err, "it has ended and waits for its parent (zombie): its memory "
				     "is gone");
	}
	if (field(status, "\nVmSize:") < 0) {
		if (!is_kernel_thread(target)) {
			int rc = target_fail(target, -ESRCH, "memory", err);
			target_close(target);
			return rc;
		}
		target_close(target);
		err_set(err, -EINVAL, "process %d ('%s') has no memory of its own",
			(int)target->pid, target->comm);
		return err_hint(err, "it is a kernel thread");
	}
	look_at_exe(target);
	return 0;
}

void target_close(struct target *target)
{
	/* 0 is the descriptor of a zeroed struct, which was never opened; ours are never 0 then */
	if (target->pid && target->dir >= 0)
		close(target->dir);
	if (target->pid && target->mem > 0)
		close(target->mem);
	target->dir = -1;
	target->mem = 0;
}

int target_file(const struct target *target, const char *name, struct err *err)
{
	int fd = target_openat(target, name, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : target_fail(target, -errno, name, err);
}

/*
 * The descriptor keeps the memory that the process had when it was opened: after an exec it reads
 * nothing more, and is opened anew. One thread a target.
 */
static int open_memory(const struct target *target)
{
	int fd = target_openat(target, "mem", O_RDONLY | O_CLOEXEC),
	    *mem = (int *)(uintptr_t)&target->mem;
	*mem = fd < 0 ? -errno : fd;
	return *mem;
}

/* Return: bytes, 0 at the first that is not mapped, negative errno. */
static ssize_t read_piece(int mem, const struct target_piece *piece)
{
	size_t done = 0;
	while (done < piece->len) {
		ssize_t got = pread(mem, (char *)piece->to + done, piece->len - done,
				    (off_t)(piece->addr + done));
		if (got == 0 && !done)
			return -ESRCH; /* no memory behind the descriptor any more */
		if (got <= 0)
			return done ? (ssize_t)done : errno == EIO ? -EFAULT : -errno;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

ssize_t target_read_pieces(const struct target *target, const struct target_piece *pieces,
			   unsigned count)
{
	ssize_t sum = 0, got = 0;
	if (count > PIECES_MAX)
		return -EINVAL;
	int mem = target->mem ? target->mem : open_memory(target), again = 0;
	for (unsigned i = 0; i < count && mem > 0; i++) {
		got = pieces[i].addr > INT64_MAX ? -EFAULT : read_piece(mem, &pieces[i]);
		if (got == -ESRCH && !again) {
			close(mem);
			mem = open_memory(target);
			again = 1;
			got = mem > 0 ? read_piece(mem, &pieces[i]) : mem;
		}
		if (got < 0)
			break;
		sum += got;
		if ((size_t)got < pieces[i].len)
			break;
	}
	return mem < 0 ? mem : sum ? sum : got;
}

ssize_t target_read(const struct target *target, uint64_t addr, void *to, size_t len)
{
	struct target_piece piece = { addr, to, len };
	return target_read_pieces(target, &piece, 1);
}
