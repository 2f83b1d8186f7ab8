//! What the kernel counted instead of recording it: how often a hook was hit, or a histogram of what it measured.

use alloc::{string::String, vec::Vec};

/// One hook's count or histogram in one place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Aggregate {
    /// Where: a probe as bpftrace writes it, or the hook's own name.
    pub key: String,
    /// What is counted: `count`, `duration_ns`, `arg1`, an argument's name.
    pub of: String,
    /// How many calls or events there were.
    pub count: u64,
    /// The sum of all values; of a count, nothing.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub total: Option<i64>,
    /// Those that are not empty, from the smallest value on.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub histogram: Vec<Bucket>,
}

/// How many values there were from `from` up to, but not including, `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Bucket {
    /// None: anything below.
    pub from: Option<u64>,
    /// None: anything above.
    pub to: Option<u64>,
    pub count: u64,
}

impl Bucket {
    pub fn below_zero(count: u64) -> Self {
        Bucket {
            from: None,
            to: Some(0),
            count,
        }
    }

    pub fn zero(count: u64) -> Self {
        Bucket {
            from: Some(0),
            to: Some(1),
            count,
        }
    }

    /// From a power of two to the next.
    pub fn power(power: u32, count: u64) -> Self {
        Bucket {
            from: 1u64.checked_shl(power),
            to: 1u64.checked_shl(power + 1),
            count,
        }
    }
}
