//! NV_STATUS: what the driver answers. The ioctl itself returns 0 even when it refuses.

use std::fmt;

use super::tables;
use super::version::Version;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NvStatus(pub u32);

impl NvStatus {
    pub const OK: NvStatus = NvStatus(0);

    pub fn is_ok(self) -> bool {
        self == NvStatus::OK
    }

    /// `NV_ERR_NO_MEMORY`.
    pub fn name(self) -> Option<&'static str> {
        let found = tables::statuses().find(self.0, Version::NEWEST);
        found.map(|row| row.name)
    }
}

impl fmt::Display for NvStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            _ if self.is_ok() => f.write_str("ok"),
            Some(name) => write!(f, "{name} ({:#x})", self.0),
            None => write!(f, "status {:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_names() {
        assert_eq!(NvStatus(0).to_string(), "ok");
        assert_eq!(NvStatus(0x1f).to_string(), "NV_ERR_INVALID_ARGUMENT (0x1f)");
        assert_eq!(NvStatus(0x51).name(), Some("NV_ERR_NO_MEMORY"));
        assert_eq!(NvStatus(0xffff_fff0).to_string(), "status 0xfffffff0");
    }
}
