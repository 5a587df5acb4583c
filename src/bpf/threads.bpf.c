/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * threads.bpf.c - the stack pointers of a process's threads, whether they wait or run, without
 * stopping any: the registers that each saved when it last entered the kernel, which at the latest
 * the timer makes it do.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "wire/threads.h"

#define LEVELS_MAX 33 /* of pid namespaces, MAX_PID_NS_LEVEL and the first */

/* What the pid namespace of whoever reads calls @task. */
static uint32_t tid_of(struct task_struct *task)
{
	struct task_struct *reader = (void *)bpf_get_current_task();
	uint32_t level = BPF_CORE_READ(reader, thread_pid, level);
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	int nr = 0;
	if (!pid || level >= LEVELS_MAX || level > BPF_CORE_READ(pid, level))
		return 0;
	void *at = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
		   level * bpf_core_type_size(struct upid);
	bpf_probe_read_kernel(&nr, sizeof(nr), at + bpf_core_field_offset(struct upid, nr));
	return (uint32_t)nr;
}

/* Over the threads of the process that the link names. */
SEC("iter/task")
int threads_list(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task)
		return 0;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct wire_thread thread = { .tid = tid_of(task) };
	if (regs)
		thread.stack_pointer = BPF_CORE_READ(regs, sp);
	if (thread.tid && thread.stack_pointer)
		bpf_seq_write(ctx->meta->seq, &thread, sizeof(thread));
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
