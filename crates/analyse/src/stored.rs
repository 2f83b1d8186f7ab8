//! Reading a report back from where it was kept.

use serde::{Deserialize, Deserializer, de::Error};
use std::{borrow::Cow, fmt::Display, str::FromStr};

/// A member of an enumeration that traces have a word for.
pub fn word<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let word = Cow::<str>::deserialize(from)?;
    word.parse().map_err(D::Error::custom)
}

/// The same where there may be none.
pub fn some_word<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let word = Option::<Cow<str>>::deserialize(from)?;
    let parsed = word.map(|word| word.parse()).transpose();
    parsed.map_err(D::Error::custom)
}
