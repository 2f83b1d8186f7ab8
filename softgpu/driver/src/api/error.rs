//! Names and descriptions of CUresult values.

use crate::{
    abi::Text,
    device::error_text,
    entry::{early_api, put},
    result::INVALID_VALUE,
};

early_api! {
    fn cuGetErrorName(error: u32, text: *mut Text) {
        let found = error_text(error);
        put(text, found.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        found.map(|_| ()).ok_or(INVALID_VALUE)
    }

    fn cuGetErrorString(error: u32, text: *mut Text) {
        let found = error_text(error);
        put(text, found.map_or(std::ptr::null(), |(_, words)| words.as_ptr()))?;
        found.map(|_| ()).ok_or(INVALID_VALUE)
    }
}
