//! Programs as clang compiles them, for every version of the instruction set, on softgpu: with the
//! helpers that are called replaced by small ones that tell what they were given.

use std::fmt::Write;

use gpubpf::btf::{self, Value};
use gpubpf::map::{DESCRIPTOR_BYTES, DESCRIPTORS};
use gpubpf::{Object, TranslateOptions, check, helper_name, translate, verify};

use crate::batch::descriptor_bytes;
use crate::device::{Buffer, Module};

const VERSIONS: [&str; 3] = ["v2", "v3", "v4"];

fn object(name: &str, version: &str) -> Object {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects");
    let path = format!("{folder}/{name}.{version}.o");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Object::parse(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a test's helper does: bodies in PTX, by number. `log` is a place of 1024 bytes.
type Helpers = &'static [(u32, &'static str)];

struct Run {
    module: Module,
    maps: Vec<Buffer>,
    texts: Vec<String>,
}

impl Run {
    /// A kernel `main` that calls the program with its parameter's address, and counts in `behind`
    /// the threads that come back.
    fn new(object: &Object, name: &str, helpers: Helpers, copies: u64) -> Run {
        let program = object.program(name).expect(name);
        let verified = verify(object, program).unwrap_or_else(|refused| panic!("{refused}"));
        let translated = translate(&verified, &TranslateOptions::default());
        let size = DESCRIPTOR_BYTES * object.maps.len();
        let mut text = format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n\
             .visible .global .align 16 .b8 {DESCRIPTORS}[{size}];\n\
             .visible .global .align 8 .b8 log[1024];\n.visible .global .align 4 .u32 behind;\n"
        );
        for number in &translated.helpers {
            let known = helpers.iter().find(|(known, _)| known == number);
            let (_, body) = known.unwrap_or_else(|| panic!("{name} calls helper {number}"));
            let _ = writeln!(
                text,
                ".func (.reg .b64 %r) {} (.reg .b64 %a, .reg .b64 %b, .reg .b64 %c, .reg .b64 %d, .reg .b64 %e)\n\
                 {{ .reg .b64 %t<8>; .reg .b32 %w<8>; .reg .pred %p<4>; mov.b64 %r, 0; {body} ret; }}",
                helper_name(*number)
            );
        }
        let _ = writeln!(
            text,
            "{}.visible .entry main(.param .u64 context) {{ .reg .b64 %x<2>;\n\
             ld.param.u64 %x0, [context]; call (%x1), {}, (%x0); red.global.add.u32 [behind], 1; ret; }}",
            translated.functions, translated.entry_name
        );
        let mut module = Module::load(&text);
        let mut maps = Vec::new();
        let mut descriptors = Vec::new();
        for map in &object.maps {
            let copies = match map.kind.number() {
                1502 | 1512 => copies,
                _ => 1,
            };
            let bytes = map.value_size as usize * map.max_entries as usize * copies as usize;
            let mut buffer = Buffer::new(&module.memory, bytes.max(1));
            if let Some(initial) = &map.initial {
                buffer.bytes().copy_from_slice(initial);
            }
            descriptors.extend(descriptor_bytes(map, buffer.address(), copies));
            maps.push(buffer);
        }
        module.global(DESCRIPTORS).copy_from_slice(&descriptors);
        Run {
            module,
            maps,
            texts: translated.texts,
        }
    }

    fn launch(&self, grid: [u32; 3], block: [u32; 3], context: u64) {
        self.module.launch("main", grid, block, context);
    }

    fn words(&mut self, map: usize) -> Vec<u64> {
        words(self.maps[map].bytes())
    }

    fn log(&mut self) -> Vec<u64> {
        words(self.module.global("log"))
    }

    fn behind(&mut self) -> u32 {
        let bytes = self.module.global("behind");
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn map_named(object: &Object, name: &str) -> usize {
    let found = object.maps.iter().position(|map| map.name == name);
    found.expect(name)
}

#[test]
fn counters_are_exact() {
    const HELPERS: Helpers = &[
        (14, "mov.b64 %r, 0x5500000007;"),
        // A hash map that never has the key.
        (1, ""),
        // Counts calls, and sums up keys and values.
        (
            2,
            "ld.u32 %w0, [%b]; cvt.u64.u32 %t0, %w0; ld.u64 %t1, [%c]; mov.u64 %t2, log;\n\
             red.global.add.u64 [%t2], 1; red.global.add.u64 [%t2+8], %t0; red.global.add.u64 [%t2+16], %t1;",
        ),
    ];
    for version in VERSIONS {
        let object = object("counters", version);
        // Two warps and a bit, three times: 210 threads, of whom the map has room for 200.
        let mut run = Run::new(&object, "cuda__return", HELPERS, 200);
        run.launch([3, 1, 1], [70, 1, 1], 0);
        let totals = run.words(map_named(&object, "totals"));
        // Buckets 0 to 6 hold 2, 2, 4, 8, 16, 32 and 6 of the 70 threads of a block, 3 each.
        let mut expected = [2, 2, 4, 8, 16, 32, 6, 0].map(|threads: u64| threads * 3 * 3);
        // The same bucket by bucket, 5 each: lanes of a warp that share one count together.
        let histogram = run.words(map_named(&object, "histogram"));
        assert_eq!(
            histogram,
            expected.map(|threes| threes / 3 * 5),
            "{version}"
        );
        expected[0] += 210;
        expected[1] += 420;
        assert_eq!(totals, expected, "{version}");
        let by_thread = run.words(map_named(&object, "by_thread"));
        let rows: Vec<u64> = (0..400)
            .map(|at| if at < 200 { 0 } else { (at - 200) % 70 })
            .collect();
        assert_eq!(by_thread, rows, "{version}");
        let bss = map_named(&object, ".bss");
        let data = run.maps[bss].bytes().to_vec();
        assert_eq!(words(&data)[0] & 0xffff_ffff, 210, "{version}");
        let small = u32::from_le_bytes(data[8..12].try_into().unwrap());
        assert_eq!(small, 210, "{version}");
        assert_eq!(&run.log()[..3], [210, 210 * 0x55, 210], "{version}");
    }
}

#[test]
fn a_matrix_product() {
    for version in VERSIONS {
        let object = object("direct", version);
        let mut run = Run::new(&object, "cuda__product", &[], 1);
        let value = |at: usize, seed: usize| ((at * seed + 3) % 11) as u32;
        for (map, seed) in [(0, 5), (1, 7)] {
            for (at, word) in run.maps[map]
                .bytes()
                .as_chunks_mut::<4>()
                .0
                .iter_mut()
                .enumerate()
            {
                *word = value(at, seed).to_le_bytes();
            }
        }
        run.launch([1; 3], [32, 32, 1], 0);
        let result = run.maps[2].bytes().to_vec();
        for row in 0..32 {
            for column in 0..32 {
                let expected: u32 = (0..32)
                    .map(|k| value(row * 32 + k, 5) * value(k * 32 + column, 7))
                    .sum();
                let at = (row * 32 + column) * 4;
                let got = u32::from_le_bytes(result[at..at + 4].try_into().unwrap());
                assert_eq!(got, expected, "{version}: {row}, {column}");
            }
        }
    }
}

#[test]
fn latencies_fall_into_bins() {
    for version in VERSIONS {
        let object = object("mixed", version);
        let mut run = Run::new(&object, "cuda__late", &[(5, "mov.b64 %r, 9000;")], 1);
        run.maps[0].bytes()[..8].copy_from_slice(&3000u64.to_le_bytes());
        run.launch([2, 1, 1], [33, 1, 1], 0);
        // 6,000 ns is under 8,000: bin 3.
        let mut expected = vec![0; 10];
        expected[0] = 3000;
        expected[3] = 66;
        assert_eq!(run.words(0), expected, "{version}");
        let host: Vec<&str> = object.host.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(host, ["launched", "exiting"], "{version}");
    }
}

#[test]
fn prints_and_exits() {
    const HELPERS: Helpers = &[
        // Thread 3's call, by the number of its text.
        (
            6,
            "mov.u32 %w0, %tid.x; setp.ne.u32 %p0, %w0, 3; @%p0 ret; mov.u64 %t0, log; mad.lo.s64 %t0, %a, 32, %t0;\n\
             st.global.u64 [%t0], 1; st.global.u64 [%t0+8], %c; st.global.u64 [%t0+16], %d; st.global.u64 [%t0+24], %e;",
        ),
        (
            501,
            "mov.u64 %t0, log; mad.lo.s64 %t0, %a, 32, %t0; red.global.add.u64 [%t0], 1;",
        ),
    ];
    for version in VERSIONS {
        let object = object("printing", version);
        let mut run = Run::new(&object, "cuda__print", HELPERS, 1);
        let mut context = Buffer::new(&run.module.memory, 32);
        let parameters = [0xa0u64, 0xb0, 0xc0, 77];
        for (word, value) in context
            .bytes()
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip(parameters)
        {
            *word = value.to_le_bytes();
        }
        run.launch([1; 3], [8, 1, 1], context.address());
        let number = |text: &str| {
            let found = run.texts.iter().position(|known| known == text);
            found.unwrap_or_else(|| panic!("{text:?} in {:?}", run.texts))
        };
        let (first, second) = (number("n=%d a=%lx\n"), number("thread %u of %s"));
        let (name, done) = (number("scale"), number("done"));
        let log = run.log();
        assert_eq!(&log[first * 4..][..3], [1, 77, 0xa0], "{version}");
        assert_eq!(&log[second * 4..][..3], [1, 3, name as u64], "{version}");
        assert_eq!(log[done * 4], 8, "{version}");
        let line = gpubpf::format::render("thread %u of %s", &log[second * 4 + 1..][..2], |at| {
            run.texts.get(at as usize).cloned()
        });
        assert_eq!(line, "thread 3 of scale");
        // Threads 5, 6 and 7 have ended.
        assert_eq!(run.behind(), 5, "{version}");
    }
}

#[test]
fn records_have_named_fields() {
    const HELPERS: Helpers = &[(
        25,
        "mov.u64 %t0, log; red.global.add.u64 [%t0], 1; st.global.u64 [%t0+8], %e; mov.u32 %w0, 0;\n\
         again: cvt.u64.u32 %t1, %w0; add.s64 %t2, %t1, %d; ld.u8 %w1, [%t2]; add.s64 %t2, %t1, %t0;\n\
         st.global.u8 [%t2+16], %w1; add.u32 %w0, %w0, 1; cvt.u64.u32 %t1, %w0;\n\
         setp.lt.u64 %p0, %t1, %e; @%p0 bra again;",
    )];
    for version in VERSIONS {
        let object = object("trace", version);
        let mut run = Run::new(&object, "cuda__entry", HELPERS, 1);
        run.launch([32, 1, 1], [128, 1, 1], 0);
        let log = run.module.global("log").to_vec();
        assert_eq!(
            words(&log)[..2],
            [1, 72],
            "{version}: one record, of the first thread"
        );
        let checked = check(&object, &TranslateOptions::default());
        let record = match &checked.programs[0].outcome {
            Ok(accepted) => accepted.records[0].clone(),
            Err(refused) => panic!("{refused}"),
        };
        let ty = record.ty.expect("a struct");
        assert_eq!((ty.name.as_str(), record.most_bytes), ("event", 72));
        let Value::Struct(fields) = btf::decode(&object.btf, ty.ty, &log[16..88]) else {
            panic!("no struct");
        };
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["block", "thread", "time", "phase", "lanes", "name"]);
        let Value::Struct(block) = &fields[0].value else {
            panic!("no struct inside");
        };
        assert_eq!(block[0].value, Value::Unsigned(0));
        assert!(matches!(fields[2].value, Value::Unsigned(time) if time > 0));
        assert_eq!(fields[3].value, Value::Enum(1, Some("ENTERED".into())));
        let lanes = [1, 2, 3, 4].map(Value::Unsigned).to_vec();
        assert_eq!(fields[4].value, Value::Array(lanes));
        assert_eq!(fields[5].value, Value::Text("vecadd".into()));
    }
}

