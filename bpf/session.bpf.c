/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Calls of library functions by sessions (6.13 and later): one program at entry and return, and
 * none at the return of calls that are not traced. Its kfuncs need the kernel's BTF, which is why
 * it is an object of its own. */
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

extern _Bool bpf_session_is_return(void) __ksym;
extern __u64 *bpf_session_cookie(void) __ksym;

#define SLEEPABLE 1
#define KEEP bpf_session_cookie
#include "calls.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("uprobe.session.s")
int call_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (bpf_session_is_return()) {
		end_call(ctx, cookie, 0);
		return 0;
	}
	return begin_call(ctx, cookie, 0);
}
