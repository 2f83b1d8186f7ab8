//! Module images: from what a program hands over to PTX text.

use std::ffi::{CStr, c_void};

use ptx::{
    fatbin::{Fatbin, HEADER_SIZE, Wrapper},
    image::{Image, Magic},
};

use super::result::{
    Answer, CuError, INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, NO_BINARY_FOR_GPU,
};

/// The device's capability as PTX and fatbins write it.
const SM: u32 = 90;
/// First bytes of what cuLinkComplete returns: PTX texts, not SASS.
const LINKED: [u8; 8] = *b"\x7fSOFTGPU";

/// PTX texts that make up one module.
pub struct Texts(pub Vec<String>);

impl Texts {
    /// CU_FUNC_ATTRIBUTE_PTX_VERSION: the target of the first text, as 90 for sm_90.
    pub fn target(&self) -> i32 {
        self.0.first().map_or(0, |text| target(text))
    }
}

/// Reads the image behind a pointer whose length only the image itself tells.
pub unsafe fn from_pointer(image: *const c_void) -> Answer<Texts> {
    if image.is_null() {
        return Err(INVALID_VALUE);
    }
    let start = image.cast::<u8>();
    let bytes = |count: usize| unsafe { std::slice::from_raw_parts(start, count) };
    // Even an empty text has a NUL; longer forms are read only once the start matches.
    let first = unsafe { leading_bytes(start) };
    if first == LINKED[..4] && bytes(8) == LINKED {
        let length = u64::from_le_bytes(bytes(16)[8..].try_into().map_err(|_| INVALID_IMAGE)?);
        return linked_texts(bytes(length as usize));
    }
    match Magic::of(first) {
        Magic::Wrapper => {
            let wrapper = Wrapper::parse(bytes(Wrapper::SIZE)).map_err(|_| INVALID_IMAGE)?;
            let inner = wrapper.data as *const u8;
            if inner.is_null() {
                return Err(INVALID_IMAGE);
            }
            unsafe { from_fatbin_pointer(inner) }
        }
        Magic::Fatbin => unsafe { from_fatbin_pointer(start) },
        Magic::Elf => Err(NO_BINARY_FOR_GPU),
        Magic::Text => from_bytes(unsafe { CStr::from_ptr(start.cast()) }.to_bytes()),
    }
}

/// The first four bytes, zeros after a NUL.
unsafe fn leading_bytes(start: *const u8) -> [u8; 4] {
    let mut first = [0; 4];
    for (i, byte) in first.iter_mut().enumerate() {
        *byte = unsafe { start.add(i).read() };
        if *byte == 0 {
            break;
        }
    }
    first
}

unsafe fn from_fatbin_pointer(start: *const u8) -> Answer<Texts> {
    let header = unsafe { std::slice::from_raw_parts(start, HEADER_SIZE) };
    let size = Fatbin::total_size(header).map_err(|_| INVALID_IMAGE)?;
    from_fatbin(unsafe { std::slice::from_raw_parts(start, size) })
}

/// Reads an image whose length is known.
pub fn from_bytes(bytes: &[u8]) -> Answer<Texts> {
    if bytes.starts_with(&LINKED) {
        return linked_texts(bytes);
    }
    match Image::detect(bytes) {
        Image::Ptx(text) => Ok(Texts(vec![text.into_owned()])),
        Image::Fatbin(bytes) => from_fatbin(bytes),
        Image::Cubin(_) => Err(NO_BINARY_FOR_GPU),
        Image::Elf(_) | Image::Wrapper(_) | Image::Other => Err(INVALID_IMAGE),
    }
}

fn from_fatbin(bytes: &[u8]) -> Answer<Texts> {
    let fatbin = Fatbin::parse(bytes).map_err(|_| INVALID_IMAGE)?;
    let entry = fatbin.best_ptx(SM).ok_or(NO_BINARY_FOR_GPU)?;
    let text = entry.text().map_err(|_| INVALID_IMAGE)?;
    Ok(Texts(vec![text.into_owned()]))
}

/// The result of a link: all texts, to be joined when it is loaded.
pub fn linked(texts: &[String]) -> Vec<u8> {
    let mut image = LINKED.to_vec();
    image.extend([0; 8]);
    for text in texts {
        image.extend((text.len() as u64).to_le_bytes());
        image.extend(text.as_bytes());
    }
    let length = image.len() as u64;
    image[8..16].copy_from_slice(&length.to_le_bytes());
    image
}

fn linked_texts(image: &[u8]) -> Answer<Texts> {
    let bad = |_| INVALID_IMAGE;
    let mut rest = image.get(16..).ok_or(INVALID_IMAGE)?;
    let mut texts = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(bad)?;
        let (text, after) = after.split_at_checked(length).ok_or(INVALID_IMAGE)?;
        texts.push(String::from_utf8_lossy(text).into_owned());
        rest = after;
    }
    Ok(Texts(texts))
}

