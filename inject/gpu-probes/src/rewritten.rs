//! PTX with its probes: made once for a text and its probes, and kept on disk.

use ptx::device::Orders;
use ptx::rewrite::{Done, RewriteError, rewrite};
use std::fs;
use std::path::{Path, PathBuf};

/// A text that takes the original's place.
pub struct Prepared {
    pub text: String,
    pub kernels: Vec<Kernel>,
    pub from_cache: bool,
    /// The original, where it may have to be written otherwise.
    pub source: Option<String>,
}

/// What was done to a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    pub name: String,
    /// Calls put in at its entry, its ways out, its accesses and its stub calls; accesses left out.
    pub counts: [usize; 5],
    pub refused: Option<String>,
}

/// Changes when the same plan makes another text.
const MADE_AS: &str = "3";
const HEAD: &str = "// cutrace kernel ";

pub fn prepare(orders: &Orders, source: &str) -> Result<Option<Prepared>, RewriteError> {
    let place = (orders.cache.as_ref()).map(|folder| place(folder, orders, source));
    if let Some(prepared) = place
        .as_ref()
        .and_then(|path| fs::read_to_string(path).ok())
        .and_then(read)
    {
        return Ok(Some(prepared));
    }
    let Some(rewritten) = rewrite(source, &orders.plan)? else {
        return Ok(None);
    };
    let prepared = Prepared {
        kernels: rewritten.kernels.iter().map(Kernel::of).collect(),
        text: rewritten.text,
        from_cache: false,
        source: None,
    };
    if let Some(path) = place {
        keep(&path, &prepared);
    }
    Ok(Some(prepared))
}

impl Kernel {
    fn of(done: &Done) -> Kernel {
        Kernel {
            name: done.kernel.clone(),
            counts: [
                done.entries,
                done.returns,
                done.accesses,
                done.stubs,
                done.skipped,
            ],
            refused: done.refused.clone(),
        }
    }

    fn line(&self) -> String {
        let [a, b, c, d, e] = self.counts;
        let refused = self.refused.as_deref().unwrap_or("");
        format!("{HEAD}{} {a} {b} {c} {d} {e} {refused}\n", self.name)
    }

    fn parse(line: &str) -> Option<Kernel> {
        let mut words = line.strip_prefix(HEAD)?.splitn(7, ' ');
        let name = words.next()?.to_owned();
        let mut counts = [0; 5];
        for count in &mut counts {
            *count = words.next()?.parse().ok()?;
        }
        let refused = words.next().filter(|why| !why.is_empty());
        Some(Kernel {
            name,
            counts,
            refused: refused.map(str::to_owned),
        })
    }
}

/// Named after all that goes into it.
fn place(folder: &Path, orders: &Orders, source: &str) -> PathBuf {
    let mut hash = [0xcbf2_9ce4_8422_2325u64, 0x6c62_272e_07bb_0142];
    let mut add = |bytes: &[u8]| {
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let word = u64::from_le_bytes(word);
            hash[0] = (hash[0] ^ word)
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23);
            hash[1] = (hash[1] ^ word.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        hash[0] ^= bytes.len() as u64;
    };
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(MADE_AS.as_bytes());
    add(source.as_bytes());
    add(format!("{:?}", orders.plan).as_bytes());
    folder.join(format!("{:016x}{:016x}.ptx", hash[0], hash[1]))
}

fn read(whole: String) -> Option<Prepared> {
    let mut kernels = Vec::new();
    let mut rest = whole.as_str();
    while rest.starts_with(HEAD) {
        let (line, after) = rest.split_once('\n')?;
        kernels.push(Kernel::parse(line)?);
        rest = after;
    }
    // What was cut off ends without this.
    let text = rest.strip_suffix("\n// cutrace end\n")?;
    (!kernels.is_empty()).then(|| Prepared {
        kernels,
        text: text.to_owned(),
        from_cache: true,
        source: None,
    })
}

fn keep(path: &Path, prepared: &Prepared) {
    let mut whole: String = prepared.kernels.iter().map(Kernel::line).collect();
    whole.push_str(&prepared.text);
    whole.push_str("\n// cutrace end\n");
    let aside = path.with_extension(std::process::id().to_string());
    if fs::write(&aside, whole).is_ok() && fs::rename(&aside, path).is_err() {
        let _ = fs::remove_file(&aside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_read_back() {
        for refused in [None, Some("it is what it is".to_owned())] {
            let kernel = Kernel {
                name: "_Z1kv".into(),
                counts: [1, 2, 3, 4, 5],
                refused,
            };
            assert_eq!(
                Kernel::parse(kernel.line().trim_end_matches('\n')),
                Some(kernel)
            );
        }
        assert!(read("// cutrace kernel k 1 1 1 1 1 \n.version".into()).is_none());
    }
}
