//! Texture and surface objects: descriptions between the runtime's form and the driver's.

use std::ffi::{c_int, c_uint};
use std::mem::zeroed;

use crate::api::array;
use crate::call::given;
use crate::error::Error;
use crate::types::ChannelFormatDesc;

/// cudaResourceType.
const LINEAR: c_int = 2;
const PITCH_2D: c_int = 3;

/// CU_TRSF_*.
const READ_AS_INTEGER: c_uint = 0x01;
const NORMALIZED_COORDINATES: c_uint = 0x02;
const SRGB: c_uint = 0x10;
const DISABLE_TRILINEAR: c_uint = 0x20;
const SEAMLESS_CUBEMAP: c_uint = 0x40;

/// cudaReadModeNormalizedFloat.
const NORMALIZED_FLOAT: c_int = 1;

/// Memory seen as a texture: linear (one size) or rows (width, height, pitch).
#[repr(C)]
#[derive(Clone, Copy)]
struct Linear {
    pointer: u64,
    desc: ChannelFormatDesc,
    sizes: [usize; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DriverLinear {
    pointer: u64,
    format: c_int,
    channels: c_uint,
    sizes: [usize; 3],
}

const UNION: usize = if cfg!(feature = "cuda12") { 7 } else { 16 };

/// cudaResourceDesc: a type and one of four structures, the larger two being `Linear`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ResourceDesc {
    kind: c_int,
    words: [u64; UNION],
    #[cfg(not(feature = "cuda12"))]
    flags: c_uint,
}

/// CUDA_RESOURCE_DESC.
#[repr(C)]
#[derive(Clone, Copy)]
struct DriverResourceDesc {
    kind: c_int,
    words: [u64; 16],
    flags: c_uint,
}

impl ResourceDesc {
    fn for_driver(&self) -> Result<DriverResourceDesc, Error> {
        let mut out = DriverResourceDesc {
            kind: self.kind,
            words: [0; 16],
            flags: 0,
        };
        out.words[0] = self.words[0];
        if matches!(self.kind, LINEAR | PITCH_2D) {
            // The words are as large and as aligned as the structure.
            let linear = unsafe { self.words.as_ptr().cast::<Linear>().read() };
            let (format, channels) = array::format(&linear.desc)?;
            let driver = DriverLinear {
                pointer: linear.pointer,
                format,
                channels,
                sizes: linear.sizes,
            };
            unsafe { out.words.as_mut_ptr().cast::<DriverLinear>().write(driver) };
            if self.kind == LINEAR {
                out.words[3..].fill(0);
            }
        }
        Ok(out)
    }

    fn from_driver(driver: &DriverResourceDesc) -> Result<ResourceDesc, Error> {
        let mut out: ResourceDesc = unsafe { zeroed() };
        out.kind = driver.kind;
        out.words[0] = driver.words[0];
        if matches!(driver.kind, LINEAR | PITCH_2D) {
            let linear = unsafe { driver.words.as_ptr().cast::<DriverLinear>().read() };
            let desc = array::description(linear.format, linear.channels)?;
            let mut sizes = linear.sizes;
            if driver.kind == LINEAR {
                sizes[1..].fill(0);
            }
            let linear = Linear {
                pointer: linear.pointer,
                desc,
                sizes,
            };
            unsafe { out.words.as_mut_ptr().cast::<Linear>().write(linear) };
        }
        Ok(out)
    }
}

/// cudaTextureDesc.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TextureDesc {
    address_mode: [c_int; 3],
    filter_mode: c_int,
    read_mode: c_int,
    srgb: c_int,
    border_color: [f32; 4],
    normalized_coordinates: c_int,
    max_anisotropy: c_uint,
    mipmap_filter_mode: c_int,
    mipmap_level_bias: f32,
    min_mipmap_level_clamp: f32,
    max_mipmap_level_clamp: f32,
    disable_trilinear: c_int,
    seamless_cubemap: c_int,
}

/// CUDA_TEXTURE_DESC.
#[repr(C)]
#[derive(Clone, Copy)]
struct DriverTextureDesc {
    address_mode: [c_int; 3],
    filter_mode: c_int,
    flags: c_uint,
    max_anisotropy: c_uint,
    mipmap_filter_mode: c_int,
    mipmap_level_bias: f32,
    min_mipmap_level_clamp: f32,
    max_mipmap_level_clamp: f32,
    border_color: [f32; 4],
    reserved: [c_int; 12],
}

impl TextureDesc {
    fn for_driver(&self) -> DriverTextureDesc {
        let flags = [
            (self.read_mode != NORMALIZED_FLOAT, READ_AS_INTEGER),
            (self.normalized_coordinates != 0, NORMALIZED_COORDINATES),
            (self.srgb != 0, SRGB),
            (self.disable_trilinear != 0, DISABLE_TRILINEAR),
            (self.seamless_cubemap != 0, SEAMLESS_CUBEMAP),
        ];
        DriverTextureDesc {
            address_mode: self.address_mode,
            filter_mode: self.filter_mode,
            flags: flags.iter().filter(|flag| flag.0).map(|flag| flag.1).sum(),
            max_anisotropy: self.max_anisotropy,
            mipmap_filter_mode: self.mipmap_filter_mode,
            mipmap_level_bias: self.mipmap_level_bias,
            min_mipmap_level_clamp: self.min_mipmap_level_clamp,
            max_mipmap_level_clamp: self.max_mipmap_level_clamp,
            border_color: self.border_color,
            reserved: [0; 12],
        }
    }

