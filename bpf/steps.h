/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Reads arguments by a probe's description. Before this is included, READ(to, bytes, from) and
 * READ_TEXT(to, bytes, from) say how memory is read: both return a negative number on failure. */
#ifndef CUTRACE_STEPS_H
#define CUTRACE_STEPS_H

#include "maps.h"

/* Loops stay loops: unrolled, the programs would be ten times as long. */
#define KEEP_LOOP _Pragma("clang loop unroll(disable)")

/* The words of a call's arguments; a power of two, so that an index can be masked. */
struct words {
	__u64 at[MOST_WORDS];
	__u64 stack;
	__u64 result;
};

static __always_inline __u64 word_of(const struct words *words, __u8 index)
{
	return index == WORD_STACK ? words->stack : words->at[index & (MOST_WORDS - 1)];
}

static __always_inline __u64 count_of(const struct words *words, const struct step *step)
{
	__u64 word = word_of(words, step->count_word);
	__u64 count = 0;

	if (!(step->count_bytes & COUNT_BEHIND)) {
		count = word;
	} else if (!word || READ(&count, 8, word) < 0) {
		/* A count of 4 bytes may be the last thing on its page. */
		__u32 half = 0;

		if (!word || READ(&half, 4, word) < 0)
			return 0;
		return half;
	}
	return step->count_bytes & 8 ? count : (__u32)count;
}

/* In words: byte by byte it would be eight times as many instructions. */
static __always_inline void zero(char *at, const __u32 bytes)
{
	if (bytes < 8)
		__builtin_memset(at, 0, bytes);
	for (__u32 i = 0; i < bytes / 8; i++)
		((volatile __u64 *)at)[i] = 0;
}

#define COPY(bytes)                                                            \
	case bytes:                                                            \
		if (size >= (bytes) && at <= size - (bytes)) {                 \
			if (!from || READ(body + at, bytes, from) < 0) {       \
				zero(body + at, bytes);                        \
				return from != 0;                              \
			}                                                      \
		}                                                              \
		return 0;

/* One piece of memory of a fixed length. 1: it could not be read. */
static __always_inline int copy_memory(char *body, const __u32 size, __u32 at, __u16 length,
				       __u64 from)
{
	switch (length) {
		COPY(8)
		COPY(4)
		COPY(16)
		COPY(32)
		COPY(64)
		COPY(128)
		COPY(1)
		COPY(2)
	}
	return 0;
}

#undef COPY

struct varying {
	__u64 said;
	__u64 numbers[VARYING_MOST / 8];
};

#ifndef ONLY_TEXTS
/* These are verified once each, by themselves: inlined, their loops would multiply with the loop over
 * the steps. Negative: they could not read what they should. */
__noinline long sum_of(__u64 from, __u64 elements, struct varying *to)
{
	__u64 sum = 0;

	if (!to)
		return -1;
	/* More than that are left unsaid rather than said wrongly. */
	if (elements > 256)
		return 0;
KEEP_LOOP
	for (int i = 0; i < 256; i++) {
		__u64 number = 0;

		if (i >= elements)
			break;
		if (READ(&number, 8, from + 8 * i) < 0)
			return -1;
		sum += number;
	}
	to->numbers[0] = sum;
	return 8;
}

__noinline long gather(__u64 from, __u64 elements, struct varying *to)
{
	if (!to)
		return -1;
	if (elements > 16)
		elements = 16;
KEEP_LOOP
	for (int i = 0; i < 16; i++) {
		__u64 pointer = 0, value = 0;

		if (i >= elements)
			break;
		if (READ(&pointer, 8, from + 8 * i) < 0)
			return -1;
		if (pointer)
			READ(&value, 8, pointer);
		to->numbers[i] = value;
	}
	return elements * 8;
}

