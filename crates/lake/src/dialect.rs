//! What the engines say differently.

/// Whose SQL it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    DuckDb,
    Spark,
}

impl Dialect {
    /// A text as SQL writes it.
    pub fn quoted(self, text: &str) -> String {
        match self {
            Dialect::DuckDb => format!("'{}'", text.replace('\'', "''")),
            // Spark's literals have C's escapes.
            Dialect::Spark => {
                format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
            }
        }
    }
}

/// Fills in what the engines say differently: `{{temporary}}`, `{{json COLUMN KEY}}`, `{{quantile VALUE SHARE}}`,
/// `{{bucket NS}}`.
pub fn fill(sql: &str, dialect: Dialect) -> String {
    let mut filled = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inside, after)) = after.split_once("}}") else {
            break;
        };
        filled.push_str(before);
        filled.push_str(&word(inside, dialect));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

fn word(inside: &str, dialect: Dialect) -> String {
    let words: Vec<&str> = inside.split_whitespace().collect();
    match (words.as_slice(), dialect) {
        (["temporary"], Dialect::DuckDb) => "temp".into(),
        (["temporary"], Dialect::Spark) => "temporary".into(),
        (["json", column, key], Dialect::DuckDb) => {
            format!("json_extract_string({column}, '$.{key}')")
        }
        (["json", column, key], Dialect::Spark) => format!("get_json_object({column}, '$.{key}')"),
        (["quantile", value, share], Dialect::DuckDb) => format!("quantile_cont({value}, {share})"),
        (["quantile", value, share], Dialect::Spark) => format!("percentile({value}, {share})"),
        // The least value of its bucket, 32 to an octave, as analyse counts durations.
        (["bucket", value], Dialect::DuckDb) => {
            let shift = shift(value);
            format!("(({value} >> {shift}) << {shift})")
        }
        (["bucket", value], Dialect::Spark) => {
            let shift = shift(value);
            format!("shiftleft(shiftright({value}, {shift}), {shift})")
        }
        _ => format!("{{{{{inside}}}}}"),
    }
}

/// How many low bits of a value its bucket does not tell apart.
fn shift(value: &str) -> String {
    format!("cast(greatest(0, floor(log2(greatest({value}, 1))) - 5) as int)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_gets_its_own_words() {
        let sql = "select {{quantile k.duration_ns 0.5}}, {{json details bytes}}";
        assert_eq!(
            fill(sql, Dialect::DuckDb),
            "select quantile_cont(k.duration_ns, 0.5), json_extract_string(details, '$.bytes')"
        );
        assert_eq!(
            fill(sql, Dialect::Spark),
            "select percentile(k.duration_ns, 0.5), get_json_object(details, '$.bytes')"
        );
    }

    #[test]
    fn texts_end_where_they_end() {
        let text = r"it's \'";
        assert_eq!(Dialect::DuckDb.quoted(text), r"'it''s \'''");
        assert_eq!(Dialect::Spark.quoted(text), r"'it\'s \\\''");
    }
}
