//! Any text: the parser must not panic, and what it takes must print and parse again alike.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(module) = ptx::parse(text) else {
        return;
    };
    let printed = module.to_string();
    let again = match ptx::parse(&printed) {
        Ok(again) => again,
        Err(error) => panic!("printed text does not parse: {error}\n{printed}"),
    };
    assert_eq!(again.to_string(), printed);
});
