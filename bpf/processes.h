/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Following processes: forks, programs that begin, ends. */
#ifndef CUTRACE_PROCESSES_H
#define CUTRACE_PROCESSES_H

#include "maps.h"

/* Whether somebody forks whose children are wanted. */
static __always_inline struct settings *fork_wanted(__u64 id)
{
	__u32 zero = 0, process = id >> 32;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);

	return set && !set->disabled && is_traced(set, process) ? set : 0;
}

static __always_inline void forked(const struct settings *set, __u64 id, __u32 child)
{
	__u32 one = 1;

	/* A new thread's id is no process's: it does no harm, and goes when the thread ends. */
	if (set->filter & FILTER_TREE)
		bpf_map_update_elem(&tree, &child, &one, BPF_ANY);
	tell(id, KIND_FORK, child, BPF_RB_NO_WAKEUP);
}

static __always_inline void began(void)
{
	__u64 id = bpf_get_current_pid_tgid();

	if (wanted(id, bpf_ktime_get_ns()))
		/* Its loader may be one that has no probe yet. */
		tell(id, KIND_EXEC, 0, BPF_RB_FORCE_WAKEUP);
}

static __always_inline void ended(void)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 process = id >> 32, thread = (__u32)id;

	/* A process may outlive its first thread: the tracer forgets those. */
	if (process != thread)
		bpf_map_delete_elem(&tree, &thread);
	else if (wanted(id, bpf_ktime_get_ns()))
		tell(id, KIND_EXIT, 0, BPF_RB_NO_WAKEUP);
}

#endif
