// Loads device code in each of the driver's ways, and runs its kernel: 2 launches of 4 blocks of 32.
//   loads HOW IMAGE
//     data, data_ex, fat_binary     from memory, as a module
//     file                          from a file, as a module
//     library, library_file         the same, as a library
//     link, link_file               through the linker
#include "driver.h"
#include <cstring>
#include <string>
#include <vector>

static std::vector<char> read(const char *path) {
    std::vector<char> bytes;
    FILE *file = fopen(path, "rb");
    EXPECT(file, "no %s", path);
    for (int byte; (byte = fgetc(file)) != EOF;) bytes.push_back(char(byte));
    fclose(file);
    // PTX is a text: it ends with a zero.
    bytes.push_back(0);
    return bytes;
}

static CUjitInputType kind(const std::vector<char> &image) {
    if (!memcmp(image.data(), "\x7f" "ELF", 4)) return CU_JIT_INPUT_CUBIN;
    return !memcmp(image.data(), "\x50\xed\x55\xba", 4) ? CU_JIT_INPUT_FATBINARY : CU_JIT_INPUT_PTX;
}

int main(int argc, char **argv) {
    EXPECT(argc == 3, "loads HOW IMAGE");
    std::string how = argv[1];
    const char *path = argv[2];
    std::vector<char> image = read(path);
    CUdevice device;
    CUcontext context;
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    CUmodule module = nullptr;
    CUlibrary library = nullptr;
    CUlinkState link = nullptr;
    if (how == "data") {
        CU(cuModuleLoadData(&module, image.data()));
    } else if (how == "data_ex") {
        char log[1000] = "";
        CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {log, (void *)sizeof log};
        CU(cuModuleLoadDataEx(&module, image.data(), 2, options, values));
    } else if (how == "fat_binary") {
        CU(cuModuleLoadFatBinary(&module, image.data()));
    } else if (how == "file") {
        CU(cuModuleLoad(&module, path));
    } else if (how == "library") {
        CU(cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    } else if (how == "library_file") {
        CU(cuLibraryLoadFromFile(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0));
    } else {
        CU(cuLinkCreate(0, nullptr, nullptr, &link));
        if (how == "link")
            CU(cuLinkAddData(link, kind(image), image.data(), image.size(), "loads", 0, nullptr, nullptr));
        else
            CU(cuLinkAddFile(link, kind(image), path, 0, nullptr, nullptr));
        void *cubin;
        size_t bytes;
        CU(cuLinkComplete(link, &cubin, &bytes));
        CU(cuModuleLoadData(&module, cubin));
    }
    CUfunction function;
    if (library) {
        CUkernel kernel;
        CU(cuLibraryGetKernel(&kernel, library, "version"));
        CU(cuKernelGetFunction(&function, kernel));
    } else {
        CU(cuModuleGetFunction(&function, module, "version"));
    }
    int out[128];
    CUdeviceptr place;
    CU(cuMemAlloc(&place, sizeof out));
    void *arguments[] = {&place};
    for (int i = 0; i < 2; i++) CU(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
    CU(cuMemcpyDtoH(out, place, sizeof out));
    for (int value : out) EXPECT(value == out[0], "%d beside %d", value, out[0]);
    fact("version %d", out[0]);
    CU(cuMemFree(place));
    if (link) CU(cuLinkDestroy(link));
    if (library) CU(cuLibraryUnload(library));
    if (module) CU(cuModuleUnload(module));
    CU(cuDevicePrimaryCtxRelease(device));
    return 0;
}
