/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Markers of programs, on kernels where programs of uprobes may not sleep. */
#define SLEEPABLE 0
#include "markers.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("uprobe")
int mark_one(struct pt_regs *ctx)
{
	return mark(ctx);
}
