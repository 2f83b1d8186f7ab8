/* What CUDA's headers need of GL: the names, not the library. */
#pragma once
typedef unsigned int GLenum;
typedef unsigned int GLuint;
