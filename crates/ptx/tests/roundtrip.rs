//! Printing a parsed module gives text that parses to the same tree, and that ptxas accepts.

mod fixtures;

use std::path::PathBuf;
use std::process::Command;

use ptx::ast::{Module, Statement};

/// The tree as text without its line numbers, which printing does not keep. Text, because a NaN in
/// an initializer would not equal itself.
fn without_lines(module: &Module) -> String {
    let mut module = module.clone();
    let variables = module.variables.iter_mut().map(|v| &mut v.line);
    variables.for_each(|line| *line = 0);
    module.directives.iter_mut().for_each(|d| d.line = 0);
    module.sections.iter_mut().for_each(|s| s.line = 0);
    for function in &mut module.functions {
        function.line = 0;
        function
            .returns
            .iter_mut()
            .chain(&mut function.params)
            .for_each(|v| v.line = 0);
        function.directives.iter_mut().for_each(|d| d.line = 0);
        clear(function.body.iter_mut().flatten());
    }
    format!("{module:#?}")
}

fn clear<'a>(statements: impl Iterator<Item = &'a mut Statement>) {
    for statement in statements {
        match statement {
            Statement::Label(line, _) | Statement::Targets { line, .. } => *line = 0,
            Statement::Variable(variable) => variable.line = 0,
            Statement::Instruction(instruction) => instruction.line = 0,
            Statement::Directive(directive) => directive.line = 0,
            Statement::Block(inside) => clear(inside.iter_mut()),
            Statement::Prototype {
                line,
                returns,
                params,
                ..
            } => {
                *line = 0;
                returns.iter_mut().chain(params).for_each(|v| v.line = 0);
            }
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn printing_keeps_the_tree() {
    for (name, bytes) in fixtures::all("ptx") {
        let module = ptx::parse(&text(bytes)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let printed = module.to_string();
        let again =
            ptx::parse(&printed).unwrap_or_else(|e| panic!("{name} printed: {e}\n{printed}"));
        assert!(
            without_lines(&module) == without_lines(&again),
            "{name}:\n{printed}"
        );
    }
}

/// ptxas of the project's own toolkit, of $CUDA, or of the path.
fn ptxas() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let venv = root.join("target/nvcc/lib");
    let mut places: Vec<PathBuf> = std::env::var_os("CUDA")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    let pythons = std::fs::read_dir(venv).into_iter().flatten().flatten();
    places.extend(pythons.map(|python| python.path().join("site-packages/nvidia/cu13")));
    places.push("/usr/local/cuda".into());
    places
        .into_iter()
        .map(|place| place.join("bin/ptxas"))
        .find(|path| path.exists())
}

#[test]
fn ptxas_accepts_what_is_printed() {
    let Some(ptxas) = ptxas() else {
        let required = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some_and(|v| v == "1");
        assert!(
            !required,
            "no ptxas in target/nvcc, $CUDA or /usr/local/cuda"
        );
        eprintln!("skipped: no ptxas in target/nvcc, $CUDA or /usr/local/cuda");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in fixtures::all("ptx") {
        let module = ptx::parse(&text(bytes)).unwrap();
        let input = folder.path().join(&name);
        std::fs::write(&input, module.to_string()).unwrap();
        let mut command = Command::new(&ptxas);
        command
            .arg(format!("-arch={}", module.target[0]))
            .arg("-c")
            .arg(&input);
        command.arg("-o").arg(folder.path().join("out.cubin"));
        if module.target.iter().any(|target| target == "debug") {
            command.arg("-g");
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
    }
}