#[test]
fn arrays_are_updated() {
    for version in VERSIONS {
        let object = object("updating", version);
        let mut run = Run::new(&object, "cuda__update", &[], 64);
        run.launch([2, 1, 1], [32, 1, 1], 0);
        let small = run.maps[map_named(&object, "small")].bytes().to_vec();
        let expected: Vec<u8> = (0..40)
            .map(|at| if at < 32 { at + 100 } else { 0 })
            .collect();
        assert_eq!(small, expected, "{version}");
        // Twelve bytes each: x, 2x and 3x.
        let triples = run.maps[map_named(&object, "triples")].bytes().to_vec();
        let (words, _) = triples.as_chunks::<4>();
        for (at, word) in words.iter().enumerate() {
            let expected = at / 3 * (at % 3 + 1);
            assert_eq!(
                u32::from_le_bytes(*word),
                expected as u32,
                "{version}: {at}"
            );
        }
        let own = run.words(map_named(&object, "own"));
        let expected: Vec<u64> = (0..64).map(|at| at % 32 + 7).collect();
        assert_eq!(own, expected, "{version}");
        // What the calls gave: past the end, new where all is old, flags nobody knows.
        let results = run.words(map_named(&object, "results"));
        assert_eq!(
            results,
            [0, -7i64 as u64, -17i64 as u64, -22i64 as u64],
            "{version}"
        );
    }
}
