/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What BPF programs write into the ring, and the descriptions that tell them what to write.
 * crates/capture/src/ebpf/layout.rs is the same in Rust; a test compares the two. */
#ifndef CUTRACE_RECORD_H
#define CUTRACE_RECORD_H

#include <linux/types.h>

/* Kinds of records. */
#define KIND_ENTER 1	      /* a function began; words, then pieces */
#define KIND_RETURN 2	      /* it returned; pieces */
#define KIND_SYSCALL_ENTER 3  /* a system call on a file of the driver */
#define KIND_SYSCALL_EXIT 4
#define KIND_FORK 5	      /* `function` is the child */
#define KIND_EXEC 6
#define KIND_EXIT 7
#define KIND_LOADED 8	      /* the loader has mapped something; the thread waits for an answer */
#define KIND_INSTANT 9	      /* a tracepoint: something that takes no time */
#define KIND_STACK 10	      /* where the next record of this thread comes from */

/* record.flags */
#define FLAG_FAULT 1 /* something could not be read */

struct record {
	__u64 time;	/* CLOCK_MONOTONIC, ns */
	__u32 process;
	__u32 thread;
	__u32 function; /* the low half of the probe's cookie */
	__u16 kind;
	__u8 words;	/* argument words that the body begins with */
	__u8 flags;
	__u64 key;	/* the stack pointer at entry: joins the return with the beginning */
	__u64 result;	/* returns only */
};

/* Bytes of the bodies that a record can have, by class. */
#define BODY_0 24
#define BODY_1 48
#define BODY_2 96
#define BODY_3 192
#define BODY_4 448
#define BODY_5 2048
#define BODY_CLASSES 6

/* What a step reads. `word` holds the pointer that it goes by. */
#define STEP_MEMORY 1	   /* `length` bytes, a power of two up to 256, at `offset` behind it */
#define STEP_TEXT 2	   /* a string */
#define STEP_TEXT_BEHIND 3 /* the string that a pointer behind it points to */
#define STEP_ARRAY 4	   /* as many of count * stride bytes as fit into `length` */
#define STEP_NESTED 5	   /* `kept` bytes of each of the first elements of an array a struct points to */
#define STEP_SUM 6	   /* the sum of all 8-byte numbers in an array */
#define STEP_GATHERED 7	   /* 8 bytes from behind each of the first pointers in an array */
#define STEP_RESULT_TEXT 8 /* the string that was returned */
#define STEP_POINT_TEXT 9  /* the string of a tracepoint's record whose place a field tells */

/* Pieces that vary in length begin with 8 bytes that say how long they are; this much is reserved. */
#define VARYING_ROOM 256
#define VARYING_MOST 248
/* Instead of a word: the stack pointer at entry. */
#define WORD_STACK 0xff
/* step.count_bytes: 4 or 8, and this if the word points to the count. */
#define COUNT_BEHIND 0x80

struct step {
	__u8 op;
	__u8 word;
	__u16 offset;
	__u16 length;
	__u16 at; /* place in the body, words included */
	__u16 stride;
	__u8 count_word;
	__u8 count_bytes;
	__u16 kept;
	__u16 count_offset;
};

/* How a place in the body is compared. Conditions stand in alternatives: the call is left out unless
 * all of one of them hold. */
#define COMPARE_EQUAL 1
#define COMPARE_UNEQUAL 2
#define COMPARE_LESS 3
#define COMPARE_LESS_OR_EQUAL 4
#define COMPARE_GREATER 5
#define COMPARE_GREATER_OR_EQUAL 6
#define COMPARE_BITS 7 /* any of these bits is set */
#define COMPARE_MASK 8 /* no comparison: the next one is of these bits only */

struct condition {
	__u16 at;
	__u8 width; /* 1, 2, 4, 8 */
	__u8 compare;
	__u8 is_signed;
	__u8 last; /* of its alternative */
	__u8 reserved[2];
	__u64 value;
};

/* Frames of a call's stack: who called, as the stack says, and the rest by frame pointers. */
#define MOST_FRAMES 64

#define MOST_WORDS 16
#define MOST_STEPS 32
#define MOST_CONDITIONS 8

/* spec.flags */
#define SPEC_NO_RETURN 1 /* beginnings only */
#define SPEC_INSTANT 2	 /* recorded as an instant, no return */
#define SPEC_EVERYWHERE 4 /* in every process */
#define SPEC_STACK 8	 /* with the stack it comes from */
#define SPEC_AT_RETURN 16 /* an instant, at the return */
#define SPEC_SHORT_NOT 64 /* calls shorter than settings.shortest are left out */
#define SPEC_ONE_OUTPUT 32 /* all that is read at the return is 4 or 8 bytes, by the word that is kept */
#define SPEC_SAMPLED 128 /* one of settings.sample calls is recorded */

