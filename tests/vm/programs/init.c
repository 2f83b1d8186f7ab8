/* cuInit of whatever libcuda there is; its answer on standard output. */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = library ? (int (*)(unsigned))dlsym(library, "cuInit") : 0;

	if (!init) {
		fprintf(stderr, "init: %s\n", dlerror());
		return 1;
	}
	printf("cuInit: %d\n", init(0));
	return 0;
}
