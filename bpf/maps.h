/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The maps that all objects share. The loader makes each of them once and gives it to every object
 * by its name; sizes here only satisfy the ELF. */
#ifndef CUTRACE_MAPS_H
#define CUTRACE_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "record.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct spec);
} specs SEC(".maps");

/* Processes that are traced. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u32);
} tree SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(__u32 which, __u64 more)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &which);

	if (counter)
		/* Programs that may sleep can be interrupted by others on the same processor. */
		__sync_fetch_and_add(counter, more);
}

/* How deep cgroups are looked for: systemd's are 5 or 6 deep, those of containers a few more. */
#define MOST_CGROUPS 16

/* Whether this thread is in a cgroup or in one below it. */
__noinline int is_in_cgroup(__u64 cgroup)
{
	_Pragma("clang loop unroll(disable)")
	for (int level = 0; level < MOST_CGROUPS; level++) {
		__u64 found = bpf_get_current_ancestor_cgroup_id(level);

		if (found == cgroup)
			return 1;
		if (!found)
			break;
	}
	return 0;
}

/* Whether it is of the processes that are traced. */
static __always_inline int is_traced(const struct settings *set, __u32 process)
{
	if (process == set->own)
		return 0;
	if (set->filter & FILTER_TREE && process != set->first &&
	    !bpf_map_lookup_elem(&tree, &process))
		return 0;
	if (set->filter & FILTER_USER && (__u32)bpf_get_current_uid_gid() != set->user)
		return 0;
	return !(set->filter & FILTER_CGROUP) || is_in_cgroup(set->cgroup);
}

/* The settings, if this thread's doings are wanted now. */
static __always_inline struct settings *wanted(__u64 id, __u64 now)
{
	__u32 zero = 0, process = id >> 32;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);

	if (!set || set->disabled || now > set->until)
		return 0;
	return is_traced(set, process) ? set : 0;
}

static __always_inline int is_crowded(const struct settings *set)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > set->enough;
}

static __always_inline void fill_head(struct record *record, __u64 now, __u64 id, __u16 kind)
{
	record->time = now;
	record->process = id >> 32;
	record->thread = (__u32)id;
	record->function = 0;
	record->kind = kind;
	record->words = 0;
	record->flags = 0;
	record->key = 0;
	record->result = 0;
}

/* Something about a process. */
static __always_inline void tell(__u64 id, __u16 kind, __u32 child, __u64 flags)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record)
		return;
	fill_head(record, bpf_ktime_get_ns(), id, kind);
	record->function = child;
	bpf_ringbuf_submit(record, flags);
}

#endif
