//! cuGetProcAddress: the function a name meant in a version of CUDA, as a real 580 answers.

use std::ffi::{c_char, c_void};

use crate::{
    entry::{early_api, put, put_optional, take_text},
    exports::EXPORTS,
    result::{Answer, INVALID_VALUE, NOT_FOUND},
};

/// (first version, status, number of the export).
type Row = (u32, u32, u32);
const NONE: u32 = u32::MAX;

include!(concat!(env!("OUT_DIR"), "/proc_addresses.rs"));

const SUCCESS: u32 = 0;
const SYMBOL_NOT_FOUND: u32 = 1;
const PER_THREAD_DEFAULT_STREAM: u64 = 2;
const ALL_FLAGS: u64 = 3;

/// (status, address) of `name` for a program written for `version`.
fn look_up(name: &str, version: i32, flags: u64) -> Answer<(u32, *mut c_void)> {
    let version = u32::try_from(version).unwrap_or(0);
    if flags > ALL_FLAGS || version >= NEWER_THAN_DRIVER {
        return Err(INVALID_VALUE);
    }
    let Ok(at) = PROC_ADDRESSES.binary_search_by_key(&name, |entry| entry.0) else {
        return Ok((SYMBOL_NOT_FOUND, std::ptr::null_mut()));
    };
    let (_, default, per_thread) = PROC_ADDRESSES[at];
    let rows = match flags & PER_THREAD_DEFAULT_STREAM {
        0 => default,
        _ => per_thread,
    };
    // Before the first recorded version the first answer holds.
    let row = rows
        .iter()
        .rev()
        .find(|row| row.0 <= version)
        .or(rows.first());
    let Some(&(_, status, export)) = row else {
        return Ok((SYMBOL_NOT_FOUND, std::ptr::null_mut()));
    };
    let address = match EXPORTS.get(export as usize) {
        Some(export) => export.address as *mut c_void,
        None => std::ptr::null_mut(),
    };
    Ok((status, address))
}

early_api! {
    fn cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: i32, flags: u64) {
        let name = take_text(symbol)?.to_str().map_err(|_| INVALID_VALUE)?;
        if function.is_null() {
            return Err(INVALID_VALUE);
        }
        let (status, address) = look_up(name, version, flags)?;
        put(function, address)?;
        if status == SUCCESS { Ok(()) } else { Err(NOT_FOUND) }
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char,
        function: *mut *mut c_void,
        version: i32,
        flags: u64,
        status: *mut u32,
    ) {
        let name = take_text(symbol)?.to_str().map_err(|_| INVALID_VALUE)?;
        if function.is_null() {
            return Err(INVALID_VALUE);
        }
        let (found, address) = look_up(name, version, flags)?;
        put(function, address)?;
        put_optional(status, found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every question that was put to the real driver gets the same answer.
    #[test]
    fn answers_as_the_recorded_driver() {
        let recorded = include_str!("../../../../fixtures/driver/h200-580.159.04.txt");
        let mut asked = 0;
        for line in recorded.lines().filter(|line| line.starts_with("proc ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, name, flags, version, result, status, symbol] = words[..] else {
                panic!("{line}");
            };
            asked += 1;
            let answer = look_up(name, version.parse().unwrap(), flags.parse().unwrap());
            if result != "0" {
                assert_eq!(answer.unwrap_err().0.to_string(), result, "{line}");
                continue;
            }
            let (found, address) = answer.unwrap();
            assert_eq!(found.to_string(), status, "{line}");
            let named = EXPORTS
                .iter()
                .find(|export| std::ptr::eq(export.address as *const c_void, address))
                .map_or("null", |export| export.name.to_str().unwrap());
            assert_eq!(named, symbol, "{line}");
        }
        assert!(asked > 4000);
    }

    #[test]
    fn unknown_names_and_flags() {
        assert_eq!(
            look_up("cuNoSuchThing", 12000, 0).unwrap().0,
            SYMBOL_NOT_FOUND
        );
        assert!(look_up("cuInit", 12000, 4).is_err());
        assert_eq!(look_up("cuInit", -1, 0).unwrap().0, SUCCESS);
    }
}
