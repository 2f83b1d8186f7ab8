// The program behind `cutrace demo`: a very small language model through the CUDA driver API. It
// loads weights, then makes one token after another: the input is copied, several kernels run, the
// token is read back. Every token is checked against the same arithmetic on the CPU.
//
// Three things are wrong with it on purpose, for the report to find:
//   1. the embedding table goes to the device again for every token, though it never changes;
//   2. between two requests the program waits, and the GPU with it;
//   3. every token's scratch memory is allocated and never freed.
// DEMO_HEALTHY=1 leaves all three out.
//
// It finds libcuda.so.1 as any program does, so it also runs on a real GPU.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__asm__(".section .rodata\n"
        ".global kernels_ptx\n"
        "kernels_ptx: .incbin \"kernels.ptx\"\n"
        ".byte 0\n"
        ".previous");
extern const char kernels_ptx[];

enum { WIDTH = 64, LAYERS = 3, VOCABULARY = 131072, CHOICES = 128, REQUESTS = 2, TOKENS = 16 };
enum { SCRATCH = 256 << 10, WAIT_MS = 80 };

typedef unsigned long long Pointer;
static void *library;

static void *entry(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "demo: libcuda.so.1 has no %s\n", name);
        exit(1);
    }
    return found;
}

#define CUDA(name, ...) check(#name, ((int (*)())entry(#name))(__VA_ARGS__))
static void check(const char *call, int result) {
    if (result == 0) return;
    const char *text = "unknown error";
    ((int (*)(int, const char **))entry("cuGetErrorString"))(result, &text);
    fprintf(stderr, "demo: %s: %s (%d)\n", call, text, result);
    exit(1);
}

// The same numbers in every run, between -1 and 1.
static float *numbers(size_t count) {
    static unsigned state = 1;
    float *data = malloc(count * sizeof *data);
    if (!data) exit(1);
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(int)state / 2147483648.0f;
    }
    return data;
}

static Pointer room(size_t bytes) {
    Pointer at;
    CUDA(cuMemAlloc_v2, &at, bytes);
    return at;
}

static Pointer upload(const void *data, size_t bytes) {
    Pointer at = room(bytes);
    CUDA(cuMemcpyHtoD_v2, at, data, bytes);
    return at;
}

// The model: on the host, and what of it lies on the device.
static float *table, *layers[LAYERS], *head;
static Pointer d_table, d_layers[LAYERS], d_head, d_x, d_token;
static void *embed, *project, *join, *choose;

static void launch(void *kernel, unsigned blocks, unsigned threads, void **parameters) {
    CUDA(cuLaunchKernel, kernel, blocks, 1u, 1u, threads, 1u, 1u, 0u, (void *)0, parameters, (void **)0);
}

static void load_model(void) {
    void *module;
    CUDA(cuModuleLoadData, &module, kernels_ptx);
    CUDA(cuModuleGetFunction, &embed, module, "embed");
    CUDA(cuModuleGetFunction, &project, module, "project");
    CUDA(cuModuleGetFunction, &join, module, "join");
    CUDA(cuModuleGetFunction, &choose, module, "choose");
    d_table = upload(table = numbers(VOCABULARY * WIDTH), VOCABULARY * WIDTH * sizeof *table);
    for (int i = 0; i < LAYERS; i++)
        d_layers[i] = upload(layers[i] = numbers(WIDTH * WIDTH), WIDTH * WIDTH * sizeof *table);
    d_head = upload(head = numbers(CHOICES * WIDTH), CHOICES * WIDTH * sizeof *head);
    d_x = room(WIDTH * sizeof(float));
    d_token = room(sizeof(int));
    CUDA(cuMemsetD8_v2, d_x, 0, WIDTH * sizeof(float));
}

