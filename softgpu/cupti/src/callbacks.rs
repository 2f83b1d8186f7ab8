//! The numbers CUPTI gives the driver's functions (`callbacks.txt`: facts of its headers, 13.0).

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char},
    sync::OnceLock,
};

/// The domain of the driver's functions.
pub const DRIVER: u32 = 1;

struct Names {
    by_name: HashMap<&'static CStr, u32>,
    by_number: HashMap<u32, &'static CStr>,
}

fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        let pairs = include_str!("callbacks.txt").lines().filter_map(|line| {
            let (name, number) = line.split_once(' ')?;
            let name: &'static CStr = Box::leak(CString::new(name).ok()?.into_boxed_c_str());
            Some((name, number.parse().ok()?))
        });
        let pairs: Vec<(&'static CStr, u32)> = pairs.collect();
        Names {
            by_name: pairs.iter().copied().collect(),
            by_number: pairs
                .iter()
                .map(|(name, number)| (*number, *name))
                .collect(),
        }
    })
}

/// 0 where CUPTI has no number for it.
pub fn number(name: &CStr) -> u32 {
    names().by_name.get(name).copied().unwrap_or(0)
}

pub fn name(number: u32) -> Option<*const c_char> {
    names().by_number.get(&number).map(|name| name.as_ptr())
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_and_names_lead_to_each_other() {
        assert_eq!(super::number(c"cuLaunchKernel"), 307);
        assert_eq!(super::number(c"cuMadeUp"), 0);
        assert!(super::name(307).is_some() && super::name(9999).is_none());
    }
}
