/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * System calls on the driver's files by the kernel's BTF, two programs for all of them. Every system call
 * takes a little longer, as it does with tracepoints of single ones. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "syscalls_body.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The kernel's registers, by its own names for them. */
struct pt_regs {
	unsigned long di, si, dx, r10, r8, r9, orig_ax;
} __attribute__((preserve_access_index));

#define NR_CLOSE 3
#define NR_MMAP 9
#define NR_IOCTL 16
#define NR_OPENAT 257

SEC("tp_btf/sys_enter")
int system_enter(__u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	struct entered entered = { .number = ctx[1] };

	if (entered.number != NR_CLOSE && entered.number != NR_MMAP && entered.number != NR_IOCTL &&
	    entered.number != NR_OPENAT)
		return 0;
	entered.args[0] = regs->di;
	entered.args[1] = regs->si;
	entered.args[2] = regs->dx;
	entered.args[3] = regs->r10;
	entered.args[4] = regs->r8;
	entered.args[5] = regs->r9;
	switch (entered.number) {
	case NR_CLOSE:
		return begin_close(&entered);
	case NR_MMAP:
		return begin_mmap(&entered);
	case NR_IOCTL:
		return begin_ioctl(&entered);
	}
	return begin_openat(&entered);
}

SEC("tp_btf/sys_exit")
int system_exit(__u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	struct left left = { .number = regs->orig_ax, .result = ctx[1] };

	switch (left.number) {
	case NR_CLOSE:
	case NR_MMAP:
	case NR_IOCTL:
		return end_system(&left);
	case NR_OPENAT:
		return end_openat(&left);
	}
	return 0;
}