// One token on the device. `scratch` is where layers put their results.
static int next_token(int token, Pointer scratch) {
    int width = WIDTH, choices = CHOICES;
    CUDA(cuMemcpyHtoD_v2, d_token, &token, sizeof token);
    launch(embed, 1, WIDTH, (void *[]){&d_table, &d_token, &d_x, &width});
    for (int i = 0; i < LAYERS; i++) {
        launch(project, WIDTH / 8, 256, (void *[]){&d_layers[i], &d_x, &scratch, &width, &width});
        launch(join, 1, WIDTH, (void *[]){&d_x, &scratch, &width});
    }
    launch(project, CHOICES / 8, 256, (void *[]){&d_head, &d_x, &scratch, &choices, &width});
    launch(choose, 1, 256, (void *[]){&scratch, &choices, &d_token});
    CUDA(cuMemcpyDtoH_v2, &token, d_token, sizeof token);
    return token;
}

// The scores of the next tokens, by the CPU; `x` is its own state.
static void reference(int token, double *x, double *scores) {
    double sum = 0, y[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        x[i] = table[token * WIDTH + i] + 0.5 * x[i];
        sum += x[i] * x[i];
    }
    for (int i = 0; i < WIDTH; i++) x[i] /= sqrt(sum / WIDTH + 1e-6);
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int i = 0; i < WIDTH; i++) {
            y[i] = 0;
            for (int k = 0; k < WIDTH; k++) y[i] += (double)layers[layer][i * WIDTH + k] * x[k];
        }
        for (int i = 0; i < WIDTH; i++) x[i] += y[i] / (1 + fabs(y[i]));
    }
    for (int i = 0; i < CHOICES; i++) {
        scores[i] = 0;
        for (int k = 0; k < WIDTH; k++) scores[i] += (double)head[i * WIDTH + k] * x[k];
    }
}

// Whether the device chose one of the best: in its shorter arithmetic near ones may change places.
static int right(int chosen, const double *scores) {
    if (chosen < 0 || chosen >= CHOICES) return 0;
    for (int i = 0; i < CHOICES; i++)
        if (scores[i] > scores[chosen] + 0.02) return 0;
    return 1;
}

int main(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "demo: %s\n", dlerror());
        return 1;
    }
    const char *wish = getenv("DEMO_HEALTHY");
    int healthy = wish && strcmp(wish, "1") == 0;
    void *context;
    char name[128];
    CUDA(cuInit, 0u);
    CUDA(cuDeviceGetName, name, (int)sizeof name, 0);
    CUDA(cuDevicePrimaryCtxRetain, &context, 0);
    CUDA(cuCtxSetCurrent, context);
    printf("device: %s\n", name);
    load_model();

    Pointer kept = healthy ? room(SCRATCH) : 0;
    double x[WIDTH] = {0}, scores[CHOICES];
    int wrong = 0, token = 1;
    for (int request = 0; request < REQUESTS; request++) {
        if (request && !healthy) {
            // What the second request waits for: nobody knows, and nothing else runs meanwhile.
            struct timespec wait = {0, WAIT_MS * 1000000L};
            nanosleep(&wait, NULL);
        }
        printf("request %d:", request + 1);
        for (int i = 0; i < TOKENS; i++) {
            Pointer scratch = kept;
            if (!healthy) {
                CUDA(cuMemcpyHtoD_v2, d_table, table, VOCABULARY * WIDTH * sizeof *table);
                scratch = room(SCRATCH);
            }
            int next = next_token(token, scratch);
            reference(token, x, scores);
            wrong += !right(next, scores);
            token = next;
            printf(" %d", token);
        }
        printf("\n");
    }
    printf("  %d tokens, %s\n", REQUESTS * TOKENS, wrong ? "RESULTS WRONG" : "results right");

    if (healthy) CUDA(cuMemFree_v2, kept);
    CUDA(cuMemFree_v2, d_table);
    for (int i = 0; i < LAYERS; i++) CUDA(cuMemFree_v2, d_layers[i]), free(layers[i]);
    CUDA(cuMemFree_v2, d_head);
    CUDA(cuMemFree_v2, d_x);
    CUDA(cuMemFree_v2, d_token);
    CUDA(cuDevicePrimaryCtxRelease_v2, 0);
    free(table), free(head);
    return wrong != 0;
}
