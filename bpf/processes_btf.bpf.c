/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Following processes by the kernel's BTF: without tracefs, which only root may read, and without the
 * time that its links take to come off. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "processes.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

SEC("tp_btf/sched_process_fork")
int process_fork(__u64 *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct settings *set = fork_wanted(id);
	struct task_struct *child = (void *)ctx[1];

	if (set)
		forked(set, id, child->pid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int process_exec(__u64 *ctx)
{
	began();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int process_exit(__u64 *ctx)
{
	ended();
	return 0;
}
