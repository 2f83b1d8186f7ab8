//! Functions: attributes, names, parameters.

use std::sync::Arc;

use crate::{
    abi::Text,
    entry::{api, put, put_optional},
    launch::{self, Function},
    result::{Answer, INVALID_VALUE},
    thread,
};

fn find(handle: u64) -> Answer<Arc<Function>> {
    launch::resolve(&thread::usable()?, handle)
}

api! {
    fn cuFuncGetAttribute(value: *mut i32, attribute: u32, function: u64) {
        if value.is_null() {
            return Err(INVALID_VALUE);
        }
        put(value, find(function)?.attribute(attribute)?)
    }

    fn cuFuncSetAttribute(function: u64, attribute: u32, value: i32) {
        let function = find(function)?;
        function.settings().set(function.kernel(), attribute, value)
    }

    fn cuFuncSetCacheConfig(function: u64, config: u32) {
        find(function)?;
        if config > 3 { Err(INVALID_VALUE) } else { Ok(()) }
    }

    fn cuFuncSetSharedMemConfig(function: u64, config: u32) {
        find(function)?;
        if config > 2 { Err(INVALID_VALUE) } else { Ok(()) }
    }

    fn cuFuncGetModule(module: *mut u64, function: u64) {
        if module.is_null() {
            return Err(INVALID_VALUE);
        }
        put(module, find(function)?.module)
    }

    fn cuFuncGetName(name: *mut Text, function: u64) {
        // The text lives as long as the module.
        put(name, find(function)?.name.as_ptr())
    }

    fn cuFuncGetParamInfo(function: u64, number: usize, offset: *mut usize, size: *mut usize) {
        let function = find(function)?;
        let param = function.kernel().params.get(number).ok_or(INVALID_VALUE)?;
        put(offset, param.offset)?;
        put_optional(size, param.size);
        Ok(())
    }

    fn cuFuncIsLoaded(state: *mut u32, function: u64) {
        const LOADED: u32 = 1;
        find(function)?;
        put(state, LOADED)
    }

    fn cuFuncLoad(function: u64) {
        find(function).map(|_| ())
    }
}
