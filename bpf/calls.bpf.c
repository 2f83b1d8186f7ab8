/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Calls of library functions, on kernels where programs of uprobes may sleep (6.0 and later). */
#define SLEEPABLE 1
#include "calls.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Thousands of functions in one link (6.6 and later). */
SEC("uprobe.multi.s")
int enter_multi(struct pt_regs *ctx)
{
	begin_call(ctx, bpf_get_attach_cookie(ctx), 1);
	return 0;
}

SEC("uretprobe.multi.s")
int return_multi(struct pt_regs *ctx)
{
	end_call(ctx, bpf_get_attach_cookie(ctx), 1);
	return 0;
}

/* One function, one link. */
SEC("uprobe.s")
int enter_one(struct pt_regs *ctx)
{
	begin_call(ctx, bpf_get_attach_cookie(ctx), 1);
	return 0;
}

SEC("uretprobe.s")
int return_one(struct pt_regs *ctx)
{
	end_call(ctx, bpf_get_attach_cookie(ctx), 1);
	return 0;
}
