//! Damaged fixtures never make a reader panic; what the PTX parser takes, it prints alike.

mod fixtures;

use std::sync::LazyLock;

use proptest::prelude::*;
use ptx::fatbin::{Fatbin, sections};
use ptx::image::Image;

static PTX: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| contents(&["ptx"]));
static BINARY: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| contents(&["fatbin", "elf"]));

fn contents(kinds: &[&str]) -> Vec<Vec<u8>> {
    let all = kinds.iter().flat_map(|kind| fixtures::all(kind));
    // The long ones make every case slow and add no new syntax.
    all.map(|(_, bytes)| bytes)
        .filter(|bytes| bytes.len() < 12_000)
        .collect()
}

#[derive(Debug, Clone)]
enum Damage {
    Set(usize, u8),
    Word(usize, u32),
    Remove(usize, usize),
    Repeat(usize, usize),
    Cut(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    // Small and extreme numbers break sizes and offsets more often than random ones.
    let word = prop_oneof![any::<u32>(), 0..200u32, (u32::MAX - 200)..=u32::MAX];
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, value)| Damage::Set(at, value)),
        (any::<usize>(), word).prop_map(|(at, value)| Damage::Word(at, value)),
        (any::<usize>(), 1..40usize).prop_map(|(at, len)| Damage::Remove(at, len)),
        (any::<usize>(), 1..40usize).prop_map(|(at, len)| Damage::Repeat(at, len)),
        any::<usize>().prop_map(Damage::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    let span = |at: usize, count: usize| at % len..(at % len + count).min(len);
    match *damage {
        Damage::Set(at, value) => bytes[at % len] = value,
        Damage::Word(at, value) => {
            // Headers are aligned: hit their fields whole.
            let at = (at % len) & !3;
            let room = (len - at).min(4);
            bytes[at..at + room].copy_from_slice(&value.to_le_bytes()[..room]);
        }
        Damage::Remove(at, count) => drop(bytes.drain(span(at, count))),
        Damage::Repeat(at, count) => {
            let part = bytes[span(at, count)].to_vec();
            bytes.splice(at % len..at % len, part);
        }
        Damage::Cut(at) => bytes.truncate(at % len),
    }
}

fn damaged(of: &'static LazyLock<Vec<Vec<u8>>>) -> impl Strategy<Value = Vec<u8>> {
    (any::<usize>(), prop::collection::vec(damage(), 1..8)).prop_map(move |(which, damages)| {
        let mut bytes = of[which % of.len()].clone();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn ptx_text(bytes in damaged(&PTX)) {
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(module) = ptx::parse(&text) {
            let printed = module.to_string();
            let again = ptx::parse(&printed);
            prop_assert!(again.is_ok(), "{:?}\n{}", again, printed);
            prop_assert_eq!(again.unwrap().to_string(), printed);
        }
    }

    #[test]
    fn fatbins_and_elf_files(bytes in damaged(&BINARY)) {
        let _ = Image::detect(&bytes);
        read(&bytes);
        for section in sections(&bytes).into_iter().flatten() {
            let _ = section.wrappers().count();
            read(section.data);
        }
    }

    #[test]
    fn zstd_and_lz4_payloads(at in 96..480usize, value: u8, lz4: bool) {
        let name = if lz4 { "fatbin/lz4.fatbin" } else { "fatbin/ptx_only.fatbin" };
        let mut bytes = fixtures::read(name);
        bytes[at] = value;
        read(&bytes);
    }
}

fn read(bytes: &[u8]) {
    if let Ok(fatbin) = Fatbin::parse(bytes) {
        let _ = fatbin.best_ptx(90);
        for entry in fatbin.entries() {
            let _ = (entry.kind(), entry.name(), entry.options(), entry.text());
            if let Ok(payload) = entry.payload() {
                assert_eq!(payload.len() as u64, entry.unpacked_size());
            }
        }
    }
}
