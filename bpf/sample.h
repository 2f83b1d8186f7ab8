/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * One call of many is recorded: of each function and processor the first, and every so many from there on. */
#ifndef CUTRACE_SAMPLE_H
#define CUTRACE_SAMPLE_H

#include "maps.h"

/* Calls so far, by the low half of a cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} sampled SEC(".maps");

static __always_inline int is_in_sample(const struct settings *set, const struct spec *spec, __u64 cookie)
{
	__u32 function = (__u32)cookie;
	__u64 *calls;

	if (!(spec->flags & SPEC_SAMPLED) || set->sample < 2)
		return 1;
	calls = bpf_map_lookup_elem(&sampled, &function);
	/* Functions that there is no place for are recorded. */
	if (!calls)
		return 1;
	return __sync_fetch_and_add(calls, 1) % set->sample == 0;
}

#endif
