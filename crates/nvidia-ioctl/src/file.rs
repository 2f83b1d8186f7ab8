//! The driver's device files, and the parts of a request's number.

use std::fmt;

/// Whose request it is: numbers mean different things on different files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceFile {
    /// /dev/nvidiactl
    Control,
    /// /dev/nvidia0, /dev/nvidia1 …
    Gpu(u32),
    /// /dev/nvidia-uvm
    Uvm,
    /// /dev/nvidia-uvm-tools
    UvmTools,
    /// Another driver's: only the parts of the number are known.
    Other,
}

/// The major number of nvidiactl and nvidiaN; that of nvidia-uvm differs from boot to boot.
const FRONTEND_MAJOR: u32 = 195;

impl DeviceFile {
    /// By the last part of its path, wherever the folder is.
    pub fn from_path(path: &str) -> DeviceFile {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name {
            "nvidiactl" => DeviceFile::Control,
            "nvidia-uvm" => DeviceFile::Uvm,
            "nvidia-uvm-tools" => DeviceFile::UvmTools,
            _ => (name.strip_prefix("nvidia"))
                .and_then(|number| number.parse().ok())
                .map_or(DeviceFile::Other, DeviceFile::Gpu),
        }
    }

    /// By device number. `uvm_major` is what /proc/devices says of nvidia-uvm.
    pub fn from_device(major: u32, minor: u32, uvm_major: Option<u32>) -> DeviceFile {
        match (major, minor) {
            (FRONTEND_MAJOR, 255) => DeviceFile::Control,
            (FRONTEND_MAJOR, 0..=247) => DeviceFile::Gpu(minor),
            _ if Some(major) == uvm_major && minor == 0 => DeviceFile::Uvm,
            _ if Some(major) == uvm_major && minor == 1 => DeviceFile::UvmTools,
            _ => DeviceFile::Other,
        }
    }

    /// Whether requests are bare numbers, without direction and size.
    pub fn is_uvm(self) -> bool {
        matches!(self, DeviceFile::Uvm | DeviceFile::UvmTools)
    }

    /// nvidiactl or nvidiaN.
    pub fn is_frontend(self) -> bool {
        matches!(self, DeviceFile::Control | DeviceFile::Gpu(_))
    }
}

/// What Linux packs into a request's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ioc {
    pub direction: Direction,
    pub kind: u8,
    pub number: u8,
    /// Bytes of the struct; 14 bits.
    pub size: u16,
}

/// Which way the struct is copied, as the program sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    None,
    Write,
    Read,
    Both,
}

impl Direction {
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::None => "-",
            Direction::Write => "W",
            Direction::Read => "R",
            Direction::Both => "RW",
        }
    }
}

impl Ioc {
    pub fn split(cmd: u32) -> Ioc {
        let [number, kind, low, high] = cmd.to_le_bytes();
        Ioc {
            direction: match high >> 6 {
                0 => Direction::None,
                1 => Direction::Write,
                2 => Direction::Read,
                _ => Direction::Both,
            },
            kind,
            number,
            size: u16::from_le_bytes([low, high & 0x3f]),
        }
    }

    /// The type as it is written in headers: a letter where it is one.
    pub fn kind_text(self) -> String {
        let letter = char::from(self.kind);
        if letter.is_ascii_graphic() {
            letter.to_string()
        } else {
            format!("{:#04x}", self.kind)
        }
    }
}

impl fmt::Display for Ioc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (direction, kind) = (self.direction.as_str(), self.kind_text());
        let (number, size) = (self.number, self.size);
        write!(f, "dir={direction} type={kind} nr={number:#x} size={size}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fall_into_their_parts() {
        let control = Ioc::split(0xc020_462a);
        assert_eq!(control.to_string(), "dir=RW type=F nr=0x2a size=32");
        assert_eq!(Ioc::split(0x5401).to_string(), "dir=- type=T nr=0x1 size=0");
        assert_eq!(
            Ioc::split(0x8004_0001).to_string(),
            "dir=R type=0x00 nr=0x1 size=4"
        );
    }

    #[test]
    fn files_are_told_apart_by_path_and_number() {
        use DeviceFile::*;
        let paths = [
            "/dev/nvidiactl",
            "/tmp/x/nvidia3",
            "/dev/nvidia-uvm",
            "/dev/nvidia-uvm-tools",
        ];
        assert_eq!(
            paths.map(DeviceFile::from_path),
            [Control, Gpu(3), Uvm, UvmTools]
        );
        for other in [
            "/dev/nvidia-modeset",
            "/dev/null",
            "",
            "/dev/nvidiax",
            "/dev/nvidia",
        ] {
            assert_eq!(DeviceFile::from_path(other), Other, "{other}");
        }
        let numbers = [
            (195, 255),
            (195, 7),
            (511, 0),
            (511, 1),
            (511, 2),
            (195, 254),
        ];
        assert_eq!(
            numbers.map(|(major, minor)| DeviceFile::from_device(major, minor, Some(511))),
            [Control, Gpu(7), Uvm, UvmTools, Other, Other]
        );
        assert_eq!(DeviceFile::from_device(511, 0, None), Other);
    }
}
