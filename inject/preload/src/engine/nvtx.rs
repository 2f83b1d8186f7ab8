//! NVTX: callbacks that come down to the calls of `cuda::nvtx`, recorded like those of any hooked
//! function. They run on the program's threads: no locks, no allocation.
//!
//! NVTX asks a tool for nothing but a table's worth of functions; what they return is what programs
//! get without a tool, except for handles and numbers of ranges, which are counted up.

use super::entry::own_entry;
use super::report;
use super::select::Options;
use super::thunks;
use super::window::{self, Called};
use crate::layout::{GetExportTable, Stage};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cuda::nvtx::{FUNCTIONS, LONG_TEXT, NvtxStep, Room, SHORT_TEXT, Style, message_type, named};

/// Numbers of functions that are ours: the first.
pub const NUMBERS: usize = FUNCTIONS.len();
/// A library that is in no list: it counts as no hooked one.
pub(super) const NO_LIBRARY: usize = 65_535;

/// What programs get from NVTX without a tool: nobody tells how deep they are.
const NOT_TRACKED: i32 = -2;
/// Bytes of `nvtxEventAttributes_t`, which has had one layout since its second version.
const ATTRIBUTES: u16 = 48;
/// `NVTX_ETID_CALLBACKS`
const CALLBACKS: u32 = 1;
/// `NVTX_CB_MODULE_CORE`, `NVTX_CB_MODULE_CORE2`
const CORE: u32 = 1;
const CORE2: u32 = 5;

static WANTED: AtomicBool = AtomicBool::new(false);
/// Handles of strings and domains, numbers of ranges.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Rows for our functions, said to the tracer if ranges are wanted.
pub fn start(stage: &Stage, options: &Options) {
    let wanted = |function: &cuda::nvtx::Function| options.wants(function.family().as_bytes());
    if !FUNCTIONS.iter().any(wanted) {
        return;
    }
    let mut lines = report::Line::<1024>::new();
    for (number, function) in FUNCTIONS.iter().enumerate() {
        let row = own_entry(
            &function.plan(),
            number as u16,
            recorded as *const () as usize,
        );
        // SAFETY: a row of the table; nothing calls it yet.
        unsafe { stage.entries.add(number).write(row) };
        let _ = writeln!(lines, "function {number} {NO_LIBRARY} {}", function.name);
    }
    report::say(lines.bytes());
    WANTED.store(true, Ordering::Release);
}

/// Where a recorded call goes on to: there is nothing to do.
pub(super) extern "C" fn recorded(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> u32 {
    0
}

/// Puts our callbacks into a copy of NVTX.
///
/// # Safety
/// Called as NVTX calls a tool.
pub unsafe extern "C" fn inject(tables: GetExportTable) -> bool {
    if !WANTED.load(Ordering::Acquire) {
        return false;
    }
    type Find = unsafe extern "C" fn(u32, *mut *const *mut usize, *mut u32) -> i32;
    // SAFETY: by NVTX's contract: the table's size, then one function.
    unsafe {
        let table = tables(CALLBACKS);
        if table.is_null() || table.read() < 16 || table.add(1).read() == 0 {
            return false;
        }
        let find = core::mem::transmute::<usize, Find>(table.add(1).read());
        let fill = |module, callbacks: &[(usize, usize)]| {
            let (mut slots, mut count) = (core::ptr::null::<*mut usize>(), 0);
            if find(module, &mut slots, &mut count) == 0 || slots.is_null() {
                return false;
            }
            for &(place, callback) in callbacks {
                let slot = if place < count as usize {
                    slots.add(place).read()
                } else {
                    core::ptr::null_mut()
                };
                if !slot.is_null() {
                    slot.write(callback);
                }
            }
            true
        };
        let core = fill(CORE, &core_callbacks());
        fill(CORE2, &domain_callbacks()) || core
    }
}

/// By their places in the module's table.
fn core_callbacks() -> [(usize, usize); 13] {
    [
        (1, mark_ex as *const () as usize),
        (2, mark_a as *const () as usize),
        (3, mark_w as *const () as usize),
        (4, start_ex as *const () as usize),
        (5, start_a as *const () as usize),
        (6, start_w as *const () as usize),
        (7, end as *const () as usize),
        (8, push_ex as *const () as usize),
        (9, push_a as *const () as usize),
        (10, push_w as *const () as usize),
        (11, pop as *const () as usize),
        (12, name_category_a as *const () as usize),
        (13, name_category_w as *const () as usize),
    ]
}

fn domain_callbacks() -> [(usize, usize); 11] {
    [
        (1, domain_mark_ex as *const () as usize),
        (2, domain_start_ex as *const () as usize),
        (3, domain_end as *const () as usize),
        (4, domain_push_ex as *const () as usize),
        (5, domain_pop as *const () as usize),
        (8, domain_name_category_a as *const () as usize),
        (9, domain_name_category_w as *const () as usize),
        (10, register_string_a as *const () as usize),
        (11, register_string_w as *const () as usize),
        (12, domain_create_a as *const () as usize),
        (13, domain_create_w as *const () as usize),
    ]
}

/// `nvtxEventAttributes_t`
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: usize,
}