/* spec.aggregate: calls are counted instead of recorded. */
#define AGGREGATE_COUNT 1
#define AGGREGATE_HISTOGRAM 2

/* spec.measure: what a histogram is of. */
#define MEASURE_DURATION 1
#define MEASURE_RESULT 2 /* what was returned; of a count: calls count when they return */
#define MEASURE_WORD 3	 /* the argument word of number `measured` */
#define MEASURE_BODY 4	 /* at the place `measured` of the body */

struct spec {
	__u8 words; /* 3, 6, 12 or 16 */
	__u8 enter_class;
	__u8 return_class;
	__u8 enter_steps;
	__u8 return_steps; /* after the enter_steps in `steps` */
	__u8 conditions;
	__u8 flags;
	__u8 kept; /* 1 + the word that all return steps go by; 0: more than one */
	__u8 aggregate;
	__u8 measure;
	__u8 width; /* of what is measured: 1, 2, 4 or 8 */
	__u8 is_signed;
	__u16 measured;
	__u8 caller; /* a beginning's result is the address that the call returns to */
	__u8 unused;
	struct condition when[MOST_CONDITIONS];
	struct step steps[MOST_STEPS];
};

/* Where a marker's argument is. */
#define OPERAND_NONE 0
#define OPERAND_CONSTANT 1 /* `value` */
#define OPERAND_REGISTER 2 /* `base`, shifted right by `shift` */
#define OPERAND_MEMORY 3   /* at `base` + (`index` << `shift`) + `value` */

#define MOST_OPERANDS 12
/* Instead of a register. */
#define REGISTER_NONE 0xff

struct operand {
	__u8 kind;
	__u8 size; /* 1, 2, 4, 8 */
	__u8 is_signed;
	__u8 shift;
	__u8 base; /* registers by their places in struct pt_regs, in words */
	__u8 index;
	__u8 reserved[2];
	__u64 value;
};

/* The arguments of a marker at one of its places. */
struct site {
	struct operand at[MOST_OPERANDS];
};

/* settings.filter: all that are set must hold. */
#define FILTER_TREE 1
#define FILTER_CGROUP 2
#define FILTER_USER 4

struct settings {
	__u64 until;	/* CLOCK_MONOTONIC; later calls are left out */
	__u64 cgroup;	/* id of a cgroup; those below it count */
	__u64 enough;	/* bytes in the ring from which on no new calls are taken */
	__u64 hold;	/* nanoseconds that a loading thread waits for an answer */
	__u64 shortest; /* nanoseconds; 0: all calls are told of when they begin */
	__u32 filter;
	__u32 disabled;
	__u32 user;
	__u32 own;	/* the tracer itself is never traced */
	__u32 first;	/* a traced process that need not be looked for in the tree */
	__u32 sample;	/* one of so many calls is recorded; 0 and 1: all */
};

/* Places in `counters`. */
#define COUNT_LOST 0	  /* calls that began and found no room */
#define COUNT_LOST_ENDS 1 /* returns that found no room */
#define COUNT_FAULTS 2	  /* pieces that could not be read */
#define COUNT_UNSAVED 3	  /* calls whose pointers could not be kept until they return */
#define COUNT_UNWANTED 4  /* calls that a condition left out */
#define COUNT_LATE 5	  /* loads that went on without an answer */
#define COUNT_LOST_SYSTEM 6 /* system calls that found no room */
#define COUNT_LOST_INSTANT 7
#define COUNT_SHORT 8	  /* calls that were too short */
#define COUNT_UNSAMPLED 9 /* calls that a sample left out */
#define COUNTERS 16

/* Key of what is kept of a call until it returns. */
struct call_key {
	__u64 stack;
	__u32 thread;
	__u32 function; /* one may jump into another with its own frame */
};

/* The beginning of a call that may turn out to be too short: a record, of whatever class. Its kind is
 * written last. */
struct held {
	struct record head;
	char body[BODY_5];
};

/* How many values there were from each power of two to the next. */
struct histogram {
	__u64 total;
	__u64 negative;
	__u64 zero;
	__u64 powers[64];
};

/* Calls of one function of the kernel that are measured at their return, in one thread. */
#define MOST_NESTED 8

struct started {
	__u64 depth;
	__u64 times[MOST_NESTED];
};

struct saved_words {
	__u64 words[MOST_WORDS];
};

#endif
