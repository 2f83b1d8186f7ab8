/* What CUDA's headers need of EGL: the names, not the library. */
#pragma once
typedef int EGLint;
typedef unsigned int EGLBoolean;
