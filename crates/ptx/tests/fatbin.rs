//! Fatbins made by nvcc and fatbinary 13.0 (fixtures/make.sh), read whole.

mod fixtures;

use std::fmt::Write;

use ptx::fatbin::{
    Architecture, Compression, Entry, EntryKind, Fatbin, FatbinError, SectionKind, Wrapper,
    sections,
};
use ptx::image::{Image, Magic};

/// The flag of entries compiled with `-G`.
const COMPILED_FOR_DEBUGGING: u64 = 0x2;

fn describe(entry: &Entry) -> String {
    let suffix = match entry.architecture() {
        Architecture::Generic => "",
        Architecture::Specific => "a",
        Architecture::Family => "f",
    };
    let (major, minor) = entry.version();
    let mut line = format!(
        "{:?} sm_{}{suffix} {major}.{minor}",
        entry.kind(),
        entry.sm()
    );
    write!(line, " {:?} ", entry.compression()).unwrap();
    match entry.payload() {
        Ok(payload) => write!(line, "{} bytes", payload.len()).unwrap(),
        Err(error) => write!(line, "({error})").unwrap(),
    }
    for (what, text) in [("name", entry.name()), ("options", entry.options())] {
        if let Some(text) = text {
            write!(line, " {what}={text:?}").unwrap();
        }
    }
    if entry.flags() & COMPILED_FOR_DEBUGGING != 0 {
        line.push_str(" debug");
    }
    line
}

#[test]
fn every_fixture_reads_as_it_was_made() {
    let mut listing = String::new();
    for (name, bytes) in fixtures::all("fatbin") {
        assert_eq!(
            Fatbin::total_size(&bytes[..16]).unwrap(),
            bytes.len(),
            "{name}"
        );
        writeln!(listing, "{name}").unwrap();
        for entry in Fatbin::parse(&bytes).unwrap().entries() {
            writeln!(listing, "  {}", describe(entry)).unwrap();
        }
    }
    insta::assert_snapshot!(listing);
}

#[test]
fn payloads_are_what_was_put_in() {
    let (mut ptx, mut elf) = (0, 0);
    for (name, bytes) in fixtures::all("fatbin") {
        for entry in Fatbin::parse(&bytes).unwrap().entries() {
            match entry.kind() {
                EntryKind::Ptx => {
                    let module = ptx::parse(&entry.text().unwrap()).unwrap();
                    let (major, minor) = entry.version();
                    assert_eq!(module.version, (major.into(), minor.into()), "{name}");
                    assert!(
                        module.target[0].starts_with(&format!("sm_{}", entry.sm())),
                        "{name}"
                    );
                    assert_eq!(module.functions[0].name, "vectorAdd", "{name}");
                    ptx += 1;
                }
                EntryKind::Elf => {
                    assert!(
                        matches!(Image::detect(&entry.payload().unwrap()), Image::Cubin(_)),
                        "{name}"
                    );
                    assert!(
                        matches!(entry.text(), Err(FatbinError::NotPtx(_))),
                        "{name}"
                    );
                    elf += 1;
                }
                _ => {}
            }
        }
    }
    assert!(ptx >= 8 && elf >= 7, "{ptx} PTX, {elf} ELF");
}

#[test]
fn raw_lz4_and_zstd_hold_the_same_code() {
    let texts: Vec<String> = ["raw", "lz4", "compress_all"]
        .map(|name| {
            let bytes = fixtures::read(&format!("fatbin/{name}.fatbin"));
            let fatbin = Fatbin::parse(&bytes).unwrap();
            fatbin.best_ptx(75).unwrap().text().unwrap().into_owned()
        })
        .to_vec();
    assert_eq!(texts[1], texts[2]);
    let modules = [&texts[0], &texts[1]].map(|text| ptx::parse(text).unwrap());
    assert_eq!(
        modules[0].functions[0].params.len(),
        modules[1].functions[0].params.len()
    );
}

#[test]
fn best_ptx_is_the_highest_that_runs() {
    let bytes = fixtures::read("fatbin/several.fatbin");
    let fatbin = Fatbin::parse(&bytes).unwrap();
    let best = |sm| {
        fatbin
            .best_ptx(sm)
            .map(|entry| (entry.sm(), entry.architecture()))
    };
    assert_eq!(best(70), None);
    assert_eq!(best(75), Some((75, Architecture::Generic)));
    assert_eq!(best(89), Some((75, Architecture::Generic)));
    assert_eq!(best(90), Some((90, Architecture::Specific)));
    assert_eq!(best(100), Some((100, Architecture::Family)));
    assert_eq!(best(103), Some((90, Architecture::Generic)));
    let sass = fixtures::read("fatbin/sass_only.fatbin");
    assert!(Fatbin::parse(&sass).unwrap().best_ptx(120).is_none());
}