/// The number in `.target sm_90a`.
fn target(text: &str) -> i32 {
    let after = text.split_once(".target").map_or("", |(_, after)| after);
    let digits: String = after
        .trim_start()
        .trim_start_matches("sm_")
        .chars()
        .take_while(char::is_ascii_digit)
        .take(4)
        .collect();
    digits.parse().unwrap_or(0)
}

/// Where cuModuleLoadDataEx and its like leave their words.
#[derive(Default)]
pub struct JitLog {
    error: Option<(*mut u8, usize, usize)>,
    info: Option<(*mut u8, usize, usize)>,
    wall_time: Option<usize>,
    values: Option<*mut *mut c_void>,
}

impl JitLog {
    /// Finds the log buffers among JIT options; all other options tune a compiler we have not.
    pub unsafe fn from_options(
        count: u32,
        options: *const u32,
        values: *mut *mut c_void,
    ) -> Answer<Self> {
        let mut log = Self::default();
        if count == 0 {
            return Ok(log);
        }
        if options.is_null() || values.is_null() || count > 1024 {
            return Err(INVALID_VALUE);
        }
        let (mut error, mut info) = ((None, None), (None, None));
        for i in 0..count as usize {
            let value = unsafe { *values.add(i) };
            match unsafe { *options.add(i) } {
                2 => log.wall_time = Some(i),
                3 => info.0 = Some(value.cast::<u8>()),
                4 => info.1 = Some((i, value as u32 as usize)),
                5 => error.0 = Some(value.cast::<u8>()),
                6 => error.1 = Some((i, value as u32 as usize)),
                number if number > 34 => return Err(INVALID_VALUE),
                _ => {}
            }
        }
        let buffer = |(place, size): (Option<*mut u8>, Option<(usize, usize)>)| {
            let ((at, size), place) = (size?, place?);
            (!place.is_null() && size > 0).then_some((place, size, at))
        };
        log.error = buffer(error);
        log.info = buffer(info);
        log.values = Some(values);
        Ok(log)
    }

    /// Writes what went wrong (or nothing), and how long it took.
    pub unsafe fn finish(&self, error: &str, milliseconds: f32) {
        unsafe {
            self.write(self.error, error);
            self.write(self.info, "");
            if let (Some(at), Some(values)) = (self.wall_time, self.values) {
                values.add(at).cast::<f32>().write_unaligned(milliseconds);
            }
        }
    }

    unsafe fn write(&self, buffer: Option<(*mut u8, usize, usize)>, text: &str) {
        let (Some((place, size, at)), Some(values)) = (buffer, self.values) else {
            return;
        };
        let text = &text.as_bytes()[..text.len().min(size - 1)];
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), place, text.len());
            place.add(text.len()).write(0);
            let filled = if text.is_empty() { 0 } else { text.len() + 1 };
            values.add(at).write(filled as *mut c_void);
        }
    }
}

/// Why a module could not be loaded, with words for the JIT log.
pub struct LoadError {
    pub code: CuError,
    pub log: String,
}

impl LoadError {
    /// What people should know; None where no driver could have loaded it.
    pub fn why(&self) -> Option<&str> {
        match self.code {
            INVALID_PTX => Some(self.log.trim_end()),
            NO_BINARY_FOR_GPU => Some(
                "it has no PTX for an sm_90 device, and softgpu runs only PTX: build it with -gencode \
                 arch=compute_80,code=compute_80 and without -rdc=true, which leaves only machine code",
            ),
            _ => None,
        }
    }
}

impl From<CuError> for LoadError {
    fn from(code: CuError) -> Self {
        Self {
            code,
            log: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_back() {
        let texts = vec![".version 8.0".to_owned(), String::new(), "x".to_owned()];
        let image = linked(&texts);
        assert_eq!(from_bytes(&image).unwrap().0, texts);
        let read = unsafe { from_pointer(image.as_ptr().cast()) };
        assert_eq!(read.unwrap().0, texts);
        for cut in 9..image.len() - 1 {
            if let Ok(read) = from_bytes(&image[..cut]) {
                assert!(read.0.len() < texts.len());
            }
        }
    }

    #[test]
    fn what_is_no_image_is_refused() {
        assert!(matches!(from_bytes(b"hello"), Err(INVALID_IMAGE)));
        assert!(matches!(from_bytes(b""), Err(INVALID_IMAGE)));
        let read = unsafe { from_pointer(c"".as_ptr().cast()) };
        assert!(matches!(read, Err(INVALID_IMAGE)));
    }

    #[test]
    fn targets() {
        assert_eq!(target(".version 8.0\n.target sm_90a\n"), 90);
        assert_eq!(target(".target sm_100, debug"), 100);
        assert_eq!(target(""), 0);
    }
}
