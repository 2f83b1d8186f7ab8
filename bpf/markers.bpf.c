/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Markers of programs, on kernels where programs of uprobes may sleep (6.0 and later). */
#define SLEEPABLE 1
#include "markers.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* All of a file in one link (6.6 and later). */
SEC("uprobe.multi.s")
int mark_multi(struct pt_regs *ctx)
{
	return mark(ctx);
}

SEC("uprobe.s")
int mark_one(struct pt_regs *ctx)
{
	return mark(ctx);
}
