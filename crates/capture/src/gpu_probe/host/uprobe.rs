//! Where a uprobe goes: `uprobe/FILE:FUNCTION`, by what a process has mapped.

use super::launch;
use event::matches_glob;
use libbpf_rs::{Link, ProgramMut, UprobeOpts};
use std::fs;

/// A program and the function it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uprobe {
    pub program: String,
    pub is_attached: bool,
    at_return: bool,
    /// A library's name or path; `None`: whatever has the function.
    file: Option<String>,
    pub function: String,
    offset: usize,
    /// Where it went, if not to the function as written.
    pub instead: Option<String>,
}

impl Uprobe {
    /// `uprobe/FILE:FUNCTION`, `uprobe/FILE:FUNCTION+OFFSET` or `uprobe/FUNCTION`.
    pub fn parse(section: &str, program: &str) -> Option<Uprobe> {
        let (kind, target) = section.split_once('/')?;
        let at_return = match kind {
            "uprobe" | "uprobe.s" => false,
            "uretprobe" | "uretprobe.s" => true,
            _ => return None,
        };
        let (file, function) = match target.rsplit_once(':') {
            Some((file, function)) => (Some(file), function),
            None => (None, target),
        };
        let (function, offset) = match function.split_once('+') {
            Some((function, offset)) => (function, number(offset)?),
            None => (function, 0),
        };
        (!function.is_empty()).then(|| Uprobe {
            program: program.to_owned(),
            is_attached: false,
            at_return,
            file: file.filter(|file| !file.is_empty()).map(str::to_owned),
            function: function.to_owned(),
            offset,
            instead: None,
        })
    }

    /// Functions that it may go to: nobody else may change their code.
    pub fn functions(&self) -> Vec<String> {
        let launches: &[&str] = match self.is_for_launches() {
            true => &launch::FUNCTIONS,
            false => &[],
        };
        let names = launches.iter().map(|name| (*name).to_owned());
        names.chain([self.function.clone()]).collect()
    }

    /// Whether any way to launch a kernel matches: no library's own function is.
    fn is_for_launches(&self) -> bool {
        let is_stub = self.function.starts_with("_Z");
        launch::is_launch(&self.function) && self.offset == 0 && (is_stub || self.file.is_none())
    }

    /// In a process that has its libraries.
    pub fn attach(&mut self, program: &ProgramMut<'_>, process: u32) -> Vec<Link> {
        let (Ok(maps), Ok(exe)) = (
            fs::read_to_string(format!("/proc/{process}/maps")),
            fs::read_link(format!("/proc/{process}/exe")),
        ) else {
            return Vec::new();
        };
        let exe = exe.to_string_lossy();
        let at_function = |path: &str, function: &str| {
            let options = UprobeOpts {
                retprobe: self.at_return,
                func_name: Some(function.to_owned()),
                ..UprobeOpts::default()
            };
            let path = format!("/proc/{process}/root{path}");
            let process = i32::try_from(process).ok()?;
            let attached = program.attach_uprobe_with_opts(process, path, self.offset, options);
            attached.ok()
        };
        let is_for_launches = self.is_for_launches();
        if !is_for_launches || self.function.starts_with("_Z") {
            let candidates = self.candidates(&exe, &maps);
            let mut found =
                (candidates.iter()).filter_map(|path| at_function(path, &self.function));
            if let Some(link) = found.next() {
                return vec![link];
            }
        }
        if !is_for_launches {
            return Vec::new();
        }
        // The program may have a runtime in it, and a library another; further ones are looked for only if
        // neither has.
        let files = files(&exe, &maps);
        let is_likely = |path: &&str| *path == exe || name(path).starts_with("libcudart");
        let (likely, others): (Vec<&str>, Vec<&str>) = files.into_iter().partition(is_likely);
        let (mut links, mut places) = (Vec::new(), Vec::new());
        for (path, is_likely) in (likely.into_iter().map(|path| (path, true)))
            .chain(others.into_iter().map(|path| (path, false)))
        {
            if !is_likely && !links.is_empty() {
                break;
            }
            let mut functions = launch::functions_of(&format!("/proc/{process}/root{path}"));
            functions.retain(|function| {
                let link = at_function(path, function);
                let is_there = link.is_some();
                links.extend(link);
                is_there
            });
            if !functions.is_empty() && functions != [self.function.as_str()] {
                places.push(format!("{} in {}", functions.join(", "), name(path)));
            }
        }
        self.instead = (!places.is_empty()).then(|| places.join("; "));
        links
    }

