"""Builds a cutrace that is made for one question: which part of recording a call costs what, in a program that runs?

build.py FOLDER            leaves FOLDER/cutrace; TARGET: cargo's folder for it (FOLDER/target)
build.py FOLDER --tree     makes the changed tree only, FOLDER/tree

It is HEAD with several ways through a hooked call in the place of two, each with something left out, and with a function
that chooses among them, and takes all hooks out and puts them back, while the program runs (tests/gpu/parts/loop.py does).
RING in its environment is how many slots a thread's ring has.
What is changed is found by its text: where the files of stage/ have become others, this says so and has to follow.
"""
import os
import pathlib
import re
import subprocess
import sys

folder = pathlib.Path(sys.argv[1]).resolve()
root = pathlib.Path(__file__).resolve().parents[3]
tree = folder / "tree"
source = tree / "inject/preload/src"


def replaced(text, *changes):
    for old, new in changes:
        if old not in text:
            sys.exit(f"build.py: this is not there any more:\n{old}")
        text = text.replace(old, new)
    return text


def change(path, *changes):
    file = tree / path
    file.write_text(replaced(file.read_text(), *changes))


def between(text, begin, end):
    first = text.index(begin)
    return first, text.index(end, first)


def named(text, way, label, function):
    """A copy of a way under a name of its own."""
    return re.sub(rf"\b{function}\b", f"{function}_{way}", text.replace(f".L{label}_", f".L{label}_{way}_"))


subprocess.run(["rm", "-rf", tree], check=True)
tree.mkdir(parents=True)
archive = subprocess.run(["git", "-C", root, "archive", "HEAD"], check=True, capture_output=True).stdout
subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)

steps, brief, whole, hot = ((source / f"stage/{name}.rs").read_text() for name in ("steps", "brief", "whole", "hot"))
TEXT_END = '        "#\n    };\n'
brief_at = between(brief, "    .text\n    .p2align 6\n    .hidden cutrace_brief", TEXT_END)
whole_at = between(whole, "    .hidden cutrace_whole\n    .globl", TEXT_END)
whole_way, brief_way = whole[slice(*whole_at)], brief[slice(*brief_at)]


def step(call, *changes):
    """A step of both ways, written out with changes; `call` is its name and what it is given, as in the ways' text."""
    name, *given = call.replace(",", " ").split()
    first = f"    .macro {name}"
    begin, end = between(steps, first, "    .endm\n")
    head, body = steps[begin:end].split("\n", 1)
    for parameter, value in zip(head.removeprefix(first).replace(",", " ").split(), given):
        body = body.replace("\\" + parameter, value)
    return f"    {call}\n", replaced(body, *changes)


# A time that is none, instead of reading the clock.
NO_CLOCK = [
    ("    cutrace_time_in\n", "    mov rax, [rip + cutrace_no_time]\n"),
    ("    cutrace_time_out\n", "    mov r11, rdx\n    mov rdx, [rip + cutrace_no_time]\n"),
]
# One slot and no payload for every call.
NO_PAYLOAD = [
    ("    test byte ptr [r13 + {entry_flags}], {has_results} | {has_outputs}\n    jnz .Lcutrace_outputs\n", ""),
    ("    cmp byte ptr [r13 + {entry_slots}], 1\n    jne .Lcutrace_payload\n", ""),
    ("    movzx ebx, byte ptr [r13 + {entry_slots}]\n    xadd", "    mov ebx, 1\n    xadd"),
    step("cutrace_fill", ("    mov eax, [r13 + {entry_label}]\n", "    movzx eax, word ptr [r13 + {entry_label}]\n")),
]
RDTSCP = [step("cutrace_time_out", ("rdtsc", "rdtscp"))]


def no_prefetch(thread):
    return [step(f"cutrace_find_slot {thread}", ("    prefetchw [rbx + {prefetch}]\n", ""))]


# To cutrace and back to the function, which returns to its caller.
HOOK = """
    .p2align 6
cutrace_brief_hook:
cutrace_whole_hook:
    mov eax, 8
    jmp [r11 + {entry_target}]
"""
# The same with a frame, so that it comes back here.
CLOCK = """
    .p2align 6
cutrace_brief_clock:
cutrace_whole_clock:
    .cfi_startproc
    push rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    mov rbp, rsp
    .cfi_def_cfa_register rbp
    push rbx
    .cfi_offset rbx, -24
    push r12
    .cfi_offset r12, -32
    mov r12, r11
    mov r11, rdx
    rdtsc
    mov rdx, r11
    movzx r11d, word ptr [r12 + {entry_stack_words}]
    test r11d, r11d
    jnz 3f
2:  mov eax, 8
    call [r12 + {entry_target}]
    mov r10, rax
    mov r11, rdx
    rdtsc
    mov rax, r10
    mov rdx, r11
    lea rsp, [rbp - 16]
    .cfi_remember_state
    pop r12
    pop rbx
    pop rbp
    .cfi_def_cfa rsp, 8
    ret
    .cfi_restore_state
3:  lea rax, [r11 * 8]
    sub rsp, rax
4:  mov rax, [rbp + r11 * 8 + 8]
    mov [rsp + r11 * 8 - 8], rax
    dec r11
    jnz 4b
    jmp 2b
    .cfi_endproc
"""
FRAME = CLOCK.replace("_clock:", "_frame:").replace("    rdtsc\n", "")

