//! A number with its noun, for messages.

use alloc::{format, string::String};

/// `1 kernel`, `2 kernels`
pub fn counted(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{number} {noun}")
}