/// What is said of a range, a mark or a name.
struct Annotation {
    kind: u32,
    category: u32,
    text: Text,
    style: u64,
    payload: u64,
}

/// A message, as the program has it.
enum Text {
    None,
    Here(*const u8),
    Wide(*const u32),
    Handle(u64),
}

impl Annotation {
    fn text(text: Text) -> Annotation {
        Annotation {
            kind: message_type::TEXT,
            category: 0,
            text,
            style: 0,
            payload: 0,
        }
    }

    /// # Safety
    /// As NVTX's functions ask of their callers.
    unsafe fn attributes(of: *const Attributes) -> Annotation {
        // SAFETY: by contract.
        let Some(of) = (unsafe { of.as_ref() }).filter(|of| of.size >= ATTRIBUTES) else {
            return Annotation::text(Text::None);
        };
        let text = match of.message_type {
            1 => Text::Here(of.message as *const u8),
            2 => Text::Wide(of.message as *const u32),
            3 => Text::Handle(of.message as u64),
            _ => Text::None,
        };
        let style = Style {
            color: (of.color_type == 1).then_some(of.color),
            payload_type: of.payload_type as u8,
        };
        Annotation {
            kind: message_type::TEXT,
            category: of.category,
            text,
            style: style.word(),
            payload: of.payload,
        }
    }

    /// # Safety
    /// The text is one.
    unsafe fn record(&self, call: NvtxStep, domain: u64, number: u64) {
        let made;
        let (message, kind, room) = match &self.text {
            Text::None => (0, message_type::NONE, Room::None),
            Text::Here(text) if text.is_null() => (0, message_type::NONE, Room::None),
            Text::Wide(text) if text.is_null() => (0, message_type::NONE, Room::None),
            // SAFETY: by contract.
            Text::Here(text) => (*text as u64, self.kind, unsafe { room_for(*text) }),
            Text::Wide(text) => {
                // SAFETY: by contract.
                made = unsafe { narrow(*text) };
                (made.as_ptr() as u64, self.kind, Room::Long)
            }
            Text::Handle(handle) => (*handle, message_type::REGISTERED, Room::None),
        };
        let called = match kind {
            message_type::REGISTERED => Called::Handle(message),
            message_type::NONE => Called::Nothing,
            // SAFETY: by contract.
            _ => Called::Text(unsafe { letters(message as *const u8) }),
        };
        match call {
            NvtxStep::Push => window::pushed(domain, &called),
            NvtxStep::Start => window::started(number, &called),
            _ => {}
        }
        let what = u64::from(kind) | u64::from(self.category) << 32;
        record(
            call,
            room,
            [domain, message, what, self.style, self.payload, number],
        );
    }
}

/// A text up to the NUL that ends it, or as much of it as names have.
unsafe fn letters<'a>(text: *const u8) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: by the caller's contract, a text.
    unsafe {
        while length < usize::from(LONG_TEXT) && text.add(length).read() != 0 {
            length += 1;
        }
        core::slice::from_raw_parts(text, length)
    }
}

/// How much room a text needs.
unsafe fn room_for(text: *const u8) -> Room {
    for place in 0..usize::from(SHORT_TEXT) {
        // SAFETY: up to the NUL that ends it.
        if unsafe { text.add(place).read() } == 0 {
            return Room::Short;
        }
    }
    Room::Long
}

/// Wide characters as UTF-8, as many as fit with a NUL.
unsafe fn narrow(text: *const u32) -> [u8; LONG_TEXT as usize] {
    let mut made = [0; LONG_TEXT as usize];
    let (mut place, mut read) = (0, 0);
    loop {
        // SAFETY: up to the NUL that ends it.
        let letter = unsafe { text.add(read).read_unaligned() };
        let letter = char::from_u32(letter).unwrap_or(char::REPLACEMENT_CHARACTER);
        if letter == '\0' || place + letter.len_utf8() >= made.len() {
            return made;
        }
        place += letter.encode_utf8(&mut made[place..]).len();
        read += 1;
    }
}

/// One call of ours, through its thunk: it leaves a record.
fn record(call: NvtxStep, room: Room, words: [u64; 6]) {
    type Recorded = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u32;
    if let Some(thunk) = thunks::of(cuda::nvtx::number(call, room)) {
        // SAFETY: a thunk whose row goes on to `recorded`.
        let thunk = unsafe { core::mem::transmute::<usize, Recorded>(thunk) };
        let [domain, message, what, style, payload, number] = words;
        thunk(domain, message, what, style, payload, number);
    }
}

