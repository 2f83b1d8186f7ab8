//! Kernels' names as people see them: those of real runs on an H200 (recorded.txt: PyTorch eager,
//! compiled, with graphs and over NCCL, JAX, CuPy, Triton, plain CUDA) and others of the libraries'
//! sources (known.txt).

use proptest::prelude::*;
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

const RECORDED: &str = include_str!("recorded.txt");
const KNOWN: &str = include_str!("known.txt");

/// What a table of so many columns shows, and the whole short name where that is more.
fn shown(file: &str, width: usize) -> String {
    let names: Vec<&str> = file.lines().collect();
    let mut text = String::new();
    for (name, cell) in names.iter().zip(names::distinct(&names, width, "…")) {
        assert!(cell.chars().count() <= width, "{cell}");
        let short = names::short_name(name);
        let short = if short == cell { "" } else { &short };
        text.push_str(format!("{cell:width$} {short}").trim_end());
        text.push('\n');
    }
    text
}

#[test]
fn recorded_names_at_30_columns() {
    insta::assert_snapshot!(shown(RECORDED, 30));
}

#[test]
fn known_names_at_30_columns() {
    insta::assert_snapshot!(shown(KNOWN, 30));
}

/// Numbers only where nothing else can tell: at every width that a table gives to names.
#[test]
fn real_kernels_stay_different() {
    let names: Vec<&str> = RECORDED.lines().chain(KNOWN.lines()).collect();
    let whole: HashSet<String> = names
        .iter()
        .map(|name| names::demangled(name).into_owned())
        .collect();
    for width in [24, 30, 40, 60, usize::MAX] {
        for ellipsis in ["…", "..."] {
            let cells = names::distinct(&names, width, ellipsis);
            let different: HashSet<&String> = cells.iter().collect();
            assert_eq!(different.len(), whole.len(), "at {width}");
            let numbered: Vec<&String> = cells.iter().filter(|cell| cell.contains('#')).collect();
            assert!(
                width < 30 || numbered.is_empty(),
                "at {width}: {numbered:?}"
            );
        }
    }
}

/// Nothing in them differs but what a short name leaves out, and there is room without end.
#[test]
fn names_without_a_difference_get_numbers() {
    let cells = names::distinct(&["~:<", "~:<<"], usize::MAX, "…");
    assert_eq!(cells.iter().collect::<HashSet<_>>().len(), 2, "{cells:?}");
}

/// Rows of a table are by short names: real kernels of different work must not share one.
#[test]
fn short_names_keep_work_apart() {
    for (a, b) in [
        ("CUDAFunctor_add<float>", "CUDAFunctor_add<c10::BFloat16>"),
        ("CUDAFunctor_add<float>", "CUDAFunctorOnSelf_add<float>"),
        ("FillFunctor<float>", "FillFunctor<int>"),
        (
            "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >",
            "BinaryFunctor<float, float, float, at::native::binary_internal::DivFunctor<float> >",
        ),
    ] {
        let kernel = |functor: &str| {
            format!(
                "void at::native::vectorized_elementwise_kernel<4, at::native::{functor}, std::array<char*, 3ul> >(int, at::native::{functor})"
            )
        };
        assert_ne!(names::short_name(&kernel(a)), names::short_name(&kernel(b)));
    }
    // The same work, walked over in another way.
    assert_eq!(
        names::short_name(
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
        ),
        names::short_name(
            "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>, 4>(int)"
        ),
    );
}

#[test]
fn hostile_names_cost_little() {
    let mut bomb = String::from("_Z1fSt4pairIiiES_IS0_S0_E");
    for digit in "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".chars() {
        bomb.push_str(&format!("S_IS{digit}_S{digit}_E"));
    }
    let deep = format!("void f{}{}(int)", "<a".repeat(100_000), ">".repeat(100_000));
    let wide = format!("void f<{}>(int)", "a,".repeat(100_000));
    let long = "x".repeat(1 << 20);
    let many: Vec<String> = (0..1_000)
        .map(|i| format!("void f<a<b<c<{i}> > >, {}>(int)", "d,".repeat(200)))
        .collect();
    let mut all = vec![&*bomb, &*deep, &*wide, &*long];
    all.extend(many.iter().map(|name| &**name));
    let start = Instant::now();
    for name in &all {
        let short = names::short_name(name);
        assert!(!short.is_empty() && short.chars().count() <= 130, "{short}");
    }
    assert_eq!(names::short_name(&bomb), "f");
    let cells: HashSet<String> = names::distinct(&all, 30, "…").into_iter().collect();
    assert_eq!(cells.len(), all.len());
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

proptest! {
    #[test]
    fn any_text_has_a_name(name in "(_Z|void )?[a-zA-Z0-9_:<>(), {}#*&é\\[\\]]{0,80}") {
        let short = names::short_name(&name);
        prop_assert_eq!(short.is_empty(), name.is_empty());
        prop_assert!(short.chars().count() <= 130);
        prop_assert_eq!(&short, &names::short_name(&name));
        names::base_name(&name);
    }

    #[test]
    fn lists_are_distinct_at_any_width(
        list in prop::collection::vec("(void )?[ab]{1,3}(::[ab]{1,3})?(<[ab,<>]{0,30}>)?(\\(int\\))?", 0..20),
        width in 6usize..60,
    ) {
        let list: Vec<&str> = list.iter().map(|name| &**name).collect();
        let cells = names::distinct(&list, width, "…");
        prop_assert_eq!(cells.len(), list.len());
        let mut seen = std::collections::HashMap::new();
        for (name, cell) in list.iter().zip(&cells) {
            prop_assert!(cell.chars().count() <= width, "{} at {}", cell, width);
            prop_assert_eq!(*seen.entry(cell).or_insert(name), name);
        }
        // Where there is room for everything.
        prop_assert_eq!(names::distinct(&list, usize::MAX, "…").len(), list.len());
    }
}
