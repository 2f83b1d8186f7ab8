//! Classes of objects: their names, and the few kinds that a reader cares about.

use event::Category;

use super::tables;
use super::version::Version;

/// What sort of thing a class makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    Client,
    Device,
    Subdevice,
    Channel,
    /// A TSG: channels that are scheduled as one.
    ChannelGroup,
    ContextShare,
    AddressSpace,
    /// Video memory.
    DeviceMemory,
    /// Host memory that the driver allocates.
    HostMemory,
    /// Host memory that the program has.
    RegisteredMemory,
    /// A range of addresses, or memory from elsewhere.
    OtherMemory,
    /// The page that holds the doorbell.
    Doorbell,
    Event,
    /// Compute, copy and other engines in a channel.
    Engine,
    Other,
}

impl ObjectKind {
    /// By number, and for those of which every GPU generation has its own, by the name's end.
    pub fn of(class: u32, name: Option<&str>) -> ObjectKind {
        match class {
            0x0000 | 0x0001 | 0x0041 => return ObjectKind::Client,
            0x0080 => return ObjectKind::Device,
            0x2080 => return ObjectKind::Subdevice,
            0xa06c => return ObjectKind::ChannelGroup,
            0x9067 => return ObjectKind::ContextShare,
            0x90f1 => return ObjectKind::AddressSpace,
            0x003f | 0x0040 => return ObjectKind::DeviceMemory,
            0x003e => return ObjectKind::HostMemory,
            0x0071 => return ObjectKind::RegisteredMemory,
            0x0005 | 0x0078 | 0x0079 | 0x007e | 0x90cd => return ObjectKind::Event,
            _ => {}
        }
        let name = name.unwrap_or_default();
        if name.contains("_CHANNEL_GPFIFO") {
            ObjectKind::Channel
        } else if name.contains("_USERMODE_") {
            ObjectKind::Doorbell
        } else if name.contains("_COMPUTE_") || name.contains("_DMA_COPY_") {
            ObjectKind::Engine
        } else if name.contains("MEMORY") {
            ObjectKind::OtherMemory
        } else {
            ObjectKind::Other
        }
    }

    /// In front of a handle: `ch:0x5c000013`.
    pub fn prefix(self) -> &'static str {
        match self {
            ObjectKind::Client => "client",
            ObjectKind::Device => "dev",
            ObjectKind::Subdevice => "subdev",
            ObjectKind::Channel => "ch",
            ObjectKind::ChannelGroup => "tsg",
            ObjectKind::ContextShare => "ctxshare",
            ObjectKind::AddressSpace => "vas",
            ObjectKind::DeviceMemory
            | ObjectKind::HostMemory
            | ObjectKind::RegisteredMemory
            | ObjectKind::OtherMemory => "mem",
            ObjectKind::Doorbell => "doorbell",
            ObjectKind::Event => "event",
            ObjectKind::Engine => "engine",
            ObjectKind::Other => "obj",
        }
    }

    pub fn category(self) -> Category {
        match self {
            ObjectKind::Client | ObjectKind::Device | ObjectKind::Subdevice => Category::Init,
            ObjectKind::Channel
            | ObjectKind::ChannelGroup
            | ObjectKind::ContextShare
            | ObjectKind::AddressSpace
            | ObjectKind::Doorbell
            | ObjectKind::Engine => Category::Context,
            ObjectKind::DeviceMemory
            | ObjectKind::HostMemory
            | ObjectKind::RegisteredMemory
            | ObjectKind::OtherMemory => Category::Memory,
            ObjectKind::Event => Category::Event,
            ObjectKind::Other => Category::Other,
        }
    }
}

/// The name of a class: `HOPPER_CHANNEL_GPFIFO_A`.
pub fn class_name(class: u32, version: Version) -> Option<&'static str> {
    (tables::classes().find(class, version)).map(|row| row.name)
}

/// What the commands of this control's class and category are about; of closed ones nothing more is
/// known.
pub fn control_group(control: u32, version: Version) -> Option<&'static str> {
    (tables::groups().find(control >> 8, version)).map(|row| row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_without_a_name_have_a_group() {
        let of = |control| control_group(control, "580".parse().unwrap());
        assert_eq!(
            of(0x2080_9009),
            Some("NV2080_CTRL_CLK_LEGACY_NON_PRIVILEGED")
        );
        assert_eq!(of(0x2080_0145), Some("NV2080_CTRL_GPU"));
        assert_eq!(of(0x2081_0108), None);
    }

    #[test]
    fn classes_have_names_and_kinds() {
        let of = |class| {
            let name = class_name(class, Version::NEWEST);
            (name.unwrap_or("?"), ObjectKind::of(class, name))
        };
        assert_eq!(of(0xc86f), ("HOPPER_CHANNEL_GPFIFO_A", ObjectKind::Channel));
        assert_eq!(of(0xc661), ("HOPPER_USERMODE_A", ObjectKind::Doorbell));
        assert_eq!(of(0xcbc0), ("HOPPER_COMPUTE_A", ObjectKind::Engine));
        assert_eq!(of(0xc8b5), ("HOPPER_DMA_COPY_A", ObjectKind::Engine));
        assert_eq!(
            of(0xa06c),
            ("KEPLER_CHANNEL_GROUP_A", ObjectKind::ChannelGroup)
        );
        assert_eq!(
            of(0x0040),
            ("NV01_MEMORY_LOCAL_USER", ObjectKind::DeviceMemory)
        );
        assert_eq!(of(0x50a0), ("NV50_MEMORY_VIRTUAL", ObjectKind::OtherMemory));
        assert_eq!(of(0xffff), ("?", ObjectKind::Other));
    }
}
