/* A C library small enough for the parser: CUDA's headers use no more of it. */
#pragma once
#include <stddef.h>
