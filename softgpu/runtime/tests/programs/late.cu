// Device code that comes with dlopen after the runtime has started, goes with dlclose, and comes
// again: late PLUGIN
#include "report.h"
#include <pthread.h>

__global__ void nothing() {}

static void *use(void *path) {
    for (int i = 0; i < 3; i++) {
        void *plugin = dlopen((const char *)path, RTLD_NOW | RTLD_LOCAL);
        if (!plugin) return (void *)dlerror();
        int (*run)(int) = (int (*)(int))dlsym(plugin, "plugin_run");
        V("plugin %d", run(i));
        V("plugin %d", run(i));
        dlclose(plugin);
    }
    return NULL;
}

int main(int count, char **arguments) {
    open_driver();
    T((nothing<<<1, 1>>>(), 0));
    const char *why = (const char *)use(arguments[count - 1]);
    if (why) V("%s", why);
    pthread_t thread;
    pthread_create(&thread, NULL, use, arguments[count - 1]);
    pthread_join(thread, NULL);
    T((nothing<<<1, 1>>>(), 0));
    T(cudaDeviceSynchronize());
    return 0;
}
