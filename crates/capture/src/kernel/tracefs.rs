//! Tracepoints, as tracefs describes them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// tracefs, where it is mounted.
#[derive(Debug, Clone)]
pub struct Tracefs {
    folder: PathBuf,
}

/// A tracepoint's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracepoint {
    pub id: u32,
    pub fields: Vec<Field>,
}

/// One field of a tracepoint's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// As C writes it: `unsigned int`, `__data_loc char[]`.
    pub c_type: String,
    pub offset: u16,
    pub size: u16,
    pub signed: bool,
}

impl Field {
    /// The field says where in the record a text of any length is.
    pub fn is_varying_text(&self) -> bool {
        self.c_type.starts_with("__data_loc") && self.c_type.contains("char")
    }

    /// The text is in the field itself.
    pub fn is_text(&self) -> bool {
        self.c_type.ends_with(']') && self.c_type.starts_with("char")
    }
}

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

impl Tracefs {
    /// Where it is mounted and readable.
    pub fn find() -> Option<Self> {
        (PLACES.iter())
            .map(|place| Tracefs {
                folder: place.into(),
            })
            .find(|tracefs| tracefs.folder.join("events").is_dir())
    }

    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Tracefs {
            folder: folder.into(),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `group:name` of every tracepoint, sorted.
    pub fn list(&self) -> io::Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        for group in fs::read_dir(self.folder.join("events"))? {
            let group = group?;
            let Ok(members) = fs::read_dir(group.path()) else {
                continue;
            };
            for member in members {
                let member = member?;
                if member.path().join("id").exists() {
                    let text = |name: std::ffi::OsString| name.to_string_lossy().into_owned();
                    found.push((text(group.file_name()), text(member.file_name())));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// One tracepoint's description.
    pub fn tracepoint(&self, group: &str, name: &str) -> io::Result<Tracepoint> {
        let folder = self.folder.join("events").join(group).join(name);
        let text = fs::read_to_string(folder.join("format"))?;
        Tracepoint::parse(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a tracepoint's format"))
    }
}

impl Tracepoint {
    /// Reads a `format` file.
    pub fn parse(text: &str) -> Option<Self> {
        let mut id = None;
        let mut fields = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if let Some(rest) = line.strip_prefix("field:") {
                fields.push(field(rest)?);
            }
        }
        Some(Tracepoint { id: id?, fields })
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Without those that every record begins with.
    pub fn own_fields(&self) -> impl Iterator<Item = &Field> {
        (self.fields.iter()).filter(|field| !field.name.starts_with("common_"))
    }
}

/// `__data_loc char[] name; offset:12; size:4; signed:0;`, with tabs.
fn field(text: &str) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declared = parts.next()?;
    let mut number =
        |label: &str| -> Option<u16> { parts.next()?.strip_prefix(label)?.trim().parse().ok() };
    let offset = number("offset:")?;
    let size = number("size:")?;
    let signed = number("signed:").unwrap_or(0) != 0;
    // `char comm[16]` has its brackets behind the name.
    let (declared, brackets) = match (declared.ends_with(']'), declared.rfind('[')) {
        (true, Some(at)) => declared.split_at(at),
        _ => (declared, ""),
    };
    let at = declared.rfind([' ', '*'])? + 1;
    let (kind, name) = declared.split_at(at);
    Some(Field {
        name: name.to_owned(),
        c_type: format!("{}{brackets}", kind.trim()),
        offset,
        size,
        signed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format() {
        let text = "\
name: irq_handler_entry
ID: 152
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;
\tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;
\tfield:const void * at;\toffset:32;\tsize:8;\tsigned:0;

print fmt: \"irq=%d name=%s\", REC->irq, __get_str(name)
";
        let point = Tracepoint::parse(text).unwrap();
        assert_eq!(point.id, 152);
        assert_eq!(point.own_fields().count(), 4);
        let irq = point.field("irq").unwrap();
        assert_eq!((irq.offset, irq.size, irq.signed), (8, 4, true));
        assert!(point.field("name").unwrap().is_varying_text());
        let comm = point.field("comm").unwrap();
        assert_eq!(comm.c_type, "char[16]");
        assert!(comm.is_text() && !comm.is_varying_text());
        assert_eq!(point.field("at").unwrap().c_type, "const void *");
        assert_eq!(Tracepoint::parse("format:\n"), None);
    }
}
