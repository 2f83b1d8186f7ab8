/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What traced processes load, on kernels where programs of uprobes may not sleep: the thread looks for the
 * tracer's answer over and over, for some milliseconds at most. */
#include <linux/bpf.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Nothing else runs on this processor meanwhile. */
#define MOST_NS 20000000ull
#define LOOKS 256
#define ROUNDS 4096

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} waiting SEC(".maps");

struct wait {
	__u64 until;
	__u32 thread;
	__u32 reserved;
};

/* Verified once, and not for every round. 1: there is no more to wait for. */
__noinline int look(const struct wait *wait)
{
	__u32 thread;

	if (!wait)
		return 1;
	thread = wait->thread;
	_Pragma("clang loop unroll(disable)")
	for (int i = 0; i < LOOKS; i++) {
		if (!bpf_map_lookup_elem(&waiting, &thread) || bpf_ktime_get_ns() > wait->until)
			return 1;
	}
	return 0;
}

/* As in loading.bpf.c. */
SEC("uprobe")
int loaded_plain(struct pt_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
	__u32 thread = (__u32)id, one = 1;
	struct settings *set = wanted(id, now);
	struct wait wait = { .thread = thread };

	if (!set)
		return 0;
	wait.until = now + (set->hold < MOST_NS ? set->hold : MOST_NS);
	bpf_map_update_elem(&waiting, &thread, &one, BPF_ANY);
	tell(id, KIND_LOADED, 0, BPF_RB_FORCE_WAKEUP);
	_Pragma("clang loop unroll(disable)")
	for (int i = 0; i < ROUNDS; i++) {
		if (look(&wait))
			break;
	}
	if (!bpf_map_delete_elem(&waiting, &thread))
		count(COUNT_LATE, 1);
	return 0;
}
