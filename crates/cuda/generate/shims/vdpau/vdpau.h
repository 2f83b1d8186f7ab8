/* What CUDA's headers need of VDPAU. */
#pragma once
typedef unsigned int VdpDevice;
typedef unsigned int VdpFuncId;
typedef unsigned int VdpVideoSurface;
typedef unsigned int VdpOutputSurface;
typedef int VdpStatus;
typedef VdpStatus VdpGetProcAddress(VdpDevice device, VdpFuncId function, void **pointer);
