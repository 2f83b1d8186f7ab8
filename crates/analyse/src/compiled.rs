//! Kernels that torch.compile made, and the operators that each does the work of. Inductor puts their names into the kernel's:
//! `triton_per_fused_gelu_native_layer_norm_0` is gelu and native_layer_norm.

use crate::functions::KernelRow;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompiledKernel {
    pub name: String,
    /// In the name's order.
    pub operators: Vec<String>,
    pub executions: u64,
    pub total_ns: u64,
}

/// Operators of several words, as Inductor writes them.
const OPERATORS: &str = include_str!("compiled_operators.txt");
/// An operator's name has no more words.
const MOST_WORDS: usize = 8;

/// Kernels of Inductor's, most time first. `recorded` are operators that the program ran.
pub(crate) fn of<'a>(
    rows: &[KernelRow],
    recorded: impl Iterator<Item = &'a str>,
) -> Vec<CompiledKernel> {
    let mut known: HashSet<&str> = OPERATORS.lines().collect();
    known.extend(recorded.filter_map(|name| name.strip_prefix("aten::")));
    let mut found: Vec<CompiledKernel> = (rows.iter())
        .filter(|row| row.executions > 0)
        .filter_map(|row| {
            Some(CompiledKernel {
                operators: fused(&row.name, &known)?,
                name: row.name.clone(),
                executions: row.executions,
                total_ns: row.total_ns,
            })
        })
        .collect();
    found.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then(a.name.cmp(&b.name)));
    found
}

/// `triton_poi_fused_add_relu_0` → add, relu. None: not a kernel of Inductor's.
fn fused(kernel: &str, known: &HashSet<&str>) -> Option<Vec<String>> {
    let rest = kernel.strip_prefix("triton_")?;
    let (_, rest) = rest.split_once("fused_")?;
    let rest = rest.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let words: Vec<&str> = rest.trim_end_matches('_').split('_').collect();
    let mut operators = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let most = MOST_WORDS.min(words.len() - at);
        // Names begin with an underscore too: `_to_copy` after `add` is `add__to_copy`.
        let length = (1..=most)
            .rev()
            .find(|&length| known.contains(words[at..at + length].join("_").as_str()))
            .unwrap_or(1);
        let name = words[at..at + length].join("_");
        if !name.is_empty() {
            operators.push(name);
        }
        at += length;
    }
    (!operators.is_empty()).then_some(operators)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_in_the_kernels_name() {
        let known: HashSet<&str> = OPERATORS.lines().collect();
        let fused = |name| fused(name, &known).map(|names| names.join(" "));
        for (kernel, operators) in [
            ("triton_poi_fused_add_relu_0", "add relu"),
            (
                "triton_per_fused_gelu_native_layer_norm_native_layer_norm_backward_1",
                "gelu native_layer_norm native_layer_norm_backward",
            ),
            ("triton_red_fused__to_copy_mean_pow_12", "_to_copy mean pow"),
            ("triton_tem_fused_mm_3", "mm"),
        ] {
            assert_eq!(fused(kernel).as_deref(), Some(operators));
        }
        assert_eq!(fused("triton_matmul"), None);
        assert_eq!(fused("vectorized_elementwise_kernel"), None);
    }
}
