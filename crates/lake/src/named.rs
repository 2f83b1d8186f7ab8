//! Queries with names: `cutrace query @top`.

use crate::{
    Error, Result,
    dialect::{Dialect, fill},
};

/// One of them; what it answers is the comment in its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedQuery {
    pub name: &'static str,
    pub sql: &'static str,
}

impl NamedQuery {
    /// What it answers.
    pub fn about(&self) -> &'static str {
        let line = self.sql.lines().next().unwrap_or_default();
        line.trim_start_matches('-').trim()
    }
}

const ALL: [NamedQuery; 6] = [
    NamedQuery {
        name: "top",
        sql: include_str!("../sql/top.sql"),
    },
    NamedQuery {
        name: "idle-by-host",
        sql: include_str!("../sql/idle-by-host.sql"),
    },
    NamedQuery {
        name: "regressions",
        sql: include_str!("../sql/regressions.sql"),
    },
    NamedQuery {
        name: "slow-steps",
        sql: include_str!("../sql/slow-steps.sql"),
    },
    NamedQuery {
        name: "leaks",
        sql: include_str!("../sql/leaks.sql"),
    },
    NamedQuery {
        name: "bad-hosts",
        sql: include_str!("../sql/bad-hosts.sql"),
    },
];

pub fn named_queries() -> &'static [NamedQuery] {
    &ALL
}

/// The SQL of a query: as it is, or, if it begins with `@`, of those of these names: `@top`, `@top @leaks`.
pub fn named(query: &str, dialect: Dialect) -> Result<Vec<String>> {
    if !query.trim_start().starts_with('@') {
        return Ok(vec![query.to_owned()]);
    }
    let names = query.split(|sign: char| sign.is_whitespace() || sign == ';' || sign == ',');
    let find = |name: &str| {
        let known = (ALL.iter()).find(|known| name.strip_prefix('@') == Some(known.name));
        known.map(|known| fill(known.sql, dialect)).ok_or_else(|| {
            let all: Vec<String> = ALL.iter().map(|known| format!("@{}", known.name)).collect();
            Error::NoNamedQuery {
                name: name.to_owned(),
                all: all.join(", "),
            }
        })
    };
    names.filter(|name| !name.is_empty()).map(find).collect()
}
