//! Any file as a BPF object: no panic, and what its programs become is PTX that parses.
#![no_main]

use gpubpf::{Object, TranslateOptions, btf, translate, verify_within};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(object) = Object::parse(bytes) else {
        return;
    };
    for (ty, _) in object.btf.types().take(64) {
        let _ = btf::decode(&object.btf, ty, bytes);
    }
    for program in &object.programs {
        let Ok(verified) = verify_within(&object, program, 20_000) else {
            continue;
        };
        for output in &verified.outputs {
            let _ = btf::event_type(&object.btf, object.maps[output.map].value_type, output.most_bytes);
        }
        let translated = translate(&verified, &TranslateOptions::default());
        let text = format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n{}",
            translated.functions
        );
        if let Err(error) = ptx::parse(&text) {
            panic!("{error}\n{text}");
        }
    }
});
