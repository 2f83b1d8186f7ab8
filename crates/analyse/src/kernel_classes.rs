//! Kinds of kernels: GEMM, attention, normalisation, … by words in their names, which are data (`kernel_classes.txt`).

use crate::functions::KernelRow;
use event::Category;
use serde::{Deserialize, Serialize};

/// GPU time of one kind of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelClass {
    pub class: String,
    pub executions: u64,
    /// Sum of the executions' times; they may overlap.
    pub total_ns: u64,
    /// Of the sum of all.
    pub share: f64,
}

const TABLE: &str = include_str!("kernel_classes.txt");
const OTHER: &str = "other";

/// What a kernel of this name does, in one word.
pub fn class_of(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let mut words = line.split_whitespace();
        let Some(class) = words.next() else {
            continue;
        };
        if words.any(|word| name.contains(word)) {
            return class;
        }
    }
    OTHER
}

/// Kernels that a compiler fuses with their neighbours: each reads and writes all of its data.
pub(crate) fn is_fusible(class: &str) -> bool {
    matches!(
        class,
        "elementwise" | "reduction" | "normalisation" | "copy" | "softmax"
    )
}

/// Time by class, most first.
pub(crate) fn of(rows: &[KernelRow]) -> Vec<KernelClass> {
    let mut classes: Vec<KernelClass> = Vec::new();
    for row in rows.iter().filter(|row| row.executions > 0) {
        let class = match row.category {
            Category::Kernel => class_of(&format!("{} {}", row.name, row.short_name)),
            Category::Transfer => "copy",
            Category::Memory => "memset",
            _ => OTHER,
        };
        let place = match classes.iter().position(|known| known.class == class) {
            Some(place) => place,
            None => {
                classes.push(KernelClass {
                    class: class.to_owned(),
                    executions: 0,
                    total_ns: 0,
                    share: 0.0,
                });
                classes.len() - 1
            }
        };
        let sum = &mut classes[place];
        sum.executions += row.executions;
        sum.total_ns = sum.total_ns.saturating_add(row.total_ns);
    }
    let all: u64 = (classes.iter()).fold(0, |sum, class| sum.saturating_add(class.total_ns));
    for class in &mut classes {
        class.share = class.total_ns as f64 / all.max(1) as f64;
    }
    classes.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then(a.class.cmp(&b.class)));
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_real_programs_are_recognised() {
        for (name, class) in [
            ("nvjet_sm90_tst_64x32_64x16_2x4_h_bz_bias_TNT", "gemm"),
            (
                "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm>",
                "gemm",
            ),
            (
                "cudnn_generated_fort_native_sdpa_sm90_flash_fprop",
                "attention",
            ),
            ("void pytorch_flash::flash_fwd_kernel", "attention"),
            (
                "void at::native::vectorized_layer_norm_kernel",
                "normalisation",
            ),
            ("void at::native::elementwise_kernel", "elementwise"),
            ("void at::native::reduce_kernel", "reduction"),
            ("void at::native::multi_tensor_apply_kernel", "optimizer"),
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
            ("triton_poi_fused_add_relu_0", "elementwise"),
            ("triton_per_fused_native_layer_norm_1", "normalisation"),
            ("vllm::reshape_and_cache_flash_kernel", "kv-cache"),
            ("vectorAdd", "other"),
            // Words inside of others: lambda is no LAMB, nocast no cast, convert no convolution.
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::neg_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}>",
                "elementwise",
            ),
            (
                "void at::native::elementwise_kernel<128, 2, void at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<\
                 float, float, float, at::native::binary_internal::DivFunctor<float> > >(at::TensorIteratorBase&)::{lambda(int)#1}>",
                "elementwise",
            ),
            (
                "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float, \
                 at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}> > >",
                "reduction",
            ),
            (
                "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(\
                 at::TensorIteratorBase&)::{lambda()#3}> >",
                "copy",
            ),
            ("convert_weights", "other"),
            ("causal_conv1d_fwd_kernel", "convolution"),
            ("lamb_update_kernel", "optimizer"),
        ] {
            assert_eq!(class_of(name), class, "{name}");
        }
    }

    #[test]
    fn every_line_of_the_table_has_words() {
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.split_whitespace().count() >= 2, "{line}");
            assert_eq!(line, line.to_ascii_lowercase());
        }
    }
}
