//! Lines of the user's own Python code, out of stacks: `train.py:57`.

use event::{Frame, FrameKind, Name};

/// Where installed packages and Python's own library are.
const LIBRARIES: [&str; 6] = [
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "/lib64/python3",
    "/cutrace.modules.",
    "<",
];

/// The innermost line that is in no library; where all are, the innermost of all.
pub(crate) fn line_of(stack: &[Frame]) -> Option<Name> {
    let python = || {
        let frames = stack.iter();
        frames.filter(|frame| frame.kind == FrameKind::Python && frame.line.is_some())
    };
    let frame = python()
        .find(|frame| !is_library(frame))
        .or_else(|| python().next())?;
    let file = frame.file.as_deref()?;
    let file = file.rsplit('/').next().unwrap_or(file);
    Some(format!("{file}:{}", frame.line?).into())
}

fn is_library(frame: &Frame) -> bool {
    let file = frame.file.as_deref().unwrap_or_default();
    file.is_empty() || LIBRARIES.iter().any(|part| file.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(file: &str, line: u32) -> Frame {
        Frame {
            kind: FrameKind::Python,
            file: Some(file.into()),
            line: Some(line),
            ..Frame::default()
        }
    }

    #[test]
    fn the_users_own_line_comes_before_the_librarys() {
        let library = frame("/venv/lib/python3.12/site-packages/torch/optim/adamw.py", 9);
        let stack = [
            Frame::default(),
            library.clone(),
            frame("<frozen runpy>", 3),
            frame("/home/me/train.py", 57),
            frame("/home/me/main.py", 2),
        ];
        assert_eq!(line_of(&stack).as_deref(), Some("train.py:57"));
        assert_eq!(line_of(&[library]).as_deref(), Some("adamw.py:9"));
        assert_eq!(line_of(&[Frame::default()]), None);
    }
}
