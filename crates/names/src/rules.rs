//! What is known about the kernels of libraries, as data: which names are launchers of something
//! else, which arguments are noise, what functors and types are called among people.
//!
//! Add a rule where a library's kernels look alike or say more than anybody reads. Names of
//! programs' own kernels are left as they are: their authors look for them as they wrote them.

/// Kernels of a library, and what is shown of them.
pub struct Family {
    /// The function's own name, as a glob.
    pub kernel: &'static str,
    /// A scope or a scope's beginning that it must be in; "" is any.
    pub scope: &'static str,
    pub shown: Shown,
}

pub enum Shown {
    /// This word, and what the functor among the arguments does: `elementwise add<bf16>`.
    Operation(&'static str),
    /// This word (or its own name, if it is empty) and the type of the elements: `layer_norm<bf16>`.
    Typed(&'static str),
    /// This library's name, then its own and the type: `cublasLt splitKreduce<f32>`.
    Prefixed(&'static str),
    /// Its own name with the first number, the size of a head: `flash_fwd<bf16,64>`.
    Traits,
    /// A launcher: what it runs is its first argument.
    Inner,
    /// This library's name, then the kernel's, the type and the tile: `cutlass GemmUniversal<…>`.
    Tiled(&'static str),
    /// This library's name, then the kernel's (or its scope's, where all are called alike), the
    /// functor and the type: `cub RadixSortOnesweep<u32>`.
    Library(&'static str),
}

/// The first that fits counts.
pub const FAMILIES: &[Family] = &[
    // PyTorch: one template a way of walking over tensors; the functor says what it computes.
    family("index_elementwise_kernel", "native", Shown::Operation("")),
    family(
        "*scatter_gather_elementwise_kernel",
        "native",
        Shown::Operation(""),
    ),
    family(
        "distribution_elementwise*",
        "native",
        Shown::Operation("random"),
    ),
    family(
        "*elementwise_kernel*",
        "native",
        Shown::Operation("elementwise"),
    ),
    family("reduce_kernel", "native", Shown::Operation("reduce")),
    family(
        "multi_tensor_apply_kernel*",
        "",
        Shown::Operation("multi_tensor"),
    ),
    family("*", "native", Shown::Typed("")),
    // PyTorch's as well, in headers without a scope of its own.
    family(
        "elementwise_kernel_with_index",
        "",
        Shown::Operation("elementwise"),
    ),
    family("softmax_warp_*", "", Shown::Typed("")),
    // FlashAttention 2, PyTorch's copy of it, and what is built like it.
    family("flash_*", "", Shown::Traits),
    // CUTLASS wraps every kernel in one of these.
    family("device_kernel", "cutlass", Shown::Inner),
    family("Kernel", "cutlass", Shown::Inner),
    family("Kernel2", "cutlass", Shown::Inner),
    family("enable_*", "", Shown::Inner),
    family("*", "flash", Shown::Tiled("")),
    family("*", "cutlass", Shown::Tiled("cutlass")),
    // Thrust runs agents; newer ones are CUB's.
    family("_kernel_agent", "thrust", Shown::Inner),
    family("*", "cub", Shown::Library("cub")),
    family("*", "thrust", Shown::Library("thrust")),
    family("*", "cublasLt", Shown::Prefixed("cublasLt")),
    family("*", "cublas", Shown::Prefixed("cublas")),
    family("*", "cudnn", Shown::Prefixed("cudnn")),
];

const fn family(kernel: &'static str, scope: &'static str, shown: Shown) -> Family {
    Family {
        kernel,
        scope,
        shown,
    }
}

/// Templates around the functor that says what is computed, with what they add to it.
pub const WRAPPERS: &[(&str, &str)] = &[
    ("BinaryFunctor", ""),
    ("UnaryFunctor", ""),
    // One operand is a number given by the host.
    ("AUnaryFunctor", "scalar"),
    ("BUnaryFunctor", "scalar"),
    ("gpu_kernel_impl*", ""),
    ("gpu_index_kernel", ""),
    ("gpu_kernel", ""),
    ("gpu_kernel_with_index", ""),
    ("opmath_*", ""),
    ("func_wrapper_t", ""),
    ("ReduceOp", ""),
    ("op_wrapper_t", ""),
    ("*Agent", ""),
    ("*transform_f", ""),
    ("__nv_*dl_wrapper_t", ""),
    ("__nv_*dl_tag", ""),
];

/// Arguments that say how memory is walked, not what is computed.
pub const NOISE: &[&str] = &[
    "array",
    "Array",
    "*OffsetCalculator",
    "LoadWith*",
    "StoreWith*",
    "*ListMetadata",
    "*Policy*",
    "policy*",
    "*_policy",
    "TensorIterator*",
    "InvokeMemberFn",
    "integral_constant",
    "pair",
    "tuple",
    "plus_or_minus_one",
    "*iterator*",
    "device_ptr",
    "*Traits*",
    "*Storage*",
    "OpaqueType",
    "complex",
    "*decomposer*",
    "*TileState*",
    "NullType",
    "*_tag",
    "*predicate*",
];

/// Operations whose words come out wrong by the rules below, and what stands behind them. A word
/// that ends in `+` is the beginning of the next functor's: `addc+` and `mul` are addcmul.
pub const OPERATIONS: &[(&str, &str, &str)] = &[
    ("direct_copy_kernel_cuda", "copy", ""),
    ("bfloat16_copy_kernel_cuda", "copy to bf16", ""),
    ("float16_copy_kernel_cuda", "copy to f16", ""),
    ("bfloat16tofloat32_copy_kernel_cuda", "copy bf16 to f32", ""),
    ("float16tofloat32_copy_kernel_cuda", "copy f16 to f32", ""),
    ("uniform_and_transform", "uniform", ""),
    ("normal_and_transform", "normal", ""),
    ("exponential_and_transform", "exponential", ""),
    ("FusedAdamMathFunctor", "fused_adam", ""),
    ("FusedSgdMathFunctor", "fused_sgd", ""),
    ("_cuda_scatter_gather_internal_kernel", "scatter_gather", ""),
    ("_cuda_scatter_fill_internal_kernel", "scatter_fill", ""),
    ("launch_clamp_scalar", "clamp scalar", ""),
    ("cunn_SoftMaxForward", "softmax_forward", ""),
    ("cunn_SoftMaxForwardSmem", "softmax_forward smem", ""),
    ("cunn_SoftMaxBackward", "softmax_backward", ""),
    ("cunn_SoftMaxBackwardSmem", "softmax_backward smem", ""),
    (
        "GammaBetaBackwardCUDAKernelTemplate",
        "layer_norm_grad_gamma_beta",
        "",
    ),
    (
        "GammaBetaBackwardSimpleCUDAKernel",
        "layer_norm_grad_gamma_beta simple",
        "",
    ),
    (
        "cuComputePartGradGammaBeta",
        "layer_norm_grad_gamma_beta part",
        "",
    ),
    (
        "cuComputeGradGammaBeta",
        "layer_norm_grad_gamma_beta sum",
        "",
    ),
    ("cuComputeGradInput", "layer_norm_grad_input", ""),
    ("RowwiseMomentsCUDAKernel", "layer_norm_moments", ""),
    ("CatArrayBatchedCopy", "cat", ""),
    ("CatArrayBatchedCopy_contig", "cat contig", ""),
    ("CatArrayBatchedCopy_vectorized", "cat vectorized", ""),
    ("CatArrayBatchedCopy_aligned16_contig", "cat aligned", ""),
    ("CatArrayBatchedCopy_alignedK_contig", "cat alignedK", ""),
    // cuBLASLt: adds a bias, applies an activation.
    ("globalKernel", "epilogue", ""),
    ("functor", "", ""),
    // PyTorch's optimizers: a functor for the lists, and one for the elements.
    ("UnaryOpFunctor", "", ""),
    ("BinaryOpScalarFunctor", "", "scalar"),
    ("BinaryOpScalarListFunctor", "", "scalars"),
    ("BinaryOpScalarTensorFunctor", "", "scalar tensor"),
    ("BinaryOpListAlphaFunctor", "", "alpha"),
    ("TernaryOpListFunctor", "", ""),
    ("TernaryOpScalarFunctor", "", "scalar"),
    ("TernaryOpScalarListFunctor", "", "scalars"),
    ("PointwiseOpListFunctor", "addc+", ""),
    ("PointwiseOpScalarFunctor", "addc+", ""),
    ("PointwiseOpScalarListFunctor", "addc+", "scalars"),
    ("PointwiseOpScalarTensorFunctor", "addc+", "scalar tensor"),
    ("plus", "add", ""),
    ("minus", "sub", ""),
    ("multiplies", "mul", ""),
    ("divides", "div", ""),
    ("ArgMaxOps", "argmax", ""),
    ("ArgMinOps", "argmin", ""),
    ("random_from_to_kernel", "from_to", ""),
    ("random_kernel", "bits", ""),
];

/// Taken off the ends of libraries' names, again and again.
pub const SUFFIXES: &[&str] = &[
    "_vectorized",
    "CUDAKernelImpl",
    "KernelImplCUDA",
    "CUDAKernel",
    "KernelImpl",
    "Functor",
    "_functor",
    "_kernel",
    "_cuda",
    "_impl",
    "_out",
    "Kernel",
    "CUDA",
    "Agent",
    "Ops",
    "Op",
];

/// Taken out of the middle.
pub const INFIXES: &[&str] = &["_cuda_kernel", "_kernel"];

/// Taken off the beginnings, once.
pub const PREFIXES: &[(&str, &str)] = &[
    ("CUDAFunctorOnSelf_", "scalar"),
    ("CUDAFunctorOnOther_", "scalar"),
    ("CUDAFunctor_", ""),
    ("vectorized_", ""),
    ("cunn_", ""),
    ("__", ""),
];

/// Types of elements, by the last word of their C++ names.
pub const TYPES: &[(&str, &str)] = &[
    ("float", "f32"),
    ("double", "f64"),
    ("Half", "f16"),
    ("__half", "f16"),
    ("half", "f16"),
    ("half_t", "f16"),
    ("__half2", "f16x2"),
    ("BFloat16", "bf16"),
    ("__nv_bfloat16", "bf16"),
    ("nv_bfloat16", "bf16"),
    ("__nv_bfloat162", "bf16x2"),
    ("bfloat16_t", "bf16"),
    ("tfloat32_t", "tf32"),
    ("Float8_e4m3fn", "e4m3"),
    ("Float8_e5m2", "e5m2"),
    ("__nv_fp8_e4m3", "e4m3"),
    ("__nv_fp8_e5m2", "e5m2"),
    ("float_e4m3_t", "e4m3"),
    ("float_e5m2_t", "e5m2"),
    ("bool", "bool"),
    ("signed char", "i8"),
    ("unsigned char", "u8"),
    ("short", "i16"),
    ("unsigned short", "u16"),
    ("int", "i32"),
    ("unsigned int", "u32"),
    ("long", "i64"),
    ("long long", "i64"),
    ("unsigned long", "u64"),
    ("unsigned long long", "u64"),
    ("int8_t", "i8"),
    ("uint8_t", "u8"),
];

/// Built into the language: programs' own templates show them as they were written.
pub const BUILT_IN: &[&str] = &[
    "float", "char", "double", "bool", "int", "long", "short", "unsigned", "signed",
];

/// Scopes that compilers make, by their beginnings: of a file's own names.
pub const MADE_SCOPES: &[&str] = &["_INTERNAL_", "_GLOBAL__N_"];

/// Scopes that say nothing.
pub const SCOPES: &[&str] = &[
    "std", "detail", "details", "internal", "impl", "__main__", "native", "at",
];

/// Kernels with names of their own making (no C++), which are words joined by `_`.
pub struct Words {
    pub prefix: &'static str,
    /// What the prefix becomes.
    pub shown: &'static str,
    /// Words that begin like this are left out.
    pub dropped: &'static [&'static str],
    /// Taken off the beginnings of words.
    pub stripped: &'static str,
}

pub const WORDS: &[Words] = &[
    Words {
        prefix: "ncclDevKernel_",
        shown: "nccl ",
        dropped: &[],
        stripped: "",
    },
    Words {
        prefix: "ncclKernel_",
        shown: "nccl ",
        dropped: &[],
        stripped: "",
    },
    Words {
        prefix: "cutlass_",
        shown: "cutlass_",
        dropped: &["tensorop", "align"],
        stripped: "",
    },
    Words {
        prefix: "cutlass3x_",
        shown: "cutlass3x_",
        dropped: &["tensorop", "align"],
        stripped: "",
    },
    Words {
        prefix: "fmha_",
        shown: "fmha_",
        dropped: &["aligned"],
        stripped: "",
    },
    Words {
        prefix: "cudnn_generated_fort_native_",
        shown: "cudnn_",
        dropped: &["cga", "kernel0"],
        stripped: "",
    },
    Words {
        prefix: "cudnn_generated_",
        shown: "cudnn_",
        dropped: &["cga", "kernel0"],
        stripped: "",
    },
    // cuBLAS' older kernels: types of A and B, of the computation, of C; layouts; tile; the rest is tuning.
    Words {
        prefix: "sm80_xmma_",
        shown: "sm80_xmma_",
        dropped: XMMA,
        stripped: "tilesize",
    },
    Words {
        prefix: "sm90_xmma_",
        shown: "sm90_xmma_",
        dropped: XMMA,
        stripped: "tilesize",
    },
];

const XMMA: &[&str] = &[
    "stage",
    "warpsize",
    "warpgroupsize",
    "tensor",
    "ffma",
    "align",
    "execute",
    "segment",
    "kernel",
    "cublas",
    "5x",
    "k",
    "off",
];
