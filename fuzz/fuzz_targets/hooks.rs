//! Hooks files: any text is read or refused with a place that lies in it, and what was read becomes a
//! description for the kernel that keeps its limits.
#![no_main]

use capture::{
    ebpf::kernel::Shape,
    ebpf::layout::{BODIES, MOST_CONDITIONS, MOST_STEPS},
    hooks::Hooks,
    kernel::Tracepoint,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = Tracepoint::parse(text);
    let hooks = match Hooks::parse(text) {
        Ok(hooks) => hooks,
        Err(error) => {
            assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1);
            assert!(error.column >= 1 && !error.show("file").is_empty());
            return;
        }
    };
    for hook in &hooks.hooks {
        for probe in &hook.probes {
            let Ok(shape) = Shape::of_function(hook, probe.way.is_return()) else {
                continue;
            };
            let spec = &shape.spec;
            assert!(usize::from(spec.enter_steps + spec.return_steps) <= MOST_STEPS);
            assert!(usize::from(spec.conditions) <= MOST_CONDITIONS);
            let room = BODIES[usize::from(spec.enter_class)];
            for when in &spec.when[..usize::from(spec.conditions)] {
                assert!(usize::from(when.at) + 8 <= room);
            }
            let _ = shape.arguments(bytes, 1);
            let _ = shape.outputs(bytes, 1);
        }
    }
});
