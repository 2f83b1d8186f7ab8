//! What an event's bar shows, where that says more than its name.

use event::{Arg, Event, Name, Value};

/// `RM_ALLOC HOPPER_CHANNEL_GPFIFO_A` of an ioctl that was decoded; None where the name is best.
pub fn label(event: &Event) -> Option<Name> {
    ioctl_label(&event.ioctl.as_ref()?.decoded).map(Name::from)
}

fn ioctl_label(decoded: &[Arg]) -> Option<String> {
    let text = |name: &str| {
        let arg = decoded.iter().find(|arg| &*arg.name == name);
        arg.and_then(|arg| Value::as_str(&arg.value))
    };
    let name = text("name")?;
    let mut label = name.strip_prefix("NV_ESC_").unwrap_or(name).to_owned();
    if let Some(what) = text("class").or_else(|| text("control").map(without_class)) {
        label.push(' ');
        label.push_str(what);
    }
    Some(label)
}

/// A control without what all of its class begin with: `GPFIFO_SCHEDULE`.
pub fn without_class(control: &str) -> &str {
    let after = |separator| control.split_once(separator).map(|(_, rest)| rest);
    (after("_CTRL_CMD_").or_else(|| after("_CTRL_")))
        .or_else(|| after("CtrlCmd"))
        .unwrap_or(control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioctls_are_called_what_they_ask_for() {
        let alloc = [
            Arg::new("name", "NV_ESC_RM_ALLOC"),
            Arg::new("class", "HOPPER_CHANNEL_GPFIFO_A"),
            Arg::new("object", "ch:0x5c00001c"),
        ];
        let label = ioctl_label(&alloc);
        assert_eq!(label.as_deref(), Some("RM_ALLOC HOPPER_CHANNEL_GPFIFO_A"));
        let control = [
            Arg::new("name", "NV_ESC_RM_CONTROL"),
            Arg::new("control", "NVA06C_CTRL_CMD_SET_TIMESLICE"),
        ];
        let label = ioctl_label(&control);
        assert_eq!(label.as_deref(), Some("RM_CONTROL SET_TIMESLICE"));
        assert_eq!(ioctl_label(&alloc[..1]).as_deref(), Some("RM_ALLOC"));
        assert_eq!(ioctl_label(&[Arg::new("nr", 1u64)]), None);
    }
}
