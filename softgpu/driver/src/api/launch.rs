//! Launches.

use std::ffi::c_void;

use crate::{
    abi::{HostFn, LaunchConfig},
    capture,
    entry::{stream_api, take, take_array},
    event::EventRecording,
    launch::{self, KernelWork, Shape, gather},
    result::{Answer, INVALID_HANDLE, INVALID_VALUE},
    state::driver,
    stream::{NullStream, resolve},
    thread,
    work::{HostCall, Work},
};

type Params = *const *const c_void;

/// Checks a launch and issues it.
unsafe fn launch(
    null: NullStream,
    function: u64,
    shape: Shape,
    stream: u64,
    params: Params,
    extra: Params,
) -> Answer {
    let (context, stream) = resolve(null, stream).inspect_err(|_| say_not_run(function))?;
    if function == 0 {
        return Err(INVALID_HANDLE);
    }
    let function = launch::resolve(&context, function)?;
    if function.context != context.handle {
        return Err(INVALID_HANDLE);
    }
    if !params.is_null() && !extra.is_null() {
        return Err(INVALID_VALUE);
    }
    let block = unsafe { gather(function.kernel(), params, extra)? };
    let work = KernelWork::new(function, shape, block)?;
    stream.issue(&context, Work::Kernel(work))?;
    if launch_blocking() {
        stream.wait_for_all();
        context.printed.flush();
        context.healthy()?;
    }
    Ok(())
}

/// Says that a kernel is refused because of an earlier one's fault, if that is why.
fn say_not_run(function: u64) {
    if let Ok(context) = thread::current()
        && context.fault().is_some()
    {
        let function = launch::resolve(&context, function);
        let name = function.map_or("a kernel".to_owned(), |it| it.kernel().name.clone());
        context.say_kernel_not_run(&name);
    }
}

/// CUDA_LAUNCH_BLOCKING=1 makes every launch wait, for debugging.
fn launch_blocking() -> bool {
    static SET: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *SET.get_or_init(|| std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|v| v == "1"))
}

/// A launch's completion event is recorded right behind it.
fn record_completion(null: NullStream, stream: u64, event: u64) -> Answer {
    let event = driver().events.get(event).ok_or(INVALID_HANDLE)?;
    let (context, stream) = resolve(null, stream)?;
    if !capture::record(&stream, &event)? {
        EventRecording::enqueue(&event, &context, &stream, Vec::new());
    }
    Ok(())
}

stream_api! {
    fn cuLaunchKernel / cuLaunchKernel_ptsz(null;
        function: u64,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: u64,
        params: Params,
        extra: Params,
    ) {
        let shape = Shape::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared);
        launch(null, function, shape, stream, params, extra)
    }

    fn cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz(null;
        function: u64,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: u64,
        params: Params,
    ) {
        let mut shape = Shape::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared);
        shape.cooperative = true;
        launch(null, function, shape, stream, params, std::ptr::null())
    }

    fn cuLaunchKernelEx / cuLaunchKernelEx_ptsz(null;
        config: *const LaunchConfig,
        function: u64,
        params: Params,
        extra: Params,
    ) {
        let config = take(config)?;
        let attributes = take_array(config.attributes, config.attribute_count as usize)?;
        let mut shape = Shape::new(config.grid, config.block, config.shared);
        shape.apply(&attributes)?;
        launch(null, function, shape, config.stream, params, extra)?;
        // Programmatic (7) and completion (12) events: the handle is the value's first word.
        for attribute in attributes.iter().filter(|a| matches!(a.id, 7 | 12)) {
            let event = u64::from(attribute.value[0]) | u64::from(attribute.value[1]) << 32;
            record_completion(null, config.stream, event)?;
        }
        Ok(())
    }

    fn cuLaunchHostFunc / cuLaunchHostFunc_ptsz(null;
        stream: u64,
        function: HostFn,
        data: *mut c_void,
    ) {
        if function.is_none() {
            return Err(INVALID_VALUE);
        }
        let data = data as usize;
        let (context, stream) = resolve(null, stream)?;
        stream.issue(&context, Work::Host(HostCall { function, data }))
    }
}
