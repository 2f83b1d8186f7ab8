//! The driver's own functions, past the hooks: for libraries that are loaded beside the injected one,
//! and whose calls are no part of the trace.
//!
//! For a function NAME such a library has a word `cutrace_original_NAME`, which the injected library
//! sets to what continues with the function itself.

/// What a function of [`originals!`](crate::originals) returns where this driver has none of that name.
pub const NOT_FOUND: i32 = 500;

/// The functions of a list `NAME(argument: type, …);`, and a module `words` with the word of each.
#[macro_export]
macro_rules! originals {
    ($($name:ident ($($arg:ident: $kind:ty),*);)*) => {
        $(
            /// The driver's function; not found where this driver has none of that name.
            ///
            /// # Safety
            /// As the function itself.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe fn $name($($arg: $kind),*) -> i32 {
                let at = words::$name.load(::core::sync::atomic::Ordering::Acquire);
                if at == 0 {
                    return $crate::originals::NOT_FOUND;
                }
                // SAFETY: a function of this name has this signature in every driver.
                unsafe {
                    let function: unsafe extern "C" fn($($kind),*) -> i32 = ::core::mem::transmute(at);
                    function($($arg),*)
                }
            }
        )*
        #[allow(non_upper_case_globals)]
        mod words {
            use ::core::sync::atomic::AtomicUsize;
            $(
                #[unsafe(export_name = concat!("cutrace_original_", stringify!($name)))]
                pub static $name: AtomicUsize = AtomicUsize::new(0);
            )*
        }
    };
}
