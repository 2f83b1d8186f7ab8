//! Kernels that are launched.

use super::{field, fields, first, list, map, number};
use crate::call::assemble::LaunchArguments;
use crate::call::role::Form;
use crate::call::state::ProcessState;
use event::{Arg, Event, Launch, Name, Value, What};

/// The handles of the kernels that a launch names.
pub fn kernel_handles(call: &Event, form: Form) -> Vec<u64> {
    match form {
        Form::One | Form::Legacy => kernel_handle(call).into_iter().collect(),
        Form::List => {
            let launches = list(call, "launchParamsList").unwrap_or_default();
            let handle = |one| {
                let one = map(one)?;
                number(one, "function").or_else(|| number(one, "func"))
            };
            launches
                .iter()
                .map(|one| handle(one).unwrap_or(0))
                .collect()
        }
    }
}

/// The handle of the one kernel that a launch names.
fn kernel_handle(call: &Event) -> Option<u64> {
    first(call, &["f", "func", "kernel"])
}

/// The same, and what the launch says of it.
pub fn launch_arguments(call: &Event) -> Option<LaunchArguments> {
    let handle = kernel_handle(call)?;
    let Launch {
        grid,
        block,
        shared,
        ..
    } = launch_of(call, Name::from(""))?;
    Some(LaunchArguments {
        handle,
        grid,
        block,
        shared,
    })
}

/// What a launch of one kernel says of it.
fn launch_of(call: &Event, kernel: Name) -> Option<Launch> {
    sized(fields(call, "config").unwrap_or(&call.args), kernel)
}

/// The handle of the kernel that a node of a graph is described to run, by a call of a function that has to do with graphs.
pub fn node_kernel(call: &Event) -> Option<u64> {
    let params = fields(call, "nodeParams").or_else(|| fields(call, "pNodeParams"))?;
    // Of nodes of every kind the arm says that it is a kernel's.
    let params = field(params, "kernel").and_then(map).unwrap_or(params);
    let handle = |name| number(params, name).filter(|handle| *handle != 0);
    let is_kernel = field(params, "gridDimX").is_some() || field(params, "gridDim").is_some();
    is_kernel.then(|| handle("func").or_else(|| handle("kern")))?
}

/// `kernels` are the names of [`kernel_handles`].
pub fn launched(
    call: &Event,
    form: Form,
    kernels: &[Option<Name>],
    process: &ProcessState,
) -> Vec<What> {
    let handles = kernel_handles(call, form);
    let named = |place: usize| {
        let known = kernels.get(place).cloned().flatten();
        known.or_else(|| Some(format!("{:#x}", handles.get(place)?).into()))
    };
    let launches: Vec<Launch> = match form {
        Form::One => named(0)
            .and_then(|kernel| launch_of(call, kernel))
            .into_iter()
            .collect(),
        Form::Legacy => {
            let size = |name| Some(u32::try_from(call.arg(name)?.as_u64()?).ok()?.max(1));
            let launch = |kernel| {
                let (block, shared) = process.legacy_sizes(*handles.first()?);
                Some(Launch {
                    kernel,
                    grid: [
                        size("grid_width").unwrap_or(1),
                        size("grid_height").unwrap_or(1),
                        1,
                    ],
                    block,
                    shared,
                })
            };
            named(0).and_then(launch).into_iter().collect()
        }
        Form::List => {
            let launches = list(call, "launchParamsList").unwrap_or_default();
            let each = launches.iter().enumerate();
            each.filter_map(|(place, one)| sized(map(one)?, named(place)?))
                .collect()
        }
    };
    launches.into_iter().map(What::Launch).collect()
}

fn sized(config: &[Arg], kernel: Name) -> Option<Launch> {
    let shared = ["sharedMemBytes", "sharedMem", "dynamicSmemBytes"];
    Some(Launch {
        kernel,
        grid: sizes(config, &GRID)?,
        block: sizes(config, &BLOCK)?,
        shared: shared.iter().find_map(|name| number(config, name))?,
    })
}

/// A size in three dimensions: its name as one value, and those of its parts.
struct Dimensions {
    whole: &'static str,
    parts: [&'static str; 3],
}

const GRID: Dimensions = Dimensions {
    whole: "gridDim",
    parts: ["gridDimX", "gridDimY", "gridDimZ"],
};
const BLOCK: Dimensions = Dimensions {
    whole: "blockDim",
    parts: ["blockDimX", "blockDimY", "blockDimZ"],
};

fn sizes(args: &[Arg], names: &Dimensions) -> Option<[u32; 3]> {
    let list = field(args, names.whole);
    let mut sizes = [0; 3];
    for (place, size) in sizes.iter_mut().enumerate() {
        let found = match list {
            Some(Value::List(list)) => list.get(place)?.as_u64()?,
            _ => number(args, names.parts[place])?,
        };
        *size = u32::try_from(found).ok()?;
    }
    Some(sizes)
}
