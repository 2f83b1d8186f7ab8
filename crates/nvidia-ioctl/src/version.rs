//! Driver versions, and which column of the tables speaks for one.

use std::fmt;
use std::str::FromStr;

/// A version of the driver: `580.159.04`. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub branch: u32,
    pub minor: u32,
    pub patch: u32,
}

/// Not a version of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAVersion(String);

impl fmt::Display for NotAVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a driver version (such as 580 or 580.159.04)",
            self.0
        )
    }
}

impl std::error::Error for NotAVersion {}

impl Version {
    /// The newest that the tables were made from: what is assumed where nothing is known.
    pub const NEWEST: Version = Version {
        branch: 595,
        minor: 45,
        patch: 4,
    };

    /// What /proc/driver/nvidia/version says.
    pub fn from_proc(text: &str) -> Option<Version> {
        let line = text
            .lines()
            .find(|line| line.starts_with("NVRM version:"))?;
        line.split_whitespace()
            .filter(|word| word.contains('.'))
            .find_map(|word| word.parse().ok())
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    /// A branch alone means the newest of that branch.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NotAVersion(text.chars().take(40).collect());
        let mut numbers = text.split('.').map(|part| {
            let digits = part.len() <= 6 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u32>()
                .ok()
                .filter(|_| digits)
                .ok_or_else(wrong)
        });
        let branch = numbers.next().ok_or_else(wrong)??;
        let minor = numbers.next().transpose()?;
        let patch = numbers.next().transpose()?.unwrap_or(0);
        if numbers.next().is_some() {
            return Err(wrong());
        }
        Ok(Version {
            branch,
            minor: minor.unwrap_or(999_999),
            patch,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version {
                branch,
                minor: 999_999,
                ..
            } => write!(f, "{branch}"),
            Version {
                branch,
                minor,
                patch: 0,
            } => write!(f, "{branch}.{minor}"),
            Version {
                branch,
                minor,
                patch,
            } => write!(f, "{branch}.{minor}.{patch:02}"),
        }
    }
}

/// The versions the tables tell apart, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns(Vec<Version>);

impl Columns {
    /// From the tables' second line: `# columns 535 545 550 550.54.14 …`.
    pub fn parse(line: &str) -> Columns {
        let first = |text: &str| {
            let version = text.parse::<Version>().ok()?;
            Some(if text.contains('.') {
                version
            } else {
                Version {
                    minor: 0,
                    ..version
                }
            })
        };
        let words = line.strip_prefix("# columns ").unwrap_or_default();
        Columns(words.split_whitespace().filter_map(first).collect())
    }

    /// The bit of the column that speaks for a version.
    pub fn bit(&self, version: Version) -> u32 {
        let at = self.0.iter().rposition(|from| *from <= version);
        1 << at.unwrap_or(0).min(31)
    }

    /// The columns in `535-560,570-`, as bits.
    pub fn bits(&self, ranges: &str) -> u32 {
        let position = |text: &str| {
            let version = Columns::parse(&format!("# columns {text}"));
            self.0
                .iter()
                .position(|from| version.0.first() == Some(from))
        };
        let last = self.0.len().saturating_sub(1);
        ranges.split(',').fold(0, |bits, range| {
            let (first, end) = range.split_once('-').unwrap_or((range, range));
            let end = position(end).unwrap_or(last);
            let columns = position(first).map_or(0..0, |first| first..end + 1);
            columns.fold(bits, |bits, column| bits | 1 << column.min(31))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("535.43.02") < version("535.261.03"));
        assert!(version("550.54.14") > version("550.40.07"));
        assert!(version("550") > version("550.163.01"));
        assert_eq!(version("580.159.04").to_string(), "580.159.04");
        assert_eq!(version("565.77").to_string(), "565.77");
        assert_eq!(version("580").to_string(), "580");
        for wrong in ["", "x", "580.", "580.1.2.3", "-1", "5800000000000", "+5"] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_version_is_found_in_proc() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22)\nGCC version:  gcc version 12.2.0";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Wed Jul  9\n";
        assert_eq!(Version::from_proc(open).unwrap().to_string(), "580.159.04");
        assert_eq!(
            Version::from_proc(closed).unwrap().to_string(),
            "535.261.03"
        );
        assert_eq!(Version::from_proc("GCC version: 12.2.0"), None);
    }

    #[test]
    fn a_version_takes_the_newest_column_not_above_it() {
        let columns = Columns::parse("# columns 535 550 550.54.14 580");
        let bit = |text: &str| columns.bit(text.parse().unwrap());
        assert_eq!(
            [
                "470",
                "535.43",
                "545.29.06",
                "550.40.07",
                "550.54.14",
                "550",
                "575",
                "580",
                "610"
            ]
            .map(bit),
            [1, 1, 1, 2, 4, 4, 4, 8, 8]
        );
        assert_eq!(columns.bits("535-"), 15);
        assert_eq!(columns.bits("535-535,550.54.14-"), 13);
        assert_eq!(columns.bits("550-550.54.14"), 6);
        assert_eq!(columns.bits("nonsense"), 0);
    }
}
