//! Calls that failed and were passed over.

use super::signs::Failure;
use super::{Draft, Finding, Seen, Severity, words};

/// Kinds of failure named.
const MOST_NAMED: usize = 5;

pub fn look(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    // A failure after which the thread called nothing more was not passed over. Frees have a finding
    // of their own.
    let ignored: Vec<_> = (seen.signs.failures.iter())
        .filter(|failure| failure.calls_after > 0 && !expected(failure))
        .filter(|failure| !crate::frees::frees_memory(&failure.function))
        .collect();
    let Some(first) = ignored.iter().min_by_key(|failure| failure.from) else {
        return;
    };
    let count: u64 = ignored.iter().map(|failure| failure.count).sum();
    let mut named: Vec<_> = (ignored.iter().take(MOST_NAMED))
        .map(|failure| {
            let error = match &failure.error {
                Some(error) => error.to_string(),
                None => format!("error {}", failure.code),
            };
            format!("{} {error} ({}×)", failure.function, failure.count)
        })
        .collect();
    if ignored.len() > MOST_NAMED {
        named.push(format!("and {} more kinds", ignored.len() - MOST_NAMED));
    }
    let last = ignored
        .iter()
        .map(|failure| failure.to)
        .max()
        .unwrap_or(first.to);
    found.push(
        Draft::new("failed-calls", seen)
            .shown_by(ignored.iter().flat_map(|failure| failure.ops.first().copied()))
            .number("failed_calls", count)
            .number("kinds", ignored.len() as u64)
            .number("calls_after", first.calls_after)
            .between(first.from, last)
            .at_least(Severity::Medium)
            .say(
                seen,
                format!("{} failed and the program went on", words::count(count, "call", "calls")),
                format!(
                    "{}. After the first kind's last failure the thread made {} more.",
                    named.join(", "),
                    words::count(first.calls_after, "call", "calls"),
                ),
                "Check what every call returns. What an earlier launch did wrong is told by a later call: \
                 look at what ran before it.",
            ),
    );
}

/// Failures that are answers: asked in order to find something out, and told in the documentation.
fn expected(failure: &Failure) -> bool {
    const NOT_INITIALIZED: i64 = 3;
    const DEINITIALIZED: i64 = 4;
    const INVALID_VALUE: i64 = 1;
    const INVALID_CONTEXT: i64 = 201;
    const NOT_FOUND: i64 = 500;
    const NOT_READY: i64 = 600;
    const PEER_ALREADY: i64 = 704;
    const REGISTERED_ALREADY: i64 = 712;
    const NOT_SUPPORTED: i64 = 801;
    let family = cuda::family(&failure.function);
    match failure.code {
        // Work goes on: that is what a query asks.
        NOT_READY => true,
        // The process is ending, and the driver with it.
        DEINITIALIZED => true,
        PEER_ALREADY | REGISTERED_ALREADY => true,
        // Is there such a function, table, symbol or attribute?
        NOT_FOUND | NOT_SUPPORTED | NOT_INITIALIZED => {
            failure_asks(family) || family.contains("GetExportTable") || family.contains("GetProc")
        }
        // Is this pointer, or this context, one of CUDA's?
        INVALID_VALUE | INVALID_CONTEXT => {
            family.contains("Pointer") || failure_asks(family) || family.contains("CtxPopCurrent")
        }
        // They repeat an error that another call has returned already.
        _ => matches!(family, "cudaGetLastError" | "cudaPeekAtLastError"),
    }
}

/// Functions whose only purpose is the answer.
fn failure_asks(family: &str) -> bool {
    matches!(family, "cudaGetLastError" | "cudaPeekAtLastError")
        || ["Get", "Query", "CanAccess", "IsCapturing", "Attribute"]
            .iter()
            .any(|word| family.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(function: &str, code: i64) -> Failure {
        Failure {
            function: function.into(),
            code,
            error: None,
            count: 1,
            ops: Vec::new(),
            from: 0,
            to: 0,
            calls_after: 1,
        }
    }

    #[test]
    fn answers_are_no_failures() {
        for (function, code) in [
            ("cuStreamQuery", 600),
            ("cudaEventQuery", 600),
            ("cuCtxGetCurrent", 3),
            ("cuCtxGetDevice", 201),
            ("cuPointerGetAttribute", 1),
            ("cudaPointerGetAttributes", 1),
            ("cuGetExportTable", 500),
            ("cuGetProcAddress_v2", 500),
            ("cudaGetLastError", 700),
            ("cuCtxEnablePeerAccess", 704),
            ("cuMemFree_v2", 4),
        ] {
            assert!(expected(&failure(function, code)), "{function} {code}");
        }
        for (function, code) in [
            ("cuMemAlloc_v2", 2),
            ("cuLaunchKernel", 1),
            ("cuMemcpyDtoH_v2", 700),
            ("cuStreamSynchronize", 700),
            ("cudaMalloc", 2),
            ("cuModuleLoadData", 218),
            ("cuCtxSetCurrent", 3),
        ] {
            assert!(!expected(&failure(function, code)), "{function} {code}");
        }
    }
}
