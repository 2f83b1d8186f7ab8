//! `.version` and `.target`: raised to what the probes need, never lowered, never more than needed.

use super::{RewriteError, edit::Edits, scan::Module};

/// What a text needs: the PTX ISA, as (major, minor), and the target's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Isa {
    pub version: (u32, u32),
    pub target: u32,
}

impl Isa {
    /// `activemask`, `bar.warp.sync`, scoped atomics, `nanosleep`. From 6.4 on, shuffles of old would be
    /// refused.
    pub const PROBES: Isa = Isa {
        version: (6, 3),
        target: 70,
    };
    /// `cvta.param`.
    pub const PARAMETER_ADDRESS: Isa = Isa {
        version: (7, 7),
        target: 70,
    };

    pub fn at_least(self, other: Isa) -> Isa {
        Isa {
            version: self.version.max(other.version),
            target: self.target.max(other.target),
        }
    }
}

/// A `.target` as written: `sm_90a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub number: u32,
    /// Runs on that architecture alone (`a`), or its family (`f`).
    pub specific: bool,
}

impl Target {
    pub fn parse(text: &str) -> Option<Target> {
        let rest = text.strip_prefix("sm_").or(text.strip_prefix("compute_"))?;
        let digits = rest.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        Some(Target {
            number: digits.parse().ok()?,
            specific: digits.len() < rest.len(),
        })
    }
}

pub fn raise(module: &Module, isa: Isa, edits: &mut Edits) -> Result<(), RewriteError> {
    if module.narrow {
        return Err(RewriteError::Narrow);
    }
    let (version, version_at) =
        (module.version.as_ref()).ok_or(RewriteError::NoHeader(".version"))?;
    let (target, target_at) = module
        .target
        .as_ref()
        .ok_or(RewriteError::NoHeader(".target"))?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let number = |text: &str| text.parse::<u32>().ok();
    let (Some(major), Some(minor)) = (number(major), number(minor)) else {
        return Err(RewriteError::NoHeader(".version that can be read"));
    };
    if (major, minor) < isa.version {
        let text = format!("{}.{}", isa.version.0, isa.version.1);
        edits.replace(version_at.start, version_at.end, text);
    }
    let old = Target::parse(target).ok_or(RewriteError::NoHeader(".target that can be read"))?;
    if old.number < isa.target && !old.specific {
        edits.replace(target_at.start, target_at.end, format!("sm_{}", isa.target));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let of = |text| Target::parse(text).map(|target| (target.number, target.specific));
        assert_eq!(of("sm_90a"), Some((90, true)));
        assert_eq!(of("sm_120f"), Some((120, true)));
        assert_eq!(of("sm_52"), Some((52, false)));
        assert_eq!(of("texmode_independent"), None);
    }
}
