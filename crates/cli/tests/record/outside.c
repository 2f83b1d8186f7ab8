/* ioctls on a stand-in of the driver's file around a call of CUDA's, and in a thread that makes none.
 *   outside FILE */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>

static int driver;

static void *ask(void *unused)
{
    /* RM_FREE: root, parent, old, status. */
    unsigned parameters[4] = {1, 2, 3, 0};
    ioctl(driver, 0xc0104629, parameters);
    return unused;
}

int main(int count, char **words)
{
    pthread_t thread;
    driver = count > 1 ? open(words[1], O_RDWR) : -1;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*call)(int *) = library ? (int (*)(int *))dlsym(library, "cuDeviceGetCount") : 0;
    int version;
    if (driver < 0 || !call)
        return 1;
    ask(0);
    call(&version);
    ask(0);
    ask(0);
    call(&version);
    ask(0);
    pthread_create(&thread, 0, ask, 0);
    pthread_join(thread, 0);
    return 0;
}
