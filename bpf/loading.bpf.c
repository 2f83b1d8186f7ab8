/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What traced processes load: a thread that has just mapped a library waits here, for a moment, until
 * probes are in it. It needs the kernel's BTF, which is why it is an object of its own. */
#include <linux/bpf.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The most that a loop may have. */
#define MOST_ROUNDS (8 << 20)
/* Rounds between pauses, a millisecond or two. */
#define LET_RUN (1 << 15)

/* Threads that wait for an answer; gone when it has come. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} waiting SEC(".maps");

struct wait {
	__u64 until;
	__u64 stack;
	__u32 thread;
};

static long look(__u64 round, struct wait *wait)
{
	__u32 thread = wait->thread;
	char one;

	/* Reading a task's memory this way lets others run in between, on kernels that do not
	 * interrupt themselves: the tracer may have to run on this very processor. Only now and then:
	 * it takes the lock that the tracer needs to put probes in. */
	if (!(~round & (LET_RUN - 1)))
		bpf_copy_from_user_task(&one, 1, (void *)wait->stack, bpf_get_current_task_btf(), 0);
	/* 1 ends the loop. */
	return !bpf_map_lookup_elem(&waiting, &thread) || bpf_ktime_get_ns() > wait->until;
}

static __always_inline int wait_for_probes(struct pt_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 thread = (__u32)id, one = 1;
	__u64 now = bpf_ktime_get_ns();
	struct settings *set = wanted(id, now);
	struct wait wait = { .thread = thread };

	if (!set)
		return 0;
	wait.until = now + set->hold;
	wait.stack = ctx->rsp;
	bpf_map_update_elem(&waiting, &thread, &one, BPF_ANY);
	tell(id, KIND_LOADED, 0, BPF_RB_FORCE_WAKEUP);
	/* Interruptible, and bounded: a tracer that does not answer holds nobody up for long. */
	bpf_loop(MOST_ROUNDS, look, &wait, 0);
	if (!bpf_map_delete_elem(&waiting, &thread))
		count(COUNT_LATE, 1);
	return 0;
}

/* The loader calls this function of its own whenever its list of libraries has changed. */
SEC("uprobe.multi.s")
int loaded_multi(struct pt_regs *ctx)
{
	return wait_for_probes(ctx);
}

/* Kernels before 6.6; it takes more rights. */
SEC("uprobe.s")
int loaded_one(struct pt_regs *ctx)
{
	return wait_for_probes(ctx);
}
