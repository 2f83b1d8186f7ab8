//! How every parameter of every function is shown, so that nothing stays undecoded in silence: the
//! snapshots list all of them, and each that is an address only has its reason here.

use cuda::capture::{Item, MAX_ITEMS, ParameterLocation, Plan, places, plan_of};
use cuda::{Function, Kind, Type, attributes};
use std::collections::BTreeMap;
use std::fmt::Write as _;

fn all() -> impl Iterator<Item = (&'static str, &'static Function)> {
    let newest = cuda::functions().iter().map(|function| ("", function));
    let older = cuda::older_functions().iter();
    newest.chain(older.map(|function| (" (runtime 12)", function)))
}

/// A value by itself, by the kind of its type.
fn by_kind(kind: &Type) -> String {
    match kind.kind {
        Kind::Void => "nothing".into(),
        Kind::Signed | Kind::Unsigned => "number".into(),
        Kind::Float => "float".into(),
        Kind::Enum if kind.enumeration().is_some_and(|names| names.bits) => "flags".into(),
        Kind::Enum => "enum".into(),
        Kind::Handle => "handle".into(),
        Kind::DevicePointer => "device address".into(),
        Kind::Callback => "callback".into(),
        Kind::Pointer | Kind::Text => "address".into(),
        Kind::Struct => format!("struct {}", kind.text),
    }
}

/// None: nothing but an address is shown.
fn shown(function: &'static Function, index: usize, plan: &Plan) -> Option<String> {
    let row = &function.parameters[index];
    let word = match places(function).nth(index)? {
        ParameterLocation::Words { count, .. } if usize::from(count) > MAX_ITEMS => {
            return Some("too long to show".into());
        }
        ParameterLocation::Words { first, .. } => first,
        ParameterLocation::Vector { .. } => return Some("float".into()),
    };
    let target = row.kind.pointee();
    let mut nested = "";
    let mut how = None;
    for item in plan.items() {
        let found = match *item {
            Item::Memory { arg, .. } if arg == word => {
                let target = target?;
                if attributes::of_value(function, index).is_some() {
                    "attribute".into()
                } else {
                    let copied: usize = plan
                        .items()
                        .iter()
                        .filter(|item| matches!(item, Item::Memory { arg, .. } if *arg == word))
                        .map(Item::bytes)
                        .sum();
                    let parts = if copied < target.size as usize {
                        "parts of "
                    } else {
                        ""
                    };
                    format!("{parts}{}", by_kind(target))
                }
            }
            Item::Text { arg, .. } if arg == word => "text".into(),
            Item::TextBehind { arg, .. } if arg == word => "text".into(),
            Item::Array { arg, stride: 1, .. } if arg == word => "text".into(),
            Item::Array { arg, .. } if arg == word => format!("list of {}", by_kind(target?)),
            Item::Gathered { arg, .. } if arg == word => "list of attributes".into(),
            Item::Nested { arg, .. } if arg == word => {
                nested = " with its array";
                continue;
            }
            _ => continue,
        };
        how.get_or_insert(found);
    }
    if let Some(how) = how {
        return Some(format!("{how}{nested}"));
    }
    match row.kind.kind {
        Kind::Pointer | Kind::Text => None,
        _ => Some(by_kind(row.kind)),
    }
}

/// Why an address is all there is to show.
fn reason(function: &Function, parameter: &cuda::Parameter) -> Option<&'static str> {
    let void = parameter
        .kind
        .pointee()
        .is_some_and(|to| to.kind == Kind::Void);
    let name = function.name;
    Some(match parameter.name {
        "args" | "kernelParams" | "extra" => {
            "arguments of a kernel: only the kernel knows their types"
        }
        "func" | "symbol" | "symbolPtr" | "entryFuncAddr" | "hostFun" | "hostVar" | "deviceFun"
        | "deviceAddress" | "hostVarPtrAddress" => {
            "stands for a function or variable of the program"
        }
        "tid" | "bid" | "bDim" | "gDim" | "wSize" => "always null",
        "fatCubinHandle" => "a handle of the runtime's own",
        "code" | "image" | "fatCubin" if void && !name.contains("EGL") => {
            "code: PTX, a cubin or a fat binary"
        }
        "data" if name.starts_with("cuLinkAddData") => "code: PTX, a cubin or a fat binary",
        "conn" | "pStream" if name.ends_with("PresentFrame") => {
            "beside a struct by value that fills the record"
        }
        "userData" => "handed on to a callback",
        "ptr" if name.contains("UserObject") => "handed on to a callback",
        "stream" | "eglStream" | "eglSync" | "image" if void => "an object of EGL",
        "nvSciSyncAttrList" => "an object of NvSci",
        "vdpGetProcAddress" => "an object of VDPAU",
        "globalStrides" | "pixelBoxLowerCorner" | "pixelBoxUpperCorner" => {
            "an array whose length is an argument less one or two"
        }
        "logBuffer" => "written where the call fails only",
        "pBorderColor" => "four floats of which no argument tells",
        "luid" => "eight bytes that mean nothing outside of Windows",
        "handle" | "handle_out" | "shareableHandle" | "osHandle" => {
            "its type depends on the kind of handle asked for"
        }
        "value" if name.contains("Coredump") => "its type depends on which attribute it is",
        "ptr" if name == "cuParamSetv" => {
            "arguments of a kernel: only the kernel knows their types"
        }
        "addr" | "dst" | "src" | "dstHost" | "srcHost" | "devPtr" | "dptr" | "ptr" | "p"
        | "pHost" | "globalAddress"
            if void =>
        {
            "memory to work on"
        }
        _ => return None,
    })
}

#[test]
fn how_every_parameter_is_shown() {
    let mut text = String::new();
    let mut addresses: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (version, function) in all() {
        let plan = plan_of(function);
        let _ = write!(text, "{}{version}:", function.name);
        for (index, parameter) in function.parameters.iter().enumerate() {
            let how = shown(function, index, &plan);
            if how.is_none() {
                let why = reason(function, parameter)
                    .unwrap_or_else(|| panic!("{} {}", function.name, parameter.name));
                let place = format!("{}{version} {}", function.name, parameter.name);
                addresses.entry(why).or_default().push(place);
            }
            let how = how.unwrap_or_else(|| "address".into());
            let _ = write!(text, " {}={how};", parameter.name);
        }
        let returned = match function.returns.text {
            "CUresult" | "cudaError_t" => "result",
            _ => match function.returns.kind {
                Kind::Text => "text",
                Kind::Pointer | Kind::Handle => "address",
                Kind::Void => "nothing",
                // Of no use to anyone: what is in registers after the call is not kept but for its
                // low half, and that is not named.
                _ => "not shown",
            },
        };
        let _ = writeln!(text, " → {returned}");
    }
    insta::assert_snapshot!("every_parameter", text);
    let mut reasons = String::new();
    for (why, places) in addresses {
        let _ = writeln!(reasons, "{why} ({}):", places.len());
        for place in places {
            let _ = writeln!(reasons, "    {place}");
        }
    }
    insta::assert_snapshot!("addresses_only", reasons);
}

/// A struct, array or text is copied whole where the tables know it: nothing is left out for want
/// of room.
#[test]
fn every_plan_has_room() {
    for (_, function) in all() {
        // A frame of EGL by value has more words than a plan has items.
        let frame = function.name == "cuEGLStreamProducerPresentFrame"
            || function.name == "cudaEGLStreamProducerPresentFrame";
        assert!(frame || !plan_of(function).is_short(), "{}", function.name);
    }
}
