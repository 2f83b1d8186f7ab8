//! System calls into the driver by their command.

use crate::{Quantiles, outside::Outside, overview::failed};
use event::{Event, Ioctl, Name, Value};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// ioctls by command, most time first; the driver's controls and allocations by what they ask for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ioctls {
    pub calls: u64,
    pub total_ns: u64,
    pub commands: Vec<IoctlRow>,
    /// Those in no API call.
    pub outside: Outside,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoctlRow {
    pub cmd: u64,
    /// What it was decoded to, where that was read.
    pub name: Option<Name>,
    pub calls: u64,
    pub failed: u64,
    pub total_ns: u64,
    pub average_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub max_op_id: u64,
}

/// Commands counted apart: a driver has some hundreds.
const MOST_COMMANDS: usize = 4_096;

#[derive(Default)]
pub(crate) struct IoctlSweep {
    calls: u64,
    total_ns: u64,
    commands: HashMap<Key, Sums, ahash::RandomState>,
}

/// The command, and the control or class where one command serves many.
type Key = (u64, Option<Name>);

#[derive(Default)]
struct Sums {
    name: Option<Name>,
    failed: u64,
    total_ns: u64,
    max_op: u64,
    times: Quantiles,
}

impl IoctlSweep {
    /// An ioctl that has ended.
    pub fn end(&mut self, event: &Event, ioctl: &Ioctl, duration: u64) {
        self.calls += 1;
        self.total_ns = self.total_ns.saturating_add(duration);
        let key = (
            ioctl.cmd,
            text(ioctl, "control").or_else(|| text(ioctl, "class")),
        );
        if self.commands.len() >= MOST_COMMANDS && !self.commands.contains_key(&key) {
            return;
        }
        let sums = self.commands.entry(key).or_default();
        if sums.name.is_none() {
            sums.name = text(ioctl, "name");
        }
        // The driver refuses in its struct; the system call succeeds all the same.
        let refused = text(ioctl, "status").is_some_and(|status| &*status != "NV_OK");
        sums.failed += u64::from(refused || failed(&crate::Brief::of(event)));
        sums.total_ns = sums.total_ns.saturating_add(duration);
        if sums.times.count() == 0 || duration > sums.times.greatest() {
            sums.max_op = event.id;
        }
        sums.times.add(duration);
    }

    pub fn finish(self, outside: Outside) -> Ioctls {
        let mut commands: Vec<IoctlRow> = (self.commands.into_iter())
            .map(|((cmd, subject), sums)| IoctlRow {
                cmd,
                calls: sums.times.count(),
                failed: sums.failed,
                total_ns: sums.total_ns,
                average_ns: sums.total_ns.checked_div(sums.times.count()).unwrap_or(0),
                p50_ns: sums.times.quantile(0.5),
                p99_ns: sums.times.quantile(0.99),
                max_ns: sums.times.greatest(),
                max_op_id: sums.max_op,
                name: match (sums.name, subject) {
                    (Some(name), Some(subject)) => Some(format!("{name} {subject}").into()),
                    (name, _) => name,
                },
            })
            .collect();
        commands.sort_by(|a, b| {
            let order = |row: &IoctlRow| (std::cmp::Reverse((row.total_ns, row.calls)), row.cmd);
            order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name))
        });
        Ioctls {
            calls: self.calls,
            total_ns: self.total_ns,
            commands,
            outside,
        }
    }
}

fn text(ioctl: &Ioctl, name: &str) -> Option<Name> {
    let arg = ioctl.decoded.iter().find(|arg| &*arg.name == name)?;
    match &arg.value {
        Value::Str(text) => Some(text.clone()),
        // A control or a class that no header names.
        Value::Pointer(number) => Some(format!("{number:#x}").into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category, Layer, Status};

    #[test]
    fn commands_are_told_apart_and_named() {
        let mut sweep = IoctlSweep::default();
        for (id, cmd, duration, code) in [(1, 7, 100, 0), (2, 9, 10, 22), (3, 7, 300, 0)] {
            let mut event = Event::new(id, Layer::Syscall, Category::Other, "ioctl", 0);
            event.status = Some(Status { code, name: None });
            let decoded = if id == 3 {
                vec![Arg::new("name", "NV_ESC_RM_ALLOC")]
            } else {
                Vec::new()
            };
            sweep.end(&event, &Ioctl { cmd, decoded }, duration);
        }
        let found = sweep.finish(Outside::default());
        assert_eq!((found.calls, found.total_ns), (3, 410));
        let first = &found.commands[0];
        assert_eq!(first.name.as_deref(), Some("NV_ESC_RM_ALLOC"));
        assert_eq!((first.cmd, first.calls, first.average_ns), (7, 2, 200));
        assert_eq!((first.max_ns, first.max_op_id), (300, 3));
        assert_eq!(
            (found.commands[1].failed, &found.commands[1].name),
            (1, &None)
        );
    }

    #[test]
    fn controls_are_told_apart_and_refusals_counted() {
        let mut sweep = IoctlSweep::default();
        for (id, control, status) in [
            (1, "A", "NV_OK"),
            (2, "B", "NV_ERR_BUSY_RETRY"),
            (3, "A", "NV_OK"),
        ] {
            let event = Event::new(id, Layer::Syscall, Category::Other, "ioctl", 0);
            let decoded = vec![
                Arg::new("name", "NV_ESC_RM_CONTROL"),
                Arg::new("control", control),
                Arg::new("status", status),
            ];
            sweep.end(&event, &Ioctl { cmd: 7, decoded }, 10 * id);
        }
        let rows: Vec<_> = (sweep.finish(Outside::default()).commands.iter())
            .map(|row| (row.name.clone().unwrap().to_string(), row.calls, row.failed))
            .collect();
        assert_eq!(
            rows,
            [
                ("NV_ESC_RM_CONTROL A".to_owned(), 2, 0),
                ("NV_ESC_RM_CONTROL B".to_owned(), 1, 1)
            ]
        );
    }
}
