/* What CUDA's headers need of EGL's extensions. */
#pragma once
#include "egl.h"
typedef void *EGLImageKHR;
typedef void *EGLStreamKHR;
typedef void *EGLSyncKHR;