__noinline long nested(__u64 from, const struct step *step, struct varying *to)
{
	__u64 array = 0, elements = 0;
	__u32 kept;

	if (!to || !step)
		return -1;
	kept = step->kept;
	if (READ(&array, 8, from + step->offset) < 0 || READ(&elements, 4, from + step->count_offset) < 0)
		return -1;
	if (step->count_bytes & 8 && READ(&elements, 8, from + step->count_offset) < 0)
		return -1;
	if (!array)
		return 0;
	if (elements > 4)
		elements = 4;
	if (kept > 48)
		kept = 48;
KEEP_LOOP
	for (int i = 0; i < 4; i++) {
		__u32 bytes = kept;

		if (i >= elements)
			break;
		/* Said here once more: 6.1's verifier forgets what was said before the loop. */
		asm volatile("" : "+r"(bytes));
		bytes &= 63;
		if (READ(&to->numbers[6 * i], bytes, array + (__u64)i * step->stride) < 0)
			return -1;
	}
	return elements * 48;
}
#endif

/* Pieces whose lengths vary: only bodies that are long enough have any. */
static __always_inline int copy_varying(char *body, const __u32 size, __u32 at,
					const struct step *step, const struct words *words,
					__u64 from)
{
	__u64 *said;
	long got = 0;

	if (size < VARYING_ROOM || at > size - VARYING_ROOM)
		return 0;
	said = (void *)(body + at);
	*said = 0;
	said[1] = 0;
	if (step->op == STEP_RESULT_TEXT) {
		from = words->result;
	} else if (step->op == STEP_TEXT_BEHIND) {
		__u64 behind = 0;

		if (!from || READ(&behind, 8, from + step->offset) < 0)
			return from != 0;
		from = behind;
	} else if (step->op == STEP_POINT_TEXT) {
		__u32 place = 0;

		if (!from || READ(&place, 4, from + step->offset) < 0)
			return from != 0;
		from += place & 0xffff;
	} else if (step->op == STEP_TEXT && from) {
		from += step->offset;
	}
	if (!from)
		return 0;
#ifndef ONLY_TEXTS
	if (step->op == STEP_ARRAY) {
		__u64 elements = count_of(words, step);
		__u32 bytes = step->length;

		if (elements < 256 && elements * step->stride < bytes)
			bytes = elements * step->stride;
		if (bytes > VARYING_MOST)
			bytes = VARYING_MOST;
		if (!bytes)
			return 0;
		if (READ(body + at + 8, bytes, from) < 0)
			return 1;
		got = bytes;
	} else if (step->op == STEP_SUM) {
		got = sum_of(from, count_of(words, step), (void *)(body + at));
	} else if (step->op == STEP_GATHERED) {
		got = gather(from, count_of(words, step), (void *)(body + at));
	} else if (step->op == STEP_NESTED) {
		got = nested(from, step, (void *)(body + at));
	} else
#endif
		got = READ_TEXT(body + at + 8, VARYING_MOST, from);
	if (got < 0)
		return 1;
	*said = got;
	return 0;
}

/* One step. A function of its own for each length of bodies, verified once and not for every round
 * of the loop around it. */
#define DEFINE_STEP(number, bytes)                                                                 \
	struct sized_##number {                                                                    \
		struct record head;                                                                \
		char body[bytes];                                                                  \
	};                                                                                         \
	__noinline int step_##number(struct sized_##number *record, const struct spec *spec,       \
				     __u32 place, const struct words *words)                       \
	{                                                                                          \
		if (!record || !spec || !words)                                                    \
			return 0;                                                                  \
		take_step(&record->head, record->body, bytes, &spec->steps[place & (MOST_STEPS - 1)], \
			  words);                                                                  \
		return 0;                                                                          \
	}

static __always_inline void take_step(struct record *record, char *body, const __u32 size,
				      const struct step *step, const struct words *words)
{
	__u64 from = word_of(words, step->word);
	__u32 at = step->at;

	if (step->op == STEP_MEMORY) {
		if (from)
			from += step->offset;
		if (!copy_memory(body, size, at, step->length, from))
			return;
	} else if (!copy_varying(body, size, at, step, words, from)) {
		return;
	}
	record->flags |= FLAG_FAULT;
	count(COUNT_FAULTS, 1);
}

DEFINE_STEP(2, BODY_2)
DEFINE_STEP(5, BODY_5)
#ifndef ONLY_TEXTS
DEFINE_STEP(0, BODY_0)
DEFINE_STEP(1, BODY_1)
DEFINE_STEP(3, BODY_3)
DEFINE_STEP(4, BODY_4)
#endif

