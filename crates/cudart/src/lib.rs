//! The CUDA runtime library (libcudart.so.12, .13) over a driver library found at run time.
