/* A libcuda.so.1 of a few functions that send requests to the driver, for tests in a machine without a
 * GPU: what matters is that calls, requests and functions of the driver are seen, and as one tree. */
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define RM_FREE _IOWR('F', 0x29, char[16])
#define RM_ALLOC _IOWR('F', 0x2b, char[48])
#define UVM_INITIALIZE 0x30000001
#define UVM_MIGRATE 51

static int control = -1, uvm = -1;

__attribute__((visibility("default"))) int cuInit(unsigned flags)
{
	char parameters[16] = { 0 };

	control = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
	uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
	if (control < 0 || uvm < 0)
		return 100;
	return ioctl(uvm, UVM_INITIALIZE, parameters) ? 999 : 0;
}

__attribute__((visibility("default"))) int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
	unsigned parameters[12] = { 0 };

	parameters[3] = 0x40; /* memory of the GPU */
	if (ioctl(control, RM_ALLOC, parameters))
		return 2;
	*address = 0x700000000000ull + bytes;
	return 0;
}

__attribute__((visibility("default"))) int cuMemFree_v2(unsigned long long address)
{
	unsigned parameters[4] = { 0 };

	return ioctl(control, RM_FREE, parameters) ? 1 : 0;
}

__attribute__((visibility("default"))) int cuMemPrefetchAsync(unsigned long long address, size_t count,
							      int device, void *stream)
{
	char parameters[80] = { 0 };

	return ioctl(uvm, UVM_MIGRATE, parameters) ? 999 : 0;
}

__attribute__((visibility("default"))) int cuGetErrorName(int error, const char **text)
{
	*text = error ? "CUDA_ERROR_UNKNOWN" : "CUDA_SUCCESS";
	return 0;
}
