/* What nvcc's generated host code calls in libcudart. These have no public header in C; the
 * prototypes are written here from the calls nvcc emits. */
#pragma once
void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
void __cudaUnregisterFatBinary(void **fatCubinHandle);
void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int threadLimit, struct uint3 *tid,
                            struct uint3 *bid, struct dim3 *bDim, struct dim3 *gDim, int *wSize);
void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                       const char *deviceName, int ext, size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global);
void __cudaRegisterHostVar(void **fatCubinHandle, const char *deviceName, char *hostVar,
                           size_t size);
char __cudaInitModule(void **fatCubinHandle);
unsigned int __cudaPushCallConfiguration(struct dim3 gridDim, struct dim3 blockDim,
                                         size_t sharedMem, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(struct dim3 *gridDim, struct dim3 *blockDim,
                                       size_t *sharedMem, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *hostFun);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 gridDim, struct dim3 blockDim,
                               void **args, size_t sharedMem, cudaStream_t stream);
