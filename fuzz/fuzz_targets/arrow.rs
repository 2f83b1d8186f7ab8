//! The reader of Arrow streams: any bytes end in records, warnings or an error, and what was
//! read can be written and read again.
#![no_main]

mod reread;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reread::check(bytes, trace::Format::Arrow));
