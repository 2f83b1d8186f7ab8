/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Which processes are traced: children of traced ones are, too. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Where the child's id is in the tracepoint's record: kernels differ, the loader looks it up. */
const volatile __u32 child_offset = 44;

SEC("tracepoint/sched/sched_process_fork")
int process_fork(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 zero = 0, process = id >> 32, child = 0, one = 1;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);

	if (!set || set->disabled || !is_traced(set, process))
		return 0;
	/* Of the context itself only fixed places may be read. */
	if (bpf_probe_read_kernel(&child, 4, (char *)ctx + child_offset))
		return 0;
	/* A new thread's id is no process's: it does no harm, and goes when the thread ends. */
	if (set->filter & FILTER_TREE)
		bpf_map_update_elem(&tree, &child, &one, BPF_ANY);
	tell(id, KIND_FORK, child, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tracepoint/sched/sched_process_exec")
int process_exec(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();

	if (wanted(id, now))
		/* Its loader may be one that has no probe yet. */
		tell(id, KIND_EXEC, 0, BPF_RB_FORCE_WAKEUP);
	return 0;
}

SEC("tracepoint/sched/sched_process_exit")
int process_exit(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 process = id >> 32, thread = (__u32)id;

	/* A process may outlive its first thread: the tracer forgets those. */
	if (process != thread) {
		bpf_map_delete_elem(&tree, &thread);
		return 0;
	}
	if (wanted(id, bpf_ktime_get_ns()))
		tell(id, KIND_EXIT, 0, BPF_RB_NO_WAKEUP);
	return 0;
}
