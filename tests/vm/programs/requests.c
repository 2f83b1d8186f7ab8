/* Calls the driver by way of libcuda, so often as it is told; then plays an interrupt and an error of
 * the GPU, and touches memory that nvidia-uvm has mapped. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
int cuMemFree_v2(unsigned long long address);
int cuMemPrefetchAsync(unsigned long long address, size_t count, int device, void *stream);

int main(int count, char **words)
{
	int rounds = count > 1 ? atoi(words[1]) : 5, control, uvm;
	struct timespec moment = { 0, 50000000 };
	volatile char *memory;

	if (cuInit(0))
		return 1;
	for (int i = 0; i < rounds; i++) {
		unsigned long long address;

		if (cuMemAlloc_v2(&address, 1000 * (i + 1)) || cuMemPrefetchAsync(address, 1000, 0, 0) ||
		    cuMemFree_v2(address))
			return 1;
	}
	control = open("/dev/nvidiactl", O_RDWR);
	uvm = open("/dev/nvidia-uvm", O_RDWR);
	if (write(control, "irq", 3) != 3 || write(control, "xid", 3) != 3)
		return 1;
	memory = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, uvm, 0);
	if (memory == MAP_FAILED)
		return 1;
	memory[0] = 1;
	memory[4096] = 1;
	/* Off the processor, so that there is something to see. */
	nanosleep(&moment, 0);
	printf("%d rounds\n", rounds);
	return 0;
}