    fn from_driver(driver: &DriverTextureDesc) -> TextureDesc {
        let is = |flag| c_int::from(driver.flags & flag != 0);
        TextureDesc {
            address_mode: driver.address_mode,
            filter_mode: driver.filter_mode,
            read_mode: NORMALIZED_FLOAT - is(READ_AS_INTEGER),
            srgb: is(SRGB),
            border_color: driver.border_color,
            normalized_coordinates: is(NORMALIZED_COORDINATES),
            max_anisotropy: driver.max_anisotropy,
            mipmap_filter_mode: driver.mipmap_filter_mode,
            mipmap_level_bias: driver.mipmap_level_bias,
            min_mipmap_level_clamp: driver.min_mipmap_level_clamp,
            max_mipmap_level_clamp: driver.max_mipmap_level_clamp,
            disable_trilinear: is(DISABLE_TRILINEAR),
            seamless_cubemap: is(SEAMLESS_CUBEMAP),
        }
    }
}

/// What cudaResourceViewDesc of both versions begins with; formats have the driver's numbers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ResourceViewDesc {
    format: c_int,
    extent: [usize; 3],
    levels_and_layers: [c_uint; 4],
}

/// CUDA_RESOURCE_VIEW_DESC.
#[repr(C)]
struct DriverResourceViewDesc {
    view: ResourceViewDesc,
    reserved: [c_uint; 16],
}

cuda! {
    context fn cudaCreateTextureObject(
        object: *mut u64, resource: *const ResourceDesc, texture: *const TextureDesc,
        view: *const ResourceViewDesc,
    ) |cu| {
        given(object)?;
        given(resource)?;
        given(texture)?;
        let resource = (*resource).for_driver()?;
        let texture = (*texture).for_driver();
        let view = view.as_ref().map(|view| {
            DriverResourceViewDesc { view: *view, reserved: [0; 16] }
        });
        let view = view.as_ref().map_or(std::ptr::null(), |view| std::ptr::from_ref(view).cast());
        let (resource, texture) = ((&raw const resource).cast(), (&raw const texture).cast());
        cu.cuTexObjectCreate(object, resource, texture, view)
    };
    context fn cudaDestroyTextureObject(object: u64) |cu| {
        if object == 0 { Ok(()) } else { cu.cuTexObjectDestroy(object) }
    };
    context fn cudaGetTextureObjectResourceDesc(out: *mut ResourceDesc, object: u64) |cu| {
        given(out)?;
        let mut driver: DriverResourceDesc = zeroed();
        cu.cuTexObjectGetResourceDesc((&raw mut driver).cast(), object)?;
        out.write(ResourceDesc::from_driver(&driver)?);
        Ok(())
    };
    context fn cudaGetTextureObjectTextureDesc(out: *mut TextureDesc, object: u64) |cu| {
        given(out)?;
        let mut driver: DriverTextureDesc = zeroed();
        cu.cuTexObjectGetTextureDesc((&raw mut driver).cast(), object)?;
        out.write(TextureDesc::from_driver(&driver));
        Ok(())
    };
    context fn cudaGetTextureObjectResourceViewDesc(
        out: *mut ResourceViewDesc, object: u64,
    ) |cu| {
        given(out)?;
        let mut driver: DriverResourceViewDesc = zeroed();
        cu.cuTexObjectGetResourceViewDesc((&raw mut driver).cast(), object)?;
        out.write(driver.view);
        Ok(())
    };

    context fn cudaCreateSurfaceObject(object: *mut u64, resource: *const ResourceDesc) |cu| {
        given(object)?;
        given(resource)?;
        let resource = (*resource).for_driver()?;
        cu.cuSurfObjectCreate(object, (&raw const resource).cast())
    };
    context fn cudaDestroySurfaceObject(object: u64) |cu| {
        if object == 0 { Ok(()) } else { cu.cuSurfObjectDestroy(object) }
    };
    context fn cudaGetSurfaceObjectResourceDesc(out: *mut ResourceDesc, object: u64) |cu| {
        given(out)?;
        let mut driver: DriverResourceDesc = zeroed();
        cu.cuSurfObjectGetResourceDesc((&raw mut driver).cast(), object)?;
        out.write(ResourceDesc::from_driver(&driver)?);
        Ok(())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As texture_types.h, driver_types.h and cuda.h have them.
    #[test]
    fn sizes_are_the_headers() {
        assert_eq!(
            size_of::<ResourceDesc>(),
            if cfg!(feature = "cuda12") { 64 } else { 144 }
        );
        assert_eq!(size_of::<DriverResourceDesc>(), 144);
        assert_eq!(size_of::<TextureDesc>(), 72);
        assert_eq!(size_of::<DriverTextureDesc>(), 104);
        assert_eq!(size_of::<ResourceViewDesc>(), 48);
        assert_eq!(size_of::<DriverResourceViewDesc>(), 112);
        assert_eq!(size_of::<Linear>(), 56);
    }
}
