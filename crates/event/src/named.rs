//! Enumerations whose members have a name in trace files: one macro, so that none of them
//! can be written under one name and read under another.

use core::fmt;

/// A word that is none of the names an enumeration knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownName {
    /// What was being read: "layer", "category", …
    pub what: &'static str,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {}", self.what)
    }
}

impl core::error::Error for UnknownName {}

macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident, $what:literal, $($(#[$doc:meta])* $member:ident = $text:literal,)+) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $member,)+ }

        impl $name {
            /// Every member, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$member,)+];

            /// The name it has in trace files and on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$member => $text,)+ }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl core::str::FromStr for $name {
            type Err = $crate::UnknownName;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok($name::$member),)+
                    _ => Err($crate::UnknownName { what: $what }),
                }
            }
        }

        #[cfg(test)]
        #[test]
        fn names_round_trip() {
            for &member in $name::ALL {
                assert_eq!(member.as_str().parse::<$name>(), Ok(member));
            }
            assert!("no such name".parse::<$name>().is_err());
        }
    };
}
pub(crate) use named_enum;