# (name, changes of the brief way, changes of the whole one); None: code of its own, above.
WAYS = [
    ("everything", [], []),
    ("again", [], []),
    ("hook", None, None),
    ("frame", None, None),
    ("clock", None, None),
    ("slot", NO_CLOCK, NO_CLOCK + NO_PAYLOAD),
    ("no_brief_clock", NO_CLOCK, []),
    ("no_payload", [], NO_PAYLOAD),
    ("no_prefetch", no_prefetch("rax"), no_prefetch("r11")),
    ("rdtscp", RDTSCP, []),
]
briefs, wholes = "", HOOK + FRAME + CLOCK
for way, of_brief, of_whole in WAYS:
    if of_brief is not None:
        briefs += named(replaced(brief_way, *of_brief), way, "brief", "cutrace_brief")
        wholes += named(replaced(whole_way, *of_whole), way, "cutrace", "cutrace_whole")
jumps = "".join(f"""
    .p2align 6
    .hidden cutrace_{which}
    .globl cutrace_{which}
    .type cutrace_{which}, @function
cutrace_{which}:
    jmp [rip + cutrace_way + {place}]
""" for place, which in ((0, "brief"), (8, "whole")))
table = "\n".join(f"    .quad cutrace_brief_{way}, cutrace_whole_{way}" for way, *_ in WAYS)
data = f"""
    .data
    .balign 64
    .hidden cutrace_no_time
    .globl cutrace_no_time
cutrace_no_time: .quad 0
    .hidden cutrace_way
    .globl cutrace_way
    .balign 64
cutrace_way: .quad cutrace_brief_everything, cutrace_whole_everything
    .hidden cutrace_ways
    .globl cutrace_ways
cutrace_ways:
{table}
    .globl cutrace_way_names
    .type cutrace_way_names, @object
cutrace_way_names: .asciz "{",".join(way for way, *_ in WAYS)}"
    .size cutrace_way_names, . - cutrace_way_names
    .text
"""
CHOOSE = f"""
unsafe extern "C" {{
    static mut cutrace_no_time: u64;
    static mut cutrace_way: [usize; 2];
    static cutrace_ways: [[usize; 2]; {len(WAYS)}];
}}

/// Where a jump was put, the five bytes before, and those since.
pub type Patched = (usize, [u8; 5], [u8; 5]);
pub static mut PATCHED: [Patched; 8192] = [(0, [0; 5], [0; 5]); 8192];
pub static mut PATCHED_COUNT: usize = 0;
static mut WRITABLE: bool = false;

/// A way by its number; -1 takes the hooks out, -2 puts them back.
#[cfg_attr(cutrace_stage, unsafe(no_mangle))]
pub extern "C" fn cutrace_choose_way(way: i32) {{
    unsafe {{
        if let Ok(number) = usize::try_from(way) {{
            cutrace_no_time = core::arch::x86_64::_rdtsc();
            cutrace_way = cutrace_ways[number];
            return;
        }}
        for (at, before, since) in PATCHED[..PATCHED_COUNT].iter().copied() {{
            if !WRITABLE {{
                let first = at & !4095;
                let bytes = (at + 5).next_multiple_of(4096) - first;
                let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
                crate::sys::protect(first, bytes, all);
            }}
            crate::text::store(at, if way == -1 {{ &before }} else {{ &since }});
        }}
        WRITABLE = true;
    }}
}}
"""
(source / "stage/brief.rs").write_text(brief[:brief_at[0]] + briefs + brief[brief_at[1]:])
(source / "stage/whole.rs").write_text(whole[:whole_at[0]] + wholes + jumps + data + whole[whole_at[1]:])
(source / "stage/hot.rs").write_text(replaced(
    hot + CHOOSE,
    ("    # Otherwise it runs on into the whole way.\n", "    jmp cutrace_whole\n"),
))
change("inject/preload/src/layout.rs",
       ("    pub late: bool,\n", "    pub late: bool,\n    pub patched: *mut (usize, [u8; 5], [u8; 5]),\n    pub patched_count: *mut usize,\n"))
change("inject/preload/src/stage/start.rs",
       ("        late: state.late,\n", "        late: state.late,\n        patched: &raw mut hot::PATCHED as *mut _,\n"
        "        patched_count: &raw mut hot::PATCHED_COUNT,\n"))
change("inject/preload/src/engine/hooks.rs",
       ("    thread: isize,\n    loader", "    thread: isize,\n    patched: *mut (usize, [u8; 5], [u8; 5]),\n    patched_count: *mut usize,\n    loader"),
       ("            thread: stage.thread,\n", "            thread: stage.thread,\n            patched: stage.patched,\n            patched_count: stage.patched_count,\n"))
change("inject/preload/src/engine/hooks/work.rs",
       ("        if let Some(writer) = tools.writer {\n", """        if let Some(writer) = tools.writer {
            for patch in &work.patches {
                // SAFETY: mapped code; the table has room for 8192.
                unsafe {
                    if *self.patched_count < 8192 {
                        let before = (patch.at as *const [u8; 5]).read();
                        self.patched.add(*self.patched_count).write((patch.at, before, patch.jump));
                        *self.patched_count += 1;
                    }
                }
            }
"""))
change("crates/capture/src/preload/folder.rs",
       ("    if let Some(slots) = options.ring_slots {\n", "    let asked = std::env::var(\"RING\").ok().and_then(|text| text.parse::<u32>().ok());\n"
        "    if let Some(slots) = asked.or(options.ring_slots) {\n"))
change("inject/preload/link.sh",
       ("__asan_default_options; local", "__asan_default_options; cutrace_choose_way; cutrace_way_names; local"))
if "--tree" in sys.argv[2:]:
    sys.exit()
target = os.environ.get("TARGET", str(folder / "target"))
subprocess.run(["cargo", "build", "--release", "--locked", "--package", "cutrace", "--bin", "cutrace"], cwd=tree, check=True,
               env={**os.environ, "CARGO_TARGET_DIR": target})
subprocess.run(["strip", "-o", folder / "cutrace", pathlib.Path(target) / "release/cutrace"], check=True)
print(folder / "cutrace")