#[test]
fn fatbins_are_found_in_elf_files() {
    let object = fixtures::read("elf/object.o");
    let found = sections(&object).unwrap();
    assert_eq!(
        found.iter().map(|s| s.kind).collect::<Vec<_>>(),
        [SectionKind::Fatbin, SectionKind::Wrappers]
    );
    assert_eq!(Fatbin::parse(found[0].data).unwrap().entries().len(), 2);
    assert_eq!(
        found[1].wrappers().map(|w| w.version).collect::<Vec<_>>(),
        [1]
    );

    let relocatable = fixtures::read("elf/relocatable.o");
    let found = sections(&relocatable).unwrap();
    assert_eq!(found[0].kind, SectionKind::Relocatable);
    assert!(Fatbin::parse(found[0].data).unwrap().best_ptx(90).is_some());

    assert!(sections(b"no ELF").is_err());
}

#[test]
fn several_fatbins_may_stand_in_one_section() {
    let library = fixtures::read("elf/library.so");
    let found = sections(&library).unwrap();
    let data = found
        .iter()
        .find(|s| s.kind == SectionKind::Fatbin)
        .unwrap()
        .data;
    assert!(Fatbin::total_size(data).unwrap() < data.len());
    let fatbin = Fatbin::parse(data).unwrap();
    let names: Vec<String> = fatbin
        .entries()
        .iter()
        .map(|entry| {
            ptx::parse(&entry.text().unwrap()).unwrap().functions[0]
                .name
                .clone()
        })
        .collect();
    assert_eq!(names, ["vectorAdd", "_Z6matmulPKfS0_Pfi"]);
    let wrappers = found
        .iter()
        .find(|s| s.kind == SectionKind::Wrappers)
        .unwrap();
    assert_eq!(wrappers.wrappers().count(), 2);
}

#[test]
fn images_are_told_apart() {
    let fatbin = fixtures::read("fatbin/default.fatbin");
    assert_eq!(Image::detect(&fatbin), Image::Fatbin(&fatbin));
    assert_eq!(Magic::of(*fatbin.first_chunk().unwrap()), Magic::Fatbin);

    let mut wrapper = Vec::new();
    wrapper.extend(Wrapper::MAGIC.to_le_bytes());
    wrapper.extend(1u32.to_le_bytes());
    wrapper.extend(0x1234_5678u64.to_le_bytes());
    wrapper.extend([0; 8]);
    let expected = Wrapper {
        version: 1,
        data: 0x1234_5678,
        prelinked: 0,
    };
    assert_eq!(Image::detect(&wrapper), Image::Wrapper(expected));
    assert_eq!(Image::detect(&wrapper[..20]), Image::Other);

    let object = fixtures::read("elf/object.o");
    assert_eq!(Image::detect(&object), Image::Elf(&object));

    assert_eq!(
        Image::detect(b"// text\n.version 8.0\n\0\0"),
        Image::Ptx("// text\n.version 8.0\n".into())
    );
    assert_eq!(Image::detect(b"hello"), Image::Other);
    assert_eq!(Image::detect(b""), Image::Other);
}

#[test]
fn every_truncation_is_an_error() {
    for name in ["default", "lz4", "ptx_only"] {
        let bytes = fixtures::read(&format!("fatbin/{name}.fatbin"));
        for len in 0..bytes.len() {
            let error = Fatbin::parse(&bytes[..len]).unwrap_err();
            assert!(
                matches!(error, FatbinError::Truncated { .. }),
                "{name} {len}: {error}"
            );
        }
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let good = fixtures::read("fatbin/ptx_only.fatbin");
    let with = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    let refused = |bytes: &[u8]| match Fatbin::parse(bytes) {
        Ok(fatbin) => fatbin.entries()[0].payload().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    // The entry's header starts at 16.
    let huge = u64::MAX.to_le_bytes();
    insta::assert_snapshot!(
        [
            refused(&with(0, b"ABCD")),
            refused(&with(6, &[8, 0])),
            refused(&with(8, &huge)),
            refused(&with(16 + 4, &[0, 0, 0, 0])),
            refused(&with(16 + 8, &huge)),
            refused(&with(16 + 16, &[255, 255, 255, 255])),
            refused(&with(16 + 56, &huge)),
            refused(&with(16 + 56, &[1, 0, 0, 0])),
            refused(&with(16 + 56, &[0, 0, 1, 0])),
            refused(&with(16 + 80, b"none")),
        ]
        .join("\n")
    );
    let mut behind = good.clone();
    behind.extend([0; 24]);
    assert_eq!(Fatbin::parse(&behind).unwrap().entries().len(), 1);
    behind.extend(b"more than padding");
    assert!(matches!(Fatbin::parse(&behind), Err(FatbinError::Magic(_))));
}

#[test]
fn an_lz4_claim_beyond_its_ratio_takes_no_memory() {
    let mut bytes = fixtures::read("fatbin/lz4.fatbin");
    bytes[16 + 56..16 + 64].copy_from_slice(&ptx::fatbin::MAX_PAYLOAD.to_le_bytes());
    let fatbin = Fatbin::parse(&bytes).unwrap();
    assert_eq!(fatbin.entries()[0].compression(), Compression::Lz4);
    assert!(matches!(
        fatbin.entries()[0].payload(),
        Err(FatbinError::UnpackedSize { .. })
    ));
}
