//! XLA's operators (JAX's), by the NVTX ranges that XLA puts around them.

/// What a range is around: an operator of a compiled function (`Thunk:#name=…,hlo_op=…#`), called by where it is in the
/// Python function and by XLA's name, or the function itself (`XlaModule:#hlo_module=…#`). None: something else.
pub fn xla_operator(range: &str) -> Option<String> {
    if let Some(values) = values(range, "Thunk:#") {
        let operator = value(values, "hlo_op=", ",unique_hlo_op_id=")?;
        // The path comes first, and may have commas of its own.
        return Some(match value(values, "name=", ",hlo_op=") {
            Some(path) => format!("{path} ({operator})"),
            None => operator.to_owned(),
        });
    }
    let module = value(values(range, "XlaModule:#")?, "hlo_module=", ",program_id=")?;
    Some(format!("{module} (module)"))
}

fn values<'a>(range: &'a str, kind: &str) -> Option<&'a str> {
    range.strip_prefix(kind)?.strip_suffix('#')
}

/// What is between a key and what comes next, if that comes.
fn value<'a>(values: &'a str, key: &str, next: &str) -> Option<&'a str> {
    let at = match values.starts_with(key) {
        true => key.len(),
        false => values.rfind(&format!(",{key}"))? + 1 + key.len(),
    };
    let rest = &values[at..];
    Some(rest.rfind(next).map_or(rest, |end| &rest[..end]))
}

#[cfg(test)]
mod tests {
    use super::xla_operator;

    /// Ranges of a recorded program.
    #[test]
    fn ranges_of_xla_name_operators() {
        for (range, name) in [
            (
                "Thunk:#name=jit(<lambda>)/jvp()/dot_general,hlo_op=gemm_fusion_dot.4,unique_hlo_op_id=4294967302#",
                Some("jit(<lambda>)/jvp()/dot_general (gemm_fusion_dot.4)"),
            ),
            (
                "Thunk:#hlo_op=copy.1,unique_hlo_op_id=4294967297#",
                Some("copy.1"),
            ),
            ("Thunk:#hlo_op=command_buffer_1#", Some("command_buffer_1")),
            (
                "XlaModule:#prefix=args[0],hlo_module=jit_stage,program_id=0#",
                Some("jit_stage (module)"),
            ),
            (
                "XlaModule:#hlo_module=gemm_fusion_dot.7#",
                Some("gemm_fusion_dot.7 (module)"),
            ),
            (
                "XlaPass:#name=dce,module=jit__lambda,program_id=3314#",
                None,
            ),
            ("Thunk:#hlo_op=cut", None),
            ("train step", None),
        ] {
            assert_eq!(xla_operator(range).as_deref(), name, "{range}");
        }
    }
}