/* Everything that is read of a call now. */
static __always_inline void take_steps(struct record *record, const __u32 size,
				       const struct spec *spec, __u32 first, __u32 number,
				       const struct words *words)
{
KEEP_LOOP
	for (__u32 i = 0; i < MOST_STEPS; i++) {
		if (i >= number)
			break;
		if (size == BODY_2)
			step_2((void *)record, spec, first + i, words);
#ifndef ONLY_TEXTS
		else if (size == BODY_0)
			step_0((void *)record, spec, first + i, words);
		else if (size == BODY_1)
			step_1((void *)record, spec, first + i, words);
		else if (size == BODY_3)
			step_3((void *)record, spec, first + i, words);
		else if (size == BODY_4)
			step_4((void *)record, spec, first + i, words);
#endif
		else
			step_5((void *)record, spec, first + i, words);
	}
}

static __always_inline int holds(const char *body, const __u32 size, const struct condition *when,
				 __u64 mask)
{
	__u32 at = when->at;
	__u64 value = 0;

	if (at > size - 8)
		return 1;
	switch (when->width) {
	case 1:
		value = *(__u8 *)(body + at);
		if (when->is_signed)
			value = (__s64)(__s8)value;
		break;
	case 2:
		value = *(__u16 *)(body + at);
		if (when->is_signed)
			value = (__s64)(__s16)value;
		break;
	case 4:
		value = *(__u32 *)(body + at);
		if (when->is_signed)
			value = (__s64)(__s32)value;
		break;
	default:
		value = *(__u64 *)(body + at);
	}
	value &= mask;
	if (when->compare == COMPARE_EQUAL)
		return value == when->value;
	if (when->compare == COMPARE_UNEQUAL)
		return value != when->value;
	if (when->compare == COMPARE_BITS)
		return (value & when->value) != 0;
	if (when->is_signed) {
		__s64 one = value, other = when->value;

		switch (when->compare) {
		case COMPARE_LESS:
			return one < other;
		case COMPARE_LESS_OR_EQUAL:
			return one <= other;
		case COMPARE_GREATER:
			return one > other;
		default:
			return one >= other;
		}
	}
	switch (when->compare) {
	case COMPARE_LESS:
		return value < when->value;
	case COMPARE_LESS_OR_EQUAL:
		return value <= when->value;
	case COMPARE_GREATER:
		return value > when->value;
	default:
		return value >= when->value;
	}
}

static __always_inline int all_hold(const char *body, const __u32 size, const struct spec *spec)
{
	__u64 mask = ~0ull;
	int all = 1;

	KEEP_LOOP
	for (__u32 i = 0; i < MOST_CONDITIONS; i++) {
		const struct condition *when = &spec->when[i];

		if (i >= spec->conditions)
			break;
		if (when->compare == COMPARE_MASK) {
			mask = when->value;
			continue;
		}
		all &= holds(body, size, when, mask);
		mask = ~0ull;
		if (when->last) {
			if (all)
				return 1;
			all = 1;
		}
	}
	return 0;
}

/* As the steps: verified once for each length. */
#define DEFINE_MEANT(number, bytes)                                                                \
	struct body_##number {                                                                     \
		char at[bytes];                                                                    \
	};                                                                                         \
	__noinline int meant_##number(const struct body_##number *body, const struct spec *spec)   \
	{                                                                                          \
		return body && spec ? all_hold(body->at, bytes, spec) : 0;                         \
	}

DEFINE_MEANT(2, BODY_2)
DEFINE_MEANT(5, BODY_5)
#ifndef ONLY_TEXTS
DEFINE_MEANT(0, BODY_0)
DEFINE_MEANT(1, BODY_1)
DEFINE_MEANT(3, BODY_3)
DEFINE_MEANT(4, BODY_4)
#endif

static __always_inline int is_meant(const char *body, const __u32 size, const struct spec *spec)
{
	if (size == BODY_2)
		return meant_2((void *)body, spec);
#ifndef ONLY_TEXTS
	if (size == BODY_0)
		return meant_0((void *)body, spec);
	if (size == BODY_1)
		return meant_1((void *)body, spec);
	if (size == BODY_3)
		return meant_3((void *)body, spec);
	if (size == BODY_4)
		return meant_4((void *)body, spec);
#endif
	return meant_5((void *)body, spec);
}

#endif
