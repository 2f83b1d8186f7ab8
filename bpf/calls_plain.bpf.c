/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Calls of library functions, on kernels where programs of uprobes may not sleep: what is not in
 * memory at the moment cannot be read. */
#define SLEEPABLE 0
#include "calls.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("uprobe")
int enter_one(struct pt_regs *ctx)
{
	begin_call(ctx, bpf_get_attach_cookie(ctx), 1);
	return 0;
}

SEC("uretprobe")
int return_one(struct pt_regs *ctx)
{
	end_call(ctx, bpf_get_attach_cookie(ctx), 1);
	return 0;
}
