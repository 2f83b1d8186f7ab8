/* Markers without anybody's headers: the notes are written here. As a program it marks by itself; as a
 * library (-DLIBRARY -shared) it is loaded by the program, given its path.
 *
 *   markers ROUNDS [LIBRARY]    marks, and tells how often somebody listened
 *   markers wait ROUNDS         marks 'tick' until its input tells it to go on, then as above */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__asm__(".pushsection .stapsdt.base, \"a\"\n"
	"here_is_the_base: .space 1\n"
	".popsection\n");

#define MARK(name, counter, arguments, ...)                                                        \
	__asm__ volatile("11: nop\n"                                                               \
			 ".pushsection .note.stapsdt, \"\", @note\n"                               \
			 ".balign 4\n"                                                             \
			 ".4byte 13f - 12f, 15f - 14f, 3\n"                                        \
			 "12: .asciz \"stapsdt\"\n"                                                \
			 "13: .balign 4\n"                                                         \
			 "14: .8byte 11b, here_is_the_base, " counter "\n"                         \
			 ".asciz \"demo\"\n"                                                       \
			 ".asciz \"" name "\"\n"                                                   \
			 ".asciz \"" arguments "\"\n"                                              \
			 "15: .balign 4\n"                                                         \
			 ".popsection\n" ::__VA_ARGS__)

/* Counts who listens to 'heard'. */
__attribute__((section(".probes"), visibility("hidden"))) volatile unsigned short listeners = 0;
__attribute__((visibility("hidden"))) unsigned totals[2] = { 7, 0 };

/* Every form of argument that compilers write, and one that nobody can read. */
static void mark_plain(int i)
{
	int numbers[16];
	short around[8] = { -300, 0, 0, 0, -301, 0, 0, 0 };
	char text[32];
	double floating = 1.5;

	for (int k = 0; k < 16; k++)
		numbers[k] = 100 * k - 500;
	snprintf(text, sizeof(text), "round %d", i);
	totals[1] = 70 + i;
	/* Nothing is called from here on that would use them. */
	register const char *shown __asm__("r10") = text;
	register unsigned ninth __asm__("r9") = 4000000000u + i;
	MARK("plain", "0",
	     "-4@%%eax -8@$-5 2@%%dx -1@%%bl 1@%%bh -4@8(%%rdi,%%rcx,4) -4@(%%rdi) "
	     "4@totals+4(%%rip) 8@%%r10 -2@-8(%%rsi) 8f@%%xmm0 4@%%r9d",
	     "a"(-i), "d"(0x12340000 | (60000 + i)), "b"(0x5a00 | (unsigned char)-i), "D"(numbers),
	     "c"((long)i), "r"(shown), "S"(around + 4), "x"(floating), "r"(ninth), "m"(numbers),
	     "m"(around), "m"(totals), "m"(text));
}

static int mark_heard(int i)
{
	if (!listeners)
		return 0;
	MARK("heard", "listeners", "-4@%%eax", "a"(i));
	return 1;
}

int marks(int rounds)
{
	int heard = 0;

	for (int i = 0; i < rounds; i++) {
		mark_plain(i);
		heard += mark_heard(i);
	}
	return heard;
}

#ifndef LIBRARY
static void tick_until_told(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	while (!poll(&input, 1, 5))
		MARK("tick", "0", "");
}

int main(int count, char **words)
{
	int (*chosen)(int) = marks;

	if (count > 2 && !strcmp(words[1], "wait"))
		tick_until_told();
	else if (count > 2)
		chosen = (int (*)(int))dlsym(dlopen(words[2], RTLD_NOW), "marks");
	printf("%d\n", chosen(atoi(words[count > 2 && !strcmp(words[1], "wait") ? 2 : 1])));
	return 0;
}
#endif
