//! Every function known has a sensible category: the whole list is a snapshot, to be read when
//! a rule changes.

use std::collections::BTreeMap;

use event::{Category, Layer};

#[test]
fn categories_of_all_functions() {
    let mut by_category: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for function in cuda::functions().iter().chain(cuda::older_functions()) {
        by_category
            .entry(cuda::category(function.name).as_str())
            .or_default()
            .push(function.name);
    }
    let listing: String = by_category
        .iter()
        .map(|(category, names)| format!("{category}: {}\n  {}\n", names.len(), names.join("\n  ")))
        .collect();
    insta::assert_snapshot!(listing);
}

#[test]
fn names_no_table_knows() {
    for (name, layer, category) in [
        ("cuMemAllocSomehow_v3", Layer::Driver, Category::Memory),
        ("cuStreamHurry_ptsz", Layer::Driver, Category::Stream),
        ("cudaGraphAddThingNode", Layer::Runtime, Category::Graph),
        (
            "cudaMemcpyQuickly_v2_ptds",
            Layer::Runtime,
            Category::Transfer,
        ),
        ("__cudaRegisterFatBinary4", Layer::Runtime, Category::Module),
        ("cuDeviceGetFoo", Layer::Driver, Category::Query),
        ("cublasSgemm_v2", Layer::Library, Category::Other),
        ("ncclAllReduce", Layer::Library, Category::Other),
        ("cu", Layer::Library, Category::Other),
        ("", Layer::Library, Category::Other),
    ] {
        assert!(cuda::function(name).is_none(), "{name}");
        assert_eq!(
            (cuda::layer(name), cuda::category(name)),
            (layer, category),
            "{name}"
        );
    }
}
