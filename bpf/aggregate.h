/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Calls that are counted instead of recorded: how many, or a histogram by powers of two. A probe's place in
 * the maps is the low half of its cookie. */
#ifndef CUTRACE_AGGREGATE_H
#define CUTRACE_AGGREGATE_H

#include "maps.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} tallies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct histogram);
} histograms SEC(".maps");

/* The number of the highest bit that is set. */
static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 found = 0, step;

	step = (value > 0xffffffffull) << 5;
	value >>= step;
	found |= step;
	step = (value > 0xffff) << 4;
	value >>= step;
	found |= step;
	step = (value > 0xff) << 3;
	value >>= step;
	found |= step;
	step = (value > 0xf) << 2;
	value >>= step;
	found |= step;
	step = (value > 0x3) << 1;
	value >>= step;
	found |= step;
	return found | value >> 1;
}

/* The bits of a value that are meant. */
static __always_inline __u64 of_width(__u64 value, const struct spec *spec)
{
	switch (spec->width) {
	case 1:
		return spec->is_signed ? (__u64)(__s8)value : (__u8)value;
	case 2:
		return spec->is_signed ? (__u64)(__s16)value : (__u16)value;
	case 4:
		return spec->is_signed ? (__u64)(__s32)value : (__u32)value;
	}
	return value;
}

/* One more call. Programs that may sleep can be interrupted by others on the same processor. */
static __always_inline void aggregate(const struct spec *spec, __u64 cookie, __u64 value)
{
	__u32 place = (__u32)cookie;
	__u64 power;

	if (spec->aggregate == AGGREGATE_COUNT) {
		__u64 *tally = bpf_map_lookup_elem(&tallies, &place);

		if (tally)
			__sync_fetch_and_add(tally, 1);
	} else {
		struct histogram *histogram = bpf_map_lookup_elem(&histograms, &place);

		if (!histogram)
			return;
		value = of_width(value, spec);
		power = highest_bit(value);
		/* Said where it is used: 6.1's verifier does not follow how the bits were put together. */
		asm volatile("" : "+r"(power));
		power &= 63;
		__sync_fetch_and_add(&histogram->total, value);
		if (!value)
			__sync_fetch_and_add(&histogram->zero, 1);
		else if (spec->is_signed && (__s64)value < 0)
			__sync_fetch_and_add(&histogram->negative, 1);
		else
			__sync_fetch_and_add(&histogram->powers[power], 1);
	}
}

/* The value that a description names, in a body that has been read. */
static __always_inline __u64 measured_in(const char *body, const __u32 size, const struct spec *spec)
{
	__u32 at = spec->measured;

	return at <= size - 8 ? *(__u64 *)(body + at) : 0;
}

/* What is measured is known when the function returns. */
static __always_inline int waits_for_return(const struct spec *spec)
{
	return spec->measure == MEASURE_DURATION || spec->measure == MEASURE_RESULT;
}

#endif
