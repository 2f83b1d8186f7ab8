/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How the memory of programs is read. Before this is included, SLEEPABLE says whether it may be waited for. */
#ifndef CUTRACE_USER_H
#define CUTRACE_USER_H

#include <bpf/bpf_helpers.h>

#define PAGE 4096

#if SLEEPABLE
#define READ(to, bytes, from) bpf_copy_from_user(to, bytes, (const void *)(from))

/* Strings are read from pages that are there; those that are not are brought in first. */
static __always_inline long read_text(void *to, __u32 bytes, __u64 from)
{
	long got = bpf_probe_read_user_str(to, bytes, (const void *)from);
	char one;

	if (got >= 0)
		return got;
	if (bpf_copy_from_user(&one, 1, (const void *)from) < 0)
		return -1;
	bpf_copy_from_user(&one, 1, (const void *)((from | (PAGE - 1)) + 1));
	return bpf_probe_read_user_str(to, bytes, (const void *)from);
}
#define READ_TEXT(to, bytes, from) read_text(to, bytes, from)
#else
#define READ(to, bytes, from) bpf_probe_read_user(to, bytes, (const void *)(from))
#define READ_TEXT(to, bytes, from) bpf_probe_read_user_str(to, bytes, (const void *)(from))
#endif

#endif
