/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Which processes are traced, on kernels without BTF: children of traced ones are, too. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "processes.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Where the child's id is in the tracepoint's record: kernels differ, the loader looks it up. */
const volatile __u32 child_offset = 44;

SEC("tracepoint/sched/sched_process_fork")
int process_fork(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct settings *set = fork_wanted(id);
	__u32 child = 0;

	/* Of the context itself only fixed places may be read. */
	if (set && !bpf_probe_read_kernel(&child, 4, (char *)ctx + child_offset))
		forked(set, id, child);
	return 0;
}

SEC("tracepoint/sched/sched_process_exec")
int process_exec(void *ctx)
{
	began();
	return 0;
}

SEC("tracepoint/sched/sched_process_exit")
int process_exit(void *ctx)
{
	ended();
	return 0;
}