/// A text for something, which gets a handle.
unsafe fn name(domain: u64, what: u32, handle: u64, text: Text) {
    let said = Annotation {
        kind: what,
        category: 0,
        text,
        style: handle,
        payload: 0,
    };
    // SAFETY: by the caller's contract.
    unsafe { said.record(NvtxStep::Name, domain, 0) };
}

unsafe extern "C" fn mark_ex(attributes: *const Attributes) {
    unsafe { domain_mark_ex(0, attributes) }
}

unsafe extern "C" fn mark_a(message: *const u8) {
    unsafe { Annotation::text(Text::Here(message)).record(NvtxStep::Mark, 0, 0) }
}

unsafe extern "C" fn mark_w(message: *const u32) {
    unsafe { Annotation::text(Text::Wide(message)).record(NvtxStep::Mark, 0, 0) }
}

unsafe extern "C" fn start_ex(attributes: *const Attributes) -> u64 {
    unsafe { domain_start_ex(0, attributes) }
}

unsafe extern "C" fn start_a(message: *const u8) -> u64 {
    unsafe { begin(0, &Annotation::text(Text::Here(message))) }
}

unsafe extern "C" fn start_w(message: *const u32) -> u64 {
    unsafe { begin(0, &Annotation::text(Text::Wide(message))) }
}

unsafe fn begin(domain: u64, said: &Annotation) -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    unsafe { said.record(NvtxStep::Start, domain, number) };
    number
}

extern "C" fn end(number: u64) {
    domain_end(0, number);
}

unsafe extern "C" fn push_ex(attributes: *const Attributes) -> i32 {
    unsafe { domain_push_ex(0, attributes) }
}

unsafe extern "C" fn push_a(message: *const u8) -> i32 {
    unsafe { Annotation::text(Text::Here(message)).record(NvtxStep::Push, 0, 0) };
    NOT_TRACKED
}

unsafe extern "C" fn push_w(message: *const u32) -> i32 {
    unsafe { Annotation::text(Text::Wide(message)).record(NvtxStep::Push, 0, 0) };
    NOT_TRACKED
}

extern "C" fn pop() -> i32 {
    domain_pop(0)
}

unsafe extern "C" fn name_category_a(category: u32, text: *const u8) {
    unsafe { domain_name_category_a(0, category, text) }
}

unsafe extern "C" fn name_category_w(category: u32, text: *const u32) {
    unsafe { domain_name_category_w(0, category, text) }
}

unsafe extern "C" fn domain_mark_ex(domain: u64, attributes: *const Attributes) {
    unsafe { Annotation::attributes(attributes).record(NvtxStep::Mark, domain, 0) }
}

unsafe extern "C" fn domain_start_ex(domain: u64, attributes: *const Attributes) -> u64 {
    unsafe { begin(domain, &Annotation::attributes(attributes)) }
}

extern "C" fn domain_end(domain: u64, number: u64) {
    record(NvtxStep::End, Room::None, [domain, number, 0, 0, 0, 0]);
    window::ended(number);
}

unsafe extern "C" fn domain_push_ex(domain: u64, attributes: *const Attributes) -> i32 {
    unsafe { Annotation::attributes(attributes).record(NvtxStep::Push, domain, 0) };
    NOT_TRACKED
}

extern "C" fn domain_pop(domain: u64) -> i32 {
    record(NvtxStep::Pop, Room::None, [domain, 0, 0, 0, 0, 0]);
    window::popped(domain);
    NOT_TRACKED
}

unsafe extern "C" fn domain_name_category_a(domain: u64, category: u32, text: *const u8) {
    unsafe { name(domain, named::CATEGORY, category.into(), Text::Here(text)) }
}

unsafe extern "C" fn domain_name_category_w(domain: u64, category: u32, text: *const u32) {
    unsafe { name(domain, named::CATEGORY, category.into(), Text::Wide(text)) }
}

unsafe extern "C" fn register_string_a(domain: u64, text: *const u8) -> u64 {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    if !text.is_null() {
        window::registered(handle, unsafe { letters(text) });
    }
    unsafe { name(domain, named::STRING, handle, Text::Here(text)) };
    handle
}

unsafe extern "C" fn register_string_w(domain: u64, text: *const u32) -> u64 {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    if !text.is_null() {
        let narrow = unsafe { narrow(text) };
        window::registered(handle, unsafe { letters(narrow.as_ptr()) });
    }
    unsafe { name(domain, named::STRING, handle, Text::Wide(text)) };
    handle
}

unsafe extern "C" fn domain_create_a(text: *const u8) -> u64 {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    unsafe { name(0, named::DOMAIN, handle, Text::Here(text)) };
    handle
}

unsafe extern "C" fn domain_create_w(text: *const u32) -> u64 {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    unsafe { name(0, named::DOMAIN, handle, Text::Wide(text)) };
    handle
}
