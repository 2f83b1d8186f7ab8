//! The generated tables, read once: names by number and driver version, structs by name.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::layout::{self, Struct};
use super::version::{Columns, Version};

/// A name for a number, in some driver versions, with the structs that go with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub number: u32,
    pub name: &'static str,
    /// Where several are possible the size decides.
    pub structs: Vec<&'static str>,
    columns: u32,
}

/// All names of one kind, by number.
pub(super) struct Table {
    columns: Columns,
    rows: Vec<Named>,
}

impl Table {
    fn read(text: &'static str) -> Table {
        let columns = columns(text);
        let mut rows: Vec<Named> = (text.lines())
            .filter_map(|line| {
                let mut words = line.split('\t');
                let number = u32::from_str_radix(words.next()?, 16).ok()?;
                let bits = columns.bits(words.next()?);
                let name = words.next()?;
                let structs = words.next().unwrap_or_default().split_whitespace();
                Some(Named {
                    number,
                    name,
                    structs: structs.collect(),
                    columns: bits,
                })
            })
            .collect();
        rows.sort_by_key(|row| row.number);
        Table { columns, rows }
    }

    /// The name a number has in a version; where it has none there, the one it has in others.
    pub fn find(&self, number: u32, version: Version) -> Option<&Named> {
        let start = self.rows.partition_point(|row| row.number < number);
        let same = || {
            self.rows[start..]
                .iter()
                .take_while(|row| row.number == number)
        };
        let bit = self.columns.bit(version);
        same()
            .find(|row| row.columns & bit != 0)
            .or_else(|| same().max_by_key(|row| u32::BITS - row.columns.leading_zeros()))
    }

    pub fn rows(&self) -> &[Named] {
        &self.rows
    }

    /// Whether a row holds in a version.
    pub fn holds(&self, row: &Named, version: Version) -> bool {
        row.columns & self.columns.bit(version) != 0
    }
}

fn columns(text: &'static str) -> Columns {
    let line = text.lines().find(|line| line.starts_with("# columns "));
    Columns::parse(line.unwrap_or_default())
}

macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $file:literal) => {
        $(#[$doc])*
        pub(super) fn $name() -> &'static Table {
            static TABLE: OnceLock<Table> = OnceLock::new();
            TABLE.get_or_init(|| Table::read(include_str!(concat!("tables/", $file))))
        }
    };
}

table!(
    /// Commands of RM_CONTROL.
    controls, "controls.tsv"
);
table!(
    /// What a class's commands are sorted into: class and category, in the place of a number.
    groups, "groups.tsv"
);
table!(
    /// Classes of objects.
    classes, "classes.tsv"
);
table!(
    /// Requests to nvidiactl and nvidiaN.
    escapes, "escapes.tsv"
);
table!(
    /// Requests to nvidia-uvm and nvidia-uvm-tools.
    uvm, "uvm.tsv"
);
table!(statuses, "status.tsv");

/// The layouts a struct has had: columns, layout.
type Variants = Vec<(u32, Struct)>;

struct Structs {
    columns: Columns,
    variants: HashMap<&'static str, Variants>,
}

fn structs() -> &'static Structs {
    static STRUCTS: OnceLock<Structs> = OnceLock::new();
    STRUCTS.get_or_init(|| {
        let text = include_str!("tables/structs.tsv");
        let columns = columns(text);
        let mut variants: HashMap<&'static str, Variants> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split('\t');
            let (Some(name), Some(bits), Some(size)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let fields = layout::parse(words.next().unwrap_or_default());
            let size = size.parse().unwrap_or(0);
            let made = Struct { name, size, fields };
            (variants.entry(name).or_default()).push((columns.bits(bits), made));
        }
        Structs { columns, variants }
    })
}

/// A struct as a version of the driver has it; the nearest where it had none in that version.
pub(super) fn structure(name: &str, version: Version) -> Option<&'static Struct> {
    let structs = structs();
    let bit = structs.columns.bit(version);
    let variants = structs.variants.get(name)?;
    let exact = variants.iter().find(|(columns, _)| columns & bit != 0);
    exact.or_else(|| variants.last()).map(|(_, made)| made)
}

/// Another version's layout of a struct that has the given size.
pub(super) fn structure_of_size(name: &str, size: usize) -> Option<&'static Struct> {
    let variants = structs().variants.get(name)?;
    let found = variants.iter().rev().find(|(_, made)| made.size == size);
    found.map(|(_, made)| made)
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Field, Kind};
    use super::*;

    /// Fields lie inside what holds them.
    fn fit(name: &str, fields: &[Field], size: usize) {
        for field in fields {
            let end = field.offset + field.size * field.count.unwrap_or(1);
            assert!(end <= size, "{name}.{} ends at {end} of {size}", field.name);
            if let Kind::Struct(inner) | Kind::Union(inner) = &field.kind {
                fit(name, inner, field.size);
            }
        }
    }

    #[test]
    fn every_layout_is_read_whole() {
        let mut fields = 0;
        for (_, made) in structs().variants.values().flatten() {
            fit(made.name, &made.fields, made.size);
            fields += count(&made.fields);
        }
        // A field has two colons; the remark at the top one more.
        let text = include_str!("tables/structs.tsv");
        assert_eq!(2 * fields + 1, text.matches(':').count());
        for table in [controls(), classes(), escapes(), uvm()] {
            for name in table.rows().iter().flat_map(|row| &row.structs) {
                assert!(structs().variants.contains_key(name), "{name}");
            }
        }
    }

    fn count(fields: &[Field]) -> usize {
        let inner = fields.iter().map(|field| match &field.kind {
            Kind::Struct(inner) | Kind::Union(inner) => 1 + count(inner),
            _ => 1,
        });
        inner.sum()
    }

    #[test]
    fn a_number_has_the_name_of_its_version() {
        let name = |text: &str| escapes().find(0x5f, text.parse().unwrap()).unwrap().name;
        assert_eq!(name("535"), "NV_ESC_RM_NVLOG_CTRL");
        assert_eq!(name("580"), "NV_ESC_RM_LOCKLESS_DIAGNOSTIC");
        // Gone since 595, and still known.
        let gone = escapes().find(0x32, "595".parse().unwrap()).unwrap();
        assert_eq!(gone.name, "NV_ESC_RM_CONFIG_GET");
        assert_eq!(escapes().find(0xfe, Version::NEWEST), None);
    }
}
