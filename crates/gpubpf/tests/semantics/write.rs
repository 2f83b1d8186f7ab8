//! The same programs for a real GPU: modules, operands and what must come out, for
//! tests/gpu/bpf_semantics.sh.

use std::path::Path;

use crate::batch::{self, Case, SETS};

const PROGRAMS: u64 = 2_000;
const IN_A_MODULE: u64 = 250;

/// FNV-1a: expected values are compared by it, being 8 KiB a program.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
#[ignore = "writes files for a GPU into CUTRACE_BPF_BATCH; see tests/gpu/bpf_semantics.sh"]
fn write_batch() {
    let folder = std::env::var("CUTRACE_BPF_BATCH").expect("CUTRACE_BPF_BATCH names a folder");
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let write = |name: String, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).expect("the folder can be written to");
    };
    write("before.bin".into(), &batch::before());
    let operands: Vec<u8> = (0..SETS).flat_map(batch::operands).collect();
    write("operands.bin".into(), &operands);
    for module in 0..PROGRAMS / IN_A_MODULE {
        let cases: Vec<Case> = (module * IN_A_MODULE..(module + 1) * IN_A_MODULE)
            .map(batch::case)
            .collect();
        let expected: Vec<u8> = cases
            .iter()
            .flat_map(|case| digest(&batch::expected(case)).to_le_bytes())
            .collect();
        write(
            format!("module_{module}.ptx"),
            batch::module(&cases).as_bytes(),
        );
        write(format!("module_{module}.expected"), &expected);
    }
}
