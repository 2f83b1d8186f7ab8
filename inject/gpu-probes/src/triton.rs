//! Triton hands the driver cubins; the PTX that each was made of is beside it in Triton's cache.

use std::fs;
use std::path::{Path, PathBuf};

/// Where Triton keeps what it compiled, by its own rules; `None`: it has not compiled here.
pub fn cache() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = match named("TRITON_CACHE_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let home = named("TRITON_HOME").or_else(|| named("HOME"))?;
            Path::new(&home).join(".triton/cache")
        }
    };
    folder.is_dir().then_some(folder)
}

/// The PTX of a cubin with this kernel: that of the same bytes, in whichever of the cache's folders.
pub fn text(cache: &Path, kernel: &str, cubin: &[u8]) -> Option<String> {
    // A name is a file's name there.
    if kernel.is_empty() || kernel.contains(['/', '\0']) || cubin.is_empty() {
        return None;
    }
    let (binary, text) = (format!("{kernel}.cubin"), format!("{kernel}.ptx"));
    let folders = fs::read_dir(cache).ok()?.flatten();
    folders
        .map(|folder| folder.path())
        .find(|folder| is_same(&folder.join(&binary), cubin))
        .and_then(|folder| fs::read_to_string(folder.join(text)).ok())
}

/// What is in memory may be shown without padding at its end.
fn is_same(path: &Path, cubin: &[u8]) -> bool {
    const PADDING: u64 = 4096;
    let lengths = cubin.len() as u64..cubin.len() as u64 + PADDING;
    fs::metadata(path).is_ok_and(|found| found.is_file() && lengths.contains(&found.len()))
        && fs::read(path).is_ok_and(|bytes| bytes.starts_with(cubin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_the_same_bytes() {
        let cache = std::env::temp_dir().join(format!("cutrace-triton-{}", std::process::id()));
        for (folder, cubin, ptx) in [("A", "one", "text one"), ("B", "two and more", "text two")] {
            let folder = cache.join(folder);
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join("add.cubin"), cubin).expect("written");
            fs::write(folder.join("add.ptx"), ptx).expect("written");
        }
        assert_eq!(text(&cache, "add", b"one").as_deref(), Some("text one"));
        assert_eq!(text(&cache, "add", b"two").as_deref(), Some("text two"));
        assert_eq!(text(&cache, "add", b"three"), None);
        assert_eq!(text(&cache, "sub", b"one"), None);
        assert_eq!(text(&cache, "../A/add", b"one"), None);
        fs::remove_dir_all(&cache).expect("removed");
    }
}