    /// Files of a process that may have the function, the likeliest first.
    fn candidates<'a>(&self, exe: &'a str, maps: &'a str) -> Vec<&'a str> {
        let mut files = files(exe, maps);
        // A program that is named has its functions in itself, or in the libraries it came with.
        let file = (self.file.as_deref()).filter(|file| name(file) != name(exe));
        match file {
            Some(file) => files.retain(|path| is_file(file, path)),
            None => files[1..].sort_by_key(|path| !name(path).starts_with("libcuda")),
        }
        files
    }

    /// What there is to say of it.
    pub fn note(&self) -> Option<String> {
        if !self.is_attached {
            return Some(self.missing());
        }
        let instead = self.instead.as_ref()?;
        let (program, whole) = (&self.program, ptx::rewrite::readable(&self.function));
        let function = whole.split('(').next().unwrap_or(&whole);
        let function = function.rsplit(' ').next().unwrap_or(function);
        Some(format!(
            "program {program} names {function}, which this program does not use: attached to the launch function it does use ({instead})"
        ))
    }

    fn missing(&self) -> String {
        let place = self.file.as_deref().unwrap_or("any library of the program");
        let (program, function) = (&self.program, &self.function);
        format!(
            "program {program} did not run: no function {function} in {place} \
             (--attach {program}=uprobe:LIB:FUNCTION attaches it elsewhere)"
        )
    }
}

/// Files that a process runs code of, the program itself first.
fn files<'a>(exe: &'a str, maps: &'a str) -> Vec<&'a str> {
    let mut files = vec![exe];
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let executable = words.nth(1).is_some_and(|rights| rights.contains('x'));
        if let (true, Some(at)) = (executable, line.find('/')) {
            let path = &line[at..];
            if !files.contains(&path) && !name(path).starts_with("libcutrace") {
                files.push(path);
            }
        }
    }
    files
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A path, or a name: with its version or without, or a glob.
fn is_file(wanted: &str, path: &str) -> bool {
    if wanted.starts_with('/') {
        let real = fs::canonicalize(wanted);
        return wanted == path || real.is_ok_and(|real| real.as_os_str() == path);
    }
    let (wanted, found) = (name(wanted), name(path));
    let longer = found.strip_prefix(wanted);
    longer.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        || matches_glob(wanted.as_bytes(), found.as_bytes())
}

fn number(text: &str) -> Option<usize> {
    match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0-55d1 r--p 00000000 08:01 1 /opt/app/vec_add
55d1-55d2 r-xp 00001000 08:01 1 /opt/app/vec_add
7f00-7f01 r-xp 00001000 08:01 2 /usr/lib/libc.so.6
7f10-7f11 r-xp 00001000 08:01 3 /opt/with space/libcudart.so.13
7f20-7f21 r-xp 00001000 08:01 4 /cache/libcutrace_gpu_probes.so
7f30-7f31 r-xp 00000000 00:00 0 [vdso]
";

    fn candidates(section: &str) -> Vec<&'static str> {
        let uprobe = Uprobe::parse(section, "program").expect("a target");
        uprobe.candidates("/opt/app/vec_add", MAPS)
    }

    #[test]
    fn files_are_found_by_name_path_and_function() {
        let all = [
            "/opt/app/vec_add",
            "/opt/with space/libcudart.so.13",
            "/usr/lib/libc.so.6",
        ];
        assert_eq!(candidates("uprobe/cudaLaunchKernel"), all);
        assert_eq!(candidates("uprobe/./vec_add:cudaLaunchKernel"), all);
        for section in [
            "uprobe/libcudart.so:cudaLaunchKernel",
            "uretprobe/libcudart.so.13:cudaLaunchKernel",
            "uprobe.s/libcudart*:cudaLaunchKernel+0x4",
            "uprobe//opt/with space/libcudart.so.13:cudaLaunchKernel",
        ] {
            assert_eq!(candidates(section), all[1..2], "{section}");
        }
        assert!(candidates("uprobe/libcud:f").is_empty());
    }

    #[test]
    fn what_names_no_function_is_no_target() {
        for section in ["uprobe", "uprobe/", "uprobe/lib:", "usdt/a:b", "uprobe/f+x"] {
            assert_eq!(Uprobe::parse(section, "program"), None, "{section}");
        }
        let uprobe = Uprobe::parse("uretprobe/f+12", "program").expect("a target");
        assert!(uprobe.at_return && uprobe.offset == 12);
    }
}
